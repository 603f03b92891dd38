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
}
