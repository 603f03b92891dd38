//! What a report has of a distribution.

use std::fmt;

use serde::{Deserialize, Serialize};
use workload::Recorder;

/// Points of a curve: 1 - 2^-n in steps of a quarter of n, so that each doubling of rarity has four.
const CURVE_STEPS: u32 = 4 * 17;

/// All in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
    /// Shares, from 0 to 1, and what each does not exceed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(f64, f64)>,
}

impl Percentiles {
    pub fn of(recorder: &Recorder, with_curve: bool) -> Percentiles {
        Percentiles {
            count: recorder.count(),
            mean: recorder.mean(),
            p50: recorder.at(0.5),
            p90: recorder.at(0.9),
            p99: recorder.at(0.99),
            p99_9: recorder.at(0.999),
            max: recorder.max(),
            curve: if with_curve { curve(recorder) } else { Vec::new() },
        }
    }
}

/// No further than there are messages to tell of.
fn curve(recorder: &Recorder) -> Vec<(f64, f64)> {
    let shares = (0..CURVE_STEPS).map(|step| 1.0 - 0.5_f64.powf(f64::from(step) / 4.0));
    let told = shares.take_while(|share| (1.0 - share) * recorder.count() as f64 >= 1.0);
    told.map(|share| (share, recorder.at(share))).collect()
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percentiles { p50, p90, p99, p99_9, max, .. } = self;
        write!(
            f,
            "p50 {p50:.1} ms   p90 {p90:.1} ms   p99 {p99:.1} ms   p99.9 {p99_9:.1} ms   max {max:.1} ms"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_curve_rises_and_ends_where_nothing_is_told() {
        let mut recorder = Recorder::default();
        (1..=1000).for_each(|ms| recorder.record(Duration::from_millis(ms)));
        let told = Percentiles::of(&recorder, true);
        assert!((told.p50 - 500.0).abs() < 1.0 && (told.mean - 500.5).abs() < 1.0, "{told}");
        assert_eq!(told.count, 1000);
        assert!(told.curve.len() > 30 && told.curve.is_sorted(), "{:?}", told.curve);
        let last = told.curve.last().expect("a point").0;
        assert!((0.998..1.0).contains(&last), "{last}");
        assert!(Percentiles::of(&Recorder::default(), true).curve.is_empty());
    }
}
