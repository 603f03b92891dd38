//! A group sleeps when nobody asks anything of it. What its leader meets then is seen nevertheless, and the group wakes
//! for whoever asks.

use super::GROUP;
use super::call::PATIENCE_MS;
use super::cluster::RealCluster;
use super::node::RealNode;
use crate::report::Broken;

/// The log has stood still for long enough, and then for some heartbeats.
const SLEEP_MS: u64 = 8_000;
/// A leader that others do not hear is replaced in this time: its lease, what they bear beyond it, and an election or two.
const SUCCEEDED_MS: u64 = 5_000;
/// Clients ask for so long. Those that asked a leader which nobody hears any more wait for it first, for as long as they
/// are patient; the rest is enough for an answer.
const AWAKE_MS: u64 = PATIENCE_MS + 3_000;
/// What is held up is longer than all that.
const HELD_MS: u64 = 20_000;

const SOURCE: &str = "docs/internals/liveness.md";

impl RealCluster {
    /// The group sleeps, its leader meets a fault, as it sleeps or in the moment in which it wakes, and it is asked again.
    pub fn nap(&mut self) -> Result<(), Broken> {
        // Replicas may agree and be without a leader, whom they miss by and by.
        self.steps(SUCCEEDED_MS)?;
        let leaders = self.report.leaders;
        self.steps(SLEEP_MS)?;
        if self.report.leaders != leaders {
            let what = "another node leads a group that slept, and nothing had happened".to_owned();
            self.watch.broke("slept", SOURCE, what);
        }
        let Some(leader) = self.leading() else {
            self.watch.broke("slept", SOURCE, "nobody leads a group that slept".to_owned());
            return self.sound();
        };
        self.report.naps += 1;
        if self.random.chance(500) {
            self.peace = false;
            let wakes_ms = self.random.between(2, 60);
            self.steps(wakes_ms)?;
        }
        self.hurt(leader);
        let until = self.now + SUCCEEDED_MS;
        while self.leading().is_none_or(|now| now == leader) {
            if self.now > until {
                let what = format!("node {leader} leads no more, and nobody does in its place");
                self.watch.broke("succeeded", SOURCE, what);
                return self.sound();
            }
            self.step()?;
        }
        let acknowledged = self.ledger.acknowledged;
        self.peace = false;
        self.steps(AWAKE_MS)?;
        if self.ledger.acknowledged == acknowledged {
            let what = "a group that slept takes nothing that is sent".to_owned();
            self.watch.broke("woken", SOURCE, what);
        }
        self.settle()
    }

    /// Others do not hear the leader any more.
    fn hurt(&mut self, leader: u64) {
        let kind = self.random.below(4);
        self.watch.note("nap", &[leader, kind]);
        match kind {
            0 | 1 => self.crash(leader, kind == 1),
            _ => {
                let until = self.now + HELD_MS;
                let others: Vec<u64> =
                    self.nodes.keys().copied().filter(|other| *other != leader).collect();
                for other in others {
                    self.network.hold(leader, other, until);
                    if kind == 3 {
                        self.network.hold(other, leader, until);
                    }
                }
            }
        }
    }

    /// Who leads, and who is heard if several take themselves for it: of the newest term.
    fn leading(&self) -> Option<u64> {
        let leads = |node: &&RealNode| {
            let process = node.process.as_ref();
            process.is_some_and(|process| process.replication.is_leader(GROUP))
        };
        let term = |node: &RealNode| Some(node.process.as_ref()?.status()?.term);
        self.nodes.values().filter(leads).max_by_key(|node| term(node)).map(|node| node.number)
    }

    fn steps(&mut self, ms: u64) -> Result<(), Broken> {
        let until = self.now + ms;
        while self.now < until {
            self.step()?;
        }
        Ok(())
    }
}
