//! What goes wrong is told in one line that names what and what to do; nothing is lost, nobody else
//! is disturbed, nothing panics.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use client::{Error, Message};
use mayfly_tests::{Cluster, Settings, free_ports, mayfly};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use tokio::task::spawn_blocking;

/// A run that has not ended by then does not end: a node that was to be refused serves.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Runs the binary to its end.
fn run(args: &[&str]) -> anyhow::Result<Output> {
    let child = Command::new(mayfly()?)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    let (ended, output) = mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    match output.recv_timeout(ENDS_WITHIN) {
        Ok(output) => Ok(output?),
        Err(_) => {
            kill(pid, Signal::SIGKILL)?;
            bail!("{args:?} did not end; it said {:?}", output.recv()??);
        }
    }
}

/// The one line it must leave on standard error, and its exit code.
fn complaint(args: &[&str]) -> anyhow::Result<(String, i32)> {
    let output = run(args)?;
    let text = String::from_utf8(output.stderr)?;
    ensure!(!output.status.success(), "{args:?} succeeded");
    ensure!(!text.contains("panicked"), "{args:?} panicked: {text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("mayfly: ")).collect();
    ensure!(lines.len() == 1, "{args:?} said {text}");
    Ok((lines[0].to_owned(), output.status.code().unwrap_or(-1)))
}

fn serve_flags(dir: &str, ports: &[u16]) -> Vec<String> {
    let address = |port: u16| format!("127.0.0.1:{port}");
    let (grpc, http, peer) = (address(ports[0]), address(ports[1]), address(ports[2]));
    ["serve", "--data-dir", dir, "--grpc", &grpc, "--http", &http, "--peer", &peer, "--amqp", "off"]
        .map(str::to_owned)
        .into()
}

#[test]
fn a_port_in_use_is_named() -> anyhow::Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port();
    for place in 0..3 {
        let dir = tempfile::tempdir()?;
        let mut ports = free_ports(3)?;
        ports[place] = port;
        let flags = serve_flags(&dir.path().to_string_lossy(), &ports);
        let (line, code) = complaint(&flags.iter().map(String::as_str).collect::<Vec<_>>())?;
        ensure!(line.contains(&format!("127.0.0.1:{port}")) && line.contains("in use"), "{line}");
        ensure!(code == 1, "exit code {code}");
    }
    Ok(())
}

#[test]
fn a_wrong_configuration_is_told_with_file_and_line() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("mayfly.toml");
    for (text, part) in [
        ("[node]\nid = 1\ndatadir = \"x\"\n", "mayfly.toml:3"),
        ("[node]\nid = ", "mayfly.toml:2"),
        ("[listen]\ngrpc = \"not an address\"\n", "grpc"),
        ("\u{0}\u{1}\u{2}", "mayfly.toml:1"),
    ] {
        fs::write(&path, text)?;
        let (line, code) = complaint(&["serve", "--config", &path.to_string_lossy()])?;
        ensure!(line.contains(part), "{line}");
        ensure!(code == 2, "exit code {code}: {line}");
    }
    let (line, _) = complaint(&["serve", "--config", "/does/not/exist.toml"])?;
    ensure!(line.contains("/does/not/exist.toml"), "{line}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_another_cluster_or_a_newer_version_is_refused() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let config = cluster.config_path(1).to_owned();
    let data = config.with_file_name("data");

    let path = config.to_string_lossy().into_owned();
    let (line, _) = complaint(&["serve", "--config", &path])?;
    ensure!(line.contains("in use"), "a second process on the same data: {line}");

    cluster.stop(1)?;
    let ours = fs::read_to_string(&config)?;
    let id = ours.lines().find(|line| line.starts_with("id = \"")).context("a cluster id")?;
    fs::write(&config, ours.replace(id, "id = \"000000000000000000000000000000ff\""))?;
    let (line, _) = complaint(&["serve", "--config", &path])?;
    ensure!(line.contains("belongs to") && line.contains("data directory"), "{line}");
    fs::write(&config, &ours)?;

    let marker = data.join("mayfly-data");
    let format = fs::read_to_string(&marker)?;
    fs::write(&marker, format.replace("format = ", "format = 9"))?;
    let (line, _) = complaint(&["serve", "--config", &path])?;
    ensure!(line.contains("newer version"), "{line}");
    fs::write(&marker, format)?;

    cluster.start_node(1)?;
    cluster.wait_ready().await?;
    Ok(())
}

/// Sends bytes to a port and reads what comes back until the other side hangs up or falls silent.
fn shout(address: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    // It may hang up at any moment; that is an answer too.
    let _ = stream.write_all(bytes);
    let mut answer = [0; 1024];
    while let Ok(1..) = stream.read(&mut answer) {}
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_any_port_disturbs_nobody() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("calm", Default::default()).await?;
    let mut random = vec![0; 64 * 1024];
    rand::rng().fill(&mut random[..]);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let shouts: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"AMQP\x00\x01\x00\x00",
        &random,
        &[preface.as_slice(), &random].concat(),
        &[preface.as_slice(), &[0xff, 0xff, 0xff, 1, 4, 0, 0, 0, 1]].concat(),
    ];
    for address in cluster.addresses(1) {
        for bytes in shouts {
            shout(address, bytes)?;
            client.send("calm", vec![Message::new("still here")]).await?;
        }
    }
    let log = cluster.node_log(1);
    ensure!(!log.contains("panicked"), "{log}");
    Ok(())
}

/// HTTP/2 bounds what a peer may open and give up at once (CVE-2023-44487). An honest client of thousands
/// of queues stays below that bound, and so does a node that stood still, which gives up all that it had under
/// way, or of which others do; beyond it only the connection ends.
#[tokio::test(flavor = "multi_thread")]
async fn streams_given_up_at_once_end_no_honest_connection() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("calm", Default::default()).await?;
    let [grpc, _, peer] = cluster.addresses(1);
    for (address, streams, lives) in
        [(grpc, 1_000, true), (grpc, 50_000, false), (peer, 1_000, true), (peer, 50_000, false)]
    {
        let to = address.to_owned();
        let answered = spawn_blocking(move || give_up(&to, streams)).await??;
        ensure!(answered == lives, "after {streams} streams to {address}: answered {answered}");
        client.send("calm", vec![Message::new("still here")]).await?;
    }
    let log = cluster.node_log(1);
    ensure!(!log.contains("panicked"), "{log}");
    Ok(())
}

/// Opens so many streams and resets each at once, all in one go; whether a ping after them is
/// answered (RFC 9113, section 4.1 and 6).
fn give_up(address: &str, streams: u32) -> anyhow::Result<bool> {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const END_HEADERS: u8 = 4;
    let frame = |kind, flags, stream: u32, payload: &[u8]| {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    };
    // RFC 7541, appendix A: POST, http, and the path "/".
    let post = [0x83, 0x86, 0x84];
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    for stream in (1..).step_by(2).take(streams as usize) {
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &post));
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    bytes.extend(frame(PING, 0, 0, b"answered"));
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(ENDS_WITHIN))?;
    // The node may hang up while there is still something to write.
    let written = connection.write_all(&bytes);
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = connection.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
        if seen.windows(8).any(|window| window == b"answered") {
            return Ok(true);
        }
    }
    ensure!(written.is_err() || !seen.is_empty(), "the node said nothing");
    Ok(false)
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_name_rule_entity_and_tracking_id() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("here", Default::default()).await?;
    let refused = |result: Result<(), Error>, name: &str, rule: &str, entity: &str| {
        let Err(Error::Refused(detail)) = result else {
            anyhow::bail!("expected {name}, got {result:?}");
        };
        ensure!(detail.name == name && detail.rule == rule, "{detail:?}");
        ensure!(detail.entity == entity, "{detail:?}");
        ensure!(!detail.tracking_id.is_empty(), "{detail:?}");
        ensure!(!detail.message.is_empty() && !detail.message.contains('\n'), "{detail:?}");
        Ok(())
    };
    let send =
        async |queue: &str, message: Message| client.send(queue, vec![message]).await.map(drop);

    let result = send("nowhere", Message::new("x")).await;
    refused(result, "MessagingEntityNotFound", "ERR-1", "nowhere")?;
    let result = client.create_queue("HERE", Default::default()).await.map(drop);
    refused(result, "MessagingEntityAlreadyExists", "ERR-2", "here")?; // ENT-1.
    let result = send("here", Message::new(vec![0; 300 * 1024])).await;
    refused(result, "MessageSizeExceeded", "ERR-9", "here")?;
    let result = send("here", Message::new("x").message_id("i".repeat(129))).await;
    refused(result, "ArgumentException", "ERR-12", "here")?;
    let big = client::value::string("v".repeat(40 * 1024));
    let result = send("here", Message::new("x").property("p", big)).await;
    refused(result, "SerializationException", "ERR-14", "here")?;
    let long_lock =
        client::v1::QueueProperties { lock_duration_ms: Some(301_000), ..Default::default() };
    let result = client.create_queue("slow", long_lock).await.map(drop);
    refused(result, "ArgumentOutOfRangeException", "ERR-13", "slow")?;
    let result =
        client.renew(&client::QueuePath::main("here"), vec![vec![7; 16].into()]).await.map(drop);
    refused(result, "MessageLockLost", "ERR-4", "here")?;
    Ok(())
}
