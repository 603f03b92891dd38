//! `FireLocks`: locks believed lapsed (LOCK-12). Each lock decides.

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::place::Move;
use crate::{APPLY_ROWS_MAX, DeliveryEnd, FireLocks, Fired, LockToken, Outcome, QueueId, Rows};

impl FireLocks {
    /// Locks that are gone or were renewed are passed over, so `more` asks for the same list again.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let mut fired = Fired::default();
        let mut lapsed = 0;
        for (queue, token) in self.locks {
            if lapsed == APPLY_ROWS_MAX as usize / ROWS_PER_MESSAGE {
                fired.more = true;
                break;
            }
            lapsed += usize::from(lapse(step, queue, token, &mut fired));
        }
        Outcome::Fired(fired)
    }
}

/// Ends a lock that lapsed; false if there is no such lock. It counts as a failed delivery unless
/// receiving was refused meanwhile: the receiver could not have settled (STATE-4).
fn lapse<R: Rows>(
    step: &mut Step<'_, R>,
    queue: QueueId,
    token: LockToken,
    fired: &mut Fired,
) -> bool {
    let Ok(mut entity) = step.open(queue.entity) else { return false };
    let mut messages = entity.messages();
    let Some((stored, until)) = messages.places().lapsed(queue, token) else { return false };
    let counts = !messages.row.properties.status.refuses_receive();
    let detached = messages.places().detach(stored, Move::Release);
    let fate = messages.release(detached, DeliveryEnd::Lapsed { until, counts }, false);
    fired.released += 1;
    fired.note(fate, until, messages.at);
    true
}
