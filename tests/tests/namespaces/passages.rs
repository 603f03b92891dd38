//! Every way in, every operation, every spelling: nobody is asked who he is, so that names alone keep namespaces apart.

use std::time::Duration;

use amqp_protocol::codec::{Attach, Map, Value};
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use client::v1::{QueueProperties, ReceiveMode};
use client::{Client, Disposition, Error, Message, QueuePath};
use mayfly_tests::{AmqpClient, AmqpNode, Cluster, Settings, wire};
use message_content::{Body, Neutral};

use super::{native, over_http};

/// A namespace, and the host that means it.
const PLACES: [(&str, &str); 3] =
    [("alpha", "alpha.localhost"), ("beta", "BETA"), ("default", "node1.localhost:5671")];

/// What is in `alpha` alone.
const ONLY: &str = "only-alpha";

/// What somebody in another namespace may try to call it.
const SPELLINGS: &[&str] = &[
    ONLY,
    "Only-Alpha",
    "alpha/only-alpha",
    "/only-alpha",
    "+alpha:only-alpha",
    "+ALPHA:only-alpha",
    "alpha:only-alpha",
    "%2Balpha%3Aonly-alpha",
    "sb://alpha.localhost/only-alpha",
    "sb://alpha.localhost/+alpha:only-alpha",
    "only-alpha/subscriptions/x",
];

fn body(text: &str) -> Bytes {
    let body = Body::Binary(Bytes::copy_from_slice(text.as_bytes()));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

async fn start() -> anyhow::Result<Cluster> {
    let settings = Settings { nodes: 1, data_groups: 2, tls: true, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let operator = native(&cluster, None, None)?;
    for (name, _) in &PLACES[..2] {
        operator.create_namespace(name, None).await?;
    }
    for (name, _) in PLACES {
        let client = native(&cluster, Some(name), None)?;
        client.create_queue("q", QueueProperties::default()).await?;
    }
    let alpha = native(&cluster, Some("alpha"), None)?;
    alpha.create_queue(ONLY, QueueProperties::default()).await?;
    alpha.send(ONLY, vec![Message::new("secret").message_id("the-id")]).await?;
    Ok(cluster)
}

/// The bodies of all messages in a queue.
async fn bodies(client: &Client, queue: &str) -> anyhow::Result<Vec<String>> {
    let found = client.peek(&QueuePath::main(queue), 0, 100).await?;
    Ok(found.iter().map(|it| String::from_utf8_lossy(it.body()).into_owned()).collect())
}

/// NS-1, NS-3, NS-5: each way in, by its host or name, comes to the queue of that name in its own namespace.
#[tokio::test(flavor = "multi_thread")]
async fn ns_5_each_way_in_comes_to_the_namespace_that_its_host_means() -> anyhow::Result<()> {
    let cluster = start().await?;
    for (name, host) in PLACES {
        let mut amqp =
            AmqpClient::to_host(cluster.amqp_address(1), host, Mechanism::Anonymous).await?;
        let link = amqp.sender("q").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        amqp.send(link, 0, body(&format!("amqp {name}"))).await?;
        let (status, told) =
            over_http(&cluster, host, "POST /q/messages", "", &format!("http {name}"))?;
        ensure!(status == 201, "{told}");
        let client = native(&cluster, Some(name), None)?;
        client.send("q", vec![Message::new(format!("native {name}"))]).await?;
    }
    for (name, host) in PLACES {
        let client = native(&cluster, Some(name), None)?;
        let expected = ["amqp", "http", "native"].map(|way| format!("{way} {name}"));
        ensure!(bodies(&client, "q").await? == expected, "{:?}", bodies(&client, "q").await?);
        let names: Vec<String> =
            client.list_queues("").await?.into_iter().map(|queue| queue.name).collect();
        let own = if name == "alpha" { vec![ONLY, "q"] } else { vec!["q"] };
        ensure!(names == own, "{name} has {names:?}");
        let (_, listed) = over_http(&cluster, host, "GET /$Resources/queues", "", "")?;
        ensure!(listed.contains(ONLY) == (name == "alpha"), "{listed}");
        ensure!(!listed.contains("+alpha") && !listed.contains("alpha:"), "{listed}");
    }
    // Without a word all is the default namespace, as ever.
    let plain = native(&cluster, None, None)?;
    ensure!(bodies(&plain, "q").await?.contains(&"amqp default".to_owned()));
    let unknown = native(&cluster, Some("gamma"), None)?.get_queue("q").await;
    let told = unknown.err().context("there is no such namespace")?.to_string();
    ensure!(told.contains("there is none called 'gamma'"), "{told}");
    Ok(())
}

/// NS-5: where the host in `open` says nothing, the WebSocket's does, or the one in the TLS handshake; where it says
/// something, no other counts.
#[tokio::test(flavor = "multi_thread")]
async fn ns_5_the_way_that_a_connection_takes_names_a_host_too() -> anyhow::Result<()> {
    const PATH: &str = "/$servicebus/websocket";
    let cluster = start().await?;
    let (http, amqps) = (cluster.addresses(1)[1], cluster.amqps_address(1));
    let certificate = cluster.certificate();
    for host in ["alpha.localhost", "localhost"] {
        let is_there = host != "localhost";
        let socket = wire::websocket_to(http, host, PATH, Some("AMQPWSB10"))?;
        let mut client = AmqpClient::over_unnamed(socket).await?;
        ensure!(client.receiver(ONLY).await?.is_ok() == is_there, "a WebSocket to {host}");
        let tls = wire::tls_to(host, amqps, &certificate)?;
        let mut client = AmqpClient::over_unnamed(tls).await?;
        ensure!(client.receiver(ONLY).await?.is_ok() == is_there, "TLS to {host}");
        let tls = wire::tls_to(host, amqps, &certificate)?;
        let mut client = AmqpClient::over(tls, Mechanism::Anonymous).await?;
        ensure!(client.receiver(ONLY).await?.is_err(), "TLS to {host}, opened for localhost");
    }
    Ok(())
}

/// NS-3: over AMQP.
async fn tries_amqp(cluster: &Cluster, host: &str, spelling: &str) -> anyhow::Result<()> {
    let connect = || AmqpClient::to_host(cluster.amqp_address(1), host, Mechanism::Anonymous);
    let refused = |what: &str, told: String| {
        let is_so = ["not-found", "not-allowed", "invalid", "argument", "not-implemented", "404"];
        ensure!(is_so.iter().any(|it| told.contains(it)), "{what} {spelling} at {host}: {told}");
        Ok(())
    };
    let mut client = connect().await?;
    match client.sender(spelling).await? {
        Err(error) => refused("send to", format!("{error:?}"))?,
        Ok(_) => bail!("a sender of {spelling} at {host}"),
    }
    match client.receiver(spelling).await? {
        Err(error) => refused("receive from", format!("{error:?}"))?,
        Ok(_) => bail!("a receiver of {spelling} at {host}"),
    }
    let mut via = Attach::sender(&client.link_name(), "q");
    let to = Map::default().symbol("com.microsoft:transfer-destination-address", spelling.into());
    via.properties = Some(to);
    match client.attach(via).await? {
        Err(error) => refused("send via", format!("{error:?}"))?,
        Ok(_) => bail!("a sender via q to {spelling} at {host}"),
    }
    let peek = Map::default()
        .string("from-sequence-number", Value::Long(0))
        .string("message-count", Value::Int(10));
    match AmqpNode::open(&mut client, spelling).await {
        Err(error) => refused("ask", format!("{error:#}"))?,
        Ok(mut node) => {
            let reply = node.ask(&mut client, "peek-message", peek).await?;
            ensure!(reply.status >= 400, "peek {spelling} at {host}: {reply:?}");
        }
    }
    let status = client.put_token("anything", &format!("sb://{host}/{spelling}")).await?;
    ensure!(status == 404 || spelling.contains('/'), "a token for {spelling} at {host}: {status}");
    Ok(())
}

/// NS-3: over HTTP.
fn tries_http(cluster: &Cluster, host: &str, spelling: &str) -> anyhow::Result<()> {
    let path = spelling.replace("://", "%3A%2F%2F").replace('+', "%2B");
    for (request, body) in [
        ("GET /{}", ""),
        ("DELETE /{}", ""),
        ("POST /{}/messages", "hi"),
        ("DELETE /{}/messages/head?timeout=0", ""),
        ("POST /{}/messages/head?timeout=0", ""),
        ("GET /{}/$history?message-id=the-id", ""),
        ("GET /{}/$history?message-id=the-id&follow=true", ""),
    ] {
        let request = request.replace("{}", path.trim_start_matches('/'));
        let (status, told) = over_http(cluster, host, &request, "", body)?;
        ensure!(status >= 400 || !told.contains("secret"), "{request} at {host}: {told}");
        ensure!([400, 404, 405, 410].contains(&status), "{request} at {host}: {told}");
    }
    Ok(())
}

/// NS-3: over the native API.
async fn tries_native(client: &Client, place: &str, spelling: &str) -> anyhow::Result<()> {
    let path = QueuePath::main(spelling);
    let deleting = ReceiveMode::ReceiveAndDelete;
    let forwarding =
        QueueProperties { forward_to: Some(spelling.to_owned()), ..QueueProperties::default() };
    let outcomes: Vec<(&str, Result<(), Error>)> = vec![
        ("send", client.send(spelling, vec![Message::new("x")]).await.map(drop)),
        ("receive", client.receive(&path, deleting, 1, Duration::ZERO).await.map(drop)),
        ("peek", client.peek(&path, 0, 10).await.map(drop)),
        ("purge", client.delete_batch(&path, 10, None).await.map(drop)),
        ("cancel", client.cancel_scheduled(spelling, vec![1]).await),
        ("get", client.get_queue(spelling).await.map(drop)),
        ("update", client.update_queue(spelling, QueueProperties::default()).await.map(drop)),
        ("delete", client.delete_queue(spelling).await),
        ("move", client.move_entity(spelling, 1).await.map(drop)),
        ("forward", client.update_queue("q", forwarding.clone()).await.map(drop)),
        ("forward at once", client.create_queue("forwarder", forwarding).await.map(drop)),
    ];
    for (what, outcome) in outcomes {
        let Err(Error::Refused(detail)) = &outcome else {
            bail!("{what} {spelling} in {place}: {outcome:?}");
        };
        let known = ["MessagingEntityNotFound", "ArgumentException", "InvalidOperationException"];
        ensure!(known.contains(&detail.name.as_str()), "{what} {spelling} in {place}: {detail:?}");
    }
    for prefix in [spelling, &spelling[..1], "+", "+alpha:"] {
        let listed = client.list_queues(prefix).await?;
        ensure!(listed.iter().all(|queue| queue.name == "q"), "{prefix} in {place}: {listed:?}");
    }
    Ok(())
}

/// Each spelling of what is in one namespace, from each other one, on each front end and in each operation.
#[tokio::test(flavor = "multi_thread")]
async fn ns_3_no_way_in_leads_to_another_namespace() -> anyhow::Result<()> {
    let cluster = start().await?;
    for (name, host) in &PLACES[1..] {
        let client = native(&cluster, Some(name), None)?;
        for spelling in SPELLINGS {
            tries_amqp(&cluster, host, spelling).await?;
            tries_http(&cluster, host, spelling)?;
            tries_native(&client, name, spelling).await?;
        }
    }
    let alpha = native(&cluster, Some("alpha"), None)?;
    ensure!(bodies(&alpha, ONLY).await? == ["secret"], "it was touched");
    // It can be had where it is, or the rest would show nothing.
    let mut amqp =
        AmqpClient::to_host(cluster.amqp_address(1), PLACES[0].1, Mechanism::Anonymous).await?;
    amqp.receiver(ONLY).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let (status, _) = over_http(&cluster, PLACES[0].1, &format!("GET /{ONLY}"), "", "")?;
    ensure!(status == 200);
    Ok(())
}

/// NS-3, NS-4: dead letters and what is forwarded are told by the names that clients of the namespace know.
#[tokio::test(flavor = "multi_thread")]
async fn ns_4_forwarding_and_its_words_stay_in_the_namespace() -> anyhow::Result<()> {
    let cluster = start().await?;
    let alpha = native(&cluster, Some("alpha"), None)?;
    let to = |name: &str| QueueProperties {
        forward_dead_letters_to: Some(name.to_owned()),
        ..QueueProperties::default()
    };
    let created = alpha.create_queue("intake", to("q")).await?;
    let told = created.properties.and_then(|properties| properties.forward_dead_letters_to);
    ensure!(told.as_deref() == Some("q") && created.name == "intake", "{told:?}");
    // An update that says nothing of it, and one that does.
    alpha.update_queue("intake", QueueProperties::default()).await?;
    alpha.update_queue("intake", to(ONLY)).await?;
    alpha.update_queue("intake", to("q")).await?;
    alpha.send("intake", vec![Message::new("wrong")]).await?;
    let path = QueuePath::main("intake");
    let taken = alpha.receive(&path, ReceiveMode::PeekLock, 1, Duration::from_secs(10)).await?;
    let [delivery] = &taken[..] else { bail!("{taken:?}") };
    let dead = Disposition::DeadLetter { reason: None, description: None };
    alpha.settle(&path, vec![delivery.settlement(dead)], true).await?;
    let path = QueuePath::main("q");
    let moved = alpha.receive(&path, ReceiveMode::PeekLock, 1, Duration::from_secs(20)).await?;
    let [delivery] = &moved[..] else { bail!("{moved:?}") };
    ensure!(delivery.wire().dead_letter_source.as_deref() == Some("intake"), "{delivery:?}");
    // FWD-8: a destination that is gone.
    let forwarding =
        QueueProperties { forward_to: Some("gone".to_owned()), ..QueueProperties::default() };
    alpha.create_queue("gone", QueueProperties::default()).await?;
    alpha.create_queue("forwarder", forwarding).await?;
    alpha.delete_queue("gone").await?;
    alpha.send("forwarder", vec![Message::new("lost")]).await?;
    let path = QueuePath::dead_letter("forwarder");
    let dead = alpha.receive(&path, ReceiveMode::PeekLock, 1, Duration::from_secs(20)).await?;
    let [delivery] = &dead[..] else { bail!("{dead:?}") };
    let why = delivery.text_property("DeadLetterErrorDescription").unwrap_or_default();
    ensure!(why.contains("'gone'"), "{why}");
    Ok(())
}
