//! Nodes that are told where they stand: real processes, which spread the replicas of each group over
//! zones by themselves, so that a whole zone may be lost.

use std::collections::BTreeSet;
use std::process::Stdio;

use anyhow::ensure;
use client::v1::{QueueProperties, StatusResponse};
use client::{Message, SenderOptions};
use mayfly_tests::{Cluster, Load, LoadOptions, Settings, mayfly};
use tokio::process::Command;

const ZONES: &[&str] = &["a", "a", "b", "b", "c", "c"];
const GROUPS: u16 = 6;
const QUEUES: usize = 12;

/// The zones in which a group has voters, one for each.
fn zones(group: &client::v1::GroupStatus) -> Vec<&'static str> {
    let voters = group.replicas.iter().filter(|replica| replica.voter && replica.reachable);
    voters.map(|replica| ZONES[replica.node as usize - 1]).collect()
}

fn is_spread(status: &StatusResponse) -> bool {
    let data = || status.groups.iter().filter(|group| group.id != 0);
    data().count() == usize::from(GROUPS)
        && data().all(|group| {
            let zones = zones(group);
            group.leader != 0
                && group.replicas.len() == 3
                && zones.len() == 3
                && zones.into_iter().collect::<BTreeSet<_>>().len() == 3
        })
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_spread_over_zones_and_outlast_the_loss_of_one() -> anyhow::Result<()> {
    let settings = Settings {
        nodes: ZONES.len() as u64,
        data_groups: GROUPS,
        memory_mebibytes: Some(64),
        zones: ZONES,
        ..Settings::default()
    };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let paced = LoadOptions { producers: 1, consumers: 1, ..LoadOptions::default() };
    let load = Load::start(&client, "orders", paced).await?;
    for queue in 0..QUEUES {
        client.create_queue(&format!("q{queue}"), QueueProperties::default()).await?;
    }
    // Founded in the order of the nodes, two of which are in one zone.
    cluster.wait_for_status("groups to be spread over zones", is_spread).await?;
    cluster
        .wait_for_status("nothing to be wrong", |status| {
            is_spread(status) && status.wrong.is_empty()
        })
        .await?;

    let output = Command::new(mayfly()?)
        .args(["cluster", "status", "--connect", cluster.addresses(3)[0]])
        .stdin(Stdio::null())
        .output()
        .await?;
    let told = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let header = told.lines().find(|line| line.starts_with("NODE")).unwrap_or_default();
    ensure!(header.split_whitespace().any(|column| column == "ZONE"), "{told}");

    cluster.kill(1)?;
    cluster.kill(2)?;
    cluster
        .wait_for_status("others to lead what the lost zone led", |status| {
            status.groups.iter().all(|group| group.leader > 2)
        })
        .await?;
    for queue in 0..QUEUES {
        let sender = client.sender(format!("q{queue}"), SenderOptions::default());
        sender.submit(vec![Message::new(b"after".to_vec())]).await?.await?;
    }
    cluster.start_node(1)?;
    cluster.start_node(2)?;
    cluster.wait_for_status("the zone to be there again", is_spread).await?;
    let verdict = load.finish().await?;
    ensure!(verdict.holds(), "{:?}", verdict.violations);
    Ok(())
}
