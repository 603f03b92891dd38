//! One mapping from errors to what travels: a status with `google.rpc.ErrorInfo` on calls, a
//! `Failure` within streams, and with `google.rpc.RetryInfo` where nothing was done. `reason` is ERR's client name, metadata has the rule, the entity, a
//! tracking id, and which of the three answers it is.

use std::collections::HashMap;
use std::time::Duration;

use audit::Outcome;
use domain::{Excerpt, Refusal};
use limits::{Answer, Exceeded};
use service::{Error, ErrorKind, Unavailable, Unknown};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use wire::v1;

/// Who speaks, in `ErrorInfo`.
pub(crate) const DOMAIN: &str = "mayfly";

/// What an error is called on the wire.
struct Labels {
    code: Code,
    name: &'static str,
    rule: &'static str,
    retry: v1::Retry,
}

/// For calls.
pub(crate) fn status(error: &Error) -> Status {
    let Labels { code, name, rule, retry } = labels(&error.kind);
    tracing::debug!(%error, "answered");
    let metadata = HashMap::from([
        ("rule".to_owned(), rule.to_owned()),
        ("entity".to_owned(), error.entity.to_string()),
        ("tracking_id".to_owned(), error.tracking_id.to_string()),
        ("retry".to_owned(), retry.as_str_name().to_owned()),
    ]);
    let mut details = ErrorDetails::with_error_info(name, DOMAIN, metadata);
    if let ErrorKind::Unavailable { why } = &error.kind {
        details.set_retry_info(Some(why.retry_after()));
    }
    Status::with_error_details(code, error.kind.to_string(), details)
}

/// What the audit is told of an answer, by the details that every error of ours has.
pub(crate) fn outcome<T>(answer: &Result<T, Status>) -> Outcome {
    let Err(status) = answer else { return Outcome::Done };
    let Some(info) = status.get_details_error_info() else {
        return Outcome::Refused(format!("{:?}", status.code()).into());
    };
    let name = info.reason.into();
    let retry = info.metadata.get("retry").and_then(|retry| v1::Retry::from_str_name(retry));
    match retry {
        Some(v1::Retry::No) => Outcome::Refused(name),
        Some(v1::Retry::Yes) => Outcome::NotDone(name),
        Some(v1::Retry::PerhapsDone | v1::Retry::Unspecified) | None => Outcome::PerhapsDone(name),
    }
}

/// Within streams.
pub(crate) fn failure(error: &Error) -> v1::Failure {
    let Labels { code, name, rule, retry } = labels(&error.kind);
    v1::Failure {
        code: code as u32,
        name: name.to_owned(),
        rule: rule.to_owned(),
        entity: error.entity.to_string(),
        tracking_id: error.tracking_id.to_string(),
        retry: retry.into(),
        message: error.kind.to_string(),
        retry_after_ms: retry_after_ms(&error.kind),
    }
}

/// A refusal met at the edge, before there was anything to ask the broker.
pub(crate) fn refused(refusal: Refusal, entity: &str) -> Status {
    status(&Error::new(refusal, entity))
}

/// A limit was reached (ERR-10, ERR-11): nothing was done, so clients come again, or try another node.
pub(crate) fn exceeded(exceeded: &Exceeded, entity: &str) -> Status {
    let (name, retry_after) = match exceeded.limit.answer() {
        Answer::Full => ("QuotaExceeded", None),
        Answer::Busy | Answer::Wait => {
            ("ServiceBusy", Some(Duration::from_secs(exceeded.wait_s())))
        }
    };
    let metadata = HashMap::from([
        ("rule".to_owned(), exceeded.rule().to_owned()),
        ("entity".to_owned(), Excerpt(entity).to_string()),
        ("tracking_id".to_owned(), service::draw_message_id()),
        ("retry".to_owned(), v1::Retry::Yes.as_str_name().to_owned()),
    ]);
    let mut details = ErrorDetails::with_error_info(name, DOMAIN, metadata);
    details.set_retry_info(retry_after);
    let told = match retry_after {
        None => "nothing was done, try another node, or again later".to_owned(),
        Some(_) => format!("nothing was done, try again in {} s", exceeded.wait_s()),
    };
    Status::with_error_details(Code::ResourceExhausted, format!("{exceeded}; {told}"), details)
}

/// When to ask again; 0 where nothing is said of it.
fn retry_after_ms(kind: &ErrorKind) -> u64 {
    match kind {
        ErrorKind::Unavailable { why } => why.retry_after().as_millis() as u64,
        ErrorKind::Refused(_) | ErrorKind::Unknown { .. } => 0,
    }
}

fn labels(kind: &ErrorKind) -> Labels {
    let name = kind.name();
    match kind {
        ErrorKind::Refused(refusal) => Labels {
            code: code(refusal),
            name,
            rule: refusal.rule(),
            retry: match refusal {
                // What is missing is sent first, then this again.
                Refusal::SerialGap { .. } | Refusal::OtherCut { .. } => v1::Retry::Yes,
                Refusal::PerhapsDone => v1::Retry::PerhapsDone,
                _ => v1::Retry::No,
            },
        },
        ErrorKind::Unavailable { why } => {
            let rule = match why {
                Unavailable::Busy | Unavailable::Leaderless(_) => "ERR-11",
                Unavailable::NoLeader(_) | Unavailable::Starting | Unavailable::Stopping => {
                    "ERR-24"
                }
            };
            Labels { code: Code::Unavailable, name, rule, retry: v1::Retry::Yes }
        }
        ErrorKind::Unknown { why } => Labels {
            code: match why {
                Unknown::Late(_) | Unknown::LeaderLost(_) => Code::DeadlineExceeded,
                // Asking again will not tell more.
                Unknown::Forgotten => Code::Aborted,
            },
            name,
            rule: "ERR-28",
            retry: v1::Retry::PerhapsDone,
        },
    }
}

/// ERR-1 to ERR-21. `NoSession` says so in time: nothing was done.
fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::EntityNotFound { .. }
        | Refusal::StaleRoute { .. }
        | Refusal::MessageNotFound { .. } => Code::NotFound,
        Refusal::EntityAlreadyExists { .. } => Code::AlreadyExists,
        Refusal::EntityDisabled { .. }
        | Refusal::MessageLockLost { .. }
        | Refusal::SessionLockLost { .. }
        | Refusal::SessionCannotBeLocked { .. }
        | Refusal::InvalidOperation { .. }
        | Refusal::NoMatchingSubscription { .. }
        | Refusal::TransactionUnknown
        | Refusal::SerialGap { .. }
        | Refusal::OtherCut { .. } => Code::FailedPrecondition,
        Refusal::MessageSizeExceeded { .. }
        | Refusal::Argument { .. }
        | Refusal::Undecodable { .. }
        | Refusal::ArgumentOutOfRange { .. }
        | Refusal::InvalidRule { .. }
        | Refusal::TransactionSizeExceeded { .. }
        | Refusal::Serialization { .. } => Code::InvalidArgument,
        // Whoever asked for longer than a move takes.
        Refusal::Relocated { .. } => Code::Unavailable,
        Refusal::QuotaExceeded { .. } | Refusal::StorageFull { .. } | Refusal::TopicBusy { .. } => {
            Code::ResourceExhausted
        }
        Refusal::NotSupported { .. } => Code::Unimplemented,
        Refusal::NoSession => Code::DeadlineExceeded,
        Refusal::PerhapsDone => Code::Aborted,
        // What it was refused for, though it is told as the transaction's end (ERR-21).
        Refusal::TransactionRolledBack { cause, .. } => code(&cause.0),
        Refusal::TransactionTimedOut => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use domain::{EntityId, GroupId, LockToken, SequenceNumber};

    use super::*;

    fn refusals() -> Vec<(&'static str, Refusal, Code)> {
        let token = LockToken { sequence: SequenceNumber(7), nonce: 1 };
        let sequence = SequenceNumber(7);
        let name = || "q".to_owned();
        vec![
            ("ERR-1", Refusal::EntityNotFound { name: name() }, Code::NotFound),
            ("ERR-1", Refusal::StaleRoute { entity: EntityId(1) }, Code::NotFound),
            ("ERR-2", Refusal::EntityAlreadyExists { name: name() }, Code::AlreadyExists),
            ("ERR-3", Refusal::EntityDisabled { status: "Disabled" }, Code::FailedPrecondition),
            ("ERR-4", Refusal::MessageLockLost { token }, Code::FailedPrecondition),
            (
                "ERR-5",
                Refusal::SessionLockLost { session: Some("s".into()) },
                Code::FailedPrecondition,
            ),
            (
                "ERR-6",
                Refusal::SessionCannotBeLocked { session: "s".into() },
                Code::FailedPrecondition,
            ),
            ("ERR-7", Refusal::NoSession, Code::DeadlineExceeded),
            ("ERR-8", Refusal::MessageNotFound { sequence, needs: "deferred" }, Code::NotFound),
            (
                "ERR-9",
                Refusal::MessageSizeExceeded { what: "the batch", bytes: 2, max: 1 },
                Code::InvalidArgument,
            ),
            (
                "ERR-10",
                Refusal::QuotaExceeded { what: "the entity", used: 2, max: 1 },
                Code::ResourceExhausted,
            ),
            ("QUOTA-37", Refusal::StorageFull { on: vec![1] }, Code::ResourceExhausted),
            ("ERR-11", Refusal::TopicBusy { topic: name(), waiting: 7 }, Code::ResourceExhausted),
            ("ERR-12", Refusal::Argument { what: "x", why: name() }, Code::InvalidArgument),
            (
                "ERR-13",
                Refusal::ArgumentOutOfRange { what: "x", value: name(), allowed: "y" },
                Code::InvalidArgument,
            ),
            (
                "ERR-14",
                Refusal::Serialization { what: name(), bytes: 2, max: 1 },
                Code::InvalidArgument,
            ),
            ("ERR-15", Refusal::InvalidOperation { why: "no" }, Code::FailedPrecondition),
            ("ERR-16", Refusal::NotSupported { what: "x" }, Code::Unimplemented),
            ("SEND-8", Refusal::SerialGap { expected: 3 }, Code::FailedPrecondition),
            (
                "ERR-20",
                Refusal::TransactionSizeExceeded { what: "bytes", held: 2, max: 1 },
                Code::InvalidArgument,
            ),
            ("ERR-21", Refusal::TransactionUnknown, Code::FailedPrecondition),
            ("ERR-21", Refusal::TransactionTimedOut, Code::FailedPrecondition),
            (
                "ERR-21",
                Refusal::TransactionRolledBack {
                    operation: 1,
                    cause: Refusal::MessageNotFound { sequence, needs: "scheduled" }.into(),
                },
                Code::NotFound,
            ),
        ]
    }

    /// ERR-27: every refusal travels with its name, rule, entity and a tracking id.
    #[test]
    fn err_27_a_status_carries_what_a_client_needs() {
        for (rule, refusal, code) in refusals() {
            let error = Error::new(refusal.clone(), "orders");
            let status = status(&error);
            assert_eq!(status.code(), code, "{refusal:?}");
            let info = status.get_details_error_info().expect("an ErrorInfo");
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (refusal.name(), DOMAIN));
            assert_eq!(info.metadata["rule"], rule);
            assert_eq!(info.metadata["entity"], "orders");
            assert_eq!(info.metadata["tracking_id"], error.tracking_id.to_string());
            let failure = failure(&error);
            assert_eq!((failure.code, failure.name.as_str()), (code as u32, refusal.name()));
            assert_eq!(failure.message, status.message());
        }
    }

    /// ERR-24, ERR-28: refused, certainly not done, perhaps done.
    #[test]
    fn err_24_err_28_the_three_answers_are_told_apart() {
        let group = GroupId(1);
        let retry = |kind: ErrorKind| failure(&Error::new(kind, "q")).retry();
        let refusal = Refusal::InvalidOperation { why: "no" };
        assert_eq!(retry(refusal.into()), v1::Retry::No);
        for (why, retry_after_ms) in [
            (Unavailable::Busy, 1_000),
            (Unavailable::NoLeader(group), 1_000),
            (Unavailable::Leaderless(group), 5_000),
            (Unavailable::Stopping, 1_000),
        ] {
            let error = Error::new(ErrorKind::Unavailable { why }, "q");
            let told = failure(&error);
            assert_eq!((told.retry(), told.retry_after_ms), (v1::Retry::Yes, retry_after_ms));
            let details = status(&error).get_error_details();
            let delay = details.retry_info().and_then(|info| info.retry_delay);
            assert_eq!(delay.map(|delay| delay.as_millis() as u64), Some(retry_after_ms));
        }
        for why in [Unknown::Late(group), Unknown::LeaderLost(group), Unknown::Forgotten] {
            assert_eq!(retry(ErrorKind::Unknown { why }), v1::Retry::PerhapsDone);
        }
        assert_eq!(retry(Refusal::PerhapsDone.into()), v1::Retry::PerhapsDone);
    }
}
