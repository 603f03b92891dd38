//! A node that needs snapshots, and gets damaged ones.

use std::time::Duration;

use tokio::time::Instant;

use super::{WHOLE_WITHIN, damage, process};
use crate::Error;
use crate::cluster::Cluster;
use crate::proxy::Condition;

/// A wiped node must first be taken in again.
const SENT_WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Wipes a node, and from then on flips bits of every snapshot that it is sent. `Err`: why it was not
/// done.
pub async fn harm(cluster: &mut Cluster, node: u64) -> Result<Result<(), String>, Error> {
    if !cluster.has_links() {
        let why = "only proxies look into what is sent; leave --namespaces";
        return Ok(Err(why.to_owned()));
    }
    let others: Vec<u64> = cluster.ids().into_iter().filter(|other| *other != node).collect();
    for other in &others {
        // A node that has written its rows to disk forgets its log up to there: who then needs what is
        // forgotten is sent a snapshot.
        let process = process(cluster, *other)?;
        process.stop().await;
        process.start(&[])?;
        if let Err(why) = cluster.wait_whole(WHOLE_WITHIN).await {
            return Ok(Err(format!("node {other} was to forget its log, and is not whole: {why}")));
        }
    }
    let process = process(cluster, node)?;
    process.may_die = true;
    process.kill();
    damage::wipe(process.data()).map_err(Error::io(process.data().display().to_string()))?;
    process.start(&[])?;
    cluster.links.take_flipped();
    for other in others {
        let harmful = Condition { harms_snapshots: true, ..Condition::default() };
        cluster.links.set((other, node), harmful);
    }
    Ok(Ok(()))
}

/// Waits until a snapshot was hit, and lets the next ones pass; what was done.
pub async fn end(cluster: &mut Cluster) -> Result<String, Error> {
    let until = Instant::now() + SENT_WITHIN;
    let mut flipped = cluster.links.take_flipped();
    while flipped == 0 && Instant::now() < until {
        for process in cluster.nodes.values_mut() {
            process.revive()?;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        flipped = cluster.links.take_flipped();
    }
    cluster.heal().await?;
    Ok(match flipped {
        0 => "; none was sent".to_owned(),
        1 => "; one bit was flipped".to_owned(),
        bits => format!("; {bits} bits were flipped"),
    })
}
