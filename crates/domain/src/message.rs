//! Messages: what a producer asks to store and what a consumer is handed.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    EntityId, LockToken, Overlay, Properties, SequenceNumber, Span, SystemProperty, Timestamp,
};

/// A message as the edge proposes it. `content` is what the producer sent (body, broker and user
/// properties), encoded once at the edge and opaque from here on (MSG-1); what the machine needs is
/// beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    pub content: Bytes,
    /// Bytes of body and properties, counted against entity size (QUOTA-32).
    pub size_bytes: u32,
    /// Bytes of all properties, at most 64 KiB (MSG-7); a dead-letter reason adds to it (DLQ-15).
    pub header_bytes: u32,
    /// Ordinal, case-sensitive (DUP-10). Absent: never a duplicate.
    pub message_id: Option<String>,
    pub session_id: Option<String>,
    pub partition_key: Option<String>,
    /// Own time-to-live, absent: the entity's default applies (TTL-2).
    pub ttl: Option<Span>,
    /// SCHED-1. At or before the entry's time: enqueued at once (SCHED-8).
    pub scheduled_at: Option<Timestamp>,
}

/// What a content says beside its body: what rules look at (RULE-4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContentHeader {
    /// Broker properties that are texts, where the message has them.
    pub texts: BTreeMap<SystemProperty, String>,
    pub ttl: Option<Span>,
    pub scheduled_at: Option<Timestamp>,
    pub properties: Properties,
}

/// Reads a content: known to whoever encodes contents, and the same on every replica.
pub type ReadContent = fn(&Bytes) -> Option<ContentHeader>;

/// How a message's deadline comes about (TTL-24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Own TTL, already lowered to the default (TTL-3): the instant is stored and no later change
    /// of the entity moves it.
    Fixed { ttl: Span, expires_at: Timestamp },
    /// No own TTL: deadline = enqueued + the entity's default as it stands when asked.
    Derived,
    /// Derived until it entered the dead-letter queue. What the default made of it then is told as
    /// information (TTL-18), and left behind with the queue (TTL-28).
    Inherited { ttl: Span, expires_at: Timestamp },
}

impl Lifetime {
    /// When the row among the entity's deadlines is due that such a message has of its own. `None`:
    /// it has no row, because the deadline is derived or never comes.
    pub fn own_deadline(self) -> Option<Timestamp> {
        match self {
            Self::Fixed { expires_at, .. } => Some(expires_at).filter(|at| !at.is_never()),
            Self::Derived | Self::Inherited { .. } => None,
        }
    }
}

/// State shown to clients (PEEK-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    Active,
    Deferred,
    Scheduled,
}

/// A message as it leaves the machine, less its content: the leader reads that from the body row
/// `body` only when a client waits for it, so that no follower reads what nobody asked it for.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub sequence: SequenceNumber,
    /// The number under which the body was stored; differs from `sequence` after an activation.
    pub body: SequenceNumber,
    /// Where the body is stored, if not with the queue: the topic this is a copy from.
    pub topic: Option<EntityId>,
    pub size_bytes: u32,
    pub state: MessageState,
    /// Stored count of failed deliveries; clients show one more on a delivery (LOCK-19).
    pub delivery_count: u32,
    /// For a scheduled message: the instant it was accepted.
    pub enqueued_at: Timestamp,
    pub enqueued_sequence: SequenceNumber,
    /// DLQ-12.
    pub dead_letter_source: Option<String>,
    pub scheduled_at: Option<Timestamp>,
    /// Effective TTL and deadline; of a scheduled message, as it will be if it is enqueued in time. On
    /// peek absent for a derived message (TTL-25); absent as well where the deadline is never.
    pub ttl: Option<Span>,
    pub expires_at: Option<Timestamp>,
    /// Present on peek-lock deliveries only (PEEK-6).
    pub lock: Option<HeldLock>,
    pub overlay: Option<Box<Overlay>>,
}

/// The lock a delivery was handed out under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    pub token: LockToken,
    pub until: Timestamp,
}
