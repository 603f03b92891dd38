//! Disks without space: nodes that keep back more than any disk holds.

use std::time::Duration;

use domain::{Disposition, QueueProperties, Refusal, SequenceNumber, Settlement, Span, Timestamp};
use service::{Broker, Caller, Error};
use tokio::time::sleep;

use super::harness::*;

fn for_want_of_space(error: &Error) -> Option<&[u64]> {
    match error.refusal() {
        Some(Refusal::StorageFull { on }) => Some(on),
        _ => None,
    }
}

/// Sends until a message is refused; for want of space on these nodes.
async fn refused(broker: &Broker, queue: &str) -> Vec<u64> {
    let sending = async {
        loop {
            match broker.messages().send(queue, messages(&["more"]), Caller::Edge).await {
                Ok(_) => sleep(Duration::from_millis(20)).await,
                Err(error) => match for_want_of_space(&error) {
                    Some(on) => return on.to_vec(),
                    None => panic!("{error}"),
                },
            }
        }
    };
    soon("a refusal", sending).await
}

async fn accepted(broker: &Broker, queue: &str) {
    let sending = async {
        while broker.messages().send(queue, messages(&["more"]), Caller::Edge).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("a send", sending).await;
}

#[tokio::test]
async fn quota_37_a_node_without_space_takes_nothing_in_and_gives_everything_out() {
    let (mut cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["a", "b", "c"])).await;
    drop(broker);
    cluster.kill(1);
    cluster.short_of_space.insert(1);
    cluster.start_node(1).await;
    cluster.ready(1).await;
    let broker = cluster.broker(1);
    assert_eq!(refused(&broker, "q").await, [1]);

    let scheduled = domain::NewMessage { scheduled_at: Some(Timestamp::NEVER), ..message("later") };
    let error =
        broker.messages().send("q", vec![scheduled], Caller::Edge).await.expect_err("scheduled");
    assert!(for_want_of_space(&error).is_some(), "{error}");
    let created = async {
        while broker.queues().create("new", QueueProperties::default(), None).await.is_ok() {
            broker.queues().delete("new").await.expect("deleted"); // The catalog has not heard yet.
        }
    };
    soon("a refused creation", created).await;
    let missing = broker.queues().get("new").await.expect_err("refused is not created");
    assert!(matches!(missing.refusal(), Some(Refusal::EntityNotFound { .. })), "{missing}");

    // Refused as well, and not for a gap that the first refusal left.
    let mut sender = broker.messages().sender("q", None).await.expect("a sender");
    for serial in 1..=3 {
        let submitted = sender.submit(serial, false, Ok(messages(&["piped"]))).await;
        submitted.expect("submitted");
    }
    for _ in 1..=3 {
        let (_, result) = soon("an answer", sender.next()).await.expect("three are under way");
        let error = result.expect_err("there is no space");
        assert!(for_want_of_space(&error).is_some(), "{error}");
    }

    let peeked =
        broker.messages().peek("q", MAIN, SequenceNumber(0), 3, false).await.expect("peeked");
    assert_eq!(bodies(&peeked), ["a", "b", "c"]);
    let got = lock(&broker, "q", MAIN, 3).await;
    assert_eq!(bodies(&got), ["a", "b", "c"]);
    let dead = Disposition::DeadLetter {
        reason: Some("why".into()),
        description: None,
        properties: Default::default(),
    };
    let settlements = got.iter().zip([Disposition::Complete, dead, Disposition::Complete]);
    let settlements = settlements.map(|(message, disposition)| Settlement {
        token: message.delivery.lock.expect("a lock").token,
        disposition,
    });
    let settled =
        broker.messages().settle("q", MAIN, settlements.collect(), true, Caller::Edge).await;
    assert_eq!(settled.expect("settled"), []);
    assert_eq!(bodies(&lock(&broker, "q", DEAD, 3).await), ["b"]);
    let updated = broker.queues().update("q", |queue| {
        queue.lock_duration = Span::from_secs(30);
        Ok(())
    });
    updated.await.expect("updated");

    drop((broker, sender));
    cluster.kill(1);
    cluster.short_of_space.clear();
    cluster.start_node(1).await;
    accepted(&cluster.broker(1), "q").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quota_37_a_leader_without_space_hands_over_while_a_majority_has_some() {
    let mut cluster = Cluster::start(3, 2).await;
    let broker = cluster.broker(3);
    soon("a queue", broker.queues().create("q", QueueProperties::default(), None))
        .await
        .expect("created");
    let (_, group) = cluster.leader_of("q").await;
    cluster.kill(1);
    cluster.short_of_space.insert(1);
    cluster.start_node(1).await;
    cluster.ready(1).await;

    // It may lead: for a moment.
    soon("node 1 to lead", async {
        while broker.cluster().transfer_leader(group, 1).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    soon("another to lead", async {
        while broker.queues().get("q").await.expect("the queue").leader == Some(1) {
            accepted(&broker, "q").await;
        }
    })
    .await;
    send(&cluster.broker(1), "q", messages(&["through node 1"])).await;
    let status = broker.cluster().status(false).await;
    let of = |node: u64| status.nodes.iter().find(|status| status.node == node).expect("known");
    assert!(of(1).disk.expect("told").low && of(1).note.contains("nearly full"), "{status:?}");
    assert!(!of(3).disk.expect("told").low, "{status:?}");

    // Two of three without space: entries would still find a majority, but not for long.
    cluster.kill(2);
    cluster.short_of_space.insert(2);
    cluster.start_node(2).await;
    cluster.ready(2).await;
    let on = refused(&broker, "q").await;
    assert!(on.iter().all(|node| [1, 2].contains(node)), "{on:?}");

    cluster.kill(2);
    cluster.short_of_space.remove(&2);
    cluster.start_node(2).await;
    accepted(&broker, "q").await;
}
