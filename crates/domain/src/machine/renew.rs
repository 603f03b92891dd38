//! `Renew`: a lock begins anew (LOCK-13), also of an expired message (TTL-15).

use crate::machine::Step;
use crate::{Deed, LifeStep, LockRow, Outcome, Refusal, Renew, Rows, validate};

impl Renew {
    /// All or nothing. The token stays.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let queue = self.queue;
        let mut entity = step.open(queue.entity)?;
        entity.row.check_receive(queue)?;
        if entity.row.needs_session(queue) {
            let why = "a message in a session is locked as long as its session; renew that";
            return Err(Refusal::InvalidOperation { why }); // SESS-10.
        }
        validate::count("number of locks in one request", self.tokens.len())?;
        let mut messages = entity.messages();
        let mut locks = Vec::with_capacity(self.tokens.len());
        for token in self.tokens {
            let lock =
                messages.places().held(queue, token).ok_or(Refusal::MessageLockLost { token })?;
            locks.push((token, lock));
        }
        let until = messages.at.plus(messages.row.properties.lock_duration);
        for (token, lock) in &locks {
            messages.places().renew(queue, token.sequence, LockRow { until, ..*lock });
            let step = || LifeStep::LockRenewed { until };
            messages.view.note_event(messages.row, queue, token.sequence, step);
            messages.tally.count(Deed::LockRenewed);
        }
        entity.used();
        Ok(Outcome::Renewed { until: vec![until; locks.len()] })
    }
}
