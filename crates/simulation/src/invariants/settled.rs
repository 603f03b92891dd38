//! Once faults end and time passes, nothing that was due is left: a lost hint strands nothing.

use domain::{EntityStatus, QueueId, ReceiverId, SessionToken, SubQueue, Timestamp};
use engine::Engine;

use crate::oracle::{Oracle, Place};
use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken {
        invariant: "settled",
        source: "TTL-22, TIME-8, SCHED-5, LOCK-12, LOCK-7, RULE-41",
        what,
    }
}

/// For a group whose faults ended long ago.
pub fn check(oracle: &Oracle, engine: &Engine, at: Timestamp) -> Holds {
    for (id, message) in &oracle.messages {
        let Some(entity) = oracle.entities.get(&id.0) else { continue };
        if entity.properties.status == EntityStatus::Disabled {
            continue; // STATE-3.
        }
        let lapsed = message.lock.is_some_and(|lock| lock.until <= at);
        let due = matches!(message.place, Place::Scheduled { due } if due <= at);
        let expired = message.deadline(&entity.properties) <= at
            && message.lock.is_none()
            && !message.deferred; // DEFER-8: waits to be asked for.
        if lapsed || due || expired {
            return Err(broken(format!("at {at:?} {id:?} is still there: {message:?}")));
        }
    }
    for (id, entity) in oracle.entities.iter().filter(|(_, entity)| entity.alive) {
        let left = entity.unmatched.len();
        if left > 0 && entity.properties.status != EntityStatus::Disabled {
            return Err(broken(format!("{left} messages of {id:?} are not matched yet")));
        }
    }
    if let Some((key, hold)) = oracle.sessions.iter().find(|(_, hold)| hold.until <= at) {
        return Err(broken(format!("at {at:?} {key:?} is still held: {hold:?}")));
    }
    waiting(oracle, engine)
}

/// Nobody waits for a session that is free, or holds one, with credit, and what is ready in it.
/// `holders`: who is attached here with which session.
pub fn sessions(
    oracle: &Oracle,
    engine: &Engine,
    holders: &[(ReceiverId, &SessionToken)],
) -> Holds {
    for (entity, session, nonce) in oracle.ready_sessions() {
        let waiting = engine.waiting_for_session(entity);
        if nonce.is_none() && waiting > 0 {
            let what = format!("{session} of {entity:?} is free, and {waiting} wait for one");
            return Err(broken(what));
        }
        let holder = holders.iter().find(|(_, token)| Some(token.nonce) == nonce);
        if let Some((receiver, token)) = holder
            && engine.credit_left(*receiver) > 0
        {
            let credit = engine.credit_left(*receiver);
            return Err(broken(format!("{token:?} has messages, and {credit} credit waits")));
        }
    }
    Ok(())
}

/// Nobody waits for what is there.
fn waiting(oracle: &Oracle, engine: &Engine) -> Holds {
    for (id, entity) in oracle.entities.iter().filter(|(_, entity)| entity.alive) {
        if entity.properties.status != EntityStatus::Active {
            continue;
        }
        for sub in SubQueue::ALL {
            let queue = QueueId { entity: *id, sub };
            let available = oracle.messages.range(crate::oracle::of(*id)).any(|(_, message)| {
                message.is_in(sub) && message.lock.is_none() && !message.deferred
            });
            if available && engine.waiting(queue) > 0 {
                let credit = engine.waiting(queue);
                return Err(broken(format!("{queue:?} has messages, and {credit} credit waits")));
            }
        }
    }
    Ok(())
}
