//! A cluster's life: it is founded, has trouble, is left in peace, and gives account.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use replication::{GroupStatus, Leadership};

use super::call::Around;
use super::client::RealClient;
use super::consumer::Consumer;
use super::faults::Faults;
use super::ledger::{self, Ledger};
use super::network::SocketNetwork;
use super::node::RealNode;
use super::plan::Plan;
use super::report::RealReport;
use super::watch::Watch;
use super::{GROUP, RealOptions};
use crate::random::Random;
use crate::report::Broken;

/// Nodes move on by so much at a time.
const STEP_MS: u64 = 2;
/// A cluster is founded in this time, and heals in this.
const FOUND_MS: u64 = 30_000;
const HEAL_MS: u64 = 120_000;
/// Statuses are looked at so often.
const LOOK_MS: u64 = 100;
/// Of a thousand nodes that do not know the plan, so many hear of it between two looks.
const HEARS: u32 = 100;
const CLIENTS: u64 = 4;
/// Without consumers the rows grow, with many they come and go.
const CONSUMERS_MAX: u64 = 3;

/// See the file's head.
pub struct RealCluster {
    pub options: RealOptions,
    pub random: Random,
    pub now: u64,
    pub network: SocketNetwork,
    pub nodes: BTreeMap<u64, RealNode>,
    pub plan: Plan,
    pub watch: Watch,
    pub report: RealReport,
    pub faults: Faults,
    clients: Vec<RealClient>,
    consumers: Vec<Consumer>,
    pub ledger: Ledger,
    dir: PathBuf,
    /// Clients finish what they began, and begin nothing.
    pub peace: bool,
}

impl RealCluster {
    pub fn new(seed: u64, options: RealOptions) -> RealCluster {
        let mut random = Random::new(seed);
        let watch = Watch::default();
        // Only what a node is lies in files: provenances and directory ids.
        let dir = std::env::temp_dir().join(format!("mayfly-raft-{}-{seed}", std::process::id()));
        let network = SocketNetwork::new(random.fork());
        let mut nodes = BTreeMap::new();
        let plan = Plan { replicas: (1..=options.nodes).collect(), moves: 0 };
        let all = options.nodes + options.spares;
        for number in 1..=all {
            let of_node = random.fork();
            let node = RealNode::new(number, all, &plan, &dir, &watch, options.bug, of_node);
            nodes.insert(number, node);
        }
        let consumers = random.below(CONSUMERS_MAX + 1);
        RealCluster {
            faults: Faults::new(&mut random, options.spares > 0),
            options,
            random,
            now: 0,
            network,
            nodes,
            plan,
            watch,
            report: RealReport::default(),
            clients: (0..CLIENTS).map(|index| RealClient::new(index, CLIENTS)).collect(),
            consumers: (0..consumers).map(Consumer::new).collect(),
            ledger: Ledger::default(),
            dir,
            peace: false,
        }
    }

    pub fn run(mut self) -> Result<RealReport, Broken> {
        self.nodes.values_mut().for_each(|node| node.start(&self.network));
        self.pass(FOUND_MS, "founded", RealCluster::is_whole)?;
        let until = self.now + self.options.seconds * 1_000;
        while self.now < until {
            self.trouble();
            self.step()?;
        }
        self.settle()?;
        for _ in 0..self.options.naps {
            self.nap()?;
        }
        self.account();
        self.sound()?;
        self.report.seconds = self.now / 1_000;
        self.report.digest = self.watch.digest();
        Ok(self.report)
    }

    /// Nothing is asked any more, and trouble ends.
    pub fn settle(&mut self) -> Result<(), Broken> {
        self.mend();
        self.peace = true;
        self.pass(HEAL_MS, "settled", RealCluster::is_settled)
    }

    /// Steps until something holds, which it must in time.
    fn pass(
        &mut self,
        longest_ms: u64,
        what: &'static str,
        holds: fn(&RealCluster) -> bool,
    ) -> Result<(), Broken> {
        let until = self.now + longest_ms;
        while !(self.now.is_multiple_of(LOOK_MS) && holds(self)) {
            if self.now > until {
                let states = self.nodes.values().map(describe).collect::<Vec<_>>().join("; ");
                let source = "README (How a replica fails)";
                self.watch.broke("settled", source, format!("not {what}: {states}"));
            }
            self.step()?;
        }
        Ok(())
    }

    pub fn step(&mut self) -> Result<(), Broken> {
        self.now += STEP_MS;
        self.watch.tick(self.now);
        self.network.tick(self.now);
        let mut order: Vec<u64> = self.nodes.keys().copied().collect();
        for left in (1..order.len()).rev() {
            order.swap(left, self.random.index(left + 1));
        }
        for number in order {
            let Some(node) = self.nodes.get(&number) else { continue };
            if let Some(process) = &node.process {
                process.run(Duration::from_millis(STEP_MS));
                node.log.tick(self.now);
            }
        }
        self.spread_word();
        self.look();
        let RealCluster { clients, consumers, now, nodes, ledger, peace, watch, random, .. } = self;
        let mut around = Around { now: *now, nodes, ledger, peace: *peace, watch, random };
        clients.iter_mut().for_each(|client| client.step(&mut around));
        consumers.iter_mut().for_each(|consumer| consumer.step(&mut around));
        self.sound()
    }

    /// Nodes hear where replicas shall be, each in its time.
    fn spread_word(&mut self) {
        if !self.now.is_multiple_of(LOOK_MS) {
            return;
        }
        let up = self.nodes.values().filter(|node| node.process.is_some());
        for node in up.filter(|node| !node.plan.is(&self.plan)) {
            if self.random.chance(HEARS) {
                node.plan.hear(&self.plan);
            }
        }
    }

    pub fn sound(&self) -> Result<(), Broken> {
        self.watch.broken().map_or(Ok(()), Err)
    }

    /// Looks at what nodes announced and how they are.
    fn look(&mut self) {
        for (number, node) in &mut self.nodes {
            let Some(process) = &node.process else { continue };
            let id = process.id();
            for leadership in process.announced() {
                let Leadership::Leader { term } = leadership else { continue };
                self.report.leaders += 1;
                if !self.watch.leads(*number, id, term) {
                    continue;
                }
                if let Some(wrong) = self.ledger.contradiction(&self.ledger.truth, node) {
                    let what = format!("node {number} leads term {term} {wrong}");
                    self.watch.broke("lost", "architecture 7", what);
                }
            }
            if let Err(error) = node.has_joined() {
                let what = format!("node {number}: {error}");
                self.watch.broke("running", "architecture 5", what);
            }
            if self.now.is_multiple_of(LOOK_MS)
                && let Some(status) = node.process.as_ref().and_then(|process| process.status())
                && let Some(failed) = status.failed
                && !self.faults.is_stopping(*number)
            {
                let what = format!("node {number}: {failed}");
                self.watch.broke("running", "architecture 5", what);
            }
        }
    }

    /// All nodes are up, and have the replicas that they shall have, with full voices.
    pub fn is_whole(&self) -> bool {
        self.nodes.values().all(|node| {
            let Some(process) = node.process.as_ref() else { return false };
            match self.plan.replicas.contains(&node.number) {
                true => process.status().is_some_and(|status| self.is_full(&status)),
                false => !process.holds(),
            }
        })
    }

    /// Whether the group is where it shall be, as one of its replicas says.
    pub fn is_full(&self, status: &GroupStatus) -> bool {
        status.voters == self.plan.replicas && status.learners.is_empty()
    }

    /// The nodes that shall have replicas.
    fn members(&self) -> impl Iterator<Item = (&u64, &RealNode)> {
        self.nodes.iter().filter(|(number, _)| self.plan.replicas.contains(number))
    }

    /// And have all there is.
    fn is_settled(&self) -> bool {
        let ends: BTreeSet<Option<(Option<u64>, Option<u64>)>> = self
            .members()
            .map(|(_, node)| {
                let status = node.process.as_ref()?.status()?;
                Some((status.last_log, status.applied))
            })
            .collect();
        let same = ends.len() == 1 && ends.iter().flatten().all(|(last, applied)| last == applied);
        let idle = self.clients.iter().all(RealClient::is_idle)
            && self.consumers.iter().all(Consumer::is_idle);
        same && self.is_whole() && idle
    }

    /// Trouble ends.
    fn mend(&mut self) {
        self.network.mend();
        self.faults.end(&mut self.nodes, &self.network);
    }

    fn account(&mut self) {
        let sums: BTreeSet<(u64, u64)> = self.members().map(|(_, node)| written(node)).collect();
        if sums.len() > 1 {
            self.watch.broke("replicas", "Raft 5.4.3", format!("in the end they differ: {sums:?}"));
        }
        for (number, node) in &self.nodes {
            let there = ledger::numbers(node).unwrap_or_default();
            if !self.plan.replicas.contains(number) {
                if !there.is_empty() {
                    let what = format!("node {number} has {} messages of others", there.len());
                    self.watch.broke("settled", "README (How nodes come and go)", what);
                }
                continue;
            }
            let distinct: BTreeSet<u64> = there.iter().copied().collect();
            if distinct.len() < there.len() {
                self.watch.broke("once", "SEND-8", format!("node {number} has some twice"));
            }
            if let Some(wrong) = self.ledger.contradiction(&self.ledger.truth, node) {
                self.watch.broke("lost", "architecture 7", format!("node {number} ends {wrong}"));
            }
            if let Some(strange) = distinct.iter().find(|number| !self.ledger.knows(**number)) {
                self.watch.broke("once", "SEND-8", format!("nobody sent {strange}"));
            }
            let id = node.process.as_ref().map(|process| process.id());
            if id.is_some_and(|id| node.spent.contains(&id)) {
                let what = format!("node {number} is {id:x?} again");
                self.watch.broke("identity", "architecture 5 (log)", what);
            }
            self.report.returns += u64::from(id.is_some_and(|id| id != *number));
        }
        self.report.entries = sums.first().map_or(0, |(applied, _)| applied + 1);
        self.report.acknowledged = self.ledger.acknowledged;
        self.report.completed = self.ledger.truth.completed.len() as u64;
        self.report.unknown = self.ledger.unknown() as u64;
        self.report.reads = self.ledger.reads;
    }
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        // Whatever is left of it is in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// How far a node's rows are and what they are, with all that is cached in its place.
fn written(node: &RealNode) -> (u64, u64) {
    if let Some(process) = &node.process {
        let _ = process.rows.flush(); // Memory does not fail.
    }
    node.rows.sum(GROUP)
}

/// A node as a violation tells of it.
fn describe(node: &RealNode) -> String {
    let status = node.process.as_ref().map(|process| (process.id(), process.status()));
    format!("node {}: {status:?}", node.number)
}
