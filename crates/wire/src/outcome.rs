//! Outcomes: kept in rows for repeats (SEND-8), and sent to the node that asked.

use domain::{
    CatalogOutcome, Delivery, Fired, HeldLock, JoinFault, MessageState, Outcome, Refusal,
};

use crate::codec::{choice, record};

/// Tag of [`Refusal::TransactionRolledBack`].
pub(crate) const ROLLED_BACK: u8 = 43;

choice!(Outcome {
    0 => Done,
    1 => Refused(refusal),
    2 => Sent { sequences },
    3 => Acquired { deliveries, more },
    4 => Settled { refused },
    5 => Renewed { until },
    6 => Deleted { count, more },
    7 => Fired(fired),
    8 => Catalog(outcome),
    9 => Accepted { token, until },
    30 => Arrived { done, refused },
    12 => Spared,
    40 => Committed { performed },
});
record!(Fired { activated, dropped, dead_lettered, released, late_ms_max, late_ms_sum, more });
choice!(CatalogOutcome {
    1 => Entry { row, fresh },
    2 => JoinTokenCreated { expires_at },
    3 => Joined { node },
    4 => NotJoined(fault),
    5 => FaultRulesChanged { at },
    6 => Namespace(row),
    10 => Document(row),
});
choice!(JoinFault {
    1 => Unknown,
    2 => Used { node },
    3 => Expired { ago },
    4 => OtherNode { of, asked },
});

record!(Delivery {
    sequence,
    body,
    topic,
    size_bytes,
    state,
    delivery_count,
    enqueued_at,
    enqueued_sequence,
    dead_letter_source,
    scheduled_at,
    ttl,
    expires_at,
    lock,
    overlay,
});
choice!(MessageState { 0 => Active, 1 => Deferred, 2 => Scheduled });
record!(HeldLock { token, until });

choice!(Refusal {
    1 => EntityNotFound { name },
    2 => StaleRoute { entity },
    3 => EntityAlreadyExists { name },
    4 => EntityDisabled { status },
    5 => MessageLockLost { token },
    6 => MessageNotFound { sequence, needs },
    7 => MessageSizeExceeded { what, bytes, max },
    8 => QuotaExceeded { what, used, max },
    9 => Argument { what, why },
    10 => ArgumentOutOfRange { what, value, allowed },
    11 => Serialization { what, bytes, max },
    12 => InvalidOperation { why },
    13 => NotSupported { what },
    14 => SerialGap { expected },
    15 => PerhapsDone,
    16 => StorageFull { on },
    17 => SessionLockLost { session },
    18 => SessionCannotBeLocked { session },
    19 => NoSession,
    24 => NoMatchingSubscription { topic },
    25 => InvalidRule { exception, why },
    40 => TransactionSizeExceeded { what, held, max },
    41 => TransactionUnknown,
    42 => TransactionTimedOut,
    43 => TransactionRolledBack { operation, cause },
    50 => Undecodable { what, why },
    51 => TopicBusy { topic, waiting },
    52 => OtherCut { cut },
    53 => Relocated { entity, to },
});
