//! Load tests from a file: one's own workload, against any Service Bus endpoint and any AMQP 1.0 broker.
//!
//! Invariants: latency is measured from the moment a message was due, so a broker that stalls cannot hide the wait
//! of those behind (coordinated omission); every message is accounted for, in memory that does not grow with
//! their number where they come whole; what is unknown is counted as unknown.
//!
//! Reading order: what a file is made of, the file, what it comes to, what is noted of messages, the two protocols
//! behind their traits, producers and consumers, the run, the report, several generators.

mod distribution;
mod rate;
mod template;
mod threshold;

mod need;
mod place;

mod file;
mod plan;

mod api;

mod ledger;
mod meter;
mod number_set;
mod stamp;
mod time_line;

mod link;
mod over_amqp;
mod over_grpc;

mod target;

mod consumer;
mod draft;
mod producer;

mod compare;
mod glance;
mod report;
mod run;

mod workers;

use client::Error as ClientError;
use thiserror::Error;

pub use compare::{Compared, Comparison};
pub use file::{FileFault, FileSource, LoadFile};
pub use glance::{Glance, Watcher};
pub use ledger::Account;
pub use over_amqp::Sasl;
pub use report::{
    GeneratorUse, Judged, LoadReport, Percentiles, PhaseSeconds, Point, Unit, WorkerReport,
};
pub use run::{LoadResult, LoadRun};
pub use target::{Spoken, Target, TargetAddress};
pub use template::{Origin, Template};
pub use workers::{Notice, Worker, WorkersRun};

/// Why a run could not be begun.
#[derive(Debug, Error)]
pub enum Error {
    /// In one sentence; nothing was sent.
    #[error("{0}")]
    Wrong(String),
}

impl Error {
    /// Of a target that does not answer, or does not let this client in.
    fn of_target(error: ClientError) -> Error {
        Error::Wrong(error.to_string())
    }
}
