//! `FireLocks`: locks believed lapsed (LOCK-12). Each lock decides.

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::{APPLY_ROWS_MAX, FireLocks, Fired, LockToken, Outcome, QueueId, Rows, Timestamp};

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
            lapsed += usize::from(step.lapse(queue, token, &mut fired).is_some());
        }
        Outcome::Fired(fired)
    }
}

impl<R: Rows> Step<'_, R> {
    /// Ends a lock that lapsed; `None` if there is no such lock. It counts as a failed delivery
    /// unless receiving was refused meanwhile: the receiver could not have settled (STATE-4).
    fn lapse(&mut self, queue: QueueId, token: LockToken, fired: &mut Fired) -> Option<Timestamp> {
        let mut entity = self.open(queue.entity).ok()?;
        let lock = entity.view.lock(queue, token.sequence)?;
        if lock.nonce != token.nonce || entity.at < lock.until {
            return None;
        }
        let message = entity.view.message(queue, token.sequence);
        let message = message.expect("what is locked is stored");
        let counted = !entity.properties().status.refuses_receive();
        entity.unlock(queue, token, &message);
        let fate = entity.release(queue, token.sequence, message, counted, false);
        fired.released += 1;
        fired.note(fate, lock.until, entity.at);
        Some(lock.until)
    }
}
