//! Nodes in one process, over real sockets and real files.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use domain::{
    Arriving, GroupId, NewMessage, NodeRow, Outgoing, QueueProperties, SequenceNumber, Span,
    SubQueue,
};
use replication::Replication;
use service::{
    Broker, Caller, Config, Founding, IdleConfig, Node, ReceiveMode, Received, RunningNode,
};
use store::{LogStore, RowStore};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const MAIN: SubQueue = SubQueue::Main;
pub const DEAD: SubQueue = SubQueue::DeadLetter;
pub const LOCK: ReceiveMode = ReceiveMode::PeekLock;
pub const DELETE: ReceiveMode = ReceiveMode::ReceiveAndDelete;
pub const NOW: Duration = Duration::ZERO;

pub struct Cluster {
    databases: BTreeMap<u64, (LogStore, RowStore)>,
    pub nodes: BTreeMap<u64, RunningNode>,
    /// For entries that no leader's driver knows of.
    pub logs: BTreeMap<u64, Replication>,
    /// Nodes to be short of disk space once they start: they keep back more than there is.
    pub short_of_space: BTreeSet<u64>,
    addresses: BTreeMap<u64, SocketAddr>,
    data_groups: u16,
    configure: fn(&mut Config),
    dir: TempDir,
}

impl Cluster {
    pub async fn start(size: u64, data_groups: u16) -> Cluster {
        Cluster::start_with(size, data_groups, |_| ()).await
    }

    pub async fn start_with(size: u64, data_groups: u16, configure: fn(&mut Config)) -> Cluster {
        let addresses = (1..=size).zip(free_addresses(size)).collect();
        let dir = tempfile::tempdir().expect("a directory");
        let (nodes, logs, databases) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let short_of_space = BTreeSet::new();
        let mut cluster = Cluster {
            databases,
            nodes,
            logs,
            short_of_space,
            addresses,
            data_groups,
            configure,
            dir,
        };
        for node in 1..=size {
            cluster.start_node(node).await;
        }
        for node in 1..=size {
            cluster.ready(node).await;
        }
        cluster
    }

    pub async fn start_node(&mut self, id: u64) {
        let row = |address: &SocketAddr| NodeRow {
            peer_address: address.to_string(),
            grpc_address: String::new(),
            http_address: String::new(),
        };
        let mut config = Config::new(id, row(&self.addresses[&id]));
        config.development = true;
        config.forwarded = carried;
        config.idle = IdleConfig {
            reattach: Duration::from_millis(400),
            collect_every: Duration::from_millis(50),
        };
        config.founding = Some(Founding {
            cluster_id: 7,
            data_groups: self.data_groups,
            replication_factor: 3.min(self.addresses.len() as u8),
            nodes: self.addresses.iter().map(|(node, address)| (*node, row(address))).collect(),
        });
        (self.configure)(&mut config);
        let path = self.dir.path().join(id.to_string());
        let options = store::Options::default();
        let log = until(|| LogStore::open(&path.join("log"), &options).ok()).await;
        let rows = until(|| RowStore::open(&path.join("rows"), &options).ok()).await;
        let peers = self.addresses.iter().map(|(node, address)| (*node, address.to_string()));
        let mut peers = replication::Config::new(id, peers.collect(), self.addresses[&id]);
        if self.short_of_space.contains(&id) {
            peers.limits.disk_reserve_bytes = u64::MAX;
        }
        let node = Node::new(config);
        self.databases.insert(id, (log.clone(), rows.clone()));
        let replication = Replication::start(peers, log, rows, node.observer(), node.incoming());
        let replication = replication.expect("the peer port is free");
        self.logs.insert(id, replication.clone());
        let running = node.start(replication);
        self.nodes.insert(id, running);
    }

    pub async fn ready(&self, node: u64) {
        let broker = self.broker(node);
        until(|| broker.cluster().readiness().ready.then_some(())).await;
    }

    pub fn broker(&self, node: u64) -> Broker {
        self.nodes[&node].broker().clone()
    }

    /// The node that leads a queue's group, as another node sees it.
    pub async fn leader_of(&self, queue: &str) -> (u64, GroupId) {
        let broker = self.nodes.values().next().expect("a node").broker();
        let info = broker.queues().get(queue).await.expect("the queue");
        (info.leader.expect("a leader"), info.group)
    }

    /// As if the process died: nothing is handed over.
    pub fn kill(&mut self, node: u64) {
        self.databases.remove(&node);
        self.logs.remove(&node);
        drop(self.nodes.remove(&node).expect("the node runs"));
    }
}

impl Drop for Cluster {
    /// A database that is closed while the process ends aborts it: these are left open.
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.databases));
    }
}

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Waits for something that nothing announces.
pub async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            match look() {
                Some(found) => return found,
                None => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    soon("a condition", looking).await
}

fn free_addresses(count: u64) -> Vec<SocketAddr> {
    let bind = |_| TcpListener::bind("127.0.0.1:0").expect("a free port");
    let listeners: Vec<TcpListener> = (0..count).map(bind).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("an address")).collect()
}

/// Contents here are the bare bodies of [`message`].
fn carried(outgoing: Outgoing, content: Bytes) -> Result<Arriving, String> {
    let body = std::str::from_utf8(&content).map_err(|error| error.to_string())?;
    let message = NewMessage { ttl: outgoing.ttl, ..message(body) };
    Ok(Arriving { message, travel: outgoing.travel })
}

pub fn message(body: &str) -> NewMessage {
    NewMessage {
        content: body.to_owned().into(),
        size_bytes: body.len() as u32,
        header_bytes: 0,
        message_id: Some(body.to_owned()),
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    }
}

pub fn messages(bodies: &[&str]) -> Vec<NewMessage> {
    bodies.iter().map(|body| message(body)).collect()
}

pub fn lived(body: &str, ttl: Span) -> NewMessage {
    NewMessage { ttl: Some(ttl), ..message(body) }
}

pub fn bodies(received: &[Received]) -> Vec<String> {
    let body = |message: &Received| String::from_utf8_lossy(&message.content).into_owned();
    received.iter().map(body).collect()
}

/// A single node with one queue of default properties, changed by `change`.
pub async fn one_queue(name: &str, change: impl FnOnce(&mut QueueProperties)) -> (Cluster, Broker) {
    let cluster = Cluster::start(1, 2).await;
    let broker = cluster.broker(1);
    let mut properties = QueueProperties::default();
    change(&mut properties);
    broker.queues().create(name, properties, None).await.expect("created");
    (cluster, broker)
}

pub async fn send(broker: &Broker, queue: &str, sent: Vec<NewMessage>) -> Vec<SequenceNumber> {
    soon("a send", broker.messages().send(queue, sent, Caller::Edge)).await.expect("sent")
}

/// What can be received now, locked.
pub async fn lock(broker: &Broker, queue: &str, sub: SubQueue, count: u32) -> Vec<Received> {
    soon("a receive", broker.messages().receive(queue, sub, LOCK, count, NOW))
        .await
        .expect("received")
}

/// Waits until the counters say so.
pub async fn counted(
    broker: &Broker,
    queue: &str,
    holds: impl Fn(&domain::Counts) -> bool,
) -> domain::Counts {
    let looking = async {
        loop {
            let counts = broker.queues().get(queue).await.expect("the queue").info.counts;
            if holds(&counts) {
                return counts;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the counters", looking).await
}
