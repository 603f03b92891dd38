//! What one of several generators did.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::GeneratorUse;

/// A worker and its clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    pub address: String,
    pub cores: u32,
    /// While it was measured.
    pub cores_used: f64,
    pub cpu_seconds: f64,
    pub sent: u64,
    pub delivered: u64,
    /// By how much its wall clock was ahead of the coordinator's before the run. Latencies do not depend on it: they are
    /// reckoned on clocks that never step, whose difference was measured.
    pub wall_clock_ahead_ms: f64,
    /// How far that measured difference may be wrong: half of the shortest way there and back.
    pub clock_error_ms: f64,
    /// By how much the difference had grown at the end.
    pub clock_drift_ms: Option<f64>,
    /// Why it did not come to the end, if it did not.
    pub lost: Option<String>,
}

impl WorkerReport {
    /// Whether it may be what was measured.
    pub fn is_limit(&self) -> bool {
        let WorkerReport { cores, cores_used, cpu_seconds, .. } = *self;
        GeneratorUse { cpu_seconds, us_per_message: 0.0, cores_used, cores }.is_limit()
    }
}

impl fmt::Display for WorkerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerReport { address, cores, cores_used, sent, delivered, .. } = self;
        if let Some(lost) = &self.lost {
            return write!(f, "{address} LOST: {lost}");
        }
        write!(
            f,
            "{address}: {sent} sent, {delivered} delivered, {cores_used:.2} of {cores} cores, wall clock {:+.1} ms",
            self.wall_clock_ahead_ms
        )
    }
}

/// How far a latency between two of these may be wrong, milliseconds: by the errors of both clocks, and by what they
/// drifted apart.
pub(super) fn latency_error_ms(workers: &[WorkerReport]) -> f64 {
    let mut errors: Vec<f64> = workers
        .iter()
        .map(|of| of.clock_error_ms + of.clock_drift_ms.unwrap_or_default().abs())
        .collect();
    errors.sort_by(|one, other| other.total_cmp(one));
    errors.iter().take(2).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_as_wrong_as_the_two_worst_clocks() {
        let worker = |clock_error_ms, drift| WorkerReport {
            clock_error_ms,
            clock_drift_ms: drift,
            ..WorkerReport::default()
        };
        assert_eq!(latency_error_ms(&[]), 0.0);
        assert_eq!(latency_error_ms(&[worker(0.5, None)]), 0.5);
        let three = [worker(0.1, Some(-0.5)), worker(0.25, None), worker(1.0, Some(0.0))];
        assert_eq!(latency_error_ms(&three), 1.6);
    }
}
