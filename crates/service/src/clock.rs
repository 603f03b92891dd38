//! The node's clock: monotonic, set to wall time when the process starts and slewed, so that a wall
//! clock that is set moves no deadline by a jump and time never runs back (TIME-3). The
//! `timekeeper` says by how much to correct it, and whether it may stamp at all.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::Timestamp;
use engine::agreement::{Correction, Reading, Shown};
use parking_lot::Mutex;
use replication::Clocks;

/// Tries to read both clocks at one instant: a thread may be put aside between the two.
const READS_MAX: usize = 5;
/// Near enough to one instant.
const READ_ERROR_US: i64 = 50;

/// How far a node's wall clock is made to be off, for experiments. Default not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skew {
    #[default]
    None,
    /// By so many milliseconds, ahead if positive.
    By(i64),
    /// By so many milliseconds, ahead in one second and behind in the next.
    Jumping(i64),
}

/// What the timekeeper last found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReport {
    /// How far this node's wall clock is ahead of the cluster's middle one. Absent until it was
    /// compared with that of another, or there is no other.
    pub off_ms: Option<i64>,
    /// In every group of this node a majority agrees with its clock.
    pub agrees: bool,
}

impl ClockReport {
    /// What an operator should know of it; nothing if all is well.
    pub fn trouble(&self) -> Option<&'static str> {
        match (self.agrees, self.off_ms) {
            (true, _) => None,
            (false, Some(_)) => Some("no majority agrees with its clock, so it leads nothing"),
            (false, None) => Some("its clock was not compared with a majority's yet"),
        }
    }
}

/// Leaders stamp entries from it (TIME-4).
pub(crate) struct Clock {
    /// Zero of the monotonic clock.
    started: Instant,
    skew: Skew,
    face: Mutex<Face>,
    report: Mutex<ClockReport>,
    /// How far the clock is ahead of the cluster, while no majority agrees with it.
    astray_us: AtomicI64,
}

/// What a clock shows, by the monotonic clock.
struct Face {
    /// What it would have shown at the monotonic clock's zero.
    zero_us: i64,
    /// The latest it has shown: behind it, it stands still.
    shown_us: i64,
}

impl Clock {
    pub fn new(skew: Skew) -> Clock {
        let zero_us = skew.bend(system_us());
        Clock {
            started: Instant::now(),
            skew,
            face: Mutex::new(Face { zero_us, shown_us: zero_us }),
            report: Mutex::default(),
            astray_us: AtomicI64::new(0),
        }
    }

    pub fn now(&self) -> Timestamp {
        timestamp(self.face.lock().show(self.monotonic_us()))
    }

    /// What to tell who asks for the cluster's time: where this clock is wrong, what it should be.
    pub fn told(&self) -> Timestamp {
        let shown_us = self.face.lock().show(self.monotonic_us());
        timestamp(shown_us.saturating_sub(self.astray_us.load(Ordering::Relaxed)))
    }

    pub fn monotonic_us(&self) -> i64 {
        self.started.elapsed().as_micros() as i64
    }

    /// Both clocks at one instant, for a peer.
    pub fn clocks(&self) -> Clocks {
        let clock_us = self.zero_us().saturating_add(self.monotonic_us());
        Clocks { wall_us: self.wall_us(), clock_us }
    }

    /// Both clocks, for comparing with those of peers.
    pub fn read(&self) -> Reading {
        let mut sharpest = self.read_once();
        for _ in 1..READS_MAX {
            if sharpest.error_us <= READ_ERROR_US {
                break;
            }
            let next = self.read_once();
            if next.error_us < sharpest.error_us {
                sharpest = next;
            }
        }
        // The clock's own zero is known, not read.
        Reading { clock_zero_us: self.zero_us(), ..sharpest }
    }

    fn read_once(&self) -> Reading {
        let before_us = self.monotonic_us();
        let Clocks { wall_us, clock_us } = self.clocks();
        Reading::of(Shown { wall_us, clock_us }, before_us, self.monotonic_us())
    }

    pub fn correct(&self, correction: Correction) {
        let mut face = self.face.lock();
        match correction {
            Correction::None => (),
            Correction::Slew(by_us) => face.zero_us = face.zero_us.saturating_add(by_us),
            Correction::Step(by_us) => face.step(by_us),
        }
    }

    pub fn report(&self) -> ClockReport {
        *self.report.lock()
    }

    /// Keeps what the timekeeper found.
    pub fn find(&self, report: ClockReport, astray_us: i64) {
        self.astray_us.store(astray_us, Ordering::Relaxed);
        *self.report.lock() = report;
    }

    fn zero_us(&self) -> i64 {
        self.face.lock().zero_us
    }

    fn wall_us(&self) -> i64 {
        self.skew.bend(system_us())
    }
}

impl Face {
    /// Slewed back it stands still until it is past what it has shown.
    fn show(&mut self, monotonic_us: i64) -> i64 {
        self.shown_us = self.shown_us.max(self.zero_us.saturating_add(monotonic_us));
        self.shown_us
    }

    /// Sets it, back too: nothing is stamped with it meanwhile.
    fn step(&mut self, by_us: i64) {
        self.zero_us = self.zero_us.saturating_add(by_us);
        self.shown_us = self.zero_us;
    }
}

impl Skew {
    fn bend(self, system_us: i64) -> i64 {
        let ahead_ms = match self {
            Skew::None => 0,
            Skew::By(ms) => ms,
            Skew::Jumping(ms) if system_us / 1_000_000 % 2 == 0 => ms,
            Skew::Jumping(ms) => ms.saturating_neg(),
        };
        system_us.saturating_add(ahead_ms.saturating_mul(1000))
    }
}

fn timestamp(us: i64) -> Timestamp {
    Timestamp(u64::try_from(us / 1000).unwrap_or(0))
}

fn system_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TIME-3: slewed back, a clock stands still; only a step, when nothing is stamped, sets it back.
    #[test]
    fn time_3_a_slewed_clock_never_runs_back() {
        let mut face = Face { zero_us: 1_000_000, shown_us: 1_000_000 };
        assert_eq!(face.show(100), 1_000_100);
        face.zero_us -= 500;
        for (monotonic_us, shown_us) in [(101, 1_000_100), (600, 1_000_100), (601, 1_000_101)] {
            assert_eq!(face.show(monotonic_us), shown_us);
        }
        face.step(-900_000);
        assert_eq!(face.show(1_000), 100_500);
    }

    #[test]
    fn a_bent_wall_clock_is_ahead_behind_or_both_by_turns() {
        for (skew, even, odd) in [
            (Skew::None, 4_000_000, 5_000_000),
            (Skew::By(-3), 3_997_000, 4_997_000),
            (Skew::Jumping(3), 4_003_000, 4_997_000),
        ] {
            assert_eq!((skew.bend(4_000_000), skew.bend(5_000_000)), (even, odd), "{skew:?}");
        }
        assert_eq!(Skew::By(i64::MAX).bend(1), i64::MAX);
    }
}
