//! At the catalog's leader: has replicas move to where they should be, one after the other, until
//! nodes that leave hold nothing and those that stay hold equally many. What is decided is an entry
//! of the catalog's log; the groups follow it by themselves (`placing`). So whoever leads next goes
//! on, and nobody has to remember anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{CatalogCommand, GroupId};
use engine::placement::{Host, Move, Place, next_move};
use futures::future::join_all;
use replication::GroupStatus;
use tokio::time::Instant;

use crate::broker::Broker;
use crate::placing::Placing;
use crate::status::NodeReport;

const ROUND: Duration = Duration::from_millis(300);
/// A node that said nothing for so long is not counted on.
const SILENT_AFTER: Duration = Duration::from_secs(5);

pub(crate) struct Planner {
    broker: Broker,
    heard: BTreeMap<u64, Instant>,
}

impl Planner {
    pub fn new(broker: Broker) -> Planner {
        Planner { broker, heard: BTreeMap::new() }
    }

    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(ROUND).await;
            self.round().await;
        }
    }

    async fn round(&mut self) {
        let router = self.broker.router().clone();
        if !router.replication.is_leader(GroupId::CATALOG) {
            return;
        }
        let placing = Placing::read(&router.replication.rows(GroupId::CATALOG));
        if !is_due(&placing) {
            return; // Mostly. Then nobody is asked anything.
        }
        let reports = self.ask(&placing).await;
        let hosts = hosts(&placing, |node| {
            self.heard.get(&node).is_some_and(|at| at.elapsed() < SILENT_AFTER)
        });
        let Some(next) = next_move(&hosts, &places(&placing, &reports)) else { return };
        self.decide(next, &placing).await;
    }

    /// What every node says of its groups.
    async fn ask(&mut self, placing: &Placing) -> BTreeMap<u64, NodeReport> {
        let (broker, own) = (&self.broker, self.broker.node());
        let others = placing.peers.keys().copied().filter(|node| *node != own);
        let asked = others.map(|node| async move { (node, broker.ask_report(node).await) });
        let answers = join_all(asked).await.into_iter();
        let answers = answers.filter_map(|(node, report)| Some((node, report?)));
        let reports: BTreeMap<u64, NodeReport> =
            answers.chain([(own, broker.router().report())]).collect();
        self.heard.extend(reports.keys().map(|node| (*node, Instant::now())));
        reports
    }

    async fn decide(&self, Move { group, from, to }: Move, placing: &Placing) {
        let moves = placing.moves.get(&group).copied().unwrap_or(0);
        let command = CatalogCommand::MoveReplica { group, from, to, moves };
        match self.broker.catalog(command, "", self.broker.router().deadline()).await {
            Ok(_) => tracing::info!(%group, from, to, "a replica moves"),
            Err(error) => tracing::debug!(%group, from, to, %error, "no replica moves this time"),
        }
    }
}

/// Whether there would be a move if every group were as it shall be, and everybody answered.
fn is_due(placing: &Placing) -> bool {
    let groups = data_groups(placing).map(|(group, wanted)| {
        (group, Place { wanted: wanted.clone(), voters: Some(wanted.clone()) })
    });
    next_move(&hosts(placing, |_| true), &groups.collect()).is_some()
}

fn hosts(placing: &Placing, reachable: impl Fn(u64) -> bool) -> BTreeMap<u64, Host> {
    let leaving = |node| placing.draining.contains(&node);
    let nodes = placing.peers.keys().copied();
    nodes.map(|node| (node, Host { leaving: leaving(node), reachable: reachable(node) })).collect()
}

fn places(placing: &Placing, reports: &BTreeMap<u64, NodeReport>) -> BTreeMap<GroupId, Place> {
    let groups = data_groups(placing).map(|(group, wanted)| {
        (group, Place { wanted: wanted.clone(), voters: voters(group, reports) })
    });
    groups.collect()
}

/// Who votes in a group, by the word of its leader, or of whoever has applied most. A group that is
/// only being founded has no voters yet.
fn voters(group: GroupId, reports: &BTreeMap<u64, NodeReport>) -> Option<BTreeSet<u64>> {
    let seen = reports.values().flat_map(|report| &report.groups);
    let seen = seen.filter(|status| status.id == group && !status.voters.is_empty());
    let best = seen.max_by_key(|group: &&GroupStatus| (group.leading, group.term, group.applied));
    best.map(|group| group.voters.clone())
}

fn data_groups(placing: &Placing) -> impl Iterator<Item = (GroupId, &BTreeSet<u64>)> {
    let groups = placing.groups.iter().map(|(group, wanted)| (*group, wanted));
    groups.filter(|(group, _)| *group != GroupId::CATALOG)
}
