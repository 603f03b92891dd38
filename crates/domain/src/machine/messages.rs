//! A message's life in an entity: it comes, is delivered, comes back, is dead-lettered, goes. Where it
//! is at each step is `place`'s; here are its own row, its body, its deadline, and what it counts for.

mod ends;

pub(super) use ends::{Fate, Fit};

use crate::machine::deadlines::Deadlines;
use crate::machine::entity::Watch;
use crate::machine::nonce::Nonces;
use crate::machine::place::{Detached, Goal, Move, Place, Places};
use crate::machine::session::SessionLists;
use crate::machine::shipments::Shipments;
use crate::machine::view::View;
use crate::read::{Shown, delivery};
use crate::{
    DeadlineKind, Deed, Delivery, DeliveryEnd, Effect, EntityId, EntityRow, EntityState, HeldLock,
    HeldRow, Key, LifeStep, Lifetime, LockRow, LockToken, MessageRow, QueueId, ReceiverId, Row,
    Rows, ScheduledRow, SequenceNumber, SessionId, SessionLock, SubQueue, Tally, Timestamp,
};

/// The messages of one entity at work. Its description is looked at and not changed.
pub(super) struct Messages<'s, R> {
    pub id: EntityId,
    pub at: Timestamp,
    pub row: &'s EntityRow,
    pub state: &'s mut EntityState,
    pub watch: &'s mut Watch,
    pub tally: &'s mut Tally,
    /// As [`View::scan_messages`] has it.
    pub issued_from: SequenceNumber,
    pub view: &'s mut View<R>,
    pub effects: &'s mut Vec<Effect>,
    pub nonces: &'s mut Nonces,
}

/// What needs less.
impl<R: Rows> Messages<'_, R> {
    pub fn places(&mut self) -> Places<'_, R> {
        Places {
            id: self.id,
            at: self.at,
            state: self.state,
            watch: self.watch,
            issued_from: self.issued_from,
            view: self.view,
            effects: self.effects,
        }
    }

    pub fn deadlines(&mut self) -> Deadlines<'_, R> {
        Deadlines {
            id: self.id,
            at: self.at,
            state: self.state,
            stale: &mut self.watch.stale,
            issued_from: self.issued_from,
            view: self.view,
        }
    }

    pub fn sessions(&mut self) -> SessionLists<'_, R> {
        let totals = &mut self.state.sessions;
        SessionLists { id: self.id, at: self.at, totals, watch: self.watch, view: self.view }
    }

    pub fn shipments(&mut self) -> Shipments<'_, R> {
        let forwarding = &mut self.state.forwarding;
        Shipments { forwarding, view: self.view, effects: self.effects }
    }

    pub fn main(&self) -> QueueId {
        QueueId::main(self.id)
    }

    /// Notes a step of a message that is taken out of its place.
    pub fn note(&mut self, detached: &Detached, step: impl FnOnce() -> LifeStep) {
        self.view.note_event(self.row, detached.queue, detached.number, step);
    }

    fn note_locked(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        message: &MessageRow,
        lock: LockRow,
    ) {
        let LockRow { nonce, until, receiver } = lock;
        let delivery_count = message.delivery_count;
        self.tally.delivered(message.size_bytes);
        let step = || LifeStep::Locked { nonce, until, delivery_count, receiver };
        self.view.note_event(self.row, queue, number, step);
    }
}

/// In.
impl<R: Rows> Messages<'_, R> {
    /// Appends a message under a fresh number. Its body is stored already, or will be.
    pub fn append(&mut self, number: SequenceNumber, message: MessageRow) {
        let queue = self.main();
        self.deadlines().add_lifetime(number, &message);
        self.state.counts.active += 1;
        self.places().enter_new(queue, number, &message);
        self.view.insert(Key::Message(queue, number), Row::Message(message));
    }

    /// Puts a message into the schedule. Its body is stored already, or will be.
    pub fn enter_schedule(&mut self, number: SequenceNumber, row: ScheduledRow) {
        let (queue, place) = (self.main(), self.scheduled(&row));
        self.deadlines().add(DeadlineKind::Scheduled, row.due, number, None);
        self.view.insert(Key::Scheduled(self.id, number), Row::Scheduled(row));
        self.places().enter(queue, number, place);
    }

    /// Takes a message out of the schedule. Its body stays, and its time is the caller's to take off.
    pub fn leave_schedule(&mut self, number: SequenceNumber, row: &ScheduledRow, by: Move) {
        let (queue, place) = (self.main(), self.scheduled(row));
        self.places().leave(queue, number, place, by);
    }

    /// A topic lists no sessions: its subscriptions may have some.
    fn scheduled(&self, row: &ScheduledRow) -> Place {
        let listed = self.row.properties.keeps_sessions();
        Place::Scheduled(row.session.clone().filter(|_| listed))
    }

    /// FWD-14: a message is on its way from the start. Its number is the caller's to write down.
    pub fn enter_transfer(&mut self, number: SequenceNumber, message: MessageRow) {
        let queue = QueueId::transfer(self.id);
        self.view.insert(Key::Message(queue, number), Row::Message(message));
        self.state.counts.transfer += 1;
        self.places().pass_head(queue, number);
        self.places().enter(queue, number, Place::SetAside);
    }
}

/// Delivered, and back.
impl<R: Rows> Messages<'_, R> {
    /// LOCK-4 to LOCK-6: hands a message to a receiver, under a lock of its own.
    pub fn deliver(&mut self, fit: Fit, receiver: ReceiverId) -> Delivery {
        let Detached { queue, number, message, .. } = fit.into_detached();
        let nonce = self.nonces.draw();
        let until = self.at.plus(self.row.properties.lock_duration);
        let lock = LockRow { nonce, until, receiver };
        self.note_locked(queue, number, &message, lock);
        self.places().enter(queue, number, Place::Locked { lock, deferred: message.deferred });
        self.shown(queue, number, message, nonce, until)
    }

    /// SESS-10: hands a message to the holder of its session, for as long as that is held.
    pub fn deliver_in(
        &mut self,
        session: &SessionId,
        hold: SessionLock,
        fit: Fit,
        receiver: ReceiverId,
    ) -> Delivery {
        let Detached { queue, number, message, .. } = fit.into_detached();
        let nonce = self.nonces.draw();
        self.note_locked(queue, number, &message, LockRow { nonce, until: hold.until, receiver });
        let (session, held) = (session.clone(), HeldRow { nonce, receiver });
        let place = Place::Held { session, held, deferred: message.deferred };
        self.places().enter(queue, number, place);
        self.shown(queue, number, message, nonce, hold.until)
    }

    fn shown(
        &self,
        queue: QueueId,
        number: SequenceNumber,
        message: MessageRow,
        nonce: u64,
        until: Timestamp,
    ) -> Delivery {
        let lock = HeldLock { token: LockToken { sequence: number, nonce }, until };
        delivery(self.row, queue, number, message, Shown::Delivered(lock))
    }

    /// A delivery that was not completed ends. The order is TIME-7's: count, expiry (TTL-12, TTL-16),
    /// maximum delivery count (LOCK-21), availability. `modified`: the row differs from the stored one
    /// already.
    pub fn release(&mut self, mut detached: Detached, end: DeliveryEnd, modified: bool) -> Fate {
        let counted = end.counts() && self.count_failed(&mut detached);
        self.note(&detached, || end.step(detached.message.delivery_count));
        match end {
            DeliveryEnd::Abandoned => self.tally.count(Deed::Abandoned),
            DeliveryEnd::Released => self.tally.count(Deed::Released),
            DeliveryEnd::Lapsed { until, .. } => {
                self.tally.count(Deed::LockLapsed);
                self.tally.late(self.at.since(until));
            }
        }
        if self.row.properties.status.is_suspended() {
            // STATE-3: expiry waits for the entity's return.
            self.rearm(&detached);
        } else {
            match self.fit(detached) {
                Ok(fit) => detached = fit.into_detached(),
                Err(fate) => return fate,
            }
        }
        let goal = detached.goal();
        let Detached { queue, number, message, .. } = detached;
        let place = match goal == Goal::Deferred {
            true => Place::Deferred(message.session.clone()),
            false => self.places().available(queue, number, &message),
        };
        if counted || modified {
            self.view.replace(Key::Message(queue, number), Row::Message(message));
        }
        self.places().enter(queue, number, place);
        Fate::Kept
    }

    /// Puts the deadline of a message back that was passed while a lock shielded it.
    fn rearm(&mut self, detached: &Detached) {
        let Detached { queue, number, ref message, .. } = *detached;
        if detached.goal() == Goal::Deferred || !self.is_expired(queue, message) {
            return;
        }
        match message.lifetime {
            Lifetime::Fixed { expires_at, .. } => self.deadlines().put_back(expires_at, number),
            Lifetime::Derived => self.deadlines().search_derived_from(number),
            Lifetime::Inherited { .. } => (), // In no main queue.
        }
    }

    /// DEFER-1: from here on the message is asked for by its number. DEFER-7: its delivery failed, so
    /// it may have been the last.
    pub fn defer(&mut self, mut detached: Detached) {
        let counts = self.view.level.counts_deferrals() && self.count_failed(&mut detached);
        // If it was not, an expired one stays as well (DEFER-8).
        if counts && self.row.is_exhausted(detached.queue, &detached.message) {
            match self.fit(detached) {
                Ok(fit) => detached = fit.into_detached(),
                Err(_) => return,
            }
        }
        let Detached { queue, number, mut message, .. } = detached;
        self.view.note_event(self.row, queue, number, || LifeStep::Deferred);
        self.tally.count(Deed::Deferred);
        let session = message.session.clone();
        if !message.deferred {
            message.deferred = true;
            self.count_deferred(queue.sub);
            if let Some(session) = &session {
                self.sessions().defer(session);
            }
        }
        self.places().enter(queue, number, Place::Deferred(session));
        self.view.replace(Key::Message(queue, number), Row::Message(message));
    }

    /// LOCK-19: one delivery failed; whether it counts: in a dead-letter queue none does (DLQ-4).
    fn count_failed(&self, detached: &mut Detached) -> bool {
        let counts =
            !detached.queue.sub.is_dead_letter() || self.view.level.counts_in_dead_letter_queues();
        let count = &mut detached.message.delivery_count;
        *count = count.saturating_add(u32::from(counts));
        counts
    }

    fn count_deferred(&mut self, sub: SubQueue) {
        match sub {
            SubQueue::Main => {
                self.state.counts.active -= 1;
                self.state.counts.deferred += 1;
            }
            SubQueue::DeadLetter => self.state.dead_letter_deferred += 1,
            SubQueue::TransferDeadLetter => self.state.transfer_dead_letter_deferred += 1,
            SubQueue::Transfer => (), // Nobody receives from it.
        }
    }
}
