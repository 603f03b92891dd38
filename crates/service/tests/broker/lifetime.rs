//! Expiry, schedules and locks in time. The clock is moved, not waited for.

use std::time::Duration;

use domain::{MessageState, NewMessage, SequenceNumber, Span, Timestamp};
use service::Caller;
use tokio::time::sleep;

use super::harness::*;

#[tokio::test]
async fn ttl_17_ttl_22_an_expired_message_is_dead_lettered_unasked() {
    let (_cluster, broker) = one_queue("q", |queue| queue.dead_letter_on_expiration = true).await;
    send(&broker, "q", vec![lived("short", Span(100)), message("long")]).await;
    counted(&broker, "q", |counts| counts.dead_lettered == 1).await;
    assert_eq!(bodies(&lock(&broker, "q", DEAD, 5).await), ["short"]);
    assert_eq!(bodies(&lock(&broker, "q", MAIN, 5).await), ["long"]);
}

#[tokio::test]
async fn ttl_2_an_advanced_clock_expires_by_the_default() {
    let (_cluster, broker) =
        one_queue("q", |queue| queue.default_ttl = Span::from_secs(3600)).await;
    send(&broker, "q", messages(&["a", "b"])).await;
    let (before, _) = broker.cluster().now_here();
    let (now, offset) =
        broker.cluster().advance_clock(Span::from_secs(3601)).await.expect("advanced");
    assert!(now >= before.plus(Span::from_secs(3601)), "{now:?} after {before:?}");
    assert_eq!(offset, Span::from_secs(3601));
    let counts = counted(&broker, "q", |counts| counts.active == 0).await;
    assert_eq!(counts.expired, 2);
}

#[tokio::test]
async fn sched_5_a_scheduled_message_comes_when_it_is_due() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    let (now, _) = broker.cluster().now_here();
    let due = |ms| Some(now.plus(Span(ms)));
    let soon_due = NewMessage { scheduled_at: due(300), ..message("soon") };
    let later = NewMessage { scheduled_at: due(3_600_000), ..message("later") };
    let sent = send(&broker, "q", vec![later, soon_due]).await;
    let peeked =
        broker.messages().peek("q", MAIN, SequenceNumber(0), 10, false).await.expect("peeked");
    assert!(peeked.iter().all(|message| message.delivery.state == MessageState::Scheduled));
    let got = broker.messages().receive("q", MAIN, LOCK, 5, PATIENCE).await.expect("received");
    assert_eq!(bodies(&got), ["soon"]);
    assert!(got[0].delivery.sequence > sent[1], "SEQ-6: a new number");
    broker.messages().cancel_scheduled("q", vec![sent[0]], Caller::Edge).await.expect("cancelled");
    assert_eq!(counted(&broker, "q", |_| true).await.cancelled, 1);
}

#[tokio::test]
async fn lock_12_lock_13_locks_lapse_and_are_renewed() {
    let (_cluster, broker) =
        one_queue("q", |queue| queue.lock_duration = Span::from_secs(60)).await;
    send(&broker, "q", messages(&["a", "b"])).await;
    let got = lock(&broker, "q", MAIN, 2).await;
    let tokens: Vec<_> = got.iter().map(|m| m.delivery.lock.expect("a lock").token).collect();
    broker.cluster().advance_clock(Span::from_secs(59)).await.expect("advanced");
    let until = broker.messages().renew("q", MAIN, vec![tokens[1]]).await.expect("renewed");
    assert!(until[0] >= broker.cluster().now_here().0.plus(Span::from_secs(55)), "{until:?}");
    broker.cluster().advance_clock(Span::from_secs(2)).await.expect("advanced");
    let back = broker.messages().receive("q", MAIN, LOCK, 5, PATIENCE).await.expect("received");
    assert_eq!((bodies(&back), back[0].delivery.delivery_count), (vec!["a".into()], 1));
    let lost = broker.messages().renew("q", MAIN, vec![tokens[0]]).await.expect_err("lapsed");
    assert_eq!(lost.refusal().map(|refusal| refusal.rule()), Some("ERR-4"));
}

/// TIME-8: not early, and under no load at most a second late.
#[tokio::test]
async fn time_8_expiry_is_neither_early_nor_late() {
    let (_cluster, broker) = one_queue("q", |_| ()).await;
    send(&broker, "q", vec![lived("a", Span(1500))]).await;
    let sent_at = broker.cluster().now_here().0;
    let expired_at: Timestamp = loop {
        let counts = broker.queues().get("q").await.expect("the queue").info.counts;
        if counts.expired == 1 {
            break broker.cluster().now_here().0;
        }
        sleep(Duration::from_millis(5)).await;
    };
    let lived = expired_at.since(sent_at).0;
    assert!((1400..=2500).contains(&lived), "lived for {lived} ms");
}
