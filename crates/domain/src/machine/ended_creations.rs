//! ENT-2: creations whose entity is gone. The bytes of one that a network held up may arrive when its repeat was long
//! answered, and make an entity that nobody asked for.

use crate::machine::view::View;
use crate::{ENDED_CREATIONS_MAX, EndedCreationRow, Key, PRODUCER_KEPT, Row, Rows, Timestamp};

/// Rows that they are spread over, so that each is small.
const PARTS: u64 = 1024;

pub(super) struct EndedCreations<'s, R> {
    pub at: Timestamp,
    pub view: &'s mut View<R>,
}

impl<R: Rows> EndedCreations<'_, R> {
    /// The entity that a creation made is gone. What is remembered for long enough, or has the most beside it, is
    /// forgotten.
    pub fn remember(&mut self, request: u64) {
        if !self.view.level.remembers_creations() {
            return;
        }
        let (at, key) = (self.at, key(request));
        let mut kept = self.part(&key);
        kept.retain(|row| row.request != request && row.ended_at.plus(PRODUCER_KEPT) > at);
        // In the order of their ends.
        let excess = (kept.len() + 1).saturating_sub(ENDED_CREATIONS_MAX / PARTS as usize);
        kept.drain(..excess);
        kept.push(EndedCreationRow { request, ended_at: at });
        self.view.put(key, Row::EndedCreations(kept));
    }

    /// Whether a creation was carried out, and its entity is gone.
    pub fn has(&mut self, request: u64) -> bool {
        let at = self.at;
        let part = self.part(&key(request));
        part.iter().any(|row| row.request == request && row.ended_at.plus(PRODUCER_KEPT) > at)
    }

    fn part(&mut self, key: &Key) -> Vec<EndedCreationRow> {
        match self.view.get(key) {
            Some(Row::EndedCreations(rows)) => rows,
            _ => Vec::new(),
        }
    }
}

fn key(request: u64) -> Key {
    Key::EndedCreations((request % PARTS) as u16)
}
