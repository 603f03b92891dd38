//! The rows database: no write-ahead log. One write holds the rows of some entries and the mark of
//! the last of them, so that a flush, whenever it comes, leaves a prefix of the log on disk. What the
//! last entries wrote is held in memory before that ([`cache`]).

mod blobs;
mod cache;
mod disk;
mod ends;
mod erased;
mod export;
mod group;
mod read;
mod rocks;
mod transfer;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use domain::key_map::KeyMap;
use domain::{Counts, EntityId, GroupId, Key, Row, Rows, Write};
use parking_lot::{Mutex, RwLock};

use self::cache::RowCache;
use self::rocks::RocksRows;
pub use disk::{Change, RowDisk};
pub use export::{Export, Import, RowsIn, RowsOut};
pub use group::{GroupRows, MachineRows};
pub use transfer::rows_in;

use crate::disk::DiskSpace;
use crate::{Error, LogStore, Options};

/// What a message takes beside its body and properties, at most.
const MESSAGE_ROWS_BYTES: u64 = 512;
/// What an erased range counts for among deleted rows: nobody knows how many it holds.
const ERASED_ROWS: u64 = 1000;

/// All groups' rows on this node. Cloning shares it.
#[derive(Clone)]
pub struct RowStore {
    inner: Arc<RowsShared>,
}

struct RowsShared {
    disk: Box<dyn RowDisk>,
    caches: Mutex<BTreeMap<GroupId, Arc<RwLock<RowCache>>>>,
    /// Bytes that all groups' cached rows hold, and may hold.
    cached_bytes: AtomicUsize,
    row_cache_bytes_max: usize,
    clock: fn() -> Instant,
    rows_written: AtomicU64,
    rows_deleted: AtomicU64,
}

impl RowStore {
    /// Opens or creates the database. What a crash took since the last flush is simply not there:
    /// `applied` says from where the log is to be replayed. A snapshot whose installation was
    /// interrupted is completed, one that had not come in whole is dropped.
    pub fn open(path: &Path, options: &Options) -> Result<RowStore, Error> {
        Ok(RowStore::on(RocksRows::open(path, options)?, options))
    }

    /// Rows that are kept elsewhere than in RocksDB.
    pub fn on(disk: impl RowDisk + 'static, options: &Options) -> RowStore {
        let inner = RowsShared {
            disk: Box::new(disk),
            caches: Mutex::default(),
            cached_bytes: AtomicUsize::new(0),
            row_cache_bytes_max: options.row_cache_bytes_max,
            clock: options.clock,
            rows_written: AtomicU64::new(0),
            rows_deleted: AtomicU64::new(0),
        };
        RowStore { inner: Arc::new(inner) }
    }

    /// A group's rows, for whoever reads them beside the machine.
    pub fn group(&self, group: GroupId) -> GroupRows {
        GroupRows::new(self.clone(), group, self.inner.cache(group))
    }

    /// A group's rows, for the machine that applies its entries.
    pub fn machine(&self, group: GroupId) -> MachineRows {
        MachineRows(self.group(group))
    }

    /// [`RowStore::apply`] where nothing is erased and nobody knows what is stored. `None` deletes.
    pub fn write(
        &self,
        group: GroupId,
        writes: Vec<(Key, Option<Row>)>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error> {
        let write = |row: Option<Row>| row.map_or(Write::Delete, Write::Replace);
        let writes = writes.into_iter().map(|(key, row)| (key, write(row))).collect();
        self.apply(group, Vec::new(), writes, applied_index, mark)
    }

    /// Erases ranges, each from a key to before another of the same table, then writes rows, and the
    /// mark of the entry that made them, all together. Only a write of many entries' rows at once
    /// may fail; what it holds is then still there to be read.
    pub fn apply(
        &self,
        group: GroupId,
        erased: Vec<(Key, Key)>,
        writes: KeyMap<Write>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error> {
        self.apply_cached(group, erased, writes, applied_index, mark);
        let cache = self.inner.cache(group);
        let mut cache = cache.write();
        match self.inner.is_full(&cache) {
            true => self.inner.write_out(group, &mut cache),
            false => Ok(()),
        }
    }

    /// Whether [`RowStore::apply_cached`] is right for what comes next: it is not time to write what
    /// is cached, and nobody does.
    pub fn cache_has_room(&self, group: GroupId) -> bool {
        let cache = self.inner.cache(group);
        cache.try_read().is_some_and(|cache| !self.inner.is_full(&cache))
    }

    /// [`RowStore::apply`] that touches memory only: it cannot fail, and waits at most for a write
    /// that somebody else has begun meanwhile. Should it be time to write afterwards, the next
    /// [`RowStore::apply`] sees to that.
    pub fn apply_cached(
        &self,
        group: GroupId,
        erased: Vec<(Key, Key)>,
        writes: KeyMap<Write>,
        applied_index: u64,
        mark: Bytes,
    ) {
        let now = (self.inner.clock)();
        let cache = self.inner.cache(group);
        self.inner.change_cache(&mut cache.write(), |cache| {
            cache.take(erased, writes, (applied_index, mark), now);
        });
    }

    /// Writes the rows of groups that have had cached ones for long. They would keep others from
    /// having any.
    pub fn write_out_old(&self) -> Result<(), Error> {
        let now = (self.inner.clock)();
        self.write_out_if(|cache| cache.is_old(now))
    }

    fn write_out_if(&self, wanted: impl Fn(&RowCache) -> bool) -> Result<(), Error> {
        let groups: Vec<_> =
            self.inner.caches.lock().iter().map(|(group, cache)| (*group, cache.clone())).collect();
        for (group, cache) in groups {
            if wanted(&cache.read()) {
                self.inner.write_out(group, &mut cache.write())?;
            }
        }
        Ok(())
    }

    /// Rows written to the database since the last call: those that lived long enough.
    pub fn take_rows_written(&self) -> u64 {
        self.inner.rows_written.swap(0, Ordering::Relaxed)
    }

    /// The last applied index and its mark; `None` for a group that never applied anything.
    pub fn applied(&self, group: GroupId) -> Result<Option<(u64, Bytes)>, Error> {
        if let Some(applied) = self.inner.cache(group).read().applied() {
            return Ok(Some(applied.clone()));
        }
        self.inner.disk.applied(group)
    }

    /// The last applied index that is on disk: what a crash would leave. 0 where there is none, or
    /// where it cannot be told.
    pub fn flushed_index(&self, group: GroupId) -> u64 {
        self.inner.disk.flushed_index(group)
    }

    /// Whether this is the only handle left: dropping it closes the database.
    pub fn is_last(&self) -> bool {
        self.handles() == 1 && !self.inner.disk.is_shared()
    }

    /// How many there are, without what is on its way in or out.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.inner)
    }

    /// Puts all that is in memory on disk; blocks until it is there.
    pub fn flush(&self) -> Result<(), Error> {
        self.write_out_if(|_| true)?;
        self.inner.disk.flush()
    }

    /// Removes all rows of a group, and what was coming in for it; gone from the disk when this
    /// returns. Nobody may use the group meanwhile.
    pub fn forget(&self, group: GroupId) -> Result<(), Error> {
        self.inner.forget_cached(group);
        self.inner.disk.forget(group)
    }

    /// Removes what is left of replicas that were given up, where a crash came between their log's end
    /// and their rows'. Nobody may use those groups meanwhile.
    pub fn forget_given_up(&self, log: &LogStore) -> Result<(), Error> {
        for group in log.given_up() {
            if self.applied(group)?.is_some() {
                tracing::info!(%group, "removing what a crash left of a replica that was given up");
                self.forget(group)?;
            }
        }
        Ok(())
    }

    /// Begins to read a group's rows, pinned as they are now.
    pub fn export(&self, group: GroupId) -> Result<Export, Error> {
        // What is cached comes first: a view holds what is stored.
        self.inner.write_out(group, &mut self.inner.cache(group).write())?;
        self.inner.disk.export(group).map(Export)
    }

    /// Begins to take in a group's rows as of an applied index and its mark. Nothing changes before
    /// [`Import::finish`].
    pub fn import(&self, group: GroupId, index: u64, mark: &[u8]) -> Result<Import, Error> {
        let rows = self.inner.disk.import(group, index, mark)?;
        Ok(Import { rows, store: self.clone(), group })
    }

    /// Rows deleted since the last [`RowStore::reclaim`], a range for so many: what there is to be taken
    /// off the disk.
    pub fn deleted(&self) -> u64 {
        self.inner.rows_deleted.load(Ordering::Relaxed)
    }

    /// Takes deleted rows off the disk, for one that is short of space; blocks until they are gone. Where
    /// what is left cannot be copied to the space that is free, nothing is done.
    pub fn reclaim(&self) -> Result<(), Error> {
        self.write_out_if(|_| true)?;
        let deleted = self.inner.rows_deleted.swap(0, Ordering::Relaxed);
        let free_bytes = self.disk_space()?.free_bytes;
        if !self.inner.disk.reclaim(self.live_bytes(), free_bytes)? {
            // To be tried again, when there is more space or less to keep.
            self.inner.rows_deleted.fetch_add(deleted, Ordering::Relaxed);
        }
        Ok(())
    }

    /// About what all messages take, by their entities' counters.
    fn live_bytes(&self) -> u64 {
        let groups: Vec<GroupId> = self.inner.caches.lock().keys().copied().collect();
        let (from, to) = (Key::EntityState(EntityId(0)), Key::EntityState(EntityId(u64::MAX)));
        let mut bytes = 0;
        for group in groups {
            self.group(group).scan(&from, &to, &mut |_, row| {
                if let Row::EntityState(state) = row {
                    let Counts { active, scheduled, deferred, dead_lettered, transfer, .. } =
                        state.counts;
                    let messages = active + scheduled + deferred + dead_lettered + transfer;
                    bytes += state.size_bytes + messages * MESSAGE_ROWS_BYTES;
                }
                ControlFlow::Continue(())
            });
        }
        bytes
    }

    /// Bytes of all files of the database.
    pub fn file_bytes(&self) -> u64 {
        self.inner.disk.file_bytes()
    }

    /// Space on the disk that holds the rows.
    pub fn disk_space(&self) -> Result<DiskSpace, Error> {
        self.inner.disk.disk_space()
    }

    /// Why a write failed, if one did: RocksDB refuses those after it.
    pub fn failure(&self) -> Option<Error> {
        self.inner.disk.failure()
    }
}

impl RowsShared {
    fn cache(&self, group: GroupId) -> Arc<RwLock<RowCache>> {
        self.caches.lock().entry(group).or_default().clone()
    }

    /// Others are coming in their place.
    fn forget_cached(&self, group: GroupId) {
        let cache = self.cache(group);
        let mut cache = cache.write();
        cache.forget_stored();
        self.change_cache(&mut cache, RowCache::clear);
    }

    /// Changes what is cached of a group, and counts what all groups' cached rows hold.
    fn change_cache(&self, cache: &mut RowCache, change: impl FnOnce(&mut RowCache)) {
        let before = cache.bytes();
        change(cache);
        let more = cache.bytes().wrapping_sub(before);
        self.cached_bytes.fetch_add(more, Ordering::Relaxed);
    }

    /// Whether it is time to write a group's cached rows.
    fn is_full(&self, cache: &RowCache) -> bool {
        let held = self.cached_bytes.load(Ordering::Relaxed);
        cache.is_full(held, self.row_cache_bytes_max, (self.clock)())
    }

    /// Writes a group's cached rows. They stay where it fails.
    fn write_out(&self, group: GroupId, cache: &mut RowCache) -> Result<(), Error> {
        let mut deleted = 0;
        cache.store(|erased, changes, applied| {
            deleted += erased.len() as u64 * ERASED_ROWS;
            let mut changes = changes.inspect(|(_, row)| deleted += u64::from(row.is_none()));
            self.disk.write(group, erased, &mut changes, applied)
        })?;
        self.rows_deleted.fetch_add(deleted, Ordering::Relaxed);
        self.rows_written.fetch_add(cache.len() as u64, Ordering::Relaxed);
        self.change_cache(cache, RowCache::clear);
        Ok(())
    }
}

/// Closing in good order leaves nothing to be replayed.
impl Drop for RowsShared {
    fn drop(&mut self) {
        for (group, cache) in std::mem::take(&mut *self.caches.lock()) {
            let _ = self.write_out(group, &mut cache.write()); // The log has it as well.
        }
    }
}
