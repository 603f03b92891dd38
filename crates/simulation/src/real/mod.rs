//! The real thing: `replication` as it is, with openraft and gRPC inside it, over modelled disks and a
//! modelled network, in one thread and from one seed. What level one models of Raft is here what runs.
//!
//! Each node has a runtime of its own whose time stands still unless it is moved on, a few
//! milliseconds at a time, one node after another. Dropping the runtime is the crash. What asks the
//! operating system for chance gets the seed's (`chance`), so a seed is one life, to the last call:
//! in a process that has run no other, for tokio counts its runtimes.
//!
//! Not modelled: RocksDB (its own crash tests are in `store`; cached rows lie above it, and are here),
//! several threads, and the byte-wise windows of TCP.
//!
//! What it was seen to catch: the bugs of [`Planted`], which `tests/raft.rs` plants; and of cached
//! rows, put back in a copy, one at a time, over 16 seeds:
//!
//! | bug | found by (seeds of 16) |
//! |---|---|
//! | contents are read past a cached deletion | `reads` 7 |
//! | cached deletions are not written | `reads` 10, `replicas` 3 |
//! | cached rows stay over rows that were installed | `replicas` 4 |
//! | the machine scans past cached rows | `running` 13 |
//! | readers scan past cached rows | `reads` 11, `lost` 4 |
//! | a flush leaves cached rows behind | `replicas` 14 |
//!
//! Reading order: chance, the network, the disk, a node and what keeps its replica; what is watched;
//! clients and consumers and what they know; faults, the cluster.

mod chance;

mod disk;
mod network;

mod node;
mod plan;

mod watch;

mod call;
mod client;
mod consumer;
mod ledger;

mod cluster;
mod faults;

mod many;
mod naps;
mod reconciler;
mod report;

use clap::ValueEnum;
use domain::{EntityId, GroupId};

use crate::report::Broken;

pub use many::{run_many, tell};
pub use report::RealReport;

const GROUP: GroupId = GroupId(1);
const QUEUE: EntityId = EntityId(1);

/// What is done wrong on purpose, one at a time, below or around the code that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Planted {
    /// Entries are said to be on disk before they are.
    AcknowledgesBeforeSync,
    /// A vote is said to be on disk before it is.
    VotesBeforeSync,
    /// A node with a wiped disk goes on as who it was.
    VotesUnderOldId,
    /// A log shorter than its mark is taken for whole.
    IgnoresMark,
    /// Rows are flushed apart from the mark that says how far they are.
    FlushesRowsWithoutMark,
    /// Rows are said to be flushed that are not, and the log is forgotten.
    ForgetsUnflushed,
    /// A replica that shall be elsewhere is forgotten before its group goes on without it.
    LeavesUnasked,
    /// A leader that is not heard any more is taken for alive, for hours.
    KeepsLease,
}

/// What kind of life it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealOptions {
    /// Nodes that hold the group.
    pub nodes: u64,
    /// Nodes beyond those, to which its replicas may move.
    pub spares: u64,
    /// Seconds of trouble, in the cluster's time; then faults end.
    pub seconds: u64,
    /// How often the group sleeps after that, and its leader meets a fault.
    pub naps: u64,
    pub bug: Option<Planted>,
}

impl Default for RealOptions {
    fn default() -> RealOptions {
        RealOptions { nodes: 3, spares: 0, seconds: 40, naps: 0, bug: None }
    }
}

/// One cluster's life, in this process; equal ones only in processes that have run no other.
pub fn run_here(seed: u64, options: &RealOptions) -> Result<RealReport, Broken> {
    let options = *options;
    let run = move || {
        chance::seed(seed);
        cluster::RealCluster::new(seed, options).run()
    };
    // A thread that has met no chance yet.
    let run = std::thread::spawn(run).join();
    run.unwrap_or_else(|_| {
        Err(Broken { invariant: "panic", source: "style", what: "see above".to_owned() })
    })
}
