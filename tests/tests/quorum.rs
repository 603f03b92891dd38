//! Clusters without a majority, and nodes that no peer lets in: nothing says that it can serve, nobody
//! dead is named as a leader, what is asked is refused at once, and all is well again by itself.

use std::time::{Duration, Instant};
use std::{fs, iter};

use amqp_protocol::codec::{DeliveryState, Outcome};
use amqp_protocol::message::MessageBuilder;
use anyhow::ensure;
use client::{Client, ClientOptions, Error, Message};
use mayfly_tests::{AmqpClient, Cluster, HttpAnswer, Settings, ask, cert, mayfly};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
/// How long a node may take to see that a majority is gone: 4 s, and what a busy machine takes.
const SEEN_WITHIN: Duration = Duration::from_secs(10);
/// An answer at once, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(2);
const BACK_WITHIN: Duration = Duration::from_secs(60);

fn probe(cluster: &Cluster, node: u64, path: &str) -> anyhow::Result<HttpAnswer> {
    ask(cluster.addresses(node)[1], &format!("GET {path}"), "", "")
}

/// Sends by plain HTTP, which tries nothing again.
fn post(cluster: &Cluster, node: u64) -> anyhow::Result<HttpAnswer> {
    ask(cluster.addresses(node)[1], "POST /orders/messages", "", "hello")
}

/// Waits until a node says of itself that it is ready, or that it is not; what it says then.
async fn until_ready(cluster: &Cluster, node: u64, ready: bool) -> anyhow::Result<String> {
    let until = Instant::now() + if ready { BACK_WITHIN } else { SEEN_WITHIN };
    loop {
        let answer = probe(cluster, node, "/health/ready");
        let status = if ready { 200 } else { 503 };
        match answer {
            Ok(answer) if answer.status == status => return Ok(answer.body),
            answer => {
                let told = answer.map(|answer| answer.body);
                ensure!(Instant::now() < until, "node {node} is not {status} but {told:?}");
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The values of a metric, one for each of its series.
fn values(metrics: &str, name: &str) -> Vec<f64> {
    let series = metrics.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    });
    series.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
}

/// What `mayfly cluster check` finds that is not well, and its exit code.
fn check(cluster: &Cluster, node: u64) -> anyhow::Result<(Option<i32>, Vec<String>)> {
    let shown = std::process::Command::new(mayfly()?)
        .args(["cluster", "check", "--connect", cluster.addresses(node)[0]])
        .output()?;
    let told = String::from_utf8(shown.stdout)?;
    let wrong = told.lines().filter(|line| !line.starts_with("ok ")).map(str::to_owned).collect();
    Ok((shown.status.code(), wrong))
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_says_that_it_serves_and_requests_are_refused_at_once()
-> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    cluster.client()?.create_queue("orders", Default::default()).await?;
    for node in cluster.ids() {
        until_ready(&cluster, node, true).await?;
    }
    let metrics = probe(&cluster, 1, "/metrics")?.body;
    ensure!(values(&metrics, "mayfly_peer_up") == [1.0, 1.0], "{metrics}");
    // Told by the leader alone.
    let mut margins = Vec::new();
    for node in cluster.ids() {
        margins
            .extend(values(&probe(&cluster, node, "/metrics")?.body, "mayfly_group_quorum_margin"));
    }
    margins.retain(|margin| !margin.is_nan());
    ensure!(margins == [1.0, 1.0, 1.0], "{margins:?}");
    let (code, wrong) = check(&cluster, 1)?;
    ensure!(code == Some(0) && wrong.is_empty(), "{code:?}: {wrong:?}");
    // Who sends already learns it on the way.
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let sender = amqp.sender("orders").await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    for node in [2, 3] {
        cluster.kill(node)?;
    }

    until_ready(&cluster, 1, false).await?;
    // One group is seen without a leader a moment before the other, and sends are refused a little later
    // than the probe says so: an election is waited for.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let why = until_ready(&cluster, 1, false).await?;
    ensure!(
        why.contains("groups 0, 1, 2 have no leader that a majority confirms")
            && why.contains("node 2 does not answer")
            && why.contains("node 3 does not answer"),
        "{why}"
    );
    let metrics = probe(&cluster, 1, "/metrics")?.body;
    ensure!(values(&metrics, "mayfly_group_has_leader") == [0.0, 0.0, 0.0], "{metrics}");
    ensure!(values(&metrics, "mayfly_peer_up") == [0.0, 0.0], "{metrics}");
    let details = probe(&cluster, 1, "/health/details")?.body;
    ensure!(!details.contains("\"leader\""), "{details}");
    let status = cluster.client_of(1)?.status(false).await?;
    ensure!(status.groups.len() == 3, "{status:?}");
    ensure!(status.groups.iter().all(|group| group.leader == 0), "{status:?}");
    ensure!(status.nodes.iter().all(|node| node.groups_led == 0), "{status:?}");
    let shown = std::process::Command::new(mayfly()?)
        .args(["cluster", "status", "--connect", cluster.addresses(1)[0]])
        .output()?;
    let told = String::from_utf8_lossy(&shown.stdout);
    ensure!(shown.status.code() == Some(1), "{shown:?}");
    let wrong: Vec<&str> = told.lines().filter(|line| line.starts_with("WRONG: ")).collect();
    let expected = [
        "WRONG: groups 0, 1, 2 stand still: no majority confirms a leader",
        "WRONG: node 2 is not reachable",
        "WRONG: node 3 is not reachable",
    ];
    ensure!(wrong.starts_with(&expected), "{told}");
    let (code, wrong) = check(&cluster, 1)?;
    ensure!(code == Some(2), "{code:?}: {wrong:?}");
    let expected = [
        "warning   nodes         node 2 does not answer; node 3 does not answer",
        "critical  leaders       the catalog has no leader; group 1 has no leader; group 2 has no leader",
        "critical  quorum        the catalog has no majority; group 1 has no majority; group 2 has no majority",
    ];
    ensure!(wrong.starts_with(&expected.map(str::to_owned)), "{wrong:?}");

    let begun = Instant::now();
    let answer = post(&cluster, 1)?;
    ensure!(begun.elapsed() < AT_ONCE, "refused after {:?}", begun.elapsed());
    ensure!(answer.status == 503 && answer.header("retry-after") == Some("5"), "{}", answer.head);
    ensure!(answer.body.contains("no majority of group"), "{}", answer.body);

    let begun = Instant::now();
    let message = MessageBuilder::default().data(&b"hello"[..]).build();
    let told = amqp.send(sender, 0, message).await?;
    ensure!(begun.elapsed() < AT_ONCE, "refused after {:?}", begun.elapsed());
    let DeliveryState::Outcome(Outcome::Rejected(Some(error))) = &told else {
        anyhow::bail!("{told:?}");
    };
    ensure!(error.condition == amqp::condition::SERVER_BUSY.into(), "{error:?}");

    let options = ClientOptions { give_up_after: AT_ONCE, ..ClientOptions::default() };
    let client = Client::with_options([cluster.addresses(1)[0]], options)?;
    match client.send("orders", vec![Message::new("hello")]).await {
        Err(Error::NotDone(detail)) => {
            ensure!(detail.message.contains("no majority of group"), "{detail:?}");
        }
        other => anyhow::bail!("{other:?}"),
    }

    for node in [2, 3] {
        cluster.start_node(node)?;
    }
    until_ready(&cluster, 1, true).await?;
    let answer = post(&cluster, 1)?;
    ensure!(answer.status == 201, "{}", answer.body);
    Ok(())
}

/// A leader that dies is followed by another within a second or two: that is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn an_election_refuses_nothing() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    let queue = client.create_queue("orders", Default::default()).await?;
    for (leader, heir) in [(1, 2), (2, 3)] {
        until_ready(&cluster, leader, true).await?;
        client.transfer_leader(queue.group, leader).await?;
        ensure!(post(&cluster, heir)?.status == 201);
        cluster.kill(leader)?;
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            let answer = post(&cluster, heir)?;
            // What the dead one was asked is perhaps done, and said to be.
            let is_doubtful = answer.body.contains("may still have been done");
            ensure!(answer.status == 201 || is_doubtful, "{}", answer.body);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        cluster.start_node(leader)?;
        until_ready(&cluster, leader, true).await?;
    }
    Ok(())
}

/// Each row: what makes all others refuse a node.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_every_peer_refuses_is_not_ready() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    for (what, peer_tls, told) in [
        ("another secret", false, "refuses this node"),
        ("a certificate of another authority", true, "does not answer"),
    ] {
        let secret = Some("the secret of the cluster");
        let settings = Settings { data_groups: 1, secret, peer_tls, ..Settings::default() };
        let mut cluster = Cluster::start(settings).await?;
        until_ready(&cluster, 3, true).await?;
        cluster.stop(3)?;
        let config = cluster.config_path(3).to_owned();
        let text = fs::read_to_string(&config)?;
        let elsewhere = cluster.dir().join("elsewhere");
        let changed = match peer_tls {
            false => text.replace("the secret of the cluster", "the secret of another one"),
            true => {
                cert(&elsewhere, &["authority"])?;
                cert(&elsewhere, &["node", "3", "127.0.0.1"])?;
                let path = |dir: &std::path::Path| dir.display().to_string();
                text.replace(&path(&cluster.certs()), &path(&elsewhere))
            }
        };
        ensure!(changed != text);
        fs::write(&config, changed)?;
        cluster.start_node(3)?;
        let begun = Instant::now();
        // Never once, not only in the end.
        let tries = iter::from_fn(|| (begun.elapsed() < SEEN_WITHIN).then_some(()));
        let mut last = String::new();
        for () in tries {
            if let Ok(answer) = probe(&cluster, 3, "/health/ready") {
                ensure!(answer.status == 503, "{what}: {}", answer.body);
                last = answer.body;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ensure!(last.contains("no leader that a majority confirms"), "{what}: {last}");
        for node in [1, 2] {
            ensure!(last.contains(&format!("node {node} {told}")), "{what}: {last}");
            until_ready(&cluster, node, true).await?;
        }
        cluster.kill(3)?;
        fs::write(&config, text)?;
        cluster.start_node(3)?;
        until_ready(&cluster, 3, true).await?;
    }
    Ok(())
}
