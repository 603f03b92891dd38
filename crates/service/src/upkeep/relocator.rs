//! Brings a group's entities that are on their way to another group there: rows in parts, then the
//! entity, then the catalog's word, and last the group gives up what it has left. It keeps nothing: what
//! breaks off begins anew, by this leader or the next, and both groups know what was done.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Admit, CatalogCommand, Command, EntityId, GroupId, HiddenEntity, Key, Leave, Meta, Outcome,
    Refusal, RelocationCommand, RelocationRow, RelocationState, Row, Rows,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use replication::{GroupRows, Replication};
use tokio::task::JoinSet;

use crate::edge::{Catalog, Failure, Router};
use crate::leader::Group;
use crate::upkeep::forwarder::level;

/// What one command takes along: as one of a restore.
const PART_BYTES: usize = 256 * 1024;
const PART_ROWS: usize = 1000;
/// Parts of an entity under way.
const PARTS_MAX: usize = 8;
/// Before what broke off begins anew.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// One entity, and where it goes.
#[derive(Clone)]
struct Relocation {
    entity: EntityId,
    name: String,
    to: GroupId,
    number: u64,
}

/// Looks after a group, for ever.
pub(crate) async fn relocate_from(
    router: Arc<Router>,
    group: Arc<Group>,
    replication: Replication,
) {
    let rows = replication.rows(group.id);
    let (mut under_way, mut tasks) = (BTreeSet::new(), JoinSet::<(EntityId, bool)>::new());
    // Moves that were said to begin anew: once is enough.
    let mut told = BTreeSet::new();
    let mut again = false;
    loop {
        tokio::select! {
            () = group.departing.notified() => (),
            Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                let Ok((entity, is_done)) = done else { return }; // The runtime is going down.
                under_way.remove(&entity);
                if is_done {
                    told.remove(&entity);
                }
                // Also where it set out once more before this was heard of.
                again = true;
                continue;
            }
            () = tokio::time::sleep(RETRY_AFTER), if again => (),
        }
        again = false;
        if !group.leads() {
            continue;
        }
        for (entity, row) in domain::departures(&rows) {
            let RelocationRow { number, state: RelocationState::Departing { to, hidden } } = row
            else {
                continue;
            };
            if under_way.insert(entity) {
                let is_first = told.insert(entity);
                let relocation = Relocation { entity, name: hidden.row.name, to, number };
                let (router, group, rows) = (router.clone(), group.id, rows.clone());
                tasks.spawn(async move {
                    let carried = relocation.carry(&router, group, &rows).await;
                    match &carried {
                        Err(why) if is_first => {
                            tracing::warn!(entity = %relocation.name, %group, %to, why, "not moved yet; trying again");
                        }
                        Err(why) => {
                            tracing::debug!(entity = %relocation.name, %group, %to, why, "not moved yet");
                        }
                        Ok(()) => (),
                    }
                    (entity, carried.is_ok())
                });
            }
        }
    }
}

impl Relocation {
    /// Brings it to its new group, or says why that broke off.
    async fn carry(&self, router: &Router, group: GroupId, rows: &GroupRows) -> Result<(), String> {
        let started = tokio::time::Instant::now();
        let mut sent = self.send_rows(router, rows).await?;
        self.send_last(router, group, rows).await?;
        sent += 1;
        let (entity, name) = (self.entity, self.name.clone());
        let (from, to) = (group, self.to);
        let set = CatalogCommand::SetGroup { name: name.clone(), entity, from, group: to };
        let told = Catalog::new(router).propose(set, &name, router.deadline()).await;
        told.map_err(|error| error.to_string())?;
        let leave = RelocationCommand::Leave(Leave { entity, number: self.number });
        ask(router, group, leave).await.map_err(|refusal| said(&refusal))?;
        let ms = started.elapsed().as_millis() as u64;
        tracing::info!(entity = %name, id = entity.0, from = %group, to = %self.to, parts = sent, ms, "entity moved");
        Ok(())
    }

    /// All rows but those that make it an entity; the number of parts they took.
    async fn send_rows(&self, router: &Router, rows: &GroupRows) -> Result<usize, String> {
        let mut parts = Parts::new(self, rows);
        let mut sent = 0;
        let mut under_way = FuturesUnordered::new();
        loop {
            // It reads from the disk.
            let next = tokio::task::spawn_blocking(move || {
                let part = parts.next();
                (parts, part)
            });
            let (rest, part) = next.await.map_err(|error| error.to_string())?;
            parts = rest;
            let Some(part) = part else { break };
            under_way.push(self.admit(router, part, Meta::default(), false));
            sent += 1;
            // Nothing comes before the first.
            while under_way.len() >= if sent == 1 { 1 } else { PARTS_MAX } {
                if let Some(done) = under_way.next().await {
                    done.map_err(|refusal| said(&refusal))?;
                }
            }
        }
        while let Some(done) = under_way.next().await {
            done.map_err(|refusal| said(&refusal))?;
        }
        Ok(sent)
    }

    /// Makes it an entity there.
    async fn send_last(
        &self,
        router: &Router,
        group: GroupId,
        rows: &GroupRows,
    ) -> Result<(), String> {
        loop {
            let meta = domain::meta(rows);
            let cut = meta.cut;
            match self.admit(router, Vec::new(), meta, true).await {
                Ok(()) => return Ok(()),
                Err(Failure::Mendable { refusal: Refusal::OtherCut { cut: there }, .. }) => {
                    let leveled = level(router, (group, cut), (self.to, there)).await;
                    leveled.ok_or("the groups are between different cuts")?;
                }
                Err(failure) => return Err(said(&failure)),
            }
        }
    }

    async fn admit(
        &self,
        router: &Router,
        rows: Vec<(Key, Row)>,
        Meta { last_at: at, cut, .. }: Meta,
        is_last: bool,
    ) -> Result<(), Failure> {
        let (entity, number) = (self.entity, self.number);
        let admit = RelocationCommand::Admit(Admit { entity, number, at, cut, rows, is_last });
        ask(router, self.to, admit).await
    }
}

async fn ask(router: &Router, group: GroupId, command: RelocationCommand) -> Result<(), Failure> {
    let answer = router.call(group, Command::Relocate(command), router.deadline()).await?;
    match answer.outcome {
        Outcome::Refused(refusal) => Err(Failure::Error(refusal.into())),
        _ => Ok(()),
    }
}

fn said(failure: &Failure) -> String {
    match failure {
        Failure::Error(kind) => kind.to_string(),
        Failure::Mendable { refusal, .. } => refusal.to_string(),
    }
}

/// The rows of an entity, and of a topic those of its subscriptions, in parts.
struct Parts {
    rows: GroupRows,
    number: u64,
    /// What is still to be told of as arriving.
    arriving: Vec<EntityId>,
    /// What is still to be read.
    ranges: Vec<(Key, Key)>,
    /// Where the first of them is read from: behind this row.
    after: Option<Key>,
    entities: BTreeSet<EntityId>,
}

/// One part, as it grows.
#[derive(Default)]
struct Part {
    rows: Vec<(Key, Row)>,
    bytes: usize,
}

impl Part {
    fn add(&mut self, key: Key, row: Row) -> bool {
        self.bytes += 64 + wire::encode_row(&row).len();
        self.rows.push((key, row));
        self.bytes >= PART_BYTES || self.rows.len() >= PART_ROWS
    }
}

impl Parts {
    fn new(relocation: &Relocation, rows: &GroupRows) -> Parts {
        let mut arriving = vec![relocation.entity];
        let subscriptions = |entity: u64| Key::Subscription(EntityId(entity), EntityId(0));
        let (from, to) =
            (subscriptions(relocation.entity.0), subscriptions(relocation.entity.0 + 1));
        rows.scan(&from, &to, &mut |key, _| {
            if let Key::Subscription(_, subscription) = key {
                arriving.push(subscription);
            }
            ControlFlow::Continue(())
        });
        let mut ranges: Vec<_> =
            arriving.iter().flat_map(|entity| domain::entity_ranges(*entity)).collect();
        ranges.push(domain::arrivals_range());
        ranges.reverse();
        arriving.reverse();
        let entities = arriving.iter().copied().collect();
        let (rows, number) = (rows.clone(), relocation.number);
        Parts { rows, number, arriving, ranges, after: None, entities }
    }

    /// The next part; none once there is nothing more.
    fn next(&mut self) -> Option<Vec<(Key, Row)>> {
        let mut part = Part::default();
        while let Some(entity) = self.arriving.pop() {
            let Some(row) = self.arriving_row(entity) else { continue };
            if part.add(Key::Relocation(entity), row) {
                return Some(part.rows);
            }
        }
        while let Some((from, to)) = self.ranges.last().cloned() {
            let after = self.after.take();
            let from = after.clone().unwrap_or(from);
            let (mut last, entities) = (None, &self.entities);
            self.rows.scan(&from, &to, &mut |key, row| {
                let is_of_it = key.entity().is_some_and(|entity| entities.contains(&entity));
                if !is_of_it || after.as_ref() == Some(&key) {
                    return ControlFlow::Continue(());
                }
                match part.add(key.clone(), row) {
                    true => {
                        last = Some(key);
                        ControlFlow::Break(())
                    }
                    false => ControlFlow::Continue(()),
                }
            });
            if last.is_some() {
                self.after = last;
                return Some(part.rows);
            }
            self.ranges.pop();
        }
        (!part.rows.is_empty()).then_some(part.rows)
    }

    fn arriving_row(&self, entity: EntityId) -> Option<Row> {
        let RelocationRow { state: RelocationState::Departing { hidden, .. }, .. } =
            domain::relocation(&self.rows, entity)?
        else {
            return None;
        };
        let HiddenEntity { row, state } = hidden;
        let state = RelocationState::Arriving { hidden: HiddenEntity { row, state } };
        Some(Row::Relocation(Box::new(RelocationRow { number: self.number, state })))
    }
}
