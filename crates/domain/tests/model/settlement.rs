//! What holders of locks ask for in the model: settlements, renewals, deferred messages by number.

use std::collections::BTreeSet;

use domain::{
    DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON, Disposition, LockToken, Outcome, Properties,
    ReceiveDeferred, Refusal, Renew, Select, Settle, Settlement, SubQueue,
};

use crate::plain::{Plain, disabled, not_found, refused};

impl Plain {
    pub fn settle(&mut self, settle: &Settle) -> Outcome {
        if self.refuses_receive() {
            return disabled();
        }
        let sub = settle.queue.sub;
        let mut refusals = Vec::new();
        let mut tokens = BTreeSet::new();
        for (index, settlement) in settle.settlements.iter().enumerate() {
            let lost = self.lost(sub, settlement.token);
            let refusal = if settle.atomic && !tokens.insert(settlement.token) {
                Some(lost)
            } else {
                self.check(sub, settlement)
            };
            match refusal {
                Some(refusal) if settle.atomic => return refused(refusal),
                Some(refusal) => refusals.push((index as u32, refusal)),
                None if settle.atomic => (),
                None => self.dispose(sub, settlement),
            }
        }
        if settle.atomic {
            settle.settlements.iter().for_each(|settlement| self.dispose(sub, settlement));
        }
        self.used();
        Outcome::Settled { refused: refusals }
    }

    fn holds(&self, sub: SubQueue, token: LockToken) -> bool {
        self.messages.iter().any(|message| {
            message.is_in(sub)
                && match &message.session {
                    Some(_) => {
                        message.lock.is_some_and(|(held, _)| held == token)
                            && self.session_allows(message)
                    }
                    None => {
                        message.lock.is_some_and(|(held, until)| held == token && self.at < until)
                    }
                }
        })
    }

    fn lost(&self, sub: SubQueue, token: LockToken) -> Refusal {
        match self.needs_session(sub) {
            true => Refusal::SessionLockLost { session: None },
            false => Refusal::MessageLockLost { token },
        }
    }

    fn check(&self, sub: SubQueue, settlement: &Settlement) -> Option<Refusal> {
        let from_dead = sub == SubQueue::DeadLetter;
        if from_dead && matches!(settlement.disposition, Disposition::DeadLetter { .. }) {
            return Some(Refusal::InvalidOperation { why: "" });
        }
        let lost = self.lost(sub, settlement.token);
        if settlement.disposition == Disposition::Withheld {
            return Some(lost);
        }
        (!self.holds(sub, settlement.token)).then_some(lost)
    }

    fn dispose(&mut self, sub: SubQueue, settlement: &Settlement) {
        let number = settlement.token.sequence.0;
        self.find(number).lock = None;
        let mut lay = |properties: &Properties| {
            let message = self.find(number);
            properties.iter().for_each(|(name, value)| message.set(name, value.clone()));
        };
        match &settlement.disposition {
            Disposition::Complete => {
                self.remove(number);
                self.gone.completed += 1;
            }
            Disposition::Abandon { properties } => {
                lay(properties);
                self.release(number, sub, true);
            }
            Disposition::Defer { properties } => {
                lay(properties);
                self.defer(number, sub);
            }
            Disposition::DeadLetter { reason, description, properties } => {
                lay(properties);
                let message = self.find(number);
                for (name, text) in
                    [(DEAD_LETTER_REASON, reason), (DEAD_LETTER_ERROR_DESCRIPTION, description)]
                {
                    message.explain(name, text.as_deref(), properties.contains_key(name));
                }
                self.move_to_dead(number);
            }
            Disposition::Release => {
                self.release(number, sub, false);
            }
            Disposition::Withheld => unreachable!("never checked with success"),
        }
    }

    /// DEFER-7: as one more failed delivery, and so perhaps the last.
    fn defer(&mut self, number: u64, sub: SubQueue) {
        let max = self.properties.max_delivery_count;
        let message = self.find(number);
        message.count += u32::from(sub == SubQueue::Main);
        if sub == SubQueue::Main && message.count >= max {
            self.ends_instead(number, sub);
        } else {
            message.deferred = true;
        }
    }

    pub fn renew(&mut self, renew: &Renew) -> Outcome {
        if self.refuses_receive() {
            return disabled();
        }
        if self.needs_session(renew.queue.sub) {
            return refused(Refusal::InvalidOperation { why: "" });
        }
        for token in &renew.tokens {
            if !self.holds(renew.queue.sub, *token) {
                return refused(Refusal::MessageLockLost { token: *token });
            }
        }
        let until = self.at.plus(self.properties.lock_duration);
        for token in &renew.tokens {
            self.find(token.sequence.0).lock = Some((*token, until));
        }
        self.used();
        Outcome::Renewed { until: vec![until; renew.tokens.len()] }
    }

    pub fn receive_deferred(&mut self, receive: &ReceiveDeferred, actual: &Outcome) -> Outcome {
        if self.refuses_receive() {
            return disabled();
        }
        let sub = receive.queue.sub;
        if self.needs_session(sub) {
            return refused(Refusal::SessionLockLost { session: None });
        }
        let (mut found, mut missing) = (Vec::new(), None);
        for number in receive.numbers.iter().map(|number| number.0) {
            let there = self
                .messages
                .iter()
                .any(|m| m.number == number && m.is_in(sub) && m.deferred && m.lock.is_none());
            if !there || found.contains(&number) || self.ends_instead(number, sub).is_some() {
                missing.get_or_insert(number);
            } else {
                found.push(number);
            }
        }
        if let Some(number) = missing {
            return not_found(number);
        }
        self.used();
        let mut deliveries = Vec::new();
        for number in found {
            deliveries.push(self.lock(number, sub, &deliveries, actual));
        }
        Outcome::Acquired { deliveries, more: false }
    }

    /// SEL-6: what can be had of these, in order; few enough are before them that all are looked at.
    pub fn select(&mut self, select: &Select, actual: &Outcome) -> Outcome {
        if self.refuses_receive() {
            return disabled();
        }
        let sub = select.queue.sub;
        if self.needs_session(sub) {
            return refused(Refusal::InvalidOperation { why: "" });
        }
        self.used();
        let mut deliveries = Vec::new();
        for number in select.numbers.iter().map(|number| number.0).collect::<BTreeSet<_>>() {
            let there = self
                .messages
                .iter()
                .any(|m| m.number == number && m.is_in(sub) && !m.deferred && m.lock.is_none());
            if there && self.ends_instead(number, sub).is_none() {
                deliveries.push(self.lock(number, sub, &deliveries, actual));
            }
        }
        Outcome::Acquired { deliveries, more: false }
    }
}
