//! Errors: three answers, never blurred (refused, certainly not done, perhaps done).

use std::error::Error as _;
use std::fmt;

use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::v1;

/// Why a call has no result. The variant tells the caller whether a retry may repeat the effect.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// Nothing was changed (ERR-29), and the same request will be refused again.
    #[error("{0}")]
    Refused(Box<Detail>),
    /// Certainly not done: safe to send again.
    #[error("{0}")]
    NotDone(Box<Detail>),
    /// May have been done (ERR-28). A repeat under another origin may do it twice.
    #[error("{0}")]
    PerhapsDone(Box<Detail>),
}

/// What the broker said; fields it did not give are empty.
#[derive(Clone, Debug)]
pub struct Detail {
    pub code: Code,
    /// ERR's client name, as in `MessageLockLost`.
    pub name: String,
    /// The row of the specification, as in `ERR-4`.
    pub rule: String,
    pub entity: String,
    pub tracking_id: String,
    pub message: String,
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut notes = Vec::new();
        if !self.name.is_empty() {
            notes.push(match self.rule.is_empty() {
                true => self.name.clone(),
                false => format!("{}, {}", self.name, self.rule),
            });
        }
        if !self.tracking_id.is_empty() {
            notes.push(format!("tracking id {}", self.tracking_id));
        }
        match notes.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", notes.join("; ")),
        }
    }
}

impl Error {
    /// What the broker said.
    pub fn detail(&self) -> &Detail {
        match self {
            Error::Refused(detail) | Error::NotDone(detail) | Error::PerhapsDone(detail) => detail,
        }
    }

    /// ERR's client name, as in `MessageLockLost`; empty where there is none.
    pub fn name(&self) -> &str {
        &self.detail().name
    }

    /// The request cannot be right: refused before it left this process.
    pub(crate) fn argument(message: impl Into<String>) -> Error {
        Error::Refused(Box::new(Detail {
            code: Code::InvalidArgument,
            name: "ArgumentException".into(),
            rule: "ERR-12".into(),
            entity: String::new(),
            tracking_id: String::new(),
            message: message.into(),
        }))
    }

    /// LOCK-15: refused as a node would.
    pub(crate) fn no_lock() -> Error {
        Error::Refused(Box::new(Detail {
            code: Code::FailedPrecondition,
            name: "InvalidOperationException".into(),
            rule: "ERR-15".into(),
            entity: String::new(),
            tracking_id: String::new(),
            message: "this delivery holds no lock: there is nothing to settle".into(),
        }))
    }

    /// Nothing was handed to any node.
    pub(crate) fn not_done(message: impl Into<String>) -> Error {
        Error::NotDone(Box::new(Detail::local(Code::Unavailable, message.into())))
    }

    /// Handed to a node whose answer did not come.
    pub(crate) fn perhaps_done(message: impl Into<String>) -> Error {
        Error::PerhapsDone(Box::new(Detail::local(Code::Unknown, message.into())))
    }

    /// Names the node, where no node has spoken: an answer speaks for itself.
    pub(crate) fn at(mut self, address: &str) -> Error {
        if let Error::NotDone(detail) | Error::PerhapsDone(detail) = &mut self
            && detail.name.is_empty()
        {
            detail.message = format!("{address}: {}", detail.message);
        }
        self
    }

    /// The same answer about the same request, now known to be of unknown outcome.
    pub(crate) fn into_perhaps_done(self) -> Error {
        match self {
            Error::Refused(detail) | Error::NotDone(detail) | Error::PerhapsDone(detail) => {
                Error::PerhapsDone(detail)
            }
        }
    }

    /// A repeat whose first outcome the broker no longer knows: asking again will not tell more.
    pub(crate) fn is_forgotten(&self) -> bool {
        matches!(self, Error::PerhapsDone(detail) if detail.code == Code::Aborted)
    }

    /// The node's certificate was not taken: the same node will not be trusted a moment later either.
    pub(crate) fn is_untrusted(&self) -> bool {
        matches!(self, Error::NotDone(detail) if detail.is_about_trust())
    }

    /// SEND-8: the broker misses earlier serials of this producer.
    pub(crate) fn is_serial_gap(&self) -> bool {
        self.name() == "SerialGap"
    }

    /// The refusal concerns one message of a batch, not the queue or the sender: its neighbours may
    /// be accepted without it.
    pub(crate) fn is_about_a_message(&self) -> bool {
        let rule = self.detail().rule.as_str();
        matches!(self, Error::Refused(_))
            && matches!(rule, "ERR-9" | "ERR-12" | "ERR-13" | "ERR-14" | "ERR-15" | "ERR-16")
    }
}

impl Detail {
    /// It is the node whose proof does not count, not this client's.
    pub fn is_about_trust(&self) -> bool {
        self.name.is_empty() && self.code == Code::Unauthenticated
    }

    fn local(code: Code, message: String) -> Detail {
        let empty = String::new;
        Detail {
            code,
            name: empty(),
            rule: empty(),
            entity: empty(),
            tracking_id: empty(),
            message,
        }
    }
}

/// Keys of `google.rpc.ErrorInfo.metadata`; its `reason` is ERR's client name.
mod key {
    pub const RULE: &str = "rule";
    pub const ENTITY: &str = "entity";
    pub const TRACKING_ID: &str = "tracking_id";
    pub const RETRY: &str = "retry";
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        let mut detail = Box::new(Detail::local(status.code(), status.message().to_owned()));
        let mut retry = None;
        if let Some(mut info) = status.get_details_error_info() {
            let mut take = |name: &str| info.metadata.remove(name).unwrap_or_default();
            detail.rule = take(key::RULE);
            detail.entity = take(key::ENTITY);
            detail.tracking_id = take(key::TRACKING_ID);
            retry = v1::Retry::from_str_name(&take(key::RETRY));
            detail.name = info.reason;
        }
        match retry {
            Some(v1::Retry::No) => Error::Refused(detail),
            Some(v1::Retry::Yes) => Error::NotDone(detail),
            Some(v1::Retry::PerhapsDone) => Error::PerhapsDone(detail),
            Some(v1::Retry::Unspecified) | None => unlabelled(&status, detail),
        }
    }
}

/// A status that did not come from a broker's edge: the transport's, or a foreign server's.
fn unlabelled(status: &Status, mut detail: Box<Detail>) -> Error {
    if let Some(why) = untrusted(status) {
        // Another node may have one that counts.
        detail.code = Code::Unauthenticated;
        detail.message = format!(
            "the certificate that is shown there does not count here: {why}; trust the authority that \
             signed it (--tls-ca)"
        );
        return Error::NotDone(detail);
    }
    if failed_to_connect(status) {
        detail.message = format!("cannot connect: {}", root_cause(status));
        return Error::NotDone(detail);
    }
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Error::Refused(detail),
        Code::ResourceExhausted => Error::NotDone(detail),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Error::PerhapsDone(detail),
    }
}

fn failed_to_connect(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// How rustls begins to say that it did not take a certificate.
const UNTRUSTED: &str = "invalid peer certificate: ";

/// Why the node's certificate was not taken, if that is so. What an I/O error is made of is not among
/// its sources, and rustls is no part of this library.
fn untrusted(status: &Status) -> Option<String> {
    root_cause(status).strip_prefix(UNTRUSTED).map(str::to_owned)
}

fn root_cause(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

impl From<v1::Failure> for Error {
    fn from(failure: v1::Failure) -> Error {
        let retry = failure.retry();
        let detail = Box::new(Detail {
            code: Code::from_i32(failure.code.try_into().unwrap_or(i32::MAX)),
            name: failure.name,
            rule: failure.rule,
            entity: failure.entity,
            tracking_id: failure.tracking_id,
            message: failure.message,
        });
        match retry {
            v1::Retry::No => Error::Refused(detail),
            v1::Retry::Yes => Error::NotDone(detail),
            // An answer that does not say is taken for the one that promises least.
            v1::Retry::PerhapsDone | v1::Retry::Unspecified => Error::PerhapsDone(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    fn labelled(retry: &str) -> Status {
        let metadata = HashMap::from([
            (key::RULE.to_owned(), "ERR-4".to_owned()),
            (key::ENTITY.to_owned(), "orders".to_owned()),
            (key::TRACKING_ID.to_owned(), "t-1".to_owned()),
            (key::RETRY.to_owned(), retry.to_owned()),
        ]);
        let details = ErrorDetails::with_error_info("MessageLockLost", "mayfly", metadata);
        Status::with_error_details(Code::FailedPrecondition, "the lock is gone", details)
    }

    #[test]
    fn three_answers_are_told_apart() {
        let refused = Error::from(labelled("RETRY_NO"));
        assert!(matches!(refused, Error::Refused(_)));
        assert_eq!(
            refused.to_string(),
            "the lock is gone (MessageLockLost, ERR-4; tracking id t-1)"
        );
        assert_eq!(refused.detail().entity, "orders");
        assert!(matches!(Error::from(labelled("RETRY_YES")), Error::NotDone(_)));
        assert!(matches!(Error::from(labelled("RETRY_PERHAPS_DONE")), Error::PerhapsDone(_)));
    }

    #[test]
    fn a_status_without_detail_promises_no_more_than_its_code() {
        for (code, perhaps) in
            [(Code::Unavailable, true), (Code::Internal, true), (Code::NotFound, false)]
        {
            let error = Error::from(Status::new(code, "text"));
            assert_eq!(matches!(error, Error::PerhapsDone(_)), perhaps, "{code:?}");
        }
    }

    #[test]
    fn a_failure_inside_a_stream_keeps_everything() {
        let error = Error::from(v1::Failure {
            code: Code::NotFound as u32,
            name: "MessagingEntityNotFound".into(),
            rule: "ERR-1".into(),
            entity: "q".into(),
            tracking_id: "t".into(),
            retry: v1::Retry::No as i32,
            message: "create it first".into(),
            retry_after_ms: 0,
        });
        assert!(
            matches!(&error, Error::Refused(d) if d.code == Code::NotFound && d.rule == "ERR-1")
        );
    }
}
