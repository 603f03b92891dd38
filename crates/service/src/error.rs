//! Why a call has no result. The variant tells whether a retry may repeat the effect: refused,
//! certainly not done, perhaps done; never blurred.

use std::sync::Arc;
use std::time::Duration;

use domain::{EXCERPT_BYTES_MAX, Excerpt, GroupId, Refusal, told_name};
use thiserror::Error;
use uuid::Uuid;

use crate::metric;

/// One of the three answers, with what a person needs to find it again (ERR-27).
#[derive(Clone, Debug, Error)]
#[error("{kind} [entity '{entity}', tracking id {tracking_id}]")]
pub struct Error {
    #[source]
    pub kind: ErrorKind,
    /// The name the caller gave, of a long one its beginning (ERR-31); empty where the call concerned
    /// none.
    pub entity: Arc<str>,
    /// Also in this node's log, where there is more to say.
    pub tracking_id: Uuid,
}

/// What a caller does differently.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ErrorKind {
    /// Nothing was changed, and the same request will be refused again.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Certainly not done (ERR-24): safe to send again.
    #[error("{why}; nothing was done, try again{}", after(why))]
    Unavailable { why: Unavailable },
    /// Perhaps done (ERR-28): repeat with the same origin, or look.
    #[error("{why}; the request may still have been done")]
    Unknown { why: Unknown },
}

impl ErrorKind {
    /// ERR's client name.
    pub fn name(&self) -> &'static str {
        match self {
            ErrorKind::Refused(refusal) => refusal.name(),
            ErrorKind::Unavailable { why: Unavailable::Busy | Unavailable::Leaderless(_) } => {
                "ServiceBusy"
            }
            ErrorKind::Unavailable {
                why: Unavailable::NoLeader(_) | Unavailable::Starting | Unavailable::Stopping,
            } => "ServiceCommunicationProblem",
            ErrorKind::Unknown { .. } => "ServiceTimeout",
        }
    }
}

/// Why nothing could be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unavailable {
    #[error("group {0} has no leader that answers")]
    NoLeader(GroupId),
    /// For longer than an election takes.
    #[error("no majority of group {0}'s nodes confirms a leader")]
    Leaderless(GroupId),
    #[error("this node does not know the cluster yet")]
    Starting,
    #[error("this node is shutting down")]
    Stopping,
    #[error("too many bytes wait to be stored here")]
    Busy,
}

impl Unavailable {
    /// How long to wait before the next try.
    pub fn retry_after(self) -> Duration {
        match self {
            Unavailable::NoLeader(_)
            | Unavailable::Starting
            | Unavailable::Stopping
            | Unavailable::Busy => Duration::from_secs(1),
            Unavailable::Leaderless(_) => Duration::from_secs(5),
        }
    }
}

/// The time is told where it is more than a moment.
fn after(why: &Unavailable) -> String {
    match why.retry_after().as_secs() {
        0 | 1 => String::new(),
        seconds => format!(" in {seconds} s"),
    }
}

/// Why it is not known what became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unknown {
    #[error("group {0} did not answer in time")]
    Late(GroupId),
    #[error("the leader of group {0} was lost before it answered")]
    LeaderLost(GroupId),
    #[error("its first outcome is no longer known")]
    Forgotten,
}

impl Error {
    pub fn new(kind: impl Into<ErrorKind>, entity: impl Into<Arc<str>>) -> Error {
        let kind = match kind.into() {
            // SEND-8: a repeat that nobody remembers is not a certain refusal, whoever says it.
            ErrorKind::Refused(Refusal::PerhapsDone) => {
                ErrorKind::Unknown { why: Unknown::Forgotten }
            }
            ErrorKind::Refused(refusal) => ErrorKind::Refused(refusal.told()),
            kind => kind,
        };
        metric::refused(kind.name());
        let entity: Arc<str> = entity.into();
        let entity = match told_name(&entity) {
            told if told.len() == entity.len() => entity,
            told => told.into(),
        };
        let entity = match entity.len() > EXCERPT_BYTES_MAX {
            true => Excerpt(&entity).to_string().into(),
            false => entity,
        };
        Error { kind, entity, tracking_id: Uuid::new_v4() }
    }

    /// The refusal, if this is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.kind {
            ErrorKind::Refused(refusal) => Some(refusal),
            ErrorKind::Unavailable { .. } | ErrorKind::Unknown { .. } => None,
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    /// ERR-27: the text names the entity and a tracking id.
    #[test]
    fn err_27_an_error_names_its_entity_and_a_tracking_id() {
        let refusal = Refusal::EntityNotFound { name: "orders".into() };
        let error = Error::new(refusal, "orders");
        let text = error.to_string();
        assert!(
            text.contains("'orders'") && text.contains(&error.tracking_id.to_string()),
            "{text}"
        );
        assert_ne!(error.tracking_id, Error::new(Refusal::PerhapsDone, "orders").tracking_id);
    }

    /// Whatever a client wrote, and wherever it is repeated.
    #[test]
    fn err_31_an_error_is_no_longer_for_what_a_client_wrote() {
        let long = || "n".repeat(40_000);
        for refusal in [
            Refusal::EntityNotFound { name: long() },
            Refusal::EntityAlreadyExists { name: long() },
            Refusal::SessionLockLost { session: Some(long().into()) },
            Refusal::SessionCannotBeLocked { session: long().into() },
            Refusal::ArgumentOutOfRange { what: "x", value: long(), allowed: "less" },
            Refusal::Serialization { what: long(), bytes: 40_000, max: 1 },
            Refusal::NoMatchingSubscription { topic: long() },
        ] {
            let text = Error::new(refusal.clone(), long()).to_string();
            assert!(text.contains(&"n".repeat(100)) && text.len() < 400, "{refusal:?}: {text}");
        }
    }

    /// ERR-28: a repeat whose outcome is forgotten is "perhaps done", not refused.
    #[test]
    fn err_28_a_forgotten_repeat_is_perhaps_done() {
        let error = Error::new(Refusal::PerhapsDone, "orders");
        assert_eq!(error.kind, ErrorKind::Unknown { why: Unknown::Forgotten });
        assert_eq!(error.refusal(), None);
    }
}
