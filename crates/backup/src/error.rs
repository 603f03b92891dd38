//! What goes wrong, and what to do about it.

use std::time::Duration;

use thiserror::Error;

use crate::chunk::ChunkId;
use crate::name::BackupName;

/// Every message is one line: what, where, and what to do. `at` is the place as it was given.
#[derive(Debug, Error)]
pub enum Error {
    /// Wrong usage: no place of backups.
    #[error("{0}")]
    Location(String),
    /// Wrong usage: not the text of a key.
    #[error("{0}")]
    KeyText(&'static str),
    #[error(
        "'{at}' holds no backups: it has no mayfly-backup.json; look at the path, or make a first backup \
         with 'mayfly backup create'"
    )]
    NoRepository { at: String },
    #[error(
        "'{at}': {object} is of format {found}, and this version of Mayfly knows up to {known}; use the version that \
         wrote it, or a newer one"
    )]
    Format { at: String, object: String, found: u64, known: u64 },
    #[error(
        "'{at}' is encrypted; name the file of its key with --key-file or MAYFLY_BACKUP_KEY_FILE"
    )]
    KeyMissing { at: String },
    #[error(
        "'{at}' is not encrypted, and stays so; leave out the key, or use another place for encrypted backups"
    )]
    KeyNeedless { at: String },
    #[error(
        "'{at}' is encrypted with another key than this; name the file of the one it was made with"
    )]
    KeyWrong { at: String },
    #[error("'{at}' has no backup '{name}'; 'mayfly backup list {at}' shows those it has")]
    NoBackup { at: String, name: BackupName },
    #[error("'{at}' has no backup yet; 'mayfly backup create' makes one")]
    Empty { at: String },
    #[error(
        "'{at}' is in use by {holder}, seen {} s ago; wait for its end, or for {} s without a sign of it, after which \
         it counts as broken off",
        seen.as_secs(), stale.as_secs()
    )]
    Busy { at: String, holder: String, seen: Duration, stale: Duration },
    #[error(
        "'{at}' was not reached for so long that others may write there by now; nothing of this is listed; do it again"
    )]
    LockLost { at: String },
    /// An object is there and not what was written.
    #[error(
        "'{at}': {object} is damaged ({why}); 'mayfly backup verify' tells which backups that concerns"
    )]
    Damaged { at: String, object: String, why: String },
    /// An object is not there.
    #[error(
        "'{at}': {object} is missing; 'mayfly backup verify' tells which backups that concerns"
    )]
    Missing { at: String, object: String },
    /// The store did not do what it was asked. It may be reached again.
    #[error("'{at}': cannot {doing} {object}: {why}")]
    Store { at: String, doing: &'static str, object: String, why: String },
    #[error(
        "'{at}': this store writes over an object where it was told not to (If-None-Match, RFC 9110, section 13.1.2); \
         use one that knows conditional writes, as S3 does"
    )]
    Unconditional { at: String },
    /// The giver's fault: these bytes have another id.
    #[error(
        "a chunk that was given as {given} is {found}; it was changed on the way here, do it again"
    )]
    ChunkId { given: ChunkId, found: ChunkId },
    #[error(
        "a chunk of {bytes} bytes was given, and {max} are allowed; this is a fault of whoever made it"
    )]
    ChunkBytes { bytes: usize, max: usize },
    #[error(
        "chunk {id} of group {group} was neither given nor known; nothing is listed, do it again"
    )]
    ChunkNotStored { id: ChunkId, group: u16 },
    #[error("a cut at {taken_at_ms} ms has no date that can be written; nothing is listed")]
    Time { taken_at_ms: u64 },
    #[error(
        "say which backups to keep: so many of the newest, or those of so long before the newest"
    )]
    NothingKept,
    #[error("'{at}': stopped; what is deleted is deleted, and the next prune goes on")]
    Stopped { at: String },
    #[error("the system gives no random numbers; look at its log")]
    Random,
}

impl Error {
    /// Whether what was asked for is wrong by itself, whatever the store holds.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Location(_) | Error::KeyText(_) | Error::NothingKept)
    }
}

/// A library's error as one line: stores answer with pages of XML.
pub(crate) fn one_line(error: &dyn std::error::Error) -> String {
    const CHARS_MAX: usize = 400;
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !told.contains(&more) {
            told += ": ";
            told += &more;
        }
        cause = error.source();
    }
    let line = told.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
