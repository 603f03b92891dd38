//! Heartbeats of many groups at once, from one node to another.

use std::sync::Arc;
use std::time::Duration;

use domain::GroupId;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::connection::{Peer, Peers};
use super::v1;
use crate::group::{Group, Groups};
use crate::raft::record;

/// A peer of before this call may be upgraded.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);

/// Tells a peer of the groups that this node leads, whenever there is news in `beats`, for as long as there may be. What is
/// not answered in time gives way to what is told next.
pub(crate) async fn tell(
    node: u64,
    peers: Arc<Peers>,
    groups: Groups,
    mut beats: watch::Receiver<Vec<v1::GroupHeartbeat>>,
    answer_max: Duration,
) {
    while beats.changed().await.is_ok() {
        let Some(peer) = peers.get(node) else { continue };
        // There is something to tell first.
        beats.mark_changed();
        match converse(&peer, &groups, &mut beats, answer_max).await {
            Ok(()) => (),
            Err(status) if status.code() == Code::Unimplemented => sleep(UNKNOWN_FOR).await,
            Err(status) => drop(peer.failed(&status)),
        }
        // Tried again when there is more to tell, which is soon, and not before.
        beats.mark_unchanged();
    }
}

/// Over one stream, until an answer is late or there is nothing more to tell.
async fn converse(
    peer: &Peer,
    groups: &Groups,
    beats: &mut watch::Receiver<Vec<v1::GroupHeartbeat>>,
    answer_max: Duration,
) -> Result<(), Status> {
    let (say, said) = mpsc::channel(1);
    let mut client = peer.control.clone();
    let opened = timeout(answer_max, client.heartbeats(ReceiverStream::new(said))).await;
    let Ok(opened) = opened else { return Ok(()) };
    let mut replies = opened?.into_inner();
    while beats.changed().await.is_ok() {
        let told = beats.borrow_and_update().clone();
        let called = Instant::now();
        if say.send(v1::HeartbeatsRequest { groups: told.clone() }).await.is_err() {
            break;
        }
        match timeout(answer_max, replies.message()).await {
            Ok(Ok(Some(reply))) => {
                peer.accepted();
                take(groups, told, reply, called).await;
            }
            Ok(Ok(None)) | Err(_) => break,
            Ok(Err(status)) => return Err(status),
        }
    }
    Ok(())
}

/// Notes who follows. Replicas that have to be called by themselves are, by Raft.
async fn take(
    groups: &Groups,
    told: Vec<v1::GroupHeartbeat>,
    reply: v1::HeartbeatsReply,
    called: Instant,
) {
    let group = |number: u32| groups.get(GroupId(number.try_into().ok()?));
    for beat in told.into_iter().filter(|beat| !reply.apart.contains(&beat.group)) {
        if let (Some(group), Some(vote)) = (group(beat.group), beat.vote) {
            let vote = record::vote_from_proto(vote);
            group.confirmation.acknowledge(vote, beat.addressee, called);
        }
    }
    for group in reply.apart.into_iter().chain(reply.behind).filter_map(group) {
        if group.confirmation.may_call(group.lease.length()) {
            // An error means that this replica has stopped.
            drop(group.raft.trigger().heartbeat().await);
        }
    }
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
            Some(Following { is_behind: false }) => (),
            Some(Following { is_behind: true }) => reply.behind.push(beat.group),
            None => reply.apart.push(beat.group),
        }
    }
    reply
}

struct Following {
    /// It does not know yet that all is committed that is.
    is_behind: bool,
}

/// `None`: the replica does not follow this leader.
fn hear(replica: &Group, beat: &v1::GroupHeartbeat, now: Instant) -> Option<Following> {
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
    Some(Following { is_behind: committed < beat.committed.map(record::log_id_from_proto) })
}
