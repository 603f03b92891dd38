//! This node's replicas, and the way to its peers.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use domain::{GroupId, Outcome};
use parking_lot::{Mutex, RwLock};
use store::{DataDir, GroupRows, LogStore, RowStore};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, info, warn};

use crate::blocking::run_blocking;
use crate::disk::Disk;
use crate::group::start::Site;
use crate::group::status::GroupStatus;
use crate::group::{Group, Groups};
use crate::liveness::Liveness;
use crate::peer::channel::{self, Channel};
use crate::peer::clocks;
use crate::peer::connection::{Peer, Peers};
use crate::peer::identity::{Check, Directory, Identity, Removed};
use crate::peer::notes::PeerNotes;
use crate::peer::processes::ProcessRegistry;
use crate::peer::server::PeerPort;
use crate::peer::v1;
use crate::peer::{description, inquiry};
use crate::raft::config::raft_config;
use crate::raft::state::Changes;
use crate::retention::Retention;
use crate::runs::{Run, Runs};
use crate::{
    ChannelError, Clocks, Config, CutError, DiskStatus, Error, Incoming, MessageHistory,
    NodeDescription, Observer, PeerStatus, ProposeError, TransferError, Wanted, bootstrap, member,
    metrics,
};

/// Longest a shutdown waits until others have taken over this node's leaderships.
const HAND_OVER_MAX: Duration = Duration::from_secs(5);
/// Longest a peer is waited for to hear that this run ends.
const PART_MAX: Duration = Duration::from_millis(500);
/// Longest a shutdown waits for one group to stop.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The replicas of one node. Clones are handles to the same; when the last is dropped without
/// [`Replication::shutdown`], everything stops where it is, as if the process had died.
#[derive(Clone)]
pub struct Replication {
    shared: Arc<Shared>,
    // After `shared`: threads stop when no handle is left.
    _threads: Arc<Threads>,
}

/// Who holds on to a [`Replication`], for who waits until nobody does.
pub struct ReplicationHolders(Weak<Shared>);

impl ReplicationHolders {
    pub fn count(&self) -> usize {
        self.0.strong_count()
    }
}

struct Shared {
    site: Site,
    groups: Groups,
    disk: Arc<Disk>,
    starting: Mutex<BTreeSet<GroupId>>,
    /// Nodes that are refused.
    removed: Removed,
    runs: Arc<Runs>,
    peer_notes: PeerNotes,
    stop: watch::Sender<bool>,
    threads: Handle,
}

/// Raft's own runtime. Heartbeats wait for nothing that other parts of the process do.
struct Threads(Option<Runtime>);

impl Threads {
    /// See [`Config::threads`].
    fn start(count: usize) -> Result<(Handle, Threads), Error> {
        if count == 0 {
            return Ok((Handle::current(), Threads(None)));
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("raft")
            .enable_all()
            .build()
            .map_err(Error::Threads)?;
        Ok((runtime.handle().clone(), Threads(Some(runtime))))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // The last handle may be dropped on a runtime's thread, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl Replication {
    /// Listens for peers, with no group yet.
    pub fn start(
        config: Config,
        log: LogStore,
        rows: RowStore,
        observer: Arc<dyn Observer>,
        incoming: Arc<dyn Incoming>,
    ) -> Result<Replication, Error> {
        metrics::describe();
        if config.node > member::NODE_MAX {
            return Err(Error::Config(format!("a node's number is at most {}", member::NODE_MAX)));
        }
        let raft_config = raft_config(&config.cluster_id, config.timings)?;
        let (threads, runtime) = Threads::start(config.threads)?;
        let _inside = threads.enter();

        let directory = Directory {
            id: config.data.as_ref().map_or(0, DataDir::id),
            written: log.synced_writes(),
            founding: config.data.as_ref().map(DataDir::founding).unwrap_or_default(),
        };
        let Config { cluster_id, proof, .. } = &config;
        let identity = Identity::new(config.node, directory, cluster_id, proof);
        let runs = Arc::new(Runs::new(config.node, identity.run()));
        let addresses = Arc::new(RwLock::new(config.peers));
        let peers = Peers::new(identity.clone(), addresses.clone(), config.dialler, runs.clone());
        let peers = Arc::new(peers);
        let groups = Groups::default();
        let (stop, stopping) = watch::channel(false);
        let port = PeerPort {
            data: config.data.clone(),
            groups: groups.clone(),
            incoming,
            runs: runs.clone(),
            stopping: stopping.clone(),
        };
        let removed = Removed::default();
        let remembered = config.data.as_ref().map(DataDir::heard).unwrap_or_default();
        let registry = Arc::new(Mutex::new(ProcessRegistry::new(remembered)));
        let peer_notes = PeerNotes { registry: registry.clone(), data: config.data.clone() };
        threads.spawn(peer_notes.clone().run());
        let check = Check::new(identity, addresses, removed.clone(), runs.clone(), registry);
        let serve = port.bind(config.listen, config.doorkeeper, check, stopped(stopping))?;
        // Whom this node calls may call back at once.
        peers.attend();
        threads.spawn(async move {
            if let Err(error) = serve.await {
                error!(%error, "the peer port failed");
            }
        });
        let reserve_bytes = config.limits.disk_reserve_bytes;
        let disk = Arc::new(Disk::new(log.clone(), rows.clone(), reserve_bytes));
        threads.spawn(disk.clone().watch());
        let (of_groups, limits) = (groups.clone(), config.limits);
        let retention = Retention::new(of_groups, log.clone(), rows.clone(), disk.clone(), limits);
        threads.spawn(retention.run());
        threads.spawn(Liveness::new(groups.clone(), peers.clone(), config.timings).run());
        let site = Site {
            node: config.node,
            data: config.data,
            log,
            rows,
            peers,
            runs: runs.clone(),
            observer,
            raft_config,
            timings: config.timings,
            history: match config.limits.message_history_bytes {
                0 => None,
                bytes_max => {
                    let keep = config.limits.message_history_keep;
                    Some(Arc::new(MessageHistory::new(bytes_max, keep)))
                }
            },
            limits: config.limits,
            traced: config.traced,
        };
        let starting = Mutex::default();
        let shared = Shared {
            site,
            groups,
            disk,
            starting,
            removed,
            runs,
            peer_notes,
            stop,
            threads: threads.clone(),
        };
        Ok(Replication { shared: Arc::new(shared), _threads: Arc::new(runtime) })
    }

    /// Returns once it is known what this node is to its cluster, which is at once but for a node
    /// with an empty disk. Groups are added after it.
    pub async fn take_part(&self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let taken = self.shared.threads.spawn(async move {
            let Site { node, data, peers, .. } = &shared.site;
            match data {
                Some(data) => bootstrap::find_provenance(*node, data, peers).await,
                None => Ok(()),
            }
        });
        taken.await.unwrap_or(Err(Error::Stopped))
    }

    /// Starts this node's replica of a group. `members` brings a new group into being, and is the
    /// same on every node; a group that is on disk keeps the membership it has. A node that lost
    /// what it held founds nothing: its replica asks the others for its place.
    pub async fn add_group(&self, group: GroupId, members: BTreeSet<u64>) -> Result<(), Error> {
        let founders = members.into_iter().map(|node| (node, 0)).collect();
        self.start_group(group, Some(founders)).await
    }

    /// As [`Replication::add_group`], of a group that comes later than the cluster, when any node may have lost
    /// its disk once: `founders` are nodes, each with the id of its data directory
    /// ([`Replication::directory_id`]) when it was counted on. One that has another by now founds nothing, and
    /// asks for its place.
    pub async fn found_group(
        &self,
        group: GroupId,
        founders: BTreeMap<u64, u32>,
    ) -> Result<(), Error> {
        self.start_group(group, Some(founders)).await
    }

    /// Starts this node's replica of a group that was founded without it, or goes on with one that
    /// was begun. It asks the others for its place, which [`Replication::want`] gives it there.
    pub async fn join_group(&self, group: GroupId) -> Result<(), Error> {
        self.start_group(group, None).await
    }

    async fn start_group(
        &self,
        group: GroupId,
        founders: Option<BTreeMap<u64, u32>>,
    ) -> Result<(), Error> {
        let shared = self.shared.clone();
        if shared.groups.get(group).is_some() || !shared.starting.lock().insert(group) {
            return Err(Error::AlreadyRunning { group });
        }
        let started = self.shared.threads.spawn(async move {
            let replica = shared.site.start(group, founders).await;
            let started = replica.map(|replica| shared.groups.insert(Arc::new(replica)));
            shared.starting.lock().remove(&group);
            started
        });
        started.await.unwrap_or(Err(Error::Stopped))
    }

    /// The groups this node has a replica of, or something of one, running or not.
    pub fn held(&self) -> BTreeSet<GroupId> {
        self.shared.site.log.held()
    }

    /// Which nodes shall hold a group, from now on; to be said on every node that does, and again
    /// until it is so. Replicas come and go one after the other, and a new one has caught up before it
    /// counts.
    pub fn want(&self, group: GroupId, wanted: Wanted) {
        let _inside = self.shared.threads.enter();
        if let Some(group) = self.shared.groups.get(group) {
            group.want(wanted);
        }
    }

    /// Whether a group goes on without the replica here, which is not wanted any more.
    pub fn is_out(&self, group: GroupId) -> bool {
        let group = self.shared.groups.get(group);
        group.is_some_and(|group| group.membership.out.load(Ordering::Acquire))
    }

    /// Stops a replica that is out, and forgets all it had.
    pub async fn drop_group(&self, group: GroupId) -> Result<(), Error> {
        let shared = self.shared.clone();
        let dropped = self.shared.threads.spawn(async move {
            if let Some(replica) = shared.groups.remove(group) {
                replica.arrivals.clear().await;
                // However long it takes: what still runs would write into what is forgotten.
                if let Err(error) = replica.raft.shutdown().await {
                    warn!(%group, %error, "a replica that is given up stopped badly");
                }
            }
            shared.site.forget(group).await
        });
        dropped.await.unwrap_or(Err(Error::Stopped))
    }

    /// Where another node's peer port is reached, from now on.
    pub fn set_peer(&self, node: u64, address: &str) {
        let _inside = self.shared.threads.enter();
        self.shared.site.peers.set(node, address);
    }

    /// These nodes are no part of the cluster any more: they are told so, and heard no further.
    pub fn set_removed(&self, nodes: BTreeSet<u64>) {
        *self.shared.removed.write() = nodes;
    }

    /// What happened to messages, where that is recorded ([`Limits::message_history_bytes`]).
    pub fn message_history(&self) -> Option<Arc<MessageHistory>> {
        self.shared.site.history.clone()
    }

    /// Resolves once a peer has said that this node was removed from the cluster.
    pub async fn removed(&self) -> Error {
        let Site { node, peers, .. } = &self.shared.site;
        peers.removed().await;
        Error::Removed { node: *node }
    }

    /// Resolves once a peer has refused this node for its data directory, which it knows to be an old one: the next start
    /// lays the data aside.
    pub async fn outdated(&self) -> Error {
        let Site { peers, data, .. } = &self.shared.site;
        let told = peers.outdated().await;
        match data {
            Some(data) => {
                let noted = bootstrap::outdated(told, data.clone());
                self.shared.threads.spawn(noted).await.unwrap_or(Error::Stopped)
            }
            None => Error::Outdated { by: told.by, why: told.why },
        }
    }

    /// Appends an encoded `domain::Entry` to a group this node leads. It is queued before this
    /// returns: entries come into the log in the order of the calls. The future resolves once the
    /// entry is applied here, with an outcome per command; dropping it does not take the entry back.
    ///
    /// While too many bytes are under way the entry waits; see [`Replication::ready`]. A leader cut
    /// off from its peers may leave the future pending: give it a deadline, after which the outcome
    /// is unknown.
    pub fn propose(
        &self,
        group: GroupId,
        entry: Bytes,
    ) -> impl Future<Output = Result<Vec<Outcome>, ProposeError>> + Send + use<> {
        let proposed = self.shared.groups.get(group).map(|group| group.propose(entry));
        async move {
            match proposed {
                Some(proposed) => proposed.await,
                None => Err(ProposeError::NotLeader { leader: None }),
            }
        }
    }

    /// Waits while so many bytes of proposals are under way that another would wait.
    pub async fn ready(&self, group: GroupId) {
        if let Some(group) = self.shared.groups.get(group) {
            group.ready().await;
        }
    }

    /// Resolves once the rows here hold every entry that was committed before the call, and this
    /// node was the leader after it. All that wait share a round to a quorum; a leader that was
    /// deposed answers none.
    pub fn read_index(
        &self,
        group: GroupId,
    ) -> impl Future<Output = Result<(), ProposeError>> + Send + use<> {
        let asked = self.shared.groups.get(group).map(|group| group.read_index());
        async move {
            match asked {
                Some(asked) => asked.await,
                None => Err(ProposeError::NotLeader { leader: None }),
            }
        }
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self, group: GroupId) -> Option<u64> {
        self.shared.groups.get(group)?.leader()
    }

    /// Whether this node leads and its rows hold every entry of earlier terms.
    pub fn is_leader(&self, group: GroupId) -> bool {
        self.shared.groups.get(group).is_some_and(|group| group.leads())
    }

    /// Who holds on to it.
    pub fn holders(&self) -> ReplicationHolders {
        ReplicationHolders(Arc::downgrade(&self.shared))
    }

    /// This node.
    pub fn node(&self) -> u64 {
        self.shared.site.node
    }

    /// This run of this node.
    pub fn run(&self) -> Run {
        self.shared.runs.own()
    }

    /// Whether a run of a node has ended, or at least serves no clients any more, for certain. One that is
    /// silent may live.
    pub fn has_ended(&self, node: u64, run: Run) -> bool {
        self.shared.runs.has_ended(node, run)
    }

    /// Changes whenever runs may have ended that had not before.
    pub fn ended_runs(&self) -> watch::Receiver<()> {
        self.shared.runs.changes()
    }

    /// Tells all peers that this run serves no clients any more. Who does not hear it finds out when the
    /// process has ended.
    pub async fn part(&self) {
        let shared = self.shared.clone();
        let told = self.shared.threads.spawn(async move {
            let Site { node, peers, .. } = &shared.site;
            let others = peers.nodes().into_iter().filter(|other| other != node);
            let told = others.filter_map(|other| peers.get(other)).map(|peer| async move {
                let mut client = peer.control.clone();
                // A peer of before does not know the call.
                drop(timeout(PART_MAX, client.part(v1::PartRequest {})).await);
            });
            futures::future::join_all(told).await;
        });
        drop(told.await);
    }

    /// The rows of this node's replica, as far as they are applied.
    pub fn rows(&self, group: GroupId) -> GroupRows {
        self.shared.site.rows.group(group)
    }

    /// How far they are: the index of the last entry; `None` before the first, and where no replica runs.
    pub fn applied(&self, group: GroupId) -> Option<u64> {
        self.shared.groups.get(group)?.replica.applied_index()
    }

    /// When these rows change; `None` where no replica runs.
    pub fn changes(&self, group: GroupId) -> Option<Changes> {
        self.shared.groups.get(group).map(|group| group.replica.changes())
    }

    /// Has the rows of the replica here pinned when a cut of this number, or a later one, is applied, for
    /// [`Replication::cut_rows`]. They are let go of by [`Replication::release_cut`], or when nobody has read
    /// them for a minute.
    pub fn expect_cut(&self, group: GroupId, number: u64) -> Result<(), CutError> {
        let group = self.shared.groups.get(group).ok_or(CutError::Unknown)?;
        group.replica.cuts.expect(number, Instant::now())?;
        let replica = group.replica.clone();
        self.shared.threads.spawn(async move {
            while let Some(due) = replica.cuts.release_unasked(number, Instant::now()) {
                sleep_until(due).await;
            }
        });
        Ok(())
    }

    /// Rows of a cut behind a key, from the beginning if it is empty, in the form of [`store::rows_in`] and in
    /// order; `None` at the end.
    pub async fn cut_rows(
        &self,
        group: GroupId,
        number: u64,
        after: Bytes,
    ) -> Result<Option<Bytes>, CutError> {
        let group = self.shared.groups.get(group).ok_or(CutError::Unknown)?;
        let pinned = group.replica.cuts.pinned(number).await?;
        let read = run_blocking(move || pinned.lock().read(after)).await;
        read.unwrap_or_else(|error| Err(CutError::Failed(error.to_string())))
    }

    /// Has the rows of a cut kept for another minute.
    pub fn keep_cut(&self, group: GroupId, number: u64) -> Result<(), CutError> {
        let group = self.shared.groups.get(group).ok_or(CutError::Unknown)?;
        group.replica.cuts.keep(number, Instant::now())
    }

    pub fn release_cut(&self, group: GroupId, number: u64) {
        if let Some(group) = self.shared.groups.get(group) {
            group.replica.cuts.release(number);
        }
    }

    /// The groups of this node, in order.
    pub fn running(&self) -> Vec<GroupId> {
        self.shared.groups.all().iter().map(|group| group.id).collect()
    }

    /// Every group of this node, in order of group.
    pub fn status(&self) -> Vec<GroupStatus> {
        self.shared.groups.all().iter().map(|group| group.status()).collect()
    }

    /// How every other node answers this one.
    pub fn peers(&self) -> Vec<PeerStatus> {
        let Site { node, peers, .. } = &self.shared.site;
        peers.status().into_iter().filter(|peer| peer.node != *node).collect()
    }

    /// This node's disk.
    pub fn disk(&self) -> DiskStatus {
        self.shared.disk.status()
    }

    /// Whether this node's disk is low, and every change of that.
    pub fn disk_lows(&self) -> watch::Receiver<bool> {
        self.shared.disk.lows()
    }

    /// Resolves once a write of this node has failed for want of space: its replicas have stopped,
    /// and only a new start brings them back. Says what to do.
    pub async fn disk_full(&self) -> String {
        self.shared.disk.full().await
    }

    /// Resolves once a peer has found that another process runs as this node: this one came later,
    /// and has no part in the cluster.
    pub async fn taken(&self) -> Error {
        let Site { node, peers, .. } = &self.shared.site;
        Error::Taken { node: *node, by: peers.taken().await }
    }

    /// Hands the leadership of a group from this node to another and waits until it has it.
    pub async fn transfer(&self, group: GroupId, to: u64) -> Result<(), TransferError> {
        match self.shared.groups.get(group) {
            Some(group) => group.transfer(to).await,
            None => Err(TransferError::NotLeader { leader: None }),
        }
    }

    /// Opens a stream of messages to a peer, where [`Incoming::accept`] gets the other end.
    pub async fn open_channel(&self, node: u64) -> Result<Channel, ChannelError> {
        let peer = self.peer(node)?;
        channel::open(&peer).await
    }

    /// What a peer's clocks show. It showed that some time between call and answer.
    pub async fn ask_clocks(&self, node: u64) -> Result<Clocks, ChannelError> {
        let peer = self.peer(node)?;
        clocks::ask(&peer).await
    }

    /// What a peer is; `None` if it is of a version that does not tell.
    pub async fn ask_description(
        &self,
        node: u64,
    ) -> Result<Option<NodeDescription>, ChannelError> {
        let peer = self.peer(node)?;
        description::ask(&peer).await
    }

    /// Asks a peer a question of the layer above ([`Incoming::answer`]); `None` if it does not know it.
    pub async fn inquire(
        &self,
        node: u64,
        question: &str,
        asked: Bytes,
    ) -> Result<Option<Bytes>, ChannelError> {
        let peer = self.peer(node)?;
        inquiry::ask(&peer, question, asked).await
    }

    /// Notes in the data directory that its cluster has a feature level, so that versions that do not know it
    /// refuse the directory; on disk when this returns.
    pub async fn reach_feature_level(&self, level: u32) -> Result<(), store::Error> {
        let data = self.shared.site.data.clone();
        let Some(data) = data.filter(|data| !data.has_reached(level)) else { return Ok(()) };
        let noted = self.shared.threads.spawn(run_blocking(move || data.reach_level(level)));
        match noted.await {
            Ok(Ok(noted)) => noted,
            // The node ends.
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// The id of this node's data directory: another whenever it lost what it held.
    pub fn directory_id(&self) -> u32 {
        self.shared.site.directory_id()
    }

    /// As [`Replication::directory_id`], of a peer.
    pub async fn ask_directory_id(&self, node: u64) -> Result<u32, ChannelError> {
        let peer = self.peer(node)?;
        description::ask_directory_id(&peer).await
    }

    fn peer(&self, node: u64) -> Result<Arc<Peer>, ChannelError> {
        let _inside = self.shared.threads.enter(); // Connections live on Raft's threads.
        self.shared.site.peers.get(node).ok_or(ChannelError::UnknownNode { node })
    }

    /// Hands leaderships to other nodes, stops every group and closes the peer port.
    pub async fn shutdown(&self) {
        let shared = self.shared.clone();
        let work = self.shared.threads.spawn(async move {
            let groups = shared.groups.all();
            hand_over(&groups).await;
            stop(shared.groups.clear()).await;
            shared.peer_notes.write().await;
            shared.stop.send_replace(true);
        });
        if work.await.is_err() {
            warn!("the replication threads stopped before the shutdown was complete");
        }
        // What is applied need not be applied again at the next start.
        let rows = self.shared.site.rows.clone();
        let flush = run_blocking(move || rows.flush());
        if let Ok(Ok(Err(error))) = self.shared.threads.spawn(flush).await {
            warn!(%error, "cannot flush the rows: the next start applies their entries again");
        }
    }
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a stop as well.
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn hand_over(groups: &[Arc<Group>]) {
    let transfers = groups.iter().filter(|group| group.leads()).map(|group| async move {
        let Some(heir) = group.heir() else { return };
        if let Err(error) = group.transfer(heir).await {
            info!(group = %group.id, heir, %error, "leadership was not handed over");
        }
    });
    if timeout(HAND_OVER_MAX, futures::future::join_all(transfers)).await.is_err() {
        warn!("some leaderships were not handed over in time");
    }
}

async fn stop(groups: Vec<Arc<Group>>) {
    let stops = groups.iter().map(|group| async move {
        group.arrivals.clear().await;
        match timeout(STOP_MAX, group.raft.shutdown()).await {
            Ok(Ok(())) => (),
            Ok(Err(error)) => warn!(group = %group.id, %error, "a group stopped badly"),
            Err(_) => warn!(group = %group.id, "a group did not stop in time"),
        }
    });
    futures::future::join_all(stops).await;
}
