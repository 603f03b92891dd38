//! What a power failure takes of a log, for experiments. `kill -9` takes nothing that was written: the
//! operating system still has it. A machine without power loses what was not synced, all of it or its
//! end. The mark file is a hint that nothing relies on: it may come back torn, and count for nothing.
//!
//! Invariant: what a sync returned for stays. The rows have no log of their own, and RocksDB syncs
//! their files before it names them: a kill takes all of theirs that a power failure would.

mod wal;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::marks::Marks;
use crate::{Durability, Error};

/// What was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Of the log's files, in bytes.
    pub bytes: u64,
    /// Bytes that were written and not synced: as many could have been lost.
    pub unsynced_bytes: u64,
    /// The mark file too.
    pub marks: bool,
}

/// Loses a part of what the log of a data directory had written and not synced, drawn from a seed: at
/// least a byte, where there is one. Only while no process has the directory open, and meant for one
/// that was killed. `durability` is what its node ran with: without syncs, nothing is safe.
pub fn lose_unsynced(data: &Path, durability: Durability, seed: u64) -> Result<Lost, Error> {
    let log = data.join("log");
    let marks = log.with_extension("marks");
    let synced = match durability {
        Durability::Replicated => 0,
        // Where no mark is left nothing was written since the database was last opened, which syncs.
        Durability::Synced => Marks::read(&marks)?.map_or(u64::MAX, |marked| marked.writes),
    };
    let mut draw = Draw(seed);
    let mut lost = Lost::default();
    for path in files(&log)? {
        lose_end(&path, synced, &mut draw, &mut lost)?;
    }
    if draw.below(2) == 0 && marks.exists() {
        cut(&marks, 0)?;
        lost.marks = true;
    }
    Ok(lost)
}

/// Cuts one write-ahead log; what follows the first cut goes whole.
fn lose_end(path: &Path, synced: u64, draw: &mut Draw, lost: &mut Lost) -> Result<(), Error> {
    let bytes = fs::read(path).map_err(|error| Error::io(path, &error))?;
    let safe = if lost.bytes > 0 { 0 } else { wal::synced_bytes(&bytes, synced) };
    let unsynced = (bytes.len() - safe) as u64;
    if unsynced == 0 {
        return Ok(());
    }
    let kept = if lost.bytes > 0 { 0 } else { safe as u64 + draw.below(unsynced) };
    cut(path, kept)?;
    lost.unsynced_bytes += unsynced;
    lost.bytes += bytes.len() as u64 - kept;
    Ok(())
}

fn cut(path: &Path, bytes: u64) -> Result<(), Error> {
    let file = File::options().write(true).open(path);
    file.and_then(|file| file.set_len(bytes)).map_err(|error| Error::io(path, &error))
}

/// Write-ahead logs, the oldest first. None where there is no database.
fn files(log: &Path) -> Result<Vec<PathBuf>, Error> {
    if !log.exists() {
        return Ok(Vec::new());
    }
    let failed = |error: std::io::Error| Error::io(log, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(log).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            files.push(path);
        }
    }
    files.sort(); // Their names are numbers of equal length.
    Ok(files)
}

/// SplitMix64: what is lost need not be hard to guess, only the same for the same seed.
struct Draw(u64);

impl Draw {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
