//! What a client meets.

use serde::{Deserialize, Serialize};

use crate::error_name::ErrorName;
use crate::operation::{Operation, Protocol};
use crate::span_range::SpanRange;

/// Before the deed, or between it and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    #[default]
    Before,
    After,
}

/// What is done to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It waits longer. A message on its way is overtaken by others meanwhile.
    Delay { time: SpanRange, phase: Phase },
    /// It is refused, and nothing is done.
    Refuse { error: ErrorName },
    /// Nothing is done, and nobody says so.
    LoseRequest,
    /// It is done, and nobody says so. Of a message on its way: it stays locked, or is gone where it was deleted.
    LoseAnswer,
    /// The lock that it gets ends so soon, whatever it renews: of the message, or of the session.
    Lapse { after: SpanRange },
    /// Its link ends with an error.
    Detach { error: ErrorName },
    /// Its connection ends with an error.
    Close { error: ErrorName },
    /// Its connection is reset, without a word.
    Reset,
    /// Its connection stays, and nothing comes through it any more in either direction, for the time given.
    Silence { time: SpanRange },
    /// A message stops in its middle, and the connection is reset.
    Cut,
    /// Its sender gets no credit.
    WithholdCredit,
    /// More than so many a second are refused with ServiceBusy.
    Throttle { per_second: u32 },
}

impl Effect {
    /// The word for it in a rule.
    pub fn name(&self) -> &'static str {
        match self {
            Effect::Delay { .. } => "delay",
            Effect::Refuse { .. } => "refuse",
            Effect::LoseRequest => "lose-request",
            Effect::LoseAnswer => "lose-answer",
            Effect::Lapse { .. } => "lapse",
            Effect::Detach { .. } => "detach",
            Effect::Close { .. } => "close",
            Effect::Reset => "reset",
            Effect::Silence { .. } => "silence",
            Effect::Cut => "cut",
            Effect::WithholdCredit => "withhold-credit",
            Effect::Throttle { .. } => "throttle",
        }
    }

    /// Whether it can be done over a protocol: HTTP has neither links nor connections that anybody holds.
    pub fn works_over(&self, protocol: Protocol) -> bool {
        match (protocol, self) {
            (Protocol::Amqp, _) => true,
            (
                Protocol::Http,
                Effect::Delay { .. }
                | Effect::Refuse { .. }
                | Effect::LoseRequest
                | Effect::LoseAnswer
                | Effect::Throttle { .. },
            ) => true,
            (
                Protocol::Http,
                Effect::Lapse { .. }
                | Effect::Detach { .. }
                | Effect::Close { .. }
                | Effect::Reset
                | Effect::Silence { .. }
                | Effect::Cut
                | Effect::WithholdCredit,
            ) => false,
        }
    }

    /// Whether it can be done to who does this.
    pub fn suits(&self, operation: Operation) -> bool {
        use Operation::{
            AcceptSession, Authenticate, OpenConnection, OpenLink, Receive, RenewToken,
        };
        match self {
            Effect::Delay { phase: Phase::Before, .. } => operation != OpenConnection,
            Effect::Delay { phase: Phase::After, .. } => {
                operation.has_answer() && !matches!(operation, Authenticate | RenewToken)
            }
            Effect::Refuse { .. } | Effect::Throttle { .. } => operation.has_answer(),
            Effect::LoseRequest => operation.has_answer(),
            Effect::LoseAnswer => !matches!(
                operation,
                OpenConnection | Authenticate | RenewToken | OpenLink | AcceptSession
            ),
            Effect::Lapse { .. } => matches!(operation, Receive | AcceptSession),
            Effect::Detach { .. } => {
                !matches!(operation, OpenConnection | Authenticate | RenewToken)
            }
            Effect::Close { .. } | Effect::Reset | Effect::Silence { .. } => true,
            Effect::Cut => operation == Receive,
            Effect::WithholdCredit => operation == OpenLink,
        }
    }
}
