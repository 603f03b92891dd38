//! `/$faults`: rules for faults that clients meet (FAULT-9), and where those of HTTP meet theirs.

use std::future::pending;
use std::time::Duration;

use axum::Json;
use axum::http::header::USER_AGENT;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::FaultRuleRow;
use fault_rules::{Effect, ErrorName, Event, Hit, Operation, Phase, Protocol};
use serde_json::{Value, json};
use service::Broker;
use tokio::time::sleep;

use crate::failure::Failure;
use crate::path::Target;

/// Answers a request for the rules, or for the one of that name. `body`: the rule, as JSON.
pub(crate) async fn answer(
    broker: &Broker,
    method: &Method,
    name: Option<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let cluster = broker.cluster();
    let silent = match (method.clone(), name) {
        (Method::GET, None) => {
            let found = cluster.fault_rules().await?;
            let rules: Vec<Value> = found.rules.iter().map(shown).collect();
            return Ok(Json(json!({"rules": rules, "silent": found.silent})).into_response());
        }
        (Method::PUT, Some(name)) => {
            let text = String::from_utf8(body.into())
                .map_err(|error| Failure::unread("the rule is no JSON", &error))?;
            cluster.put_fault_rule(name, text).await?
        }
        (Method::DELETE, name) => cluster.remove_fault_rules(name).await?,
        (method, _) => {
            return Err(Failure::not_allowed(format!(
                "fault rules do not take {method}; GET /$faults lists them, PUT /$faults/NAME puts one, DELETE \
                 removes it, or at /$faults all"
            )));
        }
    };
    // Nodes that do not say that they go by it.
    Ok((StatusCode::OK, Json(json!({"silent": silent}))).into_response())
}

fn shown((rule, events, hits): &(FaultRuleRow, u64, u64)) -> Value {
    json!({
        "name": rule.name,
        "rule": serde_json::from_str::<Value>(&rule.text).unwrap_or_else(|_| json!(rule.text)),
        "added_at_ms": rule.added_at.0,
        "ends_at_ms": rule.ends_at.map(|at| at.0),
        "events": events,
        "hits": hits,
    })
}

/// What a request for messages meets, beside being refused.
#[derive(Default)]
pub(crate) struct RequestFault {
    after: Duration,
    answer_is_lost: bool,
}

impl RequestFault {
    /// Holds up the answer to what was done, or loses it: whoever asked waits until he gives up.
    pub async fn hold_up(&self) {
        sleep(self.after).await;
        if self.answer_is_lost {
            pending::<()>().await;
        }
    }
}

/// Before a request is seen to.
///
/// # Errors
/// It is refused.
pub(crate) async fn meet(
    broker: &Broker,
    method: &Method,
    target: &Target,
    headers: &HeaderMap,
) -> Result<RequestFault, Failure> {
    let nothing = RequestFault::default();
    let Some(hit) = met(broker, method, target, headers) else { return Ok(nothing) };
    if let Some(error) = hit.refusal() {
        return Err(refused(&hit, error));
    }
    match hit.effect {
        Effect::Delay { phase: Phase::Before, .. } => {
            sleep(hit.time()).await;
            Ok(nothing)
        }
        Effect::Delay { phase: Phase::After, .. } => {
            Ok(RequestFault { after: hit.time(), ..nothing })
        }
        Effect::LoseRequest => pending().await,
        Effect::LoseAnswer => Ok(RequestFault { answer_is_lost: true, ..nothing }),
        _ => Ok(nothing),
    }
}

fn met(broker: &Broker, method: &Method, target: &Target, headers: &HeaderMap) -> Option<Hit> {
    let faults = broker.faults()?;
    let operation = match (target, method.clone()) {
        (Target::Messages { .. }, _) => Operation::Send,
        (Target::Head { .. }, _) => Operation::Receive,
        (Target::Lock { .. }, Method::DELETE) => Operation::Complete,
        (Target::Lock { .. }, Method::PUT) => Operation::Abandon,
        (Target::Lock { .. }, Method::POST) => Operation::RenewLock,
        _ => return None,
    };
    let mut event = Event::new(Protocol::Http, operation, target.entity()?);
    event.client =
        headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    faults.meet(&event)
}

/// ERR-1 to ERR-25.
fn refused(hit: &Hit, error: ErrorName) -> Failure {
    let status = match error {
        ErrorName::UnauthorizedAccessException => StatusCode::UNAUTHORIZED,
        ErrorName::QuotaExceeded | ErrorName::MessageSizeExceeded => StatusCode::FORBIDDEN,
        ErrorName::MessagingEntityNotFound
        | ErrorName::MessageNotFound
        | ErrorName::MessageLockLost => StatusCode::NOT_FOUND,
        ErrorName::ServiceTimeout => StatusCode::REQUEST_TIMEOUT,
        ErrorName::MessagingEntityAlreadyExists => StatusCode::CONFLICT,
        ErrorName::SessionLockLost | ErrorName::SessionCannotBeLocked => StatusCode::GONE,
        ErrorName::ServiceBusy => StatusCode::TOO_MANY_REQUESTS,
        ErrorName::MessagingEntityDisabled
        | ErrorName::ArgumentException
        | ErrorName::InvalidOperationException => StatusCode::BAD_REQUEST,
        ErrorName::NotSupportedException => StatusCode::NOT_IMPLEMENTED,
        ErrorName::GeneralError | ErrorName::DetachForced | ErrorName::ConnectionForced => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    Failure::new(status, None, format!("The fault rule '{}' has it so.", hit.rule))
}
