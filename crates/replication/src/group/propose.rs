//! Proposals on their way into the log, in the order they were submitted.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use domain::Outcome;
use openraft::errors::ClientWriteError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::Group;
use super::lease::{Heard, Lease};
use crate::raft::{Proposal, Raft, Reply, WriteResult};
use crate::{ProposeError, member, metrics};

/// Proposals that wait to be handed to Raft; more are refused as [`ProposeError::Busy`]. The leader's
/// driver has a few under way, each of some hundred kilobytes, and gives one up after seconds: only
/// where Raft takes none for minutes do so many come together.
pub(super) const PROPOSALS_WAITING_MAX: usize = 1024;

pub(crate) struct Submission {
    payload: Bytes,
    to: oneshot::Sender<WriteResult>,
    at: Instant,
}

impl Group {
    /// Puts a proposal behind those before it, at once; the future is its outcome.
    pub fn propose(
        &self,
        payload: Bytes,
    ) -> impl Future<Output = Result<Vec<Outcome>, ProposeError>> + Send + use<> {
        metrics::proposed(payload.len());
        let (to, result) = oneshot::channel();
        let submission = Submission { payload, to, at: Instant::now() };
        let queued = self.proposals.try_send(submission);
        let queued = queued.map_err(|refused| self.not_queued(&refused));
        async move {
            queued?;
            outcome(result.await)
        }
    }

    /// Waits until Raft would take another proposal at once.
    pub async fn ready(&self) {
        // Never closed; a proposal learns whether the group has stopped.
        let _ = self.budget.acquire().await;
    }
}

fn outcome(
    result: Result<WriteResult, oneshot::error::RecvError>,
) -> Result<Vec<Outcome>, ProposeError> {
    match result {
        Ok(Ok(response)) => Ok(response.data),
        Ok(Err(ClientWriteError::ForwardToLeader(forward))) => {
            Err(ProposeError::NotLeader { leader: forward.leader_id.map(member::node_of) })
        }
        // Raft refuses these before it appends.
        Ok(Err(
            ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_),
        )) => Err(ProposeError::NotLeader { leader: None }),
        // Appended here and dropped for another leader's log: it may have been committed there.
        Ok(Err(ClientWriteError::LogEntryDiscarded(_))) => Err(ProposeError::Unknown),
        // The node stopped with the proposal inside.
        Err(_) => Err(ProposeError::Unknown),
    }
}

/// Hands proposals to Raft one after the other, as far as the budget goes.
pub(crate) struct Pump {
    pub raft: Raft,
    pub lease: Lease,
    pub budget: Arc<Semaphore>,
    pub bytes_max: usize,
    pub queue: mpsc::Receiver<Submission>,
}

impl Pump {
    pub async fn run(mut self) {
        let mut gave_up_at = None;
        while let Some(submission) = self.queue.recv().await {
            let share = submission.payload.len().clamp(1, self.bytes_max);
            let share = u32::try_from(share).unwrap_or(u32::MAX);
            let Ok(share) = self.budget.clone().acquire_many_owned(share).await else { return };
            self.wait_for_lease(&mut gave_up_at).await;
            let reply = Reply { to: submission.to, proposed_at: submission.at, _share: share };
            let proposal = Proposal::new(submission.payload);
            // An error means that Raft has stopped: the reply is dropped, and its waiter told.
            let _ = self.raft.client_write_ff(proposal, Some(reply)).await;
        }
    }

    /// Waiting here keeps the order, which a retry would not. Once a wait was in vain, nothing waits again until a quorum
    /// is heard of.
    async fn wait_for_lease(&self, gave_up_at: &mut Option<Option<Heard>>) {
        let Some(heard) = self.lease.missing() else { return };
        if *gave_up_at != Some(heard) {
            *gave_up_at = self.lease.wait().await.err();
        }
    }
}

#[cfg(test)]
mod tests {
    use openraft::errors::ForwardToLeader;

    use super::*;

    #[test]
    fn only_what_was_never_appended_is_certainly_not_done() {
        let forward = || ForwardToLeader::new(3, openraft::EmptyNode {});
        let refused = ClientWriteError::ForwardToLeader(forward());
        assert_eq!(outcome(Ok(Err(refused))), Err(ProposeError::NotLeader { leader: Some(3) }));
        let discarded = ClientWriteError::LogEntryDiscarded(forward());
        assert_eq!(outcome(Ok(Err(discarded))), Err(ProposeError::Unknown));
        let (sender, dropped) = oneshot::channel::<WriteResult>();
        drop(sender);
        let result = futures::executor::block_on(dropped);
        assert_eq!(outcome(result), Err(ProposeError::Unknown));
    }
}
