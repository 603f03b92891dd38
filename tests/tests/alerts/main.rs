//! The alerts and dashboards of `deploy/`: a Prometheus scrapes three nodes while faults are done. The right alerts
//! fire in their time, no other does, and none in health; and every panel has something to show.
//!
//! Durations of the rules are shorter here, all by the same factor. `MAYFLY_HEALTHY_MINUTES` has the cluster be in
//! health for so long first, with the rules as they are.

mod files;
mod prometheus;

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::QueueProperties;
use client::{Client, Disposition, Message, ReceiverOptions};
use mayfly_tests::specification::root;
use mayfly_tests::{Cluster, Settings, ask};

use self::files::FASTER;
use self::prometheus::{Prometheus, promtool};

const SECRET: &str = "a secret of the alerts' test";
/// What comes to an alert's `for`: until a fault shows, until it is scraped and looked at, on a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(20);
/// How long a client is at a limit.
const OVER_LIMIT: Duration = Duration::from_secs(4);
/// How long the short run is in health.
const HEALTHY: Duration = Duration::from_secs(10);

fn settings() -> Settings {
    Settings {
        secret: Some(SECRET),
        config: "[limits]\nentities_per_minute_per_key = 10\n",
        ..Settings::default()
    }
}

/// What a person would see at Prometheus.
struct Watch {
    prometheus: Prometheus,
    /// Of all alerts, by name.
    patience: Vec<(String, Duration)>,
    /// Alerts that may still fire, as what they tell of lasts.
    known: BTreeSet<String>,
}

impl Watch {
    fn start(cluster: &Cluster, rules: &str) -> anyhow::Result<Watch> {
        let nodes: Vec<String> =
            cluster.ids().map(|id| cluster.addresses(id)[1].to_owned()).collect();
        let prometheus = Prometheus::start(&nodes, SECRET, rules)?;
        let patience = files::alerts(rules).into_iter();
        let patience = patience.map(|(name, seconds, _)| (name, Duration::from_secs(seconds)));
        Ok(Watch { prometheus, patience: patience.collect(), known: BTreeSet::new() })
    }

    /// Nothing fires for so long.
    async fn is_quiet(&self, during: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        tokio::time::sleep(during).await;
        let fired = self.prometheus.fired_since(begun)?;
        ensure!(fired.is_subset(&self.known), "in health: {fired:?}");
        Ok(())
    }

    /// These fire, each in its time, and besides them at most those that may.
    async fn sees(&mut self, since: Instant, all: &[&str], may: &[&str]) -> anyhow::Result<()> {
        let mut waiting: BTreeSet<&str> = all.iter().copied().collect();
        while !waiting.is_empty() {
            let fired = self.prometheus.fired_since(since)?;
            waiting.retain(|name| !fired.contains(*name));
            for name in &waiting {
                let known = self.patience.iter().find(|(known, _)| known == name);
                let (_, patience) = known.with_context(|| format!("{name} is no alert"))?;
                let late = since.elapsed() > *patience + SEEN_WITHIN;
                ensure!(!late, "{name} does not fire; those that do: {fired:?}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let fired = self.prometheus.fired_since(since)?;
        self.known.extend(all.iter().chain(may).map(|name| (*name).to_owned()));
        let others: Vec<_> = fired.difference(&self.known).collect();
        ensure!(others.is_empty(), "beside {all:?} fire {others:?}");
        println!("{all:?} after {:.1} s", since.elapsed().as_secs_f32());
        Ok(())
    }
}

fn message(text: &str) -> Message {
    Message::new(text.as_bytes().to_vec())
}

/// Sends and completes some messages of every kind, a few a second, until it is dropped.
fn traffic(client: Client) -> tokio::task::JoinHandle<anyhow::Result<()>> {
    tokio::spawn(async move {
        let sender = client.sender("orders", Default::default());
        let mut receiver = client.receiver("orders", ReceiverOptions::default());
        loop {
            // While a node is killed they may fail; the next ones come.
            for _ in 0..5 {
                let _ = sender.send(message("order")).await;
            }
            let received = receiver.recv_many(5);
            if let Ok(Ok(deliveries)) = tokio::time::timeout(Duration::from_secs(1), received).await
            {
                let settling = receiver.settle_all(&deliveries, Disposition::Complete);
                let _ = settling.failures().await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
}

#[test]
fn promtool_takes_rules_and_their_tests() -> anyhow::Result<()> {
    let folder = root().join("deploy/prometheus");
    promtool(&folder, &["check", "rules", "--lint-fatal", "mayfly-alerts.yml"], None)?;
    promtool(&folder, &["test", "rules", "mayfly-alerts.test.yml"], None)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_alerts_fire_and_every_panel_shows_something() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(settings()).await?;
    cluster.wait_all_vote().await?;
    let client = cluster.client()?;
    client.create_queue("orders", QueueProperties::default()).await?;
    let load = traffic(client.clone());
    let rules = files::rules()?;
    if let Some(minutes) = std::env::var_os("MAYFLY_HEALTHY_MINUTES") {
        let minutes: u64 = minutes.to_str().context("no number")?.parse()?;
        let watch = Watch::start(&cluster, &rules)?;
        watch.is_quiet(Duration::from_secs(60 * minutes)).await?;
    }
    let mut watch = Watch::start(&cluster, &files::fast(&rules))?;
    watch.is_quiet(HEALTHY).await?;

    let http = cluster.addresses(1)[1].to_owned();
    let scraped = ask(&http, "GET /metrics", &format!("Authorization: Bearer {SECRET}\r\n"), "")?;
    let page = cluster.dir().join("metrics.txt");
    fs::write(&page, scraped.body)?;
    promtool(cluster.dir(), &["check", "metrics"], Some(page))?;

    entities(&cluster, &client, &mut watch).await?;
    panels(&watch)?;
    nodes(&mut cluster, &mut watch).await?;
    load.abort();
    Ok(())
}

/// What happens to messages, and what clients do.
async fn entities(cluster: &Cluster, client: &Client, watch: &mut Watch) -> anyhow::Result<()> {
    let begun = Instant::now();
    let http = cluster.addresses(1)[1].to_owned();
    let bearer = format!("Authorization: Bearer {SECRET}\r\n");
    // Nobody receives.
    client.create_queue("unread", QueueProperties::default()).await?;
    client.sender("unread", Default::default()).send(message("hello?")).await?;
    // Locks end, deadlines are met, messages become dead letters.
    let lock_duration_ms = Some(5_000);
    let dead_letter_on_expiration = Some(true);
    let properties =
        QueueProperties { lock_duration_ms, dead_letter_on_expiration, ..Default::default() };
    client.create_queue("dying", properties).await?;
    let sender = client.sender("dying", Default::default());
    for number in 0..15 {
        sender.send(message(&format!("kept {number}"))).await?;
    }
    let mut receiver = client.receiver("dying", ReceiverOptions::default());
    let held = receiver.recv_many(15).await?;
    ensure!(!held.is_empty(), "nothing is received");
    sender.send(message("expires").ttl(Duration::from_millis(500))).await?;
    // Fault rules are about HTTP and AMQP.
    let rule = r#"{"operation": "send", "entity": "orders", "effect": "delay", "time": "1ms"}"#;
    let put = ask(&http, "PUT /$faults/slow", &bearer, rule)?;
    ensure!(put.status < 300, "{}: {}", put.status, put.body);
    for _ in 0..3 {
        let sent = ask(&http, "POST /orders/messages", &bearer, "over HTTP")?;
        ensure!(sent.status == 201, "{}: {}", sent.status, sent.body);
    }
    // More than is allowed in a minute: the client waits and comes again, for longer than this test does.
    let many = async {
        for number in 0..100 {
            client.create_queue(&format!("many-{number}"), Default::default()).await?;
        }
        anyhow::Ok(())
    };
    ensure!(tokio::time::timeout(OVER_LIMIT, many).await.is_err(), "no limit is met");
    for _ in 0..60 {
        let denied = ask(&http, "GET /orders", "", "")?;
        ensure!(denied.status == 401, "{}", denied.status);
    }
    let all = ["MayflyDeadLettersGrow", "MayflyLimitReached", "MayflyProofsRefused"];
    watch.sees(begun, &all, &["MayflyBacklogUnread", "MayflyLocksLost"]).await?;
    watch.sees(begun, &["MayflyBacklogUnread", "MayflyLocksLost"], &[]).await?;
    drop(receiver);
    let sent = "sum(mayfly_entity_sent_messages_total{entity=\"dying\"})";
    ensure!(watch.prometheus.number(sent)? == Some(16.0), "{:?}", watch.prometheus.query(sent)?);
    Ok(())
}

/// Every query of every dashboard has an answer.
fn panels(watch: &Watch) -> anyhow::Result<()> {
    let mut empty = Vec::new();
    let queries = files::queries()?;
    for (dashboard, panel, expression) in &queries {
        if watch.prometheus.query(expression)?.is_empty() {
            empty.push(format!("{dashboard}, {panel}: {expression}"));
        }
    }
    ensure!(empty.is_empty(), "no data in {} of {}: {empty:#?}", empty.len(), queries.len());
    Ok(())
}

/// What happens to nodes.
async fn nodes(cluster: &mut Cluster, watch: &mut Watch) -> anyhow::Result<()> {
    // Of a node that starts anew others tell.
    let away = ["MayflyNodeDown", "MayflyPeerAway", "MayflyQuorumAtEdge", "MayflyUnderReplicated"];
    let starting = [&away[..], &["MayflyReplicaBehind"]].concat();
    let begun = Instant::now();
    let config = fs::read_to_string(cluster.config_path(2))?;
    // Twice what is free is more than there is, and a quarter of it, which a node needs to start, is not.
    let free = watch.prometheus.number("min(mayfly_disk_free_bytes)")?.context("no disk")?;
    let reserve = format!("disk_reserve_mebibytes = {}", (2.0 * free) as u64 >> 20);
    let greedy = config.replace("disk_reserve_mebibytes = 16", &reserve);
    ensure!(greedy != config, "no reserve is set: {config}");
    fs::write(cluster.config_path(2), &greedy)?;
    cluster.stop(2)?;
    cluster.start_node(2)?;
    cluster.wait_ready().await?;
    cluster.wait_all_vote().await?;
    cluster.stop(3)?;
    cluster.set_flags(3, &["--clock-skew", "+1h"]);
    cluster.start_node(3)?;
    let all = ["MayflyDiskLow", "MayflyDiskFills", "MayflyClockDisagrees", "MayflyClockOff"];
    watch.sees(begun, &all, &[&starting[..], &["MayflyGroupWithoutLeader"]].concat()).await?;

    // One more that went by itself would be away and at the edge already.
    cluster.stop(3)?;
    cluster.set_flags(3, &[]);
    fs::write(cluster.config_path(2), &config)?;
    cluster.stop(2)?;
    cluster.start_node(2)?;
    cluster.start_node(3)?;
    cluster.wait_ready().await?;
    cluster.wait_all_vote().await?;
    let begun = Instant::now();
    cluster.kill(3)?;
    watch.sees(begun, &away, &["MayflyReplicaBehind"]).await?;

    let begun = Instant::now();
    cluster.kill(2)?;
    watch.known.remove("MayflyGroupWithoutLeader");
    watch.sees(begun, &["MayflyGroupWithoutLeader"], &[]).await?;
    println!("durations were shorter by {FASTER}");
    Ok(())
}
