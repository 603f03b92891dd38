//! What a deployment asks, as a client would: to put a resource, to see one, to list keys.

use arm_template::Question;
use axum::body::to_bytes;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::shown;
use crate::ask::{Requester, Trial, Wanted};
use crate::failure::Failure;
use crate::path::{DeploymentPart, Target, Within, target};
use crate::{records, resource};

/// Of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// An answer.
pub(super) struct Reply {
    pub status: StatusCode,
    pub body: Value,
}

impl Reply {
    /// What is wrong, if something is: code and message.
    pub fn error(&self) -> Option<Value> {
        (!self.status.is_success()).then(|| self.body.get("error").cloned().unwrap_or_default())
    }

    /// Whether the same may be answered otherwise soon.
    pub fn is_passing(&self) -> bool {
        matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
    }
}

/// Asks for a resource by its id.
pub(super) async fn ask(
    requester: &Requester,
    method: &Method,
    id: &str,
    body: Bytes,
    trial: Option<&Trial>,
) -> Reply {
    let path: Vec<String> =
        id.split('/').map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()).collect();
    let path = path.join("/");
    let target = target(&path);
    let ask = requester.ask(Wanted { method, path: &path, query: "" }, body, trial);
    let answer = async {
        let Target::Within { what, .. } = &target else { return Err(nothing(id)) };
        match what {
            Within::Namespace { group, name, part } => {
                resource::answer(&ask, group, name, part).await
            }
            Within::Deployment { group, name, part: DeploymentPart::Itself } => {
                let kept =
                    records::find(&requester.broker, group, name).ok_or_else(|| nothing(id))?;
                Ok(axum::Json(shown::deployment(requester, &kept.record)).into_response())
            }
            _ => Err(nothing(id)),
        }
    };
    let response = match trial.is_some() || *method == Method::GET {
        true => answer.await.unwrap_or_else(Failure::into_response),
        false => resource::recorded(&ask, &target, answer).await,
    };
    let status = response.status();
    let body = to_bytes(response.into_body(), ANSWER_BYTES_MAX).await.unwrap_or_default();
    Reply { status, body: serde_json::from_slice(&body).unwrap_or_default() }
}

fn nothing(id: &str) -> Failure {
    let message = format!(
        "The resource '{}' was not found: there is no such thing here.",
        domain::Excerpt(id)
    );
    Failure::not_found("ResourceNotFound", message)
}

/// What a template asks.
pub(super) async fn question(requester: &Requester, question: &Question) -> Reply {
    match question {
        Question::Resource { id } => ask(requester, &Method::GET, id, Bytes::new(), None).await,
        Question::List { function, id } => {
            ask(requester, &Method::POST, &format!("{id}/{function}"), Bytes::new(), None).await
        }
    }
}
