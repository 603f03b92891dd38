//! One step of a plan, done.

use anyhow::Context;
use client::{Client, v1};
use definitions::{Change, EntityPath, Properties, Step};
use domain::{NewRule, RuleRow, Timestamp};
use wire::native;

/// Does one step. What fails is told with the step; whoever makes a new plan goes on from there.
pub async fn apply(client: &Client, step: &Step) -> anyhow::Result<()> {
    let done = match &step.change {
        Change::Create { properties, rule } => {
            create(client, &step.entity, properties.clone(), rule.as_deref()).await
        }
        Change::Update { properties, .. } => update(client, &step.entity, properties.clone()).await,
        Change::Delete { .. } => delete(client, &step.entity).await,
        Change::PutRule { rule, replaces } => {
            let (topic, name) = subscription(&step.entity);
            client.put_rule(topic, name, as_wire(rule), replaces.is_some()).await
        }
        Change::RemoveRule { name: rule } => {
            let (topic, name) = subscription(&step.entity);
            client.remove_rule(topic, name, rule).await
        }
    };
    done.with_context(|| step.to_string())
}

async fn create(
    client: &Client,
    entity: &EntityPath,
    properties: Properties,
    rule: Option<&NewRule>,
) -> Result<(), client::Error> {
    match properties {
        Properties::Queue(patch) => client.create_queue(&entity.name, patch.into()).await.map(drop),
        Properties::Topic(patch) => client.create_topic(&entity.name, patch.into()).await.map(drop),
        Properties::Subscription(patch) => {
            let (topic, name) = subscription(entity);
            let rule = rule.map(as_wire);
            client.create_subscription(topic, name, patch.into(), rule).await.map(drop)
        }
    }
}

async fn update(
    client: &Client,
    entity: &EntityPath,
    properties: Properties,
) -> Result<(), client::Error> {
    match properties {
        Properties::Queue(patch) => client.update_queue(&entity.name, patch.into()).await.map(drop),
        Properties::Topic(patch) => client.update_topic(&entity.name, patch.into()).await.map(drop),
        Properties::Subscription(patch) => {
            let (topic, name) = subscription(entity);
            client.update_subscription(topic, name, patch.into()).await.map(drop)
        }
    }
}

async fn delete(client: &Client, entity: &EntityPath) -> Result<(), client::Error> {
    match (entity.kind, &entity.topic) {
        (domain::EntityKind::Topic, _) => client.delete_topic(&entity.name).await,
        (_, Some(topic)) => client.delete_subscription(topic, &entity.name).await,
        (_, None) => client.delete_queue(&entity.name).await,
    }
}

fn subscription(entity: &EntityPath) -> (&str, &str) {
    (entity.topic.as_deref().unwrap_or_default(), &entity.name)
}

fn as_wire(rule: &NewRule) -> v1::Rule {
    let NewRule { name, filter, action } = rule.clone();
    // The last two are the cluster's to say.
    native::rule_to_v1(&RuleRow { name, filter, action, created_at: Timestamp(0), order: 0 })
}
