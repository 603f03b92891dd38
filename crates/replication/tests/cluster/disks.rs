//! What disks lose.

use replication::Error;
use store::{LogStore, RowStore};

use super::harness::*;

#[tokio::test]
async fn a_crash_takes_unflushed_rows_and_the_log_brings_them_back() {
    let mut cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    for number in 1..=40 {
        cluster.send(GROUP, number, 1000).await;
    }
    for node in 1..=3 {
        cluster.same_rows(node).await;
        cluster.node(node).rows.flush().expect("flushed");
    }
    for number in 41..=80 {
        cluster.send(GROUP, number, 1000).await;
    }
    let leader = cluster.leader(GROUP).await;
    let before = rows(&cluster.node(leader).rows);
    for node in 1..=3 {
        cluster.same_rows(node).await;
    }
    for node in 1..=3 {
        let (rows, crashed) = (cluster.path(node, "rows"), cluster.path(node, "crashed"));
        copy(&rows, &crashed); // What is in files now is all a dying machine leaves.
        cluster.kill(node);
        drop(open(|| RowStore::open(&rows, &Default::default())).await); // The node has let go of it.
        copy(&crashed, &rows);
        let left = open(|| RowStore::open(&rows, &Default::default())).await;
        assert_eq!(numbers(&left), (1..=40).collect::<Vec<_>>());
    }
    for node in 1..=3 {
        cluster.start_node(node).await;
    }
    let leader = cluster.leader(GROUP).await;
    assert_eq!(rows(&cluster.node(leader).rows), before);
    cluster.send(GROUP, 81, 1000).await;
    for node in 1..=3 {
        cluster.same_rows(node).await;
    }
}

#[tokio::test]
async fn a_replica_whose_log_lost_synced_entries_does_not_start() {
    let mut cluster = Cluster::start(1).await;
    cluster.create_queue(GROUP).await;
    cluster.send(GROUP, 1, 10).await;
    cluster.stop(1).await;
    let (log, old) = (cluster.path(1, "log"), cluster.path(1, "old-log"));
    drop(open(|| LogStore::open(&log, &Default::default())).await); // The node has let go of it.
    copy(&log, &old);
    cluster.start_node(1).await;
    cluster.send(GROUP, 2, 10).await;
    cluster.stop(1).await;
    drop(open(|| LogStore::open(&log, &Default::default())).await);
    copy(&old, &log); // A disk restored from a backup, say.
    let started = cluster.try_start_node_with(cluster.config(1)).await;
    let Err(Error::LogShortened { group: GROUP, last, marked }) = started else {
        panic!("it must not vote: {started:?}");
    };
    assert!(last < marked);
}
