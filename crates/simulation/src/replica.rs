//! One replica's rows, a machine over them, and how far it has applied.

use std::rc::Rc;

use domain::{Effect, FEATURE_LEVEL_KNOWN, Key, Machine, MemoryRows, Meta, Outcome, Row};

use crate::bug::Bug;
use crate::raft::{Config, LogEntry, Payload};
use crate::{rules, tamper};

/// Rows as of one entry, and the membership then.
#[derive(Clone)]
pub struct Snapshot {
    pub rows: MemoryRows,
    /// The index of the last entry applied; 0 is none.
    pub applied: u64,
    pub term: u64,
    pub config: Rc<Config>,
}

/// Of a group that has applied nothing. Its log goes by the rules of today from the first entry on: who says so in a
/// real one, and when, is no matter here.
impl Default for Snapshot {
    fn default() -> Snapshot {
        let meta = Meta { level: FEATURE_LEVEL_KNOWN, ..Meta::default() };
        let rows = MemoryRows([(Key::Meta, Row::Meta(meta))].into());
        Snapshot { rows, applied: 0, term: 0, config: Rc::default() }
    }
}

/// What a replica has, in memory and on disk.
pub struct Replica {
    pub rows: MemoryRows,
    pub applied: u64,
    term: u64,
    config: Rc<Config>,
    machine: Machine,
    bug: Option<Bug>,
    /// What a crash leaves: rows are flushed now and then, together with how far they had come.
    flushed: Rc<Snapshot>,
    /// What a fault may leave instead.
    flushed_before: Rc<Snapshot>,
}

/// What applying left.
#[derive(Default)]
pub struct Applied {
    /// Per entry; none for those that are not for the machine.
    pub outcomes: Vec<Vec<Outcome>>,
    pub effects: Vec<Effect>,
}

impl Replica {
    pub fn new(bug: Option<Bug>) -> Replica {
        Replica {
            rows: Snapshot::default().rows,
            applied: 0,
            term: 0,
            config: Rc::default(),
            machine: Machine::reading(rules::read),
            bug,
            flushed: Rc::default(),
            flushed_before: Rc::default(),
        }
    }

    /// Applies the next entries of the log as one step.
    pub fn apply(&mut self, entries: &[LogEntry]) -> Applied {
        let mut step = self.machine.step(&self.rows);
        let mut outcomes = Vec::with_capacity(entries.len());
        for entry in entries {
            outcomes.push(match &entry.payload {
                Payload::Entry(proposed) => {
                    let (asked, before) = tamper::asked(self.bug, &self.rows, &proposed.entry);
                    let mut found = step.apply(asked).into_iter();
                    before.into_iter().filter_map(|before| found.nth(before)).collect()
                }
                Payload::Blank | Payload::Config(_) => Vec::new(),
            });
        }
        let mut changes = step.finish();
        tamper::written(self.bug, &mut changes.writes);
        self.rows.erase(&changes.erased);
        self.rows.write(changes.writes);
        for entry in entries {
            (self.applied, self.term) = (entry.index, entry.term);
            if let Payload::Config(config) = &entry.payload {
                self.config = config.clone();
            }
        }
        Applied { outcomes, effects: changes.effects }
    }

    /// Where it stands: index, term and membership.
    pub fn at(&self) -> (u64, u64, Rc<Config>) {
        (self.applied, self.term, self.config.clone())
    }

    /// What is in memory is on disk now.
    pub fn flush(&mut self) {
        if self.applied > self.flushed.applied {
            let now = Rc::new(self.now());
            self.flushed_before = std::mem::replace(&mut self.flushed, now);
        }
    }

    pub fn flushed_at(&self) -> u64 {
        self.flushed.applied
    }

    /// Back to what was flushed.
    pub fn crash(&mut self) {
        let Snapshot { rows, applied, term, config } = self.flushed.as_ref().clone();
        (self.rows, self.applied, self.term, self.config) = (rows, applied, term, config);
        self.machine = Machine::reading(rules::read);
    }

    /// A fault takes the last flush. Until it starts again nothing is known of it.
    pub fn cut(&mut self) {
        self.flushed = self.flushed_before.clone();
        self.crash();
    }

    /// Rows to send to another, as they are or as they were flushed.
    pub fn snapshot(&self, flushed: bool) -> Snapshot {
        if flushed { self.flushed.as_ref().clone() } else { self.now() }
    }

    /// Takes over another replica's rows. They are on disk when it ends.
    pub fn install(&mut self, snapshot: &Snapshot) {
        let Snapshot { rows, applied, term, config } = snapshot.clone();
        (self.rows, self.applied, self.term, self.config) = (rows, applied, term, config);
        self.machine.reset();
        self.flush();
    }

    fn now(&self) -> Snapshot {
        let (rows, config) = (self.rows.clone(), self.config.clone());
        Snapshot { rows, applied: self.applied, term: self.term, config }
    }
}
