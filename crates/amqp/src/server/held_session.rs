//! What a settlement lost that was refused in a session: the session's lock, or only the message's
//! (SESS-13). A message that is gone tells nobody whose it was, so whoever asks says which session it holds.

use domain::{LockToken, Operation, Refusal, SessionToken};
use service::{Broker, Error};

/// The lock that an operation is told to have lost first.
pub(super) fn first_lock(operation: &Operation) -> Option<LockToken> {
    match operation {
        Operation::Settle(settle) => settle.settlements.first().map(|one| one.token),
        Operation::Send(_)
        | Operation::SendVia(_)
        | Operation::CancelScheduled(_)
        | Operation::Renew(_)
        | Operation::SetState(_) => None,
    }
}

/// As it was refused, or as the loss of `token` if `session` is held all the while. What cannot be found out
/// stays as it was said.
pub(super) async fn lost_lock(
    broker: &Broker,
    session: Option<&SessionToken>,
    token: Option<LockToken>,
    error: Error,
) -> Error {
    let (Some(session), Some(token)) = (session, token) else { return error };
    match error.refusal() {
        Some(Refusal::SessionLockLost { .. })
            if broker.sessions().is_held(&error.entity, session).await =>
        {
            Error::new(Refusal::MessageLockLost { token }, &*error.entity)
        }
        _ => error,
    }
}
