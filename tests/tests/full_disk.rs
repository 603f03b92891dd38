//! Disks that are full: what is acknowledged stays, what frees space goes on, other nodes are not
//! disturbed, and all is well again once there is space. The disks are small, and a file fills them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use anyhow::ensure;
use client::v1::{ReceiveMode, StatusResponse};
use client::{Client, Disposition, Error, Message, QueuePath, ReceiverOptions, Sender};
use mayfly_tests::{Cluster, Load, LoadOptions, Settings};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const RESERVE: u64 = 24 << 20;
/// How long a cluster may take to notice what its disks are like.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to fill a small disk.
const FILLED_WITHIN: Duration = Duration::from_secs(180);

fn settings() -> Settings {
    Settings { disk_reserve_mebibytes: RESERVE >> 20, ..Settings::default() }
}

/// Calls again and again until it is refused for want of space. A leader judges by what it last
/// heard of other nodes' disks, and leaderships may be on their way: how many calls succeeded
/// before is returned.
async fn until_refused<T>(call: impl AsyncFnMut() -> Result<T, Error>) -> anyhow::Result<u64> {
    until_refused_within(NOTICED_WITHIN, call).await
}

async fn until_refused_within<T>(
    longest: Duration,
    mut call: impl AsyncFnMut() -> Result<T, Error>,
) -> anyhow::Result<u64> {
    let until = Instant::now() + longest;
    let mut accepted = 0;
    loop {
        match call().await {
            Ok(_) => accepted += 1,
            Err(error) => {
                check(&error)?;
                return Ok(accepted);
            }
        }
        ensure!(Instant::now() < until, "never refused within {longest:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends messages one by one until one is taken in.
async fn send_until_accepted(sender: &Sender) -> anyhow::Result<u64> {
    let until = Instant::now() + NOTICED_WITHIN;
    loop {
        match sender.send(message()).await {
            Ok(number) => return Ok(number),
            Err(Error::Refused(_)) => (),
            Err(error) => return Err(error.into()),
        }
        ensure!(Instant::now() < until, "still refused after {NOTICED_WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn message() -> Message {
    Message::new(vec![b'm'; 1024])
}

fn check(error: &Error) -> anyhow::Result<()> {
    let (Error::Refused(detail) | Error::NotDone(detail) | Error::PerhapsDone(detail)) = error;
    ensure!(matches!(error, Error::Refused(_)), "{error:?}");
    ensure!(detail.name == "StorageQuotaExceeded" && detail.rule == "QUOTA-37", "{detail:?}");
    ensure!(detail.message.contains("the disk of node"), "{detail:?}");
    Ok(())
}

/// Completes so many messages; their numbers.
async fn complete(client: &Client, queue: &str, count: usize) -> anyhow::Result<Vec<u64>> {
    let options = ReceiverOptions { prefetch: 32, ..ReceiverOptions::default() };
    let mut receiver = client.receiver(queue, options);
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let received = receiver.recv_many(count - numbers.len());
        let deliveries = tokio::time::timeout(NOTICED_WITHIN, received).await??;
        let settling = receiver.settle_all(&deliveries, Disposition::Complete);
        if let Some((_, error)) = settling.failures().await.into_iter().next() {
            return Err(error.into());
        }
        numbers.extend(deliveries.iter().map(client::Delivery::sequence_number));
    }
    receiver.close().await;
    Ok(numbers)
}

fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn low(status: &StatusResponse, id: u64) -> bool {
    let node = status.nodes.iter().find(|node| node.id == id);
    node.and_then(|node| node.disk).is_some_and(|disk| disk.low)
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_37_full_disks_refuse_messages_lose_none_and_recover() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let started = Cluster::start_on_small_disks(settings(), 1..=3, 128).await?;
    let Some(cluster) = started else { return Ok(()) };
    let client = cluster.client()?;
    client.create_queue("orders", Default::default()).await?;
    let sender = client.sender("orders", Default::default());
    let mut stored = Vec::new();
    for _ in 0..200 {
        stored.push(sender.send(message()).await?);
    }

    for id in cluster.ids() {
        cluster.disk(id).fill(RESERVE * 3 / 4)?;
    }
    until_refused(async || {
        let number = sender.send(message()).await?;
        stored.push(number);
        Ok(())
    })
    .await?;
    cluster
        .wait_for_status("all disks to be low", |status| (1..=3).all(|id| low(status, id)))
        .await?;
    let mut names = (0..).map(|n| format!("another-{n}"));
    until_refused(async || {
        let name = names.next().expect("there is always another");
        client.create_queue(&name, Default::default()).await
    })
    .await?;
    let later = SystemTime::now() + Duration::from_secs(3600);
    let scheduled =
        until_refused(async || client.send("orders", vec![message().scheduled_at(later)]).await)
            .await?;
    let [_, http, _] = cluster.addresses(1);
    ensure!(get(http, "/metrics")?.contains("mayfly_disk_low 1"), "the metrics do not tell");
    ensure!(get(http, "/health/details")?.contains("\"low\":true"), "the health does not tell");
    ensure!(get(http, "/health/ready")?.starts_with("HTTP/1.1 200"), "it still serves");

    let path = QueuePath::main("orders");
    ensure!(client.peek(&path, 0, 10).await?.len() == 10);
    let mut taken = complete(&client, "orders", 100).await?;
    let one = client.receive(&path, ReceiveMode::ReceiveAndDelete, 1, Duration::ZERO).await?;
    taken.extend(one.iter().map(client::Delivery::sequence_number));
    // Still refused, with nothing lost: the very same sender goes on once there is space.
    check(&sender.send(Message::new("x")).await.expect_err("sent"))?;
    let counters = client.get_queue("orders").await?.counters.unwrap_or_default();
    ensure!(counters.accepted == stored.len() as u64 + scheduled, "{counters:?}");

    for id in cluster.ids() {
        cluster.disk(id).clear();
    }
    let freed = Instant::now();
    stored.push(send_until_accepted(&sender).await?);
    println!("accepted again {:?} after space was freed", freed.elapsed());
    for _ in 0..50 {
        stored.push(sender.send(Message::new("after")).await?);
    }
    taken.extend(complete(&client, "orders", stored.len() - taken.len()).await?);
    ensure!(taken == stored, "each message once, in order");
    for id in cluster.ids() {
        let log = cluster.node_log(id);
        ensure!(!log.contains("panicked") && !log.contains("ERROR"), "node {id}: {log}");
    }
    Ok(())
}

/// What a node keeps on its disk for an empty cluster, at most.
const FLOOR: u64 = 40 << 20;

/// A disk that messages filled, and nothing else: removing them is enough, however they go, each time anew.
#[tokio::test(flavor = "multi_thread")]
async fn quota_37_a_disk_full_of_messages_takes_in_more_once_they_are_removed() -> anyhow::Result<()>
{
    const DISK_MEBIBYTES: u64 = 200;
    let _guard = ONE_AT_A_TIME.lock().await;
    // What memory may still write, and what comes in until it is noticed that the disk is low.
    let (memory_mebibytes, disk_reserve_mebibytes) = (Some(64), 50);
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        memory_mebibytes,
        disk_reserve_mebibytes,
        ..Settings::default()
    };
    let started = Cluster::start_on_small_disks(settings, [1], DISK_MEBIBYTES).await?;
    let Some(cluster) = started else { return Ok(()) };
    let client = cluster.client()?;
    for way in ["a purge", "the queue's deletion", "settlement"] {
        create_until_accepted(&client).await?;
        let batch = || (0..100).map(|_| message()).collect::<Vec<_>>();
        let accepted = until_refused_within(FILLED_WITHIN, async || {
            client.send("orders", batch()).await.map(drop)
        });
        let accepted = accepted.await?;
        ensure!(accepted > 100, "{way}: only {accepted} batches fit");
        match way {
            "a purge" => {
                let path = QueuePath::main("orders");
                while client.delete_batch(&path, 4_000, None).await? > 0 {}
            }
            "the queue's deletion" => client.delete_queue("orders").await?,
            _ => drop(complete(&client, "orders", accepted as usize * 100).await?),
        }
        let removed = Instant::now();
        create_until_accepted(&client).await?;
        let sender = client.sender("orders", Default::default());
        send_until_accepted(&sender).await?;
        println!("{way}: accepted again after {:?}", removed.elapsed());
        let used = |status: &StatusResponse| {
            let free = status.nodes[0].disk.map_or(0, |disk| disk.free_bytes);
            (DISK_MEBIBYTES << 20).saturating_sub(free)
        };
        let at_floor = |status: &StatusResponse| used(status) <= FLOOR;
        cluster.wait_for_status(&format!("little to be left by {way}"), at_floor).await?;
        client.delete_queue("orders").await?;
    }
    let log = cluster.node_log(1);
    ensure!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    Ok(())
}

/// Creates the queue, if it is not there.
async fn create_until_accepted(client: &Client) -> anyhow::Result<()> {
    let until = Instant::now() + NOTICED_WITHIN;
    loop {
        match client.create_queue("orders", Default::default()).await {
            Ok(_) => return Ok(()),
            Err(Error::Refused(detail)) if detail.name == "MessagingEntityAlreadyExists" => {
                return Ok(());
            }
            Err(error) => check(&error)?,
        }
        ensure!(Instant::now() < until, "still refused after {NOTICED_WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_full_disk_disturbs_no_other_node_and_its_node_comes_back() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let started = Cluster::start_on_small_disks(settings(), [1], 256).await?;
    let Some(cluster) = started else { return Ok(()) };
    let client = cluster.client()?;
    let options = LoadOptions { producers: 1, consumers: 1, ..LoadOptions::default() };
    let load = Load::start(&client, "orders", options).await?;
    // The node whose disk is small leads, which is the harder case.
    let queue = client.get_queue("orders").await?;
    if queue.leader_node != 1 {
        client.transfer_leader(queue.group, 1).await?;
    }
    progress(&load, 200).await?;

    cluster.disk(1).fill(RESERVE / 2)?;
    let begun = Instant::now();
    let given_away = |status: &StatusResponse| {
        low(status, 1) && status.groups.iter().all(|group| ![0, 1].contains(&group.leader))
    };
    cluster.wait_for_status("node 1 to lead nothing", given_away).await?;
    println!("its leaderships were given away within {:?}", begun.elapsed());
    progress(&load, 200).await?;

    // To the last byte: its replicas stop. The process stays, and waits.
    let pid = cluster.pid(1);
    cluster.disk(1).fill(0)?;
    wait_for_log(&cluster, "no space left on the device").await?;
    wait_for_log(&cluster, "this node waits for it").await?;
    progress(&load, 500).await?;
    let away =
        |status: &StatusResponse| status.nodes.iter().any(|node| node.id == 1 && !node.reachable);
    cluster.wait_for_status("node 1 to be away", away).await?;

    cluster.disk(1).clear();
    let freed = Instant::now();
    cluster
        .wait_for_status("node 1 to come back", |status| !low(status, 1) && !away(status))
        .await?;
    println!("node 1 was back {:?} after space was freed", freed.elapsed());
    progress(&load, 200).await?;
    ensure!(cluster.pid(1) == pid);
    println!("longest time without an acknowledged send: {:?}", load.longest_gap());
    ensure!(load.longest_gap() < Duration::from_secs(15));
    let verdict = load.finish().await?;
    println!("{verdict:?}");
    ensure!(verdict.holds(), "{:?}", verdict.violations);
    cluster.wait_caught_up().await?;
    let log = cluster.node_log(1);
    ensure!(!log.contains("panicked"), "{log}");
    for id in [2, 3] {
        ensure!(!cluster.node_log(id).contains("ERROR"), "node {id}: {}", cluster.node_log(id));
    }
    Ok(())
}

/// Waits until a load has got so many more messages through.
async fn progress(load: &Load, more: u64) -> anyhow::Result<()> {
    let (begun, goal) = (Instant::now(), load.settled() + more);
    while load.settled() < goal {
        ensure!(begun.elapsed() < Duration::from_secs(20), "{} settled", load.settled());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn wait_for_log(cluster: &Cluster, words: &str) -> anyhow::Result<()> {
    let until = Instant::now() + NOTICED_WITHIN;
    while !cluster.node_log(1).contains(words) {
        ensure!(Instant::now() < until, "never said '{words}': {}", cluster.last_words(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
