//! Contents just stored, kept for a moment: under steady traffic a message is handed out by the
//! entry that stores it or the next, and reading it back would cost more than remembering it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use domain::{EntityId, SequenceNumber};

/// Most bytes remembered per group.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The last batches stored, whole: one node per batch, not per message.
#[derive(Default)]
pub(crate) struct Bodies {
    batches: BTreeMap<(EntityId, SequenceNumber), Vec<Bytes>>,
    /// Oldest first, with its bytes.
    order: VecDeque<((EntityId, SequenceNumber), usize)>,
    bytes: usize,
}

impl Bodies {
    /// Remembers a batch whose numbers follow each other from `first` on.
    pub fn insert(&mut self, entity: EntityId, first: SequenceNumber, contents: Vec<Bytes>) {
        let bytes = contents.iter().map(Bytes::len).sum();
        self.batches.insert((entity, first), contents);
        self.order.push_back(((entity, first), bytes));
        self.bytes += bytes;
        while self.bytes > BYTES_MAX {
            let Some((key, bytes)) = self.order.pop_front() else { return };
            self.batches.remove(&key);
            self.bytes -= bytes;
        }
    }

    pub fn get(&self, entity: EntityId, sequence: SequenceNumber) -> Option<Bytes> {
        let (key, contents) = self.batches.range(..=(entity, sequence)).next_back()?;
        if key.0 != entity {
            return None;
        }
        contents.get(usize::try_from(sequence.0 - key.1.0).ok()?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(sequence: u64) -> SequenceNumber {
        SequenceNumber(sequence)
    }

    #[test]
    fn a_batch_is_found_by_any_of_its_numbers_and_no_other() {
        let mut bodies = Bodies::default();
        let contents = vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        bodies.insert(EntityId(7), number(10), contents);
        assert_eq!(bodies.get(EntityId(7), number(9)), None);
        assert_eq!(bodies.get(EntityId(7), number(11)), Some(Bytes::from_static(b"b")));
        assert_eq!(bodies.get(EntityId(7), number(12)), None);
        assert_eq!(bodies.get(EntityId(8), number(5)), None);
        assert_eq!(bodies.get(EntityId(8), number(11)), None);
    }

    #[test]
    fn the_oldest_batches_give_way() {
        let mut bodies = Bodies::default();
        let mib = Bytes::from(vec![0; 1024 * 1024]);
        for first in 0..6 {
            bodies.insert(EntityId(1), number(first), vec![mib.clone()]);
        }
        assert_eq!(bodies.get(EntityId(1), number(1)), None);
        assert_eq!(bodies.get(EntityId(1), number(2)), Some(mib));
        assert_eq!(bodies.bytes, BYTES_MAX);
    }
}
