//! Queues: properties (ENT-3) and description (COUNT-1).

use domain::{EntityInfo, EntityStatus, GroupId, Idleness, QueueProperties, Refusal, Span};

use super::authorization::{rules_from_v1, rules_to_v1};
use crate::v1;

/// `base` with the given properties changed: at creation `base` is the defaults, at update what
/// the queue is (ENT-4).
pub fn merge_properties(
    base: QueueProperties,
    given: v1::QueueProperties,
) -> Result<QueueProperties, Refusal> {
    let status = match given.status {
        None => base.status,
        Some(status) => status_from_v1(status)?.unwrap_or(base.status),
    };
    Ok(QueueProperties {
        lock_duration: given.lock_duration_ms.map_or(base.lock_duration, Span),
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
        requires_session: given.requires_session.unwrap_or(base.requires_session),
        default_ttl: given.default_ttl_ms.map_or(base.default_ttl, Span),
        auto_delete_on_idle: given.auto_delete_on_idle_ms.map_or(base.auto_delete_on_idle, Span),
        dead_letter_on_expiration: given
            .dead_letter_on_expiration
            .unwrap_or(base.dead_letter_on_expiration),
        max_delivery_count: given.max_delivery_count.unwrap_or(base.max_delivery_count),
        status,
        user_metadata: given.user_metadata.unwrap_or(base.user_metadata),
        enable_batched_operations: given
            .enable_batched_operations
            .unwrap_or(base.enable_batched_operations),
        authorization_rules: match given.authorization_rules {
            None => base.authorization_rules,
            Some(rules) => rules_from_v1(rules)?,
        },
        forward_to: destination(given.forward_to, base.forward_to),
        forward_dead_letters_to: destination(
            given.forward_dead_letters_to,
            base.forward_dead_letters_to,
        ),
    })
}

/// An empty name takes the destination off.
pub(super) fn destination(given: Option<String>, base: Option<String>) -> Option<String> {
    given.map_or(base, |name| Some(name).filter(|name| !name.is_empty()))
}

pub fn properties_of_queue(properties: &QueueProperties) -> v1::QueueProperties {
    v1::QueueProperties {
        lock_duration_ms: Some(properties.lock_duration.0),
        max_size_megabytes: Some(properties.max_size_megabytes),
        max_message_size_kilobytes: Some(properties.max_message_size_kilobytes),
        requires_duplicate_detection: Some(properties.requires_duplicate_detection),
        duplicate_detection_window_ms: Some(properties.duplicate_detection_window.0),
        requires_session: Some(properties.requires_session),
        default_ttl_ms: Some(properties.default_ttl.0),
        auto_delete_on_idle_ms: Some(properties.auto_delete_on_idle.0),
        dead_letter_on_expiration: Some(properties.dead_letter_on_expiration),
        max_delivery_count: Some(properties.max_delivery_count),
        status: Some(status_to_v1(properties.status).into()),
        user_metadata: Some(properties.user_metadata.clone()),
        enable_batched_operations: Some(properties.enable_batched_operations),
        authorization_rules: Some(rules_to_v1(&properties.authorization_rules)),
        forward_to: Some(properties.forward_to.clone().unwrap_or_default()),
        forward_dead_letters_to: Some(
            properties.forward_dead_letters_to.clone().unwrap_or_default(),
        ),
    }
}

/// Since when an entity is idle, and when it is deleted for that.
pub(super) fn idle_ms(info: &EntityInfo) -> Option<(u64, u64)> {
    match info.idleness {
        Idleness::Since { since, due } => Some((since.0, due.0)),
        Idleness::Never | Idleness::Scheduled => None,
    }
}

/// `leader_node` 0: none known.
pub fn queue(info: &EntityInfo, group: GroupId, leader_node: u64) -> v1::Queue {
    let idle = idle_ms(info);
    v1::Queue {
        name: info.name.clone(),
        properties: Some(properties_of_queue(&info.properties)),
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

/// COUNT-1.
pub(super) fn counters(info: &EntityInfo) -> v1::QueueCounters {
    let counts = &info.counts;
    v1::QueueCounters {
        active: counts.active,
        scheduled: counts.scheduled,
        deferred: counts.deferred,
        dead_lettered: counts.dead_lettered,
        total: counts.total(),
        size_bytes: info.size_bytes,
        available: info.available,
        available_dead_letter: info.available_dead_letter,
        accepted: counts.accepted,
        completed: counts.completed,
        cancelled: counts.cancelled,
        expired_dropped: counts.expired,
        deleted: counts.deleted,
        transfer: counts.transfer,
        forwarded: counts.moved,
        transfer_dead_lettered: counts.transfer_dead_lettered,
        available_transfer_dead_letter: info.available_transfer_dead_letter,
    }
}

/// `None`: unspecified, as good as absent.
pub(super) fn status_from_v1(status: i32) -> Result<Option<EntityStatus>, Refusal> {
    Ok(match v1::EntityStatus::try_from(status) {
        Ok(v1::EntityStatus::Unspecified) => None,
        Ok(v1::EntityStatus::Active) => Some(EntityStatus::Active),
        Ok(v1::EntityStatus::Disabled) => Some(EntityStatus::Disabled),
        Ok(v1::EntityStatus::SendDisabled) => Some(EntityStatus::SendDisabled),
        Ok(v1::EntityStatus::ReceiveDisabled) => Some(EntityStatus::ReceiveDisabled),
        Err(_) => {
            let why = format!("{status} is no entity status");
            return Err(Refusal::Argument { what: "status", why });
        }
    })
}

pub(super) fn status_to_v1(status: EntityStatus) -> v1::EntityStatus {
    match status {
        EntityStatus::Active => v1::EntityStatus::Active,
        EntityStatus::Disabled => v1::EntityStatus::Disabled,
        EntityStatus::SendDisabled => v1::EntityStatus::SendDisabled,
        EntityStatus::ReceiveDisabled => v1::EntityStatus::ReceiveDisabled,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    proptest! {
        #[test]
        fn ent_3_every_property_survives_the_native_api(
            properties in arbitrary::queue_properties(),
            base in arbitrary::queue_properties(),
        ) {
            let given = properties_of_queue(&properties);
            prop_assert_eq!(merge_properties(base, given).unwrap(), properties);
        }

        #[test]
        fn ent_4_absent_properties_stay(base in arbitrary::queue_properties()) {
            let merged = merge_properties(base.clone(), v1::QueueProperties::default()).unwrap();
            prop_assert_eq!(&merged, &base);
            let given = v1::QueueProperties { max_delivery_count: Some(3), ..Default::default() };
            let merged = merge_properties(base.clone(), given).unwrap();
            prop_assert_eq!(merged, QueueProperties { max_delivery_count: 3, ..base });
        }
    }

    #[test]
    fn an_unknown_status_is_refused_and_an_unspecified_one_is_absent() {
        let merge = |status| {
            let given = v1::QueueProperties { status: Some(status), ..Default::default() };
            merge_properties(QueueProperties::default(), given)
        };
        assert_eq!(merge(99).unwrap_err().rule(), "ERR-12");
        assert_eq!(merge(0).unwrap(), QueueProperties::default());
    }
}
