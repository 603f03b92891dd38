//! Rows in RocksDB.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use domain::{GroupId, Key, Row};
use parking_lot::Mutex;
use rocksdb::properties::TOTAL_SST_FILES_SIZE;
use rocksdb::{
    BottommostLevelCompaction, CompactOptions, DB, DBCompactionStyle, FlushOptions, ReadOptions,
    ReadTier, UniversalCompactOptions, WriteBatch, WriteOptions,
};

use super::blobs::Blobs;
use super::{Change, RowDisk, RowsIn, RowsOut, transfer};
use crate::disk::{DiskSpace, disk_space};
use crate::options::{MEMTABLES, base, blocks};
use crate::{Error, Options, damage, records};
use wire::{applied_key, encode_key, put_key};

/// A file of keys, and of bodies too small for a blob file.
const KEYS_FILE_BYTES: u64 = 4 << 20;
/// Flushed files and what they were merged into, before there is a merge. Rows are deleted all over the
/// place a second to minutes after they were written, so levels would rewrite most of what they
/// hold with every few flushes; runs that wait for others of their size are rewritten a few times
/// in their life. Filters tell most look-ups which of them to leave alone. What is deleted in those
/// that wait keeps its room on the disk so long.
const RUNS: i32 = 8;
/// From so many on writes wait.
const RUNS_SLOW: i32 = 6 * RUNS;
const RUNS_MAX: i32 = 9 * RUNS;
/// Fewer are not merged for their size.
const RUNS_MERGED_MIN: i32 = 4;
/// A run joins newer ones that together are so much smaller, in percent.
const RUN_RATIO: i32 = 20;
/// Newer runs may hold this part of the oldest, in percent: then all are merged. Only so do
/// deletions meet the rows that lie there, and those of a queue that was emptied take more than
/// this part.
const NEWER_MAX: i32 = 25;

/// The database. Clones share it.
#[derive(Clone)]
pub(super) struct RocksRows {
    pub inner: Arc<RowsDatabase>,
}

pub(super) struct RowsDatabase {
    pub db: DB,
    pub path: PathBuf,
    blobs: Blobs,
    /// Why the last write that failed did.
    failure: Mutex<Option<Error>>,
}

impl RocksRows {
    /// [`super::RowStore::open`].
    pub fn open(path: &Path, options: &Options) -> Result<RocksRows, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::io(path, &error))?;
        records::check(path)?;
        let db = DB::open(&database(options), path).map_err(|error| Error::rocks(path, &error))?;
        let blobs = Blobs::new(options.rows_memtable_bytes);
        let inner = RowsDatabase { db, path: path.to_owned(), blobs, failure: Mutex::default() };
        let rows = RocksRows { inner: Arc::new(inner) };
        transfer::resume(&rows)?;
        Ok(rows)
    }

    pub fn applied_of(&self, group: GroupId, value: &[u8]) -> Result<(u64, Bytes), Error> {
        match value.split_first_chunk() {
            Some((index, mark)) => Ok((u64::from_be_bytes(*index), Bytes::copy_from_slice(mark))),
            None => Err(Error::Corrupt {
                path: self.inner.path.clone(),
                reason: format!("the applied mark of group {group} is cut short"),
            }),
        }
    }

    pub fn failed(&self, error: &rocksdb::Error) -> Error {
        self.inner.failed(error)
    }
}

impl RowDisk for RocksRows {
    fn write(
        &self,
        group: GroupId,
        erased: &[(Key, Key)],
        changes: &mut dyn Iterator<Item = Change<'_>>,
        (index, mark): &(u64, Bytes),
    ) -> Result<(), Error> {
        let mut batch = WriteBatch::default();
        for (from, to) in erased {
            batch.delete_range(encode_key(group, from), encode_key(group, to));
        }
        put_changes(group, changes, &mut batch);
        batch.put(applied_key(group), applied_value(*index, mark));
        self.inner.commit(batch).inspect_err(|error| {
            self.inner.stop_if_damaged(&format!("group {group}, index {index}"), error);
        })
    }

    fn get(&self, group: GroupId, key: &Key) -> Option<Row> {
        self.read(group, key)
    }

    fn get_many(&self, group: GroupId, keys: &[Key]) -> Vec<Option<Row>> {
        self.read_many(group, keys)
    }

    fn scan(
        &self,
        group: GroupId,
        from: &Key,
        to: &Key,
    ) -> Box<dyn Iterator<Item = (Key, Row)> + '_> {
        Box::new(self.read_range(group, from, to))
    }

    fn last(&self, group: GroupId, from: &Key, to: &Key) -> Option<Key> {
        self.read_last(group, from, to)
    }

    fn applied(&self, group: GroupId) -> Result<Option<(u64, Bytes)>, Error> {
        let value = self.inner.db.get_pinned(applied_key(group));
        let value = value.map_err(|error| self.failed(&error))?;
        value.map(|value| self.applied_of(group, &value)).transpose()
    }

    fn flushed_index(&self, group: GroupId) -> u64 {
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::Persisted); // Without a log, this is what is in files.
        let value = self.inner.db.get_pinned_opt(applied_key(group), &options);
        match value {
            Ok(Some(value)) => self.applied_of(group, &value).map_or(0, |(index, _)| index),
            Ok(None) | Err(_) => 0,
        }
    }

    fn flush(&self) -> Result<(), Error> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        let flushed =
            self.inner.db.flush_opt(&options).map_err(|error| self.inner.not_written(&error));
        flushed.inspect_err(|error| self.inner.stop_if_damaged("a flush", error))
    }

    fn reclaim(&self, live_bytes: u64, free_bytes: u64) -> Result<bool, Error> {
        self.flush()?;
        let db = &self.inner.db;
        let keys = db.property_int_value(TOTAL_SST_FILES_SIZE).ok().flatten().unwrap_or(0);
        // A merge of all has both the old and the new on disk.
        let room = free_bytes / 2;
        if keys.min(live_bytes) > room {
            return Ok(false);
        }
        // Bodies' files go by themselves with the last of their bodies, once the keys are gone.
        merge_all(db);
        self.inner.blobs.collect(db, room, || merge_all(db));
        Ok(true)
    }

    fn forget(&self, group: GroupId) -> Result<(), Error> {
        transfer::forget(self, group)
    }

    fn file_bytes(&self) -> u64 {
        let names = ["rocksdb.total-sst-files-size", "rocksdb.total-blob-file-size"];
        let bytes = |name| self.inner.db.property_int_value(name).ok().flatten().unwrap_or(0);
        names.map(bytes).iter().sum()
    }

    fn disk_space(&self) -> Result<DiskSpace, Error> {
        disk_space(&self.inner.path)
    }

    fn failure(&self) -> Option<Error> {
        self.inner.failure.lock().clone()
    }

    fn export(&self, group: GroupId) -> Result<Box<dyn RowsOut>, Error> {
        Ok(Box::new(transfer::export(self, group)?))
    }

    fn import(&self, group: GroupId, index: u64, mark: &[u8]) -> Result<Box<dyn RowsIn>, Error> {
        Ok(Box::new(transfer::import(self, group, index, mark)?))
    }

    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }
}

impl RowsDatabase {
    pub fn commit(&self, batch: WriteBatch) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        let bytes = batch.size_in_bytes();
        self.db.write_opt(batch, &options).map_err(|error| self.not_written(&error))?;
        self.blobs.wrote(&self.db, bytes);
        Ok(())
    }

    pub fn not_written(&self, error: &rocksdb::Error) -> Error {
        self.note(self.failed(error))
    }

    /// Keeps a failure for whoever asks for the last one.
    pub fn note(&self, error: Error) -> Error {
        *self.failure.lock() = Some(error.clone());
        error
    }

    fn failed(&self, error: &rocksdb::Error) -> Error {
        Error::rocks(&self.path, error)
    }

    /// A database that has met damage takes no more writes: going on would only hide why.
    pub fn stop_if_damaged(&self, during: &str, error: &Error) {
        if error.is_damage() {
            damage::stop(&self.path, &format!("{error} (met by {during})"));
        }
    }
}

/// Rewrites every file, the oldest as well: only so does what was deleted leave them.
fn merge_all(db: &DB) {
    let mut options = CompactOptions::default();
    options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
}

fn put_changes(
    group: GroupId,
    changes: &mut dyn Iterator<Item = Change<'_>>,
    batch: &mut WriteBatch,
) {
    let (mut key_bytes, mut value) = (Vec::new(), Vec::new());
    for (key, row) in changes {
        put_key(group, &key, &mut key_bytes);
        match row {
            Some(Row::Body(content)) => batch.put(&key_bytes, content),
            Some(row) => {
                value.clear();
                wire::put_row(row, &mut value);
                batch.put(&key_bytes, &value);
            }
            // A body is written once and deleted once: such a pair leaves nothing at all when
            // it is flushed, where a plain tombstone would be kept.
            None if matches!(*key, Key::Body(..)) => batch.single_delete(&key_bytes),
            None => batch.delete(&key_bytes),
        }
    }
}

pub(super) fn applied_value(index: u64, mark: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + mark.len());
    value.extend_from_slice(&index.to_be_bytes());
    value.extend_from_slice(mark);
    value
}

pub(super) fn database(options: &Options) -> rocksdb::Options {
    let mut database = base();
    database.set_block_based_table_factory(&blocks(options.cache_bytes * 3 / 4));
    database.set_write_buffer_size(options.rows_memtable_bytes);
    database.set_max_write_buffer_number(MEMTABLES as i32);
    database.set_target_file_size_base(KEYS_FILE_BYTES);
    database.set_compaction_style(DBCompactionStyle::Universal);
    database.set_universal_compaction_options(&runs());
    database.set_level_zero_file_num_compaction_trigger(RUNS);
    database.set_level_zero_slowdown_writes_trigger(RUNS_SLOW);
    database.set_level_zero_stop_writes_trigger(RUNS_MAX);
    database.set_enable_blob_files(true);
    database.set_min_blob_size(options.blob_bytes_min);
    // Entries come from a few groups, each from one thread.
    database.set_allow_concurrent_memtable_write(true);
    database
}

fn runs() -> UniversalCompactOptions {
    let mut runs = UniversalCompactOptions::default();
    runs.set_min_merge_width(RUNS_MERGED_MIN);
    runs.set_size_ratio(RUN_RATIO);
    runs.set_max_size_amplification_percent(NEWER_MAX);
    runs
}
