//! Which faults come when: drawn from a seed, or read from a schedule. The same seed and options give
//! the same plan; what the cluster makes of it depends on the machine as well.

mod kind;
mod schedule;

use std::fmt;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

pub use kind::FaultKind;
pub use schedule::parse_schedule;

/// Before the first fault, so that there is something to hurt.
const CALM: Duration = Duration::from_secs(4);
/// Between two faults, and how long one lasts, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 1_500..5_000;
const LASTS_MS: std::ops::Range<u64> = 1_000..6_000;

/// Whom a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    Node(u64),
    /// The node that leads this group when it begins; 0 is the catalog.
    LeaderOf(u32),
}

/// Which of a victim's directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Both,
    /// What it says.
    Out,
    /// What it is told.
    In,
}

/// Whom it cannot talk to then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Others {
    /// All other nodes; clients reach it.
    Nodes,
    /// One of them.
    Node(u64),
    Clients,
}

/// One fault and when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planned {
    /// Since the load began.
    pub at_ms: u64,
    pub lasts_ms: u64,
    pub kind: FaultKind,
    pub victim: Victim,
    pub direction: Direction,
    pub others: Others,
    /// Draws what is left open: which byte of a file, by how much a clock is wrong.
    pub seed: u64,
}

/// What a plan is drawn from.
#[derive(Clone, Debug)]
pub struct Draw {
    pub seed: u64,
    pub nodes: u64,
    pub groups: u32,
    pub lasts: Duration,
    pub kinds: Vec<FaultKind>,
}

impl Draw {
    /// Faults one after the other until the time is over.
    pub fn plan(&self) -> Vec<Planned> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut plan = Vec::new();
        let mut at_ms = CALM.as_millis() as u64;
        let end_ms = self.lasts.as_millis() as u64;
        while let Some(kind) = self.kinds.choose(&mut random).copied() {
            let lasts_ms = random.random_range(LASTS_MS);
            if at_ms + lasts_ms > end_ms {
                break;
            }
            plan.push(self.fault(&mut random, at_ms, lasts_ms, kind));
            at_ms += lasts_ms + random.random_range(PAUSE_MS);
        }
        plan
    }

    fn fault(
        &self,
        random: &mut ChaCha8Rng,
        at_ms: u64,
        lasts_ms: u64,
        kind: FaultKind,
    ) -> Planned {
        // Leaders have more to lose.
        let victim = match random.random_bool(0.5) {
            true => Victim::LeaderOf(random.random_range(0..=self.groups)),
            false => Victim::Node(random.random_range(1..=self.nodes)),
        };
        let direction = *[Direction::Both, Direction::Out, Direction::In]
            .choose(random)
            .unwrap_or(&Direction::Both);
        let others = match random.random_range(0..4) {
            0 => Others::Node(random.random_range(1..=self.nodes)),
            1 => Others::Clients,
            _ => Others::Nodes,
        };
        let seed = random.random();
        Planned { at_ms, lasts_ms, kind, victim, direction, others, seed }
    }
}

/// What a careful operator does, and then some: one node after the other is upgraded and taken back, all are upgraded,
/// and the last is to be taken back when that is over. Evenly over the time there is.
pub fn upgrades(nodes: u64, lasts: Duration) -> Vec<Planned> {
    use FaultKind::{Downgrade, Upgrade};
    let there_and_back = (1..=nodes).flat_map(|node| [(Upgrade, node), (Downgrade, node)]);
    // The last one of all is upgraded once: there is no way back from there.
    let there_and_back = there_and_back.take(nodes as usize * 2 - 2);
    let for_good = (1..=nodes).map(|node| (Upgrade, node)).chain([(Downgrade, nodes)]);
    let steps: Vec<_> = there_and_back.chain(for_good).collect();
    let pause_ms = lasts.as_millis() as u64 / (steps.len() as u64 + 1);
    let planned = |(index, (kind, node))| Planned {
        at_ms: pause_ms * (index as u64 + 1),
        lasts_ms: 0,
        kind,
        victim: Victim::Node(node),
        direction: Direction::Both,
        others: Others::Nodes,
        seed: 0,
    };
    steps.into_iter().enumerate().map(planned).collect()
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Victim::Node(node) => write!(f, "node {node}"),
            Victim::LeaderOf(0) => write!(f, "the leader of the catalog"),
            Victim::LeaderOf(group) => write!(f, "the leader of group {group}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: u64) -> Draw {
        let (lasts, kinds) = (Duration::from_secs(300), FaultKind::ALL.to_vec());
        Draw { seed, nodes: 3, groups: 3, lasts, kinds }
    }

    #[test]
    fn the_same_seed_is_the_same_plan() {
        assert_eq!(draw(7).plan(), draw(7).plan());
        assert_ne!(draw(7).plan(), draw(8).plan());
    }

    #[test]
    fn faults_follow_each_other_and_end_in_time() {
        for seed in 0..50 {
            let plan = draw(seed).plan();
            assert!(plan.len() > 10);
            for pair in plan.windows(2) {
                assert!(pair[0].at_ms + pair[0].lasts_ms < pair[1].at_ms);
            }
            let end_ms = plan.last().map(|last| last.at_ms + last.lasts_ms);
            assert!(end_ms.is_some_and(|end| end <= 300_000));
        }
    }

    #[test]
    fn every_node_is_upgraded_and_the_last_one_of_all_is_not_taken_back() {
        let plan = upgrades(3, Duration::from_secs(90));
        let told: Vec<_> = plan.iter().map(|it| (it.at_ms, it.kind.name(), it.victim)).collect();
        let node = Victim::Node;
        let expected = [
            (10_000, "upgrade", node(1)),
            (20_000, "downgrade", node(1)),
            (30_000, "upgrade", node(2)),
            (40_000, "downgrade", node(2)),
            (50_000, "upgrade", node(1)),
            (60_000, "upgrade", node(2)),
            (70_000, "upgrade", node(3)),
            (80_000, "downgrade", node(3)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_plan_holds_only_what_was_asked_for() {
        let asked = vec![FaultKind::Kill, FaultKind::Pause];
        let plan = Draw { kinds: asked.clone(), ..draw(1) }.plan();
        assert!(plan.iter().all(|fault| asked.contains(&fault.kind)));
        assert!(Draw { kinds: Vec::new(), ..draw(1) }.plan().is_empty());
    }
}
