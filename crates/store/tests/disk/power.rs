//! What a power failure leaves of a log: all that a sync returned for, and of the rest a beginning.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use store::{Durability, LogStore, Options, lose_unsynced};

use crate::support::*;

const SEEDS: u64 = 24;

fn options(durability: Durability) -> Options {
    Options { durability, ..small() }
}

/// Bytes of the write-ahead logs.
fn written(data: &Path) -> u64 {
    let files = crate::damage::files(&data.join("log"), "log");
    files.iter().map(|file| fs::metadata(file).expect("there").len()).sum()
}

/// How many of the entries from 1 on are left when a copy of the data lost its power.
fn left(data: &Path, durability: Durability, seed: u64) -> (u64, store::Lost) {
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("data");
    copy(data, &copied);
    let lost = lose_unsynced(&copied, durability, seed).expect("done");
    assert_eq!(written(&copied) + lost.bytes, written(data));
    let log = LogStore::open(&copied.join("log"), &options(durability)).expect("opened");
    let kept = read_all(&log, GROUP, 1, u64::MAX, 1 << 20);
    for (index, found) in (1..).zip(&kept) {
        assert_eq!(*found, record(index, vec![index as u8; 1000]), "no gap, nothing else");
    }
    if lost.marks {
        log.check().expect("nobody can tell");
    } else if (kept.len() as u64) < 100 {
        assert!(durability == Durability::Replicated && log.check().is_err());
    }
    (kept.len() as u64, lost)
}

/// A hundred entries, each a write of its own.
fn hundred(data: &Path, durability: Durability) {
    let log = LogStore::open(&data.join("log"), &options(durability)).unwrap();
    for index in 1..=100 {
        append(&log, GROUP, vec![record(index, vec![index as u8; 1000])]);
    }
}

#[test]
fn what_was_synced_outlives_the_power() {
    let dir = tempfile::tempdir().unwrap();
    hundred(dir.path(), Durability::Synced);
    for seed in 0..SEEDS {
        let (left, lost) = left(dir.path(), Durability::Synced, seed);
        assert_eq!((left, lost.bytes, lost.unsynced_bytes), (100, 0, 0), "seed {seed}");
    }
}

#[test]
fn without_syncs_nothing_is_safe() {
    let dir = tempfile::tempdir().unwrap();
    hundred(dir.path(), Durability::Replicated);
    let runs = (0..SEEDS).map(|seed| left(dir.path(), Durability::Replicated, seed));
    let runs: Vec<_> = runs.collect();
    assert!(runs.iter().all(|(left, lost)| *left < 100 && lost.bytes > 0), "{runs:?}");
    assert!(runs.iter().any(|(left, _)| *left < 30) && runs.iter().any(|(left, _)| *left > 70));
    assert!(runs.iter().any(|(_, lost)| lost.marks) && runs.iter().any(|(_, lost)| !lost.marks));
}

#[test]
fn the_same_seed_loses_the_same() {
    let dir = tempfile::tempdir().unwrap();
    hundred(dir.path(), Durability::Replicated);
    for seed in 0..3 {
        let run = || left(dir.path(), Durability::Replicated, seed);
        assert_eq!(run(), run());
    }
}

#[test]
fn a_directory_without_a_log_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let lost = lose_unsynced(dir.path(), Durability::Synced, 1).expect("done");
    assert_eq!(lost, store::Lost::default());
}

/// A slow disk has written what it has not synced: nobody is told of it, and it may be lost.
#[test]
fn a_slow_sync_is_waited_for_and_what_it_would_have_kept_is_lost_without_power() {
    const DELAY: Duration = Duration::from_secs(4);
    let dir = tempfile::tempdir().unwrap();
    hundred(dir.path(), Durability::Synced);
    let delay_ms = Arc::new(AtomicU64::new(0));
    let options = Options { sync_delay_ms: Some(delay_ms.clone()), ..small() };
    let log = LogStore::open(&dir.path().join("log"), &options).unwrap();
    append(&log, GROUP, vec![record(101, vec![101; 1000])]);
    let before = written(dir.path());

    delay_ms.store(DELAY.as_millis() as u64, Ordering::Relaxed);
    let (begun, (done, synced)) = (Instant::now(), waiter());
    log.append(GROUP, (102..110).map(|at| record(at, vec![at as u8; 1000])).collect(), done);
    while written(dir.path()) == before {
        assert!(begun.elapsed() < DELAY, "nothing is written before it is synced");
        std::thread::sleep(Duration::from_millis(5));
    }
    // What there is meanwhile: to look at it as often takes longer than the sync.
    let frozen = tempfile::tempdir().unwrap();
    let meanwhile = frozen.path().join("data");
    copy(dir.path(), &meanwhile);
    assert!(synced.try_recv().is_err(), "told before it was synced");
    for seed in 0..SEEDS {
        let (left, lost) = left(&meanwhile, Durability::Synced, seed);
        assert_eq!(
            left, 101,
            "one write is kept whole or not at all, and this one cannot be whole"
        );
        assert!(lost.bytes > 0 && lost.unsynced_bytes == written(&meanwhile) - before, "{lost:?}");
    }
    synced.recv().unwrap().unwrap();
    assert!(begun.elapsed() >= DELAY);

    delay_ms.store(0, Ordering::Relaxed);
    let begun = Instant::now();
    append(&log, GROUP, vec![record(110, vec![110; 1000])]);
    assert!(begun.elapsed() < DELAY, "it may be changed while it runs");
    assert_eq!(left(dir.path(), Durability::Synced, 1).0, 110);
}
