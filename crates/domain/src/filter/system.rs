//! System properties: what `sys.` may name (RULE-30).

use std::fmt;

use crate::{Span, Timestamp, Value};

/// A broker property that rules may read (RULE-30). Ordered as in MSG-2 and MSG-3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemProperty {
    MessageId,
    SessionId,
    ReplyToSessionId,
    PartitionKey,
    TransactionPartitionKey,
    CorrelationId,
    Subject,
    To,
    ReplyTo,
    ContentType,
    TimeToLive,
    ScheduledEnqueueTimeUtc,
    ForcePersistence,
    SequenceNumber,
    EnqueuedSequenceNumber,
    EnqueuedTimeUtc,
    ExpiresAtUtc,
    DeliveryCount,
    State,
    DeadLetterSource,
    Size,
}

use SystemProperty::*;

/// Current names, then the legacy ones of MSG-2.
const NAMES: [(&str, SystemProperty); 23] = [
    ("MessageId", MessageId),
    ("SessionId", SessionId),
    ("ReplyToSessionId", ReplyToSessionId),
    ("PartitionKey", PartitionKey),
    ("TransactionPartitionKey", TransactionPartitionKey),
    ("CorrelationId", CorrelationId),
    ("Subject", Subject),
    ("To", To),
    ("ReplyTo", ReplyTo),
    ("ContentType", ContentType),
    ("TimeToLive", TimeToLive),
    ("ScheduledEnqueueTimeUtc", ScheduledEnqueueTimeUtc),
    ("ForcePersistence", ForcePersistence),
    ("SequenceNumber", SequenceNumber),
    ("EnqueuedSequenceNumber", EnqueuedSequenceNumber),
    ("EnqueuedTimeUtc", EnqueuedTimeUtc),
    ("ExpiresAtUtc", ExpiresAtUtc),
    ("DeliveryCount", DeliveryCount),
    ("State", State),
    ("DeadLetterSource", DeadLetterSource),
    ("Size", Size),
    ("Label", Subject),
    ("ViaPartitionKey", TransactionPartitionKey),
];

impl SystemProperty {
    /// By current or legacy name, in any case (RULE-31).
    pub fn named(name: &str) -> Option<SystemProperty> {
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, found)| *found)
    }

    /// The current name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, property)| *property == self).map_or("", |(name, _)| name)
    }

    /// Every property once, by its current name.
    pub fn all() -> impl Iterator<Item = SystemProperty> {
        NAMES.iter().filter(|(name, property)| property.name() == *name).map(|(_, found)| *found)
    }

    /// Of a property that is no text, a value of its type.
    pub(super) fn example(self) -> Option<Value> {
        match self {
            TimeToLive => Some(Value::TimeSpan(1)),
            ScheduledEnqueueTimeUtc | EnqueuedTimeUtc | ExpiresAtUtc => Some(Value::DateTime(0)),
            SequenceNumber | EnqueuedSequenceNumber | DeliveryCount | Size => Some(Value::Long(0)),
            MessageId
            | SessionId
            | ReplyToSessionId
            | PartitionKey
            | TransactionPartitionKey
            | CorrelationId
            | Subject
            | To
            | ReplyTo
            | ContentType
            | ForcePersistence
            | State
            | DeadLetterSource => None,
        }
    }

    /// Whether an action may set it (RULE-30): what a sender sets, and can sensibly change.
    pub fn is_settable(self) -> bool {
        match self {
            MessageId
            | SessionId
            | ReplyToSessionId
            | PartitionKey
            | CorrelationId
            | Subject
            | To
            | ReplyTo
            | ContentType
            | TimeToLive
            | ScheduledEnqueueTimeUtc => true,
            TransactionPartitionKey
            | ForcePersistence
            | SequenceNumber
            | EnqueuedSequenceNumber
            | EnqueuedTimeUtc
            | ExpiresAtUtc
            | DeliveryCount
            | State
            | DeadLetterSource
            | Size => false,
        }
    }

    /// Whether a correlation filter may hold a condition on it (RULE-12).
    pub fn is_correlated(self) -> bool {
        matches!(
            self,
            CorrelationId
                | MessageId
                | To
                | ReplyTo
                | Subject
                | SessionId
                | ReplyToSessionId
                | ContentType
        )
    }

    /// QUOTA-17: those limited to 128 characters.
    pub(super) fn is_short(self) -> bool {
        matches!(self, MessageId | SessionId | ReplyToSessionId | PartitionKey)
    }
}

/// As a rule writes it: `sys.Subject`.
impl fmt::Display for SystemProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sys.{}", self.name())
    }
}

/// The value of a system property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemValue<'a> {
    Text(&'a str),
    Number(i64),
    Flag(bool),
    Instant(Timestamp),
    Duration(Span),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_30_every_property_has_one_current_name() {
        assert_eq!(SystemProperty::all().count(), 21);
        for property in SystemProperty::all() {
            assert_eq!(SystemProperty::named(property.name()), Some(property));
        }
    }
}
