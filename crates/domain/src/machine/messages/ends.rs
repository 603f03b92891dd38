//! How messages end: by their time or their deliveries, in a dead-letter queue, or settled.

use crate::machine::messages::Messages;
use crate::machine::overlay::explain;
use crate::machine::place::{Detached, Move, Place, Stored};
use crate::{
    DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON, DeadlineRow, Deed, Key, LifeStep, Lifetime,
    MessageRow, QueueId, Row, Rows, SequenceNumber, SubQueue, Timestamp, Value,
};

/// What became of a message that was released, or that ran out of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Available again, or back among the deferred (DEFER-6).
    Kept,
    Dropped,
    DeadLettered,
}

/// DLQ-7.
const EXPIRED_REASON: &str = "TTLExpiredException";
const EXPIRED_DESCRIPTION: &str = "The message expired and was dead lettered.";
const DELIVERED_REASON: &str = "MaxDeliveryCountExceeded";

/// A message that ran out of neither time nor deliveries: [`Messages::fit`] alone says so, and only
/// such a one is delivered.
pub struct Fit(Detached);

impl Fit {
    pub fn message(&self) -> &MessageRow {
        &self.0.message
    }

    pub fn into_detached(self) -> Detached {
        self.0
    }
}

/// Out of time, or of deliveries.
impl<R: Rows> Messages<'_, R> {
    /// Ends a message that ran out of time or of deliveries, in the order of TIME-7: expiry, maximum
    /// delivery count. Every other is handed back.
    pub fn fit(&mut self, detached: Detached) -> Result<Fit, Fate> {
        if self.is_expired(detached.queue, &detached.message) {
            return Err(self.expire(detached));
        }
        if self.row.is_exhausted(detached.queue, &detached.message) {
            return Err(self.exhaust(detached));
        }
        Ok(Fit(detached))
    }

    /// Whether [`Messages::fit`] would end a message.
    pub fn ends(&self, queue: QueueId, message: &MessageRow) -> bool {
        self.is_expired(queue, message) || self.row.is_exhausted(queue, message)
    }

    /// Ends a message that does not end up where a move would take it.
    pub fn end(&mut self, stored: Stored, by: Move) {
        let detached = self.places().detach(stored, by);
        drop(self.fit(detached));
    }

    /// TIME-5. In a dead-letter queue nothing expires (TTL-18).
    pub fn is_expired(&self, queue: QueueId, message: &MessageRow) -> bool {
        queue.sub == SubQueue::Main && self.row.expires_at(message) <= self.at
    }

    /// TTL-17. What to do is read from the entity now (TTL-30).
    pub fn expire(&mut self, detached: Detached) -> Fate {
        let due = self.row.expires_at(&detached.message);
        self.tally.late(self.at.since(due));
        if self.row.properties.dead_letter_on_expiration {
            self.tally.count(Deed::DeadLetteredExpired);
            self.explain_and_move(detached, EXPIRED_REASON, EXPIRED_DESCRIPTION, Some(due));
            return Fate::DeadLettered;
        }
        self.tally.count(Deed::Expired);
        self.note(&detached, || LifeStep::Expired { due });
        self.remove(detached);
        self.state.counts.expired += 1;
        Fate::Dropped
    }

    /// Drops a message by its deadline (TTL-9), without its row: it is fresh, so nothing has changed
    /// since it came.
    pub fn drop_fresh(&mut self, number: SequenceNumber, due: Timestamp, message: &DeadlineRow) {
        let queue = self.main();
        self.view.note_event(self.row, queue, number, || LifeStep::Expired { due });
        self.tally.count(Deed::Expired);
        self.tally.late(self.at.since(due));
        self.places().leave(queue, number, Place::Fresh, Move::Expire);
        self.view.delete(Key::Message(queue, number));
        self.deadlines().pass_cursor(number);
        self.release_body(message.body);
        self.state.size_bytes -= u64::from(message.size_bytes);
        self.state.counts.active -= 1;
        self.state.counts.expired += 1;
    }

    /// LOCK-21: as [`Messages::expire`], for a message delivered too often.
    pub fn exhaust(&mut self, detached: Detached) -> Fate {
        let description = format!(
            "Message could not be consumed after {} delivery attempts.",
            detached.message.delivery_count
        );
        self.tally.count(Deed::DeadLetteredExhausted);
        self.explain_and_move(detached, DELIVERED_REASON, &description, None);
        Fate::DeadLettered
    }
}

/// Into a dead-letter queue, and out.
impl<R: Rows> Messages<'_, R> {
    /// DLQ-8, and what that adds to its size.
    pub fn explain(&mut self, message: &mut MessageRow, reason: &str, description: &str) {
        let before = message.size_bytes;
        explain(message, Some(reason), Some(description), [false; 2]);
        self.state.resized(before, message.size_bytes);
    }

    /// `due`: of one that expired, its deadline.
    fn explain_and_move(
        &mut self,
        mut detached: Detached,
        reason: &str,
        description: &str,
        due: Option<Timestamp>,
    ) {
        self.explain(&mut detached.message, reason, description);
        self.move_out(detached, due);
    }

    /// FWD-8: where it was to go did not take it, or is gone.
    pub fn unforwarded(&mut self, detached: Detached, reason: &str, description: &str) {
        self.tally.count(Deed::DeadLetteredUnforwarded);
        self.explain_and_move(detached, reason, description, None);
    }

    /// Moves a message of the main queue to the dead-letter queue, in one step (DLQ-14): number,
    /// enqueue time and delivery count stay (SEQ-11, DLQ-10), the deadline becomes information
    /// (TTL-18).
    pub fn dead_letter(&mut self, detached: Detached) {
        self.move_out(detached, None);
    }

    fn move_out(&mut self, detached: Detached, due: Option<Timestamp>) {
        self.note(&detached, || dead_lettered(&detached.message, due));
        let Detached { queue, number, mut message, .. } = detached;
        self.delete_row(queue, number, &message);
        message.session = None; // DLQ-11. Its content still names it.
        self.insert_dead_letter(number, message);
    }

    /// Puts a message that is nowhere else into the dead-letter queue.
    pub fn enter_dead_letter(&mut self, number: SequenceNumber, message: MessageRow) {
        let step = || dead_lettered(&message, None);
        self.view.note_event(self.row, QueueId::main(self.id), number, step);
        self.insert_dead_letter(number, message);
    }

    fn insert_dead_letter(&mut self, number: SequenceNumber, mut message: MessageRow) {
        (message.deferred, message.was_scheduled) = (false, false); // DLQ-10.
        let ttl = self.row.properties.default_ttl;
        if message.lifetime == Lifetime::Derived && !ttl.is_max() {
            let expires_at = message.enqueued_at.plus(ttl);
            message.lifetime = self.view.level.inherited(ttl, expires_at);
        }
        self.state.counts.dead_lettered += 1;
        self.insert_row(QueueId::dead_letter(self.id), number, message);
    }

    /// FWD-14: moves a message that its destination did not take to the transfer dead-letter queue, in
    /// one step (DLQ-14, DLQ-16).
    pub fn fail_transfer(&mut self, mut detached: Detached, reason: &str, description: &str) {
        self.explain(&mut detached.message, reason, description);
        self.note(&detached, || dead_lettered(&detached.message, None));
        self.tally.count(Deed::DeadLetteredUnforwarded);
        let Detached { queue, number, message, .. } = detached;
        self.delete_row(queue, number, &message);
        self.state.counts.transfer_dead_lettered += 1;
        self.insert_row(QueueId::transfer_dead_letter(self.id), number, message);
    }

    /// Removes a message, body and all. The caller counts where it went.
    pub fn remove(&mut self, detached: Detached) {
        let Detached { queue, number, message, .. } = detached;
        self.delete_row(queue, number, &message);
        self.release_body(message.body);
        self.state.size_bytes -= u64::from(message.size_bytes);
    }

    /// Gives back a message's body: a copy's is the topic's while other copies share it.
    fn release_body(&mut self, body: SequenceNumber) {
        match self.row.topic() {
            None => self.view.delete(Key::Body(self.id, body)),
            Some(topic) => self.view.release_body(topic, body),
        }
    }

    fn insert_row(&mut self, queue: QueueId, number: SequenceNumber, message: MessageRow) {
        let place = self.places().available(queue, number, &message);
        self.view.insert(Key::Message(queue, number), Row::Message(message));
        self.places().enter(queue, number, place);
    }

    /// The message's row, deadline and count.
    fn delete_row(&mut self, queue: QueueId, number: SequenceNumber, message: &MessageRow) {
        self.view.delete(Key::Message(queue, number));
        let deferred = u64::from(message.deferred);
        match queue.sub {
            SubQueue::Main => {
                self.deadlines().remove_lifetime(number, message.lifetime);
                self.state.counts.deferred -= deferred;
                self.state.counts.active -= 1 - deferred;
                if let Some(session) = &message.session {
                    self.sessions().leave(session, message.deferred);
                }
            }
            SubQueue::DeadLetter => {
                self.state.counts.dead_lettered -= 1;
                self.state.dead_letter_deferred -= deferred;
            }
            SubQueue::Transfer => self.state.counts.transfer -= 1,
            SubQueue::TransferDeadLetter => {
                self.state.counts.transfer_dead_lettered -= 1;
                self.state.transfer_dead_letter_deferred -= deferred;
            }
        }
    }
}

/// As the message tells it itself (DLQ-8).
fn dead_lettered(message: &MessageRow, due: Option<Timestamp>) -> LifeStep {
    let told = |name| match message.overlay.as_ref().and_then(|overlay| overlay.set.get(name)) {
        Some(Value::String(text)) => text.as_str().into(),
        _ => Box::default(),
    };
    LifeStep::DeadLettered {
        reason: told(DEAD_LETTER_REASON),
        description: told(DEAD_LETTER_ERROR_DESCRIPTION),
        due,
    }
}
