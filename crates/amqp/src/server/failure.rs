//! What clients are told of what went wrong: the three answers (COND-2) as conditions.

use std::time::SystemTime;

use amqp_protocol::codec;
use domain::{Excerpt, Refusal};
use limits::{Answer, Exceeded};
use service::{Error, ErrorKind, Trace};

use crate::condition;

/// An error of the broker.
pub(super) fn error(error: &Error) -> codec::Error {
    let tracking_id = error.tracking_id.to_string();
    let at = now();
    let trace = Trace { tracking_id: &tracking_id, entity: &error.entity, at: &at };
    let symbol = match &error.kind {
        ErrorKind::Refused(refusal) => return condition::refused(refusal, trace),
        ErrorKind::Unavailable { .. } => condition::UNAVAILABLE,
        ErrorKind::Unknown { .. } => condition::UNKNOWN,
    };
    codec::Error::new(symbol, trace.text(&error.kind.to_string()))
}

/// A refusal at the edge.
pub(super) fn refusal(refusal: Refusal, entity: &str) -> codec::Error {
    error(&Error::new(refusal, entity))
}

/// ERR-17: a right is missing. `why`: what there is in its place.
pub(super) fn unauthorized(right: &str, why: &str, entity: &str) -> codec::Error {
    let sentence =
        format!("A token with the right '{right}' is required for '{}': {why}", Excerpt(entity));
    told(condition::UNAUTHORIZED_ACCESS, &sentence, entity)
}

/// ERR-10, ERR-11: a limit was reached.
pub(super) fn exceeded(exceeded: &Exceeded, entity: &str) -> codec::Error {
    let symbol = match exceeded.limit.answer() {
        Answer::Full => condition::RESOURCE_LIMIT_EXCEEDED,
        Answer::Busy | Answer::Wait => condition::SERVER_BUSY,
    };
    told(symbol, &exceeded.sentence(), entity)
}

/// What is no error of the broker, in a sentence (ERR-27).
pub(super) fn told(symbol: &'static str, sentence: &str, entity: &str) -> codec::Error {
    let tracking_id = service::draw_message_id();
    let at = now();
    let trace = Trace { tracking_id: &tracking_id, entity, at: &at };
    codec::Error::new(symbol, trace.text(sentence))
}

fn now() -> String {
    let now = jiff::Timestamp::try_from(SystemTime::now());
    now.map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%dT%H:%M:%S").to_string())
}
