//! What a group looks like from this node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::GroupId;
use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;

use super::Group;
use crate::member;

/// One group as this node sees it. Indexes count from 0; none means nothing yet.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupStatus {
    pub id: GroupId,
    pub term: u64,
    pub leader: Option<u64>,
    /// This node leads, and its rows hold every entry of earlier terms.
    pub leading: bool,
    pub last_log: Option<u64>,
    pub committed: Option<u64>,
    pub applied: Option<u64>,
    /// Applied and on disk in the rows: where a restart begins to apply.
    pub flushed: Option<u64>,
    pub purged: Option<u64>,
    pub voters: BTreeSet<u64>,
    /// A node that lost what it held is among these until it has caught up.
    pub learners: BTreeSet<u64>,
    /// On the leader: how far each member's log is known to agree.
    pub matched: BTreeMap<u64, Option<u64>>,
    /// On the leader: how long ago each other member last answered, ms.
    pub heard_ms: BTreeMap<u64, Option<u64>>,
    /// How long ago a majority is known to have confirmed the leader, ms. Absent: never while this
    /// replica ran.
    pub confirmed_ms: Option<u64>,
    /// Why the replica stopped, if it did.
    pub failed: Option<String>,
}

impl GroupStatus {
    /// On the leader: how long ago a majority of the voters, itself among them, had last answered, ms.
    pub fn majority_heard_ms(&self) -> Option<u64> {
        let others = self.voters.iter().filter(|node| Some(**node) != self.leader);
        let heard = |node: &u64| self.heard_ms.get(node).copied().flatten();
        let mut ages: Vec<u64> = others.filter_map(heard).collect();
        ages.sort_unstable();
        match self.voters.len() / 2 {
            0 => Some(0),
            needed => ages.get(needed - 1).copied(),
        }
    }
}

impl Group {
    pub fn status(&self) -> GroupStatus {
        // Before the metrics are looked at, which it looks at as well: two looks at once may wait for each other.
        let confirmed = self.confirmation.at();
        let mut replicas = self.replicas();
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        // The vote of an incarnation this node has lost is not its own.
        replicas.voters.retain(|node, id| *node != self.node || *id == self.replica_id);
        let index = |id: Option<crate::raft::LogId>| id.map(|id| id.index);
        // Raft calls replicas of a quiet group seldom, and the node them all.
        let heard_ms = |id: u64, by_raft: Option<Duration>| {
            let by_node = self.confirmation.acknowledged(&metrics.vote, id).map(|at| at.elapsed());
            let heard = [by_raft, by_node].into_iter().flatten().min();
            heard.map(|age| age.as_millis() as u64)
        };
        GroupStatus {
            id: self.id,
            term: metrics.current_term,
            leader: metrics.current_leader.map(member::node_of),
            leading: self.leads(),
            last_log: metrics.last_log_index,
            committed: index(metrics.local_committed),
            applied: index(metrics.last_applied),
            flushed: self.replica.flushed_index(),
            purged: index(metrics.purged),
            voters: replicas.voters.keys().copied().collect(),
            learners: replicas.learners.keys().copied().collect(),
            matched: replicas
                .all()
                .filter_map(|(node, id)| {
                    Some((node, index(*metrics.replication.as_ref()?.get(&id)?)))
                })
                .collect(),
            heard_ms: replicas
                .all()
                .filter(|(node, _)| *node != self.node)
                .filter_map(|(node, id)| {
                    let by_raft = metrics.heartbeat.as_ref()?.get(&id)?;
                    Some((node, heard_ms(id, by_raft.map(|at| at.elapsed()))))
                })
                .collect(),
            confirmed_ms: confirmed.map(|at| at.elapsed().as_millis() as u64),
            failed: metrics.running_state.as_ref().err().map(ToString::to_string),
        }
    }
}
