//! Tells the layer above who leads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::GroupId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use openraft::metrics::{RaftMetrics, RaftServerMetrics};
use openraft::type_config::alias::WatchReceiverOf;
use tracing::{debug, error};

use crate::Leadership;
use crate::raft::state::Replica;
use crate::raft::{LeaderId, Raft, TypeConfig};
use crate::{member, metrics};

type Watched<T> = WatchReceiverOf<TypeConfig, T>;
type Server = RaftServerMetrics<TypeConfig>;
type All = RaftMetrics<TypeConfig>;

/// Announces every change until Raft stops.
pub(crate) async fn announce(id: u64, raft: Raft, replica: Arc<Replica>) {
    let mut announcer = Announcer { replica, last: None };
    let mut server = raft.server_metrics();
    let mut all = raft.metrics();
    loop {
        let (leads, leader) = {
            let metrics = server.borrow_watched();
            (metrics.state.is_leader(), metrics.current_leader.map(member::node_of))
        };
        if leads {
            if let Some(term) = established(id, &server, &mut all).await {
                announcer.leader(term);
            }
        } else {
            announcer.follower(leader);
        }
        if server.changed().await.is_err() {
            announcer.follower(None);
            return log_end(&raft, announcer.replica.group);
        }
    }
}

/// A replica that stops by itself has found its disk or its data broken: the node goes on without.
fn log_end(raft: &Raft, group: GroupId) {
    match &raft.metrics().borrow_watched().running_state {
        Ok(()) | Err(Fatal::Stopped) => debug!(%group, "the replica has stopped"),
        Err(fatal) => error!(%group, error = %fatal, "the replica has failed and is down"),
    }
}

/// Waits until this leader's first entry is applied here, and with it all earlier ones; `None` if
/// it leads no more before that. The term is the one it leads.
///
/// openraft publishes `server` before `all`: for a moment `all` still speaks of a time before this
/// leadership, and only what both agree on is of the present.
async fn established(id: u64, server: &Watched<Server>, all: &mut Watched<All>) -> Option<u64> {
    loop {
        {
            let server = server.borrow_watched();
            if !server.state.is_leader() {
                return None;
            }
            let all = all.borrow_watched();
            let own = LeaderId { term: all.current_term, node_id: id };
            if all.state == server.state
                && all.vote == server.vote
                && all.last_applied.is_some_and(|applied| applied.leader_id == own)
            {
                return Some(all.current_term);
            }
        }
        all.changed().await.ok()?;
    }
}

struct Announcer {
    replica: Arc<Replica>,
    last: Option<Leadership>,
}

impl Announcer {
    fn leader(&mut self, term: u64) {
        match self.last {
            Some(Leadership::Leader { term: last }) if last == term => return,
            // It lost and regained leadership between two looks.
            Some(Leadership::Leader { .. }) => self.follower(None),
            Some(Leadership::Follower { .. }) | None => (),
        }
        // First the flag, then the word: an effect of any entry written after the word is heard.
        self.replica.leading.store(true, Ordering::Release);
        metrics::leading(self.replica.group, true);
        self.say(Leadership::Leader { term });
    }

    fn follower(&mut self, leader: Option<u64>) {
        if self.last == Some(Leadership::Follower { leader }) {
            return;
        }
        if self.replica.leading.swap(false, Ordering::AcqRel) {
            metrics::leading(self.replica.group, false);
        }
        self.say(Leadership::Follower { leader });
    }

    fn say(&mut self, leadership: Leadership) {
        self.last = Some(leadership);
        self.replica.observer.leadership(self.replica.group, leadership);
    }
}

#[cfg(test)]
mod tests {
    use openraft::ServerState;
    use openraft::async_runtime::watch::WatchSender;
    use openraft::type_config::TypeConfigExt;

    use super::*;
    use crate::raft::{LogId, Vote};

    const NODE: u64 = 1;

    fn server(term: u64, state: ServerState) -> Server {
        Server {
            id: NODE,
            vote: Vote::new_committed(term, NODE),
            state,
            current_leader: None,
            membership_config: Arc::default(),
            committed_membership_config: Arc::default(),
        }
    }

    fn all(term: u64, state: ServerState, applied: Option<(u64, u64)>) -> All {
        let mut all = All::new_initial(NODE);
        all.state = state;
        all.current_term = term;
        all.vote = Vote::new_committed(term, NODE);
        all.last_applied =
            applied.map(|(term, index)| LogId::new(LeaderId { term, node_id: NODE }, index));
        all
    }

    /// The stages `all` goes through while `server` says already that term 5 is led here.
    #[tokio::test]
    async fn a_leader_is_announced_although_one_watch_lags_behind_the_other() {
        let (_server_tx, server_rx) = TypeConfig::watch_channel(server(5, ServerState::Leader));
        let stale = [
            all(4, ServerState::Follower, Some((4, 7))),
            all(3, ServerState::Leader, Some((3, 7))),
            all(5, ServerState::Candidate, Some((3, 7))),
            all(5, ServerState::Leader, Some((3, 7))),
        ];
        for stale in stale {
            let (all_tx, mut all_rx) = TypeConfig::watch_channel(stale.clone());
            let mut waiting = Box::pin(established(NODE, &server_rx, &mut all_rx));
            assert_eq!(futures::poll!(&mut waiting), std::task::Poll::Pending, "{stale}");
            all_tx.send(all(5, ServerState::Leader, Some((5, 8)))).expect("somebody watches");
            assert_eq!(waiting.await, Some(5), "{stale}");
        }
    }

    #[tokio::test]
    async fn leadership_lost_before_the_first_entry_is_applied_is_not_announced() {
        let (server_tx, server_rx) = TypeConfig::watch_channel(server(5, ServerState::Leader));
        let applied = Some((3, 7));
        let (all_tx, mut all_rx) = TypeConfig::watch_channel(all(5, ServerState::Leader, applied));
        let mut waiting = Box::pin(established(NODE, &server_rx, &mut all_rx));
        assert_eq!(futures::poll!(&mut waiting), std::task::Poll::Pending);
        server_tx.send(server(6, ServerState::Follower)).expect("somebody watches");
        all_tx.send(all(6, ServerState::Follower, applied)).expect("somebody watches");
        assert_eq!(waiting.await, None);
    }
}
