//! `AcceptSession`: takes the lock of a session, of one by its id or of the next in line.

use crate::machine::Step;
use crate::machine::messages::Messages;
use crate::machine::place::Move;
use crate::machine::session::end::end_hold;
use crate::machine::session::{OpenSession, tell_locked};
use crate::{
    APPLY_ROWS_MAX, AcceptSession, Key, Outcome, ReceiverId, Refusal, Row, Rows, SessionId,
    SessionLock, SessionToken, SubQueue, validate,
};

/// Messages past their time or their deliveries that one request for the next session clears away.
const CLEARED_MAX: usize = 128;

impl AcceptSession {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.queue.entity)?;
        entity.row.check_receive(self.queue)?;
        entity.row.check_sessions()?;
        if self.queue.sub != SubQueue::Main {
            return Err(Refusal::NotSupported { what: "a session in a dead-letter queue" });
        }
        validate::id("SessionId", self.session.as_ref().map(SessionId::as_str))?;
        let accepted = match &self.session {
            Some(id) => named(&mut entity.messages(), id, self.receiver)?,
            None => next(&mut entity.messages(), self.receiver)?,
        };
        entity.used();
        Ok(accepted)
    }
}

/// SESS-6: also where there is no message.
fn named<R: Rows>(
    messages: &mut Messages<'_, R>,
    id: &SessionId,
    receiver: ReceiverId,
) -> Result<Outcome, Refusal> {
    let session = messages.sessions().open(id);
    let Some(lock) = session.row.lock else { return Ok(grant(messages, session, receiver)) };
    // One that lapsed ends here, should its timer be late (TIME-5).
    let budget = messages.view.budget(APPLY_ROWS_MAX);
    let lapsed = messages.at >= lock.until;
    match lapsed && end_hold(messages, id, lock.lapsed(), budget, &mut |_| ()) {
        true => {
            let session = messages.sessions().open(id);
            Ok(grant(messages, session, receiver))
        }
        false => Err(Refusal::SessionCannotBeLocked { session: id.clone() }),
    }
}

/// SESS-7. A message that ran out of time gives its session no claim, even if its timer is late
/// (TTL-9).
fn next<R: Rows>(messages: &mut Messages<'_, R>, receiver: ReceiverId) -> Result<Outcome, Refusal> {
    for _ in 0..CLEARED_MAX {
        let Some(id) = messages.sessions().first_in_line() else { return Err(Refusal::NoSession) };
        let mut session = messages.sessions().open(&id);
        let first = messages.places().lowest_in(&mut session, 1).pop();
        let first = first.expect("a session in line has a message");
        if !messages.ends(first.queue, &first.message) {
            return Ok(grant(messages, session, receiver));
        }
        messages.end(first, Move::Receive);
    }
    messages.watch.joined = true; // There may be more: whoever waits asks again.
    Err(Refusal::NoSession)
}

/// SESS-8, SESS-9.
fn grant<R: Rows>(
    messages: &mut Messages<'_, R>,
    mut session: OpenSession,
    receiver: ReceiverId,
) -> Outcome {
    let nonce = messages.nonces.draw();
    let until = messages.at.plus(messages.row.properties.lock_duration);
    let lock = SessionLock { nonce, until, receiver, closed: false };
    let token = SessionToken { session: session.id.clone(), nonce };
    let mut sessions = messages.sessions();
    sessions.leave_line(&mut session);
    session.row.lock = Some(lock);
    let key = Key::SessionLocked(sessions.id, session.id.clone());
    sessions.view.insert(key, Row::SessionLocked);
    sessions.watch.sessions.insert(session.id.clone());
    sessions.keep(session);
    tell_locked(messages, token.clone(), lock);
    Outcome::Accepted { token, until }
}
