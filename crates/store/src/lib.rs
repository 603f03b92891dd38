//! RocksDB. Two databases on a node: [`LogStore`] holds every group's log and vote, synced before
//! it says so; [`RowStore`] holds every group's rows, without a write-ahead log, because rows and
//! applied index are written together and what a crash takes is replayed from the log.
//!
//! Invariant: nothing here knows Raft or waits for a runtime; a range of bytes is one group's, one
//! table's or one queue's, because every key is made by `wire`.

mod damage;
mod disk;
mod error;
mod identity;
mod options;
mod records;

mod log;
mod rows;

pub use disk::{DiskSpace, disk_space};
pub use error::Error;
pub use identity::{DataDir, Founders, Identity, Provenance, Written};
pub use log::{Done, Incarnation, LogDisk, LogRecord, LogStore, Lost, Shortened, lose_unsynced};
pub use options::{Durability, Options, SyncReport};
pub use rows::{
    Change, Export, GroupRows, Import, MachineRows, RowDisk, RowStore, RowsIn, RowsOut, rows_in,
};
