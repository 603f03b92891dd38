//! Profiles: each namespace of one cluster behaves as its tier, whichever way in is taken.

use std::time::{Duration, Instant, SystemTime};

use amqp_protocol::codec::{AnyTarget, Attach, DeliveryState, Target};
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use client::v1::{Profile, QueueProperties, ReceiveMode, TopicProperties};
use client::{Client, Error, Message, QueuePath};
use mayfly_tests::{AmqpClient, AmqpCoordinator, Cluster, Settings};
use message_content::{Body, Neutral};

use super::{native, over_http};

/// Each namespace, its profile, and what it calls itself.
const TIERS: [(&str, Profile, &str); 4] = [
    ("default", Profile::SelfHosted, "Standard"),
    ("b", Profile::Basic, "Basic"),
    ("s", Profile::Standard, "Standard"),
    ("p", Profile::Premium, "Premium"),
];
const KILOBYTE: usize = 1024;

async fn start() -> anyhow::Result<Cluster> {
    let settings = Settings { nodes: 1, data_groups: 2, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let operator = native(&cluster, None, None)?;
    for (name, profile, _) in &TIERS[1..] {
        let created = operator.create_namespace_of(name, *profile, None).await?;
        ensure!(created.profile() == *profile, "{created:?}");
    }
    for (name, ..) in TIERS {
        native(&cluster, Some(name), None)?.create_queue("q", QueueProperties::default()).await?;
    }
    Ok(cluster)
}

fn put(
    cluster: &Cluster,
    place: &str,
    path: &str,
    kind: &str,
    said: &str,
) -> anyhow::Result<(u16, String)> {
    let body = format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><{kind}Description \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\">{said}</{kind}Description>\
         </content></entry>"
    );
    let host = format!("{place}.localhost");
    let request = format!("PUT /{path}?api-version=2021-05");
    over_http(cluster, &host, &request, "Content-Type: application/atom+xml\r\n", &body)
}

/// QUOTA-0, QUOTA-1, QUOTA-5, QUOTA-9, DUP-13: what is said of a queue, which tiers take it, and what the others say. Each
/// over HTTP as the SDKs' administration clients say it.
#[tokio::test(flavor = "multi_thread")]
async fn quota_35_what_a_tier_does_not_have_is_refused_in_the_services_words() -> anyhow::Result<()>
{
    let cluster = start().await?;
    let set = |what: &str, sku: &str| {
        format!(
            "The property &apos;{what}&apos; cannot be set when creating a Queue because the namespace &apos;{sku}"
        )
    };
    let within = |what: &str, range: &str| {
        format!(
            "The property value for &apos;{what}&apos; must be between {range} when the namespace"
        )
    };
    for (number, (kind, said, takers, told)) in [
        ("Queue", "", "default b s p", String::new()),
        ("Topic", "", "default s p", "a Topic cannot be created because the namespace".to_owned()),
        (
            "Queue",
            "<RequiresSession>true</RequiresSession>",
            "default s p",
            set("RequiresSession", "b"),
        ),
        (
            "Queue",
            "<RequiresDuplicateDetection>true</RequiresDuplicateDetection>",
            "default s p",
            set("RequiresDuplicateDetection", "b"),
        ),
        (
            "Queue",
            "<AutoDeleteOnIdle>PT1H</AutoDeleteOnIdle>",
            "default s p",
            set("AutoDeleteOnIdle", "b"),
        ),
        ("Queue", "<ForwardTo>q</ForwardTo>", "default s p", set("ForwardTo", "b")),
        (
            "Queue",
            "<DefaultMessageTimeToLive>P15D</DefaultMessageTimeToLive>",
            "default s p",
            within("DefaultMessageTimeToLive", "00:00:01 and 14.00:00:00"),
        ),
        (
            "Queue",
            "<MaxSizeInMegabytes>10240</MaxSizeInMegabytes>",
            "default p",
            within("MaxSizeInMegabytes", "1024 and 5120"),
        ),
        (
            "Queue",
            "<MaxMessageSizeInKilobytes>1024</MaxMessageSizeInKilobytes>",
            "default p",
            "The property &apos;MaxMessageSizeInKilobytes&apos; cannot be set".to_owned(),
        ),
        (
            "Queue",
            "<EnablePartitioning>true</EnablePartitioning>",
            "default b s",
            set("EnablePartitioning", "p"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        for (place, _, sku) in TIERS {
            let (status, answer) = put(&cluster, place, &format!("e{number}"), kind, said)?;
            let is_taken = takers.split(' ').any(|taker| taker == place);
            ensure!(status == if is_taken { 201 } else { 400 }, "{place}, {said}: {answer}");
            let tier = format!("is using &apos;{sku}&apos; tier");
            let is_told = answer.contains("SubCode=40000. ") && answer.contains(&told);
            ensure!(is_taken || is_told && answer.contains(&tier), "{place}, {said}: {answer}");
        }
    }
    // The same over the native API, and by an update.
    let basic = native(&cluster, Some("b"), None)?;
    let refused = |outcome: Option<Error>| match outcome {
        Some(Error::Refused(detail)) if detail.name == "ArgumentException" => Ok(()),
        other => Err(anyhow::anyhow!("{other:?}")),
    };
    refused(basic.create_topic("t", TopicProperties::default()).await.err())?;
    let idle =
        QueueProperties { auto_delete_on_idle_ms: Some(600_000), ..QueueProperties::default() };
    refused(basic.update_queue("q", idle).await.err())?;
    let renamed = QueueProperties { max_delivery_count: Some(3), ..QueueProperties::default() };
    basic.update_queue("q", renamed).await?;
    Ok(())
}

fn message(bytes: usize) -> Bytes {
    let body = Body::Binary(Bytes::from(vec![b'x'; bytes]));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

/// QUOTA-5, QUOTA-6, ATOM-23: what a namespace says of itself is how it behaves.
#[tokio::test(flavor = "multi_thread")]
async fn quota_6_what_a_link_and_a_namespace_tell_of_themselves_is_so() -> anyhow::Result<()> {
    let cluster = start().await?;
    for (place, _, sku) in TIERS {
        let host = format!("{place}.localhost");
        let (_, info) = over_http(&cluster, &host, "GET /$namespaceinfo", "", "")?;
        ensure!(info.contains(&format!("<MessagingSKU>{sku}</MessagingSKU>")), "{place}: {info}");
        ensure!(info.contains("MessagingUnits") == (sku == "Premium"), "{place}: {info}");
        let kilobytes = if sku == "Premium" { 1024 } else { 256 };
        let mut amqp =
            AmqpClient::to_host(cluster.amqp_address(1), &host, Mechanism::Anonymous).await?;
        let attached =
            amqp.sender_attach("q").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let told = attached.max_message_size.context("a size")?;
        ensure!(told == kilobytes * KILOBYTE as u64, "{place}: {told}");
        let link = amqp.sender("q").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let state = amqp.send(link, 0, message(200 * KILOBYTE)).await?;
        ensure!(state == DeliveryState::ACCEPTED, "{place}: {state:?}");
        // A temporary queue is like any other, and goes when it is idle, which Basic does not have.
        let target = AnyTarget::Node(Target { dynamic: true, ..Target::default() });
        let temporary = Attach { target: Some(target), ..Attach::sender(&amqp.link_name(), "") };
        let made = amqp.attach(temporary).await?;
        ensure!(made.is_ok() == (sku != "Basic"), "{place}: {made:?}");
        // A batch of messages each of which is small enough.
        let client = native(&cluster, Some(place), None)?;
        let batch =
            |count: usize| (0..count).map(|_| Message::new("y".repeat(100 * KILOBYTE))).collect();
        client.send("q", batch(2)).await?;
        let sent = client.send("q", batch(3)).await;
        let is_large = matches!(&sent, Err(Error::Refused(it)) if it.name == "MessageSizeExceeded");
        let takes = place == "default" || sku == "Premium";
        ensure!(is_large != takes && sent.is_ok() == takes, "{place}: {sent:?}");
        let over = client.send("q", vec![Message::new("y".repeat(300 * KILOBYTE))]).await;
        ensure!(over.is_ok() == (sku == "Premium"), "{place}: {over:?}");
    }
    Ok(())
}

/// QUOTA-35: transactions, sends via another entity, and batch deletion (QUOTA-10, BATCH-9).
#[tokio::test(flavor = "multi_thread")]
async fn batch_9_basic_has_no_transactions_and_deletes_no_batches() -> anyhow::Result<()> {
    let cluster = start().await?;
    for (place, profile, _) in TIERS {
        let is_there = profile != Profile::Basic;
        let host = format!("{place}.localhost");
        let mut amqp =
            AmqpClient::to_host(cluster.amqp_address(1), &host, Mechanism::Anonymous).await?;
        let control = AmqpCoordinator::attach(&mut amqp).await;
        ensure!(control.is_ok() == is_there, "{place}");
        if let Err(error) = control {
            let told = format!("{error:#}");
            let expected = "Transaction is unsupported because the namespace";
            ensure!(told.contains("amqp:not-allowed") && told.contains(expected), "{told}");
        }
        let client = native(&cluster, Some(place), None)?;
        let mut transaction = client.transaction("q");
        let sent = transaction.send(vec![Message::new("x")]).await;
        let done = if sent.is_ok() { transaction.commit().await.map(drop) } else { sent };
        ensure!(done.is_ok() == is_there, "{place}: {done:?}");
        let path = QueuePath::main("q");
        for (count, takers) in [(500, &TIERS[..]), (501, &[TIERS[0], TIERS[3]]), (4001, &[])] {
            let deleted = client.delete_batch(&path, count, None).await;
            let takes = is_there && takers.iter().any(|tier| tier.0 == place);
            ensure!(deleted.is_ok() == takes, "{place}, {count}: {deleted:?}");
        }
    }
    Ok(())
}

/// SCHED-15.
#[tokio::test(flavor = "multi_thread")]
async fn sched_15_messages_are_scheduled_in_every_tier() -> anyhow::Result<()> {
    let cluster = start().await?;
    for (place, ..) in TIERS {
        let client = native(&cluster, Some(place), None)?;
        let soon = SystemTime::now() + Duration::from_millis(300);
        client.send("q", vec![Message::new(place).scheduled_at(soon)]).await?;
    }
    for (place, ..) in TIERS {
        let client = native(&cluster, Some(place), None)?;
        let path = QueuePath::main("q");
        let taken = client
            .receive(&path, ReceiveMode::ReceiveAndDelete, 1, Duration::from_secs(20))
            .await?;
        ensure!(taken.len() == 1, "{place}: {taken:?}");
    }
    Ok(())
}

/// Some of what does not fit is named, and nothing is changed.
#[tokio::test(flavor = "multi_thread")]
async fn quota_40_a_profile_that_does_not_fit_is_refused_with_what_does_not() -> anyhow::Result<()>
{
    let cluster = start().await?;
    let operator = native(&cluster, None, None)?;
    let standard = native(&cluster, Some("s"), None)?;
    standard.create_topic("News", TopicProperties::default()).await?;
    for number in 0..30 {
        let name = format!("sessions-{number}");
        let properties =
            QueueProperties { requires_session: Some(true), ..QueueProperties::default() };
        standard.create_queue(&name, properties).await?;
    }
    let refused = operator.set_namespace_profile("s", Profile::Basic).await.err();
    let told = refused.context("it has sessions")?.to_string();
    for part in ["'q' (DefaultMessageTimeToLive)", "'sessions-0' (RequiresSession)", "and 12 more"]
    {
        ensure!(told.contains(part), "{told}");
    }
    let shown = operator.namespace("s").await?;
    ensure!(shown.profile() == Profile::Standard && shown.next_profile == 0, "{shown:?}");
    standard.create_topic("more", TopicProperties::default()).await?;
    // What fits is changed, and counts at once.
    let changed = operator.set_namespace_profile("s", Profile::Premium).await?;
    ensure!(changed.profile() == Profile::Premium, "{changed:?}");
    let large = QueueProperties { max_size_megabytes: Some(10_240), ..QueueProperties::default() };
    standard.create_queue("large", large).await?;
    let back = operator.set_namespace_profile("s", Profile::Standard).await.err();
    let told = back.context("it has a large queue")?.to_string();
    // Made in Premium, which gives a megabyte to messages of its own accord.
    ensure!(
        told.contains("has an entity") && told.contains("'large' (MaxSizeInMegabytes)"),
        "{told}"
    );
    Ok(())
}

/// QUOTA-40: of the default namespace too, which stays what it is over a restart.
#[tokio::test(flavor = "multi_thread")]
async fn quota_40_the_default_namespace_has_a_profile_that_outlasts_restarts() -> anyhow::Result<()>
{
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let operator = native(&cluster, None, None)?;
    ensure!(operator.namespace("default").await?.profile() == Profile::SelfHosted);
    operator.set_namespace_profile("default", Profile::Basic).await?;
    cluster.kill(1)?;
    cluster.start_node(1)?;
    cluster.wait_ready().await?;
    let shown = operator.namespace("default").await?;
    ensure!(shown.profile() == Profile::Basic, "{shown:?}");
    refuses_topics(&operator).await?;
    ensure!(operator.namespaces().await?.is_empty());
    operator.set_namespace_profile("default", Profile::SelfHosted).await?;
    operator.create_topic("t", TopicProperties::default()).await?;
    Ok(())
}

async fn refuses_topics(client: &Client) -> anyhow::Result<()> {
    match client.create_topic("t", TopicProperties::default()).await {
        Err(Error::Refused(detail)) if detail.message.contains("'Basic' tier") => Ok(()),
        other => bail!("{other:?}"),
    }
}

/// QUOTA-40: the node dies while it is looked for what does not fit, and the change that was asked for is decided.
#[tokio::test(flavor = "multi_thread")]
async fn quota_40_a_change_that_was_begun_is_decided() -> anyhow::Result<()> {
    const QUEUES: u32 = 300;
    let settings = Settings { nodes: 1, data_groups: 2, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let operator = native(&cluster, None, None)?;
    operator.create_namespace_of("s", Profile::Standard, None).await?;
    let standard = native(&cluster, Some("s"), None)?;
    for number in 0..QUEUES {
        standard.create_queue(&format!("q{number}"), QueueProperties::default()).await?;
    }
    let changing = tokio::spawn({
        let operator = operator.clone();
        async move { operator.set_namespace_profile("s", Profile::Premium).await }
    });
    while !changing.is_finished()
        && operator
            .namespace("s")
            .await
            .is_ok_and(|it| it.profile() == Profile::Standard && it.next_profile == 0)
    {
        tokio::task::yield_now().await;
    }
    cluster.kill(1)?;
    changing.abort();
    cluster.start_node(1)?;
    cluster.wait_ready().await?;
    let until = Instant::now() + Duration::from_secs(30);
    while operator.namespace("s").await?.profile() != Profile::Premium {
        ensure!(Instant::now() < until, "{:?}", operator.namespace("s").await?);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(operator.namespace("s").await?.next_profile == 0);
    Ok(())
}
