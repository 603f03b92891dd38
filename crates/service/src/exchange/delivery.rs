//! What a leader hands to a receiver, wherever that is, and what takes back what reached nobody.

use bytes::Bytes;
use domain::{
    Command, Delivery, Disposition, LockToken, QueueId, ReceiverId, Refusal, ReleaseSession,
    SequenceNumber, SessionCommand, SessionToken, Settle, Settlement, Timestamp,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::exchange::{Outbox, Response};

/// A message on its way to a client: what the machine says of it, and its content, a stored
/// message as `wire` encodes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub delivery: Delivery,
    pub content: Bytes,
}

/// A receiver asks to be served by a group's leader.
pub(crate) struct Attach {
    pub receiver: ReceiverId,
    pub queue: QueueId,
    pub credit: u32,
    pub session: Option<Wanted>,
    /// On a re-attach, the locks that arrived and are not settled: what else was granted to this
    /// receiver before got lost on the way and is released without counting (LOCK-20).
    pub arrived: Vec<LockToken>,
    pub sink: Sink,
}

/// Where a receiver's events go.
#[derive(Clone)]
pub(crate) enum Sink {
    Local(mpsc::Sender<Event>),
    Peer(Outbox),
}

/// What a receiver is for that does not take a queue's messages as they come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// The next that is free: it waits for one (SESS-7).
    Next,
    /// One that it holds.
    Held(SessionToken),
    /// No messages: it is told which become available (SEL-7).
    Notices,
}

/// What a receiver is told by its leader.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    Deliveries(Vec<Received>),
    /// The session it waited for is its own, until then.
    Accepted {
        token: SessionToken,
        until: Timestamp,
    },
    /// Messages from this number to that have become available, or some of them. The first says that
    /// any may be.
    Rose {
        low: SequenceNumber,
        high: SequenceNumber,
    },
    /// After a drain: no credit is left and nothing is under way.
    Drained,
    Detached(Detached),
}

/// Why a leader no longer serves a receiver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Detached {
    /// Attach to the new leader.
    LeaderLost,
    Refused(Refusal),
}

impl Sink {
    /// Gives the event back if nobody is there to take it, or there is no place for it.
    pub fn send(&self, receiver: ReceiverId, event: Event) -> Result<(), Event> {
        match self {
            Sink::Local(sender) => sender.try_send(event).map_err(TrySendError::into_inner),
            Sink::Peer(outbox) => {
                outbox.send(Response::Event { receiver, event }).map_err(|lost| match lost {
                    Response::Event { event, .. } => event,
                    other => unreachable!("only an event was sent, not {other:?}"),
                })
            }
        }
    }
}

/// Unlocks messages that were handed to nobody, without counting a delivery (LOCK-20).
pub(crate) fn release(queue: QueueId, messages: &[Received]) -> Option<Command> {
    let tokens = messages.iter().filter_map(|message| message.delivery.lock);
    let settlements: Vec<Settlement> = tokens
        .map(|lock| Settlement { token: lock.token, disposition: Disposition::Release })
        .collect();
    if settlements.is_empty() {
        return None;
    }
    Some(Command::Settle(Settle { origin: None, queue, settlements, atomic: false }))
}

/// Gives a session back that was granted to nobody (LOCK-20).
pub(crate) fn release_session(queue: QueueId, token: SessionToken) -> Command {
    let release = ReleaseSession { origin: None, entity: queue.entity, token };
    Command::Session(SessionCommand::Release(release))
}
