//! The rows database: no write-ahead log. One write batch holds an entry's rows and the applied
//! mark, so that a flush, whenever it comes, leaves a prefix of the log on disk.

mod moving;
mod rocks;
mod shard;
mod transfer;

use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use domain::{EntityId, Key, Row, SequenceNumber, ShardId};

use crate::disk::Room;
use crate::{Error, Options};
use rocks::RocksRows;

pub use moving::{Export, Import, RowsIn, RowsOut};
pub use shard::ShardRows;

/// What keeps all groups' rows of a node. RocksDB does; simulations bring a disk whose crashes they
/// choose. Rows that cannot be read stop the process.
pub trait RowDisk: Send + Sync {
    fn get(&self, shard: ShardId, key: &Key) -> Option<Row>;

    /// See [`domain::Rows::scan`].
    fn scan(
        &self,
        shard: ShardId,
        from: &Key,
        to: &Key,
        visit: &mut dyn FnMut(Key, Row) -> ControlFlow<()>,
    );

    /// Erases ranges, each from a key to before another of the same table, then writes rows (`None`
    /// deletes), and the mark of the entry that made them, all together.
    fn apply(
        &self,
        shard: ShardId,
        erased: &[(Key, Key)],
        writes: Vec<(Key, Option<Row>)>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error>;

    /// The last applied index and its mark; `None` for a shard that never applied anything.
    fn applied(&self, shard: ShardId) -> Result<Option<(u64, Bytes)>, Error>;

    /// The last applied index that is on disk: what a crash would leave. 0 where there is none, or
    /// where it cannot be told.
    fn flushed_index(&self, shard: ShardId) -> u64;

    /// Puts all that is in memory on disk; blocks until it is there.
    fn flush(&self) -> Result<(), Error>;

    /// Bytes of all files of the database.
    fn file_bytes(&self) -> u64;

    /// Room on the disk that holds the rows.
    fn room(&self) -> Result<Room, Error>;

    /// Why a write failed, if one did: RocksDB refuses those after it.
    fn failure(&self) -> Option<Error>;

    /// Contents of messages, in order; `None` where the message is gone.
    fn bodies(&self, shard: ShardId, of: &[(EntityId, SequenceNumber)]) -> Vec<Option<Bytes>>;

    /// Begins to read a shard's rows, pinned as they are now.
    fn export(&self, shard: ShardId) -> Result<Export, Error>;

    /// Begins to take in a shard's rows as of an applied index and its mark. Nothing changes before
    /// [`Import::finish`].
    fn import(&self, shard: ShardId, index: u64, mark: &[u8]) -> Result<Import, Error>;

    /// Whether rows on their way in or out hold on to it.
    fn is_shared(&self) -> bool;
}

/// All groups' rows on this node. Cloning shares it.
#[derive(Clone)]
pub struct RowStore(Arc<dyn RowDisk>);

impl RowStore {
    /// Opens or creates the database. What a crash took since the last flush is simply not there:
    /// `applied` says from where the log is to be replayed. A snapshot whose installation was
    /// interrupted is completed, one that had not come in whole is dropped.
    pub fn open(path: &Path, options: &Options) -> Result<RowStore, Error> {
        Ok(RowStore::on(RocksRows::open(path, options)?))
    }

    /// Rows that are kept elsewhere than in RocksDB.
    pub fn on(disk: impl RowDisk + 'static) -> RowStore {
        RowStore(Arc::new(disk))
    }

    /// A shard's rows, for the machine and for reads.
    pub fn shard(&self, shard: ShardId) -> ShardRows {
        ShardRows::new(self.clone(), shard)
    }

    /// [`RowDisk::apply`] where nothing is erased.
    pub fn write(
        &self,
        shard: ShardId,
        writes: Vec<(Key, Option<Row>)>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error> {
        self.apply(shard, &[], writes, applied_index, mark)
    }

    /// Whether this is the only handle left: dropping it closes the database.
    pub fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && !self.is_shared()
    }
}

impl Deref for RowStore {
    type Target = dyn RowDisk;

    fn deref(&self) -> &(dyn RowDisk + 'static) {
        &*self.0
    }
}
