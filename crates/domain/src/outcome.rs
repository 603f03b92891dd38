//! What came of a command.

use crate::{
    CatalogOutcome, Delivery, Performed, Refusal, Refused, SequenceNumber, SessionToken, Timestamp,
};

/// One per command, in order. Kept for repeats where the command had an origin (SEND-8).
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Done,
    /// Nothing was changed (ERR-29).
    Refused(Refusal),
    /// One number per message, in order. A duplicate has the number recorded for the first (DUP-9).
    Sent {
        sequences: Vec<SequenceNumber>,
    },
    /// `more`: messages were left although the request was not filled.
    Acquired {
        deliveries: Vec<Delivery>,
        more: bool,
    },
    /// Positions in the request whose settlement was refused; the others are done.
    Settled {
        refused: Vec<(u32, Refusal)>,
    },
    /// New end of each lock, in order.
    Renewed {
        until: Vec<Timestamp>,
    },
    Deleted {
        count: u32,
        more: bool,
    },
    /// The session's lock, and its end (SESS-8).
    Accepted {
        token: SessionToken,
        until: Timestamp,
    },
    /// `Fire`, `FireLocks`, `FireSessions`, `Sweep`: what was done, and whether the same again finds more.
    Fired(Fired),
    Catalog(CatalogOutcome),
    /// `Arrive`: how many of the shipment's messages were looked at by now; the rest is to be brought
    /// again. Those refused, of all of them.
    Arrived {
        done: u32,
        refused: Vec<Refused>,
    },
    /// `Seal`: the entity was used since, and stays. No repeat of it comes to anything else.
    Spared,
    /// What came of each operation of a transaction, in order.
    Committed {
        performed: Vec<Performed>,
    },
}

/// What timers did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    pub activated: u32,
    pub dropped: u32,
    pub dead_lettered: u32,
    pub released: u32,
    /// Greatest and summed lateness of what was done: entry's time less deadline, ms.
    pub late_ms_max: u64,
    pub late_ms_sum: u64,
    pub more: bool,
}
