//! What happened to messages, as this node's replicas applied it: kept in memory, and bounded.

use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use domain::{AcceptedMessage, GroupId, LifeStep, MessageEvent, MessageTexts, Timestamp};
use parking_lot::Mutex;

/// What an accepted message takes beside its event and its texts.
const ACCEPTED_BYTES: usize = size_of::<AcceptedMessage>() + size_of::<MessageTexts>();

/// Log entries of one group that were applied one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryChunk {
    pub first_index: u64,
    pub last_index: u64,
    /// With the index and the time of each one's entry, in order.
    pub events: Vec<(u64, Timestamp, MessageEvent)>,
}

impl HistoryChunk {
    /// About what it takes in memory.
    fn bytes(&self) -> usize {
        let beside = |event: &MessageEvent| match &event.step {
            // Texts are the client's, and may be long. Copies of a message share them, and each is charged for them.
            LifeStep::Accepted(accepted) => ACCEPTED_BYTES + accepted.texts.bytes(),
            LifeStep::DeadLettered { reason, description, due: _ } => {
                reason.len() + description.len()
            }
            _ => 0,
        };
        let events = self.events.iter().map(|(.., event)| beside(event)).sum::<usize>();
        size_of::<Self>() + self.events.len() * size_of::<(u64, Timestamp, MessageEvent)>() + events
    }
}

/// The latest of what happened to messages in all groups of this node. What this process has not applied itself,
/// because it was not there or came as a snapshot, is missing: other replicas have it.
pub struct MessageHistory {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    groups: BTreeMap<GroupId, VecDeque<Arc<HistoryChunk>>>,
    bytes: usize,
}

impl MessageHistory {
    /// One that holds about so many bytes.
    pub fn new(bytes_max: usize) -> MessageHistory {
        MessageHistory { bytes_max, kept: Mutex::default() }
    }

    /// Entries of a group were applied.
    pub(crate) fn append(&self, group: GroupId, chunk: HistoryChunk) {
        let kept = &mut *self.kept.lock();
        let chunks = kept.groups.entry(group).or_default();
        match chunks.back_mut() {
            Some(last) if last.last_index + 1 != chunk.first_index => {
                kept.bytes -= chunks.drain(..).map(|chunk| chunk.bytes()).sum::<usize>();
            }
            // Entries in which nothing happened to a message are as good as one.
            Some(last) if last.events.is_empty() && chunk.events.is_empty() => {
                Arc::make_mut(last).last_index = chunk.last_index;
                return;
            }
            _ => (),
        }
        kept.bytes += chunk.bytes();
        chunks.push_back(Arc::new(chunk));
        while kept.bytes > self.bytes_max {
            kept.forget_oldest();
        }
    }

    /// How far each group's record is: the last index that is kept.
    pub fn ends(&self) -> BTreeMap<GroupId, u64> {
        let kept = self.kept.lock();
        let end = |(group, chunks): (&GroupId, &VecDeque<Arc<HistoryChunk>>)| {
            Some((*group, chunks.back()?.last_index))
        };
        kept.groups.iter().filter_map(end).collect()
    }

    /// The first that is kept of a group from an index on. One at a time: who reads slowly keeps no more than that
    /// from being forgotten.
    pub fn next(&self, group: GroupId, from: u64) -> Option<Arc<HistoryChunk>> {
        let kept = self.kept.lock();
        let chunks = kept.groups.get(&group)?;
        let start = chunks.partition_point(|chunk| chunk.last_index < from);
        chunks.get(start).cloned()
    }
}

impl Kept {
    /// Of the group of which the most is kept.
    fn forget_oldest(&mut self) {
        let longest = self.groups.values_mut().max_by_key(|chunks| chunks.len());
        let oldest = longest.and_then(VecDeque::pop_front);
        // Without any it is empty, whatever was counted.
        self.bytes = oldest.map_or(0, |chunk| self.bytes.saturating_sub(chunk.bytes()));
    }
}

#[cfg(test)]
mod tests {
    use domain::{SequenceNumber, SubQueue};

    use super::*;

    const GROUP: GroupId = GroupId(1);

    fn chunk(first_index: u64, last_index: u64, events: u64) -> HistoryChunk {
        let event = |number| {
            let number = SequenceNumber(number);
            let step = LifeStep::Completed { on_delivery: false };
            let event = MessageEvent { entity: "q".into(), sub: SubQueue::Main, number, step };
            (last_index, Timestamp(1), event)
        };
        HistoryChunk { first_index, last_index, events: (0..events).map(event).collect() }
    }

    fn ranges(history: &MessageHistory, from: u64) -> Vec<(u64, u64)> {
        let mut next = from;
        let chunks = std::iter::from_fn(|| {
            let chunk = history.next(GROUP, next)?;
            next = chunk.last_index + 1;
            Some((chunk.first_index, chunk.last_index))
        });
        chunks.collect()
    }

    #[test]
    fn hist_4_what_follows_is_kept_and_what_does_not_begins_anew() {
        let history = MessageHistory::new(1 << 20);
        for (first, last, events) in [(5, 6, 1), (7, 7, 0), (8, 9, 0), (10, 10, 2), (11, 11, 1)] {
            history.append(GROUP, chunk(first, last, events));
        }
        assert_eq!(ranges(&history, 0), [(5, 6), (7, 9), (10, 10), (11, 11)]);
        assert_eq!(ranges(&history, 8), [(7, 9), (10, 10), (11, 11)]);
        assert_eq!(ranges(&history, 12), []);
        // A snapshot was installed in between.
        history.append(GROUP, chunk(20, 20, 1));
        assert_eq!(ranges(&history, 0), [(20, 20)]);
        assert_eq!(history.kept.lock().bytes, chunk(20, 20, 1).bytes());
    }

    #[test]
    fn hist_4_long_texts_take_their_room() {
        let history = MessageHistory::new(1 << 20);
        for index in 1..=1000 {
            let subject = Some("x".repeat(32 << 10).into());
            let texts = Arc::new(MessageTexts { subject, ..MessageTexts::default() });
            let accepted = AcceptedMessage { texts, ..AcceptedMessage::default() };
            let step = LifeStep::Accepted(accepted.into());
            let number = SequenceNumber(index);
            let event = MessageEvent { entity: "q".into(), sub: SubQueue::Main, number, step };
            let events = vec![(index, Timestamp(1), event)];
            history.append(GROUP, HistoryChunk { first_index: index, last_index: index, events });
        }
        assert!((1..=32).contains(&ranges(&history, 0).len()), "{:?}", ranges(&history, 0));
    }

    #[test]
    fn hist_4_the_oldest_of_the_longest_group_is_forgotten_first() {
        let history = MessageHistory::new(10 * chunk(1, 1, 4).bytes());
        history.append(GroupId(2), chunk(1, 1, 4));
        (1..=1000).for_each(|index| history.append(GROUP, chunk(index, index, 4)));
        assert_eq!(ranges(&history, 0).first(), Some(&(992, 992)));
        assert_eq!(ranges(&history, 0).len(), 9);
        assert_eq!(history.ends(), BTreeMap::from([(GROUP, 1000), (GroupId(2), 1)]));
        // One that is larger than all there is room for is not kept.
        history.append(GROUP, chunk(1001, 1001, 4000));
        assert!(history.kept.lock().bytes <= history.bytes_max);
    }
}
