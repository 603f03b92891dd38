//! Binaries that are replaced: by a later one, and by an earlier one as long as there is a way back.

use std::time::Duration;

use tokio::time::Instant;

use super::process;
use crate::Error;
use crate::cluster::Cluster;

/// Once the last node runs the binary of today, and has been compared with the others' clocks.
const LEVEL_RISES_WITHIN: Duration = Duration::from_secs(30);
const REFUSES_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What the previous release says of a directory that it must not touch.
const REFUSAL: &str = "newer version";

/// Says what was done, or why it was not done.
pub async fn upgrade(cluster: &mut Cluster, node: u64) -> Result<Result<String, String>, Error> {
    let (today, _) = cluster.releases()?;
    let process = process(cluster, node)?;
    if process.program() == today {
        return Ok(Err("it runs the binary of today already".to_owned()));
    }
    process.stop().await;
    process.set_program(today);
    process.start(&[])?;
    Ok(Ok(format!("upgraded node {node}")))
}

/// As [`upgrade`], the other way. Where there is none the previous release must say so, and the node goes on as it was.
pub async fn downgrade(cluster: &mut Cluster, node: u64) -> Result<Result<String, String>, Error> {
    let (today, previous) = cluster.releases()?;
    if process(cluster, node)?.program() == previous {
        return Ok(Err("it runs the previous release already".to_owned()));
    }
    let is_over = cluster.nodes.values().all(|process| process.program() == today);
    if is_over && let Err(level) = has_risen(cluster, node).await {
        let told = format!("all nodes run the binary of today, and the level is {level}");
        process(cluster, node)?.deaths.push(told.clone());
        return Ok(Err(told));
    }
    let process = process(cluster, node)?;
    process.stop().await;
    process.set_program(previous);
    process.start(&[])?;
    if !is_over {
        return Ok(Ok(format!("took node {node} back to the previous release")));
    }
    let until = Instant::now() + REFUSES_WITHIN;
    let said = loop {
        match process.end() {
            Some((_, said)) => break said,
            None if Instant::now() > until => break "it runs".to_owned(),
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    if !said.contains(REFUSAL) {
        let told = format!("the previous release was to refuse what later ones wrote: {said}");
        process.deaths.push(told);
    }
    process.kill();
    process.set_program(today);
    process.start(&[])?;
    Ok(Ok(format!("the previous release refused the data of node {node}: {said}")))
}

/// Waits until the cluster's feature level is what the node knows; what it is, if it does not rise.
async fn has_risen(cluster: &Cluster, node: u64) -> Result<(), u32> {
    let until = Instant::now() + LEVEL_RISES_WITHIN;
    loop {
        let client = cluster.client_of(node).ok();
        let status = match &client {
            Some(client) => client.status(true).await.ok(),
            None => None,
        };
        let level = status.as_ref().map_or(0, |status| status.feature_level);
        let of_node = status.iter().flat_map(|status| &status.nodes).find(|it| it.id == node);
        if of_node.and_then(|node| node.feature_level).is_some_and(|known| known == level) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(level);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
