//! The node's clock: monotonic, anchored to wall time and slewed, so that a stepped wall clock
//! moves no deadline by a jump and time never runs back (TIME-3).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::Timestamp;
use parking_lot::Mutex;

/// How often the anchor is compared with the wall clock.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Most the clock is corrected per check: 5 ms a second, ten times what a bad crystal drifts.
const SLEW_MS_MAX: i64 = 5;

/// Milliseconds since the Unix epoch without jumps. Leaders stamp entries from it (TIME-4).
pub struct Clock {
    anchor: Mutex<Anchor>,
}

struct Anchor {
    instant: Instant,
    wall_ms: u64,
    next_check: Instant,
}

impl Clock {
    pub fn new() -> Clock {
        let instant = Instant::now();
        let anchor = Anchor { instant, wall_ms: wall_ms(), next_check: instant + CHECK_EVERY };
        Clock { anchor: Mutex::new(anchor) }
    }

    pub fn now(&self) -> Timestamp {
        let instant = Instant::now();
        let mut anchor = self.anchor.lock();
        if instant >= anchor.next_check {
            anchor.slew(instant, wall_ms());
        }
        Timestamp(anchor.at(instant))
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

impl Anchor {
    fn at(&self, instant: Instant) -> u64 {
        self.wall_ms + instant.saturating_duration_since(self.instant).as_millis() as u64
    }

    /// Moves the anchor to `instant`, nearer to the wall clock by at most `SLEW_MS_MAX` and never
    /// behind what was already told.
    fn slew(&mut self, instant: Instant, wall_ms: u64) {
        let elapsed = instant.saturating_duration_since(self.instant);
        // Whole milliseconds move the anchor; the rest stays, or every check would lose it.
        let whole_ms = elapsed.as_millis() as u64;
        let told = self.wall_ms + whole_ms;
        let error = wall_ms as i64 - told as i64;
        let step = error.clamp(-SLEW_MS_MAX, SLEW_MS_MAX);
        if step >= 0 {
            self.instant += Duration::from_millis(whole_ms);
            self.wall_ms = told + step as u64;
        } else {
            // Standing still for a few milliseconds instead of stepping back.
            self.instant += Duration::from_millis(whole_ms + step.unsigned_abs());
            self.wall_ms = told;
        }
        self.next_check = instant + CHECK_EVERY;
    }
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor() -> (Instant, Anchor) {
        let start = Instant::now();
        (start, Anchor { instant: start, wall_ms: 10_000_000, next_check: start })
    }

    /// TIME-3: a wall clock that is set back an hour slows the clock a little, no more.
    #[test]
    fn time_3_a_wall_clock_set_back_never_turns_time_back() {
        let (start, mut anchor) = anchor();
        let mut last = anchor.at(start);
        for second in 1..=10 {
            let instant = start + Duration::from_secs(second);
            anchor.slew(instant, 10_000_000 - 3_600_000 + second * 1000);
            let now = anchor.at(instant + Duration::from_millis(1));
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        assert!(last >= 10_000_000 + 10_000 - 10 * SLEW_MS_MAX as u64 - 1);
    }

    #[test]
    fn a_wall_clock_set_forward_is_followed_slowly() {
        let (start, mut anchor) = anchor();
        let instant = start + Duration::from_secs(1);
        anchor.slew(instant, 10_000_000 + 1_000 + 60_000);
        assert_eq!(anchor.at(instant), 10_001_000 + SLEW_MS_MAX as u64);
    }

    #[test]
    fn a_small_error_is_removed_at_once() {
        let (start, mut anchor) = anchor();
        let instant = start + Duration::from_secs(1);
        anchor.slew(instant, 10_001_003);
        assert_eq!(anchor.at(instant), 10_001_003);
    }
}
