//! `Acquire`: hands out available messages under locks, lowest number first (LOCK-7).

use std::ops::ControlFlow;

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::view::Budget;
use crate::read::{Shown, delivery};
use crate::{
    APPLY_ROWS_MAX, Acquire, Delivery, Key, MessageRow, Outcome, QueueId, Refusal, Rows,
    SequenceNumber,
};

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
        entity.check_take(self.queue)?;
        entity.check_sessionless(self.queue)?;
        entity.used();
        let budget = entity.view.budget(APPLY_ROWS_MAX);
        let available = entity.entity.state.available[self.queue.sub as usize];
        let count_max = u64::from(self.count_max).min(available) as usize;
        let mut taken = Taken {
            acquire: &self,
            budget,
            bytes: 0,
            cleared: 0,
            deliveries: Vec::with_capacity(count_max.min(APPLY_ROWS_MAX as usize / 2)),
        };
        taken.returned(&mut entity);
        taken.fresh(&mut entity);
        let deliveries = taken.deliveries;
        let left = entity.entity.state.available[self.queue.sub as usize];
        let more = left > 0 && deliveries.len() < self.count_max as usize;
        Ok(Outcome::Acquired { deliveries, more })
    }
}

/// What an acquire handed out so far.
struct Taken<'c> {
    acquire: &'c Acquire,
    budget: Budget,
    bytes: u64,
    cleared: usize,
    deliveries: Vec<Delivery>,
}

impl Taken<'_> {
    /// How many more messages may be looked at; each costs up to four rows besides.
    fn room<R: Rows>(&self, entity: &EntityStep<'_, '_, R>) -> usize {
        if self.bytes >= u64::from(self.acquire.bytes_max) && !self.deliveries.is_empty() {
            return 0;
        }
        let wanted = self.acquire.count_max as usize - self.deliveries.len();
        let affordable = entity.view.left(self.budget).div_ceil(ROWS_PER_MESSAGE);
        wanted.min(affordable).min(CLEARED_MAX - self.cleared)
    }

    fn returned<R: Rows>(&mut self, entity: &mut EntityStep<'_, '_, R>) {
        let queue = self.acquire.queue;
        let sub = queue.sub as usize;
        while entity.entity.state.returned[sub] > 0 {
            let room = self.room(entity).min(RETURNED_CHUNK);
            if room == 0 {
                return;
            }
            for number in entity.returned(queue, room) {
                if self.room(entity) == 0 {
                    return;
                }
                let message = entity.view.message(queue, number);
                self.take(entity, number, message.expect("what is returned is stored"));
            }
        }
    }

    fn fresh<R: Rows>(&mut self, entity: &mut EntityStep<'_, '_, R>) {
        let queue = self.acquire.queue;
        let sub = queue.sub as usize;
        while entity.entity.state.available[sub] > entity.entity.state.returned[sub] {
            let room = self.room(entity);
            if room == 0 {
                return;
            }
            let bytes_max = u64::from(self.acquire.bytes_max).saturating_sub(self.bytes);
            for (number, message) in entity.fresh(queue, room, bytes_max) {
                // A queue may be full of these, and a look for each deadline would take most of the time.
                if entity.is_expired(queue, &message) {
                    entity.remove_fresh_deadline(number, message.lifetime);
                }
                self.take(entity, number, message);
                entity.pass_head(queue, number);
            }
        }
    }

    /// Locks an available message, or acts on what keeps it from being delivered.
    fn take<R: Rows>(
        &mut self,
        entity: &mut EntityStep<'_, '_, R>,
        number: SequenceNumber,
        message: MessageRow,
    ) {
        let queue = self.acquire.queue;
        entity.detach(queue, number, message.session.as_ref());
        if entity.is_expired(queue, &message) {
            entity.expire(number, message);
            self.cleared += 1;
        } else if entity.is_exhausted(queue, &message) {
            entity.exhaust(number, message);
            self.cleared += 1;
        } else {
            self.bytes += u64::from(message.size_bytes);
            let lock = entity.lock(queue, number, self.acquire.receiver);
            let shown = Shown::Delivered(lock);
            self.deliveries.push(delivery(&entity.entity.row, queue, number, message, shown));
        }
    }
}

/// What looking at one message costs at most: its row, the row that says it is returned, its body,
/// its deadline or its lock.
pub(super) const ROWS_PER_MESSAGE: usize = 6;

impl<R: Rows> EntityStep<'_, '_, R> {
    /// The lowest returned messages.
    pub fn returned(&mut self, queue: QueueId, count_max: usize) -> Vec<SequenceNumber> {
        let low = self.entity.state.returned_low[queue.sub as usize];
        let from = Key::Returned(queue, low);
        let to = Key::Returned(queue, SequenceNumber::MAX);
        let mut numbers = Vec::with_capacity(count_max);
        for key in self.view.keys(&from, &to, count_max) {
            if let Key::Returned(_, number) = key {
                numbers.push(number);
            }
        }
        let first = numbers.first().expect("returned messages are counted, but there is no row");
        self.state().returned_low[queue.sub as usize] = *first;
        numbers
    }

    /// The lowest fresh messages, up to the one that reaches so many bytes.
    pub fn fresh(
        &mut self,
        queue: QueueId,
        count_max: usize,
        bytes_max: u64,
    ) -> Vec<(SequenceNumber, MessageRow)> {
        let state = &self.entity.state;
        let sub = queue.sub as usize;
        let fresh = (state.available[sub] - state.returned[sub]).min(count_max as u64) as usize;
        let head = state.fresh_head[sub];
        let mut bytes = 0;
        let mut messages = Vec::with_capacity(fresh);
        self.scan_messages(queue, head, &mut |number, message| {
            bytes += u64::from(message.size_bytes);
            messages.push((number, message.clone()));
            match messages.len() >= fresh || bytes >= bytes_max {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        assert!(!messages.is_empty(), "fresh messages are counted, but none is stored");
        messages
    }
}
