//! When a run's phases begin and end, for all who take part in it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::file::Phases;

/// The time line of one run; instants are spans since its beginning.
#[derive(Debug)]
pub struct TimeLine {
    epoch: Instant,
    phases: Phases,
    /// Sending was ended before its time.
    stopped: OnceLock<Duration>,
}

impl TimeLine {
    pub fn new(epoch: Instant, phases: Phases) -> TimeLine {
        TimeLine { epoch, phases, stopped: OnceLock::new() }
    }

    /// Since the beginning; nothing before it.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    pub fn instant(&self, since: Duration) -> Instant {
        self.epoch + since
    }

    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    pub fn is_measured(&self, due: Duration) -> bool {
        (self.phases.warm_up..self.measure_ends()).contains(&due)
    }

    pub fn measure_ends(&self) -> Duration {
        self.phases.warm_up + self.phases.measure
    }

    /// Nothing is due from then on.
    pub fn sending_ends(&self) -> Duration {
        let planned = self.phases.sending();
        self.stopped.get().map_or(planned, |stopped| planned.min(*stopped))
    }

    /// Answers are waited for until then.
    pub fn answers_end(&self) -> Duration {
        self.sending_ends() + self.phases.drain
    }

    /// Ends sending now.
    pub fn stop(&self) {
        self.stop_at(self.now());
    }

    /// Ends sending at an instant; the first that was told counts.
    pub fn stop_at(&self, at: Duration) {
        self.stopped.get_or_init(|| at);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_each_other_until_they_are_stopped() {
        let of = |seconds| Duration::from_secs(seconds);
        let phases = Phases { warm_up: of(1), measure: of(5), cool_down: of(2), drain: of(30) };
        let line = TimeLine::new(Instant::now(), phases);
        assert_eq!(
            (line.measure_ends(), line.sending_ends(), line.answers_end()),
            (of(6), of(8), of(38))
        );
        for (at, is_measured) in [(0, false), (1, true), (5, true), (6, false)] {
            assert_eq!(line.is_measured(of(at)), is_measured, "{at}");
        }
        line.stop();
        assert!(line.is_stopped() && line.sending_ends() < of(1));
    }
}
