//! A node's configuration: one TOML file, and over it flags and `MAYFLY_…` variables for what
//! differs between nodes. Unknown keys are refused; what is wrong is told with file, line and key.

mod check;
mod collectors;
mod effective;
mod file;
mod issuers;
mod key_settings;
mod log_filter;
mod message_history;
mod page;
mod reread;
mod secret;
mod security;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use amqp::server::IdleLimits;
use auth::Access;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use transport::{ClientTrust, Encryption};

use super::ServeArgs;
use crate::connect::TlsFlags;
#[cfg(test)]
pub use effective::FLAGS;
pub use effective::{EffectiveSection, EffectiveSetting, SettingValue};
pub use issuers::{IssuerConfig, IssuerKeys, read_keys as read_issuer_keys};
pub use key_settings::{KeyPlace, KeySetting, key_settings};
pub use page::{given, page, place};
pub use secret::is_weak;
pub use template::TEMPLATE;
#[cfg(test)]
pub use template::{Section, Setting, sections};

/// Everything a node is told, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub node: u64,
    pub data_dir: PathBuf,
    pub development: bool,
    /// Operators may have clients meet faults; in development mode they always may.
    pub faults_allowed: bool,
    /// Where the node stands, as its operator calls it.
    pub zone: Option<String>,
    /// How far the cluster's feature level may rise.
    pub feature_level_max: Option<u32>,
    pub listen: ListenConfig,
    pub amqp: AmqpConfig,
    pub grpc_connections_max: usize,
    pub http_connections_max: usize,
    /// `[http]`: origins whose pages may send requests.
    pub cors_origins: Vec<String>,
    /// `[http]`: whether there are pages at `/console`.
    pub console: bool,
    /// `[azure]`. Absent: Azure's tools are not answered.
    pub azure: Option<AzureConfig>,
    /// Absent: drawn at the first start of a node that is a cluster by itself, kept with its data.
    pub cluster_id: Option<u128>,
    /// Every founding node, this one included.
    pub nodes: BTreeMap<u64, Addresses>,
    /// Nodes to ask at the first start to be taken into their cluster.
    pub join: Option<Vec<String>>,
    /// How they are spoken to.
    pub join_tls: TlsFlags,
    /// What admits this node there, in place of the secret. Looked at when it joins, and then never again.
    pub join_token: Option<JoinTokenPlace>,
    /// Nodes are taken in with a join token only.
    pub require_join_token: bool,
    /// It is one that was taken in, and founds nothing.
    pub joined: bool,
    pub data_groups: u16,
    pub replication_factor: u8,
    /// Asked of peers, but for those that speak TLS.
    pub secret: Option<String>,
    /// Asked of clients.
    pub access: Access,
    /// Whose tokens are proofs as well.
    pub issuers: Vec<IssuerConfig>,
    /// `[limits]`: what one connection, key and address may take.
    pub limits: limits::Settings,
    /// Of one address for one key name; 0: any number.
    pub wrong_keys_per_minute: u32,
    pub insecure: bool,
    pub tls: Option<TlsFiles>,
    pub peer_tls: Option<PeerTlsFiles>,
    pub storage: StorageConfig,
    pub raft: RaftConfig,
    pub clock: ClockConfig,
    /// `[idle]`: how long a new leader deletes nothing as idle.
    pub idle_reattach: Duration,
    pub transactions_bytes_max: usize,
    pub message_history: MessageHistoryConfig,
    /// So many have metrics of their own.
    pub metrics_entities_max: usize,
    /// Absent: they are there for whoever asks, and pushed to nobody.
    pub metric_export: Option<MetricExportConfig>,
    /// Absent: traced messages are told of to nobody.
    pub tracing: Option<CollectorConfig>,
    /// As which service spans and metrics are told.
    pub service_name: String,
    pub fault_injection: FaultInjection,
    pub log: LogConfig,
    pub audit: AuditConfig,
}

/// Where a join token stands.
#[derive(Clone, PartialEq, Eq)]
pub enum JoinTokenPlace {
    /// As it was given.
    Given(String),
    File(PathBuf),
}

/// Without the token.
impl fmt::Debug for JoinTokenPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinTokenPlace::Given(_) => out.write_str("Given(…)"),
            JoinTokenPlace::File(path) => out.debug_tuple("File").field(path).finish(),
        }
    }
}

/// `[azure]`: what the cluster is to Azure's tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AzureConfig {
    /// Absent: the cluster's id.
    pub subscription: Option<uuid::Uuid>,
    pub tenant: Option<uuid::Uuid>,
}

/// Where this node listens. An address that stands more than once is one port, which takes all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenConfig {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub peer: SocketAddr,
    /// `None`: AMQP is not served there.
    pub amqp: Option<SocketAddr>,
    /// With TLS.
    pub amqps: Option<SocketAddr>,
    /// A second port for HTTP, where SDKs look for the WebSocket.
    pub websocket: Option<SocketAddr>,
    /// Ports that take everything that clients speak.
    pub any: Vec<SocketAddr>,
}

impl ListenConfig {
    /// Every address for clients, by its name in `[listen]`.
    pub fn of_clients(&self) -> Vec<(&'static str, SocketAddr)> {
        let ListenConfig { grpc, http, peer: _, amqp, amqps, websocket, any } = self;
        let told = [("amqp", amqp), ("amqps", amqps), ("websocket", websocket)];
        let told = told.into_iter().filter_map(|(key, address)| Some((key, (*address)?)));
        let any = any.iter().map(|address| ("any", *address));
        [("grpc", *grpc), ("http", *http)].into_iter().chain(told).chain(any).collect()
    }

    /// Whether there is a port for AMQP, or for what it comes through.
    pub fn speaks_amqp(&self) -> bool {
        let ports = [self.amqp, self.amqps, self.websocket].into_iter().flatten();
        ports.chain(self.any.iter().copied()).next().is_some()
    }
}

/// `[tls]`: how clients know this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Listeners that take plain text as well, by their names in `[listen]`.
    pub plain: Vec<&'static str>,
    pub clients: Option<ClientCertificates>,
}

/// `[tls.clients]`: clients that prove with certificates who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    pub trust: ClientTrust,
    /// Names of certificates, as [`auth::CertificateMap`] has them, and of the keys they stand for.
    pub rows: BTreeMap<String, String>,
}

/// `[tls.peer]`: how nodes know each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authority: PathBuf,
}

/// `[amqp]`: what one client may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmqpConfig {
    pub connections_max: usize,
    pub unproved_connections_max: usize,
    pub idle_ms: u32,
    pub frame_bytes_max: u32,
    pub unsettled_max: u32,
    pub unread_bytes_max: usize,
    pub idle: IdleLimits,
}

/// Where others reach a node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Addresses {
    pub grpc: String,
    pub http: String,
    pub peer: String,
    pub amqp: Option<String>,
}

/// `[storage]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageConfig {
    /// Acknowledged means synced at a majority; otherwise, held in memory by a majority.
    pub synced: bool,
    /// Of both databases, blocks and memtables.
    pub memory_bytes: usize,
    pub log_retain_bytes: u64,
    pub disk_reserve_bytes: u64,
}

/// `[raft]`: when silence counts as death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaftConfig {
    pub heartbeat: Duration,
    pub election_min: Duration,
    pub election_max: Duration,
}

/// `[clock]`: how right a leader's clock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockConfig {
    pub offset_max: Duration,
    /// For experiments.
    pub skew: service::Skew,
}

/// `[message_history]`: what is kept of what happens to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHistoryConfig {
    /// 0: it is not recorded.
    pub memory_bytes: usize,
    pub keep: Duration,
}

/// What the node's disk and its ways to others are made to do, for experiments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultInjection {
    /// Seed of what a power failure has taken.
    pub lose_unsynced: Option<u64>,
    /// Says how long each sync takes longer.
    pub sync_delay_file: Option<PathBuf>,
    /// Other nodes are reached through it.
    pub peer_proxy: Option<String>,
}

/// A collector of OpenTelemetry, of `[metrics]` or `[tracing]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorConfig {
    pub endpoint: otlp::Endpoint,
    pub headers: otlp::Headers,
}

/// Of `[metrics]`: to whom the node's are pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricExportConfig {
    pub collector: CollectorConfig,
    pub every: Duration,
}

/// `[log]`: what the node writes to standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub filter: String,
    pub format: LogFormat,
}

/// `[audit]`: where it is told who changed what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditConfig {
    pub file: Option<PathBuf>,
    pub log: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

impl Config {
    /// Reads the file, lays flags and variables over it, and checks the whole. The error is one
    /// line.
    pub fn load(args: &ServeArgs) -> Result<Config, String> {
        let (file, name) = read(args.config.as_deref())?;
        check::check(file, args).map_err(|told| format!("{name}: {told}"))
    }

    /// What to say of the file it was read from, if that holds keys and everyone may read it.
    pub fn told_to_everyone(&self, path: &Path) -> Option<String> {
        let told = crate::files::check_private(path).err()?;
        (!self.access.is_anyone() || self.secret.is_some())
            .then(|| format!("the configuration may hold a secret: {told}"))
    }

    /// Ports for clients that listen beyond this machine, whoever may use them.
    pub fn open_to_clients(&self) -> Vec<SocketAddr> {
        let all = self.listen.of_clients().into_iter().map(|(_, address)| address);
        all.filter(|address| !address.ip().is_loopback()).collect()
    }

    /// How a listener for clients is encrypted, by its name in `[listen]`.
    pub fn encryption(&self, key: &str) -> Encryption {
        match &self.tls {
            None => Encryption::Never,
            Some(tls) if tls.plain.contains(&key) => Encryption::Either,
            Some(_) => Encryption::Always,
        }
    }

    /// Ports for clients, by their names, that listen beyond this machine and take plain text.
    pub fn readable_to_clients(&self) -> Vec<(&'static str, SocketAddr)> {
        let is_readable = |(key, address): &(&'static str, SocketAddr)| {
            !address.ip().is_loopback() && self.encryption(key) != Encryption::Always
        };
        self.listen.of_clients().into_iter().filter(is_readable).collect()
    }

    /// The port for peers, if it listens beyond this machine.
    pub fn open_to_peers(&self) -> Option<SocketAddr> {
        Some(self.listen.peer).filter(|address| !address.ip().is_loopback())
    }

    /// Ports that listen beyond this machine and ask for no proof.
    pub fn unguarded(&self) -> Vec<SocketAddr> {
        let clients = self.open_to_clients().into_iter().filter(|_| self.access.is_anyone());
        let is_proven = self.secret.is_some() || self.peer_tls.is_some();
        clients.chain(self.open_to_peers().filter(|_| !is_proven)).collect()
    }

    /// The port for peers, if it listens beyond this machine and takes plain text.
    pub fn readable_to_peers(&self) -> Option<SocketAddr> {
        self.open_to_peers().filter(|_| self.peer_tls.is_none())
    }
}

/// The file as written, and what to call it.
fn read(path: Option<&Path>) -> Result<(file::ConfigFile, String), String> {
    let Some(path) = path else {
        return Ok((file::ConfigFile::default(), "the command line".to_owned()));
    };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the configuration '{name}': {error}"))?;
    Ok((file::parse(&text, &name)?, name))
}
