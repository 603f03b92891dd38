//! Calls about sessions (SESS).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::calls::{Repeat, Shared};
use crate::nodes::Node;
use crate::{Client, Delivery, Error, v1};

/// Sessions in one page of a listing.
const PAGE_SIZE: u32 = 500;

impl Client {
    /// SESS-17: sessions with active messages or a state, or, given an instant, those whose state
    /// was set after it.
    pub async fn sessions(
        &self,
        queue: &str,
        updated_after_ms: Option<u64>,
    ) -> Result<Vec<v1::SessionInfo>, Error> {
        let mut sessions = Vec::new();
        let mut from = None;
        loop {
            let attempt = |node: Arc<Node>, _| {
                let request = node.request(v1::ListSessionsRequest {
                    queue: queue.to_owned(),
                    updated_after_ms,
                    page_size: PAGE_SIZE,
                    from: from.clone(),
                });
                async move { node.sessions().list_sessions(request).await }
            };
            let page = self.shared.call(Repeat::Always, self.patience(), attempt).await?;
            sessions.extend(page.sessions);
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(sessions),
            }
        }
    }
}

impl Shared {
    fn patience(&self) -> Duration {
        self.nodes.options().attempt_timeout
    }

    pub(crate) async fn renew_session(
        &self,
        queue: &str,
        token: &v1::SessionToken,
    ) -> Result<u64, Error> {
        let attempt = |node: Arc<Node>, _| {
            let (queue, token) = (queue.to_owned(), Some(token.clone()));
            let request = node.request(v1::RenewSessionRequest { queue, token });
            async move { node.sessions().renew_session(request).await }
        };
        let answer = self.call(Repeat::Always, self.patience(), attempt).await?;
        Ok(answer.locked_until_ms)
    }

    pub(crate) async fn release_session(
        &self,
        queue: &str,
        token: &v1::SessionToken,
    ) -> Result<(), Error> {
        let attempt = |node: Arc<Node>, _| {
            let (queue, token) = (queue.to_owned(), Some(token.clone()));
            let request = node.request(v1::ReleaseSessionRequest { queue, token });
            async move { node.sessions().release_session(request).await }
        };
        self.call(Repeat::Always, self.patience(), attempt).await.map(|_| ())
    }

    pub(crate) async fn session_state(
        &self,
        queue: &str,
        token: &v1::SessionToken,
    ) -> Result<Option<Bytes>, Error> {
        let attempt = |node: Arc<Node>, _| {
            let (queue, token) = (queue.to_owned(), Some(token.clone()));
            let request = node.request(v1::GetSessionStateRequest { queue, token });
            async move { node.sessions().get_session_state(request).await }
        };
        Ok(self.call(Repeat::Always, self.patience(), attempt).await?.state)
    }

    pub(crate) async fn set_session_state(
        &self,
        queue: &str,
        token: &v1::SessionToken,
        state: Option<Bytes>,
    ) -> Result<(), Error> {
        let attempt = |node: Arc<Node>, _| {
            let (queue, token) = (queue.to_owned(), Some(token.clone()));
            let state = state.clone();
            let request = node.request(v1::SetSessionStateRequest { queue, token, state });
            async move { node.sessions().set_session_state(request).await }
        };
        self.call(Repeat::Always, self.patience(), attempt).await.map(|_| ())
    }

    pub(crate) async fn receive_session_deferred(
        &self,
        queue: &str,
        token: &v1::SessionToken,
        numbers: Vec<u64>,
    ) -> Result<Vec<Delivery>, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::ReceiveSessionDeferredRequest {
                queue: queue.to_owned(),
                token: Some(token.clone()),
                mode: v1::ReceiveMode::PeekLock as i32,
                sequence_numbers: numbers.clone(),
            });
            async move { node.sessions().receive_session_deferred(request).await }
        };
        let answer = self.call(Repeat::IfNotDone, self.patience(), attempt).await?;
        Ok(answer.messages.into_iter().map(Delivery::from).collect())
    }

    pub(crate) async fn peek_session(
        &self,
        queue: &str,
        token: &v1::SessionToken,
        from: u64,
        count_max: u32,
    ) -> Result<Vec<Delivery>, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::PeekSessionRequest {
                queue: queue.to_owned(),
                token: Some(token.clone()),
                from_sequence_number: from,
                max_messages: count_max,
            });
            async move { node.sessions().peek_session(request).await }
        };
        let answer = self.call(Repeat::Always, self.patience(), attempt).await?;
        Ok(answer.messages.into_iter().map(Delivery::from).collect())
    }

    pub(crate) async fn delete_session_batch(
        &self,
        queue: &str,
        token: &v1::SessionToken,
        count_max: u32,
    ) -> Result<u32, Error> {
        let attempt = |node: Arc<Node>, _| {
            let request = node.request(v1::DeleteSessionBatchRequest {
                queue: queue.to_owned(),
                token: Some(token.clone()),
                max_messages: count_max,
                enqueued_before_ms: None,
            });
            async move { node.sessions().delete_session_batch(request).await }
        };
        Ok(self.call(Repeat::IfNotDone, self.patience(), attempt).await?.deleted)
    }
}
