//! Load against any running cluster, and the checks that tell whether it was served right.
//!
//! Invariant: a report counts what was answered, never what was hoped for; what is unknown is
//! counted as unknown. Latency under a given rate is measured from the moment a message was due to
//! be sent, so a broker that stalls cannot hide the wait of those behind (coordinated omission).
//!
//! Reading order: how a node is looked into and spoken to, how time is kept, what bodies hold, the five
//! benches, the checker.

mod metrics;
mod nodes;
mod way;

mod link;

mod interval_log;
mod latency;
mod pace;

mod body;
mod noise;

mod fill;
mod queues;
mod report;

mod backlog;
mod churn;
mod expiry;
mod lifecycle;
mod neighbour;

mod checker;

pub use backlog::{BacklogBench, BacklogReport, NodeMemory};
pub use body::Bodies;
pub use checker::{Checker, Verdict, Violation};
pub use churn::{ChurnBench, ChurnReport, Disk, Look};
pub use expiry::{ExpiryBench, ExpiryReport};
pub use interval_log::IntervalLog;
pub use latency::{Latency, Recorder};
pub use lifecycle::{LifecycleBench, LifecycleReport, Protocol};
pub use link::{Link, Lost};
pub use metrics::{Buckets, Metrics};
pub use neighbour::{Disturbance, NeighbourBench, NeighbourReport, Strike};
pub use nodes::{NodeLook, NodeUse, look};
pub use noise::Noise;
pub use pace::Pace;
pub use report::{Progress, error_name};
pub use way::Way;

use thiserror::Error;

/// Why a bench could not be run or went wrong on the way.
#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error("{0}")]
    Wrong(String),
}
