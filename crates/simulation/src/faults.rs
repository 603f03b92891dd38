//! What goes wrong with nodes, their disks and their clocks; and how they start again.
//!
//! Invariant: of every membership that may count, a majority holds all it ever synced, and a majority
//! of wall clocks is right or no two of them are near each other; except where a life is doomed.

use std::collections::BTreeSet;

use crate::bug::Bug;
use crate::clock::Wall;
use crate::cluster::Cluster;
use crate::node::Standing;
use crate::raft::Id;

const SECOND_US: i64 = 1_000_000;
const YEAR_US: i64 = 365 * 86_400 * SECOND_US;

impl Cluster {
    /// One tick's faults.
    pub(crate) fn trouble(&mut self) {
        for index in 0..self.nodes.len() {
            if !self.nodes[index].up {
                if self.nodes[index].down_until <= self.tick && self.random.chance(100) {
                    self.start(index);
                }
            } else if self.nodes[index].damaged_at.is_some_and(|at| at <= self.tick)
                || self.random.chance(self.options.crash)
            {
                self.crash(index, false);
            }
        }
        if self.random.chance(self.options.power) {
            self.cut_power();
        }
        if self.doomed_at == Some(self.tick) {
            self.wipe_majority();
        }
        let index = self.random.index(self.nodes.len());
        if self.random.chance(self.options.wiped) && self.can_spare(index) {
            self.wipe(index);
        }
        if self.random.chance(self.options.flipped) && self.can_spare(index) {
            let found_at = u64::from(self.tick) + self.random.below(30);
            self.nodes[index].damaged_at = Some(found_at as u32);
        }
        if self.random.chance(self.options.cut) && self.can_spare(index) {
            self.cut(index);
        }
        if self.random.chance(self.options.cut_off) {
            self.nodes[index].cut_off_until = self.tick + self.random.between(5, 60) as u32;
        }
        if self.random.chance(self.options.clock_set) {
            self.set_clock(index);
        }
        if self.random.chance(100) {
            self.nodes[index].clock.slew_wall(&mut self.random);
        }
    }

    /// Faults end: everything is plugged in again.
    pub(crate) fn mend(&mut self) {
        for index in 0..self.nodes.len() {
            self.nodes[index].clock.wall = Wall::Right;
            self.nodes[index].cut_off_until = 0;
            if self.nodes[index].damaged_at.is_some() && self.nodes[index].up {
                self.crash(index, false);
            }
            if !self.nodes[index].up {
                self.start(index);
            }
        }
    }

    fn crash(&mut self, index: usize, power: bool) {
        let node = &mut self.nodes[index];
        if !node.up {
            return;
        }
        node.up = false;
        self.totals.crashes += 1;
        self.groups.iter_mut().for_each(|group| group.crash(index, power, &mut self.random));
    }

    /// The power goes, of a minority or of all.
    fn cut_power(&mut self) {
        let all = self.random.chance(300);
        let count = self.nodes.len();
        let first = self.random.index(count);
        let most = if all { count } else { (count - 1) / 2 };
        for index in (0..most).map(|at| (first + at) % count) {
            self.crash(index, true);
        }
    }

    /// A node starts. Where it cannot trust its data it lays them aside and takes another id.
    fn start(&mut self, index: usize) {
        let sound = |group: &mut crate::group::Group| group.start(index, &mut self.random);
        let sound: Vec<bool> = self.groups.iter_mut().map(sound).collect();
        let node = &mut self.nodes[index];
        let damaged = node.damaged_at.take().is_some() || sound.contains(&false);
        (node.up, node.is_short) = (true, false);
        node.starts += 1;
        node.may_stamp.iter_mut().for_each(|may| *may = (false, Vec::new()));
        let now_us = self.clock_us();
        self.nodes[index].clock.start(now_us);
        if damaged && self.nodes[index].standing != Standing::New {
            self.return_anew(index);
        }
    }

    /// A disk is wiped.
    fn wipe(&mut self, index: usize) {
        self.crash(index, true);
        self.groups.iter_mut().for_each(|group| group.wipe(index));
        let node = &mut self.nodes[index];
        node.damaged_at = None;
        node.is_short = false;
        if self.options.bug != Some(Bug::VotesUnderOldId) {
            node.standing = Standing::New;
            return;
        }
        let id = Id { node: index, birth: node.birth };
        self.groups.iter_mut().for_each(|group| group.pretend(id, &mut self.random));
    }

    /// More than may be: from here on nothing can be decided any more. One is left to tell.
    fn wipe_majority(&mut self) {
        let count = self.nodes.len();
        let most = self.random.between(count as u64 / 2 + 1, count as u64 - 1) as usize;
        let told = (0..count).find(|at| self.nodes[*at].standing != Standing::New).unwrap_or(0);
        for index in (0..most).map(|at| (told + 1 + at) % count) {
            self.wipe(index);
        }
    }

    /// A node falls, and its data are less than they were when it starts.
    fn cut(&mut self, index: usize) {
        self.crash(index, true);
        let cut = |group: &mut crate::group::Group| group.cut(index, &mut self.random);
        let short: Vec<bool> = self.groups.iter_mut().map(cut).collect();
        self.nodes[index].is_short = short.contains(&true);
    }

    /// Nodes that know nothing of themselves ask the others: one that has met them is enough.
    pub(crate) fn learn_standings(&mut self) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].standing != Standing::New
                || !self.nodes[index].is_reached(self.tick)
            {
                continue;
            }
            let knows = |other: usize| {
                let node = &self.nodes[other];
                node.standing != Standing::New && node.is_reached(self.tick)
            };
            if (0..self.nodes.len()).any(knows) {
                self.return_anew(index);
            }
        }
    }

    fn return_anew(&mut self, index: usize) {
        self.totals.returns += 1;
        // Drawn, in truth; here, never drawn before.
        let birth = self.totals.returns as u32;
        (self.nodes[index].standing, self.nodes[index].birth) = (Standing::Returned, birth);
        let id = Id { node: index, birth };
        self.groups.iter_mut().for_each(|group| group.return_as(id, &mut self.random));
    }

    /// Whether a node's data may be lost now.
    fn can_spare(&self, index: usize) -> bool {
        let intact = |at: &usize| {
            let node = &self.nodes[*at];
            node.damaged_at.is_none() && !node.is_short && node.standing != Standing::New
        };
        let intact: BTreeSet<usize> = (0..self.nodes.len()).filter(intact).collect();
        let doomed = self.doomed_at.is_some_and(|at| at <= self.tick);
        !doomed && self.groups.iter().all(|group| group.can_spare(index, &intact))
    }

    /// A wall clock goes wrong by any amount, or is mended.
    fn set_clock(&mut self, index: usize) {
        self.totals.clocks_set += 1;
        if self.nodes[index].clock.wall != Wall::Right {
            self.nodes[index].clock.wall = Wall::Right;
            return;
        }
        let count = self.nodes.len();
        let wrong: Vec<usize> =
            (0..count).filter(|at| self.nodes[*at].clock.wall != Wall::Right).collect();
        if (wrong.len() + 1) * 2 >= count {
            if self.random.chance(300) {
                // A majority is wrong, and no two wrong ones are near each other.
                for at in wrong.into_iter().chain([index]) {
                    let years = 2 * at as i64 + 3;
                    self.nodes[at].clock.wall = Wall::By(years * YEAR_US);
                }
            }
            return;
        }
        // The same wrong server may have told two.
        let same = wrong.first().filter(|_| self.random.chance(300));
        let (ms, years) =
            (self.random.between(20, 3_000) as i64, self.random.between(1, 30) as i64);
        let by_us = match self.random.below(4) {
            0 | 1 => ms * 1_000,
            2 => ms * SECOND_US,
            _ => years * YEAR_US,
        };
        let by_us = if self.random.chance(500) { -by_us } else { by_us };
        self.nodes[index].clock.wall = match same {
            Some(same) => self.nodes[*same].clock.wall,
            None if self.random.chance(300) => Wall::Jumping(by_us),
            None => Wall::By(by_us),
        };
    }
}
