//! Latency: recorded per task, merged at the end.

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::Serialize;

/// Longer is recorded as this.
const LONGEST_US: u64 = 600_000_000;

/// A histogram of microseconds to three digits.
#[derive(Clone, Debug)]
pub struct Recorder {
    histogram: Histogram<u64>,
}

impl Default for Recorder {
    fn default() -> Recorder {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, 3);
        Recorder { histogram: histogram.expect("the bounds are constants in range") }
    }
}

impl Recorder {
    pub fn record(&mut self, took: Duration) {
        self.record_all(took, 1);
    }

    /// Records so many that took the same.
    pub fn record_all(&mut self, took: Duration, count: u64) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record_n(us.clamp(1, LONGEST_US), count);
    }

    pub fn merge(&mut self, other: &Recorder) {
        if other.count() == 0 {
            return;
        }
        self.histogram.add(&other.histogram).expect("all recorders have the same bounds");
    }

    /// As HdrHistogram's V2 with deflate has it, in microseconds; empty for counts that no run reaches.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let coded = V2DeflateSerializer::new().serialize(&self.histogram, &mut bytes);
        coded.map_or_else(|_| Vec::new(), |_| bytes)
    }

    /// What [`Recorder::to_bytes`] gave, on another machine perhaps. None: it is something else.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Recorder> {
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes).ok()?;
        let mut recorder = Recorder::default();
        let fits = histogram.max() <= recorder.histogram.high() && histogram.sigfig() == 3;
        (fits && recorder.histogram.add(&histogram).is_ok()).then_some(recorder)
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// What so great a share of all, from 0 to 1, does not exceed, in milliseconds.
    pub fn at(&self, share: f64) -> f64 {
        ms(self.histogram.value_at_quantile(share))
    }

    /// Milliseconds.
    pub fn mean(&self) -> f64 {
        self.histogram.mean() / 1000.0
    }

    /// Milliseconds.
    pub fn max(&self) -> f64 {
        ms(self.histogram.max())
    }

    /// How many took longer.
    pub fn count_above(&self, took: Duration) -> u64 {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min(LONGEST_US);
        self.histogram.len() - self.histogram.count_between(0, us)
    }

    pub fn summary(&self) -> Latency {
        Latency {
            count: self.count(),
            p50_ms: self.at(0.5),
            p99_ms: self.at(0.99),
            p999_ms: self.at(0.999),
            max_ms: self.max(),
        }
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

/// What is reported of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.count == 0 {
            return f.write_str("nothing recorded");
        }
        write!(
            f,
            "p50 {:.1} ms   p99 {:.1} ms   p99.9 {:.1} ms   max {:.1} ms",
            self.p50_ms, self.p99_ms, self.p999_ms, self.max_ms
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorders_merge_and_summarise() {
        let (mut one, mut other) = (Recorder::default(), Recorder::default());
        for ms in 1..=99 {
            one.record(Duration::from_millis(ms));
        }
        other.record(Duration::from_secs(3600));
        one.merge(&other);
        let summary = one.summary();
        assert_eq!(summary.count, 100);
        assert!((summary.p50_ms - 50.0).abs() < 0.1, "{summary}");
        assert!((summary.p99_ms - 99.0).abs() < 0.1, "{summary}");
        assert!(summary.max_ms >= 599_000.0, "{summary}");
        assert_eq!(Recorder::default().summary().to_string(), "nothing recorded");
    }

    #[test]
    fn a_recorder_is_on_another_machine_what_it_was_here() {
        let mut recorder = Recorder::default();
        (1..=1000).for_each(|ms| recorder.record(Duration::from_millis(ms)));
        for of in [recorder, Recorder::default()] {
            let read = Recorder::from_bytes(&of.to_bytes()).expect("a recorder");
            assert_eq!(read.summary(), of.summary());
        }
        assert!(Recorder::from_bytes(b"something else").is_none());
    }
}
