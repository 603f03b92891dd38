//! Transactions through a node's edge (TX): gathered here, known to nobody, committed as one.

use std::time::Duration;

use domain::{
    CancelScheduled, Disposition, EntityId, LockToken, NewMessage, NewRule, Operation, Performed,
    QueueId, Refusal, Renew, Send, Settle, Settlement, Span, SubQueue, SubscriptionProperties,
    TopicProperties,
};
use service::{Broker, Caller, Error, Reach, Received, Transaction};
use tokio::time::sleep;

use super::harness::*;

const UNROUTED: EntityId = EntityId(0);

fn sending(messages: Vec<NewMessage>) -> Operation {
    Operation::Send(Send { origin: None, entity: UNROUTED, messages })
}

fn token(message: &Received) -> LockToken {
    message.delivery.lock.expect("a lock").token
}

fn settling(messages: &[Received], disposition: Disposition) -> Operation {
    let settlement =
        |message| Settlement { token: token(message), disposition: disposition.clone() };
    let settlements = messages.iter().map(settlement).collect();
    let queue = QueueId { entity: UNROUTED, sub: SubQueue::Main };
    Operation::Settle(Settle { origin: None, queue, settlements, atomic: true })
}

async fn perform(transaction: &mut Transaction, entity: &str, operation: Operation) {
    let performed =
        soon("an operation", transaction.perform(&Reach::ViaFirst, entity, None, operation)).await;
    performed.expect("the operation is part of the transaction");
}

async fn commit(transaction: Transaction) -> Result<Vec<Performed>, Error> {
    soon("a commit", transaction.commit(Caller::Edge)).await
}

fn refusal(result: Result<impl Sized, Error>) -> &'static str {
    match result {
        Ok(_) => "",
        Err(error) => error.refusal().expect("a refusal").name(),
    }
}

async fn completed(broker: &Broker, message: &Received) -> Vec<&'static str> {
    let settlement = Settlement { token: token(message), disposition: Disposition::Complete };
    let settled = broker.messages().settle("q", MAIN, vec![settlement], false, Caller::Edge).await;
    settled.expect("settled").iter().map(|(_, refusal)| refusal.name()).collect()
}

#[tokio::test]
async fn tx_2_nothing_is_seen_before_the_commit_and_all_after() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["a", "b"])).await;
    let got = lock(&broker, "q", MAIN, 2).await;
    let mut transaction = broker.transactions().begin();
    perform(&mut transaction, "q", settling(&got[..1], Disposition::Complete)).await;
    perform(&mut transaction, "q", sending(messages(&["c"]))).await;
    let counts = broker.queues().get("q").await.expect("the queue").info.counts;
    assert_eq!((counts.active, counts.completed, counts.accepted), (2, 0, 2));
    let performed = commit(transaction).await.expect("committed");
    let sequences = vec![domain::SequenceNumber(3)];
    assert_eq!(performed, [Performed::Done, Performed::Sent { sequences }]);
    let counts = broker.queues().get("q").await.expect("the queue").info.counts;
    assert_eq!((counts.active, counts.completed, counts.accepted), (2, 1, 3));
    assert_eq!(bodies(&lock(&broker, "q", MAIN, 5).await), ["c"]);
}

/// LOCK-7: a receiver whose credit waits is served by the commit.
#[tokio::test]
async fn tx_10_a_waiting_receiver_gets_what_is_committed() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let waiting = tokio::spawn({
        let broker = broker.clone();
        async move { broker.messages().receive("q", MAIN, LOCK, 1, Duration::from_secs(20)).await }
    });
    sleep(Duration::from_millis(50)).await;
    let mut transaction = broker.transactions().begin();
    perform(&mut transaction, "q", sending(messages(&["a"]))).await;
    assert!(!waiting.is_finished());
    commit(transaction).await.expect("committed");
    let got = soon("the message", waiting).await.expect("joined").expect("received");
    assert_eq!(bodies(&got), ["a"]);
}

/// TX-7, TX-8: what is dropped was never asked; the lock is held by the same token.
#[tokio::test]
async fn tx_7_tx_8_a_dropped_transaction_is_rolled_back() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["a"])).await;
    let got = lock(&broker, "q", MAIN, 1).await;
    let mut transaction = broker.transactions().begin();
    perform(&mut transaction, "q", settling(&got, Disposition::Complete)).await;
    perform(&mut transaction, "q", sending(messages(&["b"]))).await;
    assert_eq!(completed(&broker, &got[0]).await, ["MessageLockLost"]);
    drop(transaction);
    assert_eq!(completed(&broker, &got[0]).await, [""; 0]);
    let counts = broker.queues().get("q").await.expect("the queue").info.counts;
    assert_eq!((counts.active, counts.accepted), (0, 1));
}

/// TX-9: pending in one, it is lost to all others, whatever the way; they go on without it.
#[tokio::test]
async fn tx_9_a_pending_settlement_is_nobody_elses() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["a", "b"])).await;
    let got = lock(&broker, "q", MAIN, 2).await;
    let mut first = broker.transactions().begin();
    perform(&mut first, "q", settling(&got[..1], Disposition::Complete)).await;
    let mut second = broker.transactions().begin();
    for operation in
        [settling(&got, Disposition::Complete), settling(&got[..1], Disposition::Release)]
    {
        assert_eq!(
            refusal(second.perform(&Reach::ViaFirst, "q", None, operation).await),
            "MessageLockLost"
        );
    }
    // Twice in one transaction is once too often as well.
    let again = settling(&got[..1], Disposition::Complete);
    assert_eq!(refusal(first.perform(&Reach::ViaFirst, "q", None, again).await), "MessageLockLost");
    // One that never asked whether it may.
    let mut blind = broker.transactions().begin();
    blind
        .repeat(&Reach::ViaFirst, "q", None, settling(&got[..1], Disposition::Complete))
        .await
        .expect("unchecked");
    assert_eq!(refusal(commit(blind).await), "TransactionException");
    perform(&mut second, "q", settling(&got[1..], Disposition::Complete)).await;
    commit(second).await.expect("committed");
    commit(first).await.expect("committed");
    let counts = broker.queues().get("q").await.expect("the queue").info.counts;
    assert_eq!((counts.active, counts.completed), (0, 2));
}

/// TX-9: checked when issued, and again at the commit.
#[tokio::test]
async fn tx_9_a_lock_that_lapses_fails_the_commit_as_a_whole() {
    let short = |properties: &mut domain::QueueProperties| {
        properties.lock_duration = Span::from_secs(5);
    };
    let (_cluster, broker) = one_queue("q", short).await;
    send(&broker, "q", messages(&["a"])).await;
    let got = lock(&broker, "q", MAIN, 1).await;
    let mut transaction = broker.transactions().begin();
    perform(&mut transaction, "q", sending(messages(&["b"]))).await;
    perform(&mut transaction, "q", settling(&got, Disposition::Complete)).await;
    broker.cluster().advance_clock(Span::from_secs(6)).await.expect("advanced");
    let error = commit(transaction).await.expect_err("the lock is lost");
    let Some(Refusal::TransactionRolledBack { operation: 1, cause }) = error.refusal() else {
        panic!("{error}")
    };
    assert_eq!(cause.0.name(), "MessageLockLost");
    assert_eq!(counted(&broker, "q", |counts| counts.active == 1).await.accepted, 1);
    // By now it is refused when it is issued.
    let mut late = broker.transactions().begin();
    counted(&broker, "q", |_| true).await;
    let operation = settling(&got, Disposition::Complete);
    assert_eq!(
        refusal(late.perform(&Reach::ViaFirst, "q", None, operation).await),
        "MessageLockLost"
    );
}

#[tokio::test]
async fn tx_4_tx_5_what_a_transaction_may_hold() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    broker
        .queues()
        .create("other", domain::QueueProperties::default(), None)
        .await
        .expect("created");
    let mut transaction = broker.transactions().begin();
    let many = |count: u32| sending((0..count).map(|n| message(&n.to_string())).collect());
    perform(&mut transaction, "q", many(60)).await;
    let refused = transaction.perform(&Reach::ViaFirst, "q", None, many(41)).await;
    assert_eq!(refusal(refused), "TransactionSizeExceededException");
    assert_eq!(
        refusal(transaction.perform(&Reach::ViaFirst, "q", None, many(0)).await),
        "ArgumentOutOfRangeException"
    );
    assert_eq!(
        refusal(transaction.perform(&Reach::ViaFirst, "none", None, many(1)).await),
        "MessagingEntityNotFound"
    );
    let never = Renew {
        origin: None,
        queue: QueueId { entity: UNROUTED, sub: SubQueue::Main },
        tokens: vec![LockToken { sequence: domain::SequenceNumber(1), nonce: 1 }],
    };
    let refused = transaction.perform(&Reach::ViaFirst, "q", None, Operation::Renew(never)).await;
    assert_eq!(refusal(refused), "MessageLockLost");
    // None of what was refused is part of it.
    perform(&mut transaction, "q", many(40)).await;
    assert_eq!(commit(transaction).await.expect("committed").len(), 2);
    assert_eq!(commit(broker.transactions().begin()).await.expect("nothing to commit"), []);
    let counts = broker.queues().get("q").await.expect("the queue").info.counts;
    assert_eq!(counts.active, 100);
}

/// SCHED-12.
#[tokio::test]
async fn sched_12_a_cancellation_is_part_of_a_transaction() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let due = domain::Timestamp(u64::MAX / 2);
    let scheduled = NewMessage { scheduled_at: Some(due), ..message("later") };
    let numbers = send(&broker, "q", vec![scheduled]).await;
    let cancel = |numbers| {
        Operation::CancelScheduled(CancelScheduled { origin: None, entity: UNROUTED, numbers })
    };
    let mut transaction = broker.transactions().begin();
    perform(&mut transaction, "q", cancel(numbers.clone())).await;
    transaction.rollback();
    assert_eq!(broker.queues().get("q").await.expect("the queue").info.counts.scheduled, 1);
    let mut transaction = broker.transactions().begin();
    perform(&mut transaction, "q", cancel(numbers)).await;
    commit(transaction).await.expect("committed");
    assert_eq!(broker.queues().get("q").await.expect("the queue").info.counts.scheduled, 0);
}

/// TX-5, TX-6: a topic and its subscriptions are one entity, whichever is named first.
#[tokio::test]
async fn tx_6_a_subscription_counts_for_its_topic() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    broker.topics().create("t", TopicProperties::default(), None).await.expect("created");
    for name in ["a", "b"] {
        let properties = SubscriptionProperties::default();
        let created =
            broker.subscriptions().create("t", name, properties, NewRule::default(), None);
        created.await.expect("created");
    }
    send(&broker, "t", messages(&["m"])).await;
    send(&broker, "q", messages(&["kept"])).await;
    let got = lock(&broker, "t/Subscriptions/a", MAIN, 1).await;
    let mut transaction = broker.transactions().begin();
    let path = "t/Subscriptions/a";
    perform(&mut transaction, path, settling(&got, Disposition::Complete)).await;
    perform(&mut transaction, "t", sending(messages(&["n"]))).await;
    // TX-5: elsewhere it is sent, via the topic, and never received from.
    let elsewhere = lock(&broker, "q", MAIN, 1).await;
    let refused = transaction
        .perform(&Reach::ViaFirst, "q", None, settling(&elsewhere, Disposition::Complete))
        .await;
    assert_eq!(refusal(refused), "InvalidOperationException");
    perform(&mut transaction, "q", sending(messages(&["x"]))).await;
    // SEND-7.
    let refused =
        transaction.perform(&Reach::ViaFirst, path, None, sending(messages(&["x"]))).await;
    assert_eq!(refusal(refused), "InvalidOperationException");
    commit(transaction).await.expect("committed");
    assert_eq!(arrived(&broker, "q", 1).await, ["x"]);
    assert_eq!(bodies(&lock(&broker, path, MAIN, 5).await), ["n"]);
    assert_eq!(bodies(&lock(&broker, "t/Subscriptions/b", MAIN, 5).await), ["m", "n"]);
}

/// TX-13, TX-14: under the same origin a commit is answered with what came of it the first time.
#[tokio::test]
async fn tx_13_tx_14_a_commit_asked_again_is_answered_as_before() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", messages(&["a"])).await;
    let got = lock(&broker, "q", MAIN, 1).await;
    let caller = |retry| Caller::Client { producer: 5, serial: 1, ordered: false, retry };
    let operations = || [settling(&got, Disposition::Complete), sending(messages(&["b"]))];
    let mut transaction = broker.transactions().begin();
    for operation in operations() {
        perform(&mut transaction, "q", operation).await;
    }
    let first = transaction.commit(caller(false)).await.expect("committed");
    let mut again = broker.transactions().begin();
    for operation in operations() {
        again.repeat(&Reach::ViaFirst, "q", None, operation).await.expect("repeated");
    }
    assert_eq!(again.commit(caller(true)).await.expect("committed"), first);
    let counts = broker.queues().get("q").await.expect("the queue").info.counts;
    assert_eq!((counts.active, counts.completed), (1, 1));
}

/// TX-7, TX-9: the leader keeps locks for a transaction of any node, until that one has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tx_9_the_leader_keeps_locks_for_transactions_of_other_nodes() {
    let cluster = Cluster::start(3, 2).await;
    let broker = cluster.broker(1);
    let properties = domain::QueueProperties::default();
    soon("a queue", broker.queues().create("q", properties, None)).await.expect("created");
    let (leader, _) = cluster.leader_of("q").await;
    let [edge, other] = [leader % 3 + 1, (leader + 1) % 3 + 1].map(|node| cluster.broker(node));
    send(&edge, "q", messages(&["a", "b"])).await;
    let got = lock(&other, "q", MAIN, 2).await;
    let mut kept = edge.transactions().begin();
    perform(&mut kept, "q", settling(&got[..1], Disposition::Complete)).await;
    perform(&mut kept, "q", sending(messages(&["c"]))).await;
    assert_eq!(completed(&other, &got[0]).await, ["MessageLockLost"]);
    commit(kept).await.expect("committed");
    assert_eq!(bodies(&lock(&other, "q", MAIN, 5).await), ["c"]);

    let mut dropped = edge.transactions().begin();
    perform(&mut dropped, "q", settling(&got[1..], Disposition::Complete)).await;
    assert_eq!(completed(&other, &got[1]).await, ["MessageLockLost"]);
    drop(dropped);
    let settled = async {
        while !completed(&other, &got[1]).await.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the lock to be free", settled).await;
}

/// Bodies of so many messages as they come.
async fn arrived(broker: &Broker, queue: &str, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    let receive = async {
        while all.len() < count {
            let wait = Duration::from_secs(5);
            let got =
                broker.messages().receive(queue, MAIN, DELETE, 10, wait).await.expect("received");
            all.extend(bodies(&got));
        }
    };
    soon("the messages", receive).await;
    all
}

/// TX-3: two minutes from the first operation, here less; then nothing was done, and locks are free.
#[tokio::test]
async fn tx_3_a_transaction_is_rolled_back_if_it_takes_too_long() {
    const TIMEOUT: Duration = Duration::from_millis(1500);
    let row = domain::NodeRow {
        peer_address: String::new(),
        grpc_address: String::new(),
        http_address: String::new(),
    };
    let default = service::Config::new(1, row).transaction_timeout;
    assert_eq!(default, Duration::from_secs(120));
    let cluster = Cluster::start_with(1, 1, |config| config.transaction_timeout = TIMEOUT).await;
    let broker = cluster.broker(1);
    let created = broker.queues().create("q", domain::QueueProperties::default(), None);
    soon("a queue", created).await.expect("created");
    send(&broker, "q", messages(&["a"])).await;
    let got = lock(&broker, "q", MAIN, 1).await;
    let mut transaction = broker.transactions().begin();
    // Not from its beginning.
    sleep(TIMEOUT).await;
    assert_eq!(transaction.expires_at(), None);
    perform(&mut transaction, "q", sending(messages(&["b"]))).await;
    let expires_at = transaction.expires_at().expect("it has begun");
    perform(&mut transaction, "q", settling(&got, Disposition::Complete)).await;
    assert_eq!(transaction.expires_at(), Some(expires_at));
    assert_eq!(completed(&broker, &got[0]).await, ["MessageLockLost"]);
    tokio::time::sleep_until(expires_at).await;
    let late = transaction.perform(&Reach::ViaFirst, "q", None, sending(messages(&["c"]))).await;
    let refused = late.expect_err("too late");
    assert_eq!(refused.refusal(), Some(&Refusal::TransactionTimedOut));
    let refused = commit(transaction).await.expect_err("too late");
    assert_eq!(refused.refusal(), Some(&Refusal::TransactionTimedOut));
    // TX-8.
    assert_eq!(completed(&broker, &got[0]).await, [""; 0]);
    let counts = broker.queues().get("q").await.expect("the queue").info.counts;
    assert_eq!((counts.accepted, counts.completed), (1, 1));
}

/// TX-5, TX-6: which entities a transaction may be about, by what each operation may reach, in any order.
#[tokio::test]
async fn tx_5_an_entity_that_others_are_reached_via_does_not_depend_on_the_order() {
    let cluster = Cluster::start(1, 2).await;
    let broker = cluster.broker(1);
    for name in ["v", "d", "e"] {
        let properties = domain::QueueProperties::default();
        soon("a queue", broker.queues().create(name, properties, None)).await.expect("created");
    }
    broker.topics().create("t", TopicProperties::default(), None).await.expect("created");
    let created = broker.subscriptions().create(
        "t",
        "s",
        SubscriptionProperties::default(),
        NewRule::default(),
        None,
    );
    created.await.expect("created");
    let subscription = "t/Subscriptions/s";
    let via = |name: &str| Reach::Via(name.to_owned());
    let refused = "InvalidOperationException";
    // Where an operation may reach, what it is about, whether it settles, and what it is refused with.
    type Row<'a> = (Reach, &'a str, bool, &'a str);
    let table: [(&[Row<'_>], &[&str]); 11] = [
        (&[(via("v"), "d", false, ""), (via("v"), "v", true, "")], &["d"]),
        (&[(via("v"), "v", true, ""), (via("v"), "d", false, "")], &["d"]),
        (
            &[(via("v"), "d", false, ""), (via("v"), "e", false, ""), (via("V"), "v", true, "")],
            &["d", "e"],
        ),
        (&[(via("v"), "d", false, ""), (via("v"), "e", false, "")], &["d", "e"]),
        (&[(via("v"), "d", true, refused), (via("v"), "v", false, "")], &["v"]),
        (
            &[(via(subscription), "d", false, ""), (via(subscription), subscription, true, "")],
            &["d"],
        ),
        (&[(via("t"), "d", false, ""), (via("t"), subscription, true, "")], &["d"]),
        // Without a via there is one entity.
        (&[(Reach::One, "d", false, ""), (Reach::One, "v", true, refused)], &["d"]),
        (&[(Reach::One, "v", true, ""), (Reach::One, "d", false, refused)], &[]),
        (&[(Reach::One, subscription, true, ""), (Reach::One, "t", false, "")], &[]),
        // Two clients' sessions that disagree.
        (
            &[
                (via("v"), "d", false, ""),
                (via("e"), "d", false, refused),
                (Reach::One, "d", false, refused),
            ],
            &["d"],
        ),
    ];
    for (rows, arrive) in table {
        send(&broker, "v", messages(&["held"])).await;
        send(&broker, "d", messages(&["held"])).await;
        send(&broker, "t", messages(&["held"])).await;
        let mut held = Vec::new();
        for name in ["v", "d", subscription] {
            held.push((name, lock(&broker, name, MAIN, 1).await));
        }
        let mut transaction = broker.transactions().begin();
        for (reach, entity, settles, expected) in rows {
            let operation = match settles {
                true => {
                    let (_, got) = held.iter().find(|(name, _)| name == entity).expect("held");
                    settling(got, Disposition::Complete)
                }
                false => sending(messages(&["sent"])),
            };
            let performed = transaction.perform(reach, entity, None, operation).await;
            assert_eq!(&refusal(performed), expected, "{rows:?}: {entity}");
        }
        commit(transaction).await.expect("committed");
        for name in arrive {
            assert_eq!(arrived(&broker, name, 1).await, ["sent"], "{rows:?}");
        }
        for (name, got) in held {
            let settled = rows.iter().any(|row| row.1 == name && row.2 && row.3.is_empty());
            let settlement =
                Settlement { token: token(&got[0]), disposition: Disposition::Complete };
            let again =
                broker.messages().settle(name, MAIN, vec![settlement], false, Caller::Edge).await;
            assert_eq!(again.expect("settled").is_empty(), !settled, "{rows:?}: {name}");
        }
        if rows.iter().any(|row| row.1 == "t") {
            assert_eq!(arrived(&broker, subscription, 1).await, ["sent"]);
        }
    }
}

/// FWD-14, TX-5: to another group, by name or because it is not the transaction's.
#[tokio::test]
async fn fwd_14_tx_5_messages_for_another_entity_go_via_the_transactions() {
    let cluster = Cluster::start(1, 2).await;
    let broker = cluster.broker(1);
    for name in ["v", "d", "e"] {
        let properties = domain::QueueProperties::default();
        soon("a queue", broker.queues().create(name, properties, None)).await.expect("created");
    }
    send(&broker, "v", messages(&["a"])).await;
    let got = lock(&broker, "v", MAIN, 1).await;
    let mut transaction = broker.transactions().begin();
    perform(&mut transaction, "v", settling(&got, Disposition::Complete)).await;
    perform(&mut transaction, "d", sending(messages(&["b"]))).await;
    let to_e =
        transaction.perform(&Reach::ViaFirst, "v", Some("e"), sending(messages(&["c"]))).await;
    to_e.expect("the operation is part of the transaction");
    let to_itself =
        transaction.perform(&Reach::ViaFirst, "v", Some("V"), sending(messages(&["d"]))).await;
    to_itself.expect("the operation is part of the transaction");
    // Deleted, or never there: its sender is told.
    let nowhere =
        transaction.perform(&Reach::ViaFirst, "v", Some("none"), sending(messages(&["x"]))).await;
    assert_eq!(refusal(nowhere), "MessagingEntityNotFound");
    let no_send = transaction
        .perform(&Reach::ViaFirst, "v", Some("d"), settling(&got, Disposition::Complete))
        .await;
    assert_eq!(refusal(no_send), "InvalidOperationException");
    let performed = commit(transaction).await.expect("committed");
    let sent = |number| Performed::Sent { sequences: vec![domain::SequenceNumber(number)] };
    assert_eq!(performed, [Performed::Done, sent(2), sent(3), sent(4)]);
    assert_eq!(arrived(&broker, "d", 1).await, ["b"]);
    assert_eq!(arrived(&broker, "e", 1).await, ["c"]);
    assert_eq!(arrived(&broker, "v", 1).await, ["d"]);
    let counts = counted(&broker, "v", |counts| counts.transfer == 0).await;
    assert_eq!((counts.moved, counts.transfer_dead_lettered), (2, 0));
}

/// FWD-14, DLQ-16: outside of a transaction as well; and what is refused is kept by the one between.
#[tokio::test]
async fn fwd_14_dlq_16_what_is_sent_via_an_entity_and_refused_is_dead_lettered_there() {
    let (_cluster, broker) = one_queue("v", |_| ()).await;
    broker.queues().create("d", domain::QueueProperties::default(), None).await.expect("created");
    let numbers =
        broker.transactions().send_via("v", "d", messages(&["a", "b"]), Caller::Edge).await;
    assert_eq!(numbers.expect("sent").len(), 2);
    assert_eq!(arrived(&broker, "d", 2).await, ["a", "b"]);
    let disable = |properties: &mut domain::QueueProperties| {
        properties.status = domain::EntityStatus::SendDisabled;
        Ok(())
    };
    broker.queues().update("d", disable).await.expect("updated");
    broker.transactions().send_via("v", "d", messages(&["c"]), Caller::Edge).await.expect("sent");
    counted(&broker, "v", |counts| counts.transfer_dead_lettered == 1).await;
    let failed = lock(&broker, "v", SubQueue::TransferDeadLetter, 1).await;
    assert_eq!(bodies(&failed), ["c"]);
    broker.queues().update("v", disable).await.expect("updated");
    let refused = broker.transactions().send_via("v", "d", messages(&["x"]), Caller::Edge).await;
    assert_eq!(refusal(refused), "MessagingEntityDisabled");
}
