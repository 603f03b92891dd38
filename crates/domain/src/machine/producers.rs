//! SEND-8: per producer the highest serial and the outcomes of the last requests, so that a repeat
//! gets the answer of the first.

use std::ops::ControlFlow;

use crate::machine::view::View;
use crate::{
    Key, Meta, OUTCOMES_KEPT, Origin, Outcome, PRODUCER_KEPT, PRODUCERS_MAX, ProducerRow, Refusal,
    Row, Rows, Span, Timestamp,
};

/// Last use is kept to this precision, so that not every request moves a row.
const SEEN_PRECISION: Span = Span::from_secs(60);
/// Forgotten producers that one request removes at most, with their outcomes.
const FORGOTTEN_MAX: usize = 2;

/// A request that is to be done, and what was known of its producer.
pub(super) struct Admitted(Option<ProducerRow>);

/// What is known of producers, at work.
pub(super) struct Producers<'s, R> {
    pub at: Timestamp,
    /// Counts them.
    pub meta: &'s mut Meta,
    pub view: &'s mut View<R>,
}

impl<R: Rows> Producers<'_, R> {
    /// Whether a request is to be done; otherwise its answer.
    pub fn admit(&mut self, origin: Origin) -> Result<Admitted, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        if origin.serial == 0 {
            let why = "serials count from 1".to_owned();
            return refuse(Refusal::Argument { what: "serial", why });
        }
        let known = self.view.producer(origin.producer);
        let known = known.filter(|row| row.seen.plus(PRODUCER_KEPT) > self.at);
        let Some(row) = known else {
            return match origin {
                Origin { retry: true, .. } => refuse(Refusal::PerhapsDone),
                Origin { ordered: true, serial: 2.., .. } => {
                    refuse(Refusal::SerialGap { expected: 1 })
                }
                _ => Ok(Admitted(None)),
            };
        };
        if origin.serial > row.highest {
            let expected = row.highest.saturating_add(1);
            return match origin.ordered && origin.serial > expected {
                true => refuse(Refusal::SerialGap { expected }),
                false => Ok(Admitted(Some(row))),
            };
        }
        if let Some(Row::Outcome(outcome)) =
            self.view.get(&Key::Outcome(origin.producer, origin.serial))
        {
            return Err(outcome);
        }
        // Overtaken by later ones, it may be done for the first time: certainly so if its outcome
        // would still be known, or if it was never sent before.
        let kept = origin.serial > forgotten_to(row.highest);
        match kept && (origin.serial >= row.first || !origin.retry) {
            true => Ok(Admitted(Some(row))),
            false => refuse(Refusal::PerhapsDone),
        }
    }

    /// Remembers an outcome, and forgets what need not be known any more.
    pub fn record(&mut self, origin: Origin, admitted: Admitted, outcome: &Outcome) {
        let Origin { producer, serial, .. } = origin;
        // A stale route is mended by the edge, which asks again with the right entity: that is then
        // done for the first time. Until then the serial is not used up, or what follows it in an
        // ordered stream would be done before it.
        let is_over = !matches!(
            outcome,
            Outcome::Refused(Refusal::StaleRoute { .. } | Refusal::Relocated { .. })
        );
        let reached = if is_over { serial } else { serial - 1 };
        let row = match admitted.0 {
            None => {
                self.forget_producer(producer);
                self.forget_old(PRODUCERS_MAX - 1);
                self.meta.producers += 1;
                self.view.insert(Key::ProducerSeen(self.at, producer), Row::ProducerSeen);
                ProducerRow { first: serial, highest: reached, seen: self.at }
            }
            Some(known) => {
                let mut row = known;
                row.highest = known.highest.max(reached);
                self.forget_outcomes(
                    producer,
                    forgotten_to(known.highest),
                    forgotten_to(row.highest),
                );
                if self.at.since(known.seen) >= SEEN_PRECISION {
                    self.view.delete(Key::ProducerSeen(known.seen, producer));
                    self.view.insert(Key::ProducerSeen(self.at, producer), Row::ProducerSeen);
                    row.seen = self.at;
                    self.forget_old(PRODUCERS_MAX);
                }
                row
            }
        };
        match admitted.0 {
            None => self.view.insert(Key::Producer(producer), Row::Producer(row)),
            Some(known) if known == row => (),
            Some(_) => self.view.replace(Key::Producer(producer), Row::Producer(row)),
        }
        if is_over {
            self.view.insert(Key::Outcome(producer, serial), Row::Outcome(outcome.clone()));
        }
    }

    /// Forgets producers unseen for long, and the least recently seen if there are more than so many.
    fn forget_old(&mut self, producers_max: u64) {
        for _ in 0..FORGOTTEN_MAX {
            let from = Key::ProducerSeen(Timestamp::ZERO, 0);
            let to = Key::ProducerSeen(Timestamp::NEVER, 0);
            let Some((Key::ProducerSeen(seen, producer), _)) = self.view.first(&from, &to) else {
                return;
            };
            if seen.plus(PRODUCER_KEPT) > self.at && self.meta.producers <= producers_max {
                return;
            }
            self.forget_producer(producer);
        }
    }

    /// Everything about a producer, if it is known.
    fn forget_producer(&mut self, producer: u64) {
        let Some(row) = self.view.producer(producer) else { return };
        self.forget_outcomes(producer, forgotten_to(row.highest), row.highest);
        self.view.delete(Key::ProducerSeen(row.seen, producer));
        self.view.delete(Key::Producer(producer));
        self.meta.producers -= 1;
    }

    /// Outcomes of serials above `from` up to and including `to`: at most those that were kept.
    fn forget_outcomes(&mut self, producer: u64, from: u64, to: u64) {
        if to <= from {
            return;
        }
        if to - from == 1 {
            self.view.delete_if_there(Key::Outcome(producer, to));
            return;
        }
        let mut serials = Vec::new();
        let from = Key::Outcome(producer, from + 1);
        let to = Key::Outcome(producer, to.saturating_add(1));
        self.view.scan(&from, &to, &mut |key, _| {
            if let Key::Outcome(_, serial) = key {
                serials.push(*serial);
            }
            ControlFlow::Continue(())
        });
        for serial in serials {
            self.view.delete(Key::Outcome(producer, serial));
        }
    }
}

/// Outcomes up to this serial are not kept.
fn forgotten_to(highest: u64) -> u64 {
    highest.saturating_sub(OUTCOMES_KEPT)
}
