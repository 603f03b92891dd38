//! `--emulator-config`: entities as the configuration file of Microsoft's Service Bus emulator lists
//! them. The file is read and checked whole before a node starts; an error names the place in it.

mod compare;
mod create;
mod file;

use std::path::{Path, PathBuf};

use client::{subscription_path, v1};
use domain::{Patch, QueueProperties, Refusal, SubscriptionProperties, TopicProperties, validate};
use wire::native;

use crate::terminal;

pub use create::Outcome;

/// What a file lists, in the order it does.
#[derive(Debug, Default, PartialEq)]
pub struct Entities {
    file: PathBuf,
    queues: Vec<Listed<v1::QueueProperties>>,
    topics: Vec<Listed<v1::TopicProperties>>,
    subscriptions: Vec<Subscription>,
}

/// An entity, and where in the file it stands.
#[derive(Debug, PartialEq)]
struct Listed<P> {
    at: String,
    name: String,
    properties: P,
}

#[derive(Debug, PartialEq)]
struct Subscription {
    listed: Listed<v1::SubscriptionProperties>,
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
        for Listed { at, name, properties } in &self.queues {
            let check = || {
                validate::queue_name(name)?;
                let base = QueueProperties::default();
                validate::queue_properties(&Patch::try_from(properties.clone())?.applied_to(base))
            };
            check().map_err(|refusal| refused(at, &refusal))?;
        }
        for Listed { at, name, properties } in &self.topics {
            let check = || {
                validate::queue_name(name)?;
                let base = TopicProperties::default();
                validate::topic_properties(&Patch::try_from(properties.clone())?.applied_to(base))
            };
            check().map_err(|refusal| refused(at, &refusal))?;
        }
        self.subscriptions.iter().try_for_each(Subscription::check)?;
        self.check_names()
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

impl Subscription {
    fn check(&self) -> Result<(), String> {
        let Listed { at, name, properties } = &self.listed;
        let check = || {
            validate::subscription_name(name)?;
            let base = SubscriptionProperties::default();
            let properties = Patch::try_from(properties.clone())?.applied_to(base);
            validate::subscription_properties(&properties)
        };
        check().map_err(|refusal| refused(at, &refusal))?;
        for (index, rule) in self.rules.iter().enumerate() {
            let at = format!("{at}.Rules[{index}]");
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
