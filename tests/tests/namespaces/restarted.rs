//! A node that was away while a namespace was created, and has not heard of it yet.

use std::time::{Duration, Instant};

use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use client::v1::QueueProperties;
use client::{Client, ClientOptions, Message, QueuePath};
use mayfly_tests::{AmqpClient, Cluster, Settings};
use nix::sys::signal::Signal;

use super::over_http_of;

const HOST: &str = "late.localhost";
/// An election, and what a node takes to find that there is none.
const HEARD_WITHIN: Duration = Duration::from_secs(30);

fn within(cluster: &Cluster, node: u64, namespace: Option<&str>) -> anyhow::Result<Client> {
    let options = ClientOptions {
        namespace: namespace.map(str::to_owned),
        give_up_after: Duration::from_secs(2),
        ..ClientOptions::default()
    };
    Ok(Client::with_options([cluster.addresses(node)[0]], options)?)
}

/// What a message over HTTP is answered with, once somebody answers.
async fn post(cluster: &Cluster, node: u64) -> anyhow::Result<(u16, String)> {
    let until = Instant::now() + HEARD_WITHIN;
    loop {
        match over_http_of(cluster.addresses(node)[1], HOST, "POST /q/messages", "", "x") {
            Ok(answer) => return Ok(answer),
            Err(error) => ensure!(Instant::now() < until, "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// NS-5: a host never comes to mean the default namespace for want of news, and no name is refused as that of none.
#[tokio::test(flavor = "multi_thread")]
async fn ns_5_a_node_that_was_away_does_not_take_a_namespace_for_the_default_one()
-> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::default()).await?;
    cluster.client()?.create_queue("q", QueueProperties::default()).await?;
    cluster.kill(1)?;
    let operator = cluster.client_of(2)?;
    operator.create_namespace("late", None).await?;
    let options = ClientOptions { namespace: Some("late".to_owned()), ..ClientOptions::default() };
    let elsewhere = Client::with_options([cluster.addresses(2)[0]], options)?;
    elsewhere.create_queue("q", QueueProperties::default()).await?;

    // Nobody can tell the node, which comes back alone.
    for id in [2, 3] {
        cluster.signal(id, Signal::SIGSTOP)?;
    }
    cluster.start_node(1)?;
    let (status, told) = post(&cluster, 1).await?;
    ensure!(status == 503 && told.to_ascii_lowercase().contains("retry-after"), "{told}");
    let sent = within(&cluster, 1, Some("late"))?.send("q", vec![Message::new("x")]).await;
    let refused = sent.err().context("nobody can take it")?.to_string();
    ensure!(!refused.contains("there is none called"), "{refused}");
    let opened = AmqpClient::to_host(cluster.amqp_address(1), HOST, Mechanism::Anonymous).await;
    let refused = format!("{:?}", opened.err().context("nobody knows what the host means")?);
    ensure!(refused.contains("server-busy"), "{refused}");

    for id in [2, 3] {
        cluster.signal(id, Signal::SIGCONT)?;
    }
    let until = Instant::now() + HEARD_WITHIN;
    loop {
        match post(&cluster, 1).await? {
            (201, _) => break,
            (503, told) => ensure!(Instant::now() < until, "{told}"),
            (_, told) => anyhow::bail!("{told}"),
        }
    }
    let mut amqp = AmqpClient::to_host(cluster.amqp_address(1), HOST, Mechanism::Anonymous).await?;
    amqp.sender("q").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    for (namespace, expected) in [(Some("late"), 1), (None, 0)] {
        let found = within(&cluster, 1, namespace)?.peek(&QueuePath::main("q"), 0, 10).await?;
        ensure!(found.len() == expected, "{namespace:?}: {found:?}");
    }
    Ok(())
}
