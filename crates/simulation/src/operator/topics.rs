//! Topics and what requires sessions: made, changed and deleted.

use domain::{
    Command, CreateQueue, CreateSubscription, CreateTopic, EntityId, EntityStatus, PutRule,
    QueueProperties, RemoveRule, Span, Specifics, SubscriptionProperties, TopicCommand,
    TopicProperties, UpdateSubscription, UpdateTopic, subscription_path,
};

use super::{Operator, properties};
use crate::oracle::{Entity, Oracle};
use crate::random::Random;
use crate::rules::Rule;

/// Of a topic.
const SUBSCRIPTIONS: usize = 3;
const RULES_MAX: usize = 4;

/// What there is beside plain queues, or will be.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub topics: Vec<EntityId>,
    /// With their topics.
    pub subscriptions: Vec<(EntityId, EntityId)>,
    /// Queues that require sessions, and subscriptions that do, which are among the others too.
    pub session_queues: Vec<EntityId>,
    pub session_subscriptions: Vec<EntityId>,
}

impl Known {
    /// What can be sent to.
    pub fn targets(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.topics.iter().chain(&self.session_queues).copied()
    }

    /// What is received from by session.
    pub fn with_sessions(&self) -> Vec<EntityId> {
        self.session_queues.iter().chain(&self.session_subscriptions).copied().collect()
    }

    /// Subscriptions that are received from without.
    pub fn without_sessions(&self) -> impl Iterator<Item = EntityId> + '_ {
        let all = self.subscriptions.iter().map(|(_, id)| *id);
        all.filter(|id| !self.session_subscriptions.contains(id))
    }

    pub fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.session_queues.is_empty()
    }

    fn forget(&mut self, gone: EntityId) {
        self.topics.retain(|id| *id != gone);
        self.session_queues.retain(|id| *id != gone);
        self.subscriptions.retain(|(topic, id)| *topic != gone && *id != gone);
        let left: Vec<EntityId> = self.subscriptions.iter().map(|(_, id)| *id).collect();
        self.session_subscriptions.retain(|id| left.contains(id));
    }
}

impl Operator {
    pub(super) fn create_session_queue(&mut self, random: &mut Random) {
        let entity = self.next_id();
        self.known.session_queues.push(entity);
        let before = properties(random, QueueProperties::default());
        let properties = Box::new(QueueProperties { requires_session: true, ..before });
        let name = format!("sessions{}", entity.0);
        self.wanted.push(Command::CreateQueue(CreateQueue { entity, name, properties }));
    }

    pub(super) fn create_topic(&mut self, random: &mut Random) {
        let entity = self.next_id();
        self.known.topics.push(entity);
        let properties = Box::new(TopicProperties {
            requires_duplicate_detection: random.chance(500),
            ..topic_properties(random, TopicProperties::default())
        });
        let name = format!("topic{}", entity.0);
        let create = CreateTopic { entity, name, properties };
        self.wanted.push(Command::Topic(TopicCommand::Create(create)));
    }

    /// Topics that are there get their subscriptions.
    pub(super) fn subscribe(&mut self, oracle: &Oracle, random: &mut Random) {
        for topic in self.known.topics.clone() {
            let has = self.known.subscriptions.iter().filter(|(of, _)| *of == topic).count();
            if has == 0 && oracle.entities.get(&topic).is_some_and(|entity| entity.alive) {
                (0..SUBSCRIPTIONS).for_each(|at| self.create_subscription(topic, at == 0, random));
            }
        }
    }

    fn create_subscription(
        &mut self,
        topic: EntityId,
        requires_session: bool,
        random: &mut Random,
    ) {
        let entity = self.next_id();
        self.known.subscriptions.push((topic, entity));
        if requires_session {
            self.known.session_subscriptions.push(entity);
        }
        let before = SubscriptionProperties { requires_session, ..Default::default() };
        let properties = Box::new(subscription_properties(random, before));
        let name = subscription_path(&format!("topic{}", topic.0), &format!("s{}", entity.0));
        let rule = if random.chance(500) { Rule::ALL } else { Rule::any(random) };
        let rule = Box::new(rule.given());
        let create = CreateSubscription { entity, topic, name, properties, rule };
        self.wanted.push(Command::Topic(TopicCommand::CreateSubscription(create)));
    }

    /// Does something or other about them.
    pub(super) fn act_on_topics(&mut self, oracle: &Oracle, random: &mut Random) {
        match random.below(20) {
            0 => self.replace_subscription(random),
            1 => {
                if let Some(topic) = some(&self.known.topics, random) {
                    self.delete(topic);
                    self.create_topic(random);
                }
            }
            2 => {
                if let Some(queue) = some(&self.known.session_queues, random) {
                    self.delete(queue);
                    self.create_session_queue(random);
                }
            }
            3..10 => self.change_rules(oracle, random),
            10..12 => {
                if let Some(topic) = some(&self.known.topics, random) {
                    self.update_topic(topic, status(random), oracle, random);
                }
            }
            12..17 => {
                if let Some((_, id)) = some(&self.known.subscriptions, random) {
                    self.update_subscription(id, status(random), oracle, random);
                }
            }
            _ => {
                if let Some(queue) = some(&self.known.session_queues, random) {
                    self.update(queue, status(random), oracle, random);
                }
            }
        }
    }

    /// Lets in again what was suspended.
    pub(super) fn resume_topics(&mut self, oracle: &Oracle, random: &mut Random) {
        let is_suspended = |id: &EntityId| {
            let entity = oracle.entities.get(id).filter(|entity| entity.alive);
            entity.is_some_and(|entity| entity.properties.status != EntityStatus::Active)
        };
        let active = EntityStatus::Active;
        for queue in self.known.session_queues.clone().iter().filter(|id| is_suspended(id)) {
            self.update(*queue, active, oracle, random);
        }
        for topic in self.known.topics.clone().iter().filter(|id| is_suspended(id)) {
            self.update_topic(*topic, active, oracle, random);
        }
        for (_, id) in self.known.subscriptions.clone().iter().filter(|(_, id)| is_suspended(id)) {
            self.update_subscription(*id, active, oracle, random);
        }
    }

    fn delete(&mut self, entity: EntityId) {
        self.known.forget(entity);
        self.wanted.push(Command::DeleteEntity { entity });
    }

    fn replace_subscription(&mut self, random: &mut Random) {
        let Some((topic, id)) = some(&self.known.subscriptions, random) else { return };
        let requires_session = self.known.session_subscriptions.contains(&id);
        self.delete(id);
        self.create_subscription(topic, requires_session, random);
    }

    /// One rule more, or less: a subscription may be left without any.
    fn change_rules(&mut self, oracle: &Oracle, random: &mut Random) {
        let Some((_, id)) = some(&self.known.subscriptions, random) else { return };
        let Some(known) = oracle.entities.get(&id) else { return };
        let rule = Rule::any(random);
        if known.rules.len() >= RULES_MAX || (!known.rules.is_empty() && random.chance(400)) {
            let name = random.pick(&known.rules).given().name;
            let remove = RemoveRule { origin: None, entity: id, name };
            self.wanted.push(Command::Topic(TopicCommand::RemoveRule(remove)));
        } else if !known.rules.contains(&rule) {
            let rule = Box::new(rule.given());
            let put = PutRule { origin: None, entity: id, rule, replace: false };
            self.wanted.push(Command::Topic(TopicCommand::PutRule(put)));
        }
    }

    fn update_topic(
        &mut self,
        entity: EntityId,
        status: EntityStatus,
        oracle: &Oracle,
        random: &mut Random,
    ) {
        let Some(known) = oracle.entities.get(&entity) else { return };
        let Specifics::Topic(specifics) = &known.specifics else { return };
        let before = TopicProperties::of(&known.properties, specifics);
        let properties = Box::new(TopicProperties { status, ..topic_properties(random, before) });
        let update = UpdateTopic { origin: None, entity, properties };
        self.wanted.push(Command::Topic(TopicCommand::Update(update)));
    }

    fn update_subscription(
        &mut self,
        entity: EntityId,
        status: EntityStatus,
        oracle: &Oracle,
        random: &mut Random,
    ) {
        let Some(Entity { properties, specifics, .. }) = oracle.entities.get(&entity) else {
            return;
        };
        let Specifics::Subscription(specifics) = specifics else { return };
        let before = SubscriptionProperties::of(properties, specifics);
        let properties = subscription_properties(random, before);
        let properties = Box::new(SubscriptionProperties { status, ..properties });
        let update = UpdateSubscription { origin: None, entity, properties };
        self.wanted.push(Command::Topic(TopicCommand::UpdateSubscription(update)));
    }
}

fn some<T: Copy>(all: &[T], random: &mut Random) -> Option<T> {
    (!all.is_empty()).then(|| random.pick(all))
}

fn status(random: &mut Random) -> EntityStatus {
    if random.chance(200) { EntityStatus::Disabled } else { EntityStatus::Active }
}

fn default_ttl(random: &mut Random) -> Span {
    match random.below(3) {
        0 => Span::MAX,
        _ => Span(random.between(5, 120) * 1000),
    }
}

fn topic_properties(random: &mut Random, before: TopicProperties) -> TopicProperties {
    TopicProperties {
        duplicate_detection_window: Span(random.between(20, 60) * 1000),
        default_ttl: default_ttl(random),
        filter_before_publishing: random.chance(200),
        ..before
    }
}

fn subscription_properties(
    random: &mut Random,
    before: SubscriptionProperties,
) -> SubscriptionProperties {
    SubscriptionProperties {
        lock_duration: Span(random.between(5, 20) * 1000),
        default_ttl: default_ttl(random),
        dead_letter_on_expiration: random.chance(500),
        dead_letter_on_filter_errors: random.chance(700),
        max_delivery_count: random.between(1, 4) as u32,
        ..before
    }
}
