//! What a node is told at start. Pacing only: what the machine reads comes from the log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Arriving, NodeRow, Outgoing};
use spans::SpanQueue;

use crate::certificates::CertificateEnds;
use crate::clock::Skew;
use crate::events::Events;
use crate::facts::{NoFacts, NodeFacts};

/// Default of [`Config::metrics_entities_max`].
const METRICS_ENTITIES_MAX: usize = 1_000;

/// One node's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's id, from 1.
    pub node: u64,
    /// This node's addresses as the others and clients shall know them.
    pub addresses: NodeRow,
    /// Where it stands, as its operator calls it: replicas of a group are spread over zones. Default
    /// not told.
    pub zone: Option<String>,
    /// It tells the others that it knows no higher feature level, so that the cluster's does not rise above that.
    /// Default: it tells all it knows.
    pub feature_level_max: Option<u32>,
    /// The cluster to found if there is none yet; the same on every founding node, or absent on a
    /// node that joins.
    pub founding: Option<Founding>,
    /// Allows `advance_clock`. Default false.
    pub development: bool,
    /// Allows faults that clients meet (FAULT-9). Default false.
    pub faults_allowed: bool,
    /// Most entities with metrics of their own; the rest are summed. Default 1,000.
    pub metrics_entities_max: usize,
    /// Takes what is told of traced messages. Default nobody does; where somebody does,
    /// [`replication::Config::traced`] is to be set.
    pub spans: Option<SpanQueue>,
    /// As `cluster status` shows it: "synced" or "replicated".
    pub durability: &'static str,
    /// What an operator is to know of how this node was set up, shown in `cluster status` when this node
    /// answers. Default nothing.
    pub note: Option<&'static str>,
    /// The binary's version, shown in `cluster status`.
    pub version: &'static str,
    /// Until when its certificates count, as far as it has any.
    pub certificates: CertificateEnds,
    /// Where it is told what changes in the cluster.
    pub events: Events,
    /// What it tells operators beside. Default nothing.
    pub facts: Arc<dyn NodeFacts>,
    /// How long a request may take before it is answered "not done" or "perhaps done". Default 10 s.
    pub request_timeout: Duration,
    /// Most bytes of sends that wait at this node to be stored; more are told to come back.
    /// Default 64 MiB.
    pub sends_bytes_max: usize,
    /// Most bytes of operations that wait in open transactions at this node; more are told to come
    /// back. Default 64 MiB.
    pub transactions_bytes_max: usize,
    /// How long a transaction may take from its first operation. Default 2 min (TX-3); tests have less
    /// time.
    pub transaction_timeout: Duration,
    pub proposer: ProposerConfig,
    /// How a stored content goes where it is forwarded to. Default: contents of the native API.
    pub forwarded: ForwardContent,
    pub clock: ClockConfig,
    pub idle: IdleConfig,
}

/// Makes of a stored message what arrives where it is forwarded to, whichever protocol it came by;
/// or says why it cannot be read.
pub type ForwardContent = fn(Outgoing, Bytes) -> Result<Arriving, String>;

/// A cluster as it shall be.
#[derive(Clone, Debug)]
pub struct Founding {
    pub cluster_id: u128,
    /// More may be added later. Default 16.
    pub data_groups: u16,
    /// Default 3, or the number of nodes if fewer.
    pub replication_factor: u8,
    pub nodes: Vec<(u64, NodeRow)>,
}

/// How a leader gathers requests into entries.
#[derive(Clone, Debug)]
pub struct ProposerConfig {
    /// Most proposals under way per group. Default 4: more buys latency, not throughput.
    pub proposals_max: usize,
    /// Most proposals under way before one that is not full waits for company. Default 1: the
    /// first request of a quiet group goes at once, a busy group fills its entries.
    pub partial_proposals_max: usize,
    /// How long one that is not full waits for company at most, from the beginning of the one before, while more
    /// clients are expected. Default 4 ms; zero begins each as soon as the one before has ended.
    pub pause_max: Duration,
    /// An entry with this many bytes is full. Default 256 KiB.
    pub entry_bytes_full: usize,
    /// An entry with this many messages stored, taken or settled is full. Default 256.
    pub entry_messages_full: usize,
}

/// Which clocks are right enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockConfig {
    /// A leader stamps while a majority of its group's wall clocks is this near to its clock. Default
    /// 500 ms: nothing expires earlier than that, as long as a majority is right.
    pub offset_max: Duration,
    /// For experiments. Default none.
    pub skew: Skew,
}

/// How soon what nobody uses is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleConfig {
    /// How long a new leader lets nothing be deleted as idle, so that its edges attach first. By the
    /// wall clock, as it is they who take that long. Default 60 s.
    pub reattach: Duration,
    /// How often the catalog's leader asks for what is idle. Default 5 s; deletions are late by as
    /// much (TIME-8).
    pub collect_every: Duration,
}

impl Config {
    /// A node with default pacing that founds nothing.
    pub fn new(node: u64, addresses: NodeRow) -> Config {
        Config {
            node,
            addresses,
            zone: None,
            feature_level_max: None,
            founding: None,
            development: false,
            faults_allowed: false,
            note: None,
            metrics_entities_max: METRICS_ENTITIES_MAX,
            spans: None,
            durability: "synced",
            version: env!("CARGO_PKG_VERSION"),
            certificates: CertificateEnds::default(),
            events: Events::default(),
            facts: Arc::new(NoFacts),
            request_timeout: Duration::from_secs(10),
            sends_bytes_max: 64 * 1024 * 1024,
            forwarded: |outgoing, content| {
                wire::content::forwarded(outgoing, content).map_err(|error| error.to_string())
            },
            transactions_bytes_max: 64 * 1024 * 1024,
            transaction_timeout: Duration::from_millis(domain::TRANSACTION_TIMEOUT.0),
            proposer: ProposerConfig::default(),
            clock: ClockConfig::default(),
            idle: IdleConfig::default(),
        }
    }
}

impl Default for ClockConfig {
    fn default() -> ClockConfig {
        ClockConfig { offset_max: Duration::from_millis(500), skew: Skew::None }
    }
}

impl Default for IdleConfig {
    fn default() -> IdleConfig {
        IdleConfig { reattach: Duration::from_secs(60), collect_every: Duration::from_secs(5) }
    }
}

impl Default for ProposerConfig {
    fn default() -> ProposerConfig {
        ProposerConfig {
            proposals_max: 4,
            partial_proposals_max: 1,
            pause_max: Duration::from_millis(4),
            entry_bytes_full: 256 * 1024,
            entry_messages_full: 256,
        }
    }
}
