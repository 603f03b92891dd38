//! Tokio drivers of the engines, and [`Broker`], the one protocol-neutral API.
//!
//! A request's way: a front end calls the `broker`; the `router` finds entity, group and leader; the
//! leader is a `driver` in this process or a `link` to another node, where `serve` hands it to the
//! driver there. A driver gathers what waits (`waitlist`) into one log entry, proposes it, and gives
//! each asker its outcome; receivers (`grants`) get what the engine had acquired for them. The
//! `collector` has what nobody uses deleted, at the node that leads the catalog; there the `planner`
//! has replicas move to where they should be, and each node follows (`placing`). The
//! `timekeeper` compares the node's `clock` with its peers' and says which drivers may stamp.
//!
//! Invariant: every answer is one of three, never blurred ([`ErrorKind`]): refused, certainly not
//! done, perhaps done. A queue's requests enter the log in the order they were submitted (MSG-10).
//! There is no task per message, and every hop carries batches.

mod clock;
mod config;
mod error;
mod trace;

mod call;
mod frame;
mod reads;

mod bodies;
mod courier;
mod driver;
mod grants;
mod group;
mod pending;
mod waitlist;

mod address;
mod link;
mod router;
mod serve;
mod standing;

mod authorization;
mod broker;
mod cluster;
mod entities;
mod members;
mod receiver;
mod sender;
mod sessions;
mod status;
mod topics;
mod transaction;

mod balance;
mod collector;
mod keeper;
pub mod metric;
mod node;
mod placing;
mod planner;
mod space;
mod timekeeper;

pub use address::Asker;
pub use broker::{Broker, SEND_BYTES_MAX, draw_message_id, draw_uuid};
pub use call::Received;
pub use clock::{ClockReport, Skew};
pub use cluster::{GroupDepth, GroupHealth, Readiness};
pub use config::{ClockConfig, Config, ForwardContent, Founding, IdleConfig, ProposerConfig};
pub use entities::{Listed, PAGE_MAX, Page, QueueInfo};
pub use error::{Error, ErrorKind, Result, Unavailable, Unknown};
pub use members::Joined;
pub use node::{Node, RunningNode};
pub use receiver::{Next, ReceiveMode, Receiver, Refusals};
pub use replication::DiskStatus;
pub use sender::Sender;
pub use sessions::Accepted;
pub use status::{ClusterStatus, GroupView, NodeReport, NodeStatus, ReplicaView, Role};
pub use trace::Trace;
pub use transaction::Transaction;
