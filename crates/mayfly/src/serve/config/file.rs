//! The configuration file as written. What is absent has its default from [`super::check`].

use std::time::Duration;

use definitions::place::TomlFault;
use serde::{Deserialize, Deserializer};

use super::template::allowed;
use super::{Addresses, LogFormat};
use crate::input::duration;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    pub node: Node,
    pub listen: Listen,
    pub grpc: Grpc,
    pub http: Http,
    pub azure: Azure,
    pub amqp: Amqp,
    pub cluster: Cluster,
    pub security: Security,
    pub limits: Limits,
    pub tls: Tls,
    pub storage: Storage,
    pub raft: Raft,
    pub clock: Clock,
    pub idle: Idle,
    pub transactions: Transactions,
    pub message_history: MessageHistory,
    pub metrics: Metrics,
    pub tracing: Tracing,
    pub log: Log,
    pub audit: Audit,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    pub id: Option<u64>,
    pub data_dir: Option<std::path::PathBuf>,
    pub development: bool,
    pub fault_rules: bool,
    pub zone: Option<String>,
    pub feature_level_max: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    pub grpc: Option<String>,
    pub http: Option<String>,
    pub peer: Option<String>,
    pub amqp: Option<String>,
    pub amqps: Option<String>,
    pub websocket: Option<String>,
    pub any: Option<OneOrMore>,
}

/// One address, or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected an address, or a list of addresses")]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub fn list(&self) -> Vec<String> {
        match self {
            OneOrMore::One(one) => vec![one.clone()],
            OneOrMore::More(more) => more.clone(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grpc {
    pub connections_max: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    pub connections_max: Option<usize>,
    pub cors_origins: Vec<String>,
    pub console: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Azure {
    pub enabled: bool,
    pub subscription: Option<String>,
    pub tenant: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Amqp {
    pub connections_max: Option<usize>,
    pub unproved_connections_max: Option<usize>,
    #[serde(deserialize_with = "a_duration")]
    pub idle_timeout: Option<Duration>,
    pub frame_kibibytes: Option<u32>,
    pub unsettled_max: Option<u32>,
    pub unread_kibibytes: Option<usize>,
    #[serde(deserialize_with = "a_limit")]
    pub link_idle_timeout: Option<Limit>,
    #[serde(deserialize_with = "a_limit")]
    pub linkless_timeout: Option<Limit>,
    #[serde(deserialize_with = "a_limit")]
    pub first_link_timeout: Option<Limit>,
    #[serde(deserialize_with = "a_limit")]
    pub token_timeout: Option<Limit>,
}

/// How long something is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Never,
    After(Duration),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    pub id: Option<String>,
    pub data_groups: Option<u16>,
    pub replication_factor: Option<u8>,
    pub join: Option<OneOrMore>,
    pub advertise: Option<String>,
    pub require_join_token: bool,
    pub node: Vec<ClusterNode>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterNode {
    pub id: u64,
    pub grpc: String,
    pub http: String,
    pub peer: String,
    pub amqp: Option<String>,
}

impl ClusterNode {
    pub fn addresses(&self) -> Addresses {
        let ClusterNode { id: _, grpc, http, peer, amqp } = self;
        let (grpc, http, peer) = (grpc.clone(), http.clone(), peer.clone());
        Addresses { grpc, http, peer, amqp: amqp.clone() }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Security {
    pub secret: Option<String>,
    pub secret_file: Option<std::path::PathBuf>,
    pub weak_secret: bool,
    pub auth: Option<Auth>,
    pub insecure: bool,
    pub wrong_keys_per_minute: Option<u32>,
    pub key: Vec<SecurityKey>,
    pub issuer: Vec<SecurityIssuer>,
}

/// 0: any number.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub connections_per_address: Option<u32>,
    pub connections_per_key: Option<u32>,
    pub links_per_connection: Option<u32>,
    pub sessions_per_connection: Option<u32>,
    pub requests_per_second_per_address: Option<u32>,
    pub requests_per_second_per_key: Option<u32>,
    pub kibibytes_in_flight_per_connection: Option<u32>,
    pub kibibytes_in_flight_per_key: Option<u32>,
    pub entities_per_minute_per_key: Option<u32>,
}

impl Limits {
    /// With the defaults of what is not written.
    pub fn settings(&self) -> limits::Settings {
        let mut settings = limits::Settings::default();
        for (limit, written) in [
            (limits::Limit::AddressConnections, self.connections_per_address),
            (limits::Limit::KeyConnections, self.connections_per_key),
            (limits::Limit::ConnectionLinks, self.links_per_connection),
            (limits::Limit::ConnectionSessions, self.sessions_per_connection),
            (limits::Limit::AddressRequests, self.requests_per_second_per_address),
            (limits::Limit::KeyRequests, self.requests_per_second_per_key),
            (limits::Limit::ConnectionBytes, self.kibibytes_in_flight_per_connection),
            (limits::Limit::KeyBytes, self.kibibytes_in_flight_per_key),
            (limits::Limit::KeyEntities, self.entities_per_minute_per_key),
        ] {
            if let Some(max) = written {
                settings.set(limit, max.into());
            }
        }
        settings
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    On,
    Off,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityKey {
    pub name: String,
    pub key: Option<String>,
    pub key_file: Option<std::path::PathBuf>,
    pub secondary_key: Option<String>,
    pub secondary_key_file: Option<std::path::PathBuf>,
    pub rights: Vec<Right>,
    #[serde(default)]
    pub scope: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityIssuer {
    pub url: Option<String>,
    pub name: Option<String>,
    pub ca_file: Option<std::path::PathBuf>,
    pub keys_file: Option<std::path::PathBuf>,
    pub audiences: Option<Vec<String>>,
    pub claim: Option<String>,
    #[serde(default)]
    pub role: Vec<SecurityRole>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityRole {
    pub value: String,
    #[serde(default)]
    pub rights: Vec<Right>,
    #[serde(default)]
    pub entities: Vec<String>,
    pub namespace: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    Listen,
    Send,
    Manage,
    Monitor,
    Operate,
    #[serde(rename = "inject-faults")]
    InjectFaults,
}

impl Right {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Right::Listen => "listen",
            Right::Send => "send",
            Right::Manage => "manage",
            Right::Monitor => "monitor",
            Right::Operate => "operate",
            Right::InjectFaults => "inject-faults",
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    pub certificate: Option<std::path::PathBuf>,
    pub key: Option<std::path::PathBuf>,
    pub plain: PlainText,
    pub clients: TlsClients,
    pub peer: TlsPeer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsClients {
    pub authority: Option<std::path::PathBuf>,
    pub revoked: Option<std::path::PathBuf>,
    pub required: bool,
    pub map: Vec<MappedCertificate>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappedCertificate {
    pub common_name: Option<String>,
    pub uri: Option<String>,
    pub key: String,
}

/// Which ports take plain text beside TLS.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected true, false, or a list of names as in [listen]")]
pub enum PlainText {
    All(bool),
    Some(Vec<String>),
}

impl Default for PlainText {
    fn default() -> PlainText {
        PlainText::All(false)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsPeer {
    pub certificate: Option<std::path::PathBuf>,
    pub key: Option<std::path::PathBuf>,
    pub authority: Option<std::path::PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    pub durability: Durability,
    pub memory_mebibytes: Option<usize>,
    pub log_retain_mebibytes: Option<u64>,
    pub disk_reserve_mebibytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    #[default]
    Synced,
    Replicated,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Raft {
    #[serde(deserialize_with = "a_duration")]
    pub heartbeat: Option<Duration>,
    #[serde(deserialize_with = "a_duration")]
    pub election_min: Option<Duration>,
    #[serde(deserialize_with = "a_duration")]
    pub election_max: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clock {
    #[serde(deserialize_with = "a_duration")]
    pub offset_max: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Idle {
    #[serde(deserialize_with = "a_duration")]
    pub reattach: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transactions {
    pub memory_mebibytes: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MessageHistory {
    pub memory_mebibytes: Option<usize>,
    #[serde(deserialize_with = "a_duration")]
    pub keep: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    pub entities_max: Option<usize>,
    pub otlp_endpoint: Option<String>,
    pub otlp_headers: Option<String>,
    #[serde(deserialize_with = "a_duration")]
    pub otlp_interval: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tracing {
    pub otlp_endpoint: Option<String>,
    pub otlp_headers: Option<String>,
    pub service_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    pub filter: Option<String>,
    pub format: Option<LogFormat>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    pub file: Option<std::path::PathBuf>,
    pub log: Option<bool>,
}

fn a_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

fn a_limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Limit>, D::Error> {
    let text = String::deserialize(from)?;
    let limit = match duration::parse_ms(&text).map_err(serde::de::Error::custom)? {
        duration::NEVER_MS => Limit::Never,
        ms => Limit::After(Duration::from_millis(ms)),
    };
    Ok(Some(limit))
}

/// Reads the file. The error is one line that names file, line and key.
pub fn parse(text: &str, name: &str) -> Result<ConfigFile, String> {
    toml::from_str(text).map_err(|error| {
        let fault = TomlFault::of(text, &error);
        let (number, line) = fault.line.unwrap_or_default();
        match out_of_range(fault.before, line, &fault.message) {
            Some(told) => format!("{name}:{number}: {told}"),
            None => fault.told(name),
        }
    })
}

/// What a number may be that does not even fit what it is read into, as where it does fit.
fn out_of_range(before: &str, line: &str, message: &str) -> Option<String> {
    let (value, kind) =
        message.strip_prefix("invalid value: integer `")?.split_once("`, expected ")?;
    let key = line.split_once('=')?.0.trim();
    let header = before.lines().map(str::trim).rfind(|line| line.starts_with('['));
    let section = header.map(|header| header.trim_matches(['[', ']']));
    let full = section.map_or_else(|| key.to_owned(), |section| format!("{section}.{key}"));
    let allowed = allowed(&full).or_else(|| match kind {
        "u8" => Some(format!("0 to {}", u8::MAX)),
        "u16" => Some(format!("0 to {}", u16::MAX)),
        "u32" => Some(format!("0 to {}", u32::MAX)),
        "u64" | "usize" => Some("0 or more".to_owned()),
        _ => None,
    })?;
    Some(format!("{full} is {value}, allowed is {allowed}"))
}
