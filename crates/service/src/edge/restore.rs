//! A backup becomes entities of a new cluster, of whatever size: its rows are entries of the groups' logs, as all
//! else is. Until all are there in all groups their leaders do nothing by themselves, and then entities are given
//! their names: nobody acts on what is half there, neither a client nor a timer nor what is forwarded.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use domain::{
    CatalogCommand, Command, DirectoryRow, DirectoryState, EntityId, FEATURE_LEVEL_BACKUP, GroupId,
    Key, NamespaceIdleRow, NamespaceRow, Outcome, Refusal, Row, Specifics, Timestamp,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use wire::{decode_row, take_key};

use crate::edge::backup::Stored;
use crate::edge::catalog::Catalog;
use crate::edge::cluster::Cluster;
use crate::edge::router::{Failure, PendingCall, Router};
use crate::error::{Error, Result};

/// What one command takes in.
const BATCH_BYTES: usize = 256 * 1024;
const BATCH_ROWS: usize = 1000;
/// Commands under way: enough to keep the groups busy, and little to hold in memory.
const UNDER_WAY_MAX: usize = 16;
/// Names in one command.
const NAMES: usize = 500;
/// Namespaces that one entry restores: with as many rules as they may have, a megabyte.
const NAMESPACES: usize = 100;

/// A restore under way. Dropped before [`Restore::finish`] it leaves a cluster that nothing can be created in, and
/// that nothing else can be restored into either: a new one is to be founded.
pub struct Restore {
    router: Arc<Router>,
    /// Drawn for it.
    id: u128,
    data_groups: u16,
    /// The backup's, in order.
    groups: Vec<GroupId>,
    catalog: BackupCatalog,
    /// Where the main entity of each entity of the group that is coming is kept: a subscription's is its topic.
    owners: BTreeMap<EntityId, EntityId>,
    batches: BTreeMap<GroupId, RowBatch>,
    under_way: FuturesUnordered<futures::future::BoxFuture<'static, Result<()>>>,
    names: Names,
    stored: Stored,
}

/// What the backup's catalog says.
#[derive(Default)]
struct BackupCatalog {
    next_entity: u64,
    /// Requests that entities were created by.
    requests: BTreeMap<EntityId, u64>,
    /// Entities whose deletion was decided: it is finished here.
    deleting: BTreeSet<EntityId>,
    namespaces: Vec<NamespaceRow>,
    /// Those of them that go once they are idle.
    idle: Vec<(String, NamespaceIdleRow)>,
}

/// Names of what is restored.
#[derive(Default)]
struct Names {
    /// By lower-cased name, each with its main entity.
    rows: BTreeMap<String, (DirectoryRow, EntityId)>,
    /// Entities that were deleted when another was given their name, with their groups, which had not heard of it when
    /// their cut came.
    replaced: BTreeMap<EntityId, GroupId>,
}

impl Names {
    /// Of two of a name the later one has it.
    fn put(&mut self, named: DirectoryRow, owner: EntityId) {
        match self.rows.entry(named.name.to_ascii_lowercase()) {
            Entry::Vacant(slot) => drop(slot.insert((named, owner))),
            Entry::Occupied(mut known) => {
                let earlier = match known.get().0.entity < named.entity {
                    true => known.insert((named, owner)).0,
                    false => named,
                };
                self.replaced.insert(earlier.entity, earlier.group);
            }
        }
    }

    /// What stays: not the subscriptions of a topic that goes.
    fn rows(&self) -> Vec<DirectoryRow> {
        let stays = |owner| !self.replaced.contains_key(owner);
        let rows = self.rows.values().filter(|(_, owner)| stays(owner));
        rows.map(|(row, _)| row.clone()).collect()
    }
}

#[derive(Default)]
struct RowBatch {
    rows: Vec<(Key, Row)>,
    bytes: usize,
}

impl RowBatch {
    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.rows.len() >= BATCH_ROWS
    }
}

fn unfit(why: String) -> Error {
    Error::new(Refusal::Argument { what: "backup", why }, "")
}

impl Cluster<'_> {
    /// Begins to restore a backup of these groups, in their order, that was made at this time. Refused by a cluster
    /// that has entities or had some, and by one whose clock is behind.
    pub async fn restore(self, groups: Vec<GroupId>, taken_at: Timestamp) -> Result<Restore> {
        let router = self.router();
        let cluster = self.of_level(FEATURE_LEVEL_BACKUP, "restore").await?;
        if groups.first() != Some(&GroupId::CATALOG) || groups.len() < 2 {
            return Err(unfit("it does not begin with the catalog".to_owned()));
        }
        let id = rand::random();
        let begin = CatalogCommand::BeginRestore { restore: id, taken_at };
        Catalog::new(router).propose(begin, "", router.deadline()).await?;
        let mut restore = Restore {
            router: router.clone(),
            id,
            data_groups: cluster.data_groups,
            groups,
            catalog: BackupCatalog::default(),
            owners: BTreeMap::new(),
            batches: BTreeMap::new(),
            under_way: FuturesUnordered::new(),
            names: Names::default(),
            stored: Stored::default(),
        };
        // From here on none of them acts on what it holds, before all of them hold all.
        for group in 1..=cluster.data_groups {
            restore.send(GroupId(group), Vec::new(), false).await?;
        }
        restore.all_done().await?;
        Ok(restore)
    }
}

impl Restore {
    /// Takes in the next chunk of a group; chunks come in the order they were backed up in.
    pub async fn take(&mut self, group: GroupId, chunk: &Bytes) -> Result<()> {
        match self.groups.first() {
            Some(expected) if *expected == group => (),
            _ => {
                let Some(place) = self.groups.iter().position(|expected| *expected == group) else {
                    return Err(unfit(format!("it has no group {group}, or not in that place")));
                };
                self.groups.drain(..place);
                self.owners.clear();
            }
        }
        for row in replication::rows_in(chunk) {
            let Some((key, value)) = row else {
                return Err(unfit(format!("a chunk of group {group} is cut short")));
            };
            let read = take_key(key).and_then(|key| Ok((decode_row(&key, value)?, key)));
            let (row, key) = read.map_err(|error| {
                unfit(format!("a row of group {group} cannot be read by this version: {error}"))
            })?;
            match group {
                GroupId::CATALOG => self.catalog.take(key, row),
                _ => self.take_row(key, row, value.len()).await?,
            }
        }
        Ok(())
    }

    async fn take_row(&mut self, key: Key, mut row: Row, bytes: usize) -> Result<()> {
        let Some(entity) = key.entity() else { return Ok(()) };
        match &row {
            // Where it was before is of no account in another cluster.
            Row::Relocation(_) => return Ok(()),
            Row::Entity(described) => {
                let owner = match &described.specifics {
                    Specifics::Subscription(of) => of.topic,
                    _ => entity,
                };
                self.owners.insert(entity, owner);
            }
            Row::Sweep { topic } => drop(self.owners.insert(entity, topic.unwrap_or(entity))),
            _ => (),
        }
        // What is left of one that is gone, as what came of shipments to it.
        let Some(owner) = self.owners.get(&entity) else { return Ok(()) };
        let to = self.home(*owner);
        if let Row::Shipment(shipment) = &mut row {
            shipment.destination.group = self.home(shipment.destination.entity);
        }
        match &row {
            Row::Entity(described) => {
                let state = match self.catalog.deleting.contains(&entity) {
                    true => DirectoryState::Deleting,
                    false => DirectoryState::Ready,
                };
                let request = self.catalog.requests.get(&entity).copied().unwrap_or_default();
                let (name, kind) = (described.name.clone(), described.specifics.kind());
                let owner = *owner;
                self.names
                    .put(DirectoryRow { entity, group: to, name, kind, request, state }, owner);
                self.catalog.next_entity = self.catalog.next_entity.max(entity.0 + 1);
                self.stored.entities += 1;
            }
            Row::EntityState(state) => self.stored.messages += state.counts.total(),
            _ => (),
        }
        let batch = self.batches.entry(to).or_default();
        batch.rows.push((key, row));
        batch.bytes += bytes;
        if batch.is_full() {
            let rows = std::mem::take(batch).rows;
            self.send(to, rows, false).await?;
        }
        Ok(())
    }

    /// The group of this cluster that a queue, or a topic with its subscriptions, comes to: they are spread evenly.
    fn home(&self, entity: EntityId) -> GroupId {
        GroupId(1 + (entity.0 % u64::from(self.data_groups)) as u16)
    }

    /// Has rows applied, and waits while too much is under way.
    async fn send(&mut self, to: GroupId, rows: Vec<(Key, Row)>, is_last: bool) -> Result<()> {
        while self.under_way.len() >= UNDER_WAY_MAX {
            if let Some(done) = self.under_way.next().await {
                done?;
            }
        }
        let command = Command::Restore(domain::Restore { restore: self.id, rows, is_last });
        let (router, pending) = (self.router.clone(), self.router.post(to, command));
        self.under_way.push(Box::pin(finish(router, to, pending)));
        Ok(())
    }

    async fn all_done(&mut self) -> Result<()> {
        while let Some(done) = self.under_way.next().await {
            done?;
        }
        Ok(())
    }

    /// All chunks were taken in: brings the entities to be, and gives them their names.
    pub async fn finish(mut self) -> Result<Stored> {
        for (to, batch) in std::mem::take(&mut self.batches) {
            self.send(to, batch.rows, false).await?;
        }
        self.all_done().await?;
        for group in 1..=self.data_groups {
            self.send(GroupId(group), Vec::new(), true).await?;
        }
        self.all_done().await?;
        let (router, restore) = (self.router, self.id);
        for (entity, to) in &self.names.replaced {
            let delete = router.post(*to, Command::DeleteEntity { entity: *entity });
            finish(router.clone(), *to, delete).await?;
        }
        for rows in self.catalog.namespaces.chunks(NAMESPACES) {
            let rows = rows.to_vec();
            let restored = CatalogCommand::RestoreNamespaces { restore, rows };
            Catalog::new(&router).ask(restored, "", router.deadline()).await?;
        }
        for (name, NamespaceIdleRow { request, window, .. }) in self.catalog.idle {
            let idle = CatalogCommand::SetNamespaceIdle { request, name, window };
            Catalog::new(&router).ask(idle, "", router.deadline()).await?;
        }
        let rows = self.names.rows();
        for rows in rows.chunks(NAMES) {
            let name = CatalogCommand::RestoreNames { restore, rows: rows.to_vec() };
            Catalog::new(&router).propose(name, "", router.deadline()).await?;
        }
        let end = CatalogCommand::EndRestore { restore, next_entity: self.catalog.next_entity };
        Catalog::new(&router).propose(end, "", router.deadline()).await?;
        Ok(self.stored)
    }
}

async fn finish(router: Arc<Router>, to: GroupId, pending: PendingCall) -> Result<()> {
    match router.finish(to, pending, router.deadline()).await {
        Ok(answer) => match answer.outcome {
            Outcome::Done => Ok(()),
            Outcome::Refused(refusal) => Err(Error::new(refusal, "")),
            other => Err(unfit(format!("group {to} answers {other:?}"))),
        },
        Err(Failure::Error(kind)) => Err(Error::new(kind, "")),
        Err(Failure::Mendable { refusal, .. }) => Err(Error::new(refusal, "")),
    }
}

impl BackupCatalog {
    fn take(&mut self, key: Key, row: Row) {
        match (key, row) {
            (Key::Cluster, Row::Cluster(cluster)) => self.next_entity = cluster.next_entity,
            (Key::Directory(_), Row::Directory(row)) => {
                if row.state == DirectoryState::Deleting {
                    self.deleting.insert(row.entity);
                }
                self.requests.insert(row.entity, row.request);
            }
            (Key::Namespace(_), Row::Namespace(row)) => self.namespaces.push(*row),
            (Key::NamespaceIdle(name), Row::NamespaceIdle(row)) => self.idle.push((name, row)),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::EntityKind;

    use super::*;

    fn named(entity: u64, name: &str, kind: EntityKind) -> DirectoryRow {
        let (entity, group, name) = (EntityId(entity), GroupId(entity as u16), name.to_owned());
        DirectoryRow { entity, group, name, kind, request: 0, state: DirectoryState::Ready }
    }

    /// A topic was deleted and made again on another group while the cut went by: in whichever order they come.
    #[test]
    fn of_two_of_a_name_the_later_one_has_it() {
        use EntityKind::{Queue, Subscription, Topic};
        let mut rows = [
            (named(3, "News", Topic), EntityId(3)),
            (named(4, "News/Subscriptions/all", Subscription), EntityId(3)),
            (named(5, "News/Subscriptions/few", Subscription), EntityId(3)),
            (named(7, "news", Topic), EntityId(7)),
            (named(8, "news/Subscriptions/all", Subscription), EntityId(7)),
            (named(9, "orders", Queue), EntityId(9)),
        ];
        for _ in 0..rows.len() {
            rows.rotate_left(1);
            let mut names = Names::default();
            for (row, owner) in rows.clone() {
                names.put(row, owner);
            }
            let kept: BTreeSet<u64> = names.rows().iter().map(|row| row.entity.0).collect();
            assert_eq!(kept, [7, 8, 9].into());
            let replaced: Vec<(u64, u16)> =
                names.replaced.iter().map(|(entity, group)| (entity.0, group.0)).collect();
            assert_eq!(replaced, [(3, 3), (4, 4)]);
        }
    }
}
