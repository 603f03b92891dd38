//! Operations on sessions.

use bytes::Bytes;
use domain::{Refusal, SESSIONS_PAGE_MAX, SessionToken};
use service::Error;

use super::OperationContext;
use crate::management::{ListedSessions, Reply};

impl OperationContext {
    pub(super) async fn renew_session(&self) -> Result<Reply, Error> {
        let renewed = self.broker.sessions().renew(&self.entity.name, self.token()?);
        renewed.await.map(Reply::SessionLockRenewed)
    }

    pub(super) async fn set_state(&self, state: Option<Bytes>) -> Result<Reply, Error> {
        self.broker.sessions().set_state(&self.entity.name, self.token()?, state).await?;
        Ok(Reply::Done)
    }

    pub(super) async fn state(&self) -> Result<Reply, Error> {
        let state = self.broker.sessions().state(&self.entity.name, self.token()?);
        state.await.map(Reply::SessionState)
    }

    /// Known to be held when the operation was taken.
    fn token(&self) -> Result<SessionToken, Error> {
        let lost = || self.refused(Refusal::SessionLockLost { session: None });
        self.session.clone().ok_or_else(lost)
    }

    /// SESS-17: `top` of them behind the first `skip`, in order of id.
    pub(super) async fn sessions(
        &self,
        filter: ListedSessions,
        skip: u32,
        top: u32,
    ) -> Result<Reply, Error> {
        let updated_after = match filter {
            ListedSessions::Active => None,
            ListedSessions::StateSetAfter(at) => Some(at),
        };
        let top = top.min(SESSIONS_PAGE_MAX as u32);
        if top == 0 {
            return Ok(Reply::Sessions { skip, ids: Vec::new() });
        }
        let (mut left_out, mut ids, mut from) = (skip, Vec::new(), None);
        loop {
            let wanted = left_out.saturating_add(top - ids.len() as u32);
            let count = wanted.min(SESSIONS_PAGE_MAX as u32);
            let page =
                self.broker.sessions().list(&self.entity.name, from, updated_after, count).await?;
            for session in page.sessions {
                match left_out {
                    0 => ids.push(session.session.to_string()),
                    _ => left_out -= 1,
                }
            }
            from = page.next;
            if from.is_none() || ids.len() >= top as usize {
                break;
            }
        }
        let skip = skip.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
        Ok(Reply::Sessions { skip, ids })
    }
}
