//! `--emulator-config`: entities as the configuration file of Microsoft's Service Bus emulator lists
//! them. The file is read and checked whole before a node starts; an error names the place in it.

mod compare;
mod create;
mod file;
mod properties;
mod shape;

use std::path::{Path, PathBuf};

use client::{subscription_path, v1};
use domain::{
    Described, Patch, PropertyValue, QueueProperties, Refusal, SubscriptionProperties,
    TopicProperties, validate,
};
use wire::native;

use crate::terminal;

pub use create::Outcome;

/// What a file lists, in the order it does.
#[derive(Debug, Default, PartialEq)]
pub struct Entities {
    file: PathBuf,
    queues: Vec<Listed<QueueProperties>>,
    topics: Vec<Listed<TopicProperties>>,
    subscriptions: Vec<Subscription>,
    /// What of the file has another effect than it says, or none, with its place.
    notes: Vec<String>,
}

/// An entity, and where in the file it stands.
#[derive(Debug, PartialEq)]
struct Listed<P> {
    at: String,
    name: String,
    properties: Patch<P>,
}

#[derive(Debug, PartialEq)]
struct Subscription {
    listed: Listed<SubscriptionProperties>,
    topic: String,
    /// None: the default one (RULE-2).
    rules: Vec<v1::Rule>,
}

impl Subscription {
    fn path(&self) -> String {
        subscription_path(&self.topic, &self.listed.name)
    }
}

impl Entities {
    pub fn read(path: &Path) -> anyhow::Result<Entities> {
        let told = |why: String| terminal::usage(format!("'{}': {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
        let mut entities = file::parse(&text).map_err(told)?;
        entities.check().map_err(told)?;
        entities.file = path.to_owned();
        Ok(entities)
    }

    /// What a node would refuse, told before there is one.
    fn check(&self) -> Result<(), String> {
        for queue in &self.queues {
            queue.check(validate::queue_name, validate::queue_properties)?;
        }
        for topic in &self.topics {
            topic.check(validate::queue_name, validate::topic_properties)?;
        }
        self.subscriptions.iter().try_for_each(Subscription::check)?;
        self.check_names()?;
        self.queues.iter().try_for_each(|queue| {
            let forwarding = validate::new_forwarding(&queue.name, &queue.described());
            forwarding.map_err(|refusal| refused(&queue.at, &refusal))
        })
    }

    /// Where each destination is named, and which it is, save those that the file lists.
    fn destinations_elsewhere(&self) -> impl Iterator<Item = (&str, String)> {
        let queues =
            self.queues.iter().flat_map(|queue| destinations(&queue.at, &queue.properties));
        let subscriptions = self.subscriptions.iter();
        let subscriptions =
            subscriptions.flat_map(|one| destinations(&one.listed.at, &one.listed.properties));
        queues.chain(subscriptions).filter(|(_, to)| !self.lists(to))
    }

    fn lists(&self, name: &str) -> bool {
        let queues = self.queues.iter().map(|queue| &queue.name);
        let topics = self.topics.iter().map(|topic| &topic.name);
        queues.chain(topics).any(|listed| listed.eq_ignore_ascii_case(name))
    }

    /// ENT-2: each name once.
    fn check_names(&self) -> Result<(), String> {
        let queues = self.queues.iter().map(|queue| (&queue.at, queue.name.clone()));
        let topics = self.topics.iter().map(|topic| (&topic.at, topic.name.clone()));
        let subscriptions = self.subscriptions.iter().map(|one| (&one.listed.at, one.path()));
        let mut seen = std::collections::BTreeMap::new();
        for (at, name) in queues.chain(topics).chain(subscriptions) {
            if let Some(first) = seen.insert(name.to_ascii_lowercase(), at) {
                return Err(format!(
                    "{at}: '{name}' is listed before, at {first}; name it otherwise"
                ));
            }
        }
        Ok(())
    }
}

fn destinations<'a, P: Described>(
    at: &'a str,
    properties: &'a Patch<P>,
) -> impl Iterator<Item = (&'a str, String)> {
    properties.given().filter_map(move |(_, value)| match value {
        PropertyValue::Destination(to) => to.map(|to| (at, to)),
        _ => None,
    })
}

impl<P: Described> Listed<P> {
    /// What is created, where nothing of that name is there.
    fn described(&self) -> P {
        properties::completed(&self.properties).created()
    }

    fn check(
        &self,
        name: fn(&str) -> Result<(), Refusal>,
        properties: fn(&P) -> Result<(), Refusal>,
    ) -> Result<(), String> {
        let described = self.described();
        let checked = name(&self.name).and_then(|()| properties(&described));
        checked.map_err(|refusal| refused(&self.at, &refusal))
    }
}

impl Subscription {
    fn check(&self) -> Result<(), String> {
        self.listed.check(validate::subscription_name, validate::subscription_properties)?;
        for (index, rule) in self.rules.iter().enumerate() {
            let at = format!("{}.Rules[{index}]", self.listed.at);
            check_rule(rule).map_err(|refusal| refused(&at, &refusal))?;
        }
        Ok(())
    }
}

fn check_rule(rule: &v1::Rule) -> Result<(), Refusal> {
    validate::rule_name(&rule.name)?;
    let rule = native::rule_from_v1(rule.clone())?;
    let refused = |error: domain::RuleError| Refusal::InvalidRule {
        exception: error.name(),
        why: error.to_string(),
    };
    rule.filter.compile().map_err(refused)?;
    rule.action.map_or(Ok(()), |action| action.compile_action().map(drop).map_err(refused))
}

fn refused(at: &str, refusal: &Refusal) -> String {
    format!("{at}: {refusal}")
}
