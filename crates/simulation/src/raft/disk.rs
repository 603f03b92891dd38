//! A replica's log and votes on disk: a row of writes, of which some first part is synced. A crash
//! keeps that and any first part of the rest.

use std::collections::VecDeque;
use std::rc::Rc;

use super::{Config, Id, LogEntry, Payload};
use crate::random::Random;

/// So many synced writes are kept apart, so that a fault can take them back.
const APART_MAX: usize = 24;

#[derive(Clone)]
pub enum DiskWrite {
    Vote {
        term: u64,
        voted: Option<Id>,
    },
    Append(LogEntry),
    /// Takes back what is after this index.
    Truncate(u64),
    /// Forgets what is up to this index.
    Forget(u64),
    /// A snapshot takes the place of the log.
    Reset {
        index: u64,
        term: u64,
        config: Rc<Config>,
    },
}

/// What all writes together say.
#[derive(Clone, Default)]
pub struct DiskImage {
    pub term: u64,
    pub voted: Option<Id>,
    /// The last forgotten index, and its term.
    pub base: u64,
    base_term: u64,
    base_config: Rc<Config>,
    entries: VecDeque<LogEntry>,
}

impl DiskImage {
    /// A founder's: the first entry says who they are.
    pub fn founding(config: Rc<Config>) -> DiskImage {
        let first = LogEntry { index: 1, term: 0, number: 0, payload: Payload::Config(config) };
        DiskImage { entries: [first].into(), ..DiskImage::default() }
    }

    pub fn last(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// Term and index of the last entry: what a vote is measured by.
    pub fn end(&self) -> (u64, u64) {
        (self.entries.back().map_or(self.base_term, |entry| entry.term), self.last())
    }

    pub fn get(&self, index: u64) -> Option<&LogEntry> {
        self.entries.get(usize::try_from(index.checked_sub(self.base + 1)?).ok()?)
    }

    pub fn term_at(&self, index: u64) -> Option<u64> {
        match index == self.base {
            true => Some(self.base_term),
            false => self.get(index).map(|entry| entry.term),
        }
    }

    /// Entries from an index on, at most so many.
    pub fn from(&self, index: u64, count_max: usize) -> Vec<LogEntry> {
        let skip = index.saturating_sub(self.base + 1) as usize;
        self.entries.iter().skip(skip).take(count_max).cloned().collect()
    }

    pub fn entries(&self) -> impl Iterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// The last membership in the log counts, committed or not; with its index.
    pub fn config(&self) -> (u64, &Rc<Config>) {
        let found = self.entries.iter().rev().find_map(|entry| match &entry.payload {
            Payload::Config(config) => Some((entry.index, config)),
            Payload::Blank | Payload::Entry(_) => None,
        });
        found.unwrap_or((self.base, &self.base_config))
    }

    /// Every membership it knows of.
    pub fn configs(&self) -> impl Iterator<Item = &Rc<Config>> {
        let logged = self.entries.iter().filter_map(|entry| match &entry.payload {
            Payload::Config(config) => Some(config),
            Payload::Blank | Payload::Entry(_) => None,
        });
        [&self.base_config].into_iter().chain(logged)
    }

    fn write(&mut self, write: &DiskWrite) {
        match write {
            DiskWrite::Vote { term, voted } => (self.term, self.voted) = (*term, *voted),
            DiskWrite::Append(entry) => self.entries.push_back(entry.clone()),
            DiskWrite::Truncate(kept) => {
                self.entries.truncate(kept.saturating_sub(self.base) as usize);
            }
            DiskWrite::Forget(index) => {
                while self.base < *index {
                    let Some(entry) = self.entries.pop_front() else { break };
                    (self.base, self.base_term) = (entry.index, entry.term);
                    if let Payload::Config(config) = entry.payload {
                        self.base_config = config;
                    }
                }
            }
            DiskWrite::Reset { index, term, config } => {
                (self.base, self.base_term) = (*index, *term);
                self.base_config = config.clone();
                self.entries.clear();
            }
        }
    }
}

/// The last synced index and the count of synced writes. Written after each sync, never synced
/// itself: a loss of power may leave the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    last: u64,
    writes: u64,
}

/// See the file's head.
#[derive(Clone, Default)]
pub struct Disk {
    /// What is read: all writes, synced or not.
    pub image: DiskImage,
    settled: DiskImage,
    /// Those after `settled`.
    writes: VecDeque<DiskWrite>,
    written: u64,
    synced: u64,
    synced_last: u64,
    mark: Mark,
    mark_before: Mark,
    /// A loss of power left an older mark, and nothing was synced since.
    mark_is_old: bool,
}

impl Disk {
    pub fn new(image: DiskImage) -> Disk {
        let synced_last = image.last();
        Disk { settled: image.clone(), image, synced_last, ..Disk::default() }
    }

    pub fn write(&mut self, write: DiskWrite) {
        // A snapshot that contradicts the log ends it as well.
        if let DiskWrite::Truncate(kept) | DiskWrite::Reset { index: kept, .. } = write {
            self.synced_last = self.synced_last.min(kept);
            // First the mark: a crash between the two must not pass for a log that lost its end.
            self.mark.last = self.mark.last.min(kept);
        }
        self.image.write(&write);
        self.writes.push_back(write);
        self.written += 1;
    }

    /// How many writes there were: once so many are synced, what rests on them may be said.
    pub fn written(&self) -> u64 {
        self.written
    }

    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// The last index that no crash takes.
    pub fn synced_last(&self) -> u64 {
        self.synced_last
    }

    pub fn sync(&mut self) {
        if self.synced == self.written {
            return;
        }
        (self.synced, self.synced_last) = (self.written, self.image.last());
        self.set_mark();
        while self.writes.len() > APART_MAX {
            let Some(write) = self.writes.pop_front() else { break };
            self.settled.write(&write);
        }
    }

    /// The process ends, or the `power`. Returns how many writes were lost.
    pub fn crash(&mut self, power: bool, random: &mut Random) -> u64 {
        let unsynced = self.written - self.synced;
        let lost = random.below(unsynced + 1);
        self.take_back(lost);
        // An older mark that names an entry taken back since would raise a false alarm. That is
        // safe, and left out here only so that faults stay within what is promised to heal.
        if power && random.chance(500) && self.mark_before.last <= self.image.last() {
            self.mark = self.mark_before;
            self.mark_is_old = true;
        }
        lost
    }

    /// A fault takes synced writes from the end. Two faults at once, an old mark and a cut that it
    /// does not reach, are more than is promised to be noticed.
    pub fn cut(&mut self, random: &mut Random) {
        let most = self.writes.len() as u64;
        if most > 0 && !self.mark_is_old {
            self.take_back(random.between(1, most));
        }
    }

    /// The process starts: what is there is what is marked from now on.
    pub fn open(&mut self) {
        self.set_mark();
    }

    fn set_mark(&mut self) {
        self.mark_before = self.mark;
        self.mark = Mark { last: self.synced_last, writes: self.written };
        self.mark_is_old = false;
    }

    /// Less is here than was once synced.
    pub fn is_short(&self) -> bool {
        self.image.last() < self.mark.last || self.written < self.mark.writes
    }

    fn take_back(&mut self, count: u64) {
        self.writes.truncate(self.writes.len() - count as usize);
        self.image = self.settled.clone();
        self.writes.iter().for_each(|write| self.image.write(write));
        self.written -= count;
        (self.synced, self.synced_last) = (self.written, self.image.last());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log that was given up on purpose is no log that lost its end, synced or not.
    #[test]
    fn a_shorter_log_after_a_snapshot_is_not_missed() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut disk = Disk::new(DiskImage::default());
            for index in 1..=10 {
                let entry = LogEntry { index, term: 1, number: index, payload: Payload::Blank };
                disk.write(DiskWrite::Append(entry));
            }
            disk.sync();
            disk.write(DiskWrite::Reset { index: 5, term: 2, config: Rc::default() });
            disk.crash(false, &mut random);
            assert!(!disk.is_short(), "seed {seed}: it ends at {}", disk.image.last());
        }
    }
}
