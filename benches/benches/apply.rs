//! What does one message cost a replica from log entry to rows: sent, received, completed?
//!
//! Estimate, made before measuring: nine row operations (body, message, lock written; lock read,
//! message read twice; three deletes) of some 0.3 µs each in memtables, a body of 1 KiB copied
//! twice (0.2 µs), and the machine's own overlay, two map operations per row (0.1 µs each): 5 µs on
//! RocksDB, half of that on a map, where nothing is encoded. One step for all three entries saves
//! the reads: 4 µs. That was before rows were cached: what is completed within a second is not
//! written to RocksDB any more.
//!
//! `separate`: send, acquire and settle each are a step and a write of their own, as under little
//! load; `together`: one step holds the send of one batch, the acquire of the one before and the
//! settlement of the one before that, as under much; `send`: into a backlog that nobody receives.
//! Entries are decoded from their bytes, as a follower does. The last table is what all this
//! makes the device write, log included, with flushes and purges as a node does them.
//!
//! `cargo bench -p mayfly-benches --bench apply`; under `cargo test` it runs once, small.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use domain::{
    Acquire, Command, CreateQueue, Disposition, EntityId, Entry, GroupId, LockToken, Machine,
    MemoryRows, NewMessage, Outcome, QueueId, QueueProperties, ReceiverId, Rows, Send, Settle,
    Settlement, Timestamp,
};
use store::{LogRecord, LogStore, MachineRows, Options, RowStore};
use tempfile::TempDir;

const GROUP: GroupId = GroupId(1);
const ENTITY: EntityId = EntityId(1);
const QUEUE: QueueId = QueueId { entity: ENTITY, sub: domain::SubQueue::Main };
const BODY_BYTES: usize = 1024;
const START_MS: u64 = 1_700_000_000_000;

/// Where a machine's changes go.
trait Target {
    type Rows: Rows;
    fn rows(&self) -> &Self::Rows;
    fn write(&mut self, changes: domain::Changes, index: u64);
}

impl Target for MemoryRows {
    type Rows = MemoryRows;

    fn rows(&self) -> &MemoryRows {
        self
    }

    fn write(&mut self, changes: domain::Changes, _index: u64) {
        self.erase(&changes.erased);
        MemoryRows::write(self, changes.writes);
    }
}

struct Disk {
    store: RowStore,
    rows: MachineRows,
    dir: TempDir,
}

impl Disk {
    fn new() -> Disk {
        let dir = tempfile::tempdir().expect("a directory");
        let store = RowStore::open(&dir.path().join("rows"), &Options::default()).expect("opened");
        Disk { rows: store.machine(GROUP), store, dir }
    }
}

impl Target for Disk {
    type Rows = MachineRows;

    fn rows(&self) -> &MachineRows {
        &self.rows
    }

    fn write(&mut self, changes: domain::Changes, index: u64) {
        let mark = Bytes::from_static(b"a mark of some forty bytes, as Raft's is");
        self.store.apply(GROUP, changes.erased, changes.writes, index, mark).expect("written");
    }
}

/// A replica of one group that holds one queue.
struct Replica<T> {
    target: T,
    machine: Machine,
    index: u64,
    writes: u64,
    digest: DefaultHasher,
}

impl<T: Target> Replica<T> {
    fn new(target: T) -> Replica<T> {
        let digest = DefaultHasher::new();
        let mut replica = Replica { target, machine: Machine::new(), index: 0, writes: 0, digest };
        let properties = Box::new(QueueProperties::default());
        let create = CreateQueue { entity: ENTITY, name: "bench".to_owned(), properties };
        replica.step(vec![replica.encode(Command::CreateQueue(create))]);
        replica
    }

    fn encode(&self, command: Command) -> Bytes {
        let at = Timestamp(START_MS + self.index);
        let seed = u128::from(self.index + 1).to_be_bytes();
        wire::encode_entry(&Entry { at, seed, commands: vec![command] })
    }

    /// Entries decoded, applied in one step and written in one batch.
    fn step(&mut self, entries: Vec<Bytes>) -> Vec<Outcome> {
        let mut step = self.machine.step(self.target.rows());
        let mut outcomes = Vec::new();
        for entry in entries {
            self.index += 1;
            outcomes.extend(step.apply(wire::decode_entry(entry).expect("an entry")));
        }
        let changes = step.finish();
        self.writes += changes.writes.len() as u64;
        self.target.write(changes, self.index);
        outcomes
    }

    fn note(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
            format!("{outcome:?}").hash(&mut self.digest);
        }
    }
}

/// Entries of the life of messages, `batch` at a time.
struct Traffic {
    batch: usize,
    body: Bytes,
    sent: u64,
}

impl Traffic {
    fn new(batch: usize) -> Traffic {
        Traffic { batch, body: Bytes::from(vec![0x5a; BODY_BYTES]), sent: 0 }
    }

    fn send(&mut self) -> Command {
        let message = |number: u64| NewMessage {
            content: self.body.clone(),
            size_bytes: BODY_BYTES as u32,
            header_bytes: 40,
            message_id: Some(format!("message-{number:016}")),
            session_id: None,
            partition_key: None,
            ttl: None,
            scheduled_at: None,
        };
        let messages = (0..self.batch as u64).map(|number| message(self.sent + number)).collect();
        self.sent += self.batch as u64;
        Command::Send(Send { origin: None, entity: ENTITY, messages })
    }

    fn acquire(&self) -> Command {
        Command::Acquire(Acquire {
            queue: QUEUE,
            receiver: ReceiverId { node: 1, link: 1, epoch: 1 },
            count_max: self.batch as u32,
            bytes_max: u32::MAX,
        })
    }

    fn settle(&self, tokens: Vec<LockToken>) -> Command {
        let settle = |token| Settlement { token, disposition: Disposition::Complete };
        let settlements = tokens.into_iter().map(settle).collect();
        Command::Settle(Settle { origin: None, queue: QUEUE, settlements, atomic: false })
    }
}

fn tokens(outcome: &Outcome) -> Vec<LockToken> {
    match outcome {
        Outcome::Acquired { deliveries, .. } => {
            deliveries.iter().filter_map(|delivery| Some(delivery.lock?.token)).collect()
        }
        other => panic!("an acquire, not {other:?}"),
    }
}

/// Each entry by itself.
fn separate<T: Target>(replica: &mut Replica<T>, traffic: &mut Traffic) -> Vec<Outcome> {
    let mut outcomes = replica.step(vec![replica.encode(traffic.send())]);
    outcomes.extend(replica.step(vec![replica.encode(traffic.acquire())]));
    let taken = tokens(&outcomes[1]);
    assert_eq!(taken.len(), traffic.batch);
    outcomes.extend(replica.step(vec![replica.encode(traffic.settle(taken))]));
    outcomes
}

/// Three batches at different points of their lives, in one step.
fn together<T: Target>(
    replica: &mut Replica<T>,
    traffic: &mut Traffic,
    held: &mut VecDeque<Vec<LockToken>>,
) -> Vec<Outcome> {
    let mut entries = vec![replica.encode(traffic.send()), replica.encode(traffic.acquire())];
    if let Some(taken) = held.pop_front() {
        entries.push(replica.encode(traffic.settle(taken)));
    }
    let outcomes = replica.step(entries);
    held.push_back(tokens(&outcomes[1]));
    outcomes
}

fn digest<T: Target>(target: T) -> u64 {
    let mut replica = Replica::new(target);
    let mut traffic = Traffic::new(7);
    let mut held = VecDeque::new();
    for _ in 0..20 {
        let outcomes = separate(&mut replica, &mut traffic);
        replica.note(&outcomes);
    }
    for _ in 0..20 {
        let outcomes = together(&mut replica, &mut traffic, &mut held);
        replica.note(&outcomes);
    }
    let info = domain::entity_info(replica.target.rows(), ENTITY).expect("it exists");
    assert!(info.counts.balanced());
    format!("{info:?}").hash(&mut replica.digest);
    replica.digest.finish()
}

fn measure<T: Target>(criterion: &mut Criterion, name: &str, batch: usize, target: impl Fn() -> T) {
    let mut group = criterion.benchmark_group(format!("apply/{batch}"));
    group.throughput(Throughput::Elements(1)); // One message.
    let steps = |messages: u64| messages.div_ceil(batch as u64);
    let share = |spent: Duration, messages: u64| {
        spent.mul_f64(messages as f64 / (steps(messages) * batch as u64) as f64)
    };
    // Each lives through all samples: flushes and compactions fall where they fall, and are counted.
    let (mut replica, mut traffic) = (Replica::new(target()), Traffic::new(batch));
    group.bench_function(BenchmarkId::new("separate", name), |b| {
        b.iter_custom(|messages| {
            let start = processor_time();
            for _ in 0..steps(messages) {
                separate(&mut replica, &mut traffic);
            }
            share(processor_time() - start, messages)
        });
    });
    let mut held = VecDeque::new();
    group.bench_function(BenchmarkId::new("together", name), |b| {
        b.iter_custom(|messages| {
            let start = processor_time();
            for _ in 0..steps(messages) {
                together(&mut replica, &mut traffic, &mut held);
            }
            share(processor_time() - start, messages)
        });
    });
    group.bench_function(BenchmarkId::new("send", name), |b| {
        b.iter_custom(|messages| {
            let start = processor_time();
            for _ in 0..steps(messages) {
                let outcomes = replica.step(vec![replica.encode(traffic.send())]);
                if let Outcome::Refused(_) = outcomes[0] {
                    replica = Replica::new(target()); // QUOTA-32: the queue is full.
                }
            }
            share(processor_time() - start, messages)
        });
    });
    group.finish();
}

/// Processor time of all threads of this process so far, RocksDB's own included. What waits for a
/// processor that others use is not in it, so a busy machine changes little.
fn processor_time() -> Duration {
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    };
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    Duration::from_nanos(threads.filter_map(of_thread).sum())
}

/// What this process made the device write, as the kernel counts it.
fn device_bytes() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.trim().parse().ok()
}

/// Rows and log side by side, as on a node: appended, synced, applied; flushed and purged whenever
/// the log has grown by so much.
fn device(messages: u64, flush_log_bytes: u64, drained: bool) {
    let mut replica = Replica::new(Disk::new());
    let path = replica.target.dir.path().join("log");
    let log = LogStore::open(&path, &Options::default()).expect("opened");
    let mut traffic = Traffic::new(64);
    // Messages live for a moment: so many batches are stored at any time.
    let mut waiting = 0;
    let mut since_flush = 0;
    let (before, writes) = (device_bytes(), replica.writes);
    let append = |replica: &mut Replica<Disk>, entry: Bytes| {
        let (done, synced) = std::sync::mpsc::channel();
        let record = LogRecord { index: replica.index + 1, data: entry.clone() };
        log.append(GROUP, vec![record], Box::new(move |result| drop(done.send(result))));
        synced.recv().expect("told").expect("synced");
        replica.step(vec![entry])
    };
    while traffic.sent < messages {
        let send = replica.encode(traffic.send());
        since_flush += send.len() as u64;
        append(&mut replica, send);
        waiting += 1;
        if drained && waiting > 100 {
            waiting -= 1;
            let acquire = replica.encode(traffic.acquire());
            let outcomes = append(&mut replica, acquire);
            let settle = replica.encode(traffic.settle(tokens(&outcomes[0])));
            since_flush += settle.len() as u64;
            append(&mut replica, settle);
        }
        if since_flush >= flush_log_bytes {
            since_flush = 0;
            replica.target.store.flush().expect("flushed");
            log.purge(GROUP, replica.target.store.flushed_index(GROUP), Bytes::new());
        }
    }
    let rows = (replica.writes - writes) as f64 / messages as f64;
    drop(log);
    drop(replica);
    if let (Some(before), Some(after)) = (before, device_bytes()) {
        let ratio = (after - before) as f64 / (messages * BODY_BYTES as u64) as f64;
        let kind = if drained { "lifecycle" } else { "backlog" };
        println!("device/{kind}: {ratio:.2} bytes per message byte, {rows:.2} rows per message");
    }
}

fn main() {
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let digests = [digest(MemoryRows::default()), digest(Disk::new())];
    assert_eq!(digests[0], digests[1], "memory and disk come to the same outcomes");
    println!("digest {:016x}", digests[0]);

    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(10)
        .configure_from_args();
    for batch in if measuring { vec![1, 16, 64, 256] } else { vec![4] } {
        measure(&mut criterion, "memory", batch, MemoryRows::default);
        measure(&mut criterion, "rocksdb", batch, Disk::new);
    }
    criterion.final_summary();
    // A name on the command line asks for less than everything.
    if std::env::args().skip(1).all(|argument| argument.starts_with('-')) {
        let (messages, flush_log_bytes) =
            if measuring { (1 << 20, 128 << 20) } else { (2_000, 1 << 20) };
        device(messages, flush_log_bytes, true);
        device(messages, flush_log_bytes, false);
    }
}
