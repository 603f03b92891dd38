//! How a rule is told as a table: at an instant somebody asks something, is answered, and the queue
//! then looks so. Only this file and `support` touch the machine.
//!
//! A queue is written as `main | dead-letter | gone`, messages by number: `1 2L 3D 4S 5+1` are one
//! available, one locked, one deferred, one scheduled, and one with a failed delivery; `gone` names
//! the counters that are not zero of what is stored no more. Empty parts at the end are left out.

use std::collections::BTreeMap;
use std::fmt::Write;

use domain::{
    Acquire, CancelScheduled, Command, Counts, DeadlineKind, DeleteBatch, Delivery, Disposition,
    EntityId, EntityInfo, EntityState, EntityStatus, Fired, HeldLock, Key, LockToken, MessageRow,
    NewMessage, Outcome, Properties, QueueId, QueueProperties, ReceiveDeferred, ReceiverId, Row,
    SequenceNumber, Settle, Settlement, Span, SubQueue, Timestamp, UpdateQueue, Value,
};

use crate::support::{EPOCH, Group, QUEUE};
pub use crate::table_sessions::InSession;
pub use crate::words::words;
use crate::words::{seen, tidy};

pub const RECEIVER: ReceiverId = ReceiverId { node: 1, link: 1, epoch: 1 };
pub const MAIN: QueueId = QueueId { entity: QUEUE, sub: SubQueue::Main };
pub const DEAD: QueueId = QueueId { entity: QUEUE, sub: SubQueue::DeadLetter };

/// Milliseconds, or instants counted from the table's 0.
pub const SECOND: u64 = 1000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;

pub const fn ms(ms: u64) -> Span {
    Span(ms)
}

pub fn at(ms: u64) -> Timestamp {
    EPOCH.plus(Span(ms))
}

/// A queue as it is when nothing is said about it.
pub fn queue() -> QueueProperties {
    QueueProperties::default()
}

/// A queue that keeps what expires.
pub fn dead_lettering() -> QueueProperties {
    QueueProperties { dead_letter_on_expiration: true, ..queue() }
}

/// A queue that requires sessions.
pub fn sessions() -> QueueProperties {
    QueueProperties { requires_session: true, ..queue() }
}

/// A message of 10 bytes, 4 of them properties, as a producer sends it.
pub fn m() -> NewMessage {
    NewMessage {
        content: "content".into(),
        size_bytes: 10,
        header_bytes: 4,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    }
}

/// What a message may be sent with.
pub trait Sent {
    fn ttl(self, ms: u64) -> NewMessage;
    fn id(self, id: &str) -> NewMessage;
    fn due(self, ms: u64) -> NewMessage;
    fn size(self, bytes: u32) -> NewMessage;
    fn header(self, bytes: u32) -> NewMessage;
    fn content(self, content: &'static str) -> NewMessage;
    fn session(self, id: &str) -> NewMessage;
    fn key(self, key: &str) -> NewMessage;
}

impl Sent for NewMessage {
    fn ttl(self, ms: u64) -> NewMessage {
        NewMessage { ttl: Some(Span(ms)), ..self }
    }

    fn id(self, id: &str) -> NewMessage {
        NewMessage { message_id: Some(id.to_owned()), ..self }
    }

    fn due(self, ms: u64) -> NewMessage {
        NewMessage { scheduled_at: Some(at(ms)), ..self }
    }

    fn size(self, bytes: u32) -> NewMessage {
        NewMessage { size_bytes: bytes, ..self }
    }

    fn header(self, bytes: u32) -> NewMessage {
        NewMessage { header_bytes: bytes, size_bytes: self.size_bytes.max(bytes), ..self }
    }

    fn content(self, content: &'static str) -> NewMessage {
        NewMessage { content: content.into(), ..self }
    }

    fn session(self, id: &str) -> NewMessage {
        NewMessage { session_id: Some(id.to_owned()), ..self }
    }

    fn key(self, key: &str) -> NewMessage {
        NewMessage { partition_key: Some(key.to_owned()), ..self }
    }
}

pub fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

pub fn properties<const N: usize>(pairs: [(&str, Value); N]) -> Properties {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub fn abandon() -> Disposition {
    Disposition::Abandon { properties: Properties::new() }
}

pub fn defer() -> Disposition {
    Disposition::Defer { properties: Properties::new() }
}

pub fn dead_letter() -> Disposition {
    dead_letter_for(None, None)
}

pub fn dead_letter_for(reason: Option<&str>, description: Option<&str>) -> Disposition {
    Disposition::DeadLetter {
        reason: reason.map(str::to_owned),
        description: description.map(str::to_owned),
        properties: Properties::new(),
    }
}

type Change = fn(&mut QueueProperties);

/// What somebody asks. Numbers are sequence numbers; a settlement uses the token of the latest
/// delivery of that number, or one that never was if there is none.
#[derive(Clone)]
pub enum Action {
    Send(Vec<NewMessage>),
    Take(u32),
    Complete(&'static [u64]),
    Abandon(&'static [u64]),
    Defer(&'static [u64]),
    DeadLetter(&'static [u64]),
    Release(&'static [u64]),
    /// Settlements that stand or fall together.
    Atomic(Vec<(u64, Disposition)>),
    Renew(&'static [u64]),
    Deferred(&'static [u64]),
    Select(&'static [u64]),
    Cancel(&'static [u64]),
    Delete(u32),
    /// Those enqueued before an instant.
    DeleteBefore(u32, u64),
    Peek(u64, u32),
    /// One hint, for any number of messages.
    Fire(DeadlineKind),
    /// Names every lock there is, lapsed or not.
    FireLocks,
    /// All timers, until they find no more.
    FireAll,
    Update(Change),
    Status(EntityStatus),
    DeleteQueue,
    Touch,
    /// By somebody who believes it idle since an instant.
    Seal(u64),
    Beat,
    Sweep,
    /// The machine forgets what it keeps decoded.
    Restart,
    /// Nothing is asked: for looking at the queue.
    Look,
    /// The same, of the dead-letter queue.
    Dead(Box<Action>),
    /// SESS-6.
    Accept(&'static str),
    /// SESS-7.
    AcceptNext,
    /// By whoever accepted the session last.
    Within(&'static str, InSession),
    /// Names every session's lock there is, lapsed or not.
    FireSessions,
}

pub use Action::*;

pub fn send(message: NewMessage) -> Action {
    Send(vec![message])
}

pub fn dead(action: Action) -> Action {
    Dead(Box::new(action))
}

/// A line of a table: instant in ms, what is asked, the answer, the queue afterwards.
pub type Line = (u64, Action, &'static str, &'static str);

/// Plays a table against a new queue.
pub fn check<const N: usize>(properties: QueueProperties, table: [Line; N]) -> Table {
    // ENT-14: it is the same on whatever group.
    let mut moved = Table::new(properties.clone());
    moved.moves = true;
    moved.check(table.clone());
    let mut play = Table::new(properties);
    play.check(table);
    play
}

/// A group with the tokens its deliveries had, for tables and for what no table tells.
pub struct Table {
    pub group: Group,
    tokens: BTreeMap<QueueId, BTreeMap<u64, LockToken>>,
    pub(crate) sessions: BTreeMap<&'static str, domain::SessionToken>,
    /// The queue moves to another group before everything that is asked.
    moves: bool,
}

impl Table {
    pub fn new(properties: QueueProperties) -> Table {
        Table::over(Group::new(properties))
    }

    pub fn over(group: Group) -> Table {
        Table { group, tokens: BTreeMap::new(), sessions: BTreeMap::new(), moves: false }
    }

    pub fn check<const N: usize>(&mut self, table: [Line; N]) {
        for (index, (at, action, reply, queue)) in table.into_iter().enumerate() {
            let line = index + 1;
            let answer = self.play(at, action);
            assert_eq!(answer, reply, "answer in line {line}, at {at} ms");
            assert_eq!(self.look(), tidy(queue), "queue after line {line}, at {at} ms");
        }
    }

    /// Asks at an instant, and puts the answer in words.
    pub fn play(&mut self, ms: u64, action: Action) -> String {
        self.group.now = at(ms);
        if self.moves {
            self.group.relocate(QUEUE);
        }
        self.act(MAIN, action)
    }

    fn act(&mut self, queue: QueueId, action: Action) -> String {
        match action {
            Send(messages) => words(&self.send(messages)),
            Take(count) => words(&self.take(queue, count)),
            Complete(numbers) => self.settle(queue, numbers, || Disposition::Complete),
            Abandon(numbers) => self.settle(queue, numbers, abandon),
            Defer(numbers) => self.settle(queue, numbers, defer),
            DeadLetter(numbers) => self.settle(queue, numbers, dead_letter),
            Release(numbers) => self.settle(queue, numbers, || Disposition::Release),
            Atomic(pairs) => words(&self.dispose(queue, pairs, true)),
            Renew(numbers) => {
                let tokens = numbers.iter().map(|number| self.token(queue, *number)).collect();
                let renew = domain::Renew { origin: None, queue, tokens };
                words(&self.group.apply(Command::Renew(renew)))
            }
            Deferred(numbers) => words(&self.receive_deferred(queue, numbers)),
            Select(numbers) => words(&self.select(queue, numbers)),
            Cancel(numbers) => {
                words(&self.group.apply(Command::CancelScheduled(CancelScheduled {
                    origin: None,
                    entity: QUEUE,
                    numbers: numbers_of(numbers),
                })))
            }
            Delete(count_max) => words(&self.delete(queue, count_max, None)),
            DeleteBefore(count_max, ms) => words(&self.delete(queue, count_max, Some(at(ms)))),
            Peek(from, count_max) => {
                seen(domain::peek(&self.group.rows, queue, SequenceNumber(from), count_max))
            }
            Fire(kind) => words(&Outcome::Fired(self.fire(kind, u32::MAX))),
            FireLocks => words(&Outcome::Fired(self.fire_locks())),
            FireAll => words(&Outcome::Fired(self.fire_all())),
            Update(change) => words(&self.update(change)),
            Status(status) => {
                let mut properties = self.info().properties;
                properties.status = status;
                words(&self.set(properties))
            }
            DeleteQueue => words(&self.group.apply(Command::DeleteEntity { entity: QUEUE })),
            Touch => words(&self.group.apply(Command::Touch { entity: QUEUE })),
            Seal(since) => {
                let seal = domain::Seal { entity: QUEUE, idle_since: at(since) };
                words(&self.group.apply(Command::Seal(seal)))
            }
            Beat => words(&self.group.apply(Command::Beat)),
            Sweep => words(&self.group.apply(Command::Sweep)),
            Restart => {
                self.group.reset();
                String::new()
            }
            Look => String::new(),
            Dead(action) => self.act(DEAD, *action),
            Accept(session) => words(&self.accept(queue, Some(session))),
            AcceptNext => words(&self.accept(queue, None)),
            Within(session, what) => self.within(session, what),
            FireSessions => words(&Outcome::Fired(self.fire_sessions())),
        }
    }

    pub fn send(&mut self, messages: Vec<NewMessage>) -> Outcome {
        self.group.apply(Command::Send(domain::Send { origin: None, entity: QUEUE, messages }))
    }

    pub fn take(&mut self, queue: QueueId, count_max: u32) -> Outcome {
        let acquire = Acquire { queue, receiver: RECEIVER, count_max, bytes_max: u32::MAX };
        let outcome = self.group.apply(Command::Acquire(acquire));
        self.remember(queue, &outcome);
        outcome
    }

    /// The deliveries of an acquisition that must succeed.
    pub fn taken(&mut self, queue: QueueId, count_max: u32) -> Vec<Delivery> {
        match self.take(queue, count_max) {
            Outcome::Acquired { deliveries, .. } => deliveries,
            other => panic!("not acquired: {other:?}"),
        }
    }

    pub fn receive_deferred(&mut self, queue: QueueId, numbers: &[u64]) -> Outcome {
        let numbers = numbers_of(numbers);
        let receive = ReceiveDeferred { origin: None, queue, receiver: RECEIVER, numbers };
        let outcome = self.group.apply(Command::ReceiveDeferred(receive));
        self.remember(queue, &outcome);
        outcome
    }

    pub fn select(&mut self, queue: QueueId, numbers: &[u64]) -> Outcome {
        let numbers = numbers_of(numbers);
        let select = domain::Select { origin: None, queue, receiver: RECEIVER, numbers };
        let outcome = self.group.apply(Command::Select(select));
        self.remember(queue, &outcome);
        outcome
    }

    pub(crate) fn remember(&mut self, queue: QueueId, outcome: &Outcome) {
        let Outcome::Acquired { deliveries, .. } = outcome else { return };
        for delivery in deliveries {
            let lock = delivery.lock.expect("a delivery under a lock");
            self.tokens.entry(queue).or_default().insert(delivery.sequence.0, lock.token);
        }
    }

    /// The token of the latest delivery of a number, or one that never was.
    pub fn token(&self, queue: QueueId, number: u64) -> LockToken {
        let known = self.tokens.get(&queue).and_then(|tokens| tokens.get(&number));
        let never = LockToken { sequence: SequenceNumber(number), nonce: 42 };
        known.copied().unwrap_or(never)
    }

    fn settle(&mut self, queue: QueueId, numbers: &[u64], how: fn() -> Disposition) -> String {
        let pairs = numbers.iter().map(|number| (*number, how())).collect();
        words(&self.dispose(queue, pairs, false))
    }

    pub fn dispose(
        &mut self,
        queue: QueueId,
        pairs: Vec<(u64, Disposition)>,
        atomic: bool,
    ) -> Outcome {
        let settlements = pairs
            .into_iter()
            .map(|(number, disposition)| Settlement {
                token: self.token(queue, number),
                disposition,
            })
            .collect();
        self.group.apply(Command::Settle(Settle { origin: None, queue, settlements, atomic }))
    }

    fn delete(&mut self, queue: QueueId, count_max: u32, before: Option<Timestamp>) -> Outcome {
        let delete = DeleteBatch { origin: None, queue, count_max, before };
        self.group.apply(Command::DeleteBatch(delete))
    }

    pub fn fire(&mut self, kind: DeadlineKind, count_max: u32) -> Fired {
        fired(self.group.apply(Command::Fire(domain::Fire { entity: QUEUE, kind, count_max })))
    }

    pub fn fire_locks(&mut self) -> Fired {
        let locks = self
            .group
            .rows
            .0
            .iter()
            .filter_map(|(key, row)| match (key, row) {
                (Key::Lock(queue, number), Row::Lock(lock)) => {
                    Some((*queue, LockToken { sequence: *number, nonce: lock.nonce }))
                }
                _ => None,
            })
            .collect();
        fired(self.group.apply(Command::FireLocks(domain::FireLocks { locks })))
    }

    fn fire_all(&mut self) -> Fired {
        let mut all = self.fire_locks();
        all.released += self.fire_sessions().released;
        for kind in DeadlineKind::ALL {
            loop {
                let round = self.fire(kind, u32::MAX);
                all.activated += round.activated;
                all.dropped += round.dropped;
                all.dead_lettered += round.dead_lettered;
                all.released += round.released;
                if !round.more {
                    break;
                }
            }
        }
        all
    }

    pub fn update(&mut self, change: Change) -> Outcome {
        let mut properties = self.info().properties;
        change(&mut properties);
        self.set(properties)
    }

    fn set(&mut self, properties: QueueProperties) -> Outcome {
        let properties = Box::new(properties);
        self.group.apply(Command::UpdateQueue(UpdateQueue {
            origin: None,
            entity: QUEUE,
            properties,
        }))
    }

    pub fn info(&self) -> EntityInfo {
        domain::entity_info(&self.group.rows, QUEUE).expect("the queue")
    }

    pub fn counts(&self) -> Counts {
        self.info().counts
    }

    pub fn state(&self) -> EntityState {
        match self.group.rows.0.get(&Key::EntityState(QUEUE)) {
            Some(Row::EntityState(state)) => (**state).clone(),
            other => panic!("no state: {other:?}"),
        }
    }

    /// A stored message's small row.
    pub fn message(&self, queue: QueueId, number: u64) -> MessageRow {
        match self.group.rows.0.get(&Key::Message(queue, SequenceNumber(number))) {
            Some(Row::Message(row)) => row.clone(),
            other => panic!("no message {number}: {other:?}"),
        }
    }

    pub fn peek(&self, queue: QueueId, from: u64, count_max: u32) -> Vec<Delivery> {
        domain::peek(&self.group.rows, queue, SequenceNumber(from), count_max).expect("peeked")
    }

    /// The dead-letter reason and description laid over a message, where they are strings (DLQ-8).
    pub fn reason(&self, number: u64) -> (Option<String>, Option<String>) {
        let overlay = self.message(DEAD, number).overlay.unwrap_or_default();
        let read = |name: &str| match overlay.set.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        (read(domain::DEAD_LETTER_REASON), read(domain::DEAD_LETTER_ERROR_DESCRIPTION))
    }

    /// The queue as tables write it.
    pub fn look(&self) -> String {
        if domain::entity_info(&self.group.rows, QUEUE).is_none() {
            return "no queue".to_owned();
        }
        let mut parts: [BTreeMap<u64, String>; 2] = Default::default();
        for (key, row) in &self.group.rows.0 {
            match (key, row) {
                (Key::Message(queue, number), Row::Message(row)) if queue.entity == QUEUE => {
                    let held = row.session.clone().map(|id| Key::SessionHeld(QUEUE, id, *number));
                    let lock = held.unwrap_or(Key::Lock(*queue, *number));
                    let locked = self.group.rows.0.contains_key(&lock);
                    let mut text = number.to_string();
                    text.push_str(if row.deferred { "D" } else { "" });
                    text.push_str(if locked { "L" } else { "" });
                    if row.delivery_count > 0 {
                        write!(text, "+{}", row.delivery_count).expect("a string");
                    }
                    parts[queue.sub as usize].insert(number.0, text);
                }
                (Key::Scheduled(entity, number), _) if *entity == QUEUE => {
                    parts[0].insert(number.0, format!("{number}S"));
                }
                _ => (),
            }
        }
        let counts = self.counts();
        let gone = [
            ("completed", counts.completed),
            ("cancelled", counts.cancelled),
            ("expired", counts.expired),
            ("deleted", counts.deleted),
        ];
        let gone = gone.iter().filter(|(_, count)| *count > 0);
        let gone: Vec<_> = gone.map(|(name, count)| format!("{name} {count}")).collect();
        let join = |part: &BTreeMap<u64, String>| {
            part.values().map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        tidy(&format!("{}|{}|{}", join(&parts[0]), join(&parts[1]), gone.join(" ")))
    }
}

pub(crate) fn numbers_of(numbers: &[u64]) -> Vec<SequenceNumber> {
    numbers.iter().copied().map(SequenceNumber).collect()
}

pub(crate) fn fired(outcome: Outcome) -> Fired {
    match outcome {
        Outcome::Fired(fired) => fired,
        other => panic!("not fired: {other:?}"),
    }
}

/// The lock of a delivery.
pub fn lock(delivery: &Delivery) -> HeldLock {
    delivery.lock.expect("a lock")
}

pub const fn entity(id: u64) -> EntityId {
    EntityId(id)
}
