//! A Prometheus as a process, over HTTP.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use mayfly_tests::{ask, free_ports};
use serde_json::Value;
use tempfile::TempDir;

/// How long it may take until it answers.
const STARTED_WITHIN: Duration = Duration::from_secs(30);

pub struct Prometheus {
    child: Child,
    address: String,
    dir: TempDir,
}

impl Prometheus {
    /// Scrapes these nodes every second, with the secret that they ask for, and goes by these rules.
    pub fn start(nodes: &[String], secret: &str, rules: &str) -> anyhow::Result<Prometheus> {
        let dir = tempfile::tempdir()?;
        let targets = serde_json::to_string(nodes)?;
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [rules.yml]\n\
             scrape_configs:\n  - job_name: mayfly\n    authorization: {{credentials: {secret}}}\n    \
             static_configs: [{{targets: {targets}}}]\n"
        );
        fs::write(dir.path().join("prometheus.yml"), config)?;
        fs::write(dir.path().join("rules.yml"), rules)?;
        let address = format!("127.0.0.1:{}", free_ports(1)?[0]);
        let log = fs::File::create(dir.path().join("log"))?;
        let child = Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("prometheus is missing: install Debian's package of that name")?;
        let mut prometheus = Prometheus { child, address, dir };
        let until = Instant::now() + STARTED_WITHIN;
        loop {
            let ready = ask(&prometheus.address, "GET /-/ready", "", "");
            if ready.is_ok_and(|answer| answer.status == 200) {
                return Ok(prometheus);
            }
            let log = || fs::read_to_string(prometheus.dir.path().join("log")).unwrap_or_default();
            ensure!(prometheus.child.try_wait()?.is_none(), "prometheus ended: {}", log());
            ensure!(Instant::now() < until, "prometheus does not start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What an expression comes to now.
    pub fn query(&self, expression: &str) -> anyhow::Result<Vec<Value>> {
        let body = format!("query={}", percent(expression));
        let headers =
            "Content-Type: application/x-www-form-urlencoded\r\nAccept-Encoding: identity\r\n";
        let answer = ask(&self.address, "POST /api/v1/query", headers, &body)?;
        let body = match answer.header("transfer-encoding") {
            Some("chunked") => whole(&answer.body),
            _ => answer.body.clone(),
        };
        let told: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
        if told["status"] != "success" {
            bail!("{expression}: {body}");
        }
        Ok(told["data"]["result"].as_array().cloned().unwrap_or_default())
    }

    /// The first number it comes to.
    pub fn number(&self, expression: &str) -> anyhow::Result<Option<f64>> {
        let found = self.query(expression)?;
        let number = found.first().and_then(|sample| sample["value"][1].as_str());
        Ok(number.and_then(|number| number.parse().ok()))
    }

    /// The alerts that fired at some moment since then.
    pub fn fired_since(&self, then: Instant) -> anyhow::Result<BTreeSet<String>> {
        let seconds = then.elapsed().as_secs().max(1);
        let expression = format!(
            "count by (alertname) (count_over_time(ALERTS{{alertstate=\"firing\"}}[{seconds}s]))"
        );
        let found = self.query(&expression)?;
        let name = |sample: &Value| Some(sample["metric"]["alertname"].as_str()?.to_owned());
        Ok(found.iter().filter_map(name).collect())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(byte.into()),
            _ => write!(out, "%{byte:02X}").expect("a string takes all"),
        }
    }
    out
}

/// A body that came in chunks.
fn whole(chunked: &str) -> String {
    let (mut whole, mut rest) = (String::new(), chunked);
    while let Some((length, behind)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        let Some(chunk) = behind.get(..length).filter(|chunk| !chunk.is_empty()) else { break };
        whole += chunk;
        rest = behind[length..].trim_start_matches("\r\n");
    }
    whole
}

/// Runs promtool in a folder.
pub fn promtool(folder: &Path, words: &[&str], input: Option<PathBuf>) -> anyhow::Result<()> {
    let mut command = Command::new("promtool");
    command.args(words).current_dir(folder);
    if let Some(input) = input {
        command.stdin(fs::File::open(input)?);
    }
    let ran =
        command.output().context("promtool is missing: install Debian's package prometheus")?;
    let (told, failed) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    // What it only advises comes with success.
    ensure!(ran.status.success() && failed.trim().is_empty(), "{words:?}: {told}{failed}");
    Ok(())
}
