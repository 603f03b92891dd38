//! Nothing happens before its time: no expiry, no activation, and no expiry under a lock.

use domain::Timestamp;

use crate::oracle::{Entity, Message, MessageId};
use crate::report::{Broken, Holds};

pub(super) fn broken(what: String) -> Broken {
    Broken { invariant: "early_expiry", source: "TIME-8, TTL-11, TTL-19, SCHED-2", what }
}

/// TTL-9, TIME-5, by the log's time: a message that left as expired was expired.
pub fn expired(
    message: &Message,
    id: MessageId,
    entity: &Entity,
    at: Timestamp,
    dead_letter: bool,
) -> Holds {
    match entity.expired(message, at, dead_letter) {
        true => Ok(()),
        false => {
            let expires = message.deadline(&entity.properties);
            let what = format!("{id:?} left at {at:?}, it expires at {expires:?}: {message:?}");
            Err(broken(what))
        }
    }
}

/// TTL-11: a lock shields its message.
pub fn shielded(id: MessageId, locked_until: Timestamp, at: Timestamp) -> Holds {
    match locked_until <= at {
        true => Ok(()),
        false => Err(broken(format!("{id:?} left at {at:?}, locked until {locked_until:?}"))),
    }
}

/// SCHED-2, TIME-5.
pub fn activated(id: MessageId, due: Timestamp, at: Timestamp) -> Holds {
    match due <= at {
        true => Ok(()),
        false => Err(broken(format!("{id:?} was activated at {at:?}, it is due at {due:?}"))),
    }
}
