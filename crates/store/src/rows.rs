//! The rows database: no write-ahead log. One write batch holds the rows of some entries and the
//! mark of the last of them, so that a flush, whenever it comes, leaves a prefix of the log on disk.
//! What the last entries wrote is held in memory before that ([`young`]).

mod moving;
mod read;
mod rocks;
mod shard;
mod transfer;
mod young;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use domain::{Key, Row, ShardId, Write};

use crate::disk::Room;
use crate::{Error, Options};
use rocks::RocksRows;

pub use moving::{Export, Import, RowsIn, RowsOut};
pub use shard::{MachineRows, ReadRows, ShardRows};

/// What keeps all groups' rows of a node. RocksDB does; simulations bring a disk whose crashes they
/// choose. Rows that cannot be read stop the process.
pub trait RowDisk: Send + Sync {
    /// A shard's rows, for whoever reads them beside the machine.
    fn shard(&self, shard: ShardId) -> ShardRows;

    /// A shard's rows, for the machine that applies its entries.
    fn machine(&self, shard: ShardId) -> MachineRows;

    /// Erases ranges, each from a key to before another of the same table, then writes rows, and the
    /// mark of the entry that made them, all together. Only a write of many entries' rows at once
    /// may fail; what it holds is then still there to be read.
    fn apply(
        &self,
        shard: ShardId,
        erased: &[(Key, Key)],
        writes: Vec<(Key, Write)>,
        applied_index: u64,
        mark: Bytes,
    ) -> Result<(), Error>;

    /// Writes the rows of shards that have had young ones for long. They would keep others from
    /// having any.
    fn write_out_old(&self) -> Result<(), Error>;

    /// Rows written to the database since the last call: those that lived long enough.
    fn take_rows_written(&self) -> u64;

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

    /// Begins to read a shard's rows, pinned as they are now.
    fn export(&self, shard: ShardId) -> Result<Export, Error>;

    /// Begins to take in a shard's rows as of an applied index and its mark. Nothing changes before
    /// [`Import::finish`].
    fn import(&self, shard: ShardId, index: u64, mark: &[u8]) -> Result<Import, Error>;

    /// Whether readers, or rows on their way in or out, hold on to it.
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

    /// [`RowDisk::apply`] where nothing is erased and nobody knows what is stored. `None` deletes.
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
