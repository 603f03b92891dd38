//! Duplicate detection (DUP): a history of accepted message ids, nothing of it in memory.

use crate::machine::view::View;
use crate::{EntityId, Key, NewMessage, Row, Rows, SequenceNumber, Span, Timestamp};

/// Ended entries that one enqueue removes at most; `Fire` removes the rest.
const REMOVED_MAX: usize = 2;

/// The history of an entity that detects duplicates.
pub(super) struct History<'s, R> {
    pub id: EntityId,
    pub at: Timestamp,
    /// Each partition has its own (DUP-1).
    pub is_partitioned: bool,
    /// As it stands now (DUP-4).
    pub window: Span,
    /// When the oldest entry was accepted, or an earlier instant.
    pub oldest: &'s mut Option<Timestamp>,
    /// The oldest entry may be another.
    pub stale: &'s mut bool,
    pub view: &'s mut View<R>,
}

impl<R: Rows> History<'_, R> {
    /// By what a message is known in the history: its id, with its key where the entity is
    /// partitioned (DUP-1).
    pub fn id_of(&self, message: &NewMessage) -> Option<String> {
        let id = message.message_id.as_ref()?;
        let key = message.session_id.as_ref().or(message.partition_key.as_ref());
        Some(match (self.is_partitioned, key) {
            (false, _) => id.clone(),
            (true, None) => format!("\n{id}"),
            // Where the key ends is said first: it may hold anything.
            (true, Some(key)) => format!("{}\n{key}{id}", key.len()),
        })
    }

    /// The number recorded for a message of this id accepted within the window (DUP-4). If there is
    /// none, the id is recorded for `number`.
    pub fn recall_or_record(
        &mut self,
        id: String,
        number: SequenceNumber,
    ) -> Option<SequenceNumber> {
        let key = Key::DuplicateId(self.id, id.clone());
        let row = Row::DuplicateId { accepted_at: self.at, sequence: number };
        match self.view.get(&key) {
            Some(Row::DuplicateId { accepted_at, sequence }) => {
                if !self.has_left(accepted_at) {
                    return Some(sequence);
                }
                self.forget_time(accepted_at, id.clone());
                self.view.replace(key, row);
            }
            _ => self.view.insert(key, row),
        }
        let key = Key::DuplicateTime(self.id, self.at, id);
        self.view.insert(key, Row::DuplicateTime);
        self.oldest.get_or_insert(self.at);
        self.trim(REMOVED_MAX);
        None
    }

    /// Whether a message repeats one of the history; nothing is recorded.
    pub fn is_repeat(&mut self, message: &NewMessage) -> bool {
        let Some(id) = self.id_of(message) else { return false };
        match self.view.get(&Key::DuplicateId(self.id, id)) {
            Some(Row::DuplicateId { accepted_at, .. }) => !self.has_left(accepted_at),
            _ => false,
        }
    }

    /// Removes at most so many ended entries, oldest first; true if there are more.
    pub fn trim(&mut self, count_max: usize) -> bool {
        let Some(oldest) = *self.oldest else { return false };
        if !self.has_left(oldest) {
            return false;
        }
        let from = Key::DuplicateTime(self.id, oldest, String::new());
        let to = Key::DuplicateTime(self.id, Timestamp::NEVER, String::new());
        let keys = self.view.keys(&from, &to, count_max.saturating_add(1));
        for (removed, key) in keys.into_iter().enumerate() {
            let Key::DuplicateTime(_, accepted_at, id) = key else { break };
            // The mark stays below the first entry left.
            *self.oldest = Some(accepted_at);
            if !self.has_left(accepted_at) {
                return false;
            }
            if removed == count_max {
                return true;
            }
            self.view.delete(Key::DuplicateId(self.id, id.clone()));
            self.forget_time(accepted_at, id);
        }
        false
    }

    /// At the end of an entry: the mark stands at the oldest entry again.
    pub fn refresh(&mut self) {
        if !*self.stale {
            return;
        }
        let from = Key::DuplicateTime(self.id, self.oldest.unwrap_or_default(), String::new());
        let to = Key::DuplicateTime(self.id, Timestamp::NEVER, String::new());
        *self.oldest = match self.view.keys(&from, &to, 1).pop() {
            Some(Key::DuplicateTime(_, accepted_at, _)) => Some(accepted_at),
            _ => None,
        };
    }

    fn forget_time(&mut self, accepted_at: Timestamp, id: String) {
        self.view.delete(Key::DuplicateTime(self.id, accepted_at, id));
        *self.stale = true;
    }

    /// TIME-5: an entry ends when accepted + window is reached.
    fn has_left(&self, accepted_at: Timestamp) -> bool {
        accepted_at.plus(self.window) <= self.at
    }
}
