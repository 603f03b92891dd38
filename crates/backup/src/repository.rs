//! A repository: opened, made, and what it has.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::chunk::{CHUNK_BYTES_MAX, ChunkId, from_hex, hex};
use crate::envelope::{Envelopes, Kind, OVERHEAD};
use crate::error::Error;
use crate::key::{Key, Keys, random};
use crate::location::Location;
use crate::lock::{Lock, Times};
use crate::manifest::{
    CONTENTS_BYTES_MAX, Chunk, FORMAT, Group, Manifest, SUMMARY_BYTES_MAX, Summary,
};
use crate::name::BackupName;
use crate::store::Store;

const HEAD: &str = "mayfly-backup.json";
const HEAD_BYTES_MAX: usize = 1 << 16;
/// The newest format of repositories that is known here.
const REPOSITORY_FORMAT: u64 = 1;

/// Summaries that are read at a time.
const READS_MAX: usize = 16;

/// Where backups are kept. A clone is the same one.
#[derive(Clone)]
pub struct Repository {
    pub(crate) store: Arc<Store>,
    pub(crate) envelopes: Arc<Envelopes>,
    pub(crate) times: Times,
}

/// `mayfly-backup.json`.
#[derive(Serialize, Deserialize)]
struct Head {
    format: u64,
    id: String,
    encryption: Option<Encryption>,
}

#[derive(Serialize, Deserialize)]
struct Encryption {
    /// In hex, as the check is.
    salt: String,
    check: String,
}

/// What there is: every backup that is listed is wholly stored.
#[derive(Debug, Default)]
pub struct Listing {
    /// Newest first.
    pub backups: Vec<Summary>,
    pub damaged: Vec<DamagedBackup>,
}

/// A backup of which nothing can be told but its name.
#[derive(Debug)]
pub struct DamagedBackup {
    pub name: BackupName,
    pub error: Error,
}

impl Repository {
    /// Opens one that is there.
    ///
    /// # Errors
    /// There is none, it is of a newer format, or the key does not fit: none where it is encrypted, one where it is
    /// not, or another.
    pub async fn open(location: &Location, key: Option<&Key>) -> Result<Repository, Error> {
        Repository::open_in(Store::open(location, false)?, key).await
    }

    /// Opens one, or makes it where there is none: encrypted if there is a key, which it stays.
    ///
    /// # Errors
    /// As of [`open`](Repository::open), and a store without conditional writes.
    pub async fn create(location: &Location, key: Option<&Key>) -> Result<Repository, Error> {
        Repository::create_in(Store::open(location, true)?, key).await
    }

    pub(crate) async fn create_in(store: Store, key: Option<&Key>) -> Result<Repository, Error> {
        if store.find(HEAD, HEAD_BYTES_MAX).await?.is_none() {
            let encryption = match key {
                None => None,
                Some(key) => {
                    let salt = random()?;
                    Some(Encryption { salt: hex(&salt), check: Keys::derive(key, &salt).check() })
                }
            };
            let head = Head { format: REPOSITORY_FORMAT, id: hex(&random()?[..16]), encryption };
            let head = serde_json::to_vec_pretty(&head).expect("texts and numbers are JSON");
            store.create(HEAD, head.clone()).await?;
            // Another may have been first, and now one of both is there for good, or this store has no conditions.
            if store.create(HEAD, head).await? {
                return Err(Error::Unconditional { at: store.at() });
            }
        }
        Repository::open_in(store, key).await
    }

    pub(crate) async fn open_in(store: Store, key: Option<&Key>) -> Result<Repository, Error> {
        let at = store.at();
        let head = store.find(HEAD, HEAD_BYTES_MAX).await?;
        let head = head.ok_or_else(|| Error::NoRepository { at: at.clone() })?;
        check_format(&store, HEAD, &head, REPOSITORY_FORMAT)?;
        let head: Head = serde_json::from_slice(&head)
            .map_err(|error| store.damaged(HEAD, error.to_string()))?;
        let keys = match (head.encryption, key) {
            (None, None) => None,
            (None, Some(_)) => return Err(Error::KeyNeedless { at }),
            (Some(_), None) => return Err(Error::KeyMissing { at }),
            (Some(Encryption { salt, check }), Some(key)) => {
                let salt = from_hex(&salt)
                    .ok_or_else(|| store.damaged(HEAD, "its salt is not 32 bytes"))?;
                let keys = Keys::derive(key, &salt);
                if !keys.is_check(&check) {
                    return Err(Error::KeyWrong { at });
                }
                Some(keys)
            }
        };
        let envelopes = Arc::new(Envelopes { repository: head.id, keys });
        Ok(Repository { store: Arc::new(store), envelopes, times: Times::default() })
    }

    pub fn is_encrypted(&self) -> bool {
        self.envelopes.keys.is_some()
    }

    /// Every backup, newest first.
    pub async fn list(&self) -> Result<Listing, Error> {
        let read = |name: BackupName| async move {
            let summary = self.summary(&name).await;
            (name, summary)
        };
        let mut read = futures::stream::iter(self.names().await?).map(read).buffered(READS_MAX);
        let mut listing = Listing::default();
        while let Some((name, summary)) = read.next().await {
            match summary {
                Ok(summary) => listing.backups.push(summary),
                Err(error @ (Error::Damaged { .. } | Error::Format { .. })) => {
                    listing.damaged.push(DamagedBackup { name, error });
                }
                // Pruned meanwhile.
                Err(Error::NoBackup { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(listing)
    }

    /// A backup with its chunks; of no name, the newest.
    pub async fn manifest(&self, name: Option<&BackupName>) -> Result<Manifest, Error> {
        let name = match name {
            Some(name) => name.clone(),
            None => {
                let newest = self.names().await?.into_iter().next();
                newest.ok_or_else(|| Error::Empty { at: self.store.at() })?
            }
        };
        let summary = self.summary(&name).await?;
        let groups = self.contents(&summary).await?;
        Ok(Manifest { summary, groups })
    }

    /// Names of all backups, newest first.
    pub(crate) async fn names(&self) -> Result<Vec<BackupName>, Error> {
        let listed = self.store.list("backups");
        // What lies there beside is not ours.
        let names = listed.try_filter_map(async |listed| {
            Ok(listed
                .name
                .strip_prefix("backups/")
                .and_then(|name| name.parse::<BackupName>().ok()))
        });
        let mut names: Vec<BackupName> = names.try_collect().await?;
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }

    pub(crate) async fn summary(&self, name: &BackupName) -> Result<Summary, Error> {
        let object = summary_object(name);
        let found = self.store.find(&object, SUMMARY_BYTES_MAX + OVERHEAD).await?;
        let found =
            found.ok_or_else(|| Error::NoBackup { at: self.store.at(), name: name.clone() })?;
        let text = self.unpack(Kind::Summary, &object, &found, SUMMARY_BYTES_MAX)?;
        check_format(&self.store, &object, &text, FORMAT)?;
        let summary: Summary = self.parsed(&object, &text)?;
        match summary.name == *name {
            true => Ok(summary),
            false => Err(self.store.damaged(&object, "it is the backup of another name")),
        }
    }

    pub(crate) async fn contents(&self, summary: &Summary) -> Result<Vec<Group>, Error> {
        let object = contents_object(&summary.name);
        let found = self.store.get(&object, CONTENTS_BYTES_MAX + OVERHEAD).await?;
        let text = self.unpack(Kind::Contents, &object, &found, CONTENTS_BYTES_MAX)?;
        match ChunkId::of(&text) == summary.contents {
            true => self.parsed(&object, &text),
            false => Err(self.store.damaged(&object, "it is not the list of this backup's chunks")),
        }
    }

    /// A chunk's plain bytes, which are those of its id.
    async fn chunk(&self, id: &ChunkId) -> Result<Vec<u8>, Error> {
        let object = self.chunk_object(id);
        let found = self.store.get(&object, CHUNK_BYTES_MAX + OVERHEAD).await?;
        let (repository, id) = (self.clone(), *id);
        let unpacked = tokio::task::spawn_blocking(move || {
            let plain = repository.unpack(Kind::Chunk, &object, &found, CHUNK_BYTES_MAX)?;
            match ChunkId::of(&plain) == id {
                true => Ok(plain),
                false => {
                    Err(repository.store.damaged(&object, "its bytes are not those of its name"))
                }
            }
        });
        unpacked.await.expect("it is neither aborted nor does it panic")
    }

    /// A chunk as a manifest has it.
    pub(crate) async fn whole_chunk(&self, chunk: &Chunk) -> Result<Vec<u8>, Error> {
        let bytes = self.chunk(&chunk.id).await?;
        match bytes.len() as u64 == chunk.bytes {
            true => Ok(bytes),
            false => {
                let why =
                    format!("it has {} bytes, and its backup says {}", bytes.len(), chunk.bytes);
                Err(self.store.damaged(&self.chunk_object(&chunk.id), why))
            }
        }
    }

    pub(crate) fn unpack(
        &self,
        kind: Kind,
        name: &str,
        object: &[u8],
        bytes_max: usize,
    ) -> Result<Vec<u8>, Error> {
        let unpacked = self.envelopes.unpack(kind, name, object, bytes_max);
        unpacked.map_err(|why| self.store.damaged(name, why))
    }

    pub(crate) fn parsed<'a, T: Deserialize<'a>>(
        &self,
        object: &str,
        text: &'a [u8],
    ) -> Result<T, Error> {
        serde_json::from_slice(text).map_err(|error| self.store.damaged(object, error.to_string()))
    }

    pub(crate) async fn lock(&self, purpose: &str) -> Result<Lock, Error> {
        Lock::take(&self.store, purpose, self.times).await
    }

    /// What a chunk's object is called, as bytes.
    pub(crate) fn chunk_name(&self, id: &ChunkId) -> [u8; 32] {
        match &self.envelopes.keys {
            None => *id.as_bytes(),
            Some(keys) => keys.name(id),
        }
    }

    pub(crate) fn chunk_object(&self, id: &ChunkId) -> String {
        let name = hex(&self.chunk_name(id));
        format!("chunks/{}/{name}", &name[..2])
    }
}

pub(crate) fn summary_object(name: &BackupName) -> String {
    format!("backups/{name}")
}

pub(crate) fn contents_object(name: &BackupName) -> String {
    format!("contents/{name}")
}

/// Before anything else is read of it: a newer format may have changed the rest.
fn check_format(store: &Store, object: &str, text: &[u8], known: u64) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Formatted {
        format: u64,
    }
    let Formatted { format: found } =
        serde_json::from_slice(text).map_err(|error| store.damaged(object, error.to_string()))?;
    if found > known {
        return Err(Error::Format { at: store.at(), object: object.to_owned(), found, known });
    }
    Ok(())
}
