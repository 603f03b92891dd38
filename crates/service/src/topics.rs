//! Topics, their subscriptions and rules. A subscription is found under its path like any other
//! entity, and lives where its topic does.

use domain::{
    CatalogCommand, Command, EntityId, EntityKind, NewRule, PutRule, Refusal, RemoveRule, RuleRow,
    SQL_FILTERS_MAX, Span, Specifics, SubscriptionProperties, TopicCommand, TopicProperties,
    UpdateSubscription, UpdateTopic, subscription_path, validate,
};

use crate::address::Asker;
use crate::broker::Broker;
use crate::entities::{PAGE_MAX, Page, QueueInfo};
use crate::error::{Error, Result};
use crate::reads::{Read, ReadAnswer};
use crate::router::not_found;

impl Broker {
    /// ENT-1 to ENT-4. `request` as of [`Broker::create_queue`].
    pub async fn create_topic(
        &self,
        name: &str,
        mut properties: TopicProperties,
        request: Option<u64>,
    ) -> Result<QueueInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, name);
        validate::queue_name(name).map_err(refused)?;
        self.settle_rules(&[], &mut properties.authorization_rules);
        validate::topic_properties(&properties).map_err(refused)?;
        let request = request.unwrap_or_else(rand::random);
        let (path, name, properties) = (name, name.to_owned(), Box::new(properties));
        self.create(path, CatalogCommand::CreateTopic { request, name, properties }).await
    }

    /// Description and counters, as of now (COUNT-1).
    pub async fn get_topic(&self, name: &str) -> Result<QueueInfo> {
        self.get_kind(name, EntityKind::Topic).await
    }

    /// As [`Broker::list_queues`].
    pub async fn list_topics(
        &self,
        after: Option<&str>,
        prefix: &str,
        count_max: u32,
    ) -> Result<Page> {
        self.list(EntityKind::Topic, after, prefix, count_max).await
    }

    /// ENT-4, ENT-5: `change` makes of the properties as they are those as they shall be.
    pub async fn update_topic(
        &self,
        name: &str,
        change: impl FnOnce(TopicProperties) -> Result<TopicProperties, Refusal>,
    ) -> Result<QueueInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, name);
        let QueueInfo { entity, info, .. } = self.get_topic(name).await?;
        let Specifics::Topic(specifics) = &info.specifics else { return Err(not_found(name)) };
        let properties = TopicProperties::of(&info.properties, specifics);
        let mut properties = Box::new(change(properties).map_err(refused)?);
        let old = &info.properties.authorization_rules;
        self.settle_rules(old, &mut properties.authorization_rules);
        validate::topic_properties(&properties).map_err(refused)?;
        let update = TopicCommand::Update(UpdateTopic { origin: None, entity, properties });
        self.ask(name, update).await?;
        self.get_topic(name).await
    }

    /// ENT-7: the topic, its subscriptions, and all their messages.
    pub async fn delete_topic(&self, name: &str) -> Result<()> {
        self.delete(name, &[EntityKind::Topic]).await
    }

    /// With its first rule (RULE-2). `request` as of [`Broker::create_queue`].
    pub async fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        properties: SubscriptionProperties,
        rule: NewRule,
        request: Option<u64>,
    ) -> Result<QueueInfo> {
        let path = subscription_path(topic, name);
        let refused = |refusal: Refusal| Error::new(refusal, path.as_str());
        validate::subscription_name(name).map_err(refused)?;
        validate::subscription_properties(&properties).map_err(refused)?;
        // RULE-10. The topic's own log decides, when the catalog has recorded the intent. Looked at
        // beforehand too, so that creations beyond the limit cost no entries of either.
        let of_topic = self.get_topic(topic).await?;
        if let Specifics::Topic(specifics) = &of_topic.info.specifics
            && rule.counts().sql > 0
            && specifics.rules.sql >= SQL_FILTERS_MAX as u32
        {
            let (what, max) = ("SQL filters of the topic", SQL_FILTERS_MAX as u64);
            return Err(refused(Refusal::QuotaExceeded { what, used: max, max }));
        }
        let create = CatalogCommand::CreateSubscription {
            request: request.unwrap_or_else(rand::random),
            topic: topic.to_owned(),
            name: name.to_owned(),
            properties: Box::new(properties),
            rule: Box::new(rule),
        };
        self.create(&path, create).await
    }

    /// Description and counters, as of now (COUNT-1).
    pub async fn get_subscription(&self, topic: &str, name: &str) -> Result<QueueInfo> {
        self.get_kind(&subscription_path(topic, name), EntityKind::Subscription).await
    }

    /// A topic's subscriptions in order of lower-cased path, as [`Broker::list_queues`].
    pub async fn list_subscriptions(
        &self,
        topic: &str,
        after: Option<&str>,
        count_max: u32,
    ) -> Result<Page> {
        self.get_topic(topic).await?;
        self.list(EntityKind::Subscription, after, &subscription_path(topic, ""), count_max).await
    }

    /// As [`Broker::update_topic`].
    pub async fn update_subscription(
        &self,
        topic: &str,
        name: &str,
        change: impl FnOnce(SubscriptionProperties) -> Result<SubscriptionProperties, Refusal>,
    ) -> Result<QueueInfo> {
        let path = subscription_path(topic, name);
        let refused = |refusal: Refusal| Error::new(refusal, path.as_str());
        let QueueInfo { entity, info, .. } = self.get_subscription(topic, name).await?;
        let Specifics::Subscription(specifics) = &info.specifics else {
            return Err(not_found(&path));
        };
        let properties = SubscriptionProperties::of(&info.properties, specifics);
        let properties = Box::new(change(properties).map_err(refused)?);
        validate::subscription_properties(&properties).map_err(refused)?;
        self.check_destinations(&info.properties, &properties.common(Span::MAX)).await?;
        let update = UpdateSubscription { origin: None, entity, properties };
        self.ask(&path, TopicCommand::UpdateSubscription(update)).await?;
        self.get_subscription(topic, name).await
    }

    /// ENT-7: the subscription, its rules and its messages.
    pub async fn delete_subscription(&self, topic: &str, name: &str) -> Result<()> {
        self.delete(&subscription_path(topic, name), &[EntityKind::Subscription]).await
    }

    /// Adds a rule, or with `replace` puts it in the place of the one of its name (RULE-1, RULE-13).
    pub async fn put_rule(
        &self,
        topic: &str,
        subscription: &str,
        rule: NewRule,
        replace: bool,
    ) -> Result<()> {
        let path = subscription_path(topic, subscription);
        let route = self.router().route(&path, self.router().deadline()).await?;
        let (origin, entity, rule) = (None, route.entity, Box::new(rule));
        self.ask(&path, TopicCommand::PutRule(PutRule { origin, entity, rule, replace })).await
    }

    pub async fn remove_rule(&self, topic: &str, subscription: &str, name: &str) -> Result<()> {
        let path = subscription_path(topic, subscription);
        let route = self.router().route(&path, self.router().deadline()).await?;
        let (origin, entity, name) = (None, route.entity, name.to_owned());
        self.ask(&path, TopicCommand::RemoveRule(RemoveRule { origin, entity, name })).await
    }

    /// RULE-38: in order of name, at most `top` (1 to 1,000) after `skip` of them.
    pub async fn list_rules(
        &self,
        topic: &str,
        subscription: &str,
        skip: u32,
        top: u32,
    ) -> Result<Vec<RuleRow>> {
        let path = subscription_path(topic, subscription);
        if !(1..=PAGE_MAX).contains(&top) {
            let (what, value, allowed) = ("top", top.to_string(), "1 to 1000");
            return Err(Error::new(Refusal::ArgumentOutOfRange { what, value, allowed }, path));
        }
        let read = |subscription| Read::Rules { subscription, skip, count_max: top };
        self.read_rules(&path, read).await
    }

    /// A rule by its name, in whatever case.
    pub async fn get_rule(&self, topic: &str, subscription: &str, name: &str) -> Result<RuleRow> {
        let path = subscription_path(topic, subscription);
        // Whether the subscription is there is asked too: without it there is an empty list.
        self.get_subscription(topic, subscription).await?;
        let read = |subscription| Read::Rule { subscription, name: name.to_owned() };
        let found = self.read_rules(&path, read).await?.pop();
        found.ok_or_else(|| {
            let name = format!("{path}/Rules/{name}");
            Error::new(Refusal::EntityNotFound { name }, path)
        })
    }

    async fn read_rules(
        &self,
        path: &str,
        read: impl Fn(EntityId) -> Read,
    ) -> Result<Vec<RuleRow>> {
        let deadline = self.router().deadline();
        let mut route = self.router().route(path, deadline).await?;
        for last in [false, true] {
            let answer = self.router().read(route.group, read(route.entity), deadline).await;
            match answer.map_err(|kind| Error::new(kind, path))? {
                ReadAnswer::Rules(rules) => return Ok(rules),
                _ if last => break,
                _ => route = self.router().refresh(path, deadline).await?,
            }
        }
        Err(not_found(path))
    }

    async fn ask(&self, path: &str, command: TopicCommand) -> Result<()> {
        let deadline = self.router().deadline();
        self.execute(path, Command::Topic(command), Asker::Edge, deadline).await.map(drop)
    }
}
