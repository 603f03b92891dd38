//! What the SDKs are told when a request changed nothing.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use domain::Refusal;
use service::ErrorKind;

use super::document;

/// An answer that is none.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    /// Absent where the service gives none.
    sub_code: Option<u32>,
    what: String,
}

impl Failure {
    fn new(status: StatusCode, sub_code: u32, what: impl Into<String>) -> Failure {
        Failure { status, sub_code: Some(sub_code), what: what.into() }
    }

    /// A body that is no description, or describes something else.
    pub fn bad_body(what: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, 40000, what)
    }

    pub fn not_found(what: impl Into<String>) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, 40400, what)
    }

    pub fn not_allowed(what: impl Into<String>) -> Failure {
        Failure { status: StatusCode::METHOD_NOT_ALLOWED, sub_code: None, what: what.into() }
    }

    pub fn too_large(max: usize) -> Failure {
        let what = format!("a description may have {max} bytes");
        Failure { status: StatusCode::PAYLOAD_TOO_LARGE, sub_code: None, what }
    }

    /// Writing a document to memory failed, which it does not.
    pub fn internal(error: &std::io::Error) -> Failure {
        let what = error.to_string();
        Failure { status: StatusCode::INTERNAL_SERVER_ERROR, sub_code: None, what }
    }
}

impl From<service::Error> for Failure {
    fn from(error: service::Error) -> Failure {
        let (status, sub_code) = match &error.kind {
            ErrorKind::Refused(refusal) => refused(refusal),
            // A client that asks again finds what came of it.
            ErrorKind::Unavailable { .. } | ErrorKind::Unknown { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, Some(50004))
            }
        };
        let (entity, id) = (&error.entity, error.tracking_id);
        let what = format!("{} TrackingId:{id}, SystemTracker:mayfly:{entity}", error.kind);
        Failure { status, sub_code, what }
    }
}

/// Section 7 of the management protocol, row by row.
fn refused(refusal: &Refusal) -> (StatusCode, Option<u32>) {
    match refusal {
        Refusal::EntityNotFound { .. }
        | Refusal::StaleRoute { .. }
        | Refusal::MessageNotFound { .. } => (StatusCode::NOT_FOUND, Some(40400)),
        Refusal::EntityAlreadyExists { .. } => (StatusCode::CONFLICT, Some(40900)),
        Refusal::QuotaExceeded { .. }
        | Refusal::StorageFull { .. }
        | Refusal::MessageSizeExceeded { .. } => (StatusCode::FORBIDDEN, None),
        Refusal::EntityDisabled { .. }
        | Refusal::MessageLockLost { .. }
        | Refusal::SessionLockLost { .. }
        | Refusal::SessionCannotBeLocked { .. }
        | Refusal::NoMatchingSubscription { .. } => (StatusCode::FORBIDDEN, Some(40301)),
        // ENT-5: what cannot be changed is a bad request.
        Refusal::Argument { .. }
        | Refusal::ArgumentOutOfRange { .. }
        | Refusal::Serialization { .. }
        | Refusal::InvalidRule { .. }
        | Refusal::InvalidOperation { .. }
        | Refusal::TransactionSizeExceeded { .. }
        | Refusal::TransactionUnknown
        | Refusal::TransactionTimedOut
        | Refusal::TransactionRolledBack { .. }
        | Refusal::NotSupported { .. } => (StatusCode::BAD_REQUEST, Some(40000)),
        Refusal::NoSession | Refusal::SerialGap { .. } | Refusal::PerhapsDone => {
            (StatusCode::SERVICE_UNAVAILABLE, Some(50004))
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let detail = match self.sub_code {
            Some(code) => format!("SubCode={code}. {}", self.what),
            None => self.what,
        };
        let body = document::error(self.status.as_u16(), &detail).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        let xml = const { axum::http::HeaderValue::from_static("application/xml; charset=utf-8") };
        headers.insert(CONTENT_TYPE, xml);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, const { axum::http::HeaderValue::from_static("1") });
        }
        response
    }
}
