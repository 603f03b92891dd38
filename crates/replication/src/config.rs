//! What a node's replication is told at its start.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use store::DataDir;

use crate::{Dialler, Doorkeeper};

/// One node's part in its cluster.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node, at most 65,535.
    pub node: u64,
    /// What remembers who this node is, beside its log and its rows. Without it the node takes
    /// itself for a founder that has lost nothing, and answers nobody who asks about the founding.
    pub data: Option<DataDir>,
    /// Where every node's peer port is reached, as `host:port`. May name this node too.
    pub peers: BTreeMap<u64, String>,
    /// Where this node's peer port listens.
    pub listen: SocketAddr,
    /// Nodes of another cluster are refused.
    pub cluster_id: String,
    pub proof: Proof,
    pub timings: Timings,
    pub limits: Limits,
    /// [`Observer::traced`](crate::Observer::traced) is told of messages whose senders are traced. Default false:
    /// contents are not looked at for it.
    pub traced: bool,
    /// Threads that run Raft and its sockets. Default 2; 0 leaves it to the runtime of the caller.
    /// They also apply what is short and stays in memory; the rest of applying has threads of its
    /// own, unless that runtime has only one.
    pub threads: usize,
    /// What peers are reached through. Default TCP.
    pub dialler: Option<Arc<dyn Dialler>>,
    /// Who listens where this node is reached by TCP. Default the peer port itself, which takes every
    /// connection for a peer's.
    pub doorkeeper: Option<Arc<dyn Doorkeeper>>,
}

impl Config {
    /// A config with every knob at its default.
    pub fn new(node: u64, peers: BTreeMap<u64, String>, listen: SocketAddr) -> Config {
        Config {
            node,
            data: None,
            peers,
            listen,
            cluster_id: String::new(),
            proof: Proof::Nothing,
            timings: Timings::default(),
            limits: Limits::default(),
            traced: false,
            threads: 2,
            dialler: None,
            doorkeeper: None,
        }
    }
}

/// How nodes prove to each other that they belong to the cluster.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// Whoever reaches the port may call itself a node.
    Nothing,
    /// Sent along with every call. It travels as the connection does, in clear over TCP: it keeps
    /// strangers and mistakes out, not an eavesdropper.
    Secret(String),
    /// Each connection comes with a [`crate::Credential`], which vouches for the node that calls; and the
    /// dialler connects to the node that is meant, or not at all.
    Credential,
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::Nothing => "Nothing",
            Proof::Secret(_) => "Secret",
            Proof::Credential => "Credential",
        })
    }
}

/// When silence counts as death. A follower that hears nothing campaigns after `election_max` (the
/// leader's lease) and its turn, which lies between `election_min` and `election_max`; that sum is the
/// outage when a leader falls silent. One whose process has ended, as its machine says, is replaced at once, and one
/// that hears no majority gives way after `election_max` and a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timings {
    /// Default 150 ms.
    pub heartbeat: Duration,
    /// Default 600 ms.
    pub election_min: Duration,
    /// Default 800 ms. Close to `election_min`: the spread only has to tell two candidates apart.
    pub election_max: Duration,
}

impl Default for Timings {
    /// An outage of 1.4 to 1.6 s: below 3 s with room for a loaded machine, and ten heartbeats may
    /// be late before an election that nobody needs.
    fn default() -> Timings {
        Timings {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(600),
            election_max: Duration::from_millis(800),
        }
    }
}

/// Bounds on memory and disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of proposals a group's leader has under way; more wait. Default 16 MiB.
    pub proposals_bytes_max: usize,
    /// Most memory for what happened to messages ([`crate::MessageHistory`]). Default 0: it is not recorded.
    pub message_history_bytes: usize,
    /// How long after it was applied here it is told and held. Default 1 h.
    pub message_history_keep: Duration,
    /// Bytes of entries sent to one follower of one group and not yet acknowledged. Default 8 MiB.
    pub append_window_bytes: usize,
    /// Log written since the last flush of the rows that calls for the next one, which lets the log
    /// be shortened. Default 128 MiB: it bounds what a restart applies again. Should not be above
    /// [`store::Options::flush_log_bytes`].
    pub flush_log_bytes: u64,
    /// Log kept on this node for a replica that is away; one that was away for longer gets a
    /// snapshot. Default 2 GiB.
    pub log_retain_bytes: u64,
    /// With less than this free, the node's disk counts as full for what adds data. It has to hold
    /// what memory may still write to disk, and the log of what frees space. Default 512 MiB; 0
    /// keeps nothing back.
    pub disk_reserve_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            proposals_bytes_max: 16 << 20,
            message_history_bytes: 0,
            message_history_keep: Duration::from_secs(3600),
            append_window_bytes: 8 << 20,
            flush_log_bytes: 128 << 20,
            log_retain_bytes: 2 << 30,
            disk_reserve_bytes: 512 << 20,
        }
    }
}
