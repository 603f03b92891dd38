//! Carries what is forwarded or sent via an entity (FWD). Each group has a forwarder that does what its
//! leader asks: it proposes shipments, brings their contents to the destinations' groups and settles them.
//! It keeps nothing: a task that fails is asked for again, by this leader or the next, and both groups
//! know what was done (FWD-4).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{
    Arrive, Command, Destination, EntityId, EntityKind, ForgetArrivals, ForwardCommand, GroupId,
    Key, Line, Outcome, QualifiedName, QueueId, Refusal, Refused, Row, Rows, Ship, Shipped,
    SubQueue, Unpark,
};
use engine::{Carried, ForwardTask};
use tokio::sync::mpsc;

use crate::edge::{Failure, PendingCall, Router};
use crate::exchange::{Read, ReadAnswer};
use crate::leader::{ForwardRequest, Group, Input};
use crate::metric;

/// Most messages and bytes of one shipment: with what one command of its destination writes.
const SHIPMENT_COUNT_MAX: u32 = 256;
const SHIPMENT_BYTES_MAX: u32 = 256 * 1024;
/// A shipment that was overtaken by the one before it waits this long, and each further time twice as
/// long, up to the other: that one may stand before a destination that is full, and every try is an
/// entry with all contents.
const OUT_OF_TURN_PAUSE: Duration = Duration::from_millis(2);
const OUT_OF_TURN_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often what is known of sources is looked through for those that are gone.
const FORGET_EVERY: Duration = Duration::from_secs(3600);
/// Names in one page of the directory.
const PAGE: u32 = 1000;

pub(crate) struct Forwarder {
    router: Arc<Router>,
    group: Arc<Group>,
}

/// A shipment to be brought to its destination.
#[derive(Clone, Copy)]
struct Parcel {
    line: Line,
    serial: u64,
    settled_to: u64,
    follows: u64,
}

/// One on its way: where to, how much it is, and how much of that was brought before.
struct Posted {
    to: GroupId,
    count: u32,
    skipped: u32,
    /// This group's last cut when it was read.
    cut: u64,
    pending: PendingCall,
}

impl Forwarder {
    pub fn new(router: Arc<Router>, group: Arc<Group>) -> Forwarder {
        Forwarder { router, group }
    }

    /// Runs until the group's driver ends. Shipments are read and posted here, one after the other,
    /// so that they mostly arrive in their order; answers are waited for aside.
    pub async fn run(self, mut requests: mpsc::Receiver<ForwardRequest>) {
        let forwarder = Arc::new(self);
        let mut forget = tokio::time::interval(FORGET_EVERY);
        forget.reset();
        loop {
            let ForwardRequest { epoch, task } = tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => request,
                    None => return,
                },
                _ = forget.tick() => {
                    tokio::spawn(forwarder.clone().forget());
                    continue;
                }
            };
            let forwarder = forwarder.clone();
            match task {
                ForwardTask::Ship { queue, again } => {
                    tokio::spawn(async move {
                        let done = forwarder.ship(queue, again).await;
                        forwarder.tell(Input::Packed { epoch, queue, done });
                    });
                }
                ForwardTask::Unpark { queue } => {
                    tokio::spawn(async move {
                        let unpark = Unpark { queue, count_max: SHIPMENT_COUNT_MAX };
                        let done = forwarder.ask(ForwardCommand::Unpark(unpark)).await.is_some();
                        forwarder.tell(Input::Packed { epoch, queue, done });
                    });
                }
                ForwardTask::Carry { line, serial, settled_to, follows } => {
                    let parcel = Parcel { line, serial, settled_to, follows };
                    let posted = forwarder.post(parcel, 0, None);
                    tokio::spawn(async move {
                        let carried = match posted {
                            Some(posted) => forwarder.carry(parcel, posted).await,
                            None => None,
                        };
                        let carried = carried.unwrap_or(Carried::Lost);
                        forwarder.tell(Input::Carried { epoch, line, serial, carried });
                    });
                }
            }
        }
    }

    fn tell(&self, input: Input) {
        // A driver that has ended needs no answer.
        drop(self.group.tell(input));
    }

    /// Has the next shipment of a queue packed; whether that was done.
    async fn ship(&self, queue: QueueId, again: bool) -> bool {
        let rows = self.router.local.replication.rows(self.group.id);
        let Some(Row::Entity(entity)) = rows.get(&Key::Entity(queue.entity)) else { return true };
        let Some(to) = entity.properties.forwards(queue.sub).map(str::to_owned) else {
            return true;
        };
        let destination = match self.destination(&to).await {
            Ok(destination) => destination,
            Err(()) => return false,
        };
        if destination.is_none() && queue.sub == SubQueue::DeadLetter {
            return false; // FWD-9: they stay, and are tried again.
        }
        let (count_max, bytes_max) = (SHIPMENT_COUNT_MAX, SHIPMENT_BYTES_MAX);
        let ship = Ship { queue, to, destination, count_max, bytes_max, again };
        match self.ask(ForwardCommand::Ship(ship)).await {
            Some(Outcome::Fired(fired)) => {
                metric::fired(&fired);
                true
            }
            Some(_) => true,
            None => false,
        }
    }

    /// Where a name's messages go: by the directory here, or by its leader on a miss. `None`: nothing
    /// that takes messages has that name.
    async fn destination(&self, name: &str) -> Result<Option<Destination>, ()> {
        let known = domain::directory(&self.router.local.catalog(), name);
        if let Some(destination) = known.and_then(|row| row.destination()) {
            return Ok(Some(destination));
        }
        let name = QualifiedName::known(name);
        match self.router.refresh(&name, self.router.deadline()).await {
            Ok(route) if route.kind == EntityKind::Subscription => Ok(None),
            Ok(route) => Ok(Some(Destination { entity: route.entity, group: route.group })),
            Err(error) if matches!(error.refusal(), Some(Refusal::EntityNotFound { .. })) => {
                Ok(None)
            }
            Err(_) => Err(()),
        }
    }

    /// Asks this group; `None`: it was not done, or nobody knows.
    async fn ask(&self, command: ForwardCommand) -> Option<Outcome> {
        let deadline = self.router.deadline();
        let asked = self.router.call(self.group.id, Command::Forward(command), deadline).await;
        match asked {
            Ok(answer) if !matches!(answer.outcome, Outcome::Refused(_)) => Some(answer.outcome),
            _ => None,
        }
    }

    /// Reads a shipment and sends it, without the messages that arrived before. `relocated`: to where its destination
    /// went since it was packed.
    fn post(&self, parcel: Parcel, skipped: u32, relocated: Option<GroupId>) -> Option<Posted> {
        let Parcel { line: Line { queue, .. }, serial, settled_to, follows } = parcel;
        let rows = self.router.local.replication.rows(self.group.id);
        let mut shipment = domain::shipment(&rows, queue, serial)?;
        let count = shipment.messages.len() as u32;
        let messages = shipment.messages.split_off((skipped as usize).min(count as usize));
        let owner = |topic: Option<EntityId>| topic.unwrap_or(queue.entity);
        let of: Vec<_> = messages
            .iter()
            .map(|outgoing| (owner(outgoing.delivery.topic), outgoing.delivery.body))
            .collect();
        let contents: Option<Vec<Bytes>> = rows.bodies(&of).into_iter().collect();
        let Some(contents) = contents else {
            tracing::error!(group = %self.group.id, ?queue, serial, "a shipment lacks contents");
            return None;
        };
        let arriving: Result<Vec<_>, _> = messages
            .into_iter()
            .zip(contents)
            .map(|(outgoing, content)| (self.router.config.forwarded)(outgoing, content))
            .collect();
        let messages = match arriving {
            Ok(messages) => messages,
            Err(error) => {
                tracing::error!(group = %self.group.id, ?queue, serial, %error, "a shipment cannot be read");
                return None;
            }
        };
        let Destination { entity, group } = shipment.destination;
        let to = relocated.unwrap_or(group);
        let (source, destination) = (queue, entity);
        let arrive =
            Arrive { source, serial, settled_to, follows, destination, count, skipped, messages };
        // Read last: the shipment is before it, or behind it, but not behind a later one.
        let cut = domain::meta(&rows).cut;
        let pending = self.router.post(to, Command::Forward(arrive.behind(cut)));
        Some(Posted { to, count, skipped, cut, pending })
    }

    /// Brings a shipment to its destination, in parts if need be, and settles it. `None`: it got
    /// lost on the way, or not all of it finds room there for now (FWD-14).
    async fn carry(&self, parcel: Parcel, mut posted: Posted) -> Option<Carried> {
        let Parcel { line: Line { queue, .. }, serial, .. } = parcel;
        let deadline = self.router.deadline();
        let mut pause = OUT_OF_TURN_PAUSE;
        let mut relocated = None;
        loop {
            let Posted { to, count, skipped, cut, pending } = posted;
            let skipped = match self.router.finish(to, pending, deadline).await {
                Ok(answer) => match answer.outcome {
                    Outcome::Arrived { done, refused } if done >= count => {
                        return self.settle(queue, serial, count, refused).await;
                    }
                    Outcome::Arrived { done, .. } if done > skipped => done,
                    _ => return None, // Or for want of disk space (QUOTA-37).
                },
                Err(Failure::Mendable { refusal: Refusal::SerialGap { .. }, .. }) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(OUT_OF_TURN_PAUSE_MAX);
                    0
                }
                Err(Failure::Mendable { refusal: Refusal::OtherCut { cut: there }, .. }) => {
                    level(&self.router, (self.group.id, cut), (to, there)).await?;
                    0
                }
                Err(Failure::Mendable {
                    refusal: Refusal::Relocated { entity, to: went }, ..
                }) => {
                    let mut group = to;
                    let to = (entity, went);
                    self.router.follow(&mut group, to, &mut pause, deadline).await.ok()?;
                    relocated = Some(group);
                    0
                }
                Err(Failure::Mendable { .. }) => return None,
                Err(Failure::Error(kind)) => {
                    tracing::debug!(group = %self.group.id, ?queue, serial, ?kind, "not carried");
                    return None;
                }
            };
            if tokio::time::Instant::now() >= deadline {
                return None;
            }
            posted = self.post(parcel, skipped, relocated)?;
        }
    }

    async fn settle(
        &self,
        queue: QueueId,
        serial: u64,
        count: u32,
        refused: Vec<Refused>,
    ) -> Option<Carried> {
        let refusals: u32 = refused.iter().map(|refused| refused.count).sum();
        if let Some(Refused { reason, description, .. }) = refused.first()
            && queue.sub == SubQueue::DeadLetter
        {
            // FWD-5, FWD-9: nobody else would say why nothing moves.
            tracing::warn!(group = %self.group.id, ?queue, serial, refusals, %reason, %description,
                "a destination refuses a dead letter, which waits, and those behind it with it");
        }
        self.ask(ForwardCommand::Shipped(Shipped { queue, serial, refused })).await?;
        metric::forwarded(count - refusals.min(count), refusals);
        Some(match refusals {
            0 => Carried::All,
            _ if refusals < count => Carried::Some,
            _ => Carried::Nothing,
        })
    }

    /// Takes off what this group, if it is led here, knows of sources that are gone.
    async fn forget(self: Arc<Self>) {
        if !self.group.leads() {
            return;
        }
        let rows = self.router.local.replication.rows(self.group.id);
        let quiet = quiet_sources(&rows);
        if quiet.is_empty() {
            return;
        }
        let Some(known) = self.entities().await else { return };
        for (source, destination) in quiet {
            if known.binary_search(&source.entity).is_err() {
                let forget = ForgetArrivals { source, destination };
                self.ask(ForwardCommand::ForgetArrivals(forget)).await;
            }
        }
    }

    /// Every entity that may forward, by the catalog's leader. One created meanwhile may be missing,
    /// and is no source that has been quiet for long.
    async fn entities(&self) -> Option<Vec<EntityId>> {
        let mut known = Vec::new();
        for kind in [EntityKind::Queue, EntityKind::Subscription] {
            let mut after = None;
            loop {
                let (prefix, count_max) = (String::new(), PAGE);
                let read = Read::Directory { kind, after: after.take(), prefix, count_max };
                let deadline = self.router.deadline();
                let answer = self.router.read(GroupId::CATALOG, read, deadline).await;
                let Ok(ReadAnswer::Entries(rows)) = answer else { return None };
                known.extend(rows.iter().map(|row| row.entity));
                match rows.last() {
                    Some(last) if rows.len() == PAGE as usize => {
                        after = Some(last.name.to_lowercase());
                    }
                    _ => break,
                }
            }
        }
        known.sort_unstable();
        Some(known)
    }
}

/// Has the one of two groups that is behind have the other's last cut: whoever makes it may have died
/// before it had asked all.
pub(super) async fn level(
    router: &Router,
    (one, cut_of_one): (GroupId, u64),
    (other, cut_of_other): (GroupId, u64),
) -> Option<()> {
    let behind = if cut_of_one < cut_of_other { one } else { other };
    let cut = Command::Cut { number: cut_of_one.max(cut_of_other) };
    let answer = router.call(behind, cut, router.deadline()).await.ok()?;
    matches!(answer.outcome, Outcome::Done).then_some(())
}

/// Sources of which nothing came for so long that nothing of theirs is under way.
fn quiet_sources(rows: &impl Rows) -> Vec<(QueueId, EntityId)> {
    let now = domain::meta(rows).last_at;
    let from = Key::Arrival(QueueId::main(EntityId(0)), EntityId(0));
    let to = Key::Arrival(QueueId::main(EntityId(u64::MAX)), EntityId(0));
    let mut quiet = Vec::new();
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Arrival(source, destination), Row::Arrival(row)) = (key, row)
            && row.at.plus(domain::ARRIVALS_KEPT) <= now
        {
            quiet.push((source, destination));
        }
        ControlFlow::Continue(())
    });
    quiet
}
