//! Calls, one at a time.

use wire::v1;

use super::harness::*;

#[tokio::test]
async fn lock_8_send_receive_settle() {
    let mut server = Server::with_queue(Default::default()).await;
    let sent = server.send(vec![message("a"), message("b")]).await.expect("sent");
    assert_eq!(sent, [1, 2]);
    let got = server.receive(10).await;
    assert_eq!(bodies(&got), ["a", "b"]);
    assert!(got.iter().all(|m| m.delivery_count == 1 && m.expires_at_ms.is_none())); // LOCK-19.
    let renewed = v1::RenewRequest {
        queue: "q".into(),
        lock_tokens: got.iter().filter_map(|m| m.lock_token.clone()).collect(),
        ..Default::default()
    };
    let renewed = server.messaging.renew(renewed).await.expect("renewed").into_inner();
    assert!(renewed.locked_until_ms[0] >= got[0].locked_until_ms.expect("a lock"));
    let settle = v1::SettleRequest {
        queue: "Q".into(),
        settlements: got.iter().map(complete).collect(),
        ..Default::default()
    };
    let first = server.messaging.settle(settle.clone()).await.expect("settled").into_inner();
    assert_eq!(first.failures, []);
    let again = server.messaging.settle(settle).await.expect("answered").into_inner();
    let names: Vec<_> = again.failures.iter().filter_map(|f| f.failure.as_ref()).collect();
    assert!(names.iter().all(|f| f.name == "MessageLockLost" && f.rule == "ERR-4"), "{names:?}");
    assert_eq!(names.len(), 2);
    let counters = server.counters().await;
    assert_eq!((counters.accepted, counters.completed, counters.total), (2, 2, 0));
}

#[tokio::test]
async fn sched_3_defer_2_peek_2_batch_1_the_other_calls() {
    let mut server = Server::with_queue(Default::default()).await;
    let now = server.cluster.now(v1::NowRequest {}).await.expect("now").into_inner().now_ms;
    let later = v1::Message { scheduled_at_ms: Some(now + 3_600_000), ..message("later") };
    let sent = server.send(vec![later, message("deferred"), message("left")]).await.expect("sent");
    let got = server.receive(1).await;
    let defer = v1::Settlement {
        disposition: Some(v1::settlement::Disposition::Defer(v1::Defer::default())),
        ..complete(&got[0])
    };
    let settle =
        v1::SettleRequest { queue: "q".into(), settlements: vec![defer], ..Default::default() };
    server.messaging.settle(settle).await.expect("settled");

    let peek = v1::PeekRequest { queue: "q".into(), max_messages: 1000, ..Default::default() };
    let peeked = server.messaging.peek(peek).await.expect("peeked").into_inner().messages;
    assert_eq!(bodies(&peeked), ["later", "deferred", "left"]);
    let states: Vec<_> = peeked.iter().map(|message| message.state()).collect();
    use v1::MessageState::{Active, Deferred, Scheduled};
    assert_eq!(states, [Scheduled, Deferred, Active]);
    assert!(peeked.iter().all(|message| message.lock_token.is_none()), "PEEK-6");
    let counts: Vec<_> = peeked.iter().map(|message| message.delivery_count).collect();
    assert_eq!(counts, [0, 1, 0], "DEFER-7");

    let receive = v1::ReceiveDeferredRequest {
        queue: "q".into(),
        mode: v1::ReceiveMode::ReceiveAndDelete.into(),
        sequence_numbers: vec![sent[1]],
        ..Default::default()
    };
    let deferred = server.messaging.receive_deferred(receive).await.expect("received");
    assert_eq!(bodies(&deferred.into_inner().messages), ["deferred"]);
    let cancel = v1::CancelScheduledRequest {
        queue: "q".into(),
        sequence_numbers: vec![sent[0]],
        origin: None,
    };
    server.messaging.cancel_scheduled(cancel.clone()).await.expect("cancelled");
    let again = server.messaging.cancel_scheduled(cancel).await.expect_err("SCHED-4");
    assert_eq!(info(&again).reason, "MessageNotFound");
    let delete =
        v1::DeleteBatchRequest { queue: "q".into(), max_messages: 10, ..Default::default() };
    let deleted = server.messaging.delete_batch(delete).await.expect("deleted").into_inner();
    assert_eq!(deleted.deleted, 1);
    assert_eq!(server.counters().await.total, 0);
}

#[tokio::test]
async fn lock_15_a_peeked_message_is_neither_settled_nor_renewed() {
    let mut server = Server::with_queue(Default::default()).await;
    server.send(vec![message("a")]).await.expect("sent");
    let peek = v1::PeekRequest { queue: "q".into(), max_messages: 1, ..Default::default() };
    let peeked = server.messaging.peek(peek).await.expect("peeked").into_inner().messages;
    let lock_token = peeked[0].lock_token.clone().unwrap_or_default();
    let settlements = vec![v1::Settlement { lock_token: lock_token.clone(), disposition: None }];
    let settle = v1::SettleRequest { queue: "q".into(), settlements, ..Default::default() };
    let settled = server.messaging.settle(settle).await.expect_err("no token");
    let lock_tokens = vec![lock_token];
    let renew = v1::RenewRequest { queue: "q".into(), lock_tokens, ..Default::default() };
    let renewed = server.messaging.renew(renew).await.expect_err("no token");
    for refused in [settled, renewed] {
        assert_eq!(info(&refused).reason, "InvalidOperationException");
    }
    assert_eq!(server.counters().await.active, 1);
}

#[tokio::test]
async fn ent_3_ent_5_queues_are_managed() {
    let mut server = Server::with_queue(v1::QueueProperties {
        lock_duration_ms: Some(30_000),
        ..Default::default()
    })
    .await;
    let queue = server.queue().await;
    let properties = queue.properties.expect("properties");
    assert_eq!((queue.name.as_str(), queue.leader_node, queue.group), ("q", 1, 1));
    assert_eq!(properties.lock_duration_ms, Some(30_000));
    assert_eq!(properties.max_delivery_count, Some(10));
    assert_eq!(properties.default_ttl_ms, Some(u64::MAX), "never");
    let change = v1::QueueProperties { max_delivery_count: Some(3), ..Default::default() };
    let update = v1::UpdateQueueRequest { name: "q".into(), properties: Some(change) };
    let updated = server.entities.update_queue(update).await.expect("updated").into_inner();
    let updated = updated.properties.expect("properties");
    assert_eq!((updated.max_delivery_count, updated.lock_duration_ms), (Some(3), Some(30_000)));
    let list = v1::ListQueuesRequest::default();
    let listed = server.entities.list_queues(list).await.expect("listed").into_inner();
    assert_eq!((listed.queues.len(), listed.next_page_token.as_str()), (1, ""));
    let taken = v1::CreateQueueRequest { name: "Q".into(), ..Default::default() };
    let taken = server.entities.create_queue(taken).await.expect_err("ENT-2");
    assert_eq!(
        (taken.code(), info(&taken).reason.as_str()),
        (tonic::Code::AlreadyExists, "MessagingEntityAlreadyExists")
    );
    let delete = v1::DeleteQueueRequest { name: "q".into() };
    server.entities.delete_queue(delete).await.expect("deleted");
    let get = v1::GetQueueRequest { name: "q".into() };
    let gone = server.entities.get_queue(get).await.expect_err("ENT-6");
    assert_eq!(gone.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn the_cluster_tells_of_itself_and_its_time() {
    let mut server = Server::start(None).await;
    let status = server.cluster.status(v1::StatusRequest { local: false }).await.expect("status");
    let status = status.into_inner();
    assert_eq!((status.nodes.len(), status.groups.len(), status.answered_by), (1, 2, 1));
    assert!(status.development && status.durability == "synced");
    assert_eq!(status.cluster_id, format!("{:032x}", 7));
    let before = server.cluster.now(v1::NowRequest {}).await.expect("now").into_inner();
    let advance = v1::AdvanceClockRequest { by_ms: 86_400_000 };
    let after = server.cluster.advance_clock(advance).await.expect("advanced").into_inner();
    assert!(after.now_ms >= before.now_ms + 86_400_000);
    assert_eq!(after.offset_ms, 86_400_000);
    let unknown = v1::TransferLeaderRequest { group: 1, node: 9 };
    let unknown = server.cluster.transfer_leader(unknown).await.expect_err("no such node");
    assert_eq!(info(&unknown).reason, "ArgumentException");
}
