//! `DeleteBatch`: removes available messages without receiving them, oldest first (BATCH).

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::entity::EntityStep;
use crate::{
    APPLY_ROWS_MAX, DeleteBatch, MessageRow, Outcome, Refusal, Rows, SequenceNumber, Timestamp,
    validate,
};

/// Messages looked up at a time.
const CHUNK: usize = 256;

impl DeleteBatch {
    /// Locked, deferred and scheduled messages are neither returned nor fresh, so they stay
    /// (BATCH-4). Numbers follow enqueue times, so the walk ends at the first message too young.
    /// Deleted means deleted, also of expired ones (BATCH-8).
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let queue = self.queue;
        let mut entity = step.open(queue.entity)?;
        entity.check_receive(queue)?;
        entity.check_sessionless(queue)?; // BATCH-7.
        validate::delete_count(self.count_max)?;
        entity.used();
        let before = self.before.unwrap_or(entity.at);
        let sub = queue.sub as usize;
        let budget = entity.view.budget(APPLY_ROWS_MAX);
        let mut count = 0;
        loop {
            let wanted = (self.count_max - count) as usize;
            let room = entity.view.left(budget).div_ceil(ROWS_PER_MESSAGE);
            let left = entity.entity.state.available[sub] > 0;
            if wanted == 0 || room == 0 || !left {
                let more = left && wanted > 0;
                return Ok(Outcome::Deleted { count, more });
            }
            for (number, message) in self.oldest(&mut entity, wanted.min(room).min(CHUNK)) {
                if !self.delete(&mut entity, number, message, before) {
                    return Ok(Outcome::Deleted { count, more: false });
                }
                count += 1;
            }
        }
    }

    /// The lowest available messages: returned ones, or if there are none, fresh ones.
    fn oldest<R: Rows>(
        &self,
        entity: &mut EntityStep<'_, '_, R>,
        count_max: usize,
    ) -> Vec<(SequenceNumber, MessageRow)> {
        if entity.entity.state.returned[self.queue.sub as usize] == 0 {
            return entity.fresh(self.queue, count_max, u64::MAX);
        }
        let numbers = entity.returned(self.queue, count_max);
        let stored = |number| {
            let message = entity.view.message(self.queue, number);
            (number, message.expect("what is returned is stored"))
        };
        numbers.into_iter().map(stored).collect()
    }

    /// BATCH-2: strictly earlier only; false if the message is too young.
    fn delete<R: Rows>(
        &self,
        entity: &mut EntityStep<'_, '_, R>,
        number: SequenceNumber,
        message: MessageRow,
        before: Timestamp,
    ) -> bool {
        if message.enqueued_at >= before {
            return false;
        }
        let fresh = number >= entity.entity.state.fresh_head[self.queue.sub as usize];
        entity.detach(self.queue, number, message.session.as_ref());
        if fresh {
            entity.pass_head(self.queue, number);
        }
        entity.remove(self.queue, number, &message);
        entity.state().counts.deleted += 1;
        true
    }
}
