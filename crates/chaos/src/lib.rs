//! Fault experiments: a cluster of real processes that is hurt while it works, and a checker that holds
//! what clients were told against what is there at the end.
//!
//! Invariants: only processes that were started here, or by agents that were asked, are ever touched; the checker complains only where
//! no correct broker could have caused what was seen; the same seed gives the same plan and the same
//! choices of every client.
//!
//! Reading order: what is known of a run ([`Entity`], [`History`], [`Run`]) and the checks of it; then
//! what makes a run: links, processes, agents on other machines, clusters, plans and faults, workloads; then the experiment, and
//! what is told of it.

mod clock;
mod entity;
mod error;
mod history;
mod run;

mod check;

mod proxy;

mod process;

mod api;

mod agent;

mod cluster;

mod faults;
mod plan;

mod observe;
mod workloads;

mod experiment;
mod report;
mod timeline;
mod watcher;

pub use agent::{Agent, AgentEnd, NodeNumber};
pub use check::{Promise, Violation, check};
pub use clock::Clock;
pub use cluster::{AmqpEntries, AmqpLogin, Cluster, Settings, SmallDisk, free_ports};
pub use entity::{Entities, Entity, Kind};
pub use error::Error;
pub use experiment::{Experiment, Target, Tell};
pub use faults::{Happened, carry_out, watch_while};
pub use history::{Answer, Call, Delivered, Held, History, How, Open, Recorder, Sent, Token, What};
pub use plan::{Direction, Draw, FaultKind, Others, Planned, Victim, parse_schedule, upgrades};
pub use report::Report;
pub use run::{Counters, End, Found, Resting, Restored, Run};
pub use workloads::Workload;
