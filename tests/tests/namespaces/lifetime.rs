//! Namespaces come, outlast restarts, and go with what is in them.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::QueueProperties;
use client::{Error, Message};
use mayfly_tests::{Cluster, Settings};

use super::native;

/// NS-2: each row: a name, and whether it is one.
#[tokio::test(flavor = "multi_thread")]
async fn ns_2_names_of_namespaces_are_what_hosts_begin_with() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = native(&cluster, None, None)?;
    for (name, is_one) in [
        ("orders", true),
        ("Team-7", true),
        ("orders", false),
        ("team-7", false),
        ("default", false),
        ("localhost", false),
        ("127", false),
        ("a.b", false),
        ("", false),
    ] {
        let created = client.create_namespace(name, None).await;
        let is_refused = matches!(created, Err(Error::Refused(_)));
        ensure!(created.is_ok() == is_one && is_refused != is_one, "{name}: {created:?}");
    }
    let names: Vec<String> = client.namespaces().await?.into_iter().map(|it| it.name).collect();
    ensure!(names == ["orders", "team-7"], "{names:?}");
    Ok(())
}

/// NS-6: the node dies in the middle, and what was begun is finished.
#[tokio::test(flavor = "multi_thread")]
async fn ns_6_a_deletion_that_was_begun_is_finished() -> anyhow::Result<()> {
    const QUEUES: u32 = 150;
    let settings = Settings { nodes: 1, data_groups: 2, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let operator = native(&cluster, None, None)?;
    operator.create_namespace("run", None).await?;
    let run = native(&cluster, Some("run"), None)?;
    for number in 0..QUEUES {
        run.create_queue(&format!("q{number}"), QueueProperties::default()).await?;
    }
    run.send("q7", vec![Message::new("hello")]).await?;
    operator.create_queue("kept", QueueProperties::default()).await?;
    ensure!(operator.namespace("run").await?.entities == QUEUES);
    let refused = operator.delete_namespace("run", false).await.err().context("it has queues")?;
    ensure!(refused.to_string().contains("'q0', 'q1'"), "{refused}");
    let deleting = tokio::spawn({
        let operator = operator.clone();
        async move { operator.delete_namespace("run", true).await }
    });
    let until = Instant::now() + Duration::from_secs(30);
    while operator.namespace("run").await.is_ok_and(|it| it.entities == QUEUES) {
        ensure!(Instant::now() < until, "nothing is deleted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cluster.kill(1)?;
    deleting.abort();
    cluster.start_node(1)?;
    cluster.wait_ready().await?;
    let until = Instant::now() + Duration::from_secs(60);
    while !operator.namespaces().await?.is_empty() {
        ensure!(Instant::now() < until, "{:?}", operator.namespaces().await?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(operator.get_queue("kept").await?.name == "kept");
    // One of that name shares nothing with it.
    operator.create_namespace("run", None).await?;
    ensure!(run.list_queues("").await?.is_empty());
    run.create_queue("q7", QueueProperties::default()).await?;
    let peeked = run.peek(&client::QueuePath::main("q7"), 0, 10).await?;
    ensure!(peeked.is_empty(), "{peeked:?}");
    Ok(())
}
