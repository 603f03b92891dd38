//! When the next message is due under a fixed rate, whatever became of those before.

use std::time::{Duration, Instant};

/// A fixed rate from a start. Due times do not shift when the sender falls behind: the wait it then
/// causes belongs to the latency of what waited.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    start: Instant,
    per_second: f64,
    issued: u64,
}

impl Pace {
    pub fn new(start: Instant, per_second: f64) -> Pace {
        Pace { start, per_second, issued: 0 }
    }

    /// When the next message is due.
    pub fn due(&self) -> Instant {
        self.start + Duration::from_secs_f64(self.issued as f64 / self.per_second)
    }

    /// Takes the next one.
    pub fn issue(&mut self) -> Instant {
        let due = self.due();
        self.issued += 1;
        due
    }

    /// How many are due by now and not issued.
    pub fn overdue(&self, now: Instant) -> usize {
        let due = now.saturating_duration_since(self.start).as_secs_f64() * self.per_second;
        (due as u64 + u64::from(now >= self.start)).saturating_sub(self.issued) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_even_and_never_shift() {
        let start = Instant::now();
        let mut pace = Pace::new(start, 4.0);
        let due: Vec<_> = (0..3).map(|_| pace.issue() - start).collect();
        assert_eq!(due, [0, 250, 500].map(Duration::from_millis));
        assert_eq!(pace.due() - start, Duration::from_millis(750));
    }

    #[test]
    fn what_is_overdue_is_what_was_due_and_not_issued() {
        let start = Instant::now() + Duration::from_secs(1);
        let mut pace = Pace::new(start, 4.0);
        assert_eq!(pace.overdue(start - Duration::from_millis(1)), 0);
        assert_eq!(pace.overdue(start), 1);
        assert_eq!(pace.overdue(start + Duration::from_millis(510)), 3);
        pace.issue();
        assert_eq!(pace.overdue(start + Duration::from_millis(510)), 2);
        assert_eq!(pace.overdue(start), 0);
    }
}
