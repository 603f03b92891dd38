//! What of a configuration changes while a node runs.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::ensure;
use client::Message;
use mayfly_tests::{Cluster, Settings};
use nix::sys::signal::Signal;

const WITHIN: Duration = Duration::from_secs(20);

/// Until the node's log has a text more often than before.
async fn is_told(cluster: &Cluster, text: &str, before: usize) -> anyhow::Result<()> {
    let until = Instant::now() + WITHIN;
    while cluster.node_log(1).matches(text).count() <= before {
        ensure!(Instant::now() < until, "'{text}' is not told:\n{}", cluster.last_words(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn log_levels_change_on_sighup_and_by_themselves_and_a_wrong_one_changes_nothing()
-> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let (path, debug) = (cluster.config_path(1).to_owned(), " DEBUG ");
    let base = fs::read_to_string(&path)?;
    let with = |filter: &str| fs::write(&path, format!("{base}\n[log]\nfilter = \"{filter}\"\n"));
    let lines = |cluster: &Cluster| cluster.node_log(1).matches(debug).count();
    ensure!(lines(&cluster) == 0, "it logs at info");
    // A group that has nothing to do sleeps, and has nothing to say.
    let client = cluster.client()?;
    client.create_queue("q", Default::default()).await?;
    let busy = tokio::spawn(async move {
        while client.send("q", vec![Message::new("m")]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });

    with("info,openraft=debug")?;
    cluster.signal(1, Signal::SIGHUP)?;
    is_told(&cluster, "the log's filter was read again", 0).await?;
    is_told(&cluster, debug, 0).await?;

    with("inof")?;
    cluster.signal(1, Signal::SIGHUP)?;
    is_told(&cluster, "log levels stay as they were: ", 0).await?;
    let before = lines(&cluster);
    is_told(&cluster, debug, before).await?;

    // Nobody asks for it.
    with("info")?;
    is_told(&cluster, "the log's filter was read again", 1).await?;
    let before = lines(&cluster);
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(lines(&cluster) == before, "debug is logged still");
    ensure!(!busy.is_finished(), "it takes messages all the while");
    Ok(())
}
