//! Wrong clocks, on real processes: they expire nothing early and nothing late, and lead nothing;
//! and the clock that an operator moves.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use client::v1::{NodeStatus, QueueProperties, StatusResponse};
use client::{Client, Error, Message, QueuePath};
use mayfly_tests::{Cluster, Settings, mayfly};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const YEAR_MS: i64 = 31_557_600_000;
/// `clock.offset_max`: how early anything may expire, and how much later than by a timer's lateness.
const OFFSET_MAX: Duration = Duration::from_millis(500);
/// TTL-22, and the machine may be busy.
const LATENESS_MAX: Duration = Duration::from_secs(5);

/// How soon a node with a wrong clock has handed its leaderships over.
const LEAVES_WITHIN: Duration = Duration::from_secs(20);

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

fn node(status: &StatusResponse, id: u64) -> &NodeStatus {
    status.nodes.iter().find(|node| node.id == id).expect("every node is listed")
}

/// Waits until every group is led by a node whose clock agrees.
async fn leads_nothing(cluster: &Cluster, wrong: u64) -> anyhow::Result<()> {
    let begun = Instant::now();
    cluster
        .wait_for_status("the wrong clock to lead nothing", |status| {
            let led = |group: &client::v1::GroupStatus| group.leader != 0 && group.leader != wrong;
            status.groups.len() == 3 && status.groups.iter().all(led)
        })
        .await?;
    println!("node {wrong} leads nothing after {:?}", begun.elapsed());
    ensure!(begun.elapsed() < LEAVES_WITHIN, "it took {:?}", begun.elapsed());
    Ok(())
}

/// Messages sent through one node live as long as they should, to the tolerance.
async fn lives(client: &Client, queue: &str) -> anyhow::Result<()> {
    const TTL: Duration = Duration::from_secs(2);
    const COUNT: u64 = 20;
    let before = client.get_queue(queue).await?.counters.context("counters")?.dead_lettered;
    let (sent_ms, sent) = (now_ms(), Instant::now());
    let messages = (0..COUNT).map(|_| Message::new("x").ttl(TTL)).collect();
    client.send(queue, messages).await?;
    // Stamped some time in between.
    let stored = Instant::now();
    let peeked = client.peek(&QueuePath::main(queue), 0, 100).await?;
    let stamps: Vec<u64> = peeked.iter().map(|message| message.enqueued_at_ms()).collect();
    let allowed = sent_ms - 500..=now_ms() + 500;
    ensure!(stamps.iter().all(|at| allowed.contains(at)), "{stamps:?} outside {allowed:?}");
    loop {
        let asked = Instant::now();
        let counters = client.get_queue(queue).await?.counters.context("counters")?;
        let expired = counters.dead_lettered - before;
        ensure!(
            expired == 0 || sent.elapsed() + OFFSET_MAX >= TTL,
            "{expired} expired after {:?}",
            sent.elapsed()
        );
        if expired == COUNT {
            return Ok(());
        }
        let late = asked.duration_since(stored).saturating_sub(TTL);
        ensure!(late < OFFSET_MAX + LATENESS_MAX, "{expired} of {COUNT} expired {late:?} late");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A node's metrics, as text.
fn metrics(cluster: &Cluster, id: u64) -> anyhow::Result<String> {
    let [_, http, _] = cluster.addresses(id);
    let mut stream = TcpStream::connect(http)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn metric(text: &str, name: &str) -> anyhow::Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.with_context(|| format!("no {name}"))?.trim().parse().context("a number")
}

/// A cluster of which one node's wall clock is wrong works as if it had not been there, whoever
/// clients speak to and whoever wins elections.
async fn one_is_wrong(
    wrong: u64,
    flags: &'static [&'static str],
    shows: impl Fn(i64) -> bool,
) -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { odd: Some((wrong, flags)), ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    leads_nothing(&cluster, wrong).await?;
    let client = cluster.client()?;
    let properties =
        QueueProperties { dead_letter_on_expiration: Some(true), ..Default::default() };
    let queue = client.create_queue("q", properties).await?;
    lives(&client, "q").await?;
    lives(&cluster.client_of(wrong)?, "q").await?;

    let told = cluster.client_of(wrong)?.now().await?.now_ms;
    ensure!(told.abs_diff(now_ms()) < 1000, "it tells {told}");

    // It may be elected, and yet decides nothing.
    for group in [0, queue.group] {
        drop(client.transfer_leader(group, wrong).await); // It gives back at once what it gets.
    }
    lives(&client, "q").await?;
    leads_nothing(&cluster, wrong).await?;

    let status = client.status(false).await?;
    for id in cluster.ids() {
        let told = node(&status, id);
        let off_ms = told.clock_offset_ms.with_context(|| format!("{told:?}"))?;
        ensure!(told.clock_agrees == (id != wrong), "{told:?}");
        ensure!(told.note.is_empty() == (id != wrong), "{told:?}");
        ensure!(if id == wrong { shows(off_ms) } else { off_ms.abs() < 100 }, "{told:?}");
        let text = metrics(&cluster, id)?;
        ensure!(metric(&text, "mayfly_clock_agrees")? == f64::from(u8::from(id != wrong)));
        let off = metric(&text, "mayfly_clock_off_seconds")?;
        ensure!(if id == wrong { shows((off * 1e3) as i64) } else { off.abs() < 0.1 }, "{off}");
        if id != wrong {
            let peer = format!("mayfly_clock_offset_seconds{{peer=\"{wrong}\"}}");
            ensure!(shows((metric(&text, &peer)? * 1e3) as i64), "{text}");
        }
    }
    let shown = Command::new(mayfly()?)
        .args(["cluster", "status", "--connect", cluster.addresses(1)[0]])
        .output()?;
    let shown = String::from_utf8(shown.stdout)?;
    ensure!(shown.contains("no majority agrees with its clock"), "{shown}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn time_8_a_clock_a_year_ahead_expires_nothing_early() -> anyhow::Result<()> {
    // Node 1 is the first to lead the catalog.
    one_is_wrong(1, &["--clock-skew", "+1y"], |off_ms| (off_ms - YEAR_MS).abs() < 1000).await
}

#[tokio::test(flavor = "multi_thread")]
async fn time_8_a_clock_a_year_behind_expires_nothing_late() -> anyhow::Result<()> {
    one_is_wrong(2, &["--clock-skew", "-1y"], |off_ms| (off_ms + YEAR_MS).abs() < 1000).await
}

#[tokio::test(flavor = "multi_thread")]
async fn time_8_a_clock_that_jumps_every_second_decides_nothing() -> anyhow::Result<()> {
    let shows = |off_ms: i64| (off_ms.abs() - YEAR_MS).abs() < 1000;
    one_is_wrong(3, &["--clock-skew-jump", "1y"], shows).await
}

/// With one node down and one wrong nobody knows which of the two is right: nothing is decided, and
/// nothing is claimed. With the third back all goes on.
#[tokio::test(flavor = "multi_thread")]
async fn time_8_without_a_majority_of_clocks_nothing_is_stamped() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { odd: Some((1, &["--clock-skew", "+1h"])), ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("q", QueueProperties::default()).await?;
    let agreed = |status: &StatusResponse, id| {
        let node = node(status, id);
        node.reachable.then_some(node.clock_agrees)
    };
    // Else it may be node 2 that has not compared clocks yet, and then finds that 3's agreed.
    cluster
        .wait_for_status("two clocks to agree", |status| {
            agreed(status, 2) == Some(true) && agreed(status, 3) == Some(true)
        })
        .await?;
    cluster.kill(3)?;
    cluster
        .wait_for_status("no clock to agree", |status| {
            agreed(status, 1) == Some(false) && agreed(status, 2) == Some(false)
        })
        .await?;
    let sending = client.send("q", vec![Message::new("x").ttl(Duration::from_secs(60))]);
    let sent = tokio::time::timeout(Duration::from_secs(2), sending).await;
    ensure!(!matches!(sent, Ok(Ok(_))), "stamped without a majority: {sent:?}");
    cluster.start_node(3)?;
    client.send("q", vec![Message::new("y")]).await?;
    let peeked = client.peek(&QueuePath::main("q"), 0, 10).await?;
    let stamp = peeked.first().context("a message")?.enqueued_at_ms();
    ensure!(stamp.abs_diff(now_ms()) < 20_000, "{stamp} is an hour off");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn time_4_an_advanced_clock_survives_a_restart_of_all() -> anyhow::Result<()> {
    const HOUR_MS: u64 = 3_600_000;
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    let properties =
        QueueProperties { dead_letter_on_expiration: Some(true), ..Default::default() };
    client.create_queue("q", properties).await?;
    let hours = |hours| Duration::from_millis(hours * HOUR_MS);
    client.send("q", vec![Message::new("a").ttl(hours(3))]).await?;
    ensure!(client.advance_clock(hours(2)).await?.offset_ms == 2 * HOUR_MS);
    for id in cluster.ids() {
        cluster.kill(id)?;
    }
    for id in cluster.ids() {
        cluster.start_node(id)?;
    }
    cluster.wait_ready().await?;
    // Of every node, also one whose own rows are still those of before.
    for id in cluster.ids() {
        let now = cluster.client_of(id)?.now().await?;
        ensure!(now.offset_ms == 2 * HOUR_MS, "{now:?}");
        ensure!(now.now_ms.abs_diff(now_ms() + 2 * HOUR_MS) < 5_000, "{now:?}");
    }
    let peeked = client.peek(&QueuePath::main("q"), 0, 10).await?;
    ensure!(peeked.len() == 1, "an hour of its three is left");
    client.send("q", vec![Message::new("b").ttl(hours(3))]).await?;
    let peeked = client.peek(&QueuePath::main("q"), 0, 10).await?;
    let stamp = peeked.last().context("messages")?.enqueued_at_ms();
    ensure!(stamp.abs_diff(now_ms() + 2 * HOUR_MS) < 5_000, "every group kept it: {stamp}");
    client.advance_clock(hours(1)).await?;
    let dead = QueuePath::dead_letter("q");
    let until = Instant::now() + Duration::from_secs(5);
    while client.peek(&dead, 0, 10).await?.len() != 1 {
        ensure!(Instant::now() < until, "its three hours are over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_development_mode_nobody_moves_the_clock() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 1, data_groups: 1, development: false, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    match client.advance_clock(Duration::from_secs(60)).await {
        Err(Error::Refused(detail)) => {
            ensure!(detail.name == "InvalidOperationException", "{detail:?}")
        }
        other => anyhow::bail!("not refused: {other:?}"),
    }
    ensure!(client.now().await?.offset_ms == 0);
    let config = cluster.config_path(1).to_string_lossy().into_owned();
    for flag in ["--clock-skew=-1y", "--clock-skew-jump=1y"] {
        let output = Command::new(mayfly()?).args(["serve", "--config", &config, flag]).output()?;
        let told = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(2) && told.contains("--development"), "{told}");
    }
    Ok(())
}
