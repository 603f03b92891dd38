//! Why there is no page of what was asked for.

use axum::http::StatusCode;
use grpc::{LocalError, LocalErrorKind};

/// A sentence, and what the answer's status is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub status: StatusCode,
    pub text: String,
    /// It helps to sign in.
    pub is_unproven: bool,
}

impl Failure {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into(), is_unproven: false }
    }

    pub fn bad(text: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, text)
    }

    pub fn not_found(text: impl Into<String>) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, text)
    }
}

impl From<LocalError> for Failure {
    fn from(error: LocalError) -> Failure {
        let status = match error.kind {
            LocalErrorKind::Unproven => StatusCode::UNAUTHORIZED,
            LocalErrorKind::Forbidden => StatusCode::FORBIDDEN,
            LocalErrorKind::NotFound => StatusCode::NOT_FOUND,
            LocalErrorKind::Conflict => StatusCode::CONFLICT,
            LocalErrorKind::Invalid => StatusCode::BAD_REQUEST,
            LocalErrorKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
            LocalErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            LocalErrorKind::Unknown => StatusCode::GATEWAY_TIMEOUT,
            LocalErrorKind::Unreadable => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let is_unproven = error.kind == LocalErrorKind::Unproven;
        Failure { status, text: error.text, is_unproven }
    }
}
