//! Topics and subscriptions: created, changed, deleted. A subscription is an entity like a queue; its
//! topic knows it, its messages share the topic's bodies, and the topic is charged for them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::machine::Step;
use crate::machine::entity::{Entity, EntityStep};
use crate::machine::forward::settled;
use crate::machine::rules::{check_limits, check_rule};
use crate::{
    CreateSubscription, CreateTopic, Effect, EntityId, EntityKind, EntityRow, Key, Outcome,
    QueueProperties, Refusal, Row, Rows, RuleCounts, SequenceNumber, Span, Specifics,
    SubscriptionSpecifics, Timestamp, TopicCommand, TopicProperties, TopicSpecifics,
    UpdateSubscription, UpdateTopic, validate,
};

impl TopicCommand {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        match self {
            TopicCommand::Create(command) => command.apply(step),
            TopicCommand::Update(command) => command.apply(step),
            TopicCommand::CreateSubscription(command) => command.apply(step),
            TopicCommand::UpdateSubscription(command) => command.apply(step),
            TopicCommand::PutRule(command) => command.apply(step),
            TopicCommand::RemoveRule(command) => command.apply(step),
        }
    }
}

impl CreateTopic {
    /// A repeat for the same id is `Done`.
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        if step.open(self.entity).is_ok() {
            return Ok(Outcome::Done);
        }
        step.check_new(self.entity)?;
        validate::queue_name(&self.name)?;
        validate::topic_properties(&self.properties)?;
        let specifics = TopicSpecifics {
            filter_before_publishing: self.properties.filter_before_publishing,
            support_ordering: self.properties.support_ordering,
            ..TopicSpecifics::default()
        };
        let properties = self.properties.common();
        step.insert_entity(self.entity, self.name, properties, Specifics::Topic(specifics))
    }
}

impl UpdateTopic {
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut topic = step.open(self.entity)?;
        let mut specifics = topic.topic_specifics()?;
        let old = TopicProperties::of(topic.properties(), &specifics);
        if self.properties.requires_duplicate_detection != old.requires_duplicate_detection {
            let why = "whether a topic detects duplicates is fixed when it is created";
            return Err(Refusal::InvalidOperation { why }); // ENT-5.
        }
        validate::topic_properties(&self.properties)?;
        specifics.filter_before_publishing = self.properties.filter_before_publishing;
        specifics.support_ordering = self.properties.support_ordering;
        topic.describe(self.properties.common(), Specifics::Topic(specifics));
        if self.properties.auto_delete_on_idle != old.auto_delete_on_idle {
            step.tell_windows(self.entity, old.auto_delete_on_idle);
        }
        if self.properties.default_ttl != old.default_ttl {
            for subscription in step.subscriptions(self.entity) {
                step.open(subscription)?.set_topic_ttl(self.properties.default_ttl);
            }
        }
        Ok(Outcome::Done)
    }
}

impl CreateSubscription {
    /// A repeat for the same id is `Done`. How many subscriptions a topic has is the catalog's to check
    /// (QUOTA-7). How many filters it has is known here alone (RULE-10): refused for that, the intent
    /// that the catalog recorded is withdrawn.
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        if step.open(self.entity).is_ok() {
            return Ok(Outcome::Done);
        }
        step.check_new(self.entity)?;
        let mut topic = step.open(self.topic)?;
        let default_ttl = topic.properties().default_ttl;
        let mut of_topic = topic.topic_specifics()?;
        let Some((_, name)) = crate::split_subscription_path(&self.name) else {
            let why = "it is no subscription's path".to_owned();
            return Err(Refusal::Argument { what: "entity name", why });
        };
        validate::subscription_name(name)?;
        validate::subscription_properties(&self.properties)?;
        check_rule(&self.rule)?;
        of_topic.subscriptions += 1;
        let specifics = SubscriptionSpecifics {
            topic: self.topic,
            own_default_ttl: self.properties.default_ttl,
            dead_letter_on_filter_errors: self.properties.dead_letter_on_filter_errors,
            rules: self.rule.counts(),
        };
        of_topic.rules = of_topic.rules.plus(specifics.rules);
        check_limits(RuleCounts::default(), specifics.rules, of_topic.rules)?;
        topic.used_until(topic.at); // IDLE-2: an operation on one of its subscriptions.
        let properties = self.properties.common(default_ttl);
        validate::forwarding(&self.name, &properties)?;
        let specifics = Specifics::Subscription(specifics);
        step.insert_entity(self.entity, self.name, properties, specifics)?;
        step.view.insert(Key::Subscription(self.topic, self.entity), Row::Subscription);
        step.insert_rule(self.topic, self.entity, *self.rule, 0);
        step.set_topic_specifics(self.topic, of_topic);
        Ok(Outcome::Done)
    }
}

impl UpdateSubscription {
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let specifics = step.open(self.entity)?.subscription_specifics()?;
        let topic_ttl = step.open(specifics.topic)?.properties().default_ttl;
        let window = step.window(self.entity);
        let mut subscription = step.open(self.entity)?;
        let new = *self.properties;
        if new.requires_session != subscription.properties().requires_session {
            let why = "whether a subscription requires sessions is fixed when it is created";
            return Err(Refusal::InvalidOperation { why }); // ENT-5.
        }
        validate::subscription_properties(&new)?;
        let specifics = SubscriptionSpecifics {
            own_default_ttl: new.default_ttl,
            dead_letter_on_filter_errors: new.dead_letter_on_filter_errors,
            ..specifics
        };
        let common = new.common(topic_ttl);
        validate::forwarding(&subscription.entity.row.name, &common)?;
        // TTL-26: messages passed as due may be due later now.
        if common.default_ttl > subscription.properties().default_ttl {
            subscription.search_derived_from(SequenceNumber::FIRST);
        }
        subscription.describe(common, Specifics::Subscription(specifics));
        step.tell_window(self.entity, window);
        Ok(Outcome::Done)
    }
}

impl<R: Rows> Step<'_, R> {
    /// ENT-8: refuses an id whose former rows are not swept yet, and the one that has no next.
    pub(super) fn check_new(&mut self, id: EntityId) -> Result<(), Refusal> {
        if self.view.contains(&Key::Sweep(id)) {
            return Err(Refusal::StaleRoute { entity: id });
        }
        match id.0 {
            u64::MAX => {
                let why = "the catalog never issues it".to_owned();
                Err(Refusal::Argument { what: "entity id", why })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn insert_entity(
        &mut self,
        id: EntityId,
        name: String,
        properties: QueueProperties,
        specifics: Specifics,
    ) -> Result<Outcome, Refusal> {
        let (created_at, updated_at) = (self.at, self.at);
        let properties = settled(properties);
        let row = EntityRow { name, properties, specifics, created_at, updated_at };
        self.machine.entities.insert(id, Entity::created(row, self.at));
        self.tell_window(id, Span::MAX);
        Ok(Outcome::Done)
    }

    /// The subscriptions of a topic, in order of their ids.
    pub(super) fn subscriptions(&mut self, topic: EntityId) -> Vec<EntityId> {
        let mut subscriptions = Vec::new();
        let from = Key::Subscription(topic, EntityId(0));
        let to = Key::Subscription(topic, EntityId(u64::MAX));
        self.view.scan(&from, &to, &mut |key, _| {
            if let Key::Subscription(_, subscription) = key {
                subscriptions.push(*subscription);
            }
            ControlFlow::Continue(())
        });
        subscriptions
    }

    /// Writes what a topic knows of its subscriptions, and tells the engine what a publish weighs.
    pub(super) fn set_topic_specifics(&mut self, topic: EntityId, specifics: TopicSpecifics) {
        let Ok(opened) = self.open(topic) else { return };
        opened.entity.row.specifics = Specifics::Topic(specifics);
        opened.entity.row_changed = true;
        self.effects.push(Effect::Fanout { topic, copies_max: specifics.copies_max() });
    }

    /// Charges topics for what this entry changed in their subscriptions: size (COUNT-3, QUOTA-32)
    /// and use (IDLE-2). Exact whenever it was called last; entries end with it.
    pub(super) fn charge_topics(&mut self) {
        let mut charges: BTreeMap<EntityId, (u64, u64, Timestamp)> = BTreeMap::new();
        for id in &self.touched {
            let Some(entity) = self.machine.entities.get_mut(id) else { continue };
            let Specifics::Subscription(SubscriptionSpecifics { topic, .. }) = entity.row.specifics
            else {
                continue;
            };
            let (size, used) = (entity.state.size_bytes, entity.state.last_use);
            let Some(watch) = &mut entity.watch else { continue };
            if (watch.charged, watch.used) == (size, used) {
                continue;
            }
            let (before, after, last_use) = charges.entry(topic).or_default();
            *before += watch.charged;
            *after += size;
            *last_use = used.max(*last_use);
            (watch.charged, watch.used) = (size, used);
        }
        for (topic, (before, after, used)) in charges {
            let Ok(mut topic) = self.open(topic) else { continue };
            let state = topic.state();
            state.size_bytes = state.size_bytes + after - before;
            state.last_use = state.last_use.max(used);
        }
    }

    /// What goes with a topic, or what a topic loses with its subscription.
    pub(super) fn leave_topic(&mut self, id: EntityId, specifics: &Specifics) {
        match *specifics {
            Specifics::Queue => (),
            Specifics::Topic(_) => {
                for subscription in self.subscriptions(id) {
                    self.forget_entity(subscription, Some(id));
                }
                self.machine.topics.remove(&id);
            }
            Specifics::Subscription(SubscriptionSpecifics { topic, rules, .. }) => {
                let size = self.machine.entities.get(&id).map_or(0, |e| e.state.size_bytes);
                self.view.delete(Key::Subscription(topic, id));
                self.forget_rules(topic, id);
                let Ok(mut opened) = self.open(topic) else { return };
                opened.state().size_bytes -= size;
                opened.used_until(opened.at); // IDLE-10.
                let Ok(mut of_topic) = opened.topic_specifics() else { return };
                of_topic.subscriptions -= 1;
                of_topic.rules = of_topic.rules.minus(rules);
                self.set_topic_specifics(topic, of_topic);
            }
        }
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    pub fn kind(&self) -> EntityKind {
        self.entity.row.specifics.kind()
    }

    /// Of another kind, it is not what was routed to.
    pub fn topic_specifics(&self) -> Result<TopicSpecifics, Refusal> {
        match self.entity.row.specifics {
            Specifics::Topic(specifics) => Ok(specifics),
            Specifics::Queue | Specifics::Subscription(_) => {
                Err(Refusal::StaleRoute { entity: self.id })
            }
        }
    }

    /// See [`EntityStep::topic_specifics`].
    pub fn subscription_specifics(&self) -> Result<SubscriptionSpecifics, Refusal> {
        match self.entity.row.specifics {
            Specifics::Subscription(specifics) => Ok(specifics),
            Specifics::Queue | Specifics::Topic(_) => Err(Refusal::StaleRoute { entity: self.id }),
        }
    }

    /// An update: it counts as use (IDLE-13), and the engine hears of it.
    pub fn describe(&mut self, properties: QueueProperties, specifics: Specifics) {
        let at = self.at;
        self.entity.row.properties = settled(properties);
        self.entity.row.specifics = specifics;
        self.entity.row.updated_at = at;
        self.entity.row_changed = true;
        self.used_until(at);
        self.effects.push(Effect::Updated { entity: self.id });
    }

    /// TTL-7, TTL-24: the topic's default changed. No update of the subscription.
    fn set_topic_ttl(&mut self, topic_ttl: Span) {
        let Specifics::Subscription(specifics) = self.entity.row.specifics else { return };
        let ttl = specifics.own_default_ttl.min(topic_ttl);
        let old = self.properties().default_ttl;
        if ttl > old {
            self.search_derived_from(SequenceNumber::FIRST);
        }
        if ttl != old {
            self.entity.row.properties.default_ttl = ttl;
            self.entity.row_changed = true;
        }
    }

    /// Where the bodies of this entity's messages are.
    pub fn topic(&self) -> Option<EntityId> {
        match &self.entity.row.specifics {
            Specifics::Subscription(specifics) => Some(specifics.topic),
            Specifics::Queue | Specifics::Topic(_) => None,
        }
    }
}
