//! What befalls a group's replicas when something befalls their node.

use std::collections::BTreeSet;

use super::Group;
use crate::raft::disk::DiskImage;
use crate::raft::member::Member;
use crate::raft::{Config, Id};
use crate::random::Random;
use std::rc::Rc;

impl Group {
    /// A node fell: its replica keeps what was synced, and some of what was not.
    pub fn crash(&mut self, node: usize, power: bool, random: &mut Random) {
        self.leaders.remove(&node);
        if let Some(member) = &mut self.members[node] {
            self.oracle.totals.writes_lost += member.crash(power, random);
        }
    }

    /// A fallen node's synced data are cut short, log or rows. Whether anything is amiss then, be it
    /// from an earlier cut: it may be cut more than once before it starts.
    pub fn cut(&mut self, node: usize, random: &mut Random) -> bool {
        let Some(member) = &mut self.members[node] else { return false };
        match random.chance(500) {
            true => member.disk.cut(random),
            false => member.replica.cut(),
        }
        member.is_short()
    }

    /// A node's disk is empty.
    pub fn wipe(&mut self, node: usize) {
        self.leaders.remove(&node);
        self.members[node] = None;
    }

    /// A node's new replica: it knows nothing, and speaks under an id of its own.
    pub fn return_as(&mut self, id: Id, random: &mut Random) {
        self.leaders.remove(&id.node);
        self.members[id.node] =
            Some(Member::new(id, DiskImage::default(), self.options.bug, random));
    }

    /// For the bug `VotesUnderOldId`: a node goes on under its id, as if it had lost nothing.
    pub fn pretend(&mut self, id: Id, random: &mut Random) {
        let config = Rc::new(Config::founders(self.members.len()));
        let image =
            if id.incarnation == 0 { DiskImage::founding(config) } else { DiskImage::default() };
        self.members[id.node] = Some(Member::new(id, image, self.options.bug, random));
    }

    /// A node starts. False if its data are less than they were.
    pub fn start(&mut self, node: usize, random: &mut Random) -> bool {
        self.members[node].as_mut().is_none_or(|member| member.start(random))
    }

    /// Whether whatever membership may count has a majority that lost nothing, without one more
    /// node. `intact` are the nodes whose disks hold all they ever synced.
    pub fn can_spare(&self, node: usize, intact: &BTreeSet<usize>) -> bool {
        let holds = |id: &Id| {
            let member = self.members[id.node].as_ref();
            id.node != node
                && intact.contains(&id.node)
                && member.is_some_and(|member| member.id == *id)
        };
        let members = self.members.iter().flatten();
        members
            .flat_map(|member| member.disk.image.configs())
            .filter(|config| !config.sets.is_empty())
            .all(|config| config.has_majority(holds))
    }

    /// The voters whose clocks this node asks for, by node.
    pub fn voters(&self, node: usize) -> BTreeSet<usize> {
        let member = self.members[node].as_ref();
        member.map_or_else(BTreeSet::new, |member| member.config().voting_nodes(member.id))
    }

    /// The nodes whose clocks count, as far as a node knows.
    pub fn electorate(&self, node: usize) -> BTreeSet<u64> {
        let nodes = self.members[node].as_ref().map(|member| member.config().nodes());
        nodes.unwrap_or_default().into_iter().map(|node| node as u64).collect()
    }

    /// It leads and may not stamp.
    pub fn is_restless(&self, node: usize) -> bool {
        let leads = self.members[node].as_ref().is_some_and(|of| of.leads_from().is_some());
        leads && !self.leaders.contains_key(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::raft::Payload;
    use crate::raft::disk::DiskWrite;

    /// A replica whose log begins after its first flush of rows.
    fn group(random: &mut Random) -> Group {
        let mut group = Group::new(0, &Options::default(), random);
        let member = group.members[0].as_mut().expect("a founder");
        for number in 2..=12 {
            member.append(Payload::Blank, number);
            member.disk.sync();
        }
        for index in [2, 6, 10] {
            let next = member.replica.applied + 1;
            let count = (index + 1 - next) as usize;
            member.replica.apply(&member.disk.image.from(next, count));
            member.replica.flush();
        }
        member.disk.write(DiskWrite::Forget(8));
        member.disk.sync();
        group
    }

    /// A second cut that took nothing once hid the first, and the other nodes were wiped as if this
    /// one still held its data.
    #[test]
    fn a_cut_is_not_forgotten_over_the_next() {
        let mut short = 0;
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let mut group = group(&mut random);
            group.crash(0, true, &mut random);
            let first = group.cut(0, &mut random);
            let second = group.cut(0, &mut random);
            assert!(second || !first, "seed {seed}");
            assert_eq!(group.start(0, &mut random), !second, "seed {seed}");
            short += u32::from(first);
        }
        assert!(short > 10, "{short} of 40 were cut short");
    }
}
