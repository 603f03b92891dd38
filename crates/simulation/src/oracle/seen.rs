//! What rows say about messages, read without the machine.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::{
    EntityId, Key, Lifetime, LockRow, MemoryRows, MessageRow, QueueId, Row, SequenceNumber,
    SessionId, Specifics, Timestamp,
};

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
    pub session: Option<&'a SessionId>,
    pub body: Option<&'a Bytes>,
}

/// All messages of entities that exist, each once; also holds that nothing but those is there: no
/// body and no lock without its message, and of copies that share a body, as many as are counted.
pub fn seen(rows: &MemoryRows) -> Result<BTreeMap<MessageId, Seen<'_>>, Broken> {
    let (first, last) = (EntityId(0), EntityId(u64::MAX));
    let mut owners = Owners::read(rows);
    owners.alive.retain(|entity, _| !is_forwarding(*entity));
    let mut all = BTreeMap::new();
    let mut bodies = BTreeMap::new();
    // Bodies, messages, locks and schedules lie side by side, apart from all other rows.
    let from = Key::Body(first, SequenceNumber::MIN);
    let to = Key::Scheduled(last, SequenceNumber::MIN);
    for (key, row) in rows.0.range(from..to) {
        match (key, row) {
            (Key::Body(entity, number), Row::Body(body)) if owners.alive.contains_key(entity) => {
                bodies.insert((*entity, *number), (body, 0));
            }
            (Key::Message(queue, sequence), Row::Message(row)) => {
                let Some(owner) = owners.of_body(queue.entity) else { continue };
                let body = bodies.get_mut(&(owner, row.body)).map(|(body, copies)| {
                    *copies += 1;
                    *body
                });
                if !owners.alive.contains_key(&queue.entity) {
                    continue; // It waits to be swept, and has its part in the body.
                }
                let is_copy = owner != queue.entity;
                let id = (queue.entity, if is_copy { *sequence } else { row.body });
                insert(&mut all, id, message(rows, *queue, *sequence, row, body))?;
            }
            (Key::Scheduled(entity, sequence), Row::Scheduled(row))
                if owners.alive.contains_key(entity) =>
            {
                let id = (*entity, *sequence);
                let body = bodies.get_mut(&id).map(|(body, copies)| {
                    *copies += 1;
                    *body
                });
                let seen = Seen {
                    place: Place::Scheduled { due: row.due },
                    sequence: *sequence,
                    deferred: false,
                    delivery_count: 0,
                    enqueued_at: row.accepted_at,
                    lifetime: None,
                    lock: None,
                    session: row.session.as_ref(),
                    body,
                };
                insert(&mut all, id, seen)?;
            }
            (Key::Lock(queue, sequence), _)
                if owners.alive.contains_key(&queue.entity)
                    && !rows.0.contains_key(&Key::Message(*queue, *sequence)) =>
            {
                return Err(broken(format!("{key:?} without its message")));
            }
            _ => (),
        }
    }
    let from = Key::Unmatched(first, SequenceNumber::MIN);
    let to = Key::Unmatched(last, SequenceNumber::MIN);
    for (key, _) in rows.0.range(from..to) {
        if let Key::Unmatched(topic, number) = key
            && let Some((_, shares)) = bodies.get_mut(&(*topic, *number))
        {
            *shares += 1; // RULE-41.
        }
    }
    for (id, (_, copies)) in bodies {
        let counted = match rows.0.get(&Key::BodyCopies(id.0, id.1)) {
            Some(Row::BodyCopies(count)) => *count,
            _ => 1,
        };
        if copies != counted {
            return Err(broken(format!("the body of {id:?} counts {counted} copies of {copies}")));
        }
    }
    Ok(all)
}

fn message<'a>(
    rows: &MemoryRows,
    queue: QueueId,
    sequence: SequenceNumber,
    row: &'a MessageRow,
    body: Option<&'a Bytes>,
) -> Seen<'a> {
    let lock = match (rows.0.get(&Key::Lock(queue, sequence)), &row.session) {
        (Some(Row::Lock(lock)), _) => Some(*lock),
        (_, Some(session)) => held(rows, queue.entity, session, sequence),
        _ => None,
    };
    Seen {
        place: Place::In(queue.sub),
        sequence,
        deferred: row.deferred,
        delivery_count: row.delivery_count,
        enqueued_at: row.enqueued_at,
        lifetime: Some(row.lifetime),
        lock,
        session: row.session.as_ref(),
        body,
    }
}

/// SESS-10: a message's lock ends with its session's.
fn held(
    rows: &MemoryRows,
    entity: EntityId,
    session: &SessionId,
    sequence: SequenceNumber,
) -> Option<LockRow> {
    let held = rows.0.get(&Key::SessionHeld(entity, session.clone(), sequence));
    let (Some(Row::SessionHeld(held)), Some(Row::Session(row))) =
        (held, rows.0.get(&Key::Session(entity, session.clone())))
    else {
        return None;
    };
    row.lock.map(|lock| LockRow { nonce: held.nonce, until: lock.until, receiver: held.receiver })
}

/// Which entities there are, and who has the bodies of whose messages.
struct Owners {
    /// With their topic, of subscriptions.
    alive: BTreeMap<EntityId, Option<EntityId>>,
    /// Subscriptions that are gone, but for their rows.
    swept: BTreeMap<EntityId, EntityId>,
}

impl Owners {
    fn read(rows: &MemoryRows) -> Owners {
        let (first, last) = (EntityId(0), EntityId(u64::MAX));
        let alive = rows.0.range(Key::Entity(first)..Key::Entity(last));
        let alive = alive.filter_map(|(key, row)| match (key, row) {
            (Key::Entity(entity), Row::Entity(row)) => match &row.specifics {
                Specifics::Subscription(specifics) => Some((*entity, Some(specifics.topic))),
                Specifics::Queue | Specifics::Topic(_) => Some((*entity, None)),
            },
            _ => None,
        });
        let swept = rows.0.range(Key::Sweep(first)..Key::Sweep(last));
        let swept = swept.filter_map(|(key, row)| match (key, row) {
            (Key::Sweep(entity), Row::Sweep { topic }) => Some((*entity, (*topic)?)),
            _ => None,
        });
        Owners { alive: alive.collect(), swept: swept.collect() }
    }

    fn of_body(&self, entity: EntityId) -> Option<EntityId> {
        match self.alive.get(&entity) {
            Some(topic) => Some(topic.unwrap_or(entity)),
            None => self.swept.get(&entity).copied(),
        }
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
