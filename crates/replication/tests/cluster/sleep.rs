//! Groups that have nothing to do: only their nodes are heard, and no replica is woken.

use std::time::{Duration, Instant};

use domain::GroupId;
use replication::{Limits, Timings};
use tokio::sync::watch;
use tokio::time::sleep;

use super::harness::*;

/// A group whose log has not grown for five seconds sleeps.
const ASLEEP_AFTER: Duration = Duration::from_secs(7);

fn groups() -> Vec<GroupId> {
    (0..6).map(GroupId).collect()
}

fn terms(cluster: &Cluster) -> Vec<(u64, Vec<u64>)> {
    let of = |node: &Node| node.replication.status().iter().map(|group| group.term).collect();
    cluster.nodes.iter().map(|(id, node)| (*id, of(node))).collect()
}

#[tokio::test]
async fn whoever_sleeps_is_confirmed_heard_and_elects_nobody() {
    let cluster = Cluster::with(3, groups(), Limits::default()).await;
    for group in groups() {
        cluster.leader(group).await;
    }
    sleep(ASLEEP_AFTER).await;
    let before = terms(&cluster);
    sleep(ASLEEP_AFTER).await;
    assert_eq!(terms(&cluster), before, "nobody campaigned");
    for (id, node) in &cluster.nodes {
        for group in node.replication.status() {
            let confirmed = group.confirmed_ms.expect("a leader");
            assert!(confirmed < 2_000, "node {id}: {confirmed} ms ago: {group:?}");
            if group.leading {
                let heard: Vec<_> = group.heard_ms.values().flatten().collect();
                assert!(heard.len() == 2 && heard.iter().all(|ms| **ms < 2_000), "{group:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_group_that_slept_takes_what_is_proposed_and_reads() {
    let cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    let leader = cluster.leader(GROUP).await;
    let replication = &cluster.node(leader).replication;
    let mut took = Vec::new();
    for number in 1..=2 {
        sleep(ASLEEP_AFTER).await;
        let began = Instant::now();
        soon("an answer", replication.propose(GROUP, message(number, 10))).await.expect("sent");
        took.push(began.elapsed());
        sleep(ASLEEP_AFTER).await;
        let began = Instant::now();
        soon("an answer", replication.read_index(GROUP)).await.expect("read");
        took.push(began.elapsed());
    }
    println!("first proposals and reads after sleep: {took:?}");
    // Others may have met a machine that was busy elsewhere.
    assert!(took.iter().any(|took| *took < Duration::from_millis(150)), "{took:?}");
    assert_eq!(cluster.leader(GROUP).await, leader);
    for node in cluster.members() {
        cluster.same_rows(node).await;
    }
}

/// The end of what was proposed last is told to followers, too, that nobody proposes anything after.
#[tokio::test]
async fn followers_hear_what_is_committed_before_the_group_sleeps() {
    let cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    for number in 1..=3 {
        cluster.send(GROUP, number, 10).await;
        let sent = Instant::now();
        for node in cluster.members() {
            cluster.same_rows(node).await;
        }
        let took = sent.elapsed();
        assert!(took < Duration::from_secs(2), "applied everywhere after {took:?}");
    }
}

#[tokio::test]
async fn a_leader_that_dies_in_its_groups_sleep_is_replaced() {
    let mut cluster = Cluster::with(3, groups(), Limits::default()).await;
    cluster.create_queue(GROUP).await;
    sleep(ASLEEP_AFTER).await;
    let leader = cluster.leader(GROUP).await;
    cluster.kill(leader);
    let died = Instant::now();
    for group in groups() {
        cluster.leader(group).await;
    }
    println!("leader of sleeping groups dead to others in all of them: {:?}", died.elapsed());
    cluster.send(GROUP, 1, 10).await;
    cluster.start_node(leader).await;
    cluster.same_rows(leader).await;
}

/// It lives and answers, but for a moment nothing of it arrives: its silence is seen although the group slept, and
/// what it says of itself is old.
#[tokio::test]
async fn a_leader_that_falls_silent_in_its_groups_sleep_is_replaced() {
    let mut cluster = Cluster::cold(3, vec![GROUP], Limits::default());
    let silent = 2; // The first leader of this group.
    let (cut, is_cut) = watch::channel(false);
    for node in cluster.members() {
        let mut config = cluster.config(node);
        for (peer, address) in &mut config.peers {
            let way = match () {
                () if node == *peer => continue,
                () if node == silent => Way::ToNode,
                () if *peer == silent => Way::ToCaller,
                () => continue,
            };
            *address = cutting_proxy(address.clone(), way, is_cut.clone()).await;
        }
        cluster.start_node_with(config).await;
    }
    cluster.create_queue(GROUP).await;
    assert_eq!(cluster.leader(GROUP).await, silent);
    sleep(ASLEEP_AFTER).await;
    cut.send_replace(true);
    let began = Instant::now();
    let next = until("another leader", || {
        let leads = |node: &u64| cluster.node(*node).replication.is_leader(GROUP);
        [1, 3].into_iter().find(leads)
    })
    .await;
    println!("leader silent to another leader: {:?}", began.elapsed());
    let timings = Timings::default();
    assert!(began.elapsed() > timings.election_max, "its lease is kept");
    let sent = cluster.node(next).replication.propose(GROUP, message(1, 10));
    soon("an answer", sent).await.expect("it is sent");
}
