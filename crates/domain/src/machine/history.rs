//! Duplicate detection (DUP): a history of accepted message ids, nothing of it in memory.

use crate::machine::entity::EntityStep;
use crate::{Key, NewMessage, Row, Rows, SequenceNumber, Timestamp};

/// Ended entries that one enqueue removes at most; `Fire` removes the rest.
const REMOVED_MAX: usize = 2;

impl<R: Rows> EntityStep<'_, '_, R> {
    /// The number recorded for a message of this id accepted within the window (DUP-4: as the window
    /// stands now). If there is none, the id is recorded for `number`.
    pub fn recall_or_record(
        &mut self,
        id: String,
        number: SequenceNumber,
    ) -> Option<SequenceNumber> {
        let key = Key::DuplicateId(self.id, id.clone());
        let row = Row::DuplicateId { accepted_at: self.at, sequence: number };
        match self.view.get(&key) {
            Some(Row::DuplicateId { accepted_at, sequence }) => {
                if !self.has_left_history(accepted_at) {
                    return Some(sequence);
                }
                self.forget_time(accepted_at, id.clone());
                self.view.replace(key, row);
            }
            _ => self.view.insert(key, row),
        }
        let key = Key::DuplicateTime(self.id, self.at, id);
        self.view.insert(key, Row::DuplicateTime);
        let at = self.at;
        self.state().duplicate_next.get_or_insert(at);
        self.trim_history(REMOVED_MAX);
        None
    }

    /// Whether a message repeats one of the history; nothing is recorded.
    pub fn is_repeat(&mut self, message: &NewMessage) -> bool {
        let Some(id) = &message.message_id else { return false };
        if !self.properties().requires_duplicate_detection {
            return false;
        }
        match self.view.get(&Key::DuplicateId(self.id, id.clone())) {
            Some(Row::DuplicateId { accepted_at, .. }) => !self.has_left_history(accepted_at),
            _ => false,
        }
    }

    /// Removes at most so many ended entries, oldest first; true if there are more.
    pub fn trim_history(&mut self, count_max: usize) -> bool {
        let Some(oldest) = self.entity.state.duplicate_next else { return false };
        if !self.has_left_history(oldest) {
            return false;
        }
        let from = Key::DuplicateTime(self.id, oldest, String::new());
        let to = Key::DuplicateTime(self.id, Timestamp::NEVER, String::new());
        let keys = self.view.keys(&from, &to, count_max.saturating_add(1));
        for (removed, key) in keys.into_iter().enumerate() {
            let Key::DuplicateTime(_, accepted_at, id) = key else { break };
            // The mark stays below the first entry left.
            self.state().duplicate_next = Some(accepted_at);
            if !self.has_left_history(accepted_at) {
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

    fn forget_time(&mut self, accepted_at: Timestamp, id: String) {
        self.view.delete(Key::DuplicateTime(self.id, accepted_at, id));
        self.stale().duplicate = true;
    }

    /// TIME-5: an entry ends when accepted + window is reached.
    fn has_left_history(&self, accepted_at: Timestamp) -> bool {
        accepted_at.plus(self.properties().duplicate_detection_window) <= self.at
    }
}
