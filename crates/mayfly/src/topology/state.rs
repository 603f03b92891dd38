//! What a cluster has, as definitions.

use anyhow::Context;
use client::{Client, v1};
use definitions::{
    EntityDefinition, EntityPath, Found, Lists, RuleDefinition, SubscriptionDefinition,
};
use domain::{Described, Patch, Refusal};
use futures::{StreamExt, TryStreamExt, stream};
use wire::native;

/// Most calls under way at once: nodes have others to serve.
const CALLS_MAX: usize = 16;

/// Everything a cluster has. Who asks needs Manage on all of it. What is created or deleted meanwhile may
/// be told or not.
pub async fn found(client: &Client) -> anyhow::Result<Found> {
    let mut found = Found::default();
    for queue in client.list_queues("").await? {
        let counters = queue.counters.unwrap_or_default();
        let messages = counters.total + counters.transfer + counters.transfer_dead_lettered;
        count(&mut found, EntityPath::queue(&queue.name), messages);
        let definition = entity(queue.name, queue.properties)?;
        found.definitions.queues.push(definition);
    }
    let topics = client.list_topics("").await?;
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    for topic in topics {
        let counters = topic.counters.unwrap_or_default();
        let messages = counters.scheduled + counters.transfer + counters.transfer_dead_lettered;
        count(&mut found, EntityPath::topic(&topic.name), messages);
        let definition = entity(topic.name, topic.properties)?;
        found.definitions.topics.push(definition);
    }
    // Each call owns what it names: a task may be moved between threads while it waits.
    let listed = stream::iter(names).map(|topic| {
        let client = client.clone();
        async move { client.list_subscriptions(&topic).await }
    });
    let listed: Vec<Vec<v1::Subscription>> = listed.buffered(CALLS_MAX).try_collect().await?;
    let listed: Vec<v1::Subscription> = listed.into_iter().flatten().collect();
    let paths: Vec<(String, String)> =
        listed.iter().map(|one| (one.topic.clone(), one.name.clone())).collect();
    let rules = stream::iter(paths).map(|(topic, name)| {
        let client = client.clone();
        async move { client.list_rules(&topic, &name).await }
    });
    let rules: Vec<Vec<v1::Rule>> = rules.buffered(CALLS_MAX).try_collect().await?;
    for (subscription, rules) in listed.into_iter().zip(rules) {
        let messages = subscription.counters.unwrap_or_default().total;
        let path = EntityPath::subscription(&subscription.topic, &subscription.name);
        count(&mut found, path, messages);
        count(&mut found, EntityPath::topic(&subscription.topic), messages);
        found.definitions.subscriptions.push(described(subscription, rules)?);
    }
    Ok(found)
}

fn count(found: &mut Found, entity: EntityPath, messages: u64) {
    if messages > 0 {
        *found.messages.entry(entity).or_default() += messages;
    }
}

fn entity<P, W: Default>(name: String, told: Option<W>) -> anyhow::Result<EntityDefinition<P>>
where
    P: Described,
    Patch<P>: TryFrom<W, Error = Refusal>,
{
    let properties = Patch::try_from(told.unwrap_or_default()).with_context(|| name.clone())?;
    let at = "the cluster".to_owned();
    Ok(EntityDefinition {
        at,
        name,
        properties,
        lists: Lists::Whole,
        ..EntityDefinition::default()
    })
}

/// Rules are told in order of name; they count in that of their creation (RULE-7).
fn described(
    of: v1::Subscription,
    mut rules: Vec<v1::Rule>,
) -> anyhow::Result<SubscriptionDefinition> {
    rules.sort_by_key(|rule| rule.created_at_ms);
    let read = |rule: v1::Rule| {
        let at = format!("the cluster, rule {}", rule.name);
        Ok(RuleDefinition { rule: native::rule_from_v1(rule).context(at.clone())?, at })
    };
    Ok(SubscriptionDefinition {
        topic: of.topic,
        entity: entity(of.name, of.properties)?,
        rules: Some(rules.into_iter().map(read).collect::<anyhow::Result<_>>()?),
    })
}
