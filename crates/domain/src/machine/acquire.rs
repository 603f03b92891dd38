//! `Acquire`: hands out available messages under locks, lowest number first (LOCK-7).

use crate::machine::Step;
use crate::machine::messages::Messages;
use crate::machine::place::{Move, Stored};
use crate::machine::view::Budget;
use crate::{APPLY_ROWS_MAX, Acquire, Delivery, Outcome, Refusal, Rows};

/// Returned messages looked up at a time.
const RETURNED_CHUNK: usize = 64;
/// Messages past their time or their deliveries that one acquire clears away. A backlog of them is
/// cleared by many: whoever shares the entry, or the group, waits for little of it.
const CLEARED_MAX: usize = 256;

impl Acquire {
    /// Returned messages first: all of them are below the fresh head. What ran out of time or of
    /// deliveries is met here as well (TTL-9, TTL-33, LOCK-22); it counts against the row bound.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.queue.entity)?;
        entity.row.check_take(self.queue)?;
        entity.row.check_sessionless(self.queue)?;
        entity.used();
        let mut messages = entity.messages();
        let budget = messages.view.budget(APPLY_ROWS_MAX);
        let available = messages.state.available[self.queue.sub as usize];
        let count_max = u64::from(self.count_max).min(available) as usize;
        let mut taken = Acquisition {
            acquire: &self,
            budget,
            bytes: 0,
            cleared: 0,
            deliveries: Vec::with_capacity(count_max.min(APPLY_ROWS_MAX as usize / 2)),
        };
        taken.returned(&mut messages);
        taken.fresh(&mut messages);
        let deliveries = taken.deliveries;
        let left = messages.state.available[self.queue.sub as usize];
        let more = left > 0 && deliveries.len() < self.count_max as usize;
        Ok(Outcome::Acquired { deliveries, more })
    }
}

/// What an acquire handed out so far.
struct Acquisition<'c> {
    acquire: &'c Acquire,
    budget: Budget,
    bytes: u64,
    cleared: usize,
    deliveries: Vec<Delivery>,
}

impl Acquisition<'_> {
    /// How many more messages may be looked at; each costs up to four rows besides.
    fn room<R: Rows>(&self, messages: &Messages<'_, R>) -> usize {
        if self.bytes >= u64::from(self.acquire.bytes_max) && !self.deliveries.is_empty() {
            return 0;
        }
        let wanted = self.acquire.count_max as usize - self.deliveries.len();
        let affordable = messages.view.left(self.budget).div_ceil(ROWS_PER_MESSAGE);
        wanted.min(affordable).min(CLEARED_MAX - self.cleared)
    }

    fn returned<R: Rows>(&mut self, messages: &mut Messages<'_, R>) {
        let queue = self.acquire.queue;
        let sub = queue.sub as usize;
        while messages.state.returned[sub] > 0 {
            let room = self.room(messages).min(RETURNED_CHUNK);
            if room == 0 {
                return;
            }
            for number in messages.places().returned_numbers(queue, room) {
                if self.room(messages) == 0 {
                    return;
                }
                let stored = messages.places().returned(queue, number);
                self.take(messages, stored);
            }
        }
    }

    fn fresh<R: Rows>(&mut self, messages: &mut Messages<'_, R>) {
        let queue = self.acquire.queue;
        let sub = queue.sub as usize;
        while messages.state.available[sub] > messages.state.returned[sub] {
            let room = self.room(messages);
            if room == 0 {
                return;
            }
            let bytes_max = u64::from(self.acquire.bytes_max).saturating_sub(self.bytes);
            for stored in messages.places().fresh(queue, room, bytes_max) {
                // A queue may be full of these, and a look for each deadline would take most of the time.
                if messages.is_expired(queue, &stored.message) {
                    let lifetime = stored.message.lifetime;
                    messages.deadlines().remove_fresh_deadline(stored.number, lifetime);
                }
                self.take(messages, stored);
            }
        }
    }

    /// Delivers the lowest available message, or acts on what keeps it from being delivered.
    fn take<R: Rows>(&mut self, messages: &mut Messages<'_, R>, stored: Stored) {
        let taken = messages.places().detach_lowest(stored, Move::Receive);
        match messages.fit(taken) {
            Ok(fit) => {
                self.bytes += u64::from(fit.message().size_bytes);
                self.deliveries.push(messages.deliver(fit, self.acquire.receiver));
            }
            Err(_) => self.cleared += 1,
        }
    }
}

/// What looking at one message costs at most: its row, the row that says it is returned, its body,
/// its deadline or its lock.
pub(super) const ROWS_PER_MESSAGE: usize = 6;
