//! Connections, sessions and links as a state machine: bytes and verdicts in, bytes and events out.
//! No socket, no clock: whoever owns a [`Connection`] reads into a `BytesMut`, polls events out of
//! it, answers them, flushes, and writes what [`Connection::output`] then holds. Time is a number.
//!
//! What it leaves to its owner: nothing is settled before the owner says so (SETTLE-4), no credit is
//! given and no drain is answered on its own. What it keeps from it: headers, frames, windows,
//! handles, ids, pieces of large messages, dispositions gathered into ranges, heartbeats, and every
//! violation of the protocol with its condition.
//!
//! Memory is bounded by [`crate::Limits`], not by the peer's manners. Nothing is read while too much
//! waits to be written or to be decided, so a peer that never reads, or that sends without credit,
//! is slowed down by TCP and remembered for no more than the limits say.

mod connection;
mod event;
mod fault;
mod flush;
mod incoming;
mod ledger;
mod link;
mod login;
mod outgoing;
mod output;
mod payload;
mod receiving;
mod session;
mod slots;
mod timing;
mod verdicts;

pub use connection::{Config, Connection};
pub use event::*;
pub use login::Mechanism;
pub use outgoing::{Gone, Outgoing, SendError};
pub use output::Output;
pub use payload::Payload;

#[cfg(test)]
mod tests;
