//! The churn bench: small queues created, used once and deleted, over and over.
//!
//! Question: does what was deleted slow down those who stay, or fill their disks? A store that keeps
//! tombstones would pay for every queue there ever was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Client, Message, QueuePath, v1};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::nodes::name;
use crate::report::{ErrorLine, Errors};
use crate::{Error, Latency, Progress, Recorder, look};

const TICK: Duration = Duration::from_millis(250);
/// The cycles are driven in so many parts. After the first and after the last it is looked at how the
/// cluster fares.
const PARTS: u64 = 20;
/// Parts before the first: caches and files are then as they will be.
const WARM_UP_PARTS: u64 = 2;
/// Nodes answer a repeated request from memory for a quarter of an hour (SEND-8); by then, what they
/// keep for it has come to its full size. The clock is moved by a little more, before every part.
const KEPT: Duration = Duration::from_secs(16 * 60);
/// Ticks between two looks at the disks.
const DISK_TICKS: u32 = 4;
/// Messages in the queue that stays.
const PROBE_MESSAGES: usize = 500;
/// Peeks of one look.
const PROBES: usize = 200;
const PEEKED: u32 = 50;
/// How long a message just sent is waited for.
const RECEIVE_WAIT: Duration = Duration::from_secs(5);

/// What to drive.
#[derive(Clone, Debug)]
pub struct ChurnBench {
    pub cycles: u64,
    /// Cycles under way at a time.
    pub at_a_time: u32,
    pub size: usize,
    /// Has the cluster, which must be in development mode, forget all it keeps for repeats again and
    /// again: else that grows for a quarter of an hour, and with it the disks' use.
    pub move_clock: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct ChurnReport {
    /// Created, sent to, received from, completed, deleted; those of the warm-up included.
    pub cycles: u64,
    pub cycles_per_second: f64,
    /// After the first twentieth of the cycles, and after the last.
    pub first: Look,
    pub last: Look,
    /// During the first half of the cycles, and during the second: the log grows and is forgotten in
    /// turns, and a half is longer than a turn.
    pub first_half: Disk,
    pub second_half: Disk,
    pub moved_clock: bool,
    pub errors: BTreeMap<String, u64>,
}

/// How the cluster fares, with nothing going on.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    /// Of a peek at a queue that stays.
    pub peek: Latency,
    /// Of a send to it.
    pub send: Latency,
}

/// The largest that a node's data directory ever was, its log, its rows and both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Disk {
    pub log_bytes: u64,
    pub rows_bytes: u64,
    pub bytes: u64,
}

impl ChurnBench {
    /// Creates the queue that stays, cycles, deletes it.
    pub async fn run(&self, client: &Client, progress: &Progress) -> Result<ChurnReport, Error> {
        if self.cycles < PARTS || self.at_a_time == 0 {
            let what = format!("cycles must be at least {PARTS}, those at a time at least 1");
            return Err(Error::Wrong(what));
        }
        let run: u32 = rand::random();
        let stays = format!("bench-churn-{run:08x}");
        client.create_queue(&stays, v1::QueueProperties::default()).await?;
        let messages = (0..PROBE_MESSAGES).map(|_| Message::new(vec![b's'; self.size])).collect();
        client.send(&stays, messages).await?;
        let report = self.drive(client, &stays, progress).await;
        // The figures stand either way, and a queue left behind is only litter.
        let _ = client.delete_queue(&stays).await;
        report
    }

    async fn drive(
        &self,
        client: &Client,
        stays: &str,
        progress: &Progress,
    ) -> Result<ChurnReport, Error> {
        let cycles = Arc::new(Cycles::default());
        let mut halves = [Disk::default(); 2];
        let (mut looks, mut started, mut before) = (Vec::new(), Instant::now(), 0);
        for part in 0..WARM_UP_PARTS + PARTS {
            if self.move_clock {
                client.advance_clock(KEPT).await?;
            }
            if part == WARM_UP_PARTS {
                (started, before) = (Instant::now(), cycles.done.load(Ordering::Relaxed));
            }
            let until = self.cycles * (part + 1) / PARTS;
            let disk = self.cycle(client, stays, until, &cycles, progress).await;
            let Some(counted) = part.checked_sub(WARM_UP_PARTS) else { continue };
            halves[usize::from(counted >= PARTS / 2)].raise(disk);
            if counted == 0 || counted == PARTS - 1 {
                looks.push(self.look(client, stays).await?);
            }
        }
        let done = cycles.done.load(Ordering::Relaxed);
        let seconds = started.elapsed().as_secs_f64();
        let [first, last] = looks.try_into().expect("one after the first part, one after the last");
        let [first_half, second_half] = halves;
        Ok(ChurnReport {
            cycles: done,
            cycles_per_second: (done - before) as f64 / seconds,
            first,
            last,
            first_half,
            second_half,
            moved_clock: self.move_clock,
            errors: cycles.errors.counted(),
        })
    }

    /// Cycles until so many have begun. The largest that disks were meanwhile.
    async fn cycle(
        &self,
        client: &Client,
        stays: &str,
        until: u64,
        cycles: &Arc<Cycles>,
        progress: &Progress,
    ) -> Disk {
        let mut workers = JoinSet::new();
        for _ in 0..self.at_a_time {
            let (client, cycles, size) = (client.clone(), cycles.clone(), self.size);
            let prefix = stays.to_owned();
            workers.spawn(async move {
                loop {
                    let number = cycles.begun.fetch_add(1, Ordering::Relaxed);
                    if number >= until {
                        cycles.begun.fetch_sub(1, Ordering::Relaxed);
                        return;
                    }
                    match live_and_die(&client, &format!("{prefix}-{number}"), size).await {
                        Ok(true) => drop(cycles.done.fetch_add(1, Ordering::Relaxed)),
                        Ok(false) => cycles.errors.count_named("not received", 1),
                        Err(error) => cycles.errors.count(&error, 1),
                    }
                }
            });
        }
        let all = self.cycles * (PARTS + WARM_UP_PARTS) / PARTS;
        let mut disk = Disk::default();
        for tick in (1..=DISK_TICKS).cycle() {
            if workers.is_empty() {
                break;
            }
            tokio::time::sleep(TICK).await;
            while workers.try_join_next().is_some() {}
            if tick == DISK_TICKS || workers.is_empty() {
                disk.raise(Disk::now(client).await);
            }
            let done = cycles.done.load(Ordering::Relaxed);
            progress.tell("cycling", done as f64 / all as f64, &format!("{done} of {all} queues"));
        }
        disk
    }

    async fn look(&self, client: &Client, stays: &str) -> Result<Look, Error> {
        let path = QueuePath { queue: stays.to_owned(), sub_queue: v1::SubQueue::Main };
        let (mut peek, mut send) = (Recorder::default(), Recorder::default());
        for _ in 0..PROBES {
            let started = Instant::now();
            client.peek(&path, 1, PEEKED).await?;
            peek.record(started.elapsed());
            let started = Instant::now();
            client.send(stays, vec![Message::new(vec![b's'; self.size])]).await?;
            send.record(started.elapsed());
        }
        Ok(Look { peek: peek.summary(), send: send.summary() })
    }
}

impl Disk {
    /// Of the nodes that say so.
    async fn now(client: &Client) -> Disk {
        let mut largest = Disk::default();
        for node in look(client).await.nodes.values() {
            let bytes = |name| node.sum(name).map_or(0, |bytes| bytes as u64);
            let (log_bytes, rows_bytes) = (bytes(name::LOG_BYTES), bytes(name::ROWS_BYTES));
            largest.raise(Disk { log_bytes, rows_bytes, bytes: log_bytes + rows_bytes });
        }
        largest
    }

    fn raise(&mut self, to: Disk) {
        self.log_bytes = self.log_bytes.max(to.log_bytes);
        self.rows_bytes = self.rows_bytes.max(to.rows_bytes);
        self.bytes = self.bytes.max(to.bytes);
    }
}

#[derive(Default)]
struct Cycles {
    begun: AtomicU64,
    done: AtomicU64,
    errors: Errors,
}

/// `false`: what was sent was not received.
async fn live_and_die(client: &Client, queue: &str, size: usize) -> Result<bool, client::Error> {
    client.create_queue(queue, v1::QueueProperties::default()).await?;
    client.send(queue, vec![Message::new(vec![b'c'; size])]).await?;
    let path = QueuePath { queue: queue.to_owned(), sub_queue: v1::SubQueue::Main };
    let mode = v1::ReceiveMode::ReceiveAndDelete;
    let deliveries = client.receive(&path, mode, 1, RECEIVE_WAIT).await?;
    client.delete_queue(queue).await?;
    Ok(!deliveries.is_empty())
}

impl std::fmt::Display for ChurnReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{} queues created, used and deleted, {:.0} /s",
            self.cycles, self.cycles_per_second
        )?;
        for (when, look) in [("first", &self.first), ("last", &self.last)] {
            writeln!(f, "  after the {when} twentieth")?;
            writeln!(f, "    peek   {}", look.peek)?;
            writeln!(f, "    send   {}", look.send)?;
        }
        let halves = [("first", self.first_half), ("second", self.second_half)];
        for (when, Disk { log_bytes, rows_bytes, bytes }) in halves {
            let [log, rows, both] = [log_bytes, rows_bytes, bytes].map(|bytes| bytes >> 20);
            writeln!(f, "  in the {when} half")?;
            writeln!(f, "    disk   at most {both} MiB (log {log}, rows {rows})")?;
        }
        let ratio = |last: f64, first: f64| format!("{:.2}", last / first);
        let (first, last) = (&self.first, &self.last);
        let bytes = |disk: Disk| (disk.bytes as f64, disk.rows_bytes as f64);
        let ((first_all, first_rows), (last_all, last_rows)) =
            (bytes(self.first_half), bytes(self.second_half));
        writeln!(
            f,
            "  last to first: peek p50 {}, p99 {}; send p50 {}, p99 {}; disk {}, its rows {}",
            ratio(last.peek.p50_ms, first.peek.p50_ms),
            ratio(last.peek.p99_ms, first.peek.p99_ms),
            ratio(last.send.p50_ms, first.send.p50_ms),
            ratio(last.send.p99_ms, first.send.p99_ms),
            ratio(last_all, first_all),
            ratio(last_rows, first_rows),
        )?;
        if !self.moved_clock {
            let why = "what is kept for repeats grows for 15 min; --move-clock measures beyond it";
            writeln!(f, "  ({why})")?;
        }
        write!(f, "{}", ErrorLine(&self.errors))
    }
}
