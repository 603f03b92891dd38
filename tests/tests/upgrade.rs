//! Clusters of several versions: what is new waits for all nodes, and there is a way back until then.
//! `tests/upgrade.sh` does the second half with the previous release's binary.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use client::Message;
use client::v1::{QueueProperties, StatusResponse};
use domain::FEATURE_LEVEL_KNOWN;
use mayfly_tests::{Cluster, Settings, mayfly};

/// One that an operator holds back: as 0.1 founds clusters.
const HELD: u32 = 1;
const HOLDER: u64 = 2;

fn formats(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let format = |node| {
        let text = fs::read_to_string(cluster.data_path(node).join("mayfly-data"))?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    cluster.ids().map(format).collect()
}

fn partitioned() -> QueueProperties {
    QueueProperties { enable_partitioning: Some(true), ..QueueProperties::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_that_is_held_back_leaves_what_was_and_rises_without() -> anyhow::Result<()> {
    let odd = Some((HOLDER, &["--feature-level-max", "1"][..]));
    let mut cluster = Cluster::start(Settings { odd, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("orders", QueueProperties::default()).await?;
    client.send("orders", vec![Message::new("one")]).await?;

    let status = client.status(false).await?;
    ensure!(status.feature_level == HELD, "{status:?}");
    for node in &status.nodes {
        let told = if node.id == HOLDER { HELD } else { FEATURE_LEVEL_KNOWN };
        ensure!(node.feature_level == Some(told), "{node:?}");
    }
    ensure!(formats(&cluster)?.iter().all(|format| format == "format = 2"), "0.1 reads them");
    let refused = client.create_queue("parts", partitioned()).await.expect_err("0.1 reads none");
    ensure!(refused.to_string().contains("feature level"), "{refused}");

    cluster.stop(HOLDER)?;
    cluster.set_flags(HOLDER, &[]);
    cluster.start_node(HOLDER)?;
    let has_risen = |status: &StatusResponse| status.feature_level == FEATURE_LEVEL_KNOWN;
    cluster.wait_for_status("the feature level to rise", has_risen).await?;
    client.create_queue("parts", partitioned()).await?;
    for _ in 0..100 {
        if formats(&cluster)?.iter().all(|format| format == "format = 3") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("0.1 would read what it does not understand: {:?}", formats(&cluster)?)
}

/// With `MAYFLY_PREVIOUS`: its nodes are upgraded and taken back under all workloads, until they cannot be.
#[test]
fn a_rolling_upgrade_from_the_previous_release_and_back_loses_nothing() -> anyhow::Result<()> {
    let Some(previous) = std::env::var_os("MAYFLY_PREVIOUS") else {
        println!("SKIPPED: MAYFLY_PREVIOUS names no binary; tests/upgrade.sh makes one");
        return Ok(());
    };
    let mut chaos = Command::new(mayfly()?);
    chaos.args(["chaos", "--minutes", "1.5", "--json", "--previous"]).arg(previous);
    let done = chaos.output()?;
    let (told, said) = (String::from_utf8(done.stderr)?, String::from_utf8(done.stdout)?);
    ensure!(done.status.success(), "{}: {told}\n{said}", done.status);
    ensure!(told.contains("the previous release refused the data of node 3"), "{told}");
    Ok(())
}
