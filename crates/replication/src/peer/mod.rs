//! Between nodes: who is there, three connections to each, and the server they meet at.

pub(crate) mod append;
pub(crate) mod attendance;
pub(crate) mod channel;
pub(crate) mod clocks;
pub(crate) mod codec;
pub(crate) mod connection;
pub(crate) mod description;
pub(crate) mod heartbeats;
pub(crate) mod identity;
pub(crate) mod inquiry;
pub(crate) mod knock;
pub(crate) mod network;
pub(crate) mod notes;
pub(crate) mod processes;
pub(crate) mod server;
pub(crate) mod snapshot;

/// The generated messages, client and server of the peer protocol.
pub(crate) mod v1 {
    #![allow(clippy::all)]
    tonic::include_proto!("mayfly.peer.v1");
}

/// Largest message of the peer protocol. An append stays far below it (`log::APPEND_BYTES_MAX` and
/// one entry); what the layer above sends through a channel must fit.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Flow control: what one stream and one connection may have on the way unread. Pipelined appends
/// of several groups share the connection's.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// Larger HTTP/2 frames than the default 16 KiB: entries are tens of KiB.
const FRAME_BYTES: u32 = 256 << 10;
