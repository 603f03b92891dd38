//! A backup that is being read.

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};

use crate::error::Error;
use crate::manifest::{Chunk, Manifest};
use crate::repository::Repository;

/// Chunks that are read ahead of whoever takes them.
const AHEAD_MAX: usize = 8;

/// Reads the chunks of a backup in the order of its manifest, some ahead. Each is checked against its id before it is
/// given.
pub struct Reader {
    chunks: BoxStream<'static, Result<ReadChunk, Error>>,
}

#[derive(Clone, Debug)]
pub struct ReadChunk {
    pub group: u16,
    pub chunk: Chunk,
    pub bytes: Bytes,
}

impl Reader {
    pub fn new(repository: &Repository, manifest: &Manifest) -> Reader {
        let chunks: Vec<(u16, Chunk)> = manifest.chunks().collect();
        let repository = repository.clone();
        let read = futures::stream::iter(chunks).map(move |(group, chunk)| {
            let repository = repository.clone();
            async move {
                let bytes = repository.whole_chunk(&chunk).await?;
                Ok(ReadChunk { group, chunk, bytes: bytes.into() })
            }
        });
        Reader { chunks: read.buffered(AHEAD_MAX).boxed() }
    }

    /// The next one; `None` at the end.
    ///
    /// # Errors
    /// It is missing or damaged, which nothing after it mends, or the store says something.
    pub async fn next(&mut self) -> Result<Option<ReadChunk>, Error> {
        self.chunks.next().await.transpose()
    }
}
