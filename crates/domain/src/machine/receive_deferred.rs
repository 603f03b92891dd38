//! `ReceiveDeferred`: takes deferred messages by number, under locks (DEFER-2 to DEFER-4).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::read::{Shown, delivery};
use crate::{
    HeldLock, Key, MessageRow, Outcome, QueueId, ReceiveDeferred, ReceiverId, Refusal, Rows,
    SequenceNumber, SessionLock, SessionToken, validate,
};

impl ReceiveDeferred {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.queue.entity)?;
        entity.check_take(self.queue)?;
        if entity.needs_session(self.queue) {
            return Err(Refusal::SessionLockLost { session: None }); // DEFER-10.
        }
        entity.receive_deferred(self.queue, self.receiver, self.numbers, None)
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// All or nothing, with one exception: a message that ran out of time is refused, and by being
    /// asked for it expires (DEFER-8). One delivered too often is treated alike (LOCK-22).
    /// `hold`: the session the caller holds, where there must be one (DEFER-10).
    pub fn receive_deferred(
        &mut self,
        queue: QueueId,
        receiver: ReceiverId,
        numbers: Vec<SequenceNumber>,
        hold: Option<(&SessionToken, SessionLock)>,
    ) -> Result<Outcome, Refusal> {
        validate::count("number of messages in one request", numbers.len())?;
        let mut seen = BTreeSet::new();
        let mut found = Vec::with_capacity(numbers.len());
        let mut refusal = None;
        for number in numbers {
            let not_found = Refusal::MessageNotFound { sequence: number, needs: "deferred" };
            let message = self.view.message(queue, number).filter(|message| message.deferred);
            let (true, Some(message)) = (seen.insert(number), message) else {
                refusal.get_or_insert(not_found);
                continue;
            };
            if message.session.as_ref() != hold.map(|(token, _)| &token.session) {
                let session = message.session;
                refusal.get_or_insert(Refusal::SessionLockLost { session });
            } else if self.is_locked(queue, number, &message) {
                refusal.get_or_insert(not_found);
            } else if self.is_expired(queue, &message) {
                self.unlist_deferred(number, &message);
                self.expire(number, message);
                refusal.get_or_insert(not_found);
            } else if self.is_exhausted(queue, &message) {
                self.unlist_deferred(number, &message);
                self.exhaust(number, message);
                refusal.get_or_insert(not_found);
            } else {
                found.push((number, message));
            }
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let mut deliveries = Vec::with_capacity(found.len());
        for (number, message) in found {
            let lock = self.lock_deferred(queue, number, receiver, &message, hold);
            let shown = Shown::Delivered(lock);
            deliveries.push(delivery(&self.entity.row, queue, number, message, shown));
        }
        self.used();
        Ok(Outcome::Acquired { deliveries, more: false })
    }

    fn is_locked(&mut self, queue: QueueId, number: SequenceNumber, message: &MessageRow) -> bool {
        match &message.session {
            Some(session) => self.view.session_held(self.id, session, number).is_some(),
            None => self.view.contains(&Key::Lock(queue, number)),
        }
    }

    fn lock_deferred(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        receiver: ReceiverId,
        message: &MessageRow,
        hold: Option<(&SessionToken, SessionLock)>,
    ) -> HeldLock {
        match hold {
            Some((token, lock)) => {
                self.unlist_deferred(number, message);
                self.hold(&token.session, number, receiver, lock.until)
            }
            None => self.lock(queue, number, receiver),
        }
    }
}
