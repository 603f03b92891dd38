//! A collector of OpenTelemetry, as it is spoken to: OTLP over HTTP. And the page of a node's metrics, pushed to one.
//! Nobody waits for it.
//!
//! Reading order: how a collector is set, and spoken to; what a page of metrics says, since when its counters count,
//! and how that is said in OTLP; the task that pushes it.

mod settings;

mod attribute;
mod collector;
mod reach;

mod exposition;
mod metric;
mod starts;
mod translation;

mod metric_exporter;

pub use attribute::{attribute, text};
pub use collector::{Collector, NotTaken};
pub use metric::describe;
pub use metric_exporter::MetricExporter;
pub use reach::Reach;
pub use settings::{Endpoint, Headers, Settings, Signal};
