//! `mayfly.v1.Sessions`, and how a stream of deliveries gets its session.

use std::pin::{Pin, pin};
use std::time::Duration;

use domain::{Refusal, SequenceNumber, SessionId, SessionInfo, Timestamp};
use service::{Accepted, Broker, Error};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use wire::content::Shown;
use wire::{native, v1};

use crate::api::sessions_server::Sessions;
use crate::door::Door;
use crate::messaging::{MESSAGES_DEFAULT, WAIT_MS_MAX, numbers, of_mode, receive_mode, shown};
use crate::receive_stream::{Opening, ReceiveStream};
use crate::server::stopped;
use crate::status::{refused, status};

/// Sessions in a page where the client does not say.
const PAGE_DEFAULT: u32 = 100;

pub(crate) struct SessionsService {
    pub door: Door,
}

/// Accepts the session that a stream asked for, says so, and serves its receiver. A client that goes
/// away while it waits takes its place in line along.
pub(crate) fn open(
    opening: Opening,
    wanted: v1::AcceptSession,
    first: v1::ReceiveStreamRequest,
    stopping: watch::Receiver<bool>,
    shut_out: impl Future<Output = Status> + Send + 'static,
) -> Result<(), Status> {
    if wanted.wait_ms > WAIT_MS_MAX {
        let (what, value) = ("wait_ms", wanted.wait_ms.to_string());
        let refusal = Refusal::ArgumentOutOfRange { what, value, allowed: "at most 60000" };
        return Err(refused(refusal, &opening.queue));
    }
    tokio::spawn(async move {
        let responses = opening.responses.clone();
        let shut_out = pin!(shut_out);
        tokio::select! {
            () = serve(opening, wanted, first, shut_out) => {}
            () = responses.closed() => {}
            () = stopped(stopping) => {}
        }
    });
    Ok(())
}

async fn serve(
    opening: Opening,
    wanted: v1::AcceptSession,
    first: v1::ReceiveStreamRequest,
    mut shut_out: Pin<&mut impl Future<Output = Status>>,
) {
    let accepted = tokio::select! {
        accepted = accept(&opening, wanted) => accepted.map_err(|error| status(&error)),
        refused = &mut shut_out => Err(refused),
    };
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(status) => {
            // A client that is gone needs no reason.
            let _ = opening.responses.send(Err(status)).await;
            return;
        }
    };
    let answer = v1::AcceptedSession {
        token: Some(native::session_token_to_v1(&accepted.token)),
        locked_until_ms: accepted.until.0,
    };
    let answer = v1::ReceiveStreamResponse { accepted: Some(answer), ..Default::default() };
    if opening.responses.send(Ok(answer)).await.is_err() {
        let token = accepted.token.clone();
        // Nobody learned of it; should this fail, its lock lapses.
        let _ = opening.broker.sessions().release(&opening.queue, token).await;
        return;
    }
    ReceiveStream::of_session(opening, accepted, first).converse(shut_out).await;
}

async fn accept(opening: &Opening, wanted: v1::AcceptSession) -> Result<Accepted, Error> {
    let Opening { broker, queue, sub, mode, .. } = opening;
    match wanted.session_id {
        Some(id) => broker.sessions().accept(queue, *sub, SessionId::from(id), *mode).await,
        None => {
            let wait = Duration::from_millis(wanted.wait_ms.into());
            broker.sessions().accept_next(queue, *sub, *mode, wait).await
        }
    }
}

#[tonic::async_trait]
impl Sessions for SessionsService {
    async fn renew_session(
        &self,
        request: Request<v1::RenewSessionRequest>,
    ) -> Result<Response<v1::RenewSessionResponse>, Status> {
        let serve = |broker: Broker, asked: v1::RenewSessionRequest| async move {
            let v1::RenewSessionRequest { queue, token } = asked;
            let token = native::session_token(token).map_err(|refusal| refused(refusal, &queue))?;
            let renewed = broker.sessions().renew(&queue, token).await;
            let until = renewed.map_err(|error| status(&error))?;
            Ok(Response::new(v1::RenewSessionResponse { locked_until_ms: until.0 }))
        };
        self.door.call(request, serve).await
    }

    async fn release_session(
        &self,
        request: Request<v1::ReleaseSessionRequest>,
    ) -> Result<Response<v1::ReleaseSessionResponse>, Status> {
        let serve = |broker: Broker, asked: v1::ReleaseSessionRequest| async move {
            let v1::ReleaseSessionRequest { queue, token } = asked;
            let token = native::session_token(token).map_err(|refusal| refused(refusal, &queue))?;
            let released = broker.sessions().release(&queue, token).await;
            released.map_err(|error| status(&error))?;
            Ok(Response::new(v1::ReleaseSessionResponse {}))
        };
        self.door.call(request, serve).await
    }

    async fn set_session_state(
        &self,
        request: Request<v1::SetSessionStateRequest>,
    ) -> Result<Response<v1::SetSessionStateResponse>, Status> {
        let serve = |broker: Broker, asked: v1::SetSessionStateRequest| async move {
            let v1::SetSessionStateRequest { queue, token, state } = asked;
            let token = native::session_token(token).map_err(|refusal| refused(refusal, &queue))?;
            let set = broker.sessions().set_state(&queue, token, state).await;
            set.map_err(|error| status(&error))?;
            Ok(Response::new(v1::SetSessionStateResponse {}))
        };
        self.door.call(request, serve).await
    }

    async fn get_session_state(
        &self,
        request: Request<v1::GetSessionStateRequest>,
    ) -> Result<Response<v1::GetSessionStateResponse>, Status> {
        let serve = |broker: Broker, asked: v1::GetSessionStateRequest| async move {
            let v1::GetSessionStateRequest { queue, token } = asked;
            let token = native::session_token(token).map_err(|refusal| refused(refusal, &queue))?;
            let state = broker.sessions().state(&queue, token).await;
            let state = state.map_err(|error| status(&error))?;
            Ok(Response::new(v1::GetSessionStateResponse { state }))
        };
        self.door.call(request, serve).await
    }

    async fn receive_session_deferred(
        &self,
        request: Request<v1::ReceiveSessionDeferredRequest>,
    ) -> Result<Response<v1::ReceiveDeferredResponse>, Status> {
        let serve = |broker: Broker, asked: v1::ReceiveSessionDeferredRequest| async move {
            let v1::ReceiveSessionDeferredRequest { queue, token, mode, sequence_numbers } = asked;
            let refuse = |refusal| refused(refusal, &queue);
            let token = native::session_token(token).map_err(refuse)?;
            let mode = receive_mode(mode).map_err(refuse)?;
            let numbers = numbers(sequence_numbers);
            let received = broker.sessions().receive_deferred(&queue, token, mode, numbers).await;
            let messages = shown(received.map_err(|error| status(&error))?, of_mode(mode))?;
            Ok(Response::new(v1::ReceiveDeferredResponse { messages }))
        };
        self.door.call(request, serve).await
    }

    async fn peek_session(
        &self,
        request: Request<v1::PeekSessionRequest>,
    ) -> Result<Response<v1::PeekResponse>, Status> {
        let serve = |broker: Broker, asked: v1::PeekSessionRequest| async move {
            let v1::PeekSessionRequest { queue, token, from_sequence_number, max_messages } = asked;
            let token = native::session_token(token).map_err(|refusal| refused(refusal, &queue))?;
            let from = SequenceNumber(from_sequence_number);
            let count_max = if max_messages == 0 { MESSAGES_DEFAULT } else { max_messages };
            let peeked = broker.sessions().peek(&queue, token, from, count_max).await;
            let messages = shown(peeked.map_err(|error| status(&error))?, Shown::Peek)?;
            Ok(Response::new(v1::PeekResponse { messages }))
        };
        self.door.call(request, serve).await
    }

    async fn delete_session_batch(
        &self,
        request: Request<v1::DeleteSessionBatchRequest>,
    ) -> Result<Response<v1::DeleteBatchResponse>, Status> {
        let serve = |broker: Broker, asked: v1::DeleteSessionBatchRequest| async move {
            let v1::DeleteSessionBatchRequest { queue, token, max_messages, enqueued_before_ms } =
                asked;
            let token = native::session_token(token).map_err(|refusal| refused(refusal, &queue))?;
            let before = enqueued_before_ms.map(Timestamp);
            let deleted = broker.sessions().delete_batch(&queue, token, max_messages, before).await;
            let deleted = deleted.map_err(|error| status(&error))?;
            Ok(Response::new(v1::DeleteBatchResponse { deleted }))
        };
        self.door.call(request, serve).await
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let serve = |broker: Broker, asked: v1::ListSessionsRequest| async move {
            let v1::ListSessionsRequest { queue, updated_after_ms, page_size, from } = asked;
            let count_max = if page_size == 0 { PAGE_DEFAULT } else { page_size };
            let (from, after) = (from.map(SessionId::from), updated_after_ms.map(Timestamp));
            let page = broker.sessions().list(&queue, from, after, count_max).await;
            let page = page.map_err(|error| status(&error))?;
            Ok(Response::new(v1::ListSessionsResponse {
                sessions: page.sessions.into_iter().map(session_info).collect(),
                next: page.next.map(|session| session.to_string()),
            }))
        };
        self.door.call(request, serve).await
    }
}

fn session_info(info: SessionInfo) -> v1::SessionInfo {
    v1::SessionInfo {
        session_id: info.session.to_string(),
        active_message_count: info.active,
        deferred_message_count: info.deferred,
        state_changed_at_ms: info.state_changed_at.map(|at| at.0),
        state_bytes: info.state_bytes,
        locked_until_ms: info.locked_until.map(|at| at.0),
    }
}
