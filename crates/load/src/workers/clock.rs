//! Clocks compared: how far another machine's is from this one's, and how sure that is.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::api::Clock;

/// Since the first time anybody asked: a clock that never steps.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// An instant on this process' clock, nanoseconds.
pub(super) fn clock_ns(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(origin()).as_nanos()).unwrap_or(u64::MAX)
}

/// The instant that such a number is.
pub(super) fn instant(clock_ns: u64) -> Instant {
    origin() + Duration::from_nanos(clock_ns)
}

/// What this process' clocks show now.
pub(super) fn read(number: u64) -> Clock {
    Clock { number, now_ns: clock_ns(Instant::now()), wall_us: wall_us() }
}

fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// How another process' clock differs, by the answer that took the shortest time: it was read somewhere on the way
/// there and back, so halfway is wrong by half of the way at most (Cristian, 1989).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ClockDifference {
    /// Theirs less ours.
    pub ahead_ns: i128,
    pub error_ns: u64,
    pub wall_ahead_us: i64,
}

impl ClockDifference {
    /// By one answer to a question asked and answered at these instants.
    pub fn of(asked: Instant, answered: Instant, clock: &Clock) -> ClockDifference {
        let way = answered.saturating_duration_since(asked);
        let halfway = clock_ns(asked + way / 2);
        let since = answered.elapsed() + way / 2;
        let own_wall = i128::from(wall_us()) - since.as_micros() as i128;
        ClockDifference {
            ahead_ns: i128::from(clock.now_ns) - i128::from(halfway),
            error_ns: u64::try_from(way.as_nanos() / 2).unwrap_or(u64::MAX),
            wall_ahead_us: i64::try_from(i128::from(clock.wall_us) - own_wall).unwrap_or_default(),
        }
    }

    /// The surer of both.
    pub fn or(self, other: ClockDifference) -> ClockDifference {
        if other.error_ns < self.error_ns { other } else { self }
    }

    /// An instant of ours on their clock; none before their clock began.
    pub fn theirs(&self, at: Instant) -> u64 {
        u64::try_from(i128::from(clock_ns(at)) + self.ahead_ns).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_way_tells_the_difference() {
        let ms = Duration::from_millis;
        let asked = Instant::now() + ms(1000);
        let clock = |now_ms: u64| Clock { number: 0, now_ns: now_ms * 1_000_000, wall_us: 0 };
        let base = clock_ns(asked) / 1_000_000;
        // Read in the middle of 2 ms, and at the end of 100 ms; theirs is 5 s ahead.
        let near = ClockDifference::of(asked, asked + ms(2), &clock(base + 5_001));
        let far = ClockDifference::of(asked, asked + ms(100), &clock(base + 5_100));
        assert!((near.ahead_ns - 5_000_000_000).abs() <= 1_000_000, "{near:?}");
        assert_eq!((near.error_ns, far.error_ns), (1_000_000, 50_000_000));
        assert_eq!(far.or(near), near.or(far));
        let theirs = near.theirs(asked) as i128 - i128::from(clock_ns(asked));
        assert_eq!(theirs, near.ahead_ns);
        let at = Instant::now() + ms(5);
        assert_eq!(instant(clock_ns(at)), at);
    }
}
