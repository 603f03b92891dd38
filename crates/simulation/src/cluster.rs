//! A cluster: nodes, the groups they serve, and time, which is a number.

use crate::Options;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::group::Group;
use crate::node::Node;
use crate::random::Random;
use crate::report::{Broken, Holds, Report, Violation};

/// Some instant in 2023: code must not mind which.
const START_MS: u64 = 1_700_000_000_000;
/// In peace everything that is due has this many ticks to be done. A deadline takes three: noticed,
/// committed, applied; and there may be as many as messages.
const PEACE_TICKS: u32 = 4_000;
/// The longest lock, lifetime, delay or duplicate window that is not for ever, and some.
const LIFETIME_MS_MAX: u64 = 700_000;

/// See the file's head.
pub struct Cluster {
    options: Options,
    random: Random,
    now: u64,
    nodes: Vec<Node>,
    groups: Vec<Group>,
    crashes: u64,
    tick: u32,
}

impl Cluster {
    pub fn new(seed: u64, options: &Options) -> Cluster {
        let mut random = Random::new(seed);
        let nodes = (0..options.nodes)
            .map(|_| Node::new(options.clock_offset_ms_max, &mut random))
            .collect();
        let groups = (0..options.groups).map(|_| Group::new(options, &mut random)).collect();
        let (now, crashes, tick) = (START_MS, 0, 0);
        Cluster { options: *options, random, now, nodes, groups, crashes, tick }
    }

    /// Trouble, then peace, then the account. A panic is a violation too: every replica would fall
    /// at the same entry, and again after restart.
    pub fn run(mut self, seed: u64) -> Result<Report, Violation> {
        let lived = catch_unwind(AssertUnwindSafe(|| self.live()));
        let panicked = |_| Err((u16::MAX, broken("see above".to_owned())));
        match lived.unwrap_or_else(panicked) {
            Ok(()) => Ok(self.report()),
            Err((group, broken)) => Err(Violation { seed, tick: self.tick, group, broken }),
        }
    }

    fn live(&mut self) -> Result<(), (u16, Broken)> {
        while self.tick < self.options.ticks {
            self.trouble();
            self.step(false)?;
        }
        self.nodes.iter_mut().for_each(|node| node.up = true);
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
        self.each(|group| group.check_settled(&self.nodes, self.now))
    }

    fn step(&mut self, peace: bool) -> Result<(), (u16, Broken)> {
        self.tick += 1;
        self.now += self.pause(peace);
        let Cluster { nodes, random, now, .. } = self;
        let (nodes, now) = (nodes.clone(), *now);
        for (index, group) in (0..).zip(&mut self.groups) {
            group.tick(&nodes, now, peace, random).map_err(|broken| (index, broken))?;
        }
        Ok(())
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

    /// Nodes fall and come back.
    fn trouble(&mut self) {
        for index in 0..self.nodes.len() {
            if !self.nodes[index].up {
                self.nodes[index].up = self.random.chance(100);
            } else if self.random.chance(self.options.crash) {
                self.nodes[index].up = false;
                self.groups.iter_mut().for_each(|group| group.crash(index));
                self.crashes += 1;
            }
        }
    }

    fn is_settled(&mut self) -> bool {
        let Cluster { groups, nodes, now, .. } = self;
        groups.iter_mut().all(|group| group.is_settled(nodes, *now))
    }

    fn each(&self, check: impl Fn(&Group) -> Holds) -> Result<(), (u16, Broken)> {
        for (index, group) in (0..).zip(&self.groups) {
            check(group).map_err(|broken| (index, broken))?;
        }
        Ok(())
    }

    fn report(&self) -> Report {
        let mut report = Report { crashes: self.crashes, ..Report::default() };
        for group in &self.groups {
            report += Report { digest: group.digest(), ..group.report() };
        }
        report
    }
}

fn broken(what: String) -> Broken {
    Broken { invariant: "panic", source: "architecture 1: apply cannot fail", what }
}
