//! Proposals, leaders, restarts.

use std::time::{Duration, Instant};

use domain::{GroupId, Outcome, SequenceNumber};
use futures::future::join_all;
use replication::{Config, Leadership, Limits, ProposeError, Timings, TransferError};
use tokio::sync::watch;
use tokio::time::sleep;

use super::harness::*;

#[tokio::test]
async fn an_entry_is_applied_on_every_node_and_its_outcome_comes_back() {
    let cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    let outcomes = cluster.send(GROUP, 1, 100).await;
    assert_eq!(outcomes, [Outcome::Sent { sequences: vec![SequenceNumber(1)] }]);
    for node in 1..=3 {
        cluster.same_rows(node).await;
        assert_eq!(numbers(&cluster.node(node).rows), [1]);
    }
}

#[tokio::test]
async fn entries_come_into_the_log_in_the_order_of_the_calls() {
    let cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    let leader = cluster.leader(GROUP).await;
    let replication = &cluster.node(leader).replication;
    let proposals: Vec<_> =
        (1..=500).map(|n| replication.propose(GROUP, message(n, 1000))).collect();
    // Awaited in another order: that of the calls counts.
    let mut results = join_all(proposals.into_iter().rev()).await;
    results.reverse();
    for (result, number) in results.into_iter().zip(1..) {
        let sequences = vec![SequenceNumber(number)];
        assert_eq!(result, Ok(vec![Outcome::Sent { sequences }]));
    }
    assert_eq!(numbers(&cluster.node(leader).rows), (1..=500).collect::<Vec<_>>());
}

/// A group whose log takes a few kilobytes at a time is asked for twenty times what its queue has places
/// for, all at once: it does what finds one, in order, and nothing of the rest.
#[tokio::test]
async fn what_finds_no_place_is_certainly_not_done() {
    let limits = Limits { proposals_bytes_max: 4096, ..Limits::default() };
    let cluster = Cluster::with(3, vec![GROUP], limits).await;
    cluster.create_queue(GROUP).await;
    let leader = cluster.leader(GROUP).await;
    let replication = &cluster.node(leader).replication;
    let sent = join_all((1..=20_000).map(|n| replication.propose(GROUP, message(n, 10)))).await;
    let taken: Vec<u64> =
        (1..).zip(&sent).filter(|(_, result)| result.is_ok()).map(|(n, _)| n).collect();
    let refused = sent.iter().filter(|result| **result == Err(ProposeError::Busy)).count();
    assert!(taken.len() >= 1000 && refused > 0, "{} taken, {refused} refused", taken.len());
    assert_eq!(taken.len() + refused, sent.len(), "there is no third answer");
    assert_eq!(numbers(&cluster.node(leader).rows), taken);
    let reads = join_all((0..2000).map(|_| replication.read_index(GROUP))).await;
    assert!(reads.iter().filter(|read| read.is_ok()).count() >= 1000);
    assert!(reads.iter().all(|read| matches!(read, Ok(()) | Err(ProposeError::Busy))));
}

#[tokio::test]
async fn a_follower_refuses_and_names_the_leader() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader(GROUP).await;
    let follower = cluster.members().into_iter().find(|node| *node != leader).expect("a follower");
    let replication = &cluster.node(follower).replication;
    until("the follower to know", || (replication.leader(GROUP) == Some(leader)).then_some(()))
        .await;
    let not_leader = ProposeError::NotLeader { leader: Some(leader) };
    assert_eq!(replication.propose(GROUP, message(1, 10)).await, Err(not_leader));
    assert_eq!(replication.read_index(GROUP).await, Err(not_leader));
    assert!(!replication.is_leader(GROUP));
    let nowhere = replication.propose(GroupId(9), message(1, 10)).await;
    assert_eq!(nowhere, Err(ProposeError::NotLeader { leader: None }));
}

#[tokio::test]
async fn groups_spread_their_leaders() {
    let groups: Vec<GroupId> = (0..6).map(GroupId).collect();
    let cluster = Cluster::with(3, groups.clone(), Limits::default()).await;
    for group in groups {
        let leader = cluster.leader(group).await;
        assert_eq!(leader, u64::from(group.0 % 3) + 1, "group {group}");
    }
}

#[tokio::test]
async fn a_dead_leader_is_replaced_within_three_seconds_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    let mut sent = 0;
    let mut outages = Vec::new();
    for _ in 0..3 {
        for _ in 0..50 {
            sent += 1;
            cluster.send(GROUP, sent, 1000).await;
        }
        let leader = cluster.leader(GROUP).await;
        cluster.kill(leader);
        let died_at = Instant::now();
        sent += 1;
        cluster.send(GROUP, sent, 1000).await;
        outages.push(died_at.elapsed());
        let next = cluster.leader(GROUP).await;
        assert_eq!(numbers(&cluster.node(next).rows), (1..=sent).collect::<Vec<_>>());
        cluster.start_node(leader).await;
        cluster.same_rows(leader).await;
    }
    // Others may have met a machine that was busy elsewhere.
    outages.sort();
    println!("leader dead to first write elsewhere: {outages:?}");
    assert!(outages[0] < Duration::from_secs(3), "{outages:?}");
}

/// Silence would take minutes here.
#[tokio::test]
async fn a_leader_whose_process_is_gone_is_replaced_before_its_silence_says_so() {
    let mut cluster = Cluster::cold(3, vec![GROUP], Limits::default());
    for node in cluster.members() {
        let mut config = cluster.config(node);
        config.timings.election_min = PATIENCE * 4;
        config.timings.election_max = PATIENCE * 5;
        cluster.start_node_with(config).await;
    }
    cluster.create_queue(GROUP).await;
    cluster.send(GROUP, 1, 10).await;
    let leader = cluster.leader(GROUP).await;
    cluster.kill(leader);
    let died_at = Instant::now();
    cluster.send(GROUP, 2, 10).await;
    println!("leader gone to first write elsewhere: {:?}", died_at.elapsed());
    let next = cluster.leader(GROUP).await;
    assert_eq!(numbers(&cluster.node(next).rows), [1, 2]);
}

/// Its heartbeats still arrive, and would tell the others that all is well.
#[tokio::test]
async fn a_leader_that_is_heard_but_hears_nobody_is_replaced() {
    let mut cluster = Cluster::cold(3, vec![GROUP], Limits::default());
    let deaf = 2; // The first leader of this group.
    let (cut, is_cut) = watch::channel(false);
    // Long, so that it shows who decides: silence would take three of these.
    let lease = Duration::from_secs(4);
    for node in cluster.members() {
        let mut config = cluster.config(node);
        config.timings.election_max = lease;
        for (peer, address) in &mut config.peers {
            // What goes to the deaf one: its callers' bytes, and the answers to its own calls.
            let way = match () {
                () if node == *peer => continue,
                () if *peer == deaf => Way::ToNode,
                () if node == deaf => Way::ToCaller,
                () => continue,
            };
            *address = cutting_proxy(address.clone(), way, is_cut.clone()).await;
        }
        cluster.start_node_with(config).await;
    }
    cluster.create_queue(GROUP).await;
    cluster.send(GROUP, 1, 10).await;
    assert_eq!(cluster.leader(GROUP).await, deaf);
    cut.send_replace(true);
    let started = Instant::now();
    let next = until("another leader", || {
        let leads = |node: &u64| cluster.node(*node).replication.is_leader(GROUP);
        [1, 3].into_iter().find(leads)
    })
    .await;
    let took = started.elapsed();
    println!("leader deaf to another leader: {took:?}");
    assert!(took < lease * 2, "it gives way by itself: {took:?}");
    let sent = cluster.node(next).replication.propose(GROUP, message(2, 10));
    soon("an answer", sent).await.expect("it is sent");
    assert_eq!(numbers(&cluster.node(next).rows), [1, 2]);
}

#[tokio::test]
async fn proposals_under_way_when_the_node_dies_are_unknown() {
    let mut cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    let leader = cluster.leader(GROUP).await;
    let others = cluster.members().into_iter().filter(|node| *node != leader);
    for other in others.collect::<Vec<_>>() {
        cluster.kill(other);
    }
    // No majority any more: this one is appended here and not committed.
    let proposal = cluster.node(leader).replication.propose(GROUP, message(1, 10));
    sleep(Duration::from_millis(300)).await;
    cluster.kill(leader);
    assert_eq!(soon("the verdict", proposal).await, Err(ProposeError::Unknown));
}

#[tokio::test]
async fn a_leader_without_a_majority_answers_no_read() {
    let mut cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    let leader = cluster.leader(GROUP).await;
    let replication = cluster.node(leader).replication.clone();
    let reads = join_all((0..100).map(|_| replication.read_index(GROUP))).await;
    assert!(reads.into_iter().all(|read| read.is_ok()));
    let others = cluster.members().into_iter().filter(|node| *node != leader);
    for other in others.collect::<Vec<_>>() {
        cluster.kill(other);
    }
    let read = soon("the read to fail", replication.read_index(GROUP)).await;
    assert!(matches!(read, Err(ProposeError::NotLeader { .. })), "{read:?}");
}

#[tokio::test]
async fn the_leader_is_announced_once_per_term_and_hears_effects() {
    let cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    for number in 1..=10 {
        cluster.send(GROUP, number, 10).await;
    }
    let leader = cluster.leader(GROUP).await;
    let heard = cluster.node(leader).heard.leaderships.lock().clone();
    let terms: Vec<_> = heard
        .iter()
        .filter_map(|(_, leadership, _)| match leadership {
            Leadership::Leader { term } => Some(*term),
            Leadership::Follower { .. } => None,
        })
        .collect();
    assert_eq!(terms.len(), 1, "{heard:?}");
    assert!(*cluster.node(leader).heard.effects.lock() > 0);
    for (node, there) in &cluster.nodes {
        if *node != leader {
            assert_eq!(*there.heard.effects.lock(), 0, "effects are for the leader");
        }
    }
}

#[tokio::test]
async fn leadership_is_handed_over() {
    let cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    for round in 0..4 {
        let leader = cluster.leader(GROUP).await;
        let to = leader % 3 + 1;
        let started = Instant::now();
        until("the target to be ready", || {
            let status = cluster.node(leader).replication.status();
            status[0].heard_ms.get(&to).copied().flatten()
        })
        .await;
        let replication = &cluster.node(leader).replication;
        assert_eq!(replication.transfer(GROUP, to).await, Ok(()), "round {round}");
        cluster.send(GROUP, round + 1, 10).await;
        println!("transfer and first write on the target: {:?}", started.elapsed());
        assert_eq!(cluster.leader(GROUP).await, to);
        let again = cluster.node(leader).replication.transfer(GROUP, 9).await;
        assert!(matches!(again, Err(TransferError::NotLeader { .. })), "{again:?}");
    }
    let leader = cluster.leader(GROUP).await;
    let stranger = cluster.node(leader).replication.transfer(GROUP, 9).await;
    assert_eq!(stranger, Err(TransferError::NotAVoter { node: 9 }));
}

#[tokio::test]
async fn a_node_that_stops_in_order_hands_its_leadership_over_first() {
    // An election would take longer than the test waits.
    let election = Timings {
        election_min: PATIENCE,
        election_max: PATIENCE + Duration::from_secs(1),
        ..Timings::default()
    };
    let mut cluster = Cluster::cold(3, vec![GROUP], Limits::default());
    for node in cluster.members() {
        let config = Config { timings: election, ..cluster.config(node) };
        cluster.start_node_with(config).await;
    }
    cluster.create_queue(GROUP).await;
    cluster.send(GROUP, 1, 10).await;
    let leader = cluster.leader(GROUP).await;
    until("the leader to hear of a follower", || {
        let status = cluster.node(leader).replication.status();
        let mut heard = status[0].heard_ms.iter().filter(|(node, _)| **node != leader);
        heard.any(|(_, ms)| ms.is_some()).then_some(())
    })
    .await;
    let started = Instant::now();
    cluster.stop(leader).await;
    cluster.send(GROUP, 2, 10).await;
    println!("stop in order, to first write elsewhere: {:?}", started.elapsed());
    assert!(started.elapsed() < PATIENCE, "there was an election");
}

#[tokio::test]
async fn a_restart_of_all_nodes_finds_the_same_rows() {
    let mut cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    for number in 1..=100 {
        cluster.send(GROUP, number, 2000).await;
    }
    let leader = cluster.leader(GROUP).await;
    let before = rows(&cluster.node(leader).rows);
    // Two die, one stops in order.
    cluster.stop(1).await;
    cluster.kill(2);
    cluster.kill(3);
    for node in 1..=3 {
        cluster.start_node(node).await;
    }
    let leader = cluster.leader(GROUP).await;
    assert_eq!(rows(&cluster.node(leader).rows), before);
    cluster.send(GROUP, 101, 10).await;
    for node in 1..=3 {
        cluster.same_rows(node).await;
    }
}

#[tokio::test]
async fn a_cluster_of_one_works_alone() {
    let mut cluster = Cluster::start(1).await;
    cluster.create_queue(GROUP).await;
    cluster.send(GROUP, 1, 10).await;
    assert_eq!(cluster.node(1).replication.read_index(GROUP).await, Ok(()));
    cluster.kill(1);
    let started = Instant::now();
    cluster.start_node(1).await;
    cluster.send(GROUP, 2, 10).await;
    println!("a single node, restart to first write: {:?}", started.elapsed());
    assert_eq!(numbers(&cluster.node(1).rows), [1, 2]);
}

/// A peer that is away is called again after a pause, not at once.
#[tokio::test]
async fn a_dead_peer_is_not_called_without_a_pause() {
    let mut cluster = Cluster::start(3).await;
    cluster.create_queue(GROUP).await;
    let leader = cluster.leader(GROUP).await;
    let gone = cluster.members().into_iter().find(|node| *node != leader).expect("a follower");
    cluster.kill(gone);
    // Somebody hangs up in its place, and counts.
    let listener = open(|| std::net::TcpListener::bind(&cluster.addresses[&gone])).await;
    listener.set_nonblocking(true).expect("set");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let mut calls = 0;
    let mut sent = 0;
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        sent += 1;
        cluster.send(GROUP, sent, 100).await;
        while let Ok(Ok(_)) =
            tokio::time::timeout(Duration::from_millis(20), listener.accept()).await
        {
            calls += 1;
            assert!(calls < 200, "so many calls after {sent} messages");
        }
    }
    assert!(calls > 0, "it is called, for it may come back");
}
