//! The follower's side.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use crc32fast::Hasher;
use futures::{Stream, StreamExt};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::{Instant, sleep};
use tonic::{Status, Streaming};
use tracing::info;

use super::QUEUED_MAX;
use crate::blocking::run_blocking;
use crate::group::Group;
use crate::peer::server::required_vote;
use crate::peer::v1;
use crate::peer::v1::snapshot_part::Part;
use crate::raft::record;
use crate::raft::snapshot::SnapshotData;
use crate::raft::{Snapshot, SnapshotMeta, Vote};

/// How long what came in is kept after its connection broke.
const KEPT_MAX: Duration = Duration::from_secs(60);

/// The snapshots of one group on their way in: one at a time.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// Locked while rows come in.
    kept: Arc<Mutex<Option<Partial>>>,
    /// Which transfer was the last to lock it.
    current: AtomicU64,
    /// Its sender asks from elsewhere: the connection it came over is dead, whatever it seems.
    superseded: Notify,
}

/// What came in before a connection broke.
struct Partial {
    transfer: u64,
    import: store::Import,
    reached: Reached,
    broken_at: Instant,
}

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reached {
    parts: u64,
    /// CRC-32 of the mark and of all rows so far.
    sum: u32,
}

impl Arrivals {
    /// Lets go of what is kept, and of the database with it.
    pub async fn clear(&self) {
        self.superseded.notify_waiters();
        let mut kept = self.kept.lock().await;
        drop_apart(kept.take()).await;
    }
}

/// Files are deleted with it, from a folder that the next one will use: hold the lock meanwhile.
async fn drop_apart(partial: Option<Partial>) {
    if partial.is_some() {
        // Only a panic in RocksDB could fail it, and nothing is lost then.
        let _ = run_blocking(move || drop(partial)).await;
    }
}

/// How far a transfer has come whose connection broke; waits until all that had arrived is on disk.
pub(crate) async fn progress(group: &Group, transfer: u64) -> v1::SnapshotProgressReply {
    let arrivals = &group.arrivals;
    if arrivals.current.load(Ordering::Relaxed) == transfer {
        arrivals.superseded.notify_waiters();
    }
    let kept = arrivals.kept.lock().await;
    let reached = kept.as_ref().filter(|partial| partial.transfer == transfer).map(|partial| {
        let Reached { parts, sum } = partial.reached;
        let last_key = Bytes::copy_from_slice(partial.import.last_key());
        v1::SnapshotReached { parts, sum, last_key }
    });
    v1::SnapshotProgressReply { reached }
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

/// Receives the rows and hands them to Raft; the answer is this node's vote. Not to be dropped half
/// way: what came in would be lost.
pub(crate) async fn receive(
    group: &Group,
    head: v1::SnapshotHead,
    parts: Streaming<v1::SnapshotPart>,
) -> Result<Vote, Status> {
    let unreadable = |error: io::Error| Status::invalid_argument(error.to_string());
    let vote = required_vote(head.vote)?;
    let mark = record::decode_mark(&head.mark).map_err(unreadable)?;
    let arrivals = &group.arrivals;
    let Ok(mut kept) = arrivals.kept.try_lock() else {
        return Err(Status::aborted("another snapshot is coming in"));
    };
    arrivals.current.store(head.transfer, Ordering::Relaxed);
    let (begun, mut reached) = match kept.take() {
        Some(partial) if partial.is(&head) => (Some(partial.import), partial.reached),
        _ if head.parts > 0 => {
            return Err(Status::aborted("what came in of this snapshot is not here any more"));
        }
        other => {
            drop_apart(other).await;
            (None, Reached { parts: 0, sum: crc32fast::hash(&head.mark) })
        }
    };
    info!(group = %group.id, last = ?mark.applied, parts = reached.parts, "receiving a snapshot");
    let (chunks, incoming) = mpsc::channel(QUEUED_MAX);
    let (store, id) = (group.replica.store.clone(), group.id);
    let index = mark.applied.map_or(0, |applied| applied.index);
    let begin = move || begun.map_or_else(|| store.import(id, index, &head.mark), Ok);
    let writer = tokio::spawn(write(begin, incoming));
    let received = tokio::select! {
        received = forward(parts, &mut reached, chunks) => received,
        () = arrivals.superseded.notified() => {
            Err(Status::cancelled("this snapshot goes on over another connection"))
        }
    };
    let mut import = writer.await.map_err(internal)??;
    if let Err(status) = received {
        let broken_at = Instant::now();
        *kept = Some(Partial { transfer: head.transfer, import, reached, broken_at });
        tokio::spawn(forget(Arc::downgrade(&arrivals.kept)));
        return Err(status);
    }
    // Here a full disk costs a transfer. Within Raft it would end the replica.
    let closed = run_blocking(move || import.close().map(|()| import)).await;
    let import = closed.map_err(internal)?.map_err(internal)?;
    let meta = SnapshotMeta { last_log_id: mark.applied, last_membership: mark.membership };
    let snapshot = Snapshot { meta, snapshot: SnapshotData::Import(Box::new(import)) };
    let installed = group.raft.install_full_snapshot(vote, snapshot).await;
    installed.map(|reply| reply.vote).map_err(|fatal| Status::unavailable(fatal.to_string()))
}

impl Partial {
    /// Whether a head goes on where this one ended.
    fn is(&self, head: &v1::SnapshotHead) -> bool {
        self.transfer == head.transfer && self.reached.parts == head.parts
    }
}

/// Drops what nobody went on with.
async fn forget(kept: Weak<Mutex<Option<Partial>>>) {
    sleep(KEPT_MAX).await;
    let Some(kept) = kept.upgrade() else { return };
    let mut kept = kept.lock().await;
    drop_apart(kept.take_if(|partial| partial.broken_at.elapsed() >= KEPT_MAX)).await;
}

/// Takes in what comes until nothing more does.
async fn write(
    begin: impl FnOnce() -> Result<store::Import, store::Error> + Send + 'static,
    mut chunks: mpsc::Receiver<Bytes>,
) -> Result<store::Import, Status> {
    let mut import = run_blocking(begin).await.map_err(internal)?.map_err(internal)?;
    while let Some(chunk) = chunks.recv().await {
        let taken = run_blocking(move || import.take([chunk]).map(|()| import)).await;
        import = taken.map_err(internal)?.map_err(internal)?;
    }
    Ok(import)
}

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// Passes on the rows; fails unless they came to their end as they were sent.
async fn forward(
    mut parts: impl Stream<Item = Result<v1::SnapshotPart, Status>> + Unpin,
    reached: &mut Reached,
    to: mpsc::Sender<Bytes>,
) -> Result<(), Status> {
    while let Some(part) = parts.next().await {
        match part?.part {
            Some(Part::Rows(v1::SnapshotRows { rows, sum })) => {
                let mut hasher = Hasher::new_with_initial(reached.sum);
                hasher.update(&rows);
                if hasher.finalize() != sum {
                    return Err(Status::data_loss("the snapshot's checksum differs"));
                }
                if to.send(rows).await.is_err() {
                    return Err(Status::internal("the rows cannot be written"));
                }
                *reached = Reached { parts: reached.parts + 1, sum };
            }
            Some(Part::End(end)) if end.parts != reached.parts => {
                return Err(Status::data_loss("parts of the snapshot are missing"));
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

    fn rows(rows: &'static [u8], all: &[u8]) -> Part {
        let sum = crc32fast::hash(all);
        Part::Rows(v1::SnapshotRows { rows: Bytes::from_static(rows), sum })
    }

    fn end(parts: u64) -> Part {
        Part::End(v1::SnapshotEnd { parts })
    }

    /// What becomes of parts that arrive so, and how many of them count.
    async fn arrive(parts: Vec<Part>) -> (Result<(), String>, u64) {
        let parts = parts.into_iter().map(|part| Ok(v1::SnapshotPart { part: Some(part) }));
        let (to, _received) = mpsc::channel(QUEUED_MAX);
        let mut reached = Reached { parts: 0, sum: crc32fast::hash(b"mark") };
        let forwarded = forward(stream::iter(parts), &mut reached, to).await;
        (forwarded.map_err(|status| status.message().to_owned()), reached.parts)
    }

    #[tokio::test]
    async fn only_what_was_sent_is_a_snapshot() {
        let one = || rows(b"one", b"markone");
        let two = || rows(b"two", b"markonetwo");
        assert_eq!(arrive(vec![one(), two(), end(2)]).await, (Ok(()), 2));
        for (parts, told, count) in [
            (
                vec![one(), rows(b"twp", b"markonetwo"), end(2)],
                "the snapshot's checksum differs",
                1,
            ),
            (vec![two(), one(), end(2)], "the snapshot's checksum differs", 0),
            (vec![one(), two(), end(3)], "parts of the snapshot are missing", 2),
            (vec![one(), two()], "the snapshot ended early", 2),
        ] {
            assert_eq!(arrive(parts).await, (Err(told.to_owned()), count));
        }
    }
}
