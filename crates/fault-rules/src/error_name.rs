//! What clients can be told instead of what they asked for: rows of the table of errors (ERR).

use serde::{Deserialize, Serialize};

/// An error by its client's name for it (ERR-1 to ERR-25).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorName {
    MessagingEntityNotFound,
    MessagingEntityAlreadyExists,
    MessagingEntityDisabled,
    MessageLockLost,
    SessionLockLost,
    SessionCannotBeLocked,
    /// Perhaps done: every SDK tries again.
    ServiceTimeout,
    MessageNotFound,
    MessageSizeExceeded,
    QuotaExceeded,
    /// Not done: every SDK tries again.
    ServiceBusy,
    ArgumentException,
    InvalidOperationException,
    NotSupportedException,
    UnauthorizedAccessException,
    /// Broken: no SDK that knows better tries again.
    GeneralError,
    /// The broker ends a link of its own accord.
    DetachForced,
    /// The broker ends a connection of its own accord.
    ConnectionForced,
}
