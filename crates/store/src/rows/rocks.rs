//! Rows in RocksDB.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use domain::{Key, Row, ShardId, Write};
use parking_lot::{Mutex, RwLock};
use rocksdb::{DB, FlushOptions, ReadOptions, ReadTier, WriteBatch, WriteOptions};

use super::read::{RocksMachine, RocksShard};
use super::young::Young;
use super::{Export, Import, MachineRows, RowDisk, ShardRows, transfer};
use crate::disk::{Room, room};
use crate::keys::{applied_key, encode_key, put_key};
use crate::options::{MEMTABLES, base, blocks};
use crate::{Error, Options, damage};

/// See the file's head.
#[derive(Clone)]
pub(super) struct RocksRows {
    pub inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub db: DB,
    pub path: PathBuf,
    young: Mutex<BTreeMap<ShardId, Arc<RwLock<Young>>>>,
    /// Bytes that all shards' young rows hold, and may hold.
    young_bytes: AtomicUsize,
    young_bytes_max: usize,
    rows_written: AtomicU64,
    /// Why the last write that failed did.
    failure: Mutex<Option<Error>>,
}

impl RocksRows {
    /// [`super::RowStore::open`].
    pub fn open(path: &Path, options: &Options) -> Result<RocksRows, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::io(path, &error))?;
        let db = DB::open(&database(options), path).map_err(|error| Error::rocks(path, &error))?;
        let inner = Inner {
            db,
            path: path.to_owned(),
            young: Mutex::default(),
            young_bytes: AtomicUsize::new(0),
            young_bytes_max: options.young_bytes_max,
            rows_written: AtomicU64::new(0),
            failure: Mutex::default(),
        };
        let store = RocksRows { inner: Arc::new(inner) };
        transfer::resume(&store)?;
        Ok(store)
    }

    fn reader(&self, shard: ShardId) -> RocksShard {
        RocksShard::new(self.clone(), shard, self.inner.young(shard))
    }

    fn write_out_if(&self, wanted: impl Fn(&Young) -> bool) -> Result<(), Error> {
        let shards: Vec<_> =
            self.inner.young.lock().iter().map(|(shard, young)| (*shard, young.clone())).collect();
        for (shard, young) in shards {
            if wanted(&young.read()) {
                self.inner.write_out(shard, &mut young.write())?;
            }
        }
        Ok(())
    }

    pub fn stored_applied(&self, shard: ShardId) -> Result<Option<(u64, Bytes)>, Error> {
        let value = self.inner.db.get_pinned(applied_key(shard));
        let value = value.map_err(|error| self.failed(&error))?;
        value.map(|value| self.applied_of(shard, &value)).transpose()
    }

    pub fn applied_of(&self, shard: ShardId, value: &[u8]) -> Result<(u64, Bytes), Error> {
        match value.split_first_chunk() {
            Some((index, mark)) => Ok((u64::from_be_bytes(*index), Bytes::copy_from_slice(mark))),
            None => Err(Error::Corrupt {
                path: self.inner.path.clone(),
                reason: format!("the applied mark of shard {shard} is cut short"),
            }),
        }
    }

    pub fn failed(&self, error: &rocksdb::Error) -> Error {
        self.inner.failed(error)
    }
}

impl RowDisk for RocksRows {
    fn shard(&self, shard: ShardId) -> ShardRows {
        ShardRows::of(self.reader(shard))
    }

    fn machine(&self, shard: ShardId) -> MachineRows {
        MachineRows::of(RocksMachine(self.reader(shard)))
    }

    fn apply(
        &self,
        shard: ShardId,
        erased: &[(Key, Key)],
        writes: Vec<(Key, Write)>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error> {
        let young = self.inner.young(shard);
        let mut young = young.write();
        if !erased.is_empty() {
            self.inner.write_out(shard, &mut young)?;
            return self.inner.write_erased(shard, erased, &writes, &(applied_index, mark));
        }
        let came = young.take(writes, (applied_index, mark));
        let held = self.inner.young_bytes.fetch_add(came, Ordering::Relaxed) + came;
        match young.is_full(held, self.inner.young_bytes_max) {
            true => self.inner.write_out(shard, &mut young),
            false => Ok(()),
        }
    }

    fn write_out_old(&self) -> Result<(), Error> {
        self.write_out_if(Young::is_old)
    }

    fn take_rows_written(&self) -> u64 {
        self.inner.rows_written.swap(0, Ordering::Relaxed)
    }

    fn applied(&self, shard: ShardId) -> Result<Option<(u64, Bytes)>, Error> {
        if let Some(applied) = self.inner.young(shard).read().applied() {
            return Ok(Some(applied.clone()));
        }
        self.stored_applied(shard)
    }

    fn flushed_index(&self, shard: ShardId) -> u64 {
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::Persisted); // Without a log, this is what is in files.
        let value = self.inner.db.get_pinned_opt(applied_key(shard), &options);
        match value {
            Ok(Some(value)) => self.applied_of(shard, &value).map_or(0, |(index, _)| index),
            Ok(None) | Err(_) => 0,
        }
    }

    fn flush(&self) -> Result<(), Error> {
        self.write_out_if(|_| true)?;
        let mut options = FlushOptions::default();
        options.set_wait(true);
        let flushed =
            self.inner.db.flush_opt(&options).map_err(|error| self.inner.not_written(&error));
        flushed.inspect_err(|error| self.inner.stop_if_damaged("a flush", error))
    }

    fn file_bytes(&self) -> u64 {
        let name = rocksdb::properties::TOTAL_SST_FILES_SIZE;
        self.inner.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }

    fn room(&self) -> Result<Room, Error> {
        room(&self.inner.path)
    }

    fn failure(&self) -> Option<Error> {
        self.inner.failure.lock().clone()
    }

    fn export(&self, shard: ShardId) -> Result<Export, Error> {
        transfer::export(self, shard).map(Export::of)
    }

    fn import(&self, shard: ShardId, index: u64, mark: &[u8]) -> Result<Import, Error> {
        transfer::import(self, shard, index, mark).map(Import::of)
    }

    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }
}

impl Inner {
    pub fn young(&self, shard: ShardId) -> Arc<RwLock<Young>> {
        self.young.lock().entry(shard).or_default().clone()
    }

    /// Others are coming in their place.
    pub fn forget_young(&self, shard: ShardId) {
        let bytes = self.young(shard).write().clear();
        self.young_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Writes a shard's young rows. They stay where it fails.
    pub fn write_out(&self, shard: ShardId, young: &mut Young) -> Result<(), Error> {
        let Some(applied) = young.applied() else { return Ok(()) };
        self.write(shard, WriteBatch::default(), young.iter(), applied)?;
        self.young_bytes.fetch_sub(young.clear(), Ordering::Relaxed);
        Ok(())
    }

    /// Erases, then writes; with nothing young before.
    fn write_erased(
        &self,
        shard: ShardId,
        erased: &[(Key, Key)],
        writes: &[(Key, Write)],
        applied: &(u64, Bytes),
    ) -> Result<(), Error> {
        let mut batch = WriteBatch::default();
        for (from, to) in erased {
            batch.delete_range(encode_key(shard, from), encode_key(shard, to));
        }
        let rows = writes.iter().map(|(key, write)| (Cow::Borrowed(key), write.row()));
        self.write(shard, batch, rows, applied)
    }

    /// Adds rows and the mark to a batch, and writes it.
    fn write<'a>(
        &self,
        shard: ShardId,
        mut batch: WriteBatch,
        rows: impl Iterator<Item = (Cow<'a, Key>, Option<&'a Row>)>,
        (index, mark): &(u64, Bytes),
    ) -> Result<(), Error> {
        let (mut key_bytes, mut value) = (Vec::new(), Vec::new());
        for (key, row) in rows {
            put_key(shard, &key, &mut key_bytes);
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
        let rows = batch.len() as u64;
        batch.put(applied_key(shard), applied_value(*index, mark));
        self.commit(batch).inspect_err(|error| {
            self.stop_if_damaged(&format!("shard {shard}, index {index}"), error);
        })?;
        self.rows_written.fetch_add(rows, Ordering::Relaxed);
        Ok(())
    }

    pub fn commit(&self, batch: WriteBatch) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(batch, &options).map_err(|error| self.not_written(&error))
    }

    pub fn not_written(&self, error: &rocksdb::Error) -> Error {
        let error = self.failed(error);
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

/// Closing in good order leaves nothing to be replayed.
impl Drop for Inner {
    fn drop(&mut self) {
        for (shard, young) in std::mem::take(&mut *self.young.lock()) {
            let _ = self.write_out(shard, &mut young.write()); // The log has it as well.
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
    database.set_enable_blob_files(true);
    database.set_min_blob_size(options.blob_bytes_min);
    database.set_enable_blob_gc(true);
    // Entries come from a few groups, each from one thread.
    database.set_allow_concurrent_memtable_write(true);
    database.set_level_compaction_dynamic_level_bytes(true);
    database
}
