//! The end of a group's life: faults are over, and what must come to an end does.

use super::{Group, Scene};
use crate::invariants::{committed, recovered, settled};
use crate::random::Random;
use crate::report::{Broken, Holds};

impl Group {
    /// Trouble is over: what was suspended is let in again.
    pub fn resume(&mut self, random: &mut Random) {
        self.operator.resume(&self.oracle, random);
    }

    /// Whether nothing is under way and nothing is due; what is due later may stay.
    pub fn is_settled(&mut self, scene: Scene<'_>) -> bool {
        let Some(node) = self.newest() else { return false };
        let clock = self.clock(scene, node);
        let count = self.log.len() as u64;
        self.leaders.get_mut(&node).is_some_and(|leader| leader.is_idle(clock))
            && self.operator.is_content()
            && self.clients.iter().all(|client| !client.is_waiting())
            && self.members.iter().all(|member| {
                member.as_ref().is_some_and(|member| {
                    let (applied, _, config) = member.replica.at();
                    applied == count && config.has_settled(member.id)
                })
            })
            && self.members.iter().flatten().all(|member| member.disk.image.last() == count)
    }

    /// At the end: nothing that was due is left, and every replica is whole.
    pub fn check_settled(&self, scene: Scene<'_>) -> Holds {
        recovered::all_voters(&self.members)?;
        for member in self.members.iter().flatten() {
            committed::kept(member.id, member.replica.applied, self.acknowledged)?;
            committed::kept(member.id, member.replica.applied, self.log.len() as u64)?;
        }
        let Some((node, leader)) =
            self.newest().and_then(|node| Some((node, self.leaders.get(&node)?)))
        else {
            return Err(unfinished("no leader although all nodes are up"));
        };
        if !self.operator.is_content() || self.clients.iter().any(|client| client.is_waiting()) {
            return Err(unfinished("somebody still waits for an answer"));
        }
        let holders = self.clients.iter().filter_map(|client| client.holder.attached(leader.epoch));
        settled::sessions(&self.oracle, &leader.engine, &holders.collect::<Vec<_>>())?;
        settled::check(&self.oracle, &leader.engine, self.clock(scene, node))
    }

    /// A majority was wiped a while ago: from here on nothing may happen.
    pub fn freeze(&mut self) {
        self.frozen = Some(self.progress());
    }

    pub fn check_frozen(&self) -> Holds {
        match self.frozen {
            Some(frozen) => recovered::stands_still(frozen, self.progress()),
            None => Ok(()),
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.log.len() as u64, self.oracle.totals.elections)
    }
}

fn unfinished(what: &str) -> Broken {
    Broken { invariant: "settled", source: "architecture 7", what: what.to_owned() }
}
