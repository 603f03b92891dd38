//! What happened to messages, as this node's replicas applied it: kept in memory, and bounded in bytes and in time.

use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{AcceptedMessage, GroupId, LifeStep, MessageEvent, MessageTexts, Timestamp};
use parking_lot::Mutex;

/// What an accepted message takes beside its event and its texts.
const ACCEPTED_BYTES: usize = size_of::<AcceptedMessage>() + size_of::<MessageTexts>();

/// Chunks that are let go of while the lock is held: who applies an entry waits no longer than that.
const LET_GO_MAX: usize = 256;

/// Log entries of one group that were applied one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryChunk {
    pub first_index: u64,
    pub last_index: u64,
    /// The group's time once its first entries were applied.
    pub since: Timestamp,
    /// In their order.
    pub events: Vec<RecordedEvent>,
}

/// What happened to a message, and the log entry that it happened in.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    pub index: u64,
    pub at: Timestamp,
    /// The node that led the group and proposed the entry.
    pub leader: u64,
    pub event: MessageEvent,
}

/// What is kept of a group: log entries without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRange {
    pub group: GroupId,
    pub first_index: u64,
    pub last_index: u64,
    /// From this time on everything is there.
    pub since: Timestamp,
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
        let events = self.events.iter().map(|it| beside(&it.event)).sum::<usize>();
        size_of::<Self>() + self.events.len() * size_of::<RecordedEvent>() + events
    }
}

/// The latest of what happened to messages in all groups of this node. What this process has not applied itself,
/// because it was not there or came as a snapshot, is missing: other replicas have it.
pub struct MessageHistory {
    bytes_max: usize,
    keep: Duration,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    groups: BTreeMap<GroupId, VecDeque<KeptChunk>>,
    bytes: usize,
}

struct KeptChunk {
    /// When this process applied the last of it: what is replayed from the log is as new as what happens.
    applied_at: Instant,
    chunk: Arc<HistoryChunk>,
}

impl MessageHistory {
    /// One that holds about so many bytes, and tells what was applied here within the last `keep`.
    pub fn new(bytes_max: usize, keep: Duration) -> MessageHistory {
        MessageHistory { bytes_max, keep, kept: Mutex::default() }
    }

    /// About how many bytes it holds at most.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// For how long something is told after it was applied here.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// Entries of a group were applied.
    pub(crate) fn append(&self, group: GroupId, chunk: HistoryChunk) {
        self.append_at(group, chunk, Instant::now());
    }

    fn append_at(&self, group: GroupId, chunk: HistoryChunk, applied_at: Instant) {
        let kept = &mut *self.kept.lock();
        let chunks = kept.groups.entry(group).or_default();
        match chunks.back_mut() {
            Some(last) if last.chunk.last_index + 1 != chunk.first_index => {
                kept.bytes -= chunks.drain(..).map(|it| it.chunk.bytes()).sum::<usize>();
            }
            // Entries in which nothing happened to a message are as good as one.
            Some(last) if last.chunk.events.is_empty() && chunk.events.is_empty() => {
                Arc::make_mut(&mut last.chunk).last_index = chunk.last_index;
                last.applied_at = applied_at;
                return;
            }
            _ => (),
        }
        kept.bytes += chunk.bytes();
        chunks.push_back(KeptChunk { applied_at, chunk: Arc::new(chunk) });
        while kept.bytes > self.bytes_max {
            kept.forget_oldest();
        }
    }

    /// How far each group's record is: the last index that is kept.
    pub fn ends(&self) -> BTreeMap<GroupId, u64> {
        self.ranges().into_iter().map(|range| (range.group, range.last_index)).collect()
    }

    /// What is told of each group.
    pub fn ranges(&self) -> Vec<RecordedRange> {
        self.ranges_at(Instant::now())
    }

    fn ranges_at(&self, now: Instant) -> Vec<RecordedRange> {
        let kept = self.kept.lock();
        let range = |(group, chunks): (&GroupId, &VecDeque<KeptChunk>)| {
            let first = &chunks.get(self.first_told(chunks, now))?.chunk;
            let last_index = chunks.back()?.chunk.last_index;
            let HistoryChunk { first_index, since, .. } = **first;
            Some(RecordedRange { group: *group, first_index, last_index, since })
        };
        kept.groups.iter().filter_map(range).collect()
    }

    /// The first that is told of a group from an index on. One at a time: who reads slowly keeps no more than that
    /// from being forgotten.
    pub fn next(&self, group: GroupId, from: u64) -> Option<Arc<HistoryChunk>> {
        self.next_at(group, from, Instant::now())
    }

    fn next_at(&self, group: GroupId, from: u64, now: Instant) -> Option<Arc<HistoryChunk>> {
        let kept = self.kept.lock();
        let chunks = kept.groups.get(&group)?;
        let start = chunks.partition_point(|it| it.chunk.last_index < from);
        chunks.get(start.max(self.first_told(chunks, now))).map(|it| it.chunk.clone())
    }

    /// The first chunk that is not too old.
    fn first_told(&self, chunks: &VecDeque<KeptChunk>, now: Instant) -> usize {
        chunks.partition_point(|it| now.duration_since(it.applied_at) > self.keep)
    }

    /// Lets go of what is told no more. To be called now and then, as nothing else does for a group that rests; who
    /// applies entries is held up for some chunks at a time.
    pub fn let_go(&self) {
        self.let_go_at(Instant::now());
    }

    fn let_go_at(&self, now: Instant) {
        let groups: Vec<GroupId> = self.kept.lock().groups.keys().copied().collect();
        for group in groups {
            while self.let_go_some(group, now) {}
        }
    }

    /// True if there may be more.
    fn let_go_some(&self, group: GroupId, now: Instant) -> bool {
        let gone: Vec<KeptChunk> = {
            let kept = &mut *self.kept.lock();
            let Some(chunks) = kept.groups.get_mut(&group) else { return false };
            let count = self.first_told(chunks, now).min(LET_GO_MAX);
            let gone: Vec<KeptChunk> = chunks.drain(..count).collect();
            kept.bytes -= gone.iter().map(|it| it.chunk.bytes()).sum::<usize>();
            gone
        };
        // They are freed here, where nobody waits.
        gone.len() == LET_GO_MAX
    }
}

impl Kept {
    /// Of the group of which the most is kept.
    fn forget_oldest(&mut self) {
        let longest = self.groups.values_mut().max_by_key(|chunks| chunks.len());
        let oldest = longest.and_then(VecDeque::pop_front);
        // Without any it is empty, whatever was counted.
        self.bytes = oldest.map_or(0, |it| self.bytes.saturating_sub(it.chunk.bytes()));
    }
}

#[cfg(test)]
mod tests {
    use domain::{SequenceNumber, SubQueue};

    use super::*;

    const GROUP: GroupId = GroupId(1);
    const HOUR: Duration = Duration::from_secs(3600);

    fn chunk(first_index: u64, last_index: u64, events: u64) -> HistoryChunk {
        let event = |number| {
            let number = SequenceNumber(number);
            let step = LifeStep::Completed { on_delivery: false };
            let event = MessageEvent { entity: "q".into(), sub: SubQueue::Main, number, step };
            RecordedEvent { index: last_index, at: Timestamp(1), leader: 1, event }
        };
        let (since, events) = (Timestamp(first_index), (0..events).map(event).collect());
        HistoryChunk { first_index, last_index, since, events }
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
        let history = MessageHistory::new(1 << 20, HOUR);
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
        let history = MessageHistory::new(1 << 20, HOUR);
        for index in 1..=1000 {
            let subject = Some("x".repeat(32 << 10).into());
            let texts = Arc::new(MessageTexts { subject, ..MessageTexts::default() });
            let accepted = AcceptedMessage { texts, ..AcceptedMessage::default() };
            let step = LifeStep::Accepted(accepted.into());
            let number = SequenceNumber(index);
            let event = MessageEvent { entity: "q".into(), sub: SubQueue::Main, number, step };
            let events = vec![RecordedEvent { index, at: Timestamp(1), leader: 1, event }];
            history.append(GROUP, HistoryChunk { events, ..chunk(index, index, 0) });
        }
        assert!((1..=32).contains(&ranges(&history, 0).len()), "{:?}", ranges(&history, 0));
    }

    #[test]
    fn hist_4_the_oldest_of_the_longest_group_is_forgotten_first() {
        let history = MessageHistory::new(10 * chunk(1, 1, 4).bytes(), HOUR);
        history.append(GroupId(2), chunk(1, 1, 4));
        (1..=1000).for_each(|index| history.append(GROUP, chunk(index, index, 4)));
        assert_eq!(ranges(&history, 0).first(), Some(&(992, 992)));
        assert_eq!(ranges(&history, 0).len(), 9);
        assert_eq!(history.ends(), BTreeMap::from([(GROUP, 1000), (GroupId(2), 1)]));
        // One that is larger than all there is room for is not kept.
        history.append(GROUP, chunk(1001, 1001, 4000));
        assert!(history.kept.lock().bytes <= history.bytes_max);
    }

    /// Each row: minutes after the last of ten chunks, one a minute, and the first that is told.
    #[test]
    fn hist_4_what_is_older_than_it_is_kept_is_neither_told_nor_held() {
        const MINUTE: Duration = Duration::from_secs(60);
        let begun = Instant::now();
        for (minutes, told) in
            [(0, Some(1)), (51, Some(1)), (52, Some(2)), (60, Some(10)), (61, None)]
        {
            let history = MessageHistory::new(1 << 20, HOUR);
            for index in 1..=10 {
                let at = begun + MINUTE * (index as u32 - 1);
                history.append_at(GROUP, chunk(index, index, 1), at);
            }
            let now = begun + MINUTE * (9 + minutes);
            let first = history.next_at(GROUP, 0, now).map(|chunk| chunk.first_index);
            assert_eq!(first, told, "{minutes}");
            let range = |it: &RecordedRange| (it.group, it.first_index, it.last_index, it.since.0);
            let ranges: Vec<_> = history.ranges_at(now).iter().map(range).collect();
            let expected: Vec<_> =
                told.map(|first| (GROUP, first, 10, first)).into_iter().collect();
            assert_eq!(ranges, expected, "{minutes}");
            history.let_go_at(now);
            let kept = history.kept.lock();
            let count = told.map_or(0, |first| 11 - first as usize);
            assert_eq!(kept.groups[&GROUP].len(), count, "{minutes}");
            assert_eq!(kept.bytes, count * chunk(1, 1, 1).bytes(), "{minutes}");
        }
    }

    #[test]
    fn hist_4_all_that_is_too_old_is_let_go_of_however_much_it_is() {
        let history = MessageHistory::new(1 << 24, HOUR);
        let begun = Instant::now();
        let all = 3 * LET_GO_MAX as u64;
        (1..=all).for_each(|index| history.append_at(GROUP, chunk(index, index, 1), begun));
        history.let_go_at(begun + 2 * HOUR);
        assert_eq!(history.kept.lock().bytes, 0);
        // What follows is told again.
        history.append_at(GROUP, chunk(all + 1, all + 1, 1), begun + 2 * HOUR);
        assert!(history.next_at(GROUP, 0, begun + 2 * HOUR).is_some());
    }
}
