//! Queues come, change and go.

use domain::{EntityStatus, QueueProperties, Refusal, Span};
use service::Caller;

use super::harness::*;

#[tokio::test]
async fn ent_2_ent_6_a_name_is_taken_once_and_freed_by_deletion() {
    let (_cluster, broker) = one_queue("Orders", |_| ()).await;
    let again = broker.queues().create("orders", QueueProperties::default(), None).await;
    let again = again.expect_err("ENT-1: names ignore case");
    assert!(matches!(again.refusal(), Some(Refusal::EntityAlreadyExists { .. })), "{again}");
    send(&broker, "orders", messages(&["old"])).await;
    broker.queues().delete("ORDERS").await.expect("deleted");
    for gone in
        [broker.queues().delete("orders").await, broker.queues().get("orders").await.map(drop)]
    {
        let gone = gone.expect_err("ENT-6");
        assert!(matches!(gone.refusal(), Some(Refusal::EntityNotFound { .. })), "{gone}");
    }
    let new = broker
        .queues()
        .create("orders", QueueProperties::default(), None)
        .await
        .expect("free again");
    assert_eq!(new.info.name, "orders");
    // ENT-8: it shares nothing with the old one.
    assert_eq!(lock(&broker, "orders", MAIN, 5).await, []);
    let sent = send(&broker, "orders", messages(&["new"])).await;
    assert_eq!(sent[0].0, 1);
}

#[tokio::test]
async fn ent_4_ent_5_updates_change_what_may_be_changed() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let updated = broker.queues().update("q", |queue| {
        queue.lock_duration = Span::from_secs(30);
        Ok(())
    });
    let updated = updated.await.expect("updated").info;
    assert_eq!(updated.properties.lock_duration, Span::from_secs(30));
    let out = broker.queues().update("q", |queue| {
        queue.lock_duration = Span(0);
        Ok(())
    });
    let out = out.await.expect_err("ENT-4");
    assert!(matches!(out.refusal(), Some(Refusal::ArgumentOutOfRange { .. })), "{out}");
    let fixed = broker.queues().update("q", |queue| {
        queue.requires_duplicate_detection = true;
        Ok(())
    });
    let fixed = fixed.await.expect_err("ENT-5");
    assert!(matches!(fixed.refusal(), Some(Refusal::InvalidOperation { .. })), "{fixed}");
    let info = broker.queues().get("q").await.expect("the queue").info;
    assert_eq!(info.properties, updated.properties);
}

#[tokio::test]
async fn queues_are_listed_in_pages_by_name() {
    let (_cluster, broker) = one_queue("b/2", |_| ()).await;
    for name in ["a", "B/1", "c", "b/3"] {
        broker.queues().create(name, QueueProperties::default(), None).await.expect("created");
    }
    let names = |page: &service::Page| -> Vec<String> {
        page.queues.iter().map(|queue| queue.info.name.clone()).collect()
    };
    let first = broker.queues().list(None, "", 2).await.expect("a page");
    assert_eq!(names(&first), ["a", "b/1"]);
    let second = broker.queues().list(first.next.as_deref(), "", 2).await.expect("a page");
    assert_eq!(names(&second), ["b/2", "b/3"]);
    let last = broker.queues().list(second.next.as_deref(), "", 2).await.expect("a page");
    assert_eq!((names(&last), last.next), (vec!["c".to_owned()], None));
    let some = broker.queues().list(None, "B/", 1000).await.expect("a page");
    assert_eq!(names(&some), ["b/1", "b/2", "b/3"]);
    assert!(broker.queues().list(None, "", 0).await.is_err());
}

/// STATE-4: whoever waits for messages of a queue that is suspended is told so.
#[tokio::test]
async fn state_4_a_suspended_queue_dismisses_its_receivers() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let mut receiver = broker.messages().receiver("q", MAIN, LOCK, 5).await.expect("a receiver");
    let disabled = |queue: &mut QueueProperties| {
        queue.status = EntityStatus::ReceiveDisabled;
        Ok(())
    };
    broker.queues().update("q", disabled).await.expect("updated");
    let error = soon("the dismissal", receiver.next()).await.expect_err("suspended");
    assert!(matches!(error.refusal(), Some(Refusal::EntityDisabled { .. })), "{error}");
    let error = broker.messages().receive("q", MAIN, LOCK, 1, NOW).await.expect_err("suspended");
    assert!(matches!(error.refusal(), Some(Refusal::EntityDisabled { .. })), "{error}");
    send(&broker, "q", messages(&["still accepted"])).await;
}

/// ENT-7: deletion detaches whoever waits.
#[tokio::test]
async fn ent_7_a_deleted_queue_dismisses_its_receivers() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let mut receiver = broker.messages().receiver("q", MAIN, LOCK, 5).await.expect("a receiver");
    broker.queues().delete("q").await.expect("deleted");
    let error = soon("the dismissal", receiver.next()).await.expect_err("deleted");
    assert!(matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })), "{error}");
    let error =
        broker.messages().send("q", messages(&["a"]), Caller::Edge).await.expect_err("deleted");
    assert!(matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })), "{error}");
}
