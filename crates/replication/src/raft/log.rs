//! openraft's log over `store::LogStore`.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

use domain::GroupId;
use futures::{Stream, StreamExt, stream};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use store::{Done, LogRecord, LogStore};
use tokio::sync::oneshot;

use super::{Entry, LogId, TypeConfig, Vote, record};
use crate::blocking::run_blocking;

/// Most bytes of entries in one append, one entry at the least. Far below the transport's limit,
/// and large enough that a follower which catches up is not slowed by round trips.
pub(crate) const APPEND_BYTES_MAX: usize = 1 << 20;
/// How often a read that meets damage is repeated before the damage is believed.
const READS_MAX: u32 = 3;
/// Most bytes read at a time when entries are applied.
const APPLY_READ_BYTES: usize = 4 << 20;

/// One group's log and vote.
#[derive(Clone)]
pub(crate) struct LogAdapter {
    group: GroupId,
    store: LogStore,
}

impl LogAdapter {
    pub fn new(group: GroupId, store: LogStore) -> LogAdapter {
        LogAdapter { group, store }
    }

    /// Entries of `from..to` from the first the log holds on, stopped early at `bytes_max` but not
    /// before the first.
    fn read_held(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, io::Error> {
        let mut failed = 0;
        let records = loop {
            match self.store.read(self.group, from, to, bytes_max) {
                Ok(records) => break records,
                // A leader that was deposed may still read for its followers while its log is cut,
                // and other entries come in the place of those.
                Err(_) if !self.holds(from)? => return Ok(Vec::new()),
                Err(error) if !error.is_damage() => return Err(io::Error::other(error)),
                Err(error) if failed == READS_MAX => self.unreadable(from, &error),
                Err(_) => failed += 1,
            }
        };
        let decode = |record: LogRecord| {
            let entry = record::decode_entry(record.data);
            entry.unwrap_or_else(|error| self.unreadable(record.index, &error))
        };
        Ok(records.into_iter().map(decode).collect())
    }

    /// Stops the process: a replica with a hole in its log can neither apply nor lead.
    fn unreadable(&self, index: u64, error: &dyn std::fmt::Display) -> ! {
        self.store.unreadable(self.group, index, &error.to_string())
    }

    /// The same, but none if the log does not hold `from`.
    fn read(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, io::Error> {
        let mut entries = self.read_held(from, to, bytes_max)?;
        if entries.first().is_some_and(|first| first.log_id.index != from) {
            entries.clear();
        }
        Ok(entries)
    }

    /// Reads where it blocks nobody: entries that are no longer in memory come from the disk.
    async fn read_apart(
        &self,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, io::Error> {
        if self.store.in_memory(self.group, from) {
            return self.read(from, to, bytes_max);
        }
        let reader = self.clone();
        let read = run_blocking(move || reader.read(from, to, bytes_max)).await;
        read.map_err(io::Error::other)?
    }

    fn holds(&self, index: u64) -> Result<bool, io::Error> {
        let (first, end) = self.bounds(&(..))?;
        Ok((first..end).contains(&index))
    }

    fn purged(&self) -> Result<Option<LogId>, io::Error> {
        let mark = self.store.purged(self.group).map_err(io::Error::other)?;
        mark.map(|mark| record::decode_log_id(&mark)).transpose()
    }

    /// The bounds of a range within what the log holds.
    fn bounds(&self, range: &impl RangeBounds<u64>) -> Result<(u64, u64), io::Error> {
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(to) => *to,
            Bound::Unbounded => u64::MAX,
        };
        let first = self.purged()?.map_or(0, |purged| purged.index + 1);
        let last = self.store.last(self.group).map_err(io::Error::other)?;
        Ok((from.max(first), to.min(last.map_or(0, |last| last.index + 1))))
    }
}

impl RaftLogReader<TypeConfig> for LogAdapter {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, io::Error>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (from, to) = self.bounds(&range)?;
        let mut entries = self.read_held(from, to, usize::MAX)?;
        while let Some(last) = entries.last() {
            let next = last.log_id.index + 1;
            if next >= to {
                break;
            }
            let read = self.read(next, to, usize::MAX)?;
            if read.is_empty() {
                return Err(hole(next));
            }
            entries.extend(read);
        }
        Ok(entries)
    }

    /// For applying: read as it is consumed, so that a long way to catch up does not fill memory.
    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let bounds = self.bounds(&range);
        let reader = self.clone();
        let chunks = stream::unfold(Some(bounds), move |state| {
            let reader = reader.clone();
            async move {
                let (from, to) = match state? {
                    Ok(bounds) => bounds,
                    Err(error) => return Some((vec![Err(error)], None)),
                };
                if from >= to {
                    return None;
                }
                let read = match reader.read_apart(from, to, APPLY_READ_BYTES).await {
                    Ok(read) => read,
                    Err(error) => return Some((vec![Err(error)], None)),
                };
                let Some(last) = read.last() else { return Some((vec![Err(hole(from))], None)) };
                let next = last.log_id.index + 1;
                Some((read.into_iter().map(Ok).collect(), Some(Ok((next, to)))))
            }
        });
        chunks.flat_map(stream::iter).boxed()
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        let vote = self.store.vote(self.group).map_err(io::Error::other)?;
        vote.map(|vote| record::decode_vote(&vote)).transpose()
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read_apart(start, end, APPEND_BYTES_MAX).await
    }
}

impl RaftLogStorage<TypeConfig> for LogAdapter {
    type LogReader = LogAdapter;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let purged = self.purged()?;
        let last = match self.store.last(self.group) {
            Err(error) if error.is_damage() => {
                self.unreadable(self.store.synced_index(self.group), &error)
            }
            last => last.map_err(io::Error::other)?,
        };
        let last = last.map(|last| record::decode_log_id_of(&last.data)).transpose()?;
        Ok(LogState { last_purged_log_id: purged, last_log_id: last.or(purged) })
    }

    async fn get_log_reader(&mut self) -> LogAdapter {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let (done, result) = oneshot::channel();
        self.store.save_vote(self.group, record::encode_vote(vote), tell(done));
        synced(result).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        if let Some(committed) = committed {
            self.store.save_committed(self.group, record::encode_log_id(&committed));
        }
        Ok(())
    }

    /// At most as far as the log reaches: the note may go to disk before the last entries it is about
    /// (Raft commits what it has handed over to be written), and a crash may take those.
    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        let committed = self.store.committed(self.group).map_err(io::Error::other)?;
        let committed = committed.map(|committed| record::decode_log_id(&committed)).transpose()?;
        Ok(committed.min(self.get_log_state().await?.last_log_id))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: IOFlushed<TypeConfig>,
    ) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let records = entries
            .into_iter()
            .map(|entry| LogRecord {
                index: entry.log_id.index,
                data: record::encode_entry(&entry),
            })
            .collect();
        self.store.append(
            self.group,
            records,
            Box::new(move |result| callback.io_completed(result.map_err(io::Error::other))),
        );
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let from = last.map_or(0, |last| last.index + 1);
        let (done, result) = oneshot::channel();
        self.store.truncate(self.group, from, tell(done));
        synced(result).await
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        self.store.purge(self.group, upto.index, record::encode_log_id(&upto));
        Ok(())
    }
}

fn hole(at: u64) -> io::Error {
    io::Error::other(format!("the log has a hole at {at}"))
}

fn tell(done: oneshot::Sender<Result<(), store::Error>>) -> Done {
    Box::new(move |result| {
        let _ = done.send(result); // Nobody waits once Raft has stopped.
    })
}

async fn synced(result: oneshot::Receiver<Result<(), store::Error>>) -> Result<(), io::Error> {
    let result = result.await.map_err(|_| io::Error::other("the log's writer has stopped"))?;
    result.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;

    use super::*;
    use crate::raft::record::log_id;

    /// A crash takes entries that were handed over and not written; the note of what is committed may
    /// have been written before them.
    #[tokio::test]
    async fn what_is_committed_ends_where_the_log_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = LogStore::open(&dir.path().join("log"), &Default::default()).expect("a log");
        let mut log = LogAdapter::new(GroupId(3), store.clone());
        let told = |index| Some(log_id(1, 1, index));
        log.save_committed(told(5)).await.expect("noted");
        assert_eq!(log.read_committed().await.expect("readable"), None, "nothing is there");
        let entry = |index| Entry { log_id: log_id(1, 1, index), payload: EntryPayload::Blank };
        for index in 0..=7 {
            let data = record::encode_entry(&entry(index));
            let (done, result) = oneshot::channel();
            store.append(GroupId(3), vec![LogRecord { index, data }], tell(done));
            synced(result).await.expect("written");
            let committed = log.read_committed().await.expect("readable");
            assert_eq!(committed, told(index.min(5)));
        }
    }
}
