//! Rates: so much in a window of time, counted without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is taken at once counts for as many windows at most: one large batch does not shut its client out
/// for minutes.
const WINDOWS_MAX: u64 = 10;

/// Counts what is taken against a rate, as the generic cell rate algorithm has it (ITU-T I.371): it keeps until
/// when what was taken is paid for. Times are the caller's nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    paid_at_ns: AtomicU64,
}

/// So much in so long, and as much at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Not 0.
    pub max: u64,
    pub window: Duration,
}

impl Rate {
    fn window_ns(self) -> u64 {
        u64::try_from(self.window.as_nanos()).unwrap_or(u64::MAX)
    }

    fn cost_ns(self, count: u64) -> u64 {
        let window_ns = self.window_ns();
        let cost_ns = u128::from(count) * u128::from(window_ns) / u128::from(self.max.max(1));
        u64::try_from(cost_ns).unwrap_or(u64::MAX).min(WINDOWS_MAX * window_ns)
    }
}

impl Bucket {
    /// Takes so many, or none of them: those that are more than a window has are taken when nothing is owed.
    ///
    /// # Errors
    /// How long to wait, in nanoseconds.
    pub fn take(&self, count: u64, rate: Rate, now_ns: u64) -> Result<(), u64> {
        let (cost_ns, window_ns) = (rate.cost_ns(count), rate.window_ns());
        let mut paid_at_ns = self.paid_at_ns.load(Ordering::Relaxed);
        loop {
            let from_ns = paid_at_ns.max(now_ns);
            let wait_ns = (from_ns + cost_ns.min(window_ns)).saturating_sub(now_ns + window_ns);
            if wait_ns > 0 {
                return Err(wait_ns);
            }
            match self.paid_at_ns.compare_exchange_weak(
                paid_at_ns,
                from_ns + cost_ns,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(other) => paid_at_ns = other,
            }
        }
    }

    /// Takes so many, whatever is owed already; how long it is then, in nanoseconds, until one may be taken.
    pub fn charge(&self, count: u64, rate: Rate, now_ns: u64) -> u64 {
        let (cost_ns, window_ns) = (rate.cost_ns(count), rate.window_ns());
        let most_ns = now_ns + WINDOWS_MAX * window_ns;
        let charged = |paid_at_ns: u64| (paid_at_ns.max(now_ns) + cost_ns).min(most_ns);
        let add = |paid_at_ns: u64| Some(charged(paid_at_ns));
        let before = self.paid_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        // It always has a next value.
        let paid_at_ns = before.map_or(now_ns, charged);
        paid_at_ns.saturating_sub(now_ns + window_ns)
    }

    /// What was taken is not wanted after all.
    pub fn give_back(&self, count: u64, rate: Rate) {
        let cost_ns = rate.cost_ns(count);
        let less = |paid_at_ns: u64| Some(paid_at_ns.saturating_sub(cost_ns));
        // It always has a next value.
        let _ = self.paid_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Whether it is as one that nothing was taken of.
    pub fn is_idle(&self, now_ns: u64) -> bool {
        self.paid_at_ns.load(Ordering::Relaxed) <= now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const RATE: Rate = Rate { max: 10, window: Duration::from_secs(1) };

    /// Each row: when, how many are taken, and how long to wait if they are not.
    #[test]
    fn quota_8_a_window_s_worth_at_once_and_then_as_fast_as_the_rate() {
        let bucket = Bucket::default();
        for (now_ms, count, expected_ms) in [
            (5_000, 10, Ok(())),
            (5_000, 1, Err(100)),
            (5_050, 1, Err(50)),
            (5_100, 1, Ok(())),
            (5_100, 1, Err(100)),
            (5_600, 5, Ok(())),
            (5_600, 5, Err(500)),
            // More than a window has: when nothing is owed, and then for longer.
            (6_599, 20, Err(1)),
            (6_600, 20, Ok(())),
            (6_600, 1, Err(1_100)),
            (8_600, 10, Ok(())),
            // And ten windows at most.
            (10_000, 100_000, Ok(())),
            (19_000, 1, Err(100)),
            (19_100, 1, Ok(())),
            (60_000, 0, Ok(())),
        ] {
            let found = bucket.take(count, RATE, now_ms * MS).map_err(|wait_ns| wait_ns / MS);
            assert_eq!(found, expected_ms, "{now_ms} {count}");
        }
    }

    #[test]
    fn what_is_given_back_was_never_taken() {
        let bucket = Bucket::default();
        assert_eq!(bucket.take(10, RATE, 0), Ok(()));
        bucket.give_back(10, RATE);
        assert!(bucket.is_idle(0));
        assert_eq!(bucket.take(10, RATE, 0), Ok(()));
        assert!(!bucket.is_idle(999 * MS) && bucket.is_idle(1_000 * MS));
    }
}
