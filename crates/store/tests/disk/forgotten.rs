//! A replica that a node gives up: nothing of it is left, and the next one is somebody else.

use store::{DataDir, Identity, Incarnation, LogStore, RowStore};

use crate::support::*;

fn forget(log: &LogStore) {
    let (done, forgotten) = waiter();
    log.forget(GROUP, done);
    forgotten.recv().unwrap().unwrap();
}

#[test]
fn nothing_of_a_replica_that_was_given_up_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    {
        let log = LogStore::open(&path, &small()).unwrap();
        append(&log, GROUP, records(0, 11));
        append(&log, OTHER, records(0, 5));
        let (done, saved) = waiter();
        log.save_vote(GROUP, "vote".into(), done);
        saved.recv().unwrap().unwrap();
        log.purge(GROUP, 3, "mark".into());
        log.save_committed(GROUP, "committed".into());
        assert_eq!((log.held(), log.incarnation(GROUP)), ([GROUP, OTHER].into(), None));
        forget(&log);
    }
    for _ in 0..2 {
        let log = LogStore::open(&path, &small()).unwrap();
        log.check().unwrap();
        assert_eq!((log.held(), log.incarnation(GROUP)), ([OTHER].into(), Some(Incarnation::Over)));
        assert_eq!((log.last(GROUP).unwrap(), log.vote(GROUP).unwrap()), (None, None));
        assert_eq!((log.committed(GROUP).unwrap(), log.purged(GROUP).unwrap()), (None, None));
        assert_eq!(read_all(&log, OTHER, 0, 5, usize::MAX), records(0, 5));
        forget(&log);
    }
}

#[test]
fn another_replica_begins_where_one_was_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    {
        let log = LogStore::open(&path, &small()).unwrap();
        append(&log, GROUP, records(0, 11));
        forget(&log);
        let (done, begun) = waiter();
        log.begin_incarnation(GROUP, 77, done);
        begun.recv().unwrap().unwrap();
        // A snapshot stands for what comes before.
        log.purge(GROUP, 40, "mark".into());
        append(&log, GROUP, records(41, 44));
        assert_eq!(log.synced_index(GROUP), 43);
    }
    let log = LogStore::open(&path, &small()).unwrap();
    log.check().unwrap();
    assert_eq!((log.held(), log.incarnation(GROUP)), ([GROUP].into(), Some(Incarnation::Runs(77))));
    assert_eq!(read_all(&log, GROUP, 0, 50, usize::MAX), records(41, 44));
}

#[test]
fn forgotten_rows_are_gone_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    {
        let rows = RowStore::open(&path, &small()).unwrap();
        for group in [GROUP, OTHER] {
            let row = (message_key(1), Some(message(1)));
            rows.write(group, vec![row], 1, "mark".into()).unwrap();
        }
        rows.flush().unwrap();
        rows.forget(GROUP).unwrap();
        // Dropped without a flush of its own.
    }
    let rows = RowStore::open(&path, &small()).unwrap();
    assert_eq!(rows.applied(GROUP).unwrap(), None);
    assert!(all_rows(&rows.group(GROUP)).0.is_empty());
    assert!(rows.applied(OTHER).unwrap().is_some());
}

/// The log is the first to forget, and a crash may come before the rows do.
#[test]
fn rows_outlive_their_log_until_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let data = DataDir::open(dir.path(), Identity { cluster_id: 7, node: 3 }, true).unwrap();
        data.stores(&small(), true).unwrap()
    };
    {
        let (log, rows) = open();
        for group in [GROUP, OTHER] {
            append(&log, group, records(0, 2));
            let row = (message_key(1), Some(message(1)));
            rows.write(group, vec![row], 1, "mark".into()).unwrap();
        }
        rows.flush().unwrap();
        forget(&log);
        assert!(rows.applied(GROUP).unwrap().is_some());
    }
    let (log, rows) = open();
    assert_eq!((log.held(), log.incarnation(GROUP)), ([OTHER].into(), Some(Incarnation::Over)));
    assert_eq!(rows.applied(GROUP).unwrap(), None);
    assert!(all_rows(&rows.group(GROUP)).0.is_empty());
    assert_eq!(all_rows(&rows.group(OTHER)).0.len(), 1);
}
