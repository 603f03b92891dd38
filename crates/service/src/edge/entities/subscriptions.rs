//! Subscriptions.

use domain::{
    CatalogCommand, Command, EntityKind, Namespace, NewRule, Refusal, SQL_FILTERS_MAX, Span,
    Specifics, SubscriptionProperties, TopicCommand, UpdateSubscription, subscription_path,
    validate,
};

use super::{Entities, Page, QueueInfo};
use crate::edge::address::Caller;
use crate::edge::intents::Intents;
use crate::edge::profiles;
use crate::edge::router::{Router, not_found};
use crate::error::{Error, Result};

/// Topics' subscriptions.
#[derive(Clone, Copy)]
pub struct Subscriptions<'a> {
    pub(in crate::edge) router: &'a Router,
    pub(in crate::edge) namespace: &'a Namespace,
}

impl<'a> Subscriptions<'a> {
    /// With its first rule (RULE-2). `request` as of [`Queues::create`](super::Queues::create).
    pub async fn create(
        self,
        topic: &str,
        name: &str,
        mut properties: SubscriptionProperties,
        rule: NewRule,
        request: Option<u64>,
    ) -> Result<QueueInfo> {
        let path = subscription_path(topic, name);
        let refused = |refusal: Refusal| Error::new(refusal, path.as_str());
        validate::subscription_name(name).map_err(refused)?;
        validate::subscription_properties(&properties).map_err(refused)?;
        // RULE-10. The topic's own log decides, when the catalog has recorded the intent. Looked at
        // beforehand too, so that creations beyond the limit cost no entries of either.
        let of_topic = self.entities().get_kind(topic, EntityKind::Topic).await?;
        if let Specifics::Topic(specifics) = &of_topic.info.specifics
            && rule.counts().sql > 0
            && specifics.rules.sql >= SQL_FILTERS_MAX as u32
        {
            let (what, max) = ("SQL filters of the topic", SQL_FILTERS_MAX as u64);
            return Err(refused(Refusal::QuotaExceeded { what, used: max, max }));
        }
        let SubscriptionProperties { forward_to, forward_dead_letters_to, .. } = &mut properties;
        self.entities().qualify_all([forward_to, forward_dead_letters_to])?;
        let (topic, path) = (self.entities().named(topic)?, self.entities().named(&path)?);
        let create = CatalogCommand::CreateSubscription {
            request: request.unwrap_or_else(rand::random),
            topic: topic.as_str().to_owned(),
            name: name.to_owned(),
            properties: Box::new(properties),
            rule: Box::new(rule),
        };
        self.entities().create(&path, create).await
    }

    /// Description and counters, as of now (COUNT-1).
    pub async fn get(self, topic: &str, name: &str) -> Result<QueueInfo> {
        self.entities().get_kind(&subscription_path(topic, name), EntityKind::Subscription).await
    }

    /// A topic's subscriptions in order of lower-cased path, as [`Queues::list`](super::Queues::list).
    pub async fn list(self, topic: &str, after: Option<&str>, count_max: u32) -> Result<Page> {
        self.entities().get_kind(topic, EntityKind::Topic).await?;
        self.entities()
            .list(EntityKind::Subscription, after, &subscription_path(topic, ""), count_max)
            .await
    }

    /// As [`Topics::update`](super::Topics::update).
    pub async fn update(
        self,
        topic: &str,
        name: &str,
        change: impl FnOnce(SubscriptionProperties) -> Result<SubscriptionProperties, Refusal>,
    ) -> Result<QueueInfo> {
        let path = subscription_path(topic, name);
        let refused = |refusal: Refusal| Error::new(refusal, path.as_str());
        let QueueInfo { entity, info, .. } = self.get(topic, name).await?;
        let Specifics::Subscription(specifics) = &info.specifics else {
            return Err(not_found(&path));
        };
        let before = SubscriptionProperties::of(&info.properties, specifics);
        let mut properties = Box::new(change(before.clone()).map_err(refused)?);
        validate::subscription_properties(&properties).map_err(refused)?;
        profiles::check_change(self.router, self.namespace, (&before, &*properties))
            .map_err(refused)?;
        self.entities().check_destinations(&info.properties, &properties.common(Span::MAX)).await?;
        let SubscriptionProperties { forward_to, forward_dead_letters_to, .. } = &mut *properties;
        self.entities().qualify_all([forward_to, forward_dead_letters_to])?;
        let update = UpdateSubscription { origin: None, entity, properties };
        let update = Command::Topic(TopicCommand::UpdateSubscription(update));
        let path = self.entities().named(&path)?;
        self.router.execute(&path, update, Caller::Edge, self.router.deadline()).await?;
        self.get(topic, name).await
    }

    /// ENT-7: the subscription, its rules and its messages.
    pub async fn delete(self, topic: &str, name: &str) -> Result<()> {
        let path = self.entities().named(&subscription_path(topic, name))?;
        Intents::new(self.router).delete(&path, &[EntityKind::Subscription]).await
    }

    fn entities(self) -> Entities<'a> {
        Entities::new(self.router, self.namespace)
    }
}
