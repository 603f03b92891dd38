//! One replica of one group: rows, a machine over them, and how far it has applied.

use domain::{Effect, Machine, MemoryRows, Outcome};

use crate::consensus::Record;

/// What a replica has, in memory and on disk.
#[derive(Default)]
pub struct Replica {
    pub rows: MemoryRows,
    /// Entries applied: the index of the next one.
    pub applied: usize,
    machine: Machine,
    /// What a crash leaves: rows are flushed now and then, together with how far they had come.
    flushed: (MemoryRows, usize),
}

/// What applying left.
#[derive(Default)]
pub struct Applied {
    /// Per entry.
    pub outcomes: Vec<Vec<Outcome>>,
    pub effects: Vec<Effect>,
}

impl Replica {
    /// Applies the next `count` entries of the log as one step.
    pub fn apply(&mut self, log: &[Record], count: usize) -> Applied {
        let mut step = self.machine.step(&self.rows);
        let mut outcomes = Vec::with_capacity(count);
        for record in &log[self.applied..self.applied + count] {
            outcomes.push(step.apply(record.entry.clone()));
        }
        let changes = step.finish();
        self.rows.write(changes.writes);
        self.applied += count;
        Applied { outcomes, effects: changes.effects }
    }

    /// What is in memory is on disk now.
    pub fn flush(&mut self) {
        self.flushed = (self.rows.clone(), self.applied);
    }

    /// Back to what was flushed.
    pub fn crash(&mut self) {
        (self.rows, self.applied) = self.flushed.clone();
        self.machine = Machine::new();
    }

    /// Rows to send to another, as they are or as they were flushed.
    pub fn snapshot(&self, flushed: bool) -> (MemoryRows, usize) {
        if flushed { self.flushed.clone() } else { (self.rows.clone(), self.applied) }
    }

    /// Takes over another replica's rows. They are on disk when it ends.
    pub fn install(&mut self, rows: MemoryRows, applied: usize) {
        self.rows = rows;
        self.applied = applied;
        self.machine.reset();
        self.flush();
    }
}
