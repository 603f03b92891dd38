//! The cluster's feature level, as this node last heard of it: what leaders here may write into logs.

use std::sync::atomic::{AtomicU32, Ordering};

/// It never falls; 0 until this node knows the cluster.
#[derive(Debug, Default)]
pub(crate) struct FeatureLevel(AtomicU32);

impl FeatureLevel {
    pub fn heard(&self, level: u32) {
        self.0.fetch_max(level, Ordering::Relaxed);
    }

    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
