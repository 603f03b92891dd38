//! What metrics tell of entities.

use domain::{Counts, Tally};

/// What an entity of a group led here has now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityDepth {
    /// Of a subscription, its path.
    pub name: String,
    pub counts: Counts,
    /// Body and property bytes.
    pub size_bytes: u64,
    /// How long ago the message was enqueued that a receiver would get first; none where there is none, nor where
    /// messages are received by session.
    pub oldest_ms: Option<u64>,
    /// Receivers that are attached.
    pub consumers: u64,
}

impl EntityDepth {
    /// Of several together there is no oldest message.
    pub(crate) fn add(&mut self, other: &EntityDepth) {
        let Counts { active, scheduled, deferred, dead_lettered, .. } = other.counts;
        self.counts.active += active;
        self.counts.scheduled += scheduled;
        self.counts.deferred += deferred;
        self.counts.dead_lettered += dead_lettered;
        self.counts.transfer += other.counts.transfer;
        self.counts.transfer_dead_lettered += other.counts.transfer_dead_lettered;
        self.size_bytes += other.size_bytes;
        self.consumers += other.consumers;
    }
}

/// One entity that has metrics of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct EntitySample {
    pub name: String,
    /// What entries did that this node proposed since its process started.
    pub tally: Tally,
    /// While this node leads its group.
    pub depth: Option<EntityDepth>,
}

/// All that a node tells of entities.
#[derive(Clone, Debug, PartialEq)]
pub struct EntitySamples {
    pub own: Vec<EntitySample>,
    /// Of all that have none of their own, together.
    pub others: (Tally, EntityDepth),
    /// Of those that had, and were deleted or moved away.
    pub gone: Tally,
    /// Of all that ever were.
    pub total: Tally,
}
