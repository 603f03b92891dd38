//! `ReceiveDeferred`: takes deferred messages by number, under locks (DEFER-2 to DEFER-4).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::place::Move;
use crate::{
    Outcome, QueueId, ReceiveDeferred, ReceiverId, Refusal, Rows, SequenceNumber, SessionLock,
    SessionToken, validate,
};

impl ReceiveDeferred {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.queue.entity)?;
        // What is deferred is not forwarded (LOCK-23).
        match entity.view.level.forwards_deferred() {
            true => entity.row.check_take(self.queue)?,
            false => entity.row.check_receive(self.queue)?,
        }
        if entity.row.needs_session(self.queue) {
            return Err(Refusal::SessionLockLost { session: None }); // DEFER-10.
        }
        receive_deferred(&mut entity, self.queue, self.receiver, self.numbers, None)
    }
}

/// All or nothing, with one exception: a message that ran out of time is refused, and by being
/// asked for it expires (DEFER-8). One delivered too often is treated alike (LOCK-22).
/// `hold`: the session the caller holds, where there must be one (DEFER-10).
pub(super) fn receive_deferred<R: Rows>(
    entity: &mut EntityStep<'_, R>,
    queue: QueueId,
    receiver: ReceiverId,
    numbers: Vec<SequenceNumber>,
    hold: Option<(&SessionToken, SessionLock)>,
) -> Result<Outcome, Refusal> {
    validate::count("number of messages in one request", numbers.len())?;
    let mut messages = entity.messages();
    let mut seen = BTreeSet::new();
    let mut found = Vec::with_capacity(numbers.len());
    let mut refusal = None;
    for number in numbers {
        let not_found = Refusal::MessageNotFound { sequence: number, needs: "deferred" };
        let message = messages.view.message(queue, number).filter(|message| message.deferred);
        let (true, Some(message)) = (seen.insert(number), message) else {
            refusal.get_or_insert(not_found);
            continue;
        };
        if message.session.as_ref() != hold.map(|(token, _)| &token.session) {
            let session = message.session;
            refusal.get_or_insert(Refusal::SessionLockLost { session });
            continue;
        }
        let stored = messages.places().locate(queue, number, message);
        if !stored.allows(Move::ReceiveDeferred) {
            refusal.get_or_insert(not_found);
        } else if messages.ends(queue, &stored.message) {
            messages.end(stored, Move::ReceiveDeferred);
            refusal.get_or_insert(not_found);
        } else {
            found.push(stored);
        }
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let mut deliveries = Vec::with_capacity(found.len());
    for stored in found {
        let detached = messages.places().detach(stored, Move::ReceiveDeferred);
        let Ok(fit) = messages.fit(detached) else { continue }; // Those that end did so above.
        deliveries.push(match hold {
            Some((token, lock)) => messages.deliver_in(&token.session, lock, fit, receiver),
            None => messages.deliver(fit, receiver),
        });
    }
    entity.used();
    Ok(Outcome::Acquired { deliveries, more: false })
}
