//! The conservation law: accepted equals where they all are and went, and every counter is exact.

use std::collections::BTreeSet;

use domain::{Counts, EntityId, EntityState, Key, MemoryRows, Row, SessionId, SubQueue};

use crate::oracle::{Entity, Message, Oracle, of};
use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "conservation", source: "COUNT-2, COUNT-5, SEQ-1, SESS-7", what }
}

/// Every entity's counters against the messages known of it.
pub fn check(oracle: &Oracle, rows: &MemoryRows) -> Holds {
    for (id, entity) in oracle.entities.iter().filter(|(_, entity)| entity.alive) {
        let Some(Row::EntityState(state)) = rows.0.get(&Key::EntityState(*id)) else {
            return Err(broken(format!("{id:?} has no state")));
        };
        let messages: Vec<&Message> =
            oracle.messages.range(of(*id)).map(|(_, message)| message).collect();
        counts(*id, entity, &messages, state)?;
        available(*id, rows, &messages, state)?;
        sessions(oracle, *id, &messages, state)?;
    }
    Ok(())
}

fn counts(id: EntityId, entity: &Entity, messages: &[&Message], state: &EntityState) -> Holds {
    let expected = entity.counts(messages.iter().copied());
    // Of an expired message in a batch delete nobody can tell which of the two took it.
    let gone = state.counts.expired + state.counts.deleted;
    let counted = Counts { expired: gone, deleted: 0, ..state.counts };
    if !counted.balanced() || counted != expected {
        return Err(broken(format!("{id:?} counts {:?}, known {expected:?}", state.counts)));
    }
    let next = state.next_sequence.0;
    if next != entity.issued + 1 {
        return Err(broken(format!("{id:?} comes to number {next}, issued {}", entity.issued)));
    }
    Ok(())
}

/// What is counted as available is what is neither locked nor deferred.
fn available(id: EntityId, rows: &MemoryRows, messages: &[&Message], state: &EntityState) -> Holds {
    for sub in SubQueue::ALL {
        let free =
            |message: &&&Message| message.is_in(sub) && message.lock.is_none() && !message.deferred;
        let expected = messages.iter().filter(free).count() as u64;
        let counted = state.available[sub as usize];
        if counted != expected {
            return Err(broken(format!("{id:?} {sub:?} counts {counted} available of {expected}")));
        }
        let queue = domain::QueueId { entity: id, sub };
        let from = Key::Returned(queue, domain::SequenceNumber::MIN);
        let to = Key::Returned(queue, domain::SequenceNumber::MAX);
        let returned = rows.0.range(from..to).count() as u64;
        if returned != state.returned[sub as usize] {
            let counted = state.returned[sub as usize];
            return Err(broken(format!("{id:?} {sub:?} counts {counted} returned of {returned}")));
        }
    }
    Ok(())
}

/// In line is whatever session has something to hand out and nobody who holds it.
fn sessions(oracle: &Oracle, id: EntityId, messages: &[&Message], state: &EntityState) -> Holds {
    let ready = messages.iter().filter(|message| {
        message.is_in(SubQueue::Main) && message.lock.is_none() && !message.deferred
    });
    let ready: BTreeSet<&SessionId> = ready.filter_map(|of| of.session.as_ref()).collect();
    let is_held = |session: &SessionId| oracle.sessions.contains_key(&(id, session.clone()));
    let free = ready.into_iter().filter(|session| !is_held(session)).count() as u64;
    match state.sessions.free == free {
        true => Ok(()),
        false => {
            let counted = state.sessions.free;
            Err(broken(format!("{id:?} counts {counted} sessions in line of {free}")))
        }
    }
}
