//! A node: what all its replicas share.

use domain::Timestamp;

use crate::random::Random;

/// Every node holds a replica of every group, under the same index.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub up: bool,
    /// Its clock runs ahead of true time by this, and behind by half of `offset_ms_max` always: so
    /// that the difference of any two stays within bounds without negative numbers.
    ahead_ms: u64,
    behind_ms: u64,
}

impl Node {
    pub fn new(offset_ms_max: u64, random: &mut Random) -> Node {
        let behind_ms = offset_ms_max / 2;
        Node { up: true, ahead_ms: random.between(0, offset_ms_max), behind_ms }
    }

    /// What its clock shows.
    pub fn clock(&self, now: u64) -> Timestamp {
        Timestamp(now + self.ahead_ms - self.behind_ms)
    }
}
