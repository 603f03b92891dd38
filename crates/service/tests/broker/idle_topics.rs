//! Topics, subscriptions and sessions that vanish when nobody uses them (IDLE).

use std::time::Duration;

use domain::{
    NewRule, QueueProperties, SequenceNumber, SessionId, Span, SubscriptionProperties,
    TopicProperties, subscription_path,
};
use service::{Broker, Next};
use tokio::time::sleep;

use super::harness::*;
use super::idle::{advance_minutes, gone, stays};

const WINDOW: Span = Span::from_secs(300);

async fn topic(broker: &Broker, name: &str, window: Span) {
    let properties = TopicProperties { auto_delete_on_idle: window, ..TopicProperties::default() };
    soon("a topic", broker.topics().create(name, properties, None)).await.expect("created");
}

async fn subscribe(broker: &Broker, topic: &str, name: &str, window: Span) {
    let properties =
        SubscriptionProperties { auto_delete_on_idle: window, ..SubscriptionProperties::default() };
    let creating = broker.subscriptions().create(topic, name, properties, NewRule::default(), None);
    soon("a subscription", creating).await.expect("created");
}

/// What is found under a name or a path.
async fn is_there(broker: &Broker, path: &str) -> bool {
    broker.messages().peek(path, MAIN, SequenceNumber(0), 1, false).await.is_ok()
}

#[tokio::test]
async fn idle_6_a_busy_topic_keeps_none_of_its_subscriptions() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    topic(&broker, "t", Span::MAX).await;
    subscribe(&broker, "t", "dead", WINDOW).await;
    subscribe(&broker, "t", "read", WINDOW).await;
    let read = subscription_path("t", "read");
    for _ in 0..2 {
        advance_minutes(&broker, 4).await;
        send(&broker, "t", messages(&["a"])).await;
        assert_eq!(lock(&broker, &read, MAIN, 1).await.len(), 1);
    }
    let looking = async {
        while broker.subscriptions().get("t", "dead").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the subscription to go", looking).await;
    broker.subscriptions().get("t", "read").await.expect("it is read");
    let of_topic = broker.topics().get("t").await.expect("it is never deleted");
    let domain::Specifics::Topic(specifics) = of_topic.info.specifics else { panic!("no topic") };
    assert_eq!(specifics.subscriptions, 1);
    // Its name is free at once (IDLE-17), and what it held is not charged any more.
    subscribe(&broker, "t", "dead", WINDOW).await;
    let fresh = broker.subscriptions().get("t", "dead").await.expect("created anew");
    assert_eq!(fresh.info.counts, domain::Counts::default());
}

#[tokio::test]
async fn idle_10_a_topic_that_is_unused_goes_with_its_subscriptions() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    topic(&broker, "t", WINDOW).await;
    subscribe(&broker, "t", "kept", Span::MAX).await;
    send(&broker, "t", messages(&["a"])).await;
    advance_minutes(&broker, 4).await;
    send(&broker, "t", messages(&["b"])).await;
    advance_minutes(&broker, 4).await;
    sleep(Duration::from_millis(1000)).await;
    broker.topics().get("t").await.expect("it was used");
    let kept = subscription_path("t", "kept");
    assert!(is_there(&broker, &kept).await, "and a peek of its subscription is a use");
    advance_minutes(&broker, 4).await;
    sleep(Duration::from_millis(1000)).await;
    broker.topics().get("t").await.expect("its subscription was used");
    advance_minutes(&broker, 3).await;
    let looking = async {
        while broker.topics().get("t").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the topic to go", looking).await;
    assert!(!is_there(&broker, &kept).await);
    assert!(broker.subscriptions().get("t", "kept").await.is_err());
    topic(&broker, "t", WINDOW).await;
    subscribe(&broker, "t", "kept", Span::MAX).await;
    let fresh = broker.subscriptions().get("t", "kept").await.expect("created anew");
    assert_eq!(fresh.info.counts, domain::Counts::default());
}

#[tokio::test]
async fn idle_4_whoever_waits_at_a_subscription_keeps_it_and_its_topic() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    topic(&broker, "t", WINDOW).await;
    subscribe(&broker, "t", "kept", Span::MAX).await;
    subscribe(&broker, "t", "own", WINDOW).await;
    for name in ["kept", "own"] {
        let path = subscription_path("t", name);
        let mut receiver =
            broker.messages().receiver(&path, MAIN, LOCK, 1).await.expect("a receiver");
        for _ in 0..3 {
            advance_minutes(&broker, 30).await;
            sleep(Duration::from_millis(1000)).await;
            broker.subscriptions().get("t", name).await.expect("it is awaited");
            broker.topics().get("t").await.expect("and so is its topic");
        }
        send(&broker, "t", messages(&["a"])).await;
        let got = soon("a message", receiver.next()).await.expect("received");
        assert!(matches!(got, Next::Messages(_)), "{got:?}");
        if name == "kept" {
            subscribe_again(&broker, "own").await;
        }
    }
    advance_minutes(&broker, 7).await;
    let looking = async {
        while broker.topics().get("t").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
            // The deletion of the subscription was a use of the topic (IDLE-10).
            if broker.subscriptions().get("t", "own").await.is_err() {
                advance_minutes(&broker, 1).await;
            }
        }
    };
    soon("the topic to go", looking).await;
}

/// It is gone by then, as nobody used it.
async fn subscribe_again(broker: &Broker, name: &str) {
    assert!(broker.subscriptions().get("t", name).await.is_err());
    subscribe(broker, "t", name, WINDOW).await;
}

fn with_sessions() -> QueueProperties {
    QueueProperties {
        auto_delete_on_idle: WINDOW,
        requires_session: true,
        lock_duration: Span::from_secs(300),
        ..QueueProperties::default()
    }
}

#[tokio::test]
async fn idle_4_whoever_waits_for_a_session_keeps_its_queue() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    soon("a queue", broker.queues().create("q", with_sessions(), None)).await.expect("created");
    let accepting = broker.sessions().accept_next("q", MAIN, LOCK, PATIENCE);
    let looking = async {
        for _ in 0..3 {
            advance_minutes(&broker, 30).await;
            stays(&broker, "q").await;
        }
        let mut sent = messages(&["a"]);
        sent[0].session_id = Some("s".to_owned());
        send(&broker, "q", sent).await;
    };
    let (accepted, ()) = tokio::join!(accepting, looking);
    let accepted = accepted.expect("accepted");
    assert_eq!(accepted.token.session, SessionId::from("s"));
    broker.sessions().release("q", accepted.token.clone()).await.expect("given back");
    drop(accepted);
    advance_minutes(&broker, 7).await;
    gone(&broker, "q").await;
}

/// The window starts when the hold ends, though nothing was asked of the session meanwhile.
#[tokio::test]
async fn idle_4_a_held_session_is_a_use_until_it_ends() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    soon("a queue", broker.queues().create("q", with_sessions(), None)).await.expect("created");
    let session = SessionId::from("s");
    let accepting = broker.sessions().accept("q", MAIN, session, LOCK);
    let held = soon("a session", accepting).await.expect("accepted");
    for _ in 0..4 {
        advance_minutes(&broker, 1).await;
        sleep(Duration::from_millis(200)).await;
    }
    advance_minutes(&broker, 4).await; // The lock lapsed after five.
    stays(&broker, "q").await;
    drop(held);
    advance_minutes(&broker, 4).await;
    gone(&broker, "q").await;
}
