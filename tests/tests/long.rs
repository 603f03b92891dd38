//! Experiments that take minutes, run by `tests/long.sh`, their last results in `tests/LONG.md`. What they
//! print is the result; what they assert must hold on any machine.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use client::{Client, Message, SenderOptions};
use mayfly_tests::{AmqpClient, Cluster, Settings};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use workload::{LifecycleBench, LifecycleReport, Metrics, Progress, Protocol};

/// The lifecycle bench of the README, at a rate or as fast as it goes.
async fn lifecycle(
    client: &Client,
    rate: Option<f64>,
    measured: Duration,
) -> anyhow::Result<LifecycleReport> {
    let bench = LifecycleBench {
        protocol: Protocol::Grpc,
        queues: 1,
        queue: None,
        producers: 4,
        consumers: 4,
        window: 256,
        prefetch: 256,
        size: 1024,
        rate,
        ttl: None,
        warm_up: Duration::from_secs(2),
        measured,
    };
    let report = bench.run(client, &Progress::silent()).await?;
    ensure!(report.errors.is_empty() && report.left == 0, "{:?}", report.errors);
    Ok(report)
}

/// Messages of one KiB that nobody takes.
async fn fill(client: &Client, queue: &str, messages: usize) -> anyhow::Result<()> {
    const BATCH: usize = 100;
    client.create_queue(queue, Default::default()).await?;
    let sender = client.sender(queue, SenderOptions { window: 4096, ..Default::default() });
    let body = Bytes::from(vec![b'x'; 1024]);
    let mut last = None;
    for _ in 0..messages / BATCH {
        let batch = vec![Message::new(body.clone()); BATCH];
        last = Some(sender.submit(batch).await?);
    }
    last.context("at least one batch")?.await?;
    sender.close().await;
    Ok(())
}

/// Leaderships taken up on all nodes since they started.
async fn elections(cluster: &Cluster) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for id in cluster.ids() {
        let metrics = Metrics::fetch(cluster.addresses(id)[1], None).await;
        let metrics = metrics.with_context(|| format!("node {id} shows no metrics"))?;
        sum += metrics.sum("mayfly_raft_elections_won_total").unwrap_or(0.0);
    }
    Ok(sum)
}

/// A node whose disk was wiped gets a gigabyte and more by snapshot, while others are served.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes long: tests/long.sh"]
async fn a_replica_is_rebuilt_beside_steady_work() -> anyhow::Result<()> {
    const RATE: Option<f64> = Some(2000.0);
    const MESSAGES: usize = 1_000_000;
    let settings = Settings { data_groups: 1, disk_reserve_mebibytes: 512, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    fill(&client, "backlog", MESSAGES).await?;
    let leader = cluster.leader_of("backlog").await?;
    let victim = cluster.ids().find(|id| *id != leader).context("three nodes")?;
    let window = Duration::from_secs(5);
    let before = lifecycle(&client, RATE, window).await?;
    println!("before                 send {:?}", before.send);

    cluster.kill(victim)?;
    std::fs::remove_dir_all(cluster.data_path(victim))?;
    cluster.start_node(victim)?;
    let begun = Instant::now();
    let members = |cluster: &Cluster| {
        cluster.node_log(victim).matches("this replica is a full member").count()
    };
    while members(&cluster) < 2 {
        ensure!(begun.elapsed() < Duration::from_secs(300), "{}", cluster.last_words(victim));
        let during = lifecycle(&client, RATE, window).await?;
        println!("rebuilding for {:3.0} s   send {:?}", begun.elapsed().as_secs_f64(), during.send);
    }
    println!("a full member after {:.0} s at most", begun.elapsed().as_secs_f64());
    ensure!(cluster.node_log(victim).contains("receiving a snapshot"), "it came by the log");
    cluster.wait_all_vote().await?;
    let after = lifecycle(&client, RATE, window).await?;
    println!("after                  send {:?}", after.send);
    Ok(())
}

/// The log that is kept reaches back further than ten seconds of the most this machine can do.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes long: tests/long.sh"]
async fn ten_seconds_away_at_full_load_heal_from_the_log() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("orders", Default::default()).await?;
    let leader = cluster.leader_of("orders").await?;
    let paused = cluster.ids().find(|id| *id != leader).context("three nodes")?;
    let load = tokio::spawn({
        let client = client.clone();
        async move { lifecycle(&client, None, Duration::from_secs(25)).await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.signal(paused, Signal::SIGSTOP)?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.signal(paused, Signal::SIGCONT)?;
    let report = load.await??;
    cluster.wait_caught_up().await?;
    println!("{:.0} messages/s, end to end {:?}", report.settled_per_second, report.end_to_end);
    ensure!(!cluster.node_log(paused).contains("receiving a snapshot"), "it took a snapshot");
    Ok(())
}

/// Both cores are busy to the last, and no follower takes its leader for dead.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes long: tests/long.sh"]
async fn full_load_brings_no_election() -> anyhow::Result<()> {
    let seconds = std::env::var("MAYFLY_LONG_SECONDS").ok().and_then(|text| text.parse().ok());
    let cluster = Cluster::start(Settings { data_groups: 16, ..Settings::default() }).await?;
    let client = cluster.client()?;
    // Leaderships spread over the nodes first.
    lifecycle(&client, None, Duration::from_secs(30)).await?;
    let before = elections(&cluster).await?;
    let report = lifecycle(&client, None, Duration::from_secs(seconds.unwrap_or(600))).await?;
    let during = elections(&cluster).await? - before;
    println!(
        "{:.0} messages/s for {:.0} s, end to end {:?}; {during} leaderships changed hands",
        report.settled_per_second, report.measured_seconds, report.end_to_end,
    );
    ensure!(during == 0.0, "{during} leaderships changed hands");
    Ok(())
}

/// Seconds of processor time a process has used, and its resident bytes.
fn used(pid: u32) -> anyhow::Result<(f64, u64)> {
    const TICKS_PER_SECOND: f64 = 100.0;
    const PAGE_BYTES: u64 = 4096;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(')').context("a name in parentheses")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok((ticks / TICKS_PER_SECOND, fields[21].parse::<u64>()? * PAGE_BYTES))
}

/// What idle temporary queues cost a node that leads all of them, beside what it costs without, and
/// how long it takes to delete them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes long: tests/long.sh"]
async fn a_hundred_thousand_idle_queues() -> anyhow::Result<()> {
    const CREATING: usize = 128;
    const WATCHED: Duration = Duration::from_secs(60);
    let count = std::env::var("MAYFLY_IDLE_QUEUES").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(100_000);
    let settings = Settings { nodes: 1, reattach_seconds: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let pid = cluster.pid(1).context("a process")?;
    let cost = |what: &'static str| async move {
        let (before, _) = used(pid)?;
        tokio::time::sleep(WATCHED).await;
        let (after, resident) = used(pid)?;
        let share = (after - before) / WATCHED.as_secs_f64() * 100.0;
        println!("{what}: {share:.2} % of a core, {} MiB resident", resident >> 20);
        anyhow::Ok(share)
    };
    let without = cost("no queues").await?;
    let begun = Instant::now();
    let mut creating = tokio::task::JoinSet::new();
    for queue in 0..count {
        let client = client.clone();
        creating.spawn(async move {
            let properties = client::v1::QueueProperties {
                auto_delete_on_idle_ms: Some(300_000),
                ..Default::default()
            };
            client.ensure_queue(&format!("q{queue}"), properties).await
        });
        if creating.len() >= CREATING {
            creating.join_next().await.context("a task")???;
        }
    }
    while let Some(created) = creating.join_next().await {
        created??;
    }
    println!("{count} queues created in {:.0} s", begun.elapsed().as_secs_f64());
    let with = cost("idle").await?;
    client.advance_clock(Duration::from_secs(300)).await?;
    let begun = Instant::now();
    while !client.list_queues("q").await?.is_empty() {
        ensure!(begun.elapsed() < Duration::from_secs(1200), "they do not go");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!("all deleted {:.0} s after their window", begun.elapsed().as_secs_f64());
    ensure!(with - without < 2.0, "{with} % of a core, {without} % without them");
    Ok(())
}

/// Resident memory of a process.
fn resident_kibibytes(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(number.parse()?)
}

/// Half and 99 in 100 of so many sends, one after the other.
async fn send_latency(address: &str, count: usize) -> anyhow::Result<(Duration, Duration)> {
    let mut amqp = AmqpClient::connect(address).await?;
    let sender = amqp.sender("busy").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let body = message_content::Body::Binary(Bytes::from(vec![b'x'; 1024]));
    let message = message_content::Neutral { body, ..Default::default() };
    let message = message.to_amqp(&mut Default::default());
    let mut took = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        ensure!(
            amqp.send(sender, 0, message.clone()).await?
                == amqp_protocol::codec::DeliveryState::ACCEPTED
        );
        took.push(started.elapsed());
    }
    took.sort_unstable();
    Ok((took[count / 2], took[count * 99 / 100]))
}

/// Ten thousand clients that are there and do nothing, on one node, and one that works.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes long: tests/long.sh"]
async fn ten_thousand_connections_cost_little() -> anyhow::Result<()> {
    const CONNECTIONS: usize = 10_000;
    const SENDS: usize = 500;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let needed = CONNECTIONS as u64 + 1_000;
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed))?;
    let config = "[amqp]\nfirst_link_timeout = \"never\"\n";
    let cluster = Cluster::start(Settings { nodes: 1, config, ..Settings::default() }).await?;
    cluster.client()?.create_queue("busy", Default::default()).await?;
    let (pid, address) = (cluster.pid(1).context("it runs")?, cluster.amqp_address(1));
    let alone = send_latency(address, SENDS).await?;
    let before = resident_kibibytes(pid)?;
    let started = Instant::now();
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        idle.push(AmqpClient::connect(address).await?);
    }
    let opened = started.elapsed();
    let after = resident_kibibytes(pid)?;
    let among = send_latency(address, SENDS).await?;
    let each = after.saturating_sub(before) as f64 / CONNECTIONS as f64;
    println!("{CONNECTIONS} connections, each with a session, opened in {opened:.1?}");
    println!("memory {before} KiB before, {after} KiB after: {each:.1} KiB each");
    println!("a send alone p50 {:.1?}, p99 {:.1?}", alone.0, alone.1);
    println!("a send among them p50 {:.1?}, p99 {:.1?}", among.0, among.1);
    ensure!(each < 64.0, "{each} KiB for a connection that does nothing");
    let last = idle.last_mut().context("ten thousand")?;
    ensure!(last.sender("busy").await?.is_ok(), "they are served");
    Ok(())
}
