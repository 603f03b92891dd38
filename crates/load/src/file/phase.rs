//! The phases of a run.

use std::time::Duration;

use definitions::duration;
use serde::{Deserialize, Deserializer, de};

/// How long each takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// Before what is measured: caches, connections, leaders.
    pub warm_up: Duration,
    pub measure: Duration,
    /// After it, at the same load: what was measured ends under load.
    pub cool_down: Duration,
    /// Nothing is sent any more: so long, at most, for what is still missing.
    pub drain: Duration,
}

/// As written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PhasesText {
    warm_up: Option<Time>,
    measure: Option<Time>,
    cool_down: Option<Time>,
    drain: Option<Time>,
}

/// A span of time, as `"30s"`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        let text = String::deserialize(from)?;
        duration::parse(&text).map(Time).map_err(de::Error::custom)
    }
}

const WARM_UP: Duration = Duration::from_secs(2);
const MEASURE: Duration = Duration::from_secs(10);
const DRAIN: Duration = Duration::from_secs(30);

impl PhasesText {
    /// `profile`: how long the longest profile of a rate is. And by how much all is shorter or longer than written.
    pub fn read(self, profile: Option<Duration>, seconds: Option<f64>) -> (Phases, f64) {
        let given = |time: Option<Time>, or: Duration| time.map_or(or, |time| time.0);
        let measure = given(self.measure, profile.unwrap_or(MEASURE));
        let factor = seconds.map_or(1.0, |seconds| seconds / measure.as_secs_f64().max(0.001));
        let phases = Phases {
            warm_up: given(self.warm_up, WARM_UP).mul_f64(factor),
            measure: measure.mul_f64(factor),
            cool_down: given(self.cool_down, Duration::ZERO).mul_f64(factor),
            // Brokers do not hurry because a test is short.
            drain: given(self.drain, DRAIN),
        };
        (phases, factor)
    }
}

impl Phases {
    /// Until nothing more is sent.
    pub fn sending(&self) -> Duration {
        self.warm_up + self.measure + self.cool_down
    }
}
