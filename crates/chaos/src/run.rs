//! All that is known of a run when it is over: what the checks judge.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Entities, History};

/// A message found in an entity at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resting {
    /// In the dead-letter queue.
    pub dead: bool,
    /// DEFER-1.
    pub deferred: bool,
    pub id: String,
    pub number: u64,
    /// Failed deliveries (LOCK-19).
    pub count: u32,
    pub expires_ms: Option<u64>,
    pub reason: Option<String>,
}

/// COUNT-5, of a queue or a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub accepted: u64,
    pub active: u64,
    pub scheduled: u64,
    pub deferred: u64,
    pub dead_lettered: u64,
    pub transfer: u64,
    pub completed: u64,
    pub cancelled: u64,
    pub expired_dropped: u64,
    pub deleted: u64,
    pub forwarded: u64,
}

/// An entity at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Absent: there is no such entity any more.
    pub counters: Option<Counters>,
    pub resting: Vec<Resting>,
    /// What each node's own rows of it say, by node.
    pub digests: BTreeMap<u64, u64>,
}

/// The cluster after healing and draining.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Of the experiment's clock.
    pub at_ms: u64,
    pub entities: BTreeMap<String, Found>,
}

/// A run that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub entities: Entities,
    pub history: History,
    pub end: End,
    /// How far the broker's time and the experiment's may be apart (`clock.offset_max`).
    pub tolerance_ms: u64,
}
