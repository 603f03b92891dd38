//! Topics and subscriptions: properties (ENT-3) and descriptions (COUNT-1).

use domain::{
    EntityInfo, GroupId, Refusal, Span, Specifics, SubscriptionProperties, TopicProperties,
    split_subscription_path,
};

use super::authorization::{rules_from_v1, rules_to_v1};
use super::queue::{counters, destination, idle_ms, status_from_v1, status_to_v1};
use crate::v1;

/// `base` with the given properties changed, as [`super::merge_properties`].
pub fn merge_topic(
    base: TopicProperties,
    given: v1::TopicProperties,
) -> Result<TopicProperties, Refusal> {
    let status = match given.status {
        None => base.status,
        Some(status) => status_from_v1(status)?.unwrap_or(base.status),
    };
    Ok(TopicProperties {
        max_size_megabytes: given.max_size_megabytes.unwrap_or(base.max_size_megabytes),
        max_message_size_kilobytes: given
            .max_message_size_kilobytes
            .unwrap_or(base.max_message_size_kilobytes),
        requires_duplicate_detection: given
            .requires_duplicate_detection
            .unwrap_or(base.requires_duplicate_detection),
        duplicate_detection_window: given
            .duplicate_detection_window_ms
            .map_or(base.duplicate_detection_window, Span),
        default_ttl: given.default_ttl_ms.map_or(base.default_ttl, Span),
        auto_delete_on_idle: given.auto_delete_on_idle_ms.map_or(base.auto_delete_on_idle, Span),
        status,
        user_metadata: given.user_metadata.unwrap_or(base.user_metadata),
        enable_batched_operations: given
            .enable_batched_operations
            .unwrap_or(base.enable_batched_operations),
        authorization_rules: match given.authorization_rules {
            None => base.authorization_rules,
            Some(rules) => rules_from_v1(rules)?,
        },
        support_ordering: given.support_ordering.unwrap_or(base.support_ordering),
        filter_before_publishing: given
            .filter_before_publishing
            .unwrap_or(base.filter_before_publishing),
    })
}

pub fn properties_of_topic(properties: &TopicProperties) -> v1::TopicProperties {
    v1::TopicProperties {
        max_size_megabytes: Some(properties.max_size_megabytes),
        max_message_size_kilobytes: Some(properties.max_message_size_kilobytes),
        requires_duplicate_detection: Some(properties.requires_duplicate_detection),
        duplicate_detection_window_ms: Some(properties.duplicate_detection_window.0),
        default_ttl_ms: Some(properties.default_ttl.0),
        auto_delete_on_idle_ms: Some(properties.auto_delete_on_idle.0),
        status: Some(status_to_v1(properties.status).into()),
        user_metadata: Some(properties.user_metadata.clone()),
        enable_batched_operations: Some(properties.enable_batched_operations),
        authorization_rules: Some(rules_to_v1(&properties.authorization_rules)),
        support_ordering: Some(properties.support_ordering),
        filter_before_publishing: Some(properties.filter_before_publishing),
    }
}

/// `base` with the given properties changed, as [`super::merge_properties`].
pub fn merge_subscription(
    base: SubscriptionProperties,
    given: v1::SubscriptionProperties,
) -> Result<SubscriptionProperties, Refusal> {
    let status = match given.status {
        None => base.status,
        Some(status) => status_from_v1(status)?.unwrap_or(base.status),
    };
    Ok(SubscriptionProperties {
        lock_duration: given.lock_duration_ms.map_or(base.lock_duration, Span),
        requires_session: given.requires_session.unwrap_or(base.requires_session),
        default_ttl: given.default_ttl_ms.map_or(base.default_ttl, Span),
        auto_delete_on_idle: given.auto_delete_on_idle_ms.map_or(base.auto_delete_on_idle, Span),
        dead_letter_on_expiration: given
            .dead_letter_on_expiration
            .unwrap_or(base.dead_letter_on_expiration),
        dead_letter_on_filter_errors: given
            .dead_letter_on_filter_errors
            .unwrap_or(base.dead_letter_on_filter_errors),
        max_delivery_count: given.max_delivery_count.unwrap_or(base.max_delivery_count),
        status,
        user_metadata: given.user_metadata.unwrap_or(base.user_metadata),
        enable_batched_operations: given
            .enable_batched_operations
            .unwrap_or(base.enable_batched_operations),
        forward_to: destination(given.forward_to, base.forward_to),
        forward_dead_letters_to: destination(
            given.forward_dead_letters_to,
            base.forward_dead_letters_to,
        ),
    })
}

pub fn properties_of_subscription(
    properties: &SubscriptionProperties,
) -> v1::SubscriptionProperties {
    v1::SubscriptionProperties {
        lock_duration_ms: Some(properties.lock_duration.0),
        requires_session: Some(properties.requires_session),
        default_ttl_ms: Some(properties.default_ttl.0),
        auto_delete_on_idle_ms: Some(properties.auto_delete_on_idle.0),
        dead_letter_on_expiration: Some(properties.dead_letter_on_expiration),
        dead_letter_on_filter_errors: Some(properties.dead_letter_on_filter_errors),
        max_delivery_count: Some(properties.max_delivery_count),
        status: Some(status_to_v1(properties.status).into()),
        user_metadata: Some(properties.user_metadata.clone()),
        enable_batched_operations: Some(properties.enable_batched_operations),
        forward_to: Some(properties.forward_to.clone().unwrap_or_default()),
        forward_dead_letters_to: Some(
            properties.forward_dead_letters_to.clone().unwrap_or_default(),
        ),
    }
}

/// `leader_node` 0: none known. What is no topic has no properties.
pub fn topic(info: &EntityInfo, group: GroupId, leader_node: u64) -> v1::Topic {
    let Specifics::Topic(specifics) = &info.specifics else { return v1::Topic::default() };
    let properties = TopicProperties::of(&info.properties, specifics);
    let idle = idle_ms(info);
    v1::Topic {
        name: info.name.clone(),
        properties: Some(properties_of_topic(&properties)),
        counters: Some(v1::TopicCounters {
            subscriptions: specifics.subscriptions,
            scheduled: info.counts.scheduled,
            size_bytes: info.size_bytes,
            accepted: info.counts.accepted,
            published: info.counts.published,
            cancelled: info.counts.cancelled,
            sql_filters: specifics.rules.sql,
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
        properties: Some(properties_of_subscription(&properties)),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    proptest! {
        #[test]
        fn ent_3_every_property_of_a_topic_survives_the_native_api(
            properties in arbitrary::topic_properties(),
            base in arbitrary::topic_properties(),
        ) {
            let given = properties_of_topic(&properties);
            prop_assert_eq!(merge_topic(base.clone(), given).unwrap(), properties);
            prop_assert_eq!(merge_topic(base.clone(), v1::TopicProperties::default()).unwrap(), base);
        }

        #[test]
        fn ent_3_every_property_of_a_subscription_survives_the_native_api(
            properties in arbitrary::subscription_properties(),
            base in arbitrary::subscription_properties(),
        ) {
            let given = properties_of_subscription(&properties);
            prop_assert_eq!(merge_subscription(base.clone(), given).unwrap(), properties);
            let nothing = v1::SubscriptionProperties::default();
            prop_assert_eq!(merge_subscription(base.clone(), nothing).unwrap(), base);
        }
    }
}
