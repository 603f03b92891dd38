//! Who is connected, from whichever node it is asked, and the end of a connection.

use std::time::Duration;

use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use client::v1::{self, LinkRole};
use client::{Client, Error, Message, ReceiverOptions, SenderOptions};
use mayfly_tests::{AmqpClient, Cluster, Settings, ask, wire};
use tokio::time::{Instant, sleep, timeout};

const SECRET: &str = "the-cluster-secret";
const ROOT: &str = "RootManageSharedAccessKey";
const KEYS: &str = "[[security.key]]\nname = \"manager\"\nkey = \"manager-key-of-the-test\"\nrights = [\"manage\"]\n";
const WITHIN: Duration = Duration::from_secs(20);

async fn cluster(nodes: u64) -> anyhow::Result<Cluster> {
    let (secret, config) = (Some(SECRET), KEYS);
    let settings = Settings { nodes, data_groups: 1, secret, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    Ok(cluster)
}

async fn all(client: &Client) -> anyhow::Result<v1::ListConnectionsResponse> {
    let page = client.connections(0, "").await?;
    ensure!(!page.more, "more than a page");
    Ok(page)
}

/// Asks again until a connection is there that is looked for.
async fn found(
    client: &Client,
    what: &str,
    fits: impl Fn(&v1::Connection) -> bool,
) -> anyhow::Result<v1::Connection> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let listed = all(client).await?;
        match listed.connections.iter().find(|connection| fits(connection)) {
            Some(found) => return Ok(found.clone()),
            None if Instant::now() > deadline => anyhow::bail!("no {what} in {listed:#?}"),
            None => sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn is_gone(client: &Client, id: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + WITHIN;
    while all(client).await?.connections.iter().any(|connection| connection.id == id) {
        ensure!(Instant::now() < deadline, "connection {id} is still listed");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn has(connection: &v1::Connection, role: LinkRole, address: &str) -> bool {
    connection.links.iter().any(|link| link.role() == role && link.address == address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_any_node_is_listed_with_what_it_does_and_told_goodbye() -> anyhow::Result<()> {
    let cluster = cluster(3).await?;
    // Asked at the first, connected to the second.
    let operator = cluster.client_of(1)?;
    let login = || Mechanism::plain(ROOT, SECRET);
    let mut amqp = AmqpClient::over(wire::tcp(cluster.amqp_address(2))?, login()).await?;
    let sender = amqp.sender("q").await?.expect("the queue is there");
    amqp.receiver("q").await?.expect("the queue is there");
    let is_ours = |connection: &v1::Connection| {
        connection.protocol == "amqp" && has(connection, LinkRole::Receives, "q")
    };
    let listed = found(&operator, "AMQP connection", is_ours).await?;
    assert_eq!((listed.node, listed.key_name.as_str()), (2, ROOT));
    assert!(!listed.tls && !listed.web_socket && listed.id.starts_with("2-"), "{listed:?}");
    assert!(has(&listed, LinkRole::Sends, "q") && listed.links_count == 2, "{listed:?}");
    assert!(listed.received_bytes > 0 && listed.sent_bytes > 0, "{listed:?}");
    assert!(!listed.client_name.is_empty(), "{listed:?}");
    assert!(listed.peer.starts_with("127.0.0.1:"), "{listed:?}");

    // A link that is gone is listed no more.
    amqp.detach(sender).await?;
    let fits =
        |connection: &v1::Connection| connection.id == listed.id && connection.links_count == 1;
    found(&operator, "connection with one link", fits).await?;

    operator.close_connection(&listed.id).await?;
    let error = amqp.closed().await?;
    assert_eq!(error.condition.as_str(), "amqp:connection:forced");
    let told = error.description.as_deref().unwrap_or_default();
    assert!(told.contains("an operator closed this connection"), "{told}");
    is_gone(&operator, &listed.id).await?;
    let again = operator.close_connection(&listed.id).await.expect_err("it is gone");
    assert!(again.to_string().contains("no connection"), "{again}");

    // Whoever connects again is another.
    let mut amqp = AmqpClient::over(wire::tcp(cluster.amqp_address(2))?, login()).await?;
    amqp.receiver("q").await?.expect("the queue is there");
    assert_ne!(found(&operator, "AMQP connection", is_ours).await?.id, listed.id);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_client_whose_connection_is_closed_goes_on() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    let operator = cluster.client()?;
    let worker = cluster.client()?;
    let mut receiver = worker.receiver("q", ReceiverOptions::default());
    let sender = operator.sender("q", SenderOptions::default());
    sender.send(Message::new("first")).await?;
    let first = timeout(WITHIN, receiver.recv()).await.context("nothing came")??;
    receiver.complete(&first).await?;

    let is_worker = |connection: &v1::Connection| {
        connection.protocol == "grpc" && has(connection, LinkRole::Receives, "q")
    };
    let listed = found(&operator, "native connection", is_worker).await?;
    assert!(listed.client_product.contains("tonic"), "{listed:?}");
    operator.close_connection(&listed.id).await?;
    is_gone(&operator, &listed.id).await?;
    sender.send(Message::new("second")).await?;
    let second = timeout(WITHIN, receiver.recv()).await.context("nothing came")??;
    receiver.complete(&second).await?;
    assert_ne!(found(&operator, "native connection", is_worker).await?.id, listed.id);

    // HTTP has no goodbye but the end.
    let mut idle = wire::tcp(cluster.addresses(1)[1])?;
    use std::io::{Read, Write};
    idle.write_all(b"GET /health/live HTTP/1.1\r\nHost: h\r\nUser-Agent: probe/1.0\r\n\r\n")?;
    let is_http = |connection: &v1::Connection| connection.client_product == "probe/1.0";
    let listed = found(&operator, "HTTP connection", is_http).await?;
    assert_eq!((listed.protocol.as_str(), listed.links_count), ("http", 0));
    operator.close_connection(&listed.id).await?;
    idle.set_read_timeout(Some(WITHIN))?;
    let mut answer = String::new();
    idle.read_to_string(&mut answer).context("it does not end")?;
    is_gone(&operator, &listed.id).await
}

/// AMQP in a WebSocket is one connection, and has one place: that of HTTP it came through is free again.
#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_is_listed_once_as_what_is_spoken_in_it() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    let operator = cluster.client()?;
    let http = cluster.addresses(1)[1];
    let socket = wire::plain_websocket(http, "/$servicebus/websocket", Some("amqp"))?;
    let mut amqp = AmqpClient::over(socket, Mechanism::plain(ROOT, SECRET)).await?;
    amqp.receiver("q").await?.expect("the queue is there");
    let is_ours = |connection: &v1::Connection| has(connection, LinkRole::Receives, "q");
    let listed = found(&operator, "AMQP connection", is_ours).await?;
    assert!(listed.protocol == "amqp" && listed.web_socket && !listed.tls, "{listed:?}");
    let of_peer = all(&operator).await?.connections.into_iter();
    assert_eq!(of_peer.filter(|connection| connection.peer == listed.peer).count(), 1);
    operator.close_connection(&listed.id).await?;
    assert_eq!(amqp.closed().await?.condition.as_str(), "amqp:connection:forced");
    is_gone(&operator, &listed.id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_node_has_is_said_to_be_unknown() -> anyhow::Result<()> {
    let mut cluster = cluster(3).await?;
    let operator = cluster.client_of(1)?;
    assert!(all(&operator).await?.untold.is_empty());
    cluster.kill(3)?;
    let listed = all(&operator).await?;
    let untold: Vec<(u64, &str)> =
        listed.untold.iter().map(|untold| (untold.node, untold.why.as_str())).collect();
    assert_eq!(untold, [(3, "it does not answer")]);
    let wrong = operator.connections(9, "").await.expect_err("there is no node 9");
    assert!(wrong.to_string().contains("there is no node 9"), "{wrong}");
    for id in ["", "x", "1-000000-1x"] {
        let wrong = operator.close_connection(id).await.expect_err(id);
        assert!(wrong.to_string().contains("the id of no connection"), "{wrong}");
    }
    let dead = operator.close_connection("3-000000-1").await.expect_err("it is dead");
    assert!(dead.to_string().contains("node 3 does not answer"), "{dead}");
    Ok(())
}

/// ERR-17: connections have addresses and names of keys; whoever manages entities alone sees none.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_whoever_lists_or_closes_connections_operates_the_cluster() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    let options = client::ClientOptions {
        secret: Some("manager-key-of-the-test".to_owned()),
        ..Default::default()
    };
    let manager = Client::with_options([cluster.addresses(1)[0]], options)?;
    manager.list_queues("").await?;
    for refused in
        [manager.connections(0, "").await.map(drop), manager.close_connection("1-000000-1").await]
    {
        let Err(Error::Refused(detail)) = refused else { anyhow::bail!("{refused:?}") };
        assert!(detail.message.contains("Operate"), "{detail:?}");
    }
    let page = ask(cluster.addresses(1)[1], "GET /console/connections", "", "")?;
    assert_eq!(page.status, 303, "he is to sign in");
    Ok(())
}
