//! What is known of one group's log without asking the disk.
//!
//! | group u16 | kind u8 | index u64 |, big-endian; kinds are vote 0, committed 1, purged 2, entry 3,
//! incarnation 4.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use bytes::Bytes;
use domain::GroupId;
use rocksdb::{DB, ReadOptions};

use super::{Incarnation, LogRecord};
use crate::Error;

const VOTE: u8 = 0;
const COMMITTED: u8 = 1;
const PURGED: u8 = 2;
const ENTRY: u8 = 3;
const INCARNATION: u8 = 4;

/// Bytes between two notes of how many there are.
const NOTE_BYTES: u64 = 64 << 10;

#[derive(Default)]
pub(super) struct GroupLog {
    pub vote: Option<Bytes>,
    pub committed: Option<Bytes>,
    /// Which incarnation the replica is, where it came after the group was founded.
    pub incarnation: Option<Incarnation>,
    /// Last forgotten index and its mark.
    pub purged: Option<(u64, Bytes)>,
    /// Last index on disk.
    pub synced: u64,
    /// Truncations not on disk yet: until they are, an index that was synced may have been taken by
    /// another entry since.
    pub truncations: usize,
    /// Where an empty log began to be written. Raft's begins at 0; its test suite anywhere.
    begins: u64,
    /// One past the last entry.
    next: u64,
    /// The most recent entries, without a gap up to the last.
    tail: VecDeque<LogRecord>,
    tail_bytes: usize,
    /// Bytes ever appended, and what that was at some indexes: what is forgotten is told by it.
    appended_bytes: u64,
    notes: VecDeque<(u64, u64)>,
    forgotten_bytes: u64,
}

impl GroupLog {
    /// Whether there is anything of a replica.
    pub fn is_held(&self) -> bool {
        self.vote.is_some() || self.next > 0
    }

    pub fn first_index(&self) -> u64 {
        self.purged.as_ref().map_or(0, |(last, _)| last + 1)
    }

    /// The last index there is or was: 0 for a log that never had one.
    pub fn end(&self) -> u64 {
        self.next.max(self.first_index()).saturating_sub(1)
    }

    pub fn last_index(&self) -> Option<u64> {
        (self.next > self.first_index()).then(|| self.next - 1)
    }

    pub fn last_record(&self) -> Option<LogRecord> {
        self.tail.back().cloned()
    }

    /// The first index in memory.
    pub fn tail_first(&self) -> u64 {
        self.tail.front().map_or(self.next, |record| record.index)
    }

    /// A range within what there is.
    pub fn clamp(&self, from: u64, to: u64) -> (u64, u64) {
        (from.max(self.first_index()).max(self.begins), to.min(self.next))
    }

    /// Entries `from..to` of the tail; none where it begins after `from`.
    pub fn tail(&self, from: u64, to: u64, bytes_max: usize) -> Vec<LogRecord> {
        let Some(skip) = from.checked_sub(self.tail_first()) else { return Vec::new() };
        let count = to.saturating_sub(from) as usize;
        let mut bytes = 0;
        let wanted = self.tail.iter().skip(skip as usize).take(count).enumerate();
        wanted
            .take_while(|(position, record)| {
                bytes += record.data.len();
                *position == 0 || bytes <= bytes_max
            })
            .map(|(_, record)| record.clone())
            .collect()
    }

    pub fn append(&mut self, records: &[LogRecord]) {
        for record in records {
            assert!(
                self.tail.back().is_none_or(|last| last.index + 1 == record.index),
                "entries are appended without a gap"
            );
            if self.next == 0 {
                self.begins = record.index;
            }
            self.next = record.index + 1;
            self.tail_bytes += record.data.len();
            self.appended_bytes += record.data.len() as u64;
            let noted = self.notes.back().map_or(self.forgotten_bytes, |(_, bytes)| *bytes);
            if self.appended_bytes >= noted + NOTE_BYTES {
                self.notes.push_back((record.index, self.appended_bytes));
            }
            self.tail.push_back(record.clone());
        }
    }

    /// Notes what is on disk and lets go of the oldest of it beyond `tail_bytes_max`.
    pub fn synced(&mut self, index: u64, tail_bytes_max: usize) {
        if self.truncations > 0 {
            return;
        }
        self.synced = index.min(self.end());
        while self.tail_bytes > tail_bytes_max && self.tail.len() > 1 {
            match self.tail.front() {
                Some(oldest) if oldest.index <= self.synced => self.drop_oldest(),
                _ => return,
            }
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.tail.pop_front() {
            self.tail_bytes -= oldest.data.len();
        }
    }

    pub fn truncate(&mut self, from: u64) {
        while self.tail.back().is_some_and(|last| last.index >= from) {
            let last = self.tail.pop_back();
            self.tail_bytes -= last.map_or(0, |last| last.data.len());
        }
        while self.notes.back().is_some_and(|(index, _)| *index >= from) {
            self.notes.pop_back();
        }
        self.truncations += 1;
        self.next = self.next.min(from);
        self.synced = self.synced.min(self.end());
    }

    pub fn purge(&mut self, last: u64, mark: Bytes) {
        while self.tail.front().is_some_and(|oldest| oldest.index <= last) {
            self.drop_oldest();
        }
        while let Some(&(_, bytes)) = self.notes.front().filter(|(index, _)| *index <= last) {
            self.forgotten_bytes = self.forgotten_bytes.max(bytes);
            self.notes.pop_front();
        }
        self.purged = Some((last, mark));
        self.next = self.next.max(last + 1);
        if self.last_index().is_none() {
            self.forgotten_bytes = self.appended_bytes;
        }
    }

    /// Nothing is left but the incarnation, which is over.
    pub fn forget(&mut self) {
        // The writer counts it off again, as it does a truncation.
        let truncations = self.truncations + 1;
        *self =
            GroupLog { incarnation: Some(Incarnation::Over), truncations, ..GroupLog::default() };
    }

    /// Bytes of entries kept, to within `NOTE_BYTES` and an entry.
    pub fn bytes(&self) -> u64 {
        self.appended_bytes.saturating_sub(self.forgotten_bytes)
    }
}

pub(super) fn entry_key(group: GroupId, index: u64) -> [u8; 11] {
    let mut key = [0; 11];
    key[..2].copy_from_slice(&group.0.to_be_bytes());
    key[2] = ENTRY;
    key[3..].copy_from_slice(&index.to_be_bytes());
    key
}

pub(super) fn index_of(key: &[u8]) -> Option<u64> {
    let index: [u8; 8] = key.get(3..)?.try_into().ok()?;
    (key[2] == ENTRY).then(|| u64::from_be_bytes(index))
}

fn single_key(group: GroupId, kind: u8) -> [u8; 3] {
    let [high, low] = group.0.to_be_bytes();
    [high, low, kind]
}

pub(super) fn vote_key(group: GroupId) -> [u8; 3] {
    single_key(group, VOTE)
}

pub(super) fn committed_key(group: GroupId) -> [u8; 3] {
    single_key(group, COMMITTED)
}

pub(super) fn purged_key(group: GroupId) -> [u8; 3] {
    single_key(group, PURGED)
}

pub(super) fn incarnation_key(group: GroupId) -> [u8; 3] {
    single_key(group, INCARNATION)
}

/// The value under `incarnation_key`: the incarnation's number, or nothing where the last one is over.
pub(super) fn incarnation_value(incarnation: Incarnation) -> Vec<u8> {
    match incarnation {
        Incarnation::Runs(incarnation) => incarnation.to_be_bytes().to_vec(),
        Incarnation::Over => Vec::new(),
    }
}

fn incarnation_of(value: &[u8]) -> Option<Incarnation> {
    match value {
        [] => Some(Incarnation::Over),
        value => Some(Incarnation::Runs(u32::from_be_bytes(value.try_into().ok()?))),
    }
}

/// All but the incarnation of a group's replica: from the first key to before the second.
pub(super) fn held_range(group: GroupId) -> ([u8; 3], [u8; 3]) {
    (single_key(group, VOTE), single_key(group, INCARNATION))
}

/// The value under `purged_key`.
pub(super) fn purged_value(last: u64, mark: &[u8]) -> Vec<u8> {
    [&last.to_be_bytes(), mark].concat()
}

/// All groups as a database holds them.
pub(super) fn read_all(db: &DB, path: &Path) -> Result<BTreeMap<GroupId, GroupLog>, Error> {
    let failed = |error: rocksdb::Error| Error::rocks(path, &error);
    let mut groups = BTreeMap::new();
    let mut rows = db.raw_iterator();
    let mut from = [0; 2];
    loop {
        rows.seek(from);
        rows.status().map_err(failed)?;
        let Some(group) = rows.key().and_then(|key| key.first_chunk()) else { break };
        let group = GroupId(u16::from_be_bytes(*group));
        groups.insert(group, read_one(db, path, group)?);
        let Some(next) = group.0.checked_add(1) else { break };
        from = next.to_be_bytes();
    }
    spread_bytes(&mut groups, db);
    Ok(groups)
}

fn read_one(db: &DB, path: &Path, group: GroupId) -> Result<GroupLog, Error> {
    let failed = |error: rocksdb::Error| Error::rocks(path, &error);
    let get = |key: [u8; 3]| Ok::<_, Error>(db.get(key).map_err(failed)?.map(Bytes::from));
    let purged = match get(purged_key(group))? {
        None => None,
        Some(value) => {
            let (last, mark) = value.split_first_chunk().ok_or_else(|| Error::Corrupt {
                path: path.to_owned(),
                reason: format!("group {group}: the mark of forgotten entries is cut short"),
            })?;
            Some((u64::from_be_bytes(*last), Bytes::copy_from_slice(mark)))
        }
    };
    let incarnation = match get(incarnation_key(group))? {
        None => None,
        Some(value) => Some(incarnation_of(&value).ok_or_else(|| Error::Corrupt {
            path: path.to_owned(),
            reason: format!("group {group}: which incarnation its replica is cannot be read"),
        })?),
    };
    let mut log = GroupLog {
        vote: get(vote_key(group))?,
        committed: get(committed_key(group))?,
        incarnation,
        purged,
        ..GroupLog::default()
    };
    let mut options = ReadOptions::default();
    options.set_iterate_lower_bound(entry_key(group, log.first_index()));
    let mut rows = db.raw_iterator_opt(options);
    rows.seek_for_prev(entry_key(group, u64::MAX));
    rows.status().map_err(failed)?;
    let last = rows.key().and_then(index_of);
    log.next = last.map_or(log.first_index(), |last| last + 1);
    log.synced = log.end();
    Ok(log)
}

/// What the files hold, spread over the groups by their counts of entries.
fn spread_bytes(groups: &mut BTreeMap<GroupId, GroupLog>, db: &DB) {
    let files: u64 = db.live_files().iter().flatten().map(|file| file.size as u64).sum();
    let count = |group: &GroupLog| group.next - group.first_index();
    let entries: u64 = groups.values().map(count).sum();
    for group in groups.values_mut().filter(|group| count(group) > 0) {
        let share = u128::from(files) * u128::from(count(group)) / u128::from(entries);
        group.appended_bytes = share as u64;
        group.notes.push_back((group.next - 1, group.appended_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(from: u64, to: u64) -> Vec<LogRecord> {
        (from..to).map(|index| LogRecord { index, data: vec![7; 10].into() }).collect()
    }

    #[test]
    fn the_tail_is_read_and_let_go_only_when_synced() {
        let mut group = GroupLog::default();
        group.append(&records(0, 10));
        assert_eq!(group.tail(2, 5, usize::MAX), records(2, 5));
        assert_eq!(group.tail(2, 9, 25), records(2, 4), "cut by bytes");
        assert_eq!(group.tail(2, 9, 0), records(2, 3), "never before the first");
        group.synced(4, 0);
        assert_eq!(group.tail_first(), 5);
        assert_eq!(group.tail(4, 9, usize::MAX), vec![], "begins on disk");
        assert_eq!(group.bytes(), 100);
    }

    #[test]
    fn truncated_and_purged_entries_are_gone() {
        let mut group = GroupLog::default();
        group.append(&records(0, 10));
        group.synced(9, usize::MAX);
        group.truncate(8);
        assert_eq!((group.last_index(), group.synced), (Some(7), 7));
        group.synced(9, 0);
        assert_eq!((group.tail_first(), group.synced), (0, 7), "index 9 is another entry's by now");
        group.append(&records(8, 9));
        group.purge(8, Bytes::new());
        assert_eq!((group.last_index(), group.end(), group.bytes()), (None, 8, 0));
        assert_eq!(group.clamp(0, 100), (9, 9));
    }

    /// By it the writer decides whether a memtable is dead: what few large entries leave in doubt,
    /// sixteen groups of them together would keep it from ever being.
    #[test]
    fn bytes_kept_are_known_however_large_entries_are() {
        for bytes in [1, 100, 10_000, 1 << 20] {
            let mut group = GroupLog::default();
            let entry = |index| LogRecord { index, data: vec![7; bytes].into() };
            group.append(&(0..100).map(entry).collect::<Vec<_>>());
            group.purge(39, Bytes::new());
            let (kept, doubt) = (60 * bytes as u64, NOTE_BYTES + bytes as u64);
            assert!((kept..=kept + doubt).contains(&group.bytes()), "{bytes}: {}", group.bytes());
            group.truncate(40);
            group.append(&(40..100).map(entry).collect::<Vec<_>>());
            group.purge(99, Bytes::new());
            assert_eq!(group.bytes(), 0);
        }
    }
}
