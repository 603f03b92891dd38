//! Reads over a shard's rows: descriptions, browsing (PEEK), the directory. They change nothing, and
//! what they say is as of the last entry the rows hold.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use crate::{
    Delivery, DirectoryRow, EntityId, EntityInfo, EntityRow, EntityState, HeldLock, Key, Lifetime,
    MessageRow, MessageState, Meta, PEEK_MESSAGES_MAX, QueueId, QueueProperties, Refusal, Row,
    Rows, ScheduledRow, SequenceNumber, SubQueue, validate,
};

/// Above every name: no name holds it (ENT-1).
pub(crate) const DIRECTORY_END: char = char::MAX;

/// An entity's description and counters (COUNT-1); `None` if it is not known here.
pub fn entity_info(rows: &impl Rows, entity: EntityId) -> Option<EntityInfo> {
    let EntityRow { name, properties, created_at, updated_at } = entity_row(rows, entity)?;
    let Some(Row::EntityState(state)) = rows.get(&Key::EntityState(entity)) else { return None };
    let EntityState { available, counts, size_bytes, next_sequence, accessed_at, .. } = *state;
    Some(EntityInfo {
        name,
        properties,
        created_at,
        updated_at,
        accessed_at,
        counts,
        available: available[SubQueue::Main as usize],
        available_dead_letter: available[SubQueue::DeadLetter as usize],
        size_bytes,
        next_sequence,
    })
}

/// Copies of at most `count_max` messages (itself at most 250, QUOTA-25) from a number on, in
/// ascending order (PEEK-2, PEEK-5). Refused while the entity refuses receiving (STATE-4).
pub fn peek(
    rows: &impl Rows,
    queue: QueueId,
    from: SequenceNumber,
    count_max: u32,
) -> Result<Vec<Delivery>, Refusal> {
    let Some(entity) = entity_row(rows, queue.entity) else {
        return Err(Refusal::StaleRoute { entity: queue.entity });
    };
    let status = entity.properties.status;
    if status.refuses_receive() {
        return Err(Refusal::EntityDisabled { status: status.as_str() });
    }
    validate::peek_count(count_max)?;
    let count_max = count_max.min(PEEK_MESSAGES_MAX) as usize;
    let mut found = BTreeMap::new();
    let mut collect = |from: Key, to: Key| {
        let mut count = 0;
        rows.scan(&from, &to, &mut |key, row| {
            if count == count_max {
                return ControlFlow::Break(());
            }
            count += 1;
            let delivery = match (key, row) {
                (Key::Message(queue, number), Row::Message(row)) => {
                    delivery(&entity.properties, queue, number, row, Shown::Peeked)
                }
                (Key::Scheduled(_, number), Row::Scheduled(row)) => {
                    waiting(&entity.properties, number, row)
                }
                _ => return ControlFlow::Continue(()),
            };
            found.insert(delivery.sequence, delivery);
            ControlFlow::Continue(())
        });
    };
    let to = SequenceNumber::MAX;
    collect(Key::Message(queue, from), Key::Message(queue, to));
    if queue.sub == SubQueue::Main {
        collect(Key::Scheduled(queue.entity, from), Key::Scheduled(queue.entity, to));
    }
    Ok(found.into_values().take(count_max).collect())
}

/// What the shard as a whole remembers.
pub fn meta(rows: &impl Rows) -> Meta {
    match rows.get(&Key::Meta) {
        Some(Row::Meta(meta)) => meta,
        _ => Meta::default(),
    }
}

/// What a name stands for, in whatever case it is written (ENT-1).
pub fn directory(rows: &impl Rows, name: &str) -> Option<DirectoryRow> {
    match rows.get(&Key::Directory(name.to_ascii_lowercase())) {
        Some(Row::Directory(row)) => Some(row),
        _ => None,
    }
}

/// At most `count_max` names that begin with `prefix`, in order of the lower-cased name, after the
/// name `after`.
pub fn directory_page(
    rows: &impl Rows,
    after: Option<&str>,
    prefix: &str,
    count_max: usize,
) -> Vec<DirectoryRow> {
    let prefix = prefix.to_ascii_lowercase();
    let after = after.map(str::to_ascii_lowercase);
    let from = match &after {
        Some(after) if *after >= prefix => Bound::Excluded(after.clone()),
        _ => Bound::Included(prefix.clone()),
    };
    let (Bound::Excluded(first) | Bound::Included(first)) = &from else { return Vec::new() };
    let to = Key::Directory(format!("{prefix}{DIRECTORY_END}"));
    let mut page = Vec::new();
    rows.scan(&Key::Directory(first.clone()), &to, &mut |key, row| {
        if page.len() >= count_max {
            return ControlFlow::Break(());
        }
        if let (Key::Directory(name), Row::Directory(row)) = (key, row)
            && from != Bound::Excluded(name)
        {
            page.push(row);
        }
        ControlFlow::Continue(())
    });
    page
}

pub(crate) fn entity_row(rows: &impl Rows, entity: EntityId) -> Option<EntityRow> {
    match rows.get(&Key::Entity(entity)) {
        Some(Row::Entity(row)) => Some(*row),
        _ => None,
    }
}

/// A message of a main queue as a peek shows it, by its number.
pub(crate) fn peeked(
    rows: &impl Rows,
    properties: &QueueProperties,
    queue: QueueId,
    number: SequenceNumber,
) -> Option<Delivery> {
    match rows.get(&Key::Message(queue, number)) {
        Some(Row::Message(row)) => Some(delivery(properties, queue, number, row, Shown::Peeked)),
        _ => match rows.get(&Key::Scheduled(queue.entity, number)) {
            Some(Row::Scheduled(row)) => Some(waiting(properties, number, row)),
            _ => None,
        },
    }
}

/// On which way a message leaves.
pub(crate) enum Shown {
    Delivered(HeldLock),
    /// No lock shows (PEEK-6), and no deadline that is derived from the default (TTL-25).
    Peeked,
}

/// A message as clients see it.
pub(crate) fn delivery(
    properties: &QueueProperties,
    queue: QueueId,
    number: SequenceNumber,
    message: MessageRow,
    shown: Shown,
) -> Delivery {
    let lock = match shown {
        Shown::Delivered(lock) => Some(lock),
        Shown::Peeked => None,
    };
    let lifetime = match message.lifetime {
        Lifetime::Fixed { ttl, expires_at } => Some((ttl, expires_at)),
        // TTL-18: what entered the dead-letter queue without a deadline gets none there.
        Lifetime::Derived if lock.is_none() || queue.sub == SubQueue::DeadLetter => None,
        Lifetime::Derived => {
            let ttl = properties.default_ttl;
            Some((ttl, message.enqueued_at.plus(ttl)))
        }
    };
    Delivery {
        sequence: number,
        body: message.body,
        size_bytes: message.size_bytes,
        state: if message.deferred { MessageState::Deferred } else { MessageState::Active },
        delivery_count: message.delivery_count,
        enqueued_at: message.enqueued_at,
        // SEQ-8: nothing is forwarded yet.
        enqueued_sequence: number,
        scheduled_at: None,
        ttl: lifetime.map(|(ttl, _)| ttl).filter(|ttl| !ttl.is_max()),
        expires_at: lifetime.map(|(_, at)| at).filter(|at| !at.is_never()),
        lock,
        overlay: message.overlay,
    }
}

/// A message that waits for its time: its clock has not started (TTL-19).
fn waiting(properties: &QueueProperties, number: SequenceNumber, row: ScheduledRow) -> Delivery {
    let ttl = row.ttl.map(|ttl| ttl.min(properties.default_ttl));
    Delivery {
        sequence: number,
        body: number,
        size_bytes: row.size_bytes,
        state: MessageState::Scheduled,
        delivery_count: 0,
        enqueued_at: row.accepted_at,
        enqueued_sequence: number,
        scheduled_at: Some(row.due),
        ttl: ttl.filter(|ttl| !ttl.is_max()),
        expires_at: None,
        lock: None,
        overlay: None,
    }
}
