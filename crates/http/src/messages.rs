//! Sending and receiving by plain HTTP, for curl, explorers and whoever has no client at hand: the
//! message operations of Service Bus' REST API. One request is one message (or one batch sent); what
//! is received under a lock is settled at the address its answer names.

mod body;
mod broker_properties;
mod custom;
mod sent;

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::{Disposition, Excerpt, LockToken, Properties, Refusal, Settlement, SubQueue};
use limits::Party;
use service::{Broker, Caller, ReceiveMode, Received};
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;
use wire::content::{self, Shown};
use wire::v1;

use crate::failure::Failure;
use broker_properties::Told;

/// A batch is JSON, which may write a byte as six.
pub(crate) const BODY_BYTES_MAX: usize = 2 * service::SEND_BYTES_MAX;
const BROKER_PROPERTIES: HeaderName = HeaderName::from_static("brokerproperties");
/// How long a request to receive waits if it does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(60);
/// QUOTA-30.
const WAIT_MAX: Duration = Duration::from_secs(55);

/// Stores a message, or a batch of them as one (SEND-3).
pub(crate) async fn send(
    broker: &Broker,
    entity: &str,
    headers: &HeaderMap,
    body: Bytes,
    party: Option<&Party>,
) -> Result<Response, Failure> {
    let exceeded = |exceeded| Failure::exceeded(&exceeded, entity);
    // Until it is answered.
    let _load = party.map(|party| party.carry(body.len())).transpose().map_err(exceeded)?;
    let refuse = |refusal: Refusal| Failure::refused(refusal, entity);
    let messages = sent::messages(headers, body)?;
    if let Some(party) = party {
        party.ask(messages.len() as u64).map_err(exceeded)?;
    }
    let new = |mut message: v1::Message| {
        content::check(&message)?;
        message.message_id.get_or_insert_with(service::draw_message_id);
        content::new_message(message)
    };
    let messages = messages.into_iter().map(new).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
    broker.messages().send(entity, messages, Caller::Edge).await.map_err(Failure::of_messages)?;
    Ok(StatusCode::CREATED.into_response())
}

/// True once a request may wait no longer, as its proof is good no more.
#[derive(Clone)]
pub(crate) struct WaitEnd(pub watch::Receiver<bool>);

impl WaitEnd {
    /// Resolves then; without one, never.
    async fn reached(end: Option<WaitEnd>) {
        if let Some(WaitEnd(mut end)) = end
            && end.wait_for(|is_over| *is_over).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Where messages are received.
pub(crate) struct Queue<'a> {
    pub broker: &'a Broker,
    pub name: &'a str,
    pub sub: SubQueue,
    /// As the client reached us.
    pub scheme: &'a str,
    pub authority: &'a str,
}

impl Queue<'_> {
    /// POST locks the next message, DELETE takes it. `end`: whether it may wait any longer.
    pub async fn receive(
        &self,
        method: &Method,
        query: Option<&str>,
        end: Option<WaitEnd>,
    ) -> Result<Response, Failure> {
        let (mode, status, shown) = match *method {
            Method::POST => (ReceiveMode::PeekLock, StatusCode::CREATED, Shown::PeekLock),
            _ => (ReceiveMode::ReceiveAndDelete, StatusCode::OK, Shown::ReceiveAndDelete),
        };
        let wait = wait(query)?;
        let until = async {
            if !wait.is_zero() {
                // Either will do.
                let _ = timeout(wait, WaitEnd::reached(end)).await;
            }
        };
        let messages = self.broker.messages();
        let received = messages.receive_until(self.name, self.sub, mode, 1, until).await;
        match received.map_err(Failure::of_messages)?.pop() {
            None => Ok(StatusCode::NO_CONTENT.into_response()),
            Some(message) => self.show(status, message, shown),
        }
    }

    /// PUT unlocks, DELETE completes, POST renews the lock.
    pub async fn settle(&self, method: &Method, token: LockToken) -> Result<Response, Failure> {
        let disposition = match *method {
            Method::PUT => Disposition::Abandon { properties: Properties::new() },
            Method::DELETE => Disposition::Complete,
            Method::POST => return self.renew(token).await,
            _ => {
                return Err(Failure::not_allowed(format!(
                    "a locked message does not take {method}; PUT unlocks it, DELETE completes it, \
                     POST renews the lock"
                )));
            }
        };
        let settlements = vec![Settlement { token, disposition }];
        let settled = self
            .broker
            .messages()
            .settle(self.name, self.sub, settlements, true, Caller::Edge)
            .await;
        settled.map_err(Failure::of_messages)?;
        Ok(StatusCode::OK.into_response())
    }

    async fn renew(&self, token: LockToken) -> Result<Response, Failure> {
        let renewed = self.broker.messages().renew(self.name, self.sub, vec![token]).await;
        let until = renewed.map_err(Failure::of_messages)?.pop();
        let told = Told::renewed(until).header()?;
        Ok((StatusCode::OK, [(BROKER_PROPERTIES, told)]).into_response())
    }

    fn show(
        &self,
        status: StatusCode,
        received: Received,
        shown: Shown,
    ) -> Result<Response, Failure> {
        let Received { delivery, content } = received;
        // What was sent over AMQP is stored as it was sent.
        let message =
            message_content::native(&content).map_err(|error| Failure::internal(&error))?;
        let received = content::show(&delivery, message, shown);
        let told = Told::of(&received);
        let v1::ReceivedMessage { message, lock_token, sequence_number, .. } = received;
        let message = message.unwrap_or_default();
        let properties = wire::native::properties_from_v1(&message.properties);
        let properties = properties.map_err(|refusal| Failure::refused(refusal, self.name))?;
        let (body, content_type) = body::shown(&message);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        custom::write(&properties, headers);
        headers.insert(BROKER_PROPERTIES, told.header()?);
        if let Some(kind) = content_type.and_then(|kind| HeaderValue::from_str(&kind).ok()) {
            headers.insert(CONTENT_TYPE, kind);
        }
        let token = lock_token.and_then(|token| Uuid::from_slice(&token).ok());
        if let Some(at) = token.map(|token| self.address(sequence_number, token))
            && let Ok(at) = HeaderValue::from_str(&at)
        {
            headers.insert(LOCATION, at);
        }
        Ok(response)
    }

    /// Where a locked message is settled. Names of entities need no escapes (ENT-1).
    fn address(&self, sequence: u64, token: Uuid) -> String {
        let Queue { scheme, authority, name, .. } = self;
        let sub = match self.sub {
            // Nobody receives from the transfer queue.
            SubQueue::Main | SubQueue::Transfer => "",
            SubQueue::DeadLetter => "/$DeadLetterQueue",
            SubQueue::TransferDeadLetter => "/$Transfer/$DeadLetterQueue",
        };
        format!("{scheme}://{authority}/{name}{sub}/messages/{sequence}/{token}")
    }
}

/// Seconds, as the query says.
fn wait(query: Option<&str>) -> Result<Duration, Failure> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let Some((_, given)) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("timeout")) else {
        return Ok(WAIT_DEFAULT.min(WAIT_MAX));
    };
    let seconds: u64 = given.parse().map_err(|_| {
        Failure::bad(format!("timeout: '{}' is not a number of seconds", Excerpt(&given)))
    })?;
    Ok(Duration::from_secs(seconds).min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_30_rest_5_a_request_waits_55_s_at_most() {
        let seconds = |query| wait(query).map(|wait| wait.as_secs());
        assert_eq!(seconds(Some("timeout=5")).unwrap(), 5);
        assert_eq!(seconds(Some("api-version=2015-01&Timeout=0")).unwrap(), 0);
        assert_eq!(seconds(Some("timeout=3600")).unwrap(), 55);
        assert_eq!(seconds(None).unwrap(), 55);
        assert_eq!(seconds(Some("timeout=soon")).unwrap_err().status(), 400);
    }
}
