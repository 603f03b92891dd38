//! `Settle`: complete, abandon, defer, dead-letter, release (LOCK-8 to LOCK-16).

use std::collections::BTreeSet;

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::overlay::{explain, modify};
use crate::{
    DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON, Disposition, Key, LockToken, MessageRow,
    Outcome, Properties, QueueId, Refusal, Row, Rows, Settle, SubQueue, validate,
};

impl Settle {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let queue = self.queue;
        let mut entity = step.open(queue.entity)?;
        entity.check_receive(queue)?;
        validate::count("number of settlements in one request", self.settlements.len())?;
        let mut refused = Vec::new();
        if self.atomic {
            // LOCK-17: all are checked before the first is done. A token given twice is settled, and
            // so not held, by the time its second turn comes (LOCK-8).
            let mut settled = BTreeSet::new();
            let mut checked = Vec::with_capacity(self.settlements.len());
            for settlement in self.settlements {
                let token = settlement.token;
                if !settled.insert(token) {
                    return Err(entity.lock_lost(queue, token));
                }
                checked.push((token, entity.check(queue, token, settlement.disposition)?));
            }
            for (token, settled) in checked {
                entity.settle(queue, token, settled);
            }
        } else {
            for (index, settlement) in self.settlements.into_iter().enumerate() {
                let token = settlement.token;
                match entity.check(queue, token, settlement.disposition) {
                    Ok(settled) => entity.settle(queue, token, settled),
                    Err(refusal) => refused.push((index as u32, refusal)),
                }
            }
        }
        entity.used();
        Ok(Outcome::Settled { refused })
    }
}

/// A settlement that will not be refused.
struct Checked {
    /// As stored.
    before_bytes: u32,
    /// With the properties to modify and the reason laid over it.
    message: MessageRow,
    modified: bool,
    to: To,
}

/// Where a settled message goes.
enum To {
    Gone,
    DeadLetter,
    Deferred,
    Available { counted: bool },
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// Everything that may refuse a settlement. An expired message is settled like any other while
    /// its lock is held (TTL-11, TTL-13, TTL-14, DEFER-9).
    fn check(
        &mut self,
        queue: QueueId,
        token: LockToken,
        disposition: Disposition,
    ) -> Result<Checked, Refusal> {
        if let Disposition::DeadLetter { reason, description, .. } = &disposition {
            if queue.sub.is_dead_letter() {
                let why = "a message in a dead-letter queue cannot be dead-lettered";
                return Err(Refusal::InvalidOperation { why });
            }
            validate::reason(reason.as_deref(), description.as_deref())?;
        }
        if disposition == Disposition::Withheld {
            return Err(self.lock_lost(queue, token)); // TX-9.
        }
        if self.needs_session(queue) {
            return Checked::new(self.held_in_session(token)?, disposition);
        }
        let lost = Refusal::MessageLockLost { token };
        if self.held(queue, token).is_none() {
            return Err(lost);
        }
        let Some(message) = self.view.message(queue, token.sequence) else { return Err(lost) };
        Checked::new(message, disposition)
    }

    fn settle(&mut self, queue: QueueId, token: LockToken, settled: Checked) {
        let Checked { before_bytes, mut message, modified, to } = settled;
        let number = token.sequence;
        self.unlock(queue, token, &message);
        self.resized(before_bytes, message.size_bytes);
        match to {
            To::Gone => {
                self.remove(queue, number, &message);
                self.state().counts.completed += 1;
            }
            To::DeadLetter => self.dead_letter(number, message),
            To::Deferred => {
                if !message.deferred {
                    message.deferred = true;
                    let state = self.state();
                    match queue.sub {
                        SubQueue::Main => {
                            state.counts.active -= 1;
                            state.counts.deferred += 1;
                        }
                        SubQueue::DeadLetter => state.dead_letter_deferred += 1,
                        SubQueue::TransferDeadLetter => state.transfer_dead_letter_deferred += 1,
                        SubQueue::Transfer => (), // Nobody receives from it.
                    }
                    if let Some(session) = &message.session {
                        self.defer_in_session(session);
                    }
                }
                if let Some(session) = &message.session {
                    self.list_deferred(session, number);
                }
                self.view.replace(Key::Message(queue, number), Row::Message(message));
            }
            To::Available { counted } => {
                self.release(queue, number, message, counted, modified);
            }
        }
    }
}

impl Checked {
    fn new(mut message: MessageRow, disposition: Disposition) -> Result<Checked, Refusal> {
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
            Disposition::Release | Disposition::Withheld => To::Available { counted: false },
            Disposition::Abandon { properties } => {
                lay(&mut message, properties)?;
                To::Available { counted: true }
            }
            Disposition::Defer { properties } => {
                lay(&mut message, properties)?;
                To::Deferred
            }
            Disposition::DeadLetter { reason, description, properties } => {
                let kept = [DEAD_LETTER_REASON, DEAD_LETTER_ERROR_DESCRIPTION]
                    .map(|name| properties.contains_key(name));
                lay(&mut message, properties)?;
                explain(&mut message, reason.as_deref(), description.as_deref(), kept);
                To::DeadLetter
            }
        };
        Ok(Checked { before_bytes, message, modified, to })
    }
}
