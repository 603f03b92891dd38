//! The rows database: no write-ahead log. One write batch holds the rows of some entries and the
//! mark of the last of them, so that a flush, whenever it comes, leaves a prefix of the log on disk.
//! What the last entries wrote is held in memory before that ([`young`]).

mod shard;
mod transfer;
mod young;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use domain::{Key, Row, ShardId, Write};
use parking_lot::{Mutex, RwLock};
use rocksdb::{DB, FlushOptions, ReadOptions, ReadTier, WriteBatch, WriteOptions};

use self::young::Young;
pub use shard::{MachineRows, ShardRows};
pub use transfer::{Export, Import};

use crate::disk::{Room, room};
use crate::keys::{applied_key, encode_key, put_key};
use crate::options::{MEMTABLES, base, blocks};
use crate::{Error, Options, damage};

/// All groups' rows on this node. Cloning shares it.
#[derive(Clone)]
pub struct RowStore {
    inner: Arc<Inner>,
}

struct Inner {
    db: DB,
    path: std::path::PathBuf,
    young: Mutex<BTreeMap<ShardId, Arc<RwLock<Young>>>>,
    /// Bytes that all shards' young rows hold, and may hold.
    young_bytes: AtomicUsize,
    young_bytes_max: usize,
    rows_written: AtomicU64,
    /// Why the last write that failed did.
    failure: Mutex<Option<Error>>,
}

impl RowStore {
    /// Opens or creates the database. What a crash took since the last flush is simply not there:
    /// `applied` says from where the log is to be replayed. A snapshot whose installation was
    /// interrupted is completed, one that had not come in whole is dropped.
    pub fn open(path: &Path, options: &Options) -> Result<RowStore, Error> {
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
        let store = RowStore { inner: Arc::new(inner) };
        transfer::resume(&store)?;
        Ok(store)
    }

    /// A shard's rows, for whoever reads them beside the machine.
    pub fn shard(&self, shard: ShardId) -> ShardRows {
        ShardRows::new(self.clone(), shard, self.inner.young(shard))
    }

    /// A shard's rows, for the machine that applies its entries.
    pub fn machine(&self, shard: ShardId) -> MachineRows {
        MachineRows(self.shard(shard))
    }

    /// [`RowStore::apply`] where nothing is erased and nobody knows what is stored. `None` deletes.
    pub fn write(
        &self,
        shard: ShardId,
        writes: Vec<(Key, Option<Row>)>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error> {
        let write = |row: Option<Row>| row.map_or(Write::Delete, Write::Replace);
        let writes = writes.into_iter().map(|(key, row)| (key, write(row))).collect();
        self.apply(shard, &[], writes, applied_index, mark)
    }

    /// Erases ranges, each from a key to before another of the same table, then writes rows, and the
    /// mark of the entry that made them, all together. Only a write of many entries' rows at once
    /// may fail; what it holds is then still there to be read.
    pub fn apply(
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

    /// Writes the rows of shards that have had young ones for long. They would keep others from
    /// having any.
    pub fn write_out_old(&self) -> Result<(), Error> {
        self.write_out_if(Young::is_old)
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

    /// Rows written to the database since the last call: those that lived long enough.
    pub fn take_rows_written(&self) -> u64 {
        self.inner.rows_written.swap(0, Ordering::Relaxed)
    }

    /// The last applied index and its mark; `None` for a shard that never applied anything.
    pub fn applied(&self, shard: ShardId) -> Result<Option<(u64, Bytes)>, Error> {
        if let Some(applied) = self.inner.young(shard).read().applied() {
            return Ok(Some(applied.clone()));
        }
        self.stored_applied(shard)
    }

    fn stored_applied(&self, shard: ShardId) -> Result<Option<(u64, Bytes)>, Error> {
        let value = self.inner.db.get_pinned(applied_key(shard));
        let value = value.map_err(|error| self.failed(&error))?;
        value.map(|value| self.applied_of(shard, &value)).transpose()
    }

    /// The last applied index that is on disk: what a crash would leave. 0 where there is none, or
    /// where it cannot be told.
    pub fn flushed_index(&self, shard: ShardId) -> u64 {
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::Persisted); // Without a log, this is what is in files.
        let value = self.inner.db.get_pinned_opt(applied_key(shard), &options);
        match value {
            Ok(Some(value)) => self.applied_of(shard, &value).map_or(0, |(index, _)| index),
            Ok(None) | Err(_) => 0,
        }
    }

    /// Whether this is the only handle left: dropping it closes the database.
    pub fn is_last(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Puts all that is in memory on disk; blocks until it is there.
    pub fn flush(&self) -> Result<(), Error> {
        self.write_out_if(|_| true)?;
        let mut options = FlushOptions::default();
        options.set_wait(true);
        let flushed =
            self.inner.db.flush_opt(&options).map_err(|error| self.inner.not_written(&error));
        flushed.inspect_err(|error| self.inner.stop_if_damaged("a flush", error))
    }

    /// Bytes of all files of the database.
    pub fn file_bytes(&self) -> u64 {
        let name = rocksdb::properties::TOTAL_SST_FILES_SIZE;
        self.inner.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }

    /// Room on the disk that holds the rows.
    pub fn room(&self) -> Result<Room, Error> {
        room(&self.inner.path)
    }

    /// Why a write failed, if one did: RocksDB refuses those after it.
    pub fn failure(&self) -> Option<Error> {
        self.inner.failure.lock().clone()
    }

    fn applied_of(&self, shard: ShardId, value: &[u8]) -> Result<(u64, Bytes), Error> {
        match value.split_first_chunk() {
            Some((index, mark)) => Ok((u64::from_be_bytes(*index), Bytes::copy_from_slice(mark))),
            None => Err(Error::Corrupt {
                path: self.inner.path.clone(),
                reason: format!("the applied mark of shard {shard} is cut short"),
            }),
        }
    }

    fn failed(&self, error: &rocksdb::Error) -> Error {
        self.inner.failed(error)
    }
}

impl Inner {
    fn young(&self, shard: ShardId) -> Arc<RwLock<Young>> {
        self.young.lock().entry(shard).or_default().clone()
    }

    /// Others are coming in their place.
    fn forget_young(&self, shard: ShardId) {
        let bytes = self.young(shard).write().clear();
        self.young_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Writes a shard's young rows. They stay where it fails.
    fn write_out(&self, shard: ShardId, young: &mut Young) -> Result<(), Error> {
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

    fn commit(&self, batch: WriteBatch) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(batch, &options).map_err(|error| self.not_written(&error))
    }

    fn not_written(&self, error: &rocksdb::Error) -> Error {
        let error = self.failed(error);
        *self.failure.lock() = Some(error.clone());
        error
    }

    fn failed(&self, error: &rocksdb::Error) -> Error {
        Error::rocks(&self.path, error)
    }

    /// A database that has met damage takes no more writes: going on would only hide why.
    fn stop_if_damaged(&self, during: &str, error: &Error) {
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

fn applied_value(index: u64, mark: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + mark.len());
    value.extend_from_slice(&index.to_be_bytes());
    value.extend_from_slice(mark);
    value
}

fn database(options: &Options) -> rocksdb::Options {
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
