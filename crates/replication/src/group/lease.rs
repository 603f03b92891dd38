//! A leader's leave to propose. Raft takes nothing of a leader that it has heard of no majority for, for a while: a fresh
//! one has heard of none yet, and of a quiet group only the node was heard ([`crate::liveness`]).

use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use openraft::{Instant as _, ServerState};
use tokio::time::{Instant, timeout};

use super::confirmation::Confirmation;
use crate::Timings;
use crate::raft::{Raft, TypeConfig};

/// How long a proposal waits for a leader whose quorum was not heard of lately. A fresh leader hears
/// of it within milliseconds, one whose followers' disks are busy a little later; one that is cut
/// off has a successor by then.
const WAIT_MAX: Duration = Duration::from_secs(3);
const CHECK: Duration = Duration::from_millis(2);

/// An instant of Raft's clock.
pub(super) type Heard = openraft::type_config::alias::InstantOf<TypeConfig>;

/// Of one replica.
#[derive(Clone)]
pub(crate) struct Lease {
    pub raft: Raft,
    pub confirmation: Confirmation,
    pub timings: Timings,
}

impl Lease {
    /// How long a leader leads after a majority was last heard.
    pub fn length(&self) -> Duration {
        self.timings.election_max
    }

    /// Waits until Raft takes proposals, or refuses them for another reason; it has the majority called at once.
    ///
    /// # Errors
    ///
    /// No majority was heard in time: when one was last.
    pub async fn wait(&self) -> Result<(), Option<Heard>> {
        let started = Instant::now();
        let mut metrics = self.raft.metrics();
        let mut called = None::<Instant>;
        while let Some(heard) = self.missing() {
            if started.elapsed() > WAIT_MAX {
                return Err(heard);
            }
            if called.is_none_or(|at| at.elapsed() >= self.timings.heartbeat)
                && self.confirmation.may_call(self.length())
            {
                called = Some(Instant::now());
                // An error means that Raft has stopped, which the proposal learns.
                drop(self.raft.trigger().heartbeat().await);
            }
            if let Ok(Err(_)) = timeout(CHECK, metrics.changed()).await {
                return Ok(()); // Raft has stopped, which the proposal learns.
            }
        }
        Ok(())
    }

    /// Has another lead, which is to be a voter. Nothing is proposed from here on.
    ///
    /// # Errors
    ///
    /// Raft has stopped.
    pub async fn give_way(&self, to: u64) -> Result<(), Fatal<TypeConfig>> {
        let vote = self.raft.server_metrics().borrow_watched().vote;
        self.confirmation.give_way(vote);
        self.raft.trigger().transfer_leader(to).await
    }

    /// When a quorum was last heard of, if this node leads and that is too long ago.
    pub(super) fn missing(&self) -> Option<Option<Heard>> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        if metrics.state != ServerState::Leader || metrics.membership_config.voter_ids().count() < 2
        {
            return None;
        }
        let heard = metrics.last_quorum_acked.map(|at| at.into_inner());
        match heard {
            Some(at) if at.elapsed() < self.length() => None,
            heard => Some(heard),
        }
    }
}
