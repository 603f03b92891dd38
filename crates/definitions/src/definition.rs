//! The model: what a cluster is to have, whatever form it was read from, and what it has.

use std::collections::BTreeMap;

use domain::{
    Described, NewRule, Patch, PropertyValue, QueueProperties, SubscriptionProperties,
    TopicProperties,
};

use crate::EntityPath;

/// Entities, in the order in which they were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    pub queues: Vec<EntityDefinition<QueueProperties>>,
    pub topics: Vec<EntityDefinition<TopicProperties>>,
    pub subscriptions: Vec<SubscriptionDefinition>,
    /// What of a file was not taken over, or not as it stands there: a line each, with its place.
    pub notes: Vec<String>,
}

/// An entity, and what is said of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityDefinition<P> {
    /// Where this is said: a file, and a path in it.
    pub at: String,
    pub name: String,
    /// What is not said stays as it is.
    pub properties: Patch<P>,
    /// What holds for the rest when the entity is created, where the file's form has other defaults
    /// than ENT-3.
    pub defaults: Patch<P>,
    pub lists: Lists,
    /// The file speaks of what belongs to the entity only: it has to be there.
    pub is_reference: bool,
}

/// A subscription and its rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubscriptionDefinition {
    pub topic: String,
    pub entity: EntityDefinition<SubscriptionProperties>,
    /// None: as they are; at creation the default one (RULE-2).
    pub rules: Option<Vec<RuleDefinition>>,
}

/// A rule, and where it is said.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleDefinition {
    pub at: String,
    pub rule: NewRule,
}

/// What a list of rules, or of authorization rules, means for those that it does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// They go.
    #[default]
    Whole,
    /// They stay, unless everything goes that is not named: each is a resource of its own.
    Added,
}

/// What a cluster has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub definitions: Definitions,
    /// Messages of each entity that has some, of a topic those of its subscriptions too.
    pub messages: BTreeMap<EntityPath, u64>,
}

impl<P: Described> EntityDefinition<P> {
    /// What is asked for where nothing of that name is there.
    pub fn at_creation(&self) -> Patch<P> {
        let mut patch = self.defaults.clone();
        for (property, value) in self.properties.given() {
            patch.set(property, value);
        }
        patch
    }

    /// What it forwards to.
    pub fn destinations(&self) -> impl Iterator<Item = String> + '_ {
        destinations(&self.properties)
    }
}

/// What these properties forward to.
pub(crate) fn destinations<P: Described>(of: &Patch<P>) -> impl Iterator<Item = String> + '_ {
    of.given().filter_map(|(_, value)| match value {
        PropertyValue::Destination(to) => to,
        PropertyValue::Duration(_)
        | PropertyValue::Number(_)
        | PropertyValue::Flag(_)
        | PropertyValue::Text(_)
        | PropertyValue::Status(_)
        | PropertyValue::AuthorizationRules(_) => None,
    })
}

impl Definitions {
    /// Those of several files as one.
    pub fn extend(&mut self, more: Definitions) {
        let Definitions { queues, topics, subscriptions, notes } = more;
        self.queues.extend(queues);
        self.topics.extend(topics);
        self.subscriptions.extend(subscriptions);
        self.notes.extend(notes);
    }

    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.topics.is_empty() && self.subscriptions.is_empty()
    }
}

impl SubscriptionDefinition {
    pub fn path(&self) -> EntityPath {
        EntityPath::subscription(&self.topic, &self.entity.name)
    }
}
