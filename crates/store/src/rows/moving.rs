//! A shard's rows on their way out and in, wherever they are kept.

use bytes::Bytes;

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

/// Where imported rows go. Dropped before `finish`, it leaves the old rows as they were.
pub trait RowsIn: Send {
    /// [`Import::last_key`].
    fn last_key(&self) -> &[u8];

    /// Takes in one chunk, which is not empty.
    fn take(&mut self, chunk: &[u8]) -> Result<(), Error>;

    /// [`Import::finish`].
    fn finish(self: Box<Self>) -> Result<(), Error>;
}

/// A shard's rows as of one applied index, in chunks. Dropping it ends the reading.
pub struct Export(Box<dyn RowsOut>);

impl Export {
    pub fn of(rows: impl RowsOut + 'static) -> Export {
        Export(Box::new(rows))
    }

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

/// A shard's rows coming in. Dropped before `finish`, it leaves the old rows as they were.
pub struct Import(Box<dyn RowsIn>);

impl Import {
    pub fn of(rows: impl RowsIn + 'static) -> Import {
        Import(Box::new(rows))
    }

    /// The last key taken in; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        self.0.last_key()
    }

    /// Takes in chunks: rows of this shard, in ascending order over all chunks of all calls. After an
    /// error the import can only be dropped.
    pub fn take(&mut self, chunks: impl IntoIterator<Item = Bytes>) -> Result<(), Error> {
        let mut chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty());
        chunks.try_for_each(|chunk| self.0.take(&chunk))
    }

    /// Puts these rows in the place of all the shard had, and its mark with them.
    pub fn finish(self) -> Result<(), Error> {
        self.0.finish()
    }
}
