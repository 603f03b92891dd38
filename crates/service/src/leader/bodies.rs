//! Contents just stored, kept for a moment: under steady traffic a message is handed out by the
//! entry that stores it or the next, and reading it back would cost more than remembering it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use domain::{EntityId, Key, Row, Rows, Send, SequenceNumber};

/// Entities whose highest number is kept in mind; it is read again where it was forgotten.
const HIGHEST_MAX: usize = 4096;
/// Most bytes remembered per group.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The last batches stored, whole: one node per batch, not per message.
#[derive(Default)]
pub(crate) struct Bodies {
    batches: BTreeMap<(EntityId, SequenceNumber), Vec<Bytes>>,
    /// Oldest first, with its bytes.
    order: VecDeque<((EntityId, SequenceNumber), usize)>,
    bytes: usize,
    /// Highest number issued per entity as far as known, so that the outcome of a repeat or a
    /// duplicate, which names an old number, is not taken for a message just stored.
    highest: BTreeMap<EntityId, SequenceNumber>,
}

impl Bodies {
    /// Keeps the contents of a send that was stored under these numbers.
    pub fn remember(&mut self, send: Send, sequences: &[SequenceNumber], rows: &impl Rows) {
        let (Some(&first), Some(&last)) = (sequences.first(), sequences.last()) else { return };
        let Some(&highest) = self.highest.get(&send.entity) else {
            if self.highest.len() >= HIGHEST_MAX {
                self.highest.clear(); // Of entities long gone, most of them.
            }
            if let Some(Row::EntityState(state)) = rows.get(&Key::EntityState(send.entity)) {
                self.highest.insert(send.entity, state.next_sequence);
            }
            return;
        };
        let in_row = last.0.checked_sub(first.0) == Some(send.messages.len() as u64 - 1);
        if first > highest && in_row {
            self.highest.insert(send.entity, last);
            let contents = send.messages.into_iter().map(|message| message.content).collect();
            self.insert(send.entity, first, contents);
        }
    }

    /// Remembers a batch whose numbers follow each other from `first` on.
    fn insert(&mut self, entity: EntityId, first: SequenceNumber, contents: Vec<Bytes>) {
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
