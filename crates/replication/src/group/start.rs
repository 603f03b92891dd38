//! A group's way up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use domain::GroupId;
use openraft::EmptyNode;
use openraft::errors::{InitializeError, RaftError};
use store::{DataDir, Done, Incarnation, LogStore, RowStore};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tracing::{error, info};

use super::confirmation::Confirmation;
use super::election::ElectionTimer;
use super::lease::Lease;
use super::membership::{MembershipState, MembershipTask};
use super::propose::{PROPOSALS_WAITING_MAX, Pump};
use super::read::READS_WAITING_MAX;
use super::succession::Succession;
use super::{Group, leadership, read};
use crate::blocking::run_blocking;
use crate::peer::append::Lane;
use crate::peer::connection::Peers;
use crate::peer::network::Network;
use crate::peer::snapshot::Arrivals;
use crate::raft::log::LogAdapter;
use crate::raft::state::{Replica, StateAdapter};
use crate::raft::{Raft, TypeConfig};
use crate::runs::Runs;
use crate::{Error, Limits, MessageHistory, Observer, Timings, member};

/// What all groups of a node share.
pub(crate) struct Site {
    pub node: u64,
    pub data: Option<DataDir>,
    pub log: LogStore,
    pub rows: RowStore,
    pub peers: Arc<Peers>,
    pub runs: Arc<Runs>,
    pub observer: Arc<dyn Observer>,
    pub raft_config: Arc<openraft::Config>,
    pub timings: Timings,
    pub limits: Limits,
    pub history: Option<Arc<MessageHistory>>,
    /// As [`crate::Config::traced`] has it.
    pub traced: bool,
}

impl Site {
    /// Which data directory is this node's; 0 where there is none.
    pub fn directory_id(&self) -> u32 {
        self.data.as_ref().map_or(0, DataDir::id)
    }

    /// Starts this node's replica of a group. Where nothing is on disk yet and there are founders,
    /// it brings the group into being with them, who therefore are the same on every node; elsewhere
    /// the membership on disk stands. A replica that has none asks for its place. `founders`: their nodes, and
    /// as which incarnations they found it.
    pub async fn start(
        &self,
        group: GroupId,
        founders: Option<BTreeMap<u64, u32>>,
    ) -> Result<Group, Error> {
        if founders.as_ref().is_some_and(|founders| !founders.contains_key(&self.node)) {
            return Err(Error::NotAMember { group, node: self.node });
        }
        let founds_as = founders.as_ref().and_then(|founders| founders.get(&self.node)).copied();
        if let Some(shortened) = self.log.shortened(group) {
            return Err(Error::LogShortened {
                group,
                last: shortened.last,
                marked: shortened.marked,
            });
        }
        let storage = |reason: String| Error::Storage { group, reason };
        let incarnation = self.incarnation(group, founds_as).await?;
        let opened = Replica::open(group, self.rows.clone(), self.observer.clone());
        let mut replica = opened.map_err(|error| storage(error.to_string()))?;
        replica.history = self.history.clone();
        replica.traced = self.traced;
        let replica = Arc::new(replica);
        let held_by_all = Arc::new(AtomicU64::new(0));
        let confirmation = Confirmation::default();
        let timer = ElectionTimer::new(self.timings);
        let id = member::id_of(self.node, incarnation);
        let lane = Lane {
            group,
            addressee: id,
            held_by_all: held_by_all.clone(),
            confirmation: confirmation.clone(),
            timer: timer.clone(),
            window_bytes: self.limits.append_window_bytes,
        };
        let raft = Raft::build(
            id,
            self.raft_config.clone(),
            Network { peers: self.peers.clone(), lane },
            LogAdapter::new(group, self.log.clone()),
            StateAdapter::new(replica.clone()),
        )
        .await
        .map_err(|error| storage(error.to_string()))?;
        confirmation.watch(&raft);
        replica.set_running();
        raft.run();

        let (proposals, queue) = mpsc::channel(PROPOSALS_WAITING_MAX);
        let (reads, waiting) = mpsc::channel(READS_WAITING_MAX);
        let bytes_max = self.limits.proposals_bytes_max;
        let budget = Arc::new(Semaphore::new(bytes_max));
        let lease =
            Lease { raft: raft.clone(), confirmation: confirmation.clone(), timings: self.timings };
        let pump = Pump {
            raft: raft.clone(),
            lease: lease.clone(),
            budget: budget.clone(),
            bytes_max,
            queue,
        };
        tokio::spawn(pump.run());
        tokio::spawn(read::serve(lease.clone(), waiting));
        tokio::spawn(leadership::announce(id, raft.clone(), replica.clone()));
        let succession = Succession {
            group,
            id,
            raft: raft.clone(),
            runs: self.runs.clone(),
            timer: timer.clone(),
            lease: lease.clone(),
        };
        tokio::spawn(succession.run());
        // One that lost its disk since it was counted on founds nothing: it may have done so before.
        if let Some(founders) = founders.filter(|_| founds_as == Some(incarnation)) {
            self.initialise(group, &raft, founders).await?;
        }
        let (wanted, of_membership) = watch::channel(None);
        let membership = MembershipState::new();
        let task = MembershipTask {
            group,
            id,
            raft: raft.clone(),
            peers: self.peers.clone(),
            wanted: of_membership,
            membership: membership.clone(),
            timer: timer.clone(),
        };
        tokio::spawn(task.run());
        Ok(Group {
            id: group,
            node: self.node,
            replica_id: id,
            raft,
            replica,
            held_by_all,
            confirmation,
            timer,
            lease,
            arrivals: Arrivals::default(),
            changing: Arc::default(),
            wanted,
            membership,
            proposals,
            budget,
            reads,
        })
    }

    /// Which incarnation this node's replica of a group is: the node's own for one that was there when
    /// the cluster was founded; the data directory's for a founder of a group that came later; and for one
    /// that comes after its group one that no replica had before. `founds_as`: if it is a founder, 0 for one of
    /// the cluster.
    async fn incarnation(&self, group: GroupId, founds_as: Option<u32>) -> Result<u32, Error> {
        let own = self.data.as_ref().map_or(0, DataDir::incarnation);
        let directory_id = self.directory_id();
        let begun = match self.log.incarnation(group) {
            Some(Incarnation::Runs(incarnation)) => return Ok(incarnation),
            None if founds_as == Some(0) || self.log.held().contains(&group) => return Ok(own),
            None if founds_as == Some(directory_id) => directory_id,
            None | Some(Incarnation::Over) => rand::random::<u32>().max(1),
        };
        let (log, rows) = (self.log.clone(), self.rows.clone());
        // A crash may have left rows of a former incarnation.
        run_blocking(move || rows.forget(group)).await.map_err(|_| Error::Stopped)??;
        synced(|done| log.begin_incarnation(group, begun, done)).await?;
        Ok(begun)
    }

    /// Removes what is on disk of a replica that has stopped and that its group needs no more.
    pub async fn forget(&self, group: GroupId) -> Result<(), Error> {
        let (log, rows) = (self.log.clone(), self.rows.clone());
        // First what was promised: from here on nobody speaks in this replica's name.
        synced(|done| log.forget(group, done)).await?;
        let forgotten = run_blocking(move || rows.forget(group)).await;
        forgotten.map_err(|_| Error::Stopped)?.map_err(Error::Data)
    }

    /// Brings a new group into being. Any member may do it, and the first to do so campaigns at
    /// once; so each group's first leader is chosen by giving one member a head start.
    async fn initialise(
        &self,
        group: GroupId,
        raft: &Raft,
        founders: BTreeMap<u64, u32>,
    ) -> Result<(), Error> {
        if is_initialised(group, raft).await? {
            return Ok(());
        }
        let nodes = founders.keys().copied().collect();
        let members: BTreeSet<u64> =
            founders.iter().map(|(node, incarnation)| member::id_of(*node, *incarnation)).collect();
        if first_leader(group, &nodes) == Some(self.node) {
            return initialise(group, raft, &members).await;
        }
        let head_start = self.timings.election_max * 2;
        let raft = raft.clone();
        tokio::spawn(async move {
            let found = wait_until_initialised(group, &raft, head_start).await;
            let result = match found {
                Ok(true) => Ok(()),
                Ok(false) => initialise(group, &raft, &members).await,
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                error!(%group, %error, "cannot bring the group into being");
            }
        });
        Ok(())
    }
}

/// Waits until what is asked of the log is on disk.
async fn synced(ask: impl FnOnce(Done)) -> Result<(), store::Error> {
    let (tell, told) = oneshot::channel();
    ask(Box::new(move |result| drop(tell.send(result))));
    let ended = || store::Error::Stopped { reason: "the log's writer has ended".to_owned() };
    told.await.unwrap_or_else(|_| Err(ended()))
}

/// Spreads the first leaders of groups over the nodes.
fn first_leader(group: GroupId, members: &BTreeSet<u64>) -> Option<u64> {
    let at = usize::from(group.0).checked_rem(members.len())?;
    members.iter().nth(at).copied()
}

async fn is_initialised(group: GroupId, raft: &Raft) -> Result<bool, Error> {
    let fatal = |error: openraft::errors::Fatal<TypeConfig>| Error::Storage {
        group,
        reason: error.to_string(),
    };
    raft.is_initialized().await.map_err(fatal)
}

async fn wait_until_initialised(
    group: GroupId,
    raft: &Raft,
    longest: Duration,
) -> Result<bool, Error> {
    let until = tokio::time::Instant::now() + longest;
    while !is_initialised(group, raft).await? {
        if tokio::time::Instant::now() > until {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(true)
}

async fn initialise(group: GroupId, raft: &Raft, members: &BTreeSet<u64>) -> Result<(), Error> {
    let nodes: BTreeMap<u64, EmptyNode> =
        members.iter().map(|node| (*node, EmptyNode {})).collect();
    match raft.initialize(nodes).await {
        Ok(()) => {
            info!(%group, ?members, "a new group");
            Ok(())
        }
        // A peer was faster.
        Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(error) => Err(Error::Storage { group, reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_leaders_are_spread() {
        let members = BTreeSet::from([1, 2, 5]);
        let leaders: Vec<_> = (0..6).map(|n| first_leader(GroupId(n), &members)).collect();
        assert_eq!(leaders, [1, 2, 5, 1, 2, 5].map(Some));
        assert_eq!(first_leader(GroupId(1), &BTreeSet::new()), None);
    }
}
