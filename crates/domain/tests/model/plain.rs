//! The model: what a queue is, said as plainly as possible. It knows nothing of heads, marks, deadline
//! rows or caches. Only what the machine draws (nonces) and how far a bounded `Fire` goes is taken
//! from its outcome.

use std::collections::BTreeSet;

use domain::{
    BATCH_DELETE_MAX, CancelScheduled, Command, Commit, Counts, DEAD_LETTER_ERROR_DESCRIPTION,
    DEAD_LETTER_REASON, DeleteBatch, Delivery, EntityId, EntityStatus, Fired, HeldLock, Lifetime,
    LockToken, MessageState, NewMessage, Operation, Outcome, Performed, Properties,
    QueueProperties, Refusal, SequenceNumber, SessionCommand, SessionId, Settle, Span, SubQueue,
    Timestamp, UpdateQueue, validate,
};

use crate::message::{Message, Place};
use crate::producers::Producers;
use crate::sessions::Sessions;

/// What ended and is in the way of an acquire, it clears away, but at most so many at a time.
const CLEARED_MAX: usize = 256;

#[derive(Clone)]
pub struct Plain {
    pub at: Timestamp,
    pub offset: Span,
    pub properties: QueueProperties,
    pub updated_at: Timestamp,
    pub accessed_at: Timestamp,
    pub last_use: Timestamp,
    /// Since when no two entries were two minutes apart.
    pub unbroken_since: Timestamp,
    /// As idle: nothing is known of it any more.
    pub deleted: bool,
    pub next: u64,
    pub messages: Vec<Message>,
    /// Id, accepted, number; in order of acceptance and id.
    pub history: Vec<(Timestamp, String, u64)>,
    /// Those that are not read off `messages`.
    pub gone: Counts,
    pub sessions: Sessions,
    producers: Producers,
    pub nonces: BTreeSet<u64>,
}

pub fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused(refusal)
}

pub fn disabled() -> Outcome {
    refused(Refusal::EntityDisabled { status: "" })
}

pub fn not_found(number: u64) -> Outcome {
    refused(Refusal::MessageNotFound { sequence: SequenceNumber(number), needs: "" })
}

impl Plain {
    pub fn new(properties: QueueProperties, at: Timestamp) -> Plain {
        Plain {
            at,
            offset: Span(0),
            properties,
            updated_at: at,
            accessed_at: at,
            last_use: at,
            unbroken_since: at,
            deleted: false,
            next: 1,
            messages: Vec::new(),
            history: Vec::new(),
            gone: Counts::default(),
            sessions: Sessions::default(),
            producers: Producers::default(),
            nonces: BTreeSet::new(),
        }
    }

    pub fn counts(&self) -> Counts {
        let count = |matches: &dyn Fn(&Message) -> bool| {
            self.messages.iter().filter(|message| matches(message)).count() as u64
        };
        Counts {
            active: count(&|m| m.place == Place::Main && !m.deferred),
            deferred: count(&|m| m.place == Place::Main && m.deferred),
            dead_lettered: count(&|m| m.place == Place::Dead),
            scheduled: count(&|m| matches!(m.place, Place::Waiting { .. })),
            ..self.gone
        }
    }

    /// What should come of a command, and does here. `actual`: what came of it in the machine.
    pub fn apply(&mut self, command: &Command, actual: &Outcome) -> Outcome {
        let Some(origin) = command.facts().origin() else { return self.act(command, actual) };
        if let Some(answer) = self.producers.admit(origin, self.at) {
            return answer;
        }
        let outcome = self.act(command, actual);
        self.producers.record(origin, self.at, actual);
        outcome
    }

    fn act(&mut self, command: &Command, actual: &Outcome) -> Outcome {
        match command {
            Command::AdvanceClock { by } => {
                self.offset = Span(self.offset.0 + by.0);
                self.at = self.at.plus(*by);
                Outcome::Done
            }
            Command::Fire(_) | Command::FireLocks(_) if self.deleted => {
                Outcome::Fired(Fired::default())
            }
            Command::Beat => Outcome::Done,
            Command::Seal(_) if self.deleted => Outcome::Done,
            _ if self.deleted => refused(Refusal::StaleRoute { entity: EntityId(0) }),
            Command::Touch { .. } => {
                self.last_use = self.last_use.max(self.at.plus(Span(60_000)));
                Outcome::Done
            }
            Command::Seal(seal) => self.seal(seal.idle_since),
            Command::Send(send) => self.send(&send.messages),
            Command::Acquire(take) => {
                let (count, bytes) = (take.count_max as usize, u64::from(take.bytes_max));
                self.take(take.queue.sub, count, bytes, actual)
            }
            Command::Settle(settle) => self.settle(settle),
            Command::Renew(renew) => self.renew(renew),
            Command::ReceiveDeferred(receive) => self.receive_deferred(receive, actual),
            Command::Select(select) => self.select(select, actual),
            Command::CancelScheduled(cancel) => self.cancel(cancel),
            Command::DeleteBatch(delete) => self.delete(delete),
            Command::Fire(fire) => self.fire(fire.kind, fire.count_max as usize, actual),
            Command::FireLocks(fire) => {
                let mut fired = Fired::default();
                for (queue, token) in &fire.locks {
                    self.lapse(queue.sub, *token, &mut fired);
                }
                Outcome::Fired(fired)
            }
            Command::UpdateQueue(update) => self.update(update),
            Command::Session(command) => self.in_session(command, actual),
            Command::Commit(commit) => self.commit(commit),
            other => panic!("not modelled: {other:?}"),
        }
    }

    /// TX-2: one after the other, and as it was before if one is refused.
    fn commit(&mut self, commit: &Commit) -> Outcome {
        let before = self.clone();
        let mut performed = Vec::new();
        for operation in commit.operations.clone() {
            let command = match operation {
                Operation::Send(send) => Command::Send(send),
                Operation::CancelScheduled(cancel) => Command::CancelScheduled(cancel),
                Operation::Settle(settle) => Command::Settle(Settle { atomic: true, ..settle }),
                Operation::Renew(renew) => Command::Renew(renew),
                Operation::SetState(set) => Command::Session(SessionCommand::SetState(set)),
                Operation::SendVia(_) => panic!("it is modelled in `forwarding`"),
            };
            performed.push(match self.act(&command, &Outcome::Done) {
                Outcome::Sent { sequences } => Performed::Sent { sequences },
                Outcome::Renewed { until } => Performed::Renewed { until },
                Outcome::Refused(cause) => {
                    *self = before;
                    let (operation, cause) = (performed.len() as u32, cause.into());
                    return refused(Refusal::TransactionRolledBack { operation, cause });
                }
                _ => Performed::Done,
            });
        }
        Outcome::Committed { performed }
    }

    /// TIME-3. A silence of two minutes was one without a leader, unless an operator moved the clock.
    pub fn begin(&mut self, at: Timestamp) {
        if at.0 >= self.at.0 + 120_000 {
            self.unbroken_since = at;
        }
        self.at = self.at.max(at);
    }

    pub fn used(&mut self) {
        self.accessed_at = self.at;
        self.last_use = self.last_use.max(self.at);
    }

    pub fn idle_since(&self) -> Timestamp {
        self.last_use.max(self.unbroken_since)
    }

    /// IDLE-15.
    fn seal(&mut self, known: Timestamp) -> Outcome {
        let since = self.idle_since();
        let window = self.properties.idle_window();
        let pending = self.messages.iter().any(|m| matches!(m.place, Place::Waiting { .. }));
        if window.is_max() || pending || known < since {
            return Outcome::Spared;
        }
        if self.at < since.plus(window) {
            return refused(Refusal::InvalidOperation { why: "" });
        }
        self.deleted = true;
        Outcome::Done
    }

    pub fn refuses_receive(&self) -> bool {
        let status = self.properties.status;
        matches!(status, EntityStatus::Disabled | EntityStatus::ReceiveDisabled)
    }

    pub fn expires_at(&self, message: &Message) -> Timestamp {
        match message.lifetime {
            Lifetime::Fixed { expires_at, .. } | Lifetime::Inherited { expires_at, .. } => {
                expires_at
            }
            Lifetime::Derived => message.since.plus(self.properties.default_ttl),
        }
    }

    pub fn find(&mut self, number: u64) -> &mut Message {
        self.messages.iter_mut().find(|m| m.number == number).expect("a message")
    }

    pub fn remove(&mut self, number: u64) {
        self.messages.retain(|message| message.number != number);
        self.stand();
    }

    /// Numbers in a subqueue that match, lowest first.
    pub fn numbers(&self, matches: impl Fn(&Message) -> bool) -> Vec<u64> {
        let mut numbers: Vec<_> =
            self.messages.iter().filter(|m| matches(m)).map(|m| m.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn send(&mut self, messages: &[NewMessage]) -> Outcome {
        if matches!(self.properties.status, EntityStatus::Disabled | EntityStatus::SendDisabled) {
            return disabled();
        }
        let sessions = self.properties.requires_session;
        if sessions && messages.iter().any(|message| message.session_id.is_none()) {
            return refused(Refusal::InvalidOperation { why: "" });
        }
        self.used();
        let mut sequences = Vec::new();
        for message in messages {
            if let (true, Some(id)) =
                (self.properties.requires_duplicate_detection, &message.message_id)
            {
                let known = self.history.iter().find(|(_, known, _)| known == id).cloned();
                match known {
                    Some((accepted_at, _, number)) if !self.has_ended(accepted_at) => {
                        sequences.push(SequenceNumber(number));
                        continue;
                    }
                    _ => {
                        self.history.retain(|(_, known, _)| known != id);
                        self.history.push((self.at, id.clone(), self.next));
                        self.trim(2);
                    }
                }
            }
            let due = message.scheduled_at.filter(|due| *due > self.at);
            let place = due.map_or(Place::Main, |due| Place::Waiting { due });
            sequences.push(SequenceNumber(self.next));
            let message = Message {
                number: self.next,
                body: self.next,
                place,
                since: self.at,
                available_at: self.at,
                session: message.session_id.as_deref().filter(|_| sessions).map(SessionId::from),
                ttl: message.ttl,
                lifetime: self.lifetime(message.ttl),
                deferred: false,
                was_scheduled: false,
                count: 0,
                lock: None,
                sent_bytes: message.size_bytes,
                sent_header_bytes: message.header_bytes,
                set: Properties::new(),
                removed: BTreeSet::new(),
            };
            self.messages.push(message);
            self.stand();
            self.next += 1;
            self.gone.accepted += 1;
        }
        Outcome::Sent { sequences }
    }

    pub fn lifetime(&self, ttl: Option<Span>) -> Lifetime {
        let Some(ttl) = ttl else { return Lifetime::Derived };
        let ttl = ttl.min(self.properties.default_ttl);
        Lifetime::Fixed { ttl, expires_at: self.at.plus(ttl) }
    }

    fn has_ended(&self, accepted_at: Timestamp) -> bool {
        accepted_at.plus(self.properties.duplicate_detection_window) <= self.at
    }

    /// Removes ended entries of the history, oldest first; whether there are more.
    pub fn trim(&mut self, count: usize) -> bool {
        self.history.sort();
        let ended = self.history.iter().filter(|(at, ..)| self.has_ended(*at)).count();
        self.history.drain(..ended.min(count));
        ended > count
    }

    /// Whether a subqueue is received from through sessions only.
    pub fn needs_session(&self, sub: SubQueue) -> bool {
        sub == SubQueue::Main && self.properties.requires_session
    }

    fn take(&mut self, sub: SubQueue, count: usize, bytes: u64, actual: &Outcome) -> Outcome {
        if self.refuses_receive() {
            return disabled();
        }
        if self.needs_session(sub) {
            return refused(Refusal::InvalidOperation { why: "" });
        }
        self.used();
        let (mut deliveries, mut sum, mut cleared) = (Vec::new(), 0, 0);
        for number in self.numbers(|m| m.is_available(sub)) {
            let full = deliveries.len() == count || (sum >= bytes && !deliveries.is_empty());
            if full || cleared == CLEARED_MAX {
                break;
            }
            if self.ends_instead(number, sub).is_some() {
                cleared += 1;
                continue;
            }
            sum += u64::from(self.find(number).size());
            deliveries.push(self.lock(number, sub, &deliveries, actual));
        }
        let left = !self.numbers(|m| m.is_available(sub)).is_empty();
        Outcome::Acquired { more: left && deliveries.len() < count, deliveries }
    }

    /// Locks a message. The nonce is the machine's; it must be one that never was.
    pub fn lock(
        &mut self,
        number: u64,
        sub: SubQueue,
        before: &[Delivery],
        actual: &Outcome,
    ) -> Delivery {
        let Outcome::Acquired { deliveries, .. } = actual else {
            panic!("{number} should be delivered, but {actual:?}");
        };
        let actual = deliveries.get(before.len());
        let actual = actual.unwrap_or_else(|| panic!("{number} is not among {deliveries:?}"));
        let nonce = actual.lock.expect("a lock").token.nonce;
        assert!(self.nonces.insert(nonce), "the nonce of {number} was used before");
        let token = LockToken { sequence: SequenceNumber(number), nonce };
        let session = self.find(number).session.clone();
        let hold = session.and_then(|id| self.sessions.known.get(&id)?.hold.clone());
        let until = self.at.plus(self.properties.lock_duration);
        let until = hold.map_or(until, |(_, until)| until);
        self.find(number).lock = Some((token, until));
        let message = self.find(number).clone();
        let mut delivery = self.shown(&message);
        delivery.lock = Some(HeldLock { token, until });
        if message.was_scheduled && !message.deferred {
            delivery.state = MessageState::Scheduled;
        }
        if message.lifetime == Lifetime::Derived && sub == SubQueue::Main {
            let ttl = self.properties.default_ttl;
            delivery.ttl = Some(ttl).filter(|ttl| !ttl.is_max());
            delivery.expires_at = delivery.ttl.map(|ttl| message.since.plus(ttl));
        }
        delivery
    }

    /// As peek shows it.
    pub fn shown(&self, message: &Message) -> Delivery {
        let waiting = match message.place {
            Place::Waiting { due } => Some(due),
            Place::Main | Place::Dead => None,
        };
        let (ttl, expires_at) = match (waiting, message.lifetime) {
            (Some(due), _) => {
                let ttl = message.ttl.map(|ttl| ttl.min(self.properties.default_ttl));
                (ttl, ttl.filter(|ttl| !ttl.is_max()).map(|ttl| due.plus(ttl)))
            }
            (
                None,
                Lifetime::Fixed { ttl, expires_at } | Lifetime::Inherited { ttl, expires_at },
            ) => (Some(ttl), Some(expires_at)),
            (None, Lifetime::Derived) => (None, None),
        };
        Delivery {
            sequence: SequenceNumber(message.number),
            body: SequenceNumber(message.body),
            topic: None,
            size_bytes: message.size(),
            state: match (waiting, message.deferred) {
                (Some(_), _) => MessageState::Scheduled,
                (None, true) => MessageState::Deferred,
                (None, false) => MessageState::Active,
            },
            delivery_count: message.count,
            enqueued_at: message.since,
            enqueued_sequence: SequenceNumber(message.number),
            dead_letter_source: None,
            scheduled_at: waiting,
            ttl: ttl.filter(|ttl| !ttl.is_max()),
            expires_at: expires_at.filter(|at| !at.is_never()),
            lock: None,
            overlay: None,
        }
    }

    /// A message of the main queue that is expired or was delivered too often goes; `None`: it stays.
    pub fn ends_instead(&mut self, number: u64, sub: SubQueue) -> Option<Gone> {
        let message = self.find(number).clone();
        if sub == SubQueue::DeadLetter {
            return None;
        }
        if self.expires_at(&message) <= self.at {
            Some(self.expire(number))
        } else if message.count >= self.properties.max_delivery_count {
            let count = message.count;
            let text = format!("Message could not be consumed after {count} delivery attempts.");
            Some(self.bury(number, "MaxDeliveryCountExceeded", &text))
        } else {
            None
        }
    }

    pub fn expire(&mut self, number: u64) -> Gone {
        if self.properties.dead_letter_on_expiration {
            let text = "The message expired and was dead lettered.";
            return self.bury(number, "TTLExpiredException", text);
        }
        self.remove(number);
        self.gone.expired += 1;
        Gone::Dropped
    }

    fn bury(&mut self, number: u64, reason: &str, description: &str) -> Gone {
        let message = self.find(number);
        message.explain(DEAD_LETTER_REASON, Some(reason), false);
        message.explain(DEAD_LETTER_ERROR_DESCRIPTION, Some(description), false);
        self.move_to_dead(number);
        Gone::DeadLettered
    }

    pub fn move_to_dead(&mut self, number: u64) {
        let ttl = self.properties.default_ttl;
        let message = self.find(number);
        message.place = Place::Dead;
        message.deferred = false;
        message.was_scheduled = false;
        message.session = None;
        // TTL-18: the last values stay as information.
        if message.lifetime == Lifetime::Derived && !ttl.is_max() {
            let expires_at = message.since.plus(ttl);
            message.lifetime = Lifetime::Inherited { ttl, expires_at };
        }
        self.stand();
    }

    /// TIME-7.
    pub fn release(&mut self, number: u64, sub: SubQueue, counted: bool) -> Option<Gone> {
        let at = self.at;
        let message = self.find(number);
        message.lock = None;
        message.available_at = at;
        message.count += u32::from(counted && sub == SubQueue::Main);
        match self.properties.status {
            EntityStatus::Disabled => None,
            _ => self.ends_instead(number, sub),
        }
    }

    fn cancel(&mut self, cancel: &CancelScheduled) -> Outcome {
        if self.properties.status == EntityStatus::Disabled {
            return disabled();
        }
        let mut seen = BTreeSet::new();
        for number in cancel.numbers.iter().map(|number| number.0) {
            let waits =
                |m: &Message| m.number == number && matches!(m.place, Place::Waiting { .. });
            if !seen.insert(number) || !self.messages.iter().any(waits) {
                return not_found(number);
            }
        }
        for number in seen {
            self.remove(number);
            self.gone.cancelled += 1;
        }
        self.used();
        Outcome::Done
    }

    fn delete(&mut self, delete: &DeleteBatch) -> Outcome {
        if self.refuses_receive() {
            return disabled();
        }
        if self.needs_session(delete.queue.sub) {
            return refused(Refusal::InvalidOperation { why: "" });
        }
        if !(1..=BATCH_DELETE_MAX).contains(&delete.count_max) {
            let (value, allowed) = (String::new(), "");
            return refused(Refusal::ArgumentOutOfRange { what: "", value, allowed });
        }
        self.used();
        let before = delete.before.unwrap_or(self.at);
        let sub = delete.queue.sub;
        let mut numbers = self.numbers(|m| m.is_available(sub) && m.since < before);
        numbers.truncate(delete.count_max as usize);
        numbers.iter().for_each(|number| self.remove(*number));
        let count = numbers.len() as u32;
        self.gone.deleted += u64::from(count);
        Outcome::Deleted { count, more: false }
    }

    fn update(&mut self, update: &UpdateQueue) -> Outcome {
        if let Err(refusal) = validate::queue_properties(&update.properties) {
            return refused(refusal);
        }
        self.properties = (*update.properties).clone();
        self.updated_at = self.at;
        self.last_use = self.last_use.max(self.at);
        Outcome::Done
    }
}

/// What became of a message that could not stay.
#[derive(Clone, Copy)]
pub enum Gone {
    Dropped,
    DeadLettered,
}
