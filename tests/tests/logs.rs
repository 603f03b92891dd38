//! What nodes log: in words of ours, at levels by which somebody can be woken.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::ensure;
use client::v1::QueueProperties;
use client::{Message, QueuePath};
use mayfly_tests::{Cluster, Settings};

/// Lines of a node's log that have all of these words.
fn lines(cluster: &Cluster, node: u64, words: &[&str]) -> anyhow::Result<Vec<String>> {
    let log = fs::read_to_string(cluster.config_path(node).with_file_name("node.log"))?;
    let found = log.lines().filter(|line| words.iter().all(|word| line.contains(word)));
    Ok(found.map(str::to_owned).collect())
}

/// Waits for such a line.
async fn wait_logged(cluster: &Cluster, node: u64, words: &[&str]) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while lines(cluster, node, words)?.is_empty() {
        ensure!(Instant::now() < until, "node {node} does not log {words:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// A node that is away is a warning, and one that is back is told; that all end as they were told to is no error.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_away_is_a_warning_and_a_planned_end_is_none() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    client.create_queue("q", QueueProperties::default()).await?;
    for node in cluster.ids() {
        let alarming = lines(&cluster, node, &["a peer is away"])?;
        // While it was founded, nodes may have looked for each other.
        ensure!(alarming.iter().all(|line| line.contains(" WARN ")), "node {node}: {alarming:?}");
    }
    cluster.kill(3)?;
    for node in [1, 2] {
        wait_logged(&cluster, node, &["WARN", "a peer is away", "node=3"]).await?;
    }
    cluster.start_node(3)?;
    cluster.wait_ready().await?;
    for node in [1, 2] {
        wait_logged(&cluster, node, &["INFO", "a peer is back", "node=3"]).await?;
    }
    for node in cluster.ids() {
        cluster.stop(node)?;
    }
    for node in cluster.ids() {
        for words in [&[" ERROR "][..], &["openraft"], &["shard"]] {
            let found = lines(&cluster, node, words)?;
            ensure!(found.is_empty(), "node {node}: {found:#?}");
        }
        ensure!(!lines(&cluster, node, &["INFO", "ended"])?.is_empty(), "node {node} has ended");
    }
    Ok(())
}

/// Each change of an entity is one line, in the log of the node that did it.
#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_an_entity_is_a_line_of_one_nodes_log() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    client.create_queue("orders", QueueProperties::default()).await?;
    let shorter = QueueProperties { lock_duration_ms: Some(10_000), ..Default::default() };
    client.update_queue("orders", shorter).await?;
    client.send("orders", vec![Message::new("to be purged")]).await?;
    client.delete_batch(&QueuePath::main("orders"), 100, None).await?;
    client.delete_queue("orders").await?;
    for node in cluster.ids() {
        cluster.stop(node)?;
    }
    for event in ["entity.create", "entity.update", "messages.purge", "entity.delete"] {
        let event = format!("event=\"{event}\"");
        let mut told = Vec::new();
        for node in cluster.ids() {
            told.extend(lines(&cluster, node, &[&event, "'orders'", " INFO "])?);
        }
        ensure!(told.len() == 1, "{event}: {told:#?}");
    }
    Ok(())
}
