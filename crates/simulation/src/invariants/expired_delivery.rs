//! No message is delivered after it expired, in any mode, by any path.

use domain::Timestamp;

use crate::oracle::{Entity, Message, MessageId};
use crate::report::{Broken, Holds};

/// TTL-9, TTL-10, DEFER-8: checked as it is taken, by the log's time.
pub fn check(message: &Message, id: MessageId, entity: &Entity, at: Timestamp) -> Holds {
    let expires = message.deadline(&entity.properties);
    if at < expires {
        return Ok(());
    }
    let what = format!("{id:?} was delivered at {at:?}, it expired at {expires:?}: {message:?}");
    Err(Broken { invariant: "expired_delivery", source: "TTL-9, TTL-10, DEFER-8", what })
}
