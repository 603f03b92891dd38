//! Sessions of an entity that requires them (SESS): who may use which, and a file per command.

mod accept;
mod end;
mod lists;
mod receive;
mod state;

use crate::machine::Step;
use crate::machine::entity::{EntityStep, Watch};
use crate::{
    APPLY_ROWS_MAX, Effect, LockToken, MessageRow, Outcome, QueueId, Refusal, ReleaseSession,
    RenewSession, Rows, SessionCommand, SessionEffect, SessionLock, SessionRow, SessionToken,
    SubQueue,
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
        let mut lock = entity.check_hold(&self.token)?;
        lock.until = entity.at.plus(entity.properties().lock_duration);
        let mut session = entity.open_session(&self.token.session);
        session.row.lock = Some(lock);
        entity.keep_session(session);
        entity.tell_locked(self.token, lock);
        entity.used();
        Ok(Outcome::Renewed { until: vec![lock.until] })
    }
}

impl ReleaseSession {
    /// SESS-12: nothing is counted as delivered. What is too much for one command is left to
    /// `FireSessions`; the session is held no more in any case.
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        entity.check_hold(&self.token)?;
        entity.used();
        let budget = entity.view.budget(APPLY_ROWS_MAX);
        entity.end_hold(&self.token.session, true, budget, &mut |_| ());
        Ok(Outcome::Done)
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// Whether a queue is received from by session only (SESS-2, DLQ-11).
    pub fn needs_session(&self, queue: QueueId) -> bool {
        queue.sub == SubQueue::Main && self.properties().requires_session
    }

    /// LOCK-26, for those who name no session.
    pub fn check_sessionless(&self, queue: QueueId) -> Result<(), Refusal> {
        match self.needs_session(queue) {
            true => {
                let why = "this entity requires sessions; accept a session first";
                Err(Refusal::InvalidOperation { why })
            }
            false => Ok(()),
        }
    }

    /// LOCK-26, for those who name one.
    fn check_sessions(&self) -> Result<(), Refusal> {
        match self.properties().requires_session {
            true => Ok(()),
            false => {
                let why = "this entity has no sessions; it was created without them";
                Err(Refusal::InvalidOperation { why })
            }
        }
    }

    /// The lock of a session that is held by this token (SESS-13, TIME-5).
    fn check_hold(&mut self, token: &SessionToken) -> Result<SessionLock, Refusal> {
        self.check_receive(self.main())?;
        self.check_sessions()?;
        let lock = self.view.session(self.id, &token.session).and_then(|row| row.lock);
        let held = lock.filter(|lock| lock.nonce == token.nonce && self.at < lock.until);
        held.ok_or_else(|| Refusal::SessionLockLost { session: Some(token.session.clone()) })
    }

    /// What a refused settlement lost: in a session, its session (SESS-13).
    pub fn lock_lost(&mut self, queue: QueueId, token: LockToken) -> Refusal {
        match self.needs_session(queue) {
            true => {
                let message = self.view.message(queue, token.sequence);
                let session = message.and_then(|message| message.session);
                Refusal::SessionLockLost { session }
            }
            false => Refusal::MessageLockLost { token },
        }
    }

    /// A message that is held by this token under its session's lock.
    pub fn held_in_session(&mut self, token: LockToken) -> Result<MessageRow, Refusal> {
        let (queue, number) = (self.main(), token.sequence);
        let Some(message) = self.view.message(queue, number) else {
            return Err(self.lock_lost(queue, token));
        };
        let Some(session) = &message.session else { return Err(self.lock_lost(queue, token)) };
        let held = self.view.session_held(self.id, session, number);
        let lock = self.view.session(self.id, session).and_then(|row| row.lock);
        let holds = held.is_some_and(|held| held.nonce == token.nonce)
            && lock.is_some_and(|lock| self.at < lock.until);
        match holds {
            true => Ok(message),
            false => Err(self.lock_lost(queue, token)),
        }
    }

    fn tell_locked(&mut self, token: SessionToken, lock: SessionLock) {
        let locked = SessionEffect::Locked { entity: self.id, token, until: lock.until };
        self.effects.push(Effect::Session(locked));
    }

    /// Tells the engine what an entry changed of sessions.
    pub fn tell_sessions(&mut self, before: Watch) {
        let (entity, count) = (self.id, self.entity.acceptable());
        if count != before.free || (before.joined && count > 0) {
            self.effects.push(Effect::Session(SessionEffect::Free { entity, count }));
        }
        for session in before.sessions {
            let row = self.view.session(entity, &session);
            if let Some(SessionRow { lock: Some(_), ready, .. }) = row.as_deref() {
                let ready = SessionEffect::Ready { entity, session, count: ready.count };
                self.effects.push(Effect::Session(ready));
            }
        }
    }
}
