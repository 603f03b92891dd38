//! What goes wrong. Each life draws which faults it has and how often (a swarm): together they reach
//! what an even mixture of all does not.
//!
//! Invariant: a disk loses what it promised only while all others hold all they ever promised.

use std::collections::BTreeMap;

use super::GROUP;
use super::cluster::RealCluster;
use super::network::SocketNetwork;
use super::node::RealNode;
use crate::random::Random;

/// Chances are taken so often.
const EVERY_MS: u64 = 100;
/// A stop in order takes at most so long; then the process is ended.
const STOP_MS: u64 = 6_000;

/// How often each fault comes, in a thousand of [`EVERY_MS`].
#[derive(Clone, Copy, Default)]
struct Odds {
    crash: u32,
    power: u32,
    wipe: u32,
    cut: u32,
    hold: u32,
    slow_link: u32,
    reset: u32,
    slow_disk: u32,
    transfer: u32,
    stop: u32,
    flush: u32,
    moving: u32,
    /// In a thousand of the steps in which a node writes its vote: it falls.
    vote: u32,
}

/// Faults of one life.
pub struct Faults {
    odds: Odds,
    /// When nodes that are down start again.
    starts: BTreeMap<u64, u64>,
    /// Nodes that stop in order, and until when.
    stopping: BTreeMap<u64, u64>,
}

impl Faults {
    /// `spares`: there are nodes to which replicas may move.
    pub fn new(random: &mut Random, spares: bool) -> Faults {
        let mut often = |most: u64| match random.chance(650) {
            true => random.between(1, most) as u32,
            false => 0,
        };
        let odds = Odds {
            crash: often(30),
            power: often(16),
            wipe: often(30),
            cut: often(30),
            hold: often(40),
            slow_link: often(30),
            reset: often(40),
            slow_disk: often(20),
            transfer: often(20),
            stop: often(10),
            flush: often(100),
            vote: often(300),
            moving: if spares { random.between(5, 60) as u32 } else { 0 },
        };
        Faults { odds, starts: BTreeMap::new(), stopping: BTreeMap::new() }
    }

    /// Whether a node stops because it was told to.
    pub fn is_stopping(&self, node: u64) -> bool {
        self.stopping.contains_key(&node)
    }

    /// Everything is up again.
    pub fn end(&mut self, nodes: &mut BTreeMap<u64, RealNode>, network: &SocketNetwork) {
        for (number, node) in nodes {
            if self.stopping.remove(number).is_some() {
                node.crash(false, network);
            }
            node.log.set_speed(3);
            if node.process.is_none() {
                node.start(network);
            }
        }
    }
}

impl RealCluster {
    /// What goes wrong in one step.
    pub fn trouble(&mut self) {
        self.start_again();
        self.trouble_voters();
        if !self.now.is_multiple_of(EVERY_MS) {
            return;
        }
        let odds = self.faults.odds;
        let node = self.random.between(1, self.count());
        if self.random.chance(odds.crash) {
            self.crash(node, false);
        }
        if self.random.chance(odds.power) {
            self.cut_power(node);
        }
        if self.random.chance(odds.wipe) && self.is_whole() {
            self.crash(node, true);
            self.report.wipes += 1;
            let wiped = self.nodes.get_mut(&node).map(RealNode::wipe);
            if let Some(Err(error)) = wiped {
                self.watch.broke("running", "wipe", error.to_string());
            }
        }
        if self.random.chance(odds.cut) && self.is_whole() {
            self.crash(node, true);
            self.report.cuts += 1;
            if let Some(Err(error)) = self.nodes.get_mut(&node).map(RealNode::cut) {
                self.watch.broke("running", "cut", error.to_string());
            }
        }
        self.trouble_network(node);
        if self.random.chance(odds.slow_disk) {
            let most = if self.random.chance(500) { 3 } else { self.random.between(20, 400) };
            self.report.slow += 1;
            let all = self.random.chance(400);
            let slowed = self.nodes.values().filter(|of| all || of.number == node);
            slowed.for_each(|node| node.log.set_speed(most));
        }
        if self.random.chance(odds.transfer) {
            self.transfer(node);
        }
        if self.random.chance(odds.stop) {
            self.stop(node);
        }
        if self.random.chance(odds.moving) {
            self.move_replica();
        }
        if self.random.chance(odds.flush)
            && let Some(node) = self.nodes.get(&node)
        {
            // The database does it when it likes.
            node.rows.flush();
        }
    }

    /// A vote is written rarely, and much depends on it.
    fn trouble_voters(&mut self) {
        let voting = |node: &&RealNode| node.process.is_some() && node.log.is_voting();
        let voters: Vec<u64> = self.nodes.values().filter(voting).map(|node| node.number).collect();
        for node in voters {
            if self.random.chance(self.faults.odds.vote) {
                self.crash(node, true);
            }
        }
    }

    fn trouble_network(&mut self, node: u64) {
        let odds = self.faults.odds;
        let other = self.other_than(node);
        if self.random.chance(odds.hold) {
            self.report.holds += 1;
            let until = self.now + self.random.between(100, 8_000);
            self.watch.note("hold", &[node, other, until]);
            match self.random.below(4) {
                // One way, one pair, or all that a node has.
                0 => self.network.hold(node, other, until),
                1 => {
                    self.network.hold(node, other, until);
                    self.network.hold(other, node, until);
                }
                _ => {
                    for other in (1..=self.count()).filter(|other| *other != node) {
                        self.network.hold(node, other, until);
                        self.network.hold(other, node, until);
                    }
                }
            }
        }
        if self.random.chance(odds.slow_link) {
            self.report.slow += 1;
            let (by_ms, until) =
                (self.random.between(5, 600), self.now + self.random.between(500, 8_000));
            self.network.slow(node, other, by_ms, until);
        }
        if self.random.chance(odds.reset) {
            self.report.resets += 1;
            self.network.reset(node, other);
        }
    }

    fn other_than(&mut self, node: u64) -> u64 {
        let nodes = self.count();
        (node + self.random.below(nodes - 1)) % nodes + 1
    }

    pub fn crash(&mut self, number: u64, power: bool) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.process.is_none() {
            return;
        }
        self.watch.note("crash", &[number, u64::from(power)]);
        self.faults.stopping.remove(&number);
        self.report.crashes += 1;
        self.report.writes_lost += node.crash(power, &self.network);
        let down_ms = match self.random.chance(500) {
            true => self.random.between(10, 400),
            false => self.random.between(400, 7_000),
        };
        self.faults.starts.insert(number, self.now + down_ms);
    }

    /// The power goes, of some or of all.
    fn cut_power(&mut self, first: u64) {
        let (all, count) = (self.count(), self.random.between(1, self.count()));
        for at in 0..count {
            self.crash((first - 1 + at) % all + 1, true);
        }
    }

    fn start_again(&mut self) {
        let due = |at: &u64| *at <= self.now;
        let stops: Vec<u64> =
            self.faults.stopping.iter().filter(|(_, at)| due(at)).map(|(node, _)| *node).collect();
        stops.into_iter().for_each(|node| self.crash(node, false));
        let due = |at: &u64| *at <= self.now;
        let starts: Vec<u64> =
            self.faults.starts.iter().filter(|(_, at)| due(at)).map(|(node, _)| *node).collect();
        for number in starts {
            self.faults.starts.remove(&number);
            self.watch.note("start", &[number]);
            let Some(node) = self.nodes.get_mut(&number) else { continue };
            node.start(&self.network);
        }
    }

    /// Asks a leader to hand over.
    fn transfer(&mut self, to: u64) {
        let leads = |node: &&RealNode| {
            let process = node.process.as_ref();
            process.is_some_and(|process| process.replication.is_leader(GROUP))
        };
        let Some(process) = self.nodes.values().find(leads).and_then(|node| node.process.as_ref())
        else {
            return;
        };
        self.report.transfers += 1;
        let replication = process.replication.clone();
        // Whether it works is seen by who leads.
        process.runtime.spawn(async move { replication.transfer(GROUP, to).await });
    }

    /// All nodes, with replicas and without.
    fn count(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// A replica shall live elsewhere. One moves at a time, by the word of who leads.
    fn move_replica(&mut self) {
        let led = self.nodes.values().filter_map(|node| node.process.as_ref()?.status());
        if !led.filter(|status| status.leading).any(|status| self.is_full(&status)) {
            return;
        }
        let (here, elsewhere): (Vec<u64>, Vec<u64>) =
            self.nodes.keys().partition(|node| self.plan.replicas.contains(node));
        let (from, to) = (self.random.pick(&here), self.random.pick(&elsewhere));
        self.watch.note("move", &[from, to]);
        self.report.moves += 1;
        self.plan.move_one(from, to);
    }

    /// Stops a node in order.
    fn stop(&mut self, number: u64) {
        let node = self.nodes.get(&number);
        let Some(process) = node.and_then(|node| node.process.as_ref()) else { return };
        if self.faults.is_stopping(number) {
            return;
        }
        self.report.stops += 1;
        let replication = process.replication.clone();
        process.runtime.spawn(async move { replication.shutdown().await });
        self.faults.stopping.insert(number, self.now + STOP_MS);
    }
}
