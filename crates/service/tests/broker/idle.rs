//! Queues that vanish when nobody uses them (IDLE). The clock is moved, not waited for; a new
//! leader's patience is a fraction of a second here.

use std::sync::Arc;
use std::time::Duration;

use domain::{Idleness, QueueProperties, SequenceNumber, Span};
use futures::StreamExt;
use futures::future::join_all;
use service::{Broker, Caller, Error, Next};
use tokio::time::sleep;

use super::harness::*;

const WINDOW: Span = Span::from_secs(300);

fn temporary() -> QueueProperties {
    QueueProperties { auto_delete_on_idle: WINDOW, ..QueueProperties::default() }
}

async fn create(broker: &Broker, name: &str) {
    soon("a queue", broker.queues().create(name, temporary(), None)).await.expect("created");
}

pub async fn advance_minutes(broker: &Broker, minutes: u64) {
    broker.cluster().advance_clock(Span::from_secs(60 * minutes)).await.expect("advanced");
}

/// The deletion is decided in the queue's log and told by the catalog: both are waited for.
pub async fn gone(broker: &Broker, name: &str) {
    let looking = async {
        while broker.queues().get(name).await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the queue to go", looking).await;
    let error = broker.queues().get(name).await.expect_err("it is gone");
    assert_eq!(error.refusal().map(|refusal| refusal.rule()), Some("ERR-1"));
}

/// Long enough for several rounds of the coordinator and a new leader's patience.
pub async fn stays(broker: &Broker, name: &str) {
    sleep(Duration::from_millis(1000)).await;
    broker.queues().get(name).await.expect("it is in use");
}

#[tokio::test]
async fn idle_1_idle_17_an_unused_queue_vanishes_and_frees_its_name() {
    let cluster = Cluster::start(1, 2).await;
    let broker = cluster.broker(1);
    create(&broker, "q").await;
    create(&broker, "other").await;
    send(&broker, "q", messages(&["a"])).await; // IDLE-9.
    let first = broker.queues().get("q").await.expect("the queue");
    advance_minutes(&broker, 4).await;
    stays(&broker, "q").await;
    send(&broker, "other", messages(&["b"])).await;
    advance_minutes(&broker, 2).await;
    gone(&broker, "q").await;
    broker.queues().get("other").await.expect("it was used");
    create(&broker, "q").await;
    let second = broker.queues().get("q").await.expect("the queue");
    assert!(second.entity > first.entity);
    assert_eq!(second.info.counts, domain::Counts::default());
    let Idleness::Since { since, due } = second.info.idleness else { panic!("it is temporary") };
    assert_eq!(due, since.plus(WINDOW));
}

#[tokio::test]
async fn idle_2_a_peek_keeps_a_queue_and_is_written_once_a_minute() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    create(&broker, "q").await;
    let peek = |stale| broker.messages().peek("q", MAIN, SequenceNumber(0), 10, stale);
    for stale in [false, true] {
        advance_minutes(&broker, 4).await;
        peek(stale).await.expect("peeked");
        let touched = broker.queues().get("q").await.expect("the queue").info.last_use;
        peek(stale).await.expect("peeked");
        let again = broker.queues().get("q").await.expect("the queue").info.last_use;
        assert_eq!(touched, again, "within the minute it was told of");
    }
    advance_minutes(&broker, 4).await;
    stays(&broker, "q").await;
    advance_minutes(&broker, 3).await;
    gone(&broker, "q").await;
    let refused = peek(false).await.expect_err("it is gone");
    assert_eq!(refused.refusal().map(|refusal| refusal.rule()), Some("ERR-1"));
}

#[tokio::test]
async fn idle_4_nobody_deletes_under_a_waiting_receiver() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    create(&broker, "q").await;
    let mut receiver = broker.messages().receiver("q", MAIN, LOCK, 1).await.expect("a receiver");
    for _ in 0..3 {
        advance_minutes(&broker, 30).await;
        stays(&broker, "q").await;
    }
    send(&broker, "q", messages(&["a"])).await;
    match soon("a message", receiver.next()).await.expect("received") {
        Next::Messages(got) => assert_eq!(bodies(&got), ["a"]),
        other => panic!("{other:?}"),
    }
    // Attached still, and asking for nothing.
    advance_minutes(&broker, 7).await;
    gone(&broker, "q").await;
    receiver.add_credit(1);
    let error = soon("the end", receiver.next()).await.expect_err("the queue is gone");
    assert_eq!(error.refusal().map(|refusal| refusal.rule()), Some("ERR-1"));
}

/// A receive that finds nothing is told so once the log knows of it.
#[tokio::test]
async fn idle_4_a_receive_that_returns_nothing_counts() {
    let cluster = Cluster::start(1, 1).await;
    let broker = cluster.broker(1);
    create(&broker, "q").await;
    for _ in 0..3 {
        advance_minutes(&broker, 4).await;
        let now = broker.cluster().now_here().0;
        assert!(lock(&broker, "q", DEAD, 1).await.is_empty()); // IDLE-5.
        assert!(broker.queues().get("q").await.expect("the queue").info.last_use > now);
    }
    stays(&broker, "q").await;
    advance_minutes(&broker, 7).await;
    gone(&broker, "q").await;
}

/// Whoever dies, the leader, the coordinator or both, what is waited for stays and what is not goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_14_a_new_leader_deletes_nothing_in_use() {
    let mut cluster = Cluster::start(3, 2).await;
    let names = ["a", "b", "c", "d"];
    for name in names {
        create(&cluster.broker(1), name).await;
    }
    for victim in 1..=3 {
        let (edge, other) = (victim % 3 + 1, (victim + 1) % 3 + 1);
        let broker = cluster.broker(edge);
        let waiting = join_all(
            names[..2].iter().map(|name| broker.messages().receiver(name, MAIN, DELETE, 1)),
        );
        let mut waiting: Vec<_> = waiting.await.into_iter().map(|r| r.expect("there")).collect();
        let waits: Vec<_> = waiting.iter_mut().map(|receiver| Box::pin(receiver.next())).collect();
        let looking = async {
            cluster.kill(victim);
            let until = tokio::time::Instant::now() + PATIENCE;
            // As soon as the groups that lost their leader have another.
            while let Err(error) = broker.cluster().advance_clock(Span::from_secs(600)).await {
                assert!(tokio::time::Instant::now() < until, "{error}");
            }
            for name in &names[2..] {
                gone(&cluster.broker(other), name).await;
            }
            for name in &names[..2] {
                stays(&cluster.broker(other), name).await;
            }
            for name in &names[2..] {
                create(&cluster.broker(other), name).await;
            }
            for name in &names[..2] {
                send(&cluster.broker(other), name, messages(&["x"])).await;
            }
            cluster.start_node(victim).await;
            cluster.ready(victim).await;
        };
        let (got, ()) = tokio::join!(join_all(waits), looking);
        for next in got {
            assert!(matches!(next, Ok(Next::Messages(_))), "{next:?}");
        }
    }
}

/// What one race came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It came first: the queue lives.
    Lives,
    /// It came second, and was told.
    NotFound,
}

/// By turns a send, a peek and a receiver, each against its own queue's deadline.
async fn race(broker: Broker, name: String, kind: usize, delay: Duration) -> End {
    sleep(delay).await;
    let outcome: Result<(), Error> = match kind {
        0 => broker.messages().send(&name, messages(&["m"]), Caller::Edge).await.map(drop),
        1 => broker.messages().peek(&name, MAIN, SequenceNumber(0), 1, false).await.map(drop),
        _ => broker
            .messages()
            .receive(&name, MAIN, LOCK, 1, Duration::from_millis(5))
            .await
            .map(drop),
    };
    match outcome {
        Ok(()) => End::Lives,
        Err(error) => {
            let rule = error.refusal().map(|refusal| refusal.rule());
            assert_eq!(rule, Some("ERR-1"), "{kind}: {error}");
            End::NotFound
        }
    }
}

/// A thousand times each: it succeeds on a queue that lives on, or is told that there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_15_operations_race_with_the_deletion() {
    const ROUNDS: usize = 10;
    const QUEUES: usize = 300;
    let cluster = Cluster::start(3, 2).await;
    let brokers: Arc<Vec<Broker>> = Arc::new((1..=3).map(|node| cluster.broker(node)).collect());
    let mut ends = [[0; 2]; 3];
    for round in 0..ROUNDS {
        let name = |queue: usize| format!("q{round}-{queue}");
        futures::stream::iter(0..QUEUES)
            .for_each_concurrent(64, |queue| {
                let broker = brokers[queue % 3].clone();
                async move { create(&broker, &name(queue)).await }
            })
            .await;
        advance_minutes(&brokers[0], 5).await;
        let races = (0..QUEUES).map(|queue| {
            // Spread over the rounds of the coordinator that find them.
            let delay = Duration::from_millis((queue as u64 * 7919) % 600);
            race(brokers[(queue / 3) % 3].clone(), name(queue), queue % 3, delay)
        });
        let outcomes = soon("the races", join_all(races)).await;
        for (queue, end) in outcomes.iter().enumerate() {
            ends[queue % 3][*end as usize] += 1;
            let broker = &brokers[(queue + 1) % 3];
            match end {
                End::NotFound => gone(broker, &name(queue)).await,
                End::Lives => {
                    let found = broker.queues().get(&name(queue)).await.expect("it was used");
                    let sent = u64::from(queue % 3 == 0);
                    assert_eq!(found.info.counts.active, sent, "an accepted send is not lost");
                }
            }
        }
    }
    println!("lived and not found, of sends, peeks and receives: {ends:?}");
    for [lives, not_found] in ends {
        assert_eq!(lives + not_found, ROUNDS * QUEUES / 3);
        assert!(lives > 0 && not_found > 0, "no race: {lives} lived, {not_found} did not");
    }
}
