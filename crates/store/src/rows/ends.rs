//! Where a queue's stored messages end. Most that the machine looks for came a moment ago and are
//! cached: to ask storage whether it has others beside them costs several times what finding them does.

use std::collections::BTreeMap;

use domain::{Key, QueueId, Row, SequenceNumber};

/// Queues of a group of which it is known. With one more all are forgotten, and looked up again.
const QUEUES_MAX: usize = 4 * 1024;

/// Numbers from which on storage holds no message, by queue. Of other queues nothing is known.
///
/// Invariant: none is too low, whatever is deleted.
#[derive(Default)]
pub(super) struct Ends(BTreeMap<QueueId, SequenceNumber>);

impl Ends {
    pub fn get(&self, queue: QueueId) -> Option<SequenceNumber> {
        self.0.get(&queue).copied()
    }

    /// Takes down the last message that storage holds of a queue: from where on it holds none.
    pub fn learn(&mut self, queue: QueueId, last: Option<SequenceNumber>) -> SequenceNumber {
        if self.0.len() >= QUEUES_MAX {
            self.0.clear();
        }
        let end = last.map_or(SequenceNumber::MIN, SequenceNumber::next);
        self.0.insert(queue, end);
        end
    }

    /// A row has come into storage.
    pub fn stored(&mut self, key: &Key, row: Option<&Row>) {
        if let (Key::Message(queue, number), Some(_)) = (key, row)
            && let Some(end) = self.0.get_mut(queue)
        {
            *end = (*end).max(number.next());
        }
    }
}

/// The queue of which a range holds messages, and nothing else.
pub(super) fn queue_of(from: &Key, to: &Key) -> Option<QueueId> {
    match (from, to) {
        (Key::Message(queue, _), Key::Message(last, _)) => (queue == last).then_some(*queue),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use domain::EntityId;

    use super::*;

    #[test]
    fn queues_of_which_the_end_is_known_are_bounded() {
        let mut ends = Ends::default();
        for entity in 0..3 * QUEUES_MAX as u64 {
            ends.learn(QueueId::main(EntityId(entity)), None);
            assert!(ends.0.len() <= QUEUES_MAX);
        }
    }
}
