//! The expiry bench: many deadlines, and an ingest that runs meanwhile.
//!
//! Question: how late does expiry take effect (deadline to applied), and does the work of expiring
//! hold up those who send?

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Client, Message, SenderOptions, Sending, v1};
use rand::RngExt;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::fill::{self, Fill};
use crate::queues::{create_queues, delete_queues};
use crate::report::ErrorLine;
use crate::{Error, Latency, NodeUse, Pace, Progress, Recorder, look};

/// Deadline to applied, recorded by leaders, seconds.
const LATENESS: &str = "mayfly_timer_lateness_seconds";
const INGEST_WINDOW: usize = 1024;
const TICK: Duration = Duration::from_millis(250);
/// With no expiration for so long after the last deadline, what is left will not expire.
const PATIENCE: Duration = Duration::from_secs(15);
/// After so many looks in a row that nobody answered, each for as long as the client is patient, the
/// cluster is gone.
const UNANSWERED_MAX: u32 = 2;

/// What to drive.
#[derive(Clone, Debug)]
pub struct ExpiryBench {
    pub messages: u64,
    /// Deadlines are even over this stretch, reckoned from the planned end of the filling.
    pub ttl_from: Duration,
    pub ttl_to: Duration,
    /// Time planned for the filling; if it takes longer, the first deadlines fall into it and the
    /// report says so.
    pub fill: Duration,
    /// Messages per second sent meanwhile.
    pub rate: Option<f64>,
    pub size: usize,
    /// Expired messages go to the dead-letter queue, not to nothing.
    pub dead_letter: bool,
    /// The queues the deadlines are spread over.
    pub queues: u32,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct ExpiryReport {
    pub messages: u64,
    pub dead_letter: bool,
    pub fill_seconds: f64,
    /// The filling took longer than planned: some deadlines fired during it.
    pub fill_overran: bool,
    pub filled_per_second: f64,
    pub expired: u64,
    /// From the first to the last expiration seen.
    pub expired_per_second: f64,
    /// In the busiest stretch of a second or so.
    pub expired_per_second_peak: f64,
    /// Upper bounds, from the leaders' histogram. Absent: the nodes do not say.
    pub lateness_p50_ms: Option<f64>,
    pub lateness_p99_ms: Option<f64>,
    pub lateness_max_ms: Option<f64>,
    /// Due to be sent until acknowledged, of what was due since the first deadline: before that the
    /// filling takes all there is.
    pub ingest: Latency,
    pub ingest_per_second: f64,
    pub errors: BTreeMap<String, u64>,
    pub nodes: Vec<NodeUse>,
    /// Of all nodes, from the first deadline to the last expiration, the sends meanwhile included: per
    /// expired message, and as a rate. Absent: the nodes do not say.
    pub cpu_us_per_expired: Option<f64>,
    pub cpu_cores_expiring: Option<f64>,
}

#[derive(Default)]
struct Tally {
    ingested: AtomicU64,
    stop: AtomicBool,
    fill: Fill,
    ingest: Mutex<Recorder>,
}

impl ExpiryBench {
    /// The default plan for the filling: what a small cluster takes in, with room.
    pub fn fill_default(messages: u64) -> Duration {
        Duration::from_secs(2 + messages / 8000)
    }

    /// Creates the queues, fills, waits out the deadlines, deletes the queues.
    pub async fn run(&self, client: &Client, progress: &Progress) -> Result<ExpiryReport, Error> {
        if self.messages == 0 || self.queues == 0 || self.ttl_from > self.ttl_to {
            let what = "messages and queues must be at least 1, and the TTL's start before its end";
            return Err(Error::Wrong(what.to_owned()));
        }
        let run: u32 = rand::random();
        let names: Vec<String> =
            (1..=self.queues).map(|index| format!("bench-expiry-{run:08x}-{index}")).collect();
        let properties = v1::QueueProperties {
            dead_letter_on_expiration: Some(self.dead_letter),
            max_size_megabytes: Some(81_920),
            ..Default::default()
        };
        let names = create_queues(client, names, &properties).await?;
        let result = self.drive(client, &names, progress).await;
        delete_queues(client, names).await;
        result
    }

    /// A message with a deadline in the stretch, whenever it is made.
    fn message(&self, planned_end: Instant) -> impl FnMut() -> Message + Send + 'static {
        let body = Bytes::from(vec![b'x'; self.size]);
        let (first, stretch) = (self.ttl_from, self.ttl_to - self.ttl_from);
        move || {
            let within = stretch.mul_f64(rand::rng().random::<f64>());
            let until_end = planned_end.saturating_duration_since(Instant::now());
            Message::new(body.clone()).ttl(until_end + first + within)
        }
    }

    async fn drive(
        &self,
        client: &Client,
        names: &[String],
        progress: &Progress,
    ) -> Result<ExpiryReport, Error> {
        let tally = Arc::new(Tally::default());
        let before = look(client).await;
        let started = Instant::now();
        let planned_end = started + self.fill;

        let mut fillers = JoinSet::new();
        for share in fill::shares(self.messages) {
            let queue = names[fillers.len() % names.len()].clone();
            let (client, tally, message) =
                (client.clone(), tally.clone(), self.message(planned_end));
            fillers.spawn(async move { tally.fill.run(client, queue, share, message).await });
        }
        let mut fill_seconds = None;
        let ingesting = self.rate.map(|rate| {
            let queue = names[0].clone();
            let ingest =
                Ingest { rate, size: self.size, recorded_from: planned_end + self.ttl_from };
            tokio::spawn(ingest.run(client.clone(), queue, tally.clone()))
        });

        let mut curve = Curve::default();
        let mut moved_at = Instant::now();
        let mut unanswered = 0;
        let mut expiring = None;
        loop {
            tokio::time::sleep(TICK).await;
            if expiring.is_none() && Instant::now() >= planned_end + self.ttl_from {
                expiring = Some((look(client).await, Instant::now(), curve.last()));
            }
            while fillers.try_join_next().is_some() {}
            if fillers.is_empty() && fill_seconds.is_none() {
                fill_seconds = Some(started.elapsed().as_secs_f64());
            }
            let filled = tally.fill.sent();
            match expired(client, names).await {
                Ok(expired) => {
                    unanswered = 0;
                    if curve.add(started.elapsed(), expired) {
                        moved_at = Instant::now();
                    }
                }
                Err(error) => {
                    unanswered += 1;
                    tally.fill.errors.count(&error, 1);
                }
            }
            let done = curve.last();
            if fill_seconds.is_some() {
                let share = done as f64 / filled.max(1) as f64;
                progress.tell("expiring", share, &format!("{done} of {filled} expired"));
            } else {
                let share = filled as f64 / self.messages as f64;
                progress.tell("filling", share, &format!("{filled} of {} sent", self.messages));
            }
            let deadline = planned_end + self.ttl_to;
            let hopeless = Instant::now() > deadline + PATIENCE && moved_at.elapsed() > PATIENCE;
            let gone = unanswered >= UNANSWERED_MAX;
            if fill_seconds.is_some() && (done >= filled || hopeless || gone) {
                break;
            }
        }
        let cpu = match expiring {
            Some((at, since, expired)) => {
                let seconds = since.elapsed().as_secs_f64();
                let used = cpu_seconds(&look(client).await.since(&at));
                used.map(|used| {
                    (used * 1e6 / (curve.last() - expired).max(1) as f64, used / seconds)
                })
            }
            None => None,
        };
        tally.stop.store(true, Ordering::Relaxed);
        if let Some(ingesting) = ingesting {
            // A panic of the task was already reported by the runtime.
            let _ = ingesting.await;
        }
        let ran = started.elapsed().as_secs_f64();
        let after = look(client).await;

        let lateness = after.buckets_since(&before, LATENESS);
        let quantile = |share| lateness.quantile(share).map(|seconds| seconds * 1000.0);
        let fill_seconds = fill_seconds.unwrap_or(ran);
        let ingest = tally.ingest.lock().unwrap_or_else(|poison| poison.into_inner()).summary();
        Ok(ExpiryReport {
            messages: tally.fill.sent(),
            dead_letter: self.dead_letter,
            fill_seconds,
            fill_overran: fill_seconds > (self.fill + self.ttl_from).as_secs_f64(),
            filled_per_second: tally.fill.sent() as f64 / fill_seconds,
            expired: curve.last(),
            expired_per_second: curve.mean(),
            expired_per_second_peak: curve.peak(),
            lateness_p50_ms: quantile(0.5),
            lateness_p99_ms: quantile(0.99),
            lateness_max_ms: quantile(1.0),
            ingest,
            ingest_per_second: tally.ingested.load(Ordering::Relaxed) as f64 / ran,
            errors: tally.fill.errors.counted(),
            nodes: after.since(&before),
            cpu_us_per_expired: cpu.map(|(each, _)| each),
            cpu_cores_expiring: cpu.map(|(_, cores)| cores),
        })
    }
}

/// Of all nodes, if there are any and all of them say.
fn cpu_seconds(nodes: &[NodeUse]) -> Option<f64> {
    nodes.iter().map(|node| node.cpu_seconds).sum::<Option<f64>>().filter(|_| !nodes.is_empty())
}

/// Sends at a fixed rate, messages that outlive the bench.
struct Ingest {
    /// Messages per second.
    rate: f64,
    size: usize,
    recorded_from: Instant,
}

impl Ingest {
    async fn run(self, client: Client, queue: String, tally: Arc<Tally>) {
        let options = SenderOptions { window: INGEST_WINDOW, ..SenderOptions::default() };
        let sender = client.sender(queue, options);
        let body = Bytes::from(vec![b'i'; self.size]);
        // No more can be unanswered; what is answered and not counted yet is waited for.
        let (submitted, answers) = mpsc::channel(INGEST_WINDOW);
        let recording = tokio::spawn(record(answers, self.recorded_from, tally.clone()));
        let mut pace = Pace::new(Instant::now(), self.rate);
        while !tally.stop.load(Ordering::Relaxed) {
            tokio::time::sleep_until(pace.due().into()).await;
            let due = pace.issue();
            let Ok(sending) = sender.submit(vec![Message::new(body.clone())]).await else { break };
            if submitted.send((due, sending)).await.is_err() {
                break;
            }
        }
        drop(submitted);
        sender.close().await;
        // It ends with its channel.
        let _ = recording.await;
    }
}

/// How long each sending took since it was due.
async fn record(mut answers: mpsc::Receiver<(Instant, Sending)>, from: Instant, tally: Arc<Tally>) {
    let mut recorder = Recorder::default();
    while let Some((due, sending)) = answers.recv().await {
        match sending.await {
            Ok(_) => {
                tally.ingested.fetch_add(1, Ordering::Relaxed);
                if due >= from {
                    recorder.record(due.elapsed());
                }
            }
            Err(error) => tally.fill.errors.count(&error, 1),
        }
    }
    tally.ingest.lock().unwrap_or_else(|poison| poison.into_inner()).merge(&recorder);
}

/// Expired by now, dropped or dead-lettered, in all queues.
async fn expired(client: &Client, names: &[String]) -> Result<u64, client::Error> {
    let mut expired = 0;
    for name in names {
        let counters = client.get_queue(name).await?.counters.unwrap_or_default();
        expired += counters.expired_dropped + counters.dead_lettered;
    }
    Ok(expired)
}

/// Expirations over time.
#[derive(Default)]
struct Curve(Vec<(Duration, u64)>);

impl Curve {
    /// Whether it rose.
    fn add(&mut self, at: Duration, expired: u64) -> bool {
        let rose = expired > self.last();
        self.0.push((at, expired));
        rose
    }

    fn last(&self) -> u64 {
        self.0.last().map_or(0, |(_, expired)| *expired)
    }

    fn mean(&self) -> f64 {
        let first = self.0.iter().rposition(|(_, expired)| *expired == 0).unwrap_or(0);
        let last = self.0.iter().position(|(_, expired)| *expired == self.last()).unwrap_or(0);
        self.rate(first, last)
    }

    fn peak(&self) -> f64 {
        let stretch = 4;
        let rates = (stretch..self.0.len()).map(|to| self.rate(to - stretch, to));
        rates.fold(0.0, f64::max)
    }

    fn rate(&self, from: usize, to: usize) -> f64 {
        match (self.0.get(from), self.0.get(to)) {
            (Some(from), Some(to)) if to.0 > from.0 => {
                (to.1 - from.1) as f64 / (to.0 - from.0).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

impl std::fmt::Display for ExpiryReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let late = |ms: Option<f64>| match ms {
            Some(ms) if ms.is_finite() => format!("{ms:.1} ms"),
            Some(_) => "above the histogram's last bound".into(),
            None => "?".into(),
        };
        writeln!(
            f,
            "{} deadlines, {}",
            self.messages,
            if self.dead_letter { "dead-lettered on expiry" } else { "dropped on expiry" }
        )?;
        let overran =
            if self.fill_overran { "; longer than planned: some fell due in it" } else { "" };
        writeln!(
            f,
            "  filled       {:.1} s, {:.0} /s{overran}",
            self.fill_seconds, self.filled_per_second
        )?;
        writeln!(
            f,
            "  expired      {}, {:.0} /s, {:.0} /s at the peak",
            self.expired, self.expired_per_second, self.expired_per_second_peak
        )?;
        writeln!(
            f,
            "  lateness     p50 {}   p99 {}   max {}",
            late(self.lateness_p50_ms),
            late(self.lateness_p99_ms),
            late(self.lateness_max_ms)
        )?;
        writeln!(f, "  ingest       {:.0} /s, {}", self.ingest_per_second, self.ingest)?;
        if let (Some(each), Some(cores)) = (self.cpu_us_per_expired, self.cpu_cores_expiring) {
            writeln!(f, "  cpu          {each:.0} µs per expired message, {cores:.2} cores")?;
        }
        write!(f, "{}", ErrorLine(&self.errors))?;
        write!(f, "{}", crate::nodes::Table(&self.nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_finds_mean_and_peak() {
        let mut curve = Curve::default();
        let seconds = Duration::from_secs;
        assert!(!curve.add(seconds(1), 0));
        assert!(!curve.add(seconds(2), 0));
        for (at, expired) in [(3, 100), (4, 200), (5, 300), (6, 1300), (7, 1300)] {
            curve.add(seconds(at), expired);
        }
        assert_eq!(curve.last(), 1300);
        assert_eq!(curve.mean(), 325.0);
        assert_eq!(curve.peak(), 325.0);
    }
}
