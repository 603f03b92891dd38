//! Auto-forwarding on real processes (FWD): a chain over several groups while nodes are killed,
//! nothing lost and nothing doubled; dead letters that wait for their destination; a figure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::{EntityStatus, QueueProperties, ReceiveMode, SubQueue};
use client::{
    Client, Disposition, Message, QueuePath, ReceiverOptions, SenderOptions, subscription_path,
};
use mayfly_tests::{Cluster, Settings, ask};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn to(name: &str) -> QueueProperties {
    QueueProperties { forward_to: Some(name.to_owned()), ..QueueProperties::default() }
}

/// Waits until a queue has accepted so many.
async fn arrived(client: &Client, queue: &str, count: u64) -> anyhow::Result<()> {
    let arrives = async {
        loop {
            if let Ok(queue) = client.get_queue(queue).await
                && queue.counters.unwrap_or_default().accepted >= count
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(120), arrives).await;
    in_time.with_context(|| format!("{count} messages do not arrive at '{queue}'"))
}

/// The bodies of a queue's messages, in order, which are completed.
async fn drain(client: &Client, path: &str, expected: usize) -> anyhow::Result<Vec<u64>> {
    let mut receiver = client.receiver(path, ReceiverOptions::default());
    let mut seen = Vec::new();
    // What comes beyond what is expected is looked for a while.
    loop {
        let patience = Duration::from_secs(if seen.len() < expected { 30 } else { 1 });
        let received = tokio::time::timeout(patience, receiver.recv_many(100)).await;
        let Ok(deliveries) = received else { break };
        let deliveries = deliveries?;
        for delivery in &deliveries {
            seen.push(std::str::from_utf8(delivery.body())?.parse()?);
        }
        let failures = receiver.settle_all(&deliveries, Disposition::Complete).failures().await;
        ensure!(failures.is_empty(), "not completed: {failures:?}");
    }
    receiver.close().await;
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn fwd_4_tx_12_a_chain_loses_and_doubles_nothing_while_nodes_are_killed() -> anyhow::Result<()>
{
    const MESSAGES: u64 = 4_000;
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 3, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("c", QueueProperties::default()).await?;
    client.create_queue("b", to("c")).await?;
    client.create_queue("a", to("b")).await?;
    let mut groups = Vec::new();
    for name in ["a", "b", "c"] {
        groups.push(client.get_queue(name).await?.group);
    }
    groups.sort_unstable();
    groups.dedup();
    ensure!(groups.len() == 3, "the chain is to span three groups, not {groups:?}");
    let (path, mode) = (QueuePath::main("a"), ReceiveMode::PeekLock);
    let refused = client.receive(&path, mode, 1, Duration::ZERO).await;
    let refused = refused.err().context("received")?;
    ensure!(refused.name() == "InvalidOperationException", "{refused}");

    let sender = client.sender("a", SenderOptions::default());
    let started = Instant::now();
    for first in (0..MESSAGES).step_by(20) {
        let batch = (first..first + 20).map(|n| Message::new(n.to_string())).collect();
        let sending = sender.submit(batch).await?;
        if first % 1_000 == 500 {
            // In the middle of things, with shipments under way on both sides.
            let victim = cluster.leader_of(["a", "b", "c"][first as usize / 1_000 % 3]).await?;
            cluster.kill(victim)?;
            sending.await?;
            cluster.start_node(victim)?;
        }
    }
    sender.flush().await;
    println!("{MESSAGES} sent over four kills in {:?}", started.elapsed());
    cluster.wait_ready().await?;
    arrived(&client, "c", MESSAGES).await?;
    println!("all arrived after {:?}", started.elapsed());

    let seen = drain(&client, "c", MESSAGES as usize).await?;
    let mut counted = BTreeMap::new();
    seen.iter().for_each(|n| *counted.entry(*n).or_insert(0) += 1);
    let wrong: Vec<_> = (0..MESSAGES)
        .filter(|n| counted.get(n) != Some(&1))
        .map(|n| (n, counted.get(&n)))
        .collect();
    ensure!(wrong.is_empty(), "lost or doubled: {wrong:?}");
    ensure!(seen.is_sorted(), "FWD-5: one sender's messages come in its order");
    for (name, forwarded) in [("a", MESSAGES), ("b", MESSAGES), ("c", 0)] {
        let counters = client.get_queue(name).await?.counters.unwrap_or_default();
        ensure!(counters.accepted == MESSAGES, "{name}: {counters:?}");
        ensure!(counters.forwarded == forwarded && counters.transfer == 0, "{name}: {counters:?}");
        ensure!(counters.dead_lettered == 0 && counters.active == 0, "{name}: {counters:?}");
    }
    Ok(())
}

/// FWD-8, FWD-9, DLQ-12; topics as destinations, subscriptions as sources.
#[tokio::test(flavor = "multi_thread")]
async fn fwd_9_dead_letters_wait_for_their_destination() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    let missing = client.create_queue("x", to("nowhere")).await.err().context("created")?;
    ensure!(missing.name() == "MessagingEntityNotFound", "{missing}");
    let disabled = QueueProperties {
        status: Some(EntityStatus::SendDisabled.into()),
        ..QueueProperties::default()
    };
    client.create_queue("graveyard", disabled.clone()).await?;
    client.create_topic("prices", Default::default()).await?;
    let forwards = client::v1::SubscriptionProperties {
        forward_dead_letters_to: Some("graveyard".to_owned()),
        ..Default::default()
    };
    client.create_subscription("prices", "audit", forwards, None).await?;
    client.create_queue("intake", to("prices")).await?;

    client.send("intake", vec![Message::new("1"), Message::new("2")]).await?;
    let audit = subscription_path("prices", "audit");
    let mut receiver = client.receiver(&audit, ReceiverOptions::default());
    for _ in 0..2 {
        let patience = Duration::from_secs(20);
        let delivery = tokio::time::timeout(patience, receiver.recv()).await??;
        let disposition =
            Disposition::DeadLetter { reason: Some("why".to_owned()), description: None };
        let failures = receiver.settle(&delivery, disposition).failures().await;
        ensure!(failures.is_empty(), "{failures:?}");
    }
    receiver.close().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let counters = client.get_queue("graveyard").await?.counters.unwrap_or_default();
    ensure!(counters.accepted == 0, "taken in though disabled: {counters:?}");
    let left = client.get_subscription("prices", "audit").await?.counters.unwrap_or_default();
    ensure!(left.dead_lettered == 2, "{left:?}");

    let enabled =
        QueueProperties { status: Some(EntityStatus::Active.into()), ..QueueProperties::default() };
    client.update_queue("graveyard", enabled).await?;
    arrived(&client, "graveyard", 2).await?;
    let mut receiver = client.receiver("graveyard", ReceiverOptions::default());
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let delivery = receiver.recv().await?;
        bodies.push(delivery.body().clone());
        ensure!(delivery.text_property("DeadLetterReason") == Some("why"));
        let source = delivery.wire().dead_letter_source.clone().unwrap_or_default();
        ensure!(source.eq_ignore_ascii_case("prices/Subscriptions/audit"), "{source}");
    }
    ensure!(bodies == ["1", "2"], "FWD-5: {bodies:?}");
    receiver.close().await;
    let left = client.get_subscription("prices", "audit").await?.counters.unwrap_or_default();
    ensure!((left.dead_lettered, left.forwarded) == (0, 2), "{left:?}");

    // FWD-8: deleted while it is forwarded to.
    client.delete_topic("prices").await?;
    client.send("intake", vec![Message::new("3")]).await?;
    let mut dead = client.receiver(
        "intake",
        ReceiverOptions { sub_queue: SubQueue::DeadLetter, ..ReceiverOptions::default() },
    );
    let delivery = tokio::time::timeout(Duration::from_secs(20), dead.recv()).await??;
    let reason = delivery.text_property("DeadLetterReason").unwrap_or_default();
    ensure!(reason == "MessagingEntityNotFoundException", "{reason}");
    dead.close().await;

    // FWD-15.
    client.update_queue("intake", to("")).await?;
    client.send("intake", vec![Message::new("4")]).await?;
    ensure!(drain(&client, "intake", 1).await? == [4]);
    Ok(())
}

/// Messages that nodes say they forwarded.
fn forwarded(cluster: &Cluster) -> anyhow::Result<u64> {
    const TAKEN: &str = "mayfly_forwarded_messages_total{outcome=\"taken\"} ";
    let mut sum = 0;
    for id in cluster.ids() {
        let text = ask(cluster.addresses(id)[1], "GET /metrics", "", "")?.body;
        for count in text.lines().filter_map(|line| line.strip_prefix(TAKEN)) {
            sum += count.parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// One dead letter is too large for where it goes: those behind it wait, and come after it once it
/// is taken. Each message counts as one.
#[tokio::test(flavor = "multi_thread")]
async fn fwd_5_fwd_16_no_dead_letter_overtakes_one_that_is_refused() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    let of_kilobytes = |kilobytes| QueueProperties {
        max_message_size_kilobytes: Some(kilobytes),
        ..QueueProperties::default()
    };
    client.create_queue("graveyard", of_kilobytes(256)).await?;
    let forwards = QueueProperties {
        forward_dead_letters_to: Some("graveyard".to_owned()),
        ..of_kilobytes(1024)
    };
    client.create_queue("a", forwards).await?;
    let mut receiver = client.receiver("a", ReceiverOptions::default());
    for bytes in [1, 300 * 1024, 2, 3] {
        client.send("a", vec![Message::new(vec![b'm'; bytes])]).await?;
        let patience = Duration::from_secs(20);
        let delivery = tokio::time::timeout(patience, receiver.recv()).await??;
        let disposition = Disposition::DeadLetter { reason: None, description: None };
        let failures = receiver.settle(&delivery, disposition).failures().await;
        ensure!(failures.is_empty(), "{failures:?}");
    }
    receiver.close().await;
    arrived(&client, "graveyard", 1).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = client.get_queue("a").await?.counters.unwrap_or_default();
    ensure!((left.dead_lettered, left.forwarded) == (3, 1), "{left:?}");

    client.update_queue("graveyard", of_kilobytes(1024)).await?;
    arrived(&client, "graveyard", 4).await?;
    let mut receiver = client.receiver("graveyard", ReceiverOptions::default());
    let mut bytes = Vec::new();
    for _ in 0..4 {
        bytes.push(receiver.recv().await?.body().len());
    }
    receiver.close().await;
    ensure!(bytes == [1, 300 * 1024, 2, 3], "{bytes:?}");
    let counted = forwarded(&cluster)?;
    ensure!(counted == 4, "FWD-16: {counted}");
    Ok(())
}

/// A figure: `cargo test --release --workspace --test forwarding -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn a_forwarded_queue_against_a_plain_one() -> anyhow::Result<()> {
    const MESSAGES: u64 = 60_000;
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { data_groups: 3, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("plain", QueueProperties::default()).await?;
    client.create_queue("there", QueueProperties::default()).await?;
    client.create_queue("forwarded", to("there")).await?;
    let mut rates = Vec::new();
    for (name, at) in [("plain", "plain"), ("forwarded", "there")] {
        let sender = client.sender(name, SenderOptions::default());
        let started = Instant::now();
        for _ in (0..MESSAGES).step_by(50) {
            let batch = (0..50).map(|_| Message::new(vec![b'x'; 1024])).collect();
            drop(sender.submit(batch).await?);
        }
        sender.flush().await;
        let sent = started.elapsed();
        arrived(&client, at, MESSAGES).await?;
        let rate = MESSAGES as f64 / started.elapsed().as_secs_f64();
        println!("{name}: {rate:.0} messages/s of 1 KiB stored; the sender took {sent:?}");
        rates.push(rate);
    }
    println!("a forwarded queue takes {:.2} of a plain one", rates[1] / rates[0]);
    Ok(())
}
