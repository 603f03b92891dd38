//! Whether clocks agree, as `service::agreement` has it: this is its model, and the two are to be
//! changed together.

use std::collections::{BTreeMap, BTreeSet};

const READING_AGE_MAX_US: i64 = 10_000_000;
const SHARP_US: i64 = 5_000_000;
const SLEW_PPM: i64 = 500;
const SLEW_SPAN_US: i64 = 2_000_000;
const STEADY_US: i64 = 3_000_000;

/// One node's clocks; a zero is what a clock would have shown at the reader's monotonic zero.
#[derive(Clone, Copy)]
pub struct Reading {
    wall_zero_us: i64,
    clock_zero_us: i64,
    error_us: i64,
    read_at_us: i64,
}

pub enum Correction {
    None,
    Slew(i64),
    Step(i64),
}

#[derive(Clone)]
pub struct Agreement {
    own: usize,
    offset_max_us: i64,
    readings: BTreeMap<usize, Reading>,
    /// Where the wall clock stands, and since when, while a majority agrees with it and not with
    /// the clock.
    elsewhere: Option<(i64, i64)>,
    corrected_at_us: i64,
}

impl Reading {
    /// What wall and clock showed some time between question and answer.
    pub fn of((wall_us, clock_us): (i64, i64), asked_us: i64, answered_us: i64) -> Reading {
        let middle_us = asked_us + (answered_us - asked_us) / 2;
        Reading {
            wall_zero_us: wall_us - middle_us,
            clock_zero_us: clock_us - middle_us,
            error_us: (answered_us - asked_us + 1) / 2,
            read_at_us: answered_us,
        }
    }

    fn is_contradicted_by(&self, later: &Reading) -> bool {
        let allowed = self.error_us + later.error_us;
        (self.wall_zero_us - later.wall_zero_us).abs() > allowed
            || (self.clock_zero_us - later.clock_zero_us).abs() > allowed
    }
}

impl Agreement {
    pub fn new(own: usize, offset_max_us: i64) -> Agreement {
        let (readings, elsewhere) = Default::default();
        Agreement { own, offset_max_us, readings, elsewhere, corrected_at_us: 0 }
    }

    /// The same of a process that has just started.
    pub fn anew(&self) -> Agreement {
        Agreement::new(self.own, self.offset_max_us)
    }

    pub fn read_own(&mut self, reading: Reading) {
        self.readings.insert(self.own, reading);
    }

    /// Of late readings the sharpest counts, unless one of the clocks was set since.
    pub fn read_peer(&mut self, node: usize, reading: Reading) {
        let keeps = self.readings.get(&node).is_some_and(|kept| {
            kept.error_us < reading.error_us
                && reading.read_at_us - kept.read_at_us < SHARP_US
                && !kept.is_contradicted_by(&reading)
        });
        if !keeps {
            self.readings.insert(node, reading);
        }
    }

    pub fn forget(&mut self, now_us: i64) {
        self.readings.retain(|_, reading| now_us - reading.read_at_us <= READING_AGE_MAX_US);
    }

    pub fn agrees(&self, node: usize, voters: &BTreeSet<usize>) -> bool {
        let reading = self.readings.get(&node);
        reading.is_some_and(|reading| self.is_backed(node, reading.clock_zero_us, voters))
    }

    pub fn correction(&mut self, now_us: i64, groups: &[BTreeSet<usize>]) -> Correction {
        let elapsed_us = (now_us - self.corrected_at_us).clamp(0, SLEW_SPAN_US);
        self.corrected_at_us = now_us;
        let elsewhere = self.elsewhere.take();
        let Some(own) = self.readings.get(&self.own) else { return Correction::None };
        let wall_us = own.wall_zero_us;
        if !groups.iter().any(|voters| self.is_backed(self.own, wall_us, voters)) {
            return Correction::None;
        }
        let off_us = wall_us - own.clock_zero_us;
        if groups.iter().any(|voters| self.agrees(self.own, voters)) {
            let most_us = elapsed_us * SLEW_PPM / 1_000_000;
            return Correction::Slew(off_us.clamp(-most_us, most_us));
        }
        match elsewhere {
            Some((zero_us, since_us)) if (zero_us - wall_us).abs() <= self.offset_max_us => {
                if now_us - since_us >= STEADY_US {
                    return Correction::Step(off_us);
                }
                self.elsewhere = elsewhere;
            }
            _ => self.elsewhere = Some((wall_us, now_us)),
        }
        Correction::None
    }

    fn is_backed(&self, node: usize, zero_us: i64, voters: &BTreeSet<usize>) -> bool {
        let Some(own) = self.readings.get(&node) else { return false };
        let near = |other: &usize| {
            self.readings.get(other).is_some_and(|reading| {
                let error_us = if *other == node { 0 } else { own.error_us + reading.error_us };
                (reading.wall_zero_us - zero_us).abs() + error_us <= self.offset_max_us
            })
        };
        near(&node) && voters.iter().filter(|voter| near(voter)).count() * 2 > voters.len()
    }
}
