//! What a receiver or a peek is told of a message is the broker's, whatever it was sent with: property
//! by state of the message, by way to get it, by kind of entity.

use domain::{
    AcceptSession, Acquire, Command, Delivery, Disposition, LockToken, NewMessage, NewRule,
    Outcome, QueueId, QueueProperties, ReceiveDeferred, ReceiveSession, ReceiveSessionDeferred,
    Send, SequenceNumber, SessionCommand, SessionToken, Settle, Settlement, SubQueue,
    SubscriptionProperties, TopicProperties,
};

use crate::support::{EPOCH, Group, QUEUE};
use crate::table::{
    HOUR, MINUTE, RECEIVER, SECOND, Sent, Table, dead_letter, defer, m, ms, queue, sessions,
};
use crate::topic::{TOPIC, Topic, subscription, topic};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Queue,
    Session,
    Subscription,
}

/// An entity of a kind, whose messages live for an hour where they do not say otherwise.
struct Entity {
    group: Group,
    /// What is sent to, and what is received from.
    sent_to: QueueId,
    queue: QueueId,
    hold: Option<SessionToken>,
}

impl Entity {
    fn new(kind: Kind) -> Entity {
        let default_ttl = ms(HOUR);
        let of_queue = |properties: QueueProperties| {
            let Table { group, .. } = Table::new(QueueProperties { default_ttl, ..properties });
            let queue = QueueId::main(QUEUE);
            Entity { group, sent_to: queue, queue, hold: None }
        };
        match kind {
            Kind::Queue => of_queue(queue()),
            Kind::Session => {
                let mut entity = of_queue(sessions());
                let accept = AcceptSession {
                    origin: None,
                    queue: entity.queue,
                    receiver: RECEIVER,
                    session: Some("s".into()),
                };
                let command = Command::Session(SessionCommand::Accept(accept));
                let Outcome::Accepted { token, .. } = entity.group.apply(command) else {
                    panic!("not accepted")
                };
                entity.hold = Some(token);
                entity
            }
            Kind::Subscription => {
                let mut play = Topic::new(TopicProperties { default_ttl, ..topic() });
                let properties =
                    SubscriptionProperties { default_ttl: ms(2 * HOUR), ..subscription() };
                play.subscribe("a", properties, NewRule::default());
                let (sent_to, queue) = (QueueId::main(TOPIC), play.main("a"));
                Entity { group: play.group, sent_to, queue, hold: None }
            }
        }
    }

    fn at(&mut self, seconds: u64) -> &mut Entity {
        self.group.now = EPOCH.plus(ms(seconds * SECOND));
        self
    }

    fn send(&mut self, message: NewMessage) {
        let message = if self.hold.is_some() { message.session("s") } else { message };
        let messages = vec![message];
        let send = Send { origin: None, entity: self.sent_to.entity, messages };
        assert!(matches!(self.group.apply(Command::Send(send)), Outcome::Sent { .. }));
    }

    fn of(&self, sub: SubQueue) -> QueueId {
        QueueId { sub, ..self.queue }
    }

    fn peek(&self, sub: SubQueue) -> Delivery {
        self.seen(self.of(sub))
    }

    /// PEEK-5: of a subscription, at its topic.
    fn peek_schedule(&self) -> Delivery {
        self.seen(self.sent_to)
    }

    fn seen(&self, queue: QueueId) -> Delivery {
        let mut seen = domain::peek(&self.group.rows, queue, SequenceNumber::MIN, 9).expect("seen");
        assert_eq!(seen.len(), 1);
        seen.remove(0)
    }

    fn receive(&mut self, sub: SubQueue) -> Delivery {
        let (receiver, count_max, bytes_max) = (RECEIVER, 1, u32::MAX);
        let command = match self.hold.clone().filter(|_| sub == SubQueue::Main) {
            Some(token) => Command::Session(SessionCommand::Receive(ReceiveSession {
                entity: self.queue.entity,
                token,
                receiver,
                count_max,
                bytes_max,
            })),
            None => {
                Command::Acquire(Acquire { queue: self.of(sub), receiver, count_max, bytes_max })
            }
        };
        self.acquired(command)
    }

    fn by_number(&mut self, sub: SubQueue, number: SequenceNumber) -> Delivery {
        let (origin, receiver, numbers) = (None, RECEIVER, vec![number]);
        let command = match self.hold.clone().filter(|_| sub == SubQueue::Main) {
            Some(token) => {
                let entity = self.queue.entity;
                let receive = ReceiveSessionDeferred { origin, entity, token, receiver, numbers };
                Command::Session(SessionCommand::ReceiveDeferred(receive))
            }
            None => {
                let queue = self.of(sub);
                Command::ReceiveDeferred(ReceiveDeferred { origin, queue, receiver, numbers })
            }
        };
        self.acquired(command)
    }

    fn acquired(&mut self, command: Command) -> Delivery {
        match self.group.apply(command) {
            Outcome::Acquired { mut deliveries, .. } if deliveries.len() == 1 => {
                deliveries.remove(0)
            }
            other => panic!("{other:?}"),
        }
    }

    fn settle(&mut self, sub: SubQueue, token: LockToken, disposition: Disposition) {
        let (queue, settlements) = (self.of(sub), vec![Settlement { token, disposition }]);
        let settle = Settle { origin: None, queue, settlements, atomic: true };
        let outcome = self.group.apply(Command::Settle(settle));
        assert_eq!(outcome, Outcome::Settled { refused: Vec::new() });
    }

    fn activate(&mut self) {
        let (entity, kind) = (self.sent_to.entity, domain::DeadlineKind::Scheduled);
        let fire = domain::Fire { entity, kind, count_max: 9 };
        self.group.apply(Command::Fire(fire));
    }
}

/// State, failed deliveries, then in seconds: enqueued, time to live, expiry, end of the lock.
fn told(delivery: &Delivery) -> String {
    let seconds = |at: domain::Timestamp| at.since(EPOCH).0 / SECOND;
    let or_none = |told: Option<u64>| told.map_or("-".to_owned(), |told| told.to_string());
    let (ttl, expires_at) = (delivery.ttl, delivery.expires_at);
    let until = delivery.lock.map(|lock| seconds(lock.until));
    format!(
        "{:?} +{} at {} lives {} till {} locked till {}",
        delivery.state,
        delivery.delivery_count,
        seconds(delivery.enqueued_at),
        or_none(ttl.map(|ttl| ttl.0 / SECOND)),
        or_none(expires_at.map(seconds)),
        or_none(until),
    )
}

fn token(delivery: &Delivery) -> LockToken {
    delivery.lock.expect("a lock").token
}

/// TTL-19, TTL-23 to TTL-27, LOCK-5, LOCK-19, SESS-10, SCHED-17, DEFER-3, DEFER-7, DLQ-4, DLQ-10.
#[test]
fn ttl_25_sched_17_dlq_4_what_is_told_is_the_brokers() {
    use SubQueue::{DeadLetter, Main};

    // Of a message's own ten minutes, and of the entity's hour. A peek tells of the latter nothing; in
    // the dead-letter queue they are information.
    let (own, default) = (ms(10 * MINUTE), ms(HOUR));
    for kind in [Kind::Queue, Kind::Session, Kind::Subscription] {
        for ttl in [Some(own), None] {
            let lives = ttl.unwrap_or(default).0 / SECOND;
            let told_of = |at: u64, until: &str, peeked: bool| match (ttl, peeked) {
                (None, true) => format!("at {at} lives - till - locked till {until}"),
                _ => format!("at {at} lives {lives} till {} locked till {until}", at + lives),
            };
            // A session's messages are locked as long as it is: since 0.
            let until = |at: u64| if kind == Kind::Session { 60 } else { at + 60 }.to_string();
            let check = |delivery: &Delivery, state: &str, rest: String| {
                assert_eq!(told(delivery), format!("{state} {rest}"), "{kind:?} {ttl:?}");
            };
            let message = || NewMessage { ttl, ..m() };

            let mut entity = Entity::new(kind);
            entity.at(0).send(message());
            check(&entity.at(1).peek(Main), "Active +0", told_of(0, "-", true));
            let active = entity.at(2).receive(Main);
            check(&active, "Active +0", told_of(0, &until(2), false));
            check(&entity.at(3).peek(Main), "Active +0", told_of(0, "-", true));
            entity.settle(Main, token(&active), defer());
            check(&entity.at(4).peek(Main), "Deferred +1", told_of(0, "-", true));
            let deferred = entity.at(5).by_number(Main, active.sequence);
            check(&deferred, "Deferred +1", told_of(0, &until(5), false));

            entity.settle(Main, token(&deferred), dead_letter());
            let as_dead = |until: &str| told_of(0, until, false);
            check(&entity.at(6).peek(DeadLetter), "Active +1", as_dead("-"));
            let received = entity.at(7).receive(DeadLetter);
            check(&received, "Active +1", as_dead("67"));
            entity.settle(DeadLetter, token(&received), defer());
            check(&entity.at(8).peek(DeadLetter), "Deferred +1", as_dead("-"));
            let by_number = entity.at(9).by_number(DeadLetter, received.sequence);
            check(&by_number, "Deferred +1", as_dead("69"));

            let mut entity = Entity::new(kind);
            entity.at(0).send(message().due(10 * SECOND));
            // Its clock starts when it is enqueued.
            let waiting = match ttl {
                Some(_) => format!("at 0 lives {lives} till {} locked till -", 10 + lives),
                None => "at 0 lives - till - locked till -".to_owned(),
            };
            check(&entity.at(1).peek_schedule(), "Scheduled +0", waiting);
            entity.at(10).activate();
            check(&entity.at(11).peek(Main), "Active +0", told_of(10, "-", true));
            let scheduled = entity.at(12).receive(Main);
            check(&scheduled, "Scheduled +0", told_of(10, &until(12), false));
            entity.settle(Main, token(&scheduled), Disposition::Abandon { properties: [].into() });
            let again = entity.at(13).receive(Main);
            check(&again, "Scheduled +1", told_of(10, &until(13), false));
            entity.settle(Main, token(&again), defer());
            let deferred = entity.at(14).by_number(Main, again.sequence);
            check(&deferred, "Deferred +2", told_of(10, &until(14), false));
            entity.settle(Main, token(&deferred), dead_letter());
            let dead = entity.at(15).receive(DeadLetter);
            check(&dead, "Active +2", told_of(10, "75", false));
        }
    }
}
