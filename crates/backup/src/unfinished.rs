//! Chunks of a backup that is under way: those of one that was broken off need not be sent again. They are looked up
//! before they count, as a prune may have been there meanwhile; by this list and not by listing objects, which in an
//! encrypted repository do not tell their ids.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt};

use crate::chunk::ChunkId;
use crate::envelope::{Kind, OVERHEAD};
use crate::error::Error;
use crate::manifest::CONTENTS_BYTES_MAX;
use crate::repository::Repository;

pub(crate) const OBJECT: &str = "unfinished";
/// Chunks that are looked up at a time.
const READS_MAX: usize = 32;

/// Those that are there, beside the ones known already.
pub(crate) async fn read(
    repository: &Repository,
    known: &BTreeSet<ChunkId>,
) -> Result<Vec<ChunkId>, Error> {
    let found = repository.store.find(OBJECT, CONTENTS_BYTES_MAX + OVERHEAD).await?;
    let Some(found) = found else { return Ok(Vec::new()) };
    let listed = repository.unpack(Kind::Unfinished, OBJECT, &found, CONTENTS_BYTES_MAX);
    let listed = listed.and_then(|text| repository.parsed::<Vec<ChunkId>>(OBJECT, &text));
    // It spares work, and nothing depends on it: a damaged one is written over.
    let Ok(listed) = listed else { return Ok(Vec::new()) };
    let asked = listed.into_iter().filter(|id| !known.contains(id)).map(|id| async move {
        let is_there = repository.store.is_there(&repository.chunk_object(&id)).await?;
        Ok(is_there.then_some(id))
    });
    let found = futures::stream::iter(asked).buffer_unordered(READS_MAX);
    found.try_filter_map(async |id| Ok(id)).try_collect().await
}

pub(crate) async fn write(repository: &Repository, stored: &[ChunkId]) -> Result<(), Error> {
    let text = serde_json::to_vec(stored).expect("ids are JSON");
    let object = repository.envelopes.pack(Kind::Unfinished, OBJECT, &text)?;
    repository.store.put(OBJECT, object).await
}
