//! Limits of the machine itself, and those that are the same in every profile; in what else profiles differ, `profile`
//! says (QUOTA-0).

use crate::Span;

/// Most rows one command may touch; a command that has more to do keeps how far it came and answers
/// "more".
pub const APPLY_ROWS_MAX: u32 = 4096;
/// QUOTA-6: most bytes of one send request, properties and bodies, in any profile.
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// QUOTA-6: a smaller message counts as so many bytes of its send, so that the rows of one (body, state,
/// deadline, history) stay bounded without a limit on their number.
pub const MESSAGE_BYTES_MIN: u32 = 64;
/// Most messages one receive asks for.
pub const RECEIVE_MESSAGES_MAX: u32 = 1000;
/// QUOTA-17.
pub const ID_CHARS_MAX: usize = 128;
/// QUOTA-19: one property.
pub const PROPERTY_BYTES_MAX: usize = 32 * 1024;
/// QUOTA-19: all properties together.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;
/// QUOTA-15.
pub const PATH_CHARS_MAX: usize = 260;
/// QUOTA-16.
pub const NAME_CHARS_MAX: usize = 50;
/// QUOTA-7.
pub const SUBSCRIPTIONS_MAX: u32 = 2000;
/// Most data groups of a cluster. Tens, not thousands: each is a log of its own on every replica.
pub const DATA_GROUPS_MAX: u16 = 256;
/// Most copies one send makes, of all its messages: what one log entry may write.
pub const COPIES_MAX: u64 = 100_000;
/// QUOTA-28.
pub const USER_METADATA_CHARS_MAX: usize = 1024;
/// QUOTA-23: of one entity.
pub const AUTHORIZATION_RULES_MAX: usize = 12;
/// ENT-11: name and keys of an authorization rule, each.
pub const AUTHORIZATION_CHARS_MAX: usize = 256;
/// QUOTA-29: dead-letter reason and description, each.
pub const REASON_CHARS_MAX: usize = 4096;
/// QUOTA-25.
pub const PEEK_MESSAGES_MAX: u32 = 250;
/// QUOTA-10, in any profile.
pub const BATCH_DELETE_MAX: u32 = 4000;
/// Most settlements, renewals, cancellations or deferred numbers in one request.
pub const TOKENS_MAX: usize = 1000;
/// QUOTA-18.
pub const SESSION_STATES_MAX: u64 = 1_000_000;
/// IDLE-14: how far ahead a `Touch` writes the last use.
pub const TOUCH_LASTS: Span = Span::from_secs(60);
/// A log silent for so long had no leader, if it is one of a group with temporary entities.
pub const SILENCE_MAX: Span = Span::from_secs(120);
/// SEND-8: outcomes kept per producer.
pub const OUTCOMES_KEPT: u64 = 1024;
/// SEND-8: producers kept per group.
pub const PRODUCERS_MAX: u64 = 100_000;
/// SEND-8: a producer unseen this long is forgotten.
pub const PRODUCER_KEPT: Span = Span::from_secs(15 * 60);
