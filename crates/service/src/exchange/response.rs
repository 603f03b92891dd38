//! What a leader says to a peer, for the writer of the channel to gather into frames.

use domain::ReceiverId;
use tokio::sync::mpsc;

use crate::exchange::{CallResult, Event, IdleReport, NodeReport, ReadResult};

/// From a leader to an edge.
#[derive(Debug)]
pub(crate) enum Response {
    Answer {
        id: u64,
        result: CallResult,
    },
    Read {
        id: u64,
        result: ReadResult,
    },
    Event {
        receiver: ReceiverId,
        event: Event,
    },
    Report {
        id: u64,
        report: NodeReport,
    },
    Idle {
        id: u64,
        report: IdleReport,
    },
    /// Why not, if not.
    Transferred {
        id: u64,
        error: Option<String>,
    },
}

/// Frames to be written to a peer, gathered by the writer of its channel.
pub(crate) type Outbox = mpsc::UnboundedSender<Response>;
