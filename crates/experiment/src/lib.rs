//! Experiments with programs: somebody's own consumers and producers are run against a cluster that is hurt, and what
//! became of their messages is read from the broker's own record.
//!
//! Invariants: a verdict rests on what the broker recorded, never on what a program says of itself; the same file and
//! seed give the same faults at the same times; every program that was started has ended, with all it started in its
//! group, when a run is over or dropped.
//!
//! Reading order: the file and what it comes to; lives of messages, put together from the record; what has to hold, and
//! whether it does; programs, input, the cluster; the run; the report.

mod error;

mod file;
mod plan;

mod lives;
mod timeline;

mod checks;

mod program;

mod entrance;
mod feed;
mod flag;
mod recorder;
mod rules;
mod stage;

mod report;
mod run;

pub use error::Error;
pub use file::{ExperimentFile, FileFault};
pub use lives::{Life, Lives};
pub use report::{Report, Verdict};
pub use run::ExperimentRun;
pub use stage::{Stage, Target, Tell};
