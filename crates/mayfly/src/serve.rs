//! `mayfly serve`: one node.

pub mod certificate;
mod client_limits;
mod collectors;
pub mod config;
mod credits;
mod disk;
mod entities;
mod fault_injection;
mod front_ends;
mod handles;
mod issuers;
mod join;
mod keys;
mod node;
mod peer_tls;
mod peer_way;
pub mod private;
pub mod process;
mod recent_log;
mod reload;
mod self_report;
pub mod telemetry;
mod ward;

use std::path::PathBuf;

use client_limits::ClientLimits;
use config::{Config, LogFormat};
use issuers::IssuerFiles;
use keys::{Keys, MappedCertificates};
use limits::Ledger;
pub use node::told_to_end;
use recent_log::RecentLog;
use reload::Reload;
pub use ward::Ward;

use crate::connect::TlsFlags;
use crate::emulator::Entities;
use crate::input::duration;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly serve --data-dir ./data                     one node that is a cluster by itself
  mayfly serve --config /etc/mayfly/mayfly.toml
  MAYFLY_SECRET=… mayfly serve --config mayfly.toml --grpc 0.0.0.0:5310
  mayfly serve --data-dir ./data --any 127.0.0.1:443 one port for AMQP, HTTP, WebSockets and gRPC
  MAYFLY_SECRET=… mayfly serve --data-dir ./data --join node1:5310 --advertise node4 \
    --grpc 0.0.0.0:5310 --http 0.0.0.0:5300 --peer 0.0.0.0:5320 --amqp 0.0.0.0:5672
                                                     joins a cluster that is there
  mayfly serve --config /etc/mayfly/mayfly.toml --join https://node1:5310 --advertise node4 \
    --token-file token                               the same with a token of 'mayfly cluster token'
  mayfly serve --data-dir ./data --emulator-config Config.json
                                                     with the entities of an emulator's file
  mayfly serve --print-config                        every setting with its default
  mayfly serve --check-config --config mayfly.toml   whether a node would start with it

A configuration file, over it MAYFLY_… variables, over them flags. Without a secret every port
listens on loopback only. SIGTERM hands leaderships over and ends the node.";

#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Configuration file (TOML)
    #[arg(long, env = "MAYFLY_CONFIG", value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// This node's number in [[cluster.node]]
    #[arg(long, env = "MAYFLY_NODE", value_name = "ID")]
    pub node: Option<u64>,
    /// Where this node keeps its data
    #[arg(long, env = "MAYFLY_DATA_DIR", value_name = "PATH")]
    pub data_dir: Option<PathBuf>,
    /// Where this node stands, by any name: replicas of a group are spread over zones
    #[arg(long, env = "MAYFLY_ZONE", value_name = "NAME")]
    pub zone: Option<String>,
    /// How far the cluster's feature level may rise while this node runs
    #[arg(long, env = "MAYFLY_FEATURE_LEVEL_MAX", value_name = "LEVEL")]
    pub feature_level_max: Option<u32>,
    /// Keep in memory what happens to messages, up to that size; on every node or on none
    #[arg(long, env = "MAYFLY_MESSAGE_HISTORY", value_name = "MEBIBYTES")]
    pub message_history: Option<usize>,
    /// The OpenTelemetry collector (OTLP over HTTP) that is told what becomes of traced messages
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// What is sent along with every request to it
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_HEADERS",
        hide_env_values = true,
        value_name = "NAME=VALUE,…"
    )]
    pub otlp_headers: Option<String>,
    /// The OpenTelemetry collector (OTLP over HTTP) that this node's metrics are pushed to
    #[arg(long, env = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", value_name = "URL")]
    pub otlp_metrics_endpoint: Option<String>,
    /// What is sent along with every request to it
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        hide_env_values = true,
        value_name = "NAME=VALUE,…"
    )]
    pub otlp_metrics_headers: Option<String>,
    /// As which service the node's spans and metrics are told
    #[arg(long, env = "OTEL_SERVICE_NAME", value_name = "NAME")]
    pub service_name: Option<String>,
    /// Where the native API listens
    #[arg(long, env = "MAYFLY_GRPC", value_name = "ADDRESS:PORT")]
    pub grpc: Option<String>,
    /// Where entity management, messages over HTTP, health and metrics listen
    #[arg(long, env = "MAYFLY_HTTP", value_name = "ADDRESS:PORT")]
    pub http: Option<String>,
    /// Where AMQP listens, for the Azure SDKs; "off": nowhere, as where a joining node is not told
    #[arg(long, env = "MAYFLY_AMQP", value_name = "ADDRESS:PORT")]
    pub amqp: Option<String>,
    /// Where AMQP over TLS listens; takes [tls] in the configuration file; "off": nowhere
    #[arg(long, env = "MAYFLY_AMQPS", value_name = "ADDRESS:PORT")]
    pub amqps: Option<String>,
    /// Where all that clients speak is taken on one port: AMQP, HTTP, WebSockets and gRPC, over TLS if
    /// there is a certificate
    #[arg(long, env = "MAYFLY_ANY", value_name = "ADDRESS:PORT,…", value_delimiter = ',')]
    pub any: Option<Vec<String>>,
    /// Where the other nodes are listened to
    #[arg(long, env = "MAYFLY_PEER", value_name = "ADDRESS:PORT")]
    pub peer: Option<String>,
    /// Join the cluster of these nodes (their native API), with an empty data directory and the secret
    #[arg(long, env = "MAYFLY_JOIN", value_name = "HOST:PORT,…", value_delimiter = ',')]
    pub join: Option<Vec<String>>,
    #[command(flatten)]
    pub join_tls: TlsFlags,
    /// What admits this node to the cluster it joins, once: a token of mayfly cluster token, in place of the
    /// secret
    #[arg(long, env = "MAYFLY_JOIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// A file that holds the join token
    #[arg(long, env = "MAYFLY_JOIN_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The host others reach this node by, where [[cluster.node]] does not say
    #[arg(long, env = "MAYFLY_ADVERTISE", value_name = "HOST")]
    pub advertise: Option<String>,
    /// Asked of clients and peers
    #[arg(long, env = "MAYFLY_SECRET", hide_env_values = true, value_name = "SECRET")]
    pub secret: Option<String>,
    /// Listen beyond loopback without a secret, and in plain text
    #[arg(long, env = "MAYFLY_INSECURE")]
    pub insecure: bool,
    /// Allow operators to move the clock
    #[arg(long, env = "MAYFLY_DEVELOPMENT")]
    pub development: bool,
    /// Make this node's wall clock wrong by so much, as in "+1y" (experiments, with --development)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_offset_ms)]
    #[arg(allow_hyphen_values = true, conflicts_with = "clock_skew_jump")]
    pub clock_skew: Option<i64>,
    /// Make it wrong by so much, ahead in one second and behind in the next
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_offset_ms)]
    pub clock_skew_jump: Option<i64>,
    /// Begin as after a power failure: of what was written and not synced, lose what this seed draws
    #[arg(long, value_name = "SEED")]
    pub lose_unsynced: Option<u64>,
    /// Make each sync take longer by what this file says, as in "500ms", while it is there
    #[arg(long, value_name = "PATH")]
    pub sync_delay_file: Option<PathBuf>,
    /// Reach other nodes through this SOCKS5 proxy, which may hurt what they say to each other
    #[arg(long, value_name = "HOST:PORT")]
    pub peer_proxy: Option<String>,
    /// What to log, as in "warn" or "info,replication=debug"
    #[arg(long, env = "MAYFLY_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// How to write the log
    #[arg(long, env = "MAYFLY_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Create the entities this file lists once the cluster serves: a Config.json of Microsoft's Service Bus
    /// emulator; done by the node that leads the catalog, at every start
    #[arg(long, env = "MAYFLY_EMULATOR_CONFIG", value_name = "PATH")]
    pub emulator_config: Option<PathBuf>,
    /// End when standard input ends, that is, when the process that holds it does
    #[arg(long)]
    pub exit_with_parent: bool,
    /// Print a configuration file with every setting at its default, and end
    #[arg(long)]
    pub print_config: bool,
    /// Say whether a node would start with this configuration, in one line, and end: files it names are read,
    /// nothing is written, no port is taken
    #[arg(long, conflicts_with = "print_config")]
    pub check_config: bool,
}

pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    if args.print_config {
        return terminal::line(config::TEMPLATE.trim_end());
    }
    if args.check_config {
        return check(&args);
    }
    reload::outlive_hangup()?;
    let exit_with_parent = args.exit_with_parent;
    let config = Config::load(&args).map_err(terminal::usage)?;
    let entities = args.emulator_config.as_deref().map(Entities::read).transpose()?;
    let settings = settings(&args)?;
    let recent = RecentLog::default();
    let log = telemetry::start(&config.log, config.audit.log, recent.clone());
    let log = log.map_err(terminal::usage)?;
    private::begin();
    if let Some(path) = &args.config
        && let Some(told) = config.told_to_everyone(path)
    {
        tracing::warn!("{told}");
    }
    let ledger = Ledger::new(config.limits);
    let client_limits = ClientLimits { ledger: ledger.clone(), known: config.limits };
    let mut parts: Vec<Box<dyn Reload>> = vec![Box::new(client_limits), Box::new(log)];
    if let Some(keys) = Keys::of(&config.access) {
        parts.push(Box::new(keys));
    }
    // Behind the keys, which it names.
    if let Some(certificates) = MappedCertificates::of(&config) {
        parts.push(Box::new(certificates));
    }
    if let Some(files) = IssuerFiles::of(&config) {
        parts.push(Box::new(files));
    }
    issuers::follow(&config).map_err(terminal::usage)?;
    tokio::spawn(reload::keep_fresh(args, parts));
    let known = ProcessFacts { settings, recent };
    node::run(config, entities, exit_with_parent, ledger, known).await
}

/// What the process knows of itself beside its configuration.
struct ProcessFacts {
    /// As `mayfly config show` shows them.
    settings: String,
    recent: RecentLog,
}

/// What the settings come to, without secrets.
fn settings(args: &ServeArgs) -> anyhow::Result<String> {
    // What stands before the flags are the program and its command.
    let given = config::given(std::env::args_os().skip(2));
    let sections = Config::effective(args, &given).map_err(terminal::usage)?;
    let file = args.config.as_ref().map(|path| path.display().to_string());
    Ok(config::page(&sections, file.as_deref().unwrap_or_default()))
}

/// What can be known of a configuration without a data directory and without ports.
fn check(args: &ServeArgs) -> anyhow::Result<()> {
    let config = Config::load(args).map_err(terminal::usage)?;
    if let Some(told) = args.config.as_deref().and_then(|path| config.told_to_everyone(path)) {
        terminal::note(&told);
    }
    args.emulator_config.as_deref().map(Entities::read).transpose()?;
    let data_dir = config.data_dir.display();
    let is = match &config.join {
        Some(seeds) => format!("a node that joins the cluster of {}", seeds.join(", ")),
        None => format!("node {} of {}", config.node, config.nodes.len()),
    };
    terminal::line(format!("the configuration is right: {is}, data in '{data_dir}'"))
}
