//! A support bundle: all that it is to hold, what it says is missing, and none of the secrets that there are.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use mayfly_tests::{AmqpClient, Cluster, Settings, ask, mayfly, wire};
use serde_json::Value;

/// What nobody is to find: the cluster's secret, keys of the configuration, of an entity, and guesses.
const SECRET: &str = "planted-secret-of-the-cluster";
const KEY: &str = "planted-key-of-the-worker";
const SECONDARY: &str = "planted-second-key-of-the-worker";
const GUESS: &str = "planted-guess-of-somebody";
const IN_A_NAME: &str = "planted-in-a-user-agent";
const KEYS: &str = "[[security.key]]\nname = \"worker\"\nkey = \"planted-key-of-the-worker\"\n\
    secondary_key = \"planted-second-key-of-the-worker\"\nrights = [\"listen\", \"send\"]\n";

fn bundle(cluster: &Cluster, via: u64, out: &Path) -> anyhow::Result<std::process::Output> {
    let mut command = Command::new(mayfly()?);
    command.args(["support", "bundle", "--out"]).arg(out);
    command.args(["--connect", cluster.addresses(via)[0]]).env("MAYFLY_SECRET", SECRET);
    Ok(command.output()?)
}

/// Each file of an archive by its name, as the system's own tar has it.
fn files(archive: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let dir = tempfile::tempdir()?;
    let done = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(dir.path()).status()?;
    ensure!(done.success(), "tar: {done}");
    let top = dir.path().join("mayfly-support");
    let (mut found, mut folders) = (BTreeMap::new(), vec![top.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&top)?.to_string_lossy().into_owned();
            found.insert(name, std::fs::read_to_string(&path)?);
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_has_all_but_secrets_and_says_what_is_missing() -> anyhow::Result<()> {
    let (secret, config) = (Some(SECRET), KEYS);
    let settings = Settings { nodes: 3, data_groups: 1, secret, config, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    client.create_queue("orders", Default::default()).await?;
    // Who guesses, and who puts a connection string where it does not belong, is in logs and lists.
    let header = format!("Authorization: Bearer {GUESS}\r\n");
    ask(cluster.addresses(1)[1], "GET /orders", &header, "")?;
    let guessed =
        AmqpClient::over(wire::tcp(cluster.amqp_address(2))?, Mechanism::plain("worker", GUESS));
    ensure!(guessed.await.is_err(), "a guess is let in");
    let mut worker =
        AmqpClient::over(wire::tcp(cluster.amqp_address(2))?, Mechanism::plain("worker", KEY))
            .await?;
    worker.receiver("orders").await?.expect("the queue is there");
    let mut idle = wire::tcp(cluster.addresses(1)[1])?;
    let head = format!(
        "GET /health/live HTTP/1.1\r\nHost: h\r\nUser-Agent: x;SharedAccessKey={IN_A_NAME}\r\n\r\n"
    );
    idle.write_all(head.as_bytes())?;
    idle.read_exact(&mut [0; 12])?;

    let dir = tempfile::tempdir()?;
    let out = dir.path().join("all.tar.gz");
    let done = bundle(&cluster, 1, &out)?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found = files(&out)?;
    let wanted = ["status.json", "check.json", "connections.json", "events.jsonl"];
    let mut wanted: Vec<String> = wanted.iter().map(|name| format!("cluster/{name}")).collect();
    wanted.push("manifest.json".to_owned());
    for node in 1..=3 {
        let of_node = ["metrics.txt", "settings.toml", "log.txt"];
        wanted.extend(of_node.iter().map(|name| format!("node-{node}/{name}")));
    }
    wanted.sort_unstable();
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>());
    for (name, text) in &found {
        for secret in [SECRET, KEY, SECONDARY, GUESS, IN_A_NAME] {
            ensure!(!text.contains(secret), "'{secret}' is in {name}");
        }
    }
    let holds = |name: &str, text: &str| {
        ensure!(found[name].contains(text), "no '{text}' in {name}: {}", found[name]);
        Ok(())
    };
    holds("cluster/connections.json", "\"worker\"")?;
    holds("cluster/connections.json", "x;SharedAccessKey=(hidden)")?;
    holds("cluster/events.jsonl", "'orders' is created")?;
    holds("node-2/metrics.txt", "mayfly_connections{protocol=\"amqp\"}")?;
    holds("node-1/settings.toml", "# secret is set")?;
    holds("node-1/settings.toml", "# secondary_key is set")?;
    holds("node-3/log.txt", "node 3 has started")?;
    let manifest: Value = serde_json::from_str(&found["manifest.json"])?;
    ensure!(manifest["missing"].as_array().context("a list")?.is_empty(), "{manifest}");

    // A file that is there stays, and a node that is away is named.
    let again = bundle(&cluster, 1, &out)?;
    ensure!(again.status.code() == Some(1), "{}", again.status);
    ensure!(files(&out)? == found, "it was written over");
    cluster.kill(3)?;
    let out = dir.path().join("less.tar.gz");
    let done = bundle(&cluster, 1, &out)?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found = files(&out)?;
    ensure!(!found.contains_key("node-3/log.txt") && found.contains_key("node-2/log.txt"));
    let manifest: Value = serde_json::from_str(&found["manifest.json"])?;
    ensure!(manifest["missing"].to_string().contains("of node 3"), "{manifest}");
    Ok(())
}
