//! What can go wrong on disk.

use std::io;
use std::path::PathBuf;

use domain::GroupId;
use thiserror::Error;

/// Each variant is something a caller or an operator does differently.
#[derive(Clone, Debug, Error)]
pub enum Error {
    #[error("{}: {reason}", .path.display())]
    Io { path: PathBuf, kind: io::ErrorKind, reason: String },
    #[error(
        "{} is in use by another process; stop that node or choose another data directory",
        .path.display()
    )]
    Locked { path: PathBuf },
    #[error("no space left on the device of {}; free some, and the node comes back by itself", .path.display())]
    DiskFull { path: PathBuf },
    #[error("{}: damaged: {reason}", .path.display())]
    Corrupt { path: PathBuf, reason: String },
    /// Voting on what is left could undo what was acknowledged.
    #[error(
        "{}: group {group}: the log ends at index {last}, but entries up to {marked} were synced",
        .path.display()
    )]
    Shortened { path: PathBuf, group: GroupId, last: u64, marked: u64 },
    #[error(
        "{} belongs to {found}, not to {wanted}; choose another data directory",
        .path.display()
    )]
    Foreign { path: PathBuf, found: String, wanted: String },
    #[error(
        "{} was written by a newer version (format {found}, this one knows {newest}); upgrade this node",
        .path.display()
    )]
    Newer { path: PathBuf, found: u32, newest: u32 },
    #[error(
        "{} is of a cluster of feature level {level}, and this version knows {known}: it could not read what the \
         others write; start the version that the cluster's nodes have",
        .path.display()
    )]
    LevelUnknown { path: PathBuf, level: u32, known: u32 },
    #[error("group {group}: a snapshot that comes in is not in order")]
    NotInOrder { group: GroupId },
    #[error("{reason}")]
    Stopped { reason: String },
}

/// What RocksDB reports as any failure of the system, and means that bytes of ours are gone.
const LOST: [&str; 2] = ["Input/output error", "No such file or directory"];

impl Error {
    /// Whether data that were written cannot be had any more.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Corrupt { .. } | Error::Shortened { .. } => true,
            Error::Io { .. }
            | Error::Locked { .. }
            | Error::DiskFull { .. }
            | Error::Foreign { .. }
            | Error::Newer { .. }
            | Error::LevelUnknown { .. }
            | Error::NotInOrder { .. }
            | Error::Stopped { .. } => false,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, error: &io::Error) -> Error {
        let path = path.into();
        match error.kind() {
            io::ErrorKind::StorageFull => Error::DiskFull { path },
            kind => Error::Io { path, kind, reason: error.to_string() },
        }
    }

    pub(crate) fn rocks(path: impl Into<PathBuf>, error: &rocksdb::Error) -> Error {
        let (path, reason) = (path.into(), error.to_string().replace('\n', " "));
        // RocksDB tells these apart in its text only.
        if reason.contains("No space left on device") {
            return Error::DiskFull { path };
        }
        if reason.contains("lock hold by") || reason.contains("While lock file") {
            return Error::Locked { path };
        }
        match error.kind() {
            rocksdb::ErrorKind::Corruption => Error::Corrupt { path, reason },
            _ if LOST.iter().any(|text| reason.contains(text)) => Error::Corrupt { path, reason },
            _ => Error::Io { path, kind: io::ErrorKind::Other, reason },
        }
    }
}
