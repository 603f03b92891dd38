//! The log over RocksDB: a database, what is known of it in memory, one thread that writes, and one
//! that removes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use domain::GroupId;
use parking_lot::Mutex;
use rocksdb::properties::{SIZE_ALL_MEM_TABLES, TOTAL_SST_FILES_SIZE};
use rocksdb::{DB, DBRecoveryMode, FlushOptions, ReadOptions};

use super::group::{self, GroupLog};
use super::marks::Marks;
use super::trimmer::LogTrimmer;
use super::writer::{Job, Work, Writer};
use super::{Done, Incarnation, LogDisk, LogRecord, Shortened};
use crate::disk::{DiskSpace, disk_space};
use crate::options::{MEMTABLES, base, blocks};
use crate::{Error, Options, damage, records};

/// Files that are needed no more are not for RocksDB to remove, however many they are.
const ARCHIVE_MEBIBYTES: u64 = 1 << 30;

/// Less is not worth a flush.
const RECLAIMED_MIN: u64 = 1 << 20;

/// See the file's head. Its end stops the threads.
pub(super) struct RocksLog {
    inner: Arc<LogDatabase>,
    writer: Writer,
    _trimmer: LogTrimmer,
}

pub(super) struct LogDatabase {
    pub db: DB,
    pub path: PathBuf,
    pub tail_bytes_max: usize,
    pub groups: Mutex<BTreeMap<GroupId, GroupLog>>,
    shortened: BTreeMap<GroupId, Shortened>,
    /// Writes that are on disk, as RocksDB numbers them; the mark file knows of no more.
    pub synced_writes: Arc<AtomicU64>,
    /// Writes it holds and writes that were synced, where these are more.
    missing: Option<(u64, u64)>,
}

impl RocksLog {
    /// [`super::LogStore::open`].
    pub fn open(path: &Path, options: &Options) -> Result<RocksLog, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::io(path, &error))?;
        records::check(path)?;
        let db = DB::open(&database(options), path).map_err(|error| Error::rocks(path, &error))?;
        let groups = group::read_all(&db, path)?;
        let (marks, marked) = Marks::open(&path.with_extension("marks"))?;
        let shortened = shortened(&groups, &marked.synced);
        let written = db.latest_sequence_number();
        let missing = (written < marked.writes).then_some((written, marked.writes));
        let inner = Arc::new(LogDatabase {
            db,
            path: path.to_owned(),
            tail_bytes_max: options.tail_bytes_max,
            groups: Mutex::new(groups),
            shortened,
            // What is found is on disk: opening a database writes what it found in its last log to a table.
            synced_writes: Arc::new(AtomicU64::new(written)),
            missing,
        });
        let writer = Writer::start(inner.clone(), marks, options)?;
        Ok(RocksLog { inner, writer, _trimmer: LogTrimmer::start(path)? })
    }

    fn group<T>(&self, group: GroupId, with: impl FnOnce(&mut GroupLog) -> T) -> T {
        with(self.inner.groups.lock().entry(group).or_default())
    }

    /// Changes what can be read and queues what is to be written, in one order.
    fn change(&self, group: GroupId, with: impl FnOnce(&mut GroupLog) -> Work) {
        let mut groups = self.inner.groups.lock();
        let work = with(groups.entry(group).or_default());
        self.writer.submit(Job { group, work });
    }

    fn read_disk(
        &self,
        group: GroupId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<LogRecord>, Error> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(group::entry_key(group, to));
        options.fill_cache(false);
        let mut rows = self.inner.db.raw_iterator_opt(options);
        rows.seek(group::entry_key(group, from));
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some((key, value)) = rows.item() {
            let expected = from + records.len() as u64;
            if group::index_of(key) != Some(expected) {
                return Err(self.inner.corrupt(format!("group {group}: no entry {expected}")));
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
            return Err(self.inner.corrupt(format!("group {group}: no entry {from}")));
        }
        Ok(records)
    }
}

impl LogDisk for RocksLog {
    fn append(&self, group: GroupId, records: Vec<LogRecord>, done: Done) {
        self.change(group, |group| {
            group.append(&records);
            Work::Append { records, done }
        });
    }

    fn save_vote(&self, group: GroupId, vote: Bytes, done: Done) {
        self.change(group, |group| {
            group.vote = Some(vote.clone());
            Work::Vote { vote, done }
        });
    }

    fn vote(&self, group: GroupId) -> Result<Option<Bytes>, Error> {
        Ok(self.group(group, |group| group.vote.clone()))
    }

    fn save_committed(&self, group: GroupId, committed: Bytes) {
        self.group(group, |group| group.committed = Some(committed.clone()));
        self.writer.save_committed(group, committed);
    }

    fn committed(&self, group: GroupId) -> Result<Option<Bytes>, Error> {
        Ok(self.group(group, |group| group.committed.clone()))
    }

    fn read(
        &self,
        group: GroupId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<LogRecord>, Error> {
        let (mut records, tail_from, from, to) = self.group(group, |group| {
            let (from, to) = group.clamp(from, to);
            (group.tail(from, to, bytes_max), group.tail_first(), from, to)
        });
        if from < to.min(tail_from) {
            // The older part is on disk; what of the tail follows is read by the next call.
            records = self.read_disk(group, from, to.min(tail_from), bytes_max)?;
        }
        Ok(records)
    }

    fn in_memory(&self, group: GroupId, from: u64) -> bool {
        self.group(group, |group| from >= group.tail_first())
    }

    fn last(&self, group: GroupId) -> Result<Option<LogRecord>, Error> {
        let (last, cached) = self.group(group, |group| (group.last_index(), group.last_record()));
        match (last, cached) {
            (None, _) => Ok(None),
            (_, Some(record)) => Ok(Some(record)),
            (Some(index), None) => Ok(self.read_disk(group, index, index + 1, usize::MAX)?.pop()),
        }
    }

    fn truncate(&self, group: GroupId, from: u64, done: Done) {
        self.change(group, |group| {
            group.truncate(from);
            Work::Truncate { from, done }
        });
    }

    fn purge(&self, group: GroupId, last: u64, mark: Bytes) {
        let mut groups = self.inner.groups.lock();
        let log = groups.entry(group).or_default();
        let from = log.first_index();
        if from <= last {
            log.purge(last, mark.clone());
            self.writer.submit(Job { group, work: Work::Purge { from, last, mark } });
        }
    }

    fn let_go(&self) {
        self.writer.let_go();
    }

    fn reclaim(&self) -> Result<(), Error> {
        let db = &self.inner.db;
        let failed = |error: rocksdb::Error| Error::rocks(&self.inner.path, &error);
        let read =
            |name| Ok::<u64, Error>(db.property_int_value(name).map_err(failed)?.unwrap_or(0));
        let held = read(SIZE_ALL_MEM_TABLES)? + read(TOTAL_SST_FILES_SIZE)?;
        let live = self.bytes();
        if held < RECLAIMED_MIN || live > held / 2 {
            return Ok(());
        }
        // What lies in memory lies in a write-ahead log as well, which goes once the memtable does.
        let mut options = FlushOptions::default();
        options.set_wait(true);
        db.flush_opt(&options).map_err(failed)?;
        db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn purged(&self, group: GroupId) -> Result<Option<Bytes>, Error> {
        Ok(self.group(group, |group| group.purged.as_ref().map(|(_, mark)| mark.clone())))
    }

    fn synced_index(&self, group: GroupId) -> u64 {
        self.group(group, |group| group.synced)
    }

    fn synced_writes(&self) -> Arc<AtomicU64> {
        self.inner.synced_writes.clone()
    }

    fn bytes(&self) -> u64 {
        self.inner.groups.lock().values().map(GroupLog::bytes).sum()
    }

    fn shortened(&self, group: GroupId) -> Option<Shortened> {
        self.inner.shortened.get(&group).copied()
    }

    fn disk_space(&self) -> Result<DiskSpace, Error> {
        disk_space(&self.inner.path)
    }

    fn failure(&self) -> Option<Error> {
        self.writer.failure()
    }

    fn check(&self) -> Result<(), Error> {
        let path = self.inner.path.clone();
        if let Some((&group, &Shortened { last, marked })) = self.inner.shortened.first_key_value()
        {
            return Err(Error::Shortened { path, group, last, marked });
        }
        match self.inner.missing {
            None => Ok(()),
            Some((written, synced)) => Err(self.inner.corrupt(format!(
                "it ends at write {written}, but {synced} were synced, and votes may be among them"
            ))),
        }
    }

    fn forgotten(&self) -> BTreeMap<GroupId, u64> {
        let groups = self.inner.groups.lock();
        let forgotten = |log: &GroupLog| Some(log.purged.as_ref()?.0);
        groups.iter().filter_map(|(group, log)| Some((*group, forgotten(log)?))).collect()
    }

    fn held(&self) -> BTreeSet<GroupId> {
        let groups = self.inner.groups.lock();
        groups.iter().filter(|(_, log)| log.is_held()).map(|(group, _)| *group).collect()
    }

    fn incarnation(&self, group: GroupId) -> Option<Incarnation> {
        self.group(group, |group| group.incarnation)
    }

    fn given_up(&self) -> BTreeSet<GroupId> {
        let groups = self.inner.groups.lock();
        let over = groups.iter().filter(|(_, log)| log.incarnation == Some(Incarnation::Over));
        over.map(|(group, _)| *group).collect()
    }

    fn begin_incarnation(&self, group: GroupId, incarnation: u32, done: Done) {
        self.change(group, |group| {
            let incarnation = Incarnation::Runs(incarnation);
            group.incarnation = Some(incarnation);
            Work::Begin { incarnation, done }
        });
    }

    fn forget(&self, group: GroupId, done: Done) {
        self.writer.drop_committed(group);
        self.change(group, |group| {
            group.forget();
            Work::Forget { done }
        });
    }

    fn unreadable(&self, group: GroupId, index: u64, reason: &str) -> ! {
        let path = self.inner.path.display();
        damage::stop(&self.inner.path, &format!("{path}: group {group}, index {index}: {reason}"))
    }
}

impl LogDatabase {
    fn corrupt(&self, reason: String) -> Error {
        Error::Corrupt { path: self.path.clone(), reason }
    }
}

fn shortened(
    groups: &BTreeMap<GroupId, GroupLog>,
    marked: &BTreeMap<GroupId, u64>,
) -> BTreeMap<GroupId, Shortened> {
    let last = |group| groups.get(group).map_or(0, GroupLog::end);
    marked
        .iter()
        .map(|(group, marked)| (*group, Shortened { last: last(group), marked: *marked }))
        .filter(|(_, found)| found.last < found.marked)
        .collect()
}

fn database(options: &Options) -> rocksdb::Options {
    let mut database = base();
    database.set_block_based_table_factory(&blocks(options.cache_bytes / 4));
    database.set_write_buffer_size(options.log_memtable_bytes);
    database.set_max_write_buffer_number(MEMTABLES as i32);
    database.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    database.set_wal_size_limit_mb(ARCHIVE_MEBIBYTES);
    // Entries are written in order and forgotten in order: merging files gains nothing.
    database.set_level_zero_file_num_compaction_trigger(8);
    database
}
