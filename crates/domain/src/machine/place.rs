//! Where a message is, and where what is done with it takes it. A stored message is in exactly one
//! place. No row holds the place itself: `find` reads it off the rows that make it up, and `moves`
//! writes them. Nobody else looks at those rows, or touches them.

mod find;
mod moves;

use crate::machine::entity::Watch;
use crate::machine::session::SessionLists;
use crate::machine::view::View;
use crate::{
    Effect, EntityId, EntityState, HeldRow, LockRow, MessageRow, QueueId, ReceiverId, Rows,
    SequenceNumber, SessionId, Timestamp,
};

/// The place of a message, and what of it is stored beside the message's own row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Waits for its time (SCHED-2): a `Scheduled` row, which is all there is of the message, and one
    /// in a list of the session it will be in.
    Scheduled(Option<SessionId>),
    /// Available, at or above the fresh head: nothing.
    Fresh,
    /// Available, below the fresh head: a `Returned` row.
    Returned,
    /// Available to whoever holds its session: a row in the session's list of ready ones.
    Ready(SessionId),
    /// Delivered: a `Lock` row. Whether it was deferred before, the message's own row says.
    Locked { lock: LockRow, deferred: bool },
    /// Delivered under the lock of its session (SESS-10): a `SessionHeld` row.
    Held { session: SessionId, held: HeldRow, deferred: bool },
    /// To be had by its number only (DEFER-1): what the message's own row says, and a row in a list of
    /// its session.
    Deferred(Option<SessionId>),
    /// In a shipment, or parked after one (FWD-9): a row that names many.
    SetAside,
}

/// What is done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Its time has come (SCHED-5).
    Activate,
    Cancel,
    /// In its turn, by number, or because somebody holds its session.
    Receive,
    ReceiveDeferred,
    Complete,
    /// A delivery ends without a result: abandoned, released, lapsed. One that was deferred is so again
    /// (DEFER-6).
    Release,
    Defer,
    DeadLetter,
    /// By its deadline: what is not available is shielded (TTL-11, TTL-31, FWD-13).
    Expire,
    /// By a batch delete (BATCH-4).
    Delete,
    Ship,
    /// It arrived at its destination.
    Arrive,
    /// Its destination does not take it (FWD-8). A dead letter stays where it is (FWD-9).
    Refuse,
    /// The forwarding it was set aside for is no more.
    Unpark,
}

/// Where a move takes a message, if nothing ends it on the way: one that ran out of time or of
/// deliveries is dropped or dead-lettered instead (TTL-9, TTL-12, LOCK-21, LOCK-22, DEFER-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Available,
    Delivered,
    Deferred,
    SetAside,
    /// Into the dead-letter queue of its queue (DLQ-14).
    DeadLettered,
    Gone,
}

impl Move {
    /// The table of all moves; `tests/rules/places.rs` plays it. The columns are the kinds of place;
    /// `again` is a deferred message that was delivered by its number.
    #[rustfmt::skip] // Columns.
    const fn goals(self) -> [Option<Goal>; 6] {
        const AVAILABLE: Option<Goal> = Some(Goal::Available);
        const DELIVERED: Option<Goal> = Some(Goal::Delivered);
        const DEFERRED: Option<Goal> = Some(Goal::Deferred);
        const ASIDE: Option<Goal> = Some(Goal::SetAside);
        const DEAD: Option<Goal> = Some(Goal::DeadLettered);
        const GONE: Option<Goal> = Some(Goal::Gone);
        const NO: Option<Goal> = None;
        match self {
            //                        scheduled  available  delivered  again      deferred   aside
            Move::Activate        => [AVAILABLE, NO,        NO,        NO,        NO,        NO],
            Move::Cancel          => [GONE,      NO,        NO,        NO,        NO,        NO],
            Move::Receive         => [NO,        DELIVERED, NO,        NO,        NO,        NO],
            Move::ReceiveDeferred => [NO,        NO,        NO,        NO,        DELIVERED, NO],
            Move::Complete        => [NO,        NO,        GONE,      GONE,      NO,        NO],
            Move::Release         => [NO,        NO,        AVAILABLE, DEFERRED,  NO,        NO],
            Move::Defer           => [NO,        NO,        DEFERRED,  DEFERRED,  NO,        NO],
            Move::DeadLetter      => [NO,        NO,        DEAD,      DEAD,      NO,        NO],
            Move::Expire          => [NO,        GONE,      NO,        NO,        NO,        NO],
            Move::Delete          => [NO,        GONE,      NO,        NO,        NO,        NO],
            Move::Ship            => [NO,        ASIDE,     NO,        NO,        NO,        NO],
            Move::Arrive          => [NO,        NO,        NO,        NO,        NO,        GONE],
            Move::Refuse          => [NO,        NO,        NO,        NO,        NO,        DEAD],
            Move::Unpark          => [NO,        NO,        NO,        NO,        NO,        AVAILABLE],
        }
    }
}

impl Place {
    /// Where a move takes a message from here; `None`: it is not for messages of this place.
    pub fn after(&self, by: Move) -> Option<Goal> {
        let [scheduled, available, delivered, again, deferred, aside] = by.goals();
        match self {
            Place::Scheduled(_) => scheduled,
            Place::Fresh | Place::Returned | Place::Ready(_) => available,
            Place::Locked { deferred: false, .. } | Place::Held { deferred: false, .. } => {
                delivered
            }
            Place::Locked { deferred: true, .. } | Place::Held { deferred: true, .. } => again,
            Place::Deferred(_) => deferred,
            Place::SetAside => aside,
        }
    }
}

/// A stored message in its place.
#[derive(Debug)]
pub(super) struct Stored {
    pub queue: QueueId,
    pub number: SequenceNumber,
    pub message: MessageRow,
    place: Place,
}

impl Stored {
    pub fn is_fresh(&self) -> bool {
        self.place == Place::Fresh
    }

    /// Of a message under delivery: to whom.
    pub fn receiver(&self) -> Option<ReceiverId> {
        match &self.place {
            Place::Locked { lock, .. } => Some(lock.receiver),
            Place::Held { held, .. } => Some(held.receiver),
            Place::Scheduled(_)
            | Place::Fresh
            | Place::Returned
            | Place::Ready(_)
            | Place::Deferred(_)
            | Place::SetAside => None,
        }
    }

    /// Whether a move is for a message in this place.
    pub fn allows(&self, by: Move) -> bool {
        self.place.after(by).is_some()
    }
}

/// A message that a move took out of its place: its own row is there, and nothing says where it is.
/// It is put into another place, or removed.
#[derive(Debug)]
#[must_use = "a message is somewhere, or removed"]
pub(super) struct Detached {
    pub queue: QueueId,
    pub number: SequenceNumber,
    pub message: MessageRow,
    goal: Goal,
}

impl Detached {
    pub fn goal(&self) -> Goal {
        self.goal
    }
}

/// The places of one entity's messages at work. What else there is of a message (its body, its
/// deadline, what it counts for) is not touched here.
pub(super) struct Places<'s, R> {
    pub id: EntityId,
    pub at: Timestamp,
    pub state: &'s mut EntityState,
    pub watch: &'s mut Watch,
    /// As [`View::scan_messages`] has it.
    pub issued_from: SequenceNumber,
    pub view: &'s mut View<R>,
    pub effects: &'s mut Vec<Effect>,
}

impl<R: Rows> Places<'_, R> {
    pub fn sessions(&mut self) -> SessionLists<'_, R> {
        let totals = &mut self.state.sessions;
        SessionLists { id: self.id, at: self.at, totals, watch: self.watch, view: self.view }
    }
}
