//! What a node's settings come to, and where each was said: what `mayfly config show` shows.

use std::collections::BTreeMap;
use std::path::Path;

use limits::Limit;
use serde::Deserialize as _;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Table, Value};

use super::collectors;
use super::template::{self, Section, Setting};
use super::{AmqpConfig, CollectorConfig, Config, LogFormat};
use crate::input::duration;
use crate::serve::ServeArgs;

/// Flags of `mayfly serve` and the settings they are laid over. The others are settings by themselves.
pub const FLAGS: &[(&str, &str)] = &[
    ("node", "node.id"),
    ("data_dir", "node.data_dir"),
    ("development", "node.development"),
    ("zone", "node.zone"),
    ("feature_level_max", "node.feature_level_max"),
    ("grpc", "listen.grpc"),
    ("http", "listen.http"),
    ("peer", "listen.peer"),
    ("amqp", "listen.amqp"),
    ("amqps", "listen.amqps"),
    ("any", "listen.any"),
    ("join", "cluster.join"),
    ("advertise", "cluster.advertise"),
    ("secret", "security.secret"),
    ("insecure", "security.insecure"),
    ("message_history", "message_history.memory_mebibytes"),
    ("otlp_endpoint", "tracing.otlp_endpoint"),
    ("otlp_headers", "tracing.otlp_headers"),
    ("otlp_metrics_endpoint", "metrics.otlp_endpoint"),
    ("otlp_metrics_headers", "metrics.otlp_headers"),
    ("service_name", "tracing.service_name"),
    ("log", "log.filter"),
    ("log_format", "log.format"),
];

/// Settings whose values nobody is shown.
const SECRETS: [&str; 5] = [
    "security.secret",
    "security.key.key",
    "security.key.secondary_key",
    "metrics.otlp_headers",
    "tracing.otlp_headers",
];

/// Where the value of a setting was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// In this line of the file.
    Line(usize),
    /// By a flag, or by a variable of the environment.
    Given(String),
    /// Nowhere: it is the default, or follows from other settings.
    Default,
}

/// What a setting comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    Is(Value),
    /// It is set, and a secret.
    Hidden,
    Unset,
}

pub struct EffectiveSetting {
    pub key: String,
    pub value: SettingValue,
    pub source: SettingSource,
    /// What it is where nothing else is said, if that is the same everywhere.
    pub default: Option<Value>,
}

/// A section as the file has it, `[…]` or one of several `[[…]]`.
pub struct EffectiveSection {
    pub name: String,
    pub header: String,
    pub settings: Vec<EffectiveSetting>,
}

impl Config {
    /// Every setting of a node that would start with `args`, in the order of the printed file; `given`: by
    /// setting, the flag or variable that says it. The error is one line.
    pub fn effective(
        args: &ServeArgs,
        given: &BTreeMap<&'static str, String>,
    ) -> Result<Vec<EffectiveSection>, String> {
        let config = Config::load(args)?;
        let text = match &args.config {
            None => String::new(),
            Some(path) => text(path)?,
        };
        // It was read a moment ago.
        let written = DeTable::parse(&text).map_err(|error| error.message().to_owned())?;
        let lines = Lines { text: &text };
        let find = Effective { config: &config, args, given, written: written.get_ref(), lines };
        Ok(template::sections().iter().flat_map(|section| find.section(section)).collect())
    }
}

fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the configuration '{}': {error}", path.display()))
}

/// Where things stand in a text.
struct Lines<'a> {
    text: &'a str,
}

impl Lines<'_> {
    /// Counted from 1.
    fn of(&self, offset: usize) -> usize {
        self.text[..offset.min(self.text.len())].matches('\n').count() + 1
    }
}

struct Effective<'a> {
    config: &'a Config,
    args: &'a ServeArgs,
    given: &'a BTreeMap<&'static str, String>,
    written: &'a DeTable<'a>,
    lines: Lines<'a>,
}

impl Effective<'_> {
    fn section(&self, section: &Section) -> Vec<EffectiveSection> {
        let tables = self.tables(section);
        if section.is_list && tables.is_empty() {
            return Vec::new();
        }
        // What is not written has its defaults all the same.
        let nowhere = DeTable::new();
        let tables = if tables.is_empty() { vec![&nowhere] } else { tables };
        let shown = tables.into_iter().map(|table| {
            let settings = section.settings.iter();
            let settings = settings.map(|it| self.setting(section, it, table)).collect();
            let (name, header) = (section.name.clone(), section.header());
            EffectiveSection { name, header, settings }
        });
        shown.collect()
    }

    /// As they are written: one at most, but for a list.
    fn tables(&self, section: &Section) -> Vec<&DeTable<'_>> {
        let mut tables = vec![self.written];
        for name in section.name.split('.') {
            let inner = tables.into_iter().filter_map(|table| table.get(name));
            tables = inner
                .flat_map(|value| match value.get_ref() {
                    DeValue::Table(table) => vec![table],
                    DeValue::Array(list) => {
                        list.iter().filter_map(|value| value.get_ref().as_table()).collect()
                    }
                    _ => Vec::new(),
                })
                .collect();
        }
        tables
    }

    fn setting(
        &self,
        section: &Section,
        setting: &Setting,
        table: &DeTable<'_>,
    ) -> EffectiveSetting {
        let Setting { key, value: default, is_default, .. } = setting;
        let full = format!("{}.{key}", section.name);
        let written = table.get_key_value(key.as_str());
        let source = match (self.given.get(full.as_str()), written) {
            (Some(given), _) => SettingSource::Given(given.clone()),
            (None, Some((key, _))) => SettingSource::Line(self.lines.of(key.span().start)),
            (None, None) => SettingSource::Default,
        };
        let as_written = || {
            let (_, value) = written?;
            Value::deserialize(ValueDeserializer::from(value.clone())).ok()
        };
        let value = match section.is_list {
            true => as_written(),
            false => self.of_config(&full).unwrap_or_else(as_written),
        };
        let value = match value {
            None => SettingValue::Unset,
            Some(_) if SECRETS.contains(&full.as_str()) => SettingValue::Hidden,
            Some(value) => SettingValue::Is(value),
        };
        let default = is_default.then(|| format!("{key} = {default}").parse::<Table>().ok());
        let default = default.flatten().and_then(|mut table| table.remove(key));
        EffectiveSetting { key: key.clone(), value, source, default }
    }

    /// What the checked configuration says of a setting. `None`: it keeps it no more, and what is written
    /// or given is what it is.
    fn of_config(&self, setting: &str) -> Option<Option<Value>> {
        let (section, key) = setting.rsplit_once('.')?;
        match section {
            "listen" => self.listen(key),
            "amqp" => amqp(&self.config.amqp, key),
            "limits" => {
                let limit = Limit::ALL.iter().find(|limit| limit.name() == key)?;
                Some(integer(self.config.limits.get(*limit)))
            }
            "cluster" => self.cluster(key),
            "security" => self.security(key),
            "tls" | "tls.clients" | "tls.peer" => self.tls(setting),
            _ => self.other(setting),
        }
    }

    fn listen(&self, key: &str) -> Option<Option<Value>> {
        let listen = &self.config.listen;
        let off = |address: Option<std::net::SocketAddr>| match address {
            Some(address) => string(address),
            None => string("off"),
        };
        Some(match key {
            "grpc" => string(listen.grpc),
            "http" => string(listen.http),
            "peer" => string(listen.peer),
            "amqp" => off(listen.amqp),
            "amqps" => off(listen.amqps),
            "websocket" => off(listen.websocket),
            "any" if listen.any.is_empty() => None,
            "any" => strings(&listen.any),
            _ => return None,
        })
    }

    fn cluster(&self, key: &str) -> Option<Option<Value>> {
        let config = self.config;
        Some(match key {
            "id" => config.cluster_id.and_then(|id| string(format_args!("{id:032x}"))),
            "data_groups" => integer(config.data_groups),
            "replication_factor" => integer(config.replication_factor),
            "join" => config.join.as_deref().and_then(strings),
            "advertise" if self.args.advertise.is_some() => {
                self.args.advertise.as_ref().and_then(string)
            }
            "require_join_token" => boolean(config.require_join_token),
            _ => return None,
        })
    }

    fn security(&self, key: &str) -> Option<Option<Value>> {
        let config = self.config;
        let is_in_file = self.secret_file().is_some() && self.args.secret.is_none();
        Some(match key {
            "secret" => config.secret.as_ref().filter(|_| !is_in_file).and_then(string),
            // The secret itself was given.
            "secret_file" if !is_in_file => None,
            "weak_secret" if self.is_written("security", key).is_none() => boolean(false),
            "auth" => string(if config.access.is_anyone() { "off" } else { "on" }),
            "insecure" => boolean(config.insecure),
            "wrong_keys_per_minute" => integer(config.wrong_keys_per_minute),
            _ => return None,
        })
    }

    fn secret_file(&self) -> Option<&DeValue<'_>> {
        self.is_written("security", "secret_file")
    }

    fn is_written(&self, section: &str, key: &str) -> Option<&DeValue<'_>> {
        self.written.get(section)?.get_ref().as_table()?.get(key).map(|value| value.get_ref())
    }

    fn tls(&self, setting: &str) -> Option<Option<Value>> {
        let Config { tls, peer_tls, .. } = self.config;
        let path = |path: Option<&Path>| path.and_then(|path| string(path.display()));
        Some(match setting {
            "tls.certificate" => path(tls.as_ref().map(|tls| &*tls.certificate)),
            "tls.key" => path(tls.as_ref().map(|tls| &*tls.key)),
            "tls.plain" => tls.as_ref().and_then(|tls| strings(&tls.plain)),
            "tls.peer.certificate" => path(peer_tls.as_ref().map(|tls| &*tls.certificate)),
            "tls.peer.key" => path(peer_tls.as_ref().map(|tls| &*tls.key)),
            "tls.peer.authority" => path(peer_tls.as_ref().map(|tls| &*tls.authority)),
            _ => return None,
        })
    }

    fn other(&self, setting: &str) -> Option<Option<Value>> {
        let config = self.config;
        let mebibytes = |bytes: u64| integer(bytes / (1024 * 1024));
        let pushed = config.metric_export.as_ref().map(|export| &export.collector);
        Some(match setting {
            // The cluster that it joins says it.
            "node.id" if config.node == 0 => None,
            "node.id" => integer(config.node),
            "node.data_dir" => string(config.data_dir.display()),
            "node.development" => boolean(config.development),
            "node.fault_rules" => boolean(config.faults_allowed),
            "node.zone" => config.zone.as_ref().and_then(string),
            "node.feature_level_max" => config.feature_level_max.and_then(integer),
            "grpc.connections_max" => integer(config.grpc_connections_max),
            "http.connections_max" => integer(config.http_connections_max),
            "http.cors_origins" => strings(&config.cors_origins),
            "http.console" => boolean(config.console),
            "azure.enabled" => boolean(config.azure.is_some()),
            "azure.subscription" => {
                config.azure.and_then(|azure| azure.subscription).and_then(string)
            }
            "azure.tenant" => config.azure.and_then(|azure| azure.tenant).and_then(string),
            "storage.durability" => {
                string(if config.storage.synced { "synced" } else { "replicated" })
            }
            "storage.memory_mebibytes" => mebibytes(config.storage.memory_bytes as u64),
            "storage.log_retain_mebibytes" => mebibytes(config.storage.log_retain_bytes),
            "storage.disk_reserve_mebibytes" => mebibytes(config.storage.disk_reserve_bytes),
            "raft.heartbeat" => span(config.raft.heartbeat),
            "raft.election_min" => span(config.raft.election_min),
            "raft.election_max" => span(config.raft.election_max),
            "clock.offset_max" => span(config.clock.offset_max),
            "idle.reattach" => span(config.idle_reattach),
            "message_history.memory_mebibytes" => {
                mebibytes(config.message_history.memory_bytes as u64)
            }
            "message_history.keep" => span(config.message_history.keep),
            "metrics.entities_max" => integer(config.metrics_entities_max),
            "transactions.memory_mebibytes" => mebibytes(config.transactions_bytes_max as u64),
            "metrics.otlp_endpoint" => endpoint(pushed),
            "metrics.otlp_headers" => headers(pushed),
            "tracing.otlp_endpoint" => endpoint(config.tracing.as_ref()),
            "tracing.otlp_headers" => headers(config.tracing.as_ref()),
            "metrics.otlp_interval" => match &config.metric_export {
                Some(export) => span(export.every),
                None => span(collectors::INTERVAL),
            },
            "tracing.service_name" => string(&config.service_name),
            "log.filter" => string(&config.log.filter),
            "log.format" => string(match config.log.format {
                LogFormat::Text => "text",
                LogFormat::Json => "json",
            }),
            "audit.file" => config.audit.file.as_ref().and_then(|path| string(path.display())),
            "audit.log" => boolean(config.audit.log),
            _ => return None,
        })
    }
}

fn endpoint(collector: Option<&CollectorConfig>) -> Option<Value> {
    string(&collector?.endpoint)
}

/// That there are some: nobody is shown them.
fn headers(collector: Option<&CollectorConfig>) -> Option<Value> {
    collector.filter(|collector| !collector.headers.is_empty()).and_then(|_| string(""))
}

fn amqp(amqp: &AmqpConfig, key: &str) -> Option<Option<Value>> {
    let limit = |limit: Option<std::time::Duration>| match limit {
        Some(limit) => span(limit),
        None => string("never"),
    };
    Some(match key {
        "connections_max" => integer(amqp.connections_max),
        "unproved_connections_max" => integer(amqp.unproved_connections_max),
        "idle_timeout" => string(duration::show_ms(amqp.idle_ms.into())),
        "frame_kibibytes" => integer(amqp.frame_bytes_max / 1024),
        "unsettled_max" => integer(amqp.unsettled_max),
        "unread_kibibytes" => integer(amqp.unread_bytes_max / 1024),
        "link_idle_timeout" => limit(amqp.idle.link),
        "linkless_timeout" => limit(amqp.idle.linkless),
        "first_link_timeout" => limit(amqp.idle.first_link),
        "token_timeout" => limit(amqp.idle.token),
        _ => return None,
    })
}

fn string(value: impl ToString) -> Option<Value> {
    Some(Value::String(value.to_string()))
}

fn strings<T: ToString>(values: &[T]) -> Option<Value> {
    Some(Value::Array(values.iter().map(|value| Value::String(value.to_string())).collect()))
}

/// TOML has no more than 63 bits.
fn integer(value: impl TryInto<i64>) -> Option<Value> {
    Some(Value::Integer(value.try_into().unwrap_or(i64::MAX)))
}

fn boolean(value: bool) -> Option<Value> {
    Some(Value::Boolean(value))
}

fn span(value: std::time::Duration) -> Option<Value> {
    string(duration::show_ms(u64::try_from(value.as_millis()).unwrap_or(u64::MAX)))
}
