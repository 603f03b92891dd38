//! What a span is known by. It follows from what it tells, and from nothing a node remembers: so a span that begins
//! under one leader and ends under another is named alike by both, and by whatever comes under it.

use domain::{QueueId, SequenceNumber, SpanId, TraceId};

/// What is told of a message, as far as its id goes. The numbers are for ever: nodes of two versions tell one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// All that a message is in an entity, under one number. Everything else comes under it.
    Stay = 1,
    Publish = 2,
    Wait = 3,
    Delivery = 4,
    Settlement = 5,
    Expiry = 6,
    DeadLetter = 7,
    /// By the number of the shipment, not of the message: that is what its destination knows.
    Forward = 8,
    Cancellation = 9,
}

/// The id of a span. `more`: what tells it from others of its kind, as the nonce of a lock.
pub fn span_id(
    trace: TraceId,
    told: Told,
    queue: QueueId,
    number: SequenceNumber,
    more: u64,
) -> SpanId {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    hash.take(&trace.0);
    hash.take(&[told as u8, queue.sub as u8]);
    hash.take(&queue.entity.0.to_be_bytes());
    hash.take(&number.0.to_be_bytes());
    hash.take(&more.to_be_bytes());
    SpanId(hash.finish().to_be_bytes())
}

/// FNV-1a, mixed at the end as SplitMix64 does: ids need not withstand anybody, but nodes have to agree on them.
struct Hash(u64);

impl Hash {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Never 0, which is no span.
    fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::{EntityId, SubQueue};

    use super::*;

    fn id(told: Told, entity: u64, sub: SubQueue, number: u64, more: u64) -> SpanId {
        let queue = QueueId { entity: EntityId(entity), sub };
        span_id(TraceId([7; 16]), told, queue, SequenceNumber(number), more)
    }

    #[test]
    fn spans_of_all_kinds_and_messages_are_told_apart() {
        let mut seen = BTreeSet::new();
        let mut count = 0;
        for told in [Told::Stay, Told::Wait, Told::Delivery, Told::Settlement, Told::Forward] {
            for entity in 1..=8 {
                for sub in SubQueue::ALL {
                    for number in 1..=32 {
                        for more in 0..4 {
                            seen.insert(id(told, entity, sub, number, more));
                            count += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(seen.len(), count);
    }

    /// Nodes of two versions tell one trace: what was once told by an id is told by it for ever.
    #[test]
    fn an_id_stays_what_it_was() {
        let told = id(Told::Stay, 1, SubQueue::Main, 1, 0);
        assert_eq!(told.to_string(), "d241f2e586bfe3c8");
    }
}
