//! The blocking half of applying: entries become rows, outcomes and effects.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use std::vec::IntoIter;

use domain::Machine;
use openraft::storage::EntryResponder;
use store::{Import, MachineRows};

use super::record::{self, Mark};
use super::snapshot::Export;
use super::state::Replica;
use super::{Payload, StoredMembership, TypeConfig};
use crate::{HistoryChunk, RecordedEvent, metrics};

/// Where a step's rows go.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// To the row cache, in memory; right while [`Applier::cache_has_room`].
    Memory,
    /// There as well, and with them to the database once it is time.
    Storage,
}

/// A replica's machine and rows, passed between Raft and the threads for blocking work.
pub(crate) struct Applier {
    replica: Arc<Replica>,
    rows: MachineRows,
    machine: Machine,
    gapless: bool,
}

impl Applier {
    /// `gapless`: every entry follows the one before, or applying fails. Raft does not look whether
    /// the log gave it all, and its test suite leaves some out.
    pub fn new(replica: Arc<Replica>, gapless: bool) -> Applier {
        let machine = Machine::reading(wire::content::header);
        let machine = match replica.history {
            Some(_) => machine.noting_events(wire::content::texts),
            None => machine,
        };
        let machine = match replica.traced {
            true => machine.noting_traces(wire::content::texts, wire::content::trace_context),
            false => machine,
        };
        Applier { rows: replica.store.machine(replica.group), replica, machine, gapless }
    }

    /// Whether a step that is taken now finds its rows' place in memory.
    pub fn cache_has_room(&self) -> bool {
        self.replica.store.cache_has_room(self.replica.group)
    }

    /// Applies entries in one step and one write, or without any; then tells who waits. Effects go
    /// first: a waiter that asks the leader what to do next finds it informed.
    pub fn step(
        &mut self,
        batch: Vec<EntryResponder<TypeConfig>>,
        to: Place,
    ) -> Result<(), io::Error> {
        let mut batch = batch.into_iter();
        while batch.len() > 0 {
            self.step_to_cut(&mut batch, to)?;
        }
        Ok(())
    }

    /// As [`Applier::step`], as far as an entry that a cut is behind: there the rows are pinned, where they are
    /// waited for, before they change again.
    fn step_to_cut(
        &mut self,
        batch: &mut IntoIter<EntryResponder<TypeConfig>>,
        to: Place,
    ) -> Result<(), io::Error> {
        let started = Instant::now();
        let mut entries = 0;
        let mut mark = self.replica.applied();
        let mut replies = Vec::with_capacity(batch.len());
        let first_index = mark.applied.map_or(0, |id| id.index + 1);
        let (mut happened, mut traced) = (Vec::new(), Vec::new());
        let mut step = self.machine.step(&self.rows);
        let cut_before = step.last_cut();
        for (entry, responder) in batch {
            entries += 1;
            let expected = mark.applied.map_or(0, |applied| applied.index + 1);
            if self.gapless && entry.log_id.index != expected {
                let found = entry.log_id;
                return Err(io::Error::other(format!("entry {found} instead of {expected}")));
            }
            let outcomes = match entry.payload {
                Payload::Blank => Vec::new(),
                Payload::Normal(proposal) => {
                    let decoded = wire::decode_entry(proposal.payload).map_err(|error| {
                        io::Error::other(format!("entry {} cannot be read: {error}", entry.log_id))
                    })?;
                    if responder.is_some() {
                        step.count_from_here();
                    }
                    let outcomes = step.apply(decoded);
                    let (index, at) = (entry.log_id.index, step.at());
                    let leader = entry.log_id.leader_id.node_id;
                    let recorded = |event| RecordedEvent { index, at, leader, event };
                    happened.extend(step.take_events().map(recorded));
                    let steps = step.take_traced();
                    // Who proposed an entry tells of it: so each step is told once at most in all of the cluster.
                    if responder.is_some() {
                        traced.extend(steps);
                    }
                    outcomes
                }
                Payload::Membership(membership) => {
                    mark.membership = StoredMembership::new(Some(entry.log_id), membership);
                    Vec::new()
                }
            };
            mark.applied = Some(entry.log_id);
            if let Some(responder) = responder {
                replies.push((responder, outcomes));
            }
            if step.last_cut() > cut_before {
                break;
            }
        }
        let cut = Some(step.last_cut()).filter(|cut| *cut > cut_before);
        let since = step.at();
        let changes = step.finish();
        let index = mark.applied.map_or(0, |id| id.index);
        let Replica { store, group, .. } = &*self.replica;
        let (erased, writes, record) = (changes.erased, changes.writes, record::encode_mark(&mark));
        match to {
            Place::Memory => store.apply_cached(*group, erased, writes, index, record),
            Place::Storage => {
                store.apply(*group, erased, writes, index, record).map_err(io::Error::other)?;
            }
        }
        if let Some(history) = &self.replica.history {
            let chunk = HistoryChunk { first_index, last_index: index, since, events: happened };
            history.append(*group, chunk);
        }
        self.replica.set_applied(mark);
        if let Some(cut) = cut {
            self.replica.cuts.apply(cut, || store.export(*group));
        }
        metrics::applied(entries, self.replica.store.take_rows_written(), started.elapsed());

        if !changes.tallies.is_empty() {
            self.replica.observer.tallied(self.replica.group, changes.tallies);
        }
        if !traced.is_empty() {
            self.replica.observer.traced(traced);
        }
        if self.replica.leading.load(Ordering::Acquire) && !changes.effects.is_empty() {
            self.replica.observer.applied(self.replica.group, changes.effects);
        }
        for (responder, outcomes) in replies {
            responder.send(outcomes);
        }
        Ok(())
    }

    /// Puts all that is applied on disk.
    pub fn flush(&mut self) -> Result<Mark, io::Error> {
        let mark = self.replica.applied();
        self.replica.store.flush().map_err(io::Error::other)?;
        self.replica.set_marker(mark.clone());
        Ok(mark)
    }

    /// Puts received rows in the place of all there are.
    pub fn install(&mut self, import: Import, mark: Mark) -> Result<(), io::Error> {
        import.finish().map_err(io::Error::other)?;
        self.machine.reset();
        self.replica.set_applied(mark.clone());
        self.replica.set_marker(mark);
        Ok(())
    }

    /// Installs a snapshot that a replica in this process exported.
    pub fn copy(&mut self, mut export: Export, mark: Mark) -> Result<(), io::Error> {
        let Replica { store, group, .. } = &*self.replica;
        let index = mark.applied.map_or(0, |id| id.index);
        let import = store.import(*group, index, &record::encode_mark(&mark));
        let mut import = import.map_err(io::Error::other)?;
        while let Some(chunk) = export.rows.next_chunk().map_err(io::Error::other)? {
            import.take([chunk]).map_err(io::Error::other)?;
        }
        self.install(import, mark)
    }
}
