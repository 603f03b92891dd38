//! HTTP: entity management in the Azure SDKs' dialect, health and metrics for probes and scrapers.

mod atom;
mod health;
mod metrics;
mod process;
mod server;

pub use server::{Config, serve};
