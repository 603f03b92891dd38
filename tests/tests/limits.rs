//! Every limit on every port: what a client is told that reaches it, and what is counted (QUOTA-39). Limits
//! are changed under way, as an operator would.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use amqp_protocol::codec::{Attach, DeliveryState, Role, Source, Tag, Transfer};
use amqp_protocol::engine::{Event, LinkId, Mechanism};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use client::{Client, ClientOptions, v1};
use mayfly_tests::{AmqpClient, Cluster, Raw, RawAmqp, Settings, wire};
use message_content::{Body, Neutral};
use nix::sys::signal::Signal;

const SECRET: &str = "the-secret-of-the-tests";
const KEYS: &str = r#"
[[security.key]]
name = "amqp"
key = "the-key-of-amqp-clients"
rights = ["manage"]
[[security.key]]
name = "http"
key = "the-key-of-http-clients"
rights = ["manage"]
[[security.key]]
name = "grpc"
key = "the-key-of-grpc-clients"
rights = ["manage"]
"#;
const REREAD: &str = "the limits of clients were read again";
/// Far more than any limit below.
const TRIES_MAX: usize = 200;
const WITHIN: Duration = Duration::from_secs(20);
const QUEUE: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Amqp,
    Http,
    Grpc,
}

use Port::{Amqp, Grpc, Http};

impl Port {
    /// Of its key, and as the label `protocol`.
    fn name(self) -> &'static str {
        match self {
            Amqp => "amqp",
            Http => "http",
            Grpc => "grpc",
        }
    }

    fn key(self) -> String {
        format!("the-key-of-{}-clients", self.name())
    }

    fn authorization(self) -> String {
        auth::authorization(Some(self.name()), &self.key()).into_owned()
    }
}

/// How somebody reaches a limit.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    /// A second connection of one address.
    Connect,
    /// A second connection with one key, from another address.
    ConnectElsewhere,
    Links,
    Sessions,
    /// Message after message.
    Send,
    /// Queue after queue.
    Create,
}

/// A limit, what it is set to, how it is reached, and on which port; and all that the answer says.
type Row = (&'static str, u64, Attempt, Port, &'static [&'static str]);

const FULL: &[&str] = &["amqp:resource-limit-exceeded"];
const BUSY: &[&str] = &["com.microsoft:server-busy", "Error code: 50009. Please wait"];
const TOO_MANY: &[&str] = &["429", "\nretry-after: "];
const THROTTLED: &[&str] = &["429", "\nretry-after: ", "SubCode=50004", "Error code: 50009"];
const EXHAUSTED: &[&str] = &["ResourceExhausted", "nothing was done, try"];

const TABLE: &[Row] = &[
    ("connections_per_key", 1, Attempt::ConnectElsewhere, Amqp, FULL),
    ("connections_per_key", 1, Attempt::ConnectElsewhere, Http, TOO_MANY),
    ("connections_per_key", 1, Attempt::ConnectElsewhere, Grpc, EXHAUSTED),
    ("connections_per_address", 1, Attempt::Connect, Amqp, FULL),
    ("connections_per_address", 1, Attempt::Connect, Http, TOO_MANY),
    ("connections_per_address", 1, Attempt::Connect, Grpc, EXHAUSTED),
    ("links_per_connection", 2, Attempt::Links, Amqp, FULL),
    ("sessions_per_connection", 2, Attempt::Sessions, Amqp, FULL),
    ("requests_per_second_per_address", 3, Attempt::Send, Amqp, BUSY),
    ("requests_per_second_per_address", 3, Attempt::Send, Http, THROTTLED),
    ("requests_per_second_per_address", 3, Attempt::Send, Grpc, EXHAUSTED),
    ("requests_per_second_per_key", 3, Attempt::Send, Amqp, BUSY),
    ("requests_per_second_per_key", 3, Attempt::Send, Http, THROTTLED),
    ("requests_per_second_per_key", 3, Attempt::Send, Grpc, EXHAUSTED),
    ("entities_per_minute_per_key", 2, Attempt::Create, Amqp, BUSY),
    ("entities_per_minute_per_key", 2, Attempt::Create, Http, THROTTLED),
    ("entities_per_minute_per_key", 2, Attempt::Create, Grpc, EXHAUSTED),
];

struct Node {
    cluster: Cluster,
    /// Its configuration without limits.
    base: String,
}

impl Node {
    async fn start() -> anyhow::Result<Node> {
        let settings = Settings {
            nodes: 1,
            data_groups: 1,
            secret: Some(SECRET),
            config: KEYS,
            ..Settings::default()
        };
        let cluster = Cluster::start(settings).await?;
        cluster.client()?.create_queue("q", Default::default()).await?;
        let base = std::fs::read_to_string(cluster.config_path(1))?;
        Ok(Node { cluster, base })
    }

    /// Sets one limit, and all others to their defaults.
    async fn limit(&mut self, name: &str, max: u64) -> anyhow::Result<()> {
        let before = self.cluster.node_log(1).matches(REREAD).count();
        let text = format!("{}\n[limits]\n{name} = {max}\n", self.base);
        std::fs::write(self.cluster.config_path(1), text)?;
        self.cluster.signal(1, Signal::SIGHUP)?;
        let until = Instant::now() + WITHIN;
        while self.cluster.node_log(1).matches(REREAD).count() == before {
            ensure!(Instant::now() < until, "{name} is not read again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn http(&self) -> &str {
        self.cluster.addresses(1)[1]
    }
}

/// A number that the node tells of itself; 0: it has told nothing yet.
fn metric(http: &str, name: &str) -> anyhow::Result<u64> {
    let headers = format!("Authorization: Bearer {SECRET}\r\n");
    let answer = mayfly_tests::ask(http, "GET /metrics", &headers, "")?;
    ensure!(answer.status == 200, "{}", answer.body);
    let line = answer.body.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.map_or(Ok(0), |value| value.trim().parse())?)
}

fn refused(http: &str, limit: &str, port: Port) -> anyhow::Result<u64> {
    let labels = format!("{{limit=\"{limit}\",protocol=\"{}\"}}", port.name());
    metric(http, &format!("mayfly_refused_by_limit_total{labels}"))
}

/// A client of one port, from an address of its own, that has proved who it is.
enum Connected {
    Amqp(Box<AmqpClient>, LinkId),
    Http(TcpStream),
    Grpc(Raw),
}

/// What was asked for, or what was told.
type Told<T> = Result<T, String>;

fn message() -> Bytes {
    let body = Body::Binary(Bytes::from_static(b"hello"));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

fn to_q(bytes: usize) -> v1::SendRequest {
    let message = v1::Message { body: vec![b'x'; bytes].into(), ..Default::default() };
    v1::SendRequest { queue: "q".into(), messages: vec![message], origin: None }
}

impl Connected {
    async fn new(node: &Cluster, port: Port, own: IpAddr) -> anyhow::Result<Told<Connected>> {
        let [grpc, http, _] = node.addresses(1);
        let mut connected = match port {
            Amqp => {
                let stream = wire::tcp_from(own, node.amqp_address(1))?;
                let login = Mechanism::plain(port.name(), &port.key());
                let mut client = match AmqpClient::over(stream, login).await {
                    Ok(client) => client,
                    Err(error) => return Ok(Err(format!("{error:#}"))),
                };
                return Ok(match client.sender("q").await {
                    Ok(Ok(sender)) => Ok(Connected::Amqp(Box::new(client), sender)),
                    Ok(Err(error)) => Err(format!("{error:?}")),
                    Err(error) => Err(error.to_string()),
                });
            }
            Http => Connected::Http(wire::tcp_from(own, http)?),
            Grpc => Connected::Grpc(Raw::from(own, grpc, port.authorization())?),
        };
        Ok(connected.send().await?.map(|()| connected))
    }

    async fn send(&mut self) -> anyhow::Result<Told<()>> {
        Ok(match self {
            Connected::Amqp(client, sender) => match client.send(*sender, 0, message()).await? {
                DeliveryState::ACCEPTED => Ok(()),
                refused => Err(format!("{refused:?}")),
            },
            Connected::Http(stream) => {
                let headers = format!("Authorization: {}\r\n", Http.authorization());
                asked(stream, "POST /q/messages", &headers, "hello")?
            }
            Connected::Grpc(raw) => match raw.send(to_q(5)).await {
                Ok(_) => Ok(()),
                Err(status) => Err(format!("{:?} {}", status.code(), status.message())),
            },
        })
    }
}

/// A request on a connection that stays open.
fn asked(
    stream: &mut TcpStream,
    request: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<Told<()>> {
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes())?;
    let (mut heard, until) = (Vec::new(), Instant::now() + WITHIN);
    loop {
        ensure!(Instant::now() < until, "no answer to {request}");
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(0) => anyhow::bail!("hung up on after {request}"),
            Ok(count) => heard.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        }
        let text = String::from_utf8_lossy(&heard);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(Ok(0), str::parse)? {
            let status: u16 = head.split(' ').nth(1).context("no status")?.parse()?;
            let told = format!("{status} {head}\n{body}");
            return Ok(if status < 300 { Ok(()) } else { Err(told) });
        }
    }
}

/// What somebody is told who goes over a limit on a port; each attempt is from addresses of its own.
async fn told(
    cluster: &Cluster,
    attempt: Attempt,
    port: Port,
    number: u8,
) -> anyhow::Result<String> {
    let own = |last: u8| IpAddr::from(Ipv4Addr::new(127, 0, 1 + number, last));
    let connect = async |last| Connected::new(cluster, port, own(last)).await;
    let within = |told: Told<Connected>| told.map_err(|told| anyhow::anyhow!("{told}"));
    let over = |told: Told<Connected>| told.err().context("it has a place");
    match attempt {
        Attempt::Connect => {
            let _first = within(connect(1).await?)?;
            over(connect(1).await?)
        }
        Attempt::ConnectElsewhere => {
            let _first = within(connect(1).await?)?;
            over(connect(2).await?)
        }
        Attempt::Links => {
            let Connected::Amqp(mut client, _) = within(connect(1).await?)? else {
                anyhow::bail!("only AMQP has links")
            };
            client.receiver("q").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
            let third = Attach::sender(&client.link_name(), "q");
            client.ask(third).await?;
            let is_end = |event: &Event| matches!(event, Event::Ended { .. });
            let ended = client.wait(is_end, "the end of the session").await?;
            Ok(format!("{ended:?}"))
        }
        Attempt::Sessions => {
            let Connected::Amqp(mut client, _) = within(connect(1).await?)? else {
                anyhow::bail!("only AMQP has sessions")
            };
            client.begin_another().await?;
            Ok(client.begin_another().await.err().context("a third session")?.to_string())
        }
        Attempt::Send => {
            let mut client = within(connect(1).await?)?;
            for _ in 0..TRIES_MAX {
                if let Err(told) = client.send().await? {
                    return Ok(told);
                }
            }
            anyhow::bail!("{TRIES_MAX} messages")
        }
        Attempt::Create => created_too_many(cluster, within(connect(1).await?)?, port).await,
    }
}

async fn created_too_many(
    cluster: &Cluster,
    client: Connected,
    port: Port,
) -> anyhow::Result<String> {
    match client {
        Connected::Amqp(mut client, _) => {
            for _ in 0..TRIES_MAX {
                let source = Source { dynamic: true, ..Source::default() };
                let name = client.link_name();
                let attach = Attach { source: Some(source), ..Attach::receiver(&name, "") };
                if let Err(error) = client.attach(attach).await? {
                    return Ok(format!("{error:?}"));
                }
            }
        }
        Connected::Http(mut stream) => {
            let headers = format!("Authorization: {}\r\n", port.authorization());
            for number in 0..TRIES_MAX {
                let request = format!("PUT /http-{number}");
                if let Err(told) = asked(&mut stream, &request, &headers, QUEUE)? {
                    return Ok(told);
                }
            }
        }
        Connected::Grpc(_) => {
            let options = ClientOptions {
                secret: Some(port.key()),
                key_name: Some(port.name().to_owned()),
                give_up_after: Duration::from_millis(500),
                ..ClientOptions::default()
            };
            let client = Client::with_options([cluster.addresses(1)[0]], options)?;
            for number in 0..TRIES_MAX {
                let name = format!("grpc-{number}");
                if let Err(error) = client.create_queue(&name, Default::default()).await {
                    let client::Error::NotDone(detail) = &error else { anyhow::bail!("{error:?}") };
                    ensure!(detail.name == "ServiceBusy" && detail.rule == "ERR-11", "{detail:?}");
                    return Ok(format!("{:?} {}", detail.code, detail.message));
                }
            }
        }
    }
    anyhow::bail!("{TRIES_MAX} entities")
}

/// QUOTA-8, QUOTA-13, ERR-11: each row is reached, told as its port does, and counted once at least; then
/// its client is served again.
#[tokio::test(flavor = "multi_thread")]
async fn quota_39_err_11_http_28_every_limit_on_every_port() -> anyhow::Result<()> {
    let mut node = Node::start().await?;
    for (number, (limit, max, attempt, port, says)) in (0..).zip(TABLE) {
        let what = format!("{limit} = {max}, {port:?}");
        // The row before may have set it to the same.
        if number == 0 || TABLE[usize::from(number) - 1].0 != *limit {
            node.limit(limit, *max).await.with_context(|| what.clone())?;
        }
        let before = refused(node.http(), limit, *port)?;
        let told = told(&node.cluster, *attempt, *port, number).await;
        let told = told.with_context(|| what.clone())?;
        println!("{what}: {told}");
        for part in *says {
            ensure!(told.contains(part), "{what}: no '{part}' in {told}");
        }
        let setting = format!("(limits.{limit})");
        let is_named =
            told.contains(&setting) || matches!(attempt, Attempt::Links | Attempt::Sessions);
        ensure!(is_named, "{what}: no '{setting}' in {told}");
        ensure!(refused(node.http(), limit, *port)? > before, "{what}: it is not counted");
    }
    node.limit("connections_per_address", 0).await?;
    for (last, port) in [(1, Amqp), (2, Http), (3, Grpc)] {
        let own = IpAddr::from(Ipv4Addr::new(127, 0, 100, last));
        let connected = Connected::new(&node.cluster, port, own).await?;
        let mut connected = connected.map_err(|told| anyhow::anyhow!("{port:?}: {told}"))?;
        let open = format!("mayfly_connections{{protocol=\"{}\"}}", port.name());
        ensure!(metric(node.http(), &open)? >= 1, "{port:?}: a connection is not counted");
        if port == Amqp {
            ensure!(metric(node.http(), "mayfly_amqp_links")? == 1, "links");
            ensure!(metric(node.http(), "mayfly_amqp_sessions")? == 1, "sessions");
        }
        // Ten times what was too much.
        for _ in 0..30 {
            let sent = connected.send().await?;
            ensure!(sent.is_ok(), "{port:?}: {sent:?}");
        }
    }
    Ok(())
}

/// QUOTA-13: connections in all, with the same metric.
#[tokio::test(flavor = "multi_thread")]
async fn quota_13_connections_in_all_are_counted_by_protocol() -> anyhow::Result<()> {
    let config =
        "[amqp]\nconnections_max = 1\n[http]\nconnections_max = 1\n[grpc]\nconnections_max = 1\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let http = cluster.addresses(1)[1];
    for (port, says) in [
        (Amqp, &["amqp:resource-limit-exceeded", "as many connections as it may, 1"]),
        (Http, &["503", "as many connections as it may, 1"]),
        (Grpc, &["ResourceExhausted", "as many connections as it may, 1"]),
    ] {
        // Whoever was there before has gone, or goes at once.
        let until = Instant::now() + WITHIN;
        let first = loop {
            match Connected::new(&cluster, port, IpAddr::from(Ipv4Addr::LOCALHOST)).await? {
                Ok(first) => break first,
                Err(told) => ensure!(Instant::now() < until, "{port:?}: {told}"),
            }
        };
        let before = refused(http, "connections", port)?;
        let elsewhere = IpAddr::from(Ipv4Addr::new(127, 0, 0, 2));
        let told = Connected::new(&cluster, port, elsewhere).await?;
        let told = told.err().with_context(|| format!("{port:?}: a second"))?;
        for part in says {
            ensure!(told.contains(part), "{port:?}: no '{part}' in {told}");
        }
        ensure!(refused(http, "connections", port)? > before, "{port:?}: it is not counted");
        drop(first);
    }
    Ok(())
}

/// Half a message of one connection is in flight, and all that a key may have: where no key is asked for, all
/// clients have one. Once it has gone, others are served.
#[tokio::test(flavor = "multi_thread")]
async fn quota_39_bytes_in_flight_of_a_key() -> anyhow::Result<()> {
    const LIMIT: &str = "kibibytes_in_flight_per_key";
    let config = "[limits]\nkibibytes_in_flight_per_key = 4\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let http = cluster.addresses(1)[1];
    let mut clients = Vec::new();
    for (port, says) in [(Amqp, BUSY), (Http, THROTTLED), (Grpc, EXHAUSTED)] {
        let own = IpAddr::from(Ipv4Addr::LOCALHOST);
        let connected = Connected::new(&cluster, port, own).await?;
        clients.push((port, says, connected.map_err(|told| anyhow::anyhow!("{told}"))?));
    }
    let mut half = RawAmqp::open(cluster.amqp_address(1))?;
    half.attach(0, "q", Role::Sender)?;
    let transfer = Transfer {
        handle: 0,
        delivery_id: Some(0),
        delivery_tag: Tag::new(b"1"),
        message_format: Some(0),
        more: true,
        ..Transfer::default()
    };
    half.frame(&transfer, &[b'x'; 5_000])?;
    ensure!(half.is_served()?, "it is read");
    for (port, says, client) in &mut clients {
        let before = refused(http, LIMIT, *port)?;
        let told = client.send().await?.err().with_context(|| format!("{port:?} is served"))?;
        println!("{port:?}: {told}");
        for part in *says {
            ensure!(told.contains(part), "{port:?}: no '{part}' in {told}");
        }
        ensure!(refused(http, LIMIT, *port)? > before, "{port:?}: it is not counted");
    }
    let in_flight = "mayfly_in_flight_bytes{protocol=\"amqp\"}";
    ensure!(metric(http, in_flight)? >= 5_000, "{}", metric(http, in_flight)?);
    drop(half);
    let until = Instant::now() + WITHIN;
    for (port, _, client) in &mut clients {
        while let Err(told) = client.send().await? {
            ensure!(Instant::now() < until, "{port:?}: {told}");
        }
    }
    // The last answer may be written before what it was for is counted as done.
    while metric(http, in_flight)? > 0 {
        ensure!(Instant::now() < until, "{} bytes stay", metric(http, in_flight)?);
    }
    Ok(())
}

/// Calls side by side on one connection: what comes second is too much, and may come again.
#[tokio::test(flavor = "multi_thread")]
async fn quota_39_bytes_in_flight_of_a_connection() -> anyhow::Result<()> {
    const LIMIT: &str = "kibibytes_in_flight_per_connection";
    let dir = tempfile::tempdir()?;
    let slow = dir.path().join("delay");
    // So that what is sent is under way for long enough.
    std::fs::write(&slow, "300ms")?;
    let slow: &'static str = slow.to_str().context("a path")?.to_owned().leak();
    let flags: &'static [&'static str] = vec!["--sync-delay-file", slow].leak();
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        development: true,
        config: "[limits]\nkibibytes_in_flight_per_connection = 4\n",
        odd: Some((1, flags)),
        ..Settings::default()
    };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let [grpc, http, _] = cluster.addresses(1);
    let raw = Raw::to(grpc)?;
    // It is connected, and what comes first is taken, however much it is.
    raw.clone().send(to_q(10_000)).await?;
    let before = refused(http, LIMIT, Grpc)?;
    let (mut one, mut other) = (raw.clone(), raw.clone());
    let (one, other) = tokio::join!(one.send(to_q(3_000)), other.send(to_q(3_000)));
    let told = match (one, other) {
        (Ok(_), Err(told)) | (Err(told), Ok(_)) => told,
        both => anyhow::bail!("{both:?}"),
    };
    let told = format!("{:?} {}", told.code(), told.message());
    for part in EXHAUSTED {
        ensure!(told.contains(part), "no '{part}' in {told}");
    }
    ensure!(refused(http, LIMIT, Grpc)? > before, "it is not counted");
    raw.clone().send(to_q(3_000)).await?;
    Ok(())
}
