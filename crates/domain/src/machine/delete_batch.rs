//! `DeleteBatch`: removes available messages without receiving them, oldest first (BATCH).

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::place::Move;
use crate::{APPLY_ROWS_MAX, Deed, DeleteBatch, LifeStep, Outcome, Refusal, Rows, validate};

/// Messages looked up at a time.
const CHUNK: usize = 256;

impl DeleteBatch {
    /// Locked, deferred and scheduled messages are neither returned nor fresh, so they stay
    /// (BATCH-4). Numbers follow enqueue times, so the walk ends at the first message too young.
    /// Deleted means deleted, also of expired ones (BATCH-8).
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let queue = self.queue;
        let owner = step.open(queue.entity)?.row.topic().unwrap_or(queue.entity);
        let is_partitioned = step.open(owner)?.properties().enable_partitioning;
        let mut entity = step.open(queue.entity)?;
        entity.row.check_receive(queue)?;
        if is_partitioned {
            let why = "messages of a partitioned entity cannot be deleted in batches; receive them";
            return Err(Refusal::InvalidOperation { why }); // BATCH-6.
        }
        entity.row.check_sessionless(queue)?; // BATCH-7.
        validate::delete_count(self.count_max)?;
        entity.used();
        let mut messages = entity.messages();
        let before = self.before.unwrap_or(messages.at);
        let sub = queue.sub as usize;
        let budget = messages.view.budget(APPLY_ROWS_MAX);
        let mut count = 0;
        loop {
            let wanted = (self.count_max - count) as usize;
            let room = messages.view.left(budget).div_ceil(ROWS_PER_MESSAGE);
            let left = messages.state.available[sub] > 0;
            if wanted == 0 || room == 0 || !left {
                let more = left && wanted > 0;
                return Ok(Outcome::Deleted { count, more });
            }
            let count_max = wanted.min(room).min(CHUNK);
            for stored in messages.places().lowest(queue, count_max, u64::MAX) {
                // BATCH-2: strictly earlier only.
                if stored.message.enqueued_at >= before {
                    return Ok(Outcome::Deleted { count, more: false });
                }
                let detached = messages.places().detach_lowest(stored, Move::Delete);
                messages.note(&detached, || LifeStep::Deleted);
                messages.remove(detached);
                messages.state.counts.deleted += 1;
                messages.tally.count(Deed::Deleted);
                count += 1;
            }
        }
    }
}
