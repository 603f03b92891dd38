//! The leader's side.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crc32fast::Hasher;
use openraft::errors::{NetworkError, RPCError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tracing::info;

use super::QUEUED_MAX;
use crate::blocking::run_blocking;
use crate::metrics;
use crate::peer::append::Lane;
use crate::peer::connection::Peer;
use crate::peer::v1;
use crate::peer::v1::snapshot_part::Part;
use crate::raft::record::{self, Mark};
use crate::raft::snapshot::{Export, SnapshotData};
use crate::raft::{Snapshot, TypeConfig, Vote};

/// Asks for how far a snapshot came, one after the other while the peer is out of reach.
const ASKS_MAX: u32 = 10;
const ASK_PAUSE: Duration = Duration::from_millis(500);
/// Streams in a row that brought nothing.
const IDLE_MAX: u32 = 3;

/// Sends a snapshot, over as many connections as it takes, and waits until it is installed; the
/// answer is the follower's vote.
pub(crate) async fn send(
    peer: Arc<Peer>,
    Lane { group, addressee, .. }: Lane,
    vote: Vote,
    snapshot: Snapshot,
) -> Result<Vote, RPCError<TypeConfig>> {
    let mark =
        Mark { applied: snapshot.meta.last_log_id, membership: snapshot.meta.last_membership };
    let SnapshotData::Export(export) = snapshot.snapshot else {
        return Err(failed("this snapshot has no rows to send".to_owned()));
    };
    info!(%group, node = peer.node, last = ?mark.applied, "sending a snapshot");
    let mut head = v1::SnapshotHead {
        group: group.0.into(),
        vote: Some(record::vote_to_proto(&vote)),
        mark: record::encode_mark(&mark),
        addressee,
        transfer: rand::random(),
        parts: 0,
    };
    let Export { mut rows, lease: _held_until_installed } = *export;
    let mut sum = crc32fast::hash(&head.mark);
    let (mut bytes, mut idle) = (0, 0);
    loop {
        let (streamed, reply);
        (rows, streamed, reply) = stream(&peer, rows, head.clone(), sum).await?;
        bytes += streamed;
        let status = match reply {
            Ok(vote) => {
                peer.accepted();
                metrics::snapshot_sent(bytes);
                return Ok(vote);
            }
            Err(status) => status,
        };
        let reached = match may_go_on(&status) {
            true => ask_progress(&peer, &head).await,
            false => None,
        };
        let Some(reached) = reached else { return Err(peer.failed(&status)) };
        idle = if reached.parts == head.parts { idle + 1 } else { 0 };
        if idle == IDLE_MAX {
            return Err(peer.failed(&status));
        }
        info!(%group, node = peer.node, parts = reached.parts, "going on with a snapshot");
        (head.parts, sum) = (reached.parts, reached.sum);
        rows.resume_after(reached.last_key).map_err(unreadable)?;
    }
}

/// Sends what is left over one connection: the rows again, how many bytes of them went out, and
/// what the follower said.
async fn stream(
    peer: &Peer,
    rows: store::Export,
    head: v1::SnapshotHead,
    sum: u32,
) -> Result<(store::Export, u64, Result<Vote, Status>), RPCError<TypeConfig>> {
    let (parts, outgoing) = mpsc::channel(QUEUED_MAX);
    let reader = tokio::spawn(read(rows, head, sum, parts));
    let mut client = peer.bulk.clone();
    let reply = client.install_snapshot(ReceiverStream::new(outgoing)).await;
    let (rows, bytes) = reader.await.map_err(unreadable)?.map_err(unreadable)?;
    let reply = reply.and_then(|reply| {
        let vote = reply.into_inner().vote.map(record::vote_from_proto);
        vote.ok_or_else(|| Status::invalid_argument("a reply without a vote"))
    });
    Ok((rows, bytes, reply))
}

/// Feeds the wire; ends early when the wire is gone. The rows again, and how many bytes of them it
/// took.
async fn read(
    mut rows: store::Export,
    head: v1::SnapshotHead,
    sum: u32,
    to: mpsc::Sender<v1::SnapshotPart>,
) -> Result<(store::Export, u64), io::Error> {
    let (mut parts, mut bytes, mut sum) = (head.parts, 0, Hasher::new_with_initial(sum));
    if !put(&to, Part::Head(head)).await {
        return Ok((rows, 0));
    }
    loop {
        let chunk;
        (rows, chunk) = next_chunk(rows).await?;
        let Some(chunk) = chunk else { break };
        parts += 1;
        bytes += chunk.len() as u64;
        sum.update(&chunk);
        if !put(&to, rows_part(chunk, &sum)).await {
            return Ok((rows, bytes));
        }
    }
    put(&to, Part::End(v1::SnapshotEnd { parts })).await;
    Ok((rows, bytes))
}

/// False once nobody takes it.
async fn put(to: &mpsc::Sender<v1::SnapshotPart>, part: Part) -> bool {
    to.send(v1::SnapshotPart { part: Some(part) }).await.is_ok()
}

async fn next_chunk(mut rows: store::Export) -> Result<(store::Export, Option<Bytes>), io::Error> {
    let read = run_blocking(move || rows.next_chunk().map(|chunk| (rows, chunk))).await;
    read.map_err(io::Error::other)?.map_err(io::Error::other)
}

fn rows_part(rows: Bytes, sum: &Hasher) -> Part {
    Part::Rows(v1::SnapshotRows { rows, sum: sum.clone().finalize() })
}

/// Whether the follower may still have what came in. A refusal is an answer.
fn may_go_on(status: &Status) -> bool {
    !matches!(
        status.code(),
        Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::InvalidArgument
            | Code::Unimplemented
    )
}

async fn ask_progress(peer: &Peer, head: &v1::SnapshotHead) -> Option<v1::SnapshotReached> {
    let &v1::SnapshotHead { group, addressee, transfer, .. } = head;
    let mut client = peer.bulk.clone();
    for _ in 0..ASKS_MAX {
        tokio::time::sleep(ASK_PAUSE).await;
        let request = v1::SnapshotProgressRequest { group, addressee, transfer };
        match client.snapshot_progress(request).await {
            Ok(reply) => return reply.into_inner().reached,
            Err(status) if may_go_on(&status) => (),
            Err(_) => return None,
        }
    }
    None
}

fn failed(reason: String) -> RPCError<TypeConfig> {
    RPCError::Network(NetworkError::from_string(reason))
}

fn unreadable(error: impl std::fmt::Display) -> RPCError<TypeConfig> {
    failed(format!("cannot read the rows: {error}"))
}
