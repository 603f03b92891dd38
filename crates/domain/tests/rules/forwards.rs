//! Queues that forward, on groups of their own, and what is seen of them.

use domain::{
    Acquire, Command, CreateSubscription, CreateTopic, Delivery, Destination, Disposition,
    EntityInfo, Key, NewRule, Outcome, PerSubQueue, QueueId, QueueProperties, Row, SequenceNumber,
    Settle, Settlement, SubQueue, SubscriptionProperties, TopicCommand, TopicProperties, Value,
    Waiting, subscription_path,
};

use crate::support::World;
use crate::table::{RECEIVER, queue, words};

/// A queue that forwards.
pub fn to(name: &str) -> QueueProperties {
    QueueProperties { forward_to: Some(name.to_owned()), ..queue() }
}

/// A queue whose dead letters are forwarded.
pub fn dead_to(name: &str) -> QueueProperties {
    QueueProperties { forward_dead_letters_to: Some(name.to_owned()), ..queue() }
}

/// `a` forwards to `b`, on another group.
pub fn pair() -> World {
    let mut world = World::new(2);
    world.queue("b", queue());
    world.queue("a", to("b"));
    world
}

impl World {
    pub fn main(&self, name: &str) -> QueueId {
        QueueId::main(self.id(name).entity)
    }

    pub fn dead(&self, name: &str) -> QueueId {
        QueueId::dead_letter(self.id(name).entity)
    }

    /// Forwards until nothing is left to do, or something is refused that is tried again.
    pub fn forward(&mut self, name: &str) {
        self.forward_by(name, u32::MAX);
    }

    pub fn forward_by(&mut self, name: &str, count_max: u32) {
        let of = self.id(name);
        for queue in [self.main(name), self.dead(name)] {
            while self.info(name).counts.transfer > 0 || self.waiting(name, queue.sub).ready > 0 {
                self.ship(of, queue, count_max, false);
                self.carry(of, queue);
                if self.waiting(name, queue.sub).parked > 0 {
                    break;
                }
            }
        }
    }

    fn waiting(&mut self, name: &str, sub: SubQueue) -> Waiting {
        let (of, properties) = (self.id(name), self.info(name).properties);
        match self.group(of).rows.0.get(&Key::EntityState(of.entity)) {
            Some(Row::EntityState(state)) => state.waiting(&properties, sub),
            other => panic!("no state: {other:?}"),
        }
    }

    pub fn info(&mut self, name: &str) -> EntityInfo {
        let of = self.id(name);
        domain::entity_info(&self.group(of).rows, of.entity).expect("the entity")
    }

    pub fn look(&mut self, name: &str) -> String {
        let of = self.id(name);
        let mut parts: PerSubQueue<Vec<String>> = Default::default();
        for (key, row) in &self.group(of).rows.0 {
            match (key, row) {
                (Key::Message(queue, number), Row::Message(_)) if queue.entity == of.entity => {
                    parts[queue.sub as usize].push(number.to_string());
                }
                (Key::Scheduled(owner, number), _) if *owner == of.entity => {
                    parts[0].push(format!("{number}S"));
                }
                _ => (),
            }
        }
        let text = format!("{} | {}", parts[0].join(" "), parts[1].join(" "));
        text.trim_end_matches([' ', '|']).trim_start().to_owned()
    }

    pub fn peeked(&mut self, queue: QueueId, name: &str) -> Vec<Delivery> {
        let of = self.id(name);
        domain::peek(&self.group(of).rows, queue, SequenceNumber::MIN, 250).expect("peeked")
    }

    pub fn take(&mut self, name: &str, sub: SubQueue) -> Outcome {
        let queue = QueueId { entity: self.id(name).entity, sub };
        let acquire = Acquire { queue, receiver: RECEIVER, count_max: 10, bytes_max: u32::MAX };
        self.apply(name, Command::Acquire(acquire))
    }

    /// Takes what is there and dead-letters it.
    pub fn kill(&mut self, name: &str) {
        let Outcome::Acquired { deliveries, .. } = self.take(name, SubQueue::Main) else {
            panic!("nothing to take")
        };
        let queue = self.main(name);
        let settlement = |delivery: &Delivery| Settlement {
            token: delivery.lock.expect("a lock").token,
            disposition: Disposition::DeadLetter {
                reason: Some("why".to_owned()),
                description: None,
                properties: Default::default(),
            },
        };
        let settlements = deliveries.iter().map(settlement).collect();
        let settle = Settle { origin: None, queue, settlements, atomic: true };
        self.apply(name, Command::Settle(settle));
    }

    /// Why a message is in a dead-letter queue.
    pub fn reason(&mut self, name: &str, number: u64) -> String {
        let queue = self.dead(name);
        let found = self.peeked(queue, name);
        let found = found.into_iter().find(|delivery| delivery.sequence.0 == number);
        let overlay = found.expect("a dead letter").overlay.expect("a reason");
        match overlay.set.get(domain::DEAD_LETTER_REASON) {
            Some(Value::String(reason)) => reason.clone(),
            other => panic!("no reason: {other:?}"),
        }
    }

    pub fn topic(&mut self, name: &str, properties: TopicProperties) {
        let of = self.name(name);
        let (entity, name, properties) = (of.entity, name.to_owned(), Box::new(properties));
        let create = TopicCommand::Create(CreateTopic { entity, name, properties });
        assert_eq!(self.group(of).apply(Command::Topic(create)), Outcome::Done);
    }

    /// On the group of its topic, known as `topic/name`.
    pub fn subscription(
        &mut self,
        topic: &str,
        name: &str,
        properties: SubscriptionProperties,
        rule: NewRule,
    ) {
        let group = self.id(topic).group;
        let mut of = Destination { group: domain::GroupId(9), ..self.id(topic) };
        while of.group != group {
            of = self.name(&format!("{topic}/{name}"));
        }
        let create = TopicCommand::CreateSubscription(CreateSubscription {
            entity: of.entity,
            topic: self.id(topic).entity,
            name: subscription_path(topic, name),
            properties: Box::new(properties),
            rule: Box::new(rule),
        });
        assert_eq!(self.group(of).apply(Command::Topic(create)), Outcome::Done);
    }

    pub fn fire(&mut self, name: &str, kind: domain::DeadlineKind) -> String {
        let entity = self.id(name).entity;
        let fire = domain::Fire { entity, kind, count_max: 100 };
        words(&self.apply(name, Command::Fire(fire)))
    }
}
