//! Messages are handed out by number, lowest first; numbers are issued once, without a gap.

use domain::{Delivery, QueueId, SequenceNumber};

use crate::oracle::{Oracle, Place, of};
use crate::report::{Broken, Holds};

pub fn broken(what: String) -> Broken {
    Broken { invariant: "order", source: "LOCK-7, SEQ-1, SEQ-12", what }
}

/// LOCK-7: ascending, and nothing below the last was passed over that could have been received.
pub fn acquired(oracle: &Oracle, queue: QueueId, deliveries: &[Delivery]) -> Holds {
    let numbers: Vec<SequenceNumber> =
        deliveries.iter().map(|delivery| delivery.sequence).collect();
    if !numbers.is_sorted_by(|a, b| a < b) {
        return Err(broken(format!("delivered in this order: {numbers:?}")));
    }
    let (Some(last), Some(entity)) = (numbers.last(), oracle.entities.get(&queue.entity)) else {
        return Ok(());
    };
    for (id, message) in oracle.messages.range(of(queue.entity)) {
        let available = message.place == Place::In(queue.sub)
            && !message.deferred
            && message.lock.is_none()
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
