//! What came of a command, or why nothing is known of it, on its way to whoever asked.

use bytes::Bytes;
use domain::{Command, Outcome, Refusal};
use tokio::sync::oneshot;

use crate::exchange::{Outbox, Response};

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
    /// Refused, but the edge can mend it: a stale route, an entity on its way to another group, a serial
    /// that came too early, or groups between different cuts.
    Mendable { refusal: Refusal, command: Command },
}

/// An outcome as its caller needs it: one that the edge can mend comes with its command.
pub(crate) fn answered(command: Command, answer: Answer) -> CallResult {
    match answer.outcome {
        Outcome::Refused(
            refusal @ (Refusal::StaleRoute { .. }
            | Refusal::Relocated { .. }
            | Refusal::SerialGap { .. }
            | Refusal::OtherCut { .. }),
        ) => Err(Failed::Mendable { refusal, command }),
        _ => Ok(answer),
    }
}

pub(crate) type CallResult = Result<Answer, Failed>;

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
