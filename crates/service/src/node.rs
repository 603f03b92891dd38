//! A node put together: what Raft tells goes to the groups' drivers, what clients ask to a
//! [`Broker`].

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use domain::{Effect, GroupId};
use futures::future::join_all;
use parking_lot::Mutex;
use replication::{Channel, Clocks, Incoming, Leadership, Observer, Replication};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::broker::Broker;
use crate::clock::Clock;
use crate::collector::Collector;
use crate::config::Config;
use crate::courier::Courier;
use crate::driver::Driver;
use crate::group::{Ends, Group, Groups, Input};
use crate::keeper::Keeper;
use crate::metric;
use crate::planner::Planner;
use crate::reads;
use crate::router::Router;
use crate::serve::serve;
use crate::space::Space;
use crate::timekeeper::Timekeeper;

/// A node before it runs. Replication needs an observer to start, and a node needs replication:
/// ```text
/// let node = Node::new(config);
/// let replication = Replication::start(.., node.observer(), node.incoming())?;
/// let running = node.start(replication);
/// ```
pub struct Node {
    config: Config,
    ears: Arc<Ears>,
    born: mpsc::UnboundedReceiver<(Arc<Group>, Ends)>,
    channels: mpsc::UnboundedReceiver<(u64, Channel)>,
    successions: mpsc::UnboundedReceiver<(Instant, GroupId)>,
}

/// A node at work.
pub struct RunningNode {
    broker: Broker,
    groups: Arc<Groups>,
    replication: Replication,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Why it cannot take part in its cluster.
    failed: tokio::sync::Mutex<oneshot::Receiver<replication::Error>>,
}

/// Hears Raft on its threads, and only passes on.
struct Ears {
    groups: Arc<Groups>,
    clock: Arc<Clock>,
    elected: Arc<Notify>,
    channels: mpsc::UnboundedSender<(u64, Channel)>,
    successions: mpsc::UnboundedSender<(Instant, GroupId)>,
}

impl Observer for Ears {
    fn applied(&self, group: GroupId, effects: Vec<Effect>) {
        if let Some(group) = self.groups.get(group) {
            group.applied(effects);
        }
    }

    fn leadership(&self, group: GroupId, leadership: Leadership) {
        // One that was just removed says that it leads no more.
        let Some(replica) = self.groups.get(group) else { return };
        replica.leadership(leadership);
        let _ = self.successions.send((Instant::now(), group)); // Else the node is ending.
        if matches!(leadership, Leadership::Leader { .. }) {
            self.elected.notify_one();
        }
    }
}

impl Incoming for Ears {
    fn accept(&self, from: u64, channel: Channel) {
        // Without a receiver the node is ending, and dropping the channel says so.
        drop(self.channels.send((from, channel)));
    }

    fn clocks(&self) -> Clocks {
        self.clock.clocks()
    }
}

impl Node {
    pub fn new(config: Config) -> Node {
        let (born_end, born) = mpsc::unbounded_channel();
        let (channels_end, channels) = mpsc::unbounded_channel();
        let (successions_end, successions) = mpsc::unbounded_channel();
        let groups = Arc::new(Groups::new(born_end));
        let (clock, elected) = (Arc::new(Clock::new(config.clock.skew)), Arc::default());
        let ears = Arc::new(Ears {
            groups,
            clock,
            elected,
            channels: channels_end,
            successions: successions_end,
        });
        Node { config, ears, born, channels, successions }
    }

    pub fn observer(&self) -> Arc<dyn Observer> {
        self.ears.clone()
    }

    pub fn incoming(&self) -> Arc<dyn Incoming> {
        self.ears.clone()
    }

    /// Starts to join the catalog and to serve: requests may be asked at once. They wait for the
    /// groups to have leaders, see [`Broker::readiness`].
    pub fn start(self, replication: Replication) -> RunningNode {
        metric::describe();
        let Node { config, ears, born, channels, successions } = self;
        let (clock, groups) = (ears.clock.clone(), ears.groups.clone());
        let offset_max = config.clock.offset_max;
        let (proposer, idle) = (config.proposer.clone(), config.idle);
        let founders = config.founding.as_ref().map(|founding| {
            founding.nodes.iter().map(|(node, _)| *node).collect::<BTreeSet<u64>>()
        });
        let told = ears.successions.clone();
        let router = Router::new(config, replication.clone(), clock.clone(), groups.clone(), told);
        let router = Arc::new(router);
        let broker = Broker::new(router.clone());

        let timekeeper = Timekeeper::new(
            replication.clone(),
            clock.clone(),
            groups.clone(),
            ears.elected.clone(),
            offset_max,
        );
        let of = router.clone();
        let spawner =
            Spawner { router: of, replication: replication.clone(), clock, proposer, idle };
        let drivers = tokio::spawn(spawner.run(born));
        let successions = tokio::spawn(router.clone().follow_leaders(successions));
        let peers = tokio::spawn(accept(router, channels));
        groups.get_or_create(GroupId::CATALOG);
        let (failing, failed) = oneshot::channel();
        let keeper = Keeper::new(broker.clone(), groups.clone());
        let joining = replication.clone();
        let keeper = tokio::spawn(async move {
            match join(&joining, founders).await {
                Ok(()) => keeper.run().await,
                Err(error) => drop(failing.send(error)), // Heard by whoever waits for it.
            }
        });
        let timekeeper = tokio::spawn(timekeeper.run());
        let space = tokio::spawn(Space::new(broker.clone()).run());
        let collector = tokio::spawn(Collector { broker: broker.clone() }.run());
        let planner = tokio::spawn(Planner::new(broker.clone()).run());
        let tasks =
            vec![keeper, space, collector, planner, timekeeper, peers, drivers, successions];
        let tasks = Mutex::new(tasks);
        let failed = tokio::sync::Mutex::new(failed);
        RunningNode { broker, groups, replication, tasks, failed }
    }
}

impl RunningNode {
    pub fn broker(&self) -> &Broker {
        &self.broker
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
            error = self.replication.removed() => error,
        }
    }

    /// Hands leaderships over, answers what is under way and ends. Stop the front ends first.
    pub async fn stop(&self) {
        self.replication.shutdown().await;
        let ended = self.groups.all().into_iter().map(|group| async move {
            let (done, ended) = oneshot::channel();
            if group.tell(Input::Stop(done)).is_ok() {
                drop(ended.await);
            }
        });
        join_all(ended).await;
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
    proposer: crate::config::ProposerConfig,
    idle: crate::config::IdleConfig,
}

impl Spawner {
    /// Gives every group that comes into being its driver, its reader and its courier.
    async fn run(self, mut born: mpsc::UnboundedReceiver<(Arc<Group>, Ends)>) {
        let mut tasks = tokio::task::JoinSet::new();
        while let Some((group, ends)) = born.recv().await {
            let (replication, clock) = (self.replication.clone(), self.clock.clone());
            let (errands, asked) = mpsc::unbounded_channel();
            let courier = Courier::new(self.router.clone(), group.clone()).run(asked);
            let reader =
                reads::serve(group.clone(), replication.clone(), clock.clone(), ends.reads);
            let (proposer, idle) = (self.proposer.clone(), self.idle);
            let driver =
                Driver::new(group, ends.inputs, errands, replication, clock, proposer, idle);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(attend(driver, reader, courier));
        }
    }
}

/// Runs what belongs to a group until its driver ends, with the node or because the group's replica
/// here is given up. Each in a task of its own: none waits for another's turn.
async fn attend(
    driver: Driver,
    reader: impl Future<Output = ()> + Send + 'static,
    courier: impl Future<Output = ()> + Send + 'static,
) {
    let mut helpers = tokio::task::JoinSet::new();
    helpers.spawn(reader);
    helpers.spawn(courier);
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

async fn accept(router: Arc<Router>, mut channels: mpsc::UnboundedReceiver<(u64, Channel)>) {
    let mut serving = tokio::task::JoinSet::new();
    while let Some((from, channel)) = channels.recv().await {
        while serving.try_join_next().is_some() {}
        serving.spawn(serve(router.clone(), from, channel));
    }
}
