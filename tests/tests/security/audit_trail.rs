//! Who changed what is told, whatever he speaks, and whose proofs are refused; messages are not.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use amqp_protocol::codec::{Map, Value};
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use client::{Client, ClientOptions, Message};
use mayfly_tests::{AmqpClient, AmqpNode, Cluster, Settings, wire};
use nix::sys::signal::Signal;
use serde_json::Value as Json;

use super::{SECRET, ask_with, token};

const CONFIG: &str = r#"
[[security.key]]
name = "worker"
key = "the-key-of-the-worker"
rights = ["listen", "send"]
[audit]
file = "/proc/self/cwd/none"
log = true
"#;
const SOON: Duration = Duration::from_secs(20);
const XML: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"></QueueDescription></content></entry>"#;

struct Audited {
    cluster: Cluster,
    file: PathBuf,
}

impl Audited {
    async fn start() -> anyhow::Result<Audited> {
        // The file's place is not known before the cluster is.
        let settings =
            Settings { nodes: 1, data_groups: 1, secret: Some(SECRET), ..Settings::default() };
        let mut cluster = Cluster::start(settings).await?;
        let file = cluster.dir().join("audit.log");
        let config = cluster.config_path(1).to_owned();
        let more = CONFIG.replace("/proc/self/cwd/none", &file.display().to_string());
        fs::write(&config, fs::read_to_string(&config)? + &more)?;
        cluster.stop(1)?;
        cluster.start_node(1)?;
        cluster.wait_ready().await?;
        Ok(Audited { cluster, file })
    }

    /// Those of one action, once there are as many.
    fn records(&self, action: &str, count: usize) -> anyhow::Result<Vec<Json>> {
        records(&self.file, action, count)
    }
}

fn records(file: &std::path::Path, action: &str, count: usize) -> anyhow::Result<Vec<Json>> {
    let until = Instant::now() + SOON;
    loop {
        let text = fs::read_to_string(file)?;
        let lines =
            text.lines().map(serde_json::from_str::<Json>).collect::<Result<Vec<_>, _>>()?;
        let found: Vec<Json> = lines.into_iter().filter(|line| line["action"] == action).collect();
        if found.len() >= count {
            ensure!(found.len() == count, "too many: {found:#?}");
            return Ok(found);
        }
        ensure!(Instant::now() < until, "{} of {count} {action} in {text}", found.len());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn field(record: &Json, name: &str) -> String {
    record[name].as_str().unwrap_or_default().to_owned()
}

/// Each row: who asks for what over which protocol, and what is told of it.
#[tokio::test(flavor = "multi_thread")]
async fn who_changes_what_is_told_over_every_protocol() -> anyhow::Result<()> {
    let audited = Audited::start().await?;
    let cluster = &audited.cluster;
    let client = cluster.client()?;
    client.create_queue("Orders", Default::default()).await?;
    assert!(client.create_queue("orders", Default::default()).await.is_err());
    client.create_topic("news", Default::default()).await?;
    client.create_subscription("news", "all", Default::default(), None).await?;
    client.send("orders", vec![Message::new("x")]).await?;
    client.advance_clock(Duration::from_millis(5)).await?;
    let http = |request: &str, body: &str| {
        let stream = wire::tcp(cluster.addresses(1)[1])?;
        let given = format!("Authorization: Bearer {SECRET}\r\n");
        anyhow::Ok(ask_with(stream, request, &given, body)?.0)
    };
    assert_eq!(http("PUT /over-http?api-version=2021-05", XML)?, 201);
    assert_eq!(http("PUT /over-http?api-version=2021-05", XML)?, 409);
    assert_eq!(http("DELETE /over-http?api-version=2021-05", "")?, 200);
    assert_eq!(http("GET /orders?api-version=2021-05", "")?, 200);

    let login = Mechanism::plain("worker", "the-key-of-the-worker");
    let stream = wire::tcp(cluster.amqp_address(1))?;
    let mut amqp = AmqpClient::over(stream, login).await?;
    let mut node = AmqpNode::open(&mut amqp, "news/Subscriptions/all").await?;
    let named = |name: &str| Map::default().string("rule-name", name.into());
    let filter = Map::default().string("expression", "a = 1".into());
    let rule = Map::default().string("sql-filter", Value::Map(filter));
    let rule = named("one").string("rule-description", Value::Map(rule));
    assert_eq!(node.ask(&mut amqp, "add-rule", rule).await?.status, 200);
    assert_eq!(node.ask(&mut amqp, "remove-rule", named("one")).await?.status, 200);
    assert_eq!(node.ask(&mut amqp, "remove-rule", named("one")).await?.status, 404);
    assert_eq!(client.delete_batch(&client::QueuePath::main("orders"), 10, None).await?, 1);
    client.delete_queue("orders").await?;

    let root = "RootManageSharedAccessKey";
    for (action, expected) in [
        (
            "entity.create",
            &[
                ("grpc", root, "orders", "done"),
                ("grpc", root, "orders", "refused"),
                ("grpc", root, "news", "done"),
                ("grpc", root, "news/subscriptions/all", "done"),
                ("http", root, "over-http", "done"),
                ("http", root, "over-http", "refused"),
            ][..],
        ),
        ("entity.delete", &[("http", root, "over-http", "done"), ("grpc", root, "orders", "done")]),
        ("rule.put", &[("amqp", "worker", "news/Subscriptions/all/rules/one", "done")]),
        (
            "rule.delete",
            &[
                ("amqp", "worker", "news/Subscriptions/all/rules/one", "done"),
                ("amqp", "worker", "news/Subscriptions/all/rules/one", "refused"),
            ],
        ),
        ("messages.purge", &[("grpc", root, "orders", "done")]),
        ("clock.advance", &[("grpc", root, "by 5 ms", "done")]),
    ] {
        let found = audited.records(action, expected.len())?;
        let told: Vec<[String; 4]> = found
            .iter()
            .map(|record| ["protocol", "key", "object", "outcome"].map(|name| field(record, name)))
            .collect();
        let expected = expected.iter().map(|&(a, b, c, d)| [a, b, c, d].map(str::to_owned));
        assert_eq!(told, expected.collect::<Vec<_>>(), "{action}");
        for record in found {
            let at = field(&record, "at");
            ensure!(at.ends_with('Z') && at.len() == "2026-01-02T03:04:05.678Z".len(), "{at}");
            ensure!(field(&record, "address").parse::<SocketAddr>()?.ip().is_loopback());
            assert_eq!((record["node"].as_u64(), &*field(&record, "principal")), (Some(1), "key"));
            assert_eq!(record["reason"].is_null(), record["outcome"] == "done");
        }
    }
    let refused = &audited.records("entity.create", 6)?[1];
    assert_eq!(refused["reason"], "MessagingEntityAlreadyExists");
    let mode = fs::metadata(&audited.file)?.permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let log = cluster.node_log(1);
    ensure!(log.contains("INFO audit: entity.create"), "{log}");
    Ok(())
}

/// A stranger who tries on and on makes few records, which say how often; each protocol tells of him.
#[tokio::test(flavor = "multi_thread")]
async fn refused_proofs_are_told_together_and_counted() -> anyhow::Result<()> {
    let audited = Audited::start().await?;
    let cluster = &audited.cluster;
    cluster.client()?.create_queue("orders", Default::default()).await?;
    let mut amqp = AmqpClient::connect(cluster.amqp_address(1)).await?;
    let (guess, audience) = token("orders", "worker", "a-guess-of-the-key", 60);
    for _ in 0..3 {
        assert_eq!(amqp.put_token(&guess, &audience).await?, 401);
    }
    let options = ClientOptions { secret: Some("a-guess-of-the-key".into()), ..Default::default() };
    let stranger = Client::with_options([cluster.addresses(1)[0]], options)?;
    for _ in 0..3 {
        assert!(stranger.create_queue("theirs", Default::default()).await.is_err());
    }
    let options = ClientOptions {
        secret: Some("the-key-of-the-worker".into()),
        key_name: Some("worker".into()),
        ..Default::default()
    };
    let worker = Client::with_options([cluster.addresses(1)[0]], options)?;
    assert!(worker.create_queue("theirs", Default::default()).await.is_err());
    let stream = wire::tcp(cluster.addresses(1)[1])?;
    let basic = "Authorization: Bearer a-guess-of-the-key\r\n";
    assert_eq!(ask_with(stream, "PUT /theirs?api-version=2021-05", basic, XML)?.0, 401);

    let stream = wire::tcp(cluster.addresses(1)[1])?;
    let given = format!("Authorization: Bearer {SECRET}\r\n");
    let (_, metrics) = ask_with(stream, "GET /metrics", &given, "")?;
    for (protocol, reason, count) in [
        ("amqp", "wrong-key", 3),
        ("grpc", "wrong-key", 3),
        ("grpc", "no-right", 1),
        ("http", "wrong-key", 1),
    ] {
        let line = format!(
            "mayfly_refused_proofs_total{{protocol=\"{protocol}\",reason=\"{reason}\"}} {count}"
        );
        ensure!(metrics.contains(&line), "{line} is not in {metrics}");
    }
    let first = audited.records("proof.refuse", 1)?;
    let told =
        ["protocol", "principal", "key", "outcome", "reason"].map(|name| field(&first[0], name));
    assert_eq!(told, ["amqp", "nobody", "worker", "refused", "wrong-key"]);
    // All of one address, the others with the end of the node.
    let Audited { mut cluster, file } = audited;
    cluster.stop(1)?;
    let text = fs::read_to_string(file)?;
    let lines = text.lines().map(serde_json::from_str::<Json>).collect::<Result<Vec<_>, _>>()?;
    let refused = lines.iter().filter(|line| field(line, "action").ends_with(".refuse"));
    let counts: Vec<u64> = refused.map(|line| line["count"].as_u64().unwrap_or(1)).collect();
    assert_eq!(counts, [1, 7], "{text}");
    ensure!(!text.contains("a-guess"), "{text}");
    Ok(())
}

/// As logrotate does it; and SIGHUP ends no node.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_moved_and_sighup_opens_another() -> anyhow::Result<()> {
    let mut audited = Audited::start().await?;
    let moved = audited.file.with_extension("log.1");
    let client = audited.cluster.client()?;
    client.create_queue("before", Default::default()).await?;
    audited.records("entity.create", 1)?;
    fs::rename(&audited.file, &moved)?;
    audited.cluster.signal(1, Signal::SIGHUP)?;
    let until = Instant::now() + SOON;
    while !audited.file.exists() {
        ensure!(Instant::now() < until, "{}", audited.cluster.last_words(1));
        std::thread::sleep(Duration::from_millis(10));
    }
    client.create_queue("after", Default::default()).await?;
    let after = audited.records("entity.create", 1)?;
    assert_eq!(after.first().context("a record")?["object"], "after");
    assert_eq!(records(&moved, "entity.create", 1)?[0]["object"], "before");
    Ok(())
}
