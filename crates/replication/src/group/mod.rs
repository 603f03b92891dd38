//! One Raft group on this node: what goes in, what comes out, and who leads.

pub(crate) mod admission;
mod change;
pub(crate) mod confirmation;
pub(crate) mod election;
pub(crate) mod leadership;
pub(crate) mod lease;
pub(crate) mod membership;
pub(crate) mod propose;
pub(crate) mod read;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod succession;
pub(crate) mod transfer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::GroupId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::VoteResponse;
use parking_lot::RwLock;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::member::{self, Replicas};
use crate::peer::snapshot::Arrivals;
use crate::raft::state::Replica;
use crate::raft::{Raft, TypeConfig, Vote};
use crate::{ProposeError, Wanted};
use confirmation::Confirmation;
use election::ElectionTimer;
use lease::Lease;
use membership::MembershipState;

pub(crate) struct Group {
    pub id: GroupId,
    pub node: u64,
    /// This replica, as the group knows it.
    pub replica_id: u64,
    pub raft: Raft,
    pub replica: Arc<Replica>,
    /// Entries below this count are on disk at every member: a leader learns it from its followers
    /// and tells them, and each may forget those entries once its rows are flushed. It never falls:
    /// what every member once held, every later leader holds.
    pub held_by_all: Arc<AtomicU64>,
    pub confirmation: Confirmation,
    pub timer: ElectionTimer,
    pub lease: Lease,
    pub arrivals: Arrivals,
    /// Held while the members change, or this leader gives way for it: one change at a time.
    pub changing: Arc<Mutex<()>>,
    /// Which nodes shall hold the group; absent until somebody says so.
    pub wanted: watch::Sender<Option<Wanted>>,
    pub membership: MembershipState,
    proposals: mpsc::Sender<propose::Submission>,
    /// Bytes of proposals that may still be handed to Raft.
    budget: Arc<Semaphore>,
    reads: mpsc::Sender<oneshot::Sender<Result<(), ProposeError>>>,
}

impl Group {
    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<u64> {
        self.raft.server_metrics().borrow_watched().current_leader.map(member::node_of)
    }

    /// The members as of what is applied here: a change that is only proposed may be undone.
    pub fn replicas(&self) -> Replicas {
        self.replica.members(Replicas::of)
    }

    /// Its leader has called, and said how much of the log is on disk at every member, and how long ago it was confirmed.
    pub fn hear(&self, now: Instant, held_by_all: u64, confirmed_ms: Option<u64>) {
        self.held_by_all.fetch_max(held_by_all, Ordering::Relaxed);
        self.confirmation.hear(confirmed_ms);
        self.timer.hear(now);
    }

    /// Whether this replica follows the leader of this vote, or will once Raft hears it.
    pub fn follows(&self, leader: &Vote) -> bool {
        leader.committed && *leader >= self.raft.server_metrics().borrow_watched().vote
    }

    /// What a candidate is told that is not voted for.
    pub fn no_vote(&self) -> VoteResponse<TypeConfig> {
        let vote = self.raft.server_metrics().borrow_watched().vote;
        let last_log = self.raft.data_metrics().borrow_watched().last_log;
        VoteResponse::new(vote, last_log, false)
    }

    /// Whether nobody is voted for here, because somebody leads: this node, which a majority confirmed lately, or another.
    /// Raft knows it only of leaders that it was called by itself.
    pub fn refuses_votes(&self, now: Instant) -> bool {
        let confirmed = self.confirmation.as_leader();
        confirmed.is_some_and(|at| now.saturating_duration_since(at) < self.lease.length())
            || self.timer.is_leased(now)
    }

    /// Whether this node leads and its rows hold every entry of earlier terms.
    pub fn leads(&self) -> bool {
        self.replica.leading.load(Ordering::Acquire)
    }

    pub fn not_leader(&self) -> ProposeError {
        ProposeError::NotLeader { leader: self.leader() }
    }

    /// Why something was not taken into a queue of this group; nothing of it was done.
    fn not_queued<T>(&self, refused: &TrySendError<T>) -> ProposeError {
        match refused {
            TrySendError::Full(_) => ProposeError::Busy,
            TrySendError::Closed(_) => self.not_leader(),
        }
    }
}

/// The groups of this node.
#[derive(Clone, Default)]
pub(crate) struct Groups(Arc<RwLock<BTreeMap<GroupId, Arc<Group>>>>);

impl Groups {
    pub fn get(&self, group: GroupId) -> Option<Arc<Group>> {
        self.0.read().get(&group).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Group>> {
        self.0.read().values().cloned().collect()
    }

    pub fn insert(&self, group: Arc<Group>) {
        self.0.write().insert(group.id, group);
    }

    /// Forgets one.
    pub fn remove(&self, group: GroupId) -> Option<Arc<Group>> {
        self.0.write().remove(&group)
    }

    /// Forgets them all, so that what they hold can go.
    pub fn clear(&self) -> Vec<Arc<Group>> {
        std::mem::take(&mut *self.0.write()).into_values().collect()
    }
}
