//! A node's disk: a log that is synced in batches and rows that are flushed now and then, as `store`
//! keeps them. What is written can be read at once; a crash leaves what was synced, and any first part
//! of the rest.

pub mod log;
pub mod rows;

use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{DiskSpace, Error};

/// Locks, whatever became of who held it before.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// It never fills up.
fn disk_space() -> Result<DiskSpace, Error> {
    Ok(DiskSpace { free_bytes: 1 << 40, total_bytes: 1 << 40 })
}
