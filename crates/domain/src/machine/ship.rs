//! `Ship`: a source packs messages for their destination (FWD). Forwarding acts as a receive
//! (FWD-13): what is set aside is neither available nor expires, like a message under a lock.

use crate::forward::{SHIPMENT_MESSAGES_MAX, reason};
use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::entity::EntityStep;
use crate::machine::messages::Messages;
use crate::machine::place::{Move, Stored};
use crate::machine::view::Budget;
use crate::{
    APPLY_ROWS_MAX, Fired, Forwarding, HOPS_MAX, Outcome, Refusal, Rows, SequenceNumber, Ship,
    SubQueue,
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
        let mut messages = entity.messages();
        let (numbers, fired) = match self.again {
            true => (
                messages.shipments().take_parked(self.queue, false, self.count()),
                Fired::default(),
            ),
            false => self.pack(&mut messages),
        };
        if let Some(destination) = self.destination.filter(|_| !numbers.is_empty()) {
            messages.shipments().dispatch(self.queue, destination, numbers);
        }
        Outcome::Fired(fired)
    }

    fn count(&self) -> usize {
        self.count_max.min(SHIPMENT_MESSAGES_MAX) as usize
    }

    /// Whether the queue is forwarded there still, and may be (FWD-13). Dead letters without a
    /// destination stay (FWD-9).
    fn holds<R: Rows>(&self, entity: &EntityStep<'_, R>) -> bool {
        let properties = entity.properties();
        let to = properties.forwards(self.queue.sub);
        !properties.status.refuses_receive()
            && to.is_some_and(|to| to.eq_ignore_ascii_case(&self.to))
            && (self.destination.is_some() || self.queue.sub == SubQueue::Main)
    }

    /// FWD-5: what a destination refuses of a dead-letter queue is tried again, so what comes behind
    /// waits until it is there, or known to be refused, and then until it is taken.
    fn is_early<R: Rows>(&self, entity: &EntityStep<'_, R>) -> bool {
        let Forwarding { in_transit, parked, .. } =
            entity.state.forwarding[self.queue.sub as usize];
        self.queue.sub == SubQueue::DeadLetter && (in_transit > 0 || (parked > 0 && !self.again))
    }

    /// Sets available messages aside, lowest first: those to be shipped, and what became of others.
    fn pack<R: Rows>(&self, messages: &mut Messages<'_, R>) -> (Vec<SequenceNumber>, Fired) {
        let budget = messages.view.budget(APPLY_ROWS_MAX);
        let (numbers, stuck) = (Vec::new(), Vec::new());
        let fired = Fired::default();
        let mut packed = Packed { ship: self, budget, bytes: 0, seen: 0, numbers, stuck, fired };
        packed.fill(messages);
        let Packed { numbers, stuck, fired, .. } = packed;
        if let Some(first) = stuck.first() {
            messages.shipments().park(self.queue, true, first.0, stuck);
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
    fn room<R: Rows>(&self, messages: &Messages<'_, R>) -> usize {
        if self.bytes >= u64::from(self.ship.bytes_max) {
            return 0;
        }
        let affordable = messages.view.left(self.budget).div_ceil(ROWS_PER_MESSAGE);
        self.ship.count().saturating_sub(self.seen).min(affordable)
    }

    fn fill<R: Rows>(&mut self, messages: &mut Messages<'_, R>) {
        let queue = self.ship.queue;
        while messages.state.available[queue.sub as usize] > 0 {
            let room = self.room(messages).min(CHUNK);
            if room == 0 {
                self.fired.more = true;
                return;
            }
            let bytes_left = u64::from(self.ship.bytes_max).saturating_sub(self.bytes);
            for stored in messages.places().lowest(queue, room, bytes_left) {
                if self.room(messages) == 0 {
                    break;
                }
                self.seen += 1;
                self.take(messages, stored);
            }
        }
    }

    fn take<R: Rows>(&mut self, messages: &mut Messages<'_, R>, stored: Stored) {
        let (queue, number) = (stored.queue, stored.number);
        let taken = messages.places().detach_lowest(stored, Move::Ship);
        let message = &taken.message;
        let far = message.travel.as_ref().is_some_and(|travel| travel.hops >= HOPS_MAX);
        if messages.is_expired(queue, message) {
            let due = messages.row.expires_at(message);
            let fate = messages.expire(taken);
            self.fired.note(fate, due, messages.at);
        } else if far && queue.sub == SubQueue::DeadLetter {
            messages.places().put_aside(taken);
            self.stuck.push(number);
        } else if far {
            messages.unforwarded(taken, HOPS_REASON, HOPS_DESCRIPTION);
            self.fired.dead_lettered += 1;
        } else if self.ship.destination.is_none() {
            let gone = Refusal::EntityNotFound { name: self.ship.to.clone() }.told();
            messages.unforwarded(taken, &reason(&gone), &gone.to_string()); // FWD-8.
            self.fired.dead_lettered += 1;
        } else {
            self.bytes += u64::from(message.size_bytes);
            messages.places().put_aside(taken);
            self.numbers.push(number);
        }
    }
}
