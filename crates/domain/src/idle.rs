//! Since when an entity is idle, by its rows (IDLE). One place decides it, for the deletion itself,
//! for the leader that looks for what to delete, and for whoever asks.

use crate::{
    EntityId, EntityKind, EntityState, Key, Meta, QueueProperties, Row, Rows, Specifics, Timestamp,
};

/// What idleness an entity has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idleness {
    /// Only a user deletes it (IDLE-11).
    Never,
    /// Scheduled messages are pending (IDLE-8), or others that a topic has not matched (RULE-41).
    Scheduled,
    /// Unused since then, and removable at `due` (TIME-5). Either may lie ahead.
    Since { since: Timestamp, due: Timestamp },
}

impl Idleness {
    /// Neither what is stored (IDLE-9) nor the status (IDLE-16) matters. Time without a leader does
    /// not count, as nobody could use the entity then: what was in use before has a full window
    /// after.
    pub fn of(properties: &QueueProperties, state: &EntityState, meta: &Meta) -> Idleness {
        let window = properties.idle_window();
        if window.is_max() {
            return Idleness::Never;
        }
        if state.counts.scheduled > 0 || state.unmatched.count > 0 {
            return Idleness::Scheduled;
        }
        let since = state.last_use.max(meta.unbroken_since);
        Idleness::Since { since, due: since.plus(window) }
    }
}

/// Whether a browse of an entity at `now` need not be written down: its row tells of a use then or
/// later, or it does not matter, because it is kept for ever and so is the topic it is a subscription
/// of, or because it is gone. To browse a topic is no use of it (IDLE-2).
pub fn is_use_known(rows: &impl Rows, entity: EntityId, now: Timestamp) -> bool {
    let Some(Row::Entity(row)) = rows.get(&Key::Entity(entity)) else { return true };
    let temporary = match &row.specifics {
        Specifics::Subscription(specifics) => {
            is_temporary(&row.properties) || topic_is_temporary(rows, specifics.topic)
        }
        Specifics::Queue | Specifics::Topic(_) => is_temporary(&row.properties),
    };
    if !temporary || row.specifics.kind() == EntityKind::Topic {
        return true;
    }
    match rows.get(&Key::EntityState(entity)) {
        Some(Row::EntityState(state)) => state.last_use >= now,
        _ => true,
    }
}

fn is_temporary(properties: &QueueProperties) -> bool {
    !properties.idle_window().is_max()
}

fn topic_is_temporary(rows: &impl Rows, topic: EntityId) -> bool {
    match rows.get(&Key::Entity(topic)) {
        Some(Row::Entity(row)) => is_temporary(&row.properties),
        _ => false,
    }
}
