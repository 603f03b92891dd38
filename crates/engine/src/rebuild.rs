//! The engine of a new leader, from rows alone.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use domain::{
    DeadlineKind, EntityId, EntityRow, EntityState, Key, Line, LockToken, QueueId, Row, Rows,
    SequenceNumber, SessionId, SessionToken, Span, Specifics, SubQueue,
};

use crate::Engine;

/// Arms everything the rows say will become due, and notes what can be received. One scan per
/// table, however many entities there are. Of what a backup has not brought all of yet there is nothing to do.
pub(crate) fn rebuild(engine: &mut Engine, rows: &impl Rows) {
    if domain::is_restoring(rows) {
        return; // Once all is there, there will be another.
    }
    let entities = entities(rows);
    states(engine, &entities, rows);
    locks(engine, &entities, rows);
    sessions(engine, &entities, rows);
    shipments(engine, &entities, rows);
    let (from, to) = (Key::Sweep(EntityId(0)), Key::Sweep(LAST));
    rows.scan(&from, &to, &mut |_, _| {
        engine.timers.sweep_wanted();
        ControlFlow::Break(())
    });
}

/// The catalog never issues it.
const LAST: EntityId = EntityId(u64::MAX);

/// What exists. Other rows may still be there of an entity that was deleted.
fn entities(rows: &impl Rows) -> BTreeMap<EntityId, Box<EntityRow>> {
    let mut entities = BTreeMap::new();
    let (from, to) = (Key::Entity(EntityId(0)), Key::Entity(LAST));
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Entity(id), Row::Entity(row)) = (key, row) {
            entities.insert(id, row);
        }
        ControlFlow::Continue(())
    });
    entities
}

fn states(engine: &mut Engine, entities: &BTreeMap<EntityId, Box<EntityRow>>, rows: &impl Rows) {
    let meta = domain::meta(rows);
    let (from, to) = (Key::EntityState(EntityId(0)), Key::EntityState(LAST));
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::EntityState(id), Row::EntityState(state)) = (key, row)
            && let Some(row) = entities.get(&id)
        {
            entity(engine, id, row, &state);
            engine.idle.found(id, window(entities, row), row, &state, &meta);
        }
        ControlFlow::Continue(())
    });
}

/// For how long nobody has to use an entity until it is deleted, or its topic with it.
fn window(entities: &BTreeMap<EntityId, Box<EntityRow>>, row: &EntityRow) -> Span {
    let own = row.properties.idle_window();
    let topic = match &row.specifics {
        Specifics::Subscription(specifics) => entities.get(&specifics.topic),
        Specifics::Queue | Specifics::Topic(_) => None,
    };
    topic.map_or(own, |topic| own.min(topic.properties.idle_window()))
}

fn entity(engine: &mut Engine, id: EntityId, row: &EntityRow, state: &EntityState) {
    for kind in DeadlineKind::ALL {
        engine.timers.next(id, kind, state.next_due(&row.properties, kind));
    }
    if let Specifics::Topic(topic) = &row.specifics {
        engine.fanout.set(id, topic.copies_max());
    }
    for sub in SubQueue::ALL {
        let queue = QueueId { entity: id, sub };
        engine.forwards.waiting(queue, state.waiting(&row.properties, sub));
    }
    if row.properties.status.refuses_receive() {
        return; // STATE-4: nothing can be received.
    }
    if row.properties.keeps_sessions() && state.sessions.free > 0 {
        engine.sessions.free(id, state.sessions.free);
    }
    for sub in SubQueue::ALL {
        if sub == SubQueue::Main && row.properties.keeps_sessions() {
            continue; // Received by session only.
        }
        if row.properties.forwards(sub).is_some() {
            continue; // FWD-3.
        }
        match state.available[sub as usize] {
            0 => (),
            count => engine.credit.available(QueueId { entity: id, sub }, count),
        }
    }
}

/// Held ones only: however many there are besides, they are not looked at.
fn sessions(engine: &mut Engine, entities: &BTreeMap<EntityId, Box<EntityRow>>, rows: &impl Rows) {
    let from = Key::SessionLocked(EntityId(0), SessionId::first());
    let to = Key::SessionLocked(LAST, SessionId::first());
    rows.scan(&from, &to, &mut |key, _| {
        if let Key::SessionLocked(entity, session) = key
            && entities.contains_key(&entity)
            && let Some(row) = domain::session_row(rows, entity, &session)
            && let Some(lock) = row.lock
        {
            let token = SessionToken { session: session.clone(), nonce: lock.nonce };
            engine.timers.session_locked(entity, token, lock.until);
            engine.idle.found_held(entity);
            engine.sessions.ready(entity, session, row.ready.count);
        }
        ControlFlow::Continue(())
    });
}

fn shipments(engine: &mut Engine, entities: &BTreeMap<EntityId, Box<EntityRow>>, rows: &impl Rows) {
    let from = Key::Shipment(QueueId::main(EntityId(0)), 0);
    let to = Key::Shipment(QueueId::main(LAST), 0);
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Shipment(queue, serial), Row::Shipment(row)) = (key, row)
            && entities.contains_key(&queue.entity)
        {
            engine.forwards.shipment(Line::of(queue, row.destination), serial);
        }
        ControlFlow::Continue(())
    });
}

fn locks(engine: &mut Engine, entities: &BTreeMap<EntityId, Box<EntityRow>>, rows: &impl Rows) {
    let from = Key::Lock(QueueId::main(EntityId(0)), SequenceNumber::MIN);
    let to = Key::Lock(QueueId::main(LAST), SequenceNumber::MIN);
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Lock(queue, sequence), Row::Lock(lock)) = (key, row)
            && entities.contains_key(&queue.entity)
        {
            let token = LockToken { sequence, nonce: lock.nonce };
            engine.timers.locked(queue, token, lock.until);
        }
        ControlFlow::Continue(())
    });
}
