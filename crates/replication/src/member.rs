//! A replica's id in its group: its node, and which incarnation of it. What a replica said under
//! one id binds whoever speaks under it, so a node that lost its disk takes another.

use std::collections::{BTreeMap, BTreeSet};

use crate::raft::Membership;

const NODE_BITS: u32 = 16;
/// The highest number a node can have.
pub(crate) const NODE_MAX: u64 = (1 << NODE_BITS) - 1;

/// The founders' ids are their nodes' numbers.
pub(crate) fn id_of(node: u64, incarnation: u32) -> u64 {
    node | u64::from(incarnation) << NODE_BITS
}

pub(crate) fn node_of(id: u64) -> u64 {
    id & NODE_MAX
}

/// Which nodes shall hold a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub replicas: BTreeSet<u64>,
    /// Those that may vote.
    pub voters: BTreeSet<u64>,
    /// How many of them do, at most.
    pub voters_max: usize,
}

/// The replicas that stand for nodes, by node. While a node returns, its new replica stands for it
/// and has no vote, whatever the group still keeps of the old one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub voters: BTreeMap<u64, u64>,
    pub learners: BTreeMap<u64, u64>,
}

impl Replicas {
    pub fn of(membership: &Membership) -> Replicas {
        let by_node = |id| (node_of(id), id);
        let sets = membership.get_joint_config();
        // Between two sets only who is in both can be counted on.
        let full = |id: &u64| sets.iter().all(|set| set.contains(id));
        let coming = |id: &u64| sets.last().is_some_and(|set| set.contains(id));
        let leaving = |id: &u64| !coming(id) && sets.iter().any(|set| set.contains(id));
        let mut learners: Vec<u64> =
            membership.nodes().map(|(id, _)| *id).filter(|id| !full(id)).collect();
        // Of several for one node the last counts.
        learners.sort_by_key(|id| (coming(id), !leaving(id)));
        let learners: BTreeMap<u64, u64> = learners.into_iter().map(by_node).collect();
        let voters = membership.voter_ids().filter(full).map(by_node);
        let voters = voters.filter(|(node, _)| !learners.contains_key(node)).collect();
        Replicas { voters, learners }
    }

    /// Every replica that stands for a node.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.voters.iter().chain(&self.learners).map(|(node, id)| (*node, *id))
    }
}

#[cfg(test)]
mod tests {
    use openraft::EmptyNode;

    use super::*;

    fn membership(sets: &[&[u64]], nodes: &[u64]) -> Membership {
        let sets: Vec<BTreeSet<u64>> =
            sets.iter().map(|set| set.iter().copied().collect()).collect();
        let nodes: BTreeMap<u64, EmptyNode> = nodes.iter().map(|id| (*id, EmptyNode {})).collect();
        Membership::new(sets, nodes).expect("a membership")
    }

    #[test]
    fn an_id_names_a_node_and_its_incarnation() {
        assert_eq!(id_of(3, 0), 3);
        for incarnation in [0, 1, 0x9f3c_11aa, u32::MAX] {
            assert_eq!(node_of(id_of(3, incarnation)), 3);
            assert_eq!(node_of(id_of(NODE_MAX, incarnation)), NODE_MAX);
        }
    }

    #[test]
    fn a_node_that_returns_has_no_vote_until_its_new_replica_has() {
        let again = id_of(3, 7);
        let learning = Replicas::of(&membership(&[&[1, 2, 3]], &[1, 2, 3, again]));
        assert_eq!(learning.voters, [(1, 1), (2, 2)].into());
        assert_eq!(learning.learners, [(3, again)].into());
        let joint = membership(&[&[1, 2, 3], &[1, 2, again]], &[1, 2, 3, again]);
        assert_eq!(Replicas::of(&joint), learning);
        let after = Replicas::of(&membership(&[&[1, 2, again]], &[1, 2, again]));
        assert_eq!(after.voters, [(1, 1), (2, 2), (3, again)].into());
        assert!(after.learners.is_empty());
    }
}
