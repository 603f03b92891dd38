//! A node put together: what Raft tells goes to the groups' drivers, what clients ask to a
//! [`Broker`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use domain::{Effect, EntityId, GroupId, Tally, TracedStep};
use futures::future::join_all;
use limits::CreditBank;
use parking_lot::Mutex;
use replication::{
    Channel, Clocks, Incoming, Leadership, NodeDescription, Observer, Replication,
    ReplicationHolders,
};
use spans::SpanQueue;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::config::{Config, IdleConfig, ProposerConfig};
use crate::edge::{Broker, Router};
use crate::events::Events;
use crate::leader::{Driver, Ends, FORWARDS_WAITING_MAX, Group, Groups, Input, read_for};
use crate::metric;
use crate::peer::{AboutNode, LocalNode, serve};
use crate::upkeep::{
    Forwarder, IdleCoordinator, IdleNamespaces, Reconciler, ReplicaBalancer, Space, Succession,
    Timekeeper, follow_feature_level, heed_fault_rules, let_go_of_history, release_orphaned,
    relocate_from, watch_peers,
};

/// Groups that wait for their drivers: as many as there can be.
const GROUPS_MAX: usize = 1 << 16;
/// Channels of peers that wait to be served, which takes no time; more are closed.
const CHANNELS_WAITING_MAX: usize = 1024;
/// Changes of leaders that wait to be followed up, each for about a second: more than all groups change
/// theirs in that time. Beyond, the links of a leader that went silent end by their own timeouts.
const LEADER_CHANGES_WAITING_MAX: usize = 1 << 16;

/// A node before it runs. Replication needs an observer to start, and a node needs replication:
/// ```text
/// let node = Node::new(config);
/// let replication = Replication::start(.., node.observer(), node.incoming())?;
/// let running = node.start(replication);
/// ```
pub struct Node {
    config: Config,
    listener: Arc<Listener>,
    new_groups: mpsc::Receiver<(Arc<Group>, Ends)>,
    channels: mpsc::Receiver<(u64, Channel)>,
    leader_changes: mpsc::Receiver<(Instant, GroupId)>,
}

/// A node at work.
pub struct RunningNode {
    broker: Broker,
    holders: (Weak<Router>, Weak<LocalNode>),
    groups: Arc<Groups>,
    replication: Replication,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Why it cannot take part in its cluster.
    failed: tokio::sync::Mutex<oneshot::Receiver<replication::Error>>,
}

/// Who holds on to a node that has ended, as far as its parts tell: whoever waits for that names them.
pub struct NodeHolders {
    router: Weak<Router>,
    local: Weak<LocalNode>,
    groups: Weak<Groups>,
    replication: ReplicationHolders,
}

impl fmt::Display for NodeHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeHolders { router, local, groups, replication } = self;
        let (router, local) = (router.strong_count(), local.strong_count());
        let (groups, replication) = (groups.strong_count(), replication.count());
        write!(f, "router {router}, peers {local}, groups {groups}, replication {replication}")
    }
}

/// Listens to Raft and to channels of other nodes on their threads, and only passes on.
struct Listener {
    groups: Arc<Groups>,
    clock: Arc<Clock>,
    elected: Arc<Notify>,
    channels: mpsc::Sender<(u64, Channel)>,
    leader_changes: mpsc::Sender<(Instant, GroupId)>,
    about: AboutNode,
    spans: Option<SpanQueue>,
    node: u64,
    events: Events,
    /// The terms in which this node was told to lead, by group: each is told once.
    led: Mutex<BTreeMap<GroupId, u64>>,
}

impl Listener {
    fn tell_leader(&self, group: GroupId, term: u64) {
        if self.led.lock().insert(group, term) == Some(term) {
            return;
        }
        let about = match group {
            GroupId::CATALOG => "the catalog".to_owned(),
            GroupId(number) => format!("group {number}"),
        };
        let text = format!("node {} leads {about} from now on, in term {term}", self.node);
        self.events.tell("leader.change", &about, text, String::new());
    }
}

impl Observer for Listener {
    fn applied(&self, group: GroupId, effects: Vec<Effect>) {
        if let Some(group) = self.groups.get(group) {
            group.applied(effects);
        }
    }

    fn tallied(&self, group: GroupId, tallies: Vec<(EntityId, Tally)>) {
        self.groups.tallies.add(group, &tallies);
    }

    fn traced(&self, steps: Vec<TracedStep>) {
        if let Some(spans) = &self.spans {
            spans.tell(steps);
        }
    }

    fn leadership(&self, group: GroupId, leadership: Leadership) {
        // One that was just removed says that it leads no more.
        let Some(here) = self.groups.get(group) else { return };
        here.leadership(leadership);
        // Else the node is ending, or in uproar.
        let _ = self.leader_changes.try_send((Instant::now(), group));
        if let Leadership::Leader { term } = leadership {
            self.elected.notify_one();
            self.tell_leader(group, term);
        }
    }
}

impl Incoming for Listener {
    fn accept(&self, from: u64, channel: Channel) {
        // Dropping the channel closes it: without a receiver the node is ending, without a place the peer
        // opens another.
        drop(self.channels.try_send((from, channel)));
    }

    fn clocks(&self) -> Clocks {
        self.clock.clocks()
    }

    fn describe(&self) -> NodeDescription {
        self.about.describe(&self.groups)
    }

    fn answer(&self, question: &str, asked: Bytes) -> Option<Bytes> {
        self.about.answer(question, asked)
    }
}

impl Node {
    pub fn new(config: Config) -> Node {
        let (new_groups_end, new_groups) = mpsc::channel(GROUPS_MAX);
        let (channels_end, channels) = mpsc::channel(CHANNELS_WAITING_MAX);
        let (leader_changes_end, leader_changes) = mpsc::channel(LEADER_CHANGES_WAITING_MAX);
        let groups = Arc::new(Groups::new(new_groups_end, config.metrics_entities_max));
        let (clock, elected) = (Arc::new(Clock::new(config.clock.skew)), Arc::default());
        let listener = Arc::new(Listener {
            groups,
            clock,
            elected,
            channels: channels_end,
            leader_changes: leader_changes_end,
            about: AboutNode::new(&config),
            spans: config.spans.clone(),
            node: config.node,
            events: config.events.clone(),
            led: Mutex::default(),
        });
        Node { config, listener, new_groups, channels, leader_changes }
    }

    pub fn observer(&self) -> Arc<dyn Observer> {
        self.listener.clone()
    }

    pub fn incoming(&self) -> Arc<dyn Incoming> {
        self.listener.clone()
    }

    /// Starts to join the catalog and to serve: requests may be asked at once. They wait for the
    /// groups to have leaders, see [`Cluster::readiness`](crate::Cluster::readiness).
    pub fn start(self, replication: Replication) -> RunningNode {
        metric::describe();
        let (node, version) = (self.config.node, self.config.version);
        let text = format!("node {node} has started, version {version}");
        self.config.events.tell("node.start", &format!("node {node}"), text, String::new());
        let Node { config, listener, new_groups, channels, leader_changes } = self;
        listener.about.history.set(node, replication.message_history());
        let (clock, groups) = (listener.clock.clone(), listener.groups.clone());
        let offset_max = config.clock.offset_max;
        let (proposer, idle) = (config.proposer.clone(), config.idle);
        let founders = config.founding.as_ref().map(|founding| {
            founding.nodes.iter().map(|(node, _)| *node).collect::<BTreeSet<u64>>()
        });
        let local = Arc::new(LocalNode {
            id: config.node,
            development: config.development,
            replication: replication.clone(),
            clock: clock.clone(),
            groups: groups.clone(),
            receivers: Arc::default(),
            about: listener.about.clone(),
            bank: CreditBank::default(),
        });
        let router = Router::new(config, local.clone(), listener.leader_changes.clone());
        let router = Arc::new(router);
        let broker = Broker::new(router.clone());
        let holders = (Arc::downgrade(&router), Arc::downgrade(&local));
        let succession = Arc::new(Succession::new(local.clone()));

        let timekeeper = Timekeeper::new(
            replication.clone(),
            clock.clone(),
            groups.clone(),
            listener.elected.clone(),
            offset_max,
        );
        let spawner = Spawner {
            router: router.clone(),
            replication: replication.clone(),
            clock,
            proposer,
            idle,
        };
        let drivers = tokio::spawn(spawner.run(new_groups));
        let leader_changes = tokio::spawn(router.clone().follow_leaders(leader_changes));
        let standings = tokio::spawn(router.clone().watch_standings());
        let catch_up = tokio::spawn(router.clone().catch_up());
        let peers = tokio::spawn(accept(local, channels));
        groups.get_or_create(GroupId::CATALOG);
        let (failing, failed) = oneshot::channel();
        let reconciler = Reconciler::new(router.clone(), succession.clone());
        let joining = replication.clone();
        let reconciler = tokio::spawn(async move {
            match join(&joining, founders).await {
                Ok(()) => reconciler.run().await,
                Err(error) => drop(failing.send(error)), // Heard by whoever waits for it.
            }
        });
        let timekeeper = tokio::spawn(timekeeper.run());
        let idle_coordinator = tokio::spawn(IdleCoordinator { router: router.clone() }.run());
        let idle_namespaces = tokio::spawn(IdleNamespaces::new(router.clone()).run());
        let namespace_uses = tokio::spawn(router.clone().tell_lasting_uses());
        let replica_balancer = tokio::spawn(ReplicaBalancer::new(router.clone()).run());
        let feature_level = tokio::spawn(follow_feature_level(router.clone()));
        let fault_rules = tokio::spawn(heed_fault_rules(router.clone()));
        let peer_watch = tokio::spawn(watch_peers(router.clone()));
        let old_history = tokio::spawn(let_go_of_history(listener.about.history.clone()));
        let space = tokio::spawn(Space::new(router, succession).run());
        let tasks = Mutex::new(vec![
            reconciler,
            space,
            feature_level,
            fault_rules,
            peer_watch,
            old_history,
            idle_coordinator,
            idle_namespaces,
            namespace_uses,
            replica_balancer,
            timekeeper,
            peers,
            drivers,
            leader_changes,
            standings,
            catch_up,
        ]);
        let failed = tokio::sync::Mutex::new(failed);
        RunningNode { broker, holders, groups, replication, tasks, failed }
    }
}

impl RunningNode {
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Who holds on to it, when it has ended.
    pub fn holders(&self) -> NodeHolders {
        let ((router, local), groups) = (self.holders.clone(), Arc::downgrade(&self.groups));
        NodeHolders { router, local, groups, replication: self.replication.holders() }
    }

    /// Resolves once this node's replicas have stopped for want of disk space, which only a new
    /// start mends. Says what to do.
    pub async fn disk_full(&self) -> String {
        self.replication.disk_full().await
    }

    /// Waits until this node finds that it cannot take part in its cluster, and says why.
    pub async fn failed(&self) -> replication::Error {
        let joining = async {
            match (&mut *self.failed.lock().await).await {
                Ok(error) => error,
                // It takes part.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            error = joining => error,
            error = self.replication.taken() => error,
            error = self.replication.outdated() => error,
            error = self.replication.removed() => error,
        }
    }

    /// Hands leaderships over, answers what is under way and ends. Stop the front ends first: what their
    /// clients still hold is released.
    pub async fn stop(&self) {
        self.replication.part().await;
        self.replication.shutdown().await;
        let ended = self.groups.all().into_iter().map(|group| async move {
            let (done, ended) = oneshot::channel();
            if group.tell(Input::Stop(done)).is_ok() {
                drop(ended.await);
            }
        });
        join_all(ended).await;
        // Nor will anybody else answer what is still waited for.
        self.broker.end();
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }
}

struct Spawner {
    router: Arc<Router>,
    replication: Replication,
    clock: Arc<Clock>,
    proposer: ProposerConfig,
    idle: IdleConfig,
}

impl Spawner {
    /// Gives every group that comes into being its driver, its reader and its forwarder.
    async fn run(self, mut new_groups: mpsc::Receiver<(Arc<Group>, Ends)>) {
        let mut tasks = tokio::task::JoinSet::new();
        while let Some((group, ends)) = new_groups.recv().await {
            let (replication, clock) = (self.replication.clone(), self.clock.clone());
            let (forwards, requests) = mpsc::channel(FORWARDS_WAITING_MAX);
            let forwarder = Forwarder::new(self.router.clone(), group.clone()).run(requests);
            let orphaned = release_orphaned(group.clone(), replication.clone());
            let relocator = relocate_from(self.router.clone(), group.clone(), replication.clone());
            let reader = read_for(group.clone(), replication.clone(), clock.clone(), ends.reads);
            let (proposer, idle) = (self.proposer.clone(), self.idle);
            let driver =
                Driver::new(group, ends.inputs, forwards, replication, clock, proposer, idle);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(attend(driver, reader, forwarder, orphaned, relocator));
        }
    }
}

/// Runs what belongs to a group until its driver ends, with the node or because the group's replica
/// here is given up. Each in a task of its own: none waits for another's turn.
async fn attend(
    driver: Driver,
    reader: impl Future<Output = ()> + Send + 'static,
    forwarder: impl Future<Output = ()> + Send + 'static,
    orphaned: impl Future<Output = ()> + Send + 'static,
    relocator: impl Future<Output = ()> + Send + 'static,
) {
    let mut helpers = tokio::task::JoinSet::new();
    helpers.spawn(reader);
    helpers.spawn(forwarder);
    helpers.spawn(orphaned);
    helpers.spawn(relocator);
    // Dropped with this one, should the node end first.
    let mut driving = tokio::task::JoinSet::new();
    driving.spawn(driver.run());
    driving.join_next().await;
}

/// The catalog comes first: it names the other groups. A node with an empty disk waits here for its
/// peers; one that joins is known to them already.
async fn join(
    replication: &Replication,
    founders: Option<BTreeSet<u64>>,
) -> Result<(), replication::Error> {
    match founders {
        Some(founders) => {
            replication.take_part().await?;
            replication.add_group(GroupId::CATALOG, founders).await
        }
        None => replication.join_group(GroupId::CATALOG).await,
    }
}

async fn accept(node: Arc<LocalNode>, mut channels: mpsc::Receiver<(u64, Channel)>) {
    let mut serving = tokio::task::JoinSet::new();
    while let Some((from, channel)) = channels.recv().await {
        while serving.try_join_next().is_some() {}
        serving.spawn(serve(node.clone(), from, channel));
    }
}
