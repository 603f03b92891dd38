//! Topics and subscriptions: created, changed, deleted. A subscription is an entity like a queue; its
//! topic knows it, its messages share the topic's bodies, and the topic is charged for them.

use crate::machine::Step;
use crate::machine::rules::{check_limits, check_rule};
use crate::{
    CreateSubscription, CreateTopic, Key, Outcome, Refusal, Row, Rows, RuleCounts, SequenceNumber,
    Specifics, SubscriptionProperties, SubscriptionSpecifics, TopicCommand, TopicProperties,
    TopicSpecifics, UpdateSubscription, UpdateTopic, validate,
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
        let level = step.view.level;
        level.queue_name(&self.name)?;
        validate::topic_properties(&self.properties)?;
        let mut specifics = TopicSpecifics::default();
        specifics.tell(&self.properties);
        level.restrict_topic(&mut specifics);
        let properties = self.properties.common();
        step.insert_entity(self.entity, self.name, properties, Specifics::Topic(specifics))
    }
}

impl UpdateTopic {
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut topic = step.open(self.entity)?;
        let mut specifics = topic.topic_specifics()?;
        let old = TopicProperties::of(topic.properties(), &specifics);
        validate::unchanged(&old, &self.properties)?;
        validate::topic_properties(&self.properties)?;
        specifics.tell(&self.properties);
        topic.view.level.restrict_topic(&mut specifics);
        topic.describe(self.properties.common(), Specifics::Topic(specifics));
        if self.properties.auto_delete_on_idle != old.auto_delete_on_idle {
            step.tell_windows(self.entity, old.auto_delete_on_idle);
        }
        if self.properties.default_ttl != old.default_ttl {
            for subscription in step.view.subscriptions(self.entity) {
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
        let level = topic.view.level;
        level.subscription_name(name)?;
        level.subscription_properties(&self.properties)?;
        check_rule(level, &self.rule)?;
        of_topic.subscriptions += 1;
        let rules = self.rule.counts();
        let mut specifics = SubscriptionSpecifics {
            rules,
            ..SubscriptionSpecifics::of(self.topic, &self.properties)
        };
        level.restrict_subscription(&mut specifics);
        of_topic.rules = of_topic.rules.plus(specifics.rules);
        check_limits(RuleCounts::default(), specifics.rules, of_topic.rules)?;
        topic.used_until(topic.at); // IDLE-2: an operation on one of its subscriptions.
        let properties = self.properties.common(default_ttl);
        level.new_forwarding(&self.name, &properties)?;
        let specifics = Specifics::Subscription(specifics);
        step.insert_entity(self.entity, self.name, properties, specifics)?;
        step.view.insert(Key::Subscription(self.topic, self.entity), Row::Subscription);
        step.rules().insert(self.topic, self.entity, *self.rule, 0);
        step.set_topic_specifics(self.topic, of_topic);
        Ok(Outcome::Done)
    }
}

impl UpdateSubscription {
    fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut specifics = step.open(self.entity)?.subscription_specifics()?;
        let topic_ttl = step.open(specifics.topic)?.properties().default_ttl;
        let window = step.window(self.entity);
        let mut subscription = step.open(self.entity)?;
        let new = *self.properties;
        let old = SubscriptionProperties::of(subscription.properties(), &specifics);
        validate::unchanged(&old, &new)?;
        let level = subscription.view.level;
        level.subscription_properties(&new)?;
        specifics.tell(&new);
        level.restrict_subscription(&mut specifics);
        let common = new.common(topic_ttl);
        level.forwarding(&subscription.row.name, &common)?;
        // TTL-26: messages passed as due may be due later now.
        if common.default_ttl > subscription.properties().default_ttl {
            subscription.messages().deadlines().search_derived_from(SequenceNumber::FIRST);
        }
        subscription.describe(common, Specifics::Subscription(specifics));
        step.tell_window(self.entity, window);
        Ok(Outcome::Done)
    }
}
