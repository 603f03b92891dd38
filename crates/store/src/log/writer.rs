//! The one thread that writes the log: whatever all groups asked for meanwhile becomes one batch
//! and one sync.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::GroupId;
use parking_lot::{Condvar, Mutex};
use rocksdb::properties::CUR_SIZE_ACTIVE_MEM_TABLE;
use rocksdb::{FlushOptions, WriteBatch, WriteOptions};

use super::group::{
    GroupLog, committed_key, entry_key, held_range, incarnation_key, incarnation_value, purged_key,
    purged_value, vote_key,
};
use super::marks::Marks;
use super::rocks::LogDatabase;
use super::{Done, Incarnation, LogRecord};
use crate::{Durability, Error, Options, SyncReport, damage};

/// A memtable smaller than this may fill up first.
const DEAD_BYTES_MIN: u64 = 32 << 20;
/// One part in so many still needed at the most, for a memtable to be let go of early.
const LIVE_SHARE_MAX: u64 = 2;
/// Room in a batch of little.
const BATCH_BYTES_MIN: usize = 4 << 10;

pub(super) struct Job {
    pub group: GroupId,
    pub work: Work,
}

pub(super) enum Work {
    Append {
        records: Vec<LogRecord>,
        done: Done,
    },
    Vote {
        vote: Bytes,
        done: Done,
    },
    Truncate {
        from: u64,
        done: Done,
    },
    Purge {
        from: u64,
        last: u64,
        mark: Bytes,
    },
    /// Another incarnation begins.
    Begin {
        incarnation: Incarnation,
        done: Done,
    },
    /// All of it goes, and the incarnation with it.
    Forget {
        done: Done,
    },
}

impl Work {
    fn bytes(&self) -> usize {
        match self {
            Work::Append { records, .. } => records.iter().map(|record| record.data.len()).sum(),
            Work::Vote { .. }
            | Work::Truncate { .. }
            | Work::Purge { .. }
            | Work::Begin { .. }
            | Work::Forget { .. } => 0,
        }
    }
}

/// Submits to the thread; dropping it writes what is queued and ends the thread.
pub(super) struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    committed: BTreeMap<GroupId, Bytes>,
    /// Asked for, once all jobs before are done.
    let_go: bool,
    closed: bool,
    /// Why the thread no longer writes: everything asked for after it fails.
    failed: Option<Error>,
}

impl Writer {
    pub fn start(
        inner: Arc<LogDatabase>,
        marks: Marks,
        options: &Options,
    ) -> Result<Writer, Error> {
        let queue = Arc::new(Queue::default());
        let path = inner.path.clone();
        let pen = Pen {
            inner,
            marks,
            queue: queue.clone(),
            sync: options.durability == Durability::Synced,
            bytes_max: options.sync_bytes_max,
            delay_ms: options.sync_delay_ms.clone(),
            on_sync: options.on_sync.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(move || pen.run())
            .map_err(|error| Error::io(path, &error))?;
        Ok(Writer { queue, thread: Some(thread) })
    }

    pub fn submit(&self, job: Job) {
        let mut state = self.queue.state.lock();
        if let Some(error) = &state.failed {
            let error = error.clone();
            drop(state);
            return tell([job], Err(error));
        }
        state.jobs.push_back(job);
        self.queue.changed.notify_one();
    }

    pub fn failure(&self) -> Option<Error> {
        self.queue.state.lock().failed.clone()
    }

    pub fn save_committed(&self, group: GroupId, committed: Bytes) {
        self.queue.state.lock().committed.insert(group, committed);
    }

    /// See [`super::LogDisk::let_go`].
    pub fn let_go(&self) {
        self.queue.state.lock().let_go = true;
        self.queue.changed.notify_one();
    }

    /// Forgets a note that did not ride along yet.
    pub fn drop_committed(&self, group: GroupId) {
        self.queue.state.lock().committed.remove(&group);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.changed.notify_one();
        let Some(thread) = self.thread.take() else { return };
        // The last clone may end on the writer's own thread, inside a callback.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join(); // Its panic was printed where it happened.
        }
    }
}

/// What one batch is made of.
struct Turn {
    jobs: Vec<Job>,
    committed: BTreeMap<GroupId, Bytes>,
    /// Dead memory is let go of after it.
    let_go: bool,
}

/// The thread's own.
struct Pen {
    inner: Arc<LogDatabase>,
    marks: Marks,
    queue: Arc<Queue>,
    sync: bool,
    bytes_max: usize,
    delay_ms: Option<Arc<AtomicU64>>,
    on_sync: Option<Arc<dyn Fn(SyncReport) + Send + Sync>>,
}

impl Pen {
    fn run(mut self) {
        while let Some(turn) = self.next() {
            let result = self.take(&turn);
            let jobs = turn.jobs;
            if let Err(error) = &result {
                if error.is_damage() {
                    damage::stop(&self.inner.path, &error.to_string());
                }
                tracing::error!(%error, "the log cannot be written, this node's groups stop");
                let mut state = self.queue.state.lock();
                state.failed = Some(error.clone());
                let rest: Vec<Job> = state.jobs.drain(..).collect();
                drop(state);
                tell(jobs.into_iter().chain(rest), result);
                return;
            }
            tell(jobs, Ok(()));
        }
    }

    /// Waits for work; `None` once closed and all is written.
    fn next(&self) -> Option<Turn> {
        let mut state = self.queue.state.lock();
        while state.jobs.is_empty() && !state.let_go {
            if state.closed {
                let committed = std::mem::take(&mut state.committed);
                let last = Turn { jobs: Vec::new(), committed, let_go: false };
                return (!last.committed.is_empty()).then_some(last);
            }
            self.queue.changed.wait(&mut state);
        }
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while let Some(job) = state.jobs.front() {
            bytes += job.work.bytes();
            if bytes > self.bytes_max && !jobs.is_empty() {
                break;
            }
            jobs.extend(state.jobs.pop_front());
        }
        let committed = match jobs.is_empty() {
            true => BTreeMap::new(),
            false => std::mem::take(&mut state.committed),
        };
        let let_go = state.jobs.is_empty() && std::mem::take(&mut state.let_go);
        Some(Turn { jobs, committed, let_go })
    }

    fn take(&mut self, turn: &Turn) -> Result<(), Error> {
        let Turn { jobs, committed, let_go } = turn;
        if !jobs.is_empty() || !committed.is_empty() {
            self.write(jobs, committed)?;
        }
        match let_go {
            true => self.drop_dead(),
            false => Ok(()),
        }
    }

    fn write(&mut self, jobs: &[Job], committed: &BTreeMap<GroupId, Bytes>) -> Result<(), Error> {
        let started = Instant::now();
        // Room for all, and keys: a batch that grows is copied.
        let room: usize = jobs.iter().map(|job| job.work.bytes()).sum();
        let mut batch = WriteBatch::with_capacity_bytes(room + room / 4 + BATCH_BYTES_MIN);
        let mut ends = BTreeMap::new();
        let mut truncated = Vec::new();
        let (mut entries, mut bytes) = (0, 0);
        for Job { group, work } in jobs {
            bytes += work.bytes();
            match work {
                Work::Append { records, .. } => {
                    entries += records.len();
                    for record in records {
                        batch.put(entry_key(*group, record.index), &record.data);
                        ends.insert(*group, record.index);
                    }
                }
                Work::Vote { vote, .. } => batch.put(vote_key(*group), vote),
                Work::Truncate { from, .. } => {
                    batch.delete_range(entry_key(*group, *from), entry_key(*group, u64::MAX));
                    ends.insert(*group, from.saturating_sub(1));
                    self.marks.lower(*group, from.saturating_sub(1));
                    truncated.push(*group);
                }
                Work::Purge { from, last, mark } => {
                    batch.delete_range(entry_key(*group, *from), entry_key(*group, last + 1));
                    batch.put(purged_key(*group), purged_value(*last, mark));
                }
                Work::Begin { incarnation, .. } => {
                    batch.put(incarnation_key(*group), incarnation_value(*incarnation))
                }
                Work::Forget { .. } => {
                    let (from, to) = held_range(*group);
                    batch.delete_range(from, to);
                    batch.put(incarnation_key(*group), incarnation_value(Incarnation::Over));
                    ends.insert(*group, 0);
                    self.marks.lower(*group, 0);
                    truncated.push(*group);
                }
            }
        }
        for (group, committed) in committed {
            batch.put(committed_key(*group), committed);
        }
        if !truncated.is_empty() {
            // First the marks: a crash between the two must not pass for a log that lost its end, nor
            // a power failure, which may bring back any state of a file that is not synced.
            self.marks.write()?;
            if self.sync {
                self.marks.sync()?;
            }
        }
        self.put(batch).map_err(|error| Error::rocks(&self.inner.path, &error))?;
        self.note(ends, &truncated)?;
        if let Some(on_sync) = &self.on_sync
            && entries > 0
        {
            on_sync(SyncReport { entries, bytes, took: started.elapsed() });
        }
        Ok(())
    }

    /// Writes a batch; where appends are synced, it is on disk when this returns.
    fn put(&self, batch: WriteBatch) -> Result<(), rocksdb::Error> {
        let delay = self.delay_ms.as_ref().filter(|_| self.sync);
        let delay = Duration::from_millis(delay.map_or(0, |ms| ms.load(Ordering::Relaxed)));
        let mut options = WriteOptions::default();
        options.set_sync(self.sync && delay.is_zero());
        self.inner.db.write_opt(batch, &options)?;
        if delay.is_zero() {
            return Ok(());
        }
        // On a slow disk too what is written is there for long before it is synced.
        std::thread::sleep(delay);
        self.inner.db.flush_wal(true)
    }

    /// Lets go of a memtable of which little is needed any more: flushed now, that little is what
    /// reaches a file. Left to fill up, most of it might be in use again when it is flushed.
    fn drop_dead(&self) -> Result<(), Error> {
        let db = &self.inner.db;
        let failed = |error: rocksdb::Error| Error::rocks(&self.inner.path, &error);
        let held = db.property_int_value(CUR_SIZE_ACTIVE_MEM_TABLE).map_err(failed)?.unwrap_or(0);
        let live: u64 = self.inner.groups.lock().values().map(GroupLog::bytes).sum();
        if held < DEAD_BYTES_MIN || live > held / LIVE_SHARE_MAX {
            return Ok(());
        }
        let mut options = FlushOptions::default();
        options.set_wait(false);
        db.flush_opt(&options).map_err(failed)
    }

    fn note(&mut self, ends: BTreeMap<GroupId, u64>, truncated: &[GroupId]) -> Result<(), Error> {
        if !ends.is_empty() {
            let mut groups = self.inner.groups.lock();
            for group in truncated {
                if let Some(group) = groups.get_mut(group) {
                    group.truncations -= 1;
                }
            }
            for (group, end) in &ends {
                if let Some(group) = groups.get_mut(group) {
                    group.synced(*end, self.inner.tail_bytes_max);
                }
            }
        }
        for (group, end) in ends {
            self.marks.set(group, end);
        }
        let writes = self.inner.db.latest_sequence_number();
        self.marks.set_writes(writes);
        self.marks.write()?;
        self.inner.synced_writes.store(writes, Ordering::Relaxed);
        Ok(())
    }
}

fn tell(jobs: impl IntoIterator<Item = Job>, result: Result<(), Error>) {
    for job in jobs {
        match job.work {
            Work::Append { done, .. }
            | Work::Vote { done, .. }
            | Work::Truncate { done, .. }
            | Work::Begin { done, .. }
            | Work::Forget { done } => done(result.clone()),
            Work::Purge { .. } => {}
        }
    }
}
