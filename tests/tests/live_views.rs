//! Commands that look on while a cluster works: tables again and again, a screen of figures, events as they come.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::{Client, Message, SenderOptions};
use mayfly_tests::{Cluster, Settings, drawn, mayfly};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::tcgetattr;
use nix::unistd::Pid;
use serde_json::Value;

const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
const LEAVE: &str = "\u{1b}[?1049l";
const SHOW: &str = "\u{1b}[?25h";
const WITHIN: Duration = Duration::from_secs(30);

async fn cluster(nodes: u64) -> anyhow::Result<Cluster> {
    let cluster = Cluster::start(Settings { nodes, ..Settings::default() }).await?;
    cluster.client()?.create_queue("orders", Default::default()).await?;
    Ok(cluster)
}

fn command(cluster: &Cluster, words: &[&str]) -> anyhow::Result<Command> {
    let connect: Vec<&str> = cluster.ids().map(|id| cluster.addresses(id)[0]).collect();
    let mut command = Command::new(mayfly()?);
    command.args(words).env("MAYFLY_CONNECT", connect.join(","));
    Ok(command)
}

fn interrupt(child: &Child) -> anyhow::Result<()> {
    Ok(kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT)?)
}

/// Sends one message every few milliseconds until it is dropped.
struct Traffic(tokio::task::JoinHandle<()>);

impl Traffic {
    fn start(client: &Client) -> Traffic {
        let sender = client.sender("orders", SenderOptions::default());
        Traffic(tokio::spawn(async move {
            while sender.send(Message::new("hello")).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }))
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Into a pipe go tables, each with its time; rates come with the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_shown_again_and_again_with_rates() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    let _traffic = Traffic::start(&cluster.client()?);
    let mut command = command(&cluster, &["queue", "list", "--watch", "1"])?;
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
    let (mut times, mut rates) = (0, Vec::new());
    for line in lines {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [time] if time.ends_with('Z') => times += 1,
            ["NAME", "IN/S", "OUT/S", ..] | [] => {}
            ["orders", rate, went, "active", ..] => {
                let rate: f64 = rate.parse().with_context(|| line.clone())?;
                ensure!(*went == "0.0", "nobody receives: {line}");
                rates.push(rate);
            }
            // Without rates at first.
            ["orders", "active", ..] => {}
            _ => anyhow::bail!("unexpected: {line}"),
        }
        if rates.len() == 3 {
            break;
        }
    }
    ensure!(times == 4, "{times} times for {rates:?}");
    ensure!(rates.iter().any(|rate| *rate > 1.0), "{rates:?}");
    interrupt(&child)?;
    let done = child.wait()?;
    ensure!(done.success(), "{done}");
    Ok(())
}

/// On a terminal of 80 columns and 24 lines: figures, a node that is away is shown as such while the rest goes on,
/// and `q` gives the terminal back.
#[tokio::test(flavor = "multi_thread")]
async fn top_draws_nodes_and_rates_and_gives_the_terminal_back() -> anyhow::Result<()> {
    let mut cluster = cluster(3).await?;
    let _traffic = Traffic::start(&cluster.client_of(1)?);
    let pty = openpty(Some(&SIZE), None)?;
    let before = tcgetattr(&pty.slave)?;
    let slave = || pty.slave.try_clone().map(Stdio::from);
    let mut command = command(&cluster, &["top"])?;
    command.env("TERM", "xterm-256color");
    let mut running = command.stdin(slave()?).stdout(slave()?).stderr(slave()?).spawn()?;
    drop(command);
    let mut keys = File::from(pty.master.try_clone()?);
    let pieces = drawn::read(pty.master);
    let mut all = String::new();
    let mut wait = |texts: &[&str]| {
        let began = Instant::now();
        while !texts.iter().all(|text| drawn::is_seen(&all, text)) {
            ensure!(began.elapsed() < WITHIN, "no {texts:?} in {}", drawn::plain(&all));
            all += &pieces.recv_timeout(WITHIN).context("nothing is drawn")?;
        }
        Ok(std::mem::take(&mut all))
    };
    wait(&["cluster ", "nothing is wrong", "active", "connections", "orders", "in/s", "q end"])?;
    cluster.kill(3)?;
    wait(&["not reachable"])?;
    // The queue goes on, and so does the view.
    keys.write_all(b"s")?;
    wait(&["out/s▼"])?;
    keys.write_all(b"q")?;
    let began = Instant::now();
    let done = loop {
        match running.try_wait()? {
            Some(done) => break done,
            None => ensure!(began.elapsed() < WITHIN, "it does not end"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    ensure!(done.success(), "{done}");
    ensure!(tcgetattr(&pty.slave)? == before, "the terminal is set as it was");
    drop((pty.slave, keys));
    let rest: String = pieces.iter().collect();
    ensure!(rest.contains(LEAVE) && rest.contains(SHOW), "{rest:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_top_names_what_prints() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    let done = command(&cluster, &["top"])?.stdin(Stdio::null()).output()?;
    let told = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.code() == Some(2), "{}", done.status);
    ensure!(told.contains("queue list --watch") && told.contains("cluster status"), "{told}");
    ensure!(done.stdout.is_empty());
    Ok(())
}

/// What was asked of any node, what nodes do by themselves, and that one goes away: each once, in one stream.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_all_nodes_are_told_once_and_followed() -> anyhow::Result<()> {
    let mut cluster = cluster(3).await?;
    let mut command =
        command(&cluster, &["cluster", "events", "--since", "1h", "--follow", "--json"])?;
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let stdout = child.stdout.take().context("a pipe")?;
    let (told, events) = std::sync::mpsc::sync_channel::<Value>(10_000);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Ok(event) = serde_json::from_str(&line) else { return };
            if told.send(event).is_err() {
                return;
            }
        }
    });
    let mut all: Vec<Value> = Vec::new();
    let mut wait = |kind: &str, about: &str| {
        let is_it = |event: &Value| event["kind"] == kind && event["about"] == about;
        let began = Instant::now();
        while !all.iter().any(is_it) {
            ensure!(began.elapsed() < WITHIN, "no {kind} of {about} in {all:#?}");
            if let Ok(event) = events.recv_timeout(Duration::from_millis(100)) {
                all.push(event);
            }
        }
        Ok(())
    };
    // Before it was asked, and while it is.
    for node in 1..=3 {
        wait("node.start", &format!("node {node}"))?;
    }
    wait("entity.create", "orders")?;
    wait("leader.change", "the catalog")?;
    cluster.client_of(2)?.create_topic("news", Default::default()).await?;
    wait("entity.create", "news")?;
    cluster.client_of(3)?.delete_topic("news").await?;
    wait("entity.delete", "news")?;
    cluster.kill(3)?;
    wait("node.away", "node 3")?;
    cluster.start_node(3)?;
    wait("node.back", "node 3")?;
    interrupt(&child)?;
    let done = child.wait()?;
    ensure!(done.success(), "{done}");
    all.extend(events.iter());
    for (kind, about) in [
        ("entity.create", "orders"),
        ("entity.create", "news"),
        ("entity.delete", "news"),
        ("node.away", "node 3"),
        ("node.back", "node 3"),
    ] {
        let is_it = |event: &&Value| event["kind"] == kind && event["about"] == about;
        ensure!(all.iter().filter(is_it).count() == 1, "{kind} of {about} in {all:#?}");
    }
    // The log has the same words.
    let created = all.iter().find(|event| event["about"] == "news").context("it was seen")?;
    let text = created["text"].as_str().context("a text")?;
    let node = created["node"].as_u64().context("a node")?;
    ensure!(cluster.node_log(node).contains(text), "no line '{text}' in the log of node {node}");
    Ok(())
}
