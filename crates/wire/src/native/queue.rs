//! Queues' descriptions (COUNT-1).

use domain::{EntityInfo, GroupId, Idleness, Patch};

use crate::v1;

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
        properties: Some(Patch::of(info.properties.clone()).into()),
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
