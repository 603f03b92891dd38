//! HTTP: entity management in the Azure SDKs' dialect, messages for those who have no client at
//! hand, health and metrics for probes and scrapers, and the WebSocket through which AMQP passes where
//! nothing else does.
//!
//! Reading order: the server, its connections and routes; who may do what; what a path names; what
//! clients are told of a failure; entities (`atom`), messages, the WebSocket.

mod access;
mod atom;
mod azure_door;
mod caller;
mod connection;
mod console_door;
mod dispatch;
mod entity_metrics;
mod failure;
mod fault_rules;
mod health;
mod history;
mod http_2;
mod instant;
mod messages;
mod metrics;
mod options;
mod origins;
mod path;
mod probe;
mod process;
mod server;
mod tunnel;
mod watched_stream;
mod whole_body;

pub use entity_metrics::describe as describe_entity_metrics;
pub use metrics::MetricsPage;
pub use process::describe as describe_metrics;
pub use server::{Config, serve};

/// Echoed, so that a client finds its request in its own log.
const CLIENT_REQUEST_ID: &str = "x-ms-client-request-id";
