//! What is there when all is healed and drained: messages, counters, and what each replica's own rows
//! say.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use client::v1::{MessageState, QueueCounters};
use client::{Client, Delivery, Error, QueuePath};

use crate::entity::Kind;
use crate::run::{Counters, End, Found, Resting};
use crate::{Clock, Entities, Entity};

/// PEEK-2.
const PAGE: u32 = 250;

/// Looks at every entity. `nodes`: a client of each node, for its own rows.
pub async fn observe(
    client: &Client,
    nodes: &BTreeMap<u64, Client>,
    entities: &Entities,
    clock: &Clock,
) -> Result<End, Error> {
    let mut end = End::default();
    for entity in entities.0.values().filter(|entity| entity.kind != Kind::Topic) {
        end.entities.insert(entity.name.clone(), found(client, nodes, entity).await?);
    }
    end.at_ms = clock.now_ms();
    Ok(end)
}

/// An entity; nothing of one that is gone, or goes while it is looked at: a client's last deletion may
/// still be under way.
async fn found(
    client: &Client,
    nodes: &BTreeMap<u64, Client>,
    entity: &Entity,
) -> Result<Found, Error> {
    match found_there(client, nodes, entity).await {
        Err(error) if is_gone(&error) => Ok(Found::default()),
        found => found,
    }
}

async fn found_there(
    client: &Client,
    nodes: &BTreeMap<u64, Client>,
    entity: &Entity,
) -> Result<Found, Error> {
    let counters = asked(client, entity).await?;
    let mut found = Found { counters: Some(read(&counters)), ..Found::default() };
    for dead in [false, true] {
        let peeked = peek_all(client, &path(entity, dead), false).await?;
        found.resting.extend(peeked.iter().map(|delivery| resting(delivery, dead)));
    }
    for (node, client) in nodes {
        // That a node does not answer is told by whoever waited for it.
        if let Ok(digest) = digest(client, entity).await {
            found.digests.insert(*node, digest);
        }
    }
    Ok(found)
}

/// ERR-1.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Refused(detail) if detail.name == "MessagingEntityNotFound")
}

/// Of everything a replica holds of an entity.
async fn digest(client: &Client, entity: &Entity) -> Result<u64, Error> {
    let mut hasher = DefaultHasher::new();
    for dead in [false, true] {
        for delivery in peek_all(client, &path(entity, dead), true).await? {
            hash(&delivery, dead, &mut hasher);
        }
    }
    Ok(hasher.finish())
}

/// Of an entity, or nothing where it is gone.
pub async fn counters(client: &Client, entity: &Entity) -> Result<Option<QueueCounters>, Error> {
    match asked(client, entity).await {
        Ok(counters) => Ok(Some(counters)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn asked(client: &Client, entity: &Entity) -> Result<QueueCounters, Error> {
    let counters = match &entity.kind {
        Kind::Subscription { topic, .. } => {
            let name = entity.name.rsplit('/').next().unwrap_or_default();
            client.get_subscription(topic, name).await?.counters
        }
        Kind::Queue | Kind::Topic => client.get_queue(&entity.name).await?.counters,
    };
    Ok(counters.unwrap_or_default())
}

fn read(counters: &QueueCounters) -> Counters {
    Counters {
        accepted: counters.accepted,
        active: counters.active,
        scheduled: counters.scheduled,
        deferred: counters.deferred,
        dead_lettered: counters.dead_lettered,
        transfer: counters.transfer,
        completed: counters.completed,
        cancelled: counters.cancelled,
        expired_dropped: counters.expired_dropped,
        deleted: counters.deleted,
        forwarded: counters.forwarded,
    }
}

fn path(entity: &Entity, dead: bool) -> QueuePath {
    match dead {
        true => QueuePath::dead_letter(&entity.name),
        false => QueuePath::main(&entity.name),
    }
}

async fn peek_all(client: &Client, path: &QueuePath, stale: bool) -> Result<Vec<Delivery>, Error> {
    let mut all: Vec<Delivery> = Vec::new();
    loop {
        let from = all.last().map_or(0, |last| last.sequence_number() + 1);
        let page = match stale {
            true => client.peek_stale(path, from, PAGE).await?,
            false => client.peek(path, from, PAGE).await?,
        };
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

fn resting(delivery: &Delivery, dead: bool) -> Resting {
    Resting {
        dead,
        deferred: delivery.wire().state() == MessageState::Deferred,
        id: delivery.message_id().unwrap_or_default().to_owned(),
        number: delivery.sequence_number(),
        count: delivery.delivery_count(),
        expires_ms: delivery.expires_at_ms(),
        reason: delivery.text_property("DeadLetterReason").map(str::to_owned),
    }
}

/// Everything of a message that rows hold and a peek shows.
fn hash(delivery: &Delivery, dead: bool, hasher: &mut DefaultHasher) {
    let wire = delivery.wire();
    let state = MessageState::try_from(wire.state).unwrap_or(MessageState::Active);
    (dead, delivery.message_id(), delivery.body(), state.as_str_name()).hash(hasher);
    (wire.sequence_number, wire.enqueued_sequence_number, wire.delivery_count).hash(hasher);
    (wire.enqueued_at_ms, wire.expires_at_ms, &wire.dead_letter_source).hash(hasher);
    delivery.text_property("DeadLetterReason").hash(hasher);
}

/// Waits until nothing is left that could still be received, or comes later; what then still is.
pub async fn drained(client: &Client, entities: &Entities, patience: Duration) -> Option<String> {
    let until = Instant::now() + patience;
    loop {
        let mut left = Vec::new();
        for entity in entities.0.values().filter(|entity| entity.kind != Kind::Topic) {
            match counters(client, entity).await {
                Ok(Some(counters)) => {
                    let waits = counters.active + counters.scheduled + counters.transfer;
                    // One that is left alone keeps what it has.
                    if waits > 0 && entity.idle_ms.is_none() {
                        left.push(format!("{}: {waits}", entity.name));
                    }
                }
                Ok(None) => (),
                Err(error) => left.push(format!("{}: {error}", entity.name)),
            }
        }
        if left.is_empty() {
            return None;
        }
        if Instant::now() > until {
            return Some(left.join("; "));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
