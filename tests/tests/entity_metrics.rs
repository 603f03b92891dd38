//! Metrics of entities: over all nodes everything is counted once, whoever leads, and no sum falls.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use client::v1::QueueProperties;
use client::{Client, Disposition, Message, ReceiverOptions};
use mayfly_tests::{Cluster, Settings, ask};

/// How long what was done may take to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

/// Of a series, by its name and some of its labels, the sum over all nodes.
fn sum(cluster: &Cluster, name: &str, labels: &[&str]) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for id in cluster.ids() {
        let page = ask(cluster.addresses(id)[1], "GET /metrics", "", "")?.body;
        let of = |line: &&str| {
            line.split(['{', ' ']).next() == Some(name)
                && labels.iter().all(|label| line.contains(label))
        };
        for line in page.lines().filter(of) {
            let (_, value) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
            sum += value.parse::<f64>()?;
        }
    }
    Ok(sum)
}

/// Waits until it is so much.
async fn becomes(
    cluster: &Cluster,
    name: &str,
    labels: &[&str],
    wanted: f64,
) -> anyhow::Result<()> {
    let until = Instant::now() + TOLD_WITHIN;
    loop {
        let told = sum(cluster, name, labels)?;
        if told == wanted {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{name} {labels:?} is {told} and not {wanted}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn message() -> Message {
    Message::new(vec![b'm'; 100])
}

async fn send(client: &Client, queue: &str, count: usize) -> anyhow::Result<()> {
    let sender = client.sender(queue, Default::default());
    for _ in 0..count {
        sender.send(message()).await?;
    }
    Ok(())
}

const SENT: &str = "mayfly_entity_sent_messages_total";
const SETTLED: &str = "mayfly_entity_settled_messages_total";
const DEAD: &str = "mayfly_entity_dead_lettered_messages_total";
const ORDERS: &str = "entity=\"orders\"";

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_counted_once_and_no_sum_falls() -> anyhow::Result<()> {
    let settings =
        Settings { data_groups: 1, config: "[metrics]\nentities_max = 2\n", ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.wait_all_vote().await?;
    let client = cluster.client()?;
    let properties =
        QueueProperties { dead_letter_on_expiration: Some(true), ..QueueProperties::default() };
    client.create_queue("orders", properties).await?;
    send(&client, "orders", 10).await?;
    let mut receiver = client.receiver("orders", ReceiverOptions::default());
    let mut held = Vec::new();
    while held.len() < 10 {
        held.extend(receiver.recv_many(10 - held.len()).await?);
    }
    becomes(&cluster, "mayfly_entity_consumers", &[ORDERS], 1.0).await?;
    let dead_letter = || Disposition::DeadLetter { reason: None, description: None };
    for (count, disposition) in
        [(4, Disposition::Complete), (1, Disposition::Defer), (2, dead_letter())]
    {
        for delivery in held.drain(..count) {
            let settling =
                receiver.settle_all(std::slice::from_ref(&delivery), disposition.clone());
            ensure!(settling.failures().await.is_empty(), "it is not settled");
        }
    }
    let settling = receiver.settle_all(&held, Disposition::Abandon);
    ensure!(settling.failures().await.is_empty(), "it is not abandoned");
    receiver.close().await;

    let sender = client.sender("orders", Default::default());
    sender.send(message().ttl(Duration::from_millis(10))).await?;
    let hour = SystemTime::now() + Duration::from_secs(3_600);
    let number = sender.send(message().scheduled_at(hour)).await?;
    client.cancel_scheduled("orders", vec![number]).await?;
    becomes(&cluster, SENT, &[ORDERS], 12.0).await?;
    becomes(
        &cluster,
        "mayfly_entity_sent_bytes_total",
        &[ORDERS],
        sum(&cluster, "mayfly_entity_sent_bytes_total", &[])?,
    )
    .await?;
    for (settlement, count) in
        [("complete", 4.0), ("defer", 1.0), ("dead_letter", 2.0), ("abandon", 3.0)]
    {
        let label = format!("settlement=\"{settlement}\"");
        becomes(&cluster, SETTLED, &[ORDERS, &label], count).await?;
    }
    becomes(&cluster, DEAD, &[ORDERS, "reason=\"receiver\""], 2.0).await?;
    becomes(&cluster, DEAD, &[ORDERS, "reason=\"expired\""], 1.0).await?;
    becomes(&cluster, "mayfly_entity_removed_messages_total", &[ORDERS, "how=\"cancelled\""], 1.0)
        .await?;
    let late = "mayfly_entity_timer_lateness_seconds_count";
    becomes(&cluster, late, &[ORDERS], 1.0).await?;
    for (state, count) in
        [("active", 3.0), ("deferred", 1.0), ("dead_lettered", 3.0), ("scheduled", 0.0)]
    {
        let label = format!("state=\"{state}\"");
        becomes(&cluster, "mayfly_entity_messages", &[ORDERS, &label], count).await?;
    }
    let age = sum(&cluster, "mayfly_entity_oldest_message_age_seconds", &[ORDERS])?;
    ensure!(age > 0.0 && age < 120.0, "{age}");

    // Whoever leads next counts what comes next.
    let leader = cluster.leader_of("orders").await?;
    client.transfer_leader(1, leader % 3 + 1).await?;
    cluster
        .wait_for_status("another leader", |status| {
            status.groups.iter().any(|group| group.id == 1 && ![0, leader].contains(&group.leader))
        })
        .await?;
    send(&client, "orders", 5).await?;
    becomes(&cluster, SENT, &[ORDERS], 17.0).await?;
    becomes(&cluster, "mayfly_entity_messages", &[ORDERS, "state=\"active\""], 8.0).await?;

    // There are places for one more; others are summed.
    for queue in ["second", "third", "fourth"] {
        client.create_queue(queue, QueueProperties::default()).await?;
        send(&client, queue, 2).await?;
    }
    becomes(&cluster, SENT, &["entity=\"second\""], 2.0).await?;
    becomes(&cluster, SENT, &["entity=\"(others)\""], 4.0).await?;
    let others = ["entity=\"(others)\"", "state=\"active\""];
    becomes(&cluster, "mayfly_entity_messages", &others, 4.0).await?;
    ensure!(sum(&cluster, SENT, &["entity=\"third\""])? == 0.0, "it has no place");

    // What is gone stays counted.
    client.delete_queue("orders").await?;
    becomes(&cluster, SENT, &["entity=\"(gone)\""], 17.0).await?;
    becomes(&cluster, SENT, &[ORDERS], 0.0).await?;
    becomes(&cluster, "mayfly_messages_accepted_total", &[], 23.0).await?;
    becomes(&cluster, "mayfly_messages_ended_total", &["end=\"completed\""], 4.0).await?;
    // Its place is free.
    send(&client, "third", 1).await?;
    becomes(&cluster, SENT, &["entity=\"third\""], 1.0).await?;
    becomes(&cluster, SENT, &[], 24.0).await
}
