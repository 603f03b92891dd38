//! Watches what the cluster does by itself, with a bar where a person looks, and a line per change
//! where nobody does. Only reads: it may be interrupted and started again at any time.

use std::time::Duration;

use client::{Client, v1};
use tokio::time::{Instant, sleep};

use crate::terminal;

const LOOK: Duration = Duration::from_millis(500);
/// Leaderships are handed over some seconds after replicas have moved. What does not change for so
/// long is as even as it gets.
const STILL: Duration = Duration::from_secs(15);

/// Until a node holds and leads nothing.
pub async fn drained(client: &Client, node: u64) -> anyhow::Result<()> {
    let left = |status: &v1::StatusResponse| match find(status, node) {
        Some(known) if known.role() == v1::NodeRole::Draining => {
            u64::from(known.replicas + known.groups_led).max(1)
        }
        // Drained, or removed meanwhile.
        Some(_) | None => 0,
    };
    until_none(client, &format!("draining node {node}"), left).await
}

/// Until a node in maintenance leads nothing.
pub async fn leads_nothing(client: &Client, node: u64) -> anyhow::Result<()> {
    let left = |status: &v1::StatusResponse| match find(status, node) {
        Some(known) if known.role() == v1::NodeRole::Maintenance => u64::from(known.groups_led),
        // No longer, or removed meanwhile.
        Some(_) | None => 0,
    };
    until_none(client, &format!("handing over what node {node} leads"), left).await
}

/// Until entities are put on so many data groups.
pub async fn groups_open(client: &Client, count: u32) -> anyhow::Result<()> {
    let left = |status: &v1::StatusResponse| u64::from(count.saturating_sub(status.data_groups));
    until_none(client, "founding groups", left).await
}

/// Until what a dead node held is held by others.
pub async fn replaced(client: &Client, node: u64) -> anyhow::Result<()> {
    let left = |status: &v1::StatusResponse| {
        find(status, node).map_or(0, |known| u64::from(known.replicas))
    };
    until_none(client, &format!("replacing node {node}"), left).await
}

/// Until a node runs and replicas are spread evenly.
pub async fn joined(client: &Client, node: u64) -> anyhow::Result<()> {
    let waiting = format!("waiting for node {node}");
    let away = |status: &v1::StatusResponse| {
        let is_in = |known: &v1::NodeStatus| {
            let stays = [v1::NodeRole::Active, v1::NodeRole::Maintenance].contains(&known.role());
            known.reachable && stays
        };
        u64::from(!find(status, node).is_some_and(is_in))
    };
    until_none(client, &waiting, away).await?;
    even(client).await
}

/// Until replicas and leaders are spread evenly, or nothing changes any more.
pub async fn even(client: &Client) -> anyhow::Result<()> {
    let mut still = Still::new();
    let mut are_bound = false;
    let replicas = |status: &v1::StatusResponse| {
        let left = uneven(status, |node| node.replicas);
        // Zones with few nodes may not permit that all hold equally much.
        let have_zones = status.nodes.iter().any(|node| node.zone.is_some());
        are_bound = still.look(left, is_moving(status)) && have_zones;
        if are_bound { 0 } else { left }
    };
    until_none(client, "spreading replicas", replicas).await?;
    let mut still = Still::new();
    let leaders = |status: &v1::StatusResponse| {
        let left = uneven(status, |node| node.groups_led);
        if still.look(left, false) { 0 } else { left }
    };
    until_none(client, "spreading leaders", leaders).await?;
    let bound = if are_bound { ", as far as zones permit" } else { "" };
    terminal::line(format!("replicas and leaders are spread evenly{bound}"))
}

/// Since when something is as it is.
struct Still {
    left: u64,
    since: Instant,
}

impl Still {
    fn new() -> Still {
        Still { left: 0, since: Instant::now() }
    }

    /// Whether as many are left as for long, and nothing is under way.
    fn look(&mut self, left: u64, is_moving: bool) -> bool {
        if left != self.left || is_moving {
            *self = Still { left, since: Instant::now() };
        }
        left > 0 && self.since.elapsed() > STILL
    }
}

/// Whether some replica is on its way.
fn is_moving(status: &v1::StatusResponse) -> bool {
    let data = status.groups.iter().filter(|group| group.id != 0);
    data.flat_map(|group| &group.replicas).any(|replica| !replica.voter)
}

fn find(status: &v1::StatusResponse, node: u64) -> Option<&v1::NodeStatus> {
    status.nodes.iter().find(|known| known.id == node)
}

/// How many of something would have to move for no active node to have two more than another.
fn uneven(status: &v1::StatusResponse, of: impl Fn(&v1::NodeStatus) -> u32) -> u64 {
    let active = |node: &&v1::NodeStatus| node.reachable && node.role() == v1::NodeRole::Active;
    let counts: Vec<u32> = status.nodes.iter().filter(active).map(of).collect();
    let (sum, count) = (counts.iter().sum::<u32>(), counts.len() as u32);
    if counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0) <= 1 {
        return 0;
    }
    let most = sum.div_ceil(count.max(1));
    let over: u32 = counts.iter().map(|count| count.saturating_sub(most)).sum();
    u64::from(over.max(1))
}

/// Looks until nothing is left. A cluster that does not answer for a while is asked again: what is
/// watched goes on without the watcher.
async fn until_none(
    client: &Client,
    what: &str,
    mut left: impl FnMut(&v1::StatusResponse) -> u64,
) -> anyhow::Result<()> {
    let (mut total, mut last) = (0, None);
    let bar = terminal::steps(what);
    loop {
        let now = left(&client.status(false).await?);
        if last != Some(now) {
            total = total.max(now);
            bar.set_length(total.max(1));
            bar.set_position(total - now);
            if !terminal::is_terminal() && total > 0 {
                terminal::line(format!("{what}: {} of {total} done", total - now))?;
            }
            last = Some(now);
        }
        if now == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_uneven_is_counted() {
        for (counts, expected) in [
            (&[][..], 0),
            (&[7], 0),
            (&[4, 4, 4], 0),
            (&[4, 5, 4], 0),
            (&[12, 12, 12, 0], 9),
            (&[6, 4, 4], 1),
            (&[5, 5, 5, 3], 1),
        ] {
            let node = |replicas: &u32| v1::NodeStatus {
                replicas: *replicas,
                reachable: true,
                role: v1::NodeRole::Active.into(),
                ..Default::default()
            };
            let nodes = counts.iter().map(node).collect();
            let status = v1::StatusResponse { nodes, ..Default::default() };
            assert_eq!(uneven(&status, |node| node.replicas), expected, "{counts:?}");
        }
    }
}
