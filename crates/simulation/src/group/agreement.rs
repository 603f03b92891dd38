//! Replicas of a group among themselves: what they say, sync, commit and apply.

use domain::meta;

use super::{Group, Scene};
use crate::bug::Bug;
use crate::invariants::{committed, replicas, wheel};
use crate::raft::peers::Weather;
use crate::raft::{Envelope, Payload, RaftMessage};
use crate::random::Random;
use crate::report::Holds;

/// Rounds of messages in a tick.
const STEPS: u32 = 3;

impl Group {
    /// Some rounds of messages, syncs and entries applied.
    pub(super) fn agree(&mut self, scene: Scene<'_>, random: &mut Random) -> Holds {
        for step in 0..STEPS {
            for envelope in self.peers.receive() {
                self.deliver(envelope, scene, random)?;
            }
            for node in (0..scene.nodes.len()).filter(|node| scene.nodes[*node].up) {
                self.turn(node, step == 0, scene, random)?;
            }
        }
        Ok(())
    }

    /// One replica's turn.
    fn turn(&mut self, node: usize, first: bool, scene: Scene<'_>, random: &mut Random) -> Holds {
        let Some(member) = &mut self.members[node] else { return Ok(()) };
        if first {
            let others: Vec<usize> = (0..scene.nodes.len()).filter(|n| *n != node).collect();
            member.tick(&others, random);
            if random.chance(30) {
                member.replica.flush();
                member.forget();
            }
        } else {
            member.replicate(false, random);
        }
        if random.chance(if scene.peace { 1_000 } else { scene.nodes[node].disk_speed }) {
            member.disk.sync();
        }
        let before = member.commit;
        member.advance();
        let said = member.said();
        self.committed_by(node, before)?;
        for envelope in said {
            self.send(envelope, scene, random)?;
        }
        self.apply(node, scene, random)
    }

    fn send(&mut self, envelope: Envelope, scene: Scene<'_>, random: &mut Random) -> Holds {
        if let RaftMessage::Voted { term, granted: true } = envelope.message {
            self.votes.granted(envelope.from, term, envelope.to)?;
        }
        let reached = |node: usize| scene.nodes[node].is_reached(scene.tick);
        if envelope.from == envelope.to || reached(envelope.from.node) {
            let weather = if scene.peace { Weather::CALM } else { Weather::ROUGH };
            self.peers.send(envelope, weather, random);
        }
        Ok(())
    }

    /// A message arrives where it was sent to. One for another life of the node is refused.
    fn deliver(&mut self, envelope: Envelope, scene: Scene<'_>, random: &mut Random) -> Holds {
        let Envelope { from, to, message } = envelope;
        let node = &scene.nodes[to.node];
        let Some(member) = &mut self.members[to.node] else { return Ok(()) };
        if !node.up || (from != to && !node.is_reached(scene.tick)) {
            return Ok(());
        }
        let meant = to == member.id || matches!(message, RaftMessage::Admit { .. });
        if !meant && self.options.bug != Some(Bug::AnswersForOldLife) {
            self.oracle.totals.calls_refused += 1;
            return Ok(());
        }
        let (led, me) = (member.leads_from().is_some(), if meant { member.id } else { to });
        let (installs, applied) =
            (matches!(message, RaftMessage::Install { .. }), member.replica.applied);
        member.hear(me, from, message, random)?;
        if installs && member.replica.applied > applied {
            self.oracle.totals.snapshot_installs += 1;
        }
        if !led && member.leads_from().is_some() {
            self.oracle.totals.elections += 1;
            self.votes.led(member.term(), member.id)?;
            committed::complete(member.id, member.term(), &member.disk.image, &self.log)?;
            self.number += 2;
            member.append(Payload::Blank, self.number);
        }
        if member.leads_from().is_none_or(|_| !led) {
            self.leaders.remove(&to.node);
        }
        Ok(())
    }

    /// A leader has found a majority for entries beyond `before`.
    fn committed_by(&mut self, node: usize, before: u64) -> Holds {
        let Some(member) = &self.members[node] else { return Ok(()) };
        let entries = member.disk.image.from(before + 1, (member.commit - before) as usize);
        let (id, term) = (member.id, member.term());
        for entry in entries {
            match entry.index == self.log.len() as u64 + 1 {
                true => self.commit(entry, term)?,
                false => committed::same(id, &entry, &self.log)?,
            }
        }
        Ok(())
    }

    /// Every replica applies at its own pace, in steps of its own.
    fn apply(&mut self, node: usize, scene: Scene<'_>, random: &mut Random) -> Holds {
        let leads = self.leaders.contains_key(&node);
        let Some(member) = &mut self.members[node] else { return Ok(()) };
        while member.replica.applied < member.commit {
            if !leads && !scene.peace && member.leads_from().is_none() && random.chance(500) {
                break; // Later.
            }
            let first = member.replica.applied + 1;
            let left = member.commit - member.replica.applied;
            let count = random.between(1, 8).min(left) as usize;
            let entries = member.disk.image.from(first, count);
            entries.iter().try_for_each(|e| committed::same(member.id, e, &self.log))?;
            let applied = member.replica.apply(&entries);
            let records = &self.log[first as usize - 1..];
            replicas::outcomes(node, records, &applied.outcomes)?;
            let Some(leader) = self.leaders.get_mut(&node) else { continue };
            self.acknowledged = self.acknowledged.max(member.replica.applied);
            let answers = leader.applied(first, applied);
            wheel::check(&mut leader.engine, &member.replica.rows)?;
            self.network.answer(answers, &self.clients, scene, &self.options, random);
        }
        if let Some(leader) = self.leaders.get_mut(&node) {
            leader.give_up();
            leader.offset = meta(&member.replica.rows).clock_offset;
        }
        Ok(())
    }
}
