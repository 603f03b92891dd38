//! `Settle`: complete, abandon, defer, dead-letter, release (LOCK-8 to LOCK-16).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::machine::messages::Messages;
use crate::machine::overlay::{explain, modify};
use crate::machine::place::{Move, Stored};
use crate::{
    DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON, Deed, DeliveryEnd, Disposition, LifeStep,
    LockToken, MessageRow, Outcome, Properties, QueueId, ReceiverId, Refusal, Rows, Settle,
    Settlement, validate,
};

impl Settle {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let queue = self.queue;
        let mut entity = step.open(queue.entity)?;
        entity.row.check_receive(queue)?;
        validate::count("number of settlements in one request", self.settlements.len())?;
        let mut messages = entity.messages();
        let mut refused = Vec::new();
        if self.atomic {
            // LOCK-17: all are checked before the first is done. A token given twice is settled, and
            // so not held, by the time its second turn comes (LOCK-8).
            let mut settled = BTreeSet::new();
            let mut checked = Vec::with_capacity(self.settlements.len());
            for settlement in self.settlements {
                if !settled.insert(settlement.token) {
                    return Err(lock_lost(&mut messages, queue, settlement.token));
                }
                checked.push(settlement.check(&mut messages, queue)?);
            }
            checked.into_iter().for_each(|checked| checked.settle(&mut messages));
        } else {
            for (index, settlement) in self.settlements.into_iter().enumerate() {
                match settlement.check(&mut messages, queue) {
                    Ok(checked) => checked.settle(&mut messages),
                    Err(refusal) => refused.push((index as u32, refusal)),
                }
            }
        }
        entity.used();
        Ok(Outcome::Settled { refused })
    }
}

impl Settlement {
    /// Everything that may refuse it. An expired message is settled like any other while its lock is
    /// held (TTL-11, TTL-13, TTL-14, DEFER-9).
    fn check<R: Rows>(
        self,
        messages: &mut Messages<'_, R>,
        queue: QueueId,
    ) -> Result<Checked, Refusal> {
        let Settlement { token, disposition } = self;
        if let Disposition::DeadLetter { reason, description, .. } = &disposition {
            if queue.sub.is_dead_letter() {
                let why = "a message in a dead-letter queue cannot be dead-lettered";
                return Err(Refusal::InvalidOperation { why });
            }
            validate::reason(reason.as_deref(), description.as_deref())?;
        }
        if disposition == Disposition::Withheld {
            return Err(lock_lost(messages, queue, token)); // TX-9.
        }
        let held = match messages.row.needs_session(queue) {
            true => messages.places().held_in_session(token),
            false => messages.places().held_locked(queue, token),
        };
        match held {
            Some(stored) => Checked::new(stored, disposition),
            None => Err(lock_lost(messages, queue, token)),
        }
    }
}

/// What a refused settlement lost: in a session, its session (SESS-13).
fn lock_lost<R: Rows>(messages: &mut Messages<'_, R>, queue: QueueId, token: LockToken) -> Refusal {
    match messages.row.needs_session(queue) {
        true => {
            let message = messages.view.message(queue, token.sequence);
            Refusal::SessionLockLost { session: message.and_then(|message| message.session) }
        }
        false => Refusal::MessageLockLost { token },
    }
}

/// A settlement that will not be refused.
struct Checked {
    /// With the properties to modify and the reason laid over it.
    stored: Stored,
    /// As it is stored.
    before_bytes: u32,
    modified: bool,
    to: To,
}

/// Where a settled message goes.
enum To {
    Gone,
    DeadLetter,
    Deferred,
    /// Or back to the deferred ones, if it is one of them (DEFER-6).
    Available {
        end: DeliveryEnd,
    },
}

impl To {
    fn by(&self) -> Move {
        match self {
            To::Gone => Move::Complete,
            To::DeadLetter => Move::DeadLetter,
            To::Deferred => Move::Defer,
            To::Available { .. } => Move::Release,
        }
    }
}

impl Checked {
    fn new(mut stored: Stored, disposition: Disposition) -> Result<Checked, Refusal> {
        let message = &mut stored.message;
        let before_bytes = message.size_bytes;
        let mut modified = false;
        let mut lay = |message: &mut MessageRow, properties: Properties| {
            modified = !properties.is_empty();
            properties.iter().try_for_each(|(name, value)| validate::property(name, value))?;
            modify(message, properties)
        };
        let to = match disposition {
            Disposition::Complete => To::Gone,
            // What is withheld was refused before.
            Disposition::Release | Disposition::Withheld => {
                To::Available { end: DeliveryEnd::Released }
            }
            Disposition::Abandon { properties } => {
                lay(message, properties)?;
                To::Available { end: DeliveryEnd::Abandoned }
            }
            Disposition::Defer { properties } => {
                lay(message, properties)?;
                To::Deferred
            }
            Disposition::DeadLetter { reason, description, properties } => {
                let kept = [DEAD_LETTER_REASON, DEAD_LETTER_ERROR_DESCRIPTION]
                    .map(|name| properties.contains_key(name));
                lay(message, properties)?;
                explain(message, reason.as_deref(), description.as_deref(), kept);
                To::DeadLetter
            }
        };
        Ok(Checked { stored, before_bytes, modified, to })
    }

    fn settle<R: Rows>(self, messages: &mut Messages<'_, R>) {
        let Checked { stored, before_bytes, modified, to } = self;
        let on_delivery = stored.receiver().is_some_and(ReceiverId::deletes);
        let detached = messages.places().detach(stored, to.by());
        messages.state.resized(before_bytes, detached.message.size_bytes);
        match to {
            To::Gone => {
                messages.note(&detached, || LifeStep::Completed { on_delivery });
                messages.remove(detached);
                messages.state.counts.completed += 1;
                messages.tally.count(match on_delivery {
                    true => Deed::CompletedOnDelivery,
                    false => Deed::Completed,
                });
            }
            To::DeadLetter => {
                messages.tally.count(Deed::DeadLetteredByReceiver);
                messages.dead_letter(detached);
            }
            To::Deferred => messages.defer(detached),
            To::Available { end } => {
                messages.release(detached, end, modified);
            }
        }
    }
}
