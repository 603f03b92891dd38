//! Harm to links: what is said over them arrives late, slowly, in part, or not at all.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::Error;
use crate::cluster::Cluster;
use crate::plan::{Direction, FaultKind, Others, Planned};
use crate::proxy::{Condition, Flow};

/// Hurts the links of a node that the fault names; what was done. `Err` within: why it was not.
pub async fn hurt(
    cluster: &Cluster,
    node: u64,
    whose: &str,
    fault: &Planned,
    random: &mut ChaCha8Rng,
) -> Result<Result<String, String>, Error> {
    let seconds = fault.lasts_ms as f64 / 1e3;
    let healthy = Condition::default();
    let (condition, told) = match fault.kind {
        FaultKind::Delay => {
            let delay = Duration::from_millis(random.random_range(10..120));
            let jitter = Duration::from_millis(random.random_range(0..200));
            let told = format!("delayed {whose} by {delay:?} and up to {jitter:?} more");
            (Condition { delay, jitter, ..healthy }, told)
        }
        FaultKind::Loss => {
            let loss = random.random_range(0.02..0.3);
            let told = format!("lost {:.0}% of segments of {whose}", loss * 100.0);
            (Condition { loss, ..healthy }, told)
        }
        FaultKind::Slow => {
            let speed = random.random_range(16..256) * 1024;
            let told = format!("slowed {whose} to {} KiB/s", speed / 1024);
            (Condition { bytes_per_second: Some(speed), ..healthy }, told)
        }
        // A partition; no other kind comes here.
        _ => (Condition { cut: true, ..healthy }, format!("cut {whose}")),
    };
    let mut flows = Vec::new();
    for (from, to) in named(cluster, node, fault) {
        if let Err(why) = cluster.condition((from, to), condition).await? {
            // Some may be hurt by then.
            cluster.heal().await?;
            return Ok(Err(why));
        }
        flows.push(format!("{}→{}", name(from), name(to)));
    }
    Ok(Ok(format!("{told}: {}; for {seconds:.1} s", flows.join(" "))))
}

/// Every direction that a fault names.
fn named(cluster: &Cluster, node: u64, fault: &Planned) -> Vec<Flow> {
    let others: Vec<u64> = match fault.others {
        Others::Clients => vec![0],
        Others::Node(other) if other != node => vec![other],
        // The node itself was drawn.
        Others::Nodes | Others::Node(_) => {
            cluster.ids().into_iter().filter(|other| *other != node).collect()
        }
    };
    let directions = |other| match fault.direction {
        Direction::Both => vec![(node, other), (other, node)],
        Direction::Out => vec![(node, other)],
        Direction::In => vec![(other, node)],
    };
    others.into_iter().flat_map(directions).collect()
}

fn name(node: u64) -> String {
    if node == 0 { "clients".to_owned() } else { node.to_string() }
}
