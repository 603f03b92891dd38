//! What can go wrong, a variant per thing a caller does differently.

use domain::GroupId;
use thiserror::Error;

/// Why a node or a group did not start.
#[derive(Debug, Error)]
pub enum Error {
    #[error("cannot listen for peers on {address}: {source}")]
    Listen { address: std::net::SocketAddr, source: std::io::Error },
    #[error("cannot start the replication threads: {0}")]
    Threads(#[source] std::io::Error),
    #[error("timings or limits contradict each other: {0}")]
    Config(String),
    /// The log holds less than was once acknowledged from it. Voting on what is left could undo an
    /// acknowledged entry, so the replica stays down.
    #[error(
        "group {group}: the log ends at {last}, but entries up to {marked} were once synced; this \
         replica has lost acknowledged entries and does not start"
    )]
    LogShortened { group: GroupId, last: u64, marked: u64 },
    /// This process came later, or was silent for too long.
    #[error(
        "another process runs as node {node} already, as node {by} hears; end that one, or give this \
         one another node.id and an empty data directory"
    )]
    Taken { node: u64, by: u64 },
    /// What was promised from it is forgotten in it, or was promised to others.
    #[error(
        "node {by} refuses this node: {why}. The next start lays the data aside, in 'damaged/', and the node is \
         rebuilt from its peers"
    )]
    Outdated { by: u64, why: String },
    /// Which of both is right a person knows.
    #[error(
        "node {by} is of a cluster of this id that was founded another time than the one node {node} has the data of; \
         if all disks were lost meanwhile, give node {node} an empty data directory"
    )]
    FoundedApart { node: u64, by: u64 },
    #[error(
        "node {node} was removed from the cluster; its data directory is of no use any more. To add this \
         machine again, start it with --join, another node.id and an empty data directory"
    )]
    Removed { node: u64 },
    #[error(transparent)]
    Data(#[from] store::Error),
    #[error("group {group} runs already")]
    AlreadyRunning { group: GroupId },
    #[error("node {node} is not among the members of group {group}")]
    NotAMember { group: GroupId, node: u64 },
    #[error("group {group}: {reason}")]
    Storage { group: GroupId, reason: String },
    #[error("replication has been shut down")]
    Stopped,
}

/// Why a proposal or a read index has no result. The variant says whether a retry may repeat it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProposeError {
    /// Certainly not done: nothing was appended.
    #[error("not the leader; the leader is {leader:?}")]
    NotLeader { leader: Option<u64> },
    /// Certainly not done: as many wait before it as may.
    #[error("too many proposals of the group wait on this node")]
    Busy,
    /// Perhaps done: it was appended, and whether it was or will be committed is not known here.
    #[error("leadership or the node was lost after the entry was appended")]
    Unknown,
}

/// Why there are no rows of a cut.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CutError {
    /// It was not announced here, or nobody has asked for it in a while, or this process has started since.
    #[error("nothing is held of that cut")]
    Unknown,
    /// It was not applied here yet.
    #[error("the cut has not come by here yet")]
    NotYet,
    #[error("as many backups are under way as may be")]
    Busy,
    #[error("the rows cannot be read: {0}")]
    Failed(String),
}

/// Why leadership stayed where it was.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TransferError {
    #[error("not the leader; the leader is {leader:?}")]
    NotLeader { leader: Option<u64> },
    #[error("node {node} has no vote in the group")]
    NotAVoter { node: u64 },
    #[error("node {node} is unreachable or too far behind")]
    NotReady { node: u64 },
    #[error("node {node} did not take over in time")]
    TimedOut { node: u64 },
}

/// Why a peer was not reached.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChannelError {
    #[error("node {node} has no known address")]
    UnknownNode { node: u64 },
    #[error("node {node} is unreachable: {reason}")]
    Unreachable { node: u64, reason: String },
    #[error("node {node} refuses: {reason}")]
    Refused { node: u64, reason: String },
}
