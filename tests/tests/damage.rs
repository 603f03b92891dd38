//! Disks that fail under real nodes: wiped, a bit flipped, a file cut. Nothing acknowledged is lost,
//! no other node is disturbed, and the node comes back as a full member: another may then die.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::{GroupStatus, StatusResponse};
use client::{Client, Message, ReceiverOptions, SenderOptions};
use domain::FEATURE_LEVEL_RULES_OF_0_2;
use mayfly_tests::{Cluster, Load, LoadOptions, Settings};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// The catalog and two data groups.
const GROUPS: usize = 3;

async fn progress(load: &Load, more: u64) -> anyhow::Result<Duration> {
    let (begun, goal) = (Instant::now(), load.settled() + more);
    while load.settled() < goal {
        ensure!(begun.elapsed() < Duration::from_secs(60), "no progress: {}", load.settled());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(begun.elapsed())
}

/// The largest file of a database with this ending.
fn largest(database: &Path, ending: &str) -> anyhow::Result<PathBuf> {
    let files = fs::read_dir(database)?.map(|entry| entry.map(|entry| entry.path()));
    let files: Vec<PathBuf> = files.collect::<Result<_, _>>()?;
    let ours = files.into_iter().filter(|file| file.extension().is_some_and(|it| it == ending));
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |file| file.len());
    ours.max_by_key(size).with_context(|| format!("no .{ending} in {}", database.display()))
}

fn flip_a_bit(file: &Path) -> anyhow::Result<()> {
    let mut bytes = fs::read(file)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    Ok(fs::write(file, bytes)?)
}

/// Waits until a node that lost what it held has its vote in every group, by what it has said since its log had so
/// many bytes.
async fn rebuilt(cluster: &mut Cluster, id: u64, since: usize) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    let count = |log: &str| log[since..].matches("this replica is a full member").count();
    while count(&cluster.node_log(id)) < GROUPS {
        ensure!(Instant::now() < until, "node {id} is not rebuilt: {}", cluster.last_words(id));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.wait_all_vote().await
}

/// Under load: kills the node that leads the queue, harms its files, starts it again, and when it
/// is rebuilt kills another one.
async fn survives(harm: fn(&Path) -> anyhow::Result<()>, told: &str) -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let load = Load::start(&cluster.client()?, "orders", LoadOptions::default()).await?;
    progress(&load, 500).await?;
    let victim = cluster.leader_of("orders").await?;
    cluster.kill(victim)?;
    harm(&cluster.data_path(victim))?;
    println!("200 more were settled {:?} after the kill", progress(&load, 200).await?);

    let begun = Instant::now();
    cluster.start_node(victim)?;
    rebuilt(&mut cluster, victim, 0).await?;
    println!("node {victim} votes again after {:?}", begun.elapsed());
    let log = cluster.node_log(victim);
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(told)).collect();
    println!("{}", lines.join("\n"));
    ensure!(lines.len() == 1, "'{told}' is said in {} lines, not one", lines.len());
    progress(&load, 200).await?;

    let other = cluster.ids().find(|id| *id != victim).context("three nodes")?;
    cluster.kill(other)?;
    println!("200 more were settled {:?} after the next kill", progress(&load, 200).await?);
    let verdict = load.finish().await?;
    println!("{verdict:?}");
    assert!(verdict.holds(), "{:?}", verdict.violations);
    assert!(verdict.settled > 500, "too little happened to prove anything");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_disk_was_wiped_is_rebuilt_and_votes_again() -> anyhow::Result<()> {
    survives(|data| Ok(fs::remove_dir_all(data)?), "its disk is empty").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_flipped_bit_in_its_log_is_rebuilt_and_votes_again() -> anyhow::Result<()> {
    survives(|data| flip_a_bit(&largest(&data.join("log"), "log")?), "log: damaged: ").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_cut_log_is_rebuilt_and_votes_again() -> anyhow::Result<()> {
    let cut = |data: &Path| {
        let file = fs::File::options().write(true).open(largest(&data.join("log"), "log")?)?;
        let bytes = file.metadata()?.len();
        Ok(file.set_len(bytes / 2)?)
    };
    survives(cut, "the log ends at index").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_tell_what_it_was_is_rebuilt_and_votes_again() -> anyhow::Result<()> {
    let garble = |data: &Path| flip_a_bit(&data.join("mayfly-data"));
    survives(garble, "mayfly-data: damaged: its checksum differs").await
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, to) = (entry?.path(), to.to_owned());
        let to = to.join(entry.file_name().context("a name")?);
        match entry.is_dir() {
            true => copy(&entry, &to)?,
            false => drop(fs::copy(&entry, &to)?),
        }
    }
    Ok(())
}

/// Starts a node again, and waits until it follows its leaders.
async fn is_back(cluster: &mut Cluster, id: u64) -> anyhow::Result<()> {
    cluster.start_node(id)?;
    let itself = cluster.client_of(id)?;
    let until = Instant::now() + Duration::from_secs(60);
    let follows = |group: &GroupStatus| {
        group.replicas.iter().any(|replica| replica.node == id && replica.reachable)
    };
    // It answers for itself, so that it is not taken for the process it was before.
    while !itself
        .status(false)
        .await
        .is_ok_and(|status| status.groups.len() == GROUPS && status.groups.iter().all(follows))
    {
        ensure!(Instant::now() < until, "node {id} is not back: {}", cluster.last_words(id));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// A node of a cluster that has written more since is given back what it had.
async fn is_given_back(cluster: &mut Cluster, id: u64, before: &Path) -> anyhow::Result<()> {
    let data = cluster.data_path(id);
    fs::remove_dir_all(&data)?;
    copy(before, &data)?;
    let since = cluster.node_log(id).len();
    cluster.start_node(id)?;
    let code = cluster.wait_ended(id).await?;
    let last = cluster.last_words(id);
    ensure!(code == Some(1), "it ended with {code:?}: {last}");
    ensure!(last.contains(&format!("the data directory of node {id} is an old copy")), "{last}");
    ensure!(!cluster.node_log(id)[since..].contains(" leading "), "it led");
    cluster.start_node(id)?;
    rebuilt(cluster, id, since).await?;
    ensure!(data.join("damaged/log").exists(), "what it had was not laid aside");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_of_a_data_directory_is_refused_and_its_node_rebuilt() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let knows_levels = |status: &StatusResponse| status.feature_level >= FEATURE_LEVEL_RULES_OF_0_2;
    cluster.wait_for_status("the feature level", knows_levels).await?;
    let load = Load::start(&cluster.client()?, "orders", LoadOptions::default()).await?;
    progress(&load, 200).await?;
    let leader = cluster.leader_of("orders").await?;
    let victim = cluster.ids().find(|id| *id != leader).context("three nodes")?;
    // As it is while it runs, which is what a snapshot of a machine holds: the copy is made of a process that was
    // killed, and nothing else tells it from the files of before the kill.
    cluster.kill(victim)?;
    let before = cluster.dir().join("before");
    copy(&cluster.data_path(victim), &before)?;
    is_back(&mut cluster, victim).await?;
    // What it writes it says with its next calls; it makes some every second.
    let heard = Instant::now() + Duration::from_secs(3);
    while Instant::now() < heard {
        progress(&load, 50).await?;
    }
    cluster.kill(victim)?;
    is_given_back(&mut cluster, victim, &before).await?;
    progress(&load, 200).await?;
    let verdict = load.finish().await?;
    assert!(verdict.holds(), "{:?}", verdict.violations);

    // And by nodes that have themselves started since they heard it.
    fs::remove_dir_all(&before)?;
    copy(&cluster.data_path(victim), &before)?;
    let client = cluster.client()?;
    client.create_queue("bulk", Default::default()).await?;
    send(&client, 50, 100).await?;
    cluster.wait_caught_up().await?;
    for id in cluster.ids() {
        cluster.stop(id)?;
    }
    for id in cluster.ids().filter(|id| *id != victim) {
        cluster.start_node(id)?;
    }
    is_given_back(&mut cluster, victim, &before).await?;
    let completed = receive_all(&client).await?;
    ensure!(completed == 50, "{completed} of 50 were completed");

    // Nothing was written since this copy was made: it is as good as what was there.
    cluster.wait_caught_up().await?;
    for id in cluster.ids() {
        cluster.stop(id)?;
    }
    let (data, copied) = (cluster.data_path(victim), cluster.dir().join("equal"));
    fs::remove_dir_all(data.join("damaged"))?;
    copy(&data, &copied)?;
    fs::remove_dir_all(&data)?;
    copy(&copied, &data)?;
    for id in cluster.ids() {
        cluster.start_node(id)?;
    }
    cluster.wait_ready().await?;

    // All disks are lost, the cluster is founded again, and then somebody finds a disk.
    for id in cluster.ids() {
        cluster.stop(id)?;
        fs::remove_dir_all(cluster.data_path(id))?;
    }
    for id in cluster.ids() {
        cluster.start_node(id)?;
    }
    cluster.wait_ready().await?;
    cluster.stop(victim)?;
    fs::remove_dir_all(&data)?;
    copy(&copied, &data)?;
    cluster.start_node(victim)?;
    let (code, last) = (cluster.wait_ended(victim).await?, cluster.last_words(victim));
    ensure!(code == Some(1) && last.contains("that was founded another time"), "{code:?}: {last}");
    ensure!(!data.join("damaged/log").exists(), "which of both is right a person knows");
    fs::remove_dir_all(&data)?;
    let since = cluster.node_log(victim).len();
    cluster.start_node(victim)?;
    rebuilt(&mut cluster, victim, since).await
}

/// It has nobody to be rebuilt from: what it has is left as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_by_itself_is_not_emptied() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("bulk", Default::default()).await?;
    send(&client, 20, 100).await?;
    cluster.kill(1)?;
    let file = cluster.data_path(1).join("mayfly-data");
    let sound = fs::read(&file)?;
    flip_a_bit(&file)?;
    cluster.start_node(1)?;
    cluster.wait_ended(1).await?;
    let last = cluster.last_words(1);
    ensure!(last.contains("mayfly-data: damaged: its checksum differs"), "{last}");
    ensure!(!cluster.data_path(1).join("damaged").exists(), "its data were laid aside");
    fs::write(&file, sound)?;
    cluster.start_node(1)?;
    cluster.wait_ready().await?;
    let completed = receive_all(&client).await?;
    ensure!(completed == 20, "{completed} of 20 were completed");
    Ok(())
}

async fn send(client: &Client, count: u32, bytes: usize) -> anyhow::Result<()> {
    let sender = client.sender("bulk", SenderOptions { window: 16, ..SenderOptions::default() });
    let mut under_way = Vec::new();
    for _ in 0..count {
        under_way.push(sender.submit(vec![Message::new(vec![b'x'; bytes])]).await?);
    }
    for sending in under_way {
        sending.await?;
    }
    sender.close().await;
    Ok(())
}

/// Completes all messages there are, whatever becomes of the nodes meanwhile.
async fn receive_all(client: &Client) -> anyhow::Result<u64> {
    let options = ReceiverOptions { prefetch: 16, ..ReceiverOptions::default() };
    let mut receiver = client.receiver("bulk", options);
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let wait = Duration::from_secs(1);
        if let Ok(Ok(deliveries)) = tokio::time::timeout(wait, receiver.recv_many(16)).await {
            for delivery in deliveries {
                ensure!(delivery.body().iter().all(|byte| *byte == b'x'), "not what was sent");
                // One that fails perhaps is done; else its lock ends, and it comes again.
                receiver.complete(&delivery).failures().await;
            }
        } else if let Ok(queue) = client.get_queue("bulk").await {
            let counters = queue.counters.unwrap_or_default();
            if counters.active == 0 {
                receiver.close().await;
                return Ok(counters.completed);
            }
        }
        ensure!(Instant::now() < until, "the queue does not empty");
    }
}

/// Nothing at the start shows it: the leader meets it when the message is to be delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_message_is_never_delivered_and_its_node_is_rebuilt()
-> anyhow::Result<()> {
    const COUNT: u32 = 300;
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    let short = Some(Duration::from_secs(5).as_millis() as u64);
    let properties = client::v1::QueueProperties { lock_duration_ms: short, ..Default::default() };
    client.create_queue("bulk", properties).await?;
    send(&client, COUNT, 20 * 1024).await?;
    let group = client.get_queue("bulk").await?.group;
    let victim = cluster.ids().last().context("three nodes")?;
    cluster.stop(victim)?; // Its rows are flushed.
    flip_a_bit(&largest(&cluster.data_path(victim).join("rows"), "blob")?)?;
    cluster.start_node(victim)?;
    cluster.wait_caught_up().await?;
    // A node whose clock is not compared yet would give leadership back at once.
    cluster
        .wait_for_status("all clocks to agree", |status| {
            status.nodes.iter().all(|node| node.clock_agrees)
        })
        .await?;
    client.transfer_leader(group, victim).await?;

    let receiving = {
        let client = client.clone();
        tokio::spawn(async move { receive_all(&client).await })
    };
    cluster.wait_ended(victim).await?;
    let last = cluster.last_words(victim);
    println!("{last}");
    for part in ["mayfly: this node's data cannot be read", "rows: group", "index", "row Body"] {
        ensure!(last.contains(part), "no '{part}' in: {last}");
    }
    cluster.start_node(victim)?;
    rebuilt(&mut cluster, victim, 0).await?;
    let completed = receiving.await??;
    ensure!(completed == u64::from(COUNT), "{completed} of {COUNT} were completed");

    let other = cluster.ids().find(|id| *id != victim).context("three nodes")?;
    cluster.kill(other)?;
    send(&client, 50, 1024).await?;
    let completed = receive_all(&client).await?;
    ensure!(completed == u64::from(COUNT) + 50, "{completed} in all were completed");
    Ok(())
}
