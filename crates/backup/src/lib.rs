//! Repositories of backups: chunks that are named by their content and manifests that name chunks, in a directory or
//! an S3-compatible store, compressed, and encrypted if they are made so.
//!
//! Invariant: nothing of the broker is known here. Whoever takes a cut gives bytes, ids and a [`Cut`]; a backup is
//! listed once all of it is stored, and every byte that is read was checked against its name.
//!
//! | object | what it is |
//! |---|---|
//! | `mayfly-backup.json` | format, the repository's id, and whether it is encrypted: written once |
//! | `chunks/ab/<hex>` | a chunk; by the SHA-256 of its plain bytes, or by that under a key |
//! | `contents/<name>` | which chunks the groups of a backup consist of |
//! | `backups/<name>` | what is said of a backup in a list; written last, and with it there is the backup |
//! | `unfinished` | chunks that a backup stored which is under way or was broken off |
//! | `suspects/<token>` | chunks that a verification found missing or damaged |
//! | `locks/<token>.json` | who writes or prunes; one at a time |
//!
//! Reading order: where and how bytes are kept ([`Location`], `store`, `envelope`), what a backup is ([`Manifest`]),
//! then [`Repository`], [`Writer`], [`Reader`], and what sees to it.

mod chunk;
mod error;
mod key;
mod name;

mod envelope;
mod location;
mod store;

mod lock;
mod manifest;
mod repository;
mod unfinished;

mod reader;
mod writer;

mod prune;
mod retention;
mod suspects;
mod verification;

#[cfg(test)]
mod tests;

pub use chunk::{CHUNK_BYTES_MAX, ChunkId};
pub use error::Error;
pub use key::Key;
pub use location::Location;
pub use manifest::{Chunk, Cut, Group, Manifest, Stored, Summary, Totals};
pub use name::BackupName;
pub use prune::Pruned;
pub use reader::{ReadChunk, Reader};
pub use repository::{DamagedBackup, Listing, Repository};
pub use retention::Retention;
pub use verification::{Fault, FaultyChunk};
pub use writer::Writer;
