//! A rule as it is written, in TOML or JSON, and as the cluster keeps it.

use serde::{Deserialize, Serialize};

use crate::effect::Phase;
use crate::error_name::ErrorName;
use crate::operation::{Operation, Protocol};
use crate::span_range::SpanRange;

/// What a file with rules says: a table `[[faults]]` for each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesFile {
    #[serde(default)]
    pub faults: Vec<WrittenRule>,
}

/// One rule: its keys as users write them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenRule {
    /// What it is called; another of the same name is replaced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,

    // Where.
    /// One, or a list.
    pub operation: OneOrMore,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// SQL, as in rules of subscriptions, of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,

    // When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// It is removed by itself then; 10 minutes where nothing is said, and `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_after: Option<String>,

    // What.
    pub effect: EffectName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<SpanRange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u32>,
}

/// Operations: a word, or a list of some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "allowed are the names of operations, one or a list")]
pub enum OneOrMore {
    One(Operation),
    More(Vec<Operation>),
}

impl Default for OneOrMore {
    fn default() -> OneOrMore {
        OneOrMore::More(Vec::new())
    }
}

impl OneOrMore {
    pub(crate) fn all(&self) -> &[Operation] {
        match self {
            OneOrMore::One(operation) => std::slice::from_ref(operation),
            OneOrMore::More(operations) => operations,
        }
    }
}

/// An effect without what goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectName {
    #[default]
    Delay,
    Refuse,
    LoseRequest,
    LoseAnswer,
    Lapse,
    Detach,
    Close,
    Reset,
    Silence,
    Cut,
    WithholdCredit,
    Throttle,
}
