//! Creation and deletion of entities, which span the catalog and a data group: the catalog records the
//! intent, the data group acts, the catalog confirms. Every step may be done twice, so whoever finds an
//! unfinished one finishes it.

use std::time::Duration;

use domain::{
    CatalogCommand, Command, CreateQueue, CreateSubscription, CreateTopic, Creation, DirectoryRow,
    DirectoryState, EntityKind, GroupId, Outcome, QualifiedName, Refusal, Seal, TopicCommand,
};
use tokio::time::Instant;

use crate::edge::catalog::{self, Catalog};
use crate::edge::feature_level::settle_fresh;
use crate::edge::receiver::unexpected;
use crate::edge::router::{Failure, PAUSE_MIN, Router, not_found};
use crate::error::{Error, ErrorKind, Result, Unavailable, Unknown};
use crate::exchange::Answer;

/// Most unfinished creations and deletions of one name that one create finishes first.
const ROUNDS_MAX: usize = 8;
const FOUNDED_LOOKED_FOR_EVERY: Duration = Duration::from_millis(20);

/// Carries out what the catalog has recorded.
#[derive(Clone, Copy)]
pub(crate) struct Intents<'a> {
    router: &'a Router,
}

/// What became of a creation.
pub(super) enum Created {
    /// By this one.
    Own,
    /// Something else has the name.
    Taken,
}

impl<'a> Intents<'a> {
    pub fn new(router: &'a Router) -> Intents<'a> {
        Intents { router }
    }

    /// Has an entity created, to the end. `create` is the catalog's command for it.
    pub(super) async fn create(self, path: &str, create: CatalogCommand) -> Result<Created> {
        let created = |own| if own { Created::Own } else { Created::Taken };
        let deadline = self.router.deadline();
        self.founded(deadline).await.map_err(|kind| Error::new(kind, path))?;
        settle_fresh(self.router).await;
        let mut doubt = false;
        for _ in 0..ROUNDS_MAX {
            let (row, own) = match self.catalog().propose(create.clone(), path, deadline).await {
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
                    return Ok(created(own));
                }
                DirectoryState::Deleting => self.finish_deletion(&row, deadline).await?,
                // IDLE-17: gone already, or gone with this; or in use, and the name with it.
                DirectoryState::Sealing { .. } => match self.finish_sealing(&row, deadline).await {
                    Err(error) if error.refusal().is_some() => {
                        return Ok(created(own));
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
    async fn founded(self, deadline: Instant) -> Result<(), ErrorKind> {
        let rows = self.router.local.catalog();
        while catalog::cluster(&rows).is_none() {
            if Instant::now() >= deadline {
                return Err(ErrorKind::Unavailable { why: Unavailable::Starting });
            }
            tokio::time::sleep(FOUNDED_LOOKED_FOR_EVERY).await;
        }
        Ok(())
    }

    /// What has the name, if it is of one of these kinds (ENT-2).
    pub(super) async fn delete(self, name: &QualifiedName, kinds: &[EntityKind]) -> Result<()> {
        let name = name.as_str();
        let deadline = self.router.deadline();
        let row = self.catalog().row(name, deadline).await?;
        let Some(meant) = row.filter(|row| kinds.contains(&row.kind)).map(|row| row.entity) else {
            return Err(not_found(name));
        };
        let mut doubt = false;
        loop {
            if doubt
                && self.catalog().row(name, deadline).await?.is_none_or(|row| row.entity != meant)
            {
                return Ok(()); // What has the name now, if anything, came after it.
            }
            let delete = CatalogCommand::Delete { name: name.to_owned() };
            match self.catalog().propose(delete, name, deadline).await {
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

    /// The data group creates, the catalog confirms. What does not fit there (RULE-10) is withdrawn,
    /// its name is free, and the refusal is returned.
    pub async fn finish_creation(self, row: &DirectoryRow, deadline: Instant) -> Result<()> {
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
        let confirmed = self.catalog().propose(created, &name, deadline).await;
        if let Err(error) = &confirmed
            && matches!(error.refusal(), Some(Refusal::EntityNotFound { .. }))
        {
            // It was deleted before it came to be: nobody else knows of it. No other has its number.
            self.step(row.group, Command::DeleteEntity { entity }, &name, deadline).await?;
        }
        confirmed.map(drop)
    }

    /// Whether a creation is withdrawn now: it is not, once it was confirmed.
    async fn withdraw(self, row: &DirectoryRow, deadline: Instant) -> Result<bool> {
        let withdraw = CatalogCommand::Withdraw { name: row.name.clone(), entity: row.entity };
        match self.catalog().propose(withdraw, &row.name, deadline).await {
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
    pub async fn finish_deletion(self, row: &DirectoryRow, deadline: Instant) -> Result<()> {
        let (entity, name) = (row.entity, row.name.clone());
        self.step(row.group, Command::DeleteEntity { entity }, &name, deadline).await?;
        let deleted = CatalogCommand::Deleted { name: name.clone(), entity };
        self.catalog().propose(deleted, &name, deadline).await.map(drop)
    }

    /// IDLE-15: the data group deletes what was not used since, and the catalog frees the name, or
    /// withdraws the intent.
    pub async fn finish_sealing(self, row: &DirectoryRow, deadline: Instant) -> Result<()> {
        let DirectoryState::Sealing { idle_since } = row.state else { return Ok(()) };
        let (entity, name) = (row.entity, row.name.clone());
        let seal = Command::Seal(Seal { entity, idle_since });
        match self.step(row.group, seal, &name, deadline).await? {
            Outcome::Spared => {
                let spare = CatalogCommand::Spare { name: name.clone(), entity, idle_since };
                self.catalog().propose(spare, &name, deadline).await?;
                tracing::debug!(entity = %name, "used again, and not deleted");
            }
            _ => {
                let deleted = CatalogCommand::Deleted { name: name.clone(), entity };
                self.catalog().propose(deleted, &name, deadline).await?;
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
        self,
        mut group: GroupId,
        mut command: Command,
        name: &str,
        deadline: Instant,
    ) -> Result<Outcome> {
        let mut pause = PAUSE_MIN;
        loop {
            return match self.router.call(group, command, deadline).await {
                Ok(Answer { outcome: Outcome::Refused(refusal), .. }) => {
                    Err(Error::new(refusal, name))
                }
                Ok(answer) => Ok(answer.outcome),
                Err(Failure::Error(kind)) => Err(Error::new(kind, name)),
                // Deleted before.
                Err(Failure::Mendable { refusal: Refusal::StaleRoute { .. }, .. }) => {
                    Ok(Outcome::Done)
                }
                Err(Failure::Mendable {
                    refusal: Refusal::Relocated { entity, to },
                    command: again,
                }) => {
                    let to = (entity, to);
                    let followed = self.router.follow(&mut group, to, &mut pause, deadline).await;
                    followed.map_err(|kind| Error::new(kind, name))?;
                    command = again;
                    continue;
                }
                Err(Failure::Mendable { refusal, .. }) => Err(Error::new(refusal, name)),
            };
        }
    }

    fn catalog(self) -> Catalog<'a> {
        Catalog::new(self.router)
    }
}

fn is_over_quota(error: &Error) -> bool {
    matches!(error.refusal(), Some(Refusal::QuotaExceeded { .. }))
}

fn is_for_want_of_space(error: &Error) -> bool {
    matches!(error.refusal(), Some(Refusal::StorageFull { .. }))
}
