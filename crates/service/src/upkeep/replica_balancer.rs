//! At the catalog's leader: has replicas move to where they should be, one after the other, until
//! nodes that leave hold nothing, groups are spread over zones, and nodes that stay hold equally many.
//! What is decided is an entry of the catalog's log; the groups follow it by themselves (`placement`).
//! So whoever leads next goes on, and nobody has to remember anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{CatalogCommand, GroupId};
use engine::placement::{Host, Move, Place, next_move};
use futures::future::{join, join_all};
use replication::GroupStatus;
use tokio::time::{Instant, sleep, timeout};

use crate::edge::{Catalog, Router};
use crate::exchange::NodeReport;
use crate::upkeep::placement::Placement;

const ROUND: Duration = Duration::from_millis(300);
/// A node that said nothing for so long is not counted on.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// How often nodes are asked though nothing seems due: one that was started anew may be told another
/// zone.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// What a round has found.
enum Balance {
    /// Nothing is due, until the catalog or what a node says of itself changes.
    Even,
    /// Something is, or another node leads.
    Other,
}

pub(crate) struct ReplicaBalancer {
    router: Arc<Router>,
    heard: BTreeMap<u64, Instant>,
    /// By each node's last word.
    zones: BTreeMap<u64, Option<String>>,
    asked_at: Option<Instant>,
}

impl ReplicaBalancer {
    pub fn new(router: Arc<Router>) -> ReplicaBalancer {
        ReplicaBalancer { router, heard: BTreeMap::new(), zones: BTreeMap::new(), asked_at: None }
    }

    pub async fn run(mut self) {
        let router = self.router.clone();
        loop {
            sleep(ROUND).await;
            // From before the round, so that no change is missed.
            let changes = router.local.replication.changes(GroupId::CATALOG);
            if let (Balance::Even, Some(mut changes)) = (self.round().await, changes) {
                drop(timeout(ASK_EVERY, changes.changed()).await);
            }
        }
    }

    async fn round(&mut self) -> Balance {
        let router = self.router.clone();
        if !router.local.leads_the_catalog() {
            return Balance::Other;
        }
        let placement = Placement::read(&router.local.catalog());
        let is_fresh = self.asked_at.is_some_and(|at| at.elapsed() < ASK_EVERY);
        if is_fresh && !is_due(&placement, &self.zones) {
            return Balance::Even; // Mostly. Then nobody is asked anything.
        }
        let reports = self.ask(&placement).await;
        let hosts = hosts(&placement, &self.zones, |node| {
            self.heard.get(&node).is_some_and(|at| at.elapsed() < SILENT_AFTER)
        });
        if let Some(next) = next_move(&hosts, &places(&placement, &reports)) {
            self.decide(next, &placement).await;
        }
        Balance::Other
    }

    /// What every node says of its groups, and of its zone.
    async fn ask(&mut self, placement: &Placement) -> BTreeMap<u64, NodeReport> {
        let router = self.router.clone();
        let own = router.local.id;
        self.asked_at = Some(Instant::now());
        let others = placement.peers.keys().copied().filter(|node| *node != own);
        let links = &router.links;
        let asked = others.map(|node| async move {
            (node, join(links.report(node), links.describe(node)).await)
        });
        let mut reports = BTreeMap::from([(own, router.local.report())]);
        self.zones.insert(own, router.local.describe().zone);
        for (node, (report, description)) in join_all(asked).await {
            reports.extend(report.map(|report| (node, report)));
            self.zones.extend(description.map(|description| (node, description.zone)));
        }
        self.heard.extend(reports.keys().map(|node| (*node, Instant::now())));
        reports
    }

    async fn decide(&self, Move { group, from, to }: Move, placement: &Placement) {
        let moves = placement.moves.get(&group).copied().unwrap_or(0);
        let command = CatalogCommand::MoveReplica { group, from, to, moves };
        match Catalog::new(&self.router).propose(command, "", self.router.deadline()).await {
            Ok(_) => tracing::info!(%group, from, to, "a replica moves"),
            Err(error) => tracing::debug!(%group, from, to, %error, "no replica moves this time"),
        }
    }
}

/// Whether there would be a move if every group were as it shall be, and everybody answered.
fn is_due(placement: &Placement, zones: &BTreeMap<u64, Option<String>>) -> bool {
    let groups = data_groups(placement).map(|(group, wanted)| {
        (group, Place { wanted: wanted.clone(), voters: Some(wanted.clone()) })
    });
    next_move(&hosts(placement, zones, |_| true), &groups.collect()).is_some()
}

fn hosts(
    placement: &Placement,
    zones: &BTreeMap<u64, Option<String>>,
    reachable: impl Fn(u64) -> bool,
) -> BTreeMap<u64, Host> {
    let host = |node| Host {
        leaving: placement.states.draining.contains(&node),
        reachable: reachable(node),
        zone: zones.get(&node).cloned().flatten(),
    };
    placement.peers.keys().map(|node| (*node, host(*node))).collect()
}

fn places(placement: &Placement, reports: &BTreeMap<u64, NodeReport>) -> BTreeMap<GroupId, Place> {
    let groups = data_groups(placement).map(|(group, wanted)| {
        (group, Place { wanted: wanted.clone(), voters: voters(group, reports) })
    });
    groups.collect()
}

/// Who votes in a group, by the word of its leader, or of whoever has applied most. A group that is
/// only being founded has no voters yet.
fn voters(group: GroupId, reports: &BTreeMap<u64, NodeReport>) -> Option<BTreeSet<u64>> {
    let seen = reports.values().flat_map(|report| &report.groups);
    let seen = seen.filter(|of| of.id == group && !of.voters.is_empty());
    let best = seen.max_by_key(|group: &&GroupStatus| (group.leading, group.term, group.applied));
    best.map(|group| group.voters.clone())
}

fn data_groups(placement: &Placement) -> impl Iterator<Item = (GroupId, &BTreeSet<u64>)> {
    let groups = placement.groups.iter().map(|(group, wanted)| (*group, wanted));
    groups.filter(|(group, _)| *group != GroupId::CATALOG)
}
