//! Savepoints: what a step can go back to within an entry, so that a transaction that is refused
//! halfway has left nothing (TX-2). Rows go back by a journal, entities by copies made when they are
//! first worked on, the rest by length.

use std::collections::BTreeMap;

use crate::machine::Step;
use crate::machine::entity::Entity;
use crate::machine::nonce::Nonces;
use crate::machine::recorder::{Recorded, Recorder};
use crate::{EntityId, Rows};

/// Where a step stood.
pub(super) struct Savepoint {
    effects: usize,
    watched: usize,
    touched: usize,
    nonces: Nonces,
    /// Steps of messages noted.
    recorded: Recorded,
    tallies: usize,
}

/// What was worked on since.
#[derive(Default)]
pub(super) struct Since {
    entities: BTreeMap<EntityId, Before>,
    /// Copies made of published messages.
    copies: u64,
}

/// An entity as it was, and whether the step had worked on it.
struct Before {
    entity: Entity,
    changed: bool,
}

impl Since {
    pub fn note(&mut self, id: EntityId, entity: &Entity, changed: bool) {
        let before = || Before { entity: entity.clone(), changed };
        self.entities.entry(id).or_insert_with(before);
    }

    pub fn note_copies(&mut self, count: usize) {
        self.copies += count as u64;
    }
}

impl<R: Rows> Step<'_, R> {
    /// One at a time: kept or rolled back before the next.
    pub(super) fn savepoint(&mut self) -> Savepoint {
        // What subscriptions owe their topics is not to be settled halfway.
        self.charge_topics();
        assert!(self.since.is_none(), "a savepoint within another");
        self.since = Some(Since::default());
        self.view.savepoint();
        Savepoint {
            effects: self.effects.len(),
            watched: self.watched.len(),
            touched: self.touched.len(),
            nonces: self.nonces.clone(),
            recorded: self.view.recorder.as_ref().map(Recorder::recorded).unwrap_or_default(),
            tallies: self.tallies.len(),
        }
    }

    /// What was done since the savepoint stays.
    pub(super) fn keep(&mut self) {
        self.since = None;
        self.view.keep();
    }

    /// What was done since the savepoint was never done.
    pub(super) fn roll_back(&mut self, savepoint: Savepoint) {
        self.view.roll_back();
        for (id, before) in self.since.take().unwrap_or_default().entities {
            if !before.changed {
                self.changed.remove(&id);
            }
            self.machine.entities.insert(id, before.entity);
        }
        self.effects.truncate(savepoint.effects);
        self.watched.truncate(savepoint.watched);
        self.touched.truncate(savepoint.touched);
        self.nonces = savepoint.nonces;
        self.tallies.truncate(savepoint.tallies);
        if let Some(recorder) = &mut self.view.recorder {
            recorder.truncate(savepoint.recorded);
        }
    }

    /// Copies made since the savepoint.
    pub(super) fn made_copies(&self) -> u64 {
        self.since.as_ref().map_or(0, |since| since.copies)
    }
}
