//! Every message is in exactly one place, ends in exactly one way, and stays what it is meanwhile.

use std::collections::BTreeMap;

use domain::{Delivery, SubQueue};

use crate::oracle::{Entity, Message, MessageId, Place, Seen};
use crate::report::{Broken, Holds};

pub fn broken(what: String) -> Broken {
    Broken {
        invariant: "one_place",
        source: "architecture 7, DLQ-14, SEQ-11, DEFER-1, LOCK-21",
        what,
    }
}

/// Rows say of a message what is known of it, to the last field, and its content is what was sent.
pub fn same(message: &Message, id: MessageId, seen: &Seen) -> Holds {
    let wrong = if message.place != seen.place {
        "place"
    } else if message.sequence != seen.sequence {
        "number"
    } else if message.deferred != seen.deferred {
        "deferral"
    } else if message.delivery_count != seen.delivery_count {
        "delivery count"
    } else if message.lock != seen.lock {
        "lock"
    } else if message.enqueued_at != seen.enqueued_at {
        "enqueue time"
    } else if message.is_in(SubQueue::Main) && Some(message.lifetime) != seen.lifetime {
        "lifetime" // In a dead-letter queue it is information (TTL-18).
    } else if message.session.as_ref() != seen.session {
        "session"
    } else if seen.body != Some(&message.content) {
        "content"
    } else {
        return Ok(());
    };
    Err(broken(format!("{wrong} of {id:?}: known {message:?}, in rows {seen:?}")))
}

/// LOCK-21, DEFER-7: what failed for the last time is not in its queue any more.
pub fn not_exhausted(message: &Message, id: MessageId, entity: &Entity) -> Holds {
    let last = entity.delivered_too_often_throughout(message.delivery_count);
    match last && message.is_in(SubQueue::Main) {
        false => Ok(()),
        true => Err(broken(format!("{id:?} failed too often, and is there: {message:?}"))),
    }
}

/// Nothing is in rows that was not accepted, or that had ended.
pub fn nothing_else(left: &BTreeMap<MessageId, Seen>) -> Holds {
    match left.first_key_value() {
        None => Ok(()),
        Some((id, seen)) => Err(broken(format!("{id:?} should not be there: {seen:?}"))),
    }
}

/// What is handed out is there, in that queue, and in the state that this way of asking finds:
/// deferred ones by number only (DEFER-1, DEFER-2).
pub fn delivered(
    message: &Message,
    id: MessageId,
    sub: SubQueue,
    delivery: &Delivery,
    deferred: bool,
) -> Holds {
    if message.place != Place::In(sub)
        || message.deferred != deferred
        || message.sequence != delivery.sequence
        || message.delivery_count != delivery.delivery_count
        || message.enqueued_at != delivery.enqueued_at
    {
        let what = format!("{id:?} was delivered from {sub:?}: known {message:?}, {delivery:?}");
        return Err(broken(what));
    }
    Ok(())
}
