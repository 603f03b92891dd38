//! `Ship`: a source packs messages for their destination (FWD). Forwarding acts as a receive
//! (FWD-13): what is set aside is neither available nor expires, like a message under a lock.

use crate::forward::{SHIPMENT_MESSAGES_MAX, reason};
use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::entity::EntityStep;
use crate::machine::view::Budget;
use crate::{
    APPLY_ROWS_MAX, Destination, Effect, Fired, ForwardEffect, Forwarding, HOPS_MAX, Key, Line,
    MessageRow, Outcome, QueueId, Refusal, Row, Rows, SequenceNumber, Ship, ShipmentRow, SubQueue,
};

/// Messages looked up at a time.
const CHUNK: usize = 128;
/// DLQ-7.
const HOPS_REASON: &str = "MaxTransferHopCountExceeded";
const HOPS_DESCRIPTION: &str = "The maximum number of allowed hops when forwarding between \
     queues has been exceeded. This value is set to 4.";

impl Ship {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Outcome {
        let Ok(mut entity) = step.open(self.queue.entity) else {
            return Outcome::Fired(Fired::default());
        };
        if !self.holds(&entity) || self.is_early(&entity) {
            return Outcome::Fired(Fired::default());
        }
        let (numbers, fired) = match self.again {
            true => (entity.take_parked(self.queue, false, self.count()), Fired::default()),
            false => self.pack(&mut entity),
        };
        if let Some(destination) = self.destination.filter(|_| !numbers.is_empty()) {
            entity.dispatch(self.queue, destination, numbers);
        }
        Outcome::Fired(fired)
    }

    fn count(&self) -> usize {
        self.count_max.min(SHIPMENT_MESSAGES_MAX) as usize
    }

    /// Whether the queue is forwarded there still, and may be (FWD-13). Dead letters without a
    /// destination stay (FWD-9).
    fn holds<R: Rows>(&self, entity: &EntityStep<'_, '_, R>) -> bool {
        let properties = entity.properties();
        let to = properties.forwards(self.queue.sub);
        !properties.status.refuses_receive()
            && to.is_some_and(|to| to.eq_ignore_ascii_case(&self.to))
            && (self.destination.is_some() || self.queue.sub == SubQueue::Main)
    }

    /// FWD-5: what a destination refuses of a dead-letter queue is tried again, so what comes behind
    /// waits until it is there, or known to be refused, and then until it is taken.
    fn is_early<R: Rows>(&self, entity: &EntityStep<'_, '_, R>) -> bool {
        let Forwarding { in_transit, parked, .. } =
            entity.entity.state.forwarding[self.queue.sub as usize];
        self.queue.sub == SubQueue::DeadLetter && (in_transit > 0 || (parked > 0 && !self.again))
    }

    /// Sets available messages aside, lowest first: those to be shipped, and what became of others.
    fn pack<R: Rows>(&self, entity: &mut EntityStep<'_, '_, R>) -> (Vec<SequenceNumber>, Fired) {
        let budget = entity.view.budget(APPLY_ROWS_MAX);
        let (numbers, stuck) = (Vec::new(), Vec::new());
        let fired = Fired::default();
        let mut packed = Packed { ship: self, budget, bytes: 0, seen: 0, numbers, stuck, fired };
        packed.fill(entity);
        let Packed { numbers, stuck, fired, .. } = packed;
        if let Some(first) = stuck.first() {
            entity.park(self.queue, true, first.0, stuck);
        }
        (numbers, fired)
    }
}

/// A shipment being packed.
struct Packed<'c> {
    ship: &'c Ship,
    budget: Budget,
    bytes: u64,
    /// Messages looked at.
    seen: usize,
    numbers: Vec<SequenceNumber>,
    /// Dead letters that have gone as far as they may (FWD-7).
    stuck: Vec<SequenceNumber>,
    fired: Fired,
}

impl Packed<'_> {
    fn room<R: Rows>(&self, entity: &EntityStep<'_, '_, R>) -> usize {
        if self.bytes >= u64::from(self.ship.bytes_max) {
            return 0;
        }
        let affordable = entity.view.left(self.budget).div_ceil(ROWS_PER_MESSAGE);
        self.ship.count().saturating_sub(self.seen).min(affordable)
    }

    fn fill<R: Rows>(&mut self, entity: &mut EntityStep<'_, '_, R>) {
        let queue = self.ship.queue;
        while entity.entity.state.available[queue.sub as usize] > 0 {
            let room = self.room(entity).min(CHUNK);
            if room == 0 {
                self.fired.more = true;
                return;
            }
            let bytes_left = u64::from(self.ship.bytes_max).saturating_sub(self.bytes);
            for (number, message) in entity.lowest(queue, room, bytes_left) {
                if self.room(entity) == 0 {
                    break;
                }
                self.seen += 1;
                self.take(entity, number, message);
            }
        }
    }

    fn take<R: Rows>(
        &mut self,
        entity: &mut EntityStep<'_, '_, R>,
        number: SequenceNumber,
        message: MessageRow,
    ) {
        let queue = self.ship.queue;
        let fresh = number >= entity.entity.state.fresh_head[queue.sub as usize];
        entity.detach(queue, number, message.session.as_ref());
        if fresh {
            entity.pass_head(queue, number);
        }
        let far = message.travel.as_ref().is_some_and(|travel| travel.hops >= HOPS_MAX);
        if entity.is_expired(queue, &message) {
            let due = entity.expires_at(&message);
            let fate = entity.expire(number, message);
            self.fired.note(fate, due, entity.at);
        } else if far && queue.sub == SubQueue::DeadLetter {
            self.stuck.push(number);
        } else if far {
            entity.explain_and_move(number, message, HOPS_REASON, HOPS_DESCRIPTION);
            self.fired.dead_lettered += 1;
        } else if self.ship.destination.is_none() {
            let gone = Refusal::EntityNotFound { name: self.ship.to.clone() };
            entity.explain_and_move(number, message, &reason(&gone), &gone.to_string()); // FWD-8.
            self.fired.dead_lettered += 1;
        } else {
            self.bytes += u64::from(message.size_bytes);
            self.numbers.push(number);
        }
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// The lowest available messages, up to the one that reaches so many bytes.
    fn lowest(
        &mut self,
        queue: QueueId,
        count_max: usize,
        bytes_max: u64,
    ) -> Vec<(SequenceNumber, MessageRow)> {
        if self.entity.state.returned[queue.sub as usize] == 0 {
            return self.fresh(queue, count_max, bytes_max);
        }
        let stored = |entity: &mut Self, number| {
            let message = entity.view.message(queue, number);
            (number, message.expect("what is returned is stored"))
        };
        let numbers = self.returned(queue, count_max);
        numbers.into_iter().map(|number| stored(self, number)).collect()
    }

    /// Sets messages that are to be had nowhere on their way.
    pub fn dispatch(
        &mut self,
        queue: QueueId,
        destination: Destination,
        numbers: Vec<SequenceNumber>,
    ) {
        let forwarding = &mut self.state().forwarding[queue.sub as usize];
        forwarding.serial += 1;
        forwarding.in_transit += numbers.len() as u64;
        let serial = forwarding.serial;
        let row = Row::Shipment(ShipmentRow { destination, numbers });
        self.view.insert(Key::Shipment(queue, serial), row);
        let line = Line::of(queue, destination);
        self.effects.push(Effect::Forward(ForwardEffect::Shipment { line, serial }));
    }
}
