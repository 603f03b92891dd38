//! Ports: one that takes everything, and what is told to whoever comes to the wrong one, in the words of
//! what was spoken. Real nodes, real sockets.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use client::{Client, ClientOptions, Trust, v1};
use mayfly_tests::wire::{self, Wire};
use mayfly_tests::{AmqpClient, Cluster, Raw, Settings};

/// More than any answer takes on a busy machine, and than a stranger is waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Of SASL, which the SDKs begin with, and of AMQP itself.
const SASL: &[u8] = b"AMQP\x03\x01\x00\x00";
const AMQP: &[u8] = b"AMQP\x00\x01\x00\x00";
const AMQP_0_9_1: &[u8] = b"AMQP\x00\x00\x09\x01";
const HELLO: &[u8] = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00";
const REQUEST: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Says something and hears everything until the other side hangs up.
fn heard(mut stream: impl Wire, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    stream.write_all(bytes)?;
    stream.flush()?;
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    let until = Instant::now() + ANSWER_WITHIN;
    loop {
        ensure!(Instant::now() < until, "it is not hung up on: {}", heard.escape_ascii());
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(heard),
            Ok(count) => heard.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // A server that is done may leave without a word of TLS, or with bytes it did not read.
            Err(error)
                if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset]
                    .contains(&error.kind()) =>
            {
                return Ok(heard);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What an AMQP client is told that wants to send.
async fn amqp_told(stream: impl Wire + 'static) -> anyhow::Result<String> {
    let linked = async {
        let mut amqp = AmqpClient::over(stream, Mechanism::Anonymous).await?;
        amqp.sender("q").await?.map_err(|error| anyhow::anyhow!("{error:?}"))
    };
    Ok(linked.await.err().context("it is served")?.to_string())
}

async fn one_with_a_queue(settings: Settings) -> anyhow::Result<Cluster> {
    let settings = Settings { nodes: 1, data_groups: 1, any: true, ..settings };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    Ok(cluster)
}

/// CONN-23: AMQP, HTTP, a WebSocket and gRPC, each with and without TLS, all on one port.
#[tokio::test(flavor = "multi_thread")]
async fn conn_23_one_port_takes_everything() -> anyhow::Result<()> {
    let cluster = one_with_a_queue(Settings { tls: true, ..Settings::default() }).await?;
    let (any, trusted) = (cluster.any_address(1), cluster.certificate());
    let path = "/$servicebus/websocket";
    let login = Mechanism::Anonymous;
    for mut amqp in [
        AmqpClient::over(wire::tcp(any)?, login.clone()).await?,
        AmqpClient::over(wire::tls(any, &trusted)?, login.clone()).await?,
        AmqpClient::over(wire::plain_websocket(any, path, Some("amqp"))?, login.clone()).await?,
        AmqpClient::over(wire::websocket(any, &trusted, path)?, login.clone()).await?,
    ] {
        assert!(amqp.sender("q").await?.is_ok());
    }
    for answer in [heard(wire::tcp(any)?, REQUEST)?, heard(wire::tls(any, &trusted)?, REQUEST)?] {
        let answer = String::from_utf8(answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("healthy"), "{answer}");
    }
    let pem = std::fs::read(&trusted)?;
    for (address, tls) in
        [(any.to_owned(), None), (format!("https://{any}"), Some(Trust::Authorities(pem)))]
    {
        let options = ClientOptions { tls, ..ClientOptions::default() };
        let queue = Client::with_options([address], options)?.get_queue("q").await?;
        assert_eq!(queue.name, "q");
    }
    Ok(())
}

/// CONN-23: what comes byte by byte is understood all the same.
#[tokio::test(flavor = "multi_thread")]
async fn conn_23_first_bytes_may_come_one_by_one() -> anyhow::Result<()> {
    let cluster = one_with_a_queue(Settings::default()).await?;
    for (bytes, answer) in [(REQUEST, &b"HTTP/1.1 200 "[..]), (AMQP_0_9_1, SASL)] {
        let mut stream = wire::tcp(cluster.any_address(1))?;
        let (last, first) = bytes.split_last().context("bytes")?;
        for byte in first {
            stream.write_all(&[*byte])?;
        }
        let heard = heard(stream, &[*last])?;
        ensure!(heard.starts_with(answer), "{}", heard.escape_ascii());
    }
    Ok(())
}

/// CONN-24, CONN-12: every beginning on every port that does not take it.
#[tokio::test(flavor = "multi_thread")]
async fn conn_24_conn_12_who_is_wrong_at_a_port_is_told_so_in_its_own_words() -> anyhow::Result<()>
{
    let cluster = one_with_a_queue(Settings { tls: true, ..Settings::default() }).await?;
    let [grpc, http, peer] = cluster.addresses(1);
    let (amqp, amqps) = (cluster.amqp_address(1), cluster.amqps_address(1));
    let trusted = cluster.certificate();
    let number = |address: &str| address.rsplit(':').next().map(str::to_owned).expect("a port");

    // AMQP: with and without a login, what it is told stands in its `close`.
    for (address, key) in [(grpc, "grpc"), (http, "http"), (peer, "peer"), (amqps, "amqps")] {
        let told = amqp_told(wire::tcp(address)?).await?;
        let is_told = told.contains("amqp:not-allowed") && told.contains(&number(amqp));
        ensure!(is_told && told.contains(&format!("(listen.{key}) takes ")), "{told}");
        let answer = heard(wire::tcp(address)?, AMQP_0_9_1)?;
        assert_eq!(answer, SASL, "what is spoken here");
    }
    let told = amqp_told(wire::tls(http, &trusted)?).await?;
    ensure!(told.contains("AMQP over TLS is on port") && told.contains(&number(amqps)), "{told}");
    let refused = wire::websocket(amqps, &trusted, "/$servicebus/websocket").err();
    let told = refused.context("a WebSocket without HTTP")?.to_string();
    ensure!(told.contains("400"), "{told}");

    // HTTP: a status, and one line of JSON.
    for (address, key) in [(grpc, "grpc"), (amqp, "amqp"), (peer, "peer"), (amqps, "amqps")] {
        let answer = String::from_utf8(heard(wire::tcp(address)?, REQUEST)?)?;
        let is_told = answer.starts_with("HTTP/1.1 400 ") && answer.contains(&number(http));
        ensure!(is_told && answer.contains(&format!("(listen.{key}) takes ")), "{answer}");
    }
    let answer = String::from_utf8(heard(wire::tls(amqps, &trusted)?, REQUEST)?)?;
    ensure!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(&number(http)), "{answer}");

    // gRPC: a status of its own.
    for address in [http, amqp, amqps] {
        let status = Raw::to(address)?.send(v1::SendRequest::default()).await;
        let status = status.err().context("it is served")?;
        let is_told = status.message().contains(&number(grpc));
        ensure!(status.code() as i32 == 12 && is_told, "{status:?}");
    }

    // TLS: an alert.
    assert_eq!(heard(wire::tcp(peer)?, HELLO)?, b"\x15\x03\x01\x00\x02\x02\x28");
    let refused = wire::tls(peer, &trusted).err().context("a handshake")?.to_string();
    ensure!(refused.contains("HandshakeFailure"), "{refused}");

    // What nobody knows, and silence: let go, without a word.
    for address in [grpc, http, peer, amqp, amqps, cluster.any_address(1)] {
        assert_eq!(heard(wire::tcp(address)?, b"SSH-2.0-OpenSSH_9.6\r\n")?, b"");
    }
    let silent: Vec<TcpStream> = [grpc, http, peer, amqp, amqps, cluster.any_address(1)]
        .map(wire::tcp)
        .into_iter()
        .collect::<anyhow::Result<_>>()?;
    for stream in silent {
        assert_eq!(heard(stream, b"")?, b"");
    }

    // One line each; of each port one a second at most, and the silence took longer.
    heard(wire::tcp(amqp)?, REQUEST)?;
    heard(wire::tcp(peer)?, HELLO)?;
    let log = cluster.node_log(1);
    for line in [
        "client refused: AMQP was spoken: port ",
        "client refused: HTTP was spoken: port ",
        "client refused: TLS was spoken: port ",
    ] {
        ensure!(log.contains(line), "no '{line}' in {log}");
    }
    ensure!(!log.contains("panicked"), "{log}");
    cluster.client()?.get_queue("q").await?;
    Ok(())
}

/// CONN-23, CONN-24: with a certificate plain text is refused on every port for clients, each in its own words,
/// and TLS is taken on all of them.
#[tokio::test(flavor = "multi_thread")]
async fn conn_23_conn_24_with_a_certificate_plain_text_is_refused() -> anyhow::Result<()> {
    let settings = Settings { tls: true, plain: false, ..Settings::default() };
    let cluster = one_with_a_queue(settings).await?;
    let trusted = cluster.certificate();
    let ([grpc, http, _], any) = (cluster.addresses(1), cluster.any_address(1));
    let (amqp, amqps) = (cluster.amqp_address(1), cluster.amqps_address(1));
    for (address, key) in [(amqp, "amqp"), (amqps, "amqps"), (any, "any")] {
        let told = amqp_told(wire::tcp(address)?).await?;
        let is_told = told.contains("amqp:not-allowed") && told.contains(" over TLS");
        ensure!(is_told && told.contains(&format!("(listen.{key}) takes ")), "{told}");
        let mut amqp =
            AmqpClient::over(wire::tls(address, &trusted)?, Mechanism::Anonymous).await?;
        assert!(amqp.sender("q").await?.is_ok());
    }
    for (address, key) in [(http, "http"), (any, "any")] {
        let answer = String::from_utf8(heard(wire::tcp(address)?, REQUEST)?)?;
        let is_told = answer.starts_with("HTTP/1.1 400 ") && answer.contains(" over TLS");
        ensure!(is_told && answer.contains(&format!("(listen.{key}) takes ")), "{answer}");
        let answer = String::from_utf8(heard(wire::tls(address, &trusted)?, REQUEST)?)?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let path = "/$servicebus/websocket";
        let refused = wire::plain_websocket(address, path, Some("amqp")).err().context("plain")?;
        ensure!(refused.to_string().contains("400"), "{refused}");
    }
    for (address, key) in [(grpc, "grpc"), (any, "any")] {
        let status = Raw::to(address)?.send(v1::SendRequest::default()).await;
        let status = status.err().context("it is served")?;
        let is_told = status.message().contains(&format!("(listen.{key}) takes "));
        ensure!(status.code() as i32 == 12 && is_told, "{status:?}");
        let tls = Some(Trust::Authorities(std::fs::read(&trusted)?));
        let options = ClientOptions { tls, ..ClientOptions::default() };
        Client::with_options([address], options)?.get_queue("q").await?;
    }
    ensure!(cluster.node_log(1).contains(&format!("AMQP over TLS on {amqps}")));
    Ok(())
}

/// CONN-24: a client without SASL, which AMQP ports turn away unheard (CONN-3), hears why on others.
#[tokio::test(flavor = "multi_thread")]
async fn conn_24_amqp_without_sasl_is_told_why_too() -> anyhow::Result<()> {
    let cluster = one_with_a_queue(Settings::default()).await?;
    let [_, http, _] = cluster.addresses(1);
    // An `open` with nothing but a name.
    let open = b"\x00\x00\x00\x12\x02\x00\x00\x00\x00\x53\x10\xc0\x05\x01\xa1\x02me";
    let answer = heard(wire::tcp(http)?, &[AMQP, open].concat())?;
    let told = answer.escape_ascii().to_string();
    ensure!(answer.starts_with(AMQP) && told.contains("amqp:not-allowed"), "{told}");
    ensure!(told.contains("(listen.amqp)"), "{told}");
    Ok(())
}

/// CONN-2: .NET asks for `amqp`, the others for `AMQPWSB10`, and who asks for none gets none.
#[tokio::test(flavor = "multi_thread")]
async fn conn_2_websockets_of_every_sdk_are_opened() -> anyhow::Result<()> {
    let cluster = one_with_a_queue(Settings::default()).await?;
    let [_, http, _] = cluster.addresses(1);
    for path in ["/$servicebus/websocket", "/$servicebus/websocket/"] {
        for asked in [Some("amqp"), Some("AMQPWSB10"), Some("AMQP"), None] {
            let socket = wire::plain_websocket(http, path, asked)?;
            let mut amqp = AmqpClient::over(socket, Mechanism::Anonymous).await?;
            assert!(amqp.sender("q").await?.is_ok(), "{asked:?} at {path}");
        }
        let refused = wire::plain_websocket(http, path, Some("mqtt")).err().context("MQTT")?;
        ensure!(refused.to_string().contains("400"), "{refused}");
        // A protocol that is not spoken: the one that is, and the end, with its code.
        let answer = heard(wire::plain_websocket(http, path, None)?, b"AMQP\x00\x09\x09\x09")?;
        ensure!(answer.starts_with(b"AMQP"), "{answer:?}");
    }
    let request =
        "GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = String::from_utf8(heard(wire::tcp(http)?, request.as_bytes())?)?;
    ensure!(answer.contains("is a WebSocket for AMQP"), "{answer}");
    Ok(())
}
