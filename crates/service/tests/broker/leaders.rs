//! Three nodes: clients of any node are served, whoever leads and whoever dies.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{
    Acquire, Command, Disposition, Entry, Key, Outcome, QueueId, QueueProperties, Row, Rows,
    Settlement,
};
use service::{Caller, Next, Received, Receiver};
use tokio::time::{sleep, timeout};

use super::harness::*;

/// A node other than the leader, to which its clients speak.
fn another(than: u64) -> u64 {
    than % 3 + 1
}

async fn three(queue: &str) -> Cluster {
    let cluster = Cluster::start(3, 2).await;
    let broker = cluster.broker(1);
    soon("a queue", broker.queues().create(queue, QueueProperties::default(), None))
        .await
        .expect("created");
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_serves_every_queue() {
    let cluster = three("q").await;
    for node in 1..=3 {
        let broker = cluster.broker(node);
        let body = format!("from {node}");
        send(&broker, "q", messages(&[&body])).await;
        let peeked = broker.messages().peek("q", MAIN, domain::SequenceNumber(0), 10, false).await;
        assert_eq!(bodies(&peeked.expect("peeked")), [body.as_str()]);
        let got = lock(&broker, "q", MAIN, 5).await;
        assert_eq!(bodies(&got), [body.as_str()]);
        let token = got[0].delivery.lock.expect("a lock").token;
        let complete = vec![Settlement { token, disposition: Disposition::Complete }];
        // LOCK-17: from another connection than the receiving one, even of another node.
        let other = cluster.broker(another(node));
        let refused = other
            .messages()
            .settle("q", MAIN, complete, true, Caller::Edge)
            .await
            .expect("settled");
        assert_eq!(refused, []);
    }
    let broker = cluster.broker(2);
    // A clock is compared within a second of its node's start.
    let status = soon("three nodes that are well", async {
        loop {
            let status = broker.cluster().status(false).await;
            if status.nodes.iter().all(|node| node.reachable && node.note.is_empty()) {
                return status;
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    let status = status.await;
    assert_eq!((status.nodes.len(), status.groups.len()), (3, 3));
    assert!(status.groups.iter().all(|group| group.leader.is_some() && group.replicas.len() == 3));
}

/// MSG-10: a leader's end neither loses, doubles nor reorders what a pipeline submits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn msg_10_a_pipeline_survives_its_leader() {
    let mut cluster = three("q").await;
    let (leader, group) = cluster.leader_of("q").await;
    let edge = another(leader);
    let broker = cluster.broker(edge);
    let mut sender = broker.messages().sender("q", None).await.expect("a sender");
    let (mut submitted, mut answered) = (0_u64, 0_u64);
    let mut last = 0;
    for step in 0..150 {
        for _ in 0..4 {
            submitted += 1;
            let batch = vec![message(&format!("{submitted:05}"))];
            sender.submit(submitted, false, Ok(batch)).await.expect("submitted");
        }
        if step == 50 {
            let moved = broker.cluster().transfer_leader(group, edge).await;
            moved.expect("leadership moves");
        }
        if step == 100 {
            let (leader, _) = cluster.leader_of("q").await;
            let next = (1..=3).find(|node| ![leader, edge].contains(node)).expect("a third");
            if leader != edge {
                cluster.kill(leader);
            } else {
                cluster.kill(next);
            }
        }
        while sender.waiting() > 40 {
            let (serial, result) = soon("an answer", sender.next()).await.expect("an answer");
            answered += 1;
            assert_eq!(serial, answered);
            let number = result.expect("stored")[0].0;
            assert!(number > last, "{number} after {last}");
            last = number;
        }
    }
    while let Some((serial, result)) = soon("an answer", sender.next()).await {
        answered += 1;
        assert_eq!(serial, answered);
        result.expect("stored");
    }
    assert_eq!(answered, submitted);
    let counts = counted(&broker, "q", |_| true).await;
    assert_eq!(counts.accepted, submitted, "nothing twice");
    let mut seen = Vec::new();
    while seen.len() < submitted as usize {
        let got =
            broker.messages().receive("q", MAIN, DELETE, 1000, PATIENCE).await.expect("received");
        seen.extend(bodies(&got));
    }
    assert!(seen.is_sorted(), "in the order submitted");
}

/// SEND-8, ERR-24: what a sender gave up for want of a leader does not stand in the way of what it
/// sends once there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn send_8_a_sender_outlives_an_outage() {
    let impatient = |config: &mut service::Config| config.request_timeout = Duration::from_secs(2);
    let mut cluster = Cluster::start_with(3, 1, impatient).await;
    let broker = cluster.broker(1);
    soon("a queue", broker.queues().create("q", QueueProperties::default(), None))
        .await
        .expect("created");
    let mut sender = broker.messages().sender("q", None).await.expect("a sender");
    let mut serial = 0;
    let mut send = async |sender: &mut service::Sender| {
        serial += 1;
        let batch = vec![message(&serial.to_string())];
        sender.submit(serial, false, Ok(batch)).await?;
        soon("an answer", sender.next()).await.expect("an answer").1
    };
    send(&mut sender).await.expect("stored");
    for node in [2, 3] {
        cluster.kill(node);
    }
    for _ in 0..2 {
        send(&mut sender).await.expect_err("there is no majority");
    }
    for node in [2, 3] {
        cluster.start_node(node).await;
        cluster.ready(node).await;
    }
    let stored = soon("a sender that is served again", async {
        loop {
            match send(&mut sender).await {
                Ok(sequences) => return sequences,
                // No leader yet.
                Err(error) => assert!(error.refusal().is_none(), "{error}"),
            }
        }
    });
    stored.await;
    send(&mut sender).await.expect("and stays so");
}

/// MSG-7: what a request says of its messages is bounded before it gets into a log, whose entries go
/// to every replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn msg_7_a_settlement_too_large_for_the_log_is_refused() {
    let cluster = three("q").await;
    let (leader, _) = cluster.leader_of("q").await;
    let settlement = |sequence| {
        let note = domain::Value::String("x".repeat(30 << 10));
        let properties = domain::Properties::from([("note".into(), note)]);
        let token = domain::LockToken { sequence: domain::SequenceNumber(sequence), nonce: 1 };
        Settlement { token, disposition: Disposition::Abandon { properties } }
    };
    for node in [leader, another(leader)] {
        let broker = cluster.broker(node);
        let settlements = (1..=1000).map(settlement).collect();
        let settled = broker.messages().settle("q", MAIN, settlements, false, Caller::Edge).await;
        let error = settled.expect_err("30 MB");
        assert!(
            matches!(error.refusal(), Some(domain::Refusal::MessageSizeExceeded { .. })),
            "{error}"
        );
        // A receiver's are brought in as many requests as they take.
        let receiver = broker.messages().receiver("q", MAIN, LOCK, 0).await.expect("a receiver");
        let refused = soon("an answer", receiver.settle((1..=100).map(settlement).collect())).await;
        let positions: Vec<u32> = refused.expect("answered").iter().map(|(at, _)| *at).collect();
        assert_eq!(positions, (0..100).collect::<Vec<_>>(), "nothing of it was locked");
        send(&broker, "q", messages(&["goes on"])).await;
    }
}

/// LOCK-23: a receiver goes on with the new leader; what it holds stays locked, and what did not
/// arrive comes again uncounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_23_a_receiver_survives_its_leader() {
    let mut cluster = three("q").await;
    let (leader, _) = cluster.leader_of("q").await;
    let broker = cluster.broker(another(leader));
    let mut receiver = broker.messages().receiver("q", MAIN, LOCK, 1000).await.expect("a receiver");
    let total = 300;
    let producer = {
        let broker = broker.clone();
        tokio::spawn(async move {
            for n in 0..total {
                send(&broker, "q", messages(&[&format!("{n:04}")])).await;
            }
        })
    };
    let mut seen = BTreeSet::new();
    let mut held = Vec::new();
    while seen.len() < total {
        if seen.len() > 100 && cluster.nodes.contains_key(&leader) {
            cluster.kill(leader);
        }
        match soon("messages", receiver.next()).await.expect("messages") {
            Next::Messages(messages) => {
                for message in messages {
                    assert_eq!(message.delivery.delivery_count, 0, "nothing was counted");
                    assert!(seen.insert(message.delivery.sequence), "delivered twice");
                    held.push(message);
                }
            }
            Next::Drained | Next::Accepted { .. } | Next::Rose { .. } => {
                panic!("nobody asked for that")
            }
        }
        while held.len() > 20 {
            let settlements = held.drain(..10).map(|message| Settlement {
                token: message.delivery.lock.expect("a lock").token,
                disposition: Disposition::Complete,
            });
            let settled = receiver.settle(settlements.collect());
            assert_eq!(soon("an outcome", settled).await.expect("settled"), []);
        }
    }
    soon("the producer", producer).await.expect("all sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn err_24_without_a_majority_nothing_is_claimed() {
    let mut cluster = three("q").await;
    let (leader, _) = cluster.leader_of("q").await;
    let survivor = another(leader);
    let broker = cluster.broker(survivor);
    for node in (1..=3).filter(|node| *node != survivor) {
        cluster.kill(node);
    }
    sleep(Duration::from_millis(200)).await;
    let error =
        broker.messages().send("q", messages(&["a"]), Caller::Edge).await.expect_err("no majority");
    let refused = error.refusal();
    assert!(refused.is_none(), "not refused, but not done or perhaps done: {refused:?}");
    let stale = broker.messages().peek("q", MAIN, domain::SequenceNumber(0), 5, true).await;
    assert_eq!(stale.expect("its own rows"), []);
}

/// LOCK-20: a leader granted a message and fell silent before it told the edge. The next one learns
/// from the edge what arrived, and gives back the rest at once, uncounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_20_a_grant_that_was_lost_on_its_way_is_released_uncounted() {
    let cluster = three("q").await;
    let (leader, group) = cluster.leader_of("q").await;
    let broker = cluster.broker(another(leader));
    let mut receiver = broker.messages().receiver("q", MAIN, LOCK, 1).await.expect("a receiver");
    send(&broker, "q", messages(&["a"])).await;
    let held = soon("a message", one(&mut receiver)).await;
    send(&broker, "q", messages(&["b"])).await;

    let log = &cluster.logs[&leader];
    let entity = broker.queues().get("q").await.expect("the queue").entity;
    let queue = QueueId::main(entity);
    let Some(Row::Lock(lock)) = log.rows(group).get(&Key::Lock(queue, held.delivery.sequence))
    else {
        panic!("the message is locked")
    };
    let grant = Acquire { queue, receiver: lock.receiver, count_max: 1, bytes_max: u32::MAX };
    let entry = Entry {
        at: broker.cluster().now_here().0,
        seed: [7; 16],
        commands: vec![Command::Acquire(grant)],
    };
    let granted = log.propose(group, wire::encode_entry(&entry)).await.expect("committed");
    assert!(
        matches!(&granted[..], [Outcome::Acquired { deliveries, .. }] if deliveries.len() == 1)
    );

    broker.cluster().transfer_leader(group, another(leader)).await.expect("leadership moves");
    receiver.add_credit(1);
    // Its lock lasts longer than this waits.
    let again = soon("the lost message", one(&mut receiver)).await;
    assert_eq!(
        (bodies(std::slice::from_ref(&again)), again.delivery.delivery_count),
        (vec!["b".into()], 0)
    );
    // What did arrive is still held.
    let complete = |held: &Received| Settlement {
        token: held.delivery.lock.expect("a lock").token,
        disposition: Disposition::Complete,
    };
    let settled = receiver.settle(vec![complete(&held), complete(&again)]).await;
    assert_eq!(settled.expect("settled"), []);
}

async fn one(receiver: &mut Receiver) -> Received {
    match receiver.next().await {
        Ok(Next::Messages(messages)) if messages.len() == 1 => messages[0].clone(),
        other => panic!("{other:?}"),
    }
}

/// LOCK-20: what was abandoned may come again before the abandoning is confirmed; it has arrived all
/// the same, and a change of leader leaves it to its holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_20_what_came_again_after_an_abandon_is_not_released() {
    let cluster = three("q").await;
    let (leader, group) = cluster.leader_of("q").await;
    let broker = cluster.broker(another(leader));
    let mut receiver = broker.messages().receiver("q", MAIN, LOCK, 10).await.expect("a receiver");
    send(&broker, "q", messages(&["a"])).await;
    let settle = |held: &Received, disposition| {
        let token = held.delivery.lock.expect("a lock").token;
        vec![Settlement { token, disposition }]
    };
    let held = soon("a message", one(&mut receiver)).await;
    let abandon = Disposition::Abandon { properties: Default::default() };
    let confirmed = receiver.settle(settle(&held, abandon));
    let held = soon("the message again", one(&mut receiver)).await;
    assert_eq!(held.delivery.delivery_count, 1);
    assert_eq!(confirmed.await.expect("abandoned"), []);

    broker.cluster().transfer_leader(group, another(leader)).await.expect("leadership moves");
    let again = timeout(Duration::from_secs(2), receiver.next()).await;
    assert!(again.is_err(), "it is held, and came again: {again:?}");
    let completed = receiver.settle(settle(&held, Disposition::Complete)).await;
    assert_eq!(completed.expect("completed"), []);
}
