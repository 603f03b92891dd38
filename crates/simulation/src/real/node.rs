//! A node: its disk, and the process that runs over it while it is up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{Effect, GroupId};
use replication::{
    Channel, Clocks, Config, Error, GroupStatus, Incoming, Leadership, Limits, NodeDescription,
    Observer, Replication, Timings,
};
use store::{DataDir, Identity, LogStore, Options, RowStore};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::disk::log::ModelLog;
use super::disk::rows::ModelRows;
use super::network::{SocketNetwork, address};
use super::plan::{KnownPlan, Plan};
use super::reconciler::Reconciler;
use super::watch::Watch;
use super::{GROUP, Planted};
use crate::random::Random;

/// Small, so that logs are shortened and snapshots travel.
const LIMITS: Limits = Limits {
    message_history_bytes: 0,
    message_history_keep: Duration::from_secs(3600),
    proposals_bytes_max: 1 << 20,
    append_window_bytes: 16 << 10,
    flush_log_bytes: 12 << 10,
    log_retain_bytes: 40 << 10,
    disk_reserve_bytes: 0,
};
const CLUSTER_ID: u128 = 7;
/// What cached rows may take, drawn for each process: nothing, so that every entry is written and
/// can be compared; little; and as much as nodes of a real cluster let them.
const ROW_CACHE_BYTES_MAX: [usize; 3] = [0, 16 << 10, 48 << 20];
/// Of a node that takes whom it heard once for alive ([`Planted::KeepsLease`]).
const KEPT_LEASE: Duration = Duration::from_secs(3_600);
/// Nodes ask each other for their clocks so often, as they do under a service.
const CLOCKS_EVERY: Duration = Duration::from_secs(1);

pub struct RealNode {
    pub number: u64,
    pub log: ModelLog,
    pub rows: ModelRows,
    pub process: Option<Process>,
    /// Where the group shall be, as far as it knows.
    pub plan: KnownPlan,
    random: Random,
    /// Ids it spoke under before it lost what it had promised.
    pub spent: BTreeSet<u64>,
    /// The id it speaks under, as far as it ever spoke.
    id: Option<u64>,
    /// All there are.
    nodes: u64,
    dir: PathBuf,
    watch: Watch,
    bug: Option<Planted>,
}

/// A running node. Dropped, it is gone from one moment to the next.
pub struct Process {
    pub runtime: Runtime,
    pub replication: Replication,
    pub rows: RowStore,
    leaderships: Arc<Leaderships>,
    log: ModelLog,
    reconciler: JoinHandle<Error>,
    /// Its replica runs.
    runs: Arc<AtomicBool>,
    /// Another process was found to be this node.
    taken: JoinHandle<()>,
}

#[derive(Default)]
struct Leaderships(Mutex<Vec<Leadership>>);

impl Observer for Leaderships {
    fn applied(&self, _group: GroupId, _effects: Vec<Effect>) {}

    fn leadership(&self, _group: GroupId, leadership: Leadership) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(leadership);
    }
}

/// There is no layer above.
struct Nobody;

impl Incoming for Nobody {
    fn accept(&self, _from: u64, _channel: Channel) {}

    fn clocks(&self) -> Clocks {
        Clocks { wall_us: 0, clock_us: 0 }
    }

    fn describe(&self) -> NodeDescription {
        NodeDescription::default()
    }
}

impl RealNode {
    pub fn new(
        number: u64,
        nodes: u64,
        plan: &Plan,
        root: &Path,
        watch: &Watch,
        bug: Option<Planted>,
        mut random: Random,
    ) -> RealNode {
        RealNode {
            number,
            log: ModelLog::new(watch.clone(), bug, random.fork()),
            rows: ModelRows::new(number, watch.clone(), bug),
            process: None,
            plan: KnownPlan::new(plan),
            random,
            spent: BTreeSet::new(),
            id: None,
            nodes,
            dir: root.join(number.to_string()),
            watch: watch.clone(),
            bug,
        }
    }

    pub fn start(&mut self, network: &SocketNetwork) {
        if let Err(error) = self.try_start(network) {
            self.watch.broke("running", "start", format!("node {}: {error}", self.number));
        }
    }

    fn try_start(&mut self, network: &SocketNetwork) -> Result<(), Error> {
        let identity = Identity { cluster_id: CLUSTER_ID, node: self.number };
        let data = DataDir::open(&self.dir, identity, true)?;
        if self.has_forgotten_too_much() {
            self.lose(&data)?;
        }
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(Error::Threads)?;
        let inside = runtime.enter();
        let numbers: BTreeSet<u64> = (1..=self.nodes).collect();
        let peers: BTreeMap<u64, String> =
            numbers.iter().map(|node| (*node, address(*node).to_string())).collect();
        let leaderships = Arc::new(Leaderships::default());
        let mut timings = Timings::default();
        if self.bug == Some(Planted::KeepsLease) {
            timings.election_max = KEPT_LEASE;
        }
        let config = Config {
            timings,
            data: Some(data.clone()),
            cluster_id: "simulated".to_owned(),
            limits: LIMITS,
            threads: 0,
            dialler: Some(network.of(self.number)),
            doorkeeper: Some(network.of(self.number)),
            ..Config::new(self.number, peers, address(self.number))
        };
        network.speak(self.number);
        let options = Options {
            row_cache_bytes_max: self.random.pick(&ROW_CACHE_BYTES_MAX),
            clock: || tokio::time::Instant::now().into_std(),
            ..Options::default()
        };
        let log = LogStore::on(self.log.clone());
        let rows = RowStore::on(self.rows.open(), &options);
        rows.forget_given_up(&log)?;
        let (observer, incoming) = (leaderships.clone(), Arc::new(Nobody));
        let replication = Replication::start(config, log, rows.clone(), observer, incoming)?;
        let runs = Arc::new(AtomicBool::new(false));
        let reconciler = Reconciler {
            replication: replication.clone(),
            data,
            log: self.log.clone(),
            plan: self.plan.clone(),
            bug: self.bug,
            runs: runs.clone(),
        };
        let reconciler = runtime.spawn(reconciler.run());
        runtime.spawn(ask_clocks(replication.clone(), numbers));
        let taken = {
            let replication = replication.clone();
            runtime.spawn(async move { drop(replication.taken().await) })
        };
        drop(inside);
        let log = self.log.clone();
        let process =
            Process { runtime, replication, rows, leaderships, log, reconciler, runs, taken };
        self.process = Some(process);
        Ok(())
    }

    /// As `DataDir::stores` looks for it: rows that are older than where the log begins.
    fn has_forgotten_too_much(&self) -> bool {
        let forgotten = store::LogDisk::forgotten(&self.log);
        forgotten.get(&GROUP).is_some_and(|forgotten| self.rows.sum(GROUP).0 < *forgotten)
    }

    /// As `DataDir::stores` does it with damaged data: they are laid aside, and the directory gets
    /// another id.
    fn lose(&mut self, data: &DataDir) -> Result<(), Error> {
        self.watch.note("lost", &[self.number]);
        self.plan.forget();
        self.log.wipe();
        self.rows.wipe();
        self.spent.extend(self.id.take());
        Ok(data.begin_anew()?)
    }

    /// Whether its replica runs; an error if that cannot be.
    pub fn has_joined(&mut self) -> Result<bool, String> {
        let Some(process) = &mut self.process else { return Ok(false) };
        let runs = process.runs()?;
        let spent = self.log.spent();
        match runs {
            true => self.id = Some(process.id()),
            false => drop(self.id.take_if(|id| spent.contains(id))),
        }
        self.spent.extend(spent);
        Ok(runs)
    }

    /// The process ends, or the power of its machine. Returns how many writes were lost.
    pub fn crash(&mut self, power: bool, network: &SocketNetwork) -> u64 {
        if power {
            network.fall_silent(self.number);
        }
        self.process = None;
        self.rows.crash();
        self.log.crash()
    }

    /// The disk of a node that is down takes back some of what it said was synced, which the mark
    /// file tells.
    pub fn cut(&mut self) -> Result<(), Error> {
        if self.log.cut() == 0 || self.bug == Some(Planted::IgnoresMark) {
            return Ok(());
        }
        let identity = Identity { cluster_id: CLUSTER_ID, node: self.number };
        let data = DataDir::open(&self.dir, identity, true)?;
        self.lose(&data)
    }

    /// A node that is down gets an empty disk.
    pub fn wipe(&mut self) -> std::io::Result<()> {
        self.plan.forget();
        self.log.wipe();
        self.rows.wipe();
        self.spent.extend(self.id.take());
        if self.bug == Some(Planted::VotesUnderOldId) {
            return Ok(());
        }
        std::fs::remove_dir_all(&self.dir)
    }
}

async fn ask_clocks(replication: Replication, nodes: BTreeSet<u64>) {
    loop {
        for node in nodes.iter().filter(|node| **node != replication.node()) {
            let (replication, node) = (replication.clone(), *node);
            tokio::spawn(async move { replication.ask_clocks(node).await });
        }
        tokio::time::sleep(CLOCKS_EVERY).await;
    }
}

impl Process {
    /// The id it speaks under.
    pub fn id(&self) -> u64 {
        self.log.id()
    }

    /// Moves its time on.
    pub fn run(&self, step: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(step).await });
    }

    /// What it announced since it was last asked.
    pub fn announced(&self) -> Vec<Leadership> {
        std::mem::take(&mut *self.leaderships.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn runs(&mut self) -> Result<bool, String> {
        if self.taken.is_finished() {
            return Err("it was taken for another process".to_owned());
        }
        if !self.reconciler.is_finished() {
            return Ok(self.runs.load(Ordering::Relaxed));
        }
        let ended = self.runtime.block_on(&mut self.reconciler);
        Err(ended.map_or_else(|error| error.to_string(), |error| error.to_string()))
    }

    /// Whether it has a replica, or something of one.
    pub fn holds(&self) -> bool {
        self.runs.load(Ordering::Relaxed) || self.replication.held().contains(&GROUP)
    }

    /// Its replica, once there is one.
    pub fn status(&self) -> Option<GroupStatus> {
        let _inside = self.runtime.enter(); // It asks for the time.
        self.replication.status().pop()
    }
}
