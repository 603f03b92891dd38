//! The rows database: no write-ahead log. One write holds the rows of some entries and the mark of
//! the last of them, so that a flush, whenever it comes, leaves a prefix of the log on disk. What the
//! last entries wrote is held in memory before that ([`young`]).

mod blobs;
mod disk;
mod ends;
mod erased;
mod group;
mod moving;
mod read;
mod rocks;
mod transfer;
mod young;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use domain::key_map::KeyMap;
use domain::{GroupId, Key, Row, Write};
use parking_lot::{Mutex, RwLock};

use self::rocks::RocksRows;
use self::young::Young;
pub use disk::{Change, RowDisk};
pub use group::{GroupRows, MachineRows};
pub use moving::{Export, Import, RowsIn, RowsOut};

use crate::disk::Room;
use crate::{Error, LogStore, Options};

/// All groups' rows on this node. Cloning shares it.
#[derive(Clone)]
pub struct RowStore {
    inner: Arc<Inner>,
}

struct Inner {
    disk: Box<dyn RowDisk>,
    young: Mutex<BTreeMap<GroupId, Arc<RwLock<Young>>>>,
    /// Bytes that all groups' young rows hold, and may hold.
    young_bytes: AtomicUsize,
    young_bytes_max: usize,
    clock: fn() -> Instant,
    rows_written: AtomicU64,
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
        let inner = Inner {
            disk: Box::new(disk),
            young: Mutex::default(),
            young_bytes: AtomicUsize::new(0),
            young_bytes_max: options.young_bytes_max,
            clock: options.clock,
            rows_written: AtomicU64::new(0),
        };
        RowStore { inner: Arc::new(inner) }
    }

    /// A group's rows, for whoever reads them beside the machine.
    pub fn group(&self, group: GroupId) -> GroupRows {
        GroupRows::new(self.clone(), group, self.inner.young(group))
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
        self.apply_young(group, erased, writes, applied_index, mark);
        let young = self.inner.young(group);
        let mut young = young.write();
        match self.inner.is_full(&young) {
            true => self.inner.write_out(group, &mut young),
            false => Ok(()),
        }
    }

    /// Whether [`RowStore::apply_young`] is right for what comes next: it is not time to write what
    /// is young, and nobody does.
    pub fn stays_young(&self, group: GroupId) -> bool {
        let young = self.inner.young(group);
        young.try_read().is_some_and(|young| !self.inner.is_full(&young))
    }

    /// [`RowStore::apply`] that touches memory only: it cannot fail, and waits at most for a write
    /// that somebody else has begun meanwhile. Should it be time to write afterwards, the next
    /// [`RowStore::apply`] sees to that.
    pub fn apply_young(
        &self,
        group: GroupId,
        erased: Vec<(Key, Key)>,
        writes: KeyMap<Write>,
        applied_index: u64,
        mark: Bytes,
    ) {
        let now = (self.inner.clock)();
        let young = self.inner.young(group);
        self.inner.change_young(&mut young.write(), |young| {
            young.take(erased, writes, (applied_index, mark), now);
        });
    }

    /// Writes the rows of groups that have had young ones for long. They would keep others from
    /// having any.
    pub fn write_out_old(&self) -> Result<(), Error> {
        let now = (self.inner.clock)();
        self.write_out_if(|young| young.is_old(now))
    }

    fn write_out_if(&self, wanted: impl Fn(&Young) -> bool) -> Result<(), Error> {
        let groups: Vec<_> =
            self.inner.young.lock().iter().map(|(group, young)| (*group, young.clone())).collect();
        for (group, young) in groups {
            if wanted(&young.read()) {
                self.inner.write_out(group, &mut young.write())?;
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
        if let Some(applied) = self.inner.young(group).read().applied() {
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
        Arc::strong_count(&self.inner) == 1 && !self.inner.disk.is_shared()
    }

    /// Puts all that is in memory on disk; blocks until it is there.
    pub fn flush(&self) -> Result<(), Error> {
        self.write_out_if(|_| true)?;
        self.inner.disk.flush()
    }

    /// Removes all rows of a group, and what was coming in for it; gone from the disk when this
    /// returns. Nobody may use the group meanwhile.
    pub fn forget(&self, group: GroupId) -> Result<(), Error> {
        self.inner.forget_young(group);
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
        // What is young comes first: a view holds what is stored.
        self.inner.write_out(group, &mut self.inner.young(group).write())?;
        self.inner.disk.export(group).map(Export)
    }

    /// Begins to take in a group's rows as of an applied index and its mark. Nothing changes before
    /// [`Import::finish`].
    pub fn import(&self, group: GroupId, index: u64, mark: &[u8]) -> Result<Import, Error> {
        let rows = self.inner.disk.import(group, index, mark)?;
        Ok(Import { rows, store: self.clone(), group })
    }

    /// Bytes of all files of the database.
    pub fn file_bytes(&self) -> u64 {
        self.inner.disk.file_bytes()
    }

    /// Room on the disk that holds the rows.
    pub fn room(&self) -> Result<Room, Error> {
        self.inner.disk.room()
    }

    /// Why a write failed, if one did: RocksDB refuses those after it.
    pub fn failure(&self) -> Option<Error> {
        self.inner.disk.failure()
    }
}

impl Inner {
    fn young(&self, group: GroupId) -> Arc<RwLock<Young>> {
        self.young.lock().entry(group).or_default().clone()
    }

    /// Others are coming in their place.
    fn forget_young(&self, group: GroupId) {
        let young = self.young(group);
        let mut young = young.write();
        young.forget_stored();
        self.change_young(&mut young, Young::clear);
    }

    /// Changes what is young of a group, and counts what all groups' young rows hold.
    fn change_young(&self, young: &mut Young, change: impl FnOnce(&mut Young)) {
        let before = young.bytes();
        change(young);
        let more = young.bytes().wrapping_sub(before);
        self.young_bytes.fetch_add(more, Ordering::Relaxed);
    }

    /// Whether it is time to write a group's young rows.
    fn is_full(&self, young: &Young) -> bool {
        let held = self.young_bytes.load(Ordering::Relaxed);
        young.is_full(held, self.young_bytes_max, (self.clock)())
    }

    /// Writes a group's young rows. They stay where it fails.
    fn write_out(&self, group: GroupId, young: &mut Young) -> Result<(), Error> {
        young.store(|erased, changes, applied| self.disk.write(group, erased, changes, applied))?;
        self.rows_written.fetch_add(young.len() as u64, Ordering::Relaxed);
        self.change_young(young, Young::clear);
        Ok(())
    }
}

/// Closing in good order leaves nothing to be replayed.
impl Drop for Inner {
    fn drop(&mut self) {
        for (group, young) in std::mem::take(&mut *self.young.lock()) {
            let _ = self.write_out(group, &mut young.write()); // The log has it as well.
        }
    }
}
