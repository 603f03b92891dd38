//! A replica that lost its disk: never again who it was, and a full member all the same.

use std::time::Duration;

use replication::{Limits, TransferError};
use store::{DataDir, LogStore, Provenance, RowStore};
use tokio::time::{sleep, timeout};

use super::harness::*;

/// Three nodes that remember who they are.
async fn founded(limits: Limits) -> (Cluster, Vec<DataDir>) {
    let mut cluster = Cluster::cold(3, vec![GROUP], limits);
    let mut data = Vec::new();
    for node in 1..=3 {
        data.push(cluster.open_node(node).await);
    }
    // Each waits for the others to answer.
    futures::future::join_all((1..=3).map(|node| cluster.take_part(node))).await;
    cluster.create_queue(GROUP).await;
    (cluster, data)
}

/// Takes a node's disk away while it is down.
async fn wipe(cluster: &mut Cluster, node: u64) {
    let_go(cluster, node).await;
    std::fs::remove_dir_all(cluster.path(node, "")).expect("wiped");
}

/// Kills a node and waits until nothing of it has its files open.
async fn let_go(cluster: &mut Cluster, node: u64) {
    cluster.kill(node);
    let options = Default::default();
    drop(open(|| LogStore::open(&cluster.path(node, "log"), &options)).await);
    drop(open(|| RowStore::open(&cluster.path(node, "rows"), &options)).await);
}

/// Waits until a node has its vote back, by its own word: to the others an old vote looks alike
/// until they hear that it is lost.
async fn votes(cluster: &Cluster, node: u64) {
    until("its vote", || {
        let status = &cluster.node(node).replication.status()[0];
        (status.voters == [1, 2, 3].into() && status.learners.is_empty()).then_some(())
    })
    .await;
    cluster.same_rows(node).await;
}

#[tokio::test]
async fn founders_start_again_as_who_they_are() {
    let (mut cluster, data) = founded(Limits::default()).await;
    let founders = data[0].provenance().founders();
    assert_eq!(founders.len(), 3);
    for (node, data) in (1..).zip(&data) {
        assert_eq!(data.provenance(), Provenance::Founder(founders.clone()));
        assert_eq!(founders[&node], data.id());
    }
    for number in 1..=3 {
        cluster.kill(number);
        assert_eq!(cluster.open_node(number).await.incarnation(), 0);
        timeout(PATIENCE, cluster.take_part(number)).await.expect("it asks nobody");
        cluster.send(GROUP, number, 10).await;
        cluster.same_rows(number).await;
    }
}

#[tokio::test]
async fn nobody_founds_while_a_node_is_silent() {
    let mut cluster = Cluster::cold(3, vec![GROUP], Limits::default());
    for node in 1..=2 {
        cluster.open_node(node).await;
    }
    let waiting = cluster.node(1).replication.take_part();
    timeout(Duration::from_secs(2), waiting).await.expect_err("node 3 may know a cluster");
    let late = cluster.open_node(3).await;
    futures::future::join_all((1..=3).map(|node| cluster.take_part(node))).await;
    assert_eq!(late.incarnation(), 0);
    cluster.create_queue(GROUP).await;
}

#[tokio::test]
async fn a_wiped_node_returns_as_another_learns_everything_and_votes_again() {
    let (mut cluster, _) = founded(Limits::default()).await;
    for number in 1..=30 {
        cluster.send(GROUP, number, 1000).await;
    }
    // The leader first, then a follower, then the first one again.
    let first = cluster.leader(GROUP).await;
    let mut incarnations = vec![0];
    for (round, wiped) in (0..).zip([first, first % 3 + 1, first]) {
        wipe(&mut cluster, wiped).await;
        cluster.leader(GROUP).await;
        let data = cluster.open_node(wiped).await;
        cluster.take_part(wiped).await;
        assert!(!incarnations.contains(&data.incarnation()), "each incarnation has its own id");
        incarnations.push(data.incarnation());
        for number in 0..5 {
            cluster.send(GROUP, 31 + 5 * round + number, 1000).await;
        }
        votes(&cluster, wiped).await;
    }
    // Now one of the two that are left as they were is gone for good: the returned one counts.
    let kept = (1..=3).find(|node| *node != first && *node != first % 3 + 1).expect("three");
    cluster.kill(kept);
    cluster.send(GROUP, 46, 1000).await;
    for node in [first, first % 3 + 1] {
        cluster.same_rows(node).await;
        assert_eq!(numbers(&cluster.node(node).rows), (1..=46).collect::<Vec<_>>());
    }
    // And may lead.
    let leader = cluster.leader(GROUP).await;
    let other = if leader == first { first % 3 + 1 } else { first };
    until("the other to be heard", || {
        cluster.node(leader).replication.status()[0].heard_ms.get(&other).copied().flatten()
    })
    .await;
    assert_eq!(cluster.node(leader).replication.transfer(GROUP, other).await, Ok(()));
    cluster.send(GROUP, 47, 1000).await;
}

/// Spoils what a node's directory says of it, while it is down.
async fn forget(cluster: &mut Cluster, node: u64) {
    let_go(cluster, node).await;
    std::fs::write(cluster.path(node, "mayfly-data"), "garbage").expect("spoilt");
}

#[tokio::test]
async fn a_node_that_does_not_know_what_it_was_returns_as_another() {
    let (mut cluster, data) = founded(Limits::default()).await;
    let founders = data[0].provenance().founders();
    for number in 1..=5 {
        cluster.send(GROUP, number, 10).await;
    }
    let leader = cluster.leader(GROUP).await;
    forget(&mut cluster, leader).await;
    let data = cluster.open_node(leader).await;
    assert_eq!(data.provenance(), Provenance::Lost);
    cluster.take_part(leader).await;
    assert_eq!(data.provenance(), Provenance::Returned(founders));
    assert_ne!(data.incarnation(), 0);
    votes(&cluster, leader).await;
    assert_eq!(numbers(&cluster.node(leader).rows), (1..=5).collect::<Vec<_>>());
}

/// As much is lost as if all disks were, but the data still lie there: they are not forgotten for a
/// new cluster, and somebody new does not found one with them either.
#[tokio::test]
async fn nodes_that_do_not_know_what_they_were_found_nothing() {
    let (mut cluster, _) = founded(Limits::default()).await;
    forget(&mut cluster, 1).await;
    forget(&mut cluster, 2).await;
    wipe(&mut cluster, 3).await;
    for node in 1..=3 {
        cluster.open_node(node).await;
    }
    for node in 1..=3 {
        let waiting = cluster.node(node).replication.take_part();
        timeout(Duration::from_secs(1), waiting).await.expect_err("nobody knows the cluster");
    }
    assert!(cluster.path(1, "damaged").join("log").exists());
}

#[tokio::test]
async fn a_wiped_node_is_rebuilt_from_a_snapshot_where_the_log_is_forgotten() {
    let small = Limits { flush_log_bytes: 1 << 20, log_retain_bytes: 4 << 20, ..Limits::default() };
    let (mut cluster, _) = founded(small).await;
    for number in 1..=60 {
        cluster.send(GROUP, number, 100_000).await;
    }
    let leader = cluster.leader(GROUP).await;
    until("the log to be forgotten", || {
        cluster.node(leader).replication.status()[0].purged.filter(|purged| *purged > 20)
    })
    .await;
    let wiped = leader % 3 + 1;
    wipe(&mut cluster, wiped).await;
    cluster.open_node(wiped).await;
    cluster.take_part(wiped).await;
    votes(&cluster, wiped).await;
    assert_eq!(numbers(&cluster.node(wiped).rows), (1..=60).collect::<Vec<_>>());
}

/// Before it has caught up it counts for nothing, and its old vote is nobody's.
#[tokio::test]
async fn without_a_majority_of_those_that_remember_nothing_is_done() {
    let (mut cluster, _) = founded(Limits::default()).await;
    cluster.send(GROUP, 1, 1000).await;
    let leader = cluster.leader(GROUP).await;
    let (wiped, down) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    cluster.kill(down);
    wipe(&mut cluster, wiped).await;
    let data = cluster.open_node(wiped).await;
    cluster.take_part(wiped).await;
    assert_ne!(data.incarnation(), 0);
    sleep(Duration::from_secs(4)).await;
    let proposed = cluster.node(leader).replication.propose(GROUP, message(2, 1000));
    let done = timeout(Duration::from_secs(2), proposed).await;
    assert!(!matches!(done, Ok(Ok(_))), "one of three decides nothing: {done:?}");
    let refused = cluster.node(wiped).replication.transfer(GROUP, wiped).await;
    assert!(matches!(refused, Err(TransferError::NotLeader { .. })));

    cluster.open_node(down).await;
    cluster.take_part(down).await;
    votes(&cluster, wiped).await;
    cluster.send(GROUP, 3, 1000).await;
    cluster.same_rows(wiped).await;
    let numbers = numbers(&cluster.node(wiped).rows);
    assert_eq!((numbers.first(), numbers.last()), (Some(&1), Some(&3)), "perhaps the second too");
}

#[tokio::test]
async fn a_node_that_lost_its_logs_end_returns_as_another() {
    let (mut cluster, _) = founded(Limits::default()).await;
    for number in 1..=20 {
        cluster.send(GROUP, number, 1000).await;
    }
    let victim = cluster.leader(GROUP).await;
    let_go(&mut cluster, victim).await;
    let log = cluster.path(victim, "log");
    let files = std::fs::read_dir(&log).expect("a log").map(|entry| entry.expect("a file").path());
    let mut newest: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|it| it == "sst")).collect();
    newest.sort();
    let file = newest.pop().expect("opening wrote what the crash left");
    let bytes = std::fs::read(&file).expect("read");
    std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("cut");

    let data = cluster.open_node(victim).await;
    assert_ne!(data.incarnation(), 0);
    assert!(cluster.path(victim, "damaged").exists());
    cluster.take_part(victim).await;
    cluster.send(GROUP, 21, 1000).await;
    votes(&cluster, victim).await;
    assert_eq!(numbers(&cluster.node(victim).rows), (1..=21).collect::<Vec<_>>());
}
