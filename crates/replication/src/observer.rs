//! What the layer above hears.

use domain::{Effect, ShardId};

use crate::Channel;

/// Hears what groups do. Called on replication's threads, so it hands over and returns.
pub trait Observer: Send + Sync + 'static {
    /// Effects of entries just applied, in order, while this node leads the group. Rows written
    /// before [`Leadership::Leader`] is announced may have had effects nobody heard; a scan of the
    /// rows after it finds them, and every later effect is heard.
    fn applied(&self, shard: ShardId, effects: Vec<Effect>);

    fn leadership(&self, shard: ShardId, leadership: Leadership);
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

/// Takes the channels that peers open.
pub trait Incoming: Send + Sync + 'static {
    /// Called on replication's threads: spawn what serves the channel, and return.
    fn accept(&self, from: u64, channel: Channel);
}
