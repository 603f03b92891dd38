//! Forwarding between groups, where every step may be lost, repeated, late or out of turn. The model
//! is a list of texts: each was sent once, and in the end is in one queue, was taken out of one, or
//! went with a queue that was deleted.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Acquire, Arrive, CancelScheduled, Command, Commit, Destination, Disposition, EntityStatus,
    ForwardCommand, Key, NewMessage, Operation, Outcome, Properties, QueueId, QueueProperties,
    ReceiverId, Row, Send, SendVia, SequenceNumber, Settle, Settlement, Shipped, SubQueue,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::World;

/// `a` and `b` forward; `c` and `d` only take, and come and go.
const SOURCES: [&str; 2] = ["a", "b"];
const TAKERS: [&str; 2] = ["c", "d"];
/// Without a destination, or to one of these.
const TO: [&str; 4] = ["", "b", "c", "d"];
/// What shipments come out of.
const SHIPPED: [SubQueue; 3] = [SubQueue::Main, SubQueue::DeadLetter, SubQueue::Transfer];

#[derive(Clone, Debug)]
pub enum Act {
    Send {
        source: usize,
        count: usize,
    },
    /// A transaction sends via a source, to it as well, or is spoiled and leaves nothing.
    SendVia {
        source: usize,
        to: [usize; 2],
        count: usize,
        spoiled: bool,
    },
    Ship {
        source: usize,
        dead: bool,
        count: u32,
        again: bool,
    },
    /// A shipment is packed up and put on the road, where it may wait.
    Load {
        source: usize,
        sub: usize,
        nth: usize,
    },
    /// Something on the road arrives; it may be there to arrive again.
    Arrive {
        nth: usize,
        again: bool,
    },
    /// The source hears an answer that was given; it may hear it again.
    Hear {
        nth: usize,
        again: bool,
    },
    Unpark {
        source: usize,
        dead: bool,
    },
    Forward {
        source: usize,
        dead: bool,
        to: usize,
    },
    Status {
        of: usize,
        status: u8,
    },
    /// A taker goes, and another has its name.
    Replace {
        taker: usize,
    },
    /// Takes what is there: completed, or dead-lettered.
    Take {
        of: usize,
        kill: bool,
    },
    Wait,
    Restart,
}

pub fn acts() -> impl Strategy<Value = Vec<Act>> {
    let source = || 0..SOURCES.len();
    let act = prop_oneof![
        4 => (source(), 1..4usize).prop_map(|(source, count)| Act::Send { source, count }),
        6 => (source(), any::<bool>(), 1..4u32, any::<bool>())
            .prop_map(|(source, dead, count, again)| Act::Ship { source, dead, count, again }),
        3 => (source(), [0..3usize, 0..3], 1..4usize, prop::bool::weighted(0.3)).prop_map(
            |(source, to, count, spoiled)| Act::SendVia { source, to, count, spoiled }
        ),
        8 => (source(), 0..SHIPPED.len(), 0..4usize)
            .prop_map(|(source, sub, nth)| Act::Load { source, sub, nth }),
        8 => (any::<usize>(), any::<bool>()).prop_map(|(nth, again)| Act::Arrive { nth, again }),
        8 => (any::<usize>(), any::<bool>()).prop_map(|(nth, again)| Act::Hear { nth, again }),
        1 => (source(), any::<bool>()).prop_map(|(source, dead)| Act::Unpark { source, dead }),
        2 => (source(), any::<bool>(), 0..TO.len())
            .prop_map(|(source, dead, to)| Act::Forward { source, dead, to }),
        2 => (0..4usize, 0..6u8).prop_map(|(of, status)| Act::Status { of, status }),
        1 => (0..TAKERS.len()).prop_map(|taker| Act::Replace { taker }),
        3 => (0..4usize, any::<bool>()).prop_map(|(of, kill)| Act::Take { of, kill }),
        1 => Just(Act::Wait),
        1 => Just(Act::Restart),
    ];
    vec(act, 1..120)
}

struct Play {
    world: World,
    now: u64,
    sent: u64,
    /// Texts that were taken out, or went with a deleted queue.
    gone: BTreeSet<String>,
    road: Vec<(Destination, Arrive)>,
    /// What was answered, and to whom.
    answers: Vec<(QueueId, u64, Outcome)>,
}

pub fn play(acts: &[Act]) {
    let mut world = World::new(3);
    for name in ["d", "c", "b", "a"] {
        let to = |to: &str| Some(to.to_owned());
        let plain = QueueProperties { max_delivery_count: 3, ..QueueProperties::default() };
        world.queue(
            name,
            match name {
                "a" => QueueProperties { forward_to: to("b"), ..plain },
                "b" => QueueProperties { forward_dead_letters_to: to("d"), ..plain },
                _ => plain,
            },
        );
    }
    let (gone, road, answers) = (BTreeSet::new(), Vec::new(), Vec::new());
    let mut play = Play { world, now: 0, sent: 0, gone, road, answers };
    for act in acts {
        play.act(act);
        play.check();
    }
    play.settle();
    play.check();
    play.check_end();
}

impl Play {
    fn queue(&self, source: usize, dead: bool) -> (Destination, QueueId) {
        let of = self.world.id(SOURCES[source]);
        let sub = if dead { SubQueue::DeadLetter } else { SubQueue::Main };
        (of, QueueId { entity: of.entity, sub })
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Send { source, count } => self.send(source, count),
            Act::Ship { source, dead, count, again } => {
                let (of, queue) = self.queue(source, dead);
                self.world.ship(of, queue, count, again);
            }
            Act::SendVia { source, to, count, spoiled } => {
                self.send_via(source, to, count, spoiled);
            }
            Act::Load { source, sub, nth } => {
                let of = self.world.id(SOURCES[source]);
                let queue = QueueId { entity: of.entity, sub: SHIPPED[sub] };
                let serials = self.world.shipments(of, queue);
                let Some(serial) = serials.get(nth) else { return };
                self.road.extend(self.world.arrival(of, queue, *serial));
            }
            Act::Arrive { nth, again } if !self.road.is_empty() => {
                let nth = nth % self.road.len();
                let (to, arrive) = self.road[nth].clone();
                if !again {
                    self.road.remove(nth);
                }
                self.arrive(to, arrive);
            }
            Act::Hear { nth, again } if !self.answers.is_empty() => {
                let nth = nth % self.answers.len();
                let (queue, serial, said) = self.answers[nth].clone();
                if !again {
                    self.answers.remove(nth);
                }
                self.hear(queue, serial, said);
            }
            Act::Arrive { .. } | Act::Hear { .. } => (),
            Act::Unpark { source, dead } => {
                let (of, queue) = self.queue(source, dead);
                self.world.unpark(of, queue, 2);
            }
            Act::Forward { source, dead, to } => {
                let to = Some(TO[to]).filter(|to| !to.is_empty() && *to != SOURCES[source]);
                self.world.update(SOURCES[source], |p| match dead {
                    true => p.forward_dead_letters_to = to.map(str::to_owned),
                    false => p.forward_to = to.map(str::to_owned),
                });
            }
            Act::Status { of, status } => {
                let name = ["a", "b", "c", "d"][of];
                self.world.update(name, |p| {
                    p.status = match status {
                        0 => EntityStatus::Disabled,
                        1 => EntityStatus::SendDisabled,
                        2 => EntityStatus::ReceiveDisabled,
                        _ => EntityStatus::Active,
                    };
                });
            }
            Act::Replace { taker } => {
                let name = TAKERS[taker];
                let of = self.world.id(name);
                let texts: Vec<String> = self
                    .stored()
                    .into_iter()
                    .filter_map(|(text, at)| at.contains_key(&of.entity.0).then_some(text))
                    .collect();
                self.gone.extend(texts);
                self.world.delete(name);
                self.world.queue(name, QueueProperties::default());
            }
            Act::Take { of, kill } => self.take(["a", "b", "c", "d"][of], kill),
            Act::Wait => {
                self.now += 1_000;
                self.world.at(self.now);
            }
            Act::Restart => self.world.groups.iter_mut().for_each(|group| group.reset()),
        }
    }

    fn send(&mut self, source: usize, count: usize) {
        let messages = texts(self.sent, count);
        if let Outcome::Sent { .. } = self.world.send(SOURCES[source], messages) {
            self.sent += count as u64;
        }
    }

    fn send_via(&mut self, source: usize, to: [usize; 2], count: usize, spoiled: bool) {
        let (mut next, via) = (self.sent, self.world.id(SOURCES[source]).entity);
        let mut operations = Vec::new();
        for to in to.map(|to| TO[to + 1]) {
            let messages = texts(next, count);
            next += count as u64;
            let destination = self.world.id(to);
            operations.push(match destination.entity == via {
                true => Operation::Send(Send { origin: None, entity: via, messages }),
                false => Operation::SendVia(SendVia { via, destination, messages }),
            });
        }
        if spoiled {
            let (origin, numbers) = (None, vec![SequenceNumber::MAX]);
            let cancel = CancelScheduled { origin, entity: via, numbers };
            operations.push(Operation::CancelScheduled(cancel));
        }
        let commit = Commit { origin: None, entity: via, operations };
        let outcome = self.world.apply(SOURCES[source], Command::Commit(commit));
        match outcome {
            Outcome::Committed { .. } if !spoiled => self.sent = next,
            Outcome::Refused(_) => (),
            other => panic!("{other:?}"),
        }
    }

    fn arrive(&mut self, to: Destination, arrive: Arrive) {
        let (source, serial) = (arrive.source, arrive.serial);
        let said = self.world.arrive(to, arrive);
        self.answers.push((source, serial, said));
    }

    fn hear(&mut self, queue: QueueId, serial: u64, said: Outcome) {
        let source = SOURCES.map(|name| self.world.id(name));
        let Some(of) = source.into_iter().find(|of| of.entity == queue.entity) else { return };
        let Outcome::Arrived { refused, .. } = said else { return };
        let shipped = ForwardCommand::Shipped(Shipped { queue, serial, refused });
        self.world.group(of).apply(Command::Forward(shipped));
    }

    fn take(&mut self, name: &str, kill: bool) {
        let of = self.world.id(name);
        let queue = QueueId::main(of.entity);
        let receiver = ReceiverId::default();
        let acquire = Acquire { queue, receiver, count_max: 2, bytes_max: u32::MAX };
        let outcome = self.world.apply(name, Command::Acquire(acquire));
        let Outcome::Acquired { deliveries, .. } = outcome else { return };
        let mut texts = Vec::new();
        for delivery in &deliveries {
            let body = Key::Body(of.entity, delivery.body);
            let Some(Row::Body(text)) = self.world.group(of).rows.0.get(&body) else {
                panic!("no body")
            };
            texts.push(String::from_utf8(text.to_vec()).expect("a text"));
        }
        let disposition = match kill {
            true => Disposition::DeadLetter {
                reason: None,
                description: None,
                properties: Properties::new(),
            },
            false => Disposition::Complete,
        };
        let settlements = deliveries
            .iter()
            .map(|delivery| Settlement {
                token: delivery.lock.expect("a lock").token,
                disposition: disposition.clone(),
            })
            .collect();
        let settle = Settle { origin: None, queue, settlements, atomic: true };
        self.world.apply(name, Command::Settle(settle));
        if !kill {
            for text in texts {
                assert!(self.gone.insert(text.clone()), "{text} was taken twice");
            }
        }
    }

    /// Every text that is stored: by entity, whether it can be had there, or is away in a shipment.
    fn stored(&mut self) -> BTreeMap<String, BTreeMap<u64, bool>> {
        let mut found: BTreeMap<String, BTreeMap<u64, bool>> = BTreeMap::new();
        for group in &self.world.groups {
            let mut away: BTreeSet<(QueueId, SequenceNumber)> = BTreeSet::new();
            for (key, row) in &group.rows.0 {
                if let (Key::Shipment(queue, _), Row::Shipment(row)) = (key, row) {
                    away.extend(row.numbers.iter().map(|number| (*queue, *number)));
                }
            }
            for (key, row) in &group.rows.0 {
                let (Key::Message(queue, number), Row::Message(row)) = (key, row) else { continue };
                let entity = queue.entity;
                if !group.rows.0.contains_key(&Key::Entity(entity)) {
                    continue;
                }
                let Some(Row::Body(text)) = group.rows.0.get(&Key::Body(entity, row.body)) else {
                    panic!("{number} has no body")
                };
                let text = String::from_utf8(text.to_vec()).expect("a text");
                let here = !away.contains(&(*queue, *number));
                let before = found.entry(text.clone()).or_default().insert(entity.0, here);
                // A queue that forwards to one that forwards back would hold it twice.
                assert_eq!(before, None, "{text} is twice in {entity:?}");
            }
        }
        found
    }

    /// At most one place has it to give.
    fn check(&mut self) {
        let gone = self.gone.clone();
        for (text, places) in self.stored() {
            let here = places.values().filter(|here| **here).count();
            let taken = usize::from(gone.contains(&text));
            assert!(here + taken <= 1, "{text} is in {places:?}, taken: {taken}");
        }
    }

    /// Everything that is on its way gets there.
    fn settle(&mut self) {
        for name in ["a", "b", "c", "d"] {
            self.world.update(name, |p| p.status = EntityStatus::Active);
        }
        for _ in 0..4 {
            for (source, name) in SOURCES.into_iter().enumerate() {
                for dead in [false, true] {
                    let (of, queue) = self.queue(source, dead);
                    for again in [false, true, false] {
                        self.world.ship(of, queue, 1_000, again);
                        self.world.carry(of, queue);
                    }
                    (0..50).for_each(|_| self.world.unpark(of, queue, 10));
                }
                let of = self.world.id(name);
                self.world.carry(of, QueueId::transfer(of.entity));
            }
        }
    }

    /// Nothing is lost, and nothing is away.
    fn check_end(&mut self) {
        let stored = self.stored();
        for text in (0..self.sent).map(|n| format!("text{n}")) {
            let places = stored.get(&text).cloned().unwrap_or_default();
            assert!(places.values().all(|here| *here), "{text} is away: {places:?}");
            let taken = usize::from(self.gone.contains(&text));
            assert_eq!(places.len() + taken, 1, "{text}: {places:?}, taken: {taken}");
        }
        for name in SOURCES.into_iter().chain(TAKERS) {
            self.check_counts(name);
        }
    }

    /// COUNT-5.
    fn check_counts(&mut self, name: &str) {
        let of = self.world.id(name);
        let rows = &self.world.group(of).rows;
        let counts = domain::entity_info(rows, of.entity).expect("the queue").counts;
        assert!(counts.balanced(), "{counts:?}");
    }
}

/// Messages numbered from one on.
fn texts(first: u64, count: usize) -> Vec<NewMessage> {
    let message = |n: u64| NewMessage {
        content: format!("text{n}").into(),
        size_bytes: 10,
        header_bytes: 4,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    };
    (first..first + count as u64).map(message).collect()
}
