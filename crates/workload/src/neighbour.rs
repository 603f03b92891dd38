//! The neighbour bench: one queue in steady use, while another queue of the same group is struck by
//! the largest work there is.
//!
//! Question: does bulk work (a million expiries, a purge, a deletion) hold up those who have nothing
//! to do with it?

mod load;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Client, v1};
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::nodes::name;
use crate::report::ErrorLine;
use crate::{Error, Latency, Progress, look};
use load::Load;
use target::Target;

const TICK: Duration = Duration::from_millis(250);
/// How long the rows of a deleted queue are given to be swept: nobody tells when they are.
const SWEEP_WATCH: Duration = Duration::from_secs(15);

/// What strikes the other queue. Every message of it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disturbance {
    /// Own deadlines, all within the same fraction of a second; a receiver waits behind them.
    Expire,
    /// The queue's default time to live is lowered: all fall due at once.
    Default,
    /// All scheduled for the same millisecond.
    Activate,
    /// Batch deletes, one after the other.
    Purge,
    /// The queue is deleted.
    Delete,
}

impl Disturbance {
    /// All of them.
    pub const ALL: [Disturbance; 5] = [
        Disturbance::Expire,
        Disturbance::Default,
        Disturbance::Activate,
        Disturbance::Purge,
        Disturbance::Delete,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Disturbance::Expire => "expire",
            Disturbance::Default => "default",
            Disturbance::Activate => "activate",
            Disturbance::Purge => "purge",
            Disturbance::Delete => "delete",
        }
    }
}

/// What to drive.
#[derive(Clone, Debug)]
pub struct NeighbourBench {
    pub disturbances: Vec<Disturbance>,
    /// In the queue that is struck, each time.
    pub messages: u64,
    pub size: usize,
    /// The neighbour's messages per second, each sent, received and completed.
    pub rate: f64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct NeighbourReport {
    pub messages: u64,
    pub rate: f64,
    pub strikes: Vec<Strike>,
    pub errors: BTreeMap<String, u64>,
}

/// One disturbance, as the neighbour felt it.
#[derive(Clone, Debug, Serialize)]
pub struct Strike {
    pub disturbance: Disturbance,
    /// Until the last message concerned was dealt with; for a deletion, until it was acknowledged.
    pub seconds: f64,
    /// Messages left untouched: the disturbance did not do its work.
    pub left: u64,
    /// The neighbour's latency from due to acknowledged, in the quiet before and during it.
    pub send_before: Latency,
    pub send_during: Latency,
    /// From due to received.
    pub end_to_end_before: Latency,
    pub end_to_end_during: Latency,
    /// RssAnon of the largest node, before it and at its height.
    pub memory_before_bytes: u64,
    pub memory_peak_bytes: u64,
}

impl NeighbourBench {
    /// Creates the queues, strikes one after the other, deletes the queues.
    pub async fn run(
        &self,
        client: &Client,
        progress: &Progress,
    ) -> Result<NeighbourReport, Error> {
        let wrong = |what: &str| Err(Error::Wrong(what.to_owned()));
        if !self.rate.is_finite() || self.rate <= 0.0 {
            return wrong("the rate must be above 0 messages per second");
        }
        if self.messages == 0 || self.disturbances.is_empty() {
            return wrong("messages and disturbances must be at least one");
        }
        let run: u32 = rand::random();
        let name = format!("bench-neighbour-{run:08x}");
        let neighbour = client.create_queue(&name, v1::QueueProperties::default()).await?;
        let load = Load::start(client, &name, self.rate, self.size);
        let strikes = self.strikes(client, &neighbour, &load, progress).await;
        let errors = load.stop().await;
        // The figures stand either way, and a queue left behind is only litter.
        let _ = client.delete_queue(&name).await;
        Ok(NeighbourReport { messages: self.messages, rate: self.rate, strikes: strikes?, errors })
    }

    async fn strikes(
        &self,
        client: &Client,
        neighbour: &v1::Queue,
        load: &Load,
        progress: &Progress,
    ) -> Result<Vec<Strike>, Error> {
        let mut strikes = Vec::new();
        for disturbance in &self.disturbances {
            let target = Target::create(self, *disturbance, client, neighbour).await?;
            let strike = self.strike(client, &target, load, progress).await;
            // It may be gone by what was done to it.
            let _ = client.delete_queue(&target.queue).await;
            strikes.push(strike?);
        }
        Ok(strikes)
    }

    async fn strike(
        &self,
        client: &Client,
        target: &Target,
        load: &Load,
        progress: &Progress,
    ) -> Result<Strike, Error> {
        let due = target.fill(client, progress).await?;
        load.turn();
        tokio::time::sleep_until(due.into()).await;
        let before = load.turn();
        let peak = Peak::start(client).await;
        let started = Instant::now();
        let left = target.carry_out(client, progress).await?;
        let seconds = started.elapsed().as_secs_f64();
        if target.disturbance == Disturbance::Delete {
            tokio::time::sleep(SWEEP_WATCH).await;
        }
        let during = load.turn();
        Ok(Strike {
            disturbance: target.disturbance,
            seconds,
            left,
            send_before: before.send.summary(),
            send_during: during.send.summary(),
            end_to_end_before: before.end_to_end.summary(),
            end_to_end_during: during.end_to_end.summary(),
            memory_before_bytes: peak.first,
            memory_peak_bytes: peak.highest(),
        })
    }
}

/// Watches the nodes' RssAnon, the largest of them, until dropped.
struct Peak {
    first: u64,
    highest: Arc<AtomicU64>,
    watching: JoinHandle<()>,
}

impl Peak {
    async fn start(client: &Client) -> Peak {
        let first = memory(client).await;
        let highest = Arc::new(AtomicU64::new(first));
        let (client, seen) = (client.clone(), highest.clone());
        let watching = tokio::spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                seen.fetch_max(memory(&client).await, Ordering::Relaxed);
            }
        });
        Peak { first, highest, watching }
    }

    fn highest(&self) -> u64 {
        self.highest.load(Ordering::Relaxed)
    }
}

impl Drop for Peak {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// 0 where no node says.
async fn memory(client: &Client) -> u64 {
    let look = look(client).await;
    let bytes = look.nodes.values().filter_map(|node| node.sum(name::RESIDENT_ANONYMOUS));
    bytes.fold(0.0, f64::max) as u64
}

impl std::fmt::Display for NeighbourReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{} messages struck at a time, beside a queue with {:.0} messages/s",
            self.messages, self.rate
        )?;
        for strike in &self.strikes {
            let left = match strike.left {
                0 => String::new(),
                left => format!(", {left} LEFT UNTOUCHED"),
            };
            writeln!(f, "  {} ({:.1} s{left})", strike.disturbance.name(), strike.seconds)?;
            writeln!(f, "    send before        {}", strike.send_before)?;
            writeln!(f, "    send during        {}", strike.send_during)?;
            writeln!(f, "    end to end before  {}", strike.end_to_end_before)?;
            writeln!(f, "    end to end during  {}", strike.end_to_end_during)?;
            let mebibytes = |bytes: u64| bytes as f64 / 1048576.0;
            writeln!(
                f,
                "    RssAnon            {:.0} MiB, {:.0} MiB at most",
                mebibytes(strike.memory_before_bytes),
                mebibytes(strike.memory_peak_bytes)
            )?;
        }
        write!(f, "{}", ErrorLine(&self.errors))
    }
}
