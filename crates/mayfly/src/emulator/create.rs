//! Has a file's entities created. What is there is left as it is, and differences are told.

use anyhow::Context;
use client::{Client, Error};
use domain::{Patch, PropertyType};

use super::properties::completed;
use super::{Entities, Subscription, compare};

/// What came of a file.
#[derive(Debug, Default)]
pub struct Outcome {
    pub created: usize,
    /// That were there before.
    pub found: usize,
    /// One line per entity that is not as the file says, and one for what of the file has no effect.
    pub differences: Vec<String>,
}

impl Entities {
    /// First all entities, then what they forward to: a destination must exist (FWD-2), and the file
    /// may list it later.
    pub async fn create(&self, client: &Client) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        let file = self.file.display();
        if !self.notes.is_empty() {
            outcome.differences.push(format!("'{file}': {}", self.notes.join("; ")));
        }
        for (at, to) in self.destinations_elsewhere() {
            if !is_there(client, &to).await.with_context(|| format!("'{file}', {at}"))? {
                anyhow::bail!(
                    "'{file}', {at}.Properties: there is no '{to}' to forward to; list it in the \
                     file, or create it first"
                );
            }
        }
        let mut forwarding = Vec::new();
        for queue in &self.queues {
            let (name, place) = (&queue.name, || format!("'{file}', {}", queue.at));
            let (destinations, others) = completed(&queue.properties)
                .split(|property| matches!(property.of, PropertyType::Destination(_)));
            match client.create_queue(name, others.into()).await {
                Ok(_) if compare::forwards(&destinations) => {
                    forwarding.push((name, destinations, &queue.at));
                }
                Ok(_) => (),
                Err(error) if is_taken(&error) => {
                    let found = client.get_queue(name).await.with_context(place)?;
                    let found = Patch::try_from(found.properties.unwrap_or_default())?;
                    outcome.found(name, compare::properties(&found, &queue.properties));
                    continue;
                }
                Err(error) => return Err(error).with_context(place),
            }
            outcome.created += 1;
        }
        for topic in &self.topics {
            let place = || format!("'{file}', {}", topic.at);
            match client.create_topic(&topic.name, completed(&topic.properties).into()).await {
                Ok(_) => outcome.created += 1,
                Err(error) if is_taken(&error) => {
                    let found = client.get_topic(&topic.name).await.with_context(place)?;
                    let found = Patch::try_from(found.properties.unwrap_or_default())?;
                    outcome.found(&topic.name, compare::properties(&found, &topic.properties));
                }
                Err(error) => return Err(error).with_context(place),
            }
        }
        for (name, destinations, at) in forwarding {
            let place = || format!("'{file}', {at}.Properties");
            client.update_queue(name, destinations.into()).await.with_context(place)?;
        }
        for subscription in &self.subscriptions {
            let place = || format!("'{file}', {}", subscription.listed.at);
            subscription.create(client, &mut outcome).await.with_context(place)?;
        }
        Ok(outcome)
    }
}

impl Subscription {
    async fn create(&self, client: &Client, outcome: &mut Outcome) -> anyhow::Result<()> {
        let (topic, name) = (&self.topic, &self.listed.name);
        let listed = &self.listed.properties;
        let first = self.rules.first().cloned();
        match client.create_subscription(topic, name, completed(listed).into(), first).await {
            Ok(_) => outcome.created += 1,
            Err(error) if is_taken(&error) => {
                let found = client.get_subscription(topic, name).await?;
                let found = Patch::try_from(found.properties.unwrap_or_default())?;
                let mut differences = compare::properties(&found, listed);
                let rules = client.list_rules(topic, name).await?;
                differences.extend(compare::rules(&rules, &self.rules));
                outcome.found(&self.path(), differences);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        for (index, rule) in self.rules.iter().enumerate().skip(1) {
            let put = client.put_rule(topic, name, rule.clone(), false).await;
            put.with_context(|| format!("Rules[{index}]"))?;
        }
        Ok(())
    }
}

impl Outcome {
    fn found(&mut self, name: &str, differences: Vec<String>) {
        self.found += 1;
        if !differences.is_empty() {
            self.differences.push(format!(
                "'{name}' was there and is left as it is: {}; update or delete it to have what the \
                 file says",
                differences.join("; ")
            ));
        }
    }
}

/// Whether a queue or a topic has the name (FWD-2).
async fn is_there(client: &Client, name: &str) -> Result<bool, Error> {
    match client.get_queue(name).await.map(drop) {
        Err(error) if is_missing(&error) => (),
        found => return found.map(|()| true),
    }
    match client.get_topic(name).await.map(drop) {
        Err(error) if is_missing(&error) => Ok(false),
        found => found.map(|()| true),
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Refused(detail) if detail.name == "MessagingEntityNotFound")
}

fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Refused(detail) if detail.name == "MessagingEntityAlreadyExists")
}
