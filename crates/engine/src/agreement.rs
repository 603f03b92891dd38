//! Whether clocks agree, and how a node's own is corrected. Nodes tell each other what their wall
//! clocks show. A clock that a majority of wall clocks agrees with is near one that is right, if a
//! majority is right: the two majorities share a node.
//!
//! What is assumed of wall clocks: a stamp rests on readings, none of which was taken longer ago than
//! [`READING_AGE_MAX_US`] and the answer's way, at most twice `offset_max`. Within any such span, 11 s
//! by default, a majority of a group's nodes must have wall clocks that are right throughout. That
//! fewer than half are wrong at every moment is not enough: where one is mended and another goes
//! wrong by the same within a span, the last answers of nodes that fell silent make a majority with
//! them that none of them ever was part of at once. Wrong clocks that are not near one another may be
//! any number: nothing is stamped then.
//!
//! Time is a number here, microseconds of this process's monotonic clock, and nothing waits.

use std::collections::{BTreeMap, BTreeSet};

/// A reading older than this says nothing any more: whoever answers is read once a second. Within
/// it a clock is slewed by 5 ms, and crystals drift apart by less.
pub const READING_AGE_MAX_US: i64 = 10_000_000;
/// So long a reading stands against later ones that are less sharp.
const SHARP_US: i64 = 5_000_000;
/// Most a clock is slewed: 0.5 ms a second, ten times what a bad crystal drifts.
const SLEW_PPM: i64 = 500;
/// Most time that one slew makes up for.
const SLEW_SPAN_US: i64 = 2_000_000;
/// A majority of wall clocks that has left this node's clock is followed once it stood still for so
/// long: not while it jumps.
const STEADY_US: i64 = 3_000_000;

/// What a node's two clocks show at one instant, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The time of day.
    pub wall_us: i64,
    /// What the node stamps with when it leads.
    pub clock_us: i64,
}

/// One node's clocks as read here. A zero is what a clock would have shown when this process's
/// monotonic clock was at zero: other than what it shows, that stands still while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub wall_zero_us: i64,
    pub clock_zero_us: i64,
    /// Furthest the zeros may be off.
    pub error_us: i64,
    pub read_at_us: i64,
}

/// What shall become of this node's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Correction {
    None,
    /// By so many us, while it runs.
    Slew(i64),
    /// By so many us at once. Nothing is stamped with the clock when this is said.
    Step(i64),
}

/// What one node knows of the clocks of all.
#[derive(Clone, Debug)]
pub struct Agreement {
    own: u64,
    offset_max_us: u64,
    readings: BTreeMap<u64, Reading>,
    /// Where this node's wall clock stands, and since when, while a majority agrees with it and not
    /// with the clock.
    elsewhere: Option<(i64, i64)>,
    corrected_at_us: i64,
}

impl Reading {
    /// What a node told some time between question and answer.
    pub fn of(shown: Shown, asked_us: i64, answered_us: i64) -> Reading {
        let middle_us = asked_us + (answered_us - asked_us) / 2;
        Reading {
            wall_zero_us: shown.wall_us.saturating_sub(middle_us),
            clock_zero_us: shown.clock_us.saturating_sub(middle_us),
            error_us: (answered_us - asked_us + 1) / 2,
            read_at_us: answered_us,
        }
    }

    fn is_contradicted_by(&self, later: &Reading) -> bool {
        let allowed = self.error_us.saturating_add(later.error_us) as u64;
        self.wall_zero_us.abs_diff(later.wall_zero_us) > allowed
            || self.clock_zero_us.abs_diff(later.clock_zero_us) > allowed
    }
}

impl Agreement {
    /// Knows nothing yet. `own` is this node; clocks agree that are within `offset_max_us`.
    pub fn new(own: u64, offset_max_us: u64) -> Agreement {
        Agreement {
            own,
            offset_max_us,
            readings: BTreeMap::new(),
            elsewhere: None,
            corrected_at_us: 0,
        }
    }

    /// This node's clocks: the last reading counts.
    pub fn read_own(&mut self, reading: Reading) {
        self.readings.insert(self.own, reading);
    }

    /// A peer's clocks: of late readings the sharpest counts, unless one of its clocks was set since.
    pub fn read_peer(&mut self, node: u64, reading: Reading) {
        let keeps = self.readings.get(&node).is_some_and(|kept| {
            kept.error_us < reading.error_us
                && reading.read_at_us - kept.read_at_us < SHARP_US
                && !kept.is_contradicted_by(&reading)
        });
        if !keeps {
            self.readings.insert(node, reading);
        }
    }

    /// Drops what is too old: who does not answer agrees with nobody.
    pub fn forget(&mut self, now_us: i64) {
        self.readings.retain(|_, reading| now_us - reading.read_at_us <= READING_AGE_MAX_US);
    }

    /// Whether a node may stamp for a group: its clock agrees with the wall clocks of a majority of
    /// the group's nodes and with its own.
    pub fn agrees(&self, node: u64, nodes: &BTreeSet<u64>) -> bool {
        let reading = self.readings.get(&node);
        reading.is_some_and(|reading| self.is_backed(node, reading.clock_zero_us, nodes))
    }

    /// What to do with this node's clock, given the nodes of each of its groups. Asked again and
    /// again; it remembers when.
    pub fn correction(&mut self, now_us: i64, groups: &[BTreeSet<u64>]) -> Correction {
        let elapsed_us = (now_us - self.corrected_at_us).clamp(0, SLEW_SPAN_US);
        self.corrected_at_us = now_us;
        let elsewhere = self.elsewhere.take();
        let Some(own) = self.readings.get(&self.own) else { return Correction::None };
        let wall_us = own.wall_zero_us;
        if !groups.iter().any(|nodes| self.is_backed(self.own, wall_us, nodes)) {
            return Correction::None; // Nobody vouches for it.
        }
        let off_us = wall_us.saturating_sub(own.clock_zero_us);
        if groups.iter().any(|nodes| self.agrees(self.own, nodes)) {
            let most_us = elapsed_us * SLEW_PPM / 1_000_000;
            return Correction::Slew(off_us.clamp(-most_us, most_us));
        }
        match elsewhere {
            Some((zero_us, since_us)) if zero_us.abs_diff(wall_us) <= self.offset_max_us => {
                if now_us - since_us >= STEADY_US {
                    return Correction::Step(off_us);
                }
                self.elsewhere = elsewhere;
            }
            _ => self.elsewhere = Some((wall_us, now_us)),
        }
        Correction::None
    }

    /// How far this node's wall clock and its clock are ahead of the middle wall clock of those known.
    pub fn off_us(&self) -> Option<(i64, i64)> {
        let own = self.readings.get(&self.own)?;
        let mut zeros: Vec<i64> = self.readings.values().map(|r| r.wall_zero_us).collect();
        zeros.sort_unstable();
        let (low, high) = (zeros[(zeros.len() - 1) / 2], zeros[zeros.len() / 2]);
        let middle = low.midpoint(high);
        let ahead = |zero_us: i64| zero_us.saturating_sub(middle);
        Some((ahead(own.wall_zero_us), ahead(own.clock_zero_us)))
    }

    /// How far each peer's wall clock is ahead of this node's clock; absent if it did not answer.
    pub fn peer_off_us(&self, peer: u64) -> Option<i64> {
        let own = self.readings.get(&self.own)?;
        let peer = self.readings.get(&peer)?;
        Some(peer.wall_zero_us.saturating_sub(own.clock_zero_us))
    }

    /// Whether what a clock of `node` shows agrees with a majority's wall clocks and with its own.
    fn is_backed(&self, node: u64, zero_us: i64, nodes: &BTreeSet<u64>) -> bool {
        let Some(own) = self.readings.get(&node) else { return false };
        let near = |other: &u64| {
            self.readings.get(other).is_some_and(|reading| {
                // A node's two clocks are read as one.
                let error_us = if *other == node { 0 } else { own.error_us + reading.error_us };
                let off_us = reading.wall_zero_us.abs_diff(zero_us);
                off_us.saturating_add(error_us.unsigned_abs()) <= self.offset_max_us
            })
        };
        near(&node) && nodes.iter().filter(|other| near(other)).count() * 2 > nodes.len()
    }
}

#[cfg(test)]
mod tests;
