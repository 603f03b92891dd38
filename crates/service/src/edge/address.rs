//! Who asks, as the edge writes it on a command before it is sent.

use domain::EntityId;

/// Who asks, for recognising a repeat (SEND-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The edge speaks for its client.
    Edge,
    /// A client that numbers its own requests, per queue.
    Client { producer: u64, serial: u64, ordered: bool, retry: bool },
}

/// A client's producer as a group knows it: clients count per queue, groups per producer, so the
/// queue becomes part of the producer. The same on every node (splitmix64).
pub(crate) fn producer_of(client: u64, entity: EntityId) -> u64 {
    let mut mixed = client ^ entity.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_another_producer_for_every_queue() {
        assert_ne!(producer_of(7, EntityId(1)), producer_of(7, EntityId(2)));
        assert_eq!(producer_of(7, EntityId(1)), producer_of(7, EntityId(1)));
    }
}
