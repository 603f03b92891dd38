//! When a majority last confirmed who leads. A leader knows it from the answers to what it sends, and
//! says so along with it; a follower knows what its leader says. Neither the vote a node remembers nor a
//! leader that still calls tells it: the one may be dead, the other alone.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openraft::Instant as _;
use openraft::RaftMetrics;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::type_config::alias::WatchReceiverOf;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::raft::{Raft, TypeConfig};

/// What a leader tells its followers before a majority has confirmed it.
const NEVER_MS: u64 = u64::MAX;

/// Of one replica, shared by what calls for it and what is called.
#[derive(Clone, Default)]
pub(crate) struct Confirmation(Arc<State>);

#[derive(Default)]
struct State {
    /// Set once Raft runs. Not a handle to it: what it owns has this.
    metrics: OnceLock<WatchReceiverOf<TypeConfig, RaftMetrics<TypeConfig>>>,
    /// By a leader's word, while this replica followed it.
    told: Mutex<Option<Instant>>,
}

impl Confirmation {
    pub fn watch(&self, raft: &Raft) {
        drop(self.0.metrics.set(raft.metrics())); // Told once, where the group starts.
    }

    /// When a majority last confirmed the leader, this node or another; absent if it never did while
    /// this replica ran.
    pub fn at(&self) -> Option<Instant> {
        self.as_leader().max(*self.0.told.lock())
    }

    /// What this node says as the leader, in milliseconds.
    pub fn word_ms(&self) -> u64 {
        self.as_leader().map_or(NEVER_MS, |at| at.elapsed().as_millis() as u64)
    }

    /// A leader says how long ago it was confirmed. One whose version does not say is taken to be.
    pub fn hear(&self, word_ms: Option<u64>) {
        self.hear_at(word_ms, Instant::now());
    }

    fn hear_at(&self, word_ms: Option<u64>, now: Instant) {
        let at = match word_ms {
            None => Some(now),
            Some(NEVER_MS) => None,
            Some(ms) => now.checked_sub(Duration::from_millis(ms)),
        };
        let mut told = self.0.told.lock();
        *told = at.max(*told);
    }

    /// When a majority last confirmed this node as the leader; `None` while it does not lead.
    pub fn as_leader(&self) -> Option<Instant> {
        let metrics = self.0.metrics.get()?.borrow_watched();
        if !metrics.state.is_leader() {
            return None;
        }
        let mut voters = metrics.membership_config.membership().voter_ids();
        let alone = voters.next() == Some(metrics.id) && voters.next().is_none();
        match alone {
            true => Some(Instant::now()),
            false => Instant::now().checked_sub(metrics.last_quorum_acked?.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_was_never_confirmed_confirms_nothing_and_the_latest_word_counts() {
        let (confirmation, begun) = (Confirmation::default(), Instant::now());
        assert_eq!(confirmation.word_ms(), NEVER_MS, "nobody leads here");
        let now = begun + Duration::from_secs(9);
        for (word_ms, at_ms) in [
            (Some(NEVER_MS), None),
            (Some(9_000), Some(0)),
            (Some(200), Some(8_800)),
            (Some(5_000), Some(8_800)),
            (Some(NEVER_MS), Some(8_800)),
            (None, Some(9_000)),
        ] {
            confirmation.hear_at(word_ms, now);
            let at = at_ms.map(|ms| begun + Duration::from_millis(ms));
            assert_eq!(confirmation.at(), at, "{word_ms:?}");
        }
    }
}
