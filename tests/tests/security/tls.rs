//! TLS and WebSockets, on every port that takes them.

use std::process::Command;
use std::time::{Duration, Instant};

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use bytes::BytesMut;
use client::{Client, ClientOptions, ReceiverOptions, SenderOptions, Trust};
use mayfly_tests::wire;
use mayfly_tests::{AmqpClient, Cluster, Settings, mayfly};
use message_content::{Body, Neutral};
use nix::sys::signal::Signal;

use super::ask;

/// CONN-1, CONN-2, HTTP-1: AMQP over TLS and through a WebSocket, HTTP and HTTPS on one port, and a
/// certificate that is replaced while the node runs.
#[tokio::test(flavor = "multi_thread")]
async fn conn_1_conn_2_http_1_tls_and_websockets_carry_what_plain_tcp_does() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, tls: true, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let trusted = cluster.dir().join("trusted.pem");
    std::fs::copy(cluster.certificate(), &trusted)?;
    let http = cluster.addresses(1)[1].to_owned();
    let large = vec![7; 200 * 1024];
    for path in ["", "/$servicebus/websocket", "/$servicebus/websocket/"] {
        let mut amqp = match path {
            "" => {
                AmqpClient::over(
                    wire::tls(cluster.amqps_address(1), &trusted)?,
                    Mechanism::Anonymous,
                )
                .await?
            }
            path => {
                AmqpClient::over(wire::websocket(&http, &trusted, path)?, Mechanism::Anonymous)
                    .await?
            }
        };
        let sender = amqp.sender("q").await?.expect("the queue is there");
        let body = Body::Binary(large.clone().into());
        let payload = Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new());
        assert_eq!(amqp.send(sender, 0, payload).await?, DeliveryState::ACCEPTED);
        let receiver = amqp.settled_receiver("q").await?.expect("the queue is there");
        amqp.grant(receiver, 1).await?;
        let payload = amqp.receive(receiver).await?.payload.ok().context("too large")?;
        ensure!(payload.ends_with(&large), "{path}: {} bytes", payload.len());
    }
    let (status, body) = ask(wire::tcp(&http)?, "GET /q", "")?;
    ensure!(status == 200 && body.contains("<id>http://localhost/q"), "{body}");
    let (status, body) = ask(wire::tls(&http, &trusted)?, "GET /q", "")?;
    ensure!(status == 200 && body.contains("<id>https://localhost/q"), "{body}");
    let (status, _) = ask(wire::tls(&http, &trusted)?, "GET /$servicebus/websocket", "")?;
    ensure!((400..500).contains(&status), "no WebSocket was asked for: {status}");

    cluster.certify_anew()?;
    cluster.signal(1, Signal::SIGHUP)?;
    let renewed = cluster.certificate();
    let until = Instant::now() + Duration::from_secs(20);
    while wire::tls(&http, &renewed).is_err() {
        ensure!(Instant::now() < until, "the certificate is not read again");
        std::thread::sleep(Duration::from_millis(50));
    }
    ensure!(wire::tls(&http, &trusted).is_err(), "the old one is still shown");
    Ok(())
}

/// Commands that do more than one call: a bench over AMQP, which looks at nodes over HTTP too, and an
/// experiment; with TLS by addresses, by flags, and by variables.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_speaks_tls() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, tls: true, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let [grpc, ..] = cluster.addresses(1);
    let (amqps, ca) = (cluster.amqps_address(1), cluster.certificate());
    let bench = ["bench", "lifecycle", "--seconds", "1", "--warm-up", "0", "--json"];
    let bench = [&bench[..], &["--protocol", "amqp", "--amqp"]].concat();
    let chaos = ["chaos", "--minutes", "0.05", "--workload", "queue", "--fault", "transfer"];
    let [over_amqps, over_https] = [format!("amqps://{amqps}"), format!("https://{grpc}")];
    let plain = format!("amqp://{amqps}");
    for (words, code) in [
        ([&bench[..], &[amqps, "--connect", grpc]].concat(), 0),
        ([&bench[..], &[&over_amqps, "--connect", &over_https]].concat(), 0),
        ([&bench[..], &[&plain, "--connect", grpc]].concat(), 2),
        ([&chaos[..], &["--connect", &over_https]].concat(), 0),
    ] {
        let ran = Command::new(mayfly()?).args(&words).env("MAYFLY_TLS_CA", &ca).output()?;
        let told = String::from_utf8(ran.stderr)?;
        ensure!(ran.status.code() == Some(code), "{words:?}, {:?}: {told}", ran.status);
        if words[0] == "bench" && code == 0 {
            let report = String::from_utf8(ran.stdout)?;
            ensure!(report.contains("\"cpu_seconds\": "), "no look at the node: {report}");
        }
    }
    for (flags, told) in [
        (&["--tls-cert", "a.pem"][..], "--tls-key"),
        (&["--tls-cert", "a.pem", "--tls-key", "b.pem"], "--tls-cert: cannot read 'a.pem'"),
    ] {
        let ran = Command::new(mayfly()?).args(["queue", "list"]).args(flags).output()?;
        let said = String::from_utf8(ran.stderr)?;
        ensure!(ran.status.code() == Some(2) && said.contains(told), "{said}");
    }
    Ok(())
}

/// The native client over TLS: whom it trusts, and that nodes it learns of are reached the same way.
#[tokio::test(flavor = "multi_thread")]
async fn native_clients_speak_tls() -> anyhow::Result<()> {
    let settings = Settings { data_groups: 1, tls: true, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let port = cluster.addresses(1)[0].rsplit_once(':').context("a port")?.1;
    let connect = |address: String, tls: Option<Trust>| {
        let give_up_after = Duration::from_secs(5);
        let options = ClientOptions { tls, give_up_after, ..ClientOptions::default() };
        Client::with_options([address], options)
    };
    let trusted = || std::fs::read(cluster.certificate()).map(Trust::Authorities);
    for address in [format!("https://localhost:{port}"), format!("localhost:{port}")] {
        let client = connect(address.clone(), Some(trusted()?))?;
        let queue = address.replace([':', '/'], "-");
        client.create_queue(&queue, Default::default()).await?;
        // Whichever node leads its group.
        let sender = client.sender(&*queue, SenderOptions::default());
        sender.send(client::Message::new("over TLS")).await?;
        let mut receiver = client.receiver(&*queue, ReceiverOptions::default());
        let delivery = receiver.recv().await?;
        assert_eq!(delivery.body(), "over TLS");
        ensure!(receiver.complete(&delivery).failures().await.is_empty(), "not completed");
        assert_eq!(client.status(false).await?.nodes.len(), 3);
    }
    // Nobody vouches for a certificate that was made here.
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let stranger = Trust::Authorities(stranger.cert.pem().into_bytes());
    for (address, tls) in
        [(format!("https://localhost:{port}"), None), (format!("localhost:{port}"), Some(stranger))]
    {
        let Ok(client) = connect(address.clone(), tls) else { continue }; // No system certificates.
        let asked = Instant::now();
        let error = client.status(true).await.err().context("an unknown certificate")?;
        ensure!(matches!(error, client::Error::NotDone(_)), "{error:?}");
        ensure!(error.to_string().contains("trust the authority that signed it"), "{error}");
        ensure!(asked.elapsed() < Duration::from_secs(4), "it was asked again and again");
    }
    for (authority, code) in [(cluster.certificate(), 0), (cluster.dir().join("key.pem"), 2)] {
        let address = format!("localhost:{port}");
        let ran = Command::new(mayfly()?)
            .args(["queue", "list", "--connect", &address, "--tls-ca"])
            .arg(authority)
            .output()?;
        let told = String::from_utf8(ran.stderr)?;
        ensure!(ran.status.code() == Some(code), "{:?}: {told}", ran.status);
    }
    Ok(())
}
