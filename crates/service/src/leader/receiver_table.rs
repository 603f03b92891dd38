//! The receivers a leader serves: where their deliveries go, and what is still under way to them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use domain::{EntityId, QueueId, ReceiverId, SequenceNumber, SessionToken, Timestamp};

use crate::exchange::{Attach, Detached, Event, Received, Sink, Wanted};

struct ServedReceiver {
    queue: QueueId,
    session: Option<Wanted>,
    sink: Sink,
    /// Acquires proposed for it whose outcome is not known yet.
    acquires: u32,
    /// Told `Drained` when nothing is under way any more.
    draining: bool,
}

#[derive(Default)]
pub(crate) struct ReceiverTable {
    receivers: BTreeMap<ReceiverId, ServedReceiver>,
    /// Those that are told what becomes available, by queue (SEL-7).
    watchers: BTreeMap<QueueId, BTreeSet<ReceiverId>>,
    /// Forgotten because they did not take what was sent to them, since somebody last asked.
    gone: Vec<ReceiverId>,
}

impl ReceiverTable {
    pub fn attach(&mut self, attach: &Attach) {
        let (queue, sink) = (attach.queue, attach.sink.clone());
        let session = attach.session.clone();
        let served = ServedReceiver { queue, session, sink, acquires: 0, draining: false };
        self.receivers.insert(attach.receiver, served);
        if attach.session == Some(Wanted::Notices) {
            self.watchers.entry(queue).or_default().insert(attach.receiver);
            self.notice(attach.receiver, SequenceNumber::MIN, SequenceNumber::MAX);
        }
    }

    /// Messages of a queue have become available.
    pub fn rose(&mut self, queue: QueueId, low: SequenceNumber, high: SequenceNumber) {
        let Some(watchers) = self.watchers.get(&queue) else { return };
        for receiver in watchers.clone() {
            self.notice(receiver, low, high);
        }
    }

    fn notice(&mut self, receiver: ReceiverId, low: SequenceNumber, high: SequenceNumber) {
        let Some(served) = self.receivers.get(&receiver) else { return };
        if served.sink.send(receiver, Event::Rose { low, high }).is_err() {
            self.lose(receiver);
        }
    }

    fn remove(&mut self, receiver: ReceiverId) -> Option<ServedReceiver> {
        let served = self.receivers.remove(&receiver)?;
        if served.session == Some(Wanted::Notices)
            && let Entry::Occupied(mut watchers) = self.watchers.entry(served.queue)
        {
            watchers.get_mut().remove(&receiver);
            if watchers.get().is_empty() {
                watchers.remove();
            }
        }
        Some(served)
    }

    pub fn queue(&self, receiver: ReceiverId) -> Option<QueueId> {
        self.receivers.get(&receiver).map(|served| served.queue)
    }

    pub fn session(&self, receiver: ReceiverId) -> Option<Wanted> {
        self.receivers.get(&receiver).and_then(|served| served.session.clone())
    }

    /// How many receivers there are, by entity, those of its dead-letter queue included.
    pub fn consumers(&self) -> BTreeMap<EntityId, u64> {
        let mut consumers = BTreeMap::new();
        for served in self.receivers.values() {
            *consumers.entry(served.queue.entity).or_default() += 1;
        }
        consumers
    }

    pub fn is_empty(&self) -> bool {
        self.receivers.is_empty()
    }

    /// The receivers of an entity's queues.
    pub fn of_entity(&self, entity: EntityId) -> Vec<ReceiverId> {
        let of = self.receivers.iter().filter(|(_, served)| served.queue.entity == entity);
        of.map(|(receiver, _)| *receiver).collect()
    }

    /// New credit ends a drain.
    pub fn credit(&mut self, receiver: ReceiverId) {
        if let Some(served) = self.receivers.get_mut(&receiver) {
            served.draining = false;
        }
    }

    /// Asks for `Drained` as soon as nothing is under way.
    pub fn drain(&mut self, receiver: ReceiverId) {
        if let Some(served) = self.receivers.get_mut(&receiver) {
            served.draining = true;
            if !served.say_drained(receiver) {
                self.lose(receiver);
            }
        }
    }

    /// An acquire was proposed.
    pub fn acquiring(&mut self, receiver: ReceiverId) {
        if let Some(served) = self.receivers.get_mut(&receiver) {
            served.acquires += 1;
        }
    }

    /// An acquire came to its end, with these messages. Gives back what cannot be handed over.
    pub fn acquired(&mut self, receiver: ReceiverId, messages: Vec<Received>) -> Vec<Received> {
        let Some(served) = self.receivers.get_mut(&receiver) else { return messages };
        served.acquires = served.acquires.saturating_sub(1);
        if !messages.is_empty()
            && let Err(Event::Deliveries(lost)) =
                served.sink.send(receiver, Event::Deliveries(messages))
        {
            self.lose(receiver);
            return lost;
        }
        if !served.say_drained(receiver) {
            self.lose(receiver);
        }
        Vec::new()
    }

    /// A session was accepted for a receiver. Gives back one that cannot be handed over.
    pub fn accepted(
        &mut self,
        receiver: ReceiverId,
        token: SessionToken,
        until: Timestamp,
    ) -> Result<(), SessionToken> {
        let Some(served) = self.receivers.get_mut(&receiver) else { return Err(token) };
        served.session = Some(Wanted::Held(token.clone()));
        match served.sink.send(receiver, Event::Accepted { token, until }) {
            Err(Event::Accepted { token, .. }) => {
                self.lose(receiver);
                Err(token)
            }
            _ => Ok(()),
        }
    }

    /// Receivers forgotten since this was last asked, because they are gone or take nothing.
    pub fn take_gone(&mut self) -> Vec<ReceiverId> {
        std::mem::take(&mut self.gone)
    }

    /// One that did not take an event is sent no other: it attaches anew when it finds that its events
    /// have ended.
    fn lose(&mut self, receiver: ReceiverId) {
        if self.remove(receiver).is_some() {
            self.gone.push(receiver);
        }
    }

    /// Tells a receiver that it is served no more, and forgets it.
    pub fn dismiss(&mut self, receiver: ReceiverId, why: Detached) {
        if let Some(served) = self.remove(receiver) {
            // One that is gone itself need not be told.
            drop(served.sink.send(receiver, Event::Detached(why)));
        }
    }

    /// Dismisses everybody.
    pub fn dismiss_all(&mut self, why: &Detached) {
        self.watchers.clear();
        for (receiver, served) in std::mem::take(&mut self.receivers) {
            drop(served.sink.send(receiver, Event::Detached(why.clone())));
        }
    }
}

impl ServedReceiver {
    /// False: there was something to say, and it was not taken.
    fn say_drained(&mut self, receiver: ReceiverId) -> bool {
        if !self.draining || self.acquires > 0 {
            return true;
        }
        self.draining = false;
        self.sink.send(receiver, Event::Drained).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use domain::{EntityId, Refusal};
    use tokio::sync::mpsc;

    use super::*;

    const RECEIVER: ReceiverId = ReceiverId { node: 1, link: 1, epoch: 1 };

    fn attached() -> (ReceiverTable, mpsc::Receiver<Event>) {
        let (sender, events) = mpsc::channel(1);
        let attach = Attach {
            receiver: RECEIVER,
            queue: QueueId::main(EntityId(1)),
            credit: 0,
            session: None,
            arrived: Vec::new(),
            sink: Sink::Local(sender),
        };
        let mut receivers = ReceiverTable::default();
        receivers.attach(&attach);
        (receivers, events)
    }

    fn delivery() -> domain::Delivery {
        let sequence = domain::SequenceNumber(1);
        domain::Delivery {
            sequence,
            body: sequence,
            topic: None,
            size_bytes: 0,
            state: domain::MessageState::Active,
            delivery_count: 0,
            enqueued_at: Timestamp(0),
            enqueued_sequence: sequence,
            dead_letter_source: None,
            scheduled_at: None,
            ttl: None,
            expires_at: None,
            lock: None,
            overlay: None,
        }
    }

    #[test]
    fn a_drain_ends_when_nothing_is_under_way() {
        let (mut receivers, mut events) = attached();
        receivers.acquiring(RECEIVER);
        receivers.drain(RECEIVER);
        assert!(events.try_recv().is_err());
        assert!(receivers.acquired(RECEIVER, Vec::new()).is_empty());
        assert_eq!(events.try_recv(), Ok(Event::Drained));
        assert!(events.try_recv().is_err());
    }

    /// Whoever only watches is told from the first that anything may be there, then what became so, and
    /// nothing of another queue; one that is gone is told nothing.
    #[test]
    fn sel_7_a_watcher_is_told_what_has_become_available() {
        let (sender, mut events) = mpsc::channel(9);
        let queue = QueueId::main(EntityId(1));
        let attach = Attach {
            receiver: RECEIVER,
            queue,
            credit: 0,
            session: Some(Wanted::Notices),
            arrived: Vec::new(),
            sink: Sink::Local(sender),
        };
        let mut receivers = ReceiverTable::default();
        receivers.attach(&attach);
        let number = SequenceNumber;
        let (low, high) = (SequenceNumber::MIN, SequenceNumber::MAX);
        assert_eq!(events.try_recv(), Ok(Event::Rose { low, high }));
        receivers.rose(QueueId::main(EntityId(2)), number(1), number(2));
        receivers.rose(queue, number(3), number(5));
        let (low, high) = (number(3), number(5));
        assert_eq!(events.try_recv(), Ok(Event::Rose { low, high }));
        assert!(events.try_recv().is_err());
        receivers.dismiss(RECEIVER, Detached::LeaderLost);
        assert_eq!(events.try_recv(), Ok(Event::Detached(Detached::LeaderLost)));
        receivers.rose(queue, number(6), number(6));
        assert!(events.try_recv().is_err());
        assert!(receivers.watchers.is_empty());
    }

    #[test]
    fn whoever_is_dismissed_is_told_why() {
        let (mut receivers, mut events) = attached();
        let why = Detached::Refused(Refusal::EntityDisabled { status: "Disabled" });
        receivers.dismiss(RECEIVER, why.clone());
        assert_eq!(events.try_recv(), Ok(Event::Detached(why)));
        assert!(receivers.is_empty());
    }

    #[test]
    fn lock_20_whoever_takes_nothing_is_forgotten_and_what_it_was_sent_comes_back() {
        let (mut receivers, mut events) = attached();
        let message = || Received { delivery: delivery(), content: bytes::Bytes::new() };
        receivers.acquiring(RECEIVER);
        receivers.acquiring(RECEIVER);
        assert!(receivers.acquired(RECEIVER, vec![message()]).is_empty());
        assert!(receivers.take_gone().is_empty());
        assert_eq!(receivers.acquired(RECEIVER, vec![message()]).len(), 1);
        assert_eq!(receivers.take_gone(), [RECEIVER]);
        assert!(receivers.is_empty());
        assert!(matches!(events.try_recv(), Ok(Event::Deliveries(_))));
        assert_eq!(events.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
