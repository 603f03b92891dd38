//! A backup that is being made.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::chunk::{CHUNK_BYTES_MAX, ChunkId};
use crate::envelope::Kind;
use crate::error::Error;
use crate::lock::Lock;
use crate::manifest::{Cut, FORMAT, Group, Stored, Summary};
use crate::name::BackupName;
use crate::repository::{Repository, contents_object, summary_object};
use crate::suspects::Suspects;
use crate::unfinished;

/// Chunks that are under way at a time, each twice in memory: as it was given and as it is stored.
const UPLOADS_MAX: usize = 8;
/// Backups whose chunks count as known. All of them would be read for each backup, and what has not changed is in the
/// newest.
const KNOWN_BACKUPS: usize = 3;
/// How often it is written down which chunks are stored.
const NOTED_EVERY: Duration = Duration::from_secs(60);

/// Makes one backup, alone in its repository. Nothing is listed before [`finish`](Writer::finish), whatever happens:
/// who drops it has stored chunks that the next backup finds.
pub struct Writer {
    repository: Repository,
    lock: Lock,
    known: BTreeSet<ChunkId>,
    /// Given to this backup, stored or on their way.
    given: BTreeSet<ChunkId>,
    uploads: JoinSet<Result<(ChunkId, u64), Error>>,
    /// What this backup and the one that was broken off before it have stored.
    unfinished: Vec<ChunkId>,
    suspects: Suspects,
    noted: Instant,
    stored: Stored,
}

impl Writer {
    /// Waits for nobody: where another backup or a prune is under way, that is told.
    ///
    /// # Errors
    /// [`Error::Busy`], a damaged newest backup, and whatever the store says.
    pub async fn begin(repository: &Repository) -> Result<Writer, Error> {
        // Before it is looked what is there: from now on nothing is deleted.
        let lock = repository.lock("mayfly backup create").await?;
        let mut known = BTreeSet::new();
        for name in repository.names().await?.iter().take(KNOWN_BACKUPS) {
            match repository.manifest(Some(name)).await {
                Ok(manifest) => known.extend(manifest.chunks().map(|(_, chunk)| chunk.id)),
                // What is not known is stored again.
                Err(Error::Damaged { .. } | Error::Missing { .. } | Error::Format { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let unfinished = unfinished::read(repository, &known).await?;
        known.extend(&unfinished);
        let suspects = Suspects::read(repository).await?;
        let suspected = suspects.ids();
        known.retain(|id| !suspected.contains(id));
        Ok(Writer {
            repository: repository.clone(),
            lock,
            known,
            given: BTreeSet::new(),
            uploads: JoinSet::new(),
            unfinished,
            suspects,
            noted: Instant::now(),
            stored: Stored::default(),
        })
    }

    /// Chunks that need not be given: of the newest backups, and of one that was broken off, but for those that were
    /// found missing or damaged.
    pub fn known(&self) -> &BTreeSet<ChunkId> {
        &self.known
    }

    /// Stores a chunk. Returns once it is on its way, and waits where too many are. One that was given before is stored
    /// once; one that is known is stored again, which mends a damaged one.
    ///
    /// # Errors
    /// Bytes of another id, too many of them, and what became of a chunk given before. The backup is broken off then.
    pub async fn put(&mut self, id: ChunkId, bytes: Bytes) -> Result<(), Error> {
        if bytes.len() > CHUNK_BYTES_MAX {
            return Err(Error::ChunkBytes { bytes: bytes.len(), max: CHUNK_BYTES_MAX });
        }
        if !self.given.insert(id) {
            return Ok(());
        }
        while self.uploads.len() >= UPLOADS_MAX {
            self.uploaded().await?;
        }
        self.uploads.spawn(upload(self.repository.clone(), id, bytes));
        if self.noted.elapsed() >= NOTED_EVERY {
            self.lock.check().await?;
            unfinished::write(&self.repository, &self.unfinished).await?;
            self.noted = Instant::now();
        }
        Ok(())
    }

    /// Waits until all is stored, and lists the backup.
    ///
    /// # Errors
    /// A chunk that was neither given nor known, [`Error::LockLost`], and what became of a chunk. Nothing is listed
    /// then.
    pub async fn finish(mut self, cut: Cut, groups: &[Group]) -> Result<Summary, Error> {
        while !self.uploads.is_empty() {
            self.uploaded().await?;
        }
        for (group, chunk) in
            groups.iter().flat_map(|group| group.chunks.iter().map(move |c| (group.id, c)))
        {
            if !self.known.contains(&chunk.id) && !self.given.contains(&chunk.id) {
                return Err(Error::ChunkNotStored { id: chunk.id, group });
            }
        }
        let summary = self.list(cut, groups).await?;
        // The backup is there, whatever becomes of what helped: at worst chunks are stored once more.
        let _ = self.suspects.settle(&self.repository, |id| self.given.contains(id)).await;
        let _ = self.repository.store.delete(vec![unfinished::OBJECT.to_owned()]).await;
        self.lock.release().await;
        Ok(summary)
    }

    /// Ends it without a backup; as dropping it does, but others can begin when this returns.
    pub async fn abandon(mut self) {
        self.uploads.shutdown().await;
        if !self.unfinished.is_empty() && self.lock.check().await.is_ok() {
            // What it spares the next backup is all that is lost otherwise.
            let _ = unfinished::write(&self.repository, &self.unfinished).await;
        }
        self.lock.release().await;
    }

    /// Waits for one of those under way.
    async fn uploaded(&mut self) -> Result<(), Error> {
        let Some(joined) = self.uploads.join_next().await else { return Ok(()) };
        let (id, bytes) = joined.expect("an upload is not aborted, and does not panic")?;
        self.unfinished.push(id);
        self.stored.chunks += 1;
        self.stored.bytes += bytes;
        Ok(())
    }

    async fn list(&mut self, cut: Cut, groups: &[Group]) -> Result<Summary, Error> {
        let Repository { store, envelopes, .. } = &self.repository;
        let contents = serde_json::to_vec(groups).expect("ids and numbers are JSON");
        let mut summary = Summary {
            format: FORMAT,
            name: self.free_name(cut.taken_at_ms).await?,
            cut,
            groups: groups.len() as u64,
            chunks: groups.iter().map(|group| group.chunks.len() as u64).sum(),
            stored: self.stored,
            contents: ChunkId::of(&contents),
        };
        loop {
            let (listed, named) = (contents_object(&summary.name), summary_object(&summary.name));
            store.put(&listed, envelopes.pack(Kind::Contents, &listed, &contents)?).await?;
            let text = serde_json::to_vec(&summary).expect("texts and numbers are JSON");
            let object = envelopes.pack(Kind::Summary, &named, &text)?;
            self.lock.check().await?;
            if store.create(&named, object).await? {
                // If this process stood still between the two, a prune may have deleted what the backup consists of.
                if let Err(lost) = self.lock.check().await {
                    store.delete(vec![named]).await?;
                    return Err(lost);
                }
                return Ok(summary);
            }
            summary.name = summary.name.next();
        }
    }

    async fn free_name(&self, taken_at_ms: u64) -> Result<BackupName, Error> {
        let mut name = BackupName::of(taken_at_ms)?;
        let taken = self.repository.names().await?;
        while taken.contains(&name) {
            name = name.next();
        }
        Ok(name)
    }
}

async fn upload(
    repository: Repository,
    id: ChunkId,
    bytes: Bytes,
) -> Result<(ChunkId, u64), Error> {
    let (store, name) = (repository.store.clone(), repository.chunk_object(&id));
    let packed = tokio::task::spawn_blocking({
        let name = name.clone();
        move || match ChunkId::of(&bytes) {
            found if found == id => repository.envelopes.pack(Kind::Chunk, &name, &bytes),
            found => Err(Error::ChunkId { given: id, found }),
        }
    });
    let object = packed.await.expect("it is neither aborted nor does it panic")?;
    let bytes = object.len() as u64;
    store.put(&name, object).await?;
    Ok((id, bytes))
}
