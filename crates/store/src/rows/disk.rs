//! What rows are kept on.

use std::borrow::Cow;

use bytes::Bytes;
use domain::{GroupId, Key, Row};

use super::{RowsIn, RowsOut};
use crate::Error;
use crate::disk::DiskSpace;

/// What becomes of one key; `None` deletes.
pub type Change<'a> = (Cow<'a, Key>, Option<&'a Row>);

/// A database of all groups' rows, under those that are cached. RocksDB is one; simulations bring one
/// whose crashes they choose. Rows that cannot be read stop the process, because the machine must not
/// go on without them.
pub trait RowDisk: Send + Sync {
    /// Erases ranges, each from a key to before another of the same table, then makes changes, and
    /// notes which entry they come from (its index and its mark), all together or nothing.
    fn write(
        &self,
        group: GroupId,
        erased: &[(Key, Key)],
        changes: &mut dyn Iterator<Item = Change<'_>>,
        applied: &(u64, Bytes),
    ) -> Result<(), Error>;

    fn get(&self, group: GroupId, key: &Key) -> Option<Row>;

    /// Rows of many keys, in the keys' order.
    fn get_many(&self, group: GroupId, keys: &[Key]) -> Vec<Option<Row>> {
        keys.iter().map(|key| self.get(group, key)).collect()
    }

    /// The rows of `from <= key < to`, in ascending order, as they are now.
    fn scan(
        &self,
        group: GroupId,
        from: &Key,
        to: &Key,
    ) -> Box<dyn Iterator<Item = (Key, Row)> + '_>;

    /// The last key of `from <= key < to` that has a row.
    fn last(&self, group: GroupId, from: &Key, to: &Key) -> Option<Key> {
        self.scan(group, from, to).last().map(|(key, _)| key)
    }

    /// Index and mark of the last entry written; `None` for a group that has none.
    fn applied(&self, group: GroupId) -> Result<Option<(u64, Bytes)>, Error>;

    /// [`super::RowStore::flushed_index`].
    fn flushed_index(&self, group: GroupId) -> u64;

    /// Puts all that was written where a crash does not take it; blocks until it is there.
    fn flush(&self) -> Result<(), Error>;

    /// Takes deleted rows off the disk; blocks until they are gone. `live_bytes`: about what the others
    /// take, `free_bytes`: what there is to copy them to. False: that is too little, and nothing was done.
    fn reclaim(&self, live_bytes: u64, free_bytes: u64) -> Result<bool, Error> {
        let _ = (live_bytes, free_bytes);
        Ok(true)
    }

    /// [`super::RowStore::forget`].
    fn forget(&self, group: GroupId) -> Result<(), Error>;

    /// [`super::RowStore::file_bytes`].
    fn file_bytes(&self) -> u64;

    /// [`super::RowStore::disk_space`].
    fn disk_space(&self) -> Result<DiskSpace, Error>;

    /// [`super::RowStore::failure`].
    fn failure(&self) -> Option<Error>;

    /// Begins to read a group's rows, pinned as they are now.
    fn export(&self, group: GroupId) -> Result<Box<dyn RowsOut>, Error>;

    /// Begins to take in a group's rows as of an applied index and its mark.
    fn import(&self, group: GroupId, index: u64, mark: &[u8]) -> Result<Box<dyn RowsIn>, Error>;

    /// Whether rows on their way in or out hold on to it.
    fn is_shared(&self) -> bool;
}
