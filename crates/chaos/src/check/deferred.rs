//! DEFER-1, DEFER-2, DEFER-4, DEFER-6: what is deferred is found by its number, and by nothing else, until
//! it is settled for good.

use super::fate::{Fate, Fates, Settlement};
use super::{Promise, Violation};
use crate::{Answer, Delivered, How, Run};

/// DEFER-4.
const NOT_FOUND: &str = "MessageNotFound";
/// What was perhaps done may be done so much later: when the link that held it back is mended.
const STRAGGLES_MS: u64 = 30_000;

pub fn check(run: &Run, fates: &Fates) -> Vec<Violation> {
    let mut broken = Vec::new();
    for fate in fates.all.values().filter(|fate| fate.concerns_deferral()) {
        for dead in [false, true] {
            let mut tell = |told: String| {
                let promise = Promise::DeferredRight;
                broken.push(Violation::new(promise, &fate.entity.name, fate.id, told));
            };
            let place = Place { fate, dead };
            place.delivered(&mut tell);
            place.resting(&mut tell);
            place.refused(run, &mut tell);
        }
    }
    broken
}

impl Fate<'_> {
    fn concerns_deferral(&self) -> bool {
        !self.fetches.is_empty() || self.settlements.iter().any(|it| *it.how == How::Defer)
    }
}

/// A message in a queue, or in its dead-letter queue.
struct Place<'f, 'a> {
    fate: &'f Fate<'a>,
    dead: bool,
}

impl<'a> Place<'_, 'a> {
    fn deliveries(&self) -> &[&'a Delivered] {
        if self.dead { &self.fate.dead_deliveries } else { &self.fate.deliveries }
    }

    fn deferrals(&self, number: u64) -> impl Iterator<Item = &Settlement<'a>> {
        let of_place = move |it: &&Settlement| {
            *it.how == How::Defer && it.held.number == number && it.held.dead == self.dead
        };
        self.fate.settlements.iter().filter(of_place)
    }

    /// When the first delivery that certainly ended deferred was taken.
    fn deferred_ms(&self, number: u64) -> Option<u64> {
        let done = self.deferrals(number).filter(|it| it.call.answer == Answer::Done);
        let taken = done.filter_map(|it| {
            let own = self.deliveries().iter().find(|own| own.token == it.held.token)?;
            // At its limit it went to the dead-letter queue (DEFER-7).
            Some(self.fate.taken_ms(own)).filter(|_| !self.was_last(own))
        });
        taken.min()
    }

    /// Whether a failure of this delivery was the last there may be (LOCK-21, DLQ-4).
    fn was_last(&self, delivered: &Delivered) -> bool {
        !self.dead && delivered.count >= self.fate.entity.deliveries_max
    }

    fn delivered(&self, tell: &mut impl FnMut(String)) {
        for it in self.deliveries() {
            if it.deferred {
                let asked = |deferral: &&Settlement| deferral.call.asked_ms <= it.at_ms;
                let asked = self.deferrals(it.number).filter(asked);
                if !asked.into_iter().any(|deferral| deferral.call.answer.may_be_done()) {
                    tell(format!("{} was received by number, and nobody deferred it", it.number));
                }
            } else if !self.fate.entity.sessions
                && self.deferred_ms(it.number).is_some_and(|at_ms| self.fate.taken_ms(it) > at_ms)
            {
                tell(format!("{} was handed out in its turn after it was deferred", it.number));
            }
        }
    }

    fn resting(&self, tell: &mut impl FnMut(String)) {
        for it in self.fate.resting.iter().filter(|it| it.dead == self.dead) {
            let may_be = self.deferrals(it.number).any(|it| it.call.answer.may_be_done());
            if it.deferred && !may_be {
                tell(format!("{} is deferred, and nobody asked for that", it.number));
            }
            if !it.deferred && self.deferred_ms(it.number).is_some() {
                tell(format!("{} was deferred, and is not any more", it.number));
            }
        }
    }

    /// What lies there deferred and free is found by its number.
    fn refused(&self, run: &Run, tell: &mut impl FnMut(String)) {
        // What expires goes when it is asked for (DEFER-8); under a session its lock is asked for too.
        let expires = self.fate.sends.iter().any(|(_, sent)| sent.ttl_ms.is_some());
        if expires || self.fate.entity.sessions {
            return;
        }
        for (call, number, _) in self.fate.fetches.iter().filter(|(_, _, dead)| *dead == self.dead)
        {
            if call.answer != Answer::Refused(NOT_FOUND.to_owned()) {
                continue;
            }
            let all = || self.deliveries().iter().filter(|it| it.number == *number);
            let before = all().filter(|it| it.at_ms < call.asked_ms);
            let Some(last) = before.max_by_key(|it| self.fate.taken_ms(it)) else { continue };
            let mut ends = self.fate.settled(&last.token);
            let deferred = ends.any(|it| {
                let is_done = it.call.answer == Answer::Done && it.call.answered_ms < call.asked_ms;
                *it.how == How::Defer && is_done
            });
            let taken_ms = self.fate.taken_ms(last);
            let meanwhile = taken_ms + 1..=call.answered_ms + run.tolerance_ms;
            let mut others = all().map(|it| self.fate.taken_ms(it));
            // Another that asked for it has it perhaps, or had, and nobody knows when.
            let perhaps = self.fate.fetches.iter().any(|(other, of, dead)| {
                (*of, *dead) == (*number, self.dead)
                    && other.answer == Answer::Perhaps
                    && other.asked_ms <= call.answered_ms
                    && other.answered_ms + STRAGGLES_MS >= last.at_ms
            });
            let elsewhere = perhaps || others.any(|at_ms| meanwhile.contains(&at_ms));
            if deferred && !elsewhere && !self.was_last(last) {
                tell(format!("{number} lies there deferred, and was not found by its number"));
            }
        }
    }
}
