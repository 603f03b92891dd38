//! Creating, reading, changing and deleting entities; what is particular to topics and subscriptions
//! is in `topics`. Creation and deletion span the catalog and a data group: the catalog records the intent, the data group acts, the catalog confirms. Every
//! step may be done twice, so whoever finds an unfinished one finishes it.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{
    CatalogCommand, CatalogOutcome, Command, CreateQueue, CreateSubscription, CreateTopic,
    Creation, DirectoryRow, DirectoryState, EntityId, EntityInfo, EntityKind, GroupId, Outcome,
    QueueProperties, Refusal, Seal, SubQueue, TopicCommand, UpdateQueue, subscription_path,
};
use futures::future::join_all;
use tokio::time::Instant;

use crate::address::Asker;
use crate::broker::Broker;
use crate::call::Answer;
use crate::cluster::cluster;
use crate::error::{Error, ErrorKind, Result, Unavailable, Unknown};
use crate::reads::{Read, ReadAnswer};
use crate::receiver::unexpected;
use crate::router::{Failure, not_found};

/// Most names in one page.
pub const PAGE_MAX: u32 = 1000;
/// Most unfinished creations and deletions of one name that one create finishes first.
const ROUNDS_MAX: usize = 8;
const FOUNDED_LOOKED_FOR_EVERY: Duration = Duration::from_millis(20);

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

impl Broker {
    /// ENT-1 to ENT-4. `request`: the client's own number for this creation, drawn at random, if it
    /// may repeat it (SEND-8).
    pub async fn create_queue(
        &self,
        name: &str,
        mut properties: QueueProperties,
        request: Option<u64>,
    ) -> Result<QueueInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, name);
        domain::validate::queue_name(name).map_err(refused)?;
        self.settle_rules(&[], &mut properties.authorization_rules);
        domain::validate::queue_properties(&properties).map_err(refused)?;
        let (name, properties) = (name.to_owned(), Box::new(properties));
        let path = name.clone();
        let request = request.unwrap_or_else(rand::random);
        self.create(&path, CatalogCommand::Create { request, name, properties }).await
    }

    /// Has an entity created, to the end. `create` is the catalog's command for it.
    pub(crate) async fn create(&self, path: &str, create: CatalogCommand) -> Result<QueueInfo> {
        let taken = || Error::new(Refusal::EntityAlreadyExists { name: path.to_owned() }, path);
        let deadline = self.router().deadline();
        self.founded(deadline).await.map_err(|kind| Error::new(kind, path))?;
        let mut doubt = false;
        for _ in 0..ROUNDS_MAX {
            let (row, own) = match self.catalog(create.clone(), path, deadline).await {
                Ok(Some(entry)) => entry,
                Ok(None) => return Err(unexpected(&Outcome::Done, path.into())),
                // The intent is perhaps recorded. Asking again meets it, knows it as its own, and
                // finishes it.
                Err(error) if matches!(error.kind, ErrorKind::Unknown { .. }) => {
                    doubt = true;
                    continue;
                }
                // It was perhaps recorded before there was too little space: then it is finished later.
                Err(error) if doubt && is_for_want_of_space(&error) => break,
                Err(error) => return Err(error),
            };
            match &row.state {
                DirectoryState::Creating { .. } | DirectoryState::Ready => {
                    match self.finish_creation(&row, deadline).await {
                        // Somebody else's could not be, and the name is free.
                        Err(error) if !own && is_over_quota(&error) => continue,
                        result => result?,
                    }
                    return if own { self.get(path).await } else { Err(taken()) };
                }
                DirectoryState::Deleting => self.finish_deletion(&row, deadline).await?,
                // IDLE-17: gone already, or gone with this; or in use, and the name with it.
                DirectoryState::Sealing { .. } => match self.finish_sealing(&row, deadline).await {
                    Err(error) if error.refusal().is_some() => {
                        return if own { self.get(path).await } else { Err(taken()) };
                    }
                    result => result?,
                },
            }
        }
        let kind = match doubt {
            true => ErrorKind::Unknown { why: Unknown::Late(GroupId::CATALOG) },
            false => ErrorKind::Unavailable { why: Unavailable::NoLeader(GroupId::CATALOG) },
        };
        Err(Error::new(kind, path))
    }

    /// Waits until the cluster is founded, which happens once, at its first start: who comes early
    /// is not refused for it.
    async fn founded(&self, deadline: Instant) -> std::result::Result<(), ErrorKind> {
        let rows = self.router().replication.rows(GroupId::CATALOG);
        while cluster(&rows).is_none() {
            if Instant::now() >= deadline {
                return Err(ErrorKind::Unavailable { why: Unavailable::Starting });
            }
            tokio::time::sleep(FOUNDED_LOOKED_FOR_EVERY).await;
        }
        Ok(())
    }

    /// Whatever has the name, queue or topic (ENT-2).
    pub async fn get_entity(&self, name: &str) -> Result<QueueInfo> {
        let found = self.get(name).await?;
        match found.info.specifics.kind() {
            EntityKind::Queue | EntityKind::Topic => Ok(found),
            EntityKind::Subscription => Err(not_found(name)),
        }
    }

    /// Description and counters, as of now (COUNT-1). A topic's name is no queue's (ENT-2).
    pub async fn get_queue(&self, name: &str) -> Result<QueueInfo> {
        self.get_kind(name, EntityKind::Queue).await
    }

    pub(crate) async fn get_kind(&self, name: &str, kind: EntityKind) -> Result<QueueInfo> {
        let found = self.get(name).await?;
        if found.info.specifics.kind() == kind { Ok(found) } else { Err(not_found(name)) }
    }

    async fn get(&self, name: &str) -> Result<QueueInfo> {
        let deadline = self.router().deadline();
        let mut route = self.router().route(name, deadline).await?;
        for last in [false, true] {
            let mut infos = self.infos(route.group, vec![route.entity], deadline).await;
            match infos.as_mut().map(|infos| infos.pop().flatten()) {
                Ok(Some(info)) => return Ok(self.queue_info(route.entity, route.group, info)),
                Ok(None) if !last => route = self.router().refresh(name, deadline).await?,
                Ok(None) => break,
                Err(kind) => return Err(Error::new(kind.clone(), name)),
            }
        }
        Err(not_found(name))
    }

    /// Queues in order of lower-cased name, after `after`, at most `count_max` (1 to 1,000). One
    /// that is deleted while the page is put together is left out.
    pub async fn list_queues(
        &self,
        after: Option<&str>,
        prefix: &str,
        count_max: u32,
    ) -> Result<Page> {
        self.list(EntityKind::Queue, after, prefix, count_max).await
    }

    pub(crate) async fn list(
        &self,
        kind: EntityKind,
        after: Option<&str>,
        prefix: &str,
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
        let deadline = self.router().deadline();
        let (rows, next) = self.names(kind, after, prefix, count_max, deadline).await?;
        let queues = self.describe(rows, deadline).await?;
        Ok(Page { queues, next })
    }

    /// As [`Broker::list_queues`], of whichever list, and behind the first `skip` of what comes after
    /// `after`. What is skipped is looked at in the directory only, and not described.
    pub async fn list_from(
        &self,
        list: Listed<'_>,
        after: Option<&str>,
        mut skip: usize,
        count_max: u32,
    ) -> Result<Page> {
        let (kind, prefix) = match list {
            Listed::Queues => (EntityKind::Queue, String::new()),
            Listed::Topics => (EntityKind::Topic, String::new()),
            Listed::SubscriptionsOf(topic) => {
                self.get_topic(topic).await?;
                (EntityKind::Subscription, subscription_path(topic, ""))
            }
        };
        let deadline = self.router().deadline();
        let mut after = after.map(str::to_owned);
        while skip > 0 {
            let count = u32::try_from(skip).unwrap_or(PAGE_MAX).min(PAGE_MAX);
            let names = self.names(kind, after.as_deref(), &prefix, count, deadline).await?;
            let (rows, Some(next)) = names else {
                return Ok(Page { queues: Vec::new(), next: None });
            };
            // What is not there, or not yet, is on no page, and so nothing to skip.
            skip -= rows.iter().filter(|row| row.is_there()).count();
            after = Some(next);
        }
        self.list(kind, after.as_deref(), &prefix, count_max).await
    }

    /// A page of the directory, and where to go on.
    async fn names(
        &self,
        kind: EntityKind,
        after: Option<&str>,
        prefix: &str,
        count_max: u32,
        deadline: Instant,
    ) -> Result<(Vec<DirectoryRow>, Option<String>)> {
        let (after, prefix) = (after.map(str::to_owned), prefix.to_owned());
        let read = Read::Directory { kind, after, prefix, count_max };
        let answer = self.router().read(GroupId::CATALOG, read, deadline).await;
        let rows = match answer.map_err(|kind| Error::new(kind, ""))? {
            ReadAnswer::Entries(rows) => rows,
            other => {
                tracing::error!(?other, "unexpected answer of the catalog");
                Vec::new()
            }
        };
        let next = match rows.last() {
            Some(row) if rows.len() == count_max as usize => Some(row.name.to_lowercase()),
            _ => None,
        };
        Ok((rows, next))
    }

    /// Asks each group once for all of its queues.
    async fn describe(&self, rows: Vec<DirectoryRow>, deadline: Instant) -> Result<Vec<QueueInfo>> {
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
        let described = rows.iter().filter_map(|row| {
            let info = infos.remove(&row.entity)?;
            Some(self.queue_info(row.entity, row.group, info))
        });
        Ok(described.collect())
    }

    /// Changes a queue (ENT-4, ENT-5): `change` makes of the properties as they are those as they
    /// shall be.
    pub async fn update_queue(
        &self,
        name: &str,
        change: impl FnOnce(&mut QueueProperties) -> Result<(), Refusal>,
    ) -> Result<QueueInfo> {
        let refused = |refusal: Refusal| Error::new(refusal, name);
        let QueueInfo { entity, info, .. } = self.get_queue(name).await?;
        let old = info.properties.clone();
        let mut properties = info.properties;
        change(&mut properties).map_err(refused)?;
        self.settle_rules(&old.authorization_rules, &mut properties.authorization_rules);
        domain::validate::queue_properties(&properties).map_err(refused)?;
        self.check_destinations(&old, &properties).await?;
        let properties = Box::new(properties);
        let update = Command::UpdateQueue(UpdateQueue { origin: None, entity, properties });
        self.execute(name, update, Asker::Edge, self.router().deadline()).await?;
        self.get_queue(name).await
    }

    /// FWD-2: a destination that is set must exist. One that was set before may be gone.
    pub(crate) async fn check_destinations(
        &self,
        old: &QueueProperties,
        new: &QueueProperties,
    ) -> Result<()> {
        for sub in SubQueue::ALL {
            let Some(to) = new.forwards(sub).filter(|to| old.forwards(sub) != Some(to)) else {
                continue;
            };
            let route = self.router().refresh(to, self.router().deadline()).await?;
            if route.kind == EntityKind::Subscription {
                return Err(not_found(to));
            }
        }
        Ok(())
    }

    /// ENT-7: the queue and all its messages.
    pub async fn delete_queue(&self, name: &str) -> Result<()> {
        self.delete(name, &[EntityKind::Queue]).await
    }

    /// ENT-7: whatever has the name, queue or topic (ENT-2).
    pub async fn delete_entity(&self, name: &str) -> Result<()> {
        self.delete(name, &[EntityKind::Queue, EntityKind::Topic]).await
    }

    /// What has the name, if it is of one of these kinds (ENT-2).
    pub(crate) async fn delete(&self, name: &str, kinds: &[EntityKind]) -> Result<()> {
        let deadline = self.router().deadline();
        let row = self.directory_row(name, deadline).await?;
        let Some(meant) = row.filter(|row| kinds.contains(&row.kind)).map(|row| row.entity) else {
            return Err(not_found(name));
        };
        let mut doubt = false;
        loop {
            if doubt
                && self.directory_row(name, deadline).await?.is_none_or(|row| row.entity != meant)
            {
                return Ok(()); // What has the name now, if anything, came after it.
            }
            let delete = CatalogCommand::Delete { name: name.to_owned() };
            match self.catalog(delete, name, deadline).await {
                Ok(Some((row, _))) => return self.finish_deletion(&row, deadline).await,
                Ok(None) => return Ok(()),
                Err(error) if matches!(error.kind, ErrorKind::Unknown { .. }) => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    doubt = true;
                }
                // Its intent was recorded, and somebody finished it.
                Err(error)
                    if doubt && matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn directory_row(&self, name: &str, deadline: Instant) -> Result<Option<DirectoryRow>> {
        let read = Read::Resolve { name: name.to_owned() };
        let found = self.router().read(GroupId::CATALOG, read, deadline).await;
        match found.map_err(|kind| Error::new(kind, name))? {
            ReadAnswer::Entries(rows) => Ok(rows.into_iter().next()),
            _ => Ok(None),
        }
    }

    /// The data group creates, the catalog confirms. What does not fit there (RULE-10) is withdrawn,
    /// its name is free, and the refusal is returned.
    pub(crate) async fn finish_creation(
        &self,
        row: &DirectoryRow,
        deadline: Instant,
    ) -> Result<()> {
        let DirectoryState::Creating { what } = &row.state else { return Ok(()) };
        let (entity, name) = (row.entity, row.name.clone());
        let create = match what.clone() {
            Creation::Queue { properties } => {
                Command::CreateQueue(CreateQueue { entity, name: name.clone(), properties })
            }
            Creation::Topic { properties } => {
                let create = CreateTopic { entity, name: name.clone(), properties };
                Command::Topic(TopicCommand::Create(create))
            }
            Creation::Subscription { topic, properties, rule } => {
                let name = name.clone();
                let create = CreateSubscription { entity, topic, name, properties, rule };
                Command::Topic(TopicCommand::CreateSubscription(create))
            }
        };
        match self.step(row.group, create, &name, deadline).await {
            Err(error) if is_over_quota(&error) => {
                // Unless another's attempt came when there was room.
                if self.withdraw(row, deadline).await? {
                    return Err(error);
                }
            }
            result => drop(result?),
        }
        let created = CatalogCommand::Created { name: name.clone(), entity };
        let confirmed = self.catalog(created, &name, deadline).await;
        if let Err(error) = &confirmed
            && matches!(error.refusal(), Some(Refusal::EntityNotFound { .. }))
        {
            // It was deleted before it came to be: nobody else knows of it. No other has its number.
            self.step(row.group, Command::DeleteEntity { entity }, &name, deadline).await?;
        }
        confirmed.map(drop)
    }

    /// Whether a creation is withdrawn now: it is not, once it was confirmed.
    async fn withdraw(&self, row: &DirectoryRow, deadline: Instant) -> Result<bool> {
        let withdraw = CatalogCommand::Withdraw { name: row.name.clone(), entity: row.entity };
        match self.catalog(withdraw, &row.name, deadline).await {
            Ok(Some((row, _))) if row.state == DirectoryState::Deleting => {
                self.finish_deletion(&row, deadline).await?;
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(error) if matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })) => {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// The data group deletes, the catalog frees the name.
    pub(crate) async fn finish_deletion(
        &self,
        row: &DirectoryRow,
        deadline: Instant,
    ) -> Result<()> {
        let (entity, name) = (row.entity, row.name.clone());
        self.step(row.group, Command::DeleteEntity { entity }, &name, deadline).await?;
        let deleted = CatalogCommand::Deleted { name: name.clone(), entity };
        self.catalog(deleted, &name, deadline).await.map(drop)
    }

    /// IDLE-15: the data group deletes what was not used since, and the catalog frees the name, or
    /// withdraws the intent.
    pub(crate) async fn finish_sealing(&self, row: &DirectoryRow, deadline: Instant) -> Result<()> {
        let DirectoryState::Sealing { idle_since } = row.state else { return Ok(()) };
        let (entity, name) = (row.entity, row.name.clone());
        let seal = Command::Seal(Seal { entity, idle_since });
        match self.step(row.group, seal, &name, deadline).await? {
            Outcome::Spared => {
                let spare = CatalogCommand::Spare { name: name.clone(), entity, idle_since };
                self.catalog(spare, &name, deadline).await?;
                tracing::debug!(entity = %name, "used again, and not deleted");
            }
            _ => {
                let deleted = CatalogCommand::Deleted { name: name.clone(), entity };
                self.catalog(deleted, &name, deadline).await?;
                tracing::info!(
                    entity = %name,
                    id = entity.0,
                    reason = "idle",
                    idle_since_ms = idle_since.0,
                    "entity deleted"
                );
            }
        }
        Ok(())
    }

    /// A step of a data group, which may have been done before.
    async fn step(
        &self,
        group: GroupId,
        command: Command,
        name: &str,
        deadline: Instant,
    ) -> Result<Outcome> {
        match self.router().call(group, command, deadline).await {
            Ok(Answer { outcome: Outcome::Refused(refusal), .. }) => Err(Error::new(refusal, name)),
            Ok(answer) => Ok(answer.outcome),
            Err(Failure::Error(kind)) => Err(Error::new(kind, name)),
            // Deleted before.
            Err(Failure::Mendable { refusal: Refusal::StaleRoute { .. }, .. }) => Ok(Outcome::Done),
            Err(Failure::Mendable { refusal, .. }) => Err(Error::new(refusal, name)),
        }
    }

    /// Asks the catalog. `None`: done, and there is no row to show.
    pub(crate) async fn catalog(
        &self,
        command: CatalogCommand,
        name: &str,
        deadline: Instant,
    ) -> Result<Option<(DirectoryRow, bool)>> {
        match self.router().call(GroupId::CATALOG, Command::Catalog(command), deadline).await {
            Ok(answer) => match answer.outcome {
                Outcome::Catalog(CatalogOutcome::Entry { row, fresh }) => Ok(Some((row, fresh))),
                Outcome::Refused(refusal) => Err(Error::new(refusal, name)),
                Outcome::Done => Ok(None),
                other => Err(unexpected(&other, name.into())),
            },
            Err(Failure::Error(kind)) => Err(Error::new(kind, name)),
            Err(Failure::Mendable { refusal, .. }) => Err(Error::new(refusal, name)),
        }
    }

    async fn infos(
        &self,
        group: GroupId,
        entities: Vec<EntityId>,
        deadline: Instant,
    ) -> Result<Vec<Option<EntityInfo>>, ErrorKind> {
        let count = entities.len();
        match self.router().read(group, Read::Info { entities }, deadline).await? {
            ReadAnswer::Info(infos) if infos.len() == count => Ok(infos),
            _ => Err(ErrorKind::Unavailable { why: Unavailable::NoLeader(group) }),
        }
    }

    fn queue_info(&self, entity: EntityId, group: GroupId, info: EntityInfo) -> QueueInfo {
        QueueInfo { entity, group, leader: self.router().leader(group), info }
    }
}

fn is_over_quota(error: &Error) -> bool {
    matches!(error.refusal(), Some(Refusal::QuotaExceeded { .. }))
}

fn is_for_want_of_space(error: &Error) -> bool {
    matches!(error.refusal(), Some(Refusal::StorageFull { .. }))
}
