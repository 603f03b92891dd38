//! Machines without power: their processes end at once, and of what these had written and not synced a
//! part is lost.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::process;
use crate::Error;
use crate::cluster::Cluster;

/// How long a node may take to open its data and say what it lost.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What it says then.
const LOST: &str = "the log lost ";

/// Ends these nodes, all at one moment.
pub fn cut(cluster: &mut Cluster, nodes: &[u64]) -> Result<(), Error> {
    for node in nodes {
        process(cluster, *node)?.signal(Signal::SIGKILL);
    }
    for node in nodes {
        process(cluster, *node)?.kill(); // Waits until it is gone.
    }
    Ok(())
}

/// Starts them again, with what is left to them; what they lost.
pub async fn restore(cluster: &mut Cluster, nodes: &[u64], seed: u64) -> Result<String, Error> {
    let mut since = Vec::new();
    for node in nodes {
        let process = process(cluster, *node)?;
        since.push(process.logged_bytes());
        process.start(&[format!("--lose-unsynced={}", seed.wrapping_add(*node))])?;
    }
    let until = Instant::now() + TOLD_WITHIN;
    let mut told = String::new();
    for (node, since) in nodes.iter().zip(since) {
        let process = process(cluster, *node)?;
        let mut line = process.logged(LOST, since);
        while line.is_none() && Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
            line = process.logged(LOST, since);
        }
        let lost = line.as_deref().and_then(|line| line.strip_prefix(LOST));
        let lost = lost.unwrap_or("something that it does not tell");
        told += &format!("; node {node} lost {lost}");
    }
    Ok(told)
}
