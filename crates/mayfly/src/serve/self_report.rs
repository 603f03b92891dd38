//! What the node tells of itself for those who help with a cluster.

use std::fmt;

use grpc::SelfReport;
use limits::Ledger;
use metrics_exporter_prometheus::PrometheusHandle;

use super::recent_log::RecentLog;

/// What is known from the start, and where the rest is kept.
#[derive(Clone)]
pub struct OwnReport {
    pub recorder: PrometheusHandle,
    pub ledger: Ledger,
    pub log: RecentLog,
    /// Without secrets.
    pub settings: String,
}

impl fmt::Debug for OwnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnReport").finish_non_exhaustive()
    }
}

impl SelfReport for OwnReport {
    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn metrics(&self) -> String {
        self.ledger.sample();
        self.recorder.run_upkeep();
        self.recorder.render()
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn log_since(&self, since_ms: u64) -> (Vec<String>, u64) {
        self.log.since(since_ms)
    }
}
