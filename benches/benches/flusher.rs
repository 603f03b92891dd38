//! How much does the log's writer put on disk: syncs, entries and bytes per second, by size of
//! entries and number of groups?
//!
//! Estimate, made before measuring: a sync of a small batch takes 0.3 ms on this machine and 1 ms
//! at 256 KiB, so one group with one entry under way does 3,500 entries a second at 1 KiB and some
//! 900 at 256 KiB. Sixteen groups share the sync: at 1 KiB sixteen entries go for little more than
//! the price of one, so 40,000 a second; at 64 KiB and above the device's 200 MB/s is the bound.
//!
//! Every group keeps a number of entries under way and appends the next when one is on disk.
//!
//! `cargo bench -p mayfly-benches --bench flusher`; under `cargo test` it runs once, small.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use domain::GroupId;
use store::{LogRecord, LogStore, Options, SyncReport};
use tempfile::TempDir;

/// Entries between two purges of a group: the log does not grow for ever, as on a node.
const KEPT: u64 = 512;

#[derive(Default)]
struct Counted {
    syncs: AtomicU64,
    nanos: AtomicU64,
}

struct Bench {
    log: LogStore,
    counted: Arc<Counted>,
    entry: Bytes,
    next: Vec<u64>,
    under_way: u64,
    _dir: TempDir,
}

impl Bench {
    fn new(entry_bytes: usize, groups: usize, under_way: u64) -> Bench {
        let dir = tempfile::tempdir().expect("a directory");
        let counted = Arc::new(Counted::default());
        let counts = counted.clone();
        let on_sync = move |report: SyncReport| {
            counts.syncs.fetch_add(1, Ordering::Relaxed);
            counts.nanos.fetch_add(report.took.as_nanos() as u64, Ordering::Relaxed);
        };
        let options = Options { on_sync: Some(Arc::new(on_sync)), ..Options::default() };
        let log = LogStore::open(&dir.path().join("log"), &options).expect("opened");
        let entry = Bytes::from(vec![0xa5; entry_bytes]);
        Bench { log, counted, entry, next: vec![1; groups], under_way, _dir: dir }
    }

    /// Appends so many entries in all and waits for the last.
    fn append(&mut self, entries: u64) {
        let (sender, synced) = mpsc::channel();
        let groups = self.next.len() as u64;
        let first = (groups * self.under_way).min(entries);
        for turn in 0..first {
            self.one((turn % groups) as usize, &sender);
        }
        for told in 0..entries {
            let group = synced.recv().expect("told");
            if told + first < entries {
                self.one(group, &sender);
            }
        }
    }

    fn one(&mut self, at: usize, told: &mpsc::Sender<usize>) {
        let group = GroupId(at as u16);
        let index = self.next[at];
        self.next[at] += 1;
        let told = told.clone();
        let done = move |result: Result<(), store::Error>| {
            result.expect("synced");
            let _ = told.send(at); // The bench may have heard enough.
        };
        let record = LogRecord { index, data: self.entry.clone() };
        self.log.append(group, vec![record], Box::new(done));
        if index.is_multiple_of(KEPT) && index > KEPT {
            self.log.purge(group, index - KEPT, Bytes::new());
        }
    }

    /// Syncs so far, and the time spent in them.
    fn counts(&self) -> (u64, Duration) {
        let nanos = self.counted.nanos.load(Ordering::Relaxed);
        (self.counted.syncs.load(Ordering::Relaxed), Duration::from_nanos(nanos))
    }
}

/// What is in the log after some appends.
fn digest() -> u64 {
    let mut bench = Bench::new(100, 4, 2);
    bench.append(3_000);
    let mut digest = hash(0, b"");
    for (group, next) in bench.next.iter().enumerate() {
        let group = GroupId(group as u16);
        let mut from = 0;
        while let Some(last) = {
            let read = bench.log.read(group, from, *next, 4096).expect("readable");
            read.iter().for_each(|record| digest = hash(digest, &record.data));
            read.last().map(|last| last.index)
        } {
            from = last + 1;
        }
        assert_eq!(from, *next, "group {group} is whole");
    }
    digest
}

/// FNV-1a.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, step)
}

fn measure(criterion: &mut Criterion, entry_bytes: usize, groups: usize, under_way: u64) {
    let mut bench = Bench::new(entry_bytes, groups, under_way);
    let (mut entries, mut spent) = (0, Duration::ZERO);
    let mut group = criterion.benchmark_group(format!("flusher/{} KiB", entry_bytes >> 10));
    group.throughput(Throughput::Bytes(entry_bytes as u64));
    let name = BenchmarkId::from_parameter(format!("{groups} groups, {under_way} under way"));
    group.bench_function(name, |b| {
        b.iter_custom(|count| {
            let start = Instant::now();
            bench.append(count);
            let took = start.elapsed();
            entries += count;
            spent += took;
            took
        });
    });
    group.finish();
    let (syncs, syncing) = bench.counts();
    if entries == 0 {
        return; // Filtered out.
    }
    let seconds = spent.as_secs_f64();
    println!(
        "{} KiB, {groups} groups, {under_way} under way: {:.0} syncs/s of {:.2} ms, {:.0} entries/s, {:.0} MB/s",
        entry_bytes >> 10,
        syncs as f64 / seconds,
        1e3 * syncing.as_secs_f64() / syncs as f64,
        entries as f64 / seconds,
        (entries * entry_bytes as u64) as f64 / seconds / 1e6,
    );
}

fn main() {
    let measuring = std::env::args().any(|arg| arg == "--bench");
    println!("digest {:016x}", digest());

    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(10)
        .configure_from_args();
    let sizes =
        if measuring { vec![1 << 10, 16 << 10, 64 << 10, 256 << 10] } else { vec![1 << 10] };
    for entry_bytes in sizes {
        measure(&mut criterion, entry_bytes, 1, 1);
        measure(&mut criterion, entry_bytes, 1, 8);
        measure(&mut criterion, entry_bytes, 16, 2);
    }
    criterion.final_summary();
}
