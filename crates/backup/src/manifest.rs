//! What a backup is: what was said of the cut, and which chunks its groups consist of.

use serde::{Deserialize, Serialize};

use crate::chunk::ChunkId;
use crate::name::BackupName;

/// The newest format of manifests that is known here.
pub(crate) const FORMAT: u64 = 1;

/// Bytes of a manifest's list of chunks at most: of some ten million.
pub(crate) const CONTENTS_BYTES_MAX: usize = 1 << 30;
pub(crate) const SUMMARY_BYTES_MAX: usize = 1 << 20;

/// What whoever took a cut says of it; nothing here decides by it, but for its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The cluster's time of the cut, in milliseconds since the Unix epoch. The backup is named for it.
    pub taken_at_ms: u64,
    /// By how much an operator had moved the cluster's clock, in milliseconds.
    pub clock_offset_ms: i64,
    pub cluster_id: String,
    /// The version that took it.
    pub version: String,
    pub feature_level: u32,
    /// The cut's own number.
    pub cut: u64,
    pub totals: Totals,
}

/// How much there was in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub entities: u64,
    pub messages: u64,
    /// Of all chunks, before they are compressed.
    pub bytes: u64,
}

/// A chunk of a group. Three values and no names: a manifest holds many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(ChunkId, u64, u64)", into = "(ChunkId, u64, u64)")]
pub struct Chunk {
    pub id: ChunkId,
    /// Its length, before it is compressed.
    pub bytes: u64,
    pub rows: u64,
}

impl From<(ChunkId, u64, u64)> for Chunk {
    fn from((id, bytes, rows): (ChunkId, u64, u64)) -> Chunk {
        Chunk { id, bytes, rows }
    }
}

impl From<Chunk> for (ChunkId, u64, u64) {
    fn from(chunk: Chunk) -> (ChunkId, u64, u64) {
        (chunk.id, chunk.bytes, chunk.rows)
    }
}

/// A group's chunks, in the order in which they are read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub id: u16,
    pub chunks: Vec<Chunk>,
}

/// What a backup added to its repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    pub chunks: u64,
    /// As they lie there: compressed, and sealed.
    pub bytes: u64,
}

/// What a list tells of a backup. An object of its own: a list of a thousand backups reads no lists of chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub(crate) format: u64,
    pub name: BackupName,
    #[serde(flatten)]
    pub cut: Cut,
    pub groups: u64,
    /// All that it consists of.
    pub chunks: u64,
    pub stored: Stored,
    /// The hash of the list of its chunks, which binds the one to the other.
    pub(crate) contents: ChunkId,
}

/// A backup, with its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub summary: Summary,
    pub groups: Vec<Group>,
}

impl Manifest {
    /// Every chunk with its group, in order; one that several name comes several times.
    pub fn chunks(&self) -> impl Iterator<Item = (u16, Chunk)> + '_ {
        self.groups.iter().flat_map(|group| group.chunks.iter().map(|chunk| (group.id, *chunk)))
    }
}
