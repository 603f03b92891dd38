//! Topics.

use domain::{
    CatalogCommand, Command, EntityKind, Namespace, Refusal, Specifics, TopicCommand,
    TopicProperties, UpdateTopic, validate,
};

use super::{Entities, Page, QueueInfo};
use crate::edge::address::Caller;
use crate::edge::authorization::settle;
use crate::edge::intents::Intents;
use crate::edge::profiles;
use crate::edge::router::{Router, not_found};
use crate::error::{Error, Result};

/// Topics, by their names.
#[derive(Clone, Copy)]
pub struct Topics<'a> {
    pub(in crate::edge) router: &'a Router,
    pub(in crate::edge) namespace: &'a Namespace,
}

impl<'a> Topics<'a> {
    /// ENT-1 to ENT-4. `request` as of [`Queues::create`](super::Queues::create).
    pub async fn create(
        self,
        name: &str,
        mut properties: TopicProperties,
        request: Option<u64>,
    ) -> Result<QueueInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, name);
        validate::queue_name(name).map_err(refused)?;
        settle(&[], &mut properties.authorization_rules, self.router.local.clock.now());
        validate::topic_properties(&properties).map_err(refused)?;
        let request = request.unwrap_or_else(rand::random);
        let (path, properties) = (self.entities().named(name)?, Box::new(properties));
        let name = path.as_str().to_owned();
        self.entities()
            .create(&path, CatalogCommand::CreateTopic { request, name, properties })
            .await
    }

    /// Description and counters, as of now (COUNT-1).
    pub async fn get(self, name: &str) -> Result<QueueInfo> {
        self.entities().get_kind(name, EntityKind::Topic).await
    }

    /// As [`Queues::list`](super::Queues::list).
    pub async fn list(self, after: Option<&str>, prefix: &str, count_max: u32) -> Result<Page> {
        self.entities().list(EntityKind::Topic, after, prefix, count_max).await
    }

    /// ENT-4, ENT-5: `change` makes of the properties as they are those as they shall be.
    pub async fn update(
        self,
        name: &str,
        change: impl FnOnce(TopicProperties) -> Result<TopicProperties, Refusal>,
    ) -> Result<QueueInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, name);
        let QueueInfo { entity, info, .. } = self.get(name).await?;
        let Specifics::Topic(specifics) = &info.specifics else { return Err(not_found(name)) };
        let before = TopicProperties::of(&info.properties, specifics);
        let mut properties = Box::new(change(before.clone()).map_err(refused)?);
        let old = &info.properties.authorization_rules;
        settle(old, &mut properties.authorization_rules, self.router.local.clock.now());
        validate::topic_properties(&properties).map_err(refused)?;
        profiles::check_change(self.router, self.namespace, (&before, &*properties))
            .map_err(refused)?;
        let update = TopicCommand::Update(UpdateTopic { origin: None, entity, properties });
        let path = self.entities().named(name)?;
        self.router
            .execute(&path, Command::Topic(update), Caller::Edge, self.router.deadline())
            .await?;
        self.get(name).await
    }

    /// ENT-7: the topic, its subscriptions, and all their messages.
    pub async fn delete(self, name: &str) -> Result<()> {
        let name = self.entities().named(name)?;
        Intents::new(self.router).delete(&name, &[EntityKind::Topic]).await
    }

    fn entities(self) -> Entities<'a> {
        Entities::new(self.router, self.namespace)
    }
}
