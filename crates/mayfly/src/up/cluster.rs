//! A local cluster: its directory, its nodes' configurations and processes.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use client::{Client, ClientOptions, Trust};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::certificate;
use super::member::Member;
use crate::files::{self, Existing, Readers};
use crate::serve::config::{Addresses, is_weak};
use crate::terminal;

/// Ports of node 1 without an offset; each further node has them 1000 higher.
const GRPC_PORT: u16 = 5310;
const HTTP_PORT: u16 = 5300;
const PEER_PORT: u16 = 5320;
const AMQP_PORT: u16 = 5672;
const AMQPS_PORT: u16 = 5671;
/// Passes connections on to the nodes' AMQP ports.
const FORWARD_PORT: u16 = 5700;
/// So does each of these, if they are wanted: where clients of Azure look for HTTPS and for AMQP.
const AZURE_PORTS: [u16; 2] = [443, AMQPS_PORT];
const NODE_STEP: u16 = 1000;
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The cluster as it shall be.
#[derive(Clone, Debug)]
pub struct Plan {
    pub dir: PathBuf,
    pub nodes: u16,
    pub base_offset: u16,
    /// Start a node that dies again.
    pub restart: bool,
    pub development: bool,
    pub synced: bool,
    pub data_groups: Option<u16>,
    /// Of each node's databases.
    pub memory_mebibytes: Option<u32>,
    pub message_history_mebibytes: Option<u32>,
    pub log: Option<String>,
    /// A new leader deletes nothing that is idle before receivers had so long to come back.
    pub idle_reattach: Option<Duration>,
    /// With a certificate made for the cluster.
    pub tls: bool,
    /// Clients may speak plain text beside it.
    pub plain: bool,
    /// Where the nodes listen.
    pub host: IpAddr,
    /// Of the certificate, beside those it always has.
    pub host_names: Vec<String>,
    /// Azure's tools are answered.
    pub azure: bool,
    /// Connections to the ports of Azure are passed on.
    pub azure_ports: bool,
    /// Asked of clients, and between nodes.
    pub secret: Option<String>,
    /// Listen beyond loopback without one.
    pub insecure: bool,
}

impl Default for Plan {
    /// Three nodes on loopback.
    fn default() -> Plan {
        Plan {
            dir: PathBuf::new(),
            nodes: 3,
            base_offset: 0,
            restart: true,
            development: false,
            synced: true,
            data_groups: None,
            memory_mebibytes: None,
            message_history_mebibytes: None,
            log: None,
            idle_reattach: None,
            tls: false,
            plain: false,
            host: Ipv4Addr::LOCALHOST.into(),
            host_names: Vec::new(),
            azure: false,
            azure_ports: false,
            secret: None,
            insecure: false,
        }
    }
}

/// Something happened to a node that nobody asked for.
#[derive(Clone, Debug)]
pub enum NodeEvent {
    /// `again`: it is started once more. `removed`: it is no part of the cluster any more.
    Died {
        node: u64,
        how: String,
        again: bool,
        removed: bool,
    },
    Started {
        node: u64,
        pid: i32,
    },
}

/// Events that wait to be looked at. Whoever looks at none misses those beyond: nodes are kept
/// running all the same.
const EVENTS_MAX: usize = 1024;

/// Running nodes. Dropped, they are killed.
pub struct LocalCluster {
    id: String,
    plan: Plan,
    certificate: Option<certificate::Files>,
    members: Vec<Member>,
    events: mpsc::Receiver<NodeEvent>,
    supervisors: JoinSet<()>,
}

/// What a directory remembers of its cluster.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Founded {
    id: String,
    nodes: u16,
}

impl Plan {
    /// The port of a node, counted from 1, at some host. `None`: there is no such port.
    fn address(&self, host: IpAddr, node: u16, port: u16) -> Option<String> {
        let offset = (node - 1).checked_mul(NODE_STEP)?.checked_add(self.base_offset)?;
        Some(SocketAddr::new(host, port.checked_add(offset)?).to_string())
    }

    /// Where the nodes are reached from here, and tell each other and native clients that they are.
    fn reached(&self) -> IpAddr {
        match self.host {
            IpAddr::V4(host) if host.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(host) if host.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            host => host,
        }
    }

    /// Beyond this machine a secret is asked for, unless someone says that none shall be.
    pub fn check_open(&self) -> anyhow::Result<()> {
        match &self.secret {
            None if !self.host.is_loopback() && !self.insecure => Err(terminal::usage(format!(
                "--host {} is not loopback; set --secret (or MAYFLY_SECRET), or pass --insecure",
                self.host
            ))),
            Some(_) if !self.host.is_loopback() && self.takes_plain() && !self.insecure => {
                let change = if self.tls { "leave --plain" } else { "add --tls" };
                Err(terminal::usage(format!(
                    "--host {} is not loopback, and clients would speak plain text there; {change}, or pass \
                     --insecure",
                    self.host
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether clients may speak plain text.
    fn takes_plain(&self) -> bool {
        self.plain || !self.tls
    }

    /// Whether the nodes speak TLS among themselves: where clients do, and where others could listen.
    fn are_peers_certified(&self) -> bool {
        self.tls || !self.host.is_loopback()
    }

    /// Where the certificate for clients is.
    fn certificate_dir(&self) -> PathBuf {
        self.dir.join("tls")
    }

    /// Where the nodes' certificates for each other are.
    fn peers_dir(&self) -> PathBuf {
        self.dir.join("peers")
    }

    /// What the certificate is to be good for, beside what it always is.
    fn certified_names(&self) -> Vec<String> {
        let host = Some(self.host).filter(|host| !host.is_unspecified() && !host.is_loopback());
        self.host_names.iter().cloned().chain(host.map(|host| host.to_string())).collect()
    }

    /// What a client of this cluster proves itself with.
    fn client_options(&self, give_up_after: Duration) -> anyhow::Result<ClientOptions> {
        let tls = match self.takes_plain() {
            true => None,
            false => {
                let path = certificate::authority(&self.certificate_dir());
                let shown = path.display();
                let pem = fs::read(&path).with_context(|| format!("cannot read '{shown}'"))?;
                Some(Trust::Authorities(pem))
            }
        };
        let secret = self.secret.clone();
        Ok(ClientOptions { secret, tls, give_up_after, ..ClientOptions::default() })
    }

    /// Where each node speaks AMQP over TLS alone, if any does: where the port of node 1 is for all, none.
    fn amqps_addresses(&self) -> Vec<String> {
        let nodes = (1..=self.nodes).filter(|_| self.tls && !self.azure_ports);
        nodes.filter_map(|node| self.address(self.host, node, AMQPS_PORT)).collect()
    }

    /// Where a node takes everything that clients speak.
    fn any_addresses(&self, node: u16) -> Vec<String> {
        let ports = [AMQP_PORT, HTTP_PORT].into_iter();
        ports.filter_map(|port| self.address(self.host, node, port)).collect()
    }

    /// Where a node is reached.
    fn addresses(&self, node: u16) -> anyhow::Result<Addresses> {
        self.addresses_at(self.reached(), node)
    }

    fn addresses_at(&self, host: IpAddr, node: u16) -> anyhow::Result<Addresses> {
        let ports = [GRPC_PORT, HTTP_PORT, PEER_PORT, AMQP_PORT];
        let ports = ports.map(|port| self.address(host, node, port));
        match ports {
            [Some(grpc), Some(http), Some(peer), amqp @ Some(_)] => {
                Ok(Addresses { grpc, http, peer, amqp })
            }
            _ => Err(terminal::usage(format!(
                "--base-offset {}: the ports of node {node} would be above 65535",
                self.base_offset
            ))),
        }
    }

    /// Where connections are passed on to a live node.
    pub fn forward_addresses(&self) -> anyhow::Result<Vec<String>> {
        let azure = AZURE_PORTS.into_iter().filter(|_| self.azure_ports);
        let address = |port: u16| {
            self.address(self.host, 1, port).ok_or_else(|| {
                terminal::usage(format!("--base-offset {}: too high", self.base_offset))
            })
        };
        [FORWARD_PORT].into_iter().chain(azure).map(address).collect()
    }

    /// The first port of the plan that something else listens on.
    pub fn port_in_use(&self) -> Option<String> {
        let nodes = (1..=self.nodes).filter_map(|node| self.addresses_at(self.host, node).ok());
        let ports =
            nodes.flat_map(|node| [Some(node.grpc), Some(node.http), Some(node.peer), node.amqp]);
        let mut ports = ports.flatten().chain(self.amqps_addresses());
        ports.find(|address| std::net::TcpListener::bind(address).is_err())
    }

    /// The cluster's id: that of the directory, or a new one for a new directory.
    fn found(&self) -> anyhow::Result<String> {
        let path = self.dir.join("cluster.toml");
        if let Ok(text) = fs::read_to_string(&path) {
            let founded: Founded = toml::from_str(&text).map_err(|error| {
                terminal::usage(format!("{}: {}", path.display(), error.message()))
            })?;
            if founded.nodes != self.nodes {
                return Err(terminal::usage(format!(
                    "'{}' holds a cluster of {} nodes; pass --nodes {}, or another --data-dir",
                    self.dir.display(),
                    founded.nodes,
                    founded.nodes
                )));
            }
            return Ok(founded.id);
        }
        let id = uuid::Uuid::new_v4().simple().to_string();
        write(&path, &toml::to_string(&Founded { id: id.clone(), nodes: self.nodes })?)?;
        Ok(id)
    }

    fn config(
        &self,
        member: &Member,
        id: &str,
        members: &[Member],
        certificate: Option<&certificate::Files>,
    ) -> anyhow::Result<String> {
        let node = |member: &Member| {
            let Addresses { grpc, http, peer, amqp } = member.addresses().clone();
            let id = ("id".to_owned(), toml::Value::from(member.id() as i64));
            let ports = [("grpc", grpc), ("http", http), ("peer", peer)].into_iter();
            let ports = ports.chain(amqp.map(|amqp| ("amqp", amqp)));
            let ports = ports.map(|(name, address)| (name.to_owned(), address.into()));
            toml::Table::from_iter([id].into_iter().chain(ports))
        };
        let table = |pairs: Vec<(&str, toml::Value)>| -> toml::Value {
            let pairs = pairs.into_iter().map(|(name, value)| (name.to_owned(), value));
            toml::Table::from_iter(pairs).into()
        };
        let data_dir = member.data_path().display().to_string();
        let mut cluster =
            vec![("id", id.into()), ("node", members.iter().map(node).collect::<Vec<_>>().into())];
        if let Some(groups) = self.data_groups {
            cluster.push(("data_groups", i64::from(groups).into()));
        }
        let mut storage = Vec::new();
        if let Some(memory) = self.memory_mebibytes {
            storage.push(("memory_mebibytes", i64::from(memory).into()));
        }
        let durability = if self.synced { "synced" } else { "replicated" };
        storage.push(("durability", durability.into()));
        let own = table(vec![
            ("id", (member.id() as i64).into()),
            ("data_dir", data_dir.into()),
            ("development", self.development.into()),
        ]);
        let mut config =
            vec![("node", own), ("cluster", table(cluster)), ("storage", table(storage))];
        if let Some(mebibytes) = self.message_history_mebibytes {
            let history = vec![("memory_mebibytes", i64::from(mebibytes).into())];
            config.push(("message_history", table(history)));
        }
        if let Some(filter) = &self.log {
            config.push(("log", table(vec![("filter", filter.clone().into())])));
        }
        if let Some(reattach) = self.idle_reattach {
            let reattach = humantime::format_duration(reattach).to_string();
            config.push(("idle", table(vec![("reattach", reattach.into())])));
        }
        if self.secret.is_some() || self.insecure {
            let mut security = vec![("insecure", self.insecure.into())];
            let secret = self.secret.iter();
            security.extend(secret.flat_map(|secret| {
                [("secret", secret.clone().into()), ("weak_secret", is_weak(secret).into())]
            }));
            config.push(("security", table(security)));
        }
        let number = u16::try_from(member.id())?;
        let Addresses { grpc, http, peer, amqp: _ } = self.addresses_at(self.host, number)?;
        let any = self.any_addresses(number);
        let mut listen = vec![
            ("grpc", grpc.into()),
            ("http", http.into()),
            ("peer", peer.into()),
            ("amqp", "off".into()),
            ("any", any.into()),
        ];
        let amqps = self.amqps_addresses();
        listen.extend(
            amqps.get(usize::from(number) - 1).map(|amqps| ("amqps", amqps.clone().into())),
        );
        config.push(("listen", table(listen)));
        let mut tls = Vec::new();
        if let Some(files) = certificate {
            let path = |path: &Path| toml::Value::from(path.display().to_string());
            tls.extend([("certificate", path(&files.certificate)), ("key", path(&files.key))]);
            tls.push(("plain", self.plain.into()));
        }
        if self.are_peers_certified() {
            let peer = certificate::peer_table(&self.peers_dir(), member.id());
            tls.push(("peer", peer.into()));
        }
        if !tls.is_empty() {
            config.push(("tls", table(tls)));
        }
        if self.azure {
            config.push(("azure", table(vec![("enabled", true.into())])));
        }
        let config = table(config);
        Ok(format!("# Written by `mayfly up` at every start.\n{}", toml::to_string(&config)?))
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
}

impl LocalCluster {
    /// Writes the nodes' configurations and starts their processes.
    pub fn start(plan: Plan) -> anyhow::Result<LocalCluster> {
        fs::create_dir_all(&plan.dir)
            .map_err(|error| terminal::usage(format!("'{}': {error}", plan.dir.display())))?;
        // Children run elsewhere, should their directory ever change.
        let plan = Plan { dir: fs::canonicalize(&plan.dir)?, ..plan };
        let id = plan.found()?;
        if let Some(address) = plan.port_in_use() {
            bail!(
                "{address} is in use, by another cluster perhaps; end it, or shift all ports with \
                 --base-offset"
            );
        }
        let mut members = Vec::new();
        for node in 1..=plan.nodes {
            let dir = plan.dir.join(format!("node-{node}"));
            fs::create_dir_all(&dir)
                .with_context(|| format!("cannot create '{}'", dir.display()))?;
            members.push(Member::new(node.into(), plan.addresses(node)?, dir));
        }
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let (tell, events) = mpsc::channel(EVENTS_MAX);
        let mut supervisors = JoinSet::new();
        let certificate = match plan.tls {
            true => Some(certificate::ensure(&plan.certificate_dir(), &plan.certified_names())?),
            false => None,
        };
        if plan.are_peers_certified() {
            certificate::ensure_peers(&plan.peers_dir(), plan.nodes)?;
        }
        for member in &members {
            let text = plan.config(member, &id, &members, certificate.as_ref())?;
            // It may hold the secret.
            files::write(&member.config_path(), &text, Readers::Owner, Existing::Replaced)?;
        }
        for member in &members {
            supervisors.spawn(member.clone().supervise(
                program.clone(),
                plan.restart,
                tell.clone(),
            ));
        }
        Ok(LocalCluster { id, plan, certificate, members, events, supervisors })
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    pub fn member(&self, id: u64) -> Option<&Member> {
        self.members.iter().find(|member| member.id() == id)
    }

    /// The file that Azure's tools have to trust, if they are answered.
    pub fn azure_authority(&self) -> Option<&Path> {
        self.authority().filter(|_| self.plan.azure)
    }

    /// The cluster's, as its configuration has it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether clients are asked for a key.
    pub fn has_secret(&self) -> bool {
        self.plan.secret.is_some()
    }

    /// The file that clients have to trust, if they are to use TLS.
    pub fn authority(&self) -> Option<&Path> {
        self.certificate.as_ref().map(|files| files.authority.as_path())
    }

    pub fn amqps_addresses(&self) -> Vec<String> {
        self.plan.amqps_addresses()
    }

    pub fn grpc_addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| member.addresses().grpc.clone()).collect()
    }

    /// The same as clients are to be given them.
    pub fn client_addresses(&self) -> Vec<String> {
        let scheme = if self.takes_plain() { "" } else { "https://" };
        self.grpc_addresses().iter().map(|address| format!("{scheme}{address}")).collect()
    }

    pub fn takes_plain(&self) -> bool {
        self.plan.takes_plain()
    }

    /// A client that knows every node.
    pub fn client(&self) -> anyhow::Result<Client> {
        let options = self.plan.client_options(Duration::from_secs(15))?;
        Ok(Client::with_options(self.grpc_addresses(), options)?)
    }

    /// What happened next; `None`: nothing more can.
    pub async fn next_event(&mut self) -> Option<NodeEvent> {
        self.events.recv().await
    }

    /// Waits until every node answers and every group has a leader. A node that dies before that
    /// cannot run at all, and says why; one that was removed from the cluster is not waited for.
    pub async fn wait_ready(&mut self, within: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        let options = self.plan.client_options(Duration::from_secs(1))?;
        let client = Client::with_options(self.grpc_addresses(), options)?;
        let mut last = "no node answers".to_owned();
        let mut removed = 0;
        while started.elapsed() < within {
            tokio::select! {
                Some(NodeEvent::Died { node, how, removed: gone, .. }) = self.events.recv() => {
                    if !gone {
                        bail!("node {node} did not start: {how}");
                    }
                    terminal::note(&format!("node {node} stays down: it was removed from the cluster"));
                    removed += 1;
                }
                ready = is_ready(&client, &self.id, self.members.len() - removed) => match ready {
                    Ok(()) => return Ok(()),
                    Err(what) => last = what,
                },
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        let log = self.members.first().map(|member| member.log_path().display().to_string());
        bail!(
            "the cluster was not ready within {} s ({last}); see the nodes' logs, as {}",
            within.as_secs(),
            log.unwrap_or_default()
        )
    }

    /// Ends all nodes at once, and waits for them.
    pub async fn stop(mut self) {
        for member in &self.members {
            member.end();
        }
        while self.supervisors.join_next().await.is_some() {}
    }
}

async fn is_ready(client: &Client, id: &str, nodes: usize) -> Result<(), String> {
    let status = client.status(false).await.map_err(|error| error.to_string())?;
    if !status.cluster_id.is_empty() && status.cluster_id != id {
        return Err(format!("cluster {} answers in its place", status.cluster_id));
    }
    let up = status.nodes.iter().filter(|node| node.reachable).count();
    let led = status.groups.iter().filter(|group| group.leader != 0).count();
    // The catalog alone: the data groups are not placed yet.
    if up < nodes || led < status.groups.len() || status.groups.len() < 2 {
        let groups = status.groups.len();
        return Err(format!("{up} of {nodes} nodes up, {led} of {groups} groups have a leader"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(dir: &Path, nodes: u16, base_offset: u16) -> Plan {
        Plan { dir: dir.to_owned(), nodes, base_offset, tls: true, ..Plan::default() }
    }

    #[test]
    fn each_node_has_ports_of_its_own() {
        let plan = plan(Path::new("."), 3, 20_000);
        let second = plan.addresses(2).expect("in range");
        assert_eq!(
            (second.grpc.as_str(), second.http.as_str()),
            ("127.0.0.1:26310", "127.0.0.1:26300")
        );
        assert!(Plan { base_offset: 60_000, ..plan }.addresses(2).is_err());
    }

    #[test]
    fn a_directory_keeps_its_cluster() {
        let dir = tempfile::tempdir().expect("a directory");
        let id = plan(dir.path(), 3, 0).found().expect("a new one");
        assert_eq!(plan(dir.path(), 3, 0).found().expect("the same"), id);
        let told = plan(dir.path(), 5, 0).found().expect_err("another size").to_string();
        assert!(told.contains("holds a cluster of 3 nodes; pass --nodes 3"), "{told}");
    }

    #[test]
    fn a_node_can_read_what_is_written_for_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = plan(dir.path(), 2, 100);
        let member = |node: u16| {
            let dir = dir.path().join(format!("node-{node}"));
            Member::new(node.into(), plan.addresses(node).expect("in range"), dir)
        };
        let members = [member(1), member(2)];
        let files = certificate::ensure(&dir.path().join("tls"), &[]).expect("a certificate");
        certificate::ensure_peers(&plan.peers_dir(), 2).expect("certificates of peers");
        let read = |plan: &Plan| {
            let text = plan.config(&members[1], &"ab".repeat(16), &members, Some(&files));
            let path = dir.path().join("mayfly.toml");
            let text = text.expect("it is written");
            files::write(&path, &text, Readers::Owner, Existing::Replaced).expect("a file");
            let args = crate::serve::ServeArgs { config: Some(path), ..Default::default() };
            crate::serve::config::Config::load(&args).expect("it is right")
        };
        let config = read(&plan);
        assert_eq!((config.node, config.nodes.len(), config.listen.http.port()), (2, 2, 6400));
        let any: Vec<u16> = config.listen.any.iter().map(|address| address.port()).collect();
        assert_eq!((any, config.listen.amqp), (vec![6772, 6400], None));
        assert_eq!(config.listen.amqps.map(|address| address.port()), Some(6771));
        assert!(config.access.is_anyone() && config.open_to_clients().is_empty());
        assert!(config.peer_tls.is_some(), "peers speak TLS where clients do");

        let host = Ipv4Addr::UNSPECIFIED.into();
        let secret = Some("s3cret".to_owned());
        let open = Plan { host, secret, azure_ports: true, ..plan.clone() };
        let config = read(&open);
        let root = config.access.login("RootManageSharedAccessKey", "s3cret");
        assert!(root.is_some() && config.secret.is_some());
        assert_eq!(config.listen.grpc.to_string(), "0.0.0.0:6410");
        assert_eq!((config.listen.amqps, &*config.nodes[&2].grpc), (None, "127.0.0.1:6410"));
        let forwards = open.forward_addresses().expect("in range");
        assert_eq!(forwards, ["0.0.0.0:5800", "0.0.0.0:543", "0.0.0.0:5771"]);
        assert_eq!(plan.forward_addresses().expect("in range"), ["127.0.0.1:5800"]);
    }

    #[test]
    fn beyond_loopback_a_secret_is_asked_for() {
        let host = Ipv4Addr::UNSPECIFIED.into();
        let open = Plan { host, ..Plan::default() };
        let told = open.check_open().expect_err("nobody is asked for anything").to_string();
        assert!(told.contains("--host 0.0.0.0 is not loopback; set --secret"), "{told}");
        let secret = Some("s3cret".to_owned());
        let kept = Plan { secret, ..open.clone() };
        let told = kept.check_open().expect_err("others read along").to_string();
        assert!(told.contains("clients would speak plain text there; add --tls"), "{told}");
        for plan in [
            Plan::default(),
            Plan { insecure: true, ..open },
            Plan { insecure: true, ..kept.clone() },
            Plan { tls: true, ..kept },
        ] {
            plan.check_open().expect("as it shall be");
        }
    }
}
