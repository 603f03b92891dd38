//! Follows a group's log with the semantics in its hand, not the machine's code: what was asked and
//! answered moves messages as the rules say, and what moved unasked must have had a reason. It is
//! semi-predictive: which due message a `Fire` takes is the machine's business, that it was due is
//! not.

mod entity;
mod message;
mod reconcile;
mod seen;
mod sessions;
mod topics;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use domain::{
    Acquire, CancelScheduled, Command, Commit, CreateQueue, DeleteBatch, Delivery, Disposition,
    EntityId, Entry, Key, LockRow, LockToken, Operation, Outcome, Performed, QueueId,
    ReceiveDeferred, ReceiverId, Refusal, Renew, Select, Send, SequenceNumber, SessionCommand,
    SessionId, Settle, Settlement, Specifics, SubQueue, Timestamp, UpdateQueue,
};

use entity::First;
pub use entity::{Deletion, Entity, PartlyMatched};
pub use message::{Message, MessageId, Place};
pub use seen::Seen;

use crate::group::forwarding::is_forwarding;
use crate::invariants::copies::{self, Share};
use crate::invariants::once::Effects;
use crate::invariants::one_holder::Hold;
use crate::invariants::{
    conservation, expired_delivery, lost, one_lock, one_place, order, repeats,
};
use crate::raft::Caller;
use crate::report::{Broken, Holds, Report};

/// See the file's head.
#[derive(Default)]
pub struct Oracle {
    /// Those that are somewhere, and those that were.
    pub messages: BTreeMap<MessageId, Message>,
    pub ended: BTreeSet<MessageId>,
    pub entities: BTreeMap<EntityId, Entity>,
    /// The time of the entry under way, or of the last (TIME-3).
    pub at: Timestamp,
    /// No later entry's time is below this: an operator may have moved the clock.
    floor: Timestamp,
    pub totals: Report,
    /// SEND-8: first outcomes by (producer, serial).
    origins: BTreeMap<(u64, u64), Outcome>,
    acknowledged: BTreeSet<MessageId>,
    effects: Effects,
    /// Publishes of the entry under way.
    shares: Vec<Share>,
    /// Whose delivery failed in the entry under way.
    failed: BTreeSet<MessageId>,
    /// Sessions that are held, or were so last, and what is stored of them.
    pub sessions: BTreeMap<(EntityId, SessionId), Hold>,
    states: BTreeMap<(EntityId, SessionId), Bytes>,
}

impl Oracle {
    /// Follows one committed entry: what was asked, what was answered, and the rows it left.
    pub fn observe(
        &mut self,
        entry: &Entry,
        asked: &[Option<Caller>],
        outcomes: &[Outcome],
        rows: &domain::MemoryRows,
    ) -> Holds {
        self.at = self.floor.max(entry.at);
        self.floor = self.at;
        self.totals.entries += 1;
        let at = self.at;
        self.entities.values_mut().for_each(|entity| entity.begin(at));
        self.failed.clear();
        for ((command, outcome), asked) in entry.commands.iter().zip(outcomes).zip(asked) {
            if !self.is_repeat(command, outcome)? {
                asked.map_or(Ok(()), |caller| self.effects.took(caller))?;
                self.command(command, outcome, rows)?;
            }
        }
        self.check_copies(rows)?;
        self.reconcile(rows)?;
        conservation::check(self, rows)
    }

    fn check_copies(&mut self, rows: &domain::MemoryRows) -> Holds {
        for share in std::mem::take(&mut self.shares) {
            let entity = self.entities.get(&share.subscription);
            let deletes = entity.is_some_and(|entity| entity.deletion.is_some());
            copies::check(&share, deletes, rows)?;
        }
        Ok(())
    }

    /// A producer was told that its messages have these numbers.
    pub fn acknowledge(&mut self, entity: EntityId, sequences: &[SequenceNumber]) -> Holds {
        for sequence in sequences {
            let id = (entity, *sequence);
            lost::acknowledged(self, id)?;
            self.totals.acknowledged += u64::from(self.acknowledged.insert(id));
        }
        Ok(())
    }

    /// Whether this is the same request again: then it must be answered as before, and did nothing.
    fn is_repeat(&mut self, command: &Command, outcome: &Outcome) -> Result<bool, Broken> {
        let Some(origin) = command.facts().origin() else { return Ok(false) };
        match (outcome, self.origins.get(&(origin.producer, origin.serial))) {
            (Outcome::Refused(Refusal::SerialGap { .. }), None) => Ok(true),
            (Outcome::Refused(Refusal::PerhapsDone), _) => Ok(true),
            // Nothing is kept of it: asked again when the entity is there, it is done then.
            (Outcome::Refused(Refusal::StaleRoute { .. }), None) => Ok(true),
            (_, Some(first)) => {
                self.totals.repeated += 1;
                repeats::same(origin, first, outcome)?;
                Ok(true)
            }
            (_, None) => {
                self.origins.insert((origin.producer, origin.serial), outcome.clone());
                Ok(false)
            }
        }
    }

    fn command(
        &mut self,
        command: &Command,
        outcome: &Outcome,
        rows: &domain::MemoryRows,
    ) -> Holds {
        if is_elsewhere(command) {
            return Ok(());
        }
        if let Outcome::Refused(refusal) = outcome {
            return self.refused(command, refusal); // ERR-29: nothing was changed.
        }
        match command {
            Command::CreateQueue(CreateQueue { entity, properties, .. }) => {
                self.entities
                    .entry(*entity)
                    .or_insert_with(|| Entity::new(properties.as_ref().clone(), Specifics::Queue));
                Ok(())
            }
            Command::UpdateQueue(UpdateQueue { entity, properties, .. }) => {
                let at = self.at;
                self.entity(*entity)?.update(properties, at);
                Ok(())
            }
            Command::DeleteEntity { entity } => self.delete_entity(*entity),
            Command::Send(send) => self.sent(send, outcome, rows),
            Command::Acquire(Acquire { queue, receiver, .. }) => {
                let deliveries = deliveries(outcome);
                order::acquired(self, *queue, deliveries)?;
                self.delivered(*queue, *receiver, deliveries, false, None)
            }
            Command::ReceiveDeferred(ReceiveDeferred { queue, receiver, .. }) => {
                self.delivered(*queue, *receiver, deliveries(outcome), true, None)
            }
            Command::Select(Select { queue, receiver, .. }) => {
                self.delivered(*queue, *receiver, deliveries(outcome), false, None)
            }
            Command::Settle(settle) => self.settled(settle, outcome),
            Command::Renew(renew) => self.renewed(renew, outcome),
            Command::CancelScheduled(CancelScheduled { entity, numbers, .. }) => {
                numbers.iter().try_for_each(|number| self.cancelled((*entity, *number)))
            }
            Command::DeleteBatch(DeleteBatch { queue, before, .. }) => {
                if let Outcome::Deleted { count, .. } = outcome {
                    let before = before.unwrap_or(self.at);
                    let deletion = Deletion { sub: queue.sub, before, left: *count, ambiguous: 0 };
                    self.entity(queue.entity)?.deletion = Some(deletion);
                }
                Ok(())
            }
            // What these do nobody asked for by name: `reconcile` finds it, where it is not told.
            Command::Fire(fire) => match outcome {
                Outcome::Fired(fired) => self.fired(fire, fired, rows),
                _ => Ok(()),
            },
            Command::FireLocks(_)
            | Command::Sweep
            | Command::LimitMatching { .. }
            | Command::ReachLevel { .. }
            | Command::Cut { .. }
            // Nothing is restored here, and nothing moves to another group.
            | Command::Restore(_)
            | Command::Relocate(_) => Ok(()),
            Command::AdvanceClock { by } => {
                self.floor = self.at.plus(*by);
                Ok(())
            }
            // Followed by `forwarding`, across groups.
            Command::Forward(_) => Ok(()),
            Command::Topic(command) => self.topic_command(command, rows),
            Command::Session(command) => self.session_command(command, outcome),
            // No entity of this cluster is temporary; `tests/idle.rs` has those.
            Command::Touch { .. } | Command::Seal(_) | Command::Beat => Ok(()),
            Command::RaiseClock { .. } | Command::Catalog(_) | Command::Refuse(_) => Ok(()),
            Command::Commit(commit) => self.committed(commit, outcome, rows),
        }
    }

    /// TX-2: each operation as if it had been asked alone, in order.
    fn committed(
        &mut self,
        commit: &Commit,
        outcome: &Outcome,
        rows: &domain::MemoryRows,
    ) -> Holds {
        let Outcome::Committed { performed } = outcome else {
            return Err(one_place::broken(format!("a commit was answered with {outcome:?}")));
        };
        self.totals.committed += 1;
        for (operation, performed) in commit.operations.iter().zip(performed) {
            match (operation, performed) {
                (Operation::Send(send), Performed::Sent { sequences }) => {
                    self.sent(send, &Outcome::Sent { sequences: sequences.clone() }, rows)?;
                }
                (Operation::Settle(settle), _) => {
                    self.settled(settle, &Outcome::Settled { refused: Vec::new() })?;
                }
                (Operation::Renew(renew), Performed::Renewed { until }) => {
                    self.renewed(renew, &Outcome::Renewed { until: until.clone() })?;
                }
                (Operation::CancelScheduled(CancelScheduled { entity, numbers, .. }), _) => {
                    numbers.iter().try_for_each(|number| self.cancelled((*entity, *number)))?;
                }
                (Operation::SetState(set), _) => {
                    let command = SessionCommand::SetState(set.clone());
                    self.session_command(&command, &Outcome::Done)?;
                }
                (operation, performed) => {
                    let what = format!("{operation:?} came to {performed:?}");
                    return Err(one_place::broken(what));
                }
            }
        }
        Ok(())
    }

    /// A lock that is held must not be refused for want of one (LOCK-14).
    fn refused(&mut self, command: &Command, refusal: &Refusal) -> Holds {
        if let Refusal::TransactionRolledBack { .. } = refusal {
            // What an operation found may be an earlier one's doing.
            self.totals.rolled_back += 1;
        }
        if let (Command::Send(send), Refusal::NoMatchingSubscription { .. }) = (command, refusal)
            && send.messages.iter().all(|new| self.is_taken(send.entity, new))
        {
            return Err(copies::broken(format!("{send:?} was refused, but is taken")));
        }
        let Refusal::MessageLockLost { token } = refusal else {
            return self.refused_session(command, refusal);
        };
        self.totals.locks_refused += 1;
        let queue = match command {
            // TX-9: held, and somebody else's to settle.
            Command::Settle(settle) if is_withheld(settle, *token) => return Ok(()),
            Command::Settle(settle) => settle.queue,
            Command::Renew(renew) => renew.queue,
            _ => return Ok(()),
        };
        one_lock::refused(self.find(queue, token.sequence), *token, self.at)
    }

    fn delete_entity(&mut self, id: EntityId) -> Holds {
        // Done as well for one that was never there, or is no more.
        for subscription in self.subscriptions(id) {
            self.delete_entity(subscription)?; // ENT-7.
        }
        self.entities.entry(id).and_modify(|entity| entity.alive = false);
        self.forget_sessions(id);
        let all: Vec<MessageId> = self.messages.range(of(id)).map(|(id, _)| *id).collect();
        for message in all {
            self.messages.remove(&message);
            self.ended.insert(message);
        }
        Ok(())
    }

    fn sent(&mut self, send: &Send, outcome: &Outcome, rows: &domain::MemoryRows) -> Holds {
        let Outcome::Sent { sequences } = outcome else {
            return Err(one_place::broken(format!("a send was answered with {outcome:?}")));
        };
        let (at, is_topic) = (self.at, self.is_topic(send.entity));
        for (new, sequence) in send.messages.iter().zip(sequences) {
            let entity = self.entities.get_mut(&send.entity).ok_or_else(unknown_entity)?;
            let detects = entity.properties.requires_duplicate_detection;
            let id = new.message_id.as_ref().filter(|_| detects);
            if let Some(first) = id.and_then(|id| entity.first(id, *sequence, at)) {
                repeats::duplicate(first.sequence, *sequence)?;
                self.totals.duplicates += 1;
                continue;
            }
            if let Some(id) = id {
                let first = First { accepted_at: at, sequence: *sequence, ended: false };
                entity.history.insert(id.clone(), first);
            }
            entity.issued += 1;
            entity.accepted += 1;
            self.totals.accepted += 1;
            self.effects.accepted(&new.content)?;
            let knows_sessions = is_topic || entity.properties.requires_session;
            let message = Message::accepted(new, *sequence, at, &entity.properties, knows_sessions);
            if is_topic && message.is_in(SubQueue::Main) {
                // RULE-9: where that was too much for the entry, nobody knows yet whether it is taken.
                if !rows.0.contains_key(&Key::Unmatched(send.entity, *sequence)) {
                    self.must_match(send.entity, new)?;
                }
                self.published(send.entity, *sequence, message, rows)?;
                continue;
            }
            if self.messages.insert((send.entity, *sequence), message).is_some() {
                return Err(order::broken(format!("number {sequence} was issued twice (SEQ-1)")));
            }
        }
        Ok(())
    }

    /// Messages were handed out under locks, of a session until its end. What the entry did to them
    /// before, unasked, is caught up with first: a lapsed lock, an activation, a move to the
    /// dead-letter queue.
    fn delivered(
        &mut self,
        queue: QueueId,
        receiver: ReceiverId,
        deliveries: &[Delivery],
        deferred: bool,
        until: Option<Timestamp>,
    ) -> Holds {
        let at = self.at;
        for delivery in deliveries {
            let is_copy = delivery.topic.is_some();
            let id = (queue.entity, if is_copy { delivery.sequence } else { delivery.body });
            self.catch_up(id, queue.sub, delivery)?;
            let (message, entity) = pair(&mut self.messages, &mut self.entities, id)?;
            one_place::delivered(message, id, queue.sub, delivery, deferred)?;
            expired_delivery::check(message, id, entity, at)?;
            let until = until.unwrap_or_else(|| at.plus(entity.properties.lock_duration));
            one_lock::granted(message, id, delivery, (at, until))?;
            if let Some(lock) = delivery.lock {
                let nonce = lock.token.nonce;
                message.lock = Some(LockRow { nonce, until: lock.until, receiver });
            }
            self.totals.delivered += 1;
        }
        Ok(())
    }

    fn settled(&mut self, settle: &Settle, outcome: &Outcome) -> Holds {
        let refused: &[(u32, Refusal)] = match outcome {
            Outcome::Settled { refused } => refused,
            _ => &[],
        };
        for (index, settlement) in settle.settlements.iter().enumerate() {
            match refused.iter().find(|(at, _)| *at as usize == index) {
                Some((_, Refusal::MessageLockLost { .. } | Refusal::SessionLockLost { .. }))
                    if settlement.disposition == Disposition::Withheld =>
                {
                    self.totals.withheld += 1;
                }
                Some((_, Refusal::MessageLockLost { .. } | Refusal::SessionLockLost { .. })) => {
                    self.totals.locks_refused += 1;
                    let message = self.find(settle.queue, settlement.token.sequence);
                    one_lock::refused(message, settlement.token, self.at)?;
                }
                Some(_) => (),
                None => {
                    one_lock::not_withheld(settlement)?;
                    self.settle(settle.queue, settlement)?;
                }
            }
        }
        Ok(())
    }

    /// LOCK-8 to LOCK-11, LOCK-16: a settlement was accepted.
    fn settle(&mut self, queue: QueueId, settlement: &Settlement) -> Holds {
        let at = self.at;
        let Settlement { token, disposition } = settlement;
        let Some(id) = self.find_id(queue, token.sequence) else {
            return one_lock::held(None, *token, at);
        };
        let (message, _) = pair(&mut self.messages, &mut self.entities, id)?;
        one_lock::held(Some(message), *token, at)?;
        message.lock = None;
        match disposition {
            Disposition::Complete => {
                self.totals.completed += 1;
                return self.end(id, |entity| entity.completed += 1);
            }
            Disposition::Abandon { .. } => {
                message.failed();
                self.failed.insert(id);
            }
            Disposition::Release | Disposition::Withheld => (),
            Disposition::Defer { .. } => {
                message.failed(); // DEFER-7.
                message.deferred = true;
                self.failed.insert(id);
                self.totals.deferred += 1;
            }
            Disposition::DeadLetter { .. } => {
                message.place = Place::In(SubQueue::DeadLetter);
                message.session = None; // DLQ-11.
                message.deferred = false; // DLQ-10.
                self.totals.dead_lettered += 1;
            }
        }
        Ok(())
    }

    fn renewed(&mut self, renew: &Renew, outcome: &Outcome) -> Holds {
        let at = self.at;
        let Outcome::Renewed { until } = outcome else {
            return Err(one_lock::broken(format!("a renewal was answered with {outcome:?}")));
        };
        for (token, until) in renew.tokens.iter().zip(until) {
            let Some(id) = self.find_id(renew.queue, token.sequence) else {
                return one_lock::held(None, *token, at);
            };
            let (message, entity) = pair(&mut self.messages, &mut self.entities, id)?;
            one_lock::held(Some(message), *token, at)?;
            one_lock::until(entity, at, *until)?;
            if let Some(lock) = &mut message.lock {
                lock.until = *until;
            }
        }
        Ok(())
    }

    /// SCHED-3.
    fn cancelled(&mut self, id: MessageId) -> Holds {
        let (message, _) = pair(&mut self.messages, &mut self.entities, id)?;
        if !matches!(message.place, Place::Scheduled { .. }) {
            return Err(one_place::broken(format!("{id:?} was cancelled, but is {message:?}")));
        }
        self.end(id, |entity| entity.cancelled += 1)
    }

    /// It is gone for good, in one way: whatever names it from here on is wrong.
    fn end(&mut self, id: MessageId, count: impl FnOnce(&mut Entity)) -> Holds {
        let (_, entity) = pair(&mut self.messages, &mut self.entities, id)?;
        count(entity);
        self.messages.remove(&id);
        self.ended.insert(id);
        Ok(())
    }

    fn entity(&mut self, id: EntityId) -> Result<&mut Entity, Broken> {
        self.entities.get_mut(&id).filter(|entity| entity.alive).ok_or_else(unknown_entity)
    }

    /// The message that goes by a number in a queue.
    fn find_id(&self, queue: QueueId, sequence: SequenceNumber) -> Option<MessageId> {
        let mut all = self.messages.range(of(queue.entity));
        let found = all.find(|(_, message)| {
            message.sequence == sequence && message.place == Place::In(queue.sub)
        });
        found.map(|(id, _)| *id)
    }

    fn find(&self, queue: QueueId, sequence: SequenceNumber) -> Option<&Message> {
        self.messages.get(&self.find_id(queue, sequence)?)
    }
}

/// A message and its entity.
fn pair<'a>(
    messages: &'a mut BTreeMap<MessageId, Message>,
    entities: &'a mut BTreeMap<EntityId, Entity>,
    id: MessageId,
) -> Result<(&'a mut Message, &'a mut Entity), Broken> {
    match (messages.get_mut(&id), entities.get_mut(&id.0)) {
        (Some(message), Some(entity)) => Ok((message, entity)),
        _ => Err(one_place::broken(format!("{id:?} was never accepted, or had ended"))),
    }
}

/// All messages of an entity.
pub fn of(entity: EntityId) -> std::ops::RangeInclusive<MessageId> {
    (entity, SequenceNumber::MIN)..=(entity, SequenceNumber::MAX)
}

fn deliveries(outcome: &Outcome) -> &[Delivery] {
    match outcome {
        Outcome::Acquired { deliveries, .. } => deliveries,
        _ => &[],
    }
}

/// TX-9: whether it asks for what waits in an open transaction.
fn is_withheld(settle: &Settle, token: LockToken) -> bool {
    let withheld = |it: &&Settlement| it.disposition == Disposition::Withheld;
    settle.settlements.iter().filter(withheld).any(|it| it.token == token)
}

/// About what `forwarding` follows, across groups.
fn is_elsewhere(command: &Command) -> bool {
    command.facts().entity.is_some_and(is_forwarding)
}

fn unknown_entity() -> Broken {
    one_place::broken("an entity that does not exist did something".to_owned())
}
