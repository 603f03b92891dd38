//! Heartbeats of many groups in one call, from one node to another.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use tokio::time::{Instant, timeout};
use tonic::Code;

use super::connection::Peer;
use super::v1;
use crate::group::{Group, Groups};
use crate::raft::record;

/// What a call came to.
pub(crate) enum Called {
    /// It was answered, refused or failed.
    Ended,
    /// The peer is of a version that does not know the call.
    Unknown,
}

/// Tells a peer of the groups that this node leads. Replicas that have to be called by themselves are, by Raft.
pub(crate) async fn call(
    peer: &Peer,
    groups: &Groups,
    beats: Vec<v1::GroupHeartbeat>,
    answer_max: Duration,
) -> Called {
    let called = Instant::now();
    let mut client = peer.control.clone();
    let request = v1::HeartbeatsRequest { groups: beats.clone() };
    let reply = match timeout(answer_max, client.heartbeats(request)).await {
        Ok(Ok(reply)) => reply.into_inner(),
        Ok(Err(status)) if status.code() == Code::Unimplemented => return Called::Unknown,
        Ok(Err(status)) => {
            drop(peer.failed(&status));
            return Called::Ended;
        }
        Err(_) => return Called::Ended,
    };
    peer.accepted();
    let group = |number: u32| groups.get(domain::GroupId(number.try_into().ok()?));
    for beat in beats.into_iter().filter(|beat| !reply.apart.contains(&beat.group)) {
        if let (Some(group), Some(vote)) = (group(beat.group), beat.vote) {
            let vote = record::vote_from_proto(vote);
            group.confirmation.acknowledge(vote, beat.addressee, called);
        }
    }
    for group in reply.apart.into_iter().chain(reply.behind).filter_map(group) {
        // An error means that this replica has stopped.
        drop(group.raft.trigger().heartbeat().await);
    }
    Called::Ended
}

/// Hears a leading node. `replica`: the one that is meant, if it runs here.
pub(crate) fn answer(
    beats: Vec<v1::GroupHeartbeat>,
    replica: impl Fn(&v1::GroupHeartbeat) -> Option<Arc<Group>>,
) -> v1::HeartbeatsReply {
    let now = Instant::now();
    let mut reply = v1::HeartbeatsReply::default();
    for beat in beats {
        match replica(&beat).and_then(|replica| hear(&replica, &beat, now)) {
            Some(Heard { is_behind: false }) => (),
            Some(Heard { is_behind: true }) => reply.behind.push(beat.group),
            None => reply.apart.push(beat.group),
        }
    }
    reply
}

struct Heard {
    /// It does not know yet that all is committed that is.
    is_behind: bool,
}

/// `None`: the replica does not follow this leader.
fn hear(replica: &Group, beat: &v1::GroupHeartbeat, now: Instant) -> Option<Heard> {
    let vote = record::vote_from_proto(beat.vote?);
    let committed = {
        let metrics = replica.raft.metrics();
        let metrics = metrics.borrow_watched();
        if !vote.committed || metrics.vote != vote {
            return None;
        }
        metrics.cluster_committed
    };
    replica.hear(now, beat.held_by_all, Some(beat.confirmed_ms));
    Some(Heard { is_behind: committed < beat.committed.map(record::log_id_from_proto) })
}
