//! At most one live lock per message; only its token settles, and not while it waits in somebody's open
//! transaction; it lasts as long as promised.

use domain::{Delivery, Disposition, LockToken, Settlement, Timestamp};

use crate::oracle::{Entity, Message, MessageId};
use crate::report::{Broken, Holds};

pub fn broken(what: String) -> Broken {
    Broken { invariant: "one_lock", source: "LOCK-3, LOCK-5, LOCK-6, LOCK-12, LOCK-14, TX-9", what }
}

/// LOCK-3, LOCK-5: locked by nobody, and now until the instant expected, under a token of its own.
pub fn granted(
    message: &Message,
    id: MessageId,
    delivery: &Delivery,
    (at, expected): (Timestamp, Timestamp),
) -> Holds {
    if let Some(lock) = message.lock {
        return Err(broken(format!("{id:?} was delivered at {at:?} while locked: {lock:?}")));
    }
    let Some(lock) = delivery.lock else {
        return Err(broken(format!("{id:?} was delivered without a lock")));
    };
    if lock.token.sequence != message.sequence {
        return Err(broken(format!("{id:?} goes by {}, its token {lock:?}", message.sequence)));
    }
    ends(lock.until, expected)
}

/// LOCK-5, LOCK-13: from now, for the lock duration as configured now.
pub fn until(entity: &Entity, at: Timestamp, until: Timestamp) -> Holds {
    ends(until, at.plus(entity.properties.lock_duration))
}

fn ends(until: Timestamp, expected: Timestamp) -> Holds {
    match until == expected {
        true => Ok(()),
        false => Err(broken(format!("a lock ends at {until:?} instead of {expected:?}"))),
    }
}

/// LOCK-12: a lock that ended by itself had reached its end.
pub fn lapsed(message: &Message, id: MessageId, at: Timestamp) -> Holds {
    match message.lock {
        Some(lock) if at < lock.until => {
            Err(broken(format!("{id:?} lost its lock at {at:?}: {lock:?}")))
        }
        _ => Ok(()),
    }
}

fn is_held(message: Option<&Message>, token: LockToken, at: Timestamp) -> bool {
    let lock = message.and_then(|message| message.lock);
    lock.is_some_and(|lock| lock.nonce == token.nonce && at < lock.until)
}

/// LOCK-14, LOCK-6: what was settled or renewed was held, by this very token.
pub fn held(message: Option<&Message>, token: LockToken, at: Timestamp) -> Holds {
    match is_held(message, token, at) {
        true => Ok(()),
        false => Err(broken(format!("{token:?} was accepted at {at:?} for {message:?}"))),
    }
}

/// TX-9: what waits in an open transaction is settled by nobody else.
pub fn not_withheld(settlement: &Settlement) -> Holds {
    match settlement.disposition {
        Disposition::Withheld => {
            Err(broken(format!("{:?} was settled, though it waits elsewhere", settlement.token)))
        }
        _ => Ok(()),
    }
}

/// LOCK-14: what was refused was not held.
pub fn refused(message: Option<&Message>, token: LockToken, at: Timestamp) -> Holds {
    match is_held(message, token, at) {
        false => Ok(()),
        true => Err(broken(format!("{token:?} was refused at {at:?} for {message:?}"))),
    }
}
