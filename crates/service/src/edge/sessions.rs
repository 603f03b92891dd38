//! Sessions, as front ends ask for them (SESS). A session's receiver is a [`Receiver`] that settles
//! and grants credit like any other; it ends with [`Refusal::SessionLockLost`] when its hold does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{
    AcceptSession, Command, DeleteSessionBatch, EntityId, LockToken, Namespace, Outcome,
    PEEK_MESSAGES_MAX, QualifiedName, QueueId, ReceiveSessionDeferred, Refusal, ReleaseSession,
    RenewSession, SequenceNumber, SessionCommand, SessionId, SessionPage, SessionToken,
    SetSessionState, SubQueue, Timestamp,
};
use tokio::time::timeout;

use crate::edge::address::Caller;
use crate::edge::messages::{DeletedParts, UNROUTED, acquired, check_count, out_of_range};
use crate::edge::profiles;
use crate::edge::receiver::{Next, ReceiveMode, Receiver, Refusals, Terms, unexpected};
use crate::edge::router::{Hold, Router, not_found};
use crate::error::{Error, Result};
use crate::exchange::{Read, ReadAnswer, Received, Wanted};
use crate::history::Attribution;

/// A session that was accepted.
pub struct Accepted {
    pub token: SessionToken,
    pub until: Timestamp,
    pub receiver: Receiver,
}

/// What is done to the sessions of a queue or subscription that requires them.
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    pub(super) router: &'a Arc<Router>,
    pub(super) by: &'a Attribution,
    pub(super) hold: Hold,
    pub(super) namespace: &'a Namespace,
}

impl Sessions<'_> {
    /// The sessions that are accepted through it hang on a connection to this node (LOCK-28).
    pub fn of_connection(self) -> Self {
        Sessions { hold: Hold::OfConnection, ..self }
    }

    /// NS-3.
    fn named(self, queue: &str) -> Result<QualifiedName> {
        self.namespace.qualify(queue).map_err(|refusal| Error::new(refusal, queue))
    }

    /// SESS-6: takes the lock of this session, at once or not at all.
    pub async fn accept(
        self,
        queue: &str,
        sub: SubQueue,
        session: SessionId,
        mode: ReceiveMode,
    ) -> Result<Accepted> {
        let name = &self.named(queue)?;
        let receiver = self.router.next_receiver(self.hold, mode, 1);
        let command = SessionCommand::Accept(AcceptSession {
            origin: None,
            queue: QueueId { entity: UNROUTED, sub },
            receiver,
            session: Some(session),
        });
        match self.in_session(queue, command, Caller::Edge).await? {
            Outcome::Accepted { token, until } => {
                let route = self.router.route(name, self.router.deadline()).await?;
                let wanted = Some(Wanted::Held(token.clone()));
                let terms = Terms { sub, mode, hold: self.hold, by: self.by.clone() };
                let receiver =
                    Receiver::attach(self.router.clone(), name.clone(), route, terms, 0, wanted);
                Ok(Accepted { token, until, receiver })
            }
            other => Err(unexpected(&other, queue.into())),
        }
    }

    /// SESS-7: waits up to `wait` for the next session that is free. One that is granted too late
    /// is given back.
    pub async fn accept_next(
        self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        wait: Duration,
    ) -> Result<Accepted> {
        let name = &self.named(queue)?;
        let route = self.router.route(name, self.router.deadline()).await?;
        let wanted = Some(Wanted::Next);
        let terms = Terms { sub, mode, hold: self.hold, by: self.by.clone() };
        let mut receiver =
            Receiver::attach(self.router.clone(), name.clone(), route, terms, 0, wanted);
        // At least as long as an answer takes where one is free.
        let wait = wait.max(Duration::from_millis(100));
        match timeout(wait, receiver.next()).await {
            Ok(Ok(Next::Accepted { token, until })) => Ok(Accepted { token, until, receiver }),
            Ok(Ok(Next::Messages(_) | Next::Drained | Next::Rose { .. })) => {
                Err(Error::new(Refusal::NoSession, queue))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::new(Refusal::NoSession, queue)),
        }
    }

    /// SESS-8: the new end of the hold.
    pub async fn renew(self, queue: &str, token: SessionToken) -> Result<Timestamp> {
        let renew = RenewSession { origin: None, entity: UNROUTED, token };
        match self.in_session(queue, SessionCommand::Renew(renew), Caller::Edge).await? {
            Outcome::Renewed { until } if until.len() == 1 => Ok(until[0]),
            other => Err(unexpected(&other, queue.into())),
        }
    }

    /// SESS-14: gives a session back.
    pub async fn release(self, queue: &str, token: SessionToken) -> Result<()> {
        let release = ReleaseSession { origin: None, entity: UNROUTED, token };
        self.in_session(queue, SessionCommand::Release(release), Caller::Edge).await.map(drop)
    }

    /// SESS-15; `None` clears.
    pub async fn set_state(
        self,
        queue: &str,
        token: SessionToken,
        state: Option<Bytes>,
    ) -> Result<()> {
        let set = SetSessionState { origin: None, entity: UNROUTED, token, state };
        self.in_session(queue, SessionCommand::SetState(set), Caller::Edge).await.map(drop)
    }

    /// SESS-15: `None` if it was never set, or cleared.
    pub async fn state(self, queue: &str, token: SessionToken) -> Result<Option<Bytes>> {
        let read = |entity| Read::SessionState { entity, token: token.clone() };
        match self.read_session(queue, read).await? {
            ReadAnswer::State(state) => Ok(state),
            _ => Err(not_found(queue)),
        }
    }

    /// Whether the session is held by who has this token.
    pub async fn is_held(self, queue: &str, token: &SessionToken) -> bool {
        self.state(queue, token.clone()).await.is_ok()
    }

    /// SESS-13: what a receiver that accepted the session is told of settlements that were refused: a
    /// message that is gone does not say whose it was, so while the session is held it is the message's
    /// lock that was lost. `tokens`: of the settlements.
    pub async fn told_lost(
        self,
        queue: &str,
        session: &SessionToken,
        tokens: &[LockToken],
        mut refusals: Refusals,
    ) -> Refusals {
        let is_lost = |refusal: &Refusal| matches!(refusal, Refusal::SessionLockLost { .. });
        if !refusals.iter().any(|(_, refusal)| is_lost(refusal))
            || !self.is_held(queue, session).await
        {
            return refusals;
        }
        for (at, refusal) in &mut refusals {
            if let (true, Some(token)) = (is_lost(refusal), tokens.get(*at as usize)) {
                *refusal = Refusal::MessageLockLost { token: *token };
            }
        }
        refusals
    }

    /// DEFER-10.
    pub async fn receive_deferred(
        self,
        queue: &str,
        token: SessionToken,
        mode: ReceiveMode,
        numbers: Vec<SequenceNumber>,
    ) -> Result<Vec<Received>> {
        let name = &self.named(queue)?;
        if numbers.is_empty() {
            let route = self.router.route(name, self.router.deadline()).await;
            return route.map(|_| Vec::new());
        }
        check_count("sequence_numbers", numbers.len(), queue)?;
        let receiver = self.router.next_receiver(self.hold, mode, 1);
        let (origin, entity) = (None, UNROUTED);
        let receive = ReceiveSessionDeferred { origin, entity, token, receiver, numbers };
        let command = Command::Session(SessionCommand::ReceiveDeferred(receive));
        let answer =
            self.router.execute(name, command, Caller::Edge, self.router.deadline()).await?;
        acquired(self.router, self.by, name, SubQueue::Main, mode, answer).await
    }

    /// PEEK-9.
    pub async fn peek(
        self,
        queue: &str,
        token: SessionToken,
        from: SequenceNumber,
        count_max: u32,
    ) -> Result<Vec<Received>> {
        if count_max == 0 {
            return Err(out_of_range("max_messages", count_max, "1 or more", queue));
        }
        let count_max = count_max.min(PEEK_MESSAGES_MAX);
        let read = |entity| Read::PeekSession { entity, token: token.clone(), from, count_max };
        match self.read_session(queue, read).await? {
            ReadAnswer::Messages(messages) => Ok(messages),
            _ => Err(not_found(queue)),
        }
    }

    /// BATCH-7: how many were deleted.
    pub async fn delete_batch(
        self,
        queue: &str,
        token: SessionToken,
        count_max: u32,
        before: Option<Timestamp>,
    ) -> Result<u32> {
        profiles::check_batch_deletion(self.router, self.namespace, count_max)
            .map_err(|refusal| Error::new(refusal, queue))?;
        let mut parts = DeletedParts::of(count_max);
        while let Some(count_max) = parts.wanted() {
            let (origin, entity, token) = (None, UNROUTED, token.clone());
            let delete = DeleteSessionBatch { origin, entity, token, count_max, before };
            let command = SessionCommand::DeleteBatch(delete);
            parts.take(self.in_session(queue, command, Caller::Edge).await, queue)?;
        }
        Ok(parts.deleted)
    }

    /// SESS-17: at most `count_max` sessions from `from` on.
    pub async fn list(
        self,
        queue: &str,
        from: Option<SessionId>,
        updated_after: Option<Timestamp>,
        count_max: u32,
    ) -> Result<SessionPage> {
        let read = |entity| Read::Sessions { entity, from: from.clone(), updated_after, count_max };
        match self.read_session(queue, read).await? {
            ReadAnswer::Sessions(page) => Ok(page),
            _ => Err(not_found(queue)),
        }
    }

    async fn in_session(
        self,
        queue: &str,
        command: SessionCommand,
        caller: Caller,
    ) -> Result<Outcome> {
        let name = &self.named(queue)?;
        let deadline = self.router.deadline();
        let answer = self.router.execute(name, Command::Session(command), caller, deadline).await?;
        Ok(answer.outcome)
    }

    async fn read_session(
        self,
        queue: &str,
        read: impl Fn(EntityId) -> Read,
    ) -> Result<ReadAnswer> {
        let name = &self.named(queue)?;
        self.router.read_entity(name, false, self.router.deadline(), read).await
    }
}
