//! A replica's rows on their way to a follower whose log ends before the leader's begins.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::Hasher;
use domain::ShardId;
use futures::{Stream, StreamExt};
use openraft::errors::{NetworkError, RPCError};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tracing::info;

use super::append::Lane;
use super::connection::Peer;
use super::server::required_vote;
use super::v1;
use super::v1::snapshot_part::Part;
use crate::group::Group;
use crate::metrics;
use crate::raft::record::{self, Mark};
use crate::raft::snapshot::{Export, SnapshotData};
use crate::raft::{Snapshot, SnapshotMeta, TypeConfig, Vote};

/// Parts read ahead of the wire, and received ahead of the disk.
const QUEUED_MAX: usize = 4;

/// Sends a snapshot and waits until it is installed; the answer is the follower's vote.
pub(crate) async fn send(
    peer: Arc<Peer>,
    Lane { shard, addressee, .. }: Lane,
    vote: Vote,
    snapshot: Snapshot,
) -> Result<Vote, RPCError<TypeConfig>> {
    let failed = |reason: String| RPCError::Network(NetworkError::from_string(reason));
    let mark =
        Mark { applied: snapshot.meta.last_log_id, membership: snapshot.meta.last_membership };
    let SnapshotData::Export(export) = snapshot.snapshot else {
        return Err(failed("this snapshot has no rows to send".to_owned()));
    };
    info!(%shard, node = peer.node, last = ?mark.applied, "sending a snapshot");
    let head = v1::SnapshotHead {
        shard: shard.0.into(),
        vote: Some(record::vote_to_proto(&vote)),
        mark: record::encode_mark(&mark),
        addressee,
    };
    let (parts, outgoing) = mpsc::channel(QUEUED_MAX);
    let Export { rows, lease } = *export;
    let reader = spawn_blocking(move || read(rows, head, &parts));
    let mut client = peer.bulk.clone();
    let reply = client.install_snapshot(ReceiverStream::new(outgoing)).await;
    drop(lease);
    let bytes = match reader.await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(failed(format!("cannot read the rows: {error}"))),
        Err(error) => return Err(failed(format!("cannot read the rows: {error}"))),
    };
    let reply = reply.map_err(|status| peer.failed(&status))?;
    peer.accepted();
    metrics::snapshot_sent(bytes);
    reply
        .into_inner()
        .vote
        .map(record::vote_from_proto)
        .ok_or_else(|| failed("a reply without a vote".to_owned()))
}

/// Feeds the wire; ends early when the wire is gone.
fn read(
    mut rows: store::Export,
    head: v1::SnapshotHead,
    to: &mpsc::Sender<v1::SnapshotPart>,
) -> Result<u64, io::Error> {
    let send = |part| to.blocking_send(v1::SnapshotPart { part: Some(part) }).is_ok();
    let (mut parts, mut bytes, mut sum) = (0, 0, Hasher::new());
    sum.update(&head.mark);
    if !send(Part::Head(head)) {
        return Ok(0);
    }
    while let Some(chunk) = rows.next_chunk().map_err(io::Error::other)? {
        parts += 1;
        bytes += chunk.len() as u64;
        sum.update(&chunk);
        if !send(Part::Rows(chunk)) {
            return Ok(bytes);
        }
    }
    send(Part::End(v1::SnapshotEnd { parts, sum: sum.finalize() }));
    Ok(bytes)
}

/// Reads the first part.
pub(crate) async fn head(
    parts: &mut Streaming<v1::SnapshotPart>,
) -> Result<v1::SnapshotHead, Status> {
    match parts.message().await?.and_then(|part| part.part) {
        Some(Part::Head(head)) => Ok(head),
        _ => Err(Status::invalid_argument("a snapshot begins with its head")),
    }
}

/// Receives the rows and hands them to Raft; the answer is this node's vote.
pub(crate) async fn receive(
    group: &Group,
    head: v1::SnapshotHead,
    parts: Streaming<v1::SnapshotPart>,
) -> Result<Vote, Status> {
    let unreadable = |error: io::Error| Status::invalid_argument(error.to_string());
    let vote = required_vote(head.vote)?;
    let mark = record::decode_mark(&head.mark).map_err(unreadable)?;
    let Ok(_one_at_a_time) = group.importing.try_lock() else {
        return Err(Status::aborted("another snapshot is coming in"));
    };
    info!(shard = %group.shard, last = ?mark.applied, "receiving a snapshot");
    let (chunks, incoming) = mpsc::channel(QUEUED_MAX);
    let (store, shard) = (group.replica.store.clone(), group.shard);
    let index = mark.applied.map_or(0, |applied| applied.index);
    let mut sum = Hasher::new();
    sum.update(&head.mark);
    let writer = spawn_blocking(move || write(&store, shard, index, &head.mark, incoming));
    let received = forward(parts, sum, chunks).await;
    let import = writer.await.map_err(|error| Status::internal(error.to_string()))?;
    received?;
    let import = import.map_err(|error| Status::internal(error.to_string()))?;
    let meta = SnapshotMeta { last_log_id: mark.applied, last_membership: mark.membership };
    let snapshot = Snapshot { meta, snapshot: SnapshotData::Import(Box::new(import)) };
    let installed = group.raft.install_full_snapshot(vote, snapshot).await;
    installed.map(|reply| reply.vote).map_err(|fatal| Status::unavailable(fatal.to_string()))
}

fn write(
    store: &store::RowStore,
    shard: ShardId,
    index: u64,
    mark: &[u8],
    mut chunks: mpsc::Receiver<Bytes>,
) -> Result<store::Import, store::Error> {
    let mut import = store.import(shard, index, mark)?;
    while let Some(chunk) = chunks.blocking_recv() {
        import.push(chunk)?;
    }
    Ok(import)
}

/// Passes on the rows; fails unless they came to their end as they were sent.
async fn forward(
    mut parts: impl Stream<Item = Result<v1::SnapshotPart, Status>> + Unpin,
    mut sum: Hasher,
    to: mpsc::Sender<Bytes>,
) -> Result<(), Status> {
    let mut count = 0;
    while let Some(part) = parts.next().await {
        match part?.part {
            Some(Part::Rows(chunk)) => {
                count += 1;
                sum.update(&chunk);
                if to.send(chunk).await.is_err() {
                    return Err(Status::internal("the rows cannot be written"));
                }
            }
            Some(Part::End(end)) if end.parts != count => {
                return Err(Status::data_loss("parts of the snapshot are missing"));
            }
            Some(Part::End(end)) if end.sum != sum.finalize() => {
                return Err(Status::data_loss("the snapshot's checksum differs"));
            }
            Some(Part::End(_)) => return Ok(()),
            Some(Part::Head(_)) | None => {
                return Err(Status::invalid_argument("not a part of a snapshot's rows"));
            }
        }
    }
    Err(Status::data_loss("the snapshot ended early"))
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    /// What becomes of two parts of rows that arrive so, and are ended so.
    async fn arrive(rows: [&'static [u8]; 2], end: Option<v1::SnapshotEnd>) -> Result<(), String> {
        let rows = rows.map(|rows| Part::Rows(Bytes::from_static(rows)));
        let parts = rows.into_iter().chain(end.map(Part::End));
        let parts = parts.map(|part| Ok(v1::SnapshotPart { part: Some(part) }));
        let (to, _received) = mpsc::channel(QUEUED_MAX);
        let mut sum = Hasher::new();
        sum.update(b"mark");
        let forwarded = forward(stream::iter(parts), sum, to).await;
        forwarded.map_err(|status| status.message().to_owned())
    }

    #[tokio::test]
    async fn only_what_was_sent_is_a_snapshot() {
        let sum = crc32fast::hash(b"markonetwo");
        let end = |parts| Some(v1::SnapshotEnd { parts, sum });
        assert_eq!(arrive([b"one", b"two"], end(2)).await, Ok(()));
        for (rows, end, told) in [
            ([&b"one"[..], &b"twp"[..]], end(2), "the snapshot's checksum differs"),
            ([b"one", b"two"], end(3), "parts of the snapshot are missing"),
            ([b"one", b"two"], None, "the snapshot ended early"),
        ] {
            assert_eq!(arrive(rows, end).await, Err(told.to_owned()));
        }
    }
}
