//! Collectors of OpenTelemetry that this node tells something.

use http::MetricsPage;
use otlp::{MetricExporter, Settings, Signal};
use spans::Exporter;

use super::config::{CollectorConfig, Config, MetricExportConfig};
use crate::terminal;

/// Who is told what becomes of traced messages.
pub fn of_spans(config: &Config) -> anyhow::Result<Option<Exporter>> {
    let Some(collector) = &config.tracing else { return Ok(None) };
    let endpoint = &collector.endpoint;
    tracing::info!("what becomes of traced messages is told to the collector at {endpoint}");
    let settings = settings(config, collector, Signal::Traces);
    Exporter::start(settings).map(Some).map_err(terminal::usage)
}

/// To whom this node's metrics are pushed.
pub fn of_metrics(config: &Config, page: MetricsPage) -> anyhow::Result<Option<MetricExporter>> {
    let Some(MetricExportConfig { collector, every }) = &config.metric_export else {
        return Ok(None);
    };
    let endpoint = &collector.endpoint;
    tracing::info!("metrics are pushed to the collector at {endpoint} every {every:?}");
    let settings = settings(config, collector, Signal::Metrics);
    let page = move || {
        let page = page.clone();
        async move { page.text().await }
    };
    MetricExporter::start(settings, *every, page).map(Some).map_err(terminal::usage)
}

fn settings(config: &Config, collector: &CollectorConfig, signal: Signal) -> Settings {
    let CollectorConfig { endpoint, headers } = collector.clone();
    let service = config.service_name.clone();
    let (node, version) = (config.node, env!("CARGO_PKG_VERSION"));
    Settings { signal, endpoint, headers, service, node, version }
}
