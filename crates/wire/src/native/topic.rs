//! Topics' and subscriptions' descriptions (COUNT-1).

use domain::{
    EntityInfo, GroupId, Patch, Specifics, SubscriptionProperties, TopicProperties,
    split_subscription_path,
};

use super::queue::{counters, idle_ms};
use crate::v1;

/// `leader_node` 0: none known. What is no topic has no properties.
pub fn topic(info: &EntityInfo, group: GroupId, leader_node: u64) -> v1::Topic {
    let Specifics::Topic(specifics) = &info.specifics else { return v1::Topic::default() };
    let properties = TopicProperties::of(&info.properties, specifics);
    let idle = idle_ms(info);
    v1::Topic {
        name: info.name.clone(),
        properties: Some(Patch::of(properties).into()),
        counters: Some(v1::TopicCounters {
            subscriptions: specifics.subscriptions,
            scheduled: info.counts.scheduled,
            size_bytes: info.size_bytes,
            accepted: info.counts.accepted,
            published: info.counts.published,
            cancelled: info.counts.cancelled,
            sql_filters: u32::try_from(specifics.rules.told_as_sql()).unwrap_or(u32::MAX),
            correlation_filters: specifics.rules.correlation,
            transfer: info.counts.transfer,
            transfer_dead_lettered: info.counts.transfer_dead_lettered,
            forwarded: info.counts.moved,
        }),
        created_at_ms: info.created_at.0,
        updated_at_ms: info.updated_at.0,
        accessed_at_ms: info.accessed_at.0,
        group: group.0.into(),
        leader_node,
        last_use_ms: info.last_use.0,
        idle_since_ms: idle.map(|(since, _)| since),
        deleted_at_ms: idle.map(|(_, due)| due),
    }
}

/// As [`topic`].
pub fn subscription(info: &EntityInfo, group: GroupId, leader_node: u64) -> v1::Subscription {
    let Specifics::Subscription(specifics) = &info.specifics else {
        return v1::Subscription::default();
    };
    let properties = SubscriptionProperties::of(&info.properties, specifics);
    let (topic, name) = split_subscription_path(&info.name).unwrap_or(("", &info.name));
    let idle = idle_ms(info);
    v1::Subscription {
        topic: topic.to_owned(),
        name: name.to_owned(),
        properties: Some(Patch::of(properties).into()),
        counters: Some(counters(info)),
        created_at_ms: info.created_at.0,
        updated_at_ms: info.updated_at.0,
        accessed_at_ms: info.accessed_at.0,
        group: group.0.into(),
        leader_node,
        last_use_ms: info.last_use.0,
        idle_since_ms: idle.map(|(since, _)| since),
        deleted_at_ms: idle.map(|(_, due)| due),
    }
}
