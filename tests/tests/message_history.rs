//! HIST on real clusters: what is recorded of messages is complete, whichever nodes are lost meanwhile.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use bytes::Bytes;
use client::v1::find_messages_request::By;
use client::v1::message_event::Step;
use client::v1::{FindMessagesRequest, MessageEvent, QueueProperties};
use client::{Client, Disposition, Error, Message, QueuePath, ReceiverOptions, SenderOptions};
use mayfly_tests::{AmqpClient, Cluster, Settings, ask, mayfly, wire};

const RECORDED: &str = "[message_history]\nmemory_mebibytes = 16\n";
const PATIENCE: Duration = Duration::from_secs(20);
const MESSAGES: u64 = 300;

/// Sends and completes so many messages, one after the other.
async fn use_queue(cluster: &Cluster, first: u64) -> anyhow::Result<()> {
    let client = cluster.client()?;
    let sender = client.sender("orders", SenderOptions::default());
    let mut receiver = client.receiver("orders", ReceiverOptions::default());
    for number in first..first + MESSAGES / 3 {
        sender.send(Message::new("x").message_id(number.to_string())).await?;
        let delivery = receiver.recv().await?;
        receiver.complete(&delivery).await?;
    }
    Ok(())
}

fn kind(event: &MessageEvent) -> &'static str {
    match &event.step {
        Some(Step::Accepted(_)) => "accepted",
        Some(Step::Locked(_)) => "locked",
        Some(Step::Completed(_)) => "completed",
        Some(Step::Released(_)) => "released",
        Some(Step::LockLapsed(_)) => "lapsed",
        _ => "another",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hist_1_hist_4_nothing_is_missed_while_nodes_die_and_come_back() -> anyhow::Result<()> {
    let settings = Settings { config: RECORDED, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("orders", QueueProperties::default()).await?;
    let mut reader = client.follow_history().await?;
    let mut events = Vec::new();
    for (third, node) in (0..3).zip([1, 2, 3]) {
        use_queue(&cluster, third * MESSAGES / 3).await?;
        events.extend(reader.read().await?);
        // What it had recorded is gone with its memory.
        cluster.kill(node)?;
        cluster.start_node(node)?;
        cluster.wait_ready().await?;
    }
    let (rest, gaps) = reader.read_to_end(PATIENCE).await?;
    ensure!(gaps.is_empty(), "{gaps:?}");
    events.extend(rest);

    let mut lives: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut last = 0;
    for event in events.iter().filter(|event| event.entity == "orders") {
        ensure!(event.index >= last, "{event:?} after entry {last}");
        last = event.index;
        lives.entry(event.sequence_number).or_default().push(kind(event));
    }
    ensure!(lives.len() as u64 == MESSAGES, "{} messages", lives.len());
    for (number, life) in lives {
        ensure!(life.first() == Some(&"accepted"), "{number}: {life:?}");
        ensure!(life.last() == Some(&"completed"), "{number}: {life:?}");
        ensure!(
            life.iter().filter(|step| **step == "completed").count() == 1,
            "{number}: {life:?}"
        );
    }
    let ids = events.iter().filter_map(|event| match &event.step {
        Some(Step::Accepted(accepted)) => accepted.message_id.parse().ok(),
        _ => None,
    });
    let ids: Vec<u64> = ids.collect();
    ensure!(ids == (0..MESSAGES).collect::<Vec<_>>(), "{ids:?}");
    // Whoever reads again finds nothing new.
    ensure!(reader.read().await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hist_6_it_takes_a_record_and_the_right_to_listen_to_everything() -> anyhow::Result<()> {
    let plain = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    match plain.client()?.follow_history().await.err() {
        Some(Error::Refused(detail)) => {
            ensure!(detail.message.contains("--message-history"), "{}", detail.message);
        }
        other => anyhow::bail!("{other:?}"),
    }
    drop(plain);
    let secret = Some("the-secret-of-the-tests");
    let settings = Settings { nodes: 1, secret, config: RECORDED, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.follow_history().await?;
    let stranger = client::Client::connect([cluster.addresses(1)[0]])?;
    let refused = stranger.follow_history().await.err();
    ensure!(matches!(refused, Some(Error::Refused(_))), "{refused:?}");
    Ok(())
}

/// Forwarded, locked, lapsed, expired, dead-lettered, sent again and completed: what `mayfly message history` tells of one.
#[tokio::test(flavor = "multi_thread")]
async fn hist_1_a_command_tells_where_a_message_has_been() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings { config: RECORDED, ..Settings::default() }).await?;
    let client = cluster.client()?;
    let orders = QueueProperties {
        lock_duration_ms: Some(5_000),
        dead_letter_on_expiration: Some(true),
        ..QueueProperties::default()
    };
    client.create_queue("orders", orders).await?;
    let intake =
        QueueProperties { forward_to: Some("orders".to_owned()), ..QueueProperties::default() };
    client.create_queue("intake", intake).await?;
    client.send("intake", vec![Message::new("x").message_id("order-17").ttl_ms(60_000)]).await?;
    client.send("orders", vec![Message::new("x").message_id("order-18")]).await?;
    let mode = client::v1::ReceiveMode::PeekLock;
    let (main, dead) = (QueuePath::main("orders"), QueuePath::dead_letter("orders"));
    let mut held = Vec::new();
    while held.len() < 2 {
        held.extend(client.receive(&main, mode, 2, PATIENCE).await?);
    }
    // Once lapsed, nobody takes it until it expires.
    client.advance_clock(Duration::from_secs(90)).await?;
    let mut lost = Vec::new();
    while lost.is_empty() {
        lost = client.receive(&dead, mode, 1, PATIENCE).await?;
    }
    let again = Message::new("x").message_id("order-17");
    client.send("orders", vec![again]).await?;
    client.settle(&dead, vec![lost[0].settlement(Disposition::Complete)], false).await?;
    let mut receiver = client.receiver("orders", ReceiverOptions::default());
    for _ in 0..2 {
        let delivery = receiver.recv().await?;
        receiver.complete(&delivery).await?;
    }

    let history = |id: &str| {
        Command::new(mayfly()?)
            .args(["message", "history", "orders", id, "--json", "--connect"])
            .arg(cluster.addresses(2)[0])
            .output()
            .map_err(anyhow::Error::from)
    };
    let told = history("order-17")?;
    ensure!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let mut steps = Vec::new();
    for line in String::from_utf8(told.stdout)?.lines() {
        let step: serde_json::Value = serde_json::from_str(line)?;
        let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        steps.push(format!("{} {}", text("step"), text("entity")));
    }
    let dead = "orders/$deadletterqueue";
    // What is done in two groups may be told in either order.
    let (intake, steps): (Vec<String>, Vec<String>) =
        steps.into_iter().partition(|step| step.ends_with(" intake"));
    ensure!(intake == ["accepted intake", "forwarded intake"], "{intake:?}");
    let expected = [
        "accepted orders".to_owned(),
        "locked orders".to_owned(),
        "lock_lapsed orders".to_owned(),
        "dead_lettered orders".to_owned(),
        format!("locked {dead}"),
        "accepted orders".to_owned(),
        format!("completed {dead}"),
        "locked orders".to_owned(),
        "completed orders".to_owned(),
    ];
    ensure!(steps == expected, "{steps:?}");

    let unknown = history("order-19")?;
    let complaint = String::from_utf8(unknown.stderr)?;
    ensure!(unknown.status.code() == Some(1), "{:?}", unknown.status);
    ensure!(
        complaint.contains("nothing is recorded of message 'order-19' in 'orders'"),
        "{complaint}"
    );
    Ok(())
}

/// What is asked over HTTP is answered from all nodes at once, and who does not answer is named.
#[tokio::test(flavor = "multi_thread")]
async fn rest_10_hist_7_http_tells_of_one_message_and_which_node_is_missing() -> anyhow::Result<()>
{
    let mut cluster = Cluster::start(Settings { config: RECORDED, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("orders", QueueProperties::default()).await?;
    use_queue(&cluster, 0).await?;
    // Whoever is left has applied all of it.
    cluster.wait_caught_up().await?;
    cluster.kill(3)?;
    for (query, complete) in
        [("message-id=7", true), ("sequence-number=8", true), ("message-id=absent", false)]
    {
        let path = format!("GET /Orders/$history?{query}");
        let answer = ask(cluster.addresses(1)[1], &path, "", "")?;
        ensure!(answer.status == 200, "{query}: {}", answer.body);
        let told: serde_json::Value = serde_json::from_str(&answer.body)?;
        ensure!(told["unknown"][0]["node"] == 3, "{query}: {told}");
        let steps = told["steps"].as_array().cloned().unwrap_or_default();
        let names: Vec<_> = steps.iter().filter_map(|step| step["step"].as_str()).collect();
        let expected: &[&str] = if complete { &["accepted", "locked", "completed"] } else { &[] };
        ensure!(names == expected, "{query}: {told}");
        for step in &steps {
            ensure!(step["message_id"] == "7" && step["sequence_number"] == 8, "{step}");
            ensure!((1..=3).contains(&step["node"].as_u64().unwrap_or(0)), "{step}");
            ensure!(step["lock_token"].is_null(), "only who may listen to all is told it: {step}");
        }
    }
    Ok(())
}

const KEYS: &str = "[message_history]\nmemory_mebibytes = 16\n\
    [[security.key]]\nname = \"orders\"\nkey = \"key-of-the-queue-orders\"\nrights = [\"listen\"]\nscope = \"orders\"\n\
    [[security.key]]\nname = \"sender\"\nkey = \"key-of-a-sender-to-all\"\nrights = [\"send\"]\n";

/// Each row: who asks, what, and how it is answered.
#[tokio::test(flavor = "multi_thread")]
async fn rest_10_hist_6_an_entitys_history_takes_what_peeking_it_takes() -> anyhow::Result<()> {
    let secret = Some("the-secret-of-the-tests");
    let settings = Settings { nodes: 1, secret, config: KEYS, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    for queue in ["orders", "other"] {
        client.create_queue(queue, QueueProperties::default()).await?;
    }
    let root = (None, "the-secret-of-the-tests");
    let of_orders = (Some("orders"), "key-of-the-queue-orders");
    let sender = (Some("sender"), "key-of-a-sender-to-all");
    for ((name, key), path, status) in [
        (root, "/orders/$history?message-id=a&follow=true", 200),
        (root, "/orders/$history", 400),
        (of_orders, "/orders/$history?message-id=a", 200),
        (of_orders, "/orders/$history?message-id=a&follow=true", 401),
        (of_orders, "/orders/$history?message-id=a&FOLLOW=True", 401),
        (of_orders, "/orders/$history?follow=false&message-id=a&follow=true", 401),
        (of_orders, "/other/$history?message-id=a", 401),
        (sender, "/orders/$history?message-id=a", 401),
        ((None, "none-of-the-keys"), "/orders/$history?message-id=a", 401),
    ] {
        let header = format!("Authorization: {}\r\n", auth::authorization(name, key));
        let answer = ask(cluster.addresses(1)[1], &format!("GET {path}"), &header, "")?;
        ensure!(answer.status == status, "{key} {path}: {} {}", answer.status, answer.body);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hist_4_what_is_older_than_it_is_kept_is_told_no_more() -> anyhow::Result<()> {
    const SHORT: &str = "[message_history]\nmemory_mebibytes = 16\nkeep = \"3s\"\n";
    let settings = Settings { nodes: 1, config: SHORT, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("orders", QueueProperties::default()).await?;
    let told = |id: &str| {
        let asked = FindMessagesRequest {
            entity: "orders".to_owned(),
            by: Some(By::MessageId(id.to_owned())),
            follow: true,
            ..FindMessagesRequest::default()
        };
        let client = client.clone();
        async move { client.find_messages(asked).await }
    };
    client.send("orders", vec![Message::new("x").message_id("old")]).await?;
    ensure!(told("old").await?.steps.len() == 1);
    let begun = Instant::now();
    while !told("old").await?.steps.is_empty() {
        ensure!(begun.elapsed() < PATIENCE, "it is told for ever");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    client.send("orders", vec![Message::new("x").message_id("new")]).await?;
    let found = told("new").await?;
    ensure!(found.steps.len() == 1, "{found:?}");
    ensure!(found.since_ms.is_some_and(|since| since > 0), "{found:?}");
    Ok(())
}

/// What a step is, where the client was that asked for it (a node), and with which key.
async fn steps_of(
    client: &Client,
    number: u64,
    follow: bool,
) -> anyhow::Result<Vec<(&'static str, Option<(String, String)>)>> {
    let (entity, by) = ("orders".to_owned(), Some(By::SequenceNumber(number)));
    let asked = FindMessagesRequest { entity, by, follow, ..FindMessagesRequest::default() };
    let found = client.find_messages(asked).await?;
    let steps = found.steps.iter().map(|step| {
        let by = step.by.clone().map(|by| (by.connection, by.key_name));
        (step.event.as_ref().map_or("none", kind), by)
    });
    Ok(steps.collect())
}

/// HIST-8 over AMQP, HTTP and the native API, each at another node.
#[tokio::test(flavor = "multi_thread")]
async fn hist_8_whose_request_a_step_was_is_told_by_connection_and_key() -> anyhow::Result<()> {
    const SECRET: &str = "the-secret-of-the-tests";
    const ROOT: &str = "RootManageSharedAccessKey";
    let settings = Settings { secret: Some(SECRET), config: KEYS, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client_of(1)?;
    client.create_queue("orders", QueueProperties::default()).await?;
    let stream = wire::tcp(cluster.amqp_address(2))?;
    let mut amqp = AmqpClient::over(stream, Mechanism::plain(ROOT, SECRET)).await?;

    // A data section of one byte.
    let body = Bytes::from_static(b"\x00\x53\x75\xa0\x01x");
    let sender = amqp.sender("Orders").await?.ok().context("the queue is there")?;
    ensure!(amqp.send(sender, 0, body).await? == DeliveryState::ACCEPTED);
    let (queue, mode) = (QueuePath::main("orders"), client::v1::ReceiveMode::PeekLock);
    let held = client.receive(&queue, mode, 1, PATIENCE).await?;
    client.settle(&queue, vec![held[0].settlement(Disposition::Complete)], false).await?;

    let key = auth::authorization(Some("sender"), "key-of-a-sender-to-all");
    let header = format!("Authorization: {key}\r\n");
    let sent = ask(cluster.addresses(3)[1], "POST /orders/messages", &header, "x")?;
    ensure!(sent.status == 201, "{}", sent.body);
    let receiver = amqp.receiver("ORDERS").await?.ok().context("the queue is there")?;
    amqp.grant(receiver, 1).await?;
    let delivery = amqp.receive(receiver).await?;
    ensure!(amqp.settle(&delivery, DeliveryState::ACCEPTED).await? == DeliveryState::ACCEPTED);

    let listed = client.connections(0, "").await?.connections;
    let own = listed.iter().find(|it| it.protocol == "amqp").context("no AMQP connection")?;
    let by_amqp = Some((own.id.clone(), ROOT.to_owned()));
    let first = steps_of(&client, 1, true).await?;
    let kinds: Vec<_> = first.iter().map(|(kind, _)| *kind).collect();
    ensure!(kinds == ["accepted", "locked", "completed"], "{first:?}");
    ensure!(first[0].1 == by_amqp, "{first:?}");
    for (kind, by) in &first[1..] {
        let (connection, key) = by.as_ref().with_context(|| format!("{kind}: {first:?}"))?;
        ensure!(connection.starts_with("1-") && key == ROOT, "{first:?}");
    }
    let second = steps_of(&client, 2, true).await?;
    let (connection, key) = second[0].1.as_ref().with_context(|| format!("{second:?}"))?;
    ensure!(connection.starts_with("3-") && key == "sender", "{second:?}");
    ensure!(second[1] == ("locked", by_amqp.clone()), "{second:?}");
    ensure!(second[2] == ("completed", by_amqp), "{second:?}");
    // Whoever may listen to no more than the entity is told no names.
    let plain = steps_of(&client, 2, false).await?;
    ensure!(plain.len() == 3 && plain.iter().all(|(_, by)| by.is_none()), "{plain:?}");
    Ok(())
}
