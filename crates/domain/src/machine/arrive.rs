//! `Arrive` and `ForgetArrivals`: the destination's side of forwarding. Arrival is an enqueue
//! (FWD-6), once: what came of a source's shipments is kept until the source has heard of it.

use crate::forward::{reason, refuse};
use crate::machine::Step;
use crate::machine::publish::{self, SESSION_REASON};
use crate::{
    APPLY_ROWS_MAX, ARRIVALS_KEPT, Arrival, Arrive, ArrivedShipment, Arriving, EntityId,
    EntityKind, ForgetArrivals, Key, Outcome, Refusal, Row, Rows, SubQueue,
};

/// What storing one message costs at most, history and fan-out aside.
const ROWS_PER_ARRIVAL: usize = 8;

impl Arrive {
    /// Refused out of turn, and where the destination is gone and nothing of the shipment came
    /// before: then nothing ever will, because ids are not used again (ENT-8).
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let key = Key::Arrival(self.source, self.destination);
        let (mut row, known) = match step.view.get(&key) {
            Some(Row::Arrival(row)) => (row, true),
            _ => Default::default(),
        };
        row.shipments = row.shipments.split_off(&self.settled_to.saturating_add(1));
        let mut shipment = match row.shipments.get(&self.serial) {
            Some(shipment) => shipment.clone(),
            // The source has heard of it: whoever asks was overtaken by that.
            None if self.serial <= row.serial.max(self.settled_to) => {
                return Ok(Outcome::Arrived { done: self.count, refused: Vec::new() });
            }
            None => {
                let unfinished = row.shipments.values().any(|shipment| !shipment.is_done());
                let known_to = row.serial.max(self.settled_to);
                if known_to < self.follows || unfinished {
                    return Err(Refusal::SerialGap { expected: known_to + 1 });
                }
                ArrivedShipment { count: self.count, ..ArrivedShipment::default() }
            }
        };
        if shipment.is_done() {
            return Ok(shipment.outcome());
        }
        if step.open(self.destination).is_err() {
            step.check_not_relocated(self.destination)?;
            return Ok(shipment.abandoned(self.destination));
        }
        if self.skipped > shipment.done || self.messages.is_empty() {
            return Err(Refusal::SerialGap { expected: self.serial });
        }
        let (serial, done_before) = (self.serial, shipment.done);
        self.take_in(step, &mut shipment)?;
        let outcome = shipment.outcome();
        if shipment.done == done_before {
            return Ok(outcome);
        }
        (row.serial, row.at) = (row.serial.max(serial), step.at);
        row.shipments.insert(serial, shipment);
        match known {
            true => step.view.replace(key, Row::Arrival(row)),
            false => step.view.insert(key, Row::Arrival(row)),
        }
        Ok(outcome)
    }

    /// From where it stopped last, as far as one command goes.
    fn take_in<R: Rows>(
        self,
        step: &mut Step<'_, R>,
        shipment: &mut ArrivedShipment,
    ) -> Result<(), Refusal> {
        let done_before = (shipment.done - self.skipped) as usize;
        let waits = self.source.sub == SubQueue::Transfer;
        let stays = self.source.sub == SubQueue::DeadLetter;
        let budget = step.view.budget(APPLY_ROWS_MAX);
        step.open(self.destination)?.used(); // IDLE-3.
        let left = (shipment.count - shipment.done) as usize;
        for (index, arriving) in self.messages.into_iter().skip(done_before).take(left).enumerate()
        {
            if index > 0 && step.view.left(budget) < ROWS_PER_ARRIVAL {
                break;
            }
            let (source, serial, position) = (self.source, self.serial, shipment.done);
            step.view.set_arrival(Some(Arrival { source, serial, position }));
            let arrived = arrive(step, self.destination, arriving);
            step.view.set_arrival(None);
            match arrived {
                Ok(()) => (),
                Err(unfit) if unfit.for_now => break, // RULE-42.
                Err(unfit) if unfit.for_space && waits => break, // FWD-14: until there is room.
                // It is tried again (FWD-9), and nothing gets ahead of it meanwhile (FWD-5).
                Err(Unfit { reason, text, .. }) if stays => {
                    shipment.refuse_rest(&reason, &text);
                    break;
                }
                Err(Unfit { reason, text, .. }) => {
                    refuse(&mut shipment.refused, shipment.done, reason, text);
                }
            }
            shipment.done += 1;
        }
        Ok(())
    }
}

impl ArrivedShipment {
    fn is_done(&self) -> bool {
        self.done >= self.count
    }

    fn outcome(&self) -> Outcome {
        Outcome::Arrived { done: self.done, refused: self.refused.clone() }
    }

    /// FWD-8, IDLE-17: what did not come before the destination was deleted never will.
    fn abandoned(mut self, destination: EntityId) -> Outcome {
        let gone = Refusal::StaleRoute { entity: destination };
        self.refuse_rest(&reason(&gone), "The destination was deleted.");
        self.outcome()
    }

    fn refuse_rest(&mut self, reason: &str, text: &str) {
        while !self.is_done() {
            refuse(&mut self.refused, self.done, reason.to_owned(), text.to_owned());
            self.done += 1;
        }
    }
}

impl ForgetArrivals {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let key = Key::Arrival(self.source, self.destination);
        if let Some(Row::Arrival(row)) = step.view.get(&key)
            && row.at.plus(ARRIVALS_KEPT) <= step.at
        {
            step.view.delete(key);
        }
        Outcome::Done
    }
}

/// Why a message cannot arrive, as its dead-letter entry says it.
struct Unfit {
    reason: String,
    text: String,
    for_space: bool,
    /// It will arrive if it is brought again.
    for_now: bool,
}

impl From<Refusal> for Unfit {
    fn from(refusal: Refusal) -> Unfit {
        let for_space = matches!(refusal, Refusal::QuotaExceeded { .. });
        let for_now = matches!(refusal, Refusal::TopicBusy { .. });
        let refusal = refusal.told();
        Unfit { reason: reason(&refusal), text: refusal.to_string(), for_space, for_now }
    }
}

/// FWD-6: as if it were sent now, by itself; otherwise why it cannot be (FWD-8, FWD-10).
fn arrive<R: Rows>(
    step: &mut Step<'_, R>,
    destination: EntityId,
    Arriving { message, travel }: Arriving,
) -> Result<(), Unfit> {
    // What is stored counts against a topic (COUNT-3), that of this entry as well.
    step.charge_topics();
    let mut entity = step.open(destination)?;
    entity.row.check_send()?;
    if entity.properties().requires_session && message.session_id.is_none() {
        let description = entity.view.level.session_description();
        let (reason, text) = (SESSION_REASON.to_owned(), description.to_owned());
        return Err(Unfit { reason, text, for_space: false, for_now: false });
    }
    entity.row.check_message(entity.view.level, &message)?;
    entity.row.check_size(entity.state)?;
    let travel = Some(Box::new(travel));
    if entity.row.kind() != EntityKind::Topic {
        entity.accept(message, travel);
        return Ok(());
    }
    entity.check_backlog()?;
    publish::check_taken(step, destination, &message)?;
    publish::accept(step, destination, message, travel)?;
    Ok(())
}
