//! Where replicas shall be, by the catalog's rows, and what this node does about its own: it starts
//! those that are to come, tells every group which nodes are wanted, and forgets a replica once its
//! group goes on without it. All of it is looked at again and again, so a crash is no matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{GroupId, Key, NodeState, Row, Rows};
use replication::{Error as ReplicationError, GroupStatus, Wanted};
use tokio::sync::oneshot;

use crate::cluster::{catalog_groups, catalog_nodes};
use crate::group::{Groups, Input};
use crate::router::{Router, Unfit};

/// More votes would only be slower.
const CATALOG_VOTERS_MAX: usize = 5;

/// Who is in the cluster and where its groups shall be.
pub(crate) struct Placing {
    /// Where peers are reached; without nodes that were removed.
    pub peers: BTreeMap<u64, String>,
    pub draining: BTreeSet<u64>,
    pub removed: BTreeSet<u64>,
    /// The catalog's and the data groups'.
    pub groups: BTreeMap<GroupId, BTreeSet<u64>>,
    /// How often replicas of a data group were moved; one that never was is founded.
    pub moves: BTreeMap<GroupId, u64>,
}

impl Placing {
    pub fn read(rows: &impl Rows) -> Placing {
        let (draining, removed) = states(rows);
        let nodes = catalog_nodes(rows).into_iter();
        let groups: BTreeMap<GroupId, BTreeSet<u64>> = catalog_groups(rows)
            .into_iter()
            .map(|(group, replicas)| (group, replicas.into_iter().collect()))
            .collect();
        let moves = groups.keys().filter_map(|group| match rows.get(&Key::Moves(*group)) {
            Some(Row::Moves(count)) => Some((*group, count)),
            _ => None,
        });
        let moves = moves.collect();
        let peers = nodes.map(|(node, row)| (node, row.peer_address)).collect();
        Placing { peers, draining, removed, groups, moves }
    }

    pub fn holds(&self, node: u64, group: GroupId) -> bool {
        self.groups.get(&group).is_some_and(|nodes| nodes.contains(&node))
    }

    /// Every node holds the catalog, but those that leave have no vote in it; a data group's nodes all
    /// vote.
    pub fn wanted(&self, group: GroupId) -> Option<Wanted> {
        let replicas = self.groups.get(&group)?.clone();
        if group != GroupId::CATALOG {
            let voters_max = replicas.len();
            return Some(Wanted { voters: replicas.clone(), replicas, voters_max });
        }
        let voters = &replicas - &self.draining;
        Some(Wanted { replicas, voters, voters_max: CATALOG_VOTERS_MAX })
    }
}

/// Nodes that are being drained, and those that were removed.
pub(crate) fn states(rows: &impl Rows) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut draining, mut removed) = (BTreeSet::new(), BTreeSet::new());
    rows.scan(&Key::NodeState(0), &Key::NodeState(u64::MAX), &mut |key, row| {
        if let (Key::NodeState(node), Row::NodeState(state)) = (key, row) {
            match state {
                NodeState::Draining => draining.insert(node),
                NodeState::Removed => removed.insert(node),
            };
        }
        std::ops::ControlFlow::Continue(())
    });
    (draining, removed)
}

/// This node's replicas.
pub(crate) struct Replicas {
    router: Arc<Router>,
    groups: Arc<Groups>,
    running: BTreeSet<GroupId>,
    given_away: Option<tokio::task::JoinHandle<()>>,
}

impl Replicas {
    pub fn new(router: Arc<Router>, groups: Arc<Groups>) -> Replicas {
        Replicas { router, groups, running: BTreeSet::new(), given_away: None }
    }

    /// Goes through all of them once; false while one is still to be started.
    pub async fn look(&mut self, placing: &Placing) -> bool {
        let (replication, own) = (self.router.replication.clone(), self.router.config.node);
        let founding = self.router.config.founding.iter().flat_map(|founding| &founding.nodes);
        let mut named: BTreeSet<u64> = founding.map(|(node, _)| *node).collect();
        named.insert(own);
        // What the configuration says of a node counts: the catalog may not know that it moved.
        for (node, address) in placing.peers.iter().filter(|(node, _)| !named.contains(node)) {
            replication.set_peer(*node, address);
        }
        replication.set_removed(placing.removed.clone());
        let leaving = placing.draining.union(&placing.removed).copied().collect();
        self.router.set_unfit(Unfit::Leaving, leaving);

        // A replica that is not wanted may have a vote still: it runs until it has none.
        let mut here = replication.held();
        here.extend(placing.groups.keys().filter(|group| placing.holds(own, **group)));
        for group in &here {
            if !self.running.contains(group) {
                self.start(*group, placing).await;
            }
        }
        let status = replication.status().into_iter();
        let voters: BTreeMap<GroupId, BTreeSet<u64>> =
            status.map(|status| (status.id, status.voters)).collect();
        for group in self.running.clone() {
            let Some(wanted) = placing.wanted(group) else { continue };
            replication.want(group, wanted);
            let leaves = !placing.holds(own, group);
            if let Some(here) = self.groups.get(group) {
                let votes = voters.get(&group).is_some_and(|voters| voters.contains(&own));
                here.set_guest(leaves || !votes);
            }
            // Without the catalog there would be nobody here to say what else shall be.
            if leaves && group != GroupId::CATALOG && replication.is_out(group) {
                self.forget(group).await;
            }
        }
        if placing.draining.contains(&own) {
            self.give_away();
        }
        here.is_subset(&self.running)
    }

    async fn start(&mut self, group: GroupId, placing: &Placing) {
        self.groups.get_or_create(group);
        let (replication, own) = (&self.router.replication, self.router.config.node);
        let founders = placing.groups.get(&group).filter(|nodes| nodes.contains(&own));
        let started = match founders {
            Some(founders) if !placing.moves.contains_key(&group) => {
                replication.add_group(group, founders.clone()).await
            }
            _ => replication.join_group(group).await,
        };
        match started {
            Ok(()) | Err(ReplicationError::AlreadyRunning { .. }) => {
                self.running.insert(group);
            }
            Err(error) => tracing::error!(%group, %error, "the group does not start"),
        }
    }

    async fn forget(&mut self, group: GroupId) {
        let dropped = self.router.replication.drop_group(group).await;
        if let Some(group) = self.groups.remove(group) {
            let (done, ended) = oneshot::channel();
            if group.tell(Input::Stop(done)).is_ok() {
                drop(ended.await);
            }
        }
        self.running.remove(&group);
        match dropped {
            Ok(()) => tracing::info!(%group, "the group lives elsewhere; its replica here is gone"),
            Err(error) => tracing::error!(%group, %error, "the replica here is not removed yet"),
        }
    }

    /// Hands every leadership held here to another node.
    fn give_away(&mut self) {
        if self.given_away.as_ref().is_some_and(|moving| !moving.is_finished()) {
            return;
        }
        let own = self.router.config.node;
        let led: Vec<GroupStatus> =
            self.router.replication.status().into_iter().filter(|group| group.leading).collect();
        let moves: Vec<(GroupId, u64)> = led
            .iter()
            .filter_map(|status| Some((status.id, self.router.heir(own, status)?)))
            .collect();
        if moves.is_empty() {
            return;
        }
        let router = self.router.clone();
        self.given_away = Some(tokio::spawn(async move {
            // One after the other: each costs its group's clients some milliseconds.
            for (group, heir) in moves {
                router.give_away(group, heir, "this node is drained").await;
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use domain::{GroupRow, MemoryRows};

    use super::*;

    #[test]
    fn every_node_holds_the_catalog_and_those_that_stay_vote() {
        let mut rows = MemoryRows::default();
        let group = |replicas: &[u64]| Row::Group(GroupRow { replicas: replicas.to_vec() });
        rows.0.insert(Key::Group(GroupId(0)), group(&[1, 2, 4]));
        rows.0.insert(Key::Group(GroupId(1)), group(&[1, 2]));
        rows.0.insert(Key::NodeState(1), Row::NodeState(NodeState::Draining));
        rows.0.insert(Key::NodeState(3), Row::NodeState(NodeState::Removed));
        rows.0.insert(Key::Moves(GroupId(1)), Row::Moves(2));
        let placing = Placing::read(&rows);
        let catalog = placing.wanted(GroupId(0)).expect("the catalog");
        assert_eq!(catalog.replicas, [1, 2, 4].into());
        assert_eq!((catalog.voters, catalog.voters_max), ([2, 4].into(), 5));
        let data = placing.wanted(GroupId(1)).expect("a group");
        assert_eq!((data.voters, data.voters_max), ([1, 2].into(), 2), "until it is moved");
        assert_eq!(placing.wanted(GroupId(2)), None);
        assert_eq!((placing.removed, placing.moves), ([3].into(), [(GroupId(1), 2)].into()));
    }
}
