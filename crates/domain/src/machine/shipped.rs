//! `Shipped` and `Unpark`: what comes of messages that were set aside.

use crate::machine::Step;
use crate::machine::place::Move;
use crate::{
    Deed, DeliveryEnd, Effect, ForwardEffect, LifeStep, Line, Outcome, Refused, Rows,
    SHIPMENT_MESSAGES_MAX, Shipped, SubQueue, Unpark,
};

impl Shipped {
    /// FWD-4: what arrived is gone from here in one step with the shipment.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let Shipped { queue, serial, refused } = self;
        let Ok(mut entity) = step.open(queue.entity) else { return Outcome::Done };
        let mut messages = entity.messages();
        let Some(shipment) = messages.shipments().end(queue, serial) else { return Outcome::Done };
        let mut parked = Vec::new();
        for (position, number) in (0u32..).zip(shipment.numbers) {
            let why = refused.iter().find(|refused| refused.names(position));
            if why.is_some() && queue.sub == SubQueue::DeadLetter {
                parked.push(number); // FWD-9.
                continue;
            }
            let stored = messages.places().set_aside(queue, number);
            let Some(Refused { reason, description, .. }) = why else {
                let detached = messages.places().detach(stored, Move::Arrive);
                messages.note(&detached, || LifeStep::Forwarded { serial, position });
                messages.remove(detached);
                messages.state.counts.moved += 1;
                messages.tally.count(Deed::Forwarded);
                continue;
            };
            let detached = messages.places().detach(stored, Move::Refuse);
            match queue.sub == SubQueue::Transfer {
                true => messages.fail_transfer(detached, reason, description), // FWD-14.
                false => messages.unforwarded(detached, reason, description),  // FWD-8.
            }
        }
        if !parked.is_empty() {
            messages.shipments().park(queue, false, serial, parked);
        }
        let line = Line::of(queue, shipment.destination);
        messages.effects.push(Effect::Forward(ForwardEffect::Settled { line, serial }));
        Outcome::Done
    }
}

impl Refused {
    fn names(&self, position: u32) -> bool {
        position >= self.first && position - self.first < self.count
    }
}

impl Unpark {
    /// Without effect while the queue is forwarded.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let Ok(mut entity) = step.open(self.queue.entity) else { return Outcome::Done };
        if entity.properties().forwards(self.queue.sub).is_some() {
            return Outcome::Done;
        }
        let count_max = self.count_max.min(SHIPMENT_MESSAGES_MAX) as usize;
        let mut messages = entity.messages();
        for stays in [false, true] {
            for number in messages.shipments().take_parked(self.queue, stays, count_max) {
                let stored = messages.places().set_aside(self.queue, number);
                let detached = messages.places().detach(stored, Move::Unpark);
                messages.release(detached, DeliveryEnd::Released, false);
            }
        }
        Outcome::Done
    }
}
