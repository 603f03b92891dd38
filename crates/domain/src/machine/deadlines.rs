//! Deadlines of an entity's messages, and marks: where the next ones are. Marks are exact when an entry
//! ends, and every search starts at the old mark and not at the first row, so that no range of
//! tombstones is scanned twice.

use std::ops::ControlFlow;

use crate::machine::view::{SINGLY_MAX, View};
use crate::{
    DeadlineKind, DeadlineRow, EntityId, EntityState, Key, Lifetime, MessageRow, QueueId,
    QueueProperties, Row, Rows, SequenceNumber, Span, Timestamp,
};

/// Most rows looked at for the next derived deadline when an entry ends. If none of them is derived,
/// the mark stands at the last of them: its deadline is no later than the next derived one's, so
/// the timer comes early and `Fire` searches on.
const DERIVED_ROWS_MAX: usize = 256;

/// When a message is due, and which it is: the order of an entity's deadlines of one kind.
pub(super) type Mark = (Timestamp, SequenceNumber);

/// A row of an entity's deadlines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub due: Timestamp,
    pub number: SequenceNumber,
    pub row: Option<DeadlineRow>,
}

impl Deadline {
    fn mark(&self) -> Mark {
        (self.due, self.number)
    }
}

/// Marks whose row is gone, or that may have a better one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stale {
    pub scheduled: bool,
    pub fixed: bool,
    pub derived: bool,
    /// Of the duplicate history.
    pub history: bool,
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
            DeadlineKind::Matching => {
                due((self.unmatched.count > 0).then_some(self.unmatched.since), Span(0))
            }
            DeadlineKind::Duplicate => {
                return due(self.duplicate_next, properties.duplicate_detection_window);
            }
        };
        if properties.status.is_suspended() { Timestamp::NEVER } else { of_messages }
    }
}

/// The deadlines of one entity's messages at work. The state is touched for its marks only.
pub(super) struct Deadlines<'s, R> {
    pub id: EntityId,
    pub at: Timestamp,
    pub state: &'s mut EntityState,
    pub stale: &'s mut Stale,
    /// As [`View::scan_messages`] has it.
    pub issued_from: SequenceNumber,
    pub view: &'s mut View<R>,
}

impl<R: Rows> Deadlines<'_, R> {
    /// A deadline or schedule that was not there.
    pub fn add(
        &mut self,
        kind: DeadlineKind,
        due: Timestamp,
        number: SequenceNumber,
        row: Option<DeadlineRow>,
    ) {
        self.view.insert(Key::Deadline(self.id, kind, due, number), Row::Deadline(row));
        self.lower_mark(kind, due, number);
    }

    /// A fixed deadline that may be there: it was passed while a lock shielded its message.
    pub fn put_back(&mut self, due: Timestamp, number: SequenceNumber) {
        let key = Key::Deadline(self.id, DeadlineKind::Fixed, due, number);
        self.view.put(key, Row::Deadline(None));
        self.lower_mark(DeadlineKind::Fixed, due, number);
    }

    /// Moves a mark back to a row that is there. Holds while the mark is stale too: it then bounds
    /// from below where the search starts.
    fn lower_mark(&mut self, kind: DeadlineKind, due: Timestamp, number: SequenceNumber) {
        let mark = self.mark(kind);
        let next = mark.map_or((due, number), |mark| mark.min((due, number)));
        *mark = Some(next);
    }

    /// A deadline or schedule that is there.
    pub fn remove(&mut self, kind: DeadlineKind, due: Timestamp, number: SequenceNumber) {
        self.view.delete(Key::Deadline(self.id, kind, due, number));
        if *self.mark(kind) == Some((due, number)) {
            *self.stale_mark(kind) = true;
        }
    }

    /// The deadline of a message that leaves the main queue. Once reached it may have been taken
    /// off while a lock or a deferral shielded the message.
    pub fn remove_lifetime(&mut self, number: SequenceNumber, lifetime: Lifetime) {
        if let Some(due) = lifetime.own_deadline() {
            let key = Key::Deadline(self.id, DeadlineKind::Fixed, due, number);
            if due > self.at || self.view.contains(&key) {
                self.remove(DeadlineKind::Fixed, due, number);
            }
        }
        self.pass_cursor(number);
    }

    /// The deadline of a fresh message, as [`Deadlines::remove_lifetime`] would: nothing has shielded
    /// it, so it is there, and is not looked for.
    pub fn remove_fresh_deadline(&mut self, number: SequenceNumber, lifetime: Lifetime) {
        if let Some(due) = lifetime.own_deadline() {
            self.remove(DeadlineKind::Fixed, due, number);
        }
    }

    /// A message is gone: the cursor does not stand at it.
    pub fn pass_cursor(&mut self, number: SequenceNumber) {
        let state = &mut *self.state;
        if state.derived_cursor == number {
            state.derived_cursor = number.next();
            self.stale.derived = true;
        }
    }

    /// The deadline of a message that enters the main queue under a fresh number.
    pub fn add_lifetime(&mut self, number: SequenceNumber, message: &MessageRow) {
        let lifetime = message.lifetime;
        if let Some(due) = lifetime.own_deadline() {
            // One of a session is in more rows than this one could name.
            let MessageRow { body, size_bytes, ref session, .. } = *message;
            let row = session.is_none().then_some(DeadlineRow { body, size_bytes });
            self.add(DeadlineKind::Fixed, due, number, row);
        }
        // None is derived from the cursor on, so this is the first, or the cursor passes it too. If
        // the mark is stale the search will find out.
        if self.state.derived_next.is_none() && !self.stale.derived {
            let is_derived = lifetime == Lifetime::Derived;
            let (at, state) = (message.enqueued_at, &mut *self.state);
            state.derived_cursor = if is_derived { number } else { number.next() };
            state.derived_next = is_derived.then_some(at);
        }
    }

    /// Takes off deadlines that are due, all there are from the mark to what is `next`. The mark moves
    /// once, to that one, and the rows before it are not looked at again; without a next one it moves to
    /// the last of them, where the search for a later one starts.
    pub fn take_off(&mut self, kind: DeadlineKind, due: &[Deadline], next: Option<Deadline>) {
        let (Some(from), Some(last)) = (*self.mark(kind), due.last()) else { return };
        let id = self.id;
        let key = |(due, number): Mark| Key::Deadline(id, kind, due, number);
        match due.len() > SINGLY_MAX {
            true => {
                let end = next.map_or((last.due, last.number.next()), |next| next.mark());
                self.view.erase(key(from), key(end));
            }
            false => due.iter().for_each(|deadline| self.view.delete(key(deadline.mark()))),
        }
        *self.mark(kind) = Some(next.as_ref().unwrap_or(last).mark());
        *self.stale_mark(kind) = next.is_none();
    }

    fn mark(&mut self, kind: DeadlineKind) -> &mut Option<Mark> {
        match kind {
            DeadlineKind::Scheduled => &mut self.state.scheduled_next,
            _ => &mut self.state.fixed_next,
        }
    }

    fn stale_mark(&mut self, kind: DeadlineKind) -> &mut bool {
        match kind {
            DeadlineKind::Scheduled => &mut self.stale.scheduled,
            _ => &mut self.stale.fixed,
        }
    }

    /// At the end of an entry: every mark stands at its row again.
    pub fn refresh(&mut self) {
        if self.stale.scheduled {
            self.state.scheduled_next = match self.state.counts.scheduled {
                0 => None,
                _ => self.first_mark(DeadlineKind::Scheduled),
            };
        }
        if self.stale.fixed {
            self.state.fixed_next = self.first_mark(DeadlineKind::Fixed);
        }
        if self.stale.derived {
            self.refresh_derived();
        }
    }

    /// Moves the derived cursor back, so that the search does not miss this number.
    pub fn search_derived_from(&mut self, number: SequenceNumber) {
        self.state.derived_cursor = self.state.derived_cursor.min(number);
        self.stale.derived = true;
    }

    /// At most so many messages from the derived cursor on, and where the search would go on.
    pub fn ahead_of_cursor(
        &mut self,
        count_max: usize,
    ) -> (Vec<(SequenceNumber, MessageRow)>, Option<SequenceNumber>) {
        let (queue, cursor) = (QueueId::main(self.id), self.state.derived_cursor);
        let (mut messages, mut end) = (Vec::new(), None);
        self.view.scan_messages(queue, cursor, self.issued_from, &mut |number, message| {
            if messages.len() == count_max {
                end = Some(number);
                return ControlFlow::Break(());
            }
            messages.push((number, message.clone()));
            ControlFlow::Continue(())
        });
        (messages, end)
    }

    /// The search for derived deadlines goes on from here.
    pub fn set_cursor(&mut self, number: SequenceNumber) {
        self.state.derived_cursor = number;
        self.stale.derived = true;
    }

    /// At most so many deadlines that are reached, in order, and the next one if it is reached too.
    pub fn due(
        &mut self,
        kind: DeadlineKind,
        count_max: usize,
    ) -> (Vec<Deadline>, Option<Deadline>) {
        let mut due = self.reached(kind, self.at, count_max + 1);
        let next = due.split_off(due.len().min(count_max)).pop();
        (due, next)
    }

    /// Deadlines of a kind from the mark on, up to and including those due at `until`: at most
    /// `count_max`, which is at least 1.
    pub fn reached(
        &mut self,
        kind: DeadlineKind,
        until: Timestamp,
        count_max: usize,
    ) -> Vec<Deadline> {
        let Some((due, number)) = *self.mark(kind) else { return Vec::new() };
        let from = Key::Deadline(self.id, kind, due, number);
        let to = Key::Deadline(self.id, kind, Timestamp(until.0.saturating_add(1)), NONE);
        let mut found = Vec::new();
        self.view.scan(&from, &to, &mut |key, row| {
            if let (&Key::Deadline(_, _, due, number), &Row::Deadline(row)) = (key, row) {
                found.push(Deadline { due, number, row });
            }
            match found.len() < count_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        found
    }

    fn first_mark(&mut self, kind: DeadlineKind) -> Option<Mark> {
        self.reached(kind, Timestamp::NEVER, 1).pop().map(|first| first.mark())
    }

    fn refresh_derived(&mut self) {
        let counts = self.state.counts;
        let cursor = self.state.derived_cursor;
        let (mut next, mut last, mut visited) = (None, None, 0);
        if counts.active + counts.deferred > 0 {
            let queue = QueueId::main(self.id);
            self.view.scan_messages(queue, cursor, self.issued_from, &mut |number, row| {
                visited += 1;
                last = Some((number, row.enqueued_at));
                if row.lifetime == Lifetime::Derived || visited == DERIVED_ROWS_MAX {
                    next = last;
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        let state = &mut *self.state;
        state.derived_cursor = next.map_or(state.next_sequence, |(number, _)| number);
        state.derived_next = next.map(|(_, enqueued_at)| enqueued_at);
    }
}

/// Below every number issued.
const NONE: SequenceNumber = SequenceNumber::MIN;
