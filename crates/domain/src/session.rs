//! Sessions (SESS): who they are, what is asked of them, what a group remembers of them.
//!
//! Every stored message of a session stands in exactly one list of its session: ready, held,
//! deferred or scheduled. A free session with ready messages stands in line, by claim (SESS-7). A
//! message's lock lives under its session's and has no timer of its own (SESS-10), so a leader keeps
//! one timer per held session, whatever is in flight.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{EntityId, LockToken, Origin, QueueId, ReceiverId, SequenceNumber, Timestamp};

/// At most 128 characters, ordinal; the empty one is an id like any other (SESS-4).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// Before every other.
    pub fn first() -> SessionId {
        SessionId("".into())
    }

    /// No id is between this one and the one asked.
    pub fn after(&self) -> SessionId {
        SessionId(format!("{}\0", self.0).into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionId {
    fn from(id: &str) -> SessionId {
        SessionId(id.into())
    }
}

impl From<String> for SessionId {
    fn from(id: String) -> SessionId {
        SessionId(id.into())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One hold of a session (SESS-9). The nonce is fresh per acceptance, so an old token never becomes
/// valid again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionToken {
    pub session: SessionId,
    pub nonce: u64,
}

/// What is asked of the sessions of an entity.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionCommand {
    Accept(AcceptSession),
    Receive(ReceiveSession),
    Resume(ResumeSession),
    Renew(RenewSession),
    Release(ReleaseSession),
    SetState(SetSessionState),
    ReceiveDeferred(ReceiveSessionDeferred),
    DeleteBatch(DeleteSessionBatch),
    Fire(FireSessions),
}

/// SESS-6, SESS-7: takes the lock of a session, of this one or of the next in line.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptSession {
    pub origin: Option<Origin>,
    /// A dead-letter queue has no sessions (DLQ-11): refused.
    pub queue: QueueId,
    pub receiver: ReceiverId,
    pub session: Option<SessionId>,
}

/// SESS-10: takes up to `count_max` ready messages of a held session, lowest number first.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiveSession {
    pub entity: EntityId,
    pub token: SessionToken,
    pub receiver: ReceiverId,
    pub count_max: u32,
    /// Stops after the message that reaches this many bytes.
    pub bytes_max: u32,
}

/// The receiver of a held session is attached anew: what was granted to its earlier epochs and did
/// not arrive is released without counting, before anything after it is handed out (LOCK-20).
#[derive(Clone, Debug, PartialEq)]
pub struct ResumeSession {
    pub entity: EntityId,
    pub token: SessionToken,
    pub receiver: ReceiverId,
    /// Locks of messages that arrived and are not settled.
    pub arrived: Vec<LockToken>,
}

/// SESS-8.
#[derive(Clone, Debug, PartialEq)]
pub struct RenewSession {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub token: SessionToken,
}

/// SESS-14: the holder gives the session back.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseSession {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub token: SessionToken,
}

/// SESS-15. `None` clears.
#[derive(Clone, Debug, PartialEq)]
pub struct SetSessionState {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub token: SessionToken,
    pub state: Option<Bytes>,
}

/// DEFER-10. All or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiveSessionDeferred {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub token: SessionToken,
    pub receiver: ReceiverId,
    pub numbers: Vec<SequenceNumber>,
}

/// BATCH-7: as [`crate::DeleteBatch`], of one held session.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteSessionBatch {
    pub origin: Option<Origin>,
    pub entity: EntityId,
    pub token: SessionToken,
    pub count_max: u32,
    /// Only messages enqueued strictly before; absent: the entry's time (BATCH-2).
    pub before: Option<Timestamp>,
}

/// Session locks believed lapsed. One that was given back or renewed meanwhile is passed over.
#[derive(Clone, Debug, PartialEq)]
pub struct FireSessions {
    pub locks: Vec<(EntityId, SessionToken)>,
}

/// What the leader's engine is told of sessions.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEffect {
    /// Accepted or renewed.
    Locked { entity: EntityId, token: SessionToken, until: Timestamp },
    /// Given back or lapsed.
    Unlocked { entity: EntityId, token: SessionToken },
    /// Messages ready in a held session, as the count now stands.
    Ready { entity: EntityId, session: SessionId, count: u64 },
    /// Sessions in line to be accepted, as the count now stands.
    Free { entity: EntityId, count: u64 },
}

/// A list of a session's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SessionList {
    /// Available.
    Ready = 0,
    /// Set aside, and not held (DEFER-1).
    Deferred = 1,
    /// Waiting for their time. They bring no session into being (SCHED-13).
    Scheduled = 2,
}

impl SessionList {
    pub const ALL: [SessionList; 3] =
        [SessionList::Ready, SessionList::Deferred, SessionList::Scheduled];
}

/// What is remembered of one session, while there is something to remember (SESS-5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionRow {
    /// Stored messages that are not deferred, delivered ones included; and those deferred.
    pub active: u64,
    pub deferred: u64,
    /// Rows of its `SessionMessage` list of ready ones, and of `SessionHeld`.
    pub ready: Numbers,
    pub held: Numbers,
    pub lock: Option<SessionLock>,
    pub released_at: Timestamp,
    /// Its place in line: free, and messages are ready.
    pub claim: Option<Claim>,
    pub state: Option<StateMark>,
}

impl SessionRow {
    /// Nothing is left to remember: its last release is at or before whatever comes next.
    pub fn is_empty(&self) -> bool {
        self.active + self.deferred == 0 && self.lock.is_none() && self.state.is_none()
    }

    /// SESS-17: whether a list without a filter names it.
    pub fn is_listed(&self) -> bool {
        self.active > 0 || self.state.is_some()
    }
}

/// Numbers in rows: how many, and one that none of them is below, where to look for the first, so
/// that no range of tombstones is scanned twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub count: u64,
    pub low: SequenceNumber,
}

impl Numbers {
    pub(crate) fn add(&mut self, number: SequenceNumber) {
        self.low = if self.count == 0 { number } else { self.low.min(number) };
        self.count += 1;
    }

    pub(crate) fn remove(&mut self, number: SequenceNumber) {
        self.count -= 1;
        if self.low == number {
            self.low = number.next();
        }
    }
}

/// A session's lock (SESS-9). Held iff `now < until` (TIME-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLock {
    pub nonce: u64,
    pub until: Timestamp,
    pub receiver: ReceiverId,
    /// Given back by its holder, and too much was in flight to be released at once: what is left is
    /// not counted as delivered either (SESS-12).
    pub closed: bool,
}

impl SessionLock {
    /// When its time is over; `None`: its holder gave it back before.
    pub fn lapsed(self) -> Option<Timestamp> {
        (!self.closed).then_some(self.until)
    }
}

/// A session's place in line (SESS-7): the lowest instant first, and among equals whoever came
/// first, so that one just released goes behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    pub at: Timestamp,
    pub turn: u64,
}

/// Of a stored session state, which stands in a row of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateMark {
    pub size_bytes: u32,
    pub changed_at: Timestamp,
}

/// The lock of a message under its session's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRow {
    pub nonce: u64,
    pub receiver: ReceiverId,
}

/// What an entity counts of its sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionTotals {
    /// Rows in `SessionFree`, and an instant no claim is before.
    pub free: u64,
    pub free_low: Timestamp,
    /// Places in line given so far.
    pub turns: u64,
    /// Stored states (QUOTA-18).
    pub states: u64,
}
