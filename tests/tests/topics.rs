//! Topics on real processes: what is published while leaders are killed reaches exactly the
//! subscriptions whose rules take it, exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use client::v1::{self, filter::Kind};
use client::{Client, Message, ReceiverOptions, SenderOptions, subscription_path, value};
use domain::FEATURE_LEVEL_KNOWN;
use mayfly_tests::{Cluster, Settings};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const TOPIC: &str = "prices";
const MESSAGES: i64 = 1500;

fn sql(text: &str) -> v1::Sql {
    v1::Sql { text: text.to_owned(), ..v1::Sql::default() }
}

fn rule(name: &str, kind: Kind, action: Option<&str>) -> v1::Rule {
    let filter = Some(v1::Filter { kind: Some(kind) });
    v1::Rule { name: name.to_owned(), filter, action: action.map(sql), created_at_ms: 0 }
}

/// Subscriptions, each with its first rule.
async fn subscribe(client: &Client) -> anyhow::Result<()> {
    let correlation = v1::Correlation {
        properties: [("kind".to_owned(), value::string("even"))].into(),
        ..v1::Correlation::default()
    };
    for (name, rule) in [
        ("all", None),
        ("thirds", Some(rule("thirds", Kind::Sql(sql("n % 3 = 0")), None))),
        ("even", Some(rule("even", Kind::Correlation(correlation), None))),
        ("marked", Some(rule("mark", Kind::Sql(sql("n % 5 = 0")), Some("SET mark = n + 1")))),
        ("failing", Some(rule("fails", Kind::Sql(sql("n / 0 = 1 AND n < 10")), None))),
        ("none", Some(rule("none", Kind::Constant(false), None))),
    ] {
        client.create_subscription(TOPIC, name, Default::default(), rule).await?;
    }
    // A second rule makes a second copy of some.
    let doubled = rule("double", Kind::Sql(sql("n % 100 = 0")), Some("SET doubled = TRUE"));
    client.put_rule(TOPIC, "thirds", doubled, false).await?;
    Ok(())
}

fn message(n: i64) -> Message {
    let kind = if n % 2 == 0 { "even" } else { "odd" };
    Message::new(n.to_string()).property("n", value::long(n)).property("kind", value::string(kind))
}

/// How often each message is in a subscription, by its body.
async fn drain(
    client: &Client,
    name: &str,
    expected: usize,
    dead: bool,
) -> anyhow::Result<BTreeMap<i64, u32>> {
    let path = subscription_path(TOPIC, name);
    let sub_queue = if dead { v1::SubQueue::DeadLetter } else { v1::SubQueue::Main };
    let options = ReceiverOptions { sub_queue, ..ReceiverOptions::default() };
    let mut receiver = client.receiver(&path, options);
    let mut seen = BTreeMap::new();
    let mut count = 0;
    // What comes beyond what is expected is looked for a while.
    loop {
        let patience = Duration::from_secs(if count < expected { 30 } else { 1 });
        let Ok(deliveries) = tokio::time::timeout(patience, receiver.recv_many(100)).await else {
            break;
        };
        for delivery in deliveries? {
            let n: i64 = std::str::from_utf8(delivery.body())?.parse()?;
            *seen.entry(n).or_default() += 1;
            count += 1;
            let failures = receiver.complete(&delivery).failures().await;
            ensure!(failures.is_empty(), "not completed: {failures:?}");
        }
    }
    receiver.close().await;
    Ok(seen)
}

/// Who leads the topic's group, once somebody does.
async fn leader(client: &Client) -> anyhow::Result<u64> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let leader = client.get_topic(TOPIC).await?.leader_node;
        if leader != 0 {
            return Ok(leader);
        }
        ensure!(Instant::now() < until, "nobody leads the group of '{TOPIC}'");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_14_what_is_published_while_leaders_die_has_exactly_its_copies() -> anyhow::Result<()>
{
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    client.create_topic(TOPIC, Default::default()).await?;
    subscribe(&client).await?;

    let sender = client.sender(TOPIC, SenderOptions::default());
    let started = Instant::now();
    for n in 0..MESSAGES {
        let sending = sender.submit(vec![message(n)]).await?;
        if n % 500 == 250 {
            // In the middle of things, with messages under way.
            let leader = leader(&client).await?;
            cluster.kill(leader)?;
            sending.await?;
            cluster.start_node(leader)?;
        }
    }
    sender.flush().await;
    println!("{MESSAGES} published over three kills in {:?}", started.elapsed());
    cluster.wait_ready().await?;

    let numbers = |takes: &dyn Fn(i64) -> u32| -> BTreeMap<i64, u32> {
        (0..MESSAGES).map(|n| (n, takes(n))).filter(|(_, count)| *count > 0).collect()
    };
    for (name, dead, expected) in [
        ("all", false, numbers(&|_| 1)),
        ("thirds", false, numbers(&|n| u32::from(n % 3 == 0) + u32::from(n % 100 == 0))),
        ("even", false, numbers(&|n| u32::from(n % 2 == 0))),
        ("marked", false, numbers(&|n| u32::from(n % 5 == 0))),
        ("failing", true, numbers(&|_| 1)),
        ("none", false, BTreeMap::new()),
    ] {
        let count = expected.values().sum::<u32>() as usize;
        let seen = drain(&client, name, count, dead).await?;
        ensure!(seen == expected, "{name}: {} of {}", seen.len(), expected.len());
    }

    // COUNT-3, COUNT-5: everything is accounted for, and with the last copy all bytes are given back.
    let counters = client.get_topic(TOPIC).await?.counters.unwrap_or_default();
    ensure!(counters.published == MESSAGES as u64 && counters.size_bytes == 0, "{counters:?}");
    client.delete_topic(TOPIC).await?;
    let gone = client.peek(&client::QueuePath::main(subscription_path(TOPIC, "all")), 0, 1).await;
    ensure!(matches!(&gone, Err(error) if error.name() == "MessagingEntityNotFound"), "{gone:?}");
    Ok(())
}

/// 2,000 filters in 20 subscriptions: of each one takes its share of the messages, and the others look through all
/// of their text for what is not there.
async fn heavy(client: &Client, pattern: &str) -> anyhow::Result<()> {
    for subscription in 0..20 {
        let name = format!("s{subscription}");
        let takes = rule("takes", Kind::Sql(sql(&format!("n % 20 <= {subscription}"))), None);
        client.create_subscription(TOPIC, &name, Default::default(), Some(takes)).await?;
        let mut puts = JoinSet::new();
        for n in 0..99 {
            let filter = Kind::Sql(sql(&format!("t LIKE '{pattern}'")));
            let looks = rule(&format!("looks-{n}"), filter, None);
            let (client, name) = (client.clone(), name.clone());
            puts.spawn(async move { client.put_rule(TOPIC, &name, looks, false).await });
        }
        while let Some(put) = puts.join_next().await {
            put??;
        }
    }
    Ok(())
}

/// RULE-41: six messages of 30 kB to 2,000 filters that look through them, while others send to a queue of the same
/// group. Every copy comes, once; how long the others waited is told.
#[tokio::test(flavor = "multi_thread")]
async fn rule_41_filters_that_take_long_hold_nobody_up_and_lose_nothing() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    for (nodes, pattern) in [(1, "%zz1%"), (1, "%_z1_b%"), (3, "%_z1_b%")] {
        let settings = Settings { nodes, data_groups: 1, ..Settings::default() };
        let cluster = Cluster::start(settings).await?;
        let client = cluster.client()?;
        cluster
            .wait_for_status("the feature level to rise", |status| {
                status.feature_level == FEATURE_LEVEL_KNOWN
            })
            .await?;
        client.create_topic(TOPIC, Default::default()).await?;
        heavy(&client, pattern).await?;
        client.create_queue("other", Default::default()).await?;

        let stop = Arc::new(AtomicBool::new(false));
        let (others, stopped) = (cluster.client()?, stop.clone());
        let meanwhile = tokio::spawn(async move {
            let sender = others.sender("other", SenderOptions::default());
            let mut waits = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let sent = Instant::now();
                sender.send(Message::new("m")).await?;
                waits.push(sent.elapsed());
            }
            Ok::<_, client::Error>(waits)
        });
        let sender = client.sender(TOPIC, SenderOptions::default());
        let started = Instant::now();
        for n in 0..6 {
            let text = "az2ab".repeat(6 * 1024);
            let message = message(n).property("t", value::string(text));
            sender.send(message).await?;
        }
        let accepted = started.elapsed();
        for subscription in 0..20 {
            let expected: BTreeMap<i64, u32> =
                (0..6).filter(|n| n % 20 <= subscription).map(|n| (n, 1)).collect();
            let name = format!("s{subscription}");
            let seen = take(&client, &name, expected.len()).await?;
            ensure!(seen == expected, "{name}: {seen:?}");
        }
        let matched = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        let mut waits = meanwhile.await??;
        waits.sort_unstable();
        let at = |share: usize| waits[(waits.len() * share / 1000).min(waits.len() - 1)];
        println!(
            "{nodes} nodes, '{pattern}': accepted after {accepted:?}, matched after {matched:?}; {} sends \
             to another queue, p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
            waits.len(),
            at(500),
            at(990),
            at(999),
            at(1000)
        );
        let counters = client.get_topic(TOPIC).await?.counters.unwrap_or_default();
        ensure!(counters.published == 6 && counters.size_bytes == 0, "{counters:?}");
    }
    Ok(())
}

/// As many messages as are expected; whether there are more the topic's bytes tell.
async fn take(client: &Client, name: &str, expected: usize) -> anyhow::Result<BTreeMap<i64, u32>> {
    let mut receiver = client.receiver(subscription_path(TOPIC, name), ReceiverOptions::default());
    let (mut seen, mut count) = (BTreeMap::new(), 0);
    while count < expected {
        let patience = Duration::from_secs(60);
        let deliveries = tokio::time::timeout(patience, receiver.recv_many(100)).await??;
        for delivery in deliveries {
            let n: i64 = std::str::from_utf8(delivery.body())?.parse()?;
            *seen.entry(n).or_default() += 1;
            count += 1;
            let failures = receiver.complete(&delivery).failures().await;
            ensure!(failures.is_empty(), "not completed: {failures:?}");
        }
    }
    receiver.close().await;
    Ok(seen)
}
