//! Names of error conditions of the standard (AMQP 1.0, part 2, 2.8.14 to 2.8.18,
//! and part 4, 4.5.8).

pub const FRAMING_ERROR: &str = "amqp:connection:framing-error";
pub const CONNECTION_FORCED: &str = "amqp:connection:forced";
pub const DECODE_ERROR: &str = "amqp:decode-error";
pub const FRAME_SIZE_TOO_SMALL: &str = "amqp:frame-size-too-small";
pub const INTERNAL_ERROR: &str = "amqp:internal-error";
pub const INVALID_FIELD: &str = "amqp:invalid-field";
pub const NOT_ALLOWED: &str = "amqp:not-allowed";
pub const NOT_FOUND: &str = "amqp:not-found";
pub const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
pub const RESOURCE_DELETED: &str = "amqp:resource-deleted";
pub const RESOURCE_LIMIT_EXCEEDED: &str = "amqp:resource-limit-exceeded";
pub const UNAUTHORIZED_ACCESS: &str = "amqp:unauthorized-access";
pub const ERRANT_LINK: &str = "amqp:session:errant-link";
pub const HANDLE_IN_USE: &str = "amqp:session:handle-in-use";
pub const UNATTACHED_HANDLE: &str = "amqp:session:unattached-handle";
pub const WINDOW_VIOLATION: &str = "amqp:session:window-violation";
pub const DETACH_FORCED: &str = "amqp:link:detach-forced";
pub const MESSAGE_SIZE_EXCEEDED: &str = "amqp:link:message-size-exceeded";
pub const TRANSFER_LIMIT_EXCEEDED: &str = "amqp:link:transfer-limit-exceeded";
pub const TRANSACTION_ROLLBACK: &str = "amqp:transaction:rollback";
pub const TRANSACTION_TIMEOUT: &str = "amqp:transaction:timeout";
pub const TRANSACTION_UNKNOWN_ID: &str = "amqp:transaction:unknown-id";
