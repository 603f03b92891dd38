//! Tokio drivers of the engines, and [`Broker`], the one protocol-neutral API.
//!
//! Rooms, from the lowest: what is below knows nothing of what is above.
//!
//! - `exchange`: what an edge and a group's leader say to each other, as values.
//! - `leader`: one group as the node that leads it drives it. A `driver` gathers what waits into one log
//!   entry, proposes it, and gives each requester its outcome and each receiver its messages.
//! - `peer`: other nodes. A `link` takes an edge's requests to the leader there, where the `server` hands
//!   them to its driver.
//! - `edge`: what front ends call. The `router` finds entity, group and leader, here or behind a link.
//! - `upkeep`: what a node does for the cluster without being asked.
//!
//! `node` puts them together.
//!
//! Invariant: every answer is one of three, never blurred ([`ErrorKind`]): refused, certainly not
//! done, perhaps done. A queue's requests enter the log in the order they were submitted (MSG-10).
//! There is no task per message, and every hop carries batches.

mod certificates;
mod clock;
mod config;
mod error;
mod events;
mod facts;
mod history;
pub mod metric;
mod trace;

mod exchange;
mod leader;
mod peer;

mod edge;
mod upkeep;

mod node;

pub use certificates::{CertificateEnds, certificate_trouble};
pub use clock::{ClockReport, Skew};
pub use config::{ClockConfig, Config, ForwardContent, Founding, IdleConfig, ProposerConfig};
pub use edge::{
    Accepted, Backup, BackupHeader, BackupPart, Broker, Caller, Chunk, Cluster, ClusterStatus,
    Documents, Entities, EntityKeys, Entrant, FaultRules, Faults, GroupView, Joined, KeyWatch,
    Listed, Messages, NamespaceInfo, Namespaces, Next, NodeStatus, PAGE_MAX, Page, QueueInfo,
    Queues, Reach, Readiness, ReceiveMode, Receiver, Refusals, ReplicaView, Restore, Role, Rules,
    SEND_BYTES_MAX, Sender, Sessions, Stored, Subscriptions, Topics, Transaction, Transactions,
    draw_key, draw_message_id, draw_uuid,
};
pub use error::{Error, ErrorKind, Result, Unavailable, Unknown};
pub use events::{ClusterEvent, EVENTS_KEPT_MAX, EventPage, Events};
pub use exchange::{
    EntityDepth, EntitySample, EntitySamples, GroupDepth, GroupHealth, NodeReport, Received,
    ReplicaHealth,
};
pub use facts::{NoFacts, NodeFacts, Untold};
pub use history::{Actor, recorded_event};
pub use node::{Node, NodeHolders, RunningNode};
pub use replication::{
    CertificateEnd, DiskStatus, HistoryChunk, MessageHistory, NodeDescription, PeerStatus,
};
pub use trace::Trace;
