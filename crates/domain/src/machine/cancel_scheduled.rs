//! `CancelScheduled`: removes messages that still wait for their time (SCHED-3, SCHED-4).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::machine::place::Move;
use crate::{
    CancelScheduled, DeadlineKind, Deed, EntityStatus, Key, LifeStep, Outcome, Refusal, Rows,
    validate,
};

impl CancelScheduled {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        entity.row.check_sendable()?;
        let status = entity.properties().status;
        // STATE-3: nothing leaves a disabled entity. SendDisabled refuses scheduling, not its end.
        if status == EntityStatus::Disabled {
            return Err(Refusal::EntityDisabled { status: status.as_str() });
        }
        validate::count("number of messages in one request", self.numbers.len())?;
        let mut seen = BTreeSet::new();
        let mut found = Vec::with_capacity(self.numbers.len());
        for number in self.numbers {
            match entity.view.scheduled(entity.id, number) {
                Some(row) if seen.insert(number) => found.push((number, row)),
                _ => {
                    return Err(Refusal::MessageNotFound { sequence: number, needs: "scheduled" });
                }
            }
        }
        let mut messages = entity.messages();
        for (number, row) in found {
            messages.deadlines().remove(DeadlineKind::Scheduled, row.due, number);
            messages.leave_schedule(number, &row, Move::Cancel);
            let queue = messages.main();
            messages.view.note_event(messages.row, queue, number, || LifeStep::Cancelled);
            messages.view.delete(Key::Body(messages.id, number));
            messages.state.size_bytes -= u64::from(row.size_bytes);
            messages.state.counts.cancelled += 1;
            messages.tally.count(Deed::Cancelled);
        }
        entity.used();
        Ok(Outcome::Done)
    }
}
