//! What the holder of a session does with its messages: `ReceiveSession`, in order (SESS-10),
//! `ReceiveSessionDeferred`, by number (DEFER-10), and `DeleteSessionBatch` (BATCH-7).

use crate::machine::Step;
use crate::machine::messages::Messages;
use crate::machine::place::{Move, Stored};
use crate::machine::receive_deferred::receive_deferred;
use crate::machine::session::{SESSION_ROWS_PER_MESSAGE, check_hold};
use crate::machine::view::Budget;
use crate::{
    APPLY_ROWS_MAX, Deed, DeleteSessionBatch, Delivery, LifeStep, Outcome, ReceiveSession,
    ReceiveSessionDeferred, Refusal, Rows, SessionId, SessionLock, validate,
};

/// Messages looked up at a time.
const CHUNK: usize = 64;

impl ReceiveSession {
    /// What ran out of time or of deliveries is met here as well (TTL-9, LOCK-22).
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        let lock = check_hold(&mut entity, &self.token)?;
        entity.used();
        let mut messages = entity.messages();
        let budget = messages.view.budget(APPLY_ROWS_MAX);
        let mut taken = Reception { deliveries: Vec::new(), bytes: 0 };
        loop {
            let room = self.room(&messages, &taken, budget);
            let found = lowest(&mut messages, &self.token.session, room);
            if found.is_empty() {
                break;
            }
            for stored in found {
                if self.room(&messages, &taken, budget) == 0 {
                    break;
                }
                taken.take(&mut messages, &self, lock, stored);
            }
        }
        let left = messages.sessions().open(&self.token.session).row.ready.count > 0;
        let more = left && taken.deliveries.len() < self.count_max as usize;
        Ok(Outcome::Acquired { deliveries: taken.deliveries, more })
    }

    /// How many more messages may be looked at.
    fn room<R: Rows>(
        &self,
        messages: &Messages<'_, R>,
        taken: &Reception,
        budget: Budget,
    ) -> usize {
        if taken.bytes >= u64::from(self.bytes_max) && !taken.deliveries.is_empty() {
            return 0;
        }
        let affordable = messages.view.left(budget) / SESSION_ROWS_PER_MESSAGE;
        (self.count_max as usize - taken.deliveries.len()).min(affordable).min(CHUNK)
    }
}

/// What a receive handed out so far.
struct Reception {
    deliveries: Vec<Delivery>,
    bytes: u64,
}

impl Reception {
    fn take<R: Rows>(
        &mut self,
        messages: &mut Messages<'_, R>,
        receive: &ReceiveSession,
        lock: SessionLock,
        stored: Stored,
    ) {
        let taken = messages.places().detach(stored, Move::Receive);
        let Ok(fit) = messages.fit(taken) else { return };
        self.bytes += u64::from(fit.message().size_bytes);
        let (session, receiver) = (&receive.token.session, receive.receiver);
        self.deliveries.push(messages.deliver_in(session, lock, fit, receiver));
    }
}

impl ReceiveSessionDeferred {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        let lock = check_hold(&mut entity, &self.token)?;
        let (queue, hold) = (entity.main(), Some((&self.token, lock)));
        receive_deferred(&mut entity, queue, self.receiver, self.numbers, hold)
    }
}

impl DeleteSessionBatch {
    /// As `DeleteBatch`: available messages only, and the walk ends at the first too young.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        check_hold(&mut entity, &self.token)?;
        validate::delete_count(self.count_max)?;
        entity.used();
        let mut messages = entity.messages();
        let before = self.before.unwrap_or(messages.at);
        let budget = messages.view.budget(APPLY_ROWS_MAX);
        let mut count = 0;
        loop {
            let wanted = (self.count_max - count) as usize;
            let room = messages.view.left(budget) / SESSION_ROWS_PER_MESSAGE;
            let count_max = wanted.min(room).min(CHUNK);
            let found = lowest(&mut messages, &self.token.session, count_max);
            if found.is_empty() {
                let left = messages.sessions().open(&self.token.session).row.ready.count > 0;
                return Ok(Outcome::Deleted { count, more: left && wanted > 0 });
            }
            for stored in found {
                if stored.message.enqueued_at >= before {
                    return Ok(Outcome::Deleted { count, more: false });
                }
                let detached = messages.places().detach(stored, Move::Delete);
                messages.note(&detached, || LifeStep::Deleted);
                messages.remove(detached);
                messages.state.counts.deleted += 1;
                messages.tally.count(Deed::Deleted);
                count += 1;
            }
        }
    }
}

/// The lowest available messages of a session.
fn lowest<R: Rows>(
    messages: &mut Messages<'_, R>,
    id: &SessionId,
    count_max: usize,
) -> Vec<Stored> {
    let mut session = messages.sessions().open(id);
    let lowest = messages.places().lowest_in(&mut session, count_max);
    messages.sessions().keep(session);
    lowest
}
