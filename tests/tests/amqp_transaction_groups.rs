//! Which entities a transaction spans (TX-5), as the SDKs ask for it: .NET, Java and JMS attach a control
//! link in one session with all their links and before them; .NET without `EnableCrossEntityTransactions`
//! gives each link a session of its own, and one to its control link.

use std::time::Duration;

use amqp::condition;
use amqp_protocol::codec::{DeliveryState, Outcome};
use amqp_protocol::engine::{Delivery, LinkId};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use client::v1::{QueueProperties, ReceiveMode, SubscriptionProperties, TopicProperties};
use client::{Client, Message, QueuePath};
use mayfly_tests::{AmqpClient, AmqpCoordinator, AmqpNode, Cluster, Settings};
use message_content::{Body, Neutral};

const TEXT: &str =
    "Local transactions cannot span multiple top-level entities such as queue or topic";

async fn cluster(queues: &[&str]) -> anyhow::Result<(Cluster, Client)> {
    let settings = Settings { nodes: 1, data_groups: 2, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    for queue in queues {
        client.create_queue(queue, QueueProperties::default()).await?;
    }
    Ok((cluster, client))
}

fn encoded(body: &str) -> Bytes {
    let body = Body::Binary(Bytes::copy_from_slice(body.as_bytes()));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

/// Takes away so many messages of a queue, and whatever else is there.
async fn taken(client: &Client, queue: &str, count: usize) -> anyhow::Result<Vec<String>> {
    let mut bodies = Vec::new();
    loop {
        let is_short = bodies.len() < count;
        let wait = Duration::from_millis(if is_short { 10_000 } else { 20 });
        let path = QueuePath::main(queue);
        let got = client.receive(&path, ReceiveMode::ReceiveAndDelete, 10, wait).await?;
        if got.is_empty() {
            return Ok(bodies);
        }
        let body =
            |delivery: &client::Delivery| String::from_utf8_lossy(delivery.body()).into_owned();
        bodies.extend(got.iter().map(body));
    }
}

async fn sender(amqp: &mut AmqpClient, entity: &str) -> anyhow::Result<LinkId> {
    amqp.sender(entity).await?.map_err(|error| anyhow::anyhow!("{entity}: {error:?}"))
}

async fn receiver(amqp: &mut AmqpClient, entity: &str) -> anyhow::Result<LinkId> {
    amqp.receiver(entity).await?.map_err(|error| anyhow::anyhow!("{entity}: {error:?}"))
}

async fn received(amqp: &mut AmqpClient, link: LinkId) -> anyhow::Result<Delivery> {
    amqp.grant(link, 1).await?;
    Ok(amqp.receive(link).await?)
}

/// A receiver that is refused for what it would receive from.
async fn refused(amqp: &mut AmqpClient, entity: &str) -> anyhow::Result<()> {
    let error = amqp.receiver(entity).await?.err().with_context(|| format!("{entity} is let"))?;
    ensure!(&*error.condition == condition::NOT_ALLOWED, "{entity}: {error:?}");
    let text = error.description.unwrap_or_default();
    ensure!(text.starts_with(TEXT), "{entity}: {text}");
    Ok(())
}

/// The case of a handler that replies before it completes what it replies to: NServiceBus's default.
#[tokio::test(flavor = "multi_thread")]
async fn tx_5_what_is_sent_elsewhere_may_come_before_what_is_completed() -> anyhow::Result<()> {
    let (cluster, client) = cluster(&["a", "b", "c"]).await?;
    for (operations, left) in [
        (&["complete", "b", "c"][..], [&[][..], &["to b"], &["to c"]]),
        (&["b", "complete"], [&[], &["to b"], &[]]),
        (&["b", "c", "complete"], [&[], &["to b"], &["to c"]]),
        (&["b", "a", "complete", "c"], [&["to a"], &["to b"], &["to c"]]),
        (&["b", "c"], [&["one"], &["to b"], &["to c"]]),
    ] {
        client.send("a", vec![Message::new("one")]).await?;
        let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
        let control = AmqpCoordinator::attach(&mut amqp).await?;
        let from_a = receiver(&mut amqp, "a").await?;
        let delivery = received(&mut amqp, from_a).await?;
        amqp.grant(from_a, 0).await?; // No verdict asks for another.
        let transaction = control.declare(&mut amqp).await?;
        for operation in operations {
            if *operation == "complete" {
                let answer = amqp.settle_within(&delivery, Outcome::Accepted, &transaction).await?;
                let is_done =
                    |state: &DeliveryState| matches!(state, DeliveryState::Transactional { .. });
                ensure!(answer.state.as_ref().is_some_and(is_done), "{operations:?}: {answer:?}");
            } else {
                let link = sender(&mut amqp, operation).await?;
                let payload = encoded(&format!("to {operation}"));
                let refused = amqp.send_within(link, payload, &transaction).await?;
                ensure!(refused.is_none(), "{operations:?}: {operation}: {refused:?}");
            }
        }
        let state = control.discharge(&mut amqp, &transaction, false).await?;
        ensure!(state == DeliveryState::ACCEPTED, "{operations:?}: {state:?}");
        if !operations.contains(&"complete") {
            amqp.settle(&delivery, DeliveryState::RELEASED).await?;
        }
        drop(amqp);
        for (queue, expected) in ["a", "b", "c"].into_iter().zip(left) {
            let found = taken(&client, queue, expected.len()).await?;
            ensure!(found == expected, "{operations:?}: {queue} has {found:?}");
        }
    }
    Ok(())
}

/// Receiving from a second entity is refused, with or without a transaction, when the link is opened;
/// a subscription counts for its topic, a dead-letter queue and a management node for their entity.
#[tokio::test(flavor = "multi_thread")]
async fn tx_5_link_7_in_such_a_session_one_entity_is_received_from() -> anyhow::Result<()> {
    let (cluster, client) = cluster(&["a", "b"]).await?;
    client.create_topic("t", TopicProperties::default()).await?;
    for name in ["one", "two"] {
        client.create_subscription("t", name, SubscriptionProperties::default(), None).await?;
    }
    let table = [
        // The first link; whether it receives; where else is received; where it is refused.
        ("a", false, &["a", "A/$DeadLetterQueue"][..], &["b", "t/Subscriptions/one"][..]),
        ("a", true, &["a"], &["b", "b/$DeadLetterQueue"]),
        ("t", false, &["t/Subscriptions/one", "t/Subscriptions/two"], &["a"]),
        ("t/Subscriptions/one", true, &["T/subscriptions/two"], &["a"]),
    ];
    for (first, receives, let_in, kept_out) in table {
        let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
        AmqpCoordinator::attach(&mut amqp).await?;
        ensure!(amqp.sender("none").await?.is_err(), "there is none");
        match receives {
            true => receiver(&mut amqp, first).await?,
            false => sender(&mut amqp, first).await?,
        };
        for _ in 0..2 {
            for entity in let_in {
                receiver(&mut amqp, entity).await?;
            }
            for entity in kept_out {
                refused(&mut amqp, entity).await?;
                let opened = AmqpNode::open(&mut amqp, entity).await;
                ensure!(opened.is_err(), "{first}: {entity}/$management is let");
            }
        }
        AmqpNode::open(&mut amqp, first).await?;
        sender(&mut amqp, "b").await?;
        drop(amqp);
    }
    // Without a control link nothing of it holds, nor for what was received from before one came.
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    for entity in ["a", "b", "t/Subscriptions/one"] {
        receiver(&mut amqp, entity).await?;
    }
    client.send("b", vec![Message::new("one")]).await?;
    let from_b = receiver(&mut amqp, "b").await?;
    let delivery = received(&mut amqp, from_b).await?;
    let control = AmqpCoordinator::attach(&mut amqp).await?;
    let transaction = control.declare(&mut amqp).await?;
    let answer = amqp.settle_within(&delivery, Outcome::Accepted, &transaction).await?;
    let refused = mayfly_tests::refusal(&answer.state.context("an answer")?)?;
    ensure!(refused == condition::NOT_ALLOWED, "{refused}");
    drop(amqp);
    Ok(())
}

/// Clients that give their control link a session of its own made no session for it: one entity.
#[tokio::test(flavor = "multi_thread")]
async fn tx_5_without_a_session_made_for_it_a_transaction_is_about_one_entity() -> anyhow::Result<()>
{
    let (cluster, client) = cluster(&["a", "b"]).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let (to_a, to_b) = (sender(&mut amqp, "a").await?, sender(&mut amqp, "b").await?);
    amqp.begin_another().await?;
    let control = AmqpCoordinator::attach(&mut amqp).await?;
    let transaction = control.declare(&mut amqp).await?;
    for (link, expected) in [(to_a, None), (to_b, Some(condition::NOT_ALLOWED)), (to_a, None)] {
        let refused = amqp.send_within(link, encoded("x"), &transaction).await?;
        ensure!(refused.as_deref() == expected, "{refused:?}");
    }
    let state = control.discharge(&mut amqp, &transaction, false).await?;
    ensure!(state == DeliveryState::ACCEPTED, "{state:?}");
    drop(amqp);
    ensure!(taken(&client, "a", 2).await? == ["x", "x"]);
    ensure!(taken(&client, "b", 0).await?.is_empty());
    Ok(())
}
