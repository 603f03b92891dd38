//! Nodes as processes.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use chaos::{SmallDisk, free_ports};
use client::{Client, ClientOptions, Trust};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

use crate::Proxy;

/// How long a cluster may take until its queues can be used: elections on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);

/// In the directory of a cluster whose nodes speak TLS among themselves.
const CERTS: &str = "certs";
/// In the directory of a cluster that speaks TLS.
const CERTIFICATE: &str = "certificate.pem";

/// What a test wants different from the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub nodes: u64,
    pub data_groups: u16,
    pub log_retain_mebibytes: u64,
    pub disk_reserve_mebibytes: u64,
    /// `storage.memory_mebibytes`, if not the default.
    pub memory_mebibytes: Option<u64>,
    pub development: bool,
    /// Clients are told the address of a proxy in place of each node's own.
    pub behind_proxies: bool,
    /// `idle.reattach`.
    pub reattach_seconds: u64,
    /// `security.secret`, and what clients send.
    pub secret: Option<&'static str>,
    /// More of `[cluster]`.
    pub cluster_config: &'static str,
    /// More of every node's configuration.
    pub config: &'static str,
    /// Every node has the same certificate, and speaks AMQP over TLS as well.
    pub tls: bool,
    /// With `tls`: plain text is taken as well.
    pub plain: bool,
    /// Nodes speak TLS among themselves, with certificates of [`Cluster::certs`].
    pub peer_tls: bool,
    /// With `peer_tls`: clients are shown the same certificates, beside plain text.
    pub node_tls: bool,
    /// With `tls`: clients may show certificates of [`Cluster::certs`]; what else `[tls.clients]` has.
    pub client_tls: Option<&'static str>,
    /// Every node has a port that takes everything.
    pub any: bool,
    /// Every node is started by an agent of fault experiments.
    pub agents: bool,
    /// What one of the nodes is started with beside its configuration.
    pub odd: Option<(u64, &'static [&'static str])>,
    /// `node.zone` of every node, in their order; the others have none.
    pub zones: &'static [&'static str],
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            nodes: 3,
            data_groups: 2,
            log_retain_mebibytes: 2048,
            disk_reserve_mebibytes: 16,
            memory_mebibytes: None,
            development: true,
            behind_proxies: false,
            reattach_seconds: 60,
            secret: None,
            cluster_config: "",
            config: "",
            tls: false,
            plain: true,
            peer_tls: false,
            node_tls: false,
            client_tls: None,
            any: false,
            agents: false,
            odd: None,
            zones: &[],
        }
    }
}

struct Node {
    config: PathBuf,
    log: PathBuf,
    flags: Vec<String>,
    /// Whom it asks to be taken into the cluster.
    join: Option<String>,
    /// Where clients are sent to.
    grpc: String,
    /// Where the node listens for them, if not there.
    grpc_behind: Option<String>,
    http: String,
    peer: String,
    amqp: String,
    amqps: String,
    any: String,
    /// Where the agent that starts it is reached.
    agent: Option<String>,
    child: Option<Child>,
}

/// A running cluster. Dropping it ends its processes and removes its data; the nodes also watch
/// their standard input, so that they end when the test process is killed.
pub struct Cluster {
    /// The catalog and the data groups.
    groups: usize,
    nodes: Vec<Node>,
    proxies: BTreeMap<u64, Proxy>,
    /// Before the directory: what is mounted in it goes first.
    disks: BTreeMap<u64, SmallDisk>,
    secret: Option<&'static str>,
    /// Clients may speak plain text.
    is_plain: bool,
    dir: TempDir,
}

/// The binary under test: beside the test's own, where `cargo build` puts it.
pub fn mayfly() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("MAYFLY_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    let path = own.parent().and_then(Path::parent).context("a target directory")?.join("mayfly");
    ensure!(
        path.exists(),
        "{} is missing: run `cargo build --release --workspace` first, as tests/run.sh does",
        path.display()
    );
    Ok(path)
}

/// Writes a certificate and its key; the configuration that names them.
fn certify(dir: &Path, plain: bool) -> anyhow::Result<String> {
    let hosts = ["localhost", "alpha.localhost", "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(hosts)?;
    let (certificate, key) = (dir.join(CERTIFICATE), dir.join("key.pem"));
    fs::write(&key, made.signing_key.serialize_pem())?;
    fs::set_permissions(&key, Permissions::from_mode(0o600))?;
    fs::write(&certificate, made.cert.pem())?;
    Ok(format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nplain = {plain}\n"))
}

/// The authority that [`cert`] made in a directory.
pub fn authority(dir: &Path) -> anyhow::Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Mayfly authority");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::from_pem(&fs::read_to_string(dir.join("authority.key"))?)?;
    Ok(Issuer::new(params, key))
}

/// A certificate for use as a client, signed by the authority of a directory, as `change` has it; and its
/// key.
pub fn sign(
    dir: &Path,
    change: impl FnOnce(&mut CertificateParams) -> anyhow::Result<()>,
) -> anyhow::Result<(String, String)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params)?;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, &authority(dir)?)?.pem(), key.serialize_pem()))
}

/// Runs `mayfly cert` in a directory.
pub fn cert(dir: &Path, words: &[&str]) -> anyhow::Result<()> {
    let ran = Command::new(mayfly()?).arg("cert").args(words).arg("--dir").arg(dir).output()?;
    ensure!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}

impl Cluster {
    /// Starts a cluster and waits until every group has a leader.
    pub async fn start(settings: Settings) -> anyhow::Result<Cluster> {
        let mut cluster = Cluster::configure(settings)?;
        cluster.start_all().await?;
        Ok(cluster)
    }

    /// Starts a cluster some of whose nodes have small disks of their own; `None`, having said so,
    /// where this process may not mount any.
    pub async fn start_on_small_disks(
        settings: Settings,
        nodes: impl IntoIterator<Item = u64>,
        mebibytes: u64,
    ) -> anyhow::Result<Option<Cluster>> {
        let mut cluster = Cluster::configure(settings)?;
        for node in nodes {
            let data = cluster.config_path(node).with_file_name("data");
            fs::create_dir(&data)?;
            let Some(disk) = SmallDisk::mount(&data, mebibytes)? else {
                println!("SKIPPED: this process may not mount a file system; run it as root");
                return Ok(None);
            };
            cluster.disks.insert(node, disk);
        }
        cluster.start_all().await?;
        Ok(Some(cluster))
    }

    async fn start_all(&mut self) -> anyhow::Result<()> {
        for (id, node) in (1..).zip(&self.nodes) {
            if let Some(behind) = &node.grpc_behind {
                self.proxies.insert(id, Proxy::between(&node.grpc, behind).await?);
            }
        }
        for node in self.ids() {
            self.start_node(node)?;
        }
        self.wait_ready().await
    }

    fn configure(settings: Settings) -> anyhow::Result<Cluster> {
        let dir = tempfile::tempdir()?;
        let address = |port: u16| format!("127.0.0.1:{port}");
        let mut nodes: Vec<Node> = Vec::new();
        for position in 0..settings.nodes as usize {
            let ports = free_ports(8)?;
            let home = dir.path().join(format!("node-{}", position + 1));
            fs::create_dir_all(&home)?;
            nodes.push(Node {
                config: home.join("mayfly.toml"),
                log: home.join("node.log"),
                join: None,
                flags: settings
                    .odd
                    .filter(|odd| odd.0 == position as u64 + 1)
                    .into_iter()
                    .flat_map(|odd| odd.1.iter().copied())
                    .chain(settings.zones.get(position).into_iter().flat_map(|at| ["--zone", at]))
                    .map(str::to_owned)
                    .collect(),
                grpc: address(ports[0]),
                grpc_behind: settings.behind_proxies.then(|| address(ports[4])),
                http: address(ports[1]),
                peer: address(ports[2]),
                amqp: address(ports[3]),
                amqps: address(ports[5]),
                any: address(ports[6]),
                agent: settings.agents.then(|| address(ports[7])),
                child: None,
            });
        }
        let tls = match settings.tls {
            true => certify(dir.path(), settings.plain)?,
            false => String::new(),
        };
        let secret = settings.secret.map(|secret| format!("[security]\nsecret = {secret:?}\n"));
        let secret = secret.unwrap_or_default();
        let cluster_id: u128 = rand::random();
        let members: Vec<String> = (1..)
            .zip(&nodes)
            .map(|(id, Node { grpc, http, peer, .. })| {
                format!("[[cluster.node]]\nid = {id}\ngrpc = {grpc:?}\nhttp = {http:?}\npeer = {peer:?}\n")
            })
            .collect();
        let certs = dir.path().join(CERTS);
        if settings.peer_tls || settings.client_tls.is_some() {
            cert(&certs, &["authority"])?;
        }
        for (id, node) in (1..).zip(&nodes) {
            let mut tls = tls.clone();
            if let Some(more) = settings.client_tls {
                let authority = certs.join("authority.pem");
                tls += &format!("[tls.clients]\nauthority = {authority:?}\n{more}");
            }
            if settings.peer_tls {
                cert(&certs, &["node", &id.to_string(), "127.0.0.1"])?;
                let path = |name: String| certs.join(name);
                let (certificate, key) =
                    (path(format!("node-{id}.pem")), path(format!("node-{id}.key")));
                let authority = path("authority.pem".to_owned());
                if settings.node_tls {
                    tls += &format!(
                        "[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nplain = true\n"
                    );
                }
                tls += &format!(
                    "[tls.peer]\nauthority = {authority:?}\ncertificate = {certificate:?}\nkey = {key:?}\n"
                );
            }
            let data = node.config.with_file_name("data");
            let grpc = node.grpc_behind.as_ref();
            let grpc = grpc.map(|grpc| format!("grpc = {grpc:?}\n")).unwrap_or_default();
            let any = match settings.any {
                true => format!("any = {:?}\n", node.any),
                false => String::new(),
            };
            let memory =
                settings.memory_mebibytes.map(|size| format!("memory_mebibytes = {size}\n"));
            let memory = memory.unwrap_or_default();
            let amqps = settings.tls.then(|| format!("amqps = {:?}\n", node.amqps));
            let text = format!(
                "[node]\nid = {id}\ndata_dir = {data:?}\ndevelopment = {}\n\
                 [listen]\namqp = {:?}\n{any}{}{grpc}\
                 [cluster]\nid = \"{cluster_id:032x}\"\ndata_groups = {}\n{}{}\
                 [storage]\nlog_retain_mebibytes = {}\ndisk_reserve_mebibytes = {}\n{memory}\
                 [idle]\nreattach = \"{}s\"\n{tls}{secret}{}",
                settings.development,
                node.amqp,
                amqps.unwrap_or_default(),
                settings.data_groups,
                settings.cluster_config,
                members.join(""),
                settings.log_retain_mebibytes,
                settings.disk_reserve_mebibytes,
                settings.reattach_seconds,
                settings.config,
            );
            fs::write(&node.config, text)?;
        }
        let groups = 1 + usize::from(settings.data_groups);
        let proxies = BTreeMap::new();
        let (disks, secret) = (BTreeMap::new(), settings.secret);
        let is_plain = settings.plain || !settings.tls;
        Ok(Cluster { groups, nodes, proxies, disks, secret, is_plain, dir })
    }

    /// Starts another node with nothing but the cluster's secret and the address of one that is
    /// there; its number.
    pub fn join(&mut self, via: u64) -> anyhow::Result<u64> {
        let seed = self.nodes[via as usize - 1].grpc.clone();
        self.add_joining(seed, "", &[])
    }

    /// Starts another node that has a certificate of an authority, knows others by the same, and asks one that
    /// is there, over TLS, to be taken in; what else it is started with. Its number here, which is the one in
    /// its certificate unless several of them ask at once.
    pub fn join_certified(
        &mut self,
        seed: &str,
        number: u64,
        certs: &Path,
        flags: &[&str],
    ) -> anyhow::Result<u64> {
        let id = self.nodes.len() as u64 + 1;
        let home = self.dir.path().join(format!("node-{id}"));
        fs::create_dir_all(&home)?;
        cert(certs, &["node", &number.to_string(), "127.0.0.1", "--overwrite"])?;
        for end in ["pem", "key"] {
            fs::copy(certs.join(format!("node-{number}.{end}")), home.join(format!("node.{end}")))?;
        }
        let tls = format!(
            "[tls]\ncertificate = {:?}\nkey = {:?}\nplain = true\n[tls.peer]\nauthority = {:?}\n",
            home.join("node.pem"),
            home.join("node.key"),
            certs.join("authority.pem"),
        );
        self.add_joining(seed.to_owned(), &tls, flags)
    }

    /// Starts another node that asks the one at `seed` to be taken in. `config`: more of its configuration.
    fn add_joining(&mut self, seed: String, config: &str, flags: &[&str]) -> anyhow::Result<u64> {
        let id = self.nodes.len() as u64 + 1;
        let home = self.dir.path().join(format!("node-{id}"));
        fs::create_dir_all(&home)?;
        let ports = free_ports(4)?;
        let [grpc, http, peer, amqp] =
            [0, 1, 2, 3].map(|position| format!("127.0.0.1:{}", ports[position]));
        let data = home.join("data");
        let secret = self.secret.map(|secret| format!("[security]\nsecret = {secret:?}\n"));
        let text = format!(
            "[node]\ndata_dir = {data:?}\ndevelopment = true\n\
             [listen]\ngrpc = {grpc:?}\nhttp = {http:?}\npeer = {peer:?}\namqp = {amqp:?}\n\
             [storage]\ndisk_reserve_mebibytes = 16\n{config}{}",
            secret.unwrap_or_default()
        );
        let (config, log) = (home.join("mayfly.toml"), home.join("node.log"));
        fs::write(&config, text)?;
        self.nodes.push(Node {
            config,
            log,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            join: Some(seed),
            grpc,
            grpc_behind: None,
            http,
            peer,
            amqp,
            amqps: String::new(),
            any: String::new(),
            agent: None,
            child: None,
        });
        self.start_node(id)?;
        Ok(id)
    }

    /// As if this node had never been asked to join: it is started without that from now on.
    pub fn forget_join(&mut self, id: u64) {
        let node = self.node(id);
        (node.join, node.flags) = (None, Vec::new());
    }

    fn node(&mut self, id: u64) -> &mut Node {
        &mut self.nodes[id as usize - 1]
    }

    pub fn ids(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.nodes.len() as u64
    }

    /// Where this cluster keeps its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn config_path(&self, id: u64) -> &Path {
        &self.nodes[id as usize - 1].config
    }

    /// The proxy before a node of a cluster that has them.
    pub fn proxy(&self, id: u64) -> &Proxy {
        &self.proxies[&id]
    }

    /// Nobody reaches this node by the address clients are told.
    pub fn close_proxy(&mut self, id: u64) {
        self.proxies.remove(&id);
    }

    /// The small disk of a node that has one.
    pub fn disk(&self, id: u64) -> &SmallDisk {
        &self.disks[&id]
    }

    /// Where a node keeps its data.
    pub fn data_path(&self, id: u64) -> PathBuf {
        self.nodes[id as usize - 1].config.with_file_name("data")
    }

    /// The ports of a node: native API, HTTP, peers.
    pub fn addresses(&self, id: u64) -> [&str; 3] {
        let node = &self.nodes[id as usize - 1];
        [&node.grpc, &node.http, &node.peer]
    }

    /// Where the agents of all nodes are, as commands take them; of nodes that have none, nothing.
    pub fn agents(&self) -> String {
        let agents: Vec<&str> =
            self.nodes.iter().filter_map(|node| node.agent.as_deref()).collect();
        agents.join(",")
    }

    /// Where a node speaks AMQP.
    pub fn amqp_address(&self, id: u64) -> &str {
        &self.nodes[id as usize - 1].amqp
    }

    /// Where a node speaks AMQP over TLS.
    pub fn amqps_address(&self, id: u64) -> &str {
        &self.nodes[id as usize - 1].amqps
    }

    /// Where a founding node takes everything on one port, if nodes have such.
    pub fn any_address(&self, id: u64) -> &str {
        &self.nodes[id as usize - 1].any
    }

    /// The nodes' certificate, which clients are to trust.
    pub fn certificate(&self) -> PathBuf {
        self.dir().join(CERTIFICATE)
    }

    /// Where `mayfly cert` keeps what the nodes show each other.
    pub fn certs(&self) -> PathBuf {
        self.dir().join(CERTS)
    }

    /// The cluster's id.
    pub fn id(&self) -> anyhow::Result<String> {
        let config: toml::Table = fs::read_to_string(self.config_path(1))?.parse()?;
        let id = config["cluster"]["id"].as_str().context("an id")?;
        Ok(id.to_owned())
    }

    /// Gives the nodes another certificate; they find it by themselves, or on SIGHUP.
    pub fn certify_anew(&self) -> anyhow::Result<()> {
        certify(self.dir(), true).map(drop)
    }

    /// A client that knows every node.
    pub fn client(&self) -> anyhow::Result<Client> {
        self.client_that_knows(&self.nodes)
    }

    /// A client that knows one node only.
    pub fn client_of(&self, id: u64) -> anyhow::Result<Client> {
        self.client_that_knows(&self.nodes[id as usize - 1..id as usize])
    }

    fn client_that_knows(&self, nodes: &[Node]) -> anyhow::Result<Client> {
        let secret = self.secret.map(str::to_owned);
        let tls = match self.is_plain {
            true => None,
            false => Some(Trust::Authorities(fs::read(self.certificate())?)),
        };
        let options = ClientOptions { secret, tls, ..ClientOptions::default() };
        Ok(Client::with_options(nodes.iter().map(|node| &node.grpc), options)?)
    }

    pub fn start_node(&mut self, id: u64) -> anyhow::Result<()> {
        let program = mayfly()?;
        let node = self.node(id);
        let log = File::options().create(true).append(true).open(&node.log)?;
        let begun: &[&str] = match &node.agent {
            None => &["serve", "--exit-with-parent"],
            Some(at) => &["chaos", "agent", "--exit-with-parent", "--listen", at, "--"],
        };
        let child = Command::new(program)
            .args(begun)
            .arg("--config")
            .arg(&node.config)
            .args(&node.flags)
            .args(node.join.iter().flat_map(|seed| ["--join", seed]))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        node.child = Some(child);
        Ok(())
    }

    /// What a node is started with from now on, beside its configuration.
    pub fn set_flags(&mut self, id: u64, flags: &[&str]) {
        let flags = flags.iter().map(|flag| flag.to_string()).collect();
        self.nodes[id as usize - 1].flags = flags;
    }

    pub fn pid(&self, id: u64) -> Option<u32> {
        self.nodes[id as usize - 1].child.as_ref().map(Child::id)
    }

    pub fn signal(&mut self, id: u64, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid(id).with_context(|| format!("node {id} is not running"))?;
        kill(Pid::from_raw(pid.try_into()?), signal)?;
        Ok(())
    }

    /// `kill -9`, and waits until the process is gone.
    pub fn kill(&mut self, id: u64) -> anyhow::Result<()> {
        self.signal(id, Signal::SIGKILL)?;
        if let Some(mut child) = self.node(id).child.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// Waits until a node ends by itself; its exit code, if it ended with one.
    pub async fn wait_ended(&mut self, id: u64) -> anyhow::Result<Option<i32>> {
        let until = Instant::now() + READY_MAX;
        while let Some(child) = &mut self.node(id).child {
            if let Some(status) = child.try_wait()? {
                self.node(id).child = None;
                return Ok(status.code());
            }
            ensure!(Instant::now() < until, "node {id} does not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("node {id} is not running")
    }

    /// SIGTERM; the node hands its leaderships over and must end by itself in time.
    pub fn stop(&mut self, id: u64) -> anyhow::Result<()> {
        self.signal(id, Signal::SIGTERM)?;
        let Some(mut child) = self.node(id).child.take() else { return Ok(()) };
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = child.try_wait()? {
                ensure!(status.success(), "node {id} ended with {status}: {}", self.last_words(id));
                return Ok(());
            }
            if Instant::now() > until {
                child.kill()?;
                child.wait()?;
                bail!("node {id} did not end within 20 s of SIGTERM: {}", self.last_words(id));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The end of a node's log, for messages.
    pub fn last_words(&self, id: u64) -> String {
        let text = fs::read_to_string(&self.nodes[id as usize - 1].log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Every line a node wrote to its log.
    pub fn node_log(&self, id: u64) -> String {
        fs::read_to_string(&self.nodes[id as usize - 1].log).unwrap_or_default()
    }

    /// Waits until every group has a leader, as the nodes that run say.
    pub async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let client = self.client()?;
        let until = Instant::now() + READY_MAX;
        loop {
            self.check_running()?;
            let status = client.status(false).await;
            let why = match &status {
                Ok(status) if status.groups.len() < self.groups => {
                    format!("{} of {} groups are known", status.groups.len(), self.groups)
                }
                Ok(status) => match status.groups.iter().find(|group| group.leader == 0) {
                    None => return Ok(()),
                    Some(group) => format!("group {} has no leader", group.id),
                },
                Err(error) => error.to_string(),
            };
            ensure!(Instant::now() < until, "the cluster is not ready: {why}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn check_running(&mut self) -> anyhow::Result<()> {
        for id in self.ids() {
            let Some(child) = &mut self.node(id).child else { continue };
            if let Some(status) = child.try_wait()? {
                self.node(id).child = None;
                bail!("node {id} ended with {status}: {}", self.last_words(id));
            }
        }
        Ok(())
    }

    /// Waits until `what` holds of the cluster's status.
    pub async fn wait_for_status(
        &self,
        what: &str,
        mut holds: impl FnMut(&client::v1::StatusResponse) -> bool,
    ) -> anyhow::Result<()> {
        let client = self.client()?;
        let until = Instant::now() + READY_MAX;
        loop {
            let status = client.status(false).await;
            if status.as_ref().is_ok_and(&mut holds) {
                return Ok(());
            }
            if Instant::now() > until {
                let words = self.ids().map(|id| format!("node {id}:\n{}\n", self.last_words(id)));
                let words: String = words.collect();
                bail!("waited in vain for {what}; status: {status:?}\nlast words of {words}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until every replica of every group has applied what its leader has when all are seen with one. Under load
    /// there is more by then: a replica that is asked before its leader never shows all of it.
    pub async fn wait_caught_up(&self) -> anyhow::Result<()> {
        let mut wanted: Option<BTreeMap<u32, u64>> = None;
        self.wait_for_status("all replicas to catch up", |status| {
            let of_leader = |group: &client::v1::GroupStatus| {
                let leader = group.replicas.iter().find(|it| it.node == group.leader)?;
                leader.reachable.then_some((group.id, leader.last_log_index))
            };
            let Some(now) = status.groups.iter().map(of_leader).collect() else { return false };
            let wanted = wanted.get_or_insert(now);
            status.groups.iter().all(|group| {
                let index = wanted.get(&group.id).copied().unwrap_or_default();
                group.replicas.iter().all(|it| it.reachable && it.applied_index >= index)
            })
        })
        .await
    }

    /// Waits until every group has a vote on every node, and none is far behind.
    pub async fn wait_all_vote(&self) -> anyhow::Result<()> {
        self.wait_for_status("all replicas to vote", |status| {
            status.groups.iter().all(|group| {
                let fit = |replica: &client::v1::ReplicaStatus| {
                    replica.reachable && replica.voter && replica.lag < 1000
                };
                group.leader != 0 && group.replicas.iter().all(fit)
            })
        })
        .await
    }

    /// The node that leads the group of a queue now.
    pub async fn leader_of(&self, queue: &str) -> anyhow::Result<u64> {
        let client = self.client()?;
        let until = Instant::now() + READY_MAX;
        loop {
            let leader = client.get_queue(queue).await.map(|queue| queue.leader_node).unwrap_or(0);
            if leader != 0 {
                return Ok(leader);
            }
            ensure!(Instant::now() < until, "nobody leads the group of '{queue}'");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut child) = node.child.take() {
                // It may have ended already; a stopped process takes SIGKILL too.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if std::thread::panicking() {
            for id in self.ids() {
                eprintln!("last words of node {id}:\n{}\n", self.last_words(id));
            }
        }
    }
}
