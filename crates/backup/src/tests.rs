//! Tests of the crate, and what they share: repositories in memory and in directories, and a store that does otherwise
//! where a test wants it.

mod damage;
mod locks;
mod place;
mod prune;
mod repository;
mod scripted;
mod writers;

use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

use crate::chunk::ChunkId;
use crate::error::Error;
use crate::key::Key;
use crate::location::Location;
use crate::manifest::{Chunk, Cut, Group, Manifest, Summary, Totals};
use crate::reader::Reader;
use crate::repository::Repository;
use crate::store::Store;
use crate::writer::Writer;

/// 2026-11-27T09:15:00Z.
const AT_MS: u64 = 1_795_770_900_000;

/// Chunks of groups, by their texts.
type Texts<'a> = &'a [(u16, &'a [&'a [u8]])];

fn key() -> Key {
    Key::parse(&"07".repeat(32)).expect("a key")
}

async fn repository_in(inner: Arc<dyn ObjectStore>, key: Option<&Key>) -> Repository {
    Repository::create_in(Store::of(inner), key).await.expect("made")
}

async fn in_memory(key: Option<&Key>) -> Repository {
    repository_in(Arc::new(InMemory::new()), key).await
}

async fn in_directory(key: Option<&Key>) -> (TempDir, Repository) {
    let dir = tempfile::tempdir().expect("a directory");
    let repository = Repository::create(&location(&dir), key).await.expect("made");
    (dir, repository)
}

fn location(dir: &TempDir) -> Location {
    dir.path().to_str().expect("text").parse().expect("a place")
}

fn cut(taken_at_ms: u64) -> Cut {
    Cut {
        taken_at_ms,
        clock_offset_ms: -5,
        cluster_id: "c1".into(),
        version: "0.1.0".into(),
        feature_level: 7,
        cut: taken_at_ms / 1000,
        totals: Totals { entities: 1, messages: 2, bytes: 3 },
    }
}

fn groups(texts: Texts<'_>) -> Vec<Group> {
    let chunk = |text: &&[u8]| Chunk { id: ChunkId::of(text), bytes: text.len() as u64, rows: 1 };
    let group = |(id, texts): &(u16, &[&[u8]])| Group {
        id: *id,
        chunks: texts.iter().map(chunk).collect(),
    };
    texts.iter().map(group).collect()
}

async fn put(writer: &mut Writer, text: &[u8]) -> Result<(), Error> {
    writer.put(ChunkId::of(text), Bytes::copy_from_slice(text)).await
}

/// A backup as the broker's side makes it: of what is not known already.
async fn back_up(repository: &Repository, at_ms: u64, texts: Texts<'_>) -> Result<Summary, Error> {
    let mut writer = Writer::begin(repository).await?;
    for text in texts.iter().flat_map(|(_, texts)| *texts) {
        if !writer.known().contains(&ChunkId::of(text)) {
            put(&mut writer, text).await?;
        }
    }
    writer.finish(cut(at_ms), &groups(texts)).await
}

async fn read(repository: &Repository, manifest: &Manifest) -> Result<Vec<(u16, Vec<u8>)>, Error> {
    let (mut reader, mut found) = (Reader::new(repository, manifest), Vec::new());
    while let Some(read) = reader.next().await? {
        found.push((read.group, read.bytes.to_vec()));
    }
    Ok(found)
}

async fn read_newest(repository: &Repository) -> Result<Vec<(u16, Vec<u8>)>, Error> {
    read(repository, &repository.manifest(None).await?).await
}

fn plain(texts: Texts<'_>) -> Vec<(u16, Vec<u8>)> {
    texts.iter().flat_map(|(id, texts)| texts.iter().map(|text| (*id, text.to_vec()))).collect()
}

async fn names(repository: &Repository) -> Vec<String> {
    let listing = repository.list().await.expect("listed");
    assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
    listing.backups.iter().map(|summary| summary.name.to_string()).collect()
}

/// Every error is one line.
fn told(error: &Error) -> String {
    let told = error.to_string();
    assert!(!told.contains('\n') && !told.is_empty(), "{told}");
    told
}
