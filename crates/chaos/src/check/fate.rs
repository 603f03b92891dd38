//! Everything that was asked about one message in one place, and everything seen of it there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::run::Resting;
use crate::{Answer, Call, Delivered, Entity, Held, How, Run, Sent, What};

/// One message where it comes to rest.
pub struct Fate<'a> {
    pub entity: &'a Entity,
    pub id: &'a str,
    /// Of the message, in whatever entity leads here.
    pub sends: Vec<(&'a Call, &'a Sent)>,
    /// In the order in which they were handed over.
    pub deliveries: Vec<&'a Delivered>,
    pub dead_deliveries: Vec<&'a Delivered>,
    /// Those in transactions as well.
    pub settlements: Vec<Settlement<'a>>,
    pub renewals: Vec<(&'a Call, &'a Held, u64)>,
    pub cancels: Vec<&'a Call>,
    /// Asked for by number, and whether in the dead-letter queue.
    pub fetches: Vec<(&'a Call, u64, bool)>,
    /// Ends of transactions that settle nothing.
    pub rollbacks: Vec<(&'a Call, &'a Held)>,
    pub resting: Vec<&'a Resting>,
}

/// What a holder decided.
#[derive(Clone, Copy)]
pub struct Settlement<'a> {
    pub call: &'a Call,
    pub held: &'a Held,
    pub how: &'a How,
}

impl Settlement<'_> {
    /// Whether it removes the message for good, if it is done.
    pub fn is_final(&self) -> bool {
        *self.how == How::Complete
    }

    /// LOCK-9, DEFER-7: whether it is a failed delivery, if it is done.
    pub fn counts(&self) -> bool {
        matches!(self.how, How::Abandon | How::Defer)
    }

    /// Whether it may have waited in an open transaction meanwhile: in one that had begun by then, and of
    /// whose end nobody had been told before.
    pub fn may_wait(&self, meanwhile: RangeInclusive<u64>, fate: &Fate) -> bool {
        let What::Commit { .. } = self.call.what else { return false };
        let (from_ms, to_ms) = meanwhile.into_inner();
        let over = match self.call.answer {
            Answer::Done => self.call.answered_ms < from_ms,
            // Its node may not know of it yet, whoever told that.
            Answer::Refused(_) | Answer::NotDone | Answer::Perhaps => {
                fate.rollbacks.iter().any(|(end, held)| {
                    held.token == self.held.token
                        && end.answer == Answer::Done
                        && end.asked_ms >= self.call.asked_ms
                        && end.answered_ms < from_ms
                })
            }
        };
        self.call.asked_ms <= to_ms && !over
    }
}

impl<'a> Fate<'a> {
    fn new(entity: &'a Entity, id: &'a str) -> Fate<'a> {
        Fate {
            entity,
            id,
            sends: Vec::new(),
            deliveries: Vec::new(),
            dead_deliveries: Vec::new(),
            settlements: Vec::new(),
            renewals: Vec::new(),
            cancels: Vec::new(),
            fetches: Vec::new(),
            rollbacks: Vec::new(),
            resting: Vec::new(),
        }
    }

    /// The instant at which the broker locked a delivery (LOCK-5).
    pub fn taken_ms(&self, delivered: &Delivered) -> u64 {
        delivered.locked_until_ms.saturating_sub(self.entity.lock_ms)
    }

    /// Deliveries from the queue itself by number, each in the order in which they were taken.
    pub fn taken(&self) -> BTreeMap<u64, Vec<&'a Delivered>> {
        let mut taken: BTreeMap<u64, Vec<&Delivered>> = BTreeMap::new();
        for delivered in &self.deliveries {
            taken.entry(delivered.number).or_default().push(delivered);
        }
        for deliveries in taken.values_mut() {
            deliveries.sort_by_key(|delivered| (self.taken_ms(delivered), delivered.at_ms));
        }
        taken
    }

    /// The settlements of one delivery.
    pub fn settled<'s>(&'s self, token: &'s str) -> impl Iterator<Item = Settlement<'a>> + 's {
        self.settlements.iter().copied().filter(move |it| it.held.token == token)
    }

    /// Whether anybody saw it.
    pub fn seen(&self) -> bool {
        !(self.deliveries.is_empty() && self.dead_deliveries.is_empty() && self.resting.is_empty())
    }

    /// Every number it was seen under.
    pub fn numbers(&self) -> BTreeSet<u64> {
        let delivered = self.deliveries.iter().chain(&self.dead_deliveries).map(|it| it.number);
        delivered.chain(self.resting.iter().map(|it| it.number)).collect()
    }

    /// Whether a settlement that removes it for good may have been done.
    pub fn may_be_completed(&self) -> bool {
        self.settlements.iter().any(|it| it.is_final() && it.call.answer.may_be_done())
    }
}

/// All fates of a run by place and message, and what was found where nothing comes to rest.
pub struct Fates<'a> {
    pub all: BTreeMap<(&'a str, &'a str), Fate<'a>>,
    pub strays: Vec<(&'a Entity, &'a Resting)>,
}

impl<'a> Fates<'a> {
    pub fn of(run: &'a Run) -> Fates<'a> {
        let mut fates = Fates { all: BTreeMap::new(), strays: Vec::new() };
        for call in &run.history.calls {
            fates.take_call(run, call);
        }
        for delivered in &run.history.deliveries {
            let Some(fate) = fates.at(run, &delivered.entity, &delivered.id) else { continue };
            match delivered.dead {
                false => fate.deliveries.push(delivered),
                true => fate.dead_deliveries.push(delivered),
            }
        }
        for (name, found) in &run.end.entities {
            for resting in &found.resting {
                match run.entities.get(name) {
                    Some(entity) if !entity.is_receivable() => {
                        fates.strays.push((entity, resting));
                    }
                    Some(_) => {
                        if let Some(fate) = fates.at(run, name, &resting.id) {
                            fate.resting.push(resting);
                        }
                    }
                    None => (),
                }
            }
        }
        fates
    }

    /// All fates in one place, by message.
    pub fn of_entity<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Fate<'a>> {
        let from = self.all.range((name, "")..);
        from.take_while(move |((place, _), _)| *place == name).map(|(_, fate)| fate)
    }

    fn at(&mut self, run: &'a Run, place: &str, id: &'a str) -> Option<&mut Fate<'a>> {
        let entity = run.entities.get(place)?;
        let new = || Fate::new(entity, id);
        Some(self.all.entry((entity.name.as_str(), id)).or_insert_with(new))
    }

    fn take_call(&mut self, run: &'a Run, call: &'a Call) {
        match &call.what {
            What::Send(sent) => self.take_sends(run, call, sent),
            What::Commit { sent, settled } => {
                self.take_sends(run, call, sent);
                for (held, how) in settled {
                    self.take_settlement(run, Settlement { call, held, how });
                }
            }
            What::RollBack(settled) => {
                for held in settled {
                    if let Some(fate) = self.at(run, &call.entity, &held.id) {
                        fate.rollbacks.push((call, held));
                    }
                }
            }
            What::ReceiveDeferred { id, number, dead } => {
                if let Some(fate) = self.at(run, &call.entity, id) {
                    fate.fetches.push((call, *number, *dead));
                }
            }
            What::Settle(held, how) => self.take_settlement(run, Settlement { call, held, how }),
            What::Renew(held, until_ms) => {
                if let Some(fate) = self.at(run, &call.entity, &held.id) {
                    fate.renewals.push((call, held, *until_ms));
                }
            }
            What::Cancel { id, .. } => {
                for place in run.entities.places(&call.entity, None) {
                    if let Some(fate) = self.at(run, &place, id) {
                        fate.cancels.push(call);
                    }
                }
            }
            What::SettledEarly(_)
            | What::Accept { .. }
            | What::RenewSession { .. }
            | What::EndHold { .. }
            | What::Attach
            | What::Create
            | What::Delete
            | What::Move { .. } => (),
        }
    }

    fn take_sends(&mut self, run: &'a Run, call: &'a Call, sent: &'a [Sent]) {
        for sent in sent {
            for place in run.entities.places(&call.entity, sent.class.as_deref()) {
                if let Some(fate) = self.at(run, &place, &sent.id) {
                    fate.sends.push((call, sent));
                }
            }
        }
    }

    fn take_settlement(&mut self, run: &'a Run, settlement: Settlement<'a>) {
        if let Some(fate) = self.at(run, &settlement.call.entity, &settlement.held.id) {
            fate.settlements.push(settlement);
        }
    }
}
