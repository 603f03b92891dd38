//! What a client does when it meets a fault.

use serde::{Deserialize, Serialize};

/// Over which protocol. Of HTTP it is the sending, receiving and settling of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    Amqp,
    Http,
}

/// What is done, by Service Bus's names for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A connection is opened, and its client known.
    OpenConnection,
    /// A token is shown for the first time on a connection.
    Authenticate,
    /// One is shown for the same once more.
    RenewToken,
    /// A sender or receiver is opened; one of a session is [`Operation::AcceptSession`].
    OpenLink,
    AcceptSession,
    /// A message, or a batch.
    Send,
    /// One message, on its way to the client.
    Receive,
    Complete,
    Abandon,
    DeadLetter,
    Defer,
    RenewLock,
    Peek,
    Schedule,
    CancelScheduled,
    ReceiveDeferred,
    DeleteMessages,
    RenewSessionLock,
    GetSessionState,
    SetSessionState,
    ListSessions,
    /// Rules of a subscription are read or changed over a link.
    ManageRules,
}

impl Operation {
    /// Whether it is about a message whose properties are at hand, so that a filter can look at it.
    pub fn shows_message(self) -> bool {
        matches!(self, Operation::Send | Operation::Receive)
    }

    /// A question with an answer of its own.
    pub fn has_answer(self) -> bool {
        !matches!(self, Operation::OpenConnection | Operation::Receive)
    }
}
