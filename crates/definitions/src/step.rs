//! The steps from what a cluster has to what it is to have.

use std::cmp::Ordering;
use std::fmt;

use domain::{
    EntityKind, NewRule, Patch, QueueProperties, SubscriptionProperties, TopicProperties,
};

/// Which entity. Names are compared without their case (ENT-1).
#[derive(Clone, Debug)]
pub struct EntityPath {
    pub kind: EntityKind,
    /// Of a subscription.
    pub topic: Option<String>,
    pub name: String,
}

/// One call that changes a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub entity: EntityPath,
    /// Whether it was there when the plan was made.
    pub was_there: bool,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `rule`: a subscription's first; none is the default one (RULE-2).
    Create {
        properties: Properties,
        rule: Option<Box<NewRule>>,
    },
    /// `differences`: what is another then, as people read it.
    Update {
        properties: Properties,
        differences: Vec<String>,
    },
    /// `messages`: that go with it.
    Delete {
        messages: u64,
    },
    PutRule {
        rule: Box<NewRule>,
        replaces: Option<Box<NewRule>>,
    },
    RemoveRule {
        name: String,
    },
}

/// Of an entity of each kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Properties {
    Queue(Patch<QueueProperties>),
    Topic(Patch<TopicProperties>),
    Subscription(Patch<SubscriptionProperties>),
}

impl EntityPath {
    pub fn queue(name: &str) -> EntityPath {
        EntityPath { kind: EntityKind::Queue, topic: None, name: name.to_owned() }
    }

    pub fn topic(name: &str) -> EntityPath {
        EntityPath { kind: EntityKind::Topic, topic: None, name: name.to_owned() }
    }

    pub fn subscription(topic: &str, name: &str) -> EntityPath {
        let kind = EntityKind::Subscription;
        EntityPath { kind, topic: Some(topic.to_owned()), name: name.to_owned() }
    }

    /// Its name, and for a subscription the topic's before it.
    pub fn path(&self) -> String {
        match &self.topic {
            Some(topic) => format!("{topic}/{}", self.name),
            None => self.name.clone(),
        }
    }

    fn key(&self) -> (u8, Option<String>, String) {
        let kind = match self.kind {
            EntityKind::Queue => 0,
            EntityKind::Topic => 1,
            EntityKind::Subscription => 2,
        };
        (kind, self.topic.as_deref().map(str::to_ascii_lowercase), self.name.to_ascii_lowercase())
    }
}

impl PartialEq for EntityPath {
    fn eq(&self, other: &EntityPath) -> bool {
        self.key() == other.key()
    }
}

impl Eq for EntityPath {}

impl PartialOrd for EntityPath {
    fn partial_cmp(&self, other: &EntityPath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EntityPath {
    fn cmp(&self, other: &EntityPath) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// `subscription prices/eur`.
impl fmt::Display for EntityPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.path())
    }
}

/// `~ queue orders: LockDuration 1m -> 30s`. No key is shown.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { entity, change, .. } = self;
        match change {
            Change::Create { rule, .. } => {
                write!(f, "+ {entity}")?;
                match rule {
                    Some(rule) => write!(f, ", rule {}: {}", rule.name, crate::word::rule(rule)),
                    None => Ok(()),
                }
            }
            Change::Update { differences, .. } => {
                write!(f, "~ {entity}: {}", differences.join(", "))
            }
            Change::Delete { messages: 0 } => write!(f, "- {entity}"),
            Change::Delete { messages: 1 } => write!(f, "- {entity}, and its message"),
            Change::Delete { messages } => write!(f, "- {entity}, and its {messages} messages"),
            Change::PutRule { rule, replaces } => {
                let (path, name) = (entity.path(), &rule.name);
                match replaces {
                    None => write!(f, "+ rule {path}/{name}: {}", crate::word::rule(rule)),
                    Some(old) => write!(
                        f,
                        "~ rule {path}/{name}: {} -> {}",
                        crate::word::rule(old),
                        crate::word::rule(rule)
                    ),
                }
            }
            Change::RemoveRule { name } => write!(f, "- rule {}/{name}", entity.path()),
        }
    }
}
