//! All that is known of a run when it is over: what the checks judge.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Answer, Delivered, Entities, Entity, History};

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

/// The loss of all disks, after which a backup was restored. Of the experiment's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// When the backup that was restored was asked for: what was acknowledged before is in it.
    pub backup_begun_ms: u64,
    /// When nodes were killed that never came back.
    pub lost_ms: u64,
    /// When the restored cluster was there.
    pub restored_ms: u64,
}

/// A run that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub entities: Entities,
    pub history: History,
    pub end: End,
    /// Nodes that clients are connected to may have ended from the first instant of each to the second, of
    /// the experiment's clock.
    #[serde(default)]
    pub node_ends_ms: Vec<(u64, u64)>,
    /// Its nodes began as another release, to which a deferral may not have been a failed delivery (DEFER-7).
    #[serde(default)]
    pub of_two_releases: bool,
    #[serde(default)]
    pub restored: Option<Restored>,
    /// How far the broker's time and the experiment's may be apart (`clock.offset_max`).
    pub tolerance_ms: u64,
}

impl Run {
    /// LOCK-28: when what clients of an entity took under a lock at an instant of the broker's clock may have
    /// been given back at the earliest, because a node ended; `u64::MAX` if none did.
    pub fn given_back_ms(&self, entity: &Entity, taken_ms: u64) -> u64 {
        if !entity.hangs_on_connections {
            return u64::MAX;
        }
        let taken_ms = taken_ms.saturating_sub(self.tolerance_ms);
        let ends = self.node_ends_ms.iter().filter(|(_, until_ms)| *until_ms >= taken_ms);
        let first_ms = ends.map(|(from_ms, _)| (*from_ms).max(taken_ms)).min();
        first_ms.map_or(u64::MAX, |first_ms| first_ms.saturating_sub(self.tolerance_ms))
    }
}

impl Restored {
    /// A history as the restored cluster has it: nobody knows which of the deeds since the backup began are in it, and
    /// what was handed out since is held by nobody.
    pub fn known_of(self, run: &mut Run) {
        let Restored { backup_begun_ms, lost_ms, restored_ms } = self;
        for call in &mut run.history.calls {
            let meanwhile = call.answered_ms >= backup_begun_ms && call.asked_ms < restored_ms;
            if meanwhile && call.answer == Answer::Done {
                call.answer = Answer::Perhaps;
            }
        }
        let entities = &run.entities;
        let is_forgotten = |it: &Delivered| {
            let lock_ms = entities.get(&it.entity).map_or(0, |entity| entity.lock_ms);
            // What a client had fetched ahead may be recorded later.
            let taken_ms = it.locked_until_ms.saturating_sub(lock_ms).min(it.at_ms);
            it.at_ms >= backup_begun_ms && taken_ms < lost_ms + run.tolerance_ms
        };
        run.history.deliveries.retain(|it| !is_forgotten(it));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: when nodes ended, when a lock was taken, and from when on it may have been given back.
    #[test]
    fn lock_28_a_lock_may_be_given_back_from_a_nodes_end_on() {
        let entity = Entity { hangs_on_connections: true, ..Entity::queue("q") };
        for (node_ends_ms, taken_ms, given_back_ms) in [
            (&[][..], 5_000, u64::MAX),
            (&[(6_000, 8_000)], 5_000, 5_900),
            (&[(6_000, 8_000)], 7_000, 6_800),
            (&[(6_000, 8_000)], 8_200, u64::MAX),
            (&[(9_000, 9_500), (6_000, 8_000)], 5_000, 5_900),
            (&[(9_000, 9_500), (6_000, 8_000)], 8_200, 8_900),
        ] {
            let node_ends_ms = node_ends_ms.to_vec();
            let run = Run { node_ends_ms, tolerance_ms: 100, ..Run::default() };
            assert_eq!(run.given_back_ms(&entity, taken_ms), given_back_ms, "{taken_ms}");
            assert_eq!(run.given_back_ms(&Entity::queue("q"), taken_ms), u64::MAX);
        }
    }
}
