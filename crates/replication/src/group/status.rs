//! What a group looks like from this node.

use std::collections::{BTreeMap, BTreeSet};

use domain::ShardId;
use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;

use super::Group;

/// One group as this node sees it. Indexes count from 0; none means nothing yet.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupStatus {
    pub shard: ShardId,
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
    pub learners: BTreeSet<u64>,
    /// On the leader: how far each member's log is known to agree.
    pub matched: BTreeMap<u64, Option<u64>>,
    /// On the leader: how long ago each other member last answered, ms.
    pub heard_ms: BTreeMap<u64, Option<u64>>,
    /// Why the replica stopped, if it did.
    pub failed: Option<String>,
}

impl Group {
    pub fn status(&self) -> GroupStatus {
        let metrics = self.raft.metrics().borrow_watched().clone();
        let members = metrics.membership_config.membership();
        let index = |id: Option<crate::raft::LogId>| id.map(|id| id.index);
        let heartbeat = metrics.heartbeat.unwrap_or_default();
        GroupStatus {
            shard: self.shard,
            term: metrics.current_term,
            leader: metrics.current_leader,
            leading: self.leads(),
            last_log: metrics.last_log_index,
            committed: index(metrics.local_committed),
            applied: index(metrics.last_applied),
            flushed: self.replica.flushed_index(),
            purged: index(metrics.purged),
            voters: members.voter_ids().collect(),
            learners: members.learner_ids().collect(),
            matched: metrics
                .replication
                .unwrap_or_default()
                .into_iter()
                .map(|(node, matched)| (node, index(matched)))
                .collect(),
            heard_ms: heartbeat
                .into_iter()
                .filter(|(node, _)| *node != self.node)
                .map(|(node, at)| (node, at.map(|at| at.elapsed().as_millis() as u64)))
                .collect(),
            failed: metrics.running_state.err().map(|fatal| fatal.to_string()),
        }
    }
}
