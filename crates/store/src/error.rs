//! What can go wrong on disk.

use std::io;
use std::path::PathBuf;

use domain::ShardId;
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
    #[error("shard {shard}: a snapshot that comes in is not in order")]
    NotInOrder { shard: ShardId },
    #[error("the log's writer has stopped: {reason}")]
    Stopped { reason: String },
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>, error: &io::Error) -> Error {
        let path = path.into();
        match error.kind() {
            io::ErrorKind::StorageFull => Error::DiskFull { path },
            kind => Error::Io { path, kind, reason: error.to_string() },
        }
    }

    pub(crate) fn rocks(path: impl Into<PathBuf>, error: &rocksdb::Error) -> Error {
        let (path, reason) = (path.into(), error.to_string());
        // RocksDB tells these apart in its text only.
        if reason.contains("No space left on device") {
            return Error::DiskFull { path };
        }
        if reason.contains("lock hold by") || reason.contains("While lock file") {
            return Error::Locked { path };
        }
        match error.kind() {
            rocksdb::ErrorKind::Corruption => Error::Corrupt { path, reason },
            _ => Error::Io { path, kind: io::ErrorKind::Other, reason },
        }
    }
}

/// Stops the process, because a replica that cannot read its own rows must not draw conclusions
/// from what it did not see. Its peers go on, and it is rebuilt from them.
pub(crate) fn fatal(what: &str) -> ! {
    tracing::error!("this node's data cannot be read, it stops now: {what}");
    eprintln!("mayfly: this node's data cannot be read, it stops now: {what}");
    std::process::abort()
}
