//! The log is forgotten in time, and a replica that was away for too long gets a snapshot.

use std::sync::atomic::Ordering;

use replication::Limits;

use super::harness::*;

/// The node that needs a large snapshot.
const AWAY: u64 = 3;

fn small() -> Limits {
    Limits { flush_log_bytes: 1 << 20, log_retain_bytes: 4 << 20, ..Limits::default() }
}

#[tokio::test]
async fn what_every_member_holds_is_forgotten_everywhere() {
    let cluster = Cluster::with(3, vec![GROUP], small()).await;
    cluster.create_queue(GROUP).await;
    for number in 1..=60 {
        cluster.send(GROUP, number, 100_000).await;
    }
    for (node, there) in &cluster.nodes {
        until(&format!("node {node} to forget"), || {
            there.replication.status()[0].purged.filter(|purged| *purged > 30)
        })
        .await;
        let status = &there.replication.status()[0];
        assert!(status.purged <= status.flushed, "{status:?}");
    }
}

#[tokio::test]
async fn a_member_that_is_away_keeps_the_log_within_its_bound() {
    let limits = Limits { flush_log_bytes: 1 << 20, ..Limits::default() };
    let mut cluster = Cluster::with(3, vec![GROUP], limits).await;
    cluster.create_queue(GROUP).await;
    cluster.send(GROUP, 1, 10).await;
    let leader = cluster.leader(GROUP).await;
    let away = leader % 3 + 1;
    cluster.kill(away);
    for number in 2..=60 {
        cluster.send(GROUP, number, 100_000).await;
    }
    let leader = cluster.leader(GROUP).await;
    until("the rows to be flushed", || {
        cluster.node(leader).replication.status()[0].flushed.filter(|flushed| *flushed > 30)
    })
    .await;
    assert!(cluster.node(leader).replication.status()[0].purged < Some(5), "kept for node {away}");
    cluster.start_node(away).await;
    cluster.same_rows(away).await;
}

#[tokio::test]
async fn a_disk_without_space_keeps_no_log_for_a_member_that_is_away() {
    let limits = Limits { disk_reserve_bytes: u64::MAX, ..Limits::default() };
    let limits = Limits { flush_log_bytes: 1 << 20, ..limits };
    let mut cluster = Cluster::with(3, vec![GROUP], limits).await;
    cluster.create_queue(GROUP).await;
    assert!(cluster.node(1).replication.disk().low);
    let away = cluster.leader(GROUP).await % 3 + 1;
    cluster.kill(away);
    for number in 1..=60 {
        cluster.send(GROUP, number, 100_000).await;
    }
    let leader = cluster.leader(GROUP).await;
    until("the log to be forgotten", || {
        cluster.node(leader).replication.status()[0].purged.filter(|purged| *purged > 30)
    })
    .await;
    cluster.start_node(away).await;
    cluster.same_rows(away).await;
}

#[tokio::test]
async fn a_replica_away_for_too_long_catches_up_by_a_snapshot_and_goes_on_from_it() {
    let mut cluster = Cluster::with(3, vec![GROUP], small()).await;
    cluster.create_queue(GROUP).await;
    cluster.send(GROUP, 1, 10).await;
    let leader = cluster.leader(GROUP).await;
    let away = leader % 3 + 1;
    cluster.kill(away);
    for number in 2..=120 {
        cluster.send(GROUP, number, 100_000).await;
    }
    until("the log to be forgotten", || {
        cluster.node(leader).replication.status()[0].purged.filter(|purged| *purged > 20)
    })
    .await;
    cluster.start_node(away).await;
    for number in 121..=140 {
        cluster.send(GROUP, number, 1000).await;
    }
    cluster.same_rows(away).await;
    let there = &cluster.node(away).replication.status()[0];
    assert!(there.purged > Some(20), "it came as a snapshot: {there:?}");

    // What was installed survives a restart, and the replica can lead.
    cluster.kill(away);
    cluster.start_node(away).await;
    cluster.same_rows(away).await;
    let leader = cluster.leader(GROUP).await;
    until("the replica to be heard", || {
        cluster.node(leader).replication.status()[0].heard_ms.get(&away).copied().flatten()
    })
    .await;
    assert_eq!(cluster.node(leader).replication.transfer(GROUP, away).await, Ok(()));
    cluster.send(GROUP, 141, 1000).await;
    assert_eq!(numbers(&cluster.node(away).rows), (1..=141).collect::<Vec<_>>());
}

/// Starts all nodes; `AWAY`, which others reach through a proxy, goes down until it needs a snapshot,
/// of 15 MB.
async fn away_for_too_long(cluster: &mut Cluster, proxy: &str) {
    for node in 1..=3 {
        let mut config = cluster.config(node);
        if node != AWAY {
            config.peers.insert(AWAY, proxy.to_owned());
        }
        cluster.start_node_with(config).await;
    }
    cluster.create_queue(GROUP).await;
    cluster.send(GROUP, 1, 10).await;
    cluster.kill(AWAY);
    for number in 2..=150 {
        cluster.send(GROUP, number, 100_000).await;
    }
    let leader = cluster.leader(GROUP).await;
    until("the log to be forgotten", || {
        cluster.node(leader).replication.status()[0].purged.filter(|purged| *purged > 20)
    })
    .await;
}

/// It comes back, and has all rows, by a snapshot.
async fn returns(cluster: &mut Cluster) {
    cluster.start_node(AWAY).await;
    cluster.same_rows(AWAY).await;
    let there = &cluster.node(AWAY).replication.status()[0];
    assert!(there.purged > Some(20), "it came as a snapshot: {there:?}");
}

/// Each connection dies long before the whole snapshot is over: only one that goes on arrives.
#[tokio::test]
async fn a_snapshot_goes_on_where_its_connection_broke() {
    let mut cluster = Cluster::cold(3, vec![GROUP], small());
    let (proxy, broken) = breaking_proxy(cluster.addresses[&AWAY].clone(), 4 << 20).await;
    away_for_too_long(&mut cluster, &proxy).await;
    broken.store(0, Ordering::Relaxed);
    returns(&mut cluster).await;
    assert!(broken.load(Ordering::Relaxed) >= 3, "15 MB over connections of 4 MB");
}

/// What arrives is not what was sent: that is noticed, wherever it is, and what is wrong comes again.
#[tokio::test]
async fn a_snapshot_whose_bits_change_on_their_way_arrives_as_it_was_sent() {
    let mut cluster = Cluster::cold(3, vec![GROUP], small());
    let (proxy, flipped) = flipping_proxy(cluster.addresses[&AWAY].clone(), 3 << 20, 4).await;
    away_for_too_long(&mut cluster, &proxy).await;
    assert_eq!(flipped.load(Ordering::Relaxed), 0, "so little went to a node that was away");
    returns(&mut cluster).await;
    assert_eq!(flipped.load(Ordering::Relaxed), 4);
}
