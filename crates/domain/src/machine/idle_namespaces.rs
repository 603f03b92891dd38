//! Namespaces that go by themselves (NS-9, NS-10): the idleness of queues, one level up.

use crate::machine::namespaces::{Namespaces, told};
use crate::{
    IDLE_MIN, Key, NamespaceIdleRow, NamespaceRow, NamespaceState, Outcome, Refusal, Row, Rows,
    Span, TOUCH_LASTS, Timestamp,
};

impl<R: Rows> Namespaces<'_, R> {
    /// NS-9. That it is said counts as a use, as IDLE-13 has it of an update.
    pub fn set_idle(&mut self, request: u64, name: &str, window: Span) -> Result<Outcome, Refusal> {
        let row = self.known(name, request)?;
        check_window(window)?;
        self.give_window(name, request, window);
        told(row)
    }

    pub(super) fn give_window(&mut self, name: &str, request: u64, window: Span) {
        if window.is_max() {
            self.members.view.delete_if_there(Key::NamespaceIdle(name.to_owned()));
        } else {
            let (used_until, is_sealed) = (self.at, false);
            self.put_idle(name, NamespaceIdleRow { request, window, used_until, is_sealed });
        }
    }

    /// NS-10: whoever is told so may use it until then. Of one that is not temporary, or no more, nothing is kept.
    pub fn use_until(
        &mut self,
        request: u64,
        name: &str,
        until: Timestamp,
    ) -> Result<Outcome, Refusal> {
        self.ready(name, request)?;
        if let Some(idle) = self.idle(name) {
            let used_until = idle.used_until.max(until.min(self.at.plus(TOUCH_LASTS)));
            self.put_idle(name, NamespaceIdleRow { used_until, is_sealed: false, ..idle });
        }
        Ok(Outcome::Done)
    }

    pub fn seal(&mut self, request: u64, name: &str) -> Result<Outcome, Refusal> {
        self.ready(name, request)?;
        match self.idle(name) {
            Some(idle) if idle.due(self.unbroken_since) <= self.at => {
                self.put_idle(name, NamespaceIdleRow { is_sealed: true, ..idle });
                Ok(Outcome::Done)
            }
            Some(_) | None => Ok(Outcome::Spared),
        }
    }

    pub fn delete_idle(&mut self, request: u64, name: &str) -> Result<Outcome, Refusal> {
        let row = self.known(name, request)?;
        if !row.is_ready() {
            return told(row);
        }
        match self.idle(name) {
            Some(idle) if idle.is_sealed && idle.due(self.unbroken_since) <= self.at => {
                self.put(NamespaceRow { state: NamespaceState::Deleting, ..row })
            }
            Some(_) | None => Ok(Outcome::Spared),
        }
    }

    /// Refused: one that is to go is used no more.
    fn ready(&mut self, name: &str, request: u64) -> Result<NamespaceRow, Refusal> {
        let row = self.known(name, request)?;
        match row.is_ready() {
            true => Ok(row),
            false => Err(Refusal::EntityNotFound { name: row.name }),
        }
    }

    fn idle(&mut self, name: &str) -> Option<NamespaceIdleRow> {
        match self.members.view.get(&Key::NamespaceIdle(name.to_owned())) {
            Some(Row::NamespaceIdle(row)) => Some(row),
            _ => None,
        }
    }

    fn put_idle(&mut self, name: &str, row: NamespaceIdleRow) {
        self.members.view.put(Key::NamespaceIdle(name.to_owned()), Row::NamespaceIdle(row));
    }
}

/// IDLE-1.
pub(super) fn check_window(window: Span) -> Result<(), Refusal> {
    match window < IDLE_MIN {
        true => Err(Refusal::ArgumentOutOfRange {
            what: "AutoDeleteOnIdle",
            value: format!("{} ms", window.0),
            allowed: "5 min or more",
        }),
        false => Ok(()),
    }
}
