//! Connections that are too many, and those that begin and never go on.

use std::io::Write;
use std::time::{Duration, Instant};

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use client::{Client, ClientOptions};
use mayfly_tests::wire;
use mayfly_tests::{AmqpClient, Cluster, Settings};

use super::{ask, message};

/// QUOTA-13: one too many is told so; those that are there notice nothing, and a place that is free is
/// given away.
#[tokio::test(flavor = "multi_thread")]
async fn quota_13_conn_20_a_connection_too_many_is_told_so() -> anyhow::Result<()> {
    let config = "[amqp]\nconnections_max = 2\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let connect = async || AmqpClient::connect(cluster.amqp_address(1)).await;
    let (mut first, second) = (connect().await?, connect().await?);
    let sender = first.sender("q").await?.expect("the queue is there");
    let told = format!("{:#}", connect().await.err().context("a third connection")?);
    ensure!(told.contains("amqp:resource-limit-exceeded"), "{told}");
    ensure!(told.contains("as many connections as it may, 2"), "{told}");
    assert_eq!(first.send(sender, 0, message()).await?, DeliveryState::ACCEPTED);
    drop(second);
    let until = Instant::now() + Duration::from_secs(30);
    while connect().await.is_err() {
        ensure!(Instant::now() < until, "the place of the second stays taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The same over the native API: any call on it is refused, certainly not done, and may be tried again.
#[tokio::test(flavor = "multi_thread")]
async fn quota_13_a_native_connection_too_many_is_told_so() -> anyhow::Result<()> {
    let config = "[grpc]\nconnections_max = 2\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let connect = || {
        let give_up_after = Duration::from_secs(4);
        let options = ClientOptions { give_up_after, ..ClientOptions::default() };
        Client::with_options([cluster.addresses(1)[0]], options)
    };
    // The one that waited until the node was ready has gone, or goes at once.
    let until = Instant::now() + Duration::from_secs(30);
    let (first, second) = (connect()?, connect()?);
    for client in [&first, &second] {
        while client.status(true).await.is_err() {
            ensure!(Instant::now() < until, "no place for two");
        }
    }
    first.create_queue("q", Default::default()).await?;
    let third = connect()?;
    let told = third.send("q", vec![client::Message::new("x")]).await;
    let Err(client::Error::NotDone(detail)) = &told else { anyhow::bail!("{told:?}") };
    ensure!(detail.message.contains("as many connections as it may, 2"), "{detail}");
    ensure!(detail.name == "QuotaExceeded" && detail.rule == "ERR-10", "{detail:?}");
    first.send("q", vec![client::Message::new("still here")]).await?;
    drop(second);
    while third.status(true).await.is_err() {
        ensure!(Instant::now() < until + Duration::from_secs(30), "the place stays taken");
    }
    Ok(())
}

/// Clients that begin and never go on, on every port, keep nobody waiting.
#[tokio::test(flavor = "multi_thread")]
async fn stallers_on_every_port_hold_nobody_up() -> anyhow::Result<()> {
    const OF_EACH: usize = 50;
    let settings = Settings { nodes: 1, data_groups: 1, tls: true, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let [grpc, http, _] = cluster.addresses(1);
    let ports = [grpc, http, cluster.amqp_address(1), cluster.amqps_address(1)];
    // Nothing, half a TLS record, half a head, half a SASL frame, a frame of a size nobody sends.
    let beginnings: [&[u8]; 5] = [
        b"",
        &[0x16, 3, 1, 2, 0, 1],
        b"GET /q HTTP/1.1\r\nHost: loc",
        b"AMQP\x03\x01\x00\x00\x00\x00\x00\x26\x02\x01",
        b"AMQP\x03\x01\x00\x00\x7f\xff\xff\xff\x02\x01\x00\x00",
    ];
    let mut stallers = Vec::new();
    for (port, bytes) in ports.iter().flat_map(|port| beginnings.map(|bytes| (port, bytes))) {
        for _ in 0..OF_EACH {
            let mut stream = wire::tcp(port)?;
            // It may be hung up on at once.
            let _ = stream.write_all(bytes);
            stallers.push(stream);
        }
    }
    let started = Instant::now();
    for over_tls in [false, true] {
        let mut amqp = match over_tls {
            false => AmqpClient::connect(cluster.amqp_address(1)).await?,
            true => {
                let stream = wire::tls(cluster.amqps_address(1), &cluster.certificate())?;
                AmqpClient::over(stream, Mechanism::Anonymous).await?
            }
        };
        let sender = amqp.sender("q").await?.expect("the queue is there");
        assert_eq!(amqp.send(sender, 0, message()).await?, DeliveryState::ACCEPTED);
    }
    assert_eq!(ask(wire::tcp(http)?, "GET /q", "")?.0, 200);
    assert_eq!(ask(wire::tls(http, &cluster.certificate())?, "GET /q", "")?.0, 200);
    cluster.client()?.send("q", vec![client::Message::new("still here")]).await?;
    // Before any of them was given up.
    ensure!(started.elapsed() < Duration::from_secs(10), "after {:?}", started.elapsed());
    Ok(())
}
