//! What a node says of itself and of its groups.

use domain::{Counts, EntityId, GroupId, PerSubQueue};
use engine::Candidate;
use replication::{DiskStatus, GroupStatus};

use crate::clock::ClockReport;

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupDepth {
    pub id: GroupId,
    pub entities: u64,
    pub counts: Counts,
    /// Receivable now, by subqueue.
    pub available: PerSubQueue<u64>,
    pub size_bytes: u64,
}

/// One group as this node sees it, for health and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        }
    }
}
