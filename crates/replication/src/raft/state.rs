//! openraft's state machine over `domain::Machine` and `store::RowStore`.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use domain::GroupId;
use futures::{Stream, StreamExt};
use openraft::storage::EntryResponder;
use openraft::{OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;
use store::RowStore;
use tokio::sync::watch;

use super::apply::{Applier, Place};
use super::cuts::Cuts;
use super::record::{self, Mark};
use super::snapshot::{Export, SnapshotData};
use super::{LogId, Membership, Payload, Snapshot, SnapshotMeta, StoredMembership, TypeConfig};
use crate::blocking::run_blocking;
use crate::{MessageHistory, Observer, metrics};

/// What one write of rows takes together, at most. A larger step holds back the replies of its
/// first entries.
const STEP_BYTES_MAX: usize = 4 << 20;
const STEP_ENTRIES_MAX: usize = 512;
/// The most of a step that is taken on Raft's own threads. The way to another and back costs what
/// applying some messages does; many are not to hold up what else Raft does. Of entries, because a
/// few bytes may ask for much: one that lets deadlines pass takes some milliseconds, and a replica
/// that catches up finds hundreds of those.
const SHORT_STEP_BYTES_MAX: usize = 64 << 10;
const SHORT_STEP_ENTRIES_MAX: usize = 4;

/// A replica's rows, and how far they are: shared by the state machine, the snapshots that leave
/// and the retention task.
pub(crate) struct Replica {
    pub group: GroupId,
    pub store: RowStore,
    pub observer: Arc<dyn Observer>,
    /// This node leads and was announced as the leader: its driver is told of effects.
    pub leading: AtomicBool,
    /// What the rows hold.
    applied: watch::Sender<Mark>,
    /// What the rows on disk hold at the least: the snapshot that Raft is told of.
    marker: Mutex<Mark>,
    /// Snapshots on their way out, by their last index: what follows is kept in the log.
    exports: Mutex<BTreeMap<u64, u64>>,
    exports_begun: AtomicU64,
    pub cuts: Cuts,
    /// Present where it is recorded what happens to messages.
    pub history: Option<Arc<MessageHistory>>,
    /// The observer is told of messages whose senders are traced.
    pub traced: bool,
    /// Set once Raft runs. Before, a snapshot is only asked for to learn what the rows hold.
    running: AtomicBool,
}

/// Tells when a replica's rows have changed.
pub struct Changes(watch::Receiver<Mark>);

impl Changes {
    /// Resolves once entries were applied since this was made or last resolved; `false` if none ever will be again.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Replica {
    /// Opens a replica's rows. Everything in them is on disk then: if this process had begun with them
    /// before, what it had applied is put there.
    pub fn open(
        group: GroupId,
        store: RowStore,
        observer: Arc<dyn Observer>,
    ) -> Result<Replica, io::Error> {
        let mark = match store.applied(group).map_err(io::Error::other)? {
            Some((index, mark)) => {
                if store.flushed_index(group) < index {
                    store.flush().map_err(io::Error::other)?;
                }
                record::decode_mark(&mark)?
            }
            None => Mark::default(),
        };
        Ok(Replica {
            group,
            store,
            observer,
            leading: AtomicBool::new(false),
            applied: watch::Sender::new(mark.clone()),
            marker: Mutex::new(mark),
            exports: Mutex::default(),
            exports_begun: AtomicU64::new(0),
            cuts: Cuts::default(),
            history: None,
            traced: false,
            running: AtomicBool::new(false),
        })
    }

    pub fn applied(&self) -> Mark {
        self.applied.borrow().clone()
    }

    /// What is made of the members, as of what is applied.
    pub fn members<T>(&self, of: impl FnOnce(&Membership) -> T) -> T {
        of(self.applied.borrow().membership.membership())
    }

    pub fn applied_index(&self) -> Option<u64> {
        self.applied.borrow().applied.map(|id| id.index)
    }

    pub fn set_applied(&self, mark: Mark) {
        self.applied.send_replace(mark);
    }

    pub fn changes(&self) -> Changes {
        Changes(self.applied.subscribe())
    }

    pub fn marker(&self) -> Mark {
        self.marker.lock().clone()
    }

    /// Moves the marker to a mark that is now on disk; never back.
    pub fn set_marker(&self, mark: Mark) {
        let mut marker = self.marker.lock();
        if mark.applied > marker.applied {
            *marker = mark;
        }
    }

    /// The last applied index that is on disk.
    pub fn flushed_index(&self) -> Option<u64> {
        self.marker.lock().applied.map(|id| id.index)
    }

    pub fn set_running(&self) {
        self.running.store(true, Ordering::Release);
    }

    /// The lowest index a snapshot on its way out ends at.
    pub fn lowest_export(&self) -> Option<u64> {
        self.exports.lock().values().min().copied()
    }

    fn begin_export(self: &Arc<Self>) -> Result<Option<(Mark, Export)>, io::Error> {
        let export = self.store.export(self.group).map_err(io::Error::other)?;
        if export.mark().is_empty() {
            return Ok(None); // Nothing was ever applied.
        }
        let mark = record::decode_mark(export.mark())?;
        let Some(applied) = mark.applied else { return Ok(None) };
        let id = self.exports_begun.fetch_add(1, Ordering::Relaxed);
        self.exports.lock().insert(id, applied.index);
        let lease = ExportLease { replica: self.clone(), id };
        Ok(Some((mark, Export { rows: export, lease })))
    }
}

/// Keeps the log behind an export while it is on its way.
pub(crate) struct ExportLease {
    replica: Arc<Replica>,
    id: u64,
}

impl Drop for ExportLease {
    fn drop(&mut self) {
        self.replica.exports.lock().remove(&self.id);
    }
}

pub(crate) struct StateAdapter {
    replica: Arc<Replica>,
    /// Absent only while it works on a thread for blocking work, or after it failed.
    applier: Option<Applier>,
}

impl StateAdapter {
    pub fn new(replica: Arc<Replica>) -> StateAdapter {
        StateAdapter::with(replica, true)
    }

    /// See [`Applier::new`].
    pub fn with(replica: Arc<Replica>, gapless: bool) -> StateAdapter {
        let applier = Applier::new(replica.clone(), gapless);
        StateAdapter { replica, applier: Some(applier) }
    }

    /// Runs blocking work off Raft's threads, so that heartbeats never wait behind it.
    async fn run_blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Applier) -> Result<T, io::Error> + Send + 'static,
    ) -> Result<T, io::Error> {
        let mut applier = self.take_applier()?;
        let (applier, result) = run_blocking(move || {
            let result = work(&mut applier);
            (applier, result)
        })
        .await
        .map_err(|error| io::Error::other(format!("applying failed: {error}")))?;
        self.applier = Some(applier);
        result
    }

    fn take_applier(&mut self) -> Result<Applier, io::Error> {
        self.applier.take().ok_or_else(|| io::Error::other("this replica failed before"))
    }

    /// Takes a step that is short and writes nothing where it is, any other one on a thread for
    /// blocking work. What it reads it mostly finds in memory.
    async fn step(
        &mut self,
        batch: Vec<EntryResponder<TypeConfig>>,
        bytes: usize,
    ) -> Result<(), io::Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut applier = self.take_applier()?;
        // To pin rows, those in memory are written first.
        let short = bytes <= SHORT_STEP_BYTES_MAX
            && batch.len() <= SHORT_STEP_ENTRIES_MAX
            && !self.replica.cuts.is_expecting();
        if !short || !applier.cache_has_room() {
            self.applier = Some(applier);
            return self.run_blocking(|applier| applier.step(batch, Place::Storage)).await;
        }
        // A panic ends this replica, as it does on a thread for blocking work.
        let result = catch_unwind(AssertUnwindSafe(|| applier.step(batch, Place::Memory)))
            .map_err(|_| io::Error::other("applying failed: it panicked"))?;
        self.applier = Some(applier);
        result
    }
}

impl openraft::storage::RaftStateMachine<TypeConfig> for StateAdapter {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = MarkerBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let mark = self.replica.applied();
        Ok((mark.applied, mark.membership))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            if let Payload::Normal(proposal) = &entry.payload {
                bytes += proposal.payload.len();
            }
            batch.push((entry, responder));
            if bytes >= STEP_BYTES_MAX || batch.len() >= STEP_ENTRIES_MAX {
                self.step(std::mem::take(&mut batch), std::mem::take(&mut bytes)).await?;
            }
        }
        self.step(batch, bytes).await
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<MarkerBuilder> {
        if force {
            return Some(self.get_snapshot_builder().await);
        }
        let marker = self.replica.marker();
        marker.applied.is_some().then_some(MarkerBuilder(Ok(marker)))
    }

    async fn get_snapshot_builder(&mut self) -> MarkerBuilder {
        MarkerBuilder(self.run_blocking(Applier::flush).await)
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotData,
    ) -> Result<(), io::Error> {
        let mark = Mark { applied: meta.last_log_id, membership: meta.last_membership.clone() };
        self.run_blocking(move |applier| match snapshot {
            SnapshotData::Import(import) => applier.install(*import, mark),
            SnapshotData::Export(export) => applier.copy(*export, mark),
            SnapshotData::Marker => Err(io::Error::other("a snapshot without rows")),
        })
        .await?;
        metrics::snapshot_installed();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        if !self.replica.running.load(Ordering::Acquire) {
            let marker = self.replica.marker();
            return Ok(marker.applied.is_some().then(|| snapshot(marker, SnapshotData::Marker)));
        }
        let replica = self.replica.clone();
        let export =
            run_blocking(move || replica.begin_export()).await.map_err(io::Error::other)?;
        Ok(export?.map(|(mark, export)| snapshot(mark, SnapshotData::Export(Box::new(export)))))
    }
}

fn snapshot(mark: Mark, data: SnapshotData) -> Snapshot {
    let meta = SnapshotMeta { last_log_id: mark.applied, last_membership: mark.membership };
    Snapshot { meta, snapshot: data }
}

/// "Builds" a snapshot: it names what is on disk already, and copies nothing.
pub(crate) struct MarkerBuilder(Result<Mark, io::Error>);

impl RaftSnapshotBuilder<TypeConfig> for MarkerBuilder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let mark = std::mem::replace(&mut self.0, Err(io::Error::other("built already")))?;
        Ok(snapshot(mark, SnapshotData::Marker))
    }
}
