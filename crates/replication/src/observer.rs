//! What the layer above hears.

use bytes::Bytes;
use domain::{Effect, EntityId, GroupId, Tally, TracedStep};

use crate::Channel;

/// Hears what groups do. Called on replication's threads, so it hands over and returns.
pub trait Observer: Send + Sync + 'static {
    /// Effects of entries just applied, in order, while this node leads the group. Rows written
    /// before [`Leadership::Leader`] is announced may have had effects nobody heard; a scan of the
    /// rows after it finds them, and every later effect is heard.
    fn applied(&self, group: GroupId, effects: Vec<Effect>);

    /// What entries that this node proposed did in entities, for metrics; by default nobody counts it.
    fn tallied(&self, group: GroupId, tallies: Vec<(EntityId, Tally)>) {
        drop((group, tallies));
    }

    /// What entries that this node proposed did to messages whose senders are traced, in order; by default nobody
    /// tells it.
    fn traced(&self, steps: Vec<TracedStep>) {
        drop(steps);
    }

    fn leadership(&self, group: GroupId, leadership: Leadership);
}

/// Who leads a group, as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This node. Every entry of earlier terms is applied here.
    Leader {
        term: u64,
    },
    Follower {
        leader: Option<u64>,
    },
}

/// What a node's clocks show, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The time of day.
    pub wall_us: i64,
    /// What the node stamps with when it leads.
    pub clock_us: i64,
}

/// What a node is, as it tells itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDescription {
    /// Of its binary.
    pub version: String,
    /// Up to which it understands what others write into logs.
    pub feature_level: u32,
    /// The cluster's feature level as it goes by it: what its leaders write into logs. 0: it does not know the cluster
    /// yet, or is of a version that does not tell.
    pub feature_level_reached: u32,
    /// Since its process started.
    pub up_ms: u64,
    pub certificates: Vec<CertificateEnd>,
    /// Of the groups it leads.
    pub led: Vec<LedGroup>,
    /// Where it stands, as its operator calls it: what it may be lost together with. Absent where
    /// it was not told.
    pub zone: Option<String>,
    /// What came of each fault rule that it goes by.
    pub faults: Vec<FaultTally>,
    /// Clients' connections to it. Absent where it was not told.
    pub connections: Option<u64>,
}

/// What came of a fault rule at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultTally {
    pub name: String,
    /// The rule's, by the cluster's clock: by it, it is told from an earlier one of its name.
    pub added_at_ms: u64,
    /// At its place and in its time.
    pub events: u64,
    pub hits: u64,
}

/// Until when a certificate of a node counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateEnd {
    /// "peers" or "clients".
    pub shown_to: String,
    /// Seconds since the Unix epoch.
    pub at_s: i64,
}

/// A leadership, by whoever has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedGroup {
    pub group: GroupId,
    pub term: u64,
    pub led_ms: u64,
}

/// Answers peers for the layer above.
pub trait Incoming: Send + Sync + 'static {
    /// Takes a channel that a peer opened. Called on replication's threads: spawn what serves the
    /// channel, and return.
    fn accept(&self, from: u64, channel: Channel);

    /// What this node's clocks show now.
    fn clocks(&self) -> Clocks;

    /// What this node is.
    fn describe(&self) -> NodeDescription;

    /// What the layer above tells operators, by the name of the question; `None`: it does not know that. By default
    /// it knows none. Called where a thread may be held up for moments.
    fn answer(&self, question: &str, asked: Bytes) -> Option<Bytes> {
        drop((question.len(), asked));
        None
    }
}
