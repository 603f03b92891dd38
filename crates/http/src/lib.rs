//! HTTP: entity management in the Azure SDKs' dialect, health and metrics for probes and scrapers, and
//! the WebSocket through which AMQP passes where nothing else does.

mod access;
mod atom;
mod connection;
mod health;
mod metrics;
mod process;
mod server;
mod tunnel;

pub use server::{Config, serve};
