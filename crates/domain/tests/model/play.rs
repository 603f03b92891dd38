//! Plays drawn moves against a shard and the model, and compares them after each step.

use std::collections::BTreeSet;

use domain::{
    AcceptSession, Acquire, CancelScheduled, Command, Commit, Counts, CreateQueue, DeadlineKind,
    DeleteBatch, DeleteSessionBatch, Delivery, Disposition, EntityId, EntityState, Entry,
    FireLocks, FireSessions, Fired, Key, LockToken, MemoryRows, MessageRow, NewMessage, Operation,
    Origin, Outcome, Properties, QueueId, QueueProperties, ReceiveDeferred, ReceiveSession,
    ReceiveSessionDeferred, ReceiverId, Refusal, ReleaseSession, Renew, RenewSession,
    ResumeSession, Row, Send, SequenceNumber, SessionCommand, SessionId, SessionToken,
    SetSessionState, Settle, Settlement, Span, SubQueue, Timestamp, UpdateQueue, Value,
};

use crate::act::{Act, Asked, Change, Cut, Draft, How, InSession, Move, Pick};
use crate::plain::{Message, Place, Plain};
use crate::support::{EPOCH, QUEUE, Shard};

/// What a game came to.
pub struct Seen {
    pub counts: Counts,
    pub refused: Vec<&'static str>,
    /// Transactions of more than one operation.
    pub committed: u64,
    /// As idle (IDLE-15).
    pub deleted: bool,
}

/// What queue is played with.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub duplicates: bool,
    pub sessions: bool,
}

pub fn play(kind: Kind, moves: &[Move]) -> Seen {
    let mut game = Game::new(kind);
    for drawn in moves {
        if game.plain.deleted {
            break;
        }
        game.make(drawn);
    }
    game.flush();
    assert_eq!(game.neighbours(), game.beside, "another queue was touched");
    let Game { refused, committed, plain, .. } = game;
    Seen { counts: plain.counts(), refused, committed, deleted: plain.deleted }
}

struct Game {
    shard: Shard,
    plain: Plain,
    /// Entries of the step that is being gathered.
    entries: Vec<Entry>,
    now: Timestamp,
    /// Properties as of the last update gathered.
    properties: QueueProperties,
    tokens: Vec<(QueueId, LockToken)>,
    /// Of sessions.
    holds: Vec<SessionToken>,
    /// Rows of the queues before and behind in the order of keys.
    beside: MemoryRows,
    refused: Vec<&'static str>,
    committed: u64,
}

impl Game {
    fn new(kind: Kind) -> Game {
        let properties = QueueProperties {
            requires_duplicate_detection: kind.duplicates,
            requires_session: kind.sessions,
            duplicate_detection_window: Span(20_000),
            lock_duration: Span(20_000),
            max_delivery_count: 3,
            ..QueueProperties::default()
        };
        let mut shard = Shard::new(properties.clone());
        for neighbour in [QUEUE.0 - 1, QUEUE.0 + 1] {
            furnish(&mut shard, EntityId(neighbour));
        }
        let mut game = Game {
            shard,
            plain: Plain::new(properties.clone(), EPOCH),
            entries: Vec::new(),
            now: EPOCH,
            properties,
            tokens: Vec::new(),
            holds: Vec::new(),
            beside: MemoryRows::default(),
            refused: Vec::new(),
            committed: 0,
        };
        game.beside = game.neighbours();
        game
    }

    fn neighbours(&self) -> MemoryRows {
        let beside = |key: &&Key| owner(key).is_some_and(|owner| owner != QUEUE);
        let keys: Vec<_> = self.shard.rows.0.keys().filter(beside).cloned().collect();
        let row = |key: Key| {
            let row = self.shard.rows.0[&key].clone();
            (key, row)
        };
        MemoryRows(keys.into_iter().map(row).collect())
    }

    fn make(&mut self, drawn: &Move) {
        if matches!(drawn.cut, Cut::Step | Cut::Restart)
            || matches!(drawn.act, Act::FireAll | Act::Age)
        {
            self.flush();
        }
        if drawn.cut == Cut::Restart {
            self.shard.reset();
        }
        let mut stamp = self.now;
        if drawn.back {
            stamp = Timestamp(stamp.0.saturating_sub(drawn.gap));
        } else {
            self.now = self.now.plus(Span(drawn.gap));
            stamp = self.now;
        }
        match drawn.act {
            Act::FireAll => return self.fire_all(),
            Act::Age => return self.age(),
            _ => (),
        }
        let command = self.command(&drawn.act, drawn.origin);
        match self.entries.last_mut() {
            Some(entry) if drawn.cut == Cut::Same && entry.at == stamp => {
                entry.commands.push(command);
            }
            _ => {
                let commands = vec![command];
                self.entries.push(Entry { at: stamp, seed: [0; 16], commands });
            }
        }
    }

    /// As an engine: until there is no more. Then nothing that is due is left.
    fn fire_all(&mut self) {
        let locks = self.locks(Timestamp::ZERO);
        self.ask(Command::FireLocks(FireLocks { locks }));
        let command = self.fire_sessions();
        self.ask(command);
        for kind in DeadlineKind::ALL {
            let mut rounds = 0;
            // What is deleted has nothing due.
            while self.ask(fire(kind, 3)).more {
                rounds += 1;
                assert!(rounds < 500, "{kind:?} never ends");
            }
        }
    }

    /// Nobody does anything for six minutes, as an engine lives through them.
    fn age(&mut self) {
        for _ in 0..6 {
            self.now = self.now.plus(Span(60_000));
            let commands = vec![Command::Beat];
            self.entries.push(Entry { at: self.now, seed: [0; 16], commands });
        }
        self.flush();
        let commands = vec![self.command(&Act::Seal(0), None)];
        self.entries.push(Entry { at: self.now, seed: [0; 16], commands });
        self.flush();
    }

    fn ask(&mut self, command: Command) -> Fired {
        self.entries.push(Entry { at: self.now, seed: [0; 16], commands: vec![command] });
        match self.flush().pop() {
            Some(Outcome::Fired(fired)) => fired,
            other => panic!("not fired: {other:?}"),
        }
    }

    /// Ends the step: applies its entries, and compares.
    fn flush(&mut self) -> Vec<Outcome> {
        let entries = std::mem::take(&mut self.entries);
        if entries.is_empty() {
            return Vec::new();
        }
        let outcomes = self.shard.step(entries.clone());
        for (entry, outcomes) in entries.iter().zip(&outcomes) {
            self.plain.begin(entry.at);
            // An entry has one time, also where one of its commands moves the clock.
            let at = self.plain.at;
            let mut advanced = Span(0);
            for (command, outcome) in entry.commands.iter().zip(outcomes) {
                self.plain.at = at;
                let expected = self.plain.apply(command, outcome);
                if let Command::AdvanceClock { by } = command {
                    advanced = advanced.max(*by);
                }
                self.compare(command, outcome, &expected);
            }
            self.plain.at = at.plus(advanced);
        }
        self.compare_rows();
        outcomes.into_iter().flatten().collect()
    }

    fn compare(&mut self, command: &Command, outcome: &Outcome, expected: &Outcome) {
        let same = match (outcome, expected) {
            (Outcome::Refused(refusal), Outcome::Refused(expected)) => {
                self.refused.push(refusal.name());
                same_refusal(refusal, expected)
            }
            (Outcome::Settled { refused }, Outcome::Settled { refused: expected }) => {
                self.refused.extend(refused.iter().map(|(_, refusal)| refusal.name()));
                refused.len() == expected.len()
                    && refused
                        .iter()
                        .zip(expected)
                        .all(|(a, b)| a.0 == b.0 && same_refusal(&a.1, &b.1))
            }
            (
                Outcome::Acquired { deliveries, more },
                Outcome::Acquired { deliveries: expected, more: expected_more },
            ) => {
                self.remember(command, deliveries);
                let bare: Vec<_> = deliveries.iter().cloned().map(without_overlay).collect();
                // A recorded outcome is compared with itself.
                let expected: Vec<_> = expected.iter().cloned().map(without_overlay).collect();
                bare == expected && more == expected_more
            }
            (Outcome::Accepted { token, .. }, expected) => {
                self.holds.push(token.clone());
                outcome == expected
            }
            (Outcome::Committed { performed }, expected) => {
                self.committed += u64::from(performed.len() > 1);
                outcome == expected
            }
            _ => outcome == expected,
        };
        assert!(same, "{command:?}\n  came to   {outcome:?}\n  should be {expected:?}");
    }

    fn remember(&mut self, command: &Command, deliveries: &[Delivery]) {
        let queue = match command {
            Command::Acquire(take) => take.queue,
            Command::ReceiveDeferred(receive) => receive.queue,
            Command::Session(_) => QueueId::main(QUEUE),
            _ => return,
        };
        for delivery in deliveries {
            self.tokens.push((queue, delivery.lock.expect("a lock").token));
        }
    }

    fn compare_rows(&self) {
        let plain = &self.plain;
        let rows = &self.shard.rows;
        assert_eq!(domain::meta(rows).last_at, plain.at);
        assert_eq!(domain::meta(rows).clock_offset, plain.offset);
        assert_eq!(domain::meta(rows).unbroken_since, plain.unbroken_since);
        if plain.deleted {
            assert_eq!(domain::entity_info(rows, QUEUE), None, "deleted as idle");
            return;
        }
        let info = domain::entity_info(rows, QUEUE).expect("the queue");
        assert_eq!(info.counts, plain.counts());
        assert_eq!(info.properties, plain.properties);
        assert_eq!(info.updated_at, plain.updated_at);
        assert_eq!(info.accessed_at, plain.accessed_at);
        assert_eq!(info.next_sequence.0, plain.next);
        let size: u64 = plain.messages.iter().map(|message| u64::from(message.size())).sum();
        let states = plain.sessions.known.values().filter_map(|session| session.state.as_ref());
        let size = size + states.map(|(state, _)| state.len() as u64).sum::<u64>();
        assert_eq!(info.size_bytes, size);
        assert_eq!(state(rows).last_use, plain.last_use);

        for message in &plain.messages {
            compare_message(rows, message);
        }
        let stored = |key: &&Key| {
            matches!(key, Key::Message(queue, _) if queue.entity == QUEUE)
                || matches!(key, Key::Scheduled(entity, _) if *entity == QUEUE)
        };
        assert_eq!(rows.0.keys().filter(stored).count(), plain.messages.len());

        let mut history = BTreeSet::new();
        for (key, row) in &rows.0 {
            if let (Key::DuplicateId(QUEUE, id), Row::DuplicateId { accepted_at, sequence }) =
                (key, row)
            {
                history.insert((*accepted_at, id.clone(), sequence.0));
            }
        }
        let expected: BTreeSet<_> = plain.history.iter().cloned().collect();
        assert_eq!(history, expected, "history of ids");
        self.compare_sessions();
        self.compare_peek(SubQueue::Main);
        self.compare_peek(SubQueue::DeadLetter);
    }

    fn compare_sessions(&self) {
        let (plain, rows) = (&self.plain, &self.shard.rows);
        let stored = |key: &Key| match key {
            Key::Session(QUEUE, id) => Some(id.clone()),
            _ => None,
        };
        let there: Vec<_> = rows.0.keys().filter_map(stored).collect();
        assert_eq!(there, plain.sessions_there(), "sessions that are there");
        for id in there {
            let row = domain::session_row(rows, QUEUE, &id).expect("the session");
            let known = plain.sessions.known.get(&id).cloned().unwrap_or_default();
            let lock = known.hold.map(|(token, until)| (token.nonce, until));
            assert_eq!(row.lock.map(|lock| (lock.nonce, lock.until)), lock, "hold of {id}");
            let state = match rows.0.get(&Key::SessionState(QUEUE, id.clone())) {
                Some(Row::SessionState(state)) => Some(state.to_vec()),
                _ => None,
            };
            assert_eq!(state, known.state.map(|(state, _)| state), "state of {id}");
        }
        let line = rows.0.iter().filter_map(|(key, row)| match (key, row) {
            (Key::SessionFree(QUEUE, _), Row::SessionFree(id)) => Some(id.clone()),
            _ => None,
        });
        assert_eq!(line.collect::<Vec<_>>(), plain.sessions.in_line(), "who is next");
    }

    fn compare_peek(&self, sub: SubQueue) {
        let queue = QueueId { entity: QUEUE, sub };
        let Ok(seen) = domain::peek(&self.shard.rows, queue, SequenceNumber(0), 250) else {
            return;
        };
        let mut expected: Vec<_> = self
            .plain
            .messages
            .iter()
            .filter(|message| (message.place == Place::Dead) == (sub == SubQueue::DeadLetter))
            .map(|message| self.plain.shown(message))
            .collect();
        expected.sort_by_key(|delivery| delivery.sequence);
        expected.truncate(250);
        let seen: Vec<_> = seen.into_iter().map(without_overlay).collect();
        assert_eq!(seen, expected, "peeked in {sub:?}");
    }

    fn command(&mut self, act: &Act, asked: Option<Asked>) -> Command {
        let origin = asked.map(|Asked { producer, serial, ordered, retry }| Origin {
            producer,
            serial,
            ordered,
            retry,
        });
        match act {
            Act::Send(drafts) => {
                let messages = drafts.iter().map(|draft| self.message(draft)).collect();
                Command::Send(Send { origin, entity: QUEUE, messages })
            }
            Act::Take { dead, count, bytes } => Command::Acquire(Acquire {
                queue: queue(*dead),
                receiver: ReceiverId::default(),
                count_max: *count,
                bytes_max: *bytes,
            }),
            Act::Settle { picks, atomic } => self.settle(picks, *atomic, origin),
            Act::Renew(picks) => {
                let tokens: Vec<_> = picks.iter().map(|pick| self.token(*pick)).collect();
                let queue = tokens[0].0;
                let tokens = tokens.into_iter().map(|(_, token)| token).collect();
                Command::Renew(Renew { origin, queue, tokens })
            }
            Act::Deferred { dead, picks } => {
                let aside = |dead: bool| {
                    move |m: &Message| {
                        m.deferred && m.lock.is_none() && (m.place == Place::Dead) == dead
                    }
                };
                let any = |dead: bool| self.plain.messages.iter().any(aside(dead));
                let dead = if any(*dead) { *dead } else { !dead };
                Command::ReceiveDeferred(ReceiveDeferred {
                    origin,
                    queue: queue(dead),
                    receiver: ReceiverId::default(),
                    numbers: self.picked(picks, aside(dead)),
                })
            }
            Act::Cancel(picks) => Command::CancelScheduled(CancelScheduled {
                origin,
                entity: QUEUE,
                numbers: self.picked(picks, |m| matches!(m.place, Place::Waiting { .. })),
            }),
            Act::Delete { dead, count, before } => Command::DeleteBatch(DeleteBatch {
                origin,
                queue: queue(*dead),
                count_max: *count,
                before: before.map(|ms| Timestamp(self.now.0.saturating_sub(ms))),
            }),
            Act::Fire(kind, count) => fire(*kind, *count),
            Act::FireLocks(None) => {
                Command::FireLocks(FireLocks { locks: self.locks(Timestamp::ZERO) })
            }
            Act::FireLocks(Some(picks)) => {
                let locks = picks.iter().map(|pick| self.token(*pick)).collect();
                Command::FireLocks(FireLocks { locks })
            }
            Act::FireAll | Act::Age => unreachable!("made of several steps"),
            Act::Update(change) => {
                let mut properties = self.properties.clone();
                change_to(&mut properties, *change);
                // What is refused is no base for the next change.
                if domain::validate::queue_properties(&properties).is_ok() {
                    self.properties = properties.clone();
                }
                let properties = Box::new(properties);
                Command::UpdateQueue(UpdateQueue { origin, entity: QUEUE, properties })
            }
            Act::Accept { dead, session } => {
                let (queue, receiver) = (queue(*dead), ReceiverId::default());
                let session = session.map(session_id);
                let accept = AcceptSession { origin, queue, receiver, session };
                Command::Session(SessionCommand::Accept(accept))
            }
            Act::Session(pick, what) => {
                Command::Session(self.in_session(self.hold(*pick), what, origin))
            }
            Act::FireSessions => self.fire_sessions(),
            Act::Commit(acts) => {
                let operations = acts.iter().map(|act| self.operation(act)).collect();
                Command::Commit(Commit { origin, entity: QUEUE, operations })
            }
            Act::Advance(ms) => Command::AdvanceClock { by: Span(*ms) },
            Act::Touch => Command::Touch { entity: QUEUE },
            Act::Seal(earlier) => {
                // As of the last step: what it gathers now, it does not know of.
                let known = self.plain.idle_since();
                let idle_since = Timestamp(known.0.saturating_sub(*earlier));
                Command::Seal(domain::Seal { entity: QUEUE, idle_since })
            }
        }
    }

    fn operation(&mut self, act: &Act) -> Operation {
        match self.command(act, None) {
            Command::Send(send) => Operation::Send(send),
            Command::Settle(settle) => Operation::Settle(settle),
            Command::Renew(renew) => Operation::Renew(renew),
            Command::CancelScheduled(cancel) => Operation::CancelScheduled(cancel),
            Command::Session(SessionCommand::SetState(set)) => Operation::SetState(set),
            other => unreachable!("not drawn for a transaction: {other:?}"),
        }
    }

    fn message(&self, draft: &Draft) -> NewMessage {
        NewMessage {
            content: vec![draft.size as u8].into(),
            size_bytes: draft.size,
            header_bytes: draft.size / 2,
            message_id: draft.id.map(|id| format!("id{id}")),
            session_id: draft.session.map(|id| session_id(id).to_string()),
            partition_key: None,
            ttl: draft.ttl.map(Span),
            scheduled_at: draft.due.map(|ms| self.now.plus(Span(ms))),
        }
    }

    fn fire_sessions(&self) -> Command {
        let holds = domain::session_holds(&self.shard.rows, QUEUE);
        let locks = holds.into_iter().map(|(token, _)| (QUEUE, token)).collect();
        Command::Session(SessionCommand::Fire(FireSessions { locks }))
    }

    /// Mostly the token of a session that is held, else any that ever was, or one that never was.
    fn hold(&self, pick: Pick) -> SessionToken {
        let choice = usize::from(pick / 8);
        let live: Vec<_> =
            self.holds.iter().filter(|token| self.plain.has_session(token)).collect();
        match (live.is_empty() || pick.is_multiple_of(8), self.holds.is_empty()) {
            (false, _) => live[choice % live.len()].clone(),
            (true, false) => self.holds[choice % self.holds.len()].clone(),
            (true, true) => SessionToken { session: session_id(0), nonce: 1 },
        }
    }

    fn in_session(
        &self,
        token: SessionToken,
        what: &InSession,
        origin: Option<Origin>,
    ) -> SessionCommand {
        let (entity, receiver) = (QUEUE, ReceiverId::default());
        match what {
            InSession::Receive { count, bytes } => SessionCommand::Receive(ReceiveSession {
                entity,
                token,
                receiver,
                count_max: *count,
                bytes_max: *bytes,
            }),
            InSession::Resume(picks) => {
                let arrived = picks.iter().map(|pick| self.token(*pick).1).collect();
                let receiver = ReceiverId { epoch: 1, ..receiver };
                SessionCommand::Resume(ResumeSession { entity, token, receiver, arrived })
            }
            InSession::Renew => SessionCommand::Renew(RenewSession { origin, entity, token }),
            InSession::Release => SessionCommand::Release(ReleaseSession { origin, entity, token }),
            InSession::SetState(state) => {
                let state = state.map(|length| vec![7; length.into()].into());
                SessionCommand::SetState(SetSessionState { origin, entity, token, state })
            }
            InSession::Deferred(picks) => {
                let of = |m: &Message| m.deferred && m.lock.is_none() && m.is_of(&token.session);
                let numbers = self.picked(picks, of);
                let receive = ReceiveSessionDeferred { origin, entity, token, receiver, numbers };
                SessionCommand::ReceiveDeferred(receive)
            }
            InSession::Delete { count, before } => {
                let before = before.map(|ms| Timestamp(self.now.0.saturating_sub(ms)));
                let count_max = *count;
                let delete = DeleteSessionBatch { origin, entity, token, count_max, before };
                SessionCommand::DeleteBatch(delete)
            }
        }
    }

    fn settle(&self, picks: &[(Pick, How)], atomic: bool, origin: Option<Origin>) -> Command {
        let mut queue = None;
        let mut settlements = Vec::new();
        for (pick, how) in picks {
            let (of, token) = self.token(*pick);
            queue.get_or_insert(of);
            settlements.push(Settlement { token, disposition: disposition(how) });
        }
        let queue = queue.expect("a settlement");
        Command::Settle(Settle { origin, queue, settlements, atomic })
    }

    /// Locks that are there as of the last step, and end after an instant.
    fn locks(&self, after: Timestamp) -> Vec<(QueueId, LockToken)> {
        let lock = |message: &Message| {
            let dead = message.place == Place::Dead;
            let lock = message.lock.filter(|(_, until)| *until > after);
            lock.map(|(token, _)| (queue(dead), token))
        };
        self.plain.messages.iter().filter_map(lock).collect()
    }

    /// Mostly the token of a lock that is held, or of one that lapsed and is there still; else any
    /// that ever was, or one that never was.
    fn token(&self, pick: Pick) -> (QueueId, LockToken) {
        let choice = usize::from(pick / 8);
        let live = match pick % 8 {
            0 => Vec::new(),
            1 => self.locks(Timestamp::ZERO),
            _ => self.locks(self.now),
        };
        if !live.is_empty() {
            return live[choice % live.len()];
        }
        let never = LockToken { sequence: SequenceNumber(choice as u64 % 9), nonce: 1 };
        match self.tokens.is_empty() {
            true => (queue(pick.is_multiple_of(16)), never),
            false => self.tokens[choice % self.tokens.len()],
        }
    }

    /// Mostly numbers of messages that match, else any.
    fn picked(&self, picks: &[Pick], matches: impl Fn(&Message) -> bool) -> Vec<SequenceNumber> {
        let fitting: Vec<_> =
            self.plain.messages.iter().filter(|m| matches(m)).map(|m| m.number).collect();
        let number = |pick: &Pick| {
            let choice = usize::from(pick / 8);
            match fitting.is_empty() || pick.is_multiple_of(8) {
                true => choice as u64 % (self.plain.next + 1),
                false => fitting[choice % fitting.len()],
            }
        };
        picks.iter().map(number).map(SequenceNumber).collect()
    }
}

fn session_id(id: u8) -> SessionId {
    SessionId::from(format!("s{id}"))
}

fn queue(dead: bool) -> QueueId {
    if dead { QueueId::dead_letter(QUEUE) } else { QueueId::main(QUEUE) }
}

fn fire(kind: DeadlineKind, count_max: u32) -> Command {
    Command::Fire(domain::Fire { entity: QUEUE, kind, count_max })
}

fn change_to(properties: &mut QueueProperties, change: Change) {
    match change {
        Change::DefaultTtl(ttl) => properties.default_ttl = ttl.map_or(Span::MAX, Span),
        Change::Flag(flag) => properties.dead_letter_on_expiration = flag,
        Change::MaxDeliveryCount(count) => properties.max_delivery_count = count,
        Change::Status(status) => properties.status = status,
        Change::LockDuration(ms) => properties.lock_duration = Span(ms),
        Change::Window(ms) => properties.duplicate_detection_window = Span(ms),
        Change::Idle(ms) => properties.auto_delete_on_idle = ms.map_or(Span::MAX, Span),
    }
}

pub fn disposition(how: &How) -> Disposition {
    match how {
        How::Complete => Disposition::Complete,
        How::Abandon(property) => Disposition::Abandon { properties: properties(*property) },
        How::Defer(property) => Disposition::Defer { properties: properties(*property) },
        How::DeadLetter { reason, description, property } => Disposition::DeadLetter {
            reason: reason.map(|n| format!("reason {n}")),
            description: description.map(|n| format!("description {n}")),
            properties: properties(*property),
        },
        How::Release => Disposition::Release,
        How::Withheld => Disposition::Withheld,
    }
}

/// Some of them stand in the broker's own names.
fn properties(drawn: Option<u8>) -> Properties {
    let Some(drawn) = drawn else { return Properties::new() };
    let (name, value) = match drawn {
        0 => ("DeadLetterReason", Value::Int(7)),
        1 => ("DeadLetterErrorDescription", Value::String("mine".to_owned())),
        2 => ("a", Value::String("text".to_owned())),
        _ => ("a", Value::Bool(true)),
    };
    Properties::from([(name.to_owned(), value)])
}

fn same_refusal(refusal: &Refusal, expected: &Refusal) -> bool {
    match (refusal, expected) {
        (
            Refusal::MessageNotFound { sequence, .. },
            Refusal::MessageNotFound { sequence: expected, .. },
        ) => sequence == expected,
        (Refusal::MessageLockLost { token }, Refusal::MessageLockLost { token: expected }) => {
            token == expected
        }
        (Refusal::SerialGap { expected: a }, Refusal::SerialGap { expected: b }) => a == b,
        (
            Refusal::TransactionRolledBack { operation: a, cause },
            Refusal::TransactionRolledBack { operation: b, cause: expected },
        ) => a == b && same_refusal(&cause.0, &expected.0),
        _ => refusal.name() == expected.name(),
    }
}

/// Overlays are compared where they are stored, name by name.
fn without_overlay(delivery: Delivery) -> Delivery {
    Delivery { overlay: None, ..delivery }
}

fn compare_message(rows: &MemoryRows, message: &Message) {
    let number = SequenceNumber(message.number);
    let dead = message.place == Place::Dead;
    if let Place::Waiting { due } = message.place {
        let Some(Row::Scheduled(row)) = rows.0.get(&Key::Scheduled(QUEUE, number)) else {
            panic!("{number} should be scheduled");
        };
        assert_eq!((row.due, row.accepted_at, row.ttl), (due, message.since, message.ttl));
        assert_eq!((row.size_bytes, row.header_bytes), (message.size(), message.header()));
        return;
    }
    let Some(Row::Message(row)) = rows.0.get(&Key::Message(queue(dead), number)) else {
        panic!("{number} should be stored in {:?}", message.place);
    };
    let stored = row.overlay.clone().unwrap_or_default();
    assert_eq!(stored.set, message.set, "properties of {number}");
    let removed: BTreeSet<_> = stored.removed.iter().cloned().collect();
    assert_eq!(removed.len(), stored.removed.len(), "removed twice: {:?}", stored.removed);
    assert_eq!(removed, message.removed, "removed properties of {number}");
    let expected = MessageRow {
        body: SequenceNumber(message.body),
        size_bytes: message.size(),
        header_bytes: message.header(),
        deferred: message.deferred,
        delivery_count: message.count,
        enqueued_at: message.since,
        lifetime: message.lifetime,
        session: message.session.clone(),
        overlay: row.overlay.clone(),
        travel: None,
    };
    assert_eq!(*row, expected, "{number}");
    if let Some(session) = &message.session {
        // Its end is the session's, which may have been renewed.
        let lock = match rows.0.get(&Key::SessionHeld(QUEUE, session.clone(), number)) {
            Some(Row::SessionHeld(held)) => Some(held.nonce),
            _ => None,
        };
        assert_eq!(lock, message.lock.map(|(token, _)| token.nonce), "lock of {number}");
        return;
    }
    let lock = match rows.0.get(&Key::Lock(queue(dead), number)) {
        Some(Row::Lock(lock)) => {
            Some((LockToken { sequence: number, nonce: lock.nonce }, lock.until))
        }
        _ => None,
    };
    assert_eq!(lock, message.lock, "lock of {number}");
}

fn state(rows: &MemoryRows) -> &EntityState {
    match rows.0.get(&Key::EntityState(QUEUE)) {
        Some(Row::EntityState(state)) => state,
        other => panic!("no state: {other:?}"),
    }
}

fn owner(key: &Key) -> Option<EntityId> {
    match key {
        Key::Entity(owner) | Key::EntityState(owner) | Key::Sweep(owner) => Some(*owner),
        Key::Body(owner, _) | Key::Scheduled(owner, _) => Some(*owner),
        Key::Deadline(owner, ..) | Key::DuplicateId(owner, _) => Some(*owner),
        Key::DuplicateTime(owner, ..) => Some(*owner),
        Key::Message(queue, _) | Key::Returned(queue, _) | Key::Lock(queue, _) => {
            Some(queue.entity)
        }
        Key::Meta | Key::Producer(_) | Key::ProducerSeen(..) | Key::Outcome(..) => None,
        Key::Session(owner, _) | Key::SessionMessage(owner, ..) => Some(*owner),
        Key::SessionHeld(owner, ..) | Key::SessionFree(owner, _) => Some(*owner),
        Key::SessionLocked(owner, _) | Key::SessionState(owner, _) => Some(*owner),
        Key::Subscription(entity, _) | Key::Rule(entity, _) | Key::BodyCopies(entity, _) => {
            Some(*entity)
        }
        Key::Shipment(queue, _) | Key::Parked(queue, ..) | Key::Arrival(queue, _) => {
            Some(queue.entity)
        }
        Key::Cluster
        | Key::Directory(_)
        | Key::Node(_)
        | Key::Group(_)
        | Key::NodeState(_)
        | Key::Moves(_) => None,
    }
}

/// A neighbour with a row in every table, all of it due or available.
fn furnish(shard: &mut Shard, entity: EntityId) {
    let properties = QueueProperties {
        requires_duplicate_detection: true,
        default_ttl: Span(1000),
        ..QueueProperties::default()
    };
    let create =
        CreateQueue { entity, name: format!("q{}", entity.0), properties: Box::new(properties) };
    assert_eq!(shard.apply(Command::CreateQueue(create)), Outcome::Done);
    let draft = |index: u64| NewMessage {
        content: "neighbour".into(),
        size_bytes: 9,
        header_bytes: 1,
        message_id: Some(format!("id{index}")),
        session_id: None,
        partition_key: None,
        ttl: (index == 1).then_some(Span(5)),
        scheduled_at: (index == 2).then(|| EPOCH.plus(Span(5))),
    };
    let messages = (0..6).map(draft).collect();
    shard.apply(Command::Send(Send { origin: None, entity, messages }));
    let queue = QueueId::main(entity);
    let receiver = ReceiverId::default();
    let take = Acquire { queue, receiver, count_max: 4, bytes_max: u32::MAX };
    let Outcome::Acquired { deliveries, .. } = shard.apply(Command::Acquire(take)) else {
        panic!("nothing to take");
    };
    let how = [
        Disposition::Abandon { properties: Properties::new() },
        Disposition::Defer { properties: Properties::new() },
        Disposition::DeadLetter { reason: None, description: None, properties: Properties::new() },
    ];
    let settlements = deliveries
        .iter()
        .zip(how)
        .map(|(delivery, disposition)| Settlement {
            token: delivery.lock.expect("a lock").token,
            disposition,
        })
        .collect();
    shard.apply(Command::Settle(Settle { origin: None, queue, settlements, atomic: true }));
}
