//! What a node tells of itself, wherever it is asked.

use std::sync::Arc;

use bytes::Bytes;
use domain::FEATURE_LEVEL_KNOWN;
use fault_rules::{RuleBook, Tally};
use replication::{FaultTally, NodeDescription};
use tokio::time::Instant;

use crate::certificates::CertificateEnds;
use crate::config::Config;
use crate::facts::NodeFacts;
use crate::history::{ASK_HISTORY, OwnHistory};
use crate::leader::Groups;

/// What stays the same while the node's process runs, and where the rest stands.
#[derive(Clone, Debug)]
pub(crate) struct AboutNode {
    version: &'static str,
    started_at: Instant,
    certificates: CertificateEnds,
    zone: Option<String>,
    /// As [`Config::feature_level_max`](crate::Config) has it.
    pub feature_level: u32,
    /// What it tells operators beside.
    facts: Arc<dyn NodeFacts>,
    /// What happened to messages, as it has it.
    pub history: Arc<OwnHistory>,
    /// The faults that its clients meet; `None`: none are allowed here.
    pub faults: Option<Arc<RuleBook>>,
}

impl AboutNode {
    pub fn new(config: &Config) -> AboutNode {
        let level_max = config.feature_level_max.unwrap_or(FEATURE_LEVEL_KNOWN);
        AboutNode {
            version: config.version,
            started_at: Instant::now(),
            certificates: config.certificates.clone(),
            zone: config.zone.clone(),
            feature_level: level_max.min(FEATURE_LEVEL_KNOWN),
            facts: config.facts.clone(),
            history: Arc::default(),
            faults: config.faults_allowed.then(Arc::default),
        }
    }

    /// What it answers whoever asks it for operators; `None`: it does not know the question. It may hold its thread
    /// up for moments.
    pub fn answer(&self, question: &str, asked: Bytes) -> Option<Bytes> {
        match question {
            ASK_HISTORY => self.history.answer(asked),
            _ => self.facts.answer(question, asked),
        }
    }

    pub fn describe(&self, groups: &Groups) -> NodeDescription {
        NodeDescription {
            version: self.version.to_owned(),
            feature_level: self.feature_level,
            feature_level_reached: groups.feature_level.get(),
            up_ms: self.started_at.elapsed().as_millis() as u64,
            certificates: self.certificates.all(),
            led: groups.all().iter().filter_map(|group| group.led_group()).collect(),
            zone: self.zone.clone(),
            faults: self.faults.iter().flat_map(|book| book.tallies()).map(told).collect(),
            connections: self.facts.connections(),
        }
    }
}

fn told(tally: Tally) -> FaultTally {
    let Tally { name, added_at, events, hits } = tally;
    FaultTally { name, added_at_ms: added_at.0, events, hits }
}
