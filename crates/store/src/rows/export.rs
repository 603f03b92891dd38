//! A group's rows on their way out and in, wherever they are kept.

use bytes::Bytes;
use domain::GroupId;

use super::RowStore;
use crate::Error;

/// Where exported rows come from.
pub trait RowsOut: Send {
    /// [`Export::mark`].
    fn mark(&self) -> &[u8];

    /// [`Export::next_chunk`].
    fn next_chunk(&mut self) -> Result<Option<Bytes>, Error>;

    /// [`Export::resume_after`].
    fn resume_after(&mut self, key: Bytes) -> Result<(), Error>;
}

/// Where imported rows go. Dropped before they are complete, they leave the old ones as they were.
pub trait RowsIn: Send {
    /// [`Import::last_key`].
    fn last_key(&self) -> &[u8];

    /// Takes in one chunk, which is not empty.
    fn take(&mut self, chunk: &[u8]) -> Result<(), Error>;

    /// [`Import::close`].
    fn close(&mut self) -> Result<(), Error>;

    /// All are there: from here on they are on disk, and a crash does not keep them from being put in
    /// their place. That this or what follows failed is a failure of the rows' disk, as
    /// [`super::RowStore::failure`] tells it.
    fn complete(&mut self) -> Result<(), Error>;

    /// Puts them in the place of all the group had, once they are complete.
    fn install(self: Box<Self>) -> Result<(), Error>;
}

/// A group's rows as of one applied index, in chunks. Dropping it ends the reading.
pub struct Export(pub(super) Box<dyn RowsOut>);

impl Export {
    /// The mark of the entry these rows were left by; empty where nothing was applied.
    pub fn mark(&self) -> &[u8] {
        self.0.mark()
    }

    /// Waits for the next chunk; `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.0.next_chunk()
    }

    /// Reads on behind a key, in the same view; from the beginning, if it is empty. For a receiver
    /// that has all up to there and lost what came after it.
    pub fn resume_after(&mut self, key: Bytes) -> Result<(), Error> {
        self.0.resume_after(key)
    }
}

/// A group's rows coming in. Dropped before `finish`, it leaves the old rows as they were. Once it is
/// closed, `finish` needs next to no space.
pub struct Import {
    pub(super) rows: Box<dyn RowsIn>,
    pub(super) store: RowStore,
    pub(super) group: GroupId,
}

impl Import {
    /// The last key taken in; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        self.rows.last_key()
    }

    /// Takes in chunks: rows of this group, in ascending order over all chunks of all calls. After an
    /// error the import can only be dropped.
    pub fn take(&mut self, chunks: impl IntoIterator<Item = Bytes>) -> Result<(), Error> {
        let mut chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty());
        chunks.try_for_each(|chunk| self.rows.take(&chunk))
    }

    /// Writes out what was taken in, so that a disk that has no space for it says so before the old
    /// rows are touched. More may follow.
    pub fn close(&mut self) -> Result<(), Error> {
        self.rows.close()
    }

    /// Puts these rows in the place of all the group had, and its mark with them.
    pub fn finish(mut self) -> Result<(), Error> {
        self.rows.complete()?;
        self.store.inner.forget_cached(self.group);
        self.rows.install()
    }
}
