//! The native gRPC API over [`service::Broker`]: the services of `mayfly.v1`, reflection and
//! `grpc.health.v1`.
//!
//! Invariant: nothing is decided here. Requests are converted and handed on in the order they came,
//! and errors are mapped in one place, [`status`], so that the three answers stay apart on the wire.

mod api;
mod connection_limit;
mod right;
mod status;

mod door;

mod node_facts;

mod backups;
mod cluster;
mod connections;
mod entities;
mod events;
mod fault_rules;
mod history;
mod messaging;
mod namespaces;
mod receive_stream;
mod send_stream;
mod sessions;
mod support;
mod transact_stream;

mod connection;

mod admission;

mod server;

mod local;

#[cfg(test)]
mod tests;

pub use cluster::Joining;
pub use local::{LocalApi, LocalCall, LocalCaller, LocalError, LocalErrorKind};
pub use node_facts::{OwnFacts, SelfReport};
pub use server::{Config, Error, serve};
