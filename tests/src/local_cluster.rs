//! A cluster as a reader of the documents starts it: `mayfly up`, its ports shifted to free ones.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::mayfly;

/// Of node 1: native API, HTTP, peers, AMQP, AMQP over TLS. Those of node 2 are 1000 higher, and so on.
const PORTS: [u16; 5] = [5310, 5300, 5320, 5672, 5671];
/// AMQP to any node that lives.
const FORWARD_PORT: u16 = 5700;
const NODES: u16 = 3;
/// Three nodes, and one that a page may add to them.
const NODES_MAX: u16 = 4;
/// Between the ports a reader's own cluster has and those that other tests choose from.
const OFFSETS: std::ops::Range<u16> = 100..2300;
/// With this between them no two offsets share a port: a cluster's are free once it is chosen, and taken
/// only when its nodes have started, and meanwhile another may choose.
const OFFSET_STEP: usize = 43;
const READY_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// Three nodes in development mode. Dropping it ends them and removes their data; killed, the test
/// takes them along, as they end with `mayfly up`, and that with its standard output.
pub struct LocalCluster {
    child: Child,
    offset: u16,
    /// Keeps others that start such clusters from these ports.
    _kept: UdpSocket,
    dir: TempDir,
}

impl LocalCluster {
    /// Starts one, and waits until it says that it is ready.
    pub fn start() -> anyhow::Result<LocalCluster> {
        LocalCluster::start_with(&["--development"])
    }

    /// The same with flags of `mayfly up`.
    pub fn start_with(flags: &[&str]) -> anyhow::Result<LocalCluster> {
        let (offset, kept) = free_offset()?;
        let dir = tempfile::tempdir()?;
        let mut child = Command::new(mayfly()?)
            .arg("up")
            .args(flags)
            .args(["--memory", "128", "--base-offset"])
            .arg(offset.to_string())
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.path().join("up.log"))?)
            .spawn()?;
        let stdout = child.stdout.take().context("its output is a pipe")?;
        let cluster = LocalCluster { child, offset, _kept: kept, dir };
        if !says_ready(stdout) {
            let told = fs::read_to_string(cluster.dir.path().join("up.log")).unwrap_or_default();
            bail!("the cluster does not become ready: {told}");
        }
        Ok(cluster)
    }

    /// Of its directory, which vanishes with it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What `--connect` takes.
    pub fn connect(&self) -> String {
        let grpc = |node: u16| format!("127.0.0.1:{}", PORTS[0] + 1000 * (node - 1) + self.offset);
        (1..=NODES).map(grpc).collect::<Vec<_>>().join(",")
    }

    /// Where node 1 answers HTTP.
    pub fn http(&self) -> String {
        format!("127.0.0.1:{}", PORTS[1] + self.offset)
    }

    /// Where a port of node 1 is, or one that passes connections on.
    pub fn address(&self, port: u16) -> String {
        format!("127.0.0.1:{}", port + self.offset)
    }

    /// A text that names the ports a reader's cluster has, with those of this one.
    pub fn with_its_ports(&self, text: &str) -> String {
        let mut shifted = text.to_owned();
        for port in ports() {
            for host in ["localhost", "127.0.0.1"] {
                let its = format!("{host}:{}", port + self.offset);
                // No port is the beginning of another: each has four digits.
                shifted = shifted.replace(&format!("{host}:{port}"), &its);
            }
        }
        shifted
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        // It may have ended by itself; then there is nobody to tell.
        let _ = kill(pid, Signal::SIGTERM);
        let until = Instant::now() + ENDS_WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn ports() -> impl Iterator<Item = u16> {
    let of_node = |node: u16| PORTS.into_iter().map(move |port| port + 1000 * node);
    (0..NODES_MAX).flat_map(of_node).chain([FORWARD_PORT])
}

fn free_offset() -> anyhow::Result<(u16, UdpSocket)> {
    for offset in OFFSETS.step_by(OFFSET_STEP) {
        let Ok(kept) = UdpSocket::bind(("127.0.0.1", FORWARD_PORT + offset)) else { continue };
        if ports().all(|port| TcpListener::bind(("127.0.0.1", port + offset)).is_ok()) {
            return Ok((offset, kept));
        }
    }
    bail!("no free ports for a cluster")
}

/// Reads its output to the end, so that it never waits for a reader; whether it says that it is ready.
fn says_ready(stdout: ChildStdout) -> bool {
    let (ready, told) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.starts_with("ready") {
                // Whoever waited may have given up.
                let _ = ready.send(());
            }
        }
    });
    told.recv_timeout(READY_WITHIN).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_clusters_share_a_port() {
        let all =
            || OFFSETS.step_by(OFFSET_STEP).flat_map(|offset| ports().map(move |p| p + offset));
        let distinct: std::collections::BTreeSet<u16> = all().collect();
        assert_eq!(distinct.len(), all().count());
    }

    #[test]
    fn no_port_of_a_cluster_is_the_beginning_of_another() {
        let mut all: Vec<u16> = ports().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), ports().count());
        assert!(all.iter().all(|port| (1000..10_000).contains(port)));
    }
}
