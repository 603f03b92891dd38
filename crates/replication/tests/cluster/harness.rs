//! Nodes in one process, over real sockets and real files.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{
    Command, CreateQueue, Effect, EntityId, Entry, GroupId, Key, NewMessage, Outcome, QueueId,
    Rows, Send, SequenceNumber, Timestamp,
};
use parking_lot::Mutex;
use replication::{
    CertificateEnd, Channel, Clocks, Config, Error, FaultTally, Incoming, Leadership, LedGroup,
    Limits, NodeDescription, Observer, ProposeError, Replication,
};
use store::{DataDir, Identity, LogStore, RowStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

pub const GROUP: GroupId = GroupId(1);
pub const QUEUE: EntityId = EntityId(1);
/// What every node's clocks show.
pub const CLOCKS: Clocks = Clocks { wall_us: 5, clock_us: -7 };
/// What every node tells of itself.
pub fn description() -> NodeDescription {
    NodeDescription {
        version: "0.1.0-test".to_owned(),
        feature_level: 7,
        feature_level_reached: 1,
        up_ms: 1 << 40,
        certificates: vec![CertificateEnd { shown_to: "peers".to_owned(), at_s: -1 }],
        led: vec![LedGroup { group: GroupId(u16::MAX), term: 3, led_ms: 4 }],
        zone: Some("eu-1a".to_owned()),
        faults: vec![FaultTally { name: "f".to_owned(), added_at_ms: 5, events: 6, hits: 7 }],
        connections: Some(8),
    }
}
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a node's observer heard.
#[derive(Default)]
pub struct Heard {
    pub leaderships: Mutex<Vec<(GroupId, Leadership, Instant)>>,
    pub effects: Mutex<usize>,
}

impl Observer for Heard {
    fn applied(&self, _group: GroupId, effects: Vec<Effect>) {
        *self.effects.lock() += effects.len();
    }

    fn leadership(&self, group: GroupId, leadership: Leadership) {
        self.leaderships.lock().push((group, leadership, Instant::now()));
    }
}

/// Hands accepted channels to the test.
struct ChannelSink(mpsc::UnboundedSender<(u64, Channel)>);

impl Incoming for ChannelSink {
    fn accept(&self, from: u64, channel: Channel) {
        let _ = self.0.send((from, channel));
    }

    fn clocks(&self) -> Clocks {
        CLOCKS
    }

    fn describe(&self) -> NodeDescription {
        description()
    }
}

pub struct Node {
    pub replication: Replication,
    log: LogStore,
    pub rows: RowStore,
    pub heard: Arc<Heard>,
    pub channels: mpsc::UnboundedReceiver<(u64, Channel)>,
}

pub struct Cluster {
    pub nodes: BTreeMap<u64, Node>,
    pub addresses: BTreeMap<u64, String>,
    pub groups: Vec<GroupId>,
    pub limits: Limits,
    dir: TempDir,
}

impl Cluster {
    pub async fn start(size: u64) -> Cluster {
        Cluster::with(size, vec![GROUP], Limits::default()).await
    }

    pub async fn with(size: u64, groups: Vec<GroupId>, limits: Limits) -> Cluster {
        let mut cluster = Cluster::cold(size, groups, limits);
        for node in 1..=size {
            cluster.start_node(node).await;
        }
        cluster
    }

    /// Addresses and a directory, nobody home.
    pub fn cold(size: u64, groups: Vec<GroupId>, limits: Limits) -> Cluster {
        let addresses = (1..=size).zip(free_addresses(size)).collect();
        let dir = tempfile::tempdir().expect("a directory");
        Cluster { nodes: BTreeMap::new(), addresses, groups, limits, dir }
    }

    pub fn members(&self) -> BTreeSet<u64> {
        self.addresses.keys().copied().collect()
    }

    pub fn config(&self, node: u64) -> Config {
        let listen: SocketAddr = self.addresses[&node].parse().expect("an address");
        let mut config = Config::new(node, self.addresses.clone(), listen);
        config.cluster_id = "test".to_owned();
        config.limits = self.limits;
        config
    }

    /// `log` and `rows` of a node, which need not run.
    pub fn path(&self, node: u64, what: &str) -> PathBuf {
        self.dir.path().join(node.to_string()).join(what)
    }

    pub async fn start_node(&mut self, node: u64) {
        let config = self.config(node);
        self.start_node_with(config).await;
    }

    pub async fn start_node_with(&mut self, config: Config) {
        self.try_start_node_with(config).await.expect("a node with its groups");
    }

    pub async fn try_start_node_with(&mut self, config: Config) -> Result<(), Error> {
        let id = config.node;
        let heard = Arc::new(Heard::default());
        let (door, channels) = mpsc::unbounded_channel();
        let (log, rows) = match &config.data {
            Some(data) => open(|| data.stores(&Default::default(), true)).await,
            None => {
                let options = Default::default();
                let log = open(|| LogStore::open(&self.path(id, "log"), &options)).await;
                (log, open(|| RowStore::open(&self.path(id, "rows"), &options)).await)
            }
        };
        let sink = Arc::new(ChannelSink(door));
        let replication = open(|| {
            let (log, rows) = (log.clone(), rows.clone());
            Replication::start(config.clone(), log, rows, heard.clone(), sink.clone())
        })
        .await;
        if config.data.is_none() {
            for group in &self.groups {
                replication.add_group(*group, self.members()).await?;
            }
        }
        self.nodes.insert(id, Node { replication, log, rows, heard, channels });
        Ok(())
    }

    /// Starts a node that remembers who it is; it takes part once it knows.
    pub async fn open_node(&mut self, node: u64) -> DataDir {
        let identity = Identity { cluster_id: 7, node };
        let data = DataDir::open(&self.path(node, ""), identity, true).expect("a data directory");
        let config = Config { data: Some(data.clone()), ..self.config(node) };
        self.start_node_with(config).await;
        data
    }

    /// Has a node find out what it is to the cluster, and adds its groups.
    pub async fn take_part(&self, node: u64) {
        let replication = &self.node(node).replication;
        soon("its provenance", replication.take_part()).await.expect("it takes part");
        for group in &self.groups {
            replication.add_group(*group, self.members()).await.expect("a group");
        }
    }

    /// Stops a node at once, as if its process had died.
    pub fn kill(&mut self, node: u64) {
        drop(self.nodes.remove(&node));
    }

    /// Stops a node in order.
    pub async fn stop(&mut self, node: u64) {
        let node = self.nodes.remove(&node).expect("a running node");
        node.replication.shutdown().await;
    }

    pub fn node(&self, node: u64) -> &Node {
        &self.nodes[&node]
    }

    /// The announced leader of a group, once there is one.
    pub async fn leader(&self, group: GroupId) -> u64 {
        until("a leader", || {
            let mut leaders =
                self.nodes.iter().filter(|(_, node)| node.replication.is_leader(group));
            leaders.next().map(|(node, _)| *node)
        })
        .await
    }

    /// Makes the queue the tests send to.
    pub async fn create_queue(&self, group: GroupId) {
        let create = CreateQueue { entity: QUEUE, name: "q".into(), properties: Box::default() };
        self.propose(group, entry(0, Command::CreateQueue(create))).await;
    }

    /// Sends message `number` and waits for it, trying again where it certainly was not sent.
    pub async fn send(&self, group: GroupId, number: u64, bytes: usize) -> Vec<Outcome> {
        self.propose(group, message(number, bytes)).await
    }

    async fn propose(&self, group: GroupId, entry: Bytes) -> Vec<Outcome> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let leader = self.leader(group).await;
            let proposed = self.node(leader).replication.propose(group, entry.clone());
            match timeout(PATIENCE, proposed).await.expect("an answer in time") {
                Ok(outcomes) => return outcomes,
                Err(ProposeError::NotLeader { .. }) if Instant::now() < deadline => {
                    sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("not sent: {error}"),
            }
        }
    }

    /// Waits until a node's rows of the test's group are the leader's.
    pub async fn same_rows(&self, node: u64) {
        let leader = self.leader(GROUP).await;
        let wanted = rows(&self.node(leader).rows);
        until("the same rows", || {
            let there = rows(&self.node(node).rows);
            (there == wanted).then_some(())
        })
        .await;
    }
}

impl Drop for Cluster {
    /// A database that is closed while the process ends aborts it: these are left open.
    fn drop(&mut self) {
        for node in self.nodes.values() {
            std::mem::forget((node.log.clone(), node.rows.clone()));
        }
    }
}

/// Opens what a killed node may still hold for a moment: a store, or its port.
pub async fn open<T, E: std::fmt::Debug>(mut open: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match open() {
            Ok(store) => return store,
            Err(error) if Instant::now() > deadline => panic!("cannot open it: {error:?}"),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Puts a copy of a database's files in the place of another; what it archived is needed no more.
pub fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.path().is_file() && entry.file_name() != "LOCK" {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}

/// Passes connections on to a node and breaks each, both ways, after so many bytes towards it; how
/// many it broke.
pub async fn breaking_proxy(to: String, bytes_max: usize) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let broken = Arc::new(AtomicUsize::new(0));
    let count = broken.clone();
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            let (to, count) = (to.clone(), count.clone());
            tokio::spawn(async move {
                let Ok(node) = tokio::net::TcpStream::connect(to).await else { return };
                let (from_caller, mut to_caller) = caller.into_split();
                let (mut from_node, mut to_node) = node.into_split();
                let mut limited = from_caller.take(bytes_max as u64);
                tokio::select! {
                    _ = tokio::io::copy(&mut limited, &mut to_node) => (),
                    _ = tokio::io::copy(&mut from_node, &mut to_caller) => (),
                }
                if limited.limit() == 0 {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (address, broken)
}

/// Passes connections on to a node and flips a bit of what goes towards it whenever so many bytes more
/// have gone over one, `most` times in all; how often it did.
pub async fn flipping_proxy(to: String, every: usize, most: usize) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let flipped = Arc::new(AtomicUsize::new(0));
    let count = flipped.clone();
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            let (to, count) = (to.clone(), count.clone());
            tokio::spawn(async move {
                let Ok(node) = tokio::net::TcpStream::connect(to).await else { return };
                let (mut from_caller, mut to_caller) = caller.into_split();
                let (mut from_node, mut to_node) = node.into_split();
                let flipping = async {
                    let (mut chunk, mut passed) = (vec![0; 16 << 10], 0);
                    while let Ok(bytes @ 1..) = from_caller.read(&mut chunk).await {
                        let is_due = passed / every < (passed + bytes) / every;
                        if is_due && count.load(Ordering::Relaxed) < most {
                            chunk[every - 1 - passed % every] ^= 1 << (passed % 8);
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        passed += bytes;
                        if to_node.write_all(&chunk[..bytes]).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    () = flipping => (),
                    _ = tokio::io::copy(&mut from_node, &mut to_caller) => (),
                }
            });
        }
    });
    (address, flipped)
}

/// Which of the two ways of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    ToNode,
    ToCaller,
}

/// Passes connections on to a node. Once `cut` is set nothing goes one of the ways any more; no
/// connection breaks for it.
pub async fn cutting_proxy(to: String, way: Way, cut: watch::Receiver<bool>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            let (to, cut) = (to.clone(), cut.clone());
            tokio::spawn(async move {
                let Ok(node) = tokio::net::TcpStream::connect(to).await else { return };
                let (from_caller, to_caller) = caller.into_split();
                let (from_node, to_node) = node.into_split();
                let is_cut = |this: Way| (this == way).then(|| cut.clone());
                tokio::select! {
                    () = pass(from_caller, to_node, is_cut(Way::ToNode)) => (),
                    () = pass(from_node, to_caller, is_cut(Way::ToCaller)) => (),
                }
            });
        }
    });
    address
}

/// Passes bytes on until an end closes, or without an end once this way is cut.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, cut: Option<watch::Receiver<bool>>) {
    let passing = tokio::io::copy(&mut from, &mut to);
    let Some(mut cut) = cut else { return drop(passing.await) };
    let is_cut = async move { drop(cut.wait_for(|cut| *cut).await) };
    tokio::select! {
        biased;
        () = is_cut => std::future::pending().await,
        _ = passing => (),
    }
}

/// Ports nobody listens on, found by listening on them for a moment.
fn free_addresses(count: u64) -> Vec<String> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    listeners.iter().map(|l| l.local_addr().expect("an address").to_string()).collect()
}

pub fn message(number: u64, bytes: usize) -> Bytes {
    let mut content = number.to_be_bytes().to_vec();
    content.resize(bytes.max(8), b'.');
    let message = NewMessage {
        size_bytes: content.len() as u32,
        content: content.into(),
        header_bytes: 0,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    };
    let send = Send { origin: None, entity: QUEUE, messages: vec![message] };
    entry(number, Command::Send(send))
}

fn entry(at: u64, command: Command) -> Bytes {
    wire::encode_entry(&Entry { at: Timestamp(at), seed: [0; 16], commands: vec![command] })
}

/// Everything the test's queue left in the rows, as text.
pub fn rows(store: &RowStore) -> Vec<String> {
    let rows = store.group(GROUP);
    let mut all = vec![
        format!("{:?}", rows.get(&Key::Meta)),
        format!("{:?}", rows.get(&Key::Entity(QUEUE))),
        format!("{:?}", rows.get(&Key::EntityState(QUEUE))),
    ];
    let main = QueueId::main(QUEUE);
    let (first, last) = (SequenceNumber::MIN, SequenceNumber::MAX);
    for (from, to) in [
        (Key::Body(QUEUE, first), Key::Body(QUEUE, last)),
        (Key::Message(main, first), Key::Message(main, last)),
    ] {
        rows.scan(&from, &to, &mut |key, row| {
            all.push(format!("{key:?} {row:?}"));
            std::ops::ControlFlow::Continue(())
        });
    }
    all
}

/// The numbers of the messages stored, in order.
pub fn numbers(store: &RowStore) -> Vec<u64> {
    let mut numbers = Vec::new();
    let (from, to) = (Key::Body(QUEUE, SequenceNumber::MIN), Key::Body(QUEUE, SequenceNumber::MAX));
    store.group(GROUP).scan(&from, &to, &mut |_, row| {
        let domain::Row::Body(content) = row else { panic!("not a body") };
        let number = content.first_chunk().expect("a number");
        numbers.push(u64::from_be_bytes(*number));
        std::ops::ControlFlow::Continue(())
    });
    numbers
}

/// Waits until `check` finds something.
pub async fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}
