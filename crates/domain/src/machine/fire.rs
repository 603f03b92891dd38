//! `Fire`: what may be due of one entity and kind. A hint: each row decides (TIME-8).

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::deadlines::Deadline;
use crate::machine::entity::EntityStep;
use crate::machine::messages::{Fate, Messages};
use crate::machine::place::{Move, Stored};
use crate::machine::publish;
use crate::machine::session::SESSION_ROWS_PER_MESSAGE;
use crate::{
    APPLY_ROWS_MAX, DeadlineKind, Deed, EntityKind, Fire, Fired, LifeStep, Lifetime, MessageRow,
    Outcome, Rows, SubQueue, Timestamp,
};

impl Fire {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let mut fired = Fired::default();
        let Ok(mut entity) = step.open(self.entity) else { return Outcome::Fired(fired) };
        // STATE-3: nothing leaves while disabled; activation re-arms it. The history is no message.
        let suspended = entity.properties().status.is_suspended();
        let rows_per_message = match entity.properties().keeps_sessions() {
            true => SESSION_ROWS_PER_MESSAGE,
            false => ROWS_PER_MESSAGE,
        };
        let count_max = (APPLY_ROWS_MAX as usize / rows_per_message).min(self.count_max as usize);
        match self.kind {
            DeadlineKind::Duplicate => {
                let history = entity.history();
                fired.more = history.is_some_and(|mut history| history.trim(count_max));
            }
            _ if suspended => (),
            DeadlineKind::Scheduled if entity.row.kind() == EntityKind::Topic => {
                publish::fire(step, self.entity, count_max, &mut fired);
            }
            DeadlineKind::Matching => publish::go_on(step, self.entity, count_max, &mut fired),
            DeadlineKind::Scheduled => {
                fire_scheduled(&mut entity, count_max, &mut fired);
                entity.end_schedule(&fired);
            }
            DeadlineKind::Fixed => fire_fixed(&mut entity.messages(), count_max, &mut fired),
            DeadlineKind::Derived => fire_derived(&mut entity.messages(), count_max, &mut fired),
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

/// SCHED-5, SCHED-7: in order of (due, number), each appended as if it were sent now.
fn fire_scheduled<R: Rows>(entity: &mut EntityStep<'_, R>, count_max: usize, fired: &mut Fired) {
    let mut messages = entity.messages();
    let (due, next) = messages.deadlines().due(DeadlineKind::Scheduled, count_max);
    fired.more = next.is_some();
    messages.deadlines().take_off(DeadlineKind::Scheduled, &due, next);
    let numbers: Vec<_> = due.iter().map(|deadline| deadline.number).collect();
    let rows = messages.view.all_scheduled(messages.id, &numbers);
    for (Deadline { due, number, .. }, row) in due.into_iter().zip(rows) {
        let mut messages = entity.messages();
        messages.leave_schedule(number, &row, Move::Activate);
        let message = MessageRow {
            body: number,
            size_bytes: row.size_bytes,
            header_bytes: row.header_bytes,
            deferred: false,
            was_scheduled: messages.view.level.tells_schedules(),
            delivery_count: 0,
            enqueued_at: messages.at,
            // TTL-19, TTL-20: the clock starts now, under the default as it is now.
            lifetime: messages.row.lifetime(row.ttl, messages.at),
            session: row.session,
            overlay: None,
            travel: row.travel,
        };
        let scheduled_as = number;
        let number = entity.next_sequence();
        let expires_at = entity.row.expires_at(&message);
        entity.view.note_event(entity.row, entity.main(), number, || LifeStep::Activated {
            scheduled_as,
            due,
            expires_at,
        });
        entity.messages().append(number, message);
        entity.tally.count(Deed::Activated);
        entity.tally.late(entity.at.since(due));
        fired.activated += 1;
        fired.note_late(due, entity.at);
    }
}

/// A locked message is shielded (TTL-11) and a deferred one is asked for by number (DEFER-8):
/// their deadlines are taken off, because release and retrieval look for themselves. A fresh one
/// is neither, and is dropped without a look at it.
fn fire_fixed<R: Rows>(messages: &mut Messages<'_, R>, count_max: usize, fired: &mut Fired) {
    let (due, next) = messages.deadlines().due(DeadlineKind::Fixed, count_max);
    fired.more = next.is_some();
    messages.deadlines().take_off(DeadlineKind::Fixed, &due, next);
    let queue = messages.main();
    let drops = !messages.row.properties.dead_letter_on_expiration;
    let head = messages.state.fresh_head[SubQueue::Main as usize];
    let known = |deadline: &Deadline| match deadline.row {
        Some(row) if drops && deadline.number >= head => Some(row),
        _ => None,
    };
    let unknown = due.iter().filter(|deadline| known(deadline).is_none());
    let numbers: Vec<_> = unknown.map(|deadline| deadline.number).collect();
    let mut looked_up = messages.view.all_stored(queue, &numbers).into_iter();
    for deadline in due {
        if let Some(row) = known(&deadline) {
            messages.drop_fresh(deadline.number, deadline.due, &row);
            fired.note(Fate::Dropped, deadline.due, messages.at);
        } else if let Some((number, message)) = looked_up.next() {
            let stored = messages.places().locate(queue, number, message);
            expire_unshielded(messages, stored, deadline.due, fired);
        }
    }
}

/// Messages that inherit the default expire in enqueue order: the cursor passes what is due,
/// expired or shielded, and what has a deadline of its own, and stands at the first that is
/// neither (TTL-24).
fn fire_derived<R: Rows>(messages: &mut Messages<'_, R>, count_max: usize, fired: &mut Fired) {
    let queue = messages.main();
    let (ahead, end) = messages.deadlines().ahead_of_cursor(count_max);
    // While all from the fresh head on is expired, the head passes it too.
    let main = SubQueue::Main as usize;
    let mut at_head = messages.state.derived_cursor <= messages.state.fresh_head[main];
    let mut cursor = end.unwrap_or(messages.state.next_sequence);
    fired.more = end.is_some();
    for (number, message) in ahead {
        let due = messages.row.expires_at(&message);
        let is_derived = message.lifetime == Lifetime::Derived;
        if is_derived && due > messages.at {
            cursor = number;
            fired.more = false;
            break;
        }
        let is_fresh = message.session.is_none() && number >= messages.state.fresh_head[main];
        let ends = is_derived && {
            let stored = messages.places().locate(queue, number, message);
            expire_unshielded(messages, stored, due, fired)
        };
        if is_fresh && at_head && ends {
            messages.places().pass_head(queue, number);
        } else if is_fresh {
            at_head = false;
        }
    }
    messages.deadlines().set_cursor(cursor);
}

/// Ends a message that is due, unless it is shielded where it is; whether it was not.
fn expire_unshielded<R: Rows>(
    messages: &mut Messages<'_, R>,
    stored: Stored,
    due: Timestamp,
    fired: &mut Fired,
) -> bool {
    if !stored.allows(Move::Expire) {
        return false;
    }
    let detached = messages.places().detach(stored, Move::Expire);
    let fate = messages.expire(detached);
    fired.note(fate, due, messages.at);
    true
}
