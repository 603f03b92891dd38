//! Marks: where an entity's next deadlines are. They are exact when an entry ends, and every search
//! starts at the old mark and not at the first row, so that no range of tombstones is scanned twice.

use std::ops::ControlFlow;

use crate::machine::entity::EntityStep;
use crate::{
    DeadlineKind, EntityState, Key, Lifetime, QueueProperties, Row, Rows, SequenceNumber, Span,
    Timestamp,
};

/// Most rows looked at for the next derived deadline when an entry ends. If none of them is derived,
/// the mark stands at the last of them: its deadline is no later than the next derived one's, so
/// the timer comes early and `Fire` searches on.
const DERIVED_ROWS_MAX: usize = 256;

/// Marks whose row is gone, or that may have a better one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stale {
    pub scheduled: bool,
    pub fixed: bool,
    pub derived: bool,
    pub duplicate: bool,
}

impl EntityState {
    /// When the entity's timer of this kind is due; `NEVER`: it has none. A suspended entity expires
    /// and activates nothing (STATE-3); its duplicate history ends regardless.
    pub fn next_due(&self, properties: &QueueProperties, kind: DeadlineKind) -> Timestamp {
        let due = |mark: Option<Timestamp>, span: Span| match mark {
            Some(mark) => mark.plus(span),
            None => Timestamp::NEVER,
        };
        let of_messages = match kind {
            DeadlineKind::Scheduled => due(self.scheduled_next.map(|mark| mark.0), Span(0)),
            DeadlineKind::Fixed => due(self.fixed_next.map(|mark| mark.0), Span(0)),
            DeadlineKind::Derived => due(self.derived_next, properties.default_ttl),
            DeadlineKind::Duplicate => {
                return due(self.duplicate_next, properties.duplicate_detection_window);
            }
        };
        if properties.status.is_suspended() { Timestamp::NEVER } else { of_messages }
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// A deadline or schedule that was not there.
    pub fn add_deadline(&mut self, kind: DeadlineKind, due: Timestamp, number: SequenceNumber) {
        self.view.insert(Key::Deadline(self.id, kind, due, number), Row::Deadline);
        self.lower_mark(kind, due, number);
    }

    /// Moves a mark back to a row that is there. Holds while the mark is stale too: it then bounds
    /// from below where the search starts.
    pub fn lower_mark(&mut self, kind: DeadlineKind, due: Timestamp, number: SequenceNumber) {
        let mark = self.mark(kind);
        let next = mark.map_or((due, number), |mark| mark.min((due, number)));
        *mark = Some(next);
    }

    /// A deadline or schedule that is there.
    pub fn remove_deadline(&mut self, kind: DeadlineKind, due: Timestamp, number: SequenceNumber) {
        self.view.delete(Key::Deadline(self.id, kind, due, number));
        if *self.mark(kind) == Some((due, number)) {
            match kind {
                DeadlineKind::Scheduled => self.stale().scheduled = true,
                _ => self.stale().fixed = true,
            }
        }
    }

    /// The deadline of a message that leaves the main queue. Once reached it may have been taken
    /// off while a lock or a deferral shielded the message.
    pub fn remove_lifetime(&mut self, number: SequenceNumber, lifetime: Lifetime) {
        if let Lifetime::Fixed { expires_at, .. } = lifetime
            && !expires_at.is_never()
        {
            let key = Key::Deadline(self.id, DeadlineKind::Fixed, expires_at, number);
            if expires_at > self.at || self.view.contains(&key) {
                self.remove_deadline(DeadlineKind::Fixed, expires_at, number);
            }
        }
        let state = self.state();
        if state.derived_cursor == number {
            state.derived_cursor = number.next();
            self.stale().derived = true;
        }
    }

    /// The deadline of a message that enters the main queue under a fresh number.
    pub fn add_lifetime(&mut self, number: SequenceNumber, lifetime: Lifetime) {
        match lifetime {
            Lifetime::Fixed { expires_at, .. } if !expires_at.is_never() => {
                self.add_deadline(DeadlineKind::Fixed, expires_at, number);
            }
            Lifetime::Fixed { .. } | Lifetime::Derived => (),
        }
        // None is derived from the cursor on, so this is the first, or the cursor passes it too. If
        // the mark is stale the search will find out.
        if self.entity.state.derived_next.is_none() && !self.stale().derived {
            let is_derived = lifetime == Lifetime::Derived;
            let at = self.at;
            let state = self.state();
            state.derived_cursor = if is_derived { number } else { number.next() };
            state.derived_next = is_derived.then_some(at);
        }
    }

    fn mark(&mut self, kind: DeadlineKind) -> &mut Option<(Timestamp, SequenceNumber)> {
        match kind {
            DeadlineKind::Scheduled => &mut self.entity.state.scheduled_next,
            _ => &mut self.entity.state.fixed_next,
        }
    }

    /// At the end of an entry: every mark stands at its row again.
    pub fn refresh_marks(&mut self) {
        let stale = *self.stale();
        if stale.scheduled {
            self.entity.state.scheduled_next = match self.entity.state.counts.scheduled {
                0 => None,
                _ => self.first_deadline(DeadlineKind::Scheduled),
            };
        }
        if stale.fixed {
            self.entity.state.fixed_next = self.first_deadline(DeadlineKind::Fixed);
        }
        if stale.derived {
            self.refresh_derived();
        }
        if stale.duplicate {
            self.refresh_duplicate();
        }
    }

    /// Deadlines of a kind from the mark on, up to and including those due at `until`.
    pub fn deadlines(
        &mut self,
        kind: DeadlineKind,
        until: Timestamp,
        count_max: usize,
    ) -> Vec<(Timestamp, SequenceNumber)> {
        let Some((due, number)) = *self.mark(kind) else { return Vec::new() };
        let from = Key::Deadline(self.id, kind, due, number);
        let to = Key::Deadline(self.id, kind, Timestamp(until.0.saturating_add(1)), NONE);
        let mut found = Vec::new();
        for key in self.view.keys(&from, &to, count_max) {
            if let Key::Deadline(_, _, due, number) = key {
                found.push((due, number));
            }
        }
        found
    }

    fn first_deadline(&mut self, kind: DeadlineKind) -> Option<(Timestamp, SequenceNumber)> {
        self.deadlines(kind, Timestamp::NEVER, 1).pop()
    }

    fn refresh_derived(&mut self) {
        let counts = self.entity.state.counts;
        let cursor = self.entity.state.derived_cursor;
        let (mut next, mut last, mut visited) = (None, None, 0);
        if counts.active + counts.deferred > 0 {
            self.scan_messages(self.main(), cursor, &mut |number, row| {
                visited += 1;
                last = Some((number, row.enqueued_at));
                if row.lifetime == Lifetime::Derived || visited == DERIVED_ROWS_MAX {
                    next = last;
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        let state = self.state();
        state.derived_cursor = next.map_or(state.next_sequence, |(number, _)| number);
        state.derived_next = next.map(|(_, enqueued_at)| enqueued_at);
    }

    fn refresh_duplicate(&mut self) {
        let from = self.entity.state.duplicate_next.unwrap_or_default();
        let from = Key::DuplicateTime(self.id, from, String::new());
        let to = Key::DuplicateTime(self.id, Timestamp::NEVER, String::new());
        let first = self.view.keys(&from, &to, 1).pop();
        self.state().duplicate_next = match first {
            Some(Key::DuplicateTime(_, accepted_at, _)) => Some(accepted_at),
            _ => None,
        };
    }
}

/// Below every number issued.
const NONE: SequenceNumber = SequenceNumber::MIN;
