//! `mayfly support`: all that somebody needs who helps with a cluster, in one file.

mod archive;
mod scrub;

use std::path::PathBuf;
use std::time::Duration;

use client::{Client, v1};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::archive::Archive;
use self::scrub::scrub;
use crate::commands::{cluster, connection};
use crate::connect::Connect;
use crate::input::duration;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly support bundle                            mayfly-support-….tar.gz, with the log of the last hour
  mayfly support bundle --last 10m --out /tmp/incident.tar.gz
  tar tzf mayfly-support-….tar.gz                  look before you send it

It holds no secrets and no messages; names of entities and keys, and addresses of clients, it does.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SupportArgs {
    #[command(subcommand)]
    command: SupportCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SupportCommand {
    /// Status, check, connections, events, and of each node metrics, settings and log, as one archive
    Bundle(BundleArgs),
}

#[derive(Debug, clap::Args)]
struct BundleArgs {
    /// Where to write it; a file that is there is left alone
    #[arg(long, value_name = "FILE.tar.gz")]
    out: Option<PathBuf>,
    /// How far back logs and events go
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    last: Duration,
    #[command(flatten)]
    connect: Connect,
}

pub async fn run(args: SupportArgs) -> anyhow::Result<()> {
    let SupportCommand::Bundle(args) = args.command;
    let client = args.connect.client()?;
    let now = Timestamp::now();
    let out = args.out.unwrap_or_else(|| {
        PathBuf::from(format!("mayfly-support-{}.tar.gz", now.strftime("%Y%m%dT%H%M%SZ")))
    });
    // Before all of it is asked for.
    let archive = Archive::create(&out)?;
    let status = client.status(false).await?;
    let now_ms = u64::try_from(now.as_millisecond()).unwrap_or(0);
    let last_ms = u64::try_from(args.last.as_millis()).unwrap_or(u64::MAX);
    let mut bundle = Bundle::new(now_ms.saturating_sub(last_ms));
    bundle.add_cluster(&client, &status, now).await?;
    for node in &status.nodes {
        bundle.add_node(&client, node).await;
    }
    let manifest = bundle.manifest(&status, now);
    bundle.add_json("manifest.json", &manifest)?;
    let files = bundle.files.len();
    archive.write(bundle.files)?;
    for Missing { what, why } in &bundle.missing {
        terminal::note(&format!("missing: {what}: {why}"));
    }
    terminal::line(format!("{files} files in '{}'; look at it before you send it", out.display()))
}

/// What could not be had.
struct Missing {
    what: String,
    why: String,
}

/// What goes into the archive, in its order.
struct Bundle {
    since_ms: u64,
    files: Vec<(String, String)>,
    missing: Vec<Missing>,
}

impl Bundle {
    fn new(since_ms: u64) -> Bundle {
        Bundle { since_ms, files: Vec::new(), missing: Vec::new() }
    }

    fn add(&mut self, name: &str, text: &str) {
        self.files.push((name.to_owned(), scrub(text)));
    }

    fn add_json(&mut self, name: &str, value: &Value) -> anyhow::Result<()> {
        self.add(name, &format!("{}\n", serde_json::to_string_pretty(value)?));
        Ok(())
    }

    fn miss(&mut self, what: impl Into<String>, why: impl ToString) {
        self.missing.push(Missing { what: what.into(), why: why.to_string() });
    }

    async fn add_cluster(
        &mut self,
        client: &Client,
        status: &v1::StatusResponse,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        self.add_json("cluster/status.json", &cluster::status_as_json(status))?;
        self.add_json("cluster/check.json", &cluster::check_as_json(status, now.as_second()))?;
        match connection::all_as_json(client).await {
            Ok(connections) => self.add_json("cluster/connections.json", &connections)?,
            Err(error) => self.miss("connections of clients", error),
        }
        match cluster::events_since(client, self.since_ms).await {
            Ok((events, untold)) => {
                let lines: Vec<String> = events.iter().map(Value::to_string).collect();
                self.add("cluster/events.jsonl", &(lines.join("\n") + "\n"));
                for v1::UntoldNode { node, why } in untold {
                    self.miss(format!("events of node {node}"), why);
                }
            }
            Err(error) => self.miss("events", error),
        }
        Ok(())
    }

    async fn add_node(&mut self, client: &Client, node: &v1::NodeStatus) {
        let id = node.id;
        if !node.reachable {
            return self
                .miss(format!("metrics, settings and log of node {id}"), "it does not answer");
        }
        match client.node_report(id, self.since_ms).await {
            Err(error) => self.miss(format!("metrics, settings and log of node {id}"), error),
            Ok(report) => {
                self.add(&format!("node-{id}/metrics.txt"), &report.metrics);
                self.add(&format!("node-{id}/settings.toml"), &report.settings);
                self.add(&format!("node-{id}/log.txt"), &(report.log.join("\n") + "\n"));
                if report.log_lines_lost > 0 {
                    let why = format!("{} lines are kept no more", report.log_lines_lost);
                    self.miss(format!("the beginning of the log of node {id}"), why);
                }
            }
        }
    }

    /// Of what there is and what there is not.
    fn manifest(&self, status: &v1::StatusResponse, now: Timestamp) -> Value {
        let node = |node: &v1::NodeStatus| json!({"node": node.id, "version": node.version, "reachable": node.reachable});
        let file = |(name, text): &(String, String)| json!({"name": name, "bytes": text.len()});
        let missing = |Missing { what, why }: &Missing| json!({"what": what, "why": scrub(why)});
        json!({
            "made_at": now.to_string(),
            "made_by_version": env!("CARGO_PKG_VERSION"),
            "cluster_id": status.cluster_id,
            "since_ms": self.since_ms,
            "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "missing": self.missing.iter().map(missing).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_what_there_is_and_what_there_is_not() {
        let mut bundle = Bundle::new(7);
        bundle.add("a.txt", "SharedAccessKey=topsecret; all else");
        bundle.miss("the log of node 3", "it does not answer");
        let node = v1::NodeStatus { id: 3, ..Default::default() };
        let status = v1::StatusResponse { nodes: vec![node], ..Default::default() };
        let manifest = bundle.manifest(&status, Timestamp::UNIX_EPOCH);
        assert_eq!(manifest["files"][0]["name"], "a.txt");
        assert_eq!(manifest["missing"][0]["what"], "the log of node 3");
        assert_eq!(manifest["nodes"][0], json!({"node": 3, "version": null, "reachable": false}));
        assert!(!bundle.files[0].1.contains("topsecret"));
    }
}
