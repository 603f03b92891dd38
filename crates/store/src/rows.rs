//! The rows database: no write-ahead log. One write batch holds an entry's rows and the applied
//! mark, so that a flush, whenever it comes, leaves a prefix of the log on disk.

mod shard;
mod transfer;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use domain::{EntityId, Key, Row, SequenceNumber, ShardId};
use parking_lot::Mutex;
use rocksdb::{DB, FlushOptions, ReadOptions, ReadTier, WriteBatch, WriteOptions};

pub use shard::ShardRows;
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
    /// Reused from write to write: a key and a value at a time.
    buffers: Mutex<(Vec<u8>, Vec<u8>)>,
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
        let (buffers, failure) = (Mutex::default(), Mutex::default());
        let inner = Inner { db, path: path.to_owned(), buffers, failure };
        let store = RowStore { inner: Arc::new(inner) };
        transfer::resume(&store)?;
        Ok(store)
    }

    /// A shard's rows, for the machine and for reads.
    pub fn shard(&self, shard: ShardId) -> ShardRows {
        ShardRows::new(self.clone(), shard)
    }

    /// [`RowStore::apply`] where nothing is erased.
    pub fn write(
        &self,
        shard: ShardId,
        writes: Vec<(Key, Option<Row>)>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error> {
        self.apply(shard, &[], writes, applied_index, mark)
    }

    /// Erases ranges, each from a key to before another of the same table, then writes rows (`None`
    /// deletes), and the mark of the entry that made them, all together.
    pub fn apply(
        &self,
        shard: ShardId,
        erased: &[(Key, Key)],
        writes: Vec<(Key, Option<Row>)>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error> {
        let mut batch = WriteBatch::default();
        for (from, to) in erased {
            batch.delete_range(encode_key(shard, from), encode_key(shard, to));
        }
        {
            // Groups apply at the same time: whoever comes second brings buffers of its own.
            let mut guard = self.inner.buffers.try_lock();
            let mut own = (Vec::new(), Vec::new());
            let (key_bytes, value) = guard.as_deref_mut().unwrap_or(&mut own);
            for (key, row) in writes {
                put_key(shard, &key, key_bytes);
                match row {
                    Some(Row::Body(content)) => batch.put(&key_bytes, &content),
                    Some(row) => {
                        value.clear();
                        wire::put_row(&row, value);
                        batch.put(&key_bytes, &value);
                    }
                    // A body is written once and deleted once: such a pair leaves nothing at all
                    // when it is flushed, where a plain tombstone would be kept.
                    None if matches!(key, Key::Body(..)) => batch.single_delete(&key_bytes),
                    None => batch.delete(&key_bytes),
                }
            }
        }
        batch.put(applied_key(shard), applied_value(applied_index, &mark));
        self.commit(batch).inspect_err(|error| {
            self.stop_if_damaged(&format!("shard {shard}, index {applied_index}"), error);
        })
    }

    /// The last applied index and its mark; `None` for a shard that never applied anything.
    pub fn applied(&self, shard: ShardId) -> Result<Option<(u64, Bytes)>, Error> {
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
        let mut options = FlushOptions::default();
        options.set_wait(true);
        let flushed = self.inner.db.flush_opt(&options).map_err(|error| self.not_written(&error));
        flushed.inspect_err(|error| self.stop_if_damaged("a flush", error))
    }

    /// Removes all rows of a shard, and what was coming in for it; gone from the disk when this
    /// returns. Nobody may use the shard meanwhile.
    pub fn forget(&self, shard: ShardId) -> Result<(), Error> {
        transfer::forget(self, shard)
    }

    /// Contents of messages, in order; `None` where the message is gone.
    pub fn bodies(&self, shard: ShardId, of: &[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>> {
        let mut key = Vec::with_capacity(32);
        let read = of.iter().map(|(entity, sequence)| {
            put_key(shard, &Key::Body(*entity, *sequence), &mut key);
            match self.inner.db.get_pinned(&key) {
                Ok(value) => value.map(|value| Bytes::copy_from_slice(&value)),
                Err(error) => self.shard(shard).unreadable(&Key::Body(*entity, *sequence), &error),
            }
        });
        read.collect()
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

    fn commit(&self, batch: WriteBatch) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.inner.db.write_opt(batch, &options).map_err(|error| self.not_written(&error))
    }

    fn not_written(&self, error: &rocksdb::Error) -> Error {
        let error = self.failed(error);
        *self.inner.failure.lock() = Some(error.clone());
        error
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

    /// A database that has met damage takes no more writes: going on would only hide why.
    fn stop_if_damaged(&self, during: &str, error: &Error) {
        if error.is_damage() {
            damage::stop(&self.inner.path, &format!("{error} (met by {during})"));
        }
    }

    fn failed(&self, error: &rocksdb::Error) -> Error {
        Error::rocks(&self.inner.path, error)
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
