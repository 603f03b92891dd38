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
/// Cycles before the first look: caches and files are then as they will be.
const WARM_UP_SHARE: f64 = 0.05;
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
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct ChurnReport {
    /// Created, sent to, received from, completed, deleted.
    pub cycles: u64,
    pub cycles_per_second: f64,
    /// After the first twentieth of the cycles, and after the last.
    pub first: Look,
    pub last: Look,
    pub errors: BTreeMap<String, u64>,
}

/// How the cluster fares, with nothing going on.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    /// Of a peek at a queue that stays.
    pub peek: Latency,
    /// Of a send to it.
    pub send: Latency,
    /// Of the largest data directory, its log and its rows.
    pub log_bytes: Option<u64>,
    pub rows_bytes: Option<u64>,
}

impl ChurnBench {
    /// Creates the queue that stays, cycles, deletes it.
    pub async fn run(&self, client: &Client, progress: &Progress) -> Result<ChurnReport, Error> {
        if self.cycles == 0 || self.at_a_time == 0 {
            let what = "cycles, and those at a time, must be at least 1".to_owned();
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
        let warm_up = ((self.cycles as f64 * WARM_UP_SHARE) as u64).max(1);
        let cycles = Arc::new(Cycles::default());
        self.cycle(client, stays, warm_up, &cycles, progress).await;
        let first = self.look(client, stays).await?;
        let (started, before) = (Instant::now(), cycles.done.load(Ordering::Relaxed));
        self.cycle(client, stays, self.cycles, &cycles, progress).await;
        let done = cycles.done.load(Ordering::Relaxed);
        let seconds = started.elapsed().as_secs_f64();
        Ok(ChurnReport {
            cycles: done,
            cycles_per_second: (done - before) as f64 / seconds,
            first,
            last: self.look(client, stays).await?,
            errors: cycles.errors.counted(),
        })
    }

    /// Cycles until so many have begun.
    async fn cycle(
        &self,
        client: &Client,
        stays: &str,
        until: u64,
        cycles: &Arc<Cycles>,
        progress: &Progress,
    ) {
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
        while !workers.is_empty() {
            tokio::time::sleep(TICK).await;
            while workers.try_join_next().is_some() {}
            let done = cycles.done.load(Ordering::Relaxed);
            let share = done as f64 / self.cycles as f64;
            progress.tell("cycling", share, &format!("{done} of {} queues", self.cycles));
        }
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
        let nodes = look(client).await.nodes;
        let largest = |name: &str| {
            let bytes = nodes.values().filter_map(|node| node.sum(name));
            bytes.reduce(f64::max).map(|bytes| bytes as u64)
        };
        Ok(Look {
            peek: peek.summary(),
            send: send.summary(),
            log_bytes: largest(name::LOG_BYTES),
            rows_bytes: largest(name::ROWS_BYTES),
        })
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
            let mebibytes = |bytes: Option<u64>| {
                bytes.map_or("?".into(), |bytes| format!("{:.0} MiB", bytes as f64 / 1048576.0))
            };
            writeln!(f, "  {when}")?;
            writeln!(f, "    peek   {}", look.peek)?;
            writeln!(f, "    send   {}", look.send)?;
            writeln!(
                f,
                "    disk   log {}, rows {}",
                mebibytes(look.log_bytes),
                mebibytes(look.rows_bytes)
            )?;
        }
        write!(f, "{}", ErrorLine(&self.errors))
    }
}
