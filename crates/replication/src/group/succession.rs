//! Succession that does not wait for silence: of a leader whose process is gone, for certain; and of one that hears
//! no majority, but may still be heard. Of all others Raft's timers decide.

use std::sync::Arc;
use std::time::Duration;

use domain::GroupId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::election::{ElectionTimer, turn};
use super::lease::Lease;
use crate::member;
use crate::raft::{Raft, Vote};
use crate::runs::Runs;

/// Until the other survivors have found out as well: before, they would not vote.
const OTHERS_KNOW: Duration = Duration::from_millis(60);
/// One survivor after the other asks for votes, so that they do not take them from each other.
const STAGGER: Duration = Duration::from_millis(120);
/// Each asks this often. After that silence decides.
const ROUNDS: u32 = 2;
/// A leader that hears no majority looks again so often, this far apart, whether that is so: it may have stood
/// still itself.
const LOOKS: u32 = 2;
const LOOK_EVERY: Duration = Duration::from_millis(80);

/// One replica's part in it.
#[derive(Clone)]
pub(crate) struct Succession {
    pub group: GroupId,
    /// The replica's.
    pub id: u64,
    pub raft: Raft,
    pub runs: Arc<Runs>,
    pub timer: ElectionTimer,
    pub lease: Lease,
}

impl Succession {
    /// Until Raft stops.
    pub async fn run(self) {
        let leading = self.clone();
        tokio::join!(self.follow(), leading.lead());
    }

    /// Sees to it that a leader whose process has ended is replaced.
    async fn follow(self) {
        let mut changes = self.runs.changes();
        let mut server = self.raft.server_metrics();
        let mut seen = None;
        loop {
            if let Some((vote, leader)) = self.led_by()
                && self.runs.is_absent(member::node_of(leader))
                && seen.replace(vote) != Some(vote)
            {
                self.replace(vote, leader).await;
            }
            tokio::select! {
                changed = server.changed() => if changed.is_err() { return },
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Under which vote another replica leads this one, which may succeed it.
    fn led_by(&self) -> Option<(Vote, u64)> {
        let server = self.raft.server_metrics();
        let server = server.borrow_watched();
        let leader = server.current_leader.filter(|leader| *leader != self.id)?;
        let is_voter = server.membership_config.voter_ids().any(|voter| voter == self.id);
        is_voter.then_some((server.vote, leader))
    }

    /// Asks for votes in turn with the other survivors. They have found out by themselves: nobody votes against a
    /// leader that he has heard lately.
    async fn replace(&self, vote: Vote, leader: u64) {
        let group = self.group;
        let turn = {
            let server = self.raft.server_metrics();
            let server = server.borrow_watched();
            let survivors: Vec<u64> =
                server.membership_config.voter_ids().filter(|voter| *voter != leader).collect();
            turn(group, &survivors, self.id)
        };
        // It is named as its own successor: so that its lease ends here, and nobody leads yet.
        let released = TransferLeaderRequest::new(vote, leader, None);
        if self.raft.handle_transfer_leader(released).await.is_err() {
            return;
        }
        self.timer.release(Instant::now());
        info!(%group, leader = member::node_of(leader), "the leader's process is gone; others vote");
        let mut wait = OTHERS_KNOW + STAGGER * turn.place;
        for _ in 0..ROUNDS {
            let mut server = self.raft.server_metrics();
            let voted = async {
                while server.borrow_watched().vote == vote {
                    if server.changed().await.is_err() {
                        return;
                    }
                }
            };
            if timeout(wait, voted).await.is_ok() || self.raft.trigger().elect(true).await.is_err()
            {
                return;
            }
            wait = STAGGER * turn.of;
        }
    }

    /// Gives way once no majority is heard. Its heartbeats may still reach the others, and would keep them from electing
    /// one that is answered; what it says last reaches them too.
    async fn lead(self) {
        let mut server = self.raft.server_metrics();
        loop {
            while !server.borrow_watched().state.is_leader() {
                if server.changed().await.is_err() {
                    return;
                }
            }
            let vote = server.borrow_watched().vote;
            if self.is_unheard_in_the_end().await
                && let Some(heir) = self.heir()
            {
                let (group, heir_node) = (self.group, member::node_of(heir));
                warn!(%group, heir = heir_node, "no majority answers; the group is left to others");
                if self.lease.give_way(heir).await.is_err() {
                    return;
                }
            }
            while server.borrow_watched().vote == vote {
                if server.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Waits until this replica leads no more, or has heard no majority for a lease's time, looked at more than once;
    /// whether it is that.
    async fn is_unheard_in_the_end(&self) -> bool {
        let mut silent = 0;
        let mut looked_at = Instant::now();
        while let Some(age) = self.unheard_for() {
            // Whoever stood still did not hear, and was not answered for that.
            let stood_still = silent > 0 && looked_at.elapsed() > LOOK_EVERY * 2;
            let left = self.lease.length().checked_sub(age);
            silent = if left.is_some() || stood_still { 0 } else { silent + 1 };
            if silent > LOOKS {
                return true;
            }
            looked_at = Instant::now();
            sleep(left.unwrap_or_default() + LOOK_EVERY).await;
        }
        false
    }

    /// How long ago a majority last answered this leader; a group of one always does, and of a fresh leader others
    /// decide. Absent: it leads no more.
    fn unheard_for(&self) -> Option<Duration> {
        if !self.raft.server_metrics().borrow_watched().state.is_leader()
            || self.raft.metrics().borrow_watched().running_state.is_err()
        {
            return None;
        }
        let confirmed = self.lease.confirmation.as_leader();
        Some(confirmed.map_or(Duration::ZERO, |at| at.elapsed()))
    }

    /// The other voter that has most of the log, as far as is known.
    fn heir(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let replication = metrics.replication.as_ref();
        let matched = |voter: &u64| replication.and_then(|it| it.get(voter).copied()).flatten();
        metrics
            .membership_config
            .voter_ids()
            .filter(|voter| *voter != self.id)
            .max_by_key(|voter| matched(voter).map(|log_id| log_id.index))
    }
}
