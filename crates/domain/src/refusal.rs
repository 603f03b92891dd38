//! Refusals: what a client is told when nothing was done (ERR). Each edge has one exhaustive
//! mapping from these to its own codes; nobody parses the text.

use std::fmt;

use thiserror::Error;

use crate::{EntityId, Excerpt, GroupId, LockToken, SequenceNumber, SessionId, told_name};

/// Why a request changed nothing (ERR-29). The text is one line that says what to do instead.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    /// ERR-1.
    #[error("entity '{}' does not exist; create it first", Excerpt(.name))]
    EntityNotFound { name: String },
    /// The group does not know this id: the edge's route is stale, or the entity is gone.
    #[error("entity id {} is not known here", .entity.0)]
    StaleRoute { entity: EntityId },
    /// The entity is on its way to another group, or there: with `to` ask that one, without ask again.
    #[error("the entity is being moved to another group; try again")]
    Relocated { entity: EntityId, to: Option<GroupId> },
    /// ERR-2.
    #[error("the name '{}' is already used by an entity", Excerpt(.name))]
    EntityAlreadyExists { name: String },
    /// ERR-3.
    #[error("entity is {status}; set its status to Active to allow this")]
    EntityDisabled { status: &'static str },
    /// ERR-4.
    #[error("the lock {token} is not held: it lapsed, was settled, or never was")]
    MessageLockLost { token: LockToken },
    /// ERR-5. Without an id where what was asked named a message that is not there.
    #[error("the lock of {} is not held: it lapsed, was given back, or never was", named(.session))]
    SessionLockLost { session: Option<SessionId> },
    /// ERR-6.
    #[error("session '{}' is held by another receiver; accept it later", Excerpt(.session.as_str()))]
    SessionCannotBeLocked { session: SessionId },
    /// ERR-7.
    #[error("no session with messages is free; ask again later")]
    NoSession,
    /// ERR-8.
    #[error("message {sequence} is not there in the state this needs ({needs})")]
    MessageNotFound { sequence: SequenceNumber, needs: &'static str },
    /// ERR-9.
    #[error("{what} is {bytes} bytes, the limit is {max}")]
    MessageSizeExceeded { what: &'static str, bytes: u64, max: u64 },
    /// ERR-10.
    #[error("{what} holds {used}, the limit is {max}; free some first")]
    QuotaExceeded { what: &'static str, used: u64, max: u64 },
    /// QUOTA-37.
    #[error("the disk of {} is nearly full; free some space there, then send again", nodes(.on))]
    StorageFull { on: Vec<u64> },
    /// ERR-11, RULE-42.
    #[error("topic '{}' is busy: {waiting} messages wait for its rules; send again later", Excerpt(.topic))]
    TopicBusy { topic: String, waiting: u64 },
    /// ERR-12.
    #[error("{what}: {why}")]
    Argument { what: &'static str, why: String },
    /// ERR-32.
    #[error("{what} cannot be decoded: {why}")]
    Undecodable { what: &'static str, why: String },
    /// ERR-13.
    #[error("{what} is {}, allowed is {allowed}", Excerpt(.value))]
    ArgumentOutOfRange { what: &'static str, value: String, allowed: &'static str },
    /// ERR-14.
    #[error("{} takes {bytes} bytes, the limit is {max}", Excerpt(.what))]
    Serialization { what: String, bytes: u64, max: u64 },
    /// ERR-15.
    #[error("{why}")]
    InvalidOperation { why: &'static str },
    /// ERR-16.
    #[error("{what} is not supported")]
    NotSupported { what: &'static str },
    /// ERR-18, RULE-9.
    #[error("no subscription of topic '{}' takes the message", Excerpt(.topic))]
    NoMatchingSubscription { topic: String },
    /// ERR-19, RULE-21. `exception` is the client name: of a filter or of an action.
    #[error("{why}")]
    InvalidRule { exception: &'static str, why: String },
    /// ERR-20.
    #[error("the transaction would hold {held} {what}, the limit is {max}; commit it in parts")]
    TransactionSizeExceeded { what: &'static str, held: u64, max: u64 },
    /// ERR-21, TX-7.
    #[error("there is no such open transaction; begin a new one")]
    TransactionUnknown,
    /// ERR-21, TX-3.
    #[error(
        "the transaction was rolled back: not committed within 2 minutes of its first operation"
    )]
    TransactionTimedOut,
    /// ERR-21, TX-9, TX-10. Operations count from 0.
    #[error(
        "the transaction was rolled back, nothing of it was done; operation {operation}: {cause}"
    )]
    TransactionRolledBack { operation: u32, cause: Cause },
    /// SEND-8: the requests from `expected` on did not arrive; send them first.
    #[error("serial gap; resend from {expected}")]
    SerialGap { expected: u64 },
    /// Between groups: the group asked has had this cut of the cluster, and the one that asks another.
    #[error("cut {cut} is the last one here; ask again when both have had the same")]
    OtherCut { cut: u64 },
    /// SEND-8, ERR-28: a repeat whose first outcome is no longer known here. Not a certain refusal.
    #[error("this request may have been done before; its outcome is no longer known")]
    PerhapsDone,
}

/// What an operation of a transaction was refused for: itself never a rolled back transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause(pub Box<Refusal>);

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Cause {
        Cause(Box::new(refusal))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Refusal {
    /// With entities by the names that clients of their namespace know (NS-3).
    #[must_use]
    pub fn told(self) -> Refusal {
        let told = |name: String| match told_name(&name) {
            told if told.len() == name.len() => name,
            told => told.to_owned(),
        };
        match self {
            Refusal::EntityNotFound { name } => Refusal::EntityNotFound { name: told(name) },
            Refusal::EntityAlreadyExists { name } => {
                Refusal::EntityAlreadyExists { name: told(name) }
            }
            Refusal::TopicBusy { topic, waiting } => {
                Refusal::TopicBusy { topic: told(topic), waiting }
            }
            Refusal::NoMatchingSubscription { topic } => {
                Refusal::NoMatchingSubscription { topic: told(topic) }
            }
            Refusal::TransactionRolledBack { operation, cause } => {
                Refusal::TransactionRolledBack { operation, cause: cause.0.told().into() }
            }
            other => other,
        }
    }

    /// ERR's client name.
    pub fn name(&self) -> &'static str {
        match self {
            Refusal::EntityNotFound { .. } | Refusal::StaleRoute { .. } => {
                "MessagingEntityNotFound"
            }
            Refusal::EntityAlreadyExists { .. } => "MessagingEntityAlreadyExists",
            Refusal::EntityDisabled { .. } => "MessagingEntityDisabled",
            Refusal::MessageLockLost { .. } => "MessageLockLost",
            Refusal::SessionLockLost { .. } => "SessionLockLost",
            Refusal::SessionCannotBeLocked { .. } => "SessionCannotBeLocked",
            Refusal::NoSession => "ServiceTimeout",
            Refusal::MessageNotFound { .. } => "MessageNotFound",
            Refusal::MessageSizeExceeded { .. } => "MessageSizeExceeded",
            Refusal::QuotaExceeded { .. } => "QuotaExceeded",
            Refusal::StorageFull { .. } => "StorageQuotaExceeded",
            Refusal::TopicBusy { .. } | Refusal::Relocated { .. } => "ServiceBusy",
            Refusal::Argument { .. } => "ArgumentException",
            Refusal::ArgumentOutOfRange { .. } => "ArgumentOutOfRangeException",
            Refusal::Undecodable { .. } | Refusal::Serialization { .. } => "SerializationException",
            Refusal::InvalidOperation { .. } => "InvalidOperationException",
            Refusal::NotSupported { .. } => "NotSupportedException",
            Refusal::NoMatchingSubscription { .. } => "NoMatchingSubscriptionException",
            Refusal::InvalidRule { exception, .. } => exception,
            Refusal::TransactionSizeExceeded { .. } => "TransactionSizeExceededException",
            Refusal::TransactionUnknown
            | Refusal::TransactionTimedOut
            | Refusal::TransactionRolledBack { .. } => "TransactionException",
            Refusal::SerialGap { .. } => "SerialGap",
            Refusal::OtherCut { .. } => "OtherCut",
            Refusal::PerhapsDone => "ServiceTimeout",
        }
    }

    /// The row of the specification this refusal stands for.
    pub fn rule(&self) -> &'static str {
        match self {
            Refusal::EntityNotFound { .. } | Refusal::StaleRoute { .. } => "ERR-1",
            Refusal::EntityAlreadyExists { .. } => "ERR-2",
            Refusal::EntityDisabled { .. } => "ERR-3",
            Refusal::MessageLockLost { .. } => "ERR-4",
            Refusal::SessionLockLost { .. } => "ERR-5",
            Refusal::SessionCannotBeLocked { .. } => "ERR-6",
            Refusal::NoSession => "ERR-7",
            Refusal::MessageNotFound { .. } => "ERR-8",
            Refusal::MessageSizeExceeded { .. } => "ERR-9",
            Refusal::QuotaExceeded { .. } => "ERR-10",
            Refusal::StorageFull { .. } => "QUOTA-37",
            Refusal::TopicBusy { .. } | Refusal::Relocated { .. } => "ERR-11",
            Refusal::Argument { .. } => "ERR-12",
            Refusal::Undecodable { .. } => "ERR-32",
            Refusal::ArgumentOutOfRange { .. } => "ERR-13",
            Refusal::Serialization { .. } => "ERR-14",
            Refusal::InvalidOperation { .. } => "ERR-15",
            Refusal::NotSupported { .. } => "ERR-16",
            Refusal::NoMatchingSubscription { .. } => "ERR-18",
            Refusal::InvalidRule { .. } => "ERR-19",
            Refusal::TransactionSizeExceeded { .. } => "ERR-20",
            Refusal::TransactionUnknown
            | Refusal::TransactionTimedOut
            | Refusal::TransactionRolledBack { .. } => "ERR-21",
            Refusal::SerialGap { .. } => "SEND-8",
            Refusal::OtherCut { .. } => "FWD-4",
            Refusal::PerhapsDone => "ERR-28",
        }
    }
}

fn named(id: &Option<SessionId>) -> String {
    match id {
        Some(id) => format!("session '{}'", Excerpt(id.as_str())),
        None => "its session".to_owned(),
    }
}

fn nodes(on: &[u64]) -> String {
    let ids: Vec<String> = on.iter().map(u64::to_string).collect();
    format!("node {}", ids.join(" and of node "))
}
