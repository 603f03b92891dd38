//! Creating, reading, changing and deleting entities. What is particular to a kind is in a handle of its own;
//! a subscription is found under its path like any other entity, and lives where its topic does.

mod queues;
mod rules;
mod subscriptions;
mod topics;

use std::collections::BTreeMap;

use auth::{Key, entity_path, resource_path};
use domain::{
    CatalogCommand, DirectoryRow, EntityId, EntityInfo, EntityKind, GroupId, Namespace,
    QUALIFIED_END, QualifiedName, QueueProperties, Refusal, SubQueue, subscription_path, told_name,
};
use futures::future::join_all;
use tokio::time::Instant;

pub use self::queues::Queues;
pub use self::rules::Rules;
pub use self::subscriptions::Subscriptions;
pub use self::topics::Topics;
use crate::edge::authorization::key;
use crate::edge::catalog::Catalog;
use crate::edge::intents::{Created, Intents};
use crate::edge::router::{Router, not_found};
use crate::error::{Error, ErrorKind, Result, Unavailable};
use crate::exchange::{Read, ReadAnswer};

/// Most names in one page.
pub const PAGE_MAX: u32 = 1000;

/// An entity as it stands, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueInfo {
    pub entity: EntityId,
    pub group: GroupId,
    /// Who leads the group now, as far as this node knows.
    pub leader: Option<u64>,
    pub info: EntityInfo,
}

/// Which names a list holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed<'a> {
    Queues,
    Topics,
    SubscriptionsOf(&'a str),
}

/// Names after a point of the directory, and where to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub queues: Vec<QueueInfo>,
    /// To be given as `after`; absent: there is no more.
    pub next: Option<String>,
}

impl Page {
    const EMPTY: Page = Page { queues: Vec::new(), next: None };
}

/// A part of the directory.
struct DirectorySpan {
    /// In all the cluster.
    prefix: String,
    after: Option<String>,
}

/// Entities of whatever kind.
#[derive(Clone, Copy)]
pub struct Entities<'a> {
    router: &'a Router,
    namespace: &'a Namespace,
}

impl<'a> Entities<'a> {
    pub(super) fn new(router: &'a Router, namespace: &'a Namespace) -> Entities<'a> {
        Entities { router, namespace }
    }

    /// NS-3.
    fn named(self, name: &str) -> Result<QualifiedName> {
        self.namespace.qualify(name).map_err(|refusal| Error::new(refusal, name))
    }

    /// Whatever has the name, queue or topic (ENT-2).
    pub async fn get(self, name: &str) -> Result<QueueInfo> {
        self.get_named(&self.named(name)?).await
    }

    async fn get_named(self, name: &QualifiedName) -> Result<QueueInfo> {
        let found = self.find(name).await?;
        match found.info.specifics.kind() {
            EntityKind::Queue | EntityKind::Topic => Ok(found),
            EntityKind::Subscription => Err(not_found(name.as_str())),
        }
    }

    /// What has the name, by this node's own rows, which may be behind; `None` for what is not there, or
    /// not yet, or not any more. Two of one name, made one after the other, are told apart.
    pub fn known_here(self, name: &str) -> Option<EntityId> {
        let name = self.namespace.qualify(name).ok()?;
        let row = domain::directory(&self.router.local.catalog(), name.as_str())?;
        row.is_there().then_some(row.entity)
    }

    /// Whether there is nothing of that name, a subscription's path included, by the catalog's leader if
    /// this node knows of none.
    ///
    /// # Errors
    /// While nobody knows.
    pub async fn is_missing(self, name: &str) -> Result<bool> {
        let Ok(name) = self.namespace.qualify(name) else { return Ok(true) };
        match self.router.route(&name, self.router.deadline()).await {
            Ok(_) => Ok(false),
            Err(error) if matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })) => {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// ENT-7: whatever has the name, queue or topic (ENT-2).
    pub async fn delete(self, name: &str) -> Result<()> {
        let name = self.named(name)?;
        Intents::new(self.router).delete(&name, &[EntityKind::Queue, EntityKind::Topic]).await
    }

    /// As [`Queues::list`], of whichever list, and behind the first `skip` of what comes after
    /// `after`. What is skipped is looked at in the directory only, and not described.
    pub async fn list_from(
        self,
        list: Listed<'_>,
        after: Option<&str>,
        mut skip: usize,
        count_max: u32,
    ) -> Result<Page> {
        let (kind, prefix) = match list {
            Listed::Queues => (EntityKind::Queue, String::new()),
            Listed::Topics => (EntityKind::Topic, String::new()),
            Listed::SubscriptionsOf(topic) => {
                self.get_kind(topic, EntityKind::Topic).await?;
                (EntityKind::Subscription, subscription_path(topic, ""))
            }
        };
        let deadline = self.router.deadline();
        let Some(mut span) = self.span(after, &prefix) else { return Ok(Page::EMPTY) };
        while skip > 0 {
            let count = u32::try_from(skip).unwrap_or(PAGE_MAX).min(PAGE_MAX);
            let names = Catalog::new(self.router)
                .names(kind, span.after.as_deref(), &span.prefix, count, deadline)
                .await?;
            let (rows, Some(next)) = names else {
                return Ok(Page::EMPTY);
            };
            // What is not there, or not yet, is on no page, and so nothing to skip.
            skip -= rows.iter().filter(|row| row.is_there()).count();
            span.after = Some(next);
        }
        self.list_span(kind, &span, count_max).await
    }

    /// The keys that count for a resource beside the node's own: those of the queue or topic it is of,
    /// as they stand now. What is not there has none.
    ///
    /// # Errors
    /// While the group that knows has no leader.
    pub async fn keys_of(self, resource: &str) -> Result<Vec<Key>> {
        let path = resource_path(resource);
        let entity = entity_path(&path);
        if entity.is_empty() {
            return Ok(Vec::new());
        }
        let Ok(entity) = self.namespace.qualify(entity) else { return Ok(Vec::new()) };
        self.keys_of_named(&entity).await
    }

    /// The same of an entity of whichever namespace.
    pub(super) async fn keys_of_named(self, entity: &QualifiedName) -> Result<Vec<Key>> {
        match self.get_named(entity).await {
            Ok(found) => {
                let rules = found.info.properties.authorization_rules;
                Ok(rules.into_iter().map(|rule| key(rule, entity)).collect())
            }
            Err(error) if is_not_found(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The group of what has the name, by this node's own rows, which may be behind.
    pub(super) fn group_known_here(self, name: &QualifiedName) -> Option<GroupId> {
        let row = domain::directory(&self.router.local.catalog(), name.as_str())?;
        row.is_there().then_some(row.group)
    }

    /// The keys of entities of one group, in their order; `None` of what it does not know, by this node's
    /// own rows of where things are.
    pub(super) async fn keys_within(
        self,
        group: GroupId,
        names: &[&QualifiedName],
    ) -> Result<Vec<Option<Vec<Key>>>, ErrorKind> {
        let catalog = self.router.local.catalog();
        let rows: Vec<Option<EntityId>> = names
            .iter()
            .map(|name| domain::directory(&catalog, name.as_str()).map(|row| row.entity))
            .collect();
        drop(catalog);
        let known: Vec<EntityId> = rows.iter().flatten().copied().collect();
        let mut infos = self.infos(group, known, self.router.deadline()).await?.into_iter();
        let keys = rows.iter().zip(names).map(|(row, name)| {
            let rules = row.and_then(|_| infos.next().flatten())?.properties.authorization_rules;
            Some(rules.into_iter().map(|rule| key(rule, name)).collect())
        });
        Ok(keys.collect())
    }

    /// Has an entity created, to the end. `create` is the catalog's command for it.
    async fn create(self, path: &QualifiedName, create: CatalogCommand) -> Result<QueueInfo> {
        match Intents::new(self.router).create(path.as_str(), create).await? {
            Created::Own => self.find(path).await,
            Created::Taken => {
                let name = path.told().to_owned();
                Err(Error::new(Refusal::EntityAlreadyExists { name }, path))
            }
        }
    }

    async fn get_kind(self, name: &str, kind: EntityKind) -> Result<QueueInfo> {
        let found = self.find(&self.named(name)?).await?;
        if found.info.specifics.kind() == kind { Ok(found) } else { Err(not_found(name)) }
    }

    async fn find(self, name: &QualifiedName) -> Result<QueueInfo> {
        let deadline = self.router.deadline();
        let mut route = self.router.route(name, deadline).await?;
        for last in [false, true] {
            let mut infos = self.infos(route.group, vec![route.entity], deadline).await;
            match infos.as_mut().map(|infos| infos.pop().flatten()) {
                Ok(Some(info)) => return Ok(self.queue_info(route.entity, route.group, info)),
                Ok(None) if !last => route = self.router.refresh(name, deadline).await?,
                Ok(None) => break,
                Err(kind) => return Err(Error::new(kind.clone(), name)),
            }
        }
        Err(not_found(name.as_str()))
    }

    pub(super) async fn list(
        self,
        kind: EntityKind,
        after: Option<&str>,
        prefix: &str,
        count_max: u32,
    ) -> Result<Page> {
        match self.span(after, prefix) {
            Some(span) => self.list_span(kind, &span, count_max).await,
            None => Ok(Page::EMPTY),
        }
    }

    /// Where in the directory are the names of this namespace that begin with a client's prefix, behind a point that
    /// he was told; `None`: nothing begins so.
    fn span(self, after: Option<&str>, prefix: &str) -> Option<DirectorySpan> {
        let prefix = self.namespace.qualify(prefix).ok()?.as_str().to_owned();
        let after = after.and_then(|after| self.namespace.qualify(after).ok());
        let after = after.map(|after| after.as_str().to_owned());
        let after = match self.namespace.is_default() {
            true => after.max(Some(QUALIFIED_END.to_owned())),
            false => after,
        };
        Some(DirectorySpan { prefix, after })
    }

    async fn list_span(
        self,
        kind: EntityKind,
        span: &DirectorySpan,
        count_max: u32,
    ) -> Result<Page> {
        if !(1..=PAGE_MAX).contains(&count_max) {
            let value = count_max.to_string();
            let what = "page_size";
            return Err(Error::new(
                Refusal::ArgumentOutOfRange { what, value, allowed: "1 to 1000" },
                "",
            ));
        }
        let deadline = self.router.deadline();
        let (rows, next) = Catalog::new(self.router)
            .names(kind, span.after.as_deref(), &span.prefix, count_max, deadline)
            .await?;
        let next = next.map(|next| told_name(&next).to_owned());
        let queues = self.describe(rows, deadline).await?;
        Ok(Page { queues, next })
    }

    /// Asks each group once for all of its queues.
    async fn describe(self, rows: Vec<DirectoryRow>, deadline: Instant) -> Result<Vec<QueueInfo>> {
        let mut groups: BTreeMap<GroupId, Vec<EntityId>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.is_there()) {
            groups.entry(row.group).or_default().push(row.entity);
        }
        let asked = groups.into_iter().map(|(group, entities)| async move {
            let infos = self.infos(group, entities.clone(), deadline).await;
            infos.map(|infos| entities.into_iter().zip(infos).collect::<Vec<_>>())
        });
        let mut infos = BTreeMap::new();
        for answer in join_all(asked).await {
            let answer = answer.map_err(|kind| Error::new(kind, ""))?;
            infos.extend(answer.into_iter().filter_map(|(id, info)| Some((id, info?))));
        }
        let mut described = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.is_there()) {
            match infos.remove(&row.entity) {
                Some(info) => described.push(self.queue_info(row.entity, row.group, info)),
                // It is gone, or was on its way to another group (ENT-14).
                None => match self.find(&QualifiedName::known(&row.name)).await {
                    Ok(found) if found.entity == row.entity => described.push(found),
                    Ok(_) => (),
                    Err(error) if is_not_found(&error) => (),
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(described)
    }

    /// NS-4: what is forwarded stays in the namespace.
    fn qualify_all(self, destinations: [&mut Option<String>; 2]) -> Result<()> {
        for to in destinations.into_iter().flatten() {
            *to = self.named(to)?.as_str().to_owned();
        }
        Ok(())
    }

    /// FWD-2: a destination that is set must exist. One that was set before may be gone.
    async fn check_destinations(self, old: &QueueProperties, new: &QueueProperties) -> Result<()> {
        for sub in SubQueue::ALL {
            let Some(to) = new.forwards(sub).filter(|to| old.forwards(sub) != Some(to)) else {
                continue;
            };
            let route = self.router.refresh(&self.named(to)?, self.router.deadline()).await?;
            if route.kind == EntityKind::Subscription {
                return Err(not_found(to));
            }
        }
        Ok(())
    }

    async fn infos(
        self,
        group: GroupId,
        entities: Vec<EntityId>,
        deadline: Instant,
    ) -> Result<Vec<Option<EntityInfo>>, ErrorKind> {
        let count = entities.len();
        match self.router.read(group, Read::Info { entities }, deadline).await? {
            ReadAnswer::Info(infos) if infos.len() == count => Ok(infos),
            _ => Err(ErrorKind::Unavailable { why: Unavailable::NoLeader(group) }),
        }
    }

    /// As clients of the namespace know it.
    fn queue_info(self, entity: EntityId, group: GroupId, mut info: EntityInfo) -> QueueInfo {
        let EntityInfo { name, properties, .. } = &mut info;
        let forwards = [&mut properties.forward_to, &mut properties.forward_dead_letters_to];
        for name in forwards.into_iter().flatten().chain([name]) {
            let told = told_name(name);
            if told.len() < name.len() {
                *name = told.to_owned();
            }
        }
        QueueInfo { entity, group, leader: self.router.leaders.of(group), info }
    }
}

fn is_not_found(error: &Error) -> bool {
    matches!(error.refusal(), Some(Refusal::EntityNotFound { .. }))
}
