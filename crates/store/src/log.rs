//! The log database: every group's entries and votes. Appends are readable at once and durable
//! when they say so; one writer thread puts what all groups have asked for into one batch and one
//! sync.

mod group;
mod marks;
mod power;
mod rocks;
mod trimmer;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use domain::GroupId;

use crate::disk::DiskSpace;
use crate::{Error, Options};
pub use power::{Lost, lose_unsynced};
use rocks::RocksLog;

/// One entry, as replication encoded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    pub index: u64,
    pub data: Bytes,
}

/// Told once what was asked for is on disk, on the writer's thread: it must not block.
pub type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Which incarnation a node's replica of a group is. A node that gave its replica up may be given
/// another, which is not bound by what the former one said, and so must not speak in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incarnation {
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

/// What keeps all groups' logs of a node. RocksDB does; simulations bring a disk that can be made to
/// lose what it promises.
pub trait LogDisk: Send + Sync {
    /// Appends entries, which follow the last one without a gap. They can be read at once; `done`
    /// is told when they are on disk, in the order of appends.
    fn append(&self, group: GroupId, records: Vec<LogRecord>, done: Done);

    /// Saves a vote; `done` is told when it is on disk.
    fn save_vote(&self, group: GroupId, vote: Bytes, done: Done);

    fn vote(&self, group: GroupId) -> Result<Option<Bytes>, Error>;

    /// Notes how far the group is known to have committed. Rides along with the next batch: losing
    /// it costs a restart some waiting, never an entry.
    fn save_committed(&self, group: GroupId, committed: Bytes);

    fn committed(&self, group: GroupId) -> Result<Option<Bytes>, Error>;

    /// Entries `from..to` as far as they exist, stopped early at `bytes_max` but not before the
    /// first.
    fn read(
        &self,
        group: GroupId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<LogRecord>, Error>;

    /// Whether a read from here on asks no disk.
    fn in_memory(&self, group: GroupId, from: u64) -> bool;

    /// The last entry there is; `None` for a log that is empty or forgotten to its end.
    fn last(&self, group: GroupId) -> Result<Option<LogRecord>, Error>;

    /// Removes entries from `from` on: another leader's took their place.
    fn truncate(&self, group: GroupId, from: u64, done: Done);

    /// Forgets entries up to `last`, and keeps `mark` in their place. What is forgotten already
    /// stays so.
    fn purge(&self, group: GroupId, last: u64, mark: Bytes);

    /// To be told when every group has forgotten what it can: what was forgotten may still take up
    /// memory, and is let go of if it is most of what is there.
    fn let_go(&self);

    /// Takes what was forgotten off the disk, if that is most of what is there: for a disk that is short
    /// of space. Blocks until it is gone.
    fn reclaim(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The mark of the last forgotten entry.
    fn purged(&self, group: GroupId) -> Result<Option<Bytes>, Error>;

    /// The last index known to be on disk.
    fn synced_index(&self, group: GroupId) -> u64;

    /// How many writes are known to be on disk, votes among them, since the log was made, as it goes on: no later
    /// start finds fewer in it. It stays 0 where nobody counts.
    fn synced_writes(&self) -> Arc<AtomicU64> {
        Arc::default()
    }

    /// Bytes of entries kept, of all groups. After a restart, older entries are reckoned from the
    /// size of their files.
    fn bytes(&self) -> u64;

    /// Whether this group's log was found shorter than its mark when it was opened: it must not
    /// vote, for it may have forgotten what it promised.
    fn shortened(&self, group: GroupId) -> Option<Shortened>;

    /// Space on the disk that holds the log.
    fn disk_space(&self) -> Result<DiskSpace, Error>;

    /// Why nothing is written any more, if that is so.
    fn failure(&self) -> Option<Error>;

    /// Whether all that was once synced was there when it was opened, votes included.
    fn check(&self) -> Result<(), Error>;

    /// The last forgotten index of every group that has forgotten any.
    fn forgotten(&self) -> BTreeMap<GroupId, u64>;

    /// The groups of which there is a replica, or something of one.
    fn held(&self) -> BTreeSet<GroupId>;

    /// The incarnation of a replica that came after its group was founded.
    fn incarnation(&self, group: GroupId) -> Option<Incarnation>;

    /// The groups whose replica here was given up, and has no successor yet.
    fn given_up(&self) -> BTreeSet<GroupId>;

    /// Begins an incarnation of a replica that has nothing yet; `done` is told when that is on disk.
    fn begin_incarnation(&self, group: GroupId, incarnation: u32, done: Done);

    /// Forgets a replica that its group needs no more: entries, vote and all; `done` is told when
    /// that is on disk. Nobody may use it any more.
    fn forget(&self, group: GroupId, done: Done);

    /// Stops the process over an entry that is not what was written.
    fn unreadable(&self, group: GroupId, index: u64, reason: &str) -> !;
}

/// All groups' logs on this node. Cloning shares it; with the last clone it is closed.
#[derive(Clone)]
pub struct LogStore(Arc<dyn LogDisk>);

impl LogStore {
    /// Opens or creates the database. A batch that was being written when the node died is dropped
    /// whole; damage anywhere before it is an error.
    pub fn open(path: &Path, options: &Options) -> Result<LogStore, Error> {
        Ok(LogStore::on(RocksLog::open(path, options)?))
    }

    /// A log that is kept elsewhere than in RocksDB.
    pub fn on(disk: impl LogDisk + 'static) -> LogStore {
        LogStore(Arc::new(disk))
    }

    /// Whether this is the only handle left: dropping it closes the database.
    pub fn is_last(&self) -> bool {
        self.handles() == 1
    }

    /// How many there are.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Deref for LogStore {
    type Target = dyn LogDisk;

    fn deref(&self) -> &(dyn LogDisk + 'static) {
        &*self.0
    }
}
