//! LOCK-2, LOCK-18, LOCK-20: what a leader granted, and who never got it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::{QueueProperties, ReceiveMode};
use client::{Client, ClientOptions, Message, QueuePath, ReceiverOptions, SenderOptions};
use mayfly_tests::{Cluster, Harm, Plan, Proxy, Settings, Toward};

use crate::{ONE_AT_A_TIME, wary_client};

/// A lock that does not lapse while a test runs: what is delivered again was released.
const LONG_LOCK_MS: u64 = 300_000;

async fn queue(client: &Client, name: &str, lock_ms: u64) -> anyhow::Result<u32> {
    let lock_duration_ms = Some(lock_ms);
    let properties = QueueProperties { lock_duration_ms, ..Default::default() };
    Ok(client.create_queue(name, properties).await?.group)
}

async fn send(client: &Client, queue: &str, count: u64) -> anyhow::Result<()> {
    let sender = client.sender(queue, SenderOptions::default());
    let mut under_way = Vec::new();
    for number in 1..=count {
        under_way.push(sender.submit(vec![Message::new(number.to_string())]).await?);
    }
    for sending in under_way {
        sending.await?;
    }
    sender.close().await;
    Ok(())
}

/// Receives, and completes where there is something to complete, until it has got so many or none
/// comes for a while. How often each was delivered by its own account.
async fn drain(
    client: &Client,
    queue: &str,
    mode: ReceiveMode,
    count: u64,
) -> anyhow::Result<BTreeMap<u64, u32>> {
    let options = ReceiverOptions { mode, prefetch: 32, ..ReceiverOptions::default() };
    let mut receiver = client.receiver(queue, options);
    let mut counts = BTreeMap::new();
    let mut settling = Vec::new();
    while (counts.len() as u64) < count {
        let wait = Duration::from_secs(20);
        let Ok(delivery) = tokio::time::timeout(wait, receiver.recv()).await else { break };
        let delivery = delivery?;
        let before = counts.insert(delivery.sequence_number(), delivery.delivery_count());
        ensure!(before.is_none(), "{} was delivered twice", delivery.sequence_number());
        if mode == ReceiveMode::PeekLock {
            settling.push(receiver.complete(&delivery));
        }
        // Slow enough that leaders change while grants are on their way.
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    for settled in settling {
        settled.await?;
    }
    receiver.close().await;
    Ok(counts)
}

fn others(cluster: &Cluster, one: u64) -> [u64; 2] {
    let mut others = cluster.ids().filter(|id| *id != one);
    std::array::from_fn(|_| others.next().expect("three nodes"))
}

/// An edge outlives leaders: what they granted and it did not get comes again at once, uncounted, and
/// nothing is lost, in both modes.
async fn while_leaders_change(mode: ReceiveMode) -> anyhow::Result<()> {
    const COUNT: u64 = 3000;
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { data_groups: 1, behind_proxies: true, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let group = queue(&client, "grants", LONG_LOCK_MS).await?;
    send(&client, "grants", COUNT).await?;
    let leader = cluster.leader_of("grants").await?;
    let [edge, third] = others(&cluster, leader);
    // Whoever leads, streams come in at the edge.
    cluster.close_proxy(leader);
    cluster.close_proxy(third);
    let client = wary_client([cluster.addresses(edge)[0]])?;
    let draining = {
        let client = client.clone();
        tokio::spawn(async move { drain(&client, "grants", mode, COUNT).await })
    };
    for next in [third, leader, third] {
        tokio::time::sleep(Duration::from_millis(150)).await;
        // One that comes too soon after the last is refused: then there is none.
        drop(client.transfer_leader(group, next).await);
    }
    let leader = client.get_queue("grants").await?.leader_node;
    if leader != edge && leader != 0 {
        cluster.kill(leader)?;
    }
    let counts = draining.await??;
    ensure!(counts.len() as u64 == COUNT, "{} of {COUNT} came", counts.len());
    let counted = counts.iter().filter(|(_, count)| **count != 1).count();
    ensure!(counted == 0, "LOCK-20: {counted} deliveries were counted as failed");
    let counters = client.get_queue("grants").await?.counters.unwrap_or_default();
    ensure!(counters.completed == COUNT && counters.active == 0, "{counters:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_20_grants_that_never_reached_the_edge_are_not_counted() -> anyhow::Result<()> {
    while_leaders_change(ReceiveMode::PeekLock).await
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_2_receive_and_delete_loses_nothing_when_leaders_change() -> anyhow::Result<()> {
    while_leaders_change(ReceiveMode::ReceiveAndDelete).await
}

/// Both sides of the wire: what comes after a receiver has gone was not on it, and is neither lost
/// nor counted; what was on it is gone, or waits for its lock and counts.
#[tokio::test(flavor = "multi_thread")]
async fn lock_2_lock_18_only_what_was_on_the_wire_is_lost_or_counted() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster =
        Cluster::start(Settings { nodes: 1, data_groups: 1, ..Settings::default() }).await?;
    let calm = cluster.client()?;
    for mode in [ReceiveMode::PeekLock, ReceiveMode::ReceiveAndDelete] {
        gone_before(&cluster, &calm, mode).await.with_context(|| format!("{mode:?}"))?;
        gone_while_on_the_wire(&cluster, &calm, mode).await.with_context(|| format!("{mode:?}"))?;
    }
    Ok(())
}

/// A call that waits for one message, over a wire that can be harmed.
async fn waiting(
    cluster: &Cluster,
    queue: &str,
    mode: ReceiveMode,
) -> anyhow::Result<(Proxy, tokio::task::JoinHandle<()>)> {
    let proxy = Proxy::to(cluster.addresses(1)[0]).await?;
    // Trusting: it says nothing while it waits, so that what it is told is its answer.
    let probe_interval = Duration::from_secs(60);
    let options = ClientOptions { probe_interval, ..ClientOptions::default() };
    let victim = Client::with_options([proxy.address()], options)?;
    let path = QueuePath::main(queue);
    let call = tokio::spawn(async move {
        // Whatever comes of it: nobody is there to be told.
        drop(victim.receive(&path, mode, 1, Duration::from_secs(30)).await);
    });
    let until = Instant::now() + Duration::from_secs(30);
    while proxy.passed(Toward::Node) < 200 {
        ensure!(Instant::now() < until, "the call is not made");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok((proxy, call))
}

async fn gone_before(cluster: &Cluster, calm: &Client, mode: ReceiveMode) -> anyhow::Result<()> {
    let name = format!("before-{}", mode as i32);
    queue(calm, &name, LONG_LOCK_MS).await?;
    let (proxy, call) = waiting(cluster, &name, mode).await?;
    call.abort();
    drop(proxy);
    tokio::time::sleep(Duration::from_millis(500)).await;
    send(calm, &name, 20).await?;
    let counts = drain(calm, &name, ReceiveMode::PeekLock, 20).await?;
    ensure!(counts.len() == 20, "{} of 20 came", counts.len());
    ensure!(counts.values().all(|count| *count == 1), "{counts:?}");
    Ok(())
}

async fn gone_while_on_the_wire(
    cluster: &Cluster,
    calm: &Client,
    mode: ReceiveMode,
) -> anyhow::Result<()> {
    let name = format!("during-{}", mode as i32);
    queue(calm, &name, 5000).await?;
    let (proxy, call) = waiting(cluster, &name, mode).await?;
    // What the node says from here on reaches nobody.
    proxy.plan(Some(Plan { toward: Toward::Client, bytes: 0, harm: Harm::Swallow }));
    send(calm, &name, 2).await?;
    let until = Instant::now() + Duration::from_secs(30);
    while proxy.is_armed() {
        ensure!(Instant::now() < until, "nothing was put on the wire");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    call.abort();
    drop(proxy);
    match mode {
        ReceiveMode::PeekLock => {
            let counts = drain(calm, &name, mode, 2).await?;
            ensure!(counts == BTreeMap::from([(1, 2), (2, 1)]), "LOCK-18: {counts:?}");
        }
        ReceiveMode::ReceiveAndDelete => {
            let counts = drain(calm, &name, mode, 1).await?;
            ensure!(counts == BTreeMap::from([(2, 1)]), "LOCK-2: {counts:?}");
            let counters = calm.get_queue(&name).await?.counters.unwrap_or_default();
            ensure!((counters.completed, counters.active) == (2, 0), "{counters:?}");
        }
    }
    Ok(())
}
