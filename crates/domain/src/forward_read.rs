//! What a shipment holds, for the leader that brings it to its destination.

use crate::read::{Shown, delivery, entity_row};
use crate::{
    Delivery, Destination, Key, Lifetime, QueueId, Row, Rows, Span, SubQueue, Travel, told_name,
};

/// A shipment, less the contents of its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Shipment {
    pub destination: Destination,
    pub messages: Vec<Outgoing>,
}

/// A message on its way out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// As a peek shows it: where its body is, and what was laid over that.
    pub delivery: Delivery,
    /// Its own time-to-live as it stands here, whose clock starts anew (TTL-28, TTL-29).
    pub ttl: Option<Span>,
    pub header_bytes: u32,
    /// As it will be there.
    pub travel: Travel,
}

/// A shipment that is not settled; `None` if there is none of that serial.
pub fn shipment(rows: &impl Rows, queue: QueueId, serial: u64) -> Option<Shipment> {
    let entity = entity_row(rows, queue.entity)?;
    let Some(Row::Shipment(row)) = rows.get(&Key::Shipment(queue, serial)) else { return None };
    let mut messages = Vec::with_capacity(row.numbers.len());
    for number in row.numbers {
        let Some(Row::Message(message)) = rows.get(&Key::Message(queue, number)) else {
            return None;
        };
        let hops = message.travel.as_ref().map_or(0, |travel| travel.hops);
        let ttl = match message.lifetime {
            Lifetime::Fixed { ttl, .. } => Some(ttl),
            Lifetime::Derived | Lifetime::Inherited { .. } => None,
        };
        let header_bytes = message.header_bytes;
        let delivery = delivery(&entity, queue, number, message, Shown::Peeked);
        let (dead_letter_source, hops) = match queue.sub {
            // DLQ-12, by the name that clients know.
            SubQueue::DeadLetter => (Some(told_name(&entity.name).to_owned()), hops + 1),
            SubQueue::Main => (delivery.dead_letter_source.clone(), hops + 1),
            // FWD-7: hops are what users configured.
            SubQueue::Transfer | SubQueue::TransferDeadLetter => (None, hops),
        };
        let enqueued_sequence = delivery.enqueued_sequence;
        let travel = Travel { enqueued_sequence, hops, dead_letter_source };
        messages.push(Outgoing { delivery, ttl, header_bytes, travel });
    }
    Some(Shipment { destination: row.destination, messages })
}
