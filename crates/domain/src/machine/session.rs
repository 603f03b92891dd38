//! Sessions of an entity that requires them (SESS): who may use which, and a file per command.

mod accept;
mod end;
mod lists;
mod receive;
mod state;

pub(super) use lists::{OpenSession, SessionLists};

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::messages::Messages;
use crate::machine::session::end::end_hold;
use crate::{
    APPLY_ROWS_MAX, Effect, Outcome, Refusal, ReleaseSession, RenewSession, Rows, SessionCommand,
    SessionEffect, SessionLock, SessionToken,
};

/// What moving one message costs at most, where its session moves with it: its row, its lists, its
/// deadline, its session's row, the session's place in line and the next oldest message.
pub(super) const SESSION_ROWS_PER_MESSAGE: usize = 20;

impl SessionCommand {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        match self {
            SessionCommand::Accept(command) => command.apply(step),
            SessionCommand::Receive(command) => command.apply(step),
            SessionCommand::Resume(command) => command.apply(step),
            SessionCommand::Renew(command) => command.apply(step),
            SessionCommand::Release(command) => command.apply(step),
            SessionCommand::SetState(command) => command.apply(step),
            SessionCommand::ReceiveDeferred(command) => command.apply(step),
            SessionCommand::DeleteBatch(command) => command.apply(step),
            SessionCommand::Fire(command) => Ok(command.apply(step)),
        }
    }
}

impl RenewSession {
    /// SESS-8. The token stays.
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        let mut lock = check_hold(&mut entity, &self.token)?;
        lock.until = entity.at.plus(entity.properties().lock_duration);
        let mut messages = entity.messages();
        let mut session = messages.sessions().open(&self.token.session);
        session.row.lock = Some(lock);
        messages.sessions().keep(session);
        tell_locked(&mut messages, self.token, lock);
        entity.used();
        Ok(Outcome::Renewed { until: vec![lock.until] })
    }
}

impl ReleaseSession {
    /// SESS-12: nothing is counted as delivered. What is too much for one command is left to
    /// `FireSessions`; the session is held no more in any case.
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        check_hold(&mut entity, &self.token)?;
        entity.used();
        let budget = entity.view.budget(APPLY_ROWS_MAX);
        end_hold(&mut entity.messages(), &self.token.session, None, budget, &mut |_| ());
        Ok(Outcome::Done)
    }
}

/// The lock of a session that is held by this token (SESS-13, TIME-5).
fn check_hold<R: Rows>(
    entity: &mut EntityStep<'_, R>,
    token: &SessionToken,
) -> Result<SessionLock, Refusal> {
    entity.row.check_receive(entity.main())?;
    entity.row.check_sessions()?;
    let lock = entity.view.session(entity.id, &token.session).and_then(|row| row.lock);
    let held = lock.filter(|lock| lock.nonce == token.nonce && entity.at < lock.until);
    held.ok_or_else(|| Refusal::SessionLockLost { session: Some(token.session.clone()) })
}

fn tell_locked<R: Rows>(messages: &mut Messages<'_, R>, token: SessionToken, lock: SessionLock) {
    let locked = SessionEffect::Locked { entity: messages.id, token, until: lock.until };
    messages.effects.push(Effect::Session(locked));
}
