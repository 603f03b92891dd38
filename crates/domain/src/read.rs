//! Reads over a group's rows: descriptions, browsing (PEEK), the directory. They change nothing, and
//! what they say is as of the last entry the rows hold.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::forward::{DEAD_LETTERS_FORWARDED, FORWARDED};
use crate::relocation::{missing, relocation};
use crate::{
    Delivery, DirectoryRow, EntityId, EntityInfo, EntityKind, EntityRow, EntityState, HeldLock,
    Idleness, Key, Lifetime, MessageRow, MessageState, Meta, PEEK_MESSAGES_MAX, QueueId,
    QueueProperties, Refusal, RelocationState, Row, Rows, RuleRow, ScheduledRow, SequenceNumber,
    Specifics, SubQueue, Timestamp, split_subscription_path, subscription_path, validate,
};

/// Above every name: no name holds it (ENT-1).
pub(crate) const DIRECTORY_END: char = char::MAX;

/// An entity's description and counters (COUNT-1); `None` if it is not known here.
pub fn entity_info(rows: &impl Rows, entity: EntityId) -> Option<EntityInfo> {
    // On its way to another group it is as it was when it went.
    let (row, state) = match rows.get(&Key::EntityState(entity)) {
        Some(Row::EntityState(state)) => (entity_row(rows, entity)?, state),
        _ => match relocation(rows, entity)?.state {
            RelocationState::Departing { hidden, .. } => (*hidden.row, hidden.state),
            _ => return None,
        },
    };
    let EntityRow { name, properties, specifics, created_at, updated_at } = row;
    let counts = state.told_counts(&properties);
    let idleness = Idleness::of(&properties, &state, &meta(rows));
    let EntityState { available, size_bytes, next_sequence, accessed_at, last_use, .. } = *state;
    // FWD-3.
    let had = SubQueue::ALL.map(|sub| match properties.forwards(sub) {
        Some(_) => 0,
        None => available[sub as usize],
    });
    Some(EntityInfo {
        name,
        properties,
        specifics,
        created_at,
        updated_at,
        accessed_at,
        counts,
        available: had[SubQueue::Main as usize],
        available_dead_letter: had[SubQueue::DeadLetter as usize],
        available_transfer_dead_letter: had[SubQueue::TransferDeadLetter as usize],
        size_bytes,
        next_sequence,
        last_use,
        idleness,
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
        return Err(missing(rows, queue.entity));
    };
    check_peekable(&entity, queue)?;
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
                    delivery(&entity, queue, number, row, Shown::Peeked)
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

/// Whether messages of a queue can be received: FWD-3, and that they can be settled.
pub fn check_receivable(entity: &EntityRow, queue: QueueId) -> Result<(), Refusal> {
    check_served(entity, queue)?;
    match entity.properties.forwards(queue.sub) {
        Some(_) if queue.sub.is_dead_letter() => {
            Err(Refusal::InvalidOperation { why: DEAD_LETTERS_FORWARDED })
        }
        Some(_) => Err(Refusal::InvalidOperation { why: FORWARDED }),
        None => Ok(()),
    }
}

/// Whether a queue serves receivers at all: ENT-9, PEEK-5, and, with [`check_peekable`], STATE-4.
pub(crate) fn check_served(entity: &EntityRow, queue: QueueId) -> Result<(), Refusal> {
    if entity.specifics.kind() == EntityKind::Topic && queue.sub == SubQueue::Main {
        let why = "a topic holds no messages to receive; receive from one of its subscriptions";
        return Err(Refusal::InvalidOperation { why });
    }
    check_peekable(entity, queue)
}

/// STATE-4; a topic has no dead-letter queue (ENT-9), and shows what is scheduled (PEEK-5). What is on
/// its way is nobody's (FWD-14).
fn check_peekable(entity: &EntityRow, queue: QueueId) -> Result<(), Refusal> {
    let missing = match (queue.sub, entity.specifics.kind()) {
        (SubQueue::DeadLetter, EntityKind::Topic) => Some("$DeadLetterQueue"),
        (SubQueue::Transfer, _) => Some("$Transfer"),
        (SubQueue::Main | SubQueue::DeadLetter | SubQueue::TransferDeadLetter, _) => None,
    };
    if let Some(part) = missing {
        return Err(Refusal::EntityNotFound { name: format!("{}/{part}", entity.name) });
    }
    let status = entity.properties.status;
    match status.refuses_receive() {
        true => Err(Refusal::EntityDisabled { status: status.as_str() }),
        false => Ok(()),
    }
}

/// At most `count_max` rules of a subscription, in order of their lower-cased names, after `skip` of
/// them (RULE-38); `None` if it is not known here.
pub fn rules(
    rows: &impl Rows,
    subscription: EntityId,
    skip: usize,
    count_max: usize,
) -> Option<Vec<RuleRow>> {
    entity_row(rows, subscription)?;
    let (mut skipped, mut page) = (0, Vec::new());
    let from = Key::Rule(subscription, String::new());
    let to = Key::Rule(EntityId(subscription.0 + 1), String::new());
    rows.scan(&from, &to, &mut |_, row| {
        if page.len() >= count_max {
            return ControlFlow::Break(());
        }
        match row {
            Row::Rule(rule) if skipped >= skip => page.push(*rule),
            _ => skipped += 1,
        }
        ControlFlow::Continue(())
    });
    Some(page)
}

/// A subscription's rule, by its name in whatever case.
pub fn rule(rows: &impl Rows, subscription: EntityId, name: &str) -> Option<RuleRow> {
    match rows.get(&Key::Rule(subscription, name.to_ascii_lowercase())) {
        Some(Row::Rule(rule)) => Some(*rule),
        _ => None,
    }
}

/// What the group as a whole remembers.
pub fn meta(rows: &impl Rows) -> Meta {
    match rows.get(&Key::Meta) {
        Some(Row::Meta(meta)) => meta,
        _ => Meta::default(),
    }
}

/// When the message was enqueued that a receiver would get first, as the entity's rows stand. None where there is
/// none, nor where messages are received by session.
pub fn oldest_available(
    rows: &impl Rows,
    entity: EntityId,
    state: &EntityState,
) -> Option<Timestamp> {
    let (queue, main) = (QueueId::main(entity), SubQueue::Main as usize);
    let (returned, available) = (state.returned[main], state.available[main]);
    let first = |from: Key, to: Key| {
        let mut found = None;
        rows.scan(&from, &to, &mut |key, row| {
            found = Some((key, row));
            ControlFlow::Break(())
        });
        found
    };
    // All that was returned is below the fresh head.
    let from = match returned {
        _ if available == 0 => return None,
        0 => state.fresh_head[main],
        _ => {
            let from = Key::Returned(queue, state.returned_low[main]);
            match first(from, Key::Returned(queue, SequenceNumber::MAX))? {
                (Key::Returned(_, number), _) => number,
                _ => return None,
            }
        }
    };
    let found = first(Key::Message(queue, from), Key::Message(queue, SequenceNumber::MAX));
    match found? {
        (_, Row::Message(row)) if row.session.is_none() => Some(row.enqueued_at),
        _ => None,
    }
}

/// What a name stands for, in whatever case it is written (ENT-1).
pub fn directory(rows: &impl Rows, name: &str) -> Option<DirectoryRow> {
    match rows.get(&Key::Directory(name.to_ascii_lowercase())) {
        Some(Row::Directory(row)) => Some(row),
        _ => None,
    }
}

/// At most `count_max` entities of a kind whose names begin with `prefix`, in order of the
/// lower-cased name, after the name `after`. Names of subscriptions are their paths.
pub fn directory_page(
    rows: &impl Rows,
    kind: EntityKind,
    after: Option<&str>,
    prefix: &str,
    count_max: usize,
) -> Vec<DirectoryRow> {
    let prefix = prefix.to_ascii_lowercase();
    let mut from = prefix.clone();
    if let Some(after) = after.map(str::to_ascii_lowercase).filter(|after| *after >= prefix) {
        from = after + "\0";
    }
    let to = Key::Directory(format!("{prefix}{DIRECTORY_END}"));
    let mut page = Vec::new();
    let mut next = Some(from);
    while let Some(from) = next.take() {
        rows.scan(&Key::Directory(from), &to, &mut |_, row| {
            let Row::Directory(row) = row else { return ControlFlow::Continue(()) };
            if page.len() >= count_max {
                return ControlFlow::Break(());
            }
            if row.kind == kind {
                page.push(row);
            } else if row.kind == EntityKind::Subscription {
                // Over all others of its topic at once.
                next = behind_subscriptions(&row.name);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
    }
    page
}

/// Where the directory goes on behind the subscriptions of the topic of one of them.
fn behind_subscriptions(path: &str) -> Option<String> {
    let (topic, _) = split_subscription_path(path)?;
    Some(subscription_path(topic, &DIRECTORY_END.to_string()).to_ascii_lowercase())
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
    described: &EntityRow,
    queue: QueueId,
    number: SequenceNumber,
) -> Option<Delivery> {
    match rows.get(&Key::Message(queue, number)) {
        Some(Row::Message(row)) => Some(delivery(described, queue, number, row, Shown::Peeked)),
        _ => match rows.get(&Key::Scheduled(queue.entity, number)) {
            Some(Row::Scheduled(row)) => Some(waiting(&described.properties, number, row)),
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
    entity: &EntityRow,
    queue: QueueId,
    number: SequenceNumber,
    message: MessageRow,
    shown: Shown,
) -> Delivery {
    let topic = match &entity.specifics {
        Specifics::Subscription(specifics) => Some(specifics.topic),
        Specifics::Queue | Specifics::Topic(_) => None,
    };
    let lock = match shown {
        Shown::Delivered(lock) => Some(lock),
        Shown::Peeked => None,
    };
    let lifetime = match message.lifetime {
        Lifetime::Fixed { ttl, expires_at } | Lifetime::Inherited { ttl, expires_at } => {
            Some((ttl, expires_at))
        }
        // TTL-18: what entered the dead-letter queue without a deadline gets none there.
        Lifetime::Derived if lock.is_none() || queue.sub.is_dead_letter() => None,
        Lifetime::Derived => {
            let ttl = entity.properties.default_ttl;
            Some((ttl, message.enqueued_at.plus(ttl)))
        }
    };
    Delivery {
        sequence: number,
        body: message.body,
        topic,
        size_bytes: message.size_bytes,
        state: match (message.deferred, message.was_scheduled) {
            (true, _) => MessageState::Deferred,
            // SCHED-17: told to who receives it.
            (false, true) if lock.is_some() => MessageState::Scheduled,
            (false, _) => MessageState::Active,
        },
        delivery_count: message.delivery_count,
        enqueued_at: message.enqueued_at,
        // SEQ-8, SEQ-9.
        enqueued_sequence: match &message.travel {
            Some(travel) => travel.enqueued_sequence,
            None if topic.is_some() => message.body,
            None => number,
        },
        dead_letter_source: message.travel.and_then(|travel| travel.dead_letter_source),
        scheduled_at: None,
        ttl: lifetime.map(|(ttl, _)| ttl).filter(|ttl| !ttl.is_max()),
        expires_at: lifetime.map(|(_, at)| at).filter(|at| !at.is_never()),
        lock,
        overlay: message.overlay,
    }
}

/// A message that waits for its time, which starts its clock: it expires so long after (TTL-19).
fn waiting(properties: &QueueProperties, number: SequenceNumber, row: ScheduledRow) -> Delivery {
    let ttl = row.ttl.map(|ttl| ttl.min(properties.default_ttl)).filter(|ttl| !ttl.is_max());
    Delivery {
        sequence: number,
        body: number,
        topic: None,
        size_bytes: row.size_bytes,
        state: MessageState::Scheduled,
        delivery_count: 0,
        enqueued_at: row.accepted_at,
        enqueued_sequence: row.travel.as_ref().map_or(number, |travel| travel.enqueued_sequence),
        dead_letter_source: row.travel.and_then(|travel| travel.dead_letter_source),
        scheduled_at: Some(row.due),
        ttl,
        expires_at: ttl.map(|ttl| row.due.plus(ttl)).filter(|at| !at.is_never()),
        lock: None,
        overlay: None,
    }
}
