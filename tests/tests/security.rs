//! Who is let in, over what, and what becomes of those who are not: real nodes, real sockets.

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use amqp::codec::{DeliveryState, Error};
use amqp::engine::Mechanism;
use amqp::message::{Body, Neutral};
use anyhow::{Context, ensure};
use auth::sign;
use bytes::{Bytes, BytesMut};
use client::{Client, ClientOptions, ReceiverOptions, SenderOptions, Trust};
use mayfly_tests::wire::{self, Wire};
use mayfly_tests::{AmqpClient, Cluster, Settings, mayfly};
use nix::sys::signal::Signal;

const SECRET: &str = "the-cluster-secret";
const KEYS: &str = r#"
[[security.key]]
name = "sender"
key = "sender-key"
secondary_key = "sender-spare"
rights = ["send"]
scope = "orders"
[[security.key]]
name = "listener"
key = "listener-key"
rights = ["listen"]
"#;

fn guarded() -> Settings {
    let secret = Some(SECRET);
    Settings { nodes: 1, data_groups: 1, secret, config: KEYS, ..Settings::default() }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn message() -> Bytes {
    let body = Body::Binary(Bytes::from_static(b"hello"));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

/// A token as Python makes it.
fn token(entity: &str, name: &str, key: &str, seconds: u64) -> (String, String) {
    let audience = format!("sb://localhost:5672/{entity}");
    let resource = audience.replace(':', "%3A").replace('/', "%2F");
    (sign(&resource, name, key, now_s() + seconds), audience)
}

fn condition(refused: Result<amqp::engine::LinkId, Error>) -> anyhow::Result<String> {
    Ok(refused.err().context("it was let in")?.condition.to_string())
}

/// One request on a connection of its own: status and body.
fn ask(mut stream: impl Wire, request: &str, headers: &str) -> anyhow::Result<(u16, String)> {
    let body = if request.starts_with("PUT") { QUEUE } else { "" };
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        ensure!(Instant::now() < until, "no answer to {request}");
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // A server that is done may leave without a word of TLS.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error.into()),
        }
    }
    let text = String::from_utf8(text)?;
    let status = text.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, text))
}

const QUEUE: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><ForwardTo>sb://localhost/target</ForwardTo></QueueDescription></content></entry>"#;

/// ERR-17: over AMQP each link takes a right on its entity, from a token or from a login with a key.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_amqp_links_take_tokens_with_their_right() -> anyhow::Result<()> {
    const UNAUTHORIZED: &str = "amqp:unauthorized-access";
    let cluster = Cluster::start(guarded()).await?;
    for queue in ["orders", "other"] {
        cluster.client()?.create_queue(queue, Default::default()).await?;
    }
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1))?;
    assert_eq!(condition(amqp.sender("orders")?)?, UNAUTHORIZED);
    for (name, key, status) in [
        ("sender", "guess", 401),
        ("nobody", "sender-key", 401),
        ("sender", "sender-spare", 202),
        ("sender", "sender-key", 202),
    ] {
        let (token, audience) = token("orders", name, key, 60);
        assert_eq!(amqp.put_token(&token, &audience)?, status, "{name} {key}");
    }
    let resource = "sb%3A%2F%2Flocalhost%3A5672%2Forders";
    let expired = sign(resource, "sender", "sender-key", now_s() - 1);
    assert_eq!(amqp.put_token(&expired, "sb://localhost:5672/orders")?, 401, "it has expired");
    // A key of one entity signs for no other.
    let (of_other, audience) = token("other", "sender", "sender-key", 60);
    assert_eq!(amqp.put_token(&of_other, &audience)?, 401);
    let sender = amqp.sender("amqps://localhost:5672/Orders")?.expect("the token is for it");
    assert_eq!(amqp.send(sender, 0, message())?, DeliveryState::ACCEPTED);
    assert_eq!(condition(amqp.sender("other")?)?, UNAUTHORIZED);
    assert_eq!(condition(amqp.receiver("orders", true)?)?, UNAUTHORIZED);
    let (token, audience) = token("orders", "listener", "listener-key", 60);
    assert_eq!(amqp.put_token(&token, &audience)?, 202);
    let receiver = amqp.receiver("orders", true)?.expect("it may listen now");
    amqp.grant(receiver, 1)?;
    amqp.receive(receiver)?;

    // §1.2: a login with the key itself needs no token.
    let login = |user, password| {
        let stream = wire::tcp(cluster.amqp_address(1))?;
        AmqpClient::over(stream, Mechanism::plain(user, password))
    };
    assert!(login("sender", "guess").is_err());
    let mut amqp = login("RootManageSharedAccessKey", SECRET)?;
    assert!(amqp.sender("other")?.is_ok());
    let mut amqp = login("sender", "sender-key")?;
    assert!(amqp.sender("orders")?.is_ok());
    assert_eq!(condition(amqp.sender("other")?)?, UNAUTHORIZED);

    let log = cluster.node_log(1);
    ensure!(log.contains("AMQP client refused"), "{log}");
    for hidden in [SECRET, "sender-key", "sender-spare", "guess"] {
        ensure!(!log.contains(hidden), "{hidden} is in {log}");
    }
    Ok(())
}

/// ERR-25: a link lasts as long as its token, or the next one for the same entity.
#[tokio::test(flavor = "multi_thread")]
async fn err_25_links_of_an_expired_token_are_detached() -> anyhow::Result<()> {
    let cluster = Cluster::start(guarded()).await?;
    for queue in ["orders", "other"] {
        cluster.client()?.create_queue(queue, Default::default()).await?;
    }
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1))?;
    let put = |amqp: &mut AmqpClient, entity: &str, seconds| {
        let (token, audience) = token(entity, "RootManageSharedAccessKey", SECRET, seconds);
        amqp.put_token(&token, &audience)
    };
    for entity in ["orders", "other"] {
        assert_eq!(put(&mut amqp, entity, 8)?, 202);
    }
    let ends = amqp.sender("orders")?.expect("authorized");
    let lasts = amqp.sender("other")?.expect("authorized");
    assert_eq!(put(&mut amqp, "other", 600)?, 202);
    let started = Instant::now();
    let error = amqp.detached(ends)?;
    assert_eq!(error.condition.as_str(), "amqp:unauthorized-access");
    ensure!(started.elapsed() < Duration::from_secs(20), "after {:?}", started.elapsed());
    assert_eq!(amqp.send(lasts, 0, message())?, DeliveryState::ACCEPTED);
    assert!(amqp.sender("orders")?.is_err(), "and no new one");
    assert_eq!(put(&mut amqp, "orders", 600)?, 202);
    assert!(amqp.sender("orders")?.is_ok());
    Ok(())
}

/// §3 of the management contract: Manage for everything, 401 with a body that SDKs read.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_http_takes_tokens_and_the_secret() -> anyhow::Result<()> {
    let cluster = Cluster::start(guarded()).await?;
    cluster.client()?.create_queue("target", Default::default()).await?;
    let ask =
        |request: &str, header: &str| ask(wire::tcp(cluster.addresses(1)[1])?, request, header);
    let sas = |resource: &str, name: &str, key: &str| {
        format!("Authorization: {}\r\n", sign(resource, name, key, now_s() + 60))
    };
    let root = |resource: &str| sas(resource, "RootManageSharedAccessKey", SECRET);
    let bearer = format!("Authorization: Bearer {SECRET}\r\n");
    for (request, header, status) in [
        ("GET /health/live", String::new(), 200),
        ("GET /metrics", String::new(), 401),
        ("GET /metrics", bearer.clone(), 200),
        ("GET /$Resources/queues", String::new(), 401),
        ("GET /$Resources/queues", root("https%3A%2F%2Flocalhost"), 200),
        ("GET /$Resources/queues", sas("https%3A%2F%2Flocalhost", "sender", "sender-key"), 401),
        ("GET /target", root("https%3a%2f%2flocalhost%2ftarget%3fapi-version%3d2021-05"), 200),
        ("GET /target", root("http%3A%2F%2Flocalhost%2Felsewhere"), 401),
        // FWD-2: Manage on the source is not Send on the target.
        ("PUT /source", root("http%3A%2F%2Flocalhost%2Fsource"), 401),
        ("PUT /source", root("https%3A%2F%2Flocalhost"), 201),
        ("PUT /bearer", bearer, 201),
    ] {
        let (found, body) = ask(request, &header)?;
        assert_eq!(found, status, "{request} {header} {body}");
    }
    let (_, body) = ask("GET /target", "")?;
    ensure!(body.contains("<Error><Code>401</Code><Detail>"), "{body}");
    Ok(())
}

/// §1: AMQP over TLS and through a WebSocket, HTTP and HTTPS on one port, and a certificate that is
/// replaced while the node runs.
#[tokio::test(flavor = "multi_thread")]
async fn section_1_tls_and_websockets_carry_what_plain_tcp_does() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, tls: true, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let trusted = cluster.dir().join("trusted.pem");
    std::fs::copy(cluster.certificate(), &trusted)?;
    let http = cluster.addresses(1)[1].to_owned();
    let large = vec![7; 200 * 1024];
    for path in ["", "/$servicebus/websocket", "/$servicebus/websocket/"] {
        let mut amqp = match path {
            "" => AmqpClient::over(
                wire::tls(cluster.amqps_address(1), &trusted)?,
                Mechanism::Anonymous,
            )?,
            path => {
                AmqpClient::over(wire::websocket(&http, &trusted, path)?, Mechanism::Anonymous)?
            }
        };
        let sender = amqp.sender("q")?.expect("the queue is there");
        let body = Body::Binary(large.clone().into());
        let payload = Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new());
        assert_eq!(amqp.send(sender, 0, payload)?, DeliveryState::ACCEPTED);
        let receiver = amqp.receiver("q", true)?.expect("the queue is there");
        amqp.grant(receiver, 1)?;
        let payload = amqp.receive(receiver)?.payload.ok().context("too large")?;
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

/// QUOTA-13: one too many is told so; those that are there notice nothing, and a place that is free is
/// given away.
#[tokio::test(flavor = "multi_thread")]
async fn quota_13_a_connection_too_many_is_told_so() -> anyhow::Result<()> {
    let config = "[amqp]\nconnections_max = 2\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let connect = || AmqpClient::connect(cluster.amqp_address(1));
    let (mut first, second) = (connect()?, connect()?);
    let sender = first.sender("q")?.expect("the queue is there");
    let told = format!("{:#}", connect().err().context("a third connection")?);
    ensure!(told.contains("amqp:resource-limit-exceeded"), "{told}");
    ensure!(told.contains("as many connections as it may, 2"), "{told}");
    assert_eq!(first.send(sender, 0, message())?, DeliveryState::ACCEPTED);
    drop(second);
    let until = Instant::now() + Duration::from_secs(30);
    while connect().is_err() {
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
        let error = client.status(true).await.err().context("an unknown certificate")?;
        ensure!(matches!(error, client::Error::NotDone(_)), "{error:?}");
        ensure!(error.to_string().contains("certificate"), "{error}");
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
            false => AmqpClient::connect(cluster.amqp_address(1))?,
            true => {
                let stream = wire::tls(cluster.amqps_address(1), &cluster.certificate())?;
                AmqpClient::over(stream, Mechanism::Anonymous)?
            }
        };
        let sender = amqp.sender("q")?.expect("the queue is there");
        assert_eq!(amqp.send(sender, 0, message())?, DeliveryState::ACCEPTED);
    }
    assert_eq!(ask(wire::tcp(http)?, "GET /q", "")?.0, 200);
    assert_eq!(ask(wire::tls(http, &cluster.certificate())?, "GET /q", "")?.0, 200);
    cluster.client()?.send("q", vec![client::Message::new("still here")]).await?;
    // Before any of them was given up.
    ensure!(started.elapsed() < Duration::from_secs(10), "after {:?}", started.elapsed());
    Ok(())
}
