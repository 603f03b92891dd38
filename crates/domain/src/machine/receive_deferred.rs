//! `ReceiveDeferred`: takes deferred messages by number, under locks (DEFER-2 to DEFER-4).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::read::{Shown, delivery};
use crate::{Key, Outcome, ReceiveDeferred, Refusal, Rows, validate};

impl ReceiveDeferred {
    /// All or nothing, with one exception: a message that ran out of time is refused, and by being
    /// asked for it expires (DEFER-8). One delivered too often is treated alike (LOCK-22).
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let queue = self.queue;
        let mut entity = step.open(queue.entity)?;
        entity.check_receive(queue)?;
        validate::count("number of messages in one request", self.numbers.len())?;
        let mut seen = BTreeSet::new();
        let mut found = Vec::with_capacity(self.numbers.len());
        let mut refusal = None;
        for number in self.numbers {
            let not_found = Refusal::MessageNotFound { sequence: number, needs: "deferred" };
            let message = entity.view.message(queue, number).filter(|message| message.deferred);
            let (true, Some(message)) = (seen.insert(number), message) else {
                refusal.get_or_insert(not_found);
                continue;
            };
            if entity.view.contains(&Key::Lock(queue, number)) {
                refusal.get_or_insert(not_found);
            } else if entity.is_expired(queue, &message) {
                entity.expire(number, message);
                refusal.get_or_insert(not_found);
            } else if entity.is_exhausted(queue, &message) {
                entity.exhaust(number, message);
                refusal.get_or_insert(not_found);
            } else {
                found.push((number, message));
            }
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let mut deliveries = Vec::with_capacity(found.len());
        for (number, message) in found {
            let shown = Shown::Delivered(entity.lock(queue, number, self.receiver));
            deliveries.push(delivery(&entity.entity.row, queue, number, message, shown));
        }
        entity.used();
        Ok(Outcome::Acquired { deliveries, more: false })
    }
}
