//! A node's two clocks: the wall clock, which may show anything, and the one leaders stamp from, which
//! runs with the machine, is slewed, and is stepped only while it stamps nothing.

pub mod agreement;

use std::collections::BTreeSet;

use agreement::{Agreement, Correction, Reading};
use domain::Timestamp;

use crate::random::Random;

/// How often clocks are compared, and how often by one that may not stamp.
const ROUND_US: i64 = 1_000_000;
const ROUND_RESTLESS_US: i64 = 100_000;

/// What a wall clock shows, beside true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// Right, to within some milliseconds, and slewed about.
    Right,
    /// Off by so much, us.
    By(i64),
    /// Ahead by so much in one second and behind in the next, us.
    Jumping(i64),
}

/// See the file's head.
#[derive(Clone)]
pub struct Clock {
    pub wall: Wall,
    /// How far it is off while it is right, us.
    error_us: i64,
    error_us_max: i64,
    /// Its crystal's, parts in a million.
    drift_ppm: i64,
    started_us: i64,
    /// What the clock showed when the process started.
    zero_us: i64,
    shown_us: i64,
    agreement: Agreement,
    round_at_us: i64,
}

impl Clock {
    pub fn new(
        node: usize,
        offset_us_max: i64,
        error_us_max: i64,
        now_us: i64,
        random: &mut Random,
    ) -> Clock {
        let mut clock = Clock {
            wall: Wall::Right,
            error_us: 0,
            error_us_max,
            drift_ppm: random.between(0, 100) as i64 - 50,
            started_us: now_us,
            zero_us: 0,
            shown_us: 0,
            agreement: Agreement::new(node, offset_us_max),
            round_at_us: now_us,
        };
        clock.slew_wall(random);
        clock.start(now_us);
        clock
    }

    /// The process starts: the clock is set to wall time, and nothing is known of others.
    pub fn start(&mut self, now_us: i64) {
        self.started_us = now_us;
        self.zero_us = self.wall_us(now_us);
        self.shown_us = self.zero_us;
        self.agreement = self.agreement.anew();
        self.round_at_us = now_us;
    }

    /// A right wall clock is kept right by somebody, and is never exactly so.
    pub fn slew_wall(&mut self, random: &mut Random) {
        let error = random.between(0, 2 * self.error_us_max as u64) as i64;
        self.error_us = error - self.error_us_max;
    }

    /// What it shows to those who stamp. It stands still rather than run back.
    pub fn shown(&self, now_us: i64) -> Timestamp {
        let shown_us = self.shown_us.max(self.zero_us + self.monotonic_us(now_us));
        Timestamp(u64::try_from(shown_us / 1000).unwrap_or(0))
    }

    /// Time passed: it does not show less any more.
    pub fn tick(&mut self, now_us: i64) {
        self.shown_us = self.shown_us.max(self.zero_us + self.monotonic_us(now_us));
    }

    fn monotonic_us(&self, now_us: i64) -> i64 {
        let elapsed = now_us - self.started_us;
        elapsed + elapsed / 1000 * self.drift_ppm / 1000
    }

    fn wall_us(&self, now_us: i64) -> i64 {
        now_us
            + match self.wall {
                Wall::Right => self.error_us,
                Wall::By(us) => us,
                Wall::Jumping(us) if now_us / 1_000_000 % 2 == 0 => us,
                Wall::Jumping(us) => -us,
            }
    }

    pub fn is_round_due(&self, now_us: i64) -> bool {
        self.round_at_us <= now_us
    }

    /// Reads a peer's clocks: the question took so long, and so long the answer.
    pub fn ask(&mut self, node: usize, peer: &Clock, delays_us: (i64, i64), now_us: i64) {
        let read_us = now_us - delays_us.1;
        let (asked, answered) =
            (self.monotonic_us(read_us - delays_us.0), self.monotonic_us(now_us));
        let clock_us = peer.zero_us + peer.monotonic_us(read_us);
        self.agreement
            .read_peer(node, Reading::of((peer.wall_us(read_us), clock_us), asked, answered));
    }

    /// Corrects the clock, given the nodes of each of its groups.
    pub fn judge(&mut self, groups: &[BTreeSet<usize>], restless: bool, now_us: i64) {
        self.round_at_us = now_us + if restless { ROUND_RESTLESS_US } else { ROUND_US };
        self.read_own(now_us);
        let monotonic_us = self.monotonic_us(now_us);
        self.agreement.forget(monotonic_us);
        match self.agreement.correction(monotonic_us, groups) {
            Correction::None => (),
            Correction::Slew(by_us) => self.zero_us += by_us,
            Correction::Step(by_us) => {
                self.zero_us += by_us;
                self.shown_us = self.zero_us;
            }
        }
        self.read_own(now_us);
    }

    /// Whether a node may stamp for a group with these nodes, as this node sees it.
    pub fn agrees(&self, node: usize, nodes: &BTreeSet<usize>) -> bool {
        self.agreement.agrees(node, nodes)
    }

    fn read_own(&mut self, now_us: i64) {
        let monotonic_us = self.monotonic_us(now_us);
        let clocks = (self.wall_us(now_us), self.zero_us + monotonic_us);
        self.agreement.read_own(Reading::of(clocks, monotonic_us, monotonic_us));
    }
}
