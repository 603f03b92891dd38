//! What rows say about messages, read without the machine.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use domain::{EntityId, Key, Lifetime, LockRow, MemoryRows, Row, SequenceNumber, Timestamp};

use super::message::{MessageId, Place};
use crate::group::forwarding::is_forwarding;
use crate::report::Broken;

/// A message in rows.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    pub place: Place,
    pub sequence: SequenceNumber,
    pub deferred: bool,
    pub delivery_count: u32,
    pub enqueued_at: Timestamp,
    pub lifetime: Option<Lifetime>,
    pub lock: Option<LockRow>,
    pub body: Option<&'a Bytes>,
}

/// All messages of entities that exist, each once; also holds that nothing but those is there: no
/// body and no lock without its message.
pub fn seen(rows: &MemoryRows) -> Result<BTreeMap<MessageId, Seen<'_>>, Broken> {
    let (first, last) = (EntityId(0), EntityId(u64::MAX));
    let alive = rows.0.range(Key::Entity(first)..Key::Entity(last));
    let mut alive: BTreeSet<EntityId> = alive.filter_map(|(key, _)| entity(key)).collect();
    alive.retain(|entity| !is_forwarding(*entity));
    let mut all = BTreeMap::new();
    let mut bodies = BTreeMap::new();
    // Bodies, messages, locks and schedules lie side by side, apart from all other rows.
    let from = Key::Body(first, SequenceNumber::MIN);
    let to = Key::Scheduled(last, SequenceNumber::MIN);
    for (key, row) in rows.0.range(from..to) {
        match (key, row) {
            (Key::Body(entity, number), Row::Body(body)) if alive.contains(entity) => {
                bodies.insert((*entity, *number), body);
            }
            (Key::Message(queue, sequence), Row::Message(row)) if alive.contains(&queue.entity) => {
                let lock = match rows.0.get(&Key::Lock(*queue, *sequence)) {
                    Some(Row::Lock(lock)) => Some(*lock),
                    _ => None,
                };
                let id = (queue.entity, row.body);
                let seen = Seen {
                    place: Place::In(queue.sub),
                    sequence: *sequence,
                    deferred: row.deferred,
                    delivery_count: row.delivery_count,
                    enqueued_at: row.enqueued_at,
                    lifetime: Some(row.lifetime),
                    lock,
                    body: bodies.remove(&id),
                };
                insert(&mut all, id, seen)?;
            }
            (Key::Scheduled(entity, sequence), Row::Scheduled(row)) if alive.contains(entity) => {
                let id = (*entity, *sequence);
                let seen = Seen {
                    place: Place::Scheduled { due: row.due },
                    sequence: *sequence,
                    deferred: false,
                    delivery_count: 0,
                    enqueued_at: row.accepted_at,
                    lifetime: None,
                    lock: None,
                    body: bodies.remove(&id),
                };
                insert(&mut all, id, seen)?;
            }
            (Key::Lock(queue, sequence), _)
                if alive.contains(&queue.entity)
                    && !rows.0.contains_key(&Key::Message(*queue, *sequence)) =>
            {
                return Err(broken(format!("{key:?} without its message")));
            }
            _ => (),
        }
    }
    match bodies.first_key_value() {
        Some((id, _)) => Err(broken(format!("the body of {id:?} without its message"))),
        None => Ok(all),
    }
}

fn entity(key: &Key) -> Option<EntityId> {
    match key {
        Key::Entity(entity) => Some(*entity),
        _ => None,
    }
}

fn insert<'a>(
    all: &mut BTreeMap<MessageId, Seen<'a>>,
    id: MessageId,
    seen: Seen<'a>,
) -> Result<(), Broken> {
    match all.insert(id, seen) {
        Some(_) => Err(broken(format!("{id:?} is in two places"))),
        None => Ok(()),
    }
}

fn broken(what: String) -> Broken {
    crate::invariants::one_place::broken(what)
}
