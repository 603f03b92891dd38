//! A process killed in the middle of its work, and what the next one finds. The child tells what it
//! was promised; the parent kills it at a moment it did not choose, and holds the disk to it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use domain::{GroupId, Row, Rows};
use store::{LogStore, RowStore};

use crate::support::*;

/// Lets a child run for a while after the first line it told that begins so, kills it and gives back
/// all its lines.
fn run_and_kill(test: &str, dir: &Path, begins: &'static str, lasting: Duration) -> Vec<String> {
    let mut child = spawn(test, dir);
    let out = child.stdout.take().expect("piped");
    let (at_work, begun) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(out).split(b'\n').map_while(Result::ok);
        let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        let tell = |line: &String| {
            if line.starts_with(begins) {
                let _ = at_work.send(()); // Only the first is waited for.
            }
        };
        lines.inspect(tell).collect::<Vec<_>>()
    });
    // A busy machine takes its time to start a process.
    begun.recv_timeout(Duration::from_secs(60)).expect("the child gets to work");
    std::thread::sleep(lasting);
    assert!(child.try_wait().expect("known").is_none(), "the child ended by itself");
    child.kill().expect("killed"); // SIGKILL: nothing is flushed.
    child.wait().expect("ended");
    reader.join().expect("read")
}

fn entry(group: u16, index: u64) -> Bytes {
    let word = (u64::from(group) << 48 | index).to_be_bytes();
    word.repeat(1 + (index % 200) as usize).into()
}

const GROUPS: u16 = 4;

/// Appends to several groups without end; now and then forgets the older half, or takes the last
/// entries back and writes them again, as after a change of leader.
#[test]
fn child_appends() {
    let Some(dir) = child_dir() else { return };
    let log = LogStore::open(&dir, &small()).unwrap();
    let end = |group| log.last(GroupId(group)).unwrap().map_or(0, |last| last.index);
    let mut next: Vec<u64> = (0..GROUPS).map(|group| end(group) + 1).collect();
    loop {
        for group in 0..GROUPS {
            let from = next[usize::from(group)];
            let to = from + 1 + from % 5;
            let truncates = from % 101 < 5 && from > 10;
            if truncates {
                // What was told so far holds up to there, once it is all told.
                while log.synced_index(GroupId(group)) + 1 < from {
                    std::thread::yield_now();
                }
                let (done, synced) = waiter();
                log.save_vote(GroupId(group), Bytes::new(), done);
                synced.recv().unwrap().unwrap();
                tell(&format!("synced {group} {}", from - 4));
                log.truncate(GroupId(group), from - 3, Box::new(|result| result.unwrap()));
            }
            let from = if truncates { from - 3 } else { from };
            let entries = (from..to).map(|index| record(index, entry(group, index))).collect();
            let done = move |result: Result<(), store::Error>| {
                result.unwrap();
                tell(&format!("synced {group} {}", to - 1));
            };
            log.append(GroupId(group), entries, Box::new(done));
            if from % 997 < 5 && from > 1000 {
                log.purge(GroupId(group), from / 2, Bytes::from((from / 2).to_string()));
            }
            next[usize::from(group)] = to;
        }
        while log.synced_index(GroupId(0)) + 200 < next[0] {
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_was_synced_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for round in 0..4u64 {
        let told = run_and_kill(
            "crash::child_appends",
            &path,
            "synced",
            Duration::from_millis(200 + 150 * round),
        );
        let mut synced = BTreeMap::new();
        for line in &told {
            let mut words = line.split(' ');
            if words.next() == Some("synced") {
                let group: u16 = words.next().expect("a group").parse().expect("a number");
                let index: u64 = words.next().expect("an index").parse().expect("a number");
                synced.insert(group, index);
            }
        }
        let log = LogStore::open(&path, &small()).expect("opened after a kill");
        for (number, synced) in synced {
            let group = GroupId(number);
            assert_eq!(log.shortened(group), None);
            let purged = log.purged(group).unwrap();
            let first = purged.map_or(1, |mark| {
                std::str::from_utf8(&mark).expect("text").parse::<u64>().expect("a number") + 1
            });
            let kept = read_all(&log, group, first, u64::MAX, 1 << 20);
            let last = kept.last().expect("not empty").index;
            assert!(last >= synced, "group {group} kept {last} of {synced} synced");
            assert_eq!(kept.len() as u64, last + 1 - first, "no gap in group {group}");
            for (index, found) in (first..).zip(kept) {
                assert_eq!(found, record(index, entry(number, index)), "group {group}");
            }
        }
    }
}

/// Entry `n` stores message `n` and removes message `n - WINDOW`; one in 500 is followed by a flush.
#[test]
fn child_applies() {
    let Some(dir) = child_dir() else { return };
    let store = RowStore::open(&dir, &small()).unwrap();
    let mut index = store.applied(GROUP).unwrap().map_or(0, |(index, _)| index);
    loop {
        index += 1;
        let mut writes = vec![
            (message_key(index), Some(message(index))),
            (body_key(index), Some(Row::Body(body(index)))),
        ];
        if index > WINDOW {
            writes.extend([(message_key(index - WINDOW), None), (body_key(index - WINDOW), None)]);
        }
        store.write(GROUP, writes, index, index.to_string().into()).unwrap();
        if index.is_multiple_of(500) {
            store.flush().unwrap();
            tell(&format!("flushed {index}"));
        } else if index.is_multiple_of(50) {
            tell(&format!("flushed {}", store.flushed_index(GROUP)));
        }
    }
}

const WINDOW: u64 = 40;

#[test]
fn rows_are_a_prefix_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    for round in 0..4u64 {
        let told = run_and_kill(
            "crash::child_applies",
            &path,
            "flushed",
            Duration::from_millis(200 + 170 * round),
        );
        let flushed = told.iter().rev().find_map(|line| line.strip_prefix("flushed "));
        let flushed: u64 = flushed.expect("it flushed").parse().expect("a number");
        let store = RowStore::open(&path, &small()).expect("opened after a kill");
        let (applied, mark) = store.applied(GROUP).unwrap().expect("something was flushed");
        assert!(applied >= flushed, "{applied} on disk, {flushed} was promised");
        assert_eq!(mark, applied.to_string());
        let kept: Vec<_> = all_rows(&store.group(GROUP)).0.into_iter().collect();
        let numbers = || applied.saturating_sub(WINDOW) + 1..=applied;
        let bodies = numbers().map(|number| (body_key(number), Row::Body(body(number))));
        let messages = numbers().map(|number| (message_key(number), message(number)));
        assert_eq!(kept, bodies.chain(messages).collect::<Vec<_>>(), "as of entry {applied}");
    }
}

const GENERATION: u64 = 10_000;

/// Installs one generation of rows after the other.
#[test]
fn child_imports() {
    let Some(dir) = child_dir() else { return };
    let store = RowStore::open(&dir.join("rows"), &small()).unwrap();
    let source = RowStore::open(&dir.join("source/rows"), &small()).unwrap();
    let mut generation = store.applied(GROUP).unwrap().map_or(0, |(index, _)| index);
    loop {
        generation += 1;
        let base = (generation % 2) * GENERATION;
        let rows = (base..base + 300).flat_map(|number| {
            [
                (message_key(number), Some(message(number))),
                (body_key(number), Some(Row::Body(body(number)))),
            ]
        });
        let other = GENERATION - base;
        let gone = (other..other + 300)
            .flat_map(|number| [(message_key(number), None), (body_key(number), None)]);
        source.write(GROUP, rows.chain(gone).collect(), generation, "".into()).unwrap();
        let mut export = source.export(GROUP).unwrap();
        let mut import = store.import(GROUP, generation, b"mark").unwrap();
        while let Some(chunk) = export.next_chunk().unwrap() {
            import.take([chunk]).unwrap();
        }
        // As if the rows were many: the removal of their files is where a kill often finds it.
        for number in 0..40 {
            std::fs::write(dir.join(format!("incoming/{GROUP}/{number}")), b"").unwrap();
        }
        import.finish().unwrap();
        tell(&format!("installed {generation}"));
    }
}

#[test]
fn an_import_is_installed_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20u64 {
        let told = run_and_kill(
            "crash::child_imports",
            dir.path(),
            "installed",
            Duration::from_millis(17 * round),
        );
        let installed = told.iter().rev().find_map(|line| line.strip_prefix("installed "));
        let installed: u64 = installed.map_or(0, |text| text.parse().expect("a number"));
        let store = RowStore::open(&dir.path().join("rows"), &small()).expect("opened");
        let Some((generation, mark)) = store.applied(GROUP).unwrap() else {
            assert_eq!(installed, 0);
            assert_eq!(all_rows(&store.group(GROUP)).0.len(), 0);
            continue;
        };
        assert!(generation >= installed && mark == "mark");
        let base = (generation % 2) * GENERATION;
        let rows = store.group(GROUP);
        let kept: Vec<_> = all_rows(&rows).0.into_keys().collect();
        let expected = (base..base + 300).map(body_key).chain((base..base + 300).map(message_key));
        assert_eq!(kept, expected.collect::<Vec<_>>(), "round {round}, generation {generation}");
        assert_eq!(rows.get(&body_key(base + 299)), Some(Row::Body(body(base + 299))));
    }
}
