//! A message's ways through an entity: in, locked, released, dead-lettered, out. Every row, count
//! and mark that a change of place touches is changed here and nowhere else.

use crate::machine::entity::EntityStep;
use crate::machine::overlay::explain;
use crate::{
    DeadlineKind, DeadlineRow, Effect, HeldLock, Key, Lifetime, LockRow, LockToken, MessageRow,
    QueueId, ReceiverId, Row, Rows, SequenceNumber, SessionId, Span, SubQueue, Timestamp,
};

/// What became of a message that was released, or that ran out of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Available again, or back among the deferred (DEFER-6).
    Kept,
    Dropped,
    DeadLettered,
}

/// DLQ-7.
const EXPIRED_REASON: &str = "TTLExpiredException";
const EXPIRED_DESCRIPTION: &str = "The message expired and was dead lettered.";
const DELIVERED_REASON: &str = "MaxDeliveryCountExceeded";

impl<R: Rows> EntityStep<'_, '_, R> {
    /// TTL-1 to TTL-4: the lifetime of a message enqueued now.
    pub fn lifetime(&self, ttl: Option<Span>) -> Lifetime {
        match ttl {
            None => Lifetime::Derived,
            Some(ttl) => {
                let ttl = ttl.min(self.properties().default_ttl);
                Lifetime::Fixed { ttl, expires_at: self.at.plus(ttl) }
            }
        }
    }

    /// Appends a message under a fresh number. Its body is stored already, or will be.
    pub fn append(&mut self, number: SequenceNumber, message: MessageRow) {
        self.add_lifetime(number, &message);
        self.state().counts.active += 1;
        if let Some(session) = message.session.clone() {
            self.join_session(&session, number);
        }
        self.view.insert(Key::Message(self.main(), number), Row::Message(message));
        self.rise(SubQueue::Main);
    }

    fn rise(&mut self, sub: SubQueue) {
        self.state().available[sub as usize] += 1;
        self.watched().rose[sub as usize] = true;
    }

    /// TIME-5. In a dead-letter queue nothing expires (TTL-18).
    pub fn is_expired(&self, queue: QueueId, message: &MessageRow) -> bool {
        queue.sub == SubQueue::Main && self.expires_at(message) <= self.at
    }

    /// TTL-24.
    pub fn expires_at(&self, message: &MessageRow) -> Timestamp {
        match message.lifetime {
            Lifetime::Fixed { expires_at, .. } => expires_at,
            Lifetime::Derived => message.enqueued_at.plus(self.properties().default_ttl),
        }
    }

    /// LOCK-21, LOCK-22; not in a dead-letter queue (DLQ-4).
    pub fn is_exhausted(&self, queue: QueueId, message: &MessageRow) -> bool {
        queue.sub == SubQueue::Main
            && message.delivery_count >= self.properties().max_delivery_count
    }

    /// Whether a stored message that is not deferred can be received.
    pub fn is_available(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        message: &MessageRow,
    ) -> bool {
        match &message.session {
            Some(session) => self.is_ready(session, number),
            None => {
                number >= self.entity.state.fresh_head[queue.sub as usize]
                    || self.view.contains(&Key::Returned(queue, number))
            }
        }
    }

    /// Takes an available message out of those that can be received.
    pub fn detach(&mut self, queue: QueueId, number: SequenceNumber, session: Option<&SessionId>) {
        let sub = queue.sub as usize;
        if let Some(session) = session {
            self.unlist_ready(session, number);
            self.state().available[sub] -= 1;
            return;
        }
        let is_fresh = number >= self.entity.state.fresh_head[sub];
        if !is_fresh {
            self.view.delete(Key::Returned(queue, number));
        }
        let state = self.state();
        state.available[sub] -= 1;
        if is_fresh {
            if state.fresh_head[sub] == number {
                state.fresh_head[sub] = number.next();
            }
        } else {
            state.returned[sub] -= 1;
            if state.returned_low[sub] == number {
                state.returned_low[sub] = number.next();
            }
        }
        // Nothing is fresh: whatever is sent next is at or above the next number.
        if queue.sub == SubQueue::Main && state.available[sub] == state.returned[sub] {
            state.fresh_head[sub] = state.next_sequence;
        }
    }

    /// A walk from the fresh head left nothing available up to and including this number.
    pub fn pass_head(&mut self, queue: QueueId, number: SequenceNumber) {
        let head = &mut self.state().fresh_head[queue.sub as usize];
        *head = (*head).max(number.next());
    }

    /// Makes a message that no receiver holds available: below the fresh head by a row.
    fn attach(&mut self, queue: QueueId, number: SequenceNumber, session: Option<&SessionId>) {
        let sub = queue.sub as usize;
        if let Some(session) = session {
            self.list_ready(session, number);
        } else if number < self.entity.state.fresh_head[sub] {
            self.view.insert(Key::Returned(queue, number), Row::Returned);
            let state = self.state();
            let low = &mut state.returned_low[sub];
            *low = if state.returned[sub] == 0 { number } else { (*low).min(number) };
            state.returned[sub] += 1;
        }
        self.rise(queue.sub);
    }

    /// LOCK-4 to LOCK-6. The message is detached or deferred.
    pub fn lock(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        receiver: ReceiverId,
    ) -> HeldLock {
        let nonce = self.nonces.draw();
        let until = self.at.plus(self.properties().lock_duration);
        let token = LockToken { sequence: number, nonce };
        self.view.insert(Key::Lock(queue, number), Row::Lock(LockRow { nonce, until, receiver }));
        self.effects.push(Effect::Locked { queue, token, until });
        HeldLock { token, until }
    }

    /// The lock of a token, if it is held (LOCK-14, TIME-5).
    pub fn held(&mut self, queue: QueueId, token: LockToken) -> Option<LockRow> {
        let lock = self.view.lock(queue, token.sequence)?;
        (lock.nonce == token.nonce && self.at < lock.until).then_some(lock)
    }

    /// Ends the lock of a message, which its session's lock may cover (SESS-10).
    pub fn unlock(&mut self, queue: QueueId, token: LockToken, message: &MessageRow) {
        if let Some(session) = &message.session {
            self.unhold(session, token.sequence);
            return;
        }
        self.view.delete(Key::Lock(queue, token.sequence));
        self.effects.push(Effect::Unlocked { queue, token });
    }

    /// What is stored of a message changed in size.
    pub fn resized(&mut self, before: u32, after: u32) {
        let size = &mut self.state().size_bytes;
        *size = *size - u64::from(before) + u64::from(after);
    }

    /// A delivery that was not completed ends; its lock is gone already. The order is TIME-7's:
    /// count, expiry (TTL-12, TTL-16), maximum delivery count (LOCK-21), availability. `modified`:
    /// the row differs from the stored one already.
    pub fn release(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        mut message: MessageRow,
        counted: bool,
        modified: bool,
    ) -> Fate {
        if counted {
            message.delivery_count = message.delivery_count.saturating_add(1);
        }
        if self.properties().status.is_suspended() {
            // STATE-3: expiry waits for the entity's return.
            self.rearm(queue, number, &message);
        } else if self.is_expired(queue, &message) {
            return self.expire(number, message);
        } else if self.is_exhausted(queue, &message) {
            return self.exhaust(number, message);
        }
        let (deferred, session) = (message.deferred, message.session.clone());
        if counted || modified {
            self.view.replace(Key::Message(queue, number), Row::Message(message));
        }
        match (deferred, &session) {
            (false, session) => self.attach(queue, number, session.as_ref()),
            (true, Some(session)) => self.list_deferred(session, number),
            (true, None) => (),
        }
        Fate::Kept
    }

    /// Puts the deadline of a message back that was passed while a lock shielded it.
    fn rearm(&mut self, queue: QueueId, number: SequenceNumber, message: &MessageRow) {
        if message.deferred || !self.is_expired(queue, message) {
            return;
        }
        match message.lifetime {
            Lifetime::Fixed { expires_at, .. } => {
                let key = Key::Deadline(self.id, DeadlineKind::Fixed, expires_at, number);
                self.view.put(key, Row::Deadline(None));
                self.lower_mark(DeadlineKind::Fixed, expires_at, number);
            }
            Lifetime::Derived => self.search_derived_from(number),
        }
    }

    /// Moves the derived cursor back, so that the search does not miss this number.
    pub fn search_derived_from(&mut self, number: SequenceNumber) {
        let state = self.state();
        state.derived_cursor = state.derived_cursor.min(number);
        self.stale().derived = true;
    }

    /// TTL-17: of the main queue, neither available nor locked any more. What to do is read from
    /// the entity now (TTL-30).
    pub fn expire(&mut self, number: SequenceNumber, message: MessageRow) -> Fate {
        if self.properties().dead_letter_on_expiration {
            self.explain_and_move(number, message, EXPIRED_REASON, EXPIRED_DESCRIPTION);
            return Fate::DeadLettered;
        }
        self.remove(self.main(), number, &message);
        self.state().counts.expired += 1;
        Fate::Dropped
    }

    /// Drops a message by its deadline (TTL-9), without its row: it is fresh, so nothing has changed
    /// since it came.
    pub fn drop_fresh(&mut self, number: SequenceNumber, message: &DeadlineRow) {
        let queue = self.main();
        self.detach(queue, number, None);
        self.view.delete(Key::Message(queue, number));
        self.pass_cursor(number);
        self.release_body(message.body);
        let state = self.state();
        state.size_bytes -= u64::from(message.size_bytes);
        state.counts.active -= 1;
        state.counts.expired += 1;
    }

    /// LOCK-21: as [`EntityStep::expire`], for a message delivered too often.
    pub fn exhaust(&mut self, number: SequenceNumber, message: MessageRow) -> Fate {
        let description = format!(
            "Message could not be consumed after {} delivery attempts.",
            message.delivery_count
        );
        self.explain_and_move(number, message, DELIVERED_REASON, &description);
        Fate::DeadLettered
    }

    /// DLQ-8, and what that adds to its size.
    pub fn explain(&mut self, message: &mut MessageRow, reason: &str, description: &str) {
        let before = message.size_bytes;
        explain(message, Some(reason), Some(description), [false; 2]);
        self.resized(before, message.size_bytes);
    }

    pub fn explain_and_move(
        &mut self,
        number: SequenceNumber,
        mut message: MessageRow,
        reason: &str,
        description: &str,
    ) {
        self.explain(&mut message, reason, description);
        self.dead_letter(number, message);
    }

    /// Moves a message of the main queue to the dead-letter queue, in one step (DLQ-14): number,
    /// enqueue time and delivery count stay (SEQ-11, DLQ-10), the deadline becomes information
    /// (TTL-18).
    pub fn dead_letter(&mut self, number: SequenceNumber, mut message: MessageRow) {
        self.leave(self.main(), number, &message);
        message.deferred = false;
        message.session = None; // DLQ-11. Its content still names it.
        self.enter_dead_letter(number, message);
    }

    /// FWD-14: moves a message that its destination did not take to the transfer dead-letter queue, in
    /// one step (DLQ-14, DLQ-16).
    pub fn fail_transfer(
        &mut self,
        number: SequenceNumber,
        mut message: MessageRow,
        reason: &str,
        description: &str,
    ) {
        self.explain(&mut message, reason, description);
        self.leave(self.queue(SubQueue::Transfer), number, &message);
        let queue = self.queue(SubQueue::TransferDeadLetter);
        self.view.insert(Key::Message(queue, number), Row::Message(message));
        self.state().counts.transfer_dead_lettered += 1;
        self.attach(queue, number, None);
    }

    /// Puts a message that is nowhere else into the dead-letter queue.
    pub fn enter_dead_letter(&mut self, number: SequenceNumber, mut message: MessageRow) {
        if message.lifetime == Lifetime::Derived && !self.properties().default_ttl.is_max() {
            let ttl = self.properties().default_ttl;
            message.lifetime = Lifetime::Fixed { ttl, expires_at: message.enqueued_at.plus(ttl) };
        }
        let queue = self.queue(SubQueue::DeadLetter);
        self.view.insert(Key::Message(queue, number), Row::Message(message));
        self.state().counts.dead_lettered += 1;
        self.attach(queue, number, None);
    }

    /// Removes a message that is neither available nor locked any more, body and all. The caller
    /// counts where it went.
    pub fn remove(&mut self, queue: QueueId, number: SequenceNumber, message: &MessageRow) {
        self.leave(queue, number, message);
        self.release_body(message.body);
        self.state().size_bytes -= u64::from(message.size_bytes);
    }

    /// The message's row, deadline and count.
    fn leave(&mut self, queue: QueueId, number: SequenceNumber, message: &MessageRow) {
        self.view.delete(Key::Message(queue, number));
        let deferred = u64::from(message.deferred);
        match queue.sub {
            SubQueue::Main => {
                self.remove_lifetime(number, message.lifetime);
                let counts = &mut self.state().counts;
                counts.deferred -= deferred;
                counts.active -= 1 - deferred;
                if let Some(session) = &message.session {
                    self.leave_session(session, message.deferred);
                }
            }
            SubQueue::DeadLetter => {
                let state = self.state();
                state.counts.dead_lettered -= 1;
                state.dead_letter_deferred -= deferred;
            }
            SubQueue::Transfer => self.state().counts.transfer -= 1,
            SubQueue::TransferDeadLetter => {
                let state = self.state();
                state.counts.transfer_dead_lettered -= 1;
                state.transfer_dead_letter_deferred -= deferred;
            }
        }
    }
}
