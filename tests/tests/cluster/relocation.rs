//! Queues and topics that move between groups while they are used (ENT-14).

use std::time::Duration;

use anyhow::{Context, ensure};
use client::v1::{QueueProperties, ReceiveMode, StatusResponse, TopicProperties};
use client::{
    Client, Delivery, Disposition, Message, QueuePath, Receiver, ReceiverOptions, SenderOptions,
    subscription_path,
};
use domain::FEATURE_LEVEL_RELOCATION;
use mayfly_tests::{Cluster, Settings, mayfly};

use crate::{Probe, SECRET};

const GROUPS: u32 = 4;

fn can_move(status: &StatusResponse) -> bool {
    status.feature_level >= FEATURE_LEVEL_RELOCATION
}

async fn start() -> anyhow::Result<(Cluster, Client)> {
    let settings =
        Settings { data_groups: GROUPS as u16, secret: Some(SECRET), ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    cluster.wait_for_status("the feature level", can_move).await?;
    Ok((cluster, client))
}

async fn send(client: &Client, name: &str, messages: Vec<Message>) -> anyhow::Result<()> {
    let sender = client.sender(name, SenderOptions::default());
    sender.submit(messages).await?.await?;
    sender.close().await;
    Ok(())
}

/// Just as many, however they arrive.
async fn recv_all(receiver: &mut Receiver, count: usize) -> anyhow::Result<Vec<Delivery>> {
    let mut deliveries = Vec::new();
    while deliveries.len() < count {
        deliveries.extend(receiver.recv_many(count - deliveries.len()).await?);
    }
    Ok(deliveries)
}

/// Moves it to the group behind its own, and says which that is.
async fn move_on(client: &Client, name: &str, group: u32) -> anyhow::Result<u32> {
    let next = group % GROUPS + 1;
    ensure!(client.move_entity(name, next).await?, "'{name}' takes long to move");
    Ok(next)
}

/// Round and round, while somebody sends all the time and a node dies.
#[tokio::test(flavor = "multi_thread")]
async fn ent_14_queues_move_under_load_and_while_a_node_dies() -> anyhow::Result<()> {
    let (mut cluster, client) = start().await?;
    let probe = Probe::start(&client, &["a", "b"]).await?;
    let (mut a, mut b) = (client.get_queue("a").await?.group, client.get_queue("b").await?.group);
    tokio::time::sleep(Duration::from_millis(500)).await;
    probe.phase("nothing moves");
    for _ in 0..2 * GROUPS {
        a = move_on(&client, "a", a).await?;
        b = move_on(&client, "b", b).await?;
    }
    let (p99, worst) = probe.phase("two queues moved 8 times each");
    println!("p99 {p99:?}, worst {worst:?}");
    let leads = cluster.leader_of("a").await?;
    let moving = tokio::spawn({
        let client = client.clone();
        async move {
            for _ in 0..GROUPS {
                let next = a % GROUPS + 1;
                // Whoever is asked may be the one that dies: then it goes on without it.
                while !client.move_entity("a", next).await.unwrap_or(false) {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                a = next;
            }
            a
        }
    });
    cluster.kill(leads)?;
    let a = moving.await?;
    probe.phase("a queue moved 4 times, and the node that led its group died");
    cluster.start_node(leads)?;
    cluster.wait_ready().await?;
    ensure!(client.get_queue("a").await?.group == a, "it is where it was moved to");
    probe.finish(&client).await
}

/// What clients hold stays theirs, what waits waits on, and what forwards and is forwarded to does.
#[tokio::test(flavor = "multi_thread")]
async fn ent_14_what_is_held_waits_or_is_forwarded_comes_along() -> anyhow::Result<()> {
    let (cluster, client) = start().await?;
    let held =
        QueueProperties { requires_duplicate_detection: Some(true), ..QueueProperties::default() };
    client.create_queue("held", held).await?;
    let numbered = |id: usize| Message::new(id.to_string()).message_id(id.to_string());
    send(&client, "held", (0..6).map(numbered).collect()).await?;
    let mut receiver = client.receiver("held", ReceiverOptions::default());
    let deliveries = recv_all(&mut receiver, 6).await?;
    receiver.settle(&deliveries[0], Disposition::Defer).await?;

    let with_sessions =
        QueueProperties { requires_session: Some(true), ..QueueProperties::default() };
    client.create_queue("sessions", with_sessions).await?;
    let of_session = |body: &str| Message::new(body.to_owned()).session_id("s");
    send(&client, "sessions", vec![of_session("1"), of_session("2")]).await?;
    let options = || ReceiverOptions { prefetch: 1, ..ReceiverOptions::default() };
    let mut session = client.accept_session("sessions", "s", options()).await?;
    session.set_state(Some("state".into())).await?;
    let first = session.recv().await?;

    client.create_topic("news", TopicProperties::default()).await?;
    client.create_subscription("news", "all", Default::default(), None).await?;
    let forwards =
        QueueProperties { forward_to: Some("news".to_owned()), ..QueueProperties::default() };
    client.create_queue("intake", forwards).await?;
    // Somebody waits where nothing is.
    let waiting = tokio::spawn({
        let path = subscription_path("news", "all");
        let mut receiver = client.receiver(path, ReceiverOptions::default());
        async move {
            let mut bodies = Vec::new();
            while bodies.len() < 12 {
                let delivery = receiver.recv().await?;
                receiver.complete(&delivery).await?;
                bodies.push(String::from_utf8_lossy(delivery.body()).into_owned());
            }
            anyhow::Ok(bodies)
        }
    });

    let mut groups = Vec::new();
    for name in ["held", "sessions", "intake"] {
        groups.push((name, client.get_queue(name).await?.group));
    }
    groups.push(("news", client.get_topic("news").await?.group));
    for round in 0..6 {
        send(&client, "intake", vec![Message::new(format!("{round} a"))]).await?;
        for (name, group) in &mut groups {
            *group = move_on(&client, name, *group).await?;
        }
        send(&client, "intake", vec![Message::new(format!("{round} b"))]).await?;
    }
    for (name, group) in &groups[..3] {
        ensure!(client.get_queue(name).await?.group == *group, "{name}");
    }
    let all = client.get_subscription("news", "all").await?;
    ensure!(all.group == groups[3].1, "a subscription is where its topic is");

    // Locks of before, through this receiver and another node.
    for delivery in &deliveries[1..5] {
        receiver.complete(delivery).await?;
    }
    receiver.abandon(&deliveries[5]).await?;
    let again = receiver.recv().await?;
    ensure!(again.sequence_number() == deliveries[5].sequence_number(), "the one given back");
    receiver.complete(&again).await?;
    // Its history of duplicates.
    send(&client, "held", vec![numbered(3), numbered(7)]).await?;
    let counters = client.get_queue("held").await?.counters.context("counters")?;
    ensure!(counters.active == 1 && counters.deferred == 1, "{counters:?}");
    let other = cluster.client_of(3)?;
    let deferred = deliveries[0].sequence_number();
    let found = other
        .receive_deferred(&QueuePath::main("held"), ReceiveMode::PeekLock, vec![deferred])
        .await?;
    ensure!(found.len() == 1, "deferred");

    session.complete(&first).await?;
    let second = session.recv().await?;
    ensure!(second.body() == "2", "{:?}", second.body());
    session.renew().await?;
    session.complete(&second).await?;
    ensure!(session.state().await?.as_deref() == Some(&b"state"[..]), "its state");
    session.close().await;

    let bodies = tokio::time::timeout(Duration::from_secs(30), waiting).await???;
    let expected: Vec<String> =
        (0..6).flat_map(|round| [format!("{round} a"), format!("{round} b")]).collect();
    ensure!(bodies == expected, "{bodies:?}");
    Ok(())
}

/// As an operator asks for it, and what is answered to what cannot be.
#[tokio::test(flavor = "multi_thread")]
async fn ent_14_the_command_says_what_it_did_or_why_not() -> anyhow::Result<()> {
    let (cluster, client) = start().await?;
    client.create_queue("orders", QueueProperties::default()).await?;
    client.create_topic("news", TopicProperties::default()).await?;
    client.create_subscription("news", "all", Default::default(), None).await?;
    send(&client, "orders", vec![Message::new("1")]).await?;
    let (here, news) =
        (client.get_queue("orders").await?.group, client.get_topic("news").await?.group);
    let there = here % GROUPS + 1;
    let run = |words: String| {
        let (program, at) = (mayfly(), cluster.addresses(2)[0].to_owned());
        async move {
            let done = tokio::process::Command::new(program?)
                .args(words.split(' '))
                .args(["--connect", &at, "--secret", SECRET])
                .output()
                .await?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
            anyhow::Ok((done.status.success(), text(&done.stdout) + &text(&done.stderr)))
        }
    };
    for (words, is_done, said) in [
        (
            format!("queue move orders --group {there}"),
            true,
            format!("queue 'orders' moved from group {here} to group {there}"),
        ),
        (
            format!("queue move ORDERS --group {there}"),
            true,
            format!("queue 'orders' is on group {there} already"),
        ),
        (
            format!("topic move news --group {}", news % GROUPS + 1),
            true,
            format!("topic 'news' moved from group {news} to group {}", news % GROUPS + 1),
        ),
        (
            "queue move orders --group 5".to_owned(),
            false,
            "group: there is no group 5; name one of 1 to 4".to_owned(),
        ),
        ("queue move orders --group 0".to_owned(), false, "there is no group 0".to_owned()),
        (
            "queue move news --group 1".to_owned(),
            false,
            "entity 'news' does not exist; create it first".to_owned(),
        ),
        (
            "topic move nothing --group 1".to_owned(),
            false,
            "entity 'nothing' does not exist; create it first".to_owned(),
        ),
    ] {
        let (succeeded, told) = run(words.clone()).await?;
        ensure!(succeeded == is_done && told.contains(&said), "{words}: {told}");
        ensure!(!told.contains('\n'), "one line: {told}");
    }
    let subscription = client.move_entity(&subscription_path("news", "all"), 1).await;
    let refused = subscription.expect_err("a subscription does not move alone").to_string();
    ensure!(refused.contains("a subscription is where its topic is; move that"), "{refused}");
    let messages = client.peek(&QueuePath::main("orders"), 0, 2).await?;
    ensure!(messages.len() == 1, "{} messages", messages.len());
    // It goes like any other, and its name is free.
    client.delete_queue("orders").await?;
    client.create_queue("orders", QueueProperties::default()).await?;
    let messages = client.peek(&QueuePath::main("orders"), 0, 2).await?;
    ensure!(messages.is_empty(), "{} messages", messages.len());
    Ok(())
}

/// TX-9: locks that a transaction waits with are its own on every group its queue was on, and free
/// there when it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn ent_14_transactions_keep_and_let_go_of_locks_while_their_queue_moves() -> anyhow::Result<()>
{
    let (_cluster, client) = start().await?;
    client.create_queue("jobs", QueueProperties::default()).await?;
    let mut group = client.get_queue("jobs").await?.group;
    let mut receiver = client.receiver("jobs", ReceiverOptions::default());
    for round in 0..2 * GROUPS {
        send(&client, "jobs", ["1", "2", "3"].map(Message::new).into()).await?;
        let deliveries = recv_all(&mut receiver, 3).await?;

        let mut dropped = client.transaction("jobs");
        dropped.complete(&deliveries[0]).await?;
        group = move_on(&client, "jobs", group).await?;
        dropped.complete(&deliveries[1]).await?;
        let spoken_for = receiver.complete(&deliveries[1]).await;
        ensure!(spoken_for.is_err(), "round {round}: the transaction waits with this lock");
        group = move_on(&client, "jobs", group).await?;
        dropped.rollback().await?;
        for delivery in &deliveries[..2] {
            receiver.complete(delivery).await.with_context(|| format!("{round}: it is free"))?;
        }

        let mut kept = client.transaction("jobs");
        kept.complete(&deliveries[2]).await?;
        group = move_on(&client, "jobs", group).await?;
        kept.commit().await.with_context(|| format!("round {round}: the lock is its own"))?;
        let counters = client.get_queue("jobs").await?.counters.context("counters")?;
        ensure!(counters.active == 0, "round {round}: {counters:?}");
    }
    Ok(())
}
