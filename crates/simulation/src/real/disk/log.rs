//! The log: a row of writes, of which some first part is on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use domain::GroupId;
use store::{DiskSpace, Done, Error, Incarnation, LogDisk, LogRecord, Shortened};

use super::{disk_space, lock};
use crate::random::Random;
use crate::real::Planted;
use crate::real::watch::Watch;

/// So many synced writes are kept apart, so that a fault can take them back.
const APART_MAX: usize = 24;

/// A node's log. Clones share it.
#[derive(Clone)]
pub struct ModelLog(Arc<Mutex<LogState>>);

struct LogState {
    watch: Watch,
    bug: Option<Planted>,
    /// What is read.
    memory: LogImage,
    /// What is on disk, but for the last writes.
    settled: LogImage,
    recent: VecDeque<LogWrite>,
    queue: VecDeque<Job>,
    /// So many of the queue are being written until then.
    writing: Option<(usize, u64)>,
    /// Longest that one sync takes.
    sync_ms_max: u64,
    random: Random,
    /// The id under which this node speaks.
    id: u64,
    /// Ids it will not speak under again, because what it said under them is forgotten.
    spent: BTreeSet<u64>,
}

struct Job {
    write: LogWrite,
    done: Option<Done>,
}

#[derive(Clone)]
enum LogWrite {
    Append { group: GroupId, records: Vec<LogRecord> },
    Vote { group: GroupId, vote: Bytes },
    Committed { group: GroupId, committed: Bytes },
    Truncate { group: GroupId, from: u64 },
    Purge { group: GroupId, last: u64, mark: Bytes },
    Begin { group: GroupId, incarnation: Incarnation },
    Forget { group: GroupId },
}

/// What all writes together say.
#[derive(Clone, Default)]
struct LogImage(BTreeMap<GroupId, GroupLog>);

#[derive(Clone, Default)]
struct GroupLog {
    vote: Option<Bytes>,
    committed: Option<Bytes>,
    purged: Option<(u64, Bytes)>,
    entries: BTreeMap<u64, Bytes>,
    incarnation: Option<Incarnation>,
}

impl LogImage {
    fn of(&self, group: GroupId) -> GroupLog {
        self.0.get(&group).cloned().unwrap_or_default()
    }

    fn write(&mut self, write: &LogWrite) {
        match write {
            LogWrite::Append { group, records } => {
                let group = self.0.entry(*group).or_default();
                for LogRecord { index, data } in records {
                    let last = group.last_index();
                    assert!(last.is_none_or(|last| last + 1 == *index), "{last:?} before {index}");
                    group.entries.insert(*index, data.clone());
                }
            }
            LogWrite::Vote { group, vote } => {
                self.0.entry(*group).or_default().vote = Some(vote.clone());
            }
            LogWrite::Committed { group, committed } => {
                self.0.entry(*group).or_default().committed = Some(committed.clone());
            }
            LogWrite::Truncate { group, from } => {
                self.0.entry(*group).or_default().entries.split_off(from);
            }
            LogWrite::Purge { group, last, mark } => {
                let group = self.0.entry(*group).or_default();
                if group.purged.as_ref().is_none_or(|(purged, _)| purged < last) {
                    group.entries = group.entries.split_off(&(last + 1));
                    group.purged = Some((*last, mark.clone()));
                }
            }
            LogWrite::Begin { group, incarnation } => {
                self.0.entry(*group).or_default().incarnation = Some(*incarnation);
            }
            LogWrite::Forget { group } => {
                self.0.insert(
                    *group,
                    GroupLog { incarnation: Some(Incarnation::Over), ..GroupLog::default() },
                );
            }
        }
    }
}

impl GroupLog {
    fn last_index(&self) -> Option<u64> {
        let last = self.entries.last_key_value().map(|(index, _)| *index);
        last.or(self.purged.as_ref().map(|(last, _)| *last))
    }
}

impl ModelLog {
    pub fn new(watch: Watch, bug: Option<Planted>, random: Random) -> ModelLog {
        let (memory, settled, recent, queue) = Default::default();
        let (writing, sync_ms_max, id, spent) = (None, 3, 0, BTreeSet::new());
        ModelLog(Arc::new(Mutex::new(LogState {
            watch,
            bug,
            memory,
            settled,
            recent,
            queue,
            writing,
            sync_ms_max,
            random,
            id,
            spent,
        })))
    }

    /// Votes are this replica's from here on.
    pub fn speaks_as(&self, id: u64) {
        lock(&self.0).id = id;
    }

    pub fn id(&self) -> u64 {
        lock(&self.0).id
    }

    /// See [`LogState`].
    pub fn spent(&self) -> BTreeSet<u64> {
        lock(&self.0).spent.clone()
    }

    pub fn set_speed(&self, sync_ms_max: u64) {
        lock(&self.0).sync_ms_max = sync_ms_max;
    }

    /// A vote is not on disk yet.
    pub fn is_voting(&self) -> bool {
        lock(&self.0).queue.iter().any(|job| matches!(job.write, LogWrite::Vote { .. }))
    }

    /// Ends the sync that is due and begins the next.
    pub fn tick(&self, now: u64) {
        let told = lock(&self.0).sync(now);
        told.into_iter().for_each(|done| done(Ok(())));
    }

    /// The process ends. Returns how many writes were lost.
    pub fn crash(&self) -> u64 {
        let mut state = lock(&self.0);
        let unsynced = state.queue.len() as u64;
        let kept = state.random.below(unsynced + 1);
        for _ in 0..kept {
            let Some(job) = state.queue.pop_front() else { break };
            state.settle(job.write);
        }
        let dropped: Vec<Job> = state.queue.drain(..).collect();
        state.writing = None;
        state.read_again();
        drop(state);
        drop(dropped); // Outside: whoever waits hears of it.
        unsynced - kept
    }

    /// A fault takes synced writes from the end. Returns how many.
    pub fn cut(&self) -> u64 {
        let mut state = lock(&self.0);
        let most = state.recent.len() as u64;
        if most == 0 {
            return 0;
        }
        let lost = state.random.between(1, most);
        state.recent.truncate((most - lost) as usize);
        state.read_again();
        lost
    }

    /// An empty disk.
    pub fn wipe(&self) {
        let mut state = lock(&self.0);
        state.settled = LogImage::default();
        state.recent.clear();
        state.read_again();
    }
}

impl LogState {
    /// Whom to tell.
    fn sync(&mut self, now: u64) -> Vec<Done> {
        let mut told = Vec::new();
        if let Some((count, until)) = self.writing
            && until <= now
        {
            for _ in 0..count {
                let Some(Job { write, done }) = self.queue.pop_front() else { break };
                if done.is_some() {
                    promise(&self.watch, self.id, &write);
                }
                if matches!(write, LogWrite::Forget { .. }) {
                    self.spent.insert(self.id);
                }
                self.settle(write);
                told.extend(done);
            }
            self.writing = None;
        }
        if self.writing.is_none() && !self.queue.is_empty() {
            let takes_ms = self.random.between(0, self.sync_ms_max);
            self.writing = Some((self.queue.len(), now + takes_ms));
        }
        for job in &mut self.queue {
            let early = matches!(
                (&job.write, self.bug),
                (LogWrite::Append { .. }, Some(Planted::AcknowledgesBeforeSync))
                    | (LogWrite::Vote { .. }, Some(Planted::VotesBeforeSync))
            );
            if early && let Some(done) = job.done.take() {
                promise(&self.watch, self.id, &job.write);
                told.push(done);
            }
        }
        told
    }

    fn settle(&mut self, write: LogWrite) {
        self.recent.push_back(write);
        while self.recent.len() > APART_MAX {
            let Some(write) = self.recent.pop_front() else { break };
            self.settled.write(&write);
        }
    }

    fn read_again(&mut self) {
        self.memory = self.settled.clone();
        for write in &self.recent {
            self.memory.write(write);
        }
    }

    fn submit(&mut self, write: LogWrite, done: Option<Done>) {
        self.memory.write(&write);
        self.queue.push_back(Job { write, done });
    }
}

/// Whoever waits for a vote's sync may answer with it.
fn promise(watch: &Watch, id: u64, write: &LogWrite) {
    if let LogWrite::Vote { vote, .. } = write {
        watch.voted(id, vote);
    }
}

impl LogDisk for ModelLog {
    fn append(&self, group: GroupId, records: Vec<LogRecord>, done: Done) {
        lock(&self.0).submit(LogWrite::Append { group, records }, Some(done));
    }

    fn save_vote(&self, group: GroupId, vote: Bytes, done: Done) {
        lock(&self.0).submit(LogWrite::Vote { group, vote }, Some(done));
    }

    fn vote(&self, group: GroupId) -> Result<Option<Bytes>, Error> {
        Ok(lock(&self.0).memory.of(group).vote)
    }

    fn save_committed(&self, group: GroupId, committed: Bytes) {
        lock(&self.0).submit(LogWrite::Committed { group, committed }, None);
    }

    fn committed(&self, group: GroupId) -> Result<Option<Bytes>, Error> {
        Ok(lock(&self.0).memory.of(group).committed)
    }

    fn read(
        &self,
        group: GroupId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<LogRecord>, Error> {
        let state = lock(&self.0);
        let Some(group) = state.memory.0.get(&group).filter(|_| from < to) else {
            return Ok(Vec::new());
        };
        let (mut records, mut bytes) = (Vec::new(), 0);
        for (&index, data) in group.entries.range(from..to) {
            bytes += data.len();
            if bytes > bytes_max && !records.is_empty() {
                break;
            }
            records.push(LogRecord { index, data: data.clone() });
        }
        Ok(records)
    }

    fn in_memory(&self, _group: GroupId, _from: u64) -> bool {
        true
    }

    fn last(&self, group: GroupId) -> Result<Option<LogRecord>, Error> {
        let state = lock(&self.0);
        let last = state.memory.0.get(&group).and_then(|group| group.entries.last_key_value());
        Ok(last.map(|(index, data)| LogRecord { index: *index, data: data.clone() }))
    }

    fn truncate(&self, group: GroupId, from: u64, done: Done) {
        lock(&self.0).submit(LogWrite::Truncate { group, from }, Some(done));
    }

    fn purge(&self, group: GroupId, last: u64, mark: Bytes) {
        lock(&self.0).submit(LogWrite::Purge { group, last, mark }, None);
    }

    fn let_go(&self) {}

    fn purged(&self, group: GroupId) -> Result<Option<Bytes>, Error> {
        Ok(lock(&self.0).memory.of(group).purged.map(|(_, mark)| mark))
    }

    fn synced_index(&self, group: GroupId) -> u64 {
        lock(&self.0).memory.of(group).last_index().unwrap_or_default()
    }

    fn bytes(&self) -> u64 {
        let state = lock(&self.0);
        let entries = state.memory.0.values().flat_map(|group| group.entries.values());
        entries.map(|data| data.len() as u64).sum()
    }

    /// Who opens this log looks for that before.
    fn shortened(&self, _group: GroupId) -> Option<Shortened> {
        None
    }

    fn disk_space(&self) -> Result<DiskSpace, Error> {
        disk_space()
    }

    fn failure(&self) -> Option<Error> {
        None
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn forgotten(&self) -> BTreeMap<GroupId, u64> {
        let state = lock(&self.0);
        let forgotten = |log: &GroupLog| Some(log.purged.as_ref()?.0);
        let groups = state.memory.0.iter();
        groups.filter_map(|(group, log)| Some((*group, forgotten(log)?))).collect()
    }

    fn held(&self) -> BTreeSet<GroupId> {
        let state = lock(&self.0);
        let is_held = |group: &GroupLog| group.vote.is_some() || group.last_index().is_some();
        state.memory.0.iter().filter(|(_, group)| is_held(group)).map(|(of, _)| *of).collect()
    }

    fn incarnation(&self, group: GroupId) -> Option<Incarnation> {
        lock(&self.0).memory.of(group).incarnation
    }

    fn given_up(&self) -> BTreeSet<GroupId> {
        let state = lock(&self.0);
        let over =
            state.memory.0.iter().filter(|(_, group)| group.incarnation == Some(Incarnation::Over));
        over.map(|(group, _)| *group).collect()
    }

    fn begin_incarnation(&self, group: GroupId, incarnation: u32, done: Done) {
        let begun = Incarnation::Runs(incarnation);
        let mut state = lock(&self.0);
        state.id = state.id & 0xffff | u64::from(incarnation) << 16;
        state.submit(LogWrite::Begin { group, incarnation: begun }, Some(done));
    }

    fn forget(&self, group: GroupId, done: Done) {
        lock(&self.0).submit(LogWrite::Forget { group }, Some(done));
    }

    fn unreadable(&self, group: GroupId, index: u64, reason: &str) -> ! {
        panic!("group {group}, index {index}: {reason}")
    }
}
