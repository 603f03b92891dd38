//! Sending, receiving, settling.

use std::time::Duration;

use domain::{
    Disposition, NewMessage, QueueProperties, Refusal, SequenceNumber, SessionId, Settlement,
};
use service::{Caller, ErrorKind, Next, Received};
use tokio::time::sleep;

use super::harness::*;

fn settled(message: &Received, disposition: Disposition) -> Settlement {
    Settlement { token: message.delivery.lock.expect("a lock").token, disposition }
}

fn complete(messages: &[Received]) -> Vec<Settlement> {
    messages.iter().map(|message| settled(message, Disposition::Complete)).collect()
}

#[tokio::test]
async fn lock_8_a_message_is_stored_delivered_and_completed_once() {
    let (_cluster, broker) = one_queue("orders", |_| ()).await;
    let sent = send(&broker, "Orders", messages(&["a", "b", "c"])).await;
    assert_eq!(sent, [1, 2, 3].map(SequenceNumber));
    let got = lock(&broker, "orders", MAIN, 2).await;
    assert_eq!(bodies(&got), ["a", "b"]);
    let refused = broker
        .messages()
        .settle("orders", MAIN, complete(&got), false, Caller::Edge)
        .await
        .expect("settled");
    assert_eq!(refused, []);
    let again = broker
        .messages()
        .settle("orders", MAIN, complete(&got[..1]), false, Caller::Edge)
        .await
        .expect("answered");
    assert!(matches!(again[..], [(0, Refusal::MessageLockLost { .. })]), "{again:?}");
    let counts = counted(&broker, "orders", |_| true).await;
    assert_eq!((counts.accepted, counts.active, counts.completed), (3, 1, 2));
}

#[tokio::test]
async fn lock_24_a_receive_waits_and_an_empty_one_is_no_error() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    assert_eq!(lock(&broker, "q", MAIN, 10).await, []);
    let waited = broker.messages().receive("q", MAIN, LOCK, 10, Duration::from_millis(200)).await;
    assert_eq!(waited.expect("no error"), []);
    let waiting = {
        let broker = broker.clone();
        tokio::spawn(async move { broker.messages().receive("q", MAIN, LOCK, 10, PATIENCE).await })
    };
    sleep(Duration::from_millis(100)).await;
    send(&broker, "q", messages(&["late"])).await;
    let got = soon("the waiting receive", waiting).await.expect("no panic").expect("received");
    assert_eq!(bodies(&got), ["late"]);
}

#[tokio::test]
async fn lock_2_receive_and_delete_leaves_nothing_behind() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["a", "b"])).await;
    let got = broker.messages().receive("q", MAIN, DELETE, 10, NOW).await.expect("received");
    assert_eq!(bodies(&got), ["a", "b"]);
    assert!(got.iter().all(|message| message.delivery.lock.is_none()));
    let counts = counted(&broker, "q", |_| true).await;
    assert_eq!((counts.active, counts.completed), (0, 2));
}

#[tokio::test]
async fn msg_10_a_pipeline_is_stored_in_the_order_submitted() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let mut sender = broker.messages().sender("q", None).await.expect("a sender");
    for serial in 1..=50 {
        let batch = vec![message(&format!("{serial}a")), message(&format!("{serial}b"))];
        sender.submit(serial, false, Ok(batch)).await.expect("submitted");
    }
    for expected in 1..=50 {
        let (serial, result) = soon("an answer", sender.next()).await.expect("an answer");
        let first = 2 * expected - 1;
        assert_eq!(serial, expected);
        assert_eq!(result.expect("sent"), [first, first + 1].map(SequenceNumber));
    }
    assert!(sender.next().await.is_none());
}

/// A refused batch is answered in its turn and leaves no gap for the next.
#[tokio::test]
async fn send_8_a_refused_batch_leaves_no_gap_in_a_pipeline() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let mut sender = broker.messages().sender("q", Some(99)).await.expect("a sender");
    let refusal = Refusal::Argument { what: "property", why: "no".into() };
    sender.submit(1, false, Ok(messages(&["a"]))).await.expect("submitted");
    sender.submit(2, false, Err(refusal.clone())).await.expect("submitted");
    sender.submit(3, false, Ok(Vec::new())).await.expect("submitted");
    sender.submit(4, false, Ok(messages(&["b"]))).await.expect("submitted");
    let mut answers = Vec::new();
    while let Some((_, result)) = soon("an answer", sender.next()).await {
        answers.push(result.map_err(|error| error.kind));
    }
    assert_eq!(answers[0], Ok(vec![SequenceNumber(1)]));
    assert_eq!(answers[1], Err(ErrorKind::Refused(refusal)));
    assert!(matches!(&answers[2], Err(ErrorKind::Refused(Refusal::ArgumentOutOfRange { .. }))));
    assert_eq!(answers[3], Ok(vec![SequenceNumber(2)]));
    // SEND-8: the same serials again are recognised, on another stream too.
    let mut again = broker.messages().sender("q", Some(99)).await.expect("a sender");
    again.submit(4, true, Ok(messages(&["b"]))).await.expect("submitted");
    let (_, result) = soon("an answer", again.next()).await.expect("an answer");
    assert_eq!(result.expect("the first outcome"), [SequenceNumber(2)]);
}

/// A greeting, an empty batch, makes its producer known, repeated or not: what follows is done, and
/// what was sent behind the first one and arrives late is recognised.
#[tokio::test]
async fn send_8_behind_a_repeated_greeting_everything_is_stored_once() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let stream = async |retry| {
        let mut sender = broker.messages().sender("q", Some(99)).await.expect("a sender");
        sender.submit(1, retry, Ok(Vec::new())).await.expect("submitted");
        sender.submit(2, retry, Ok(messages(&["a"]))).await.expect("submitted");
        let (_, greeted) = soon("an answer", sender.next()).await.expect("an answer");
        let (_, sent) = soon("an answer", sender.next()).await.expect("an answer");
        (greeted.expect_err("there is no message in it").kind, sent.expect("sent"))
    };
    for (what, retry) in [("the repeat", true), ("the first, late", false), ("again", true)] {
        let (greeted, sent) = stream(retry).await;
        let is_empty = matches!(greeted, ErrorKind::Refused(Refusal::ArgumentOutOfRange { .. }));
        assert!(is_empty, "{what}: {greeted:?}");
        assert_eq!(sent, [SequenceNumber(1)], "{what}");
    }
}

#[tokio::test]
async fn lock_7_credit_is_served_as_messages_come() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let mut receiver = broker.messages().receiver("q", MAIN, LOCK, 3).await.expect("a receiver");
    send(&broker, "q", messages(&["a", "b", "c", "d"])).await;
    let mut got = Vec::new();
    while got.len() < 3 {
        match soon("messages", receiver.next()).await.expect("messages") {
            Next::Messages(more) => got.extend(more),
            Next::Drained | Next::Accepted { .. } | Next::Rose { .. } => {
                panic!("nobody asked for that")
            }
        }
    }
    assert_eq!(bodies(&got), ["a", "b", "c"]);
    assert_eq!(receiver.credit(), 0);
    assert_eq!(soon("an outcome", receiver.settle(complete(&got))).await.expect("settled"), []);
    receiver.add_credit(5);
    let Next::Messages(rest) = soon("the rest", receiver.next()).await.expect("messages") else {
        panic!("nobody asked to drain");
    };
    assert_eq!(bodies(&rest), ["d"]);
    receiver.drain();
    assert_eq!(soon("the end", receiver.next()).await.expect("drained"), Next::Drained);
}

/// LOCK-20: what was granted and never handed over goes back without counting a delivery.
#[tokio::test]
async fn lock_20_a_dropped_receiver_gives_back_what_nobody_took() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["a", "b"])).await;
    let receiver = broker.messages().receiver("q", MAIN, LOCK, 10).await.expect("a receiver");
    counted(&broker, "q", |_| true).await;
    let held = || async { broker.queues().get("q").await.expect("the queue").info.available };
    soon("the grant", async {
        while held().await != 0 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    drop(receiver);
    let got = broker.messages().receive("q", MAIN, LOCK, 10, PATIENCE).await.expect("received");
    let got = match got.len() {
        1 => [got, lock(&broker, "q", MAIN, 10).await].concat(),
        _ => got,
    };
    assert_eq!(bodies(&got), ["a", "b"]);
    assert!(got.iter().all(|message| message.delivery.delivery_count == 0));
}

#[tokio::test]
async fn dlq_5_defer_1_settlements_move_messages() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["dead", "later", "again"])).await;
    let got = lock(&broker, "q", MAIN, 3).await;
    let reason = Disposition::DeadLetter {
        reason: Some("bad".into()),
        description: None,
        properties: Default::default(),
    };
    let later = Disposition::Defer { properties: Default::default() };
    let again = Disposition::Abandon { properties: Default::default() };
    let settlements =
        vec![settled(&got[0], reason), settled(&got[1], later), settled(&got[2], again)];
    broker.messages().settle("q", MAIN, settlements, true, Caller::Edge).await.expect("settled");
    assert_eq!(bodies(&lock(&broker, "q", DEAD, 5).await), ["dead"]);
    let back = lock(&broker, "q", MAIN, 5).await;
    assert_eq!((bodies(&back), back[0].delivery.delivery_count), (vec!["again".into()], 1));
    let deferred = broker
        .messages()
        .receive_deferred("q", MAIN, LOCK, vec![SequenceNumber(2)])
        .await
        .expect("received");
    assert_eq!(bodies(&deferred), ["later"]);
    let nothing =
        broker.messages().receive_deferred("q", MAIN, LOCK, Vec::new()).await.expect("DEFER-4");
    assert_eq!(nothing, []);
    let unknown =
        broker.messages().receive_deferred("q", MAIN, DELETE, vec![SequenceNumber(77)]).await;
    let unknown = unknown.expect_err("no such number");
    assert!(matches!(unknown.refusal(), Some(Refusal::MessageNotFound { .. })), "{unknown}");
}

#[tokio::test]
async fn peek_1_batch_1_browsing_changes_nothing_and_deleting_does() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["a", "b", "c"])).await;
    for stale in [false, true] {
        let peeked =
            broker.messages().peek("q", MAIN, SequenceNumber(2), 250, stale).await.expect("peeked");
        assert_eq!(bodies(&peeked), ["b", "c"]);
        assert!(peeked.iter().all(|message| message.delivery.lock.is_none()));
    }
    // BATCH-2: without a cut-off, what came in the same millisecond would stay.
    let before = Some(domain::Timestamp::NEVER);
    assert_eq!(broker.messages().delete_batch("q", MAIN, 2, before).await.expect("deleted"), 2);
    assert_eq!(bodies(&lock(&broker, "q", MAIN, 5).await), ["c"]);
    // QUOTA-10.
    let many = broker.messages().delete_batch("q", MAIN, 4001, None).await.expect_err("too many");
    assert!(matches!(many.refusal(), Some(Refusal::ArgumentOutOfRange { .. })), "{many}");
}

/// One command deletes some 1,300 messages, 450 in a session.
#[tokio::test]
async fn batch_5_batch_8_as_many_are_deleted_as_were_asked_for() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    broker
        .queues()
        .create("s", QueueProperties { requires_session: true, ..QueueProperties::default() }, None)
        .await
        .expect("created");
    let many = |queue: &str| -> Vec<NewMessage> {
        let session_id = (queue == "s").then(|| "a".to_owned());
        let of = |n| NewMessage { session_id: session_id.clone(), ..message(&format!("{n}")) };
        (0..1500).map(of).collect()
    };
    let accepting = broker.sessions().accept("s", MAIN, SessionId::from("a"), LOCK);
    let accepted = accepting.await.expect("accepted");
    let before = Some(domain::Timestamp::NEVER);
    for queue in ["q", "s"] {
        send(&broker, queue, many(queue)).await;
        send(&broker, queue, many(queue)).await;
        let mut deleted = Vec::new();
        for count in [1, 2500, 4000, 4000] {
            deleted.push(match queue {
                "s" => {
                    let token = accepted.token.clone();
                    broker.sessions().delete_batch(queue, token, count, before).await
                }
                _ => broker.messages().delete_batch(queue, MAIN, count, before).await,
            });
        }
        let deleted: Vec<u32> = deleted.into_iter().map(|part| part.expect("deleted")).collect();
        assert_eq!(deleted, [1, 2500, 499, 0], "{queue}");
    }
}

#[tokio::test]
async fn quota_6_what_is_too_large_is_refused_whole() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let large = "x".repeat(300 * 1024);
    let error = broker.messages().send("q", messages(&["small", &large]), Caller::Edge).await;
    let error = error.expect_err("256 KiB is the queue's limit");
    assert!(matches!(error.refusal(), Some(Refusal::MessageSizeExceeded { .. })), "{error}");
    let batch: Vec<_> =
        (0..5).map(|n| message(&format!("{n}{}", "x".repeat(250 * 1024)))).collect();
    let error = broker
        .messages()
        .send("q", batch, Caller::Edge)
        .await
        .expect_err("1 MiB is the batch's limit");
    assert!(matches!(error.refusal(), Some(Refusal::MessageSizeExceeded { .. })), "{error}");
    assert_eq!(counted(&broker, "q", |_| true).await.accepted, 0);
}

#[tokio::test]
async fn err_1_a_missing_queue_is_named() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let error = broker
        .messages()
        .send("absent", messages(&["a"]), Caller::Edge)
        .await
        .expect_err("no queue");
    assert!(matches!(error.refusal(), Some(Refusal::EntityNotFound { name }) if name == "absent"));
    assert_eq!(&*error.entity, "absent");
    let error = broker.messages().receiver("absent", MAIN, LOCK, 1).await.err().expect("no queue");
    assert!(matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })), "{error}");
}
