//! What a leader says to a peer, for the writer of the channel to gather into frames.

use std::sync::Arc;

use domain::ReceiverId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};

use crate::exchange::{CallResult, CutAnswer, Event, IdleReport, NodeReport, ReadResult};

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
    Cut {
        id: u64,
        answer: CutAnswer,
    },
    /// Of each namespace whose credits were told, for how long nothing is to be granted.
    Owed {
        id: u64,
        owed_ms: Vec<u64>,
    },
}

/// Answers and events that wait to be written to a peer: as many as it asked for and its receivers gave
/// credit for, so that so many wait only for one that reads nothing. With one more its channel is
/// closed: it asks again, and its receivers attach anew, so nothing is lost but time.
pub(crate) const OUTBOX_ITEMS_MAX: usize = 64 * 1024;

/// Items to be written to a peer, gathered into frames by the writer of its channel.
#[derive(Clone)]
pub(crate) struct Outbox {
    items: mpsc::Sender<Response>,
    /// Told when an item found no place.
    overfull: Arc<Notify>,
}

impl Outbox {
    pub fn new(items_max: usize) -> (Outbox, mpsc::Receiver<Response>) {
        let (items, waiting) = mpsc::channel(items_max);
        (Outbox { items, overfull: Arc::default() }, waiting)
    }

    /// Gives the item back if there is no place for it, or nobody who writes.
    pub fn send(&self, item: Response) -> Result<(), Response> {
        self.items.try_send(item).map_err(|refused| match refused {
            TrySendError::Full(item) => {
                self.overfull.notify_one();
                item
            }
            TrySendError::Closed(item) => item,
        })
    }

    /// Resolves once an item has found no place.
    pub async fn overfull(&self) {
        self.overfull.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::exchange::Sink;

    #[test]
    fn an_item_without_a_place_comes_back_and_the_channel_is_to_be_closed() {
        let (outbox, mut waiting) = Outbox::new(1);
        let item = |id| Response::Transferred { id, error: None };
        assert!(outbox.send(item(1)).is_ok());
        assert!(outbox.overfull().now_or_never().is_none());
        let sink = Sink::Peer(outbox.clone());
        let receiver = ReceiverId { node: 1, link: 1, epoch: 1 };
        assert_eq!(sink.send(receiver, Event::Drained), Err(Event::Drained));
        assert!(outbox.overfull().now_or_never().is_some());
        assert!(matches!(waiting.try_recv(), Ok(Response::Transferred { id: 1, .. })));
        assert!(outbox.send(item(2)).is_ok());
    }
}
