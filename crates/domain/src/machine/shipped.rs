//! `Shipped` and `Unpark`: what comes of messages that were set aside.

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::{
    Effect, ForwardEffect, Key, Line, Outcome, QueueId, Refused, Row, Rows, SHIPMENT_MESSAGES_MAX,
    SequenceNumber, Shipped, SubQueue, Unpark,
};

impl Shipped {
    /// FWD-4: what arrived is gone from here in one step with the shipment.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let Shipped { queue, serial, refused } = self;
        let Ok(mut entity) = step.open(queue.entity) else { return Outcome::Done };
        let key = Key::Shipment(queue, serial);
        let Some(Row::Shipment(shipment)) = entity.view.get(&key) else { return Outcome::Done };
        entity.view.delete(key);
        entity.state().forwarding[queue.sub as usize].in_transit -= shipment.numbers.len() as u64;
        let mut parked = Vec::new();
        for (position, number) in (0u32..).zip(shipment.numbers) {
            let why = refused.iter().find(|refused| refused.names(position));
            if why.is_some() && queue.sub == SubQueue::DeadLetter {
                parked.push(number); // FWD-9.
                continue;
            }
            let message = entity.view.message(queue, number);
            let message = message.expect("what is set aside is stored");
            match why {
                None => {
                    entity.remove(queue, number, &message);
                    entity.state().counts.moved += 1;
                }
                Some(Refused { reason, description, .. }) if queue.sub == SubQueue::Transfer => {
                    entity.fail_transfer(number, message, reason, description); // FWD-14.
                }
                Some(Refused { reason, description, .. }) => {
                    entity.explain_and_move(number, message, reason, description); // FWD-8.
                }
            }
        }
        if !parked.is_empty() {
            entity.park(queue, false, serial, parked);
        }
        let line = Line::of(queue, shipment.destination);
        entity.effects.push(Effect::Forward(ForwardEffect::Settled { line, serial }));
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
        for stays in [false, true] {
            for number in entity.take_parked(self.queue, stays, count_max) {
                let message = entity.view.message(self.queue, number);
                let message = message.expect("what is set aside is stored");
                entity.release(self.queue, number, message, false, false);
            }
        }
        Outcome::Done
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// Sets dead letters aside until they are tried again, in their turn, or for as long as the
    /// forwarding lasts.
    pub fn park(&mut self, queue: QueueId, stays: bool, turn: u64, numbers: Vec<SequenceNumber>) {
        *self.parked(queue, stays) += numbers.len() as u64;
        self.view.insert(Key::Parked(queue, stays, turn), Row::Parked(numbers));
    }

    /// Those parked first: as many lots as fit, and at least one.
    pub fn take_parked(
        &mut self,
        queue: QueueId,
        stays: bool,
        count_max: usize,
    ) -> Vec<SequenceNumber> {
        let mut taken: Vec<SequenceNumber> = Vec::new();
        let (mut from, to) = (Key::Parked(queue, stays, 0), Key::Parked(queue, stays, u64::MAX));
        while *self.parked(queue, stays) > 0 {
            let Some((key, Row::Parked(numbers))) = self.view.first(&from, &to) else { break };
            if !taken.is_empty() && taken.len() + numbers.len() > count_max {
                break;
            }
            *self.parked(queue, stays) -= numbers.len() as u64;
            taken.extend(numbers);
            self.view.delete(key.clone());
            from = key;
        }
        taken
    }

    fn parked(&mut self, queue: QueueId, stays: bool) -> &mut u64 {
        let forwarding = &mut self.state().forwarding[queue.sub as usize];
        match stays {
            true => &mut forwarding.stuck,
            false => &mut forwarding.parked,
        }
    }
}
