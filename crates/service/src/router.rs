//! From a name to whoever decides about it: the directory's local rows name entity and group, Raft
//! names the group's leader, and that leader is a driver here or another node behind a link.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Command, DirectoryRow, EntityId, EntityKind, GroupId, Key, Origin, Outcome, ReceiverId,
    Refusal, Row, Rows,
};
use parking_lot::Mutex;
use replication::{GroupStatus, Replication, TransferError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::address::{self, Asker};
use crate::balance::keeps_up;
use crate::call::{Answer, Attach, CallResult, Detached, Event, Failed, Reply};
use crate::clock::Clock;
use crate::collector::IdleReport;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result, Unavailable, Unknown};
use crate::group::{Group, Groups, Input};
use crate::link::{Link, Outgoing};
use crate::pending::Holder;
use crate::reads::{NotRead, Read, ReadAnswer, ReadReply, ReadResult};
use crate::standing::Receivers;
use crate::status::NodeReport;
use crate::waitlist;

/// Pauses between tries while a group has no leader: elections take about a second.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How long a group's former leader has, once another leads, to say what became of what it was asked.
const LAST_WORD_WAIT: Duration = Duration::from_secs(1);

/// Most idle entities named at a time: their names must fit one frame.
const CANDIDATES_MAX: usize = 4096;

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
    pub replication: Replication,
    pub clock: Arc<Clock>,
    groups: Arc<Groups>,
    links: Mutex<HashMap<u64, Link>>,
    /// Of groups this node holds no replica of.
    hints: Mutex<BTreeMap<GroupId, Hint>>,
    /// See [`Router::follow_leaders`].
    successions: mpsc::UnboundedSender<(Instant, GroupId)>,
    /// Nodes that should lead nothing now, by reason.
    unfit: Mutex<BTreeMap<Unfit, BTreeSet<u64>>>,
    /// How many data groups each other node leads, as it last said.
    led: Mutex<BTreeMap<u64, usize>>,
    /// Receivers of this edge.
    pub receivers: Arc<Receivers>,
    /// This edge as a producer, per group: its id and its last serial.
    producers: Mutex<BTreeMap<GroupId, (u64, u64)>>,
}

/// Who leads a group, as last heard.
#[derive(Clone, Copy, Default)]
struct Hint {
    leader: u64,
    /// The latest in which a node said that it leads; 0 before the first.
    term: u64,
}

/// Why a node should lead nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unfit {
    /// It is short of disk space (QUOTA-37).
    Disk,
    /// It is drained, or was removed.
    Leaving,
}

/// A command under way.
pub(crate) type Pending = oneshot::Receiver<CallResult>;

/// Why a call came to nothing.
pub(crate) enum Failure {
    Error(ErrorKind),
    /// Refused, but the edge can mend it.
    Mendable {
        refusal: Refusal,
        command: Command,
    },
}

/// Where a receiver is attached.
#[derive(Clone)]
pub(crate) enum Attachment {
    Here(Arc<Group>),
    There(Link, GroupId),
}

impl Router {
    pub fn new(
        config: Config,
        replication: Replication,
        clock: Arc<Clock>,
        groups: Arc<Groups>,
        successions: mpsc::UnboundedSender<(Instant, GroupId)>,
    ) -> Router {
        Router {
            config,
            replication,
            clock,
            groups,
            links: Mutex::default(),
            hints: Mutex::default(),
            successions,
            unfit: Mutex::default(),
            led: Mutex::default(),
            receivers: Arc::default(),
            producers: Mutex::default(),
        }
    }

    pub fn group(&self, group: GroupId) -> Option<Arc<Group>> {
        self.groups.get(group)
    }

    pub fn groups(&self) -> Vec<Arc<Group>> {
        self.groups.all()
    }

    pub fn deadline(&self) -> Instant {
        Instant::now() + self.config.request_timeout
    }

    /// Who leads a group, as far as this node knows; of a group without a replica here, whoever
    /// said so last, or one of its replicas, which knows better.
    pub fn leader(&self, group: GroupId) -> Option<u64> {
        let known = self.group(group).and_then(|_| self.replication.leader(group));
        if self.hears_raft(group) {
            return known;
        }
        if let Some(hint) = self.hints.lock().get(&group) {
            return Some(hint.leader);
        }
        known.or_else(|| self.replicas(group).first().copied())
    }

    /// Whether Raft tells this node who leads a group: a replica that comes may not know yet, and one
    /// that goes not any more.
    fn hears_raft(&self, group: GroupId) -> bool {
        self.group(group).is_some_and(|group| !group.is_guest())
    }

    /// The nodes of a group by the catalog's rows; the catalog's own are all nodes.
    fn replicas(&self, group: GroupId) -> Vec<u64> {
        let rows = self.replication.rows(GroupId::CATALOG);
        match rows.get(&Key::Group(group)) {
            Some(Row::Group(group)) => group.replicas,
            _ => Vec::new(),
        }
    }

    /// A node said who leads a group, or that it does not know.
    fn hear(&self, group: GroupId, leader: Option<u64>) {
        if self.hears_raft(group) {
            return;
        }
        let mut hints = self.hints.lock();
        let hint = hints.get(&group).copied().unwrap_or_default();
        let leader = leader.or_else(|| {
            // Ask the next replica.
            let replicas = self.replicas(group);
            let at = replicas.iter().position(|node| *node == hint.leader).unwrap_or(0);
            replicas.get((at + 1) % replicas.len().max(1)).copied()
        });
        if let Some(leader) = leader {
            hints.insert(group, Hint { leader, ..hint });
        }
    }

    /// A node said that it leads a group, in this term: nodes say so once a second.
    pub fn hear_reign(&self, group: GroupId, leader: u64, term: u64) {
        if self.hears_raft(group) {
            return;
        }
        let mut hints = self.hints.lock();
        // One that was frozen or cut off may not know yet that it leads no more.
        if hints.get(&group).is_none_or(|hint| term > hint.term) {
            hints.insert(group, Hint { leader, term });
            let _ = self.successions.send((Instant::now(), group)); // Else the node is ending.
        }
    }

    pub fn link(&self, node: u64) -> Link {
        let mut links = self.links.lock();
        match links.get(&node) {
            Some(link) if link.is_open() => link.clone(),
            _ => {
                let link = Link::open(node, self.replication.clone());
                links.insert(node, link.clone());
                link
            }
        }
    }

    /// Hears which groups may have a new leader, and since when: the oldest word first. A former one
    /// that lives has answered at once. One that is frozen or cut off may not for long, and nothing
    /// else tells: no connection breaks for it. So the links to it are given up, and what it was asked
    /// is asked of its successor, who knows a repeat (SEND-8).
    pub async fn follow_leaders(
        self: Arc<Router>,
        mut words: mpsc::UnboundedReceiver<(Instant, GroupId)>,
    ) {
        while let Some((since, group)) = words.recv().await {
            tokio::time::sleep_until(since + LAST_WORD_WAIT).await;
            // Without one there will be another word.
            let Some(leader) = self.leader(group) else { continue };
            for (node, link) in self.links.lock().iter() {
                if *node != leader && link.is_open() && link.owes(group) {
                    tracing::info!(%group, leader, node, "a former leader is silent: given up");
                    link.give_up();
                }
            }
        }
    }

    /// Writes on a command who asks.
    pub fn stamp(&self, command: &mut Command, route: &Route, asker: Asker) {
        command.set_entity(route.entity);
        if let Some(origin) = command.origin_mut() {
            *origin = Some(match asker {
                Asker::Edge => self.next_origin(route.group),
                Asker::Client { producer, serial, ordered, retry } => {
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
    pub fn post(&self, group: GroupId, command: Command) -> Pending {
        let (reply, pending) = oneshot::channel();
        if let Some(refusal) = waitlist::excess(&command) {
            let (outcome, contents) = (Outcome::Refused(refusal), Vec::new());
            drop(reply.send(Ok(Answer { outcome, contents })));
            return pending;
        }
        match self.leader(group) {
            Some(leader) if leader == self.config.node => {
                let reply = Reply::Local(reply);
                let told = match self.group(group) {
                    Some(group) => group.tell(Input::Call { command, reply }),
                    None => Err(Input::Call { command, reply }),
                };
                if let Err(Input::Call { command, reply }) = told {
                    reply.send(Err(Failed::NotLeader { leader: None, command }));
                }
            }
            Some(leader) => self.link(leader).send(Outgoing::Call { group, command, reply }),
            None => drop(reply.send(Err(Failed::NotLeader { leader: None, command }))),
        }
        pending
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
        mut pending: Pending,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let mut pause = PAUSE_MIN;
        let mut doubt = false;
        loop {
            let command = match timeout_at(deadline, &mut pending).await {
                Err(_) => return unknown(Unknown::Late(group)),
                Ok(Err(_)) => return unknown(Unknown::LeaderLost(group)),
                Ok(Ok(Ok(answer))) => return Ok(answer),
                Ok(Ok(Err(Failed::Mendable { refusal, command }))) => {
                    return Err(Failure::Mendable { refusal, command });
                }
                Ok(Ok(Err(Failed::NotLeader { leader, command }))) => {
                    self.hear(group, leader);
                    command
                }
                Ok(Ok(Err(Failed::Unknown { mut command }))) => {
                    doubt = true;
                    if !command.mark_repeat() {
                        return unknown(Unknown::LeaderLost(group));
                    }
                    command
                }
            };
            if !self.wait(&mut pause, deadline).await {
                return match doubt {
                    true => unknown(Unknown::Late(group)),
                    false => {
                        let why = Unavailable::NoLeader(group);
                        Err(Failure::Error(ErrorKind::Unavailable { why }))
                    }
                };
            }
            pending = self.post(group, command);
        }
    }

    /// Waits before the next try; false if the deadline comes first.
    pub async fn wait(&self, pause: &mut Duration, deadline: Instant) -> bool {
        let until = Instant::now() + *pause;
        *pause = (*pause * 2).min(PAUSE_MAX);
        tokio::time::sleep_until(until.min(deadline)).await;
        until < deadline
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
            match self.leader(group) {
                Some(leader) if leader == self.config.node => match self.group(group) {
                    Some(group) => group.read(read.clone(), ReadReply::Local(reply)),
                    None => drop(reply.send(Err(NotRead { leader: None }))),
                },
                Some(leader) => {
                    self.link(leader).send(Outgoing::Read { group, read: read.clone(), reply });
                }
                None => drop(reply.send(Err(NotRead { leader: None }))),
            }
            match timeout_at(deadline, answer).await {
                Ok(Ok(Ok(answer))) => return Ok(answer),
                Ok(Ok(Err(NotRead { leader }))) => self.hear(group, leader),
                Ok(Err(_)) => self.hear(group, None),
                Err(_) => (),
            }
            if !self.wait(&mut pause, deadline).await {
                return Err(ErrorKind::Unavailable { why: Unavailable::NoLeader(group) });
            }
        }
    }

    /// Tells the group's leader that a transaction of this node waits with no lock any more.
    pub fn unpend(&self, group: GroupId, holder: Holder) {
        match self.leader(group) {
            Some(leader) if leader == self.config.node => {
                if let Some(group) = self.group(group) {
                    drop(group.tell(Input::Unpend { holder }));
                }
            }
            Some(leader) => {
                self.link(leader).send(Outgoing::Unpend { group, transaction: holder.id })
            }
            None => (), // Whoever comes to lead knows of none.
        }
    }

    /// Asks the group's leader to serve a receiver. If there is none, it is told so at once.
    pub fn attach(&self, group: GroupId, attach: Attach) -> Option<Attachment> {
        let no = |attach: Attach| {
            drop(attach.sink.send(attach.receiver, Event::Detached(Detached::LeaderLost)));
            None
        };
        match self.leader(group) {
            Some(leader) if leader == self.config.node => {
                let Some(group) = self.group(group) else { return no(attach) };
                match group.tell(Input::Attach(attach)) {
                    Ok(()) => Some(Attachment::Here(group)),
                    Err(Input::Attach(attach)) => no(attach),
                    Err(_) => None,
                }
            }
            Some(leader) => {
                let link = self.link(leader);
                link.send(Outgoing::Attach { group, attach });
                Some(Attachment::There(link, group))
            }
            None => no(attach),
        }
    }

    /// Where a name is served, by the local directory, or by the catalog's leader on a miss.
    pub async fn route(&self, name: &str, deadline: Instant) -> Result<Route> {
        let local = domain::directory(&self.replication.rows(GroupId::CATALOG), name);
        match local.and_then(Route::ready) {
            Some(route) => Ok(route),
            None => self.refresh(name, deadline).await,
        }
    }

    /// Where a name is served, by the catalog's leader.
    pub async fn refresh(&self, name: &str, deadline: Instant) -> Result<Route> {
        let read = Read::Resolve { name: name.to_owned() };
        match self.read(GroupId::CATALOG, read, deadline).await {
            Ok(ReadAnswer::Entries(rows)) => {
                let route = rows.into_iter().next().and_then(Route::ready);
                route.ok_or_else(|| not_found(name))
            }
            Ok(_) => Err(Error::new(
                ErrorKind::Unavailable { why: Unavailable::NoLeader(GroupId::CATALOG) },
                name,
            )),
            Err(kind) => Err(Error::new(kind, name)),
        }
    }

    /// Takes down which nodes should lead nothing for this reason.
    pub fn set_unfit(&self, why: Unfit, nodes: BTreeSet<u64>) {
        self.unfit.lock().insert(why, nodes);
    }

    /// Nodes that should lead nothing, for whatever reason.
    pub fn unfit(&self) -> BTreeSet<u64> {
        self.unfit.lock().values().flatten().copied().collect()
    }

    pub fn set_led(&self, led: BTreeMap<u64, usize>) {
        *self.led.lock() = led;
    }

    /// How many data groups each other node leads, as it last said.
    pub fn led(&self) -> BTreeMap<u64, usize> {
        self.led.lock().clone()
    }

    /// Who might lead a group led here: keeps up with it, has a clock that a majority agrees with,
    /// and is not unfit; of those, who leads least.
    pub fn heir(&self, own: u64, status: &GroupStatus) -> Option<u64> {
        let (agreeing, unfit, led) = (self.group(status.id)?.agreeing(), self.unfit(), self.led());
        let fit = |node: &u64| {
            *node != own
                && agreeing.contains(node)
                && !unfit.contains(node)
                && keeps_up(status, *node)
        };
        let heirs = status.voters.iter().copied().filter(fit);
        heirs.min_by_key(|node| (led.get(node).copied().unwrap_or(0), *node))
    }

    /// What this node knows of its groups.
    pub fn report(&self) -> NodeReport {
        let Router { clock, replication, .. } = self;
        NodeReport { clock: clock.report(), disk: replication.disk(), groups: replication.status() }
    }

    /// What this node knows of idle entities: about those asked about, or, if none are, of its own.
    pub fn idle_report(&self, asked: &[EntityId]) -> IdleReport {
        if !asked.is_empty() {
            let used = self.receivers.awaited(asked);
            return IdleReport { candidates: Vec::new(), used };
        }
        let mut candidates = Vec::new();
        for group in self.groups().into_iter().filter(|group| group.leads()) {
            let idle = group.take_idle(CANDIDATES_MAX - candidates.len());
            candidates.extend(idle.into_iter().map(|idle| (group.id, idle)));
        }
        IdleReport { candidates, used: Vec::new() }
    }

    /// Hands over a leadership held here.
    pub async fn transfer_here(&self, group: GroupId, to: u64) -> Result<(), String> {
        let moved: Result<(), TransferError> = self.replication.transfer(group, to).await;
        moved.map_err(|error| error.to_string())
    }

    /// The same, and tells why; where it stays, whoever wants it gone tries again.
    pub async fn give_away(&self, group: GroupId, heir: u64, why: &'static str) {
        match self.transfer_here(group, heir).await {
            Ok(()) => tracing::info!(%group, heir, why, "leadership given away"),
            Err(error) => tracing::debug!(%group, heir, why, error, "leadership not given away"),
        }
    }

    /// Hands over a leadership, wherever it is held.
    pub async fn transfer(&self, group: GroupId, to: u64) -> Result<(), String> {
        match self.leader(group) {
            Some(leader) if leader == to => Ok(()),
            Some(leader) if leader == self.config.node => self.transfer_here(group, to).await,
            Some(leader) => {
                let (reply, error) = oneshot::channel();
                self.link(leader).send(Outgoing::Transfer { group, to, reply });
                match timeout_at(self.deadline(), error).await {
                    Ok(Ok(None)) => Ok(()),
                    Ok(Ok(Some(error))) => Err(error),
                    Ok(Err(_)) | Err(_) => Err(format!("node {leader} did not answer")),
                }
            }
            None => Err(format!("group {group} has no leader")),
        }
    }
}

impl Attachment {
    pub fn credit(&self, receiver: ReceiverId, count: u32) {
        match self {
            Attachment::Here(group) => drop(group.tell(Input::Credit { receiver, count })),
            Attachment::There(link, group) => {
                link.send(Outgoing::Credit { group: *group, receiver, count });
            }
        }
    }

    pub fn drain(&self, receiver: ReceiverId) {
        match self {
            Attachment::Here(group) => drop(group.tell(Input::Drain { receiver })),
            Attachment::There(link, group) => {
                link.send(Outgoing::Drain { group: *group, receiver });
            }
        }
    }

    pub fn detach(&self, receiver: ReceiverId) {
        match self {
            Attachment::Here(group) => drop(group.tell(Input::Detach { receiver })),
            Attachment::There(link, group) => {
                link.send(Outgoing::Detach { group: *group, receiver });
            }
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
