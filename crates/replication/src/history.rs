//! What happened to messages, as this node's replicas applied it: kept in memory, and bounded.

use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use domain::{AcceptedMessage, GroupId, LifeStep, MessageEvent, MessageTexts, Timestamp};
use parking_lot::Mutex;

/// What a message's texts take beside the event, where they are of a usual size.
const TEXTS_BYTES: usize = size_of::<AcceptedMessage>() + size_of::<MessageTexts>() + 64;

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
            LifeStep::Accepted(_) => TEXTS_BYTES,
            LifeStep::DeadLettered { reason, description } => reason.len() + description.len(),
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

    /// What is kept of each group from an index on; of a group that is not named, all of it.
    pub fn read(&self, from: &BTreeMap<GroupId, u64>) -> Vec<(GroupId, Arc<HistoryChunk>)> {
        let kept = self.kept.lock();
        let wanted = |(group, chunks): (&GroupId, &VecDeque<Arc<HistoryChunk>>)| {
            let (group, from) = (*group, from.get(group).copied().unwrap_or(0));
            let start = chunks.partition_point(|chunk| chunk.last_index < from);
            chunks.range(start..).map(|chunk| (group, chunk.clone())).collect::<Vec<_>>()
        };
        kept.groups.iter().flat_map(wanted).collect()
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
        let read = history.read(&BTreeMap::from([(GROUP, from)]));
        read.iter().map(|(_, chunk)| (chunk.first_index, chunk.last_index)).collect()
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
    fn hist_4_the_oldest_of_the_longest_group_is_forgotten_first() {
        let history = MessageHistory::new(10 * chunk(1, 1, 4).bytes());
        history.append(GroupId(2), chunk(1, 1, 4));
        (1..=1000).for_each(|index| history.append(GROUP, chunk(index, index, 4)));
        assert_eq!(ranges(&history, 0).first(), Some(&(992, 992)));
        assert_eq!(history.read(&BTreeMap::new()).len(), 10);
        // One that is larger than all there is room for is not kept.
        history.append(GROUP, chunk(1001, 1001, 4000));
        assert!(history.kept.lock().bytes <= history.bytes_max);
    }
}
