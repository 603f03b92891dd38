//! A cluster on this machine, `mayfly up`, with what connection strings ask of it; and the emulator's file
//! with `mayfly serve`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use client::{Client, ClientOptions, Trust};
use mayfly_tests::wire;
use mayfly_tests::{AmqpClient, Cluster, LocalCluster, Settings, ask, mayfly};

const SECRET: &str = "the-cluster-secret";
const LOGIN: &str = "RootManageSharedAccessKey";
const LOGGED_WITHIN: Duration = Duration::from_secs(30);
const EMULATOR: &str = r#"{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns",
    "Queues": [{"Name": "queue.1"}], "Topics": [{"Name": "topic.1",
    "Subscriptions": [{"Name": "subscription.1"}]}]}]}}"#;

fn emulator_file(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join("Config.json");
    fs::write(&path, EMULATOR)?;
    Ok(path.to_string_lossy().into_owned())
}

fn with_secret(address: &str, tls: Option<Trust>) -> anyhow::Result<Client> {
    let options =
        ClientOptions { secret: Some(SECRET.to_owned()), tls, ..ClientOptions::default() };
    Ok(Client::with_options([address], options)?)
}

/// CONN-23: with a secret and TLS, on node 1's ports as the emulator has them, on the one whose
/// connections are passed on, and on those of Azure.
#[tokio::test(flavor = "multi_thread")]
async fn conn_23_a_local_cluster_takes_everything_on_every_port_and_asks_for_its_secret()
-> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let config = emulator_file(scratch.path())?;
    let cluster = LocalCluster::start_with(&[
        "--nodes",
        "1",
        "--secret",
        SECRET,
        "--emulator-config",
        &config,
        "--tls",
        "--plain",
        "--azure-ports",
        "--host-name",
        "broker.example",
    ])?;
    let authority = cluster.dir().join("data/tls/authority.pem");
    let login = || Mechanism::plain(LOGIN, SECRET);
    for port in [5672, 5300, 5700, 443, 5671] {
        let address = cluster.address(port);
        let path = "/$servicebus/websocket";
        for mut amqp in [
            AmqpClient::over(wire::tcp(&address)?, login()).await?,
            AmqpClient::over(wire::tls(&address, &authority)?, login()).await?,
            AmqpClient::over(wire::websocket(&address, &authority, path)?, login()).await?,
        ] {
            assert!(amqp.sender("queue.1").await?.is_ok(), "{port}");
        }
        let guess = Mechanism::plain(LOGIN, "guess");
        assert!(AmqpClient::over(wire::tcp(&address)?, guess).await.is_err(), "{port}");
        assert_eq!(ask(&address, "GET /queue.1", "", "")?.status, 401, "{port}");
        let proof = format!("Authorization: Bearer {SECRET}\r\n");
        assert_eq!(ask(&address, "GET /queue.1", &proof, "")?.status, 200, "{port}");
        with_secret(&address, None)?.get_topic("topic.1").await?;
        let trust = Trust::Authorities(fs::read(&authority)?);
        with_secret(&format!("https://{address}"), Some(trust))?.get_queue("queue.1").await?;
    }
    let node = fs::metadata(cluster.dir().join("data/node-1/mayfly.toml"))?;
    let mode = std::os::unix::fs::PermissionsExt::mode(&node.permissions());
    assert_eq!(mode & 0o777, 0o600, "the secret is nobody else's to read");
    Ok(())
}

#[test]
fn a_local_cluster_is_not_open_to_others_without_a_secret() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let refused = Command::new(mayfly()?)
        .args(["up", "--host", "0.0.0.0", "--data-dir"])
        .arg(dir.path())
        .env_remove("MAYFLY_SECRET")
        .stdin(Stdio::null())
        .output()?;
    let told = String::from_utf8(refused.stderr)?;
    ensure!(refused.status.code() == Some(2), "{told}");
    ensure!(told.contains("--host 0.0.0.0 is not loopback; set --secret"), "{told}");
    Ok(())
}

/// A file's entities are there once a node serves; at its next start they are found.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_creates_what_the_emulators_file_lists() -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    // Settings live as long as the program, and so may its flags.
    let config: &'static str = emulator_file(scratch.path())?.leak();
    let flags: &'static [&'static str] = Vec::leak(vec!["--emulator-config", config]);
    let settings =
        Settings { nodes: 1, data_groups: 1, odd: Some((1, flags)), ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    says(&cluster, "3 entities created, 0 were there")?;
    cluster.client()?.get_subscription("topic.1", "subscription.1").await?;
    cluster.stop(1)?;
    cluster.start_node(1)?;
    says(&cluster, "0 entities created, 3 were there")
}

/// Waits until node 1 has logged it.
fn says(cluster: &Cluster, line: &str) -> anyhow::Result<()> {
    let until = Instant::now() + LOGGED_WITHIN;
    while !cluster.node_log(1).contains(line) {
        (Instant::now() < until).then_some(()).with_context(|| cluster.node_log(1))?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
