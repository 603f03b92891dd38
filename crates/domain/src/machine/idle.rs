//! `Seal`: what ends a temporary entity (IDLE).

use crate::machine::Step;
use crate::{Idleness, Outcome, Refusal, Rows, Seal};

/// Asked by a leader whose clock was ahead of its successor's.
const EARLY: &str = "the entity is not idle for long enough yet";

impl Seal {
    /// Spared is spared for good: what was used since `idle_since`, or has scheduled messages, or is
    /// no more temporary, no repeat of this seal deletes, so an intent can be withdrawn while others
    /// may still try to finish it. One that comes early is refused instead, and can be asked again.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        // A topic is used with its subscriptions, by this entry as well (IDLE-2).
        step.charge_topics();
        let meta = step.meta;
        let Ok(entity) = step.open(self.entity) else {
            return step.check_not_relocated(self.entity).map(|()| Outcome::Done);
        };
        match Idleness::of(entity.properties(), entity.state, &meta) {
            Idleness::Since { since, .. } if since > self.idle_since => Ok(Outcome::Spared),
            Idleness::Since { due, .. } if due > entity.at => {
                Err(Refusal::InvalidOperation { why: EARLY })
            }
            Idleness::Since { .. } => step.delete_entity(self.entity),
            Idleness::Scheduled | Idleness::Never => Ok(Outcome::Spared),
        }
    }
}
