//! Backups that are not kept, and chunks that no backup names.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt};

use crate::chunk::from_hex;
use crate::error::Error;
use crate::lock::Lock;
use crate::manifest::Summary;
use crate::name::BackupName;
use crate::repository::{Repository, contents_object, summary_object};
use crate::retention::Retention;
use crate::suspects::Suspects;
use crate::unfinished;

/// Objects that are deleted at a time, between two looks at the lock: what S3 takes in one request.
const DELETES_MAX: usize = 1000;
/// Lists of chunks that are read at a time.
const READS_MAX: usize = 4;

/// What a prune did, or would do.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Newest first, as those removed are.
    pub kept: Vec<Summary>,
    pub removed: Vec<Summary>,
    /// Chunks that no backup names any more, also those of backups that were broken off.
    pub chunks: u64,
    /// As they lie in the store.
    pub bytes: u64,
}

impl Repository {
    /// Deletes backups that are not kept, then the chunks that no backup names. Backups go first, so that none is listed
    /// whose chunks are gone; a prune that is broken off leaves chunks for the next. `dry_run`: only says what it would
    /// do, and writes nothing. `stop`: it ends when this does, and others can begin when it returns.
    ///
    /// # Errors
    /// A retention that keeps nothing in particular; [`Error::Busy`] while a backup is made; a damaged backup, of which
    /// nobody knows which chunks it needs; [`Error::Stopped`].
    pub async fn prune(
        &self,
        retention: &Retention,
        dry_run: bool,
        stop: impl Future<Output = ()>,
    ) -> Result<Pruned, Error> {
        if retention.is_empty() {
            return Err(Error::NothingKept);
        }
        let lock = match dry_run {
            true => None,
            false => Some(self.lock("mayfly backup prune").await?),
        };
        let pruned = tokio::select! {
            pruned = self.pruned(retention, lock.as_ref()) => pruned,
            () = stop => Err(Error::Stopped { at: self.store.at() }),
        };
        if let Some(lock) = lock {
            lock.release().await;
        }
        pruned
    }

    async fn pruned(&self, retention: &Retention, lock: Option<&Lock>) -> Result<Pruned, Error> {
        let listing = self.list().await?;
        if let Some(damaged) = listing.damaged.into_iter().next() {
            return Err(damaged.error);
        }
        let kept = retention.kept(&listing.backups);
        let mut pruned = Pruned::default();
        for (summary, is_kept) in listing.backups.into_iter().zip(kept) {
            if is_kept { &mut pruned.kept } else { &mut pruned.removed }.push(summary);
        }
        // Before anything is deleted: a list that cannot be read ends it here.
        let named = self.named(&pruned.kept).await?;
        self.remove(&pruned, &named, lock).await?;
        (pruned.chunks, pruned.bytes) = self.sweep(&named, lock).await?;
        Ok(pruned)
    }

    /// What the objects of these backups' chunks are called.
    async fn named(&self, backups: &[Summary]) -> Result<HashSet<[u8; 32]>, Error> {
        let (mut named, mut read) = (HashSet::new(), HashSet::new());
        // Backups between which nothing changed have one list.
        let lists = backups.iter().filter(|summary| read.insert(summary.contents));
        let lists = lists.map(|summary| self.contents(summary));
        let mut lists = futures::stream::iter(lists).buffered(READS_MAX);
        while let Some(groups) = lists.try_next().await? {
            let chunks = groups.iter().flat_map(|group| &group.chunks);
            named.extend(chunks.map(|chunk| self.chunk_name(&chunk.id)));
        }
        Ok(named)
    }

    async fn remove(
        &self,
        pruned: &Pruned,
        named: &HashSet<[u8; 32]>,
        lock: Option<&Lock>,
    ) -> Result<(), Error> {
        let Some(lock) = lock else { return Ok(()) };
        for removed in pruned.removed.chunks(DELETES_MAX) {
            let summaries = removed.iter().map(|summary| summary_object(&summary.name));
            lock.check().await?;
            self.store.delete(summaries.collect()).await?;
        }
        // Also those of backups that were broken off while they were listed.
        let kept: HashSet<String> =
            pruned.kept.iter().map(|summary| contents_object(&summary.name)).collect();
        let lists: Vec<String> =
            self.store.list("contents").map_ok(|listed| listed.name).try_collect().await?;
        let is_ours = |name: &String| {
            name.strip_prefix("contents/").is_some_and(|name| name.parse::<BackupName>().is_ok())
        };
        let orphans = lists.into_iter().filter(|name| is_ours(name) && !kept.contains(name));
        let mut orphans: Vec<String> = orphans.collect();
        orphans.push(unfinished::OBJECT.to_owned());
        for orphans in orphans.chunks(DELETES_MAX) {
            lock.check().await?;
            self.store.delete(orphans.to_vec()).await?;
        }
        let suspects = Suspects::read(self).await?;
        suspects.settle(self, |id| !named.contains(&self.chunk_name(id))).await
    }

    /// Deletes the chunks that are not named; without a lock it counts them only.
    async fn sweep(
        &self,
        named: &HashSet<[u8; 32]>,
        lock: Option<&Lock>,
    ) -> Result<(u64, u64), Error> {
        // What lies there beside is not ours.
        let unnamed = |name: &str| {
            let name = name.rsplit('/').next().and_then(from_hex);
            name.is_some_and(|name| !named.contains(&name))
        };
        let listed = self.store.list("chunks").try_filter(|listed| {
            let unnamed = unnamed(&listed.name);
            async move { unnamed }
        });
        let (mut chunks, mut bytes) = (0, 0);
        let mut batches = listed.try_chunks(DELETES_MAX).map_err(|error| error.1).boxed();
        while let Some(batch) = batches.try_next().await? {
            chunks += batch.len() as u64;
            bytes += batch.iter().map(|listed| listed.bytes).sum::<u64>();
            let Some(lock) = lock else { continue };
            lock.check().await?;
            self.store.delete(batch.into_iter().map(|listed| listed.name).collect()).await?;
        }
        Ok((chunks, bytes))
    }
}
