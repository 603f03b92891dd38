//! How fast do entries of one size get through three replicas, over real sockets and one disk?
//!
//!     cargo run --release -p replication --example throughput -- [KiB] [in flight] [groups] [seconds]
//!
//! Three nodes share this process, this machine's cores and its disk, so the figures are a third of
//! a cluster's. Entries are sends of one message to one queue, as large as the entry. Estimate
//! before measuring, for 64 KiB on two cores: 60 to 100 MB/s, bounded by copies and the disk.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{Command, CreateQueue, Effect, EntityId, Entry, GroupId, NewMessage, Send, Timestamp};
use replication::{
    Channel, Clocks, Config, Incoming, Leadership, NodeDescription, Observer, Replication,
};
use store::{LogStore, RowStore};
use tokio::task::JoinSet;

struct Quiet;

impl Observer for Quiet {
    fn applied(&self, _group: GroupId, _effects: Vec<Effect>) {}

    fn leadership(&self, _group: GroupId, _leadership: Leadership) {}
}

impl Incoming for Quiet {
    fn accept(&self, _from: u64, _channel: Channel) {}

    fn clocks(&self) -> Clocks {
        Clocks { wall_us: 0, clock_us: 0 }
    }

    fn describe(&self) -> NodeDescription {
        NodeDescription::default()
    }
}

#[tokio::main]
async fn main() {
    let argument = |at, default| {
        std::env::args().nth(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let bytes = argument(1, 64) * 1024;
    let in_flight = argument(2, 8);
    let groups = argument(3, 1) as u16;
    let seconds = argument(4, 5) as u64;

    let dir = tempfile::tempdir().expect("a directory");
    let nodes = start(&dir, groups).await;
    let leaders = leaders(&nodes, groups).await;
    if in_flight == 0 {
        tokio::time::sleep(Duration::from_secs(seconds)).await; // What does idling cost?
        return;
    }
    let mut lanes = JoinSet::new();
    let until = Instant::now() + Duration::from_secs(seconds);
    for (group, leader) in leaders {
        for lane in 0..in_flight {
            lanes.spawn(send(leader.clone(), group, bytes, lane as u64, until));
        }
    }
    let mut latencies: Vec<Duration> = lanes.join_all().await.into_iter().flatten().collect();
    latencies.sort();
    let per_second = latencies.len() as f64 / seconds as f64;
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!(
        "{} KiB, {in_flight} in flight, {groups} groups: {per_second:.0} entries/s, {:.1} MB/s, \
         p50 {:.1?}, p99 {:.1?}, max {:.1?}",
        bytes / 1024,
        per_second * bytes as f64 / 1e6,
        at(0.5),
        at(0.99),
        at(1.0),
    );
    // Each group's first leader has the first term: every later one was a false alarm.
    let terms = nodes.values().flat_map(|node| node.status()).map(|status| status.term);
    println!("highest term {}", terms.max().unwrap_or_default());
    for (_, node) in nodes {
        node.shutdown().await;
    }
}

async fn start(dir: &tempfile::TempDir, groups: u16) -> BTreeMap<u64, Replication> {
    let ports: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let addresses: BTreeMap<u64, String> = (1..)
        .zip(&ports)
        .map(|(node, port)| (node, port.local_addr().expect("an address").to_string()))
        .collect();
    drop(ports);
    let mut nodes = BTreeMap::new();
    for (node, address) in &addresses {
        let path = dir.path().join(node.to_string());
        let log = LogStore::open(&path.join("log"), &Default::default()).expect("a log");
        let rows = RowStore::open(&path.join("rows"), &Default::default()).expect("rows");
        let listen: SocketAddr = address.parse().expect("an address");
        let config = Config::new(*node, addresses.clone(), listen);
        let replication = Replication::start(config, log, rows, Arc::new(Quiet), Arc::new(Quiet))
            .expect("a node");
        for group in 1..=groups {
            let members = addresses.keys().copied().collect();
            replication.add_group(GroupId(group), members).await.expect("a group");
        }
        nodes.insert(*node, replication);
    }
    nodes
}

/// Waits for every group's leader and makes its queue.
async fn leaders(
    nodes: &BTreeMap<u64, Replication>,
    groups: u16,
) -> BTreeMap<GroupId, Replication> {
    let mut leaders = BTreeMap::new();
    for group in (1..=groups).map(GroupId) {
        let leader = loop {
            match nodes.values().find(|node| node.is_leader(group)) {
                Some(leader) => break leader.clone(),
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let create =
            CreateQueue { entity: EntityId(1), name: "q".into(), properties: Box::default() };
        leader.propose(group, entry(Command::CreateQueue(create))).await.expect("a queue");
        leaders.insert(group, leader);
    }
    leaders
}

async fn send(
    leader: Replication,
    group: GroupId,
    bytes: usize,
    lane: u64,
    until: Instant,
) -> Vec<Duration> {
    // Nothing a compressor could use.
    let mut state = lane.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let content: Vec<u8> = (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    let message = NewMessage {
        content: content.into(),
        size_bytes: bytes as u32,
        header_bytes: 0,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    };
    let send = Send { origin: None, entity: EntityId(1), messages: vec![message] };
    let entry = entry(Command::Send(send));
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let started = Instant::now();
        match leader.propose(group, entry.clone()).await {
            Ok(_) => latencies.push(started.elapsed()),
            Err(error) => {
                println!("group {group}: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
    latencies
}

fn entry(command: Command) -> Bytes {
    wire::encode_entry(&Entry { at: Timestamp(1), seed: [0; 16], commands: vec![command] })
}
