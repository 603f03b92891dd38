//! What goes to a group's leader and what comes back, wherever that leader is.

use bytes::Bytes;
use domain::{
    Command, Delivery, LockToken, Outcome, QueueId, ReceiverId, Refusal, SessionToken, Timestamp,
};
use tokio::sync::{mpsc, oneshot};

use crate::frame::Response;

/// A message on its way to a client: what the machine says of it, and its content, a stored
/// message as `wire` encodes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub delivery: Delivery,
    pub content: Bytes,
}

/// What came of a command. `contents` has one item per delivery in the outcome.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub outcome: Outcome,
    pub contents: Vec<Bytes>,
}

/// Why there is no answer. The command is handed back, so that a retry needs no copy of it.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Certainly not done.
    NotLeader { leader: Option<u64>, command: Command },
    /// Perhaps done.
    Unknown { command: Command },
    /// Refused, but the edge can mend it: a stale route, or a serial that came too early.
    Mendable { refusal: Refusal, command: Command },
}

/// An outcome as its asker needs it: one that the edge can mend comes with its command.
pub(crate) fn answered(command: Command, answer: Answer) -> CallResult {
    match answer.outcome {
        Outcome::Refused(refusal @ (Refusal::StaleRoute { .. } | Refusal::SerialGap { .. })) => {
            Err(Failed::Mendable { refusal, command })
        }
        _ => Ok(answer),
    }
}

pub(crate) type CallResult = Result<Answer, Failed>;

/// Frames to be written to a peer, gathered by the writer of its channel.
pub(crate) type Outbox = mpsc::UnboundedSender<Response>;

/// Where the result of a command goes.
pub(crate) enum Reply {
    Local(oneshot::Sender<CallResult>),
    Peer { id: u64, outbox: Outbox },
}

impl Reply {
    pub fn send(self, result: CallResult) {
        // A caller that no longer waits, or a peer that is gone, needs no answer.
        match self {
            Reply::Local(sender) => drop(sender.send(result)),
            Reply::Peer { id, outbox } => drop(outbox.send(Response::Answer { id, result })),
        }
    }
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
    Local(mpsc::UnboundedSender<Event>),
    Peer(Outbox),
}

/// Which session a receiver is for, where the queue requires them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// The next that is free: it waits for one (SESS-7).
    Next,
    /// One that it holds.
    Held(SessionToken),
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
    /// Gives the event back if nobody is there to take it.
    pub fn send(&self, receiver: ReceiverId, event: Event) -> Result<(), Event> {
        match self {
            Sink::Local(sender) => sender.send(event).map_err(|lost| lost.0),
            Sink::Peer(outbox) => {
                outbox.send(Response::Event { receiver, event }).map_err(|lost| match lost.0 {
                    Response::Event { event, .. } => event,
                    other => unreachable!("only an event was sent, not {other:?}"),
                })
            }
        }
    }
}
