//! Keys of message annotations (FORM-7).

pub const ENQUEUED_TIME: &str = "x-opt-enqueued-time";
pub const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
pub const ENQUEUE_SEQUENCE_NUMBER: &str = "x-opt-enqueue-sequence-number";
pub const LOCKED_UNTIL: &str = "x-opt-locked-until";
pub const MESSAGE_STATE: &str = "x-opt-message-state";
pub const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";
pub const PARTITION_KEY: &str = "x-opt-partition-key";
pub const VIA_PARTITION_KEY: &str = "x-opt-via-partition-key";
pub const PARTITION_ID: &str = "x-opt-partition-id";
pub const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";

/// The same as JMS clients say it, to a broker that offers it.
pub const DELIVERY_TIME: &str = "x-opt-delivery-time";
/// Of a delivery, not of the message: the lock's token (SETTLE-2).
pub const LOCK_TOKEN: &str = "x-opt-lock-token";

/// Those the broker sets (MSG-3): what a producer wrote under them is not delivered.
pub const OF_THE_BROKER: [&str; 7] = [
    ENQUEUED_TIME,
    SEQUENCE_NUMBER,
    ENQUEUE_SEQUENCE_NUMBER,
    LOCKED_UNTIL,
    MESSAGE_STATE,
    PARTITION_ID,
    DEAD_LETTER_SOURCE,
];
