//! What leaves the group: leader only, at most once, may be lost. What must happen is a row.

use crate::{
    DeadlineKind, EntityId, ForwardEffect, LockToken, QueueId, SequenceNumber, SessionEffect, Span,
    Timestamp,
};

/// Told to the leader's engine after an entry is applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Messages can be received from this queue: its count of available ones as it now stands, and the
    /// lowest and the highest number of those that have become so.
    Available {
        queue: QueueId,
        count: u64,
        rose: Option<(SequenceNumber, SequenceNumber)>,
    },
    /// The entity's next deadline of this kind as it now stands; `NEVER` disarms.
    Next {
        entity: EntityId,
        kind: DeadlineKind,
        due: Timestamp,
    },
    Locked {
        queue: QueueId,
        token: LockToken,
        until: Timestamp,
    },
    /// Settled or lapsed: its timer may go.
    Unlocked {
        queue: QueueId,
        token: LockToken,
    },
    Session(SessionEffect),
    Forward(ForwardEffect),
    /// The entity is gone: receivers are detached (ENT-7).
    Deleted {
        entity: EntityId,
    },
    /// Status or another property that the engine's waiting receivers care about changed (STATE).
    Updated {
        entity: EntityId,
    },
    /// Most copies one message of this topic can have, as it now stands: what publishing weighs.
    Fanout {
        topic: EntityId,
        copies_max: u64,
    },
    /// The entity is deleted when nobody uses it for so long (IDLE-1), or the topic it is a
    /// subscription of (IDLE-2); `Span::MAX`: no more. What is never temporary is never told of.
    Temporary {
        entity: EntityId,
        window: Span,
    },
    /// Rows of a deleted entity wait for a `Sweep`.
    SweepWanted,
    /// An entity is on its way to another group, and is to be brought there.
    RelocationWanted,
    /// Entities came to be with all they have: what the engine knows is to be built anew.
    Restored,
}
