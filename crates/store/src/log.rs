//! The log database: every group's entries and votes. Appends are readable at once and durable
//! when they say so; one writer thread puts what all groups have asked for into one batch and one
//! sync.

mod group;
mod marks;
mod power;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use domain::ShardId;
use parking_lot::Mutex;
use rocksdb::{DB, DBRecoveryMode, ReadOptions};

use crate::disk::{Room, room};
use crate::options::{MEMTABLES, base, blocks};
use crate::{Error, Options, damage};
use group::GroupLog;
use marks::Marks;
pub use power::{Lost, lose_unsynced};
use writer::{Job, Work, Writer};

/// One entry, as replication encoded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    pub index: u64,
    pub data: Bytes,
}

/// Told once what was asked for is on disk, on the writer's thread: it must not block.
pub type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Which of its lives a node's replica of a group is in. A node that gave its replica up may be given
/// another, which is not bound by what the former one said, and so must not speak in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Runs(u32),
    /// There was one, and nothing of it is left.
    Over,
}

/// A log that ends before the last index it is known to have synced: the disk lost something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortened {
    pub last: u64,
    pub marked: u64,
}

/// All groups' logs on this node. Cloning shares it; the last clone's end stops the writer.
#[derive(Clone)]
pub struct LogStore {
    inner: Arc<Inner>,
    writer: Arc<Writer>,
}

struct Inner {
    db: DB,
    path: PathBuf,
    tail_bytes_max: usize,
    groups: Mutex<BTreeMap<ShardId, GroupLog>>,
    shortened: BTreeMap<ShardId, Shortened>,
    /// Writes it holds and writes that were synced, where these are more.
    missing: Option<(u64, u64)>,
}

impl LogStore {
    /// Opens or creates the database. A batch that was being written when the node died is dropped
    /// whole; damage anywhere before it is an error.
    pub fn open(path: &Path, options: &Options) -> Result<LogStore, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::io(path, &error))?;
        let db = DB::open(&database(options), path).map_err(|error| Error::rocks(path, &error))?;
        let groups = group::read_all(&db, path)?;
        let (marks, marked) = Marks::open(&path.with_extension("marks"))?;
        let shortened = shortened(&groups, &marked.synced);
        let written = db.latest_sequence_number();
        let missing = (written < marked.writes).then_some((written, marked.writes));
        let inner = Arc::new(Inner {
            db,
            path: path.to_owned(),
            tail_bytes_max: options.tail_bytes_max,
            groups: Mutex::new(groups),
            shortened,
            missing,
        });
        let writer = Arc::new(Writer::start(inner.clone(), marks, options)?);
        Ok(LogStore { inner, writer })
    }

    /// Appends entries, which follow the last one without a gap. They can be read at once; `done`
    /// is told when they are on disk, in the order of appends.
    pub fn append(&self, shard: ShardId, records: Vec<LogRecord>, done: Done) {
        self.change(shard, |group| {
            group.append(&records);
            Work::Append { records, done }
        });
    }

    /// Saves a vote; `done` is told when it is on disk.
    pub fn save_vote(&self, shard: ShardId, vote: Bytes, done: Done) {
        self.change(shard, |group| {
            group.vote = Some(vote.clone());
            Work::Vote { vote, done }
        });
    }

    pub fn vote(&self, shard: ShardId) -> Result<Option<Bytes>, Error> {
        Ok(self.group(shard, |group| group.vote.clone()))
    }

    /// Notes how far the group is known to have committed. Rides along with the next batch: losing
    /// it costs a restart some waiting, never an entry.
    pub fn save_committed(&self, shard: ShardId, committed: Bytes) {
        self.group(shard, |group| group.committed = Some(committed.clone()));
        self.writer.save_committed(shard, committed);
    }

    pub fn committed(&self, shard: ShardId) -> Result<Option<Bytes>, Error> {
        Ok(self.group(shard, |group| group.committed.clone()))
    }

    /// Entries `from..to` as far as they exist, stopped early at `bytes_max` but not before the
    /// first.
    pub fn read(
        &self,
        shard: ShardId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<LogRecord>, Error> {
        let (mut records, tail_from, from, to) = self.group(shard, |group| {
            let (from, to) = group.clamp(from, to);
            (group.tail(from, to, bytes_max), group.tail_first(), from, to)
        });
        if from < to.min(tail_from) {
            // The older part is on disk; what of the tail follows is read by the next call.
            records = self.read_disk(shard, from, to.min(tail_from), bytes_max)?;
        }
        Ok(records)
    }

    /// Whether a read from here on asks no disk.
    pub fn in_memory(&self, shard: ShardId, from: u64) -> bool {
        self.group(shard, |group| from >= group.tail_first())
    }

    /// The last entry there is; `None` for a log that is empty or forgotten to its end.
    pub fn last(&self, shard: ShardId) -> Result<Option<LogRecord>, Error> {
        let (last, cached) = self.group(shard, |group| (group.last_index(), group.last_record()));
        match (last, cached) {
            (None, _) => Ok(None),
            (_, Some(record)) => Ok(Some(record)),
            (Some(index), None) => Ok(self.read_disk(shard, index, index + 1, usize::MAX)?.pop()),
        }
    }

    /// Removes entries from `from` on: another leader's took their place.
    pub fn truncate(&self, shard: ShardId, from: u64, done: Done) {
        self.change(shard, |group| {
            group.truncate(from);
            Work::Truncate { from, done }
        });
    }

    /// Forgets entries up to `last`, and keeps `mark` in their place. What is forgotten already
    /// stays so.
    pub fn purge(&self, shard: ShardId, last: u64, mark: Bytes) {
        let mut groups = self.inner.groups.lock();
        let group = groups.entry(shard).or_default();
        let from = group.first_index();
        if from <= last {
            group.purge(last, mark.clone());
            self.writer.submit(Job { shard, work: Work::Purge { from, last, mark } });
        }
    }

    /// The mark of the last forgotten entry.
    pub fn purged(&self, shard: ShardId) -> Result<Option<Bytes>, Error> {
        Ok(self.group(shard, |group| group.purged.as_ref().map(|(_, mark)| mark.clone())))
    }

    /// The last index known to be on disk.
    pub fn synced_index(&self, shard: ShardId) -> u64 {
        self.group(shard, |group| group.synced)
    }

    /// Bytes of entries kept, of all groups. After a restart, older entries are reckoned from the
    /// size of their files.
    pub fn bytes(&self) -> u64 {
        self.inner.groups.lock().values().map(GroupLog::bytes).sum()
    }

    /// Whether this group's log was found shorter than its mark when it was opened: it must not
    /// vote, for it may have forgotten what it promised.
    pub fn shortened(&self, shard: ShardId) -> Option<Shortened> {
        self.inner.shortened.get(&shard).copied()
    }

    /// Whether this is the only handle left: dropping it closes the database.
    pub fn is_last(&self) -> bool {
        Arc::strong_count(&self.writer) == 1
    }

    /// Room on the disk that holds the log.
    pub fn room(&self) -> Result<Room, Error> {
        room(&self.inner.path)
    }

    /// Why nothing is written any more, if that is so.
    pub fn failure(&self) -> Option<Error> {
        self.writer.failure()
    }

    /// Whether all that was once synced was there when it was opened, votes included.
    pub fn check(&self) -> Result<(), Error> {
        let path = self.inner.path.clone();
        if let Some((&shard, &Shortened { last, marked })) = self.inner.shortened.first_key_value()
        {
            return Err(Error::Shortened { path, shard, last, marked });
        }
        match self.inner.missing {
            None => Ok(()),
            Some((written, synced)) => Err(self.inner.corrupt(format!(
                "it ends at write {written}, but {synced} were synced, and votes may be among them"
            ))),
        }
    }

    /// The last forgotten index of every group that has forgotten any.
    pub fn forgotten(&self) -> BTreeMap<ShardId, u64> {
        let groups = self.inner.groups.lock();
        let forgotten = |group: &GroupLog| Some(group.purged.as_ref()?.0);
        groups.iter().filter_map(|(shard, group)| Some((*shard, forgotten(group)?))).collect()
    }

    /// The groups of which there is a replica, or something of one.
    pub fn held(&self) -> BTreeSet<ShardId> {
        let groups = self.inner.groups.lock();
        groups.iter().filter(|(_, group)| group.is_held()).map(|(shard, _)| *shard).collect()
    }

    /// The life of a replica that came after its group was founded.
    pub fn life(&self, shard: ShardId) -> Option<Life> {
        self.group(shard, |group| group.life)
    }

    /// Begins a life of a replica that has nothing yet; `done` is told when that is on disk.
    pub fn begin_life(&self, shard: ShardId, incarnation: u32, done: Done) {
        self.change(shard, |group| {
            let life = Life::Runs(incarnation);
            group.life = Some(life);
            Work::Begin { life, done }
        });
    }

    /// Forgets a replica that its group needs no more: entries, vote and all; `done` is told when
    /// that is on disk. Nobody may use it any more.
    pub fn forget(&self, shard: ShardId, done: Done) {
        self.writer.drop_committed(shard);
        self.change(shard, |group| {
            group.forget();
            Work::Forget { done }
        });
    }

    /// Stops the process over an entry that is not what was written.
    pub fn unreadable(&self, shard: ShardId, index: u64, reason: &str) -> ! {
        let path = self.inner.path.display();
        damage::stop(&self.inner.path, &format!("{path}: shard {shard}, index {index}: {reason}"))
    }

    fn group<T>(&self, shard: ShardId, with: impl FnOnce(&mut GroupLog) -> T) -> T {
        with(self.inner.groups.lock().entry(shard).or_default())
    }

    /// Changes what can be read and queues what is to be written, in one order.
    fn change(&self, shard: ShardId, with: impl FnOnce(&mut GroupLog) -> Work) {
        let mut groups = self.inner.groups.lock();
        let work = with(groups.entry(shard).or_default());
        self.writer.submit(Job { shard, work });
    }

    fn read_disk(
        &self,
        shard: ShardId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<LogRecord>, Error> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(group::entry_key(shard, to));
        options.fill_cache(false);
        let mut rows = self.inner.db.raw_iterator_opt(options);
        rows.seek(group::entry_key(shard, from));
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some((key, value)) = rows.item() {
            let expected = from + records.len() as u64;
            if group::index_of(key) != Some(expected) {
                return Err(self.inner.corrupt(format!("shard {shard}: no entry {expected}")));
            }
            bytes += value.len();
            if bytes > bytes_max && !records.is_empty() {
                return Ok(records);
            }
            records.push(LogRecord { index: expected, data: Bytes::copy_from_slice(value) });
            rows.next();
        }
        rows.status().map_err(|error| Error::rocks(&self.inner.path, &error))?;
        if records.is_empty() {
            return Err(self.inner.corrupt(format!("shard {shard}: no entry {from}")));
        }
        Ok(records)
    }
}

impl Inner {
    fn corrupt(&self, reason: String) -> Error {
        Error::Corrupt { path: self.path.clone(), reason }
    }
}

fn shortened(
    groups: &BTreeMap<ShardId, GroupLog>,
    marked: &BTreeMap<ShardId, u64>,
) -> BTreeMap<ShardId, Shortened> {
    let last = |shard| groups.get(shard).map_or(0, GroupLog::end);
    marked
        .iter()
        .map(|(shard, marked)| (*shard, Shortened { last: last(shard), marked: *marked }))
        .filter(|(_, found)| found.last < found.marked)
        .collect()
}

fn database(options: &Options) -> rocksdb::Options {
    let mut database = base();
    database.set_block_based_table_factory(&blocks(options.cache_bytes / 4));
    database.set_write_buffer_size(options.log_memtable_bytes);
    database.set_max_write_buffer_number(MEMTABLES as i32);
    database.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    // Entries are written in order and forgotten in order: merging files gains nothing.
    database.set_level_zero_file_num_compaction_trigger(8);
    database
}
