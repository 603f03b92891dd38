//! The rows: they agree with a map, a scan sees one moment, and what is said to be on disk is.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{DirectoryRow, DirectoryState, GroupId, Key, MemoryRows, Row, Rows, Write};
use proptest::collection::vec;
use proptest::prelude::*;
use store::{Error, LogStore, Options, RowStore};

use crate::support::*;

fn write(store: &RowStore, group: GroupId, writes: Vec<(Key, Option<Row>)>, index: u64) {
    store.write(group, writes, index, index.to_string().into()).expect("written");
}

fn directory(name: &str) -> (Key, Option<Row>) {
    let row = DirectoryRow {
        kind: domain::EntityKind::Queue,
        entity: ENTITY,
        group: GROUP,
        name: name.to_owned(),
        request: 9,
        state: DirectoryState::Ready,
    };
    (Key::Directory(name.to_owned()), Some(Row::Directory(row)))
}

#[derive(Clone, Debug)]
enum Change {
    /// A message and its body, stored once.
    Store(u64),
    Rewrite(u64),
    Remove(u64),
    /// Everything from one number to before another; and one more message comes.
    Erase(u64, u64),
    Name(String),
    Unname(String),
    /// A scan beside the machine, which writes what is cached there.
    Look(u64, u64),
    WriteOutOld,
    Flush,
    Reopen,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => (0..40u64).prop_map(Change::Store),
        3 => (0..40u64).prop_map(Change::Rewrite),
        6 => (0..40u64).prop_map(Change::Remove),
        2 => (0..40u64, 0..20u64).prop_map(|(from, count)| Change::Erase(from, from + count)),
        2 => "[a-c]{1,3}".prop_map(Change::Name),
        1 => "[a-c]{1,3}".prop_map(Change::Unname),
        1 => (0..40u64, 0..20u64).prop_map(|(from, count)| Change::Look(from, from + count)),
        1 => Just(Change::WriteOutOld),
        1 => Just(Change::Flush),
        1 => Just(Change::Reopen),
    ]
}

/// What the machine says of writes: whether a row is there.
fn known(writes: Vec<(Key, Option<Row>)>, before: &MemoryRows) -> Vec<(Key, Write)> {
    let known = |(key, row): (Key, Option<Row>)| {
        let write = match (row, before.get(&key)) {
            (Some(row), None) => Write::Insert(row),
            (Some(row), Some(_)) => Write::Replace(row),
            (None, Some(_)) => Write::Delete,
            (None, None) => return None,
        };
        Some((key, write))
    };
    writes.into_iter().filter_map(known).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn rows_agree_with_a_map(
        changes in vec(change(), 1..120),
        ranges in vec((0..45u64, 0..45u64), 4),
        row_cache_bytes_max in prop::sample::select(vec![0, 20_000, 1 << 20]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let options = Options { row_cache_bytes_max, ..small() };
        let mut store = RowStore::open(&path, &options).unwrap();
        let mut model = MemoryRows::default();
        // Numbers are never reused, nor are the keys of bodies.
        let mut issued = 0;
        let mut stored = std::collections::BTreeMap::new();
        for (index, change) in (1..).zip(changes) {
            let mut erased = vec![];
            let writes = match change {
                Change::Store(slot) if !stored.contains_key(&slot) => {
                    issued += 1;
                    stored.insert(slot, issued);
                    new_message(issued)
                }
                Change::Rewrite(slot) => match stored.get(&slot) {
                    Some(number) => vec![(message_key(*number), Some(message(*number + 1)))],
                    None => vec![],
                },
                Change::Remove(slot) => match stored.remove(&slot) {
                    Some(number) => vec![(message_key(number), None), (body_key(number), None)],
                    None => vec![],
                },
                Change::Erase(from, to) => {
                    stored.retain(|_, number| *number < from || *number >= to);
                    erased.push((message_key(from), message_key(to)));
                    erased.push((body_key(from), body_key(to)));
                    issued += 1;
                    new_message(issued)
                }
                Change::Name(name) => vec![directory(&name)],
                Change::Unname(name) => vec![(Key::Directory(name), None)],
                Change::Look(from, to) => {
                    let rows = store.group(GROUP);
                    prop_assert_eq!(first_five(&rows, from, to), first_five(&model, from, to));
                    vec![]
                }
                Change::WriteOutOld => {
                    store.write_out_old().unwrap();
                    vec![]
                }
                Change::Flush => {
                    store.flush().unwrap();
                    vec![]
                }
                Change::Reopen => {
                    drop(store);
                    store = RowStore::open(&path, &options).unwrap();
                    vec![]
                }
                Change::Store(_) => vec![],
            };
            model.erase(&erased);
            let writes = known(writes, &model);
            model.write(writes.clone());
            let writes = writes.into_iter().collect();
            let mark = index.to_string().into();
            if index % 3 != 0 && store.cache_has_room(GROUP) {
                store.apply_cached(GROUP, erased, writes, index, mark);
            } else {
                store.apply(GROUP, erased, writes, index, mark).unwrap();
            }
            let machine = store.machine(GROUP);
            for (from, to) in [(0, 100), (index % 40, index % 40 + 9)] {
                prop_assert_eq!(first_five(&machine, from, to), first_five(&model, from, to));
            }
            prop_assert_eq!(machine.get_many(&keys(issued)), model.get_many(&keys(issued)));
            prop_assert_eq!(store.applied(GROUP).unwrap(), Some((index, index.to_string().into())));
        }
        let rows = store.group(GROUP);
        prop_assert_eq!(&all_rows(&rows), &model);
        for number in 0..=issued {
            prop_assert_eq!(rows.get(&message_key(number)), model.get(&message_key(number)));
            prop_assert_eq!(rows.get(&body_key(number)), model.get(&body_key(number)));
        }
        for (from, to) in ranges {
            prop_assert_eq!(first_five(&rows, from, to), first_five(&model, from, to));
        }
    }
}

fn new_message(number: u64) -> Vec<(Key, Option<Row>)> {
    vec![
        (message_key(number), Some(message(number))),
        (body_key(number), Some(Row::Body(body(number)))),
    ]
}

/// Of all messages there were, in no order of theirs.
fn keys(issued: u64) -> Vec<Key> {
    (0..=issued).rev().flat_map(|number| [message_key(number), body_key(number)]).collect()
}

/// A scan that its visitor ends.
fn first_five(rows: &impl Rows, from: u64, to: u64) -> Vec<(Key, Row)> {
    let mut found = Vec::new();
    rows.scan(&message_key(from), &message_key(to), &mut |key, row| {
        found.push((key, row));
        match found.len() {
            5 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    found
}

#[test]
fn groups_do_not_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = RowStore::open(&dir.path().join("rows"), &small()).unwrap();
    write(&store, GROUP, vec![(message_key(1), Some(message(1)))], 1);
    assert_eq!(store.group(OTHER).get(&message_key(1)), None);
    assert_eq!(all_rows(&store.group(OTHER)), MemoryRows::default());
    assert_eq!(store.applied(OTHER).unwrap(), None);
    assert_eq!(store.applied(GROUP).unwrap(), Some((1, Bytes::from_static(b"1"))));
}

#[test]
fn a_scan_sees_the_rows_of_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let store = RowStore::open(&dir.path().join("rows"), &small()).unwrap();
    let rows = (1..=5).map(|number| (message_key(number), Some(message(number)))).collect();
    write(&store, GROUP, rows, 1);
    let mut seen = Vec::new();
    store.group(GROUP).scan(&message_key(0), &message_key(100), &mut |key, row| {
        let writes = vec![
            (message_key(4), None),
            (message_key(5), Some(message(50))),
            (message_key(6), Some(message(6))),
        ];
        write(&store, GROUP, writes, 2);
        store.flush().unwrap();
        seen.push((key, row));
        ControlFlow::Continue(())
    });
    let expected: Vec<_> = (1..=5).map(|number| (message_key(number), message(number))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn bodies_come_in_the_order_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = RowStore::open(&dir.path().join("rows"), &small()).unwrap();
    let bodies = (1..=3).map(|number| (body_key(number), Some(Row::Body(body(number)))));
    write(&store, GROUP, bodies.collect(), 1);
    store.flush().unwrap(); // To blob files.
    write(&store, GROUP, vec![(body_key(4), Some(Row::Body(body(4))))], 2);
    let ask = [4, 2, 9, 1].map(|number| (ENTITY, domain::SequenceNumber(number)));
    let expected = [Some(body(4)), Some(body(2)), None, Some(body(1))];
    assert_eq!(store.group(GROUP).bodies(&ask), expected);
}

/// What is called flushed is what a crash leaves: the copy is taken while the store is open.
#[test]
fn flushed_is_on_disk_and_the_rest_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    let store = RowStore::open(&path, &small()).unwrap();
    assert_eq!(store.flushed_index(GROUP), 0);
    for index in 1..=5 {
        write(&store, GROUP, vec![(message_key(index), Some(message(index)))], index);
    }
    write(&store, OTHER, vec![(message_key(1), Some(message(1)))], 77);
    assert_eq!((store.flushed_index(GROUP), store.flushed_index(OTHER)), (0, 0));
    store.flush().unwrap();
    write(&store, GROUP, vec![(message_key(5), None), (message_key(6), Some(message(6)))], 6);
    assert_eq!((store.flushed_index(GROUP), store.flushed_index(OTHER)), (5, 77));

    let crashed = dir.path().join("crashed");
    copy(&path, &crashed);
    let crashed = RowStore::open(&crashed, &small()).unwrap();
    assert_eq!(crashed.applied(GROUP).unwrap(), Some((5, Bytes::from_static(b"5"))));
    assert_eq!(crashed.flushed_index(GROUP), 5, "also before anything is written");
    let expected: MemoryRows =
        MemoryRows((1..=5).map(|number| (message_key(number), message(number))).collect());
    assert_eq!(all_rows(&crashed.group(GROUP)), expected);
}

/// Flushes that RocksDB begins by itself, in the middle of traffic, leave a prefix as well.
#[test]
fn any_moment_leaves_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    let store = RowStore::open(&path, &Options { row_cache_bytes_max: 0, ..small() }).unwrap();
    let mut flushed = 0;
    for index in 1..=3000u64 {
        let mut writes = vec![
            (message_key(index), Some(message(index))),
            (body_key(index), Some(Row::Body(body(index)))),
        ];
        if let Some(old) = index.checked_sub(10).filter(|old| *old > 0) {
            writes.extend([(message_key(old), None), (body_key(old), None)]);
        }
        write(&store, GROUP, writes, index);
        let now = store.flushed_index(GROUP);
        assert!(now >= flushed && now <= index, "{flushed}, then {now} of {index}");
        flushed = now;
    }
    assert!(flushed > 0, "memtables of 256 KiB were filled");
    assert!(store.take_rows_written() > 4 * 2900, "each entry was written at once");
    drop(store);
    let store = RowStore::open(&path, &small()).unwrap();
    let rows = store.group(GROUP);
    let kept: Vec<_> = all_rows(&rows).0.into_keys().collect();
    let expected: Vec<_> =
        (2991..=3000).map(body_key).chain((2991..=3000).map(message_key)).collect();
    assert_eq!(kept, expected, "closing in good order flushes");
}

/// What comes and goes between two writes is never written, and nothing that stays is forgotten.
#[test]
fn what_lives_briefly_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    let store = RowStore::open(&path, &small()).unwrap();
    let insert = |key, row| (key, Write::Insert(row));
    for index in 1..=300u64 {
        let mut writes = vec![
            insert(message_key(index), message(index)),
            insert(body_key(index), Row::Body(body(index))),
        ];
        if index > 10 {
            let old = index - 10;
            writes.extend([(message_key(old), Write::Delete), (body_key(old), Write::Delete)]);
        }
        let writes = writes.into_iter().collect();
        store.apply(GROUP, vec![], writes, index, index.to_string().into()).unwrap();
        assert_eq!(store.applied(GROUP).unwrap().expect("applied").0, index);
    }
    assert_eq!((store.take_rows_written(), store.flushed_index(GROUP)), (0, 0));
    store.flush().unwrap();
    assert_eq!((store.take_rows_written(), store.flushed_index(GROUP)), (20, 300));
    // Stored by now: deleting them writes.
    let gone =
        (291..=300).flat_map(|n| [(message_key(n), Write::Delete), (body_key(n), Write::Delete)]);
    store.apply(GROUP, vec![], gone.collect(), 301, "301".into()).unwrap();
    assert_eq!(all_rows(&store.group(GROUP)), MemoryRows::default());
    store.flush().unwrap();
    assert_eq!(store.take_rows_written(), 20);
    assert_eq!(all_rows(&store.group(GROUP)), MemoryRows::default());
}

/// What the machine has met is neither written again nor counted as cached.
#[test]
fn what_is_met_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = RowStore::open(&dir.path().join("rows"), &small()).unwrap();
    write(&store, GROUP, (1..=50).map(|n| (message_key(n), Some(message(n)))).collect(), 1);
    store.flush().unwrap();
    assert_eq!(store.take_rows_written(), 50);
    let machine = store.machine(GROUP);
    assert_eq!(all_rows(&machine).0.len(), 50, "met");
    write(&store, GROUP, vec![(message_key(7), None), (message_key(8), Some(message(80)))], 2);
    assert_eq!(machine.get(&message_key(7)), None);
    assert_eq!(machine.get(&message_key(8)), Some(message(80)));
    assert_eq!(machine.get(&message_key(9)), Some(message(9)));
    store.flush().unwrap();
    assert_eq!(store.take_rows_written(), 2);
    assert_eq!(all_rows(&machine).0.len(), 49);
}

/// One group's cached rows take no more than their share of what all may hold.
#[test]
fn cached_rows_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { row_cache_bytes_max: 400_000, ..small() };
    let store = RowStore::open(&dir.path().join("rows"), &options).unwrap();
    let mut written = 0;
    for index in 1..=200u64 {
        let row = (body_key(index), Write::Insert(Row::Body(vec![7; 9840].into())));
        store.apply(GROUP, vec![], [row].into_iter().collect(), index, "".into()).unwrap();
        written += store.take_rows_written();
        assert!(index - written <= 10, "{written} of {index} are written");
    }
    assert!(written >= 190, "{written}");
}

/// What is applied in memory alone is written with what comes once it is time.
#[test]
fn rows_stay_in_the_cache_until_it_is_time_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { row_cache_bytes_max: 400_000, ..small() };
    let store = RowStore::open(&dir.path().join("rows"), &options).unwrap();
    let body = |index: u64| {
        let row = (body_key(index), Write::Insert(Row::Body(vec![7; 9840].into())));
        [row].into_iter().collect()
    };
    let mut cached = 0;
    while store.cache_has_room(GROUP) {
        cached += 1;
        store.apply_cached(GROUP, vec![], body(cached), cached, "".into());
        assert_eq!(store.take_rows_written(), 0);
        assert!(cached <= 20, "more than a group's share of what all may hold");
    }
    store.apply(GROUP, vec![], body(cached + 1), cached + 1, "".into()).unwrap();
    assert_eq!(store.take_rows_written(), cached + 1);
    assert!(store.cache_has_room(GROUP), "nothing is cached any more");
    assert_eq!(store.applied(GROUP).unwrap(), Some((cached + 1, "".into())));
}

/// A body takes memory until all that came with the same entry are gone, and no longer.
#[test]
fn bodies_that_are_gone_take_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { row_cache_bytes_max: 400_000, ..small() };
    let store = RowStore::open(&dir.path().join("rows"), &options).unwrap();
    let apply = |index: u64, gone: &[u64]| {
        let came = [2 * index, 2 * index + 1];
        let body = |n: &u64| (body_key(*n), Write::Insert(Row::Body(vec![7; 4920].into())));
        let gone = gone.iter().map(|n| (body_key(*n), Write::Delete));
        let writes = came.iter().map(body).chain(gone).collect();
        store.apply(GROUP, vec![], writes, index, "".into()).unwrap();
        store.take_rows_written()
    };
    let both = |index: u64| [2 * index, 2 * index + 1];
    assert_eq!((1..=5).map(|index| apply(index, &[])).sum::<u64>(), 0);
    assert_eq!((6..=300).map(|index| apply(index, &both(index - 5))).sum::<u64>(), 0);
    // One of two stays; and its entry with it.
    let written: u64 = (301..=310).map(|index| apply(index, &both(index - 5)[..1])).sum();
    assert!(written > 0, "entries of which one body is left are let be");
}

#[test]
fn a_database_in_use_is_refused_with_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let (rows, log) = (dir.path().join("rows"), dir.path().join("log"));
    let _rows = RowStore::open(&rows, &small()).unwrap();
    let _log = LogStore::open(&log, &small()).unwrap();
    for error in [
        RowStore::open(&rows, &small()).map(|_| ()).unwrap_err(),
        LogStore::open(&log, &small()).map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Locked { .. }), "{error:?}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

/// Bodies of which nine in ten go, in files of which none goes as a whole.
#[test]
fn what_is_left_here_and_there_does_not_keep_every_file() {
    // Much more than the runs that wait for each other: what is deleted in them is not known as
    // garbage.
    const WRITTEN: u64 = 128 << 10;
    let dir = tempfile::tempdir().unwrap();
    let options = Options { row_cache_bytes_max: 0, ..small() };
    let store = RowStore::open(&dir.path().join("rows"), &options).unwrap();
    for (index, from) in (1..).zip((0..WRITTEN).step_by(64)) {
        let bodies =
            (from..from + 64).map(|number| (body_key(number), Some(Row::Body(body(number)))));
        let before = from.checked_sub(1024).into_iter().flat_map(|first| first..first + 64);
        let gone = before.filter(|number| number % 10 != 0).map(|number| (body_key(number), None));
        write(&store, GROUP, bodies.chain(gone).collect(), index);
    }
    store.flush().unwrap();
    let left = (0..WRITTEN - 1024).filter(|number| number % 10 == 0).count() as u64 + 1024;
    let live_bytes = left * body(0).len() as u64;
    let file_bytes = store.file_bytes();
    assert!(live_bytes < file_bytes, "{live_bytes} of {file_bytes} bytes live");
    assert!(file_bytes < 3 * live_bytes, "{live_bytes} of {file_bytes} bytes live");
    let kept = store.group(GROUP).bodies(&[(ENTITY, domain::SequenceNumber(10))]);
    assert_eq!(kept, [Some(body(10))]);
}

/// What was deleted gives its room back without more being written, less what the runs that wait for
/// each other delete.
#[test]
fn a_queue_that_was_emptied_gives_its_room_back() {
    const WRITTEN: u64 = 256 << 10;
    let dir = tempfile::tempdir().unwrap();
    let options = Options { row_cache_bytes_max: 0, ..small() };
    let store = RowStore::open(&dir.path().join("rows"), &options).unwrap();
    let mut index = 0;
    let mut write_all = |row: fn(u64) -> [(Key, Option<Row>); 2]| {
        for from in (0..WRITTEN).step_by(64) {
            index += 1;
            write(&store, GROUP, (from..from + 64).flat_map(row).collect(), index);
        }
        store.flush().unwrap();
    };
    write_all(|n| [(message_key(n), Some(message(n))), (body_key(n), Some(Row::Body(body(n))))]);
    let full = store.file_bytes();
    assert!(full > WRITTEN * body(0).len() as u64, "{full}");
    write_all(|n| [(message_key(n), None), (body_key(n), None)]);
    let deadline = Instant::now() + Duration::from_secs(60);
    // How many runs wait for each other depends on what else the machine does meanwhile: an eighth on a busy one.
    while store.file_bytes() > full / 5 {
        assert!(Instant::now() < deadline, "{} of {full} bytes are left", store.file_bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
}
