//! This node, as its own edge and its peers ask it: the groups it holds replicas of, and what it knows of
//! them. What `link` is to another node, this is to the one we are on.

use std::sync::Arc;

use domain::{EntityId, GroupId, Key, Refusal, Row, Rows};
use limits::CreditBank;
use replication::{GroupRows, NodeDescription, Replication};

use crate::clock::Clock;
use crate::exchange::{CutAnswer, CutRequest, IdleReport, NodeReport};
use crate::leader::{Group, Groups};
use crate::peer::about_node::AboutNode;
use crate::peer::waiting_receivers::WaitingReceivers;

/// Most idle entities named at a time: their names must fit one frame.
const CANDIDATES_MAX: usize = 4096;

/// Why nobody advances the time of this node's cluster.
pub(crate) const NOT_DEVELOPMENT: Refusal = Refusal::InvalidOperation {
    why: "the clock can be advanced in development mode only; start the nodes with it",
};

pub(crate) struct LocalNode {
    pub id: u64,
    /// Whether an operator may advance the cluster's time.
    pub development: bool,
    pub replication: Replication,
    pub clock: Arc<Clock>,
    pub groups: Arc<Groups>,
    /// Of this node's edge.
    pub receivers: Arc<WaitingReceivers>,
    pub about: AboutNode,
    /// What edges granted in namespaces that are throttled, while this node leads the catalog.
    pub bank: CreditBank,
}

impl LocalNode {
    pub fn group(&self, group: GroupId) -> Option<Arc<Group>> {
        self.groups.get(group)
    }

    /// The catalog's rows, as far as it is applied here.
    pub fn catalog(&self) -> GroupRows {
        self.replication.rows(GroupId::CATALOG)
    }

    pub fn leads_the_catalog(&self) -> bool {
        self.replication.is_leader(GroupId::CATALOG)
    }

    /// Whether the cluster has reached a feature level, as far as it is known here. All clusters have the first.
    pub fn has_reached(&self, level: u32) -> bool {
        // Mostly there is nothing to look up.
        level <= self.groups.feature_level.get().max(1)
            || matches!(self.catalog().get(&Key::Cluster),
                Some(Row::Cluster(cluster)) if level <= cluster.feature_level)
    }

    /// What this node is.
    pub fn describe(&self) -> NodeDescription {
        self.about.describe(&self.groups)
    }

    /// What this node knows of its groups.
    pub fn report(&self) -> NodeReport {
        let LocalNode { clock, replication, .. } = self;
        NodeReport { clock: clock.report(), disk: replication.disk(), groups: replication.status() }
    }

    /// What this node knows of idle entities: about those asked about, or, if none are, of its own.
    pub fn idle_report(&self, asked: &[EntityId]) -> IdleReport {
        if !asked.is_empty() {
            let used = self.receivers.awaited(asked);
            return IdleReport { candidates: Vec::new(), used };
        }
        let mut candidates = Vec::new();
        for group in self.groups.all().into_iter().filter(|group| group.leads()) {
            let idle = group.take_idle(CANDIDATES_MAX - candidates.len());
            candidates.extend(idle.into_iter().map(|idle| (group.id, idle)));
        }
        IdleReport { candidates, used: Vec::new() }
    }

    /// QUOTA-8: what an edge granted in each of these namespaces is charged; for how long nothing more is to be granted
    /// there, in ms.
    pub fn spend(&self, spent: &[(String, u64)]) -> Vec<u64> {
        let rows = self.catalog();
        let owed = |(name, spent): &(String, u64)| {
            let max = credits_per_second(&rows, name)?;
            u64::try_from(self.bank.charge(name, *spent, max).as_millis()).ok()
        };
        spent.iter().map(|spent| owed(spent).unwrap_or(0)).collect()
    }

    /// What a backup asks about a replica here.
    pub async fn cut(&self, group: GroupId, asked: CutRequest) -> CutAnswer {
        let replication = &self.replication;
        let answer = match asked {
            CutRequest::Expect { number } => replication.expect_cut(group, number).map(|()| None),
            CutRequest::Rows { number, after } => replication.cut_rows(group, number, after).await,
            CutRequest::Keep { number } => replication.keep_cut(group, number).map(|()| None),
            CutRequest::Release { number } => {
                replication.release_cut(group, number);
                Ok(None)
            }
        };
        answer.map_err(|error| error.to_string())
    }

    /// Hands over a leadership held here.
    pub async fn transfer(&self, group: GroupId, to: u64) -> Result<(), String> {
        self.replication.transfer(group, to).await.map_err(|error| error.to_string())
    }
}

/// QUOTA-8: of a namespace that is throttled.
fn credits_per_second(rows: &impl Rows, name: &str) -> Option<u64> {
    match rows.get(&Key::Namespace(name.to_owned())) {
        Some(Row::Namespace(row)) => row.profile.limits().credits_per_second,
        _ => None,
    }
}
