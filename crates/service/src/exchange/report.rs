//! What a node says of itself and of its groups.

use domain::{Counts, EntityId, GroupId, PerSubQueue};
use engine::Candidate;
use replication::{DiskStatus, GroupStatus};

use crate::clock::ClockReport;
use crate::exchange::EntityDepth;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport {
    pub disk: DiskStatus,
    pub clock: ClockReport,
    pub groups: Vec<GroupStatus>,
}

/// What a node knows of idle entities.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IdleReport {
    /// By the groups it leads; if it was asked about none.
    pub candidates: Vec<(GroupId, Candidate)>,
    /// Of those it was asked about: receivers wait for them here, whoever leads.
    pub used: Vec<EntityId>,
}

/// What is stored in the groups this node leads.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupDepth {
    pub id: GroupId,
    pub entities: u64,
    pub counts: Counts,
    /// Receivable now, by subqueue.
    pub available: PerSubQueue<u64>,
    pub size_bytes: u64,
    /// Of entities that have metrics of their own.
    pub own: Vec<(EntityId, EntityDepth)>,
    /// Of all others together.
    pub others: EntityDepth,
}

/// One group as this node sees it, for health and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHealth {
    pub id: GroupId,
    /// Whom a majority confirmed lately.
    pub leader: Option<u64>,
    /// How long ago it did.
    pub confirmed_ms: Option<u64>,
    /// This node does, and a majority confirms it.
    pub leads: bool,
    pub term: u64,
    /// Entries known to be committed and not applied here.
    pub lag: u64,
    pub failed: bool,
    /// This node counts for a majority of it.
    pub is_member: bool,
    /// How many of its replicas shall have a vote.
    pub voters_wanted: usize,
    /// On the leader: the others.
    pub replicas: Vec<ReplicaHealth>,
}

/// Another node's replica, as the group's leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaHealth {
    pub node: u64,
    /// It counts for a majority.
    pub votes: bool,
    /// Entries the leader has that this replica is not known to have.
    pub lag: u64,
    /// How long ago it last answered. Absent: never to this leader.
    pub heard_ms: Option<u64>,
}

/// A replica that did not answer its leader for so long is away.
const AWAY_MS: u64 = 3_000;
/// A replica further behind does not keep up: it is none to fall back on, nor to send clients to.
pub(crate) const BEHIND_ENTRIES: u64 = 1_000;

impl ReplicaHealth {
    fn answers(&self) -> bool {
        self.heard_ms.is_some_and(|ms| ms <= AWAY_MS)
    }
}

impl GroupHealth {
    /// On the leader: whether fewer replicas than wanted vote, answer and keep up.
    pub fn is_under_replicated(&self) -> bool {
        let fit = |replica: &&ReplicaHealth| {
            replica.votes && replica.answers() && replica.lag <= BEHIND_ENTRIES
        };
        1 + self.replicas.iter().filter(fit).count() < self.voters_wanted
    }

    /// On the leader: how many more voters may go away before no majority is left.
    pub fn quorum_margin(&self) -> i64 {
        let others = self.replicas.iter().filter(|replica| replica.votes);
        let (voters, answering) = others.fold((1, 1), |(voters, answering), replica| {
            (voters + 1, answering + i64::from(replica.answers()))
        });
        answering - (voters / 2 + 1)
    }
}

impl GroupDepth {
    pub(crate) fn none(group: GroupId) -> GroupDepth {
        let counts = Counts::default();
        GroupDepth {
            id: group,
            entities: 0,
            counts,
            available: PerSubQueue::default(),
            size_bytes: 0,
            own: Vec::new(),
            others: EntityDepth::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_tells_what_its_group_can_still_lose() {
        let replica = |node, votes, heard_ms, lag| ReplicaHealth { node, votes, lag, heard_ms };
        let well = |node| replica(node, true, Some(10), 0);
        let comes = replica(9, false, Some(1), 5_000);
        for (what, replicas, under, margin) in [
            ("one comes", vec![well(2), well(3), comes], false, 1),
            ("all are there", vec![well(2), well(3)], false, 1),
            ("one is away", vec![well(2), replica(3, true, Some(AWAY_MS + 1), 0)], true, 0),
            (
                "one is behind",
                vec![well(2), replica(3, true, Some(1), BEHIND_ENTRIES + 1)],
                true,
                1,
            ),
            (
                "nobody answers",
                vec![replica(2, true, None, 0), replica(3, true, None, 0)],
                true,
                -1,
            ),
            ("one is rebuilt", vec![well(2), replica(3, false, Some(1), 0)], true, 0),
            ("two more than wanted", (2..=5).map(well).collect(), false, 2),
        ] {
            let group = GroupHealth {
                id: GroupId(1),
                leader: Some(1),
                confirmed_ms: Some(1),
                leads: true,
                term: 1,
                lag: 0,
                failed: false,
                is_member: true,
                voters_wanted: 3,
                replicas,
            };
            assert_eq!(
                (group.is_under_replicated(), group.quorum_margin()),
                (under, margin),
                "{what}"
            );
        }
    }
}
