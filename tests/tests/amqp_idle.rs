//! AMQP clients that hold something and do nothing with it (ERR-22, ERR-23), against a real node with
//! short patience.

use std::time::{Duration, Instant};

use amqp_protocol::codec::{DeliveryState, Map, Role, Value};
use amqp_protocol::engine::Mechanism;
use amqp_protocol::request::request;
use anyhow::ensure;
use auth::sign;
use bytes::{Bytes, BytesMut};
use mayfly_tests::{AmqpClient, Cluster, Settings, wire};
use message_content::{Body, Neutral};

const SECRET: &str = "the-cluster-secret";
const ROOT: &str = "RootManageSharedAccessKey";
const SHORT: &str = r#"
[amqp]
link_idle_timeout = "3s"
linkless_timeout = "4s"
first_link_timeout = "2s"
token_timeout = "1s"
"#;

async fn cluster() -> anyhow::Result<Cluster> {
    let (secret, config) = (Some(SECRET), SHORT);
    let settings = Settings { nodes: 1, data_groups: 1, secret, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    Ok(cluster)
}

fn message() -> Bytes {
    let body = Body::Binary(Bytes::from_static(b"hello"));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

async fn connect(cluster: &Cluster, login: Mechanism) -> anyhow::Result<AmqpClient> {
    AmqpClient::over(wire::tcp(cluster.amqp_address(1))?, login).await
}

/// ERR-23: without a token, without a first link, and with none left.
#[tokio::test(flavor = "multi_thread")]
async fn err_23_a_connection_of_no_use_is_closed() -> anyhow::Result<()> {
    const FORCED: &str = "amqp:connection:forced";
    let cluster = cluster().await?;
    let root = || Mechanism::plain(ROOT, SECRET);
    for (login, seconds, word) in
        [(Mechanism::Anonymous, 1, "no token"), (root(), 2, "2000 milliseconds")]
    {
        let mut amqp = connect(&cluster, login).await?;
        let opened = Instant::now();
        let error = amqp.closed().await?;
        let told = error.description.as_deref().unwrap_or_default();
        ensure!(error.condition.as_str() == FORCED && told.contains(word), "{error:?}");
        // It was opened a little before it could be known here.
        ensure!(opened.elapsed() > Duration::from_millis(seconds * 1_000 - 500), "{word}");
    }
    let mut amqp = connect(&cluster, root()).await?;
    let link = amqp.sender("q").await?.expect("the queue is there");
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(amqp.send(link, 0, message()).await?, DeliveryState::ACCEPTED, "it has a link");
    amqp.detach(link).await?;
    let left = Instant::now();
    let error = amqp.closed().await?;
    ensure!(error.condition.as_str() == FORCED, "{error:?}");
    ensure!(left.elapsed() > Duration::from_millis(3_500), "after {:?}", left.elapsed());
    Ok(())
}

/// ERR-22: traffic keeps a link, silence does not, and what is beside it stays.
#[tokio::test(flavor = "multi_thread")]
async fn err_22_conn_19_a_link_without_traffic_is_detached() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut amqp = connect(&cluster, Mechanism::plain(ROOT, SECRET)).await?;
    let (token, audience) = (sign("sb%3A%2F%2Fh%2Fq", ROOT, SECRET, u64::MAX / 2), "sb://h/q");
    let mut tokens = amqp.open_cbs().await?; // Held for the next token, as SDKs do.
    assert_eq!(amqp.put_token_on(&mut tokens, &token, audience).await?, 202);
    let busy = amqp.sender("q").await?.expect("the queue is there");
    let idle = amqp.receiver("q").await?.expect("the queue is there");
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        assert_eq!(amqp.send(busy, 0, message()).await?, DeliveryState::ACCEPTED);
        std::thread::sleep(Duration::from_millis(200));
    }
    let error = amqp.detached(idle).await?;
    assert_eq!(error.condition.as_str(), "amqp:link:detach-forced");
    let told = error.description.as_deref().unwrap_or_default();
    ensure!(told.contains("3000 milliseconds") && told.contains("TrackingId"), "{told}");
    assert_eq!(amqp.put_token_on(&mut tokens, &token, audience).await?, 202, "its links are there");
    let again = amqp.settled_receiver("q").await?.expect("it may come back");
    amqp.grant(again, 1).await?;
    amqp.receive(again).await?;
    Ok(())
}

/// ERR-22: what .NET does while a handler works for longer than a link may be idle: it renews the
/// session's lock, and names the link in each request. One that waits for a session is no idle link
/// either.
#[tokio::test(flavor = "multi_thread")]
async fn err_22_conn_19_a_link_that_requests_name_is_used() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let properties =
        client::v1::QueueProperties { requires_session: Some(true), ..Default::default() };
    let native = cluster.client()?;
    native.create_queue("sessions", properties.clone()).await?;
    native.create_queue("empty", properties).await?;
    let mut amqp = connect(&cluster, Mechanism::plain(ROOT, SECRET)).await?;
    let waiting = amqp.ask_for_session("empty", Value::Null, 6_000).await?;
    let held = amqp.session("sessions", "s".into(), 0).await?;
    let (link, answer) = held.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let unnamed = amqp.receiver("q").await?.expect("the queue is there");
    let address = "sessions/$management";
    let requests = amqp.sender(address).await?.expect("every entity has one");
    let replies = amqp.settled_receiver(address).await?.expect("every entity has one");
    amqp.grant(replies, 100).await?;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        let properties = Map::default()
            .string("operation", "com.microsoft:renew-session-lock".into())
            .string("associated-link-name", Value::from(&*answer.name));
        let body = Value::Map(Map::default().string("session-id", "s".into()));
        let renewal = request(Value::Ulong(1), None, &properties, &body);
        assert_eq!(amqp.send(requests, 0, renewal).await?, DeliveryState::ACCEPTED);
        amqp.receive(replies).await?;
        std::thread::sleep(Duration::from_millis(200));
    }
    let error = amqp.detached(unnamed).await?;
    assert_eq!(error.condition.as_str(), "amqp:link:detach-forced");
    amqp.grant(link, 1).await?;
    amqp.drain(link).await?;
    let refused = amqp.attached(waiting, Role::Receiver).await?.expect_err("there is no session");
    assert_eq!(refused.condition.as_str(), "com.microsoft:timeout");
    ensure!(started.elapsed() > Duration::from_secs(4), "it waited as long as it said");
    Ok(())
}
