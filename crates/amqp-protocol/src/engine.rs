//! Connections, sessions and links as a state machine: bytes and verdicts in, bytes and events out.
//! No socket, no clock: whoever owns a [`Connection`] reads into a `BytesMut`, polls events out of
//! it, answers them, flushes, and writes what [`Connection::output`] then holds. Time is a number.
//!
//! What it leaves to its owner: nothing is settled before the owner says so (SETTLE-4), no credit is
//! given and no drain is answered on its own. What it keeps from it: headers, frames, windows,
//! handles, ids, pieces of large messages, dispositions gathered into ranges, heartbeats, and every
//! violation of the protocol with its condition.
//!
//! Reading order: events, what frames are built of, one session and one link, the registry of all of
//! them; then the handlers, each of which borrows no more of a connection than its frames may touch; the
//! way to the first frame, deadlines, and the connection that has all of it.
//!
//! Memory is bounded by [`crate::Limits`], not by the peer's manners. Nothing is read while too much
//! waits to be written or to be decided, so a peer that never reads, or that sends without credit,
//! is slowed down by TCP and remembered for no more than the limits say.

mod event;
mod fault;

mod ledger;
mod output;
mod payload;
mod slots;

mod frames;
mod link;
mod session;

mod registry;

mod credit;
mod dispositions;
mod incoming;
mod links;
mod outgoing;
mod sessions;

mod handshake;
mod timing;

mod connection;

pub use connection::{Config, Connection};

pub use event::{
    Credentials, Delivery, DeliveryId, Event, LinkId, Millis, SessionId, Side, TooLarge,
};
pub use handshake::Mechanism;
pub use outgoing::{Gone, Outgoing, SendError};
pub use output::Output;
pub use payload::Payload;
pub use registry::RefusedCount;

#[cfg(test)]
mod tests;
