//! Real processes, disks and sockets under faults: the checker sees no loss, no delivery after
//! expiry, no duplicate settlement. Few and slow; what can be simulated is simulated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp_protocol::codec::DeliveryState;
use anyhow::ensure;
use bytes::{Bytes, BytesMut};
use client::{Client, ClientOptions, Message, ReceiverOptions, SenderOptions};
use mayfly_tests::{AmqpClient, Cluster, Load, LoadOptions, Settings};
use message_content::{Body, Neutral};
use nix::sys::signal::Signal;
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;
use workload::{ExpiryBench, Progress};

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Waits until a load has got so many more messages through.
async fn progress(load: &Load, more: u64) -> anyhow::Result<Duration> {
    let (begun, goal) = (Instant::now(), load.settled() + more);
    while load.settled() < goal {
        ensure!(
            begun.elapsed() < Duration::from_secs(60),
            "no progress: {} settled",
            load.settled()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(begun.elapsed())
}

fn holds(verdict: &workload::Verdict) {
    println!("{verdict:?}");
    assert!(verdict.holds(), "{:?}", verdict.violations);
    assert!(verdict.settled > 500, "too little happened to prove anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_leader_and_follower_loses_nothing() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let load = Load::start(&cluster.client()?, "orders", LoadOptions::default()).await?;
    progress(&load, 500).await?;
    let mut outages = Vec::new();
    for round in 0..4 {
        let leader = cluster.leader_of("orders").await?;
        let victim = match round % 2 {
            0 => leader,
            _ => cluster.ids().find(|id| *id != leader).expect("three nodes"),
        };
        cluster.kill(victim)?;
        outages.push(progress(&load, 200).await?);
        cluster.start_node(victim)?;
        cluster.wait_caught_up().await?;
        progress(&load, 200).await?;
    }
    println!("longest time without an acknowledged send: {:?}", load.longest_gap());
    // Of four kills, one may have met a machine that was busy elsewhere.
    outages.sort();
    println!("from a kill until 200 more were settled: {outages:?}");
    ensure!(outages[2] < Duration::from_secs(6), "outages of {outages:?}");
    holds(&load.finish().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_killed_at_once_come_back_with_everything() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let load = Load::start(&cluster.client()?, "orders", LoadOptions::default()).await?;
    for _ in 0..2 {
        progress(&load, 500).await?;
        for id in cluster.ids() {
            cluster.kill(id)?;
        }
        for id in cluster.ids() {
            cluster.start_node(id)?;
        }
        cluster.wait_ready().await?;
    }
    progress(&load, 500).await?;
    holds(&load.finish().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_leader_stops_nothing_and_comes_back() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let load = Load::start(&cluster.client()?, "orders", LoadOptions::default()).await?;
    progress(&load, 500).await?;
    let leader = cluster.leader_of("orders").await?;
    cluster.signal(leader, Signal::SIGSTOP)?;
    let outage = progress(&load, 500).await?;
    println!("500 more were settled {outage:?} after the leader was paused");
    cluster.signal(leader, Signal::SIGCONT)?;
    cluster.wait_caught_up().await?;
    progress(&load, 500).await?;
    holds(&load.finish().await?);
    Ok(())
}

/// No connection breaks when a process is stopped: the node that a client talks to hears of the new
/// leader, and asks that one what it asked the old.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_paused_leader_is_asked_of_its_successor() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let leader = one_queue(&cluster).await?;
    let other = cluster.ids().find(|id| *id != leader).expect("three nodes");
    is_asked_of_its_successor(&mut cluster, leader, other).await
}

/// A node without a replica of the group hears of the new leader by what that one says of itself.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_elsewhere_for_a_paused_leader_is_asked_of_its_successor() -> anyhow::Result<()>
{
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 5, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let leader = one_queue(&cluster).await?;
    let status = cluster.client()?.status(false).await?;
    let group = status.groups.iter().find(|group| group.id == 1).expect("one data group");
    let has_none = |id: &u64| !group.replicas.iter().any(|replica| replica.node == *id);
    let other = cluster.ids().find(has_none).expect("three replicas on five nodes");
    is_asked_of_its_successor(&mut cluster, leader, other).await
}

/// Makes the queue `orders`; its leader.
async fn one_queue(cluster: &Cluster) -> anyhow::Result<u64> {
    cluster.client()?.create_queue("orders", Default::default()).await?;
    cluster.leader_of("orders").await
}

async fn is_asked_of_its_successor(
    cluster: &mut Cluster,
    leader: u64,
    other: u64,
) -> anyhow::Result<()> {
    let mut amqp = AmqpClient::connect(cluster.amqp_address(other)).await?;
    let sender = amqp.sender("orders").await?.expect("the queue is there");
    let receiver = amqp.settled_receiver("orders").await?.expect("the queue is there");
    let body = Body::Binary(Bytes::from_static(b"hello"));
    let message = Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new());
    amqp.grant(receiver, 2).await?;
    // The first says that the receiver waits at the leader.
    ensure!(amqp.send(sender, 0, message.clone()).await? == DeliveryState::ACCEPTED);
    amqp.receive(receiver).await?;

    cluster.signal(leader, Signal::SIGSTOP)?;
    let paused = Instant::now();
    ensure!(amqp.send(sender, 0, message).await? == DeliveryState::ACCEPTED);
    let sent = paused.elapsed();
    amqp.receive(receiver).await?;
    let received = paused.elapsed();
    println!("sent {sent:?} and received {received:?} after the leader was paused");
    // Less than what a call may take, and than a silent connection is kept.
    ensure!(received < Duration::from_secs(8), "sent {sent:?}, received {received:?}");
    ensure!(cluster.leader_of("orders").await? != leader, "it is still paused");
    Ok(())
}

/// Ten seconds at full load are far less than the log that is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_paused_for_ten_seconds_heals_from_the_log() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let load = Load::start(&cluster.client()?, "orders", LoadOptions::default()).await?;
    progress(&load, 500).await?;
    let leader = cluster.leader_of("orders").await?;
    let paused = cluster.ids().find(|id| *id != leader).expect("three nodes");
    cluster.signal(paused, Signal::SIGSTOP)?;
    let (begun, mut through) = (Instant::now(), load.settled());
    while begun.elapsed() < Duration::from_secs(10) {
        progress(&load, 200).await?;
    }
    through = load.settled() - through;
    cluster.signal(paused, Signal::SIGCONT)?;
    let begun = Instant::now();
    // The load goes on: what is left to catch up is what comes in meanwhile.
    cluster.wait_all_vote().await?;
    println!(
        "{through} messages lived while a node was paused; it had them {:?} later",
        begun.elapsed()
    );
    holds(&load.finish().await?);
    cluster.wait_caught_up().await?;
    let log = cluster.node_log(paused);
    ensure!(!log.contains("receiving a snapshot"), "it took a snapshot to heal");
    Ok(())
}

/// Fills a queue with large messages until the leader's log no longer reaches back to where the
/// node that is away stopped.
async fn fill(client: &Client, queue: &str, messages: usize, bytes: usize) -> anyhow::Result<()> {
    let sender = client.sender(queue, SenderOptions { window: 16, ..SenderOptions::default() });
    let mut under_way = Vec::new();
    for _ in 0..messages {
        under_way.push(sender.submit(vec![Message::new(vec![b'x'; bytes])]).await?);
    }
    for sending in under_way {
        sending.await?;
    }
    sender.close().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_away_too_long_catches_up_by_snapshot() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { data_groups: 1, log_retain_mebibytes: 16, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("bulk", Default::default()).await?;
    let leader = cluster.leader_of("bulk").await?;
    let away = cluster.ids().find(|id| *id != leader).expect("three nodes");
    cluster.kill(away)?;
    fill(&client, "bulk", 1000, 200 * 1024).await?;
    // The rows are flushed, and then the log is cut behind them.
    cluster
        .wait_for_status("the leader's log to be cut", |status| {
            let group = status.groups.iter().find(|group| group.id == 1);
            group.is_some_and(|group| {
                let of_leader = group.replicas.iter().find(|replica| replica.node == group.leader);
                of_leader.is_some_and(|replica| replica.purged_index > 100)
            })
        })
        .await?;
    cluster.start_node(away)?;
    cluster.wait_caught_up().await?;
    ensure!(
        cluster.node_log(away).contains("receiving a snapshot"),
        "it caught up without a snapshot: {}",
        cluster.last_words(away)
    );

    // The node that caught up is now needed for every majority.
    let other = cluster.ids().find(|id| *id != leader && *id != away).expect("three nodes");
    cluster.kill(other)?;
    let receiver = ReceiverOptions { prefetch: 32, ..ReceiverOptions::default() };
    let mut receiver = client.receiver("bulk", receiver);
    let mut numbers = Vec::new();
    while numbers.len() < 1000 {
        for delivery in receiver.recv_many(32).await? {
            ensure!(delivery.body().len() == 200 * 1024);
            numbers.push(delivery.sequence_number());
            if let Some((_, error)) =
                receiver.complete(&delivery).failures().await.into_iter().next()
            {
                return Err(error.into());
            }
        }
    }
    ensure!(numbers.iter().copied().eq(1..=1000), "each message once, in order");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_ends_in_good_order_hands_its_leaderships_over() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let load = Load::start(&cluster.client()?, "orders", LoadOptions::default()).await?;
    progress(&load, 500).await?;
    let leader = cluster.leader_of("orders").await?;
    cluster.stop(leader)?;
    let outage = progress(&load, 200).await?;
    println!("200 more were settled {outage:?} after the leader ended");
    cluster.start_node(leader)?;
    cluster.wait_caught_up().await?;
    holds(&load.finish().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn leaderships_spread_again_when_a_node_has_returned() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 6, ..Settings::default() }).await?;
    let led = |status: &client::v1::StatusResponse, node: u64| {
        let data = status.groups.iter().filter(|group| group.id != 0);
        data.filter(|group| group.leader == node).count()
    };
    cluster.kill(2)?;
    cluster
        .wait_for_status("the others to lead everything", |status| {
            led(status, 1) + led(status, 3) == 6
        })
        .await?;
    cluster.start_node(2)?;
    cluster.wait_for_status("node 2 to lead its share", |status| led(status, 2) == 2).await?;
    Ok(())
}

/// A bench tells what it saw of a cluster that went away, instead of trying on for every message.
#[tokio::test(flavor = "multi_thread")]
async fn a_bench_ends_when_its_cluster_is_gone() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let patience = Duration::from_secs(2);
    let options = ClientOptions {
        attempt_timeout: patience,
        give_up_after: patience,
        ..ClientOptions::default()
    };
    let client = Client::with_options([cluster.addresses(1)[0]], options)?;
    let bench = ExpiryBench {
        messages: 10_000_000,
        ttl_from: Duration::from_secs(5),
        ttl_to: Duration::from_secs(10),
        fill: Duration::from_secs(600),
        rate: Some(100.0),
        size: 64,
        dead_letter: false,
        queues: 1,
    };
    let begun = Arc::new(Notify::new());
    let progress = Progress::new({
        let begun = begun.clone();
        move |_, share, _| {
            if share > 0.0 {
                begun.notify_one();
            }
        }
    });
    let running = tokio::spawn(async move { bench.run(&client, &progress).await });
    timeout(Duration::from_secs(60), begun.notified()).await?;
    cluster.kill(1)?;
    // Its patience ends once for what is under way, twice for looks at the counters, once each for what
    // is sent beside, the last look and the deletion.
    let report = timeout(Duration::from_secs(40), running).await???;
    println!("{report}");
    ensure!(report.messages > 0 && report.messages < 10_000_000, "{report}");
    ensure!(report.errors.values().sum::<u64>() > 1_000_000, "{:?}", report.errors);
    Ok(())
}
