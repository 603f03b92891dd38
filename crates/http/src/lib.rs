//! HTTP: entity management in the Azure SDKs' dialect, messages for those who have no client at
//! hand, health and metrics for probes and scrapers.
//!
//! Reading order: the server and its routes; what a path names; what clients are told of a failure;
//! entities (`atom`), messages.

mod atom;
mod dispatch;
mod failure;
mod health;
mod messages;
mod metrics;
mod path;
mod process;
mod server;

pub use server::{Config, serve};

/// Echoed, so that a client finds its request in its own log.
const CLIENT_REQUEST_ID: &str = "x-ms-client-request-id";
