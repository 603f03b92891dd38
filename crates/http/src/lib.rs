//! Health and metrics over HTTP, for probes and scrapers. Nothing here changes anything.

mod health;
mod metrics;
mod process;
mod server;

pub use server::{Config, serve};
