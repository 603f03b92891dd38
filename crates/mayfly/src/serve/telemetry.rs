//! The node's log, to standard error, and the recorder of its metrics.

use std::io::IsTerminal;

use anyhow::Context;
use metrics::{Unit, describe_histogram, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use store::SyncReport;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::config::{Config, LogConfig, LogFormat};
use super::recent_log::RecentLog;
use super::reload::Reload;
use super::{ServeArgs, certificate, process};

/// One batch of the log's writer: write and sync.
const SYNC_SECONDS: &str = "mayfly_log_sync_seconds";
const SYNC_BYTES: &str = "mayfly_log_sync_bytes";
const SYNC_ENTRIES: &str = "mayfly_log_sync_entries";

/// Upper bounds of histograms of times: close enough that a quantile read from them is a few percent
/// off at the milliseconds that matter.
const SECONDS: [f64; 30] = [
    0.0001, 0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02,
    0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
];
const BYTES: [f64; 10] =
    [256.0, 1024.0, 4096.0, 16384.0, 65536.0, 131072.0, 262144.0, 524288.0, 1048576.0, 4194304.0];
const COUNTS: [f64; 13] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

/// The target of the audit's records.
const AUDIT: &str = "audit";

/// Which records are logged, as `log.filter` has it; it may change while the node runs.
pub struct LogFilter {
    told: String,
    is_audited: bool,
    handle: reload::Handle<EnvFilter, Registry>,
}

/// Starts logging. `is_audited`: records of the audit are part of it. `recent`: takes the last lines along. The error is
/// one line.
pub fn start(log: &LogConfig, is_audited: bool, recent: RecentLog) -> Result<LogFilter, String> {
    let filter = filter(&log.filter, is_audited)
        .map_err(|error| format!("log.filter: '{}': {error}", log.filter))?;
    let (filter, handle) = reload::Layer::new(filter);
    let kept = fmt::layer().with_ansi(false).with_writer(recent);
    let filtered = tracing_subscriber::registry().with(filter).with(kept);
    let written = fmt::layer().with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => filtered.with(written.with_ansi(std::io::stderr().is_terminal())).init(),
        LogFormat::Json => filtered.with(written.json()).init(),
    }
    Ok(LogFilter { told: log.filter.clone(), is_audited, handle })
}

impl Reload for LogFilter {
    fn name(&self) -> &'static str {
        "log levels"
    }

    fn reload(&mut self, args: &ServeArgs, _: bool) -> Result<(), String> {
        let read = Config::log_filter(args)?;
        if read != self.told {
            let filter = filter(&read, self.is_audited)
                .map_err(|error| format!("log.filter: '{read}': {error}"))?;
            self.handle.reload(filter).map_err(|error| error.to_string())?;
            tracing::info!(filter = read, "the log's filter was read again, and is another now");
            self.told = read;
        }
        Ok(())
    }
}

/// Whoever wants warnings only does not mean the audit, unless he names it.
fn filter(told: &str, is_audited: bool) -> Result<EnvFilter, ParseError> {
    let is_named = told.split(',').any(|part| part.trim().split(['=', ':']).next() == Some(AUDIT));
    match is_audited && !is_named {
        true => EnvFilter::try_new(format!("{told},{AUDIT}=info")),
        false => EnvFilter::try_new(told),
    }
}

/// Installs the recorder: every histogram has buckets, by the unit its name ends with.
pub fn metrics() -> anyhow::Result<PrometheusHandle> {
    let suffix = |name: &str| Matcher::Suffix(name.to_owned());
    let handle = PrometheusBuilder::new()
        .set_buckets(&COUNTS)
        .and_then(|builder| builder.set_buckets_for_metric(suffix("_seconds"), &SECONDS))
        .and_then(|builder| builder.set_buckets_for_metric(suffix("_bytes"), &BYTES))
        .and_then(|builder| builder.install_recorder())
        .context("cannot start recording metrics")?;
    describe();
    process::describe();
    certificate::describe();
    audit::describe();
    limits::describe();
    fault_rules::describe();
    spans::describe();
    otlp::describe();
    openid::describe();
    Ok(handle)
}

/// Describes what is recorded here to the installed recorder.
pub fn describe() {
    describe_histogram!(SYNC_SECONDS, Unit::Seconds, "One batch of the log: write and sync.");
    describe_histogram!(SYNC_BYTES, Unit::Bytes, "Bytes in one batch of the log.");
    describe_histogram!(SYNC_ENTRIES, Unit::Count, "Entries in one batch of the log.");
}

/// Called after every sync, on the log writer's thread.
pub fn synced(report: SyncReport) {
    histogram!(SYNC_SECONDS).record(report.took);
    histogram!(SYNC_BYTES).record(report.bytes as f64);
    histogram!(SYNC_ENTRIES).record(report.entries as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: `log.filter`, whether records go to the log, and what it is then.
    #[test]
    fn the_audit_is_logged_whatever_is_said_of_others() {
        for (told, is_audited, shown) in [
            ("warn", true, "audit=info,warn"),
            ("warn", false, "warn"),
            ("", true, "audit=info"),
            ("warn,audit=off", true, "audit=off,warn"),
            ("off,audit::trail=debug", true, "audit::trail=debug,off"),
        ] {
            assert_eq!(filter(told, is_audited).expect("a filter").to_string(), shown, "{told}");
        }
    }
}
