//! A cluster: nodes, the groups they serve, and time, which is a number.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Options;
use crate::clock::Clock;
use crate::forwarding::Forwarding;
use crate::group::{Group, Scene};
use crate::node::{Node, Provenance};
use crate::random::Random;
use crate::report::{Broken, Holds, Report, Violation};

/// Some instant in 2023: code must not mind which.
const START_MS: u64 = 1_700_000_000_000;
/// In peace everything that is due has this many ticks to be done. A deadline takes three: noticed,
/// committed, applied; and there may be as many as messages.
const PEACE_TICKS: u32 = 4_000;
/// The longest lock, lifetime, delay or duplicate window that is not for ever, and some.
const LIFETIME_MS_MAX: u64 = 700_000;
/// A group whose majority was wiped is watched for so many ticks of peace.
const STANDSTILL_TICKS: u32 = 200;
/// Messages of the wiped may arrive for so many ticks.
const ECHO_TICKS: u32 = 40;

/// See the file's head.
pub struct Cluster {
    /// As they were asked for, and as they were drawn from these.
    asked: Options,
    pub(crate) options: Options,
    pub(crate) random: Random,
    pub(crate) now: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) groups: Vec<Group>,
    forwarding: Forwarding,
    pub(crate) totals: Report,
    pub(crate) tick: u32,
    /// When a majority of disks is wiped, if it is.
    pub(crate) doomed_at: Option<u32>,
}

impl Cluster {
    pub fn new(seed: u64, options: &Options) -> Cluster {
        let mut random = Random::new(seed);
        let asked = *options;
        let options = &if asked.swarm { asked.drawn(&mut random) } else { asked };
        let nodes = (0..usize::from(options.nodes))
            .map(|index| Cluster::node(index, options, &mut random))
            .collect();
        let groups = (0..usize::from(options.groups))
            .map(|index| Group::new(index, options, &mut random))
            .collect();
        let doomed = options.nodes > 2 && random.chance(options.majority_wiped);
        let doomed_at = doomed.then(|| random.between(20, u64::from(options.ticks / 2)) as u32);
        let (options, totals) = (*options, Report::default());
        let forwarding = Forwarding::default();
        let (now, tick) = (START_MS, 0);
        Cluster { asked, options, random, now, nodes, groups, forwarding, totals, tick, doomed_at }
    }

    fn node(index: usize, options: &Options, random: &mut Random) -> Node {
        let offset_us = options.clock_offset_ms_max * 1_000;
        let error_us = options.clock_error_ms_max as i64 * 1_000;
        let now_us = START_MS as i64 * 1_000;
        Node {
            up: true,
            starts: 1,
            provenance: Provenance::Founder,
            incarnation: 0,
            damaged_at: None,
            is_short: false,
            down_until: 0,
            cut_off_until: 0,
            disk_speed: random.between(150, 950) as u32,
            clock: Clock::new(index, offset_us, error_us, now_us, random),
            may_stamp: vec![(false, Vec::new()); usize::from(options.groups)],
        }
    }

    /// Trouble, then peace, then the account. A panic is a violation too: every replica would fall
    /// at the same entry, and again after restart.
    pub fn run(mut self, seed: u64) -> Result<Report, Violation> {
        let options = self.asked;
        let lived = catch_unwind(AssertUnwindSafe(|| self.live()));
        let panicked = |_| Err((u16::MAX, broken("see above".to_owned())));
        match lived.unwrap_or_else(panicked) {
            Ok(()) => Ok(self.report()),
            Err((group, broken)) => {
                Err(Violation { seed, tick: self.tick, group, broken, options })
            }
        }
    }

    fn live(&mut self) -> Result<(), (u16, Broken)> {
        while self.tick < self.options.ticks {
            self.trouble();
            self.step(false)?;
        }
        self.mend();
        if self.doomed_at.is_some() {
            self.totals.standstills += 1;
            return (0..STANDSTILL_TICKS).try_for_each(|_| self.step(true));
        }
        self.groups.iter_mut().for_each(|group| group.resume(&mut self.random));
        self.settle()?;
        // Nothing lasts longer than this but what lasts for ever.
        self.now += LIFETIME_MS_MAX;
        self.settle()
    }

    /// Time enough for everything that is due; then nothing that was due is left.
    fn settle(&mut self) -> Result<(), (u16, Broken)> {
        for _ in 0..PEACE_TICKS {
            self.step(true)?;
            if self.is_settled() {
                break;
            }
        }
        self.each(Group::check_settled)?;
        self.forwarding.check_settled(&self.groups)
    }

    fn step(&mut self, peace: bool) -> Result<(), (u16, Broken)> {
        self.tick += 1;
        self.now += self.pause(peace);
        self.learn_provenances();
        self.compare_clocks(peace);
        if self.doomed_at.is_some_and(|at| at + ECHO_TICKS == self.tick) {
            self.groups.iter_mut().for_each(Group::freeze);
        }
        let Cluster { nodes, random, now, tick, groups, forwarding, options, .. } = self;
        let scene = Scene { nodes, now: *now, tick: *tick, peace };
        for (index, group) in (0..).zip(groups.iter_mut()) {
            group.tick(scene, random).map_err(|broken| (index, broken))?;
        }
        forwarding.tick(groups, scene, options.packet_lost, random)
    }

    /// Mostly moments; now and then long enough for locks and lifetimes to end.
    fn pause(&mut self, peace: bool) -> u64 {
        match self.random.below(1000) {
            _ if peace => 250,
            0..900 => self.random.between(1, 60),
            900..990 => self.random.between(60, 6_000),
            990..999 => self.random.between(6_000, 60_000),
            _ => self.random.between(60_000, 1_200_000),
        }
    }

    pub(crate) fn clock_us(&self) -> i64 {
        self.now as i64 * 1_000
    }

    /// Nodes whose round it is read the others' clocks, and say for each group who may stamp.
    fn compare_clocks(&mut self, peace: bool) {
        let now_us = self.clock_us();
        for index in 0..self.nodes.len() {
            self.nodes[index].clock.tick(now_us);
            if self.nodes[index].up && self.nodes[index].clock.is_round_due(now_us) {
                self.ask_clocks(index, peace, now_us);
                self.judge_clocks(index, now_us);
            }
        }
        for index in (0..self.nodes.len()).filter(|index| self.nodes[*index].up) {
            let restless = self.groups.iter().filter(|group| group.is_restless(index)).count();
            self.totals.unstamped += restless as u64;
        }
    }

    fn ask_clocks(&mut self, index: usize, peace: bool, now_us: i64) {
        let mut clock = self.nodes[index].clock.clone();
        for peer in (0..self.nodes.len()).filter(|peer| *peer != index) {
            let reached = [index, peer].iter().all(|node| self.nodes[*node].is_reached(self.tick));
            if !reached || (!peace && self.random.chance(self.options.packet_lost)) {
                continue;
            }
            let delay_us_max = if !peace && self.random.chance(100) { 450_000 } else { 3_000 };
            let mut delay_us = || self.random.between(0, delay_us_max) as i64;
            let delays_us = (delay_us(), delay_us());
            clock.ask(peer, &self.nodes[peer].clock, delays_us, now_us);
        }
        self.nodes[index].clock = clock;
    }

    fn judge_clocks(&mut self, index: usize, now_us: i64) {
        let electorates: Vec<_> = self.groups.iter().map(|group| group.electorate(index)).collect();
        let voters: Vec<_> = self.groups.iter().map(|group| group.voters(index)).collect();
        let restless = self.groups.iter().any(|group| group.is_restless(index));
        let node = &mut self.nodes[index];
        node.clock.judge(&electorates, restless, now_us);
        let may_stamp = voters.iter().zip(&electorates).map(|(voters, electorate)| {
            let others = voters.iter().copied().filter(|voter| *voter != index);
            let agreeing = others.filter(|voter| node.clock.agrees(*voter, electorate)).collect();
            (node.clock.agrees(index, electorate), agreeing)
        });
        node.may_stamp = may_stamp.collect();
    }

    fn is_settled(&mut self) -> bool {
        let Cluster { nodes, now, tick, groups, forwarding, .. } = self;
        let scene = Scene { nodes, now: *now, tick: *tick, peace: true };
        groups.iter_mut().all(|group| group.is_settled(scene))
            && forwarding.is_settled(groups, scene)
    }

    fn each(&self, check: impl Fn(&Group, Scene<'_>) -> Holds) -> Result<(), (u16, Broken)> {
        let scene = Scene { nodes: &self.nodes, now: self.now, tick: self.tick, peace: true };
        for (index, group) in (0..).zip(&self.groups) {
            check(group, scene).map_err(|broken| (index, broken))?;
        }
        Ok(())
    }

    fn report(&self) -> Report {
        let seconds = (self.now - START_MS) / 1_000;
        let (forwarded, cuts) = (self.forwarding.count(), self.forwarding.cuts);
        let mut report = Report { forwarded, cuts, seconds, ..self.totals };
        for group in &self.groups {
            report += Report { digest: group.digest(), ..group.report() };
        }
        report
    }
}

fn broken(what: String) -> Broken {
    Broken { invariant: "panic", source: "architecture 1: apply cannot fail", what }
}
