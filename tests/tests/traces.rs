//! Traces of messages on real clusters: what nodes tell a collector of a message whose sender is traced, under
//! whichever leader it happens, and each once.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use client::v1::{QueueProperties, ReceiveMode, SubscriptionProperties, TopicProperties};
use client::{Client, Delivery, Disposition, Message, QueuePath, subscription_path, value};
use mayfly_tests::{Cluster, CollectedSpan, Collector, Settings, ask, free_ports, tree};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SENDER: &str = "00f067aa0ba902b7";
/// Of anything that is waited for, on a busy machine.
const WITHIN: Duration = Duration::from_secs(30);
const LOCK: Duration = Duration::from_secs(6);
/// A node that was killed is back by then, and its groups have leaders.
const TTL: Duration = Duration::from_secs(26);

/// Lives as long as the test process, as what a cluster is told does.
fn told(endpoint: &str) -> Settings {
    let config = format!("[tracing]\notlp_endpoint = \"http://{endpoint}\"\n");
    Settings { config: config.leak(), ..Settings::default() }
}

fn message(trace: &str, flags: &str) -> Message {
    let parent = format!("00-{trace}-{SENDER}-{flags}");
    Message::new("x").message_id("m").property("traceparent", value::string(parent))
}

async fn receive(client: &Client, path: &QueuePath) -> anyhow::Result<Delivery> {
    let received = client.receive(path, ReceiveMode::PeekLock, 1, WITHIN).await?;
    received.into_iter().next().with_context(|| format!("nothing comes from {path:?}"))
}

async fn settle(
    client: &Client,
    path: &QueuePath,
    delivery: &Delivery,
    how: Disposition,
) -> anyhow::Result<()> {
    let failures = client.settle(path, vec![delivery.settlement(how)], true).await?;
    ensure!(failures.is_empty(), "{failures:?}");
    Ok(())
}

/// Each span once, and none longer than all of it took.
fn check(spans: &[CollectedSpan], began: SystemTime) -> anyhow::Result<()> {
    let ids: BTreeSet<String> = spans.iter().map(CollectedSpan::id).collect();
    ensure!(ids.len() == spans.len(), "{} spans have {} ids", spans.len(), ids.len());
    // Times are those of the log, whose leaders' clocks may be apart.
    let from = began.duration_since(SystemTime::UNIX_EPOCH)? - Duration::from_secs(1);
    let to = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + Duration::from_secs(1);
    for CollectedSpan { span, .. } in spans {
        let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
        let is_sound = u128::from(start) >= from.as_nanos()
            && start <= end
            && u128::from(end) <= to.as_nanos();
        ensure!(is_sound, "{span:?}");
    }
    Ok(())
}

fn expect(spans: &[CollectedSpan], expected: &str) -> anyhow::Result<()> {
    let found = tree(spans, SENDER);
    ensure!(found == expected, "told is\n{found}expected is\n{expected}of {spans:#?}");
    ensure!(found.lines().count() == spans.len(), "some come under nothing: {spans:#?}");
    Ok(())
}

/// The life of docs/operations/tracing.md.
const LIFE: &str = "\
enqueue intake
  forward intake
    enqueue orders
      wait orders (locked)
      deliver orders (lock lapsed)
      wait orders (locked)
      deliver orders (abandoned)
        settle orders (abandon)
      wait orders (dead-lettered)
      expire orders
      dead-letter orders
      wait orders/$DeadLetterQueue (locked)
      deliver orders/$DeadLetterQueue (completed)
        settle orders/$DeadLetterQueue (complete)
enqueue orders
  wait orders (locked)
  deliver orders (completed)
    settle orders (complete)
";

#[tokio::test(flavor = "multi_thread")]
async fn a_life_is_one_trace_whoever_leads() -> anyhow::Result<()> {
    let _one = ONE_AT_A_TIME.lock().await;
    let collector = Collector::start(0).await?;
    let mut cluster = Cluster::start(told(&collector.address)).await?;
    let (client, began) = (cluster.client()?, SystemTime::now());
    let orders = QueueProperties {
        lock_duration_ms: Some(LOCK.as_millis() as u64),
        dead_letter_on_expiration: Some(true),
        ..QueueProperties::default()
    };
    client.create_queue("orders", orders).await?;
    let forward_to = Some("orders".to_owned());
    let intake = QueueProperties { forward_to, ..QueueProperties::default() };
    client.create_queue("intake", intake).await?;
    let (main, dead) = (QueuePath::main("orders"), QueuePath::dead_letter("orders"));

    client.send("orders", vec![message(&"5".repeat(32), "00")]).await?;
    let unsampled = receive(&client, &main).await?;
    settle(&client, &main, &unsampled, Disposition::Complete).await?;

    client.send("intake", vec![message(TRACE, "01").ttl(TTL)]).await?;
    let first = receive(&client, &main).await?;
    ensure!(first.delivery_count() == 1, "{first:?}");
    // What a node had not told when it dies, nobody tells: until it was locked there are four.
    ensure!(collector.of_trace(TRACE, 4).await.len() >= 4);
    // The lock begins under one leader and lapses under another.
    let leader = cluster.leader_of("orders").await?;
    cluster.kill(leader)?;
    while cluster.leader_of("orders").await? == leader {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.start_node(leader)?;
    cluster.wait_ready().await?;
    let again = receive(&client, &main).await?;
    ensure!(again.delivery_count() == 2, "{again:?}");
    settle(&client, &main, &again, Disposition::Abandon).await?;

    let lost = receive(&client, &dead).await?;
    let reason = lost.text_property("DeadLetterReason");
    ensure!(reason == Some("TTLExpiredException"), "{lost:?}");
    client.send("orders", vec![message(TRACE, "01")]).await?;
    settle(&client, &dead, &lost, Disposition::Complete).await?;
    // It was led elsewhere when it came, and is led by whoever was not there then.
    let group = client.get_queue("orders").await?.group;
    client.transfer_leader(group, leader).await?;
    let last = receive(&client, &main).await?;
    settle(&client, &main, &last, Disposition::Complete).await?;

    let spans = collector.of_trace(TRACE, LIFE.lines().count()).await;
    println!("{}", times(&spans));
    expect(&spans, LIFE)?;
    check(&spans, began)?;
    let told_by = |name: &str| {
        let told = spans.iter().find(|span| span.span.name == name);
        told.map(|span| span.instance.clone())
    };
    let leaders = (told_by("wait orders"), told_by("deliver orders"));
    ensure!(leaders.0 == Some(leader.to_string()) && leaders.1 != leaders.0, "{leaders:?}");
    let expiry = spans.iter().find(|span| span.span.name == "expire orders").context("expiry")?;
    let late: u64 = expiry.attribute("mayfly.lateness_ms").context("lateness")?.parse()?;
    ensure!(late < 5_000, "{late} ms late");
    let of_unsampled = collector.of_trace(&"5".repeat(32), 0).await;
    ensure!(of_unsampled.is_empty(), "{of_unsampled:?}");
    Ok(())
}

/// As docs/operations/tracing.md shows it.
fn times(spans: &[CollectedSpan]) -> String {
    let start = spans.iter().map(|span| span.span.start_time_unix_nano).min().unwrap_or_default();
    let mut lines: Vec<(u64, String)> = Vec::new();
    for CollectedSpan { span, instance } in spans {
        let from = (span.start_time_unix_nano - start) / 1_000_000;
        let took = (span.end_time_unix_nano - span.start_time_unix_nano) / 1_000_000;
        lines.push((from, format!("{from:>6} ms {took:>6} ms  node {instance}  {}", span.name)));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line + "\n").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_and_schedules_come_under_what_they_are_of() -> anyhow::Result<()> {
    let _one = ONE_AT_A_TIME.lock().await;
    let collector = Collector::start(0).await?;
    let cluster = Cluster::start(Settings { nodes: 1, ..told(&collector.address) }).await?;
    let (client, began) = (cluster.client()?, SystemTime::now());
    client.create_topic("news", TopicProperties::default()).await?;
    for name in ["a", "b"] {
        client.create_subscription("news", name, SubscriptionProperties::default(), None).await?;
    }
    let due = SystemTime::now() + Duration::from_secs(1);
    client.send("news", vec![message(TRACE, "01").scheduled_at(due)]).await?;
    let a = QueuePath::main(subscription_path("news", "a"));
    let delivery = receive(&client, &a).await?;
    settle(&client, &a, &delivery, Disposition::Defer).await?;
    let numbers = vec![delivery.sequence_number()];
    let deferred = client.receive_deferred(&a, ReceiveMode::PeekLock, numbers).await?;
    let why = Disposition::DeadLetter { reason: Some("bad".into()), description: None };
    settle(&client, &a, &deferred[0], why).await?;
    let b = QueuePath::main(subscription_path("news", "b"));
    client.receive(&b, ReceiveMode::ReceiveAndDelete, 1, WITHIN).await?;
    let expected = "\
enqueue news
  enqueue news
    publish news (2)
      enqueue news/Subscriptions/a
        wait news/Subscriptions/a (locked)
        deliver news/Subscriptions/a (deferred)
          settle news/Subscriptions/a (defer)
        wait news/Subscriptions/a (locked)
        deliver news/Subscriptions/a (dead-lettered)
          settle news/Subscriptions/a (dead_letter)
        dead-letter news/Subscriptions/a
      enqueue news/Subscriptions/b
        wait news/Subscriptions/b (locked)
        deliver news/Subscriptions/b (completed on delivery)
"
    .replacen("  enqueue news\n", "  schedule news\n", 1);
    let spans = collector.of_trace(TRACE, expected.lines().count()).await;
    expect(&spans, &expected)?;
    check(&spans, began)?;
    let of_a = spans.iter().find(|span| span.span.name == "dead-letter news/Subscriptions/a");
    let of_a = of_a.context("the dead letter")?;
    ensure!(of_a.attribute("messaging.destination.name").as_deref() == Some("news"));
    ensure!(of_a.attribute("messaging.destination.subscription.name").as_deref() == Some("a"));
    ensure!(of_a.attribute("mayfly.dead_letter.reason").as_deref() == Some("bad"));
    Ok(())
}

/// What is waited for: that the node's metrics say so.
async fn metric(cluster: &Cluster, name: &str, least: u64) -> anyhow::Result<()> {
    let [_, http, _] = cluster.addresses(1);
    let says = || -> anyhow::Result<u64> {
        let page = ask(http, "GET /metrics", "", "")?.body;
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.context("no such metric")?.trim().parse()?)
    };
    let rises = async {
        while says()? < least {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(WITHIN, rises).await.with_context(|| format!("{name}: {:?}", says()))?
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_collector_a_node_loses_spans_only() -> anyhow::Result<()> {
    let _one = ONE_AT_A_TIME.lock().await;
    let port = free_ports(1)?[0];
    let settings = told(&format!("127.0.0.1:{port}"));
    let cluster = Cluster::start(Settings { nodes: 1, ..settings }).await?;
    let client = cluster.client()?;
    client.create_queue("q", QueueProperties::default()).await?;
    // More than wait for it, and each has one span at least.
    const SENT: usize = 20_000;
    for _ in 0..SENT / 500 {
        client.send("q", (0..500).map(|_| message(TRACE, "01")).collect()).await?;
    }
    let accepted = client.get_queue("q").await?.counters.unwrap_or_default().accepted;
    ensure!(accepted == SENT as u64, "{accepted} of {SENT} are accepted");
    metric(&cluster, "mayfly_spans_dropped_total{reason=\"full\"}", 1).await?;
    let collector = Collector::start(port).await?;
    metric(&cluster, "mayfly_spans_sent_total", 10_000).await?;
    ensure!(collector.of_trace(TRACE, 10_000).await.len() >= 10_000);
    let log = cluster.node_log(1);
    let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    ensure!(said("takes no spans") == 1 && said("takes spans again") == 1, "{log}");
    Ok(())
}
