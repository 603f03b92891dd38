//! Chunks that were found missing or damaged. They are known no more, so that the next backup stores them again where
//! the data are still the same, under the same name: which mends the backups that had them.
//!
//! An object for each finding, as whoever finds takes no lock.

use std::collections::BTreeSet;

use futures::TryStreamExt;

use crate::chunk::{ChunkId, hex};
use crate::envelope::{Kind, OVERHEAD};
use crate::error::Error;
use crate::key::random;
use crate::manifest::CONTENTS_BYTES_MAX;
use crate::repository::Repository;
use crate::verification::FaultyChunk;

const FOLDER: &str = "suspects";

/// What findings there are, by their objects.
pub(crate) struct Suspects(Vec<(String, Vec<ChunkId>)>);

impl Suspects {
    pub(crate) async fn read(repository: &Repository) -> Result<Suspects, Error> {
        let listed = repository.store.list(FOLDER).map_ok(|listed| listed.name);
        let mut found = Vec::new();
        for object in listed.try_collect::<Vec<String>>().await? {
            let bytes = repository.store.find(&object, CONTENTS_BYTES_MAX + OVERHEAD).await?;
            let Some(bytes) = bytes else { continue };
            let ids = repository.unpack(Kind::Suspects, &object, &bytes, CONTENTS_BYTES_MAX);
            let ids = ids.and_then(|text| repository.parsed(&object, &text));
            // What a damaged one said is found again.
            found.push((object, ids.unwrap_or_default()));
        }
        Ok(Suspects(found))
    }

    pub(crate) fn ids(&self) -> BTreeSet<ChunkId> {
        self.0.iter().flat_map(|(_, ids)| ids).copied().collect()
    }

    /// Deletes the findings of which nothing is left to do. With a lock.
    pub(crate) async fn settle(
        &self,
        repository: &Repository,
        is_done: impl Fn(&ChunkId) -> bool,
    ) -> Result<(), Error> {
        let done = self.0.iter().filter(|(_, ids)| ids.iter().all(&is_done));
        let done: Vec<String> = done.map(|(object, _)| object.clone()).collect();
        match done.is_empty() {
            true => Ok(()),
            false => repository.store.delete(done).await,
        }
    }
}

impl Repository {
    /// Has the next backup store these again, where it still has the same bytes.
    pub async fn distrust(&self, faulty: &[FaultyChunk]) -> Result<(), Error> {
        let ids: Vec<ChunkId> = faulty.iter().map(|faulty| faulty.id).collect();
        let object = format!("{FOLDER}/{}", hex(&random()?[..16]));
        let text = serde_json::to_vec(&ids).expect("ids are JSON");
        let packed = self.envelopes.pack(Kind::Suspects, &object, &text)?;
        self.store.put(&object, packed).await
    }
}
