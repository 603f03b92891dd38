//! Raft groups: what is acknowledged is on disk at a majority, and applied in one order everywhere.
//!
//! Each node runs a replica of several groups. A leader's proposals become log entries (`group`),
//! reach the followers over the peer port (`peer`), are stored and applied through two adapters to
//! `store` (`raft`), and are forgotten when every member has them (`retention`).
//!
//! openraft logs under the target `openraft` and repeats itself while a peer is down; what an operator
//! needs is said here, once, so a log filter does well with `openraft=off`.
//!
//! Invariant: nobody outside this crate meets openraft, and nothing of it is stored or sent: every
//! byte that leaves has a format of ours with a version.

mod blocking;
mod bootstrap;
mod config;
mod disk;
mod error;
mod group;
mod history;
mod liveness;
mod member;
mod metrics;
mod node;
mod observer;
mod peer;
mod raft;
mod retention;
mod runs;
mod sockets;

pub use config::{Config, Limits, Proof, Timings};
pub use disk::DiskStatus;
pub use error::{ChannelError, CutError, Error, ProposeError, TransferError};
pub use group::status::GroupStatus;
pub use history::{HistoryChunk, MessageHistory, RecordedEvent, RecordedRange};
pub use member::Wanted;
pub use metrics::{
    APPLY_ENTRIES, APPLY_SECONDS, COMMIT_SECONDS, DISK_FREE, DISK_LOW, DISK_RESERVE, ELECTIONS_WON,
    ENTRY_BYTES, FLUSHES, LEADING, REFUSED, SNAPSHOT_BYTES, SNAPSHOTS_INSTALLED, SNAPSHOTS_SENT,
    describe as describe_metrics,
};
pub use node::{Replication, ReplicationHolders};
pub use observer::{
    CertificateEnd, Clocks, FaultTally, Incoming, Leadership, LedGroup, NodeDescription, Observer,
};
pub use peer::MESSAGE_BYTES_MAX;
pub use peer::channel::{Channel, ChannelReceiver, ChannelSender, Closed};
pub use peer::connection::PeerStatus;
pub use raft::state::Changes;
pub use runs::Run;
pub use sockets::{BoxSocket, Credential, Dialler, Doorkeeper, Socket, Visitor};
pub use store::{GroupRows, rows_in};
