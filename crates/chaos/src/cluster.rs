//! A cluster of its own: real processes, each with a configuration in which every other node's address
//! is the entry of a link that can be hurt; or each in a network namespace, between which packets can be
//! lost.

mod backup;
mod certificates;
mod client_key;
mod command;
mod config;
mod control;
mod disk;
mod guest;
mod namespaces;
mod ports;
mod remote_node;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{Client, ClientOptions, v1};
use remote::Places;
use tempfile::TempDir;

use crate::Error;
use crate::process::{Launch, Process};
use crate::proxy::{CLIENTS, Condition, Flow, Links};
pub use backup::{BackupPlace, empty};
use certificates::Certificates;
pub use client_key::AmqpLogin;
use client_key::ClientKey;
pub use config::Addresses;
use config::Text;
pub use control::NodeControl;
pub use disk::SmallDisk;
use guest::Guest;
use namespaces::Namespaces;
pub use ports::free_ports;
pub use remote_node::RemoteNode;

/// How long elections and the first comparison of clocks may take on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);
/// The rule whose key the cluster's secret is.
const ROOT: &str = "RootManageSharedAccessKey";
/// Where nodes without namespaces are.
const LOOPBACK: &str = "127.0.0.1";
/// Entries that a replica under load may have before it.
const LAG_MAX: u64 = 1_000;
/// In a node's directory.
const CONFIG: &str = "mayfly.toml";
const DATA: &str = "data";
/// Of a small disk: enough for both databases of an experiment.
const SMALL_DISK_MEBIBYTES: u64 = 384;

/// The cluster as it shall be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The broker's binary.
    pub program: PathBuf,
    pub nodes: u64,
    pub data_groups: u16,
    /// What is acknowledged is on disk; else a power failure of several nodes may lose it.
    pub synced: bool,
    /// Nodes with small disks of their own, which can be filled. Needs the right to mount.
    pub small_disks: bool,
    /// Nodes in network namespaces of their own, whose packets the kernel loses, in the place of proxies.
    /// Needs root and iproute2.
    pub namespaces: bool,
    /// Nodes know each other by certificates.
    pub tls: bool,
    /// Nodes ask clients for a key, which can be rotated.
    pub keys: bool,
    /// What all nodes begin as, where that is another release.
    pub previous: Option<PathBuf>,
    /// Nodes record what happens to messages, each in so many mebibytes of memory. None: they do not.
    pub message_history_mebibytes: Option<u32>,
}

/// Running nodes. Dropped, those that were started here are killed and their files removed.
pub struct Cluster {
    pub links: Links,
    /// Those that were started here.
    pub nodes: BTreeMap<u64, Process>,
    /// Those of somebody else's cluster that an agent hurts.
    pub agents: BTreeMap<u64, RemoteNode>,
    pub groups: usize,
    /// Whose files were harmed last.
    pub harmed: Option<Harmed>,
    /// Before the directory: what is mounted in it goes first.
    disks: BTreeMap<u64, SmallDisk>,
    /// Where clients enter.
    entries: Vec<String>,
    /// The same over AMQP; of somebody else's cluster nobody knows.
    amqp: Vec<String>,
    /// And over HTTP, past all links.
    http: Vec<String>,
    direct: BTreeMap<u64, String>,
    /// Where nodes that agents hurt reach each other.
    peers: BTreeMap<u64, String>,
    /// What clients prove themselves with, and whom they trust.
    login: ClientOptions,
    /// Absent: nodes speak plain text among themselves.
    certificates: Option<Certificates>,
    /// What clients have, but for those that look on. Absent: the same as those.
    client_key: Option<ClientKey>,
    /// One that joined and has not left yet.
    guest: Option<Guest>,
    /// How many joined so far.
    guests: u64,
    /// After all processes that run in them. Absent: there are proxies.
    namespaces: Option<Namespaces>,
    /// Absent: somebody else's cluster.
    own: Option<Own>,
}

/// Where a cluster is entered over AMQP.
#[derive(Clone, Default)]
pub struct AmqpEntries {
    /// None where that is not known.
    pub addresses: Vec<String>,
    /// None where none is asked for.
    pub login: Option<AmqpLogin>,
}

/// A node whose files were harmed, perhaps where it has not looked yet.
#[derive(Clone)]
pub struct Harmed {
    pub node: u64,
    /// Who its data said it was before.
    pub identity: Vec<u8>,
}

/// Where each node listens.
type Listening = BTreeMap<u64, Addresses>;
/// Where each node finds each.
type Seen = BTreeMap<u64, BTreeMap<u64, Addresses>>;

/// What a cluster is made of that was started here.
struct Own {
    dir: TempDir,
    settings: Settings,
}

impl Cluster {
    /// Writes configurations, opens links, starts the nodes and waits until every group has a leader.
    pub async fn start(settings: &Settings) -> Result<Cluster, Error> {
        let dir = TempDir::with_prefix("mayfly-chaos-").map_err(Error::io("a directory"))?;
        let groups = 1 + usize::from(settings.data_groups);
        let mut cluster = Cluster { groups, ..Cluster::none() };
        cluster.configure(settings, dir.path()).await?;
        cluster.own = Some(Own { dir, settings: settings.clone() });
        for process in cluster.nodes.values_mut() {
            process.start(&[])?;
        }
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    /// A cluster that runs already: clients can be started, leaders asked to go, and nodes hurt that have agents.
    ///
    /// # Errors
    /// It does not answer; or an agent does not, or is of another cluster.
    pub async fn join(
        addresses: &[String],
        login: ClientOptions,
        agents: Option<Places>,
    ) -> Result<Cluster, Error> {
        let client = Client::with_options(addresses, logged_in(&login, patience()))?;
        let status = client.status(false).await?;
        let mut cluster = Cluster {
            groups: status.groups.len(),
            entries: addresses.to_vec(),
            direct: status.nodes.iter().map(|it| (it.id, it.grpc_address.clone())).collect(),
            // As it is by the addresses: one that says https makes all of them so.
            login: client.options().clone(),
            ..Cluster::none()
        };
        if let Some(agents) = agents {
            cluster.attach(&agents, &status).await?;
        }
        Ok(cluster)
    }

    /// Takes agents on, and puts links between clients and nodes, which can be hurt from here.
    async fn attach(&mut self, agents: &Places, status: &v1::StatusResponse) -> Result<(), Error> {
        for address in &agents.addresses {
            let wrong = |told: String| Error::Wrong(format!("agent {address}: {told}"));
            let agent = RemoteNode::attach(agents, address).await.map_err(wrong)?;
            let node = agent.node;
            if !status.nodes.iter().any(|known| known.id == node) {
                return Err(wrong(format!("its node is {node}, which this cluster does not have")));
            }
            if self.agents.insert(node, agent).is_some() {
                return Err(wrong(format!("its node is {node}, and another agent's is too")));
            }
        }
        self.peers = status.nodes.iter().map(|it| (it.id, it.peer_address.clone())).collect();
        // Certificates name hosts, and a link's is this machine's.
        if self.login.tls.is_none() {
            let mut entries = Vec::new();
            for (node, address) in &self.direct {
                let entry = self.links.open(CLIENTS, *node, address).await;
                entries.push(entry.map_err(Error::io("a port for a link"))?);
            }
            self.entries = entries;
        }
        Ok(())
    }

    /// What has nothing yet.
    fn none() -> Cluster {
        Cluster {
            links: Links::default(),
            nodes: BTreeMap::new(),
            agents: BTreeMap::new(),
            groups: 0,
            harmed: None,
            disks: BTreeMap::new(),
            entries: Vec::new(),
            amqp: Vec::new(),
            http: Vec::new(),
            direct: BTreeMap::new(),
            peers: BTreeMap::new(),
            login: ClientOptions::default(),
            certificates: None,
            client_key: None,
            guest: None,
            guests: 0,
            namespaces: None,
            own: None,
        }
    }

    /// Whether its processes were started here.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Every node, in order.
    pub fn ids(&self) -> Vec<u64> {
        self.direct.keys().copied().collect()
    }

    async fn configure(&mut self, settings: &Settings, dir: &Path) -> Result<(), Error> {
        let (listen, seen) = match settings.namespaces {
            true => self.configure_namespaces(settings.nodes)?,
            false => self.configure_links(settings.nodes).await?,
        };
        let cluster_id: u128 = rand::random();
        if settings.tls {
            self.certificates = Some(Certificates::make(&settings.program, dir.join("certs"))?);
            self.issue_certificates(&seen.keys().copied().collect::<Vec<_>>())?;
        }
        if settings.keys {
            let drawn = || format!("{:032x}", rand::random::<u128>());
            self.login.secret.get_or_insert_with(drawn);
            self.client_key = Some(ClientKey::make(&settings.program, dir.join("keys"))?);
        }
        for (id, seen) in &seen {
            let home = home_of(dir, *id);
            let data = home.join(DATA);
            std::fs::create_dir_all(&data).map_err(Error::io(home.display().to_string()))?;
            if settings.small_disks
                && let Some(disk) = SmallDisk::mount(&data, SMALL_DISK_MEBIBYTES)?
            {
                self.disks.insert(*id, disk);
            }
            let secret = self.login.secret.as_deref();
            let (tls, keys) = (self.tls_of(*id), self.keys_section());
            let (listen, synced) = (&listen[id], settings.synced);
            let text = Text { data: &data, listen, synced, secret, tls: &tls, keys: &keys };
            let text = text.member(*id, seen, cluster_id, settings.data_groups);
            let path = home.join(CONFIG);
            std::fs::write(&path, text).map_err(Error::io(path.display().to_string()))?;
            let program = settings.previous.as_ref().unwrap_or(&settings.program);
            let namespaces = self.namespaces.as_ref();
            let wrapper = namespaces.map(|namespaces| namespaces.wrapper(*id)).unwrap_or_default();
            let launch = Launch { wrapper, ..launch(settings, program, &home) };
            self.nodes.insert(*id, Process::new(launch, self.links.gate(*id)));
        }
        Ok(())
    }

    /// Nodes on loopback, each behind a link from every other and one from clients.
    async fn configure_links(&mut self, nodes: u64) -> Result<(Listening, Seen), Error> {
        let ports = free_ports(nodes as usize * 4).map_err(Error::io("ports"))?;
        let own = |(id, ports): (u64, &[u16])| (id, Addresses::of_ports(LOOPBACK, ports));
        let own: Listening = (1..=nodes).zip(ports.chunks_exact(4)).map(own).collect();
        let (mut entries, mut amqp) = (BTreeMap::new(), Vec::new());
        let links = &mut self.links;
        let mut open = async |from, to, address: &str| links.open(from, to, address).await;
        let mut all = BTreeMap::new();
        let opening: std::io::Result<()> = async {
            for (id, addresses) in &own {
                entries.insert(*id, open(0, *id, &addresses.grpc).await?);
                amqp.push(open(0, *id, &addresses.amqp).await?);
            }
            for from in own.keys() {
                let mut seen = BTreeMap::new();
                for (to, addresses) in &own {
                    let peer = match from == to {
                        true => addresses.peer.clone(),
                        false => open(*from, *to, &addresses.peer).await?,
                    };
                    let grpc = entries[to].clone();
                    seen.insert(*to, Addresses { grpc, peer, ..addresses.clone() });
                }
                all.insert(*from, seen);
            }
            Ok(())
        }
        .await;
        opening.map_err(Error::io("a port for a link"))?;
        self.direct = own.iter().map(|(id, addresses)| (*id, addresses.grpc.clone())).collect();
        self.entries = entries.into_values().collect();
        self.amqp = amqp;
        self.http = own.values().map(|addresses| addresses.http.clone()).collect();
        Ok((own, all))
    }

    /// Nodes in namespaces, each with the usual ports. They are not on loopback, so there is a secret.
    fn configure_namespaces(&mut self, nodes: u64) -> Result<(Listening, Seen), Error> {
        const PORTS: [u16; 4] = [5310, 5300, 5320, 5672];
        let made = Namespaces::create(nodes)?;
        let at = |host: &str| Addresses::of_ports(host, &PORTS);
        let seen: BTreeMap<u64, Addresses> =
            (1..=nodes).map(|id| (id, at(&made.address_of(id)))).collect();
        self.direct = (1..=nodes).map(|id| (id, at(&made.unhurt_address_of(id)).grpc)).collect();
        self.entries = seen.values().map(|addresses| addresses.grpc.clone()).collect();
        self.amqp = seen.values().map(|addresses| addresses.amqp.clone()).collect();
        self.http = seen.values().map(|addresses| addresses.http.clone()).collect();
        self.login.secret = Some(format!("{:032x}", rand::random::<u128>()));
        self.namespaces = Some(made);
        let listening = (1..=nodes).map(|id| (id, at("0.0.0.0"))).collect();
        Ok((listening, (1..=nodes).map(|id| (id, seen.clone())).collect()))
    }

    /// Makes certificates of nodes, in the place of those they may have; they count once read.
    pub fn issue_certificates(&self, nodes: &[u64]) -> Result<(), Error> {
        for node in nodes {
            let host = self.namespaces.as_ref().map(|namespaces| namespaces.address_of(*node));
            self.certificates()?.issue(*node, host.as_deref().unwrap_or(LOOPBACK))?;
        }
        Ok(())
    }

    /// Those of a cluster whose nodes have some.
    pub fn certificates(&self) -> Result<&Certificates, Error> {
        let none = || Error::Wrong("the nodes have no certificates".to_owned());
        self.certificates.as_ref().ok_or_else(none)
    }

    /// The part of a node's configuration.
    fn tls_of(&self, node: u64) -> String {
        self.certificates.as_ref().map(|made| made.section(node)).unwrap_or_default()
    }

    /// The same of what clients are asked for.
    fn keys_section(&self) -> String {
        self.client_key.as_ref().map(ClientKey::section).unwrap_or_default()
    }

    /// Draws another key for clients, in the files that nodes read.
    pub fn rotate_key(&self) -> Result<(), Error> {
        let config = self.own.as_ref().map(|own| home_of(own.dir.path(), 1).join(CONFIG));
        let config = config.ok_or_else(|| Error::Wrong("there is no node".to_owned()))?;
        self.client_key()?.rotate(&config)
    }

    /// Those of a cluster that asks clients for a key.
    pub fn client_key(&self) -> Result<&ClientKey, Error> {
        let none = || Error::Wrong("the nodes ask clients for no key".to_owned());
        self.client_key.as_ref().ok_or_else(none)
    }

    /// Of a cluster that can be upgraded, the binary of today and that of the release before.
    pub fn releases(&self) -> Result<(PathBuf, PathBuf), Error> {
        let own = self.own.as_ref().map(|own| &own.settings);
        own.and_then(|own| Some((own.program.clone(), own.previous.clone()?)))
            .ok_or_else(|| Error::Wrong("there is no other release's binary".to_owned()))
    }

    /// Whether a node that joined is there still.
    pub fn has_guest(&self) -> bool {
        self.guest.is_some()
    }

    /// Whether nodes reach each other by links, which see what is sent.
    pub fn has_links(&self) -> bool {
        self.namespaces.is_none()
    }

    /// Sets how one direction is from now on. `Err` within: why it cannot be so here.
    pub async fn condition(&self, flow: Flow, to: Condition) -> Result<Result<(), String>, Error> {
        match &self.namespaces {
            Some(namespaces) => return namespaces.set(flow, to),
            None if self.is_own() => self.links.set(flow, to),
            None => return self.condition_by_agents(flow, to).await,
        }
        Ok(Ok(()))
    }

    /// As [`Cluster::condition`]. Each agent sees the connections that its own node has opened.
    async fn condition_by_agents(
        &self,
        flow: Flow,
        to: Condition,
    ) -> Result<Result<(), String>, Error> {
        let (from, heard_by) = flow;
        if from == CLIENTS || heard_by == CLIENTS {
            if self.login.tls.is_some() {
                return Ok(Err("clients speak TLS, and reach nodes straight".to_owned()));
            }
            self.links.set(flow, to);
            return Ok(Ok(()));
        }
        let at = |node: u64| self.agents.get(&node).ok_or_else(|| no_agent(node));
        let (speaker, hearer) = match (at(from), at(heard_by)) {
            (Ok(speaker), Ok(hearer)) => (speaker, hearer),
            (Err(told), _) | (_, Err(told)) => return Ok(Err(told)),
        };
        let address = |node: u64| self.peers.get(&node).map(String::as_str).unwrap_or_default();
        speaker.condition(address(heard_by), true, to).await?;
        hearer.condition(address(from), false, to).await?;
        Ok(Ok(()))
    }

    /// All directions are as they should be.
    pub async fn heal(&self) -> Result<(), Error> {
        self.links.heal();
        for agent in self.agents.values() {
            agent.heal().await?;
        }
        self.namespaces.as_ref().map_or(Ok(()), Namespaces::heal)
    }

    /// The process of a node. `Err` within: why it cannot be hurt from here.
    pub fn control(&mut self, node: u64) -> Result<NodeControl<'_>, String> {
        match (self.nodes.get_mut(&node), self.agents.get(&node)) {
            (Some(process), _) => Ok(NodeControl::Own(process)),
            (None, Some(agent)) => Ok(NodeControl::Remote(agent)),
            (None, None) => Err(no_agent(node)),
        }
    }

    /// The small disk of a node that has one.
    pub fn disk(&self, node: u64) -> Option<&SmallDisk> {
        self.disks.get(&node)
    }

    /// A client as an application would be: behind links that can be hurt.
    pub fn client(&self, options: ClientOptions) -> Result<Client, Error> {
        let login = match &self.client_key {
            None => self.login.clone(),
            Some(key) => {
                let login = key.login();
                let (secret, key_name) = (Some(login.value()), Some(login.name));
                ClientOptions { secret, key_name, ..self.login.clone() }
            }
        };
        let client = Client::with_options(&self.entries, logged_in(&login, options))?;
        if let Some(key) = &self.client_key {
            key.follow(&client);
        }
        Ok(client)
    }

    /// Where clients over AMQP enter, behind links that can be hurt, and with what key.
    pub fn amqp(&self) -> AmqpEntries {
        let root = || self.login.secret.clone().map(|secret| AmqpLogin::new(ROOT, secret));
        let login = self.client_key.as_ref().map(ClientKey::login).or_else(root);
        AmqpEntries { addresses: self.amqp.clone(), login }
    }

    /// Where clients over HTTP enter, and clients of the native API, which links that can be hurt lead to.
    pub fn http_and_grpc(&self) -> (&[String], &[String]) {
        (&self.http, &self.entries)
    }

    /// Undoes what was done to links, and starts nodes that do not run.
    ///
    /// # Errors
    /// A link cannot be set, or a process cannot be started.
    pub async fn put_right(&mut self) -> Result<(), Error> {
        self.heal().await?;
        for process in self.nodes.values_mut() {
            process.revive()?;
            process.start(&[])?;
        }
        for agent in self.agents.values() {
            agent.resume().await?;
            agent.start(&[]).await?;
        }
        Ok(())
    }

    /// A client of one node, past all links: for looking, not for load.
    pub fn client_of(&self, node: u64) -> Result<Client, Error> {
        self.client_of_with(node, patience())
    }

    /// As [`Cluster::client_of`], with other patience.
    pub fn client_of_with(&self, node: u64, options: ClientOptions) -> Result<Client, Error> {
        let address = self.direct.get(&node);
        let address = address.ok_or_else(|| Error::Wrong(format!("there is no node {node}")))?;
        Ok(Client::with_options([address], logged_in(&self.login, options))?)
    }

    /// A client of all nodes, past all links.
    pub fn observer(&self) -> Result<Client, Error> {
        let options = logged_in(&self.login, patience());
        Ok(Client::with_options(self.direct.values(), options)?)
    }

    /// Waits until every group has a leader and all its replicas.
    pub async fn wait_ready(&mut self) -> Result<(), Error> {
        self.wait_for("every group to have a leader", READY_MAX, |_| true).await
    }

    /// Waits until every replica has its vote and little to catch up with, which under load it always
    /// has.
    pub async fn wait_whole(&mut self, patience: Duration) -> Result<(), Error> {
        self.wait_for("every replica to vote", patience, |it| it.lag < LAG_MAX).await
    }

    /// Waits until every replica has its vote and has applied what its leader has.
    pub async fn wait_equal(&mut self, patience: Duration) -> Result<(), Error> {
        self.wait_for("every replica to catch up", patience, |it| it.lag == 0).await
    }

    async fn wait_for(
        &mut self,
        what: &str,
        patience: Duration,
        fits: impl Fn(&v1::ReplicaStatus) -> bool,
    ) -> Result<(), Error> {
        let observer = self.observer()?;
        let until = Instant::now() + patience;
        let holds = |group: &v1::GroupStatus| {
            let mut replicas = group.replicas.iter();
            group.leader != 0 && replicas.all(|it| it.reachable && it.voter && fits(it))
        };
        loop {
            let status = observer.status(false).await;
            let groups = self.groups;
            if status.as_ref().is_ok_and(|status| {
                status.groups.len() == groups && status.groups.iter().all(holds)
            }) {
                return Ok(());
            }
            // While it waits, nodes that found their data harmed end, and must be started again.
            for process in self.nodes.values_mut() {
                process.revive()?;
            }
            if Instant::now() > until {
                let told = match status {
                    Ok(status) => summary(&status),
                    Err(error) => error.to_string(),
                };
                return Err(Error::Cluster(format!("waited in vain for {what}: {told}")));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn no_agent(node: u64) -> String {
    format!("node {node} has no agent")
}

/// The directory of one of the nodes that it begins with.
fn home_of(dir: &Path, node: u64) -> PathBuf {
    dir.join(format!("node-{node}"))
}

/// How a node is started whose configuration is in its directory.
fn launch(settings: &Settings, program: &Path, home: &Path) -> Launch {
    let history = settings.message_history_mebibytes;
    let history = history.map(|size| ("MAYFLY_MESSAGE_HISTORY", Some(size.to_string())));
    Launch {
        program: program.to_owned(),
        wrapper: Vec::new(),
        arguments: vec!["--config".into(), home.join(CONFIG).into()],
        // Its configuration has the secret, and a process's environment is no place for one.
        environment: history.into_iter().chain([("MAYFLY_SECRET", None)]).collect(),
        log: Some(home.join("node.log")),
        data: home.join(DATA),
        sync_delay_file: home.join("sync-delay"),
    }
}

/// What is not as it should be.
fn summary(status: &v1::StatusResponse) -> String {
    let mut told = Vec::new();
    for group in &status.groups {
        if group.leader == 0 {
            told.push(format!("group {} has no leader", group.id));
        }
        for it in group.replicas.iter().filter(|it| !(it.reachable && it.voter && it.lag == 0)) {
            let (reached, voter) = (it.reachable, it.voter);
            told.push(format!(
                "group {} on node {}: reachable {reached}, voter {voter}, lag {}",
                group.id, it.node, it.lag
            ));
        }
    }
    let notes = status.nodes.iter().filter(|node| !node.note.is_empty());
    told.extend(notes.map(|node| format!("node {}: {}", node.id, node.note)));
    told.join("; ")
}

/// Options with the proofs of others.
fn logged_in(login: &ClientOptions, options: ClientOptions) -> ClientOptions {
    let ClientOptions { secret, key_name, tls, certificate, .. } = login.clone();
    ClientOptions { secret, key_name, tls, certificate, ..options }
}

fn patience() -> ClientOptions {
    let (attempt_timeout, give_up_after) = (Duration::from_secs(5), Duration::from_secs(10));
    ClientOptions { attempt_timeout, give_up_after, ..ClientOptions::default() }
}
