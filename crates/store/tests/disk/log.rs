//! The log: what can be read when, what survives a restart, what shares a sync.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::GroupId;
use store::{Durability, LogStore, Options};

use crate::support::*;

#[test]
fn entries_can_be_read_before_they_are_on_disk_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    {
        let log = LogStore::open(&path, &small()).unwrap();
        let (done, synced) = waiter();
        log.append(GROUP, records(1, 11), done);
        assert_eq!(log.read(GROUP, 1, 11, usize::MAX).unwrap(), records(1, 11));
        assert_eq!(log.last(GROUP).unwrap(), records(10, 11).pop());
        synced.recv().unwrap().unwrap();
        assert_eq!(log.synced_index(GROUP), 10);
        assert_eq!(log.last(OTHER).unwrap(), None);
    }
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(read_all(&log, GROUP, 1, 11, usize::MAX), records(1, 11));
    assert_eq!(log.last(GROUP).unwrap(), records(10, 11).pop());
    assert_eq!(log.synced_index(GROUP), 10);
    assert_eq!(log.shortened(GROUP), None);
    append(&log, GROUP, records(11, 13));
    assert_eq!(read_all(&log, GROUP, 5, 100, 20), records(5, 13), "disk, then memory");
}

#[test]
fn a_read_stops_at_its_bytes_but_gives_one_entry_at_least() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let entries: Vec<_> = (0..10).map(|index| record(index, vec![0; 100])).collect();
    let log = LogStore::open(&path, &small()).unwrap();
    append(&log, GROUP, entries.clone());
    let check = |log: &LogStore| {
        assert_eq!(log.read(GROUP, 2, 9, 350).unwrap(), entries[2..5]);
        assert_eq!(log.read(GROUP, 2, 9, 1).unwrap(), entries[2..3]);
        assert_eq!(log.read(GROUP, 9, 20, 1).unwrap(), entries[9..]);
        assert_eq!(log.read(GROUP, 10, 20, 1).unwrap(), []);
        assert_eq!(log.read(GROUP, 5, 5, 1).unwrap(), []);
    };
    check(&log);
    drop(log);
    check(&LogStore::open(&path, &small()).unwrap());
}

/// Memory holds the newest entries up to a bound; older ones come from disk.
#[test]
fn a_long_log_reads_the_same_from_memory_and_from_disk() {
    let dir = tempfile::tempdir().unwrap();
    let log = LogStore::open(&dir.path().join("log"), &small()).unwrap();
    let entry = |index: u64| record(index, index.to_be_bytes().repeat(128));
    for round in 0..50 {
        append(&log, GROUP, (round * 20..round * 20 + 20).map(entry).collect());
    }
    for from in [0, 1, 500, 930, 940, 950, 999] {
        let expected: Vec<_> = (from..1000).map(entry).collect();
        assert_eq!(read_all(&log, GROUP, from, 1000, 10_000), expected, "from {from}");
        assert_eq!(read_all(&log, GROUP, from, 1000, usize::MAX), expected, "from {from}");
    }
    let kept = log.bytes();
    assert!((900_000..1_200_000).contains(&kept), "{kept} bytes kept of 1,024,000");
}

#[test]
fn votes_and_marks_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    {
        let log = LogStore::open(&path, &small()).unwrap();
        assert_eq!((log.vote(GROUP).unwrap(), log.committed(GROUP).unwrap()), (None, None));
        let (done, synced) = waiter();
        log.save_vote(GROUP, Bytes::from_static(b"term 3"), done);
        assert_eq!(log.vote(GROUP).unwrap(), Some(Bytes::from_static(b"term 3")));
        synced.recv().unwrap().unwrap();
        log.save_committed(GROUP, Bytes::from_static(b"at 7"));
        append(&log, GROUP, records(1, 9));
        log.purge(GROUP, 5, Bytes::from_static(b"up to 5"));
        append(&log, GROUP, records(9, 10));
    }
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(log.vote(GROUP).unwrap(), Some(Bytes::from_static(b"term 3")));
    assert_eq!(log.committed(GROUP).unwrap(), Some(Bytes::from_static(b"at 7")));
    assert_eq!(log.purged(GROUP).unwrap(), Some(Bytes::from_static(b"up to 5")));
    assert_eq!(read_all(&log, GROUP, 0, 100, usize::MAX), records(6, 10));
    assert_eq!((log.vote(OTHER).unwrap(), log.purged(OTHER).unwrap()), (None, None));
}

/// A committed index alone must not wait for the next append for ever: closing writes it.
#[test]
fn a_committed_index_is_written_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = LogStore::open(&path, &small()).unwrap();
    log.save_committed(GROUP, Bytes::from_static(b"at 7"));
    drop(log);
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(log.committed(GROUP).unwrap(), Some(Bytes::from_static(b"at 7")));
}

#[test]
fn truncated_entries_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut expected = records(1, 6);
    expected.extend((6..9).map(|index| record(index, "another leader's")));
    {
        let log = LogStore::open(&path, &small()).unwrap();
        append(&log, GROUP, records(1, 20));
        // Not waited for in between: order is kept all the same.
        let (done, truncated) = waiter();
        log.truncate(GROUP, 6, done);
        assert_eq!(log.last(GROUP).unwrap(), records(5, 6).pop());
        append(&log, GROUP, expected[5..].to_vec());
        truncated.recv().unwrap().unwrap();
        assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX), expected);
        assert_eq!(log.synced_index(GROUP), 8);
    }
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX), expected);
    assert_eq!(log.shortened(GROUP), None, "a truncation is no loss");
    truncate(&log, GROUP, 3);
    drop(log);
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX), records(1, 3));
    assert_eq!(log.shortened(GROUP), None);
}

/// A snapshot from the leader ends beyond this log: all of it is forgotten, and it goes on there.
#[test]
fn a_log_may_be_forgotten_beyond_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    {
        let log = LogStore::open(&path, &small()).unwrap();
        append(&log, GROUP, records(1, 4));
        log.purge(GROUP, 100, Bytes::from_static(b"mark"));
        assert_eq!(log.last(GROUP).unwrap(), None);
        append(&log, GROUP, records(101, 103));
        assert_eq!(read_all(&log, GROUP, 0, 1000, usize::MAX), records(101, 103));
    }
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(read_all(&log, GROUP, 0, 1000, usize::MAX), records(101, 103));
    log.purge(GROUP, 200, Bytes::from_static(b"mark"));
    drop(log);
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!((log.last(GROUP).unwrap(), log.shortened(GROUP)), (None, None));
    append(&log, GROUP, records(201, 202));
    assert_eq!(log.last(GROUP).unwrap(), records(201, 202).pop());
}

/// Forgetting what is forgotten already changes nothing, and does not stop the writer.
#[test]
fn purging_twice_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    {
        let log = LogStore::open(&path, &small()).unwrap();
        append(&log, GROUP, records(1, 20));
        log.purge(GROUP, 10, Bytes::from_static(b"10"));
        log.purge(GROUP, 10, Bytes::from_static(b"10"));
        log.purge(GROUP, 4, Bytes::from_static(b"4"));
        append(&log, GROUP, records(20, 21));
        assert_eq!(read_all(&log, GROUP, 0, 100, usize::MAX), records(11, 21));
        assert_eq!(log.purged(GROUP).unwrap(), Some(Bytes::from_static(b"10")));
    }
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(log.purged(GROUP).unwrap(), Some(Bytes::from_static(b"10")));
    assert_eq!(read_all(&log, GROUP, 0, 100, usize::MAX), records(11, 21));
}

/// What the groups ask for while a sync runs becomes one batch and one sync.
#[test]
fn groups_share_a_sync_and_each_keeps_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let (syncs, entries) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (syncs.clone(), entries.clone());
    let options = Options {
        on_sync: Some(Arc::new(move |report| {
            counts.0.fetch_add(1, Ordering::Relaxed);
            counts.1.fetch_add(report.entries, Ordering::Relaxed);
            // Slow enough that others queue behind it.
            std::thread::sleep(std::time::Duration::from_millis(2));
        })),
        ..small()
    };
    let log = LogStore::open(&dir.path().join("log"), &options).unwrap();
    let (sender, told) = mpsc::channel();
    for index in 1..=100 {
        for group in 0..8 {
            let sender = sender.clone();
            let done = move |result: Result<(), store::Error>| {
                result.unwrap();
                sender.send((group, index)).unwrap();
            };
            log.append(GroupId(group), records(index, index + 1), Box::new(done));
        }
    }
    let mut last = [0; 8];
    for (group, index) in told.iter().take(800) {
        assert_eq!(index, last[usize::from(group)] + 1, "group {group}");
        last[usize::from(group)] = index;
    }
    assert_eq!(entries.load(Ordering::Relaxed), 800);
    let syncs = syncs.load(Ordering::Relaxed);
    assert!(syncs < 100, "{syncs} syncs for 800 appends");
}

#[test]
fn replicated_durability_keeps_what_it_was_given_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let options = Options { durability: Durability::Replicated, ..small() };
    let log = LogStore::open(&path, &options).unwrap();
    append(&log, GROUP, records(1, 50));
    drop(log);
    let log = LogStore::open(&path, &options).unwrap();
    assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX), records(1, 50));
}

/// The last clone may be dropped inside a callback, on the writer's own thread.
#[test]
fn the_last_clone_may_end_in_a_callback() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (sender, ended) = mpsc::channel();
    let log = LogStore::open(&path, &small()).unwrap();
    let clone = log.clone();
    let (go, wait) = mpsc::channel::<()>();
    let done = move |result: Result<(), store::Error>| {
        result.unwrap();
        wait.recv().unwrap();
        drop(clone);
        sender.send(()).unwrap();
    };
    log.append(GROUP, records(1, 2), Box::new(done));
    drop(log);
    go.send(()).unwrap();
    ended.recv().unwrap();
}

/// A write-ahead log whose entries are in other files goes, if not at once (`log/trimmer.rs`); nothing
/// that is needed goes with it.
#[test]
fn write_ahead_logs_that_are_needed_no_more_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let entries: Vec<_> =
        (1..=400).map(|index| record(index, vec![index as u8; 32 << 10])).collect();
    let log = LogStore::open(&path, &small()).unwrap();
    for entry in &entries {
        append(&log, GROUP, vec![entry.clone()]);
    }
    // 50 memtables were filled, each with a write-ahead log of its own; RocksDB keeps what belongs to
    // those that are not in a file yet.
    let begun = Instant::now();
    while write_ahead_logs(&path) > 5 || write_ahead_logs(&path.join("archive")) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} are left", write_ahead_logs(&path));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(read_all(&log, GROUP, 1, 401, usize::MAX), entries);
    drop(log);
    let log = LogStore::open(&path, &small()).unwrap();
    assert_eq!(read_all(&log, GROUP, 1, 401, usize::MAX), entries);
}

/// Entries leave memory for a file once all groups have forgotten what they can, not while they do:
/// what was not forgotten by then would be written a second time.
#[test]
fn what_groups_forgot_reaches_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = LogStore::open(&path, &Options::default()).unwrap();
    let groups = || (1..=16).map(GroupId);
    let entry = |index| record(index, vec![index as u8; 1 << 20]);
    for group in groups() {
        append(&log, group, (1..=3).map(entry).collect());
    }
    for group in groups() {
        log.purge(group, 3, Bytes::from_static(b"mark"));
        append(&log, group, vec![entry(4)]);
        assert_eq!(table_bytes(&path), 0, "group {group} has forgotten, others have not");
    }
    log.let_go();
    let (begun, kept) = (Instant::now(), 16 << 20);
    while table_bytes(&path) < kept {
        assert!(begun.elapsed() < Duration::from_secs(30), "what is kept was not written");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(log);
    assert!(table_bytes(&path) < kept + (1 << 20), "{}", table_bytes(&path));
    let log = LogStore::open(&path, &Options::default()).unwrap();
    for group in groups() {
        assert_eq!(read_all(&log, group, 4, 5, usize::MAX), vec![entry(4)]);
    }
}

/// Bytes of all files that memtables were written to.
fn table_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let tables = files.filter(|file| file.path().extension().is_some_and(|of| of == "sst"));
    tables.map(|file| file.metadata().unwrap().len()).sum()
}

fn write_ahead_logs(folder: &Path) -> usize {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).count()
}
