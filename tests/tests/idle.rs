//! Temporary entities on real processes that die: every abandoned one vanishes, none in use does.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::{QueueProperties, ReceiveMode, SubscriptionProperties, TopicProperties};
use client::{Client, Error, Message, QueuePath, ReceiverOptions, subscription_path};
use mayfly_tests::{Cluster, Settings};
use tokio::task::JoinSet;

const WINDOW: Duration = Duration::from_secs(300);
/// A new leader's patience, the coordinator's pace, and a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn temporary() -> QueueProperties {
    QueueProperties { auto_delete_on_idle_ms: window_ms(), ..QueueProperties::default() }
}

fn window_ms() -> Option<u64> {
    Some(WINDOW.as_millis() as u64)
}

fn temporary_topic() -> TopicProperties {
    TopicProperties { auto_delete_on_idle_ms: window_ms(), ..TopicProperties::default() }
}

fn temporary_subscription() -> SubscriptionProperties {
    SubscriptionProperties {
        auto_delete_on_idle_ms: window_ms(),
        ..SubscriptionProperties::default()
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Refused(detail) if detail.name == "MessagingEntityNotFound")
}

/// Tries until it is certainly done: nodes die all the time. What is perhaps done is asked again.
async fn insist<T, F: Future<Output = Result<T, Error>>>(
    mut ask: impl FnMut() -> F,
) -> anyhow::Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(Error::Refused(detail)) => anyhow::bail!("refused: {detail:?}"),
            Err(error) => ensure!(Instant::now() < until, "{error}"),
        }
    }
}

const TOPIC: &str = "news";

/// What the workload left and what it knows of.
#[derive(Default)]
struct Left {
    abandoned: Mutex<BTreeSet<String>>,
    /// In use when it was found gone.
    wronged: Mutex<Vec<String>>,
}

/// A request and its reply: a queue is created, sent to, received from and left.
async fn converse(client: &Client, queue: &str, left: &Left) -> anyhow::Result<()> {
    insist(|| client.ensure_queue(queue, temporary())).await?;
    left.abandoned.lock().expect("no panic").insert(queue.to_owned());
    if let Err(error) = answered(client, queue, queue).await {
        left.wronged.lock().expect("no panic").push(format!("{queue}: {error}"));
    }
    Ok(())
}

/// The same by a subscription of a topic that all others publish to as well.
async fn listen(client: &Client, name: &str, left: &Left) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match client.create_subscription(TOPIC, name, temporary_subscription(), None).await {
            Ok(_) => break,
            // By an earlier try of which nothing was heard.
            Err(Error::Refused(detail)) if detail.name == "MessagingEntityAlreadyExists" => break,
            Err(Error::Refused(detail)) => anyhow::bail!("refused: {detail:?}"),
            Err(error) => ensure!(Instant::now() < until, "{error}"),
        }
    }
    let path = subscription_path(TOPIC, name);
    if let Err(error) = answered(client, TOPIC, &path).await {
        left.wronged.lock().expect("no panic").push(format!("{path}: {error}"));
    }
    Ok(())
}

async fn answered(client: &Client, to: &str, from: &str) -> anyhow::Result<()> {
    let path = QueuePath::main(from);
    let wait = Duration::from_secs(2);
    insist(|| client.send(to, vec![Message::new("reply")])).await?;
    while insist(|| client.receive(&path, ReceiveMode::PeekLock, 1, wait)).await?.is_empty() {}
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_14_reply_queues_vanish_while_nodes_are_killed_and_none_in_use_does()
-> anyhow::Result<()> {
    const KILLS: u64 = 9;
    const WAITERS: usize = 6;
    let settings = Settings { reattach_seconds: 2, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let left = Arc::new(Left::default());
    let stop = Arc::new(AtomicBool::new(false));

    // Somebody waits on these all the time, through whichever node.
    let mut waiters = Vec::new();
    for waiter in 0..WAITERS {
        let queue = format!("awaited-{waiter}");
        client.create_queue(&queue, temporary()).await?;
        waiters.push(client.receiver(queue, ReceiverOptions::default()));
    }
    // And on a subscription that is kept as long as its topic is.
    client.create_topic("awaited", temporary_topic()).await?;
    client.create_subscription("awaited", "s", SubscriptionProperties::default(), None).await?;
    let path = subscription_path("awaited", "s");
    let mut subscriber = client.receiver(path, ReceiverOptions::default());
    client.create_topic(TOPIC, temporary_topic()).await?;
    let mut workers = JoinSet::new();
    for worker in 0..4 {
        let (client, left, stop) = (cluster.client()?, left.clone(), stop.clone());
        workers.spawn(async move {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let name = format!("reply-{worker}-{number}");
                match worker {
                    0 | 1 => converse(&client, &name, &left).await?,
                    _ => listen(&client, &name, &left).await?,
                }
            }
            anyhow::Ok(number)
        });
    }

    for kill in 0..KILLS {
        let victim = kill % 3 + 1;
        // Time enough for some to vanish, of those left three kills ago.
        tokio::time::sleep(Duration::from_secs(5)).await;
        insist(|| client.advance_clock(Duration::from_secs(120))).await?;
        cluster.kill(victim)?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.start_node(victim)?;
    }
    stop.store(true, Ordering::Relaxed);
    let mut conversations = 0;
    while let Some(worker) = workers.join_next().await {
        conversations += worker??;
    }
    cluster.wait_ready().await?;
    let standing = insist(|| client.list_queues("reply-")).await?.len();
    insist(|| client.advance_clock(WINDOW + Duration::from_secs(60))).await?;

    let abandoned = left.abandoned.lock().expect("no panic").clone();
    let wronged = left.wronged.lock().expect("no panic").clone();
    ensure!(wronged.is_empty(), "deleted in use: {wronged:?}");
    let begun = Instant::now();
    loop {
        let standing = insist(|| client.list_queues("reply-")).await?;
        if standing.is_empty() {
            break;
        }
        let (count, first) = (standing.len(), &standing[0]);
        ensure!(begun.elapsed() < PATIENCE, "{count} are still there, as {first:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let idle = Instant::now();
    loop {
        match client.list_subscriptions(TOPIC).await {
            Ok(standing) if standing.is_empty() => break,
            Ok(standing) => {
                let count = standing.len();
                ensure!(idle.elapsed() < PATIENCE, "{count} subscriptions are still there");
            }
            Err(error) => ensure!(!is_gone(&error), "the topic went first: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // The end of the last of them was a use of the topic (IDLE-10).
    insist(|| client.get_topic(TOPIC)).await?;
    insist(|| client.advance_clock(WINDOW + Duration::from_secs(60))).await?;
    while client.get_topic(TOPIC).await.is_ok() {
        ensure!(idle.elapsed() < 2 * PATIENCE, "the topic is still there");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let during = abandoned.len() - standing;
    println!(
        "{conversations} conversations, {} queues left and deleted, {during} during the kills; \
         the last {:?} after its window",
        abandoned.len(),
        begun.elapsed()
    );
    ensure!(during > 0, "nothing was deleted while nodes were killed");
    for queue in abandoned.iter().take(20) {
        let error = client.get_queue(queue).await.err().context("it was abandoned")?;
        ensure!(is_gone(&error), "{error}");
    }
    for (waiter, mut receiver) in waiters.into_iter().enumerate() {
        let queue = format!("awaited-{waiter}");
        insist(|| client.send(&queue, vec![Message::new("still there")])).await?;
        serves(&mut receiver).await?;
        receiver.close().await;
    }
    insist(|| client.send("awaited", vec![Message::new("still there")])).await?;
    serves(&mut subscriber).await?;
    subscriber.close().await;
    Ok(())
}

async fn serves(receiver: &mut client::Receiver) -> anyhow::Result<()> {
    let receiving = async {
        loop {
            match receiver.recv().await {
                // Of a node that was killed; the receiver went on with another.
                Err(error) if !matches!(error, Error::Refused(_)) => (),
                result => return result,
            }
        }
    };
    let delivery = tokio::time::timeout(PATIENCE, receiving).await??;
    ensure!(receiver.complete(&delivery).failures().await.is_empty());
    Ok(())
}

/// What one operation of a race came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Lives,
    NotFound,
    /// No leader answered: a busy machine.
    Unknown,
}

/// A send, a peek and the attach of a receiver.
const KINDS: usize = 3;

/// Whoever attaches is told by then, or waits at a living entity.
const ATTACHED: Duration = Duration::from_secs(1);

/// A temporary queue, or a temporary topic with a subscription that is never idle by itself.
struct Raced {
    name: String,
    /// Where its messages are.
    path: String,
}

impl Raced {
    async fn create(client: &Client, number: usize) -> Result<Raced, Error> {
        let name = format!("raced-{number}");
        if number.is_multiple_of(2) {
            client.create_queue(&name, temporary()).await?;
            return Ok(Raced { path: name.clone(), name });
        }
        client.create_topic(&name, temporary_topic()).await?;
        client.create_subscription(&name, "s", SubscriptionProperties::default(), None).await?;
        Ok(Raced { path: subscription_path(&name, "s"), name })
    }

    async fn race(&self, client: &Client, kind: usize, delay: Duration) -> anyhow::Result<End> {
        tokio::time::sleep(delay).await;
        let outcome = match kind {
            0 => client.send(&self.name, vec![Message::new("m")]).await.map(drop),
            1 => client.peek(&QueuePath::main(self.path.as_str()), 0, 1).await.map(drop),
            _ => self.attach(client).await?,
        };
        match outcome {
            Ok(()) => Ok(End::Lives),
            Err(error) if is_gone(&error) => Ok(End::NotFound),
            Err(Error::Refused(detail)) => anyhow::bail!("{kind} on {}: {detail:?}", self.path),
            Err(_) => Ok(End::Unknown),
        }
    }

    async fn attach(&self, client: &Client) -> anyhow::Result<Result<(), Error>> {
        let mut receiver = client.receiver(&self.path, ReceiverOptions::default());
        let outcome = match tokio::time::timeout(ATTACHED, receiver.recv()).await {
            Ok(Ok(delivery)) => {
                drop(receiver.abandon(&delivery));
                Ok(())
            }
            Ok(Err(error)) => Err(error),
            // Nothing is there for it. It keeps the entity, or hears that it is gone.
            Err(_) if self.holds(client).await?.is_some() => Ok(()),
            Err(_) => tokio::time::timeout(PATIENCE, receiver.recv()).await?.map(drop),
        };
        receiver.close().await;
        Ok(outcome)
    }

    /// Whether it is there, and if so how many messages it holds.
    async fn holds(&self, client: &Client) -> anyhow::Result<Option<u64>> {
        let counters = match self.name == self.path {
            true => client.get_queue(&self.name).await.map(|queue| queue.counters),
            false => client.get_subscription(&self.name, "s").await.map(|found| found.counters),
        };
        match counters {
            Ok(counters) => Ok(Some(counters.unwrap_or_default().active)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What was used lives on with what was accepted; what was not found is gone, for all who came
    /// after as well.
    async fn check(&self, client: &Client, ends: [End; KINDS]) -> anyhow::Result<()> {
        let (lives, gone) = (ends.contains(&End::Lives), ends.contains(&End::NotFound));
        ensure!(!(lives && gone), "{} lives and is gone: {ends:?}", self.path);
        if !lives && !gone {
            return Ok(());
        }
        let sent = u64::from(ends[0] == End::Lives);
        let begun = Instant::now();
        loop {
            let held = self.holds(client).await?;
            match held {
                Some(active) if lives && active >= sent => return Ok(()),
                None if gone => return Ok(()),
                None => anyhow::bail!("{} was used and is gone: {ends:?}", self.path),
                // The catalog is told a moment after the group.
                Some(_) => (),
            }
            ensure!(begun.elapsed() < PATIENCE, "{} has {held:?}: {ends:?}", self.path);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A thousand times a send, a peek and a receiver's attach against the deadline of one entity, in any
/// order.
#[tokio::test(flavor = "multi_thread")]
async fn idle_15_a_thousand_times_operations_race_with_the_deletion() -> anyhow::Result<()> {
    const ROUNDS: usize = 5;
    const ENTITIES: usize = 200;
    let settings = Settings { reattach_seconds: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let mut came = [[0; 3]; KINDS];
    for round in 0..ROUNDS {
        let mut creating = JoinSet::new();
        for first in 0..12 {
            let client = client.clone();
            creating.spawn(async move {
                let mut created = Vec::new();
                for entity in (first..ENTITIES).step_by(12) {
                    created.push(Raced::create(&client, round * ENTITIES + entity).await?);
                }
                anyhow::Ok(created)
            });
        }
        let mut raced = Vec::new();
        while let Some(created) = creating.join_next().await {
            raced.extend(created??);
        }
        client.advance_clock(WINDOW).await?;
        let mut races = JoinSet::new();
        for (number, entity) in raced.into_iter().enumerate() {
            let client = client.clone();
            // Over the pace of the coordinator, and what its round takes.
            let delay =
                move |kind| Duration::from_millis((number * 7919 + kind * 3571) as u64 % 6_500);
            races.spawn(async move {
                let race = |kind| entity.race(&client, kind, delay(kind));
                let (send, peek, attach) = tokio::try_join!(race(0), race(1), race(2))?;
                entity.check(&client, [send, peek, attach]).await?;
                anyhow::Ok([send, peek, attach])
            });
        }
        while let Some(ends) = races.join_next().await {
            for (came, end) in came.iter_mut().zip(ends??) {
                came[end as usize] += 1;
            }
        }
    }
    println!("sends, peeks, attaches: living, not found, unknown: {came:?}");
    for [lives, not_found, unknown] in came {
        ensure!(lives + not_found + unknown == ROUNDS * ENTITIES);
        ensure!(lives > 0 && not_found > 0, "no race: {came:?}");
        ensure!(unknown * 10 < lives + not_found, "hardly any answers: {came:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_2_the_list_says_what_keeps_a_queue() -> anyhow::Result<()> {
    let settings =
        Settings { nodes: 1, data_groups: 1, reattach_seconds: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("kept", QueueProperties::default()).await?;
    for queue in ["peeked", "unused", "waiting"] {
        client.create_queue(queue, temporary()).await?;
    }
    let due = client.now().await?.now_ms + 3_600_000;
    client.send("waiting", vec![Message::new("later").scheduled_at_ms(due)]).await?;
    client.peek(&QueuePath::dead_letter("peeked"), 0, 1).await?;
    client.create_topic("news", temporary_topic()).await?;
    client.create_subscription("news", "kept", SubscriptionProperties::default(), None).await?;
    client.peek(&QueuePath::main(subscription_path("news", "kept")), 0, 1).await?;
    let run = |arguments: &[&str]| -> anyhow::Result<std::process::Output> {
        Ok(std::process::Command::new(mayfly_tests::mayfly()?)
            .args(arguments)
            .args(["--connect", cluster.addresses(1)[0]])
            .output()?)
    };
    let told = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = run(arguments)?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let list = |flags: &[&str]| told(&[&["queue", "list"], flags].concat());
    // IDLE-1, and what there was stays as it was.
    let short = run(&["topic", "update", "news", "--auto-delete-on-idle", "4m59s"])?;
    let refusal = String::from_utf8(short.stderr)?;
    ensure!(!short.status.success() && refusal.contains("5 min"), "{refusal}");
    let topics = told(&["topic", "list", "--idle"])?;
    ensure!(topics.contains("a receiver or a peek") && topics.contains("5m"), "{topics}");
    let subscriptions = told(&["subscription", "list", "news", "--idle"])?;
    ensure!(subscriptions.contains("its settings"), "{subscriptions}");
    let shown = list(&["--idle"])?;
    let line = |queue: &str| {
        shown.lines().find(|line| line.starts_with(queue)).unwrap_or_default().to_owned()
    };
    ensure!(line("kept").contains("its settings"), "{shown}");
    ensure!(line("peeked").contains("a receiver or a peek"), "{shown}");
    ensure!(line("unused").contains("its last use, for"), "{shown}");
    ensure!(line("waiting").contains("1 scheduled"), "{shown}");
    client.advance_clock(WINDOW + Duration::from_secs(61)).await?;
    let begun = Instant::now();
    while client.list_queues("").await?.len() > 2 {
        ensure!(begun.elapsed() < PATIENCE, "{}", list(&["--idle"])?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let shown = list(&["--json"])?;
    ensure!(shown.contains("kept") && shown.contains("waiting"), "{shown}");
    let told = cluster.node_log(1);
    ensure!(told.contains("entity deleted") && told.contains("idle"), "{told}");
    Ok(())
}
