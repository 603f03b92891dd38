//! The leader's timers are those its rows call for: the running engine, one rebuilt from rows, and
//! the rows themselves, read without either, agree on what is due next.

use domain::{
    DeadlineKind, EntityId, EntityRow, EntityState, EntityStatus, Key, Lifetime, LockToken,
    MemoryRows, QueueId, Row, SequenceNumber, SessionToken, Timestamp,
};
use engine::{Engine, EngineOptions, Timer};

use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "wheel", source: "architecture 4 (expiry), TIME-8", what }
}

/// For a leader that has applied what its rows hold.
pub fn check(engine: &mut Engine, rows: &MemoryRows) -> Holds {
    let running: Vec<(Timer, Timestamp)> = engine.timers().collect();
    let rebuilt = Engine::rebuild(rows, EngineOptions::default());
    if !rebuilt.timers().eq(running.iter().copied()) {
        let rebuilt: Vec<_> = rebuilt.timers().collect();
        let only = running.iter().find(|timer| !rebuilt.contains(timer));
        let lacks = rebuilt.iter().find(|timer| !running.contains(timer));
        return Err(broken(format!("the running engine alone has {only:?}, it lacks {lacks:?}")));
    }
    let sessions: Vec<(EntityId, SessionToken, Timestamp)> = engine.session_timers().collect();
    if !rebuilt.session_timers().eq(sessions.iter().cloned()) {
        let rebuilt: Vec<_> = rebuilt.session_timers().collect();
        return Err(broken(format!("sessions are armed {sessions:?}, rows call for {rebuilt:?}")));
    }
    let all = running.iter().map(|(_, due)| *due).chain(sessions.iter().map(|(.., due)| *due));
    let earliest = all.min();
    // While a round is under way, or something rests, the wheel is not all there is.
    if engine.timers_off_wheel() == 0
        && let Some(next) = engine.next_deadline()
        && next > Timestamp::ZERO
        && Some(next) != earliest
    {
        return Err(broken(format!("the wheel fires at {next:?}, due next is {earliest:?}")));
    }
    marks(&running, rows)?;
    held(&sessions, rows)
}

/// Every session that is held has its end armed.
fn held(armed: &[(EntityId, SessionToken, Timestamp)], rows: &MemoryRows) -> Holds {
    for (key, row) in &rows.0 {
        let (Key::Session(entity, session), Row::Session(row)) = (key, row) else { continue };
        let Some(lock) = row.lock.filter(|_| rows.0.contains_key(&Key::Entity(*entity))) else {
            continue;
        };
        let token = SessionToken { session: session.clone(), nonce: lock.nonce };
        if !armed.contains(&(*entity, token, lock.until)) {
            return Err(broken(format!("nothing is armed for {key:?} until {:?}", lock.until)));
        }
    }
    Ok(())
}

/// What rows call for, read from the rows that the marks stand for.
fn marks(running: &[(Timer, Timestamp)], rows: &MemoryRows) -> Holds {
    for (key, row) in &rows.0 {
        let (Key::Entity(id), Row::Entity(row)) = (key, row) else { continue };
        let Some(Row::EntityState(state)) = rows.0.get(&Key::EntityState(*id)) else { continue };
        for kind in DeadlineKind::ALL {
            let timer = Timer::Deadline(*id, kind);
            let armed = running.iter().find(|(armed, _)| *armed == timer).map(|(_, due)| *due);
            let due = due(*id, row, state, kind, rows);
            let agree = match kind {
                // It may come early, where only the next of several hundred rows is derived.
                DeadlineKind::Derived => match (armed, due) {
                    (Some(armed), Some(due)) => armed <= due,
                    (None, Some(_)) => false,
                    (_, None) => true,
                },
                _ => armed == due,
            };
            if !agree {
                return Err(broken(format!("{timer:?} is armed for {armed:?}, due is {due:?}")));
            }
        }
    }
    let locks = rows.0.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Lock(queue, number), Row::Lock(lock)) => Some((*queue, *number, *lock)),
        _ => None,
    });
    for (queue, sequence, lock) in locks {
        let timer = Timer::Lock(queue, LockToken { sequence, nonce: lock.nonce });
        let exists = rows.0.contains_key(&Key::Entity(queue.entity));
        if exists && !running.contains(&(timer, lock.until)) {
            return Err(broken(format!("nothing is armed for {timer:?} until {:?}", lock.until)));
        }
    }
    Ok(())
}

fn due(
    id: EntityId,
    row: &EntityRow,
    state: &EntityState,
    kind: DeadlineKind,
    rows: &MemoryRows,
) -> Option<Timestamp> {
    let suspended = row.properties.status == EntityStatus::Disabled; // STATE-3.
    match kind {
        DeadlineKind::Scheduled | DeadlineKind::Fixed if suspended => None,
        DeadlineKind::Scheduled | DeadlineKind::Fixed => {
            let from = Key::Deadline(id, kind, Timestamp::ZERO, SequenceNumber::MIN);
            let to = Key::Deadline(id, kind, Timestamp::NEVER, SequenceNumber::MAX);
            rows.0.range(from..to).find_map(|(key, _)| match key {
                Key::Deadline(_, _, due, _) => Some(*due),
                _ => None,
            })
        }
        DeadlineKind::Derived if suspended || row.properties.default_ttl.is_max() => None,
        DeadlineKind::Derived => {
            let from = Key::Message(QueueId::main(id), state.derived_cursor);
            let to = Key::Message(QueueId::main(id), SequenceNumber::MAX);
            rows.0.range(from..to).find_map(|(_, row_of)| match row_of {
                Row::Message(message) if message.lifetime == Lifetime::Derived => {
                    Some(message.enqueued_at.plus(row.properties.default_ttl))
                }
                _ => None,
            })
        }
        DeadlineKind::Matching if suspended => None,
        DeadlineKind::Matching => {
            let from = Key::Unmatched(id, SequenceNumber::MIN);
            let to = Key::Unmatched(id, SequenceNumber::MAX);
            rows.0.range(from..to).find_map(|(_, row)| match row {
                Row::Unmatched(row) => Some(row.accepted_at),
                _ => None,
            })
        }
        DeadlineKind::Duplicate => {
            let from = Key::DuplicateTime(id, Timestamp::ZERO, String::new());
            let to = Key::DuplicateTime(id, Timestamp::NEVER, String::new());
            rows.0.range(from..to).find_map(|(key, _)| match key {
                Key::DuplicateTime(_, accepted, _) => {
                    Some(accepted.plus(row.properties.duplicate_detection_window))
                }
                _ => None,
            })
        }
    }
}
