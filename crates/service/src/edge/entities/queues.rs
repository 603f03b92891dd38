//! Queues.

use domain::{
    CatalogCommand, Command, EntityKind, Namespace, QueueProperties, Refusal, UpdateQueue, validate,
};

use super::{Entities, Page, QueueInfo};
use crate::edge::address::Caller;
use crate::edge::authorization::settle;
use crate::edge::intents::Intents;
use crate::edge::profiles;
use crate::edge::router::Router;
use crate::error::{Error, Result};

/// Queues, by their names.
#[derive(Clone, Copy)]
pub struct Queues<'a> {
    pub(in crate::edge) router: &'a Router,
    pub(in crate::edge) namespace: &'a Namespace,
}

impl<'a> Queues<'a> {
    /// ENT-1 to ENT-4. `request`: the client's own number for this creation, drawn at random, if it
    /// may repeat it (SEND-8).
    pub async fn create(
        self,
        name: &str,
        mut properties: QueueProperties,
        request: Option<u64>,
    ) -> Result<QueueInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, name);
        validate::queue_name(name).map_err(refused)?;
        settle(&[], &mut properties.authorization_rules, self.router.local.clock.now());
        validate::queue_properties(&properties).map_err(refused)?;
        // ENT-1: whatever case the client writes it in.
        let path = self.entities().named(&name.to_ascii_lowercase())?;
        let QueueProperties { forward_to, forward_dead_letters_to, .. } = &mut properties;
        self.entities().qualify_all([forward_to, forward_dead_letters_to])?;
        let properties = Box::new(properties);
        let name = path.as_str().to_owned();
        let request = request.unwrap_or_else(rand::random);
        self.entities().create(&path, CatalogCommand::Create { request, name, properties }).await
    }

    /// Description and counters, as of now (COUNT-1). A topic's name is no queue's (ENT-2).
    pub async fn get(self, name: &str) -> Result<QueueInfo> {
        self.entities().get_kind(name, EntityKind::Queue).await
    }

    /// Queues in order of lower-cased name, after `after`, at most `count_max` (1 to 1,000). One
    /// that is deleted while the page is put together is left out.
    pub async fn list(self, after: Option<&str>, prefix: &str, count_max: u32) -> Result<Page> {
        self.entities().list(EntityKind::Queue, after, prefix, count_max).await
    }

    /// Changes a queue (ENT-4, ENT-5): `change` makes of the properties as they are those as they
    /// shall be.
    pub async fn update(
        self,
        name: &str,
        change: impl FnOnce(&mut QueueProperties) -> Result<(), Refusal>,
    ) -> Result<QueueInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, name);
        let QueueInfo { entity, info, .. } = self.get(name).await?;
        let old = info.properties.clone();
        let mut properties = info.properties;
        change(&mut properties).map_err(refused)?;
        settle(
            &old.authorization_rules,
            &mut properties.authorization_rules,
            self.router.local.clock.now(),
        );
        validate::queue_properties(&properties).map_err(refused)?;
        validate::forwarding_of_sessions(&old, &properties).map_err(refused)?;
        profiles::check_change(self.router, self.namespace, (&old, &properties))
            .map_err(refused)?;
        self.entities().check_destinations(&old, &properties).await?;
        let QueueProperties { forward_to, forward_dead_letters_to, .. } = &mut properties;
        self.entities().qualify_all([forward_to, forward_dead_letters_to])?;
        let properties = Box::new(properties);
        let path = self.entities().named(name)?;
        let update = Command::UpdateQueue(UpdateQueue { origin: None, entity, properties });
        self.router.execute(&path, update, Caller::Edge, self.router.deadline()).await?;
        self.get(name).await
    }

    /// ENT-7: the queue and all its messages.
    pub async fn delete(self, name: &str) -> Result<()> {
        let name = self.entities().named(name)?;
        Intents::new(self.router).delete(&name, &[EntityKind::Queue]).await
    }

    fn entities(self) -> Entities<'a> {
        Entities::new(self.router, self.namespace)
    }
}
