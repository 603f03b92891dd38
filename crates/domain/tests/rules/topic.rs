//! How topics are told: a topic, its subscriptions, and what each of them has. Only this file and
//! `support` touch the machine.
//!
//! A subscription is written as a queue is in `table`: `main | dead-letter`, messages by number.

use std::collections::BTreeMap;
use std::fmt::Write;

use domain::{
    Acquire, Command, CreateSubscription, CreateTopic, DeadlineKind, Delivery, Disposition,
    EntityId, EntityInfo, Fire, FireLocks, Fired, Key, LockToken, NewMessage, NewRule, Outcome,
    PutRule, QueueId, RemoveRule, Row, RuleFilter, SequenceNumber, Settle, Settlement, SqlText,
    SubQueue, SubscriptionProperties, TopicCommand, TopicProperties, UpdateSubscription,
    UpdateTopic, subscription_path,
};

use crate::support::Group;
use crate::table::{RECEIVER, at, m, words};

pub const TOPIC: EntityId = EntityId(20);

pub fn topic() -> TopicProperties {
    TopicProperties::default()
}

pub fn subscription() -> SubscriptionProperties {
    SubscriptionProperties::default()
}

/// A message that says something: see `support::content`.
pub fn says(content: &'static str) -> NewMessage {
    NewMessage { content: content.into(), ..m() }
}

pub fn sql(text: &str) -> SqlText {
    SqlText { text: text.to_owned(), ..SqlText::default() }
}

/// A rule with a SQL filter; an empty one takes everything.
pub fn rule(name: &str, filter: &str) -> NewRule {
    let filter = match filter {
        "" => RuleFilter::True,
        text => RuleFilter::Sql(sql(text)),
    };
    NewRule { name: name.to_owned(), filter, action: None }
}

pub fn acting(name: &str, filter: &str, action: &str) -> NewRule {
    NewRule { action: Some(sql(action)), ..rule(name, filter) }
}

/// A group with a topic, and subscriptions by name.
pub struct Topic {
    pub group: Group,
    subscriptions: BTreeMap<&'static str, EntityId>,
    tokens: BTreeMap<(QueueId, u64), LockToken>,
}

impl Topic {
    pub fn new(properties: TopicProperties) -> Topic {
        let mut group = Group::empty();
        let create = CreateTopic {
            entity: TOPIC,
            name: "Orders".to_owned(),
            properties: Box::new(properties),
        };
        let outcome = group.apply(Command::Topic(TopicCommand::Create(create)));
        assert_eq!(outcome, Outcome::Done);
        Topic { group, subscriptions: BTreeMap::new(), tokens: BTreeMap::new() }
    }

    /// With subscriptions that take everything.
    pub fn with<const N: usize>(subscriptions: [&'static str; N]) -> Topic {
        let mut play = Topic::new(topic());
        for name in subscriptions {
            play.subscribe(name, subscription(), NewRule::default());
        }
        play
    }

    pub fn at(&mut self, ms: u64) -> &mut Topic {
        self.group.now = at(ms);
        self
    }

    pub fn subscribe(
        &mut self,
        name: &'static str,
        properties: SubscriptionProperties,
        rule: NewRule,
    ) -> EntityId {
        let entity = EntityId(TOPIC.0 + 1 + self.subscriptions.len() as u64);
        let outcome = self.create(entity, name, properties, rule);
        assert_eq!(outcome, Outcome::Done, "{name}");
        self.subscriptions.insert(name, entity);
        entity
    }

    pub fn create(
        &mut self,
        entity: EntityId,
        name: &str,
        properties: SubscriptionProperties,
        rule: NewRule,
    ) -> Outcome {
        let create = CreateSubscription {
            entity,
            topic: TOPIC,
            name: subscription_path("Orders", name),
            properties: Box::new(properties),
            rule: Box::new(rule),
        };
        self.topic_command(TopicCommand::CreateSubscription(create))
    }

    pub fn topic_command(&mut self, command: TopicCommand) -> Outcome {
        self.group.apply(Command::Topic(command))
    }

    pub fn id(&self, name: &str) -> EntityId {
        self.subscriptions[name]
    }

    pub fn main(&self, name: &str) -> QueueId {
        QueueId::main(self.id(name))
    }

    pub fn dead(&self, name: &str) -> QueueId {
        QueueId::dead_letter(self.id(name))
    }

    pub fn add(&mut self, subscription: &str, rule: NewRule) -> String {
        self.put(subscription, rule, false)
    }

    pub fn put(&mut self, subscription: &str, rule: NewRule, replace: bool) -> String {
        let (origin, entity, rule) = (None, self.id(subscription), Box::new(rule));
        let put = PutRule { origin, entity, rule, replace };
        words(&self.topic_command(TopicCommand::PutRule(put)))
    }

    pub fn remove(&mut self, subscription: &str, rule: &str) -> String {
        let (origin, entity, name) = (None, self.id(subscription), rule.to_owned());
        words(&self.topic_command(TopicCommand::RemoveRule(RemoveRule { origin, entity, name })))
    }

    pub fn update(&mut self, change: impl FnOnce(&mut TopicProperties)) -> String {
        let mut properties = topic_properties(&self.info(TOPIC));
        change(&mut properties);
        let properties = Box::new(properties);
        let update = UpdateTopic { origin: None, entity: TOPIC, properties };
        words(&self.topic_command(TopicCommand::Update(update)))
    }

    pub fn update_subscription(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut SubscriptionProperties),
    ) -> String {
        let entity = self.id(name);
        let mut properties = subscription_properties(&self.info(entity));
        change(&mut properties);
        let properties = Box::new(properties);
        let update = UpdateSubscription { origin: None, entity, properties };
        words(&self.topic_command(TopicCommand::UpdateSubscription(update)))
    }

    pub fn send_all(&mut self, messages: Vec<NewMessage>) -> String {
        let send = domain::Send { origin: None, entity: TOPIC, messages };
        words(&self.group.apply(Command::Send(send)))
    }

    pub fn send(&mut self, message: NewMessage) -> String {
        self.send_all(vec![message])
    }

    pub fn take(&mut self, queue: QueueId, count_max: u32) -> Vec<Delivery> {
        let acquire = Acquire { queue, receiver: RECEIVER, count_max, bytes_max: u32::MAX };
        match self.group.apply(Command::Acquire(acquire)) {
            Outcome::Acquired { deliveries, .. } => {
                for delivery in &deliveries {
                    let token = delivery.lock.expect("a lock").token;
                    self.tokens.insert((queue, delivery.sequence.0), token);
                }
                deliveries
            }
            other => panic!("not acquired: {other:?}"),
        }
    }

    pub fn settle(&mut self, queue: QueueId, number: u64, disposition: Disposition) -> String {
        let token = self.tokens[&(queue, number)];
        let settlements = vec![Settlement { token, disposition }];
        let settle = Settle { origin: None, queue, settlements, atomic: false };
        words(&self.group.apply(Command::Settle(settle)))
    }

    pub fn complete(&mut self, queue: QueueId, number: u64) {
        assert_eq!(self.settle(queue, number, Disposition::Complete), "settled");
    }

    pub fn delete(&mut self, entity: EntityId) {
        let outcome = self.group.apply(Command::DeleteEntity { entity });
        assert_eq!(outcome, Outcome::Done);
    }

    pub fn sweep(&mut self) {
        while self.fired(Command::Sweep).more {}
    }

    pub fn fired(&mut self, command: Command) -> Fired {
        match self.group.apply(command) {
            Outcome::Fired(fired) => fired,
            other => panic!("not fired: {other:?}"),
        }
    }

    pub fn fire(&mut self, entity: EntityId, kind: DeadlineKind) -> Fired {
        self.fired(Command::Fire(Fire { entity, kind, count_max: u32::MAX }))
    }

    /// In an entry whose matching may take so many units (RULE-41).
    pub fn within(&mut self, units_max: u64, command: Command) -> Outcome {
        let entry = self.group.entry(vec![Command::LimitMatching { units_max }, command]);
        self.group.step(vec![entry]).remove(0).remove(1)
    }

    pub fn send_within(&mut self, units_max: u64, messages: Vec<NewMessage>) -> String {
        let send = domain::Send { origin: None, entity: TOPIC, messages };
        words(&self.within(units_max, Command::Send(send)))
    }

    /// The next entry of what goes on; whether there is more.
    pub fn match_on(&mut self, units_max: u64) -> bool {
        let on = Fire { entity: TOPIC, kind: DeadlineKind::Matching, count_max: u32::MAX };
        match self.within(units_max, Command::Fire(on)) {
            Outcome::Fired(fired) => fired.more,
            other => panic!("not fired: {other:?}"),
        }
    }

    /// All timers of all entities, until they find no more.
    pub fn fire_all(&mut self) {
        let locks = self.group.rows.0.iter().filter_map(|(key, row)| match (key, row) {
            (Key::Lock(queue, sequence), Row::Lock(lock)) => {
                Some((*queue, LockToken { sequence: *sequence, nonce: lock.nonce }))
            }
            _ => None,
        });
        let locks = locks.collect();
        self.fired(Command::FireLocks(FireLocks { locks }));
        let all: Vec<EntityId> =
            [TOPIC].into_iter().chain(self.subscriptions.values().copied()).collect();
        for entity in all {
            for kind in DeadlineKind::ALL {
                while self.fire(entity, kind).more {}
            }
        }
    }

    pub fn info(&self, entity: EntityId) -> EntityInfo {
        domain::entity_info(&self.group.rows, entity).expect("the entity")
    }

    pub fn peek(&self, queue: QueueId) -> Vec<Delivery> {
        domain::peek(&self.group.rows, queue, SequenceNumber::MIN, 250).expect("peeked")
    }

    /// A subscription's messages as tables write them.
    pub fn look(&self, name: &str) -> String {
        let mut parts: [String; 2] = Default::default();
        let entity = self.id(name);
        for (key, row) in &self.group.rows.0 {
            if let (Key::Message(queue, number), Row::Message(row)) = (key, row)
                && queue.entity == entity
            {
                let locked = self.group.rows.0.contains_key(&Key::Lock(*queue, *number));
                let part = &mut parts[queue.sub as usize];
                let space = if part.is_empty() { "" } else { " " };
                let deferred = if row.deferred { "D" } else { "" };
                let lock = if locked { "L" } else { "" };
                write!(part, "{space}{number}{deferred}{lock}").expect("a string");
                if row.delivery_count > 0 {
                    write!(part, "+{}", row.delivery_count).expect("a string");
                }
            }
        }
        match parts[SubQueue::DeadLetter as usize].is_empty() {
            true => parts[0].clone(),
            false => format!("{} | {}", parts[0], parts[1]).trim_start().to_owned(),
        }
    }

    /// Bodies the topic keeps.
    pub fn bodies(&self) -> usize {
        self.count(|key| matches!(key, Key::Body(entity, _) if *entity == TOPIC))
    }

    pub fn count(&self, of: impl Fn(&Key) -> bool) -> usize {
        self.group.rows.0.keys().filter(|key| of(key)).count()
    }
}

pub fn topic_properties(info: &EntityInfo) -> TopicProperties {
    match &info.specifics {
        domain::Specifics::Topic(specifics) => TopicProperties::of(&info.properties, specifics),
        other => panic!("no topic: {other:?}"),
    }
}

pub fn subscription_properties(info: &EntityInfo) -> SubscriptionProperties {
    match &info.specifics {
        domain::Specifics::Subscription(specifics) => {
            SubscriptionProperties::of(&info.properties, specifics)
        }
        other => panic!("no subscription: {other:?}"),
    }
}
