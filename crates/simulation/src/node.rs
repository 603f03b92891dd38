//! A node: what all its replicas share. Every node holds a replica of every group, under the same
//! index.

use crate::clock::Clock;

/// How a node came into its cluster, as far as its disk knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Its disk is empty, and it has met nobody yet who could tell why.
    New,
    /// It founded the cluster and has lost nothing since.
    Founder,
    /// It lost what it held.
    Returned,
}

#[derive(Clone)]
pub struct Node {
    pub up: bool,
    /// Times it was started: whoever is connected to it is told apart.
    pub starts: u64,
    pub provenance: Provenance,
    /// Part of its replicas' ids: 0 for a founder, another one after each loss of its disk.
    pub incarnation: u32,
    /// Data it cannot read: it stops at this tick, when it comes to them.
    pub damaged_at: Option<u32>,
    /// Synced data are gone, and it has not started since.
    pub is_short: bool,
    /// Not before this tick it starts again.
    pub down_until: u32,
    /// Hears nobody and is heard by none until this tick.
    pub cut_off_until: u32,
    /// Of a thousand syncs that it could do by now so many are done.
    pub disk_speed: u32,
    pub clock: Clock,
    /// Per group: whether it may stamp, and whom it would hand leadership to.
    pub may_stamp: Vec<(bool, Vec<usize>)>,
}

impl Node {
    pub fn is_reached(&self, tick: u32) -> bool {
        self.up && self.cut_off_until <= tick
    }
}
