//! Messages set aside for forwarding, as shipments or as parked lots: rows that name many each.

use crate::machine::view::View;
use crate::{
    Destination, Effect, ForwardEffect, Forwarding, Key, Line, PerSubQueue, QueueId, Row, Rows,
    SequenceNumber, ShipmentRow,
};

/// What an entity has set aside.
pub(super) struct Shipments<'s, R> {
    pub forwarding: &'s mut PerSubQueue<Forwarding>,
    pub view: &'s mut View<R>,
    pub effects: &'s mut Vec<Effect>,
}

impl<R: Rows> Shipments<'_, R> {
    /// Sends messages that were set aside on their way.
    pub fn dispatch(
        &mut self,
        queue: QueueId,
        destination: Destination,
        numbers: Vec<SequenceNumber>,
    ) {
        let forwarding = &mut self.forwarding[queue.sub as usize];
        forwarding.serial += 1;
        forwarding.in_transit += numbers.len() as u64;
        let serial = forwarding.serial;
        let row = Row::Shipment(ShipmentRow { destination, numbers });
        self.view.insert(Key::Shipment(queue, serial), row);
        let line = Line::of(queue, destination);
        self.effects.push(Effect::Forward(ForwardEffect::Shipment { line, serial }));
    }

    /// Ends a shipment, if it was not ended before: what becomes of its messages is the caller's to do.
    pub fn end(&mut self, queue: QueueId, serial: u64) -> Option<ShipmentRow> {
        let key = Key::Shipment(queue, serial);
        let Some(Row::Shipment(shipment)) = self.view.get(&key) else { return None };
        self.view.delete(key);
        self.forwarding[queue.sub as usize].in_transit -= shipment.numbers.len() as u64;
        Some(shipment)
    }

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
        let forwarding = &mut self.forwarding[queue.sub as usize];
        match stays {
            true => &mut forwarding.stuck,
            false => &mut forwarding.parked,
        }
    }
}
