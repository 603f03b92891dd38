//! `Fire`: what may be due of one entity and kind. A hint: each row decides (TIME-8).

use std::ops::ControlFlow;

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::deadlines::Deadline;
use crate::machine::entity::EntityStep;
use crate::machine::messages::Fate;
use crate::machine::session::SESSION_ROWS_PER_MESSAGE;
use crate::{
    APPLY_ROWS_MAX, DeadlineKind, EntityKind, Fire, Fired, Lifetime, MessageRow, Outcome, Rows,
    SequenceNumber, SubQueue, Timestamp,
};

impl Fire {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let mut fired = Fired::default();
        let Ok(mut entity) = step.open(self.entity) else { return Outcome::Fired(fired) };
        // STATE-3: nothing leaves while disabled; activation re-arms it. The history is no message.
        let suspended = entity.properties().status.is_suspended();
        let rows_per_message = match entity.properties().requires_session {
            true => SESSION_ROWS_PER_MESSAGE,
            false => ROWS_PER_MESSAGE,
        };
        let count_max = (APPLY_ROWS_MAX as usize / rows_per_message).min(self.count_max as usize);
        match self.kind {
            DeadlineKind::Duplicate => fired.more = entity.trim_history(count_max),
            _ if suspended => (),
            DeadlineKind::Scheduled if entity.kind() == EntityKind::Topic => {
                step.fire_publications(self.entity, count_max, &mut fired);
            }
            DeadlineKind::Scheduled => entity.fire_scheduled(count_max, &mut fired),
            DeadlineKind::Fixed => entity.fire_fixed(count_max, &mut fired),
            DeadlineKind::Derived => entity.fire_derived(count_max, &mut fired),
        }
        Outcome::Fired(fired)
    }
}

impl Fired {
    /// Counts what became of one message whose deadline was `due`.
    pub(super) fn note(&mut self, fate: Fate, due: Timestamp, at: Timestamp) {
        match fate {
            Fate::Kept => (),
            Fate::Dropped => self.dropped += 1,
            Fate::DeadLettered => self.dead_lettered += 1,
        }
        self.note_late(due, at);
    }

    pub(super) fn note_late(&mut self, due: Timestamp, at: Timestamp) {
        let late_ms = at.since(due).0;
        self.late_ms_max = self.late_ms_max.max(late_ms);
        self.late_ms_sum = self.late_ms_sum.saturating_add(late_ms);
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// At most so many deadlines that are reached, in order, and the next one if it is reached too.
    pub(super) fn due(
        &mut self,
        kind: DeadlineKind,
        count_max: usize,
    ) -> (Vec<Deadline>, Option<Deadline>) {
        let mut due = self.deadlines(kind, self.at, count_max + 1);
        let next = due.split_off(due.len().min(count_max)).pop();
        (due, next)
    }

    /// SCHED-5, SCHED-7: in order of (due, number), each appended as if it were sent now.
    fn fire_scheduled(&mut self, count_max: usize, fired: &mut Fired) {
        let (due, next) = self.due(DeadlineKind::Scheduled, count_max);
        fired.more = next.is_some();
        self.take_off(DeadlineKind::Scheduled, &due, next);
        let numbers = due.iter().map(|deadline| deadline.number);
        let rows = self.view.all_scheduled(self.id, numbers);
        for (Deadline { due, number, .. }, row) in due.into_iter().zip(rows) {
            let row = row.expect("what has a time is scheduled");
            self.unschedule(number);
            if let Some(session) = &row.session {
                self.unlist_scheduled(session, number);
            }
            let message = MessageRow {
                body: number,
                size_bytes: row.size_bytes,
                header_bytes: row.header_bytes,
                deferred: false,
                delivery_count: 0,
                enqueued_at: self.at,
                // TTL-19, TTL-20: the clock starts now, under the default as it is now.
                lifetime: self.lifetime(row.ttl),
                session: row.session,
                overlay: None,
                travel: row.travel,
            };
            let number = self.next_sequence();
            self.append(number, message);
            fired.activated += 1;
            fired.note_late(due, self.at);
        }
        self.end_schedule(fired);
    }

    /// IDLE-8: until the last scheduled message was due the entity was not idle, though nobody used
    /// it (IDLE-12).
    pub(super) fn end_schedule(&mut self, fired: &Fired) {
        if fired.activated > 0 && self.entity.state.counts.scheduled == 0 {
            self.used_until(self.at);
        }
    }

    /// A locked message is shielded (TTL-11) and a deferred one is asked for by number (DEFER-8):
    /// their deadlines are taken off, because release and retrieval look for themselves. A fresh one
    /// is neither, and is dropped without a look at it.
    fn fire_fixed(&mut self, count_max: usize, fired: &mut Fired) {
        let (due, next) = self.due(DeadlineKind::Fixed, count_max);
        fired.more = next.is_some();
        self.take_off(DeadlineKind::Fixed, &due, next);
        let queue = self.main();
        let drops = !self.properties().dead_letter_on_expiration;
        let head = self.entity.state.fresh_head[SubQueue::Main as usize];
        let known = |deadline: &Deadline| match deadline.row {
            Some(row) if drops && deadline.number >= head => Some(row),
            _ => None,
        };
        let asked = due.iter().filter(|deadline| known(deadline).is_none());
        let mut messages = self.view.messages(queue, asked.map(|asked| asked.number)).into_iter();
        for deadline in due {
            let Deadline { due, number, .. } = deadline;
            if let Some(row) = known(&deadline) {
                self.drop_fresh(number, &row);
                fired.note(Fate::Dropped, due, self.at);
                continue;
            }
            let message = messages.next().flatten().expect("what has a deadline is stored");
            if !message.deferred && self.is_available(queue, number, &message) {
                self.detach(queue, number, message.session.as_ref());
                let fate = self.expire(number, message);
                fired.note(fate, due, self.at);
            }
        }
    }

    /// Messages that inherit the default expire in enqueue order: the cursor passes what is due,
    /// expired or shielded, and what has a deadline of its own, and stands at the first that is
    /// neither (TTL-24).
    fn fire_derived(&mut self, count_max: usize, fired: &mut Fired) {
        let queue = self.main();
        let (messages, end) = self.ahead_of_cursor(count_max);
        // While all from the fresh head on is expired, the head passes it too.
        let mut at_head = self.entity.state.derived_cursor <= self.entity.state.fresh_head[0];
        let mut cursor = end.unwrap_or(self.entity.state.next_sequence);
        fired.more = end.is_some();
        for (number, message) in messages {
            let due = self.expires_at(&message);
            let is_derived = message.lifetime == Lifetime::Derived;
            if is_derived && due > self.at {
                cursor = number;
                fired.more = false;
                break;
            }
            let head = self.entity.state.fresh_head[0];
            let is_fresh = message.session.is_none() && number >= head;
            if is_derived && !message.deferred && self.is_available(queue, number, &message) {
                self.detach(queue, number, message.session.as_ref());
                let fate = self.expire(number, message);
                fired.note(fate, due, self.at);
                if is_fresh && at_head {
                    self.pass_head(queue, number);
                }
            } else if is_fresh {
                at_head = false;
            }
        }
        self.state().derived_cursor = cursor;
        self.stale().derived = true;
    }

    /// At most so many messages from the derived cursor on, and where the search would go on.
    fn ahead_of_cursor(
        &mut self,
        count_max: usize,
    ) -> (Vec<(SequenceNumber, MessageRow)>, Option<SequenceNumber>) {
        let cursor = self.entity.state.derived_cursor;
        let (mut messages, mut end) = (Vec::new(), None);
        self.scan_messages(self.main(), cursor, &mut |number, message| {
            if messages.len() == count_max {
                end = Some(number);
                return ControlFlow::Break(());
            }
            messages.push((number, message.clone()));
            ControlFlow::Continue(())
        });
        (messages, end)
    }
}
