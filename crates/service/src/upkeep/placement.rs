//! Where replicas shall be, by the catalog's rows, and what this node does about its own: it starts
//! those that are to come, tells every group which nodes are wanted, and forgets a replica once its
//! group goes on without it. All of it is looked at again and again, so a crash is no matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{GroupId, Key, Row, Rows};
use replication::{Error as ReplicationError, Wanted};
use tokio::sync::oneshot;

use crate::edge::catalog::{self, NodeStates};
use crate::leader::Input;
use crate::peer::LocalNode;
use crate::upkeep::succession::{Succession, Unfit};

/// Who is in the cluster and where its groups shall be.
pub(crate) struct Placement {
    /// Where peers are reached; without nodes that were removed.
    pub peers: BTreeMap<u64, String>,
    pub states: NodeStates,
    /// The catalog's and the data groups'.
    pub groups: BTreeMap<GroupId, BTreeSet<u64>>,
    /// How often replicas of a data group were moved; one that never was is founded.
    pub moves: BTreeMap<GroupId, u64>,
    /// Who founds a group that came later than the cluster, each with the id of its data directory then.
    pub founders: BTreeMap<GroupId, BTreeMap<u64, u32>>,
}

impl Placement {
    pub fn read(rows: &impl Rows) -> Placement {
        let states = NodeStates::read(rows);
        let nodes = catalog::nodes(rows).into_iter();
        let groups: BTreeMap<GroupId, BTreeSet<u64>> = catalog::groups(rows)
            .into_iter()
            .map(|(group, replicas)| (group, replicas.into_iter().collect()))
            .collect();
        let moves = groups.keys().filter_map(|group| match rows.get(&Key::Moves(*group)) {
            Some(Row::Moves(count)) => Some((*group, count)),
            _ => None,
        });
        let moves = moves.collect();
        let founders = groups.keys().filter_map(|group| match rows.get(&Key::Founders(*group)) {
            Some(Row::Founders(founders)) => Some((*group, founders.into_iter().collect())),
            _ => None,
        });
        let founders = founders.collect();
        let peers = nodes.map(|(node, row)| (node, row.peer_address)).collect();
        Placement { peers, states, groups, moves, founders }
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
        let voters = &replicas - &self.states.draining;
        Some(Wanted { replicas, voters, voters_max: catalog::CATALOG_VOTERS_MAX })
    }
}

/// This node's replicas.
pub(crate) struct LocalReplicas {
    local: Arc<LocalNode>,
    succession: Arc<Succession>,
    /// The nodes that the configuration names.
    founders: BTreeSet<u64>,
    running: BTreeSet<GroupId>,
    handing_over: Option<tokio::task::JoinHandle<()>>,
}

impl LocalReplicas {
    /// `founders`: the nodes whose addresses the configuration says.
    pub fn new(
        local: Arc<LocalNode>,
        succession: Arc<Succession>,
        founders: BTreeSet<u64>,
    ) -> LocalReplicas {
        LocalReplicas { local, succession, founders, running: BTreeSet::new(), handing_over: None }
    }

    /// Goes through all of them once; false while one is still to be started.
    pub async fn look(&mut self, placement: &Placement) -> bool {
        let (replication, own) = (self.local.replication.clone(), self.local.id);
        let is_named = |node: &u64| *node == own || self.founders.contains(node);
        // What the configuration says of a node counts: the catalog may not know that it moved.
        for (node, address) in placement.peers.iter().filter(|(node, _)| !is_named(node)) {
            replication.set_peer(*node, address);
        }
        let NodeStates { draining, maintenance, removed } = &placement.states;
        replication.set_removed(removed.clone());
        self.succession.set_unfit(Unfit::Leaving, draining.union(removed).copied().collect());
        self.succession.set_unfit(Unfit::Maintenance, maintenance.clone());

        // A replica that is not wanted may have a vote still: it runs until it has none.
        let mut here = replication.held();
        here.extend(placement.groups.keys().filter(|group| placement.holds(own, **group)));
        for group in &here {
            if !self.running.contains(group) {
                self.start(*group, placement).await;
            }
        }
        let status = replication.status().into_iter();
        let voters: BTreeMap<GroupId, BTreeSet<u64>> =
            status.map(|status| (status.id, status.voters)).collect();
        for group in self.running.clone() {
            let Some(wanted) = placement.wanted(group) else { continue };
            replication.want(group, wanted);
            let leaves = !placement.holds(own, group);
            if let Some(here) = self.local.group(group) {
                let votes = voters.get(&group).is_some_and(|voters| voters.contains(&own));
                here.set_guest(leaves || !votes);
            }
            // Without the catalog there would be nobody here to say what else shall be.
            if leaves && group != GroupId::CATALOG && replication.is_out(group) {
                self.forget(group).await;
            }
        }
        if draining.contains(&own) {
            self.hand_over("this node is drained");
        } else if maintenance.contains(&own) {
            self.hand_over("this node is in maintenance");
        }
        here.is_subset(&self.running)
    }

    async fn start(&mut self, group: GroupId, placement: &Placement) {
        self.local.groups.get_or_create(group);
        let (replication, own) = (&self.local.replication, self.local.id);
        let nodes = placement.groups.get(&group).filter(|nodes| nodes.contains(&own));
        let nodes = nodes.filter(|_| !placement.moves.contains_key(&group));
        let started = match (nodes, placement.founders.get(&group)) {
            (Some(_), Some(founders)) => replication.found_group(group, founders.clone()).await,
            (Some(founders), None) => replication.add_group(group, founders.clone()).await,
            (None, _) => replication.join_group(group).await,
        };
        match started {
            Ok(()) | Err(ReplicationError::AlreadyRunning { .. }) => {
                self.running.insert(group);
            }
            Err(error) => tracing::error!(%group, %error, "the group does not start"),
        }
    }

    async fn forget(&mut self, group: GroupId) {
        let dropped = self.local.replication.drop_group(group).await;
        if let Some(group) = self.local.groups.remove(group) {
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
    fn hand_over(&mut self, why: &'static str) {
        if self.handing_over.as_ref().is_some_and(|moving| !moving.is_finished()) {
            return;
        }
        let led = self.local.replication.status().into_iter().filter(|group| group.leading);
        let moves: Vec<(GroupId, u64)> = led
            .filter_map(|status| Some((status.id, self.succession.successor(&status)?)))
            .collect();
        if moves.is_empty() {
            return;
        }
        let succession = self.succession.clone();
        self.handing_over = Some(tokio::spawn(async move {
            // One after the other: each costs its group's clients some milliseconds.
            for (group, successor) in moves {
                succession.hand_over(group, successor, why).await;
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use domain::{GroupRow, MemoryRows, NodeState};

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
        rows.0.insert(Key::Founders(GroupId(1)), Row::Founders(vec![(1, 7), (2, 8)]));
        let placement = Placement::read(&rows);
        let catalog = placement.wanted(GroupId(0)).expect("the catalog");
        assert_eq!(catalog.replicas, [1, 2, 4].into());
        assert_eq!((catalog.voters, catalog.voters_max), ([2, 4].into(), 5));
        let data = placement.wanted(GroupId(1)).expect("a group");
        assert_eq!((data.voters, data.voters_max), ([1, 2].into(), 2), "until it is moved");
        assert_eq!(placement.wanted(GroupId(2)), None);
        assert_eq!(
            (placement.states.removed, placement.moves),
            ([3].into(), [(GroupId(1), 2)].into())
        );
        assert_eq!(placement.founders, [(GroupId(1), [(1, 7), (2, 8)].into())].into());
    }
}
