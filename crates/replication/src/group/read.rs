//! Reads that see every write acknowledged before them: one round to a quorum serves all that wait.

use std::future::Future;
use std::time::Duration;

use openraft::ReadPolicy;
use openraft::errors::{LinearizableReadError, RaftError};
use tokio::sync::{mpsc, oneshot};

use super::Group;
use super::lease::Lease;
use crate::raft::Raft;
use crate::{ProposeError, member};

/// Longest wait for rows to catch up with what was committed when the read came.
const APPLY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Reads that wait for the next round; more are refused as [`ProposeError::Busy`]. The service's
/// reader asks for many of its clients at once, so a few wait here at a time.
pub(super) const READS_WAITING_MAX: usize = 1024;

type Waiter = oneshot::Sender<Result<(), ProposeError>>;

impl Group {
    /// Resolves once this node is known to have led after the call, and its rows hold all that was
    /// committed before it.
    pub fn read_index(&self) -> impl Future<Output = Result<(), ProposeError>> + Send + use<> {
        let (waiter, result) = oneshot::channel();
        let not_leader = self.not_leader();
        let queued = self.reads.try_send(waiter).map_err(|refused| self.not_queued(&refused));
        async move {
            queued?;
            result.await.unwrap_or(Err(not_leader))
        }
    }
}

/// Answers reads, round after round. A read that comes during a round waits for the next: only a
/// round begun after it proves anything to it.
pub(crate) async fn serve(lease: Lease, mut waiting: mpsc::Receiver<Waiter>) {
    while let Some(first) = waiting.recv().await {
        let mut round = vec![first];
        while let Ok(waiter) = waiting.try_recv() {
            round.push(waiter);
        }
        // It calls the others, which a leader that nobody answers is not to do at all times.
        let result = match lease.confirmation.may_call(lease.length()) {
            true => confirm(&lease.raft).await,
            false => Err(ProposeError::NotLeader { leader: None }),
        };
        for waiter in round {
            let _ = waiter.send(result); // It may have stopped waiting.
        }
    }
}

async fn confirm(raft: &Raft) -> Result<(), ProposeError> {
    let linearizer = match raft.get_read_linearizer(ReadPolicy::ReadIndex).await {
        Ok(linearizer) => linearizer,
        Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
            return Err(ProposeError::NotLeader { leader: forward.leader_id.map(member::node_of) });
        }
        // Nothing was read, so nothing was done.
        Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))
        | Err(RaftError::Fatal(_)) => return Err(ProposeError::NotLeader { leader: None }),
    };
    match linearizer.try_await_ready(raft, Some(APPLY_WAIT_MAX)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(ProposeError::NotLeader { leader: None }),
    }
}
