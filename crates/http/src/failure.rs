//! What clients are told when a request changed nothing.

use std::time::Duration;

use audit::Outcome;
use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::{Abridged, Refusal};
use limits::Exceeded;
use quick_xml::Writer;
use quick_xml::events::BytesText;
use service::{Error, ErrorKind};
use uuid::Uuid;

/// Bad names, values and documents; fixed properties changed.
const BAD_REQUEST: u32 = 40000;
const NOT_FOUND: u32 = 40400;
const THROTTLED: u32 = 50004;
/// Stands where the service has the name of a namespace.
const SYSTEM: &str = "mayfly";

/// Where nothing says more of it.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// An answer that is none.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    /// Absent where the service gives none.
    sub_code: Option<u32>,
    what: String,
    /// The name it concerns; empty where it concerns none.
    entity: String,
    tracking_id: Uuid,
    /// When to ask again, where that is of use.
    retry_after: Duration,
    /// What the audit is told, with the answer.
    outcome: Outcome,
}

impl Failure {
    pub fn new(status: StatusCode, sub_code: Option<u32>, what: impl Into<String>) -> Failure {
        let (what, entity) = (what.into(), String::new());
        let (tracking_id, retry_after) = (Uuid::new_v4(), RETRY_AFTER_MIN);
        let name = status.canonical_reason().unwrap_or("failed").into();
        let outcome = match status.is_server_error() {
            true => Outcome::PerhapsDone(name),
            false => Outcome::Refused(name),
        };
        Failure { status, sub_code, what, entity, tracking_id, retry_after, outcome }
    }

    /// A request that cannot be understood, or asks for what there is not.
    pub fn bad(what: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, Some(BAD_REQUEST), what)
    }

    /// What a client wrote is not what it has to be, as its parser says, who may repeat what was written.
    pub fn unread(what: &str, error: &dyn std::error::Error) -> Failure {
        Failure::bad(format!("{what}: {}", Abridged(&error.to_string())))
    }

    pub fn not_found(what: impl Into<String>) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, Some(NOT_FOUND), what)
    }

    pub fn not_allowed(what: impl Into<String>) -> Failure {
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, None, what)
    }

    /// Writing a document to memory failed, which it does not, or a stored message is unreadable.
    pub fn internal(error: &dyn std::error::Error) -> Failure {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, None, error.to_string())
    }

    /// A refusal met here, before there was anything to ask the broker.
    pub fn refused(refusal: Refusal, entity: &str) -> Failure {
        Error::new(refusal, entity).into()
    }

    /// An error of sending or receiving: the reference of the message operations has another status
    /// for what is gone than that of management.
    pub fn of_messages(error: Error) -> Failure {
        let status = match error.refusal() {
            Some(Refusal::EntityNotFound { .. } | Refusal::StaleRoute { .. }) => StatusCode::GONE,
            Some(Refusal::MessageLockLost { .. }) => StatusCode::NOT_FOUND,
            _ => return error.into(),
        };
        Failure { status, sub_code: None, ..error.into() }
    }

    /// HTTP-28: a limit was reached, and nothing was done.
    pub fn exceeded(exceeded: &Exceeded, entity: &str) -> Failure {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let failure = Failure::new(status, Some(THROTTLED), exceeded.sentence());
        let name = status.canonical_reason().unwrap_or_default().into();
        Failure {
            entity: entity.to_owned(),
            retry_after: Duration::from_secs(exceeded.wait_s()),
            outcome: Outcome::NotDone(name),
            ..failure
        }
    }

    #[cfg(test)]
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (status, sub_code) = match &error.kind {
            ErrorKind::Refused(refusal) => refused(refusal),
            // A client that asks again finds what came of it.
            ErrorKind::Unavailable { .. } | ErrorKind::Unknown { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, Some(THROTTLED))
            }
        };
        let outcome = Outcome::of(&error);
        let (what, entity) = (error.kind.to_string(), error.entity.to_string());
        let retry_after = match &error.kind {
            ErrorKind::Unavailable { why } => why.retry_after(),
            ErrorKind::Refused(_) | ErrorKind::Unknown { .. } => RETRY_AFTER_MIN,
        };
        let tracking_id = error.tracking_id;
        Failure { status, sub_code, what, entity, tracking_id, retry_after, outcome }
    }
}

/// HTTP-17, row by row.
fn refused(refusal: &Refusal) -> (StatusCode, Option<u32>) {
    match refusal {
        Refusal::EntityNotFound { .. }
        | Refusal::StaleRoute { .. }
        | Refusal::MessageNotFound { .. } => (StatusCode::NOT_FOUND, Some(NOT_FOUND)),
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
        | Refusal::Undecodable { .. }
        | Refusal::ArgumentOutOfRange { .. }
        | Refusal::Serialization { .. }
        | Refusal::InvalidRule { .. }
        | Refusal::InvalidOperation { .. }
        | Refusal::TransactionSizeExceeded { .. }
        | Refusal::TransactionUnknown
        | Refusal::TransactionTimedOut
        | Refusal::TransactionRolledBack { .. }
        | Refusal::NotSupported { .. } => (StatusCode::BAD_REQUEST, Some(BAD_REQUEST)),
        // HTTP-28.
        Refusal::TopicBusy { .. } | Refusal::Relocated { .. } => {
            (StatusCode::TOO_MANY_REQUESTS, Some(THROTTLED))
        }
        Refusal::NoSession
        | Refusal::SerialGap { .. }
        | Refusal::OtherCut { .. }
        | Refusal::PerhapsDone => (StatusCode::SERVICE_UNAVAILABLE, Some(THROTTLED)),
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = self.sub_code.map_or_else(String::new, |code| format!("SubCode={code}. "));
        let tracking_id = self.tracking_id.to_string();
        let entity = format!("{SYSTEM}:{}", self.entity);
        let at = now();
        let trace = service::Trace { tracking_id: &tracking_id, entity: &entity, at: &at };
        let detail = trace.text(&format!("{code}{}", self.what));
        let body = document(self.status.as_u16(), &detail).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        response.extensions_mut().insert(self.outcome);
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            const { HeaderValue::from_static("application/xml; charset=utf-8") },
        );
        let is_for_now =
            [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&self.status);
        if is_for_now {
            headers.insert(RETRY_AFTER, HeaderValue::from(self.retry_after.as_secs()));
        }
        response
    }
}

/// ERR-27.
fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// One line of JSON that says what to do instead.
pub(crate) fn refuse(code: StatusCode, error: String) -> Response {
    (code, Json(serde_json::json!({ "error": error }))).into_response()
}

/// What the SDKs read of a refusal.
fn document(code: u16, detail: &str) -> std::io::Result<Vec<u8>> {
    let mut xml = Writer::new(Vec::new());
    xml.create_element("Error").write_inner_content(|xml| {
        for (name, text) in [("Code", &*code.to_string()), ("Detail", detail)] {
            xml.create_element(name).write_text_content(BytesText::new(text))?;
        }
        Ok(())
    })?;
    Ok(xml.into_inner())
}

#[cfg(test)]
mod tests {
    use domain::{LockToken, SequenceNumber};

    use super::*;

    #[test]
    fn http_17_a_refusal_has_status_and_sub_code() {
        let name = || "q".to_owned();
        for (refusal, status, sub_code) in [
            (Refusal::EntityNotFound { name: name() }, 404, Some(40400)),
            (Refusal::EntityAlreadyExists { name: name() }, 409, Some(40900)),
            (Refusal::QuotaExceeded { what: "q", used: 2, max: 1 }, 403, None),
            (Refusal::EntityDisabled { status: "Disabled" }, 403, Some(40301)),
            (Refusal::InvalidOperation { why: "no" }, 400, Some(40000)),
            (Refusal::Argument { what: "x", why: name() }, 400, Some(40000)),
            (Refusal::InvalidRule { exception: "FilterException", why: name() }, 400, Some(40000)),
            (Refusal::NotSupported { what: "x" }, 400, Some(40000)),
            (Refusal::PerhapsDone, 503, Some(50004)),
        ] {
            let failure = Failure::refused(refusal.clone(), "q");
            assert_eq!((failure.status(), failure.sub_code), (status, sub_code), "{refusal:?}");
        }
    }

    #[test]
    fn err_27_http_16_a_detail_names_entity_tracking_id_and_time() {
        let failure = Failure::refused(Refusal::EntityNotFound { name: "a&b".into() }, "a&b");
        let id = failure.tracking_id;
        let text = String::from_utf8(document(404, &failure.what).unwrap()).unwrap();
        assert!(
            text.starts_with("<Error><Code>404</Code><Detail>entity &apos;a&amp;b&apos;"),
            "{text}"
        );
        assert_eq!(failure.entity, "a&b");
        assert!(!id.is_nil() && now().len() == "2026-01-01T00:00:00".len());
    }

    #[test]
    fn err_31_a_parser_s_error_is_no_longer_for_what_a_client_wrote() {
        let long = "x".repeat(100_000);
        let json = serde_json::from_str::<u8>(&format!("\"{long}\"")).expect_err("no number");
        let xml = [
            format!("<a></{long}>"),
            format!("<{long}:a/>"),
            format!("<a>&{long};</a>"),
            format!("<a {long}='1' {long}='1'/>"),
        ];
        let xml = xml.each_ref().map(|text| roxmltree::Document::parse(text).expect_err("no XML"));
        let xml = xml.iter().map(|error| (error as &dyn std::error::Error, " at 1:"));
        for (error, place) in std::iter::once((&json as _, " at line 1 column ")).chain(xml) {
            let told = Failure::unread("", error).what;
            assert!(told.len() < 200 && told.contains(place), "{told}");
        }
    }

    #[test]
    fn err_4_rest_8_of_messages_what_is_gone_is_410_and_a_lost_lock_404() {
        let token = LockToken { sequence: SequenceNumber(1), nonce: 2 };
        for (refusal, status) in [
            (Refusal::EntityNotFound { name: "q".into() }, 410),
            (Refusal::MessageLockLost { token }, 404),
            (Refusal::InvalidOperation { why: "no" }, 400),
        ] {
            assert_eq!(Failure::of_messages(Error::new(refusal, "q")).status(), status);
        }
    }
}
