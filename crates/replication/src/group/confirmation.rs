//! When a majority last confirmed who leads. A leader knows it from the answers to what it sends, and
//! says so along with it; a follower knows what its leader says. Neither the vote a node remembers nor a
//! leader that still calls tells it: the one may be dead, the other alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openraft::Instant as _;
use openraft::RaftMetrics;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::type_config::alias::WatchReceiverOf;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::raft::{Membership, Raft, TypeConfig, Vote};

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
    /// Of heartbeats that Raft does not know of.
    acks: Mutex<Acks>,
}

/// When the members last answered one leader, by when it had called them.
#[derive(Default)]
struct Acks {
    /// Which leadership, and when it was first looked at.
    of: Option<(Vote, Instant)>,
    at: BTreeMap<u64, Instant>,
    /// It leaves the group to others, for good: Raft proposes nothing any more, and calls nobody.
    gives_way: bool,
}

impl Acks {
    fn begin(&mut self, vote: Vote, now: Instant) {
        if self.begun(&vote).is_none() {
            *self = Acks { of: Some((vote, now)), ..Acks::default() };
        }
    }

    fn begun(&self, vote: &Vote) -> Option<Instant> {
        self.of.and_then(|(of, begun)| (of == *vote).then_some(begun))
    }

    fn of(&self, vote: &Vote) -> Option<&BTreeMap<u64, Instant>> {
        self.begun(vote).map(|_| &self.at)
    }
}

/// A leader that no majority answers is silent for so many of its leases, and then calls for as many (CheckQuorum): it
/// may still be heard, which would keep the others from electing one that is answered.
const SILENT_LEASES: u32 = 3;

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

    /// This node leads by a vote, since then at the latest.
    pub fn begin(&self, vote: Vote, now: Instant) {
        self.0.acks.lock().begin(vote, now);
    }

    /// This leader has been told to leave the group to another. Should that fail, any voter may lead after an election
    /// timeout, so it keeps nobody from it.
    pub fn give_way(&self, vote: Vote) {
        let mut acks = self.0.acks.lock();
        acks.begin(vote, Instant::now());
        acks.gives_way = true;
    }

    /// A replica follows the leader of this vote, which had called it at that time.
    pub fn acknowledge(&self, vote: Vote, replica: u64, called: Instant) {
        let mut acks = self.0.acks.lock();
        if acks.begun(&vote).is_some() {
            let last = acks.at.entry(replica).or_insert(called);
            *last = called.max(*last);
        }
    }

    /// When a replica is known to have followed this leader, by heartbeats that Raft does not know of.
    pub fn acknowledged(&self, vote: &Vote, replica: u64) -> Option<Instant> {
        self.0.acks.lock().of(vote)?.get(&replica).copied()
    }

    /// When a majority last confirmed this node as the leader; `None` while it does not lead.
    pub fn as_leader(&self) -> Option<Instant> {
        let metrics = self.0.metrics.get()?.borrow_watched();
        if !metrics.state.is_leader() {
            return None;
        }
        self.confirmed(&metrics)
    }

    /// For how long no majority has answered this leader, or since it leads if none has; `None` while this node does not
    /// lead.
    pub fn unanswered_for(&self) -> Option<Duration> {
        let metrics = self.0.metrics.get()?.borrow_watched();
        if !metrics.state.is_leader() {
            return None;
        }
        let at = self.confirmed(&metrics).or_else(|| self.0.acks.lock().begun(&metrics.vote));
        Some(at.map_or(Duration::ZERO, |at| at.elapsed()))
    }

    /// Whether this node, where it leads, calls the others: a leader that is not answered does not always, and one that
    /// gives way does not at all.
    pub fn may_call(&self, lease: Duration) -> bool {
        if self.gives_way() {
            return false;
        }
        let unanswered = self.unanswered_for().unwrap_or_default();
        let Some(beyond) = unanswered.checked_sub(lease) else { return true };
        let silence = lease * SILENT_LEASES;
        (beyond.as_nanos() / silence.as_nanos().max(1)) % 2 == 1
    }

    fn gives_way(&self) -> bool {
        let Some(metrics) = self.0.metrics.get() else { return false };
        let vote = metrics.borrow_watched().vote;
        let acks = self.0.acks.lock();
        acks.gives_way && acks.begun(&vote).is_some()
    }

    fn confirmed(&self, metrics: &RaftMetrics<TypeConfig>) -> Option<Instant> {
        let mut voters = metrics.membership_config.membership().voter_ids();
        let alone = voters.next() == Some(metrics.id) && voters.next().is_none();
        if alone {
            return Some(Instant::now());
        }
        let by_raft =
            metrics.last_quorum_acked.and_then(|at| Instant::now().checked_sub(at.elapsed()));
        let acks = self.0.acks.lock();
        let by_node = acks
            .of(&metrics.vote)
            .and_then(|acks| confirmed(metrics.membership_config.membership(), metrics.id, acks));
        by_raft.max(by_node)
    }
}

/// Since when a majority of each voter set has answered. The leader, if it votes, always has.
fn confirmed(
    membership: &Membership,
    leader: u64,
    acks: &BTreeMap<u64, Instant>,
) -> Option<Instant> {
    let of_set = |set: &BTreeSet<u64>| {
        let mut others: Vec<Instant> =
            set.iter().filter(|id| **id != leader).filter_map(|id| acks.get(id)).copied().collect();
        others.sort_unstable();
        let needed = set.len() / 2 + 1 - usize::from(set.contains(&leader));
        match needed {
            0 => None,
            needed => Some(others.iter().rev().nth(needed - 1).copied()),
        }
    };
    let sets = membership.get_joint_config().iter().filter_map(of_set);
    // A set that has not answered is before all.
    sets.min().flatten()
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

    #[test]
    fn a_majority_of_each_voter_set_confirms_and_the_leader_counts_where_it_votes() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        // Voter sets; who answered when; since when a majority did. Replica 1 leads.
        for (sets, acks, confirmed_ms) in [
            (&[&[1, 2, 3][..]][..], &[][..], None),
            (&[&[1, 2, 3]], &[(2, 5)], Some(5)),
            (&[&[1, 2, 3]], &[(2, 5), (3, 7)], Some(7)),
            (&[&[1, 2, 3, 4, 5]], &[(2, 5)], None),
            (&[&[1, 2, 3, 4, 5]], &[(2, 5), (3, 7), (4, 9)], Some(7)),
            (&[&[2, 3, 4]], &[(2, 5)], None),
            (&[&[2, 3, 4]], &[(2, 5), (3, 7)], Some(5)),
            (&[&[1, 2, 3], &[1, 4, 5]], &[(2, 5)], None),
            (&[&[1, 2, 3], &[1, 4, 5]], &[(2, 5), (4, 3)], Some(3)),
            (&[&[1], &[1, 2, 3]], &[(2, 5)], Some(5)),
            (&[&[1], &[1, 2, 3]], &[], None),
            (&[&[1, 2]], &[(3, 5)], None),
        ] {
            let configs = sets.iter().map(|set| set.iter().copied().collect()).collect();
            let membership = Membership::new_with_defaults(configs, []);
            let acks = acks.iter().map(|(id, ms)| (*id, at(*ms))).collect();
            let found = confirmed(&membership, 1, &acks);
            assert_eq!(found, confirmed_ms.map(at), "{sets:?} {acks:?}");
        }
    }

    #[test]
    fn answers_to_a_former_leadership_count_for_nothing() {
        let (first, second) = (Vote::new_committed(4, 1), Vote::new_committed(6, 1));
        let confirmation = Confirmation::default();
        let now = Instant::now();
        confirmation.acknowledge(first, 2, now);
        assert_eq!(confirmation.acknowledged(&first, 2), None, "it has not begun");
        confirmation.begin(first, now);
        confirmation.acknowledge(first, 2, now);
        assert_eq!(confirmation.acknowledged(&first, 2), Some(now));
        assert_eq!(confirmation.acknowledged(&second, 2), None);
        confirmation.begin(second, now);
        confirmation.acknowledge(first, 2, now);
        confirmation.acknowledge(second, 3, now);
        confirmation.begin(second, now);
        assert_eq!(confirmation.acknowledged(&second, 2), None);
        assert_eq!(confirmation.acknowledged(&second, 3), Some(now));
    }
}
