//! What the holder of a session does with its messages: `ReceiveSession`, in order (SESS-10),
//! `ReceiveSessionDeferred`, by number (DEFER-10), and `DeleteSessionBatch` (BATCH-7).

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::session::SESSION_ROWS_PER_MESSAGE;
use crate::machine::view::Budget;
use crate::read::{Shown, delivery};
use crate::{
    APPLY_ROWS_MAX, DeleteSessionBatch, Delivery, MessageRow, Outcome, ReceiveSession,
    ReceiveSessionDeferred, Refusal, Rows, SequenceNumber, SessionId, SessionLock, validate,
};

/// Messages looked up at a time.
const CHUNK: usize = 64;

impl ReceiveSession {
    /// What ran out of time or of deliveries is met here as well (TTL-9, LOCK-22).
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        let lock = entity.check_hold(&self.token)?;
        entity.used();
        let budget = entity.view.budget(APPLY_ROWS_MAX);
        let mut taken = Taken { deliveries: Vec::new(), bytes: 0 };
        loop {
            let room = self.room(&entity, &taken, budget);
            let oldest = entity.oldest(&self.token.session, room);
            if oldest.is_empty() {
                break;
            }
            for (number, message) in oldest {
                if self.room(&entity, &taken, budget) == 0 {
                    break;
                }
                taken.take(&mut entity, &self, lock, number, message);
            }
        }
        let left = entity.open_session(&self.token.session).row.ready.count > 0;
        let more = left && taken.deliveries.len() < self.count_max as usize;
        Ok(Outcome::Acquired { deliveries: taken.deliveries, more })
    }

    /// How many more messages may be looked at.
    fn room<R: Rows>(
        &self,
        entity: &EntityStep<'_, '_, R>,
        taken: &Taken,
        budget: Budget,
    ) -> usize {
        if taken.bytes >= u64::from(self.bytes_max) && !taken.deliveries.is_empty() {
            return 0;
        }
        let affordable = entity.view.left(budget) / SESSION_ROWS_PER_MESSAGE;
        (self.count_max as usize - taken.deliveries.len()).min(affordable).min(CHUNK)
    }
}

/// What a receive handed out so far.
struct Taken {
    deliveries: Vec<Delivery>,
    bytes: u64,
}

impl Taken {
    fn take<R: Rows>(
        &mut self,
        entity: &mut EntityStep<'_, '_, R>,
        receive: &ReceiveSession,
        lock: SessionLock,
        number: SequenceNumber,
        message: MessageRow,
    ) {
        let queue = entity.main();
        entity.detach(queue, number, message.session.as_ref());
        if entity.is_expired(queue, &message) {
            entity.expire(number, message);
        } else if entity.is_exhausted(queue, &message) {
            entity.exhaust(number, message);
        } else {
            self.bytes += u64::from(message.size_bytes);
            let held = entity.hold(&receive.token.session, number, receive.receiver, lock.until);
            let shown = Shown::Delivered(held);
            self.deliveries.push(delivery(&entity.entity.row, queue, number, message, shown));
        }
    }
}

impl ReceiveSessionDeferred {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        let lock = entity.check_hold(&self.token)?;
        let hold = Some((&self.token, lock));
        entity.receive_deferred(entity.main(), self.receiver, self.numbers, hold)
    }
}

impl DeleteSessionBatch {
    /// As `DeleteBatch`: available messages only, and the walk ends at the first too young.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        entity.check_hold(&self.token)?;
        validate::delete_count(self.count_max)?;
        entity.used();
        let queue = entity.main();
        let before = self.before.unwrap_or(entity.at);
        let budget = entity.view.budget(APPLY_ROWS_MAX);
        let mut count = 0;
        loop {
            let wanted = (self.count_max - count) as usize;
            let room = entity.view.left(budget) / SESSION_ROWS_PER_MESSAGE;
            let oldest = entity.oldest(&self.token.session, wanted.min(room).min(CHUNK));
            if oldest.is_empty() {
                let left = entity.open_session(&self.token.session).row.ready.count > 0;
                return Ok(Outcome::Deleted { count, more: left && wanted > 0 });
            }
            for (number, message) in oldest {
                if message.enqueued_at >= before {
                    return Ok(Outcome::Deleted { count, more: false });
                }
                entity.detach(queue, number, message.session.as_ref());
                entity.remove(queue, number, &message);
                entity.state().counts.deleted += 1;
                count += 1;
            }
        }
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// The lowest available messages of a session.
    fn oldest(&mut self, id: &SessionId, count_max: usize) -> Vec<(SequenceNumber, MessageRow)> {
        let mut session = self.open_session(id);
        let numbers = self.ready(&mut session, count_max);
        self.keep_session(session);
        let stored = |number| {
            let message = self.view.message(self.main(), number);
            (number, message.expect("what is ready is stored"))
        };
        numbers.into_iter().map(stored).collect()
    }
}
