//! AMQP against real nodes, with a client built from the crate's own engine: what the SDKs do is
//! exercised by `tests/sdk`, what they never do is exercised here.

use amqp::condition;
use amqp_protocol::Limits;
use amqp_protocol::codec::{DeliveryState, Error, Map, Modified, Outcome};
use amqp_protocol::engine::Delivery;
use amqp_protocol::message::Message;
use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use client::{Message as Native, QueuePath, ReceiverOptions, SenderOptions, value};
use mayfly_tests::{AmqpClient, Cluster, Settings};
use message_content::{Body, Neutral};
use nix::sys::signal::Signal;

async fn cluster() -> anyhow::Result<Cluster> {
    let cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    Ok(cluster)
}

fn encoded(body: &str) -> Bytes {
    let properties = [("count".to_owned(), domain::Value::Long(7))].into();
    let body = Body::Binary(Bytes::copy_from_slice(body.as_bytes()));
    let subject = Some("subject".to_owned());
    Neutral { body, subject, properties, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

fn decoded(delivery: &Delivery) -> anyhow::Result<Neutral> {
    let limits = Limits::default();
    let payload = delivery.payload.clone().ok().context("it is too large")?;
    Ok(Neutral::from_amqp(&Message::parse(payload, &limits)?, &limits)?)
}

fn body(delivery: &Delivery) -> anyhow::Result<Bytes> {
    match decoded(delivery)?.body {
        Body::Binary(bytes) => Ok(bytes),
        Body::Amqp(sections) => anyhow::bail!("no bytes: {sections:?}"),
    }
}

fn rejection(state: DeliveryState) -> anyhow::Result<Error> {
    match state {
        DeliveryState::Outcome(Outcome::Rejected(Some(error))) => Ok(error),
        other => anyhow::bail!("not rejected: {other:?}"),
    }
}

/// MSG-2: either protocol receives what the other sent, at whichever node.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_crosses_from_one_protocol_to_the_other() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let native = cluster.client()?;

    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let sender = amqp.sender("amqps://localhost:5672/Q").await?.expect("the queue is there");
    assert_eq!(amqp.send(sender, 0, encoded("from amqp")).await?, DeliveryState::ACCEPTED);
    let mut receiver = native.receiver("q", ReceiverOptions::default());
    let delivery = receiver.recv().await?;
    assert_eq!(delivery.body(), "from amqp");
    assert_eq!(delivery.property("count"), Some(&value::long(7)));
    assert_eq!(delivery.message_id().map(str::len), Some(32), "FORM-3: drawn where it is missing");
    assert!(receiver.complete(&delivery).failures().await.is_empty());
    receiver.close().await;

    let sender = native.sender("q", SenderOptions::default());
    let message = Native::new("from native").subject("subject").property("count", value::long(7));
    sender.send(message.message_id("id")).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(2)).await?;
    let receiver = amqp.receiver("q").await?.expect("the queue is there");
    amqp.grant(receiver, 1).await?;
    let delivery = amqp.receive(receiver).await?;
    let neutral = decoded(&delivery)?;
    assert_eq!(body(&delivery)?, "from native");
    assert_eq!(neutral.message_id.as_deref(), Some("id"));
    assert_eq!(neutral.subject.as_deref(), Some("subject"));
    assert_eq!(neutral.properties["count"], domain::Value::Long(7));
    assert_eq!(amqp.settle(&delivery, DeliveryState::ACCEPTED).await?, DeliveryState::ACCEPTED);
    amqp.drain(receiver).await?;
    Ok(())
}

/// SETTLE-4 to SETTLE-7: each verdict is answered in kind, and a lock that is gone is said to be.
#[tokio::test(flavor = "multi_thread")]
async fn link_9_settle_3_to_settle_5_verdicts_are_answered_once_the_log_has_decided()
-> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(3)).await?;
    let sender = amqp.sender("q").await?.expect("the queue is there");
    amqp.send(sender, 0, encoded("m")).await?;
    let receiver = amqp.receiver("q").await?.expect("the queue is there");
    amqp.grant(receiver, 1).await?;

    let abandoned = Modified { delivery_failed: Some(true), ..Modified::default() };
    let delivery = amqp.receive(receiver).await?;
    let answer =
        amqp.settle(&delivery, DeliveryState::Outcome(Outcome::Modified(abandoned))).await?;
    assert_eq!(answer, DeliveryState::Outcome(Outcome::Modified(Modified::default())));
    let delivery = amqp.receive(receiver).await?;
    let limits = Limits::default();
    let message = Message::parse(delivery.payload.clone().ok().context("whole")?, &limits)?;
    assert_eq!(message.header(&limits)?.delivery_count, Some(1), "LOCK-19");

    let info = Map::default()
        .string("DeadLetterReason", "why".into())
        .string("DeadLetterErrorDescription", "because".into());
    let error = Error { info: Some(info), ..Error::new(condition::DEAD_LETTER, "") };
    let answer = amqp.settle(&delivery, DeliveryState::rejected(error)).await?;
    assert_eq!(answer, DeliveryState::Outcome(Outcome::Rejected(None)), "SETTLE-5");
    let dead = amqp.settled_receiver("q/$DeadLetterQueue").await?.expect("every queue has one");
    amqp.grant(dead, 10).await?;
    let delivery = amqp.receive(dead).await?;
    assert!(delivery.settled, "it was deleted before it was sent");
    let properties = decoded(&delivery)?.properties;
    assert_eq!(properties["DeadLetterReason"], domain::Value::String("why".into()));
    amqp.drain(dead).await?;
    let client = cluster.client()?;
    assert!(client.peek(&QueuePath::dead_letter("q"), 0, 1).await?.is_empty());
    Ok(())
}

/// LINK-7, XFER-5, XFER-9: what is wrong with a link or a message costs that link or message, and
/// nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn send_6_link_5_link_7_link_17_xfer_9_what_is_refused_is_refused_by_its_condition()
-> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let missing = amqp.sender("none").await?.expect_err("there is no such queue");
    assert_eq!(&*missing.condition, condition::NOT_FOUND);
    let told = missing.description.context("a text")?;
    assert!(told.starts_with("The messaging entity 'none' could not be found."), "{told}");
    for dead in ["q/$deadletterqueue", "q/$Transfer/$DeadLetterQueue"] {
        let dead = amqp.sender(dead).await?.expect_err("nobody sends there");
        assert_eq!(&*dead.condition, condition::NOT_ALLOWED);
    }

    let sender = amqp.sender("q").await?.expect("the queue is there");
    let garbage = rejection(amqp.send(sender, 0, Bytes::from_static(b"no message")).await?)?;
    assert_eq!(&*garbage.condition, condition::DECODE_ERROR);
    let large = rejection(amqp.send(sender, 0, encoded(&"x".repeat(2 << 20))).await?)?;
    assert_eq!(&*large.condition, condition::MESSAGE_SIZE_EXCEEDED);
    assert_eq!(amqp.send(sender, 0, encoded("good")).await?, DeliveryState::ACCEPTED);

    let receiver = amqp.receiver("q").await?.expect("the queue is there");
    cluster.client()?.delete_queue("q").await?;
    amqp.grant(receiver, 1).await?;
    assert_eq!(&*amqp.detached(receiver).await?.condition, condition::NOT_FOUND);
    Ok(())
}

/// LOCK-23: a receiver link outlives the leader, and so does a lock.
#[tokio::test(flavor = "multi_thread")]
async fn conn_22_links_stay_attached_while_the_leader_dies() -> anyhow::Result<()> {
    let mut cluster = cluster().await?;
    let leader = cluster.leader_of("q").await?;
    let other = cluster.ids().find(|id| *id != leader).context("there are three")?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(other)).await?;
    let sender = amqp.sender("q").await?.expect("the queue is there");
    let receiver = amqp.receiver("q").await?.expect("the queue is there");
    amqp.grant(receiver, 10).await?;
    assert_eq!(amqp.send(sender, 0, encoded("before")).await?, DeliveryState::ACCEPTED);
    let before = amqp.receive(receiver).await?;
    cluster.kill(leader)?;
    assert_eq!(amqp.send(sender, 0, encoded("after")).await?, DeliveryState::ACCEPTED);
    let after = amqp.receive(receiver).await?;
    assert_eq!(body(&after)?, "after");
    for delivery in [before, after] {
        assert_eq!(amqp.settle(&delivery, DeliveryState::ACCEPTED).await?, DeliveryState::ACCEPTED);
    }
    Ok(())
}

/// CONN-21: SDKs then connect anew by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn conn_21_a_node_that_ends_tells_its_clients() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    cluster.signal(1, Signal::SIGTERM)?;
    assert_eq!(&*amqp.closed().await?.condition, condition::CONNECTION_FORCED);
    Ok(())
}

/// CONN-21: Python's SDK takes a `close` for an error that no retry mends.
#[tokio::test(flavor = "multi_thread")]
async fn conn_21_python_reads_the_end_of_the_stream_and_no_close() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let mut amqp = AmqpClient::as_python(cluster.amqp_address(1)).await?;
    cluster.signal(1, Signal::SIGTERM)?;
    let ended = amqp.closed().await;
    let Err(amqp_client::Error::Io(error)) = &ended else { bail!("{ended:?}") };
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    Ok(())
}
