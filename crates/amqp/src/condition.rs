//! Error conditions: their names, and which one a refusal of the broker is (ERR-1 to ERR-28, COND-1).

use amqp_protocol::codec::Error;
use domain::{Excerpt, Refusal};
use service::Trace;

pub use amqp_protocol::condition::{
    CONNECTION_FORCED, DECODE_ERROR, DETACH_FORCED, ERRANT_LINK, FRAME_SIZE_TOO_SMALL,
    FRAMING_ERROR, HANDLE_IN_USE, INTERNAL_ERROR, INVALID_FIELD, MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED, RESOURCE_DELETED, RESOURCE_LIMIT_EXCEEDED,
    TRANSACTION_ROLLBACK, TRANSACTION_TIMEOUT, TRANSACTION_UNKNOWN_ID, TRANSFER_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE, UNAUTHORIZED_ACCESS, WINDOW_VIOLATION,
};

pub const ARGUMENT_ERROR: &str = "com.microsoft:argument-error";
pub const ARGUMENT_OUT_OF_RANGE: &str = "com.microsoft:argument-out-of-range";
pub const AUTH_FAILED: &str = "com.microsoft:auth-failed";
/// From a client, in `rejected`: dead-letter the message (SETTLE-8).
pub const DEAD_LETTER: &str = "com.microsoft:dead-letter";
pub const ENTITY_ALREADY_EXISTS: &str = "com.microsoft:entity-already-exists";
pub const ENTITY_DISABLED: &str = "com.microsoft:entity-disabled";
pub const MESSAGE_LOCK_LOST: &str = "com.microsoft:message-lock-lost";
pub const MESSAGE_NOT_FOUND: &str = "com.microsoft:message-not-found";
pub const NO_MATCHING_SUBSCRIPTION: &str = "com.microsoft:no-matching-subscription";
pub const SERVER_BUSY: &str = "com.microsoft:server-busy";
pub const SESSION_CANNOT_BE_LOCKED: &str = "com.microsoft:session-cannot-be-locked";
pub const SESSION_LOCK_LOST: &str = "com.microsoft:session-lock-lost";
pub const SESSION_NOT_FOUND: &str = "com.microsoft:session-not-found";
pub const TIMEOUT: &str = "com.microsoft:timeout";

/// ERR-24: certainly not done. Every SDK tries it again by itself.
pub const UNAVAILABLE: &str = SERVER_BUSY;
/// ERR-28: perhaps done. Every SDK tries it again by itself; only duplicate detection makes that safe.
pub const UNKNOWN: &str = TIMEOUT;

/// The condition of a refusal (ERR-1 to ERR-28).
pub fn condition(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::EntityNotFound { .. } => NOT_FOUND,
        // The edge asks again with a fresh route before it says not found; one that is said all the
        // same is certainly not done.
        Refusal::StaleRoute { .. } => UNAVAILABLE,
        Refusal::EntityAlreadyExists { .. } => ENTITY_ALREADY_EXISTS,
        Refusal::EntityDisabled { .. } => ENTITY_DISABLED,
        Refusal::MessageLockLost { .. } => MESSAGE_LOCK_LOST,
        Refusal::SessionLockLost { .. } => SESSION_LOCK_LOST,
        Refusal::SessionCannotBeLocked { .. } => SESSION_CANNOT_BE_LOCKED,
        Refusal::NoSession => TIMEOUT,
        Refusal::MessageNotFound { .. } => MESSAGE_NOT_FOUND,
        Refusal::MessageSizeExceeded { .. } => MESSAGE_SIZE_EXCEEDED,
        Refusal::QuotaExceeded { .. } | Refusal::StorageFull { .. } => RESOURCE_LIMIT_EXCEEDED,
        Refusal::TopicBusy { .. } | Refusal::Relocated { .. } => SERVER_BUSY,
        Refusal::Argument { .. } | Refusal::Serialization { .. } | Refusal::InvalidRule { .. } => {
            ARGUMENT_ERROR
        }
        Refusal::Undecodable { .. } => DECODE_ERROR,
        Refusal::NoMatchingSubscription { .. } => NO_MATCHING_SUBSCRIPTION,
        Refusal::ArgumentOutOfRange { .. } => ARGUMENT_OUT_OF_RANGE,
        Refusal::InvalidOperation { .. } => NOT_ALLOWED,
        Refusal::NotSupported { .. } => NOT_IMPLEMENTED,
        Refusal::TransactionSizeExceeded { .. } => NOT_ALLOWED, // ERR-20.
        Refusal::TransactionUnknown => TRANSACTION_UNKNOWN_ID,
        Refusal::TransactionTimedOut => TRANSACTION_TIMEOUT,
        Refusal::TransactionRolledBack { .. } => TRANSACTION_ROLLBACK,
        // What is missing is sent first, then this again: the edge's affair, and not done.
        Refusal::SerialGap { .. } | Refusal::OtherCut { .. } => UNAVAILABLE,
        Refusal::PerhapsDone => UNKNOWN,
    }
}

/// The status of a management reply that reports `condition` (COND-1).
pub fn status(condition: &str) -> i32 {
    match condition {
        UNAUTHORIZED_ACCESS | AUTH_FAILED => 401,
        RESOURCE_LIMIT_EXCEEDED | MESSAGE_SIZE_EXCEEDED => 403,
        NOT_FOUND | MESSAGE_NOT_FOUND | SESSION_NOT_FOUND | RESOURCE_DELETED => 404,
        TIMEOUT => 408,
        ENTITY_ALREADY_EXISTS => 409,
        MESSAGE_LOCK_LOST | SESSION_LOCK_LOST | SESSION_CANNOT_BE_LOCKED => 410,
        NOT_ALLOWED | ARGUMENT_ERROR | ARGUMENT_OUT_OF_RANGE | ENTITY_DISABLED | DECODE_ERROR => {
            400
        }
        NOT_IMPLEMENTED => 501,
        SERVER_BUSY => 503,
        _ => 500,
    }
}

/// A refusal as an error. JS takes a missing entity for one only by its wording (COND-3).
pub fn refused(refusal: &Refusal, trace: Trace<'_>) -> Error {
    let sentence = match refusal {
        Refusal::EntityNotFound { name } => entity_not_found(name),
        other => other.to_string(),
    };
    Error::new(condition(refusal), trace.text(&sentence))
}

/// COND-3.
pub fn entity_not_found(name: &str) -> String {
    format!("The messaging entity '{}' could not be found.", Excerpt(name))
}

#[cfg(test)]
mod tests {
    use domain::{EntityId, LockToken, SequenceNumber};

    use super::*;

    const TRACE: Trace<'static> =
        Trace { tracking_id: "T", entity: "q", at: "2026-01-01T00:00:00" };

    /// ERR-1 to ERR-28, COND-1: symbol and status of every refusal, as the specification's table has
    /// them.
    #[test]
    fn err_1_cond_1_cond_2_each_refusal_has_its_condition_and_status() {
        let token = LockToken { sequence: SequenceNumber(1), nonce: 1 };
        let what = "x";
        let table = [
            (Refusal::EntityNotFound { name: "q".into() }, "amqp:not-found", 404),
            (Refusal::StaleRoute { entity: EntityId(1) }, "com.microsoft:server-busy", 503),
            (
                Refusal::EntityAlreadyExists { name: "q".into() },
                "com.microsoft:entity-already-exists",
                409,
            ),
            (Refusal::EntityDisabled { status: "x" }, "com.microsoft:entity-disabled", 400),
            (Refusal::MessageLockLost { token }, "com.microsoft:message-lock-lost", 410),
            (
                Refusal::MessageNotFound { sequence: SequenceNumber(1), needs: "x" },
                "com.microsoft:message-not-found",
                404,
            ),
            (
                Refusal::MessageSizeExceeded { what, bytes: 2, max: 1 },
                "amqp:link:message-size-exceeded",
                403,
            ),
            (Refusal::QuotaExceeded { what, used: 2, max: 1 }, "amqp:resource-limit-exceeded", 403),
            (Refusal::StorageFull { on: vec![1] }, "amqp:resource-limit-exceeded", 403),
            (
                Refusal::TopicBusy { topic: "t".into(), waiting: 7 },
                "com.microsoft:server-busy",
                503,
            ),
            (Refusal::Argument { what, why: "y".into() }, "com.microsoft:argument-error", 400),
            (Refusal::Undecodable { what, why: "y".into() }, "amqp:decode-error", 400),
            (
                Refusal::ArgumentOutOfRange { what, value: "y".into(), allowed: "z" },
                "com.microsoft:argument-out-of-range",
                400,
            ),
            (
                Refusal::Serialization { what: "x".into(), bytes: 2, max: 1 },
                "com.microsoft:argument-error",
                400,
            ),
            (Refusal::InvalidOperation { why: "x" }, "amqp:not-allowed", 400),
            (Refusal::NotSupported { what }, "amqp:not-implemented", 501),
            (
                Refusal::NoMatchingSubscription { topic: "t".into() },
                "com.microsoft:no-matching-subscription",
                500,
            ),
            (
                Refusal::InvalidRule { exception: "FilterException", why: "y".into() },
                "com.microsoft:argument-error",
                400,
            ),
            (Refusal::NoSession, "com.microsoft:timeout", 408),
            (
                Refusal::SessionLockLost { session: Some("s".into()) },
                "com.microsoft:session-lock-lost",
                410,
            ),
            (
                Refusal::SessionCannotBeLocked { session: "s".into() },
                "com.microsoft:session-cannot-be-locked",
                410,
            ),
            (Refusal::SerialGap { expected: 1 }, "com.microsoft:server-busy", 503),
            (Refusal::PerhapsDone, "com.microsoft:timeout", 408),
        ];
        for (refusal, symbol, code) in table {
            assert_eq!(condition(&refusal), symbol, "{refusal:?}");
            assert_eq!(status(symbol), code, "{refusal:?}");
        }
    }

    #[test]
    fn cond_3_a_missing_entity_is_worded_as_js_expects() {
        let error = refused(&Refusal::EntityNotFound { name: "q".into() }, TRACE);
        let text = error.description.unwrap();
        assert!(text.starts_with("The messaging entity 'q' could not be found. "), "{text}");
    }
}
