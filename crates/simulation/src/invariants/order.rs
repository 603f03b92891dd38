//! Messages are handed out by number, lowest first; numbers are issued once, without a gap.

use domain::{Delivery, EntityId, QueueId, SequenceNumber, SessionId, SubQueue};

use crate::oracle::{Message, Oracle, of};
use crate::report::{Broken, Holds};

pub fn broken(what: String) -> Broken {
    Broken { invariant: "order", source: "LOCK-7, SEQ-1, SEQ-12, SESS-10", what }
}

/// LOCK-7: ascending, and nothing below the last was passed over that could have been received.
pub fn acquired(oracle: &Oracle, queue: QueueId, deliveries: &[Delivery]) -> Holds {
    in_order(oracle, queue, deliveries, &|message| message.lock.is_none())
}

/// SESS-10: the same within a session. What lay in the hands of an earlier holder was released.
pub fn of_session(
    oracle: &Oracle,
    entity: EntityId,
    session: &SessionId,
    deliveries: &[Delivery],
) -> Holds {
    let queue = QueueId { entity, sub: SubQueue::Main };
    in_order(oracle, queue, deliveries, &|message| {
        message.session.as_ref() == Some(session)
            && message.lock.is_none_or(|lock| lock.until <= oracle.at)
    })
}

/// `open`: whether a message can be received, as far as its lock and session go.
fn in_order(
    oracle: &Oracle,
    queue: QueueId,
    deliveries: &[Delivery],
    open: &dyn Fn(&Message) -> bool,
) -> Holds {
    let numbers: Vec<SequenceNumber> =
        deliveries.iter().map(|delivery| delivery.sequence).collect();
    if !numbers.is_sorted_by(|a, b| a < b) {
        return Err(broken(format!("delivered in this order: {numbers:?}")));
    }
    let (Some(last), Some(entity)) = (numbers.last(), oracle.entities.get(&queue.entity)) else {
        return Ok(());
    };
    for (id, message) in oracle.messages.range(of(queue.entity)) {
        let available = message.is_in(queue.sub)
            && !message.deferred
            && open(message)
            && message.sequence < *last
            && !numbers.contains(&message.sequence)
            // What expired, or was delivered too often, goes elsewhere instead (TTL-9, LOCK-22).
            && !entity.expired(message, oracle.at, true)
            && !entity.expired(message, oracle.at, false)
            && !entity.delivered_too_often(message.delivery_count)
            // A batch delete before it, in the same entry.
            && entity.deletion.is_none();
        if available {
            return Err(broken(format!("{id:?} was passed over for {numbers:?}: {message:?}")));
        }
    }
    Ok(())
}
