//! Knobs of the two databases.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// Memtables of each database that may be alive at a time: one is written, the others are on their
/// way to a file.
pub(crate) const MEMTABLES: usize = 3;
/// What the databases' memory is split into: cache, memtables of the log, cached rows and memtables
/// of the rows.
const SHARES: [usize; 3] = [1, 8, 2];
/// So that [`Options::default`] has round figures.
const MEMORY_BYTES: usize = 1056 * MIB;

/// What an acknowledgement waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every append is synced to disk before it counts. The default, and what is promised.
    #[default]
    Synced,
    /// An append counts once the operating system has it. A node that comes back with less than it
    /// wrote is not trusted and starts over empty, so a power failure of a majority of a group at one
    /// moment may lose all of it.
    Replicated,
}

/// What one batch of the log's writer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncReport {
    pub entries: usize,
    pub bytes: usize,
    /// From the start of the write to the end of its sync.
    pub took: Duration,
}

/// Sizes are bytes. Memtables hold more than a second of traffic, the log's more than the rows':
/// what lives and dies between two flushes never reaches a file, so steady traffic is written to
/// the device once, to the log.
#[derive(Clone)]
pub struct Options {
    pub durability: Durability,
    /// Blocks of both databases held in memory, indexes and filters included. Default 96 MiB.
    pub cache_bytes: usize,
    /// One memtable of the log, of which three may be alive. It is let go of early, once most of it
    /// is purged; so it should hold twice what the log grows by between two flushes of the rows,
    /// or most of the log is written a second time. Default 256 MiB.
    pub log_memtable_bytes: usize,
    /// One memtable of the rows. Default 48 MiB, of which three may be alive.
    pub rows_memtable_bytes: usize,
    /// Rows of all groups that are not in the database yet, a second old at most; one group's may
    /// be a quarter of them. Default 48 MiB; with 0 every entry's rows are written at once.
    pub row_cache_bytes_max: usize,
    /// Recent entries of one group kept in memory for followers and for applying. Default 16 MiB.
    pub tail_bytes_max: usize,
    /// One batch of the log's writer: bounds how long a small append waits behind large ones.
    /// Default 4 MiB.
    pub sync_bytes_max: usize,
    /// Values of at least this size go to blob files when rows are flushed, so that compaction
    /// does not rewrite bodies. Default 512.
    pub blob_bytes_min: u64,
    /// For experiments: milliseconds that every sync of the log takes longer, read before each.
    pub sync_delay_ms: Option<Arc<AtomicU64>>,
    /// What tells how long rows have been cached. Default `Instant::now`; a simulation has a time
    /// of its own.
    pub clock: fn() -> Instant,
    /// Told after every sync, on the writer's thread.
    pub on_sync: Option<Arc<dyn Fn(SyncReport) + Send + Sync>>,
}

impl Options {
    /// Both databases together hold at most about this much in memory, blocks and memtables. Less
    /// memory means that more of what lives briefly is written to files nevertheless.
    pub fn with_memory(bytes: usize) -> Options {
        let share = bytes / SHARES.iter().sum::<usize>();
        let [cache, log, rows] = SHARES.map(|shares| shares * share);
        Options {
            durability: Durability::Synced,
            cache_bytes: cache,
            log_memtable_bytes: log / MEMTABLES,
            rows_memtable_bytes: rows / (MEMTABLES + 1),
            row_cache_bytes_max: rows / (MEMTABLES + 1),
            tail_bytes_max: 16 * MIB,
            sync_bytes_max: 4 * MIB,
            blob_bytes_min: 512,
            sync_delay_ms: None,
            clock: Instant::now,
            on_sync: None,
        }
    }

    /// Growth of the log that should call for a flush of the rows: with it, a memtable of the log is
    /// mostly purged before it is full.
    pub fn flush_log_bytes(&self) -> u64 {
        self.log_memtable_bytes as u64 / 2
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::with_memory(MEMORY_BYTES)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("durability", &self.durability)
            .field("cache_bytes", &self.cache_bytes)
            .field("log_memtable_bytes", &self.log_memtable_bytes)
            .field("rows_memtable_bytes", &self.rows_memtable_bytes)
            .field("row_cache_bytes_max", &self.row_cache_bytes_max)
            .field("tail_bytes_max", &self.tail_bytes_max)
            .field("sync_bytes_max", &self.sync_bytes_max)
            .field("blob_bytes_min", &self.blob_bytes_min)
            .finish_non_exhaustive()
    }
}

const NOT_LAID_OUT: &str = "allow_fallocate=false";

/// What both databases have in common.
pub(crate) fn base() -> rocksdb::Options {
    // Files take what is in them. Laid out beforehand, an empty log would take as much as a full memtable,
    // and a disk that is nearly full would be so for good. RocksDB's own wrapper has no call for it.
    let mut options = rocksdb::Options::default();
    options = options.get_options_from_string(NOT_LAID_OUT).expect("RocksDB knows its option");
    options.create_if_missing(true);
    options.set_max_background_jobs(2);
    options.set_max_open_files(512);
    options.set_keep_log_file_num(2);
    options.set_use_fsync(false);
    // Files go to the device as they are written: all at once at their end, they hold up the log's
    // syncs for as long as the device takes.
    options.set_bytes_per_sync(MIB as u64);
    // Bodies rarely compress in load tests, and processor time is what is short.
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options
}

pub(crate) fn blocks(cache_bytes: usize) -> rocksdb::BlockBasedOptions {
    let mut blocks = rocksdb::BlockBasedOptions::default();
    blocks.set_block_cache(&rocksdb::Cache::new_hyper_clock_cache(cache_bytes, 0));
    blocks.set_bloom_filter(10.0, false);
    blocks.set_block_size(16 << 10);
    // Filters and indexes count against the cache: memory does not grow with the backlog. They are
    // cut into parts, because a whole one can be larger than what a small cache keeps, and then
    // every look-up reads it again.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_index_type(rocksdb::BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_partition_filters(true);
    blocks.set_pin_top_level_index_and_filter(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks.set_format_version(5);
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_split_and_never_exceeded() {
        let options = Options::default();
        let sizes = (options.cache_bytes, options.log_memtable_bytes, options.rows_memtable_bytes);
        assert_eq!(sizes, (96 * MIB, 256 * MIB, 48 * MIB));
        for bytes in [64 * MIB, 256 * MIB, MEMORY_BYTES] {
            let options = Options::with_memory(bytes);
            let memtables = options.log_memtable_bytes + options.rows_memtable_bytes;
            let total = options.cache_bytes + options.row_cache_bytes_max + MEMTABLES * memtables;
            assert!(total <= bytes && total > bytes - MIB, "{total} of {bytes}");
        }
    }
}
