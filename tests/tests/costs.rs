//! What one client may cost a node, measured: the memory of the process before, and at most after, while
//! a client does what costs most. Each row of a table is one way; what it sent and what was kept of it
//! are printed (CONN-25, CONN-26, QUOTA-38).

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use amqp_protocol::codec::{Attach, Begin, Flow, Map, Role, Symbols, Tag, Transfer, Value};
use amqp_protocol::request::request;
use anyhow::{Context, ensure};
use client::Message;
use mayfly_tests::{Cluster, RawAmqp, Settings, framed};

const SECRET: &str = "a-secret-of-the-tests";
/// Connections of strangers at a time.
const STRANGERS: usize = 32;
/// Of one that has proved nothing (CONN-25).
const KEPT_BYTES_MAX: u64 = 64 * 1024;
/// What comes and goes beside: frames while they are looked at, and what the allocator keeps of them.
const NOISE_BYTES: u64 = 24 << 20;
const SETTLED_AFTER: Duration = Duration::from_millis(300);

fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(number.parse::<u64>()? * 1024)
}

/// Writes as long as it is taken; how many bytes were.
fn pour(raw: &mut RawAmqp, frames: impl IntoIterator<Item = Vec<u8>>) -> anyhow::Result<u64> {
    let mut sent = 0;
    for frame in frames {
        if !raw.say(&frame)? {
            break;
        }
        sent += frame.len() as u64;
    }
    Ok(sent)
}

fn attach_to(handle: u32, name: &str, address: &str) -> Attach {
    Attach { handle, ..Attach::receiver(name, address) }
}

fn with_properties(handle: u32, address: &str, value: Value) -> Vec<u8> {
    let name = format!("link-{handle}");
    let properties = Some(Map::default().symbol("p", value));
    framed(&Attach { properties, ..attach_to(handle, &name, address) }, &[]).to_vec()
}

/// What a stranger sends, and how much of it was taken.
type Attempt = fn(&mut RawAmqp) -> anyhow::Result<u64>;

fn large_attaches(raw: &mut RawAmqp) -> anyhow::Result<u64> {
    let text = "x".repeat(240_000);
    let value = |_| Value::from(text.as_str());
    pour(raw, (0..40).map(|handle| with_properties(handle, "$cbs", value(handle))))
}

fn attaches_to_management(raw: &mut RawAmqp) -> anyhow::Result<u64> {
    let text = "x".repeat(9_000);
    let value = |_| Value::from(text.as_str());
    pour(raw, (0..100).map(|handle| with_properties(handle, "q/$management", value(handle))))
}

fn long_names(raw: &mut RawAmqp) -> anyhow::Result<u64> {
    let name = |handle| format!("{handle}-{}", "n".repeat(9_000));
    pour(
        raw,
        (0..100).map(|handle| framed(&attach_to(handle, &name(handle), "$cbs"), &[]).to_vec()),
    )
}

fn lists_of_nulls(raw: &mut RawAmqp) -> anyhow::Result<u64> {
    let nulls = Value::List(vec![Value::Null; 8_000]);
    pour(raw, (0..100).map(|handle| with_properties(handle, "$cbs", nulls.clone())))
}

fn sessions(raw: &mut RawAmqp) -> anyhow::Result<u64> {
    let begin = |channel: u16| {
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 5_000,
            outgoing_window: 5_000,
            handle_max: 1_000,
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: None,
        };
        let mut frame = framed(&begin, &[]).to_vec();
        frame[6..8].copy_from_slice(&channel.to_be_bytes());
        frame
    };
    pour(raw, (1..4_000).map(begin))
}

/// A message to `$cbs` that never ends.
fn half_a_message(raw: &mut RawAmqp) -> anyhow::Result<u64> {
    raw.attach(0, "$cbs", Role::Sender)?;
    let transfer = Transfer {
        handle: 0,
        delivery_id: Some(0),
        delivery_tag: Tag::new(b"1"),
        message_format: Some(0),
        more: true,
        ..Transfer::default()
    };
    pour(raw, (0..1_000).map(|_| framed(&transfer, &[b'x'; 1_000]).to_vec()))
}

/// Of a delivery on the link 0 that its client settles itself.
fn presettled(id: u32) -> Transfer {
    Transfer {
        handle: 0,
        delivery_id: Some(id),
        delivery_tag: Tag::new(&id.to_be_bytes()),
        message_format: Some(0),
        settled: Some(true),
        ..Transfer::default()
    }
}

/// Requests to `$cbs` whose replies nobody takes, each with an id that comes back.
fn replies_without_credit(raw: &mut RawAmqp) -> anyhow::Result<u64> {
    raw.attach(0, "$cbs", Role::Sender)?;
    raw.attach(1, "$cbs", Role::Receiver)?;
    let id = "i".repeat(8_000);
    let body = request(Value::from(id.as_str()), None, &Map::default(), &Value::Null);
    pour(raw, (0..50).map(|id| framed(&presettled(id), &body).to_vec()))
}

/// Asks for signs of life and reads none.
fn answers_unread(raw: &mut RawAmqp) -> anyhow::Result<u64> {
    let echo = Flow {
        next_incoming_id: Some(0),
        incoming_window: 5_000,
        outgoing_window: 5_000,
        echo: true,
        ..Flow::default()
    };
    pour(raw, (0..200).map(|_| framed(&echo, &[]).repeat(1_000)))
}

/// CONN-25, CONN-26: nothing that a stranger sends costs more than 64 KiB a connection.
#[tokio::test(flavor = "multi_thread")]
async fn conn_25_conn_26_before_proof_nothing_costs_much() -> anyhow::Result<()> {
    let settings =
        Settings { nodes: 1, data_groups: 1, secret: Some(SECRET), ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let (pid, address) = (cluster.pid(1).context("it runs")?, cluster.amqp_address(1));
    let table: [(&str, Attempt); 8] = [
        ("attaches of 240 KB", large_attaches),
        ("attaches to $management", attaches_to_management),
        ("names of 9 KB", long_names),
        ("lists of nulls", lists_of_nulls),
        ("sessions", sessions),
        ("half a message", half_a_message),
        ("replies without credit", replies_without_credit),
        ("answers unread", answers_unread),
    ];
    for (name, attempt) in table {
        let before = resident_bytes(pid)?;
        let (mut strangers, mut sent) = (Vec::new(), 0);
        for _ in 0..STRANGERS {
            let mut raw = RawAmqp::open(address)?;
            sent += attempt(&mut raw).with_context(|| name.to_owned())?;
            strangers.push(raw);
        }
        // What was taken is looked at within moments: there is nothing to wait for but that.
        std::thread::sleep(SETTLED_AFTER);
        let grown = resident_bytes(pid)?.saturating_sub(before);
        println!("{name}: {sent} bytes of {STRANGERS} strangers, {grown} bytes of memory");
        let most = STRANGERS as u64 * KEPT_BYTES_MAX + NOISE_BYTES;
        ensure!(grown <= most, "{name}: {grown} bytes of memory");
    }
    // And who has the key is served all the while.
    cluster.client()?.send("q", vec![Message::new("still here")]).await?;
    ensure!(!cluster.node_log(1).contains("panicked"));
    Ok(())
}

/// CONN-25: with more strangers than have places the one that has waited longest gives way, and who has
/// the key comes in.
#[tokio::test(flavor = "multi_thread")]
async fn conn_25_strangers_keep_nobody_out() -> anyhow::Result<()> {
    let config = "[amqp]\nunproved_connections_max = 4\n";
    let settings =
        Settings { nodes: 1, data_groups: 1, secret: Some(SECRET), config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let address = cluster.amqp_address(1);
    let mut strangers = Vec::new();
    for _ in 0..4 {
        strangers.push(RawAmqp::open(address)?);
    }
    let mut another = RawAmqp::open(address)?;
    let told = b"this one has waited longest";
    ensure!(strangers[0].hears(told, Duration::from_secs(10))?, "the first is told nothing");
    ensure!(strangers[0].is_hung_up_on(Duration::from_secs(10))?, "the first is kept");
    ensure!(another.is_served()? && strangers[1].is_served()?, "others pay for it");
    Ok(())
}

/// QUOTA-38: `unread_kibibytes` holds for replies too. Before, a hundred peeks of a megabyte each lay there.
#[tokio::test(flavor = "multi_thread")]
async fn quota_38_replies_that_nobody_reads_are_bounded() -> anyhow::Result<()> {
    const PEEKS: u32 = 200;
    const GROWTH_MAX: u64 = 40 << 20;
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let native = cluster.client()?;
    native.create_queue("q", Default::default()).await?;
    for _ in 0..8 {
        native.send("q", vec![Message::new(vec![b'x'; 100 * 1024]); 9]).await?;
    }
    let (pid, address) = (cluster.pid(1).context("it runs")?, cluster.amqp_address(1));
    let mut raw = RawAmqp::open(address)?;
    raw.attach(0, "q/$management", Role::Sender)?;
    raw.attach(1, "q/$management", Role::Receiver)?;
    let credit = Flow {
        next_incoming_id: Some(0),
        incoming_window: u32::MAX,
        outgoing_window: 5_000,
        handle: Some(1),
        delivery_count: Some(0),
        link_credit: Some(PEEKS),
        ..Flow::default()
    };
    raw.frame(&credit, &[])?;
    let before = resident_bytes(pid)?;
    let operation = Map::default().string("operation", "com.microsoft:peek-message".into());
    let body = Map::default()
        .string("from-sequence-number", Value::Long(0))
        .string("message-count", Value::Int(250));
    let (mut sent, mut most) = (0, 0);
    for id in 0..PEEKS {
        let (transfer, id) = (presettled(id), Value::Ulong(id.into()));
        let asked = request(id, None, &operation, &Value::Map(body.clone()));
        sent += pour(&mut raw, [framed(&transfer, &asked).to_vec()])?;
    }
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        most = most.max(resident_bytes(pid)?.saturating_sub(before));
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{sent} bytes of requests, {most} bytes of memory");
    ensure!(most < GROWTH_MAX, "{most} bytes of memory");
    native.send("q", vec![Message::new("still here")]).await?;
    Ok(())
}

/// A node by itself under a low `ulimit -n`, which it may not raise.
struct FewHandles {
    child: std::process::Child,
    http: String,
    grpc: String,
    ports: Vec<u16>,
    _dir: tempfile::TempDir,
}

impl FewHandles {
    fn start(handles: u64) -> anyhow::Result<FewHandles> {
        let dir = tempfile::tempdir()?;
        let ports = mayfly_tests::free_ports(4)?;
        let address = |at: usize| format!("127.0.0.1:{}", ports[at]);
        let (data, config) = (dir.path().join("data"), dir.path().join("mayfly.toml"));
        let text = format!(
            "[node]\ndata_dir = {data:?}\n[listen]\ngrpc = {:?}\nhttp = {:?}\npeer = {:?}\namqp = {:?}\n\
             [cluster]\ndata_groups = 2\n[storage]\ndisk_reserve_mebibytes = 16\nmemory_mebibytes = 64\n",
            address(0),
            address(1),
            address(2),
            address(3)
        );
        std::fs::write(&config, text)?;
        // Root may raise any limit, unless that is taken from it.
        let limit = format!("ulimit -n {handles} && exec \"$0\" serve --config \"$1\"");
        let child = std::process::Command::new("setpriv")
            .args(["--bounding-set=-sys_resource", "sh", "-c", &limit])
            .arg(mayfly_tests::mayfly()?)
            .arg(&config)
            .stderr(std::fs::File::create(dir.path().join("node.log"))?)
            .spawn()?;
        let (http, grpc) = (address(1), address(0));
        Ok(FewHandles { child, http, grpc, ports, _dir: dir })
    }

    fn ready_within(&mut self, within: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + within;
        let is_ready = |http: &str| {
            let answer = mayfly_tests::ask(http, "GET /health/ready", "", "");
            answer.is_ok_and(|answer| answer.status == 200)
        };
        while !is_ready(&self.http) {
            ensure!(self.child.try_wait()?.is_none(), "the node has ended");
            ensure!(Instant::now() < until, "it is not ready after {within:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for FewHandles {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// More sockets that say nothing than there are file handles, on every port: the node keeps those that it
/// needs itself, serves whoever was there, and takes clients again once the sockets are gone.
#[tokio::test(flavor = "multi_thread")]
async fn more_sockets_than_file_handles_stop_nothing() -> anyhow::Result<()> {
    const HANDLES: u64 = 400;
    const SOCKETS_OF_A_PORT: usize = 170;
    /// More than what is kept in memory of rows and log, so that files are begun.
    const PORTIONS: usize = 150;
    let mut node = FewHandles::start(HANDLES)?;
    node.ready_within(Duration::from_secs(30))?;
    let native = client::Client::connect([node.grpc.as_str()])?;
    native.create_queue("q", Default::default()).await?;
    native.send("q", vec![Message::new("first")]).await?;
    let mut sockets = Vec::new();
    // Whoever says nothing is let go soon, so each begins with what its port waits for the end of: gRPC,
    // HTTP, peers, AMQP.
    let preface = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"[..];
    let half = &b"GET /q HTTP/1.1\r\nHost: loc"[..];
    for (port, bytes) in node.ports.iter().zip([preface, half, preface, b"AMQP\x03\x01\x00\x00"]) {
        for _ in 0..SOCKETS_OF_A_PORT {
            // One that is refused is as good.
            if let Ok(mut socket) = std::net::TcpStream::connect(("127.0.0.1", *port)) {
                drop(socket.write_all(bytes));
                sockets.push(socket);
            }
        }
    }
    // Tables are written and log files begun, all of which takes handles.
    for number in 0..PORTIONS {
        native.create_queue(&format!("more-{number}"), Default::default()).await?;
        native.send("q", vec![Message::new(vec![b'x'; 200 * 1024]); 4]).await?;
    }
    ensure!(node.child.try_wait()?.is_none(), "the node has ended");
    let count = sockets.len();
    drop(sockets);
    let gone = Instant::now();
    node.ready_within(Duration::from_secs(15))?;
    println!(
        "{count} sockets, {HANDLES} handles: ready again {:.1?} after they went",
        gone.elapsed()
    );
    native.send("q", vec![Message::new("last")]).await?;
    Ok(())
}

/// HTTP-22 to HTTP-25: half-sent requests shut nobody out of the probes, and a page of elsewhere does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn http_22_http_23_http_24_http_25_half_requests_and_pages_of_elsewhere() -> anyhow::Result<()>
{
    const PLACES: usize = 4;
    const HALF: &[u8] = b"POST /q/messages HTTP/1.1\r\nHost: loc";
    let config = "[http]\nconnections_max = 4\n";
    let settings = Settings { nodes: 1, data_groups: 1, config, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let [_, http, _] = cluster.addresses(1);
    let foreign = "Origin: https://evil.example\r\n";
    for (request, headers, status) in [
        ("POST /q/messages", foreign, 403),
        ("DELETE /q/messages/head", foreign, 403),
        ("GET /$Resources/queues", foreign, 403),
        ("GET /$servicebus/websocket", foreign, 403),
        ("GET /metrics", foreign, 403),
        ("GET /health/live", foreign, 200),
        ("GET /$Resources/queues", "", 200),
        ("POST /q/messages", "", 201),
    ] {
        let answer = mayfly_tests::ask(http, request, headers, "")?;
        ensure!(answer.status == status, "{request} {headers}: {}", answer.status);
    }
    // HTTP-25, HTTP-23.
    for (framing, status) in [
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "201"),
        ("Content-Length: 3\r\n\r\na", "408"),
    ] {
        let mut stream = std::net::TcpStream::connect(http)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(stream, "POST /q/messages HTTP/1.1\r\nHost: localhost\r\n{framing}")?;
        let mut line = [0; 12];
        stream.read_exact(&mut line)?;
        ensure!(&line[9..] == status.as_bytes(), "{framing}: {}", String::from_utf8_lossy(&line));
    }
    // One that was answered has a place; the connections from before may have some for a moment still.
    let mut halves = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    while halves.len() < PLACES {
        ensure!(Instant::now() < deadline, "only {} of {PLACES} places", halves.len());
        let mut stream = std::net::TcpStream::connect(http)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(stream, "GET /q HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut line = [0; 12];
        stream.read_exact(&mut line)?;
        if &line[9..] == b"200" {
            stream.write_all(HALF)?;
            halves.push(stream);
        }
    }
    for _ in 0..100 {
        let mut half = std::net::TcpStream::connect(http)?;
        half.write_all(HALF)?;
        halves.push(half);
    }
    for (request, status) in
        [("GET /health", 200), ("GET /health/ready", 200), ("GET /metrics", 200), ("GET /q", 503)]
    {
        let answer = mayfly_tests::ask(http, request, "", "")?;
        ensure!(answer.status == status, "{request}: {}", answer.status);
    }
    Ok(())
}
