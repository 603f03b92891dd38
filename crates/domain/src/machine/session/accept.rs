//! `AcceptSession`: takes the lock of a session, of one by its id or of the next in line.

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::session::lists::OpenSession;
use crate::{
    APPLY_ROWS_MAX, AcceptSession, Key, Outcome, ReceiverId, Refusal, Row, Rows, SessionId,
    SessionLock, SessionToken, SubQueue, validate,
};

/// Messages past their time or their deliveries that one request for the next session clears away.
const CLEARED_MAX: usize = 128;

impl AcceptSession {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.queue.entity)?;
        entity.check_receive(self.queue)?;
        entity.check_sessions()?;
        if self.queue.sub != SubQueue::Main {
            return Err(Refusal::NotSupported { what: "a session in a dead-letter queue" });
        }
        validate::id("SessionId", self.session.as_ref().map(SessionId::as_str))?;
        let accepted = match &self.session {
            Some(id) => entity.accept_named(id, self.receiver)?,
            None => entity.accept_next(self.receiver)?,
        };
        entity.used();
        Ok(accepted)
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// SESS-6: also where there is no message.
    fn accept_named(&mut self, id: &SessionId, receiver: ReceiverId) -> Result<Outcome, Refusal> {
        let session = self.open_session(id);
        let Some(lock) = session.row.lock else { return Ok(self.grant(session, receiver)) };
        // One that lapsed ends here, should its timer be late (TIME-5).
        let budget = self.view.budget(APPLY_ROWS_MAX);
        match self.at >= lock.until && self.end_hold(id, lock.closed, budget, &mut |_| ()) {
            true => {
                let session = self.open_session(id);
                Ok(self.grant(session, receiver))
            }
            false => Err(Refusal::SessionCannotBeLocked { session: id.clone() }),
        }
    }

    /// SESS-7. A message that ran out of time gives its session no claim, even if its timer is late
    /// (TTL-9).
    fn accept_next(&mut self, receiver: ReceiverId) -> Result<Outcome, Refusal> {
        let queue = self.main();
        for _ in 0..CLEARED_MAX {
            let Some(id) = self.first_in_line() else { return Err(Refusal::NoSession) };
            let mut session = self.open_session(&id);
            let number = self.ready(&mut session, 1).pop().expect("who is in line has a message");
            let message = self.view.message(queue, number).expect("what is ready is stored");
            if self.is_expired(queue, &message) {
                self.detach(queue, number, message.session.as_ref());
                self.expire(number, message);
            } else if self.is_exhausted(queue, &message) {
                self.detach(queue, number, message.session.as_ref());
                self.exhaust(number, message);
            } else {
                return Ok(self.grant(session, receiver));
            }
        }
        self.watched().joined = true; // There may be more: whoever waits asks again.
        Err(Refusal::NoSession)
    }

    /// SESS-8, SESS-9.
    fn grant(&mut self, mut session: OpenSession, receiver: ReceiverId) -> Outcome {
        self.leave_line(&mut session);
        let nonce = self.nonces.draw();
        let until = self.at.plus(self.properties().lock_duration);
        let lock = SessionLock { nonce, until, receiver, closed: false };
        session.row.lock = Some(lock);
        let token = SessionToken { session: session.id.clone(), nonce };
        self.view.insert(Key::SessionLocked(self.id, session.id.clone()), Row::SessionLocked);
        self.watched().sessions.insert(session.id.clone());
        self.keep_session(session);
        self.tell_locked(token.clone(), lock);
        Outcome::Accepted { token, until }
    }
}
