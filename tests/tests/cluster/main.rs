//! Nodes that join, leave and die for good, as an operator sees it: real processes under load, the
//! command line, and no acknowledged message lost on the way.

mod relocation;

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::{NodeRole, StatusResponse};
use client::{Client, Message, QueuePath, SenderOptions};
use domain::FEATURE_LEVEL_MORE_GROUPS;
use mayfly_tests::{Cluster, Load, LoadOptions, Settings, mayfly};
use tokio::process::Command;
use tokio::task::JoinHandle;

/// The exit code of a node that was removed.
const REMOVED: i32 = 3;

const SECRET: &str = "one secret for all";
const GROUPS: u16 = 8;
/// With the catalog.
const ALL_GROUPS: u32 = GROUPS as u32 + 1;
const FACTOR: usize = 3;
/// Between two sends of a probe.
const PACE: Duration = Duration::from_millis(5);

/// Sends at a steady pace to queues of several groups, and keeps how long each took.
struct Probe {
    taken: Arc<Mutex<Vec<Duration>>>,
    stop: Arc<AtomicBool>,
    /// By queue: how many were acknowledged.
    tasks: Vec<(String, JoinHandle<u64>)>,
}

impl Probe {
    async fn start(client: &Client, queues: &[&str]) -> anyhow::Result<Probe> {
        let (taken, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let mut tasks = Vec::new();
        for queue in queues {
            client.create_queue(queue, client::v1::QueueProperties::default()).await?;
            let sender = client.sender(*queue, SenderOptions::default());
            let (taken, stop) = (taken.clone(), stop.clone());
            let task = tokio::spawn(async move {
                let mut acknowledged = 0;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    if let Ok(sending) = sender.submit(vec![Message::new(vec![b'p'; 512])]).await {
                        acknowledged += u64::from(sending.await.is_ok());
                    }
                    taken.lock().expect("no panic").push(begun.elapsed());
                    tokio::time::sleep_until((begun + PACE).into()).await;
                }
                acknowledged
            });
            tasks.push(((*queue).to_owned(), task));
        }
        Ok(Probe { taken, stop, tasks })
    }

    /// Prints and returns p99 and the worst since the last call.
    fn phase(&self, what: &str) -> (Duration, Duration) {
        let mut taken = std::mem::take(&mut *self.taken.lock().expect("no panic"));
        taken.sort();
        let at = |share: f64| {
            let index = (taken.len() as f64 * share) as usize;
            taken.get(index.min(taken.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        let (p50, p99, worst) = (at(0.5), at(0.99), at(1.0));
        println!("{what}: {} sends, p50 {p50:?}, p99 {p99:?}, worst {worst:?}", taken.len());
        (p99, worst)
    }

    /// Ends, and looks whether all that was acknowledged is there.
    async fn finish(self, client: &Client) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for (queue, task) in self.tasks {
            let acknowledged = task.await?;
            let there = client.get_queue(&queue).await?.counters.unwrap_or_default().active;
            println!("{queue}: {acknowledged} acknowledged, {there} there");
            ensure!(acknowledged > 0 && there >= acknowledged, "{queue} lost messages");
            let oldest = client.peek(&QueuePath::main(queue), 0, 1).await?;
            ensure!(!oldest.is_empty(), "what was stored on nodes that are gone can be read");
        }
        Ok(())
    }
}

/// The command line, at one of the nodes.
fn command(cluster: &Cluster, via: u64, words: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(mayfly()?);
    command.arg("cluster").args(words).args(["--connect", cluster.addresses(via)[0]]);
    command.args(["--secret", SECRET]).stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Runs it to its end; what it printed, or why it failed.
async fn run(
    cluster: &Cluster,
    via: u64,
    words: &[&str],
) -> anyhow::Result<Result<String, String>> {
    let ended = command(cluster, via, words)?.output();
    let output = tokio::time::timeout(Duration::from_secs(180), ended).await;
    let output = output.with_context(|| format!("{words:?} does not end"))??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    println!("{words:?}: {} {}", text(&output.stdout), text(&output.stderr));
    Ok(match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    })
}

/// As [`is_spread`], of a cluster of the usual size.
fn is_spread_over(status: &StatusResponse, nodes: &[u64]) -> bool {
    is_spread(status, nodes, GROUPS, FACTOR)
}

/// Whether the groups are on these nodes and no others, each whole, and nobody holds two more
/// replicas than another.
fn is_spread(status: &StatusResponse, nodes: &[u64], groups: u16, factor: usize) -> bool {
    let data = status.groups.iter().filter(|group| group.id != 0);
    let whole = data.clone().all(|group| {
        let on: BTreeSet<u64> = group.replicas.iter().map(|replica| replica.node).collect();
        group.leader != 0
            && on.len() == factor
            && on.iter().all(|node| nodes.contains(node))
            && group.replicas.iter().all(|replica| replica.reachable && replica.voter)
    });
    let held = |node: &u64| {
        data.clone().filter(|group| group.replicas.iter().any(|r| r.node == *node)).count()
    };
    let counts: Vec<usize> = nodes.iter().map(held).collect();
    let (most, least) = (counts.iter().max(), counts.iter().min());
    data.clone().count() == usize::from(groups)
        && whole
        && most.unwrap_or(&0) - least.unwrap_or(&0) <= 1
}

async fn catalog_leader(client: &Client) -> anyhow::Result<u64> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let status = client.status(false).await?;
        let catalog = status.groups.iter().find(|group| group.id == 0);
        match catalog.map(|group| group.leader) {
            Some(leader) if leader != 0 => return Ok(leader),
            _ => ensure!(Instant::now() < until, "nobody leads the catalog"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn role(status: &StatusResponse, node: u64) -> Option<NodeRole> {
    status.nodes.iter().find(|known| known.id == node).map(|known| known.role())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_join_leave_and_are_replaced_under_load_and_nothing_is_lost() -> anyhow::Result<()> {
    let settings = Settings { data_groups: GROUPS, secret: Some(SECRET), ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let paced = LoadOptions { producers: 1, consumers: 1, ..LoadOptions::default() };
    let load = Load::start(&client, "orders", paced).await?;
    let probe = Probe::start(&client, &["p1", "p2", "p3", "p4"]).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    probe.phase("three nodes");

    // What cannot be is refused, in one line.
    for (words, told) in [
        (&["drain", "1"][..], "without node 1 there would be 2 nodes for 3 replicas"),
        (&["drain", "9"], "there is no node 9"),
        (&["remove", "9"], "there is no node 9"),
        (&["remove", "1", "--dead"], "node 1 is not dead"),
        (&["remove", "1"], "node 1 still holds 8 replicas"),
    ] {
        let refused = run(&cluster, 1, words).await?.expect_err("it cannot be");
        ensure!(refused.contains(told) && !refused.contains('\n'), "{words:?}: {refused}");
    }

    // A fourth comes, with one command and one secret, and gets its share.
    let fourth = cluster.join(2)?;
    cluster
        .wait_for_status("the fourth node's share", |status| {
            is_spread_over(status, &[1, 2, 3, fourth])
        })
        .await?;
    probe.phase("a fourth node joins");
    run(&cluster, fourth, &["rebalance"]).await?.map_err(anyhow::Error::msg)?;

    // The first is drained, though who asked for it dies, and then the catalog's leader.
    let mut asked = command(&cluster, 3, &["drain", "1"])?.spawn()?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    asked.kill().await?;
    let leader = catalog_leader(&client).await?;
    println!("node {leader} leads the catalog, and is killed");
    ensure!(leader != 1, "a node that is drained leads nothing for long");
    cluster.kill(leader)?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    cluster.start_node(leader)?;
    let (_, worst) = probe.phase("node 1 is drained, and the catalog's leader killed");
    run(&cluster, 3, &["drain", "1"]).await?.map_err(anyhow::Error::msg)?;
    let status = client.status(false).await?;
    ensure!(role(&status, 1) == Some(NodeRole::Drained), "{status:?}");
    ensure!(worst < Duration::from_secs(10), "a stall of {worst:?}");
    probe.phase("node 1 is drained");
    run(&cluster, 3, &["remove", "1"]).await?.map_err(anyhow::Error::msg)?;
    ensure!(cluster.wait_ended(1).await? == Some(REMOVED), "whoever starts it is told");
    ensure!(cluster.last_words(1).contains("was removed from the cluster"), "it says why");
    cluster
        .wait_for_status("nothing to be left of node 1", |status| {
            role(status, 1).is_none() && is_spread_over(status, &[2, 3, fourth])
        })
        .await?;

    // The second dies for good, and a fifth takes its place.
    cluster.kill(2)?;
    let fifth = cluster.join(3)?;
    cluster
        .wait_for_status("the fifth node to be there", |status| {
            role(status, fifth) == Some(NodeRole::Active)
        })
        .await?;
    run(&cluster, 3, &["remove", "2", "--dead"]).await?.map_err(anyhow::Error::msg)?;
    cluster
        .wait_for_status("node 2 to be replaced", |status| {
            role(status, 2).is_none() && is_spread_over(status, &[3, fourth, fifth])
        })
        .await?;
    probe.phase("node 2 dies and is replaced by a fifth");

    // One that was removed and comes back is told so, and disturbs nobody.
    cluster.start_node(2)?;
    ensure!(cluster.wait_ended(2).await? == Some(REMOVED), "whoever starts it is told");
    ensure!(cluster.last_words(2).contains("was removed from the cluster"), "it says why");

    tokio::time::sleep(Duration::from_secs(3)).await;
    probe.phase("three other nodes");
    probe.finish(&client).await?;
    println!("longest time without an acknowledged send: {:?}", load.longest_gap());
    let verdict = load.finish().await?;
    println!("{verdict:?}");
    ensure!(verdict.holds(), "{:?}", verdict.violations);
    ensure!(verdict.settled > 500, "too little happened to prove anything");
    Ok(())
}

/// The leader of a group with a single voter hears of no majority but itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_a_cluster_by_itself_takes_in_others_after_it_was_idle() -> anyhow::Result<()>
{
    let groups = 4;
    let settings =
        Settings { nodes: 1, data_groups: groups, secret: Some(SECRET), ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    for queue in ["a", "b", "c", "d"] {
        client.create_queue(queue, client::v1::QueueProperties::default()).await?;
        let sender = client.sender(queue, SenderOptions::default());
        sender.submit(vec![Message::new(queue.as_bytes().to_vec())]).await?.await?;
    }
    // Longer than a leader may not be heard: nothing is asked of it, as in a night.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let second = cluster.join(1)?;
    cluster
        .wait_for_status("the second node's share", |status| {
            is_spread(status, &[1, second], groups, 1)
        })
        .await?;
    let third = cluster.join(second)?;
    cluster
        .wait_for_status("the third node's share", |status| {
            is_spread(status, &[1, second, third], groups, 1)
        })
        .await?;
    for queue in ["a", "b", "c", "d"] {
        let counters = client.get_queue(queue).await?.counters.unwrap_or_default();
        ensure!(counters.active == 1, "{queue}: {counters:?}");
    }
    Ok(())
}

/// Groups that a node leads.
fn led_by(status: &StatusResponse, node: u64) -> u32 {
    status.nodes.iter().find(|known| known.id == node).map_or(0, |known| known.groups_led)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_maintenance_leads_nothing_and_keeps_its_replicas() -> anyhow::Result<()> {
    let settings = Settings { data_groups: GROUPS, secret: Some(SECRET), ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let paced = LoadOptions { producers: 1, consumers: 1, ..LoadOptions::default() };
    let load = Load::start(&client, "orders", paced).await?;
    let all = [1, 2, 3];
    let leads_nothing = |status: &StatusResponse| {
        role(status, 2) == Some(NodeRole::Maintenance)
            && led_by(status, 2) == 0
            && is_spread_over(status, &all)
    };

    let told = run(&cluster, 1, &["maintenance", "on", "2"]).await?.map_err(anyhow::Error::msg)?;
    ensure!(told.contains("node 2 leads nothing"), "{told}");
    ensure!(leads_nothing(&client.status(false).await?), "it was waited for");
    // Nor after it was away, which is what it is for, nor where others end.
    cluster.kill(2)?;
    cluster.start_node(2)?;
    cluster.wait_for_status("node 2 to be there again", leads_nothing).await?;
    cluster.kill(1)?;
    cluster
        .wait_for_status("node 3 to lead alone", |status| {
            led_by(status, 3) == ALL_GROUPS && led_by(status, 2) == 0
        })
        .await?;
    cluster.start_node(1)?;
    cluster.wait_for_status("node 1 to be there again", leads_nothing).await?;

    run(&cluster, 1, &["maintenance", "off", "2"]).await?.map_err(anyhow::Error::msg)?;
    cluster
        .wait_for_status("node 2 to lead its share", |status| {
            role(status, 2) == Some(NodeRole::Active) && led_by(status, 2) >= ALL_GROUPS / 3 - 1
        })
        .await?;
    let refused = run(&cluster, 1, &["maintenance", "on", "9"]).await?.expect_err("there is none");
    ensure!(refused.contains("there is no node 9") && !refused.contains('\n'), "{refused}");
    let verdict = load.finish().await?;
    ensure!(verdict.holds(), "{:?}", verdict.violations);
    Ok(())
}

/// The level rises a moment after the founding.
fn can_add_groups(status: &StatusResponse) -> bool {
    status.feature_level >= FEATURE_LEVEL_MORE_GROUPS
}

/// The groups that these queues are on.
async fn groups_of(client: &Client, queues: &[String]) -> anyhow::Result<BTreeSet<u32>> {
    let mut groups = BTreeSet::new();
    for queue in queues {
        groups.insert(client.get_queue(queue).await?.group);
    }
    Ok(groups)
}

/// Creates queues of these names, and puts a message into each.
async fn fill(client: &Client, prefix: &str, count: usize) -> anyhow::Result<Vec<String>> {
    let queues: Vec<String> = (0..count).map(|number| format!("{prefix}-{number}")).collect();
    for queue in &queues {
        client.create_queue(queue, client::v1::QueueProperties::default()).await?;
        let sender = client.sender(queue.as_str(), SenderOptions::default());
        sender.submit(vec![Message::new(queue.as_bytes().to_vec())]).await?.await?;
    }
    Ok(queues)
}

/// Whether each of these has its message.
async fn ensure_filled(client: &Client, queues: &[String]) -> anyhow::Result<()> {
    for queue in queues {
        let messages = client.peek(&QueuePath::main(queue.clone()), 0, 2).await?;
        ensure!(messages.len() == 1, "{queue} has {} messages", messages.len());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn data_groups_are_added_under_load_and_new_queues_are_put_on_them() -> anyhow::Result<()> {
    let settings = Settings { data_groups: 2, secret: Some(SECRET), ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let probe = Probe::start(&client, &["early-a", "early-b"]).await?;
    cluster.wait_for_status("the feature level", can_add_groups).await?;
    let early = ["early-a".to_owned(), "early-b".to_owned()];
    let before = groups_of(&client, &early).await?;

    let told = run(&cluster, 1, &["groups", "5"]).await?.map_err(anyhow::Error::msg)?;
    ensure!(told.contains("there are 5 data groups"), "{told}");
    let status = client.status(false).await?;
    ensure!(status.data_groups == 5 && status.wrong.is_empty(), "{status:?}");
    ensure!(is_spread(&status, &[1, 2, 3], 5, FACTOR), "{status:?}");
    probe.phase("groups were added");
    let late = fill(&client, "late", 3).await?;
    ensure!(groups_of(&client, &late).await? == [3, 4, 5].into(), "each is put on an empty one");
    ensure!(groups_of(&client, &early).await? == before, "what is there stays");

    // Asked again, and of another node.
    run(&cluster, 2, &["groups", "5"]).await?.map_err(anyhow::Error::msg)?;
    let refused = run(&cluster, 2, &["groups", "4"]).await?.expect_err("never fewer");
    ensure!(
        refused.contains("there are 5 already, and never fewer") && !refused.contains('\n'),
        "{refused}"
    );

    // Its configuration says 2 still.
    cluster.kill(2)?;
    let refused = run(&cluster, 1, &["groups", "6"]).await?.expect_err("one does not answer");
    ensure!(refused.contains("start node 2, then ask again"), "{refused}");
    cluster.start_node(2)?;
    cluster
        .wait_for_status("node 2 to hold all again", |status| {
            status.data_groups == 5 && is_spread(status, &[1, 2, 3], 5, FACTOR)
        })
        .await?;
    // Each group has one, so five more are one for each.
    let later = fill(&client, "later", 5).await?;
    ensure!(groups_of(&client, &later).await? == (1..=5).collect(), "all of them are open");
    ensure_filled(&client, &late).await?;
    ensure_filled(&client, &later).await?;

    // One that joins knows them as well.
    let fourth = cluster.join(2)?;
    cluster
        .wait_for_status("the fourth node's share", |status| {
            is_spread(status, &[1, 2, 3, fourth], 5, FACTOR)
        })
        .await?;
    ensure_filled(&cluster.client_of(fourth)?, &late).await?;
    probe.finish(&client).await
}

/// A node that was refilled once has other replica ids than it was founded with; and one that is refilled
/// later must not found again what it has founded.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_lost_their_disks_found_new_groups_once() -> anyhow::Result<()> {
    let settings = Settings { data_groups: 2, secret: Some(SECRET), ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    cluster.wait_for_status("the feature level", can_add_groups).await?;
    let early = fill(&client, "early", 2).await?;
    let all = [1, 2, 3];
    for node in [2, 3] {
        cluster.kill(node)?;
        std::fs::remove_dir_all(cluster.data_path(node))?;
        cluster.start_node(node)?;
        cluster
            .wait_for_status("the node to be refilled", |status| is_spread(status, &all, 2, FACTOR))
            .await?;
        cluster.wait_all_vote().await?;
    }

    // Whoever leads the catalog dies as soon as it is decided: the rest goes on without it.
    let status = client.status(false).await?;
    let leads = status.groups.iter().find(|group| group.id == 0).map_or(0, |group| group.leader);
    let via = all.into_iter().find(|node| *node != leads).unwrap_or(1);
    run(&cluster, via, &["groups", "6", "--no-wait"]).await?.map_err(anyhow::Error::msg)?;
    cluster.kill(leads)?;
    cluster
        .wait_for_status("the new groups to be open without it", |status| status.data_groups == 6)
        .await?;
    let late = fill(&client, "late", 4).await?;
    ensure!(groups_of(&client, &late).await? == [3, 4, 5, 6].into(), "on each of the new ones");
    // Nor does it know any more what it may have founded.
    std::fs::remove_dir_all(cluster.data_path(leads))?;
    cluster.start_node(leads)?;
    cluster
        .wait_for_status("all groups to be whole", |status| is_spread(status, &all, 6, FACTOR))
        .await?;
    cluster.wait_all_vote().await?;
    // What the others hold alone is what it was refilled with.
    let other = all.into_iter().find(|node| *node != leads).unwrap_or(1);
    cluster.kill(other)?;
    ensure_filled(&client, &early).await?;
    ensure_filled(&client, &late).await
}
