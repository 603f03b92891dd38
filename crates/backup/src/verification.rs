//! Whether a backup could be restored: all that it consists of is read.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;

use crate::chunk::ChunkId;
use crate::error::Error;
use crate::manifest::{Chunk, Manifest};
use crate::repository::Repository;

/// Chunks that are read at a time.
const READS_MAX: usize = 8;

/// A chunk that is not as it was stored, and the groups that cannot be restored without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyChunk {
    pub id: ChunkId,
    /// Where it lies, or should.
    pub object: String,
    pub groups: BTreeSet<u16>,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Missing,
    /// And in what way.
    Damaged(String),
}

impl Repository {
    /// Reads every chunk of a backup once, and tells each that is missing or damaged. `progress` is called with the
    /// plain bytes of each.
    ///
    /// # Errors
    /// The store is not reached: what could not be read may be as it should.
    pub async fn verify(
        &self,
        manifest: &Manifest,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<FaultyChunk>, Error> {
        let mut groups: BTreeMap<ChunkId, (Chunk, BTreeSet<u16>)> = BTreeMap::new();
        for (group, chunk) in manifest.chunks() {
            groups.entry(chunk.id).or_insert_with(|| (chunk, BTreeSet::new())).1.insert(group);
        }
        let read = groups.into_values().map(|(chunk, groups)| async move {
            let read = self.whole_chunk(&chunk).await.map(drop);
            (chunk, groups, read)
        });
        let mut read = futures::stream::iter(read).buffer_unordered(READS_MAX);
        let mut faulty = Vec::new();
        while let Some((chunk, groups, read)) = read.next().await {
            progress(chunk.bytes);
            let (object, fault) = match read {
                Ok(()) => continue,
                Err(Error::Missing { object, .. }) => (object, Fault::Missing),
                Err(Error::Damaged { object, why, .. }) => (object, Fault::Damaged(why)),
                Err(error) => return Err(error),
            };
            faulty.push(FaultyChunk { id: chunk.id, object, groups, fault });
        }
        faulty.sort_unstable_by(|a, b| a.object.cmp(&b.object));
        Ok(faulty)
    }
}
