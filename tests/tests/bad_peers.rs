//! Nodes that do not belong together: each is refused with one line that names what is wrong and says
//! what to do, and nobody else is disturbed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::Message;
use mayfly_tests::{Cluster, Raw, Settings, free_ports, mayfly};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
/// A stranger that is not told off by then is not.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// A node beside a cluster, with a configuration, ports, data and a log of its own.
struct Stranger {
    child: Child,
    log: std::path::PathBuf,
}

impl Stranger {
    /// `config`: that of a member, changed; `data`: a directory of its own.
    fn start(home: &Path, config: &str, data: &Path) -> anyhow::Result<Stranger> {
        fs::create_dir_all(home)?;
        let (path, log) = (home.join("mayfly.toml"), home.join("node.log"));
        fs::write(&path, config)?;
        let ports = free_ports(3)?.into_iter().map(|port| format!("127.0.0.1:{port}"));
        let ports: Vec<String> = ports.collect();
        let child = Command::new(mayfly()?)
            .args(["serve", "--exit-with-parent", "--config"])
            .arg(&path)
            .arg("--data-dir")
            .arg(data)
            .args(["--grpc", &ports[0], "--http", &ports[1], "--peer", &ports[2], "--amqp", "off"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()?;
        Ok(Stranger { child, log })
    }

    fn log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Waits until it ends by itself; the line it leaves, and its exit code.
    async fn ended(&mut self) -> anyhow::Result<(String, i32)> {
        let until = Instant::now() + TOLD_WITHIN;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(Instant::now() < until, "it goes on: {}", self.log()?);
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let log = self.log()?;
        let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("mayfly: ")).collect();
        ensure!(lines.len() == 1, "one line, in {log}");
        Ok((lines[0].to_owned(), status.code().unwrap_or(-1)))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended.
        let _ = self.child.wait();
    }
}

/// Lines of a log that contain all of these.
fn lines<'a>(log: &'a str, parts: &[&str]) -> Vec<&'a str> {
    log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).collect()
}

/// Waits until a log has such a line, and holds that a while later it is still the only one.
async fn told_once(log: impl Fn() -> anyhow::Result<String>, parts: &[&str]) -> anyhow::Result<()> {
    let until = Instant::now() + TOLD_WITHIN;
    while lines(&log()?, parts).is_empty() {
        ensure!(Instant::now() < until, "no line with {parts:?} in {}", log()?);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let log = log()?;
    ensure!(lines(&log, parts).len() == 1, "one line with {parts:?} in {log}");
    Ok(())
}

/// A cluster, how its leaderships stand, and whether it works.
struct Peace {
    cluster: Cluster,
    terms: Vec<(u32, u64, u64)>,
}

impl Peace {
    async fn made(settings: Settings) -> anyhow::Result<Peace> {
        let cluster = Cluster::start(settings).await?;
        cluster.client()?.create_queue("calm", Default::default()).await?;
        cluster.wait_caught_up().await?;
        let terms = Peace::terms(&cluster).await?;
        Ok(Peace { cluster, terms })
    }

    async fn terms(cluster: &Cluster) -> anyhow::Result<Vec<(u32, u64, u64)>> {
        let groups = cluster.client()?.status(false).await?.groups;
        Ok(groups.iter().map(|group| (group.id, group.leader, group.term)).collect())
    }

    fn config(&self, node: u64) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.cluster.config_path(node))?)
    }

    /// Nobody was elected, nobody fell, every node serves.
    async fn holds(&mut self) -> anyhow::Result<()> {
        for node in self.cluster.ids() {
            self.cluster.client_of(node)?.send("calm", vec![Message::new("still here")]).await?;
            let log = self.cluster.node_log(node);
            ensure!(!log.contains("panicked"), "{log}");
        }
        self.cluster.wait_caught_up().await?;
        let terms = Peace::terms(&self.cluster).await?;
        ensure!(terms == self.terms, "leaderships were {:?}, are {terms:?}", self.terms);
        Ok(())
    }
}

fn with_secret(config: &str, secret: &str) -> String {
    format!("{config}[security]\nsecret = {secret:?}\n")
}

/// The cluster id that stands in a configuration.
fn cluster_id(config: &str) -> anyhow::Result<&str> {
    let line = config.lines().find_map(|line| line.strip_prefix("id = \""));
    line.map(|rest| rest.trim_end_matches('"')).context("a cluster id")
}

fn headers<'a>(
    changed: &'a [(&'static str, &'a str)],
    cluster: &'a str,
) -> Vec<(&'static str, &'a str)> {
    let right = [
        ("mayfly-protocol", "1"),
        ("mayfly-cluster", cluster),
        ("mayfly-from", "3"),
        ("mayfly-to", "1"),
        ("mayfly-process", "00000007-0000000000000001"),
    ];
    let instead = |key| changed.iter().find(|(changed, _)| *changed == key);
    let all = right.map(|(key, value)| instead(key).copied().unwrap_or((key, value)));
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// What a peer port makes of calls that are almost right.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_of_another_version_cluster_or_number_is_refused_with_a_line() -> anyhow::Result<()>
{
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 1, data_groups: 1, ..Settings::default() };
    let mut peace = Peace::made(settings).await?;
    let config = peace.config(1)?;
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let cluster = hex(cluster_id(&config)?);
    let address = peace.cluster.addresses(1)[2].to_owned();
    Raw::to(&address)?.clocks(&headers(&[], &cluster)).await.context("the right one")?;
    for (changed, line) in [
        (
            ("mayfly-protocol", ""),
            "version 0 of the peer protocol, this node 1 to 1; install a newer mayfly at the caller",
        ),
        (
            ("mayfly-protocol", "2"),
            "version 2 of the peer protocol, this node 1 to 1; install a newer mayfly at this node",
        ),
        (
            ("mayfly-cluster", "ff"),
            "the cluster id differs: this node belongs to another cluster; correct cluster.id",
        ),
        (
            ("mayfly-to", "2"),
            "the call is for node 2, and this is node 1; correct the peer addresses",
        ),
        (
            ("mayfly-from", "1"),
            "the caller calls itself node 1, as this node does; give one of them another node.id",
        ),
        (("mayfly-from", "node"), "the caller does not say which process of which node it is"),
        (("mayfly-secret", "ff"), ""),
    ] {
        let changed = [changed];
        let mut headers = headers(&changed, &cluster);
        if changed[0].0 == "mayfly-secret" {
            headers.push(changed[0]);
        }
        let answer = Raw::to(&address)?.clocks(&headers).await;
        let refused = answer.err().with_context(|| format!("{changed:?} was let in"))?;
        let line = if line.is_empty() {
            "the cluster secret is missing or differs; give every node"
        } else {
            line
        };
        ensure!(refused.message().contains(line), "{changed:?}: {}", refused.message());
        told_once(|| Ok(peace.cluster.node_log(1)), &["refused a peer", line]).await?;
    }
    peace.holds().await
}

/// A node with a wrong secret, and one of another cluster, that know where the members are.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_secret_or_of_another_cluster_is_told_what_to_do() -> anyhow::Result<()>
{
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { data_groups: 1, ..Settings::default() };
    let mut peace = Peace::made(settings).await?;
    // A fourth that all three have to hear of: its own list names it in place of the third.
    let config = peace.config(3)?;
    let foreign = config.replace(cluster_id(&config)?, "000000000000000000000000000000ff");
    let dir = tempfile::tempdir()?;
    for (name, config, part) in [
        (
            "secret",
            with_secret(&config, "the secret of another"),
            "the cluster secret is missing or differs; give every node of the cluster the same security.secret",
        ),
        (
            "cluster",
            foreign,
            "the cluster id differs: this node belongs to another cluster; correct cluster.id, or the peer address that led here",
        ),
    ] {
        let home = dir.path().join(name);
        let stranger = Stranger::start(&home, &config, &home.join("data"))?;
        for member in ["1", "2"] {
            let of_member = format!("node={member} ");
            told_once(|| stranger.log(), &["a peer refuses this node", &of_member, part]).await?;
            let member = member.parse()?;
            told_once(|| Ok(peace.cluster.node_log(member)), &["refused a peer", part]).await?;
        }
    }
    peace.holds().await
}

/// The same number twice: with an empty disk, and over the disk of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_of_a_node_ends_and_the_first_goes_on() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut peace = Peace::made(Settings { data_groups: 1, ..Settings::default() }).await?;
    let config = peace.config(2)?;
    let dir = tempfile::tempdir()?;

    let empty = dir.path().join("empty");
    let mut twin = Stranger::start(&empty, &config, &empty.join("data"))?;
    let (line, code) = twin.ended().await?;
    ensure!(line.contains("another process runs as node 2 already, as node "), "{line}");
    ensure!(line.contains("end that one, or give this one another node.id and an empty"), "{line}");
    ensure!(code == 1, "exit code {code}");
    peace.holds().await?;

    let data = peace.cluster.data_path(2);
    let home = dir.path().join("in-use");
    let mut second = Stranger::start(&home, &config, &data)?;
    let (line, code) = second.ended().await?;
    ensure!(line.contains("in use") && line.contains(&*data.to_string_lossy()), "{line}");
    ensure!(code == 1, "exit code {code}");
    peace.holds().await
}

/// Restarts are no twins: neither a quick one nor one over an empty disk is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_again_is_let_in() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    cluster.client()?.create_queue("calm", Default::default()).await?;
    for wiped in [false, false, true] {
        cluster.kill(2)?;
        if wiped {
            fs::remove_dir_all(cluster.data_path(2))?;
        }
        cluster.start_node(2)?;
        cluster.wait_all_vote().await?;
    }
    for node in [1, 3] {
        let log = cluster.node_log(node);
        ensure!(lines(&log, &["refused a peer"]).is_empty(), "{log}");
    }
    cluster.client_of(2)?.send("calm", vec![Message::new("back")]).await?;
    Ok(())
}
