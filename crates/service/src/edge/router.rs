//! From a name to whoever decides about it: the directory's local rows name entity and group, Raft
//! names the group's leader, and that leader is a driver here or another node behind a link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::{
    Command, DirectoryRow, EntityId, EntityKind, GroupId, Origin, Outcome, QualifiedName,
    ReceiverId, Refusal, Span, Timestamp,
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use crate::config::Config;
use crate::edge::address::{self, Caller};
use crate::edge::attachment::Attachment;
use crate::edge::catch_up::CatchUp;
use crate::edge::leaders::Leaders;
use crate::edge::namespace_use::NamespaceUses;
use crate::edge::receiver::ReceiveMode;
use crate::edge::standings::{self, Standings};
use crate::error::{Error, ErrorKind, Result, Unavailable, Unknown};
use crate::exchange::{
    Answer, Attach, CallResult, Detached, Event, Failed, NotRead, Read, ReadAnswer, ReadReply,
    ReadResult, Reply, TransactionId,
};
use crate::leader::{Input, answer, excess};
use crate::peer::{Links, LocalNode, Outgoing};

/// Pauses between tries while a group has no leader: elections take about a second.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How long a group's former leader has, once another leads, to say what became of what it was asked.
const LAST_WORD_WAIT: Duration = Duration::from_secs(1);

/// An entity and where it is served.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub entity: EntityId,
    pub group: GroupId,
    /// As given at creation (ENT-1).
    pub name: Arc<str>,
    pub kind: EntityKind,
}

impl Route {
    fn ready(row: DirectoryRow) -> Option<Route> {
        // What is being created is not there yet, what is being deleted no more.
        let is_there = row.is_there();
        let DirectoryRow { entity, group, name, kind, .. } = row;
        is_there.then(|| Route { entity, group, name: name.into(), kind })
    }
}

pub(crate) struct Router {
    pub config: Config,
    pub local: Arc<LocalNode>,
    pub links: Links,
    pub leaders: Leaders,
    pub standings: Standings,
    pub uses: Arc<NamespaceUses>,
    pub caught_up: CatchUp,
    /// This edge as a producer, per group: its id and its last serial.
    producers: Mutex<BTreeMap<GroupId, (u64, u64)>>,
    /// The last number given to a receiver or a transaction of this edge.
    last_number: AtomicU64,
    /// Nothing here is asked any more.
    ended: watch::Sender<bool>,
}

/// What locks hang on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing but their time: whoever knows the token settles, through any node.
    #[default]
    Lasting,
    /// A connection to this node: when the node ends, they do (LOCK-28).
    OfConnection,
}

/// How far the catalog's rows may be behind here.
const LEVEL_HEARD_WITHIN: Duration = Duration::from_secs(1);
/// Of what not all nodes could read in their logs.
const TOO_NEW: &str = "this is of a later version than all nodes of the cluster have, or may use; upgrade them \
     and take node.feature_level_max off, whereupon the cluster's feature level rises by itself";

/// A command under way.
pub(crate) type PendingCall = oneshot::Receiver<CallResult>;

/// Why a call came to nothing.
pub(crate) enum Failure {
    Error(ErrorKind),
    /// Refused, but the edge can mend it.
    Mendable {
        refusal: Refusal,
        command: Command,
    },
}

impl Router {
    /// `leader_changes`: see [`Router::follow_leaders`].
    pub fn new(
        config: Config,
        local: Arc<LocalNode>,
        leader_changes: mpsc::Sender<(Instant, GroupId)>,
    ) -> Router {
        let links = Links::new(local.replication.clone());
        let leaders = Leaders::new(local.clone(), leader_changes);
        let standings = Standings::new(local.clone());
        // Receivers of a former life of this node may still hold locks.
        let last_number = AtomicU64::new(u64::from(rand::random::<u32>()));
        let (producers, ended) = (Mutex::default(), watch::Sender::new(false));
        let (uses, caught_up) = Default::default();
        Router {
            config,
            local,
            links,
            leaders,
            standings,
            uses,
            caught_up,
            producers,
            last_number,
            ended,
        }
    }

    /// The node has ended. Whoever waits for an answer would wait until its deadline, and hold on to the databases:
    /// there is none, nor will there be another try.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    pub fn is_ended(&self) -> bool {
        *self.ended.borrow()
    }

    async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender is this object's.
        drop(ended.wait_for(|ended| *ended).await);
    }

    /// What comes before the deadline, and before the node has ended.
    async fn before<T>(&self, deadline: Instant, answer: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = timeout_at(deadline, answer) => answer.ok(),
            () = self.ended() => None,
        }
    }

    /// Why there is no next try.
    fn no_try(&self, group: GroupId) -> Unavailable {
        match self.is_ended() {
            true => Unavailable::Stopping,
            false => Unavailable::NoLeader(group),
        }
    }

    pub fn deadline(&self) -> Instant {
        Instant::now() + self.config.request_timeout
    }

    /// The catalog's time, and how far it was moved forward, by what this node has heard of so far.
    pub fn now_here(&self) -> (Timestamp, Span) {
        let offset = domain::meta(&self.local.catalog()).clock_offset;
        (self.local.clock.told().plus(offset), offset)
    }

    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The identity of a receiver that has attached `epoch` times.
    pub fn next_receiver(&self, hold: Hold, mode: ReceiveMode, epoch: u32) -> ReceiverId {
        let run = match hold {
            Hold::Lasting => None,
            Hold::OfConnection => Some(self.local.replication.run()),
        };
        // As many as a half of it can tell apart hold no locks at a time.
        let receiver = ReceiverId::new(self.local.id, run, self.next_number() as u32, epoch);
        match mode {
            ReceiveMode::PeekLock => receiver,
            ReceiveMode::ReceiveAndDelete => receiver.deleting(),
        }
    }

    pub fn next_transaction(&self) -> TransactionId {
        TransactionId { node: self.local.id, id: self.next_number() }
    }

    /// Hears which groups may have a new leader, and since when: the oldest word first. A former one
    /// that lives has answered at once. One that is frozen or cut off may not for long, and nothing
    /// else tells: no connection breaks for it. So the links to it are given up, and what it was asked
    /// is asked of its successor, who knows a repeat (SEND-8).
    pub async fn follow_leaders(
        self: Arc<Router>,
        mut leader_changes: mpsc::Receiver<(Instant, GroupId)>,
    ) {
        while let Some((since, group)) = leader_changes.recv().await {
            tokio::time::sleep_until(since + LAST_WORD_WAIT).await;
            // Without one there will be another word.
            let Some(leader) = self.leaders.of(group) else { continue };
            self.links.give_up_silent(group, leader);
        }
    }

    /// Sees which groups are without a leader, for ever.
    pub async fn watch_standings(self: Arc<Router>) {
        loop {
            self.standings.look();
            tokio::time::sleep(standings::LOOK_EVERY).await;
        }
    }

    /// Why nothing is asked of a group now: no majority confirms a leader of it, and has not for longer
    /// than an election takes.
    pub fn want_of_leader(&self, group: GroupId) -> Option<Unavailable> {
        self.standings.is_leaderless(group).then_some(Unavailable::Leaderless(group))
    }

    /// Writes on a command who asks.
    pub fn stamp(&self, command: &mut Command, route: &Route, caller: Caller) {
        command.set_entity(route.entity);
        if let Some(origin) = command.origin_mut() {
            *origin = Some(match caller {
                Caller::Edge => self.next_origin(route.group),
                Caller::Client { producer, serial, ordered, retry } => {
                    let producer = address::producer_of(producer, route.entity);
                    Origin { producer, serial, ordered, retry }
                }
            });
        }
    }

    /// SEND-8: the edge is one producer per group, whose requests may overtake each other.
    fn next_origin(&self, group: GroupId) -> Origin {
        let mut producers = self.producers.lock();
        let (producer, serial) =
            producers.entry(group).or_insert_with(|| (rand::random::<u64>().max(1), 0));
        *serial += 1;
        Origin { producer: *producer, serial: *serial, ordered: false, retry: false }
    }

    /// Hands a command to the group's leader, at once: commands posted one after the other enter
    /// the log in that order, as long as the leader stays (MSG-10).
    pub fn post(&self, group: GroupId, command: Command) -> PendingCall {
        let (reply, pending) = oneshot::channel();
        if let Some(refusal) = excess(&command).or_else(|| self.too_new(&command)) {
            let (outcome, contents) = (Outcome::Refused(refusal), Vec::new());
            drop(reply.send(Ok(Answer { outcome, contents })));
            return pending;
        }
        // One that leads alone would take it into its log, and leave it in doubt.
        let leader = self.leaders.of(group).filter(|_| !self.standings.is_leaderless(group));
        match leader {
            Some(leader) if leader == self.local.id => {
                let reply = Reply::Local(reply);
                let told = match self.local.group(group) {
                    Some(group) => group.tell(Input::Call { command, reply }),
                    None => Err(Input::Call { command, reply }),
                };
                if let Err(Input::Call { command, reply }) = told {
                    reply.send(Err(Failed::NotLeader { leader: None, command }));
                }
            }
            Some(leader) => self.links.to(leader).send(Outgoing::Call { group, command, reply }),
            None => drop(reply.send(Err(Failed::NotLeader { leader: None, command }))),
        }
        pending
    }

    /// Refused: what nodes of the cluster do not understand yet. This node may be the last to hear that they do.
    pub async fn check_known(&self, level: u32, name: &str) -> Result<()> {
        let (deadline, mut pause) = (Instant::now() + LEVEL_HEARD_WITHIN, PAUSE_MIN);
        while !self.local.has_reached(level) {
            if !self.wait(&mut pause, deadline).await {
                return Err(Error::new(Refusal::InvalidOperation { why: TOO_NEW }, name));
            }
        }
        Ok(())
    }

    /// Why a command is not to be in a log of this cluster yet.
    fn too_new(&self, command: &Command) -> Option<Refusal> {
        let is_known = self.local.has_reached(command.level());
        (!is_known).then_some(Refusal::InvalidOperation { why: TOO_NEW })
    }

    /// Sends a command until it is answered: to a new leader if there is one, again if it was
    /// perhaps done and will be recognised.
    pub async fn call(
        &self,
        group: GroupId,
        command: Command,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let pending = self.post(group, command);
        self.finish(group, pending, deadline).await
    }

    /// What comes of a command that was posted.
    pub async fn finish(
        &self,
        group: GroupId,
        mut pending: PendingCall,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let mut pause = PAUSE_MIN;
        let mut doubt = false;
        loop {
            let command = match self.before(deadline, &mut pending).await {
                None => return unknown(Unknown::Late(group)),
                Some(Err(_)) => return unknown(Unknown::LeaderLost(group)),
                Some(Ok(Ok(answer))) => return Ok(answer),
                Some(Ok(Err(Failed::Mendable { refusal, command }))) => {
                    return Err(Failure::Mendable { refusal, command });
                }
                Some(Ok(Err(Failed::NotLeader { leader, command }))) => {
                    self.leaders.hear(group, leader);
                    command
                }
                Some(Ok(Err(Failed::Unknown { mut command }))) => {
                    doubt = true;
                    if !command.mark_repeat() {
                        return unknown(Unknown::LeaderLost(group));
                    }
                    command
                }
            };
            let leaderless = self.want_of_leader(group).filter(|_| !doubt);
            if let Some(why) = leaderless {
                return Err(Failure::Error(ErrorKind::Unavailable { why }));
            }
            if !self.wait(&mut pause, deadline).await {
                return match doubt {
                    true => unknown(Unknown::Late(group)),
                    false => {
                        let why = self.no_try(group);
                        Err(Failure::Error(ErrorKind::Unavailable { why }))
                    }
                };
            }
            pending = self.post(group, command);
        }
    }

    /// Has a command about an entity applied. A stale route is mended once.
    pub async fn execute(
        &self,
        name: &QualifiedName,
        mut command: Command,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Answer> {
        let mut route = self.route(name, deadline).await?;
        let (mut refreshed, mut pause) = (false, PAUSE_MIN);
        loop {
            self.stamp(&mut command, &route, caller);
            command = match self.call(route.group, command, deadline).await {
                Ok(Answer { outcome: Outcome::Refused(refusal), .. }) => {
                    return Err(Error::new(refusal, name));
                }
                Ok(answer) => return Ok(answer),
                Err(Failure::Error(kind)) => return Err(Error::new(kind, name)),
                Err(Failure::Mendable { refusal: Refusal::StaleRoute { .. }, command }) => {
                    if std::mem::replace(&mut refreshed, true) {
                        return Err(not_found(name.as_str()));
                    }
                    route = self.refresh(name, deadline).await?;
                    command
                }
                Err(Failure::Mendable { refusal: Refusal::Relocated { entity, to }, command }) => {
                    let to = (entity, to);
                    let followed = self.follow(&mut route.group, to, &mut pause, deadline).await;
                    followed.map_err(|kind| Error::new(kind, name))?;
                    command
                }
                Err(Failure::Mendable { refusal, .. }) => return Err(Error::new(refusal, name)),
            };
        }
    }

    /// Where an entity that left its group is to be asked for next: where it went, or, while it is on
    /// its way, after a pause there again. Refused once the deadline has come.
    pub async fn follow(
        &self,
        group: &mut GroupId,
        (entity, to): (EntityId, Option<GroupId>),
        pause: &mut Duration,
        deadline: Instant,
    ) -> Result<(), ErrorKind> {
        match to {
            Some(to) => *group = to,
            None if self.wait(pause, deadline).await => (),
            None => return Err(Refusal::Relocated { entity, to: None }.into()),
        }
        Ok(())
    }

    /// Waits before the next try; false if the deadline comes first, or the node's end.
    pub async fn wait(&self, pause: &mut Duration, deadline: Instant) -> bool {
        let until = Instant::now() + *pause;
        *pause = (*pause * 2).min(PAUSE_MAX);
        let waited = self.before(deadline, tokio::time::sleep_until(until.min(deadline))).await;
        waited.is_some() && until < deadline
    }

    /// Reads at the group's leader until it is answered.
    pub async fn read(
        &self,
        group: GroupId,
        read: Read,
        deadline: Instant,
    ) -> Result<ReadAnswer, ErrorKind> {
        let mut pause = PAUSE_MIN;
        loop {
            let (reply, answer) = oneshot::channel::<ReadResult>();
            match self.leaders.of(group) {
                Some(leader) if leader == self.local.id => match self.local.group(group) {
                    Some(group) => group.read(read.clone(), ReadReply::Local(reply)),
                    None => drop(reply.send(Err(NotRead { leader: None }))),
                },
                Some(leader) => {
                    self.links.to(leader).send(Outgoing::Read { group, read: read.clone(), reply });
                }
                None => drop(reply.send(Err(NotRead { leader: None }))),
            }
            match self.before(deadline, answer).await {
                Some(Ok(Ok(answer))) => return Ok(answer),
                Some(Ok(Err(NotRead { leader }))) => self.leaders.hear(group, leader),
                Some(Err(_)) => self.leaders.hear(group, None),
                None => (),
            }
            if let Some(why) = self.want_of_leader(group) {
                return Err(ErrorKind::Unavailable { why });
            }
            if !self.wait(&mut pause, deadline).await {
                return Err(ErrorKind::Unavailable { why: self.no_try(group) });
            }
        }
    }

    /// Reads of an entity, at its group's leader. `stale`: of this node's own rows instead, if it has any
    /// of the group. A stale route is mended once.
    pub async fn read_entity(
        &self,
        name: &QualifiedName,
        stale: bool,
        deadline: Instant,
        read: impl Fn(EntityId) -> Read,
    ) -> Result<ReadAnswer> {
        let mut route = self.route(name, deadline).await?;
        let (mut refreshed, mut pause) = (false, PAUSE_MIN);
        loop {
            let read = read(route.entity);
            let answer = match stale && self.local.group(route.group).is_some() {
                true => self.read_here(route.group, read).await,
                false => self.read(route.group, read, deadline).await,
            };
            match answer.map_err(|kind| Error::new(kind, name))? {
                ReadAnswer::Refused(Refusal::StaleRoute { .. }) => {
                    if std::mem::replace(&mut refreshed, true) {
                        return Err(not_found(name.as_str()));
                    }
                    route = self.refresh(name, deadline).await?;
                }
                ReadAnswer::Refused(Refusal::Relocated { entity, to }) => {
                    let to = (entity, to);
                    let followed = self.follow(&mut route.group, to, &mut pause, deadline).await;
                    followed.map_err(|kind| Error::new(kind, name))?;
                }
                ReadAnswer::Refused(refusal) => return Err(Error::new(refusal, name)),
                answer => return Ok(answer),
            }
        }
    }

    /// Reads this node's own rows, which may be behind.
    async fn read_here(&self, group: GroupId, read: Read) -> Result<ReadAnswer, ErrorKind> {
        let rows = self.local.replication.rows(group);
        let now = self.local.clock.now();
        let answer = tokio::task::spawn_blocking(move || {
            answer(&rows, &|of: &_| rows.bodies(of), now, read)
        })
        .await;
        answer.map_err(|_| ErrorKind::Unavailable { why: Unavailable::Stopping })
    }

    /// Tells the group's leader that a transaction of this node waits with no lock any more.
    pub fn end_claims(&self, group: GroupId, transaction: TransactionId) {
        match self.leaders.of(group) {
            Some(leader) if leader == self.local.id => {
                if let Some(group) = self.local.group(group) {
                    group.claims.release(transaction);
                }
            }
            Some(leader) => self
                .links
                .to(leader)
                .send(Outgoing::EndClaims { group, transaction: transaction.id }),
            None => (), // Whoever comes to lead knows of none.
        }
    }

    /// Asks the group's leader to serve a receiver. If there is none, it is told so at once.
    pub fn attach(&self, group: GroupId, attach: Attach) -> Option<Attachment> {
        let no = |attach: Attach| {
            drop(attach.sink.send(attach.receiver, Event::Detached(Detached::LeaderLost)));
            None
        };
        match self.leaders.of(group) {
            Some(leader) if leader == self.local.id => {
                let Some(group) = self.local.group(group) else { return no(attach) };
                match group.tell(Input::Attach(attach)) {
                    Ok(()) => Some(Attachment::Here(group)),
                    Err(Input::Attach(attach)) => no(attach),
                    Err(_) => None,
                }
            }
            Some(leader) => {
                let link = self.links.to(leader);
                link.send(Outgoing::Attach { group, attach });
                Some(Attachment::There(link, group))
            }
            None => no(attach),
        }
    }

    /// Where a name is served, by the local directory, or by the catalog's leader on a miss.
    pub async fn route(&self, name: &QualifiedName, deadline: Instant) -> Result<Route> {
        let local = domain::directory(&self.local.catalog(), name.as_str());
        match local.and_then(Route::ready) {
            Some(route) => Ok(route),
            None => self.refresh(name, deadline).await,
        }
    }

    /// Where a name is served, by the catalog's leader.
    pub async fn refresh(&self, name: &QualifiedName, deadline: Instant) -> Result<Route> {
        let read = Read::Resolve { name: name.as_str().to_owned() };
        match self.read(GroupId::CATALOG, read, deadline).await {
            Ok(ReadAnswer::Entries(rows)) => {
                let route = rows.into_iter().next().and_then(Route::ready);
                route.ok_or_else(|| not_found(name.as_str()))
            }
            Ok(_) => Err(Error::new(
                ErrorKind::Unavailable { why: Unavailable::NoLeader(GroupId::CATALOG) },
                name,
            )),
            Err(kind) => Err(Error::new(kind, name)),
        }
    }

    /// Hands over a leadership, wherever it is held.
    pub async fn transfer(&self, group: GroupId, to: u64) -> Result<(), String> {
        match self.leaders.of(group) {
            Some(leader) if leader == to => Ok(()),
            Some(leader) if leader == self.local.id => self.local.transfer(group, to).await,
            Some(leader) => {
                let (reply, error) = oneshot::channel();
                self.links.to(leader).send(Outgoing::Transfer { group, to, reply });
                match self.before(self.deadline(), error).await {
                    Some(Ok(None)) => Ok(()),
                    Some(Ok(Some(error))) => Err(error),
                    Some(Err(_)) | None => Err(format!("node {leader} did not answer")),
                }
            }
            None => Err(format!("group {group} has no leader")),
        }
    }
}

/// ERR-1.
pub(crate) fn not_found(name: &str) -> Error {
    Error::new(Refusal::EntityNotFound { name: name.to_owned() }, name)
}

fn unknown(why: Unknown) -> Result<Answer, Failure> {
    Err(Failure::Error(ErrorKind::Unknown { why }))
}
