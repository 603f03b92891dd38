//! Certificates that end, are early or do not fit: at the start, and while a node runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use mayfly_tests::{Cluster, Settings, mayfly, wire};
use nix::sys::signal::Signal;
use rcgen::{CertificateParams, KeyPair};

use super::ask;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Of any step of a node on a busy machine.
const WITHIN: Duration = Duration::from_secs(20);

/// A certificate that counts from one instant to another, and its key.
fn pair(from: SystemTime, until: SystemTime) -> anyhow::Result<(String, String)> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    (params.not_before, params.not_after) = (from.into(), until.into());
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

fn put(dir: &Path, certificate: &str, key: &str) -> anyhow::Result<[PathBuf; 2]> {
    let paths = [dir.join("certificate.pem"), dir.join("key.pem")];
    fs::write(&paths[1], key)?;
    fs::set_permissions(&paths[1], Permissions::from_mode(0o600))?;
    fs::write(&paths[0], certificate)?;
    Ok(paths)
}

/// What no client would take, and what is told of it.
fn bad() -> anyhow::Result<[(&'static str, String, String); 5]> {
    let now = SystemTime::now();
    let (expired, its_key) = pair(now - 3 * DAY, now - DAY)?;
    let (early, early_key) = pair(now + DAY, now + 3 * DAY)?;
    let (good, _) = pair(now - DAY, now + 90 * DAY)?;
    let (_, other_key) = pair(now - DAY, now + 90 * DAY)?;
    let half = good[..good.len() / 2].to_owned();
    Ok([
        ("certificate.pem' has expired; ", expired, its_key),
        ("certificate.pem' is not valid yet; ", early, early_key),
        ("key.pem' is not the private key of '", good.clone(), other_key.clone()),
        ("key.pem' holds no private key; ", good.clone(), good),
        ("certificate.pem' is no PEM file: ", half, other_key),
    ])
}

#[test]
fn a_node_does_not_start_with_a_certificate_that_nobody_takes() -> anyhow::Result<()> {
    for (told, certificate, key) in bad()? {
        let dir = tempfile::tempdir()?;
        let [certificate, key] = put(dir.path(), &certificate, &key)?;
        let config = dir.path().join("mayfly.toml");
        let data = dir.path().join("data");
        let text = format!(
            "[node]\ndata_dir = {data:?}\n[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n"
        );
        fs::write(&config, text)?;
        let ran = Command::new(mayfly()?).args(["serve", "--config"]).arg(&config).output()?;
        let said = String::from_utf8(ran.stderr)?;
        ensure!(ran.status.code() == Some(2) && said.contains(told), "{told}: {said}");
    }
    Ok(())
}

fn logged(cluster: &Cluster, line: &str) -> anyhow::Result<()> {
    let until = Instant::now() + WITHIN;
    while !cluster.node_log(1).contains(line) {
        ensure!(Instant::now() < until, "no '{line}' in {}", cluster.node_log(1));
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Seconds since 1970 at which the certificate for clients ends, as the node says.
fn expires(cluster: &Cluster) -> anyhow::Result<Option<f64>> {
    let (_, text) = ask(wire::tcp(cluster.addresses(1)[1])?, "GET /metrics", "")?;
    let name = "mayfly_certificate_expires_timestamp_seconds{use=\"clients\"} ";
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::parse).transpose().context("one")
}

/// What was good is kept when its files go bad, the metric says when it ends, and its end is told before.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_keeps_what_was_good_and_tells_of_its_end() -> anyhow::Result<()> {
    let settings = Settings { nodes: 1, data_groups: 1, tls: true, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let trusted = cluster.dir().join("trusted.pem");
    fs::copy(cluster.certificate(), &trusted)?;
    let before = expires(&cluster)?.context("a metric")?;
    for (told, certificate, key) in bad()? {
        put(cluster.dir(), &certificate, &key)?;
        cluster.signal(1, Signal::SIGHUP)?;
        logged(&cluster, told)?;
        wire::tls(cluster.amqps_address(1), &trusted).context("the one before")?;
    }
    ensure!(cluster.node_log(1).contains("the certificate for clients stays as it was: "));
    assert_eq!(expires(&cluster)?, Some(before));

    let end = SystemTime::now() + 10 * DAY + Duration::from_secs(3600);
    let (certificate, key) = pair(SystemTime::now() - DAY, end)?;
    put(cluster.dir(), &certificate, &key)?;
    cluster.signal(1, Signal::SIGHUP)?;
    logged(&cluster, "the certificate for clients ends in 10 days; replace its files")?;
    let told = expires(&cluster)?.context("a metric")?;
    let end = end.duration_since(SystemTime::UNIX_EPOCH)?.as_secs() as f64;
    ensure!((told - end).abs() <= 1.0, "{told} is not {end}");
    Ok(())
}
