//! A node's two clocks: the wall clock, which may show anything, and the one leaders stamp from, which
//! runs with the machine, is slewed, and is stepped only while it stamps nothing.

use std::collections::BTreeSet;

use domain::Timestamp;
use engine::agreement::{Agreement, Correction, READING_AGE_MAX_US, Reading, Shown};

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
    /// Off by so much, us, and by far more or less than any other ever was.
    Alone(i64),
}

/// See the file's head.
#[derive(Clone)]
pub struct Clock {
    node: u64,
    offset_us_max: u64,
    wall: Wall,
    /// When it was last set right.
    mended_at_us: Option<i64>,
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
        offset_us_max: u64,
        error_us_max: i64,
        now_us: i64,
        random: &mut Random,
    ) -> Clock {
        let node = node as u64;
        let mut clock = Clock {
            node,
            offset_us_max,
            wall: Wall::Right,
            mended_at_us: None,
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
        self.agreement = Agreement::new(self.node, self.offset_us_max);
        self.round_at_us = now_us;
    }

    pub fn wall(&self) -> Wall {
        self.wall
    }

    /// Somebody sets the wall clock wrong.
    pub fn set_wall(&mut self, wall: Wall) {
        self.wall = wall;
    }

    pub fn mend_wall(&mut self, now_us: i64) {
        if self.is_wrong() {
            self.wall = Wall::Right;
            self.mended_at_us = Some(now_us);
        }
    }

    pub fn is_wrong(&self) -> bool {
        self.wall != Wall::Right
    }

    /// It is wrong, or was so lately that what it showed may count yet.
    pub fn counts_as_wrong(&self, now_us: i64) -> bool {
        // An answer that took longer agrees with nothing: half its way is its error.
        let span_us = READING_AGE_MAX_US + 2 * self.offset_us_max as i64;
        self.is_wrong() || self.mended_at_us.is_some_and(|at| now_us - at <= span_us)
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
                Wall::By(us) | Wall::Alone(us) => us,
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
        let wall_us = peer.wall_us(read_us);
        let clock_us = peer.zero_us + peer.monotonic_us(read_us);
        let shown = Shown { wall_us, clock_us };
        self.agreement.read_peer(node as u64, Reading::of(shown, asked, answered));
    }

    /// Corrects the clock, given the nodes of each of its groups.
    pub fn judge(&mut self, groups: &[BTreeSet<u64>], restless: bool, now_us: i64) {
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
    pub fn agrees(&self, node: usize, nodes: &BTreeSet<u64>) -> bool {
        self.agreement.agrees(node as u64, nodes)
    }

    fn read_own(&mut self, now_us: i64) {
        let monotonic_us = self.monotonic_us(now_us);
        let (wall_us, clock_us) = (self.wall_us(now_us), self.zero_us + monotonic_us);
        let shown = Shown { wall_us, clock_us };
        self.agreement.read_own(Reading::of(shown, monotonic_us, monotonic_us));
    }
}
