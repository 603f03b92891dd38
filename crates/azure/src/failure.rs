//! What clients of Resource Manager are told when a request changed nothing: a code of Azure's, and one sentence.

use audit::Outcome;
use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::{Abridged, Refusal};
use limits::Exceeded;
use serde_json::{Value, json};
use service::{Error, ErrorKind};

/// An answer that is none.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// Seconds after which to ask again, where that is of use.
    retry_after_s: Option<u64>,
    /// How to prove who one is.
    challenge: Option<String>,
    /// What the audit is told, with the answer.
    outcome: Outcome,
    /// What of it is wrong, one by one: an error each, as the answer is one.
    details: Vec<Value>,
    /// Where in what was asked.
    additional_info: Vec<Value>,
}

impl Failure {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Failure {
        let outcome = match status.is_server_error() {
            true => Outcome::PerhapsDone(code.into()),
            false => Outcome::Refused(code.into()),
        };
        let message = message.into();
        let (details, additional_info) = (Vec::new(), Vec::new());
        let (retry_after_s, challenge) = (None, None);
        Failure {
            status,
            code,
            message,
            retry_after_s,
            challenge,
            outcome,
            details,
            additional_info,
        }
    }

    /// A request that cannot be understood, or asks for what there is not.
    pub fn bad(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// A body that is not what it has to be, as its parser says, who may repeat what was written.
    pub fn unread(error: &serde_json::Error) -> Failure {
        let why = error.to_string();
        Failure::new(
            StatusCode::BAD_REQUEST,
            "InvalidRequestContent",
            format!("The request content was invalid: {}", Abridged(&why)),
        )
    }

    pub fn not_found(code: &'static str, message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, code, message)
    }

    /// What is in Azure, and means nothing here.
    pub fn not_here(what: &str) -> Failure {
        Failure::new(
            StatusCode::BAD_REQUEST,
            "OperationNotSupported",
            format!("A Mayfly cluster has no {what}."),
        )
    }

    pub fn not_allowed(method: &axum::http::Method) -> Failure {
        Failure::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            format!("The requested resource does not support http method '{method}'."),
        )
    }

    /// No proof, or none that is good. `authority`: where tokens are to be had.
    pub fn unauthorized(code: &'static str, message: &str, authority: &str) -> Failure {
        let challenge = format!(
            "Bearer authorization_uri=\"{authority}\", error=\"invalid_token\", \
             error_description=\"{message}\""
        );
        let failure = Failure::new(StatusCode::UNAUTHORIZED, code, message);
        Failure { challenge: Some(challenge), ..failure }
    }

    /// HTTP-28: a limit was reached, and nothing was done.
    pub fn exceeded(exceeded: &Exceeded) -> Failure {
        let (status, code) = (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests");
        let failure = Failure::new(status, code, exceeded.sentence());
        let outcome = Outcome::NotDone(code.into());
        Failure { retry_after_s: Some(exceeded.wait_s()), outcome, ..failure }
    }

    /// With all that is wrong.
    #[must_use]
    pub fn with(self, details: Vec<Value>) -> Failure {
        Failure { details, ..self }
    }

    /// With where that is.
    #[must_use]
    pub fn informed(self, additional_info: Vec<Value>) -> Failure {
        Failure { additional_info, ..self }
    }

    /// The same would be refused again.
    pub fn is_the_clients(&self) -> bool {
        self.status.is_client_error() && self.status != StatusCode::TOO_MANY_REQUESTS
    }

    /// As the answer has it, below `error`.
    pub fn error(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.details.is_empty() {
            error["details"] = json!(self.details);
        }
        if !self.additional_info.is_empty() {
            error["additionalInfo"] = json!(self.additional_info);
        }
        error
    }

    /// To be asked again after so long.
    #[must_use]
    pub fn after_s(self, seconds: u64) -> Failure {
        Failure { retry_after_s: Some(seconds), ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (status, code) = match &error.kind {
            ErrorKind::Refused(refusal) => refused(refusal),
            // A client that asks again finds what came of it.
            ErrorKind::Unavailable { .. } | ErrorKind::Unknown { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable")
            }
        };
        let retry_after_s = match &error.kind {
            ErrorKind::Unavailable { why } => Some(why.retry_after().as_secs()),
            ErrorKind::Unknown { .. } => Some(1),
            ErrorKind::Refused(_) => None,
        };
        let outcome = Outcome::of(&error);
        let message = format!("{} TrackingId:{}", error.kind, error.tracking_id);
        Failure { retry_after_s, outcome, ..Failure::new(status, code, message) }
    }
}

impl From<Refusal> for Failure {
    /// Before the broker was asked.
    fn from(refusal: Refusal) -> Failure {
        let (status, code) = refused(&refusal);
        Failure::new(status, code, format!("{refusal}."))
    }
}

/// HTTP-17, in Resource Manager's words.
fn refused(refusal: &Refusal) -> (StatusCode, &'static str) {
    match refusal {
        Refusal::EntityNotFound { .. }
        | Refusal::StaleRoute { .. }
        | Refusal::MessageNotFound { .. } => (StatusCode::NOT_FOUND, "NotFound"),
        Refusal::EntityAlreadyExists { .. } => (StatusCode::CONFLICT, "Conflict"),
        Refusal::QuotaExceeded { .. }
        | Refusal::StorageFull { .. }
        | Refusal::MessageSizeExceeded { .. } => (StatusCode::FORBIDDEN, "QuotaExceeded"),
        Refusal::EntityDisabled { .. }
        | Refusal::MessageLockLost { .. }
        | Refusal::SessionLockLost { .. }
        | Refusal::SessionCannotBeLocked { .. }
        | Refusal::NoMatchingSubscription { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
        Refusal::Argument { .. }
        | Refusal::Undecodable { .. }
        | Refusal::ArgumentOutOfRange { .. }
        | Refusal::Serialization { .. }
        | Refusal::InvalidRule { .. }
        | Refusal::InvalidOperation { .. }
        | Refusal::TransactionSizeExceeded { .. }
        | Refusal::TransactionUnknown
        | Refusal::TransactionTimedOut
        | Refusal::TransactionRolledBack { .. }
        | Refusal::NotSupported { .. } => (StatusCode::BAD_REQUEST, "BadRequest"),
        Refusal::TopicBusy { .. } | Refusal::Relocated { .. } => {
            (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")
        }
        Refusal::NoSession
        | Refusal::SerialGap { .. }
        | Refusal::OtherCut { .. }
        | Refusal::PerhapsDone => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({"error": self.error()});
        let mut response = (self.status, Json(body)).into_response();
        response.extensions_mut().insert(self.outcome);
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if let Some(challenge) = self.challenge.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
