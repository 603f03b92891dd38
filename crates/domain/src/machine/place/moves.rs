//! Moves messages from place to place: the one writing of the rows, counts and heads that say where a
//! message is.

use std::ops::ControlFlow;

use crate::machine::place::{Detached, Goal, Move, Place, Places, Stored};
use crate::{
    Effect, Key, LockRow, LockToken, MessageRow, QueueId, Row, Rows, SequenceNumber, SubQueue,
};

impl<R: Rows> Places<'_, R> {
    /// Takes a message out of its place. Which places a move is for is not up to clients: whoever
    /// cannot know asks first ([`Stored::allows`]).
    pub fn detach(&mut self, stored: Stored, by: Move) -> Detached {
        let Stored { queue, number, message, place } = stored;
        let goal = self.leave(queue, number, place, by);
        Detached { queue, number, message, goal }
    }

    /// As [`Places::detach`], of the lowest message there is: if that is fresh, nothing available is
    /// left up to and including it.
    pub fn detach_lowest(&mut self, stored: Stored, by: Move) -> Detached {
        if stored.is_fresh() {
            self.pass_head(stored.queue, stored.number);
        }
        self.detach(stored, by)
    }

    /// Takes whatever is at a place out of it: here its rows go, in [`Places::enter`] they come.
    pub fn leave(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        place: Place,
        by: Move,
    ) -> Goal {
        let goal = place.after(by);
        let goal = goal.unwrap_or_else(|| panic!("{by:?} of {number}, which is {place:?}"));
        let sub = queue.sub as usize;
        match place {
            Place::Scheduled(session) => {
                self.view.delete(Key::Scheduled(self.id, number));
                self.state.counts.scheduled -= 1;
                if let Some(session) = session {
                    self.sessions().take_scheduled(&session, number);
                }
            }
            Place::Fresh => {
                let head = &mut self.state.fresh_head[sub];
                if *head == number {
                    *head = number.next();
                }
                self.sink(queue.sub);
            }
            Place::Returned => {
                self.view.delete(Key::Returned(queue, number));
                self.state.returned[sub] -= 1;
                let low = &mut self.state.returned_low[sub];
                if *low == number {
                    *low = number.next();
                }
                self.sink(queue.sub);
            }
            Place::Ready(session) => {
                self.sessions().take_ready(&session, number);
                self.state.available[sub] -= 1;
            }
            Place::Locked { lock, .. } => {
                self.view.delete(Key::Lock(queue, number));
                let token = LockToken { sequence: number, nonce: lock.nonce };
                self.effects.push(Effect::Unlocked { queue, token });
            }
            Place::Held { session, .. } => self.sessions().unhold(&session, number),
            Place::Deferred(Some(session)) => self.sessions().take_deferred(&session, number),
            Place::Deferred(None) => (),
            // The row that names many goes as a whole.
            Place::SetAside => (),
        }
        goal
    }

    /// Puts a message that is nowhere into a place.
    pub fn enter(&mut self, queue: QueueId, number: SequenceNumber, place: Place) {
        let sub = queue.sub as usize;
        match place {
            Place::Scheduled(session) => {
                self.state.counts.scheduled += 1;
                if let Some(session) = session {
                    self.sessions().put_scheduled(&session, number);
                }
            }
            Place::Fresh => self.rise(queue.sub, number),
            Place::Returned => {
                self.view.insert(Key::Returned(queue, number), Row::Returned);
                let low = &mut self.state.returned_low[sub];
                *low = if self.state.returned[sub] == 0 { number } else { (*low).min(number) };
                self.state.returned[sub] += 1;
                self.rise(queue.sub, number);
            }
            Place::Ready(session) => {
                self.sessions().put_ready(&session, number);
                self.rise(queue.sub, number);
            }
            Place::Locked { lock, .. } => {
                self.view.insert(Key::Lock(queue, number), Row::Lock(lock));
                let token = LockToken { sequence: number, nonce: lock.nonce };
                self.effects.push(Effect::Locked { queue, token, until: lock.until });
            }
            Place::Held { session, held, .. } => self.sessions().hold(&session, number, held),
            Place::Deferred(Some(session)) => self.sessions().put_deferred(&session, number),
            Place::Deferred(None) => (),
            // Whoever sets it aside writes the row that names many.
            Place::SetAside => (),
        }
    }

    /// LOCK-13: a lock of the message's own goes on. The message stays where it is.
    pub fn renew(&mut self, queue: QueueId, number: SequenceNumber, lock: LockRow) {
        self.view.replace(Key::Lock(queue, number), Row::Lock(lock));
        let token = LockToken { sequence: number, nonce: lock.nonce };
        self.effects.push(Effect::Locked { queue, token, until: lock.until });
    }

    /// Puts a message that is new to the queue where it can be received.
    pub fn enter_new(&mut self, queue: QueueId, number: SequenceNumber, message: &MessageRow) {
        match &message.session {
            // It joins its session as well: that is one change of the session's row.
            Some(session) => {
                self.sessions().join(session, number);
                self.rise(queue.sub, number);
            }
            None => self.enter(queue, number, Place::Fresh),
        }
    }

    /// Sets a message aside: its number is the caller's to write down.
    pub fn put_aside(&mut self, detached: Detached) {
        self.enter(detached.queue, detached.number, Place::SetAside);
    }

    /// Where a message is available: the place follows from its session and its number.
    pub fn available(&self, queue: QueueId, number: SequenceNumber, message: &MessageRow) -> Place {
        match &message.session {
            Some(session) => Place::Ready(session.clone()),
            None if number < self.state.fresh_head[queue.sub as usize] => Place::Returned,
            None => Place::Fresh,
        }
    }

    /// One more can be received.
    fn rise(&mut self, sub: SubQueue, number: SequenceNumber) {
        self.state.available[sub as usize] += 1;
        let rose = &mut self.watch.rose[sub as usize];
        *rose =
            Some(rose.map_or((number, number), |(low, high)| (low.min(number), high.max(number))));
    }

    /// One less can be received, of those without a session.
    fn sink(&mut self, sub: SubQueue) {
        let (state, of) = (&mut *self.state, sub as usize);
        state.available[of] -= 1;
        // Nothing is fresh: whatever is sent next is at or above the next number.
        if sub == SubQueue::Main && state.available[of] == state.returned[of] {
            state.fresh_head[of] = state.next_sequence;
        }
    }

    /// Makes a fresh message the lowest fresh one (SEL-6): those before it become returned ones. In so many
    /// rows; false if that is too few, and then only the lowest of them have.
    pub fn advance_head(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        rows_max: usize,
    ) -> bool {
        /// Each is visited, and gets a row.
        const ROWS_EACH: usize = 2;
        let sub = queue.sub as usize;
        let (head, count_max) = (self.state.fresh_head[sub], rows_max / ROWS_EACH);
        let (mut before, mut reached) = (Vec::new(), true);
        self.view.scan_messages(queue, head, self.issued_from, &mut |found, _| {
            if found >= number {
                return ControlFlow::Break(());
            }
            reached = before.len() < count_max;
            if reached {
                before.push(found);
                return ControlFlow::Continue(());
            }
            ControlFlow::Break(())
        });
        if let (Some(first), 0) = (before.first(), self.state.returned[sub]) {
            self.state.returned_low[sub] = *first;
        }
        self.state.returned[sub] += before.len() as u64;
        for found in &before {
            self.view.insert(Key::Returned(queue, *found), Row::Returned);
        }
        self.state.fresh_head[sub] = match (reached, before.last()) {
            (true, _) => number,
            (false, Some(last)) => last.next(),
            (false, None) => head,
        };
        reached
    }

    /// Nothing is fresh up to and including this number.
    pub fn pass_head(&mut self, queue: QueueId, number: SequenceNumber) {
        let head = &mut self.state.fresh_head[queue.sub as usize];
        *head = (*head).max(number.next());
    }
}
