//! A replica's membership in its group, from its own side. While it has none, because it is new here or
//! lost what it held, it asks the leader for one; and once it is not wanted any more it asks until it
//! is told that the group goes on without it. Only then may it be forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::GroupId;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

use super::election::ElectionTimer;
use crate::Wanted;
use crate::member::node_of;
use crate::peer::connection::Peers;
use crate::peer::v1;
use crate::peer::v1::admit_reply::Answer;
use crate::raft::Raft;

const ASK_EVERY: Duration = Duration::from_millis(200);
/// After an answer that leaves nothing to ask for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A leader answers at once, but for the moment in which it takes the replica in.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long there may be no leader to ask before an operator hears of it.
const LEADERLESS_MAX: Duration = Duration::from_secs(5);
/// A replica that no leader called for this long may have lost its place while it was away.
const UNHEARD_MAX: Duration = Duration::from_secs(5);

/// What the task and the group share.
#[derive(Clone)]
pub(crate) struct MembershipState {
    /// The group goes on without this replica.
    pub out: Arc<AtomicBool>,
}

impl MembershipState {
    pub fn new() -> MembershipState {
        MembershipState { out: Arc::default() }
    }
}

pub(crate) struct MembershipTask {
    pub group: GroupId,
    pub id: u64,
    pub raft: Raft,
    pub peers: Arc<Peers>,
    pub wanted: watch::Receiver<Option<Wanted>>,
    pub membership: MembershipState,
    pub timer: ElectionTimer,
}

impl MembershipTask {
    pub async fn run(self) {
        let (group, id) = (self.group, self.id);
        let (mut server, mut wanted) = (self.raft.server_metrics(), self.wanted.clone());
        let (mut asks, mut led_at, mut told) = (false, Instant::now(), false);
        let asks_back = id != node_of(id);
        while self.raft.metrics().borrow_watched().running_state.is_ok() {
            if self.is_settled() {
                if std::mem::take(&mut asks) {
                    info!(%group, id, "this replica is a full member");
                }
                (led_at, told) = (Instant::now(), false);
                // Nothing is missed: what came since it was last waited for is told at once.
                tokio::select! {
                    changed = server.changed() => if changed.is_err() { return },
                    changed = wanted.changed() => if changed.is_err() { return },
                    () = self.silence() => (),
                }
                continue;
            }
            // Known before it is asked: whoever is wanted may be taken in by the answer.
            let unwanted = self.is_unwanted();
            self.membership.out.fetch_and(unwanted, Ordering::AcqRel);
            match self.ask().await {
                Answer::Admitted => sleep(LOOK_EVERY).await,
                Answer::Stranger => {
                    self.membership.out.store(unwanted, Ordering::Release);
                    sleep(LOOK_EVERY).await;
                }
                Answer::Learner => {
                    if !std::mem::replace(&mut asks, true) {
                        info!(%group, id, "this replica is rebuilt by its peers");
                    }
                    (led_at, told) = (Instant::now(), false);
                }
                Answer::NotLeader if asks_back && led_at.elapsed() > LEADERLESS_MAX && !told => {
                    warn!(
                        %group,
                        "this replica cannot be rebuilt: the group has no leader, and none can be chosen \
                         before a majority of its other replicas is back"
                    );
                    told = true;
                }
                Answer::NotLeader => (),
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Whether there is nothing to ask for: it votes, is wanted, and hears from a leader.
    fn is_settled(&self) -> bool {
        let heard = self.leads() || self.timer.heard().elapsed() < UNHEARD_MAX;
        heard && self.votes() && !self.is_unwanted()
    }

    /// Waits until no leader was heard for long, as far as is known now.
    async fn silence(&self) {
        match self.leads() {
            true => std::future::pending().await,
            false => sleep_until(self.timer.heard() + UNHEARD_MAX).await,
        }
    }

    fn leads(&self) -> bool {
        self.raft.server_metrics().borrow_watched().state.is_leader()
    }

    fn is_unwanted(&self) -> bool {
        let wanted = self.wanted.borrow();
        wanted.as_ref().is_some_and(|wanted| !wanted.replicas.contains(&node_of(self.id)))
    }

    fn votes(&self) -> bool {
        let server = self.raft.server_metrics();
        let server = server.borrow_watched();
        let sets = server.membership_config.membership().get_joint_config();
        sets.len() == 1 && sets[0].contains(&self.id)
    }

    /// Asks the others one after the other, the leader first if it is known.
    async fn ask(&self) -> Answer {
        let (leader, applied) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            (metrics.current_leader.map(node_of), metrics.last_applied.map(|applied| applied.index))
        };
        let own = node_of(self.id);
        let mut others: Vec<u64> = self.peers.nodes();
        others.retain(|node| *node != own);
        others.sort_by_key(|node| Some(*node) != leader);
        for node in others {
            let Some(peer) = self.peers.get(node) else { continue };
            let mut client = peer.control.clone();
            let request = v1::AdmitRequest { group: self.group.0.into(), id: self.id, applied };
            match timeout(ANSWER_MAX, client.admit(request)).await {
                Ok(Ok(reply)) => match reply.into_inner().answer() {
                    Answer::NotLeader => (),
                    answer => return answer,
                },
                // Who does not answer does not lead. It may have something else to say.
                Ok(Err(status)) => drop(peer.is_refusal(&status)),
                Err(_) => (),
            }
        }
        Answer::NotLeader
    }
}
