//! A group on its way from one node to another.

use std::fs;

use bytes::Bytes;
use domain::{GroupId, MemoryRows, Row};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use store::{Error, Export, Options, RowStore};

use crate::support::*;

/// A store whose group holds messages `from..to` under the mark `to`.
fn filled(store: &RowStore, group: GroupId, from: u64, to: u64) {
    let writes = (from..to).flat_map(|number| {
        [
            (message_key(number), Some(message(number))),
            (body_key(number), Some(Row::Body(body(number)))),
        ]
    });
    store.write(group, writes.collect(), to, to.to_string().into()).expect("written");
}

fn chunks(mut export: Export) -> Vec<Bytes> {
    std::iter::from_fn(|| export.next_chunk().expect("readable")).collect()
}

fn open(dir: &tempfile::TempDir, name: &str) -> RowStore {
    RowStore::open(&dir.path().join(name).join("rows"), &small()).expect("opened")
}

fn import(store: &RowStore, index: u64, chunks: Vec<Bytes>) {
    let mut import = store.import(GROUP, index, index.to_string().as_bytes()).expect("begun");
    for chunk in chunks {
        import.take([chunk]).expect("taken");
    }
    import.finish().expect("installed");
}

/// Who applies entries has looked at the rows before others came in their place.
#[test]
fn the_machine_sees_what_came_in() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 50);
    let expected = all_rows(&source.group(GROUP));
    let machine = target.machine(GROUP);
    assert_eq!(all_rows(&machine), MemoryRows::default());
    import(&target, 50, chunks(source.export(GROUP).unwrap()));
    assert_eq!(all_rows(&machine), expected);
}

#[test]
fn a_group_arrives_as_it_was_when_it_left() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 2000);
    source.flush().unwrap();
    filled(&source, GROUP, 2000, 2500);
    let expected = all_rows(&source.group(GROUP));
    filled(&target, GROUP, 100, 200);
    filled(&target, GROUP, 9000, 9100);
    filled(&target, OTHER, 1, 10);
    let others = all_rows(&target.group(OTHER));

    let export = source.export(GROUP).unwrap();
    assert_eq!(export.mark(), b"2500");
    // Pinned: what is written from here on is not in it.
    filled(&source, GROUP, 2500, 2600);
    source
        .write(GROUP, vec![(message_key(5), None), (body_key(5), None)], 2601, "x".into())
        .unwrap();
    source.flush().unwrap();
    let chunks = chunks(export);
    assert!(chunks.len() > 2, "{} chunks", chunks.len());
    assert!(chunks.iter().all(|chunk| chunk.len() <= 1 << 20));

    import(&target, 2500, chunks);
    assert_eq!(all_rows(&target.group(GROUP)), expected);
    assert_eq!(target.applied(GROUP).unwrap(), Some((2500, Bytes::from_static(b"2500"))));
    assert_eq!(target.flushed_index(GROUP), 2500, "what is installed is on disk");
    assert_eq!(all_rows(&target.group(OTHER)), others);
    assert_eq!(target.applied(OTHER).unwrap().map(|(index, _)| index), Some(10));

    // It goes on as if it had applied all that itself, also over a restart.
    let writes = vec![(message_key(7), None), (body_key(7), None)];
    target.write(GROUP, writes, 2501, "2501".into()).unwrap();
    drop(target);
    let target = open(&dir, "b");
    let mut expected = expected;
    expected.0.remove(&message_key(7));
    expected.0.remove(&body_key(7));
    assert_eq!(all_rows(&target.group(GROUP)), expected);
}

/// What is asked for again after a lost connection comes from the same view, and goes behind what is
/// there already.
#[test]
fn an_export_goes_on_behind_any_key() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 3000);
    let expected = all_rows(&source.group(GROUP));
    let mut export = source.export(GROUP).unwrap();
    source.write(GROUP, vec![(message_key(9), None)], 3001, "x".into()).unwrap();

    let mut import = target.import(GROUP, 3000, b"3000").unwrap();
    assert_eq!(import.last_key(), b"");
    for taken in 1..=3 {
        for _ in 0..taken {
            import.take(export.next_chunk().unwrap()).unwrap();
        }
        let _lost = export.next_chunk().unwrap();
        export.resume_after(Bytes::copy_from_slice(import.last_key())).unwrap();
    }
    import.take(chunks(export)).unwrap();
    import.finish().unwrap();
    assert_eq!(all_rows(&target.group(GROUP)), expected);

    let mut export = source.export(GROUP).unwrap();
    let all = chunks(source.export(GROUP).unwrap());
    export.next_chunk().unwrap();
    export.resume_after(Bytes::new()).unwrap();
    assert_eq!(chunks(export), all, "from the beginning");
}

/// Numbers come again: an imported body takes the place of one stored, deleted and imported before.
#[test]
fn the_same_rows_may_be_imported_deleted_and_imported_again() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 300);
    let all = all_rows(&source.group(GROUP));
    for round in 0..3 {
        import(&target, 300 + round, chunks(source.export(GROUP).unwrap()));
        assert_eq!(all_rows(&target.group(GROUP)), all, "round {round}");
        let gone =
            (1..300).flat_map(|number| [(message_key(number), None), (body_key(number), None)]);
        target.write(GROUP, gone.collect(), 400, "400".into()).unwrap();
        if round == 1 {
            target.flush().unwrap();
        }
        assert_eq!(all_rows(&target.group(GROUP)).0.len(), 0, "round {round}");
    }
}

#[test]
fn an_empty_group_can_be_sent_too() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&target, GROUP, 1, 10);
    source.write(GROUP, vec![], 3, "3".into()).unwrap();
    import(&target, 3, chunks(source.export(GROUP).unwrap()));
    assert_eq!(all_rows(&target.group(GROUP)).0.len(), 0);
    assert_eq!(target.applied(GROUP).unwrap(), Some((3, Bytes::from_static(b"3"))));
    let export = target.export(OTHER).unwrap();
    assert_eq!(export.mark(), b"", "a group that never applied anything");
}

#[test]
fn an_import_that_is_given_up_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 1000);
    filled(&target, GROUP, 5000, 5010);
    let before = all_rows(&target.group(GROUP));
    let mut import = target.import(GROUP, 1000, b"1000").unwrap();
    import.take(chunks(source.export(GROUP).unwrap()).into_iter().take(1)).unwrap();
    drop(import);
    assert_eq!(all_rows(&target.group(GROUP)), before);
    assert_eq!(target.applied(GROUP).unwrap().map(|(index, _)| index), Some(5010));
}

/// A crash while chunks come in leaves a folder that the next start drops.
#[test]
fn a_half_received_import_is_dropped_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let source = open(&dir, "a");
    filled(&source, GROUP, 1, 1000);
    let target = open(&dir, "b");
    filled(&target, GROUP, 5000, 5010);
    target.flush().unwrap();
    let before = all_rows(&target.group(GROUP));
    let mut import = target.import(GROUP, 1000, b"1000").unwrap();
    import.take(chunks(source.export(GROUP).unwrap()).into_iter().take(1)).unwrap();
    copy(&dir.path().join("b"), &dir.path().join("crashed"));

    assert!(dir.path().join("crashed/incoming/1").exists(), "what came in is beside the rows");
    let crashed = open(&dir, "crashed");
    assert_eq!(all_rows(&crashed.group(GROUP)), before);
    assert!(!dir.path().join("crashed/incoming/1").exists());
}

/// A crash after all had come in: the installation is completed, from wherever it stood.
#[test]
fn a_complete_import_is_installed_at_the_next_start() {
    for (step, name) in ["marked", "deleted", "installed"].into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let target = open(&dir, name);
        filled(&target, GROUP, 5000, 5010);
        target.flush().unwrap();
        let folder = dir.path().join(name).join("incoming/1");
        if step > 0 {
            // What the installation does to the rows, up to a point.
            let gone = (5000..5010).flat_map(|n| [(message_key(n), None), (body_key(n), None)]);
            target.write(GROUP, gone.collect(), 5010, "5010".into()).unwrap();
        }
        if step > 1 {
            filled(&target, GROUP, 1, 100);
        }
        drop(target);
        fs::create_dir_all(&folder).unwrap();
        let options = rocksdb::Options::default();
        let mut file = rocksdb::SstFileWriter::create(&options);
        file.open(folder.join("000000.sst")).unwrap();
        for key in (1..100).map(body_key).chain((1..100).map(message_key)) {
            let row = match &key {
                domain::Key::Body(_, number) => Row::Body(body(number.0)),
                domain::Key::Message(_, number) => message(number.0),
                _ => unreachable!("only these are made"),
            };
            file.put(wire::encode_key(GROUP, &key), wire::encode_row(&row)).unwrap();
        }
        file.finish().unwrap();
        drop(file);
        fs::write(folder.join("complete"), [&100u64.to_be_bytes()[..], b"100"].concat()).unwrap();

        let target = open(&dir, name);
        assert_eq!(all_rows(&target.group(GROUP)).0.len(), 2 * 99, "{name}");
        assert_eq!(
            target.group(GROUP).bodies(&[(ENTITY, domain::SequenceNumber(42))]),
            [Some(body(42))]
        );
        assert_eq!(target.applied(GROUP).unwrap(), Some((100, Bytes::from_static(b"100"))));
        assert_eq!(target.flushed_index(GROUP), 100);
        assert!(!folder.exists());
    }
}

/// By then the old rows may be gone: what came in is kept, and taken in at the next start.
#[test]
fn an_installation_that_fails_is_not_forgotten() {
    for obstacle in ["999999.sst", "linked"] {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (open(&dir, "a"), open(&dir, "b"));
        filled(&source, GROUP, 1, 100);
        filled(&target, GROUP, 5000, 5010);
        let expected = all_rows(&source.group(GROUP));
        let mut import = target.import(GROUP, 100, b"100").unwrap();
        for chunk in chunks(source.export(GROUP).unwrap()) {
            import.take([chunk]).unwrap();
        }
        let obstacle = dir.path().join("b/incoming/1").join(obstacle);
        fs::write(&obstacle, b"neither a file of RocksDB's nor a folder").unwrap();
        assert!(import.finish().is_err());
        assert!(target.failure().is_some(), "the node knows why its replica ended");
        assert!(target.import(GROUP, 200, b"200").is_err(), "the first one comes first");
        drop(target);
        fs::remove_file(obstacle).unwrap();

        let target = open(&dir, "b");
        assert_eq!(all_rows(&target.group(GROUP)), expected);
        assert_eq!(target.applied(GROUP).unwrap(), Some((100, Bytes::from_static(b"100"))));
    }
}

/// Files that find no space, by their names below `incoming`.
fn on_a_full_disk(dir: &tempfile::TempDir, store: &str, file: &str) {
    let path = dir.path().join(store).join("incoming/1").join(file);
    std::os::unix::fs::symlink("/dev/full", path).unwrap();
}

/// Nothing has happened to the old rows, and nothing is wrong with them: it may be tried again.
#[test]
fn a_disk_too_full_for_what_comes_in_says_so_when_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 100);
    filled(&target, GROUP, 5000, 5010);
    let before = all_rows(&target.group(GROUP));
    let sent = chunks(source.export(GROUP).unwrap());

    let mut incoming = target.import(GROUP, 100, b"100").unwrap();
    on_a_full_disk(&dir, "b", "000001.sst");
    incoming.take(sent.clone()).unwrap();
    let closed = incoming.close();
    assert!(matches!(closed, Err(Error::DiskFull { .. })), "{closed:?}");
    drop(incoming);
    assert!(target.failure().is_none());
    assert_eq!(all_rows(&target.group(GROUP)), before);

    import(&target, 100, sent);
    assert_eq!(all_rows(&target.group(GROUP)), all_rows(&source.group(GROUP)));
}

/// By then it belongs to Raft, whose replica ends with it: the node has to know why, or it would not
/// come back when there is space again.
#[test]
fn a_disk_too_full_for_the_mark_of_what_came_in_is_a_failure_of_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 100);
    filled(&target, GROUP, 5000, 5010);
    let before = all_rows(&target.group(GROUP));

    let mut incoming = target.import(GROUP, 100, b"100").unwrap();
    incoming.take(chunks(source.export(GROUP).unwrap())).unwrap();
    incoming.close().unwrap();
    on_a_full_disk(&dir, "b", "complete.new");
    let finished = incoming.finish();
    assert!(matches!(finished, Err(Error::DiskFull { .. })), "{finished:?}");
    assert!(matches!(target.failure(), Some(Error::DiskFull { .. })));
    assert_eq!(all_rows(&target.group(GROUP)), before);
    drop(target);
    assert_eq!(all_rows(&open(&dir, "b").group(GROUP)), before);
}

/// What was taken in before and after it was closed is one whole.
#[test]
fn an_import_that_was_closed_takes_in_more() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 2000);
    let mut incoming = target.import(GROUP, 2000, b"2000").unwrap();
    for chunk in chunks(source.export(GROUP).unwrap()) {
        incoming.take([chunk]).unwrap();
        incoming.close().unwrap();
    }
    incoming.finish().unwrap();
    assert_eq!(all_rows(&target.group(GROUP)), all_rows(&source.group(GROUP)));
}

#[test]
fn chunks_out_of_order_or_of_another_group_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (open(&dir, "a"), open(&dir, "b"));
    filled(&source, GROUP, 1, 2000);
    filled(&source, OTHER, 1, 10);
    let ours = chunks(source.export(GROUP).unwrap());
    let others = chunks(source.export(OTHER).unwrap());
    let begin = || target.import(GROUP, 1, b"1").unwrap();
    for wrong in [vec![&ours[1], &ours[0]], vec![&ours[0], &ours[0]], vec![&others[0]]] {
        let mut import = begin();
        let result = wrong.into_iter().try_for_each(|chunk| import.take([chunk.clone()]));
        assert!(matches!(result, Err(Error::NotInOrder { group: GROUP })), "{result:?}");
    }
    let cut = ours[0].slice(..ours[0].len() - 1);
    assert!(begin().take([cut]).is_err(), "cut short");
    assert_eq!(target.applied(GROUP).unwrap(), None);
}

/// Many gigabytes do not fit in memory: an export that nobody takes from reads no further.
#[test]
fn an_export_that_is_dropped_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/rows");
    let source = open(&dir, "a");
    filled(&source, GROUP, 1, 8000);
    let mut export = source.export(GROUP).unwrap();
    assert!(export.next_chunk().unwrap().is_some());
    drop(export);
    drop(source);
    // The reading thread holds the database until it notices.
    let reopened = (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        RowStore::open(&path, &Options::default()).ok()
    });
    assert!(reopened.is_some(), "the database is closed once nobody uses it");
}

#[test]
fn garbage_is_refused_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(&dir, "b");
    filled(&target, GROUP, 1, 3);
    let sound = chunks(target.export(GROUP).unwrap()).remove(0);
    let garbage = vec(vec(any::<u8>(), 0..60), 1..4);
    let flip = any::<(prop::sample::Index, u8)>();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(500));
    let result = runner.run(&(garbage, flip), |(garbage, (at, byte))| {
        let mut import = target.import(GROUP, 1, b"1").unwrap();
        for chunk in garbage {
            let _ = import.take([chunk.into()]);
        }
        let mut damaged = sound.to_vec();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        let _ = target.import(GROUP, 1, b"1").unwrap().take([damaged.into()]);
        Ok(())
    });
    result.unwrap();
}
