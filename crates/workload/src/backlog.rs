//! The backlog bench: a queue that nobody reads.
//!
//! Question: does a node's memory grow with what is queued, and how often is a message that stays
//! written to the device?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Client, Message, v1};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::fill::{self, Fill};
use crate::nodes::name;
use crate::report::ErrorLine;
use crate::{Error, NodeUse, Progress, look};

const TICK: Duration = Duration::from_millis(250);

/// What to drive.
#[derive(Clone, Debug)]
pub struct BacklogBench {
    /// Queued at the end.
    pub messages: u64,
    /// Growth is reckoned from so many on: before, caches and memtables fill.
    pub from: u64,
    pub size: usize,
    /// Time to live of each message: so many deadlines are pending.
    pub ttl: Option<Duration>,
    /// The queue stays, for what shall be done beside it.
    pub keep: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct BacklogReport {
    /// The queue, if it was kept.
    pub queue: Option<String>,
    pub messages: u64,
    pub from: u64,
    pub size_bytes: usize,
    pub filled_per_second: f64,
    /// Written to devices per byte of message bodies and replica, from first to last message.
    pub device_bytes_per_message_byte: Option<f64>,
    pub memory: Vec<NodeMemory>,
    pub errors: BTreeMap<String, u64>,
    pub nodes: Vec<NodeUse>,
}

/// RssAnon of one node, over the stretch from [`BacklogBench::from`] on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeMemory {
    pub node: u64,
    /// Mean over the stretch's first tenth.
    pub first_bytes: f64,
    /// Mean over its last tenth.
    pub last_bytes: f64,
    /// Slope of the line that fits all samples of the stretch best (least squares): memtables rise
    /// and fall by more than what is looked for.
    pub growth_bytes_per_message: f64,
}

impl BacklogBench {
    /// Creates the queue, fills it, and deletes it unless it is to be kept.
    pub async fn run(&self, client: &Client, progress: &Progress) -> Result<BacklogReport, Error> {
        if self.from >= self.messages {
            let what = "growth is reckoned from fewer messages than are sent: lower --from";
            return Err(Error::Wrong(what.to_owned()));
        }
        let queue = format!("bench-backlog-{:08x}", rand::random::<u32>());
        let properties =
            v1::QueueProperties { max_size_megabytes: Some(81_920), ..Default::default() };
        client.create_queue(&queue, properties).await?;
        let report = self.drive(client, &queue, progress).await;
        if self.keep {
            return Ok(BacklogReport { queue: Some(queue), ..report });
        }
        // The figures stand either way, and a queue left behind is only litter.
        let _ = client.delete_queue(&queue).await;
        Ok(report)
    }

    async fn drive(&self, client: &Client, queue: &str, progress: &Progress) -> BacklogReport {
        let filled = Arc::new(Fill::default());
        let before = look(client).await;
        let started = Instant::now();
        let mut fillers = JoinSet::new();
        for share in fill::shares(self.messages) {
            let body = Bytes::from(vec![b'x'; self.size]);
            let ttl = self.ttl;
            let message = move || match ttl {
                Some(ttl) => Message::new(body.clone()).ttl(ttl),
                None => Message::new(body.clone()),
            };
            let (client, queue, filled) = (client.clone(), queue.to_owned(), filled.clone());
            fillers.spawn(async move { filled.run(client, queue, share, message).await });
        }
        let mut samples: BTreeMap<u64, Vec<MemorySample>> = BTreeMap::new();
        while !fillers.is_empty() {
            tokio::time::sleep(TICK).await;
            while fillers.try_join_next().is_some() {}
            let queued = filled.sent();
            for (node, metrics) in look(client).await.nodes {
                if let Some(bytes) = metrics.sum(name::RESIDENT_ANONYMOUS) {
                    samples.entry(node).or_default().push(MemorySample { queued, bytes });
                }
            }
            let share = queued as f64 / self.messages as f64;
            progress.tell("filling", share, &format!("{queued} of {} queued", self.messages));
        }
        let seconds = started.elapsed().as_secs_f64();
        let nodes = look(client).await.since(&before);
        let written: Option<u64> = nodes.iter().map(|node| node.device_written_bytes).sum();
        let replicas = nodes.len() as u64;
        let sent_bytes = (filled.sent() * self.size as u64 * replicas) as f64;
        BacklogReport {
            queue: None,
            messages: filled.sent(),
            from: self.from,
            size_bytes: self.size,
            filled_per_second: filled.sent() as f64 / seconds,
            device_bytes_per_message_byte: written.map(|bytes| bytes as f64 / sent_bytes),
            memory: samples
                .into_iter()
                .filter_map(|(node, samples)| self.memory(node, samples))
                .collect(),
            errors: filled.errors.counted(),
            nodes,
        }
    }

    /// `None` for too few samples.
    fn memory(&self, node: u64, mut samples: Vec<MemorySample>) -> Option<NodeMemory> {
        samples.retain(|sample| sample.queued >= self.from);
        let tenth = (self.messages - self.from) / 10;
        let first = samples.iter().filter(|sample| sample.queued <= self.from + tenth);
        let last = samples.iter().filter(|sample| sample.queued >= self.messages - tenth);
        Some(NodeMemory {
            node,
            first_bytes: mean(first.map(|sample| sample.bytes))?,
            last_bytes: mean(last.map(|sample| sample.bytes))?,
            growth_bytes_per_message: slope(&samples)?,
        })
    }
}

/// One look at one node.
#[derive(Clone, Copy, Debug)]
struct MemorySample {
    queued: u64,
    bytes: f64,
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    (count > 0.0).then(|| sum / count)
}

/// Of the line that fits best; `None` where all were taken at one count.
fn slope(samples: &[MemorySample]) -> Option<f64> {
    let mean_queued = mean(samples.iter().map(|sample| sample.queued as f64))?;
    let mean_bytes = mean(samples.iter().map(|sample| sample.bytes))?;
    let (mut shared, mut square) = (0.0, 0.0);
    for sample in samples {
        let queued = sample.queued as f64 - mean_queued;
        shared += queued * (sample.bytes - mean_bytes);
        square += queued * queued;
    }
    (square > 0.0).then(|| shared / square)
}

impl std::fmt::Display for BacklogReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} messages of {} bytes queued", self.messages, self.size_bytes)?;
        if let Some(queue) = &self.queue {
            writeln!(f, "  kept         {queue}")?;
        }
        writeln!(f, "  filled       {:.0} /s", self.filled_per_second)?;
        if let Some(bytes) = self.device_bytes_per_message_byte {
            writeln!(f, "  device       {bytes:.2} bytes written per message byte and replica")?;
        }
        for node in &self.memory {
            let mebibytes = |bytes: f64| bytes / 1048576.0;
            writeln!(
                f,
                "  node {}       RssAnon {:.0} MiB at {}, {:.0} MiB at {}: {:+.1} bytes per message",
                node.node,
                mebibytes(node.first_bytes),
                self.from,
                mebibytes(node.last_bytes),
                self.messages,
                node.growth_bytes_per_message
            )?;
        }
        write!(f, "{}", ErrorLine(&self.errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(messages: u64, from: u64) -> BacklogBench {
        BacklogBench { messages, from, size: 256, ttl: None, keep: false }
    }

    #[test]
    fn growth_is_found_under_the_sawtooth_of_memtables() {
        let bench = bench(3_000_000, 1_000_000);
        let sample = |step: u64| MemorySample {
            queued: step * 10_000,
            // 10 bytes a message beneath a sawtooth of 64 MB every 400,000 messages.
            bytes: 4e8 + step as f64 * 1e5 + (step % 40) as f64 * 1.6e6,
        };
        let memory = bench.memory(2, (0..=300).map(sample).collect()).expect("many samples");
        assert!((memory.growth_bytes_per_message - 10.0).abs() < 4.0, "{memory:?}");
        let within = 4e8..4e8 + 3e7 + 6.4e7;
        assert!(within.contains(&memory.first_bytes) && within.contains(&memory.last_bytes));
    }

    #[test]
    fn too_few_samples_give_no_figure() {
        let bench = bench(100, 50);
        assert_eq!(bench.memory(1, vec![]), None);
        assert_eq!(bench.memory(1, vec![MemorySample { queued: 100, bytes: 1.0 }; 2]), None);
    }
}
