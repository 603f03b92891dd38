//! Rows in RocksDB.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use domain::{EntityId, Key, Row, SequenceNumber, ShardId};
use parking_lot::Mutex;
use rocksdb::{DB, FlushOptions, ReadOptions, ReadTier, WriteBatch, WriteOptions};

use super::{Export, Import, RowDisk, transfer};
use crate::disk::{Room, room};
use crate::keys::{applied_key, decode_key, encode_key, put_key};
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
    /// Reused from write to write: a key and a value at a time.
    buffers: Mutex<(Vec<u8>, Vec<u8>)>,
    /// Why the last write that failed did.
    failure: Mutex<Option<Error>>,
}

impl RocksRows {
    /// [`super::RowStore::open`].
    pub fn open(path: &Path, options: &Options) -> Result<RocksRows, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::io(path, &error))?;
        let db = DB::open(&database(options), path).map_err(|error| Error::rocks(path, &error))?;
        let (buffers, failure) = (Mutex::default(), Mutex::default());
        let inner = Inner { db, path: path.to_owned(), buffers, failure };
        let store = RocksRows { inner: Arc::new(inner) };
        transfer::resume(&store)?;
        Ok(store)
    }

    pub fn commit(&self, batch: WriteBatch) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.inner.db.write_opt(batch, &options).map_err(|error| self.not_written(&error))
    }

    pub fn not_written(&self, error: &rocksdb::Error) -> Error {
        let error = self.failed(error);
        *self.inner.failure.lock() = Some(error.clone());
        error
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

    /// A database that has met damage takes no more writes: going on would only hide why.
    pub fn stop_if_damaged(&self, during: &str, error: &Error) {
        if error.is_damage() {
            damage::stop(&self.inner.path, &format!("{error} (met by {during})"));
        }
    }

    pub fn failed(&self, error: &rocksdb::Error) -> Error {
        Error::rocks(&self.inner.path, error)
    }

    fn unreadable(&self, shard: ShardId, key: &Key, reason: &dyn std::fmt::Display) -> ! {
        let path = &self.inner.path;
        // Where the mark cannot be read either, the line does without.
        let applied = match self.applied(shard) {
            Ok(Some((index, _))) => format!(", applied to index {index}"),
            Ok(None) | Err(_) => String::new(),
        };
        let reason = reason.to_string().replace('\n', " ");
        let file = path.display();
        damage::stop(path, &format!("{file}: shard {shard}{applied}, row {key:?}: {reason}"))
    }
}

impl RowDisk for RocksRows {
    fn get(&self, shard: ShardId, key: &Key) -> Option<Row> {
        let value = match self.inner.db.get_pinned(encode_key(shard, key)) {
            Ok(value) => value?,
            Err(error) => self.unreadable(shard, key, &error),
        };
        match wire::decode_row(key, &value) {
            Ok(row) => Some(row),
            Err(error) => self.unreadable(shard, key, &error),
        }
    }

    fn scan(
        &self,
        shard: ShardId,
        from: &Key,
        to: &Key,
        visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>,
    ) {
        if from >= to {
            return;
        }
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(encode_key(shard, to));
        let mut rows = self.inner.db.raw_iterator_opt(options);
        rows.seek(encode_key(shard, from));
        while let Some((key, value)) = rows.item() {
            let Some((_, key)) = decode_key(key) else {
                self.unreadable(shard, from, &format_args!("{} is no key", key.escape_ascii()))
            };
            match wire::decode_row(&key, value) {
                Ok(row) => {
                    if visit(key, row).is_break() {
                        return;
                    }
                    rows.next();
                }
                Err(error) => self.unreadable(shard, &key, &error),
            }
        }
        if let Err(error) = rows.status() {
            self.unreadable(shard, from, &error);
        }
    }

    fn apply(
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

    fn applied(&self, shard: ShardId) -> Result<Option<(u64, Bytes)>, Error> {
        let value = self.inner.db.get_pinned(applied_key(shard));
        let value = value.map_err(|error| self.failed(&error))?;
        value.map(|value| self.applied_of(shard, &value)).transpose()
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
        let mut options = FlushOptions::default();
        options.set_wait(true);
        let flushed = self.inner.db.flush_opt(&options).map_err(|error| self.not_written(&error));
        flushed.inspect_err(|error| self.stop_if_damaged("a flush", error))
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

    fn bodies(&self, shard: ShardId, of: &[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>> {
        let mut key = Vec::with_capacity(32);
        let read = of.iter().map(|(entity, sequence)| {
            put_key(shard, &Key::Body(*entity, *sequence), &mut key);
            match self.inner.db.get_pinned(&key) {
                Ok(value) => value.map(|value| Bytes::copy_from_slice(&value)),
                Err(error) => self.unreadable(shard, &Key::Body(*entity, *sequence), &error),
            }
        });
        read.collect()
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
