//! Which collectors of OpenTelemetry are told what, in `[metrics]` and `[tracing]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use otlp::{Endpoint, Headers};

use super::file::ConfigFile;
use super::{CollectorConfig, MetricExportConfig};
use crate::input::duration;
use crate::serve::ServeArgs;

const SERVICE_NAME: &str = "mayfly";
/// It stands in every request to a collector.
const SERVICE_NAME_CHARS_MAX: usize = 256;
/// The standard's default.
pub const INTERVAL: Duration = Duration::from_secs(60);
/// A page takes a part of a second to make where many entities have metrics of their own.
const INTERVAL_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

pub(super) fn of_spans(
    file: &ConfigFile,
    args: &ServeArgs,
) -> Result<Option<CollectorConfig>, String> {
    let written = &file.tracing;
    let endpoint = told(&args.otlp_endpoint, &written.otlp_endpoint);
    collector("tracing", endpoint, told(&args.otlp_headers, &written.otlp_headers))
}

pub(super) fn of_metrics(
    file: &ConfigFile,
    args: &ServeArgs,
) -> Result<Option<MetricExportConfig>, String> {
    let written = &file.metrics;
    let endpoint = told(&args.otlp_metrics_endpoint, &written.otlp_endpoint);
    let headers = told(&args.otlp_metrics_headers, &written.otlp_headers);
    let collector = collector("metrics", endpoint, headers)?;
    let every = written.otlp_interval.unwrap_or(INTERVAL);
    if !INTERVAL_RANGE.contains(&every) {
        let show =
            |span: Duration| duration::show_ms(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let (least, most) = (show(*INTERVAL_RANGE.start()), show(*INTERVAL_RANGE.end()));
        return Err(format!(
            "metrics.otlp_interval is {}, allowed is {least} to {most}",
            show(every)
        ));
    }
    Ok(collector.map(|collector| MetricExportConfig { collector, every }))
}

pub(super) fn service_name(file: &ConfigFile, args: &ServeArgs) -> Result<String, String> {
    let service = told(&args.service_name, &file.tracing.service_name);
    let service = service.unwrap_or_else(|| SERVICE_NAME.to_owned());
    match service.chars().count() {
        0..=SERVICE_NAME_CHARS_MAX => Ok(service),
        count => Err(format!(
            "tracing.service_name has {count} characters, allowed are {SERVICE_NAME_CHARS_MAX}"
        )),
    }
}

/// What is given goes before what is written, and nothing is as good as absent.
fn told(given: &Option<String>, written: &Option<String>) -> Option<String> {
    given.as_ref().or(written.as_ref()).filter(|text| !text.is_empty()).cloned()
}

fn collector(
    section: &str,
    endpoint: Option<String>,
    headers: Option<String>,
) -> Result<Option<CollectorConfig>, String> {
    let Some(endpoint) = endpoint else { return Ok(None) };
    let endpoint =
        Endpoint::parse(&endpoint).map_err(|wrong| format!("{section}.otlp_endpoint: {wrong}"))?;
    let headers = Headers::parse(&headers.unwrap_or_default())
        .map_err(|wrong| format!("{section}.otlp_headers: {wrong}"))?;
    Ok(Some(CollectorConfig { endpoint, headers }))
}
