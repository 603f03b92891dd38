//! `Select`: hands out messages by number, wherever in the queue they are (SEL-6).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::place::Move;
use crate::{APPLY_ROWS_MAX, Outcome, Refusal, Rows, Select, validate};

impl Select {
    /// Says that there is more where not every number was looked at: so many messages lay before one of
    /// them. What was done of that stays done, so whoever asks again gets further.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.queue.entity)?;
        entity.row.check_take(self.queue)?;
        entity.row.check_sessionless(self.queue)?;
        validate::count("number of messages in one request", self.numbers.len())?;
        entity.used();
        let mut messages = entity.messages();
        let budget = messages.view.budget(APPLY_ROWS_MAX);
        let (mut deliveries, mut more) = (Vec::new(), false);
        for number in self.numbers.into_iter().collect::<BTreeSet<_>>() {
            if messages.view.left(budget) < ROWS_PER_MESSAGE {
                more = true;
                break;
            }
            let Some(message) = messages.view.message(self.queue, number) else { continue };
            let stored = messages.places().locate(self.queue, number, message);
            if !stored.allows(Move::Receive) {
                continue;
            }
            if stored.is_fresh() {
                let rows_max = messages.view.left(budget).saturating_sub(ROWS_PER_MESSAGE);
                if !messages.places().advance_head(self.queue, number, rows_max) {
                    more = true;
                    break;
                }
            }
            let detached = messages.places().detach(stored, Move::Receive);
            // What ran out of time or of deliveries ends by being met here, as in an acquire.
            if let Ok(fit) = messages.fit(detached) {
                deliveries.push(messages.deliver(fit, self.receiver));
            }
        }
        Ok(Outcome::Acquired { deliveries, more })
    }
}
