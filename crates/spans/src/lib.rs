//! Spans of messages whose senders are traced (OpenTelemetry), told by the node that proposed what happened to them.
//! Nobody waits for them: what finds no room is dropped, and counted.
//!
//! Reading order: what a span is known by, what is told of a step, the queue to the exporter, and that.

mod span_id;

mod account;

mod metric;

mod exporter;
mod queue;

pub use exporter::Exporter;
pub use metric::describe;
pub use queue::SpanQueue;
