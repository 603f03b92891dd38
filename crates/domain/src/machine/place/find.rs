//! Finds messages and their places: of one message, or the first messages of a place.

use std::ops::ControlFlow;

use crate::machine::place::{Place, Places, Stored};
use crate::machine::session::OpenSession;
use crate::{
    HeldRow, Key, LockRow, LockToken, MessageRow, QueueId, Rows, SequenceNumber, SessionId,
    Timestamp,
};

impl<R: Rows> Places<'_, R> {
    /// A stored message in its place: the one reading of the rows that say where it is.
    pub fn locate(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        message: MessageRow,
    ) -> Stored {
        let place = match &message.session {
            None => self.place(queue, number, message.deferred),
            Some(session) => self.place_in_session(number, session.clone(), message.deferred),
        };
        Stored { queue, number, message, place }
    }

    fn place(&mut self, queue: QueueId, number: SequenceNumber, deferred: bool) -> Place {
        if !deferred && number >= self.state.fresh_head[queue.sub as usize] {
            return Place::Fresh;
        }
        if !deferred && self.view.contains(&Key::Returned(queue, number)) {
            return Place::Returned;
        }
        match self.view.lock(queue, number) {
            Some(lock) => Place::Locked { lock, deferred },
            None if deferred => Place::Deferred(None),
            None => Place::SetAside,
        }
    }

    fn place_in_session(
        &mut self,
        number: SequenceNumber,
        session: SessionId,
        deferred: bool,
    ) -> Place {
        if !deferred && self.sessions().is_ready(&session, number) {
            return Place::Ready(session);
        }
        match self.view.session_held(self.id, &session, number) {
            Some(held) => Place::Held { session, held, deferred },
            None if deferred => Place::Deferred(Some(session)),
            None => Place::SetAside,
        }
    }

    /// A message that a row of its place names.
    fn named(&mut self, queue: QueueId, number: SequenceNumber, place: Place) -> Stored {
        let message = self.view.stored(queue, number);
        Stored { queue, number, message, place }
    }

    /// A message that a `Returned` row names.
    pub fn returned(&mut self, queue: QueueId, number: SequenceNumber) -> Stored {
        self.named(queue, number, Place::Returned)
    }

    /// A message that a shipment names, or a parked lot.
    pub fn set_aside(&mut self, queue: QueueId, number: SequenceNumber) -> Stored {
        self.named(queue, number, Place::SetAside)
    }

    /// A message under a lock of its own.
    pub fn locked(&mut self, queue: QueueId, number: SequenceNumber, lock: LockRow) -> Stored {
        let message = self.view.stored(queue, number);
        let place = Place::Locked { lock, deferred: message.deferred };
        Stored { queue, number, message, place }
    }

    /// A message under the lock of its session.
    pub fn held_in(
        &mut self,
        session: &SessionId,
        number: SequenceNumber,
        held: HeldRow,
    ) -> Stored {
        let queue = QueueId::main(self.id);
        let message = self.view.stored(queue, number);
        let place = Place::Held { session: session.clone(), held, deferred: message.deferred };
        Stored { queue, number, message, place }
    }

    /// The lock of a token, if it is held (LOCK-14, TIME-5).
    pub fn held(&mut self, queue: QueueId, token: LockToken) -> Option<LockRow> {
        let lock = self.view.lock(queue, token.sequence)?;
        (lock.nonce == token.nonce && self.at < lock.until).then_some(lock)
    }

    /// A message that is held by this token under a lock of its own.
    pub fn held_locked(&mut self, queue: QueueId, token: LockToken) -> Option<Stored> {
        let lock = self.held(queue, token)?;
        Some(self.locked(queue, token.sequence, lock))
    }

    /// A message whose lock of this token lapsed, and when.
    pub fn lapsed(&mut self, queue: QueueId, token: LockToken) -> Option<(Stored, Timestamp)> {
        let lock = self.view.lock(queue, token.sequence)?;
        let lapsed = lock.nonce == token.nonce && lock.until <= self.at;
        lapsed.then(|| (self.locked(queue, token.sequence, lock), lock.until))
    }

    /// A message that is held by this token under its session's lock.
    pub fn held_in_session(&mut self, token: LockToken) -> Option<Stored> {
        let (queue, number) = (QueueId::main(self.id), token.sequence);
        let message = self.view.message(queue, number)?;
        let session = message.session.clone()?;
        let held = self.view.session_held(self.id, &session, number);
        let lock = self.view.session(self.id, &session).and_then(|row| row.lock);
        let held = held.filter(|held| held.nonce == token.nonce)?;
        lock.filter(|lock| self.at < lock.until)?;
        let place = Place::Held { session, held, deferred: message.deferred };
        Some(Stored { queue, number, message, place })
    }

    /// The numbers of the lowest returned messages, of which there are some.
    pub fn returned_numbers(&mut self, queue: QueueId, count_max: usize) -> Vec<SequenceNumber> {
        let low = self.state.returned_low[queue.sub as usize];
        let from = Key::Returned(queue, low);
        let to = Key::Returned(queue, SequenceNumber::MAX);
        let mut numbers = Vec::with_capacity(count_max);
        for key in self.view.keys(&from, &to, count_max) {
            if let Key::Returned(_, number) = key {
                numbers.push(number);
            }
        }
        let first = numbers.first().expect("returned messages are counted, but there is no row");
        self.state.returned_low[queue.sub as usize] = *first;
        numbers
    }

    /// The lowest fresh messages, of which there are some, up to the one that reaches so many bytes.
    pub fn fresh(&mut self, queue: QueueId, count_max: usize, bytes_max: u64) -> Vec<Stored> {
        let (state, sub) = (&*self.state, queue.sub as usize);
        let fresh = (state.available[sub] - state.returned[sub]).min(count_max as u64) as usize;
        let head = state.fresh_head[sub];
        let mut bytes = 0;
        let mut messages = Vec::with_capacity(fresh);
        self.view.scan_messages(queue, head, self.issued_from, &mut |number, message| {
            bytes += u64::from(message.size_bytes);
            let (message, place) = (message.clone(), Place::Fresh);
            messages.push(Stored { queue, number, message, place });
            match messages.len() >= fresh || bytes >= bytes_max {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        assert!(!messages.is_empty(), "fresh messages are counted, but none is stored");
        messages
    }

    /// The lowest available messages of a queue that needs no session: returned ones, or if there are
    /// none, fresh ones up to the one that reaches so many bytes.
    pub fn lowest(&mut self, queue: QueueId, count_max: usize, bytes_max: u64) -> Vec<Stored> {
        if self.state.returned[queue.sub as usize] == 0 {
            return self.fresh(queue, count_max, bytes_max);
        }
        let numbers = self.returned_numbers(queue, count_max);
        numbers.into_iter().map(|number| self.returned(queue, number)).collect()
    }

    /// The lowest available messages of a session.
    pub fn lowest_in(&mut self, session: &mut OpenSession, count_max: usize) -> Vec<Stored> {
        let numbers = self.sessions().ready(session, count_max).into_iter();
        let stored =
            |number| self.named(QueueId::main(self.id), number, Place::Ready(session.id.clone()));
        numbers.map(stored).collect()
    }
}
