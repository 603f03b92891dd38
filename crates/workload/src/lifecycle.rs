//! The lifecycle bench: send, receive, complete, one settlement per message.
//!
//! Question: how many messages a second live their whole life, and how long from the moment one was
//! due to be sent until a consumer has it in hand?

mod consumer;
mod producer;

mod over_amqp;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use client::{Client, v1};
use serde::Serialize;
use tokio::task::JoinSet;

use self::over_amqp::Fronts;
use crate::queues::{create_queues, delete_queues};
use crate::report::{ErrorLine, Errors};
use crate::{Bodies, Error, Latency, NodeUse, Progress, Recorder, look};

/// With no settlement for so long after the last send, what is left will not come.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(250);
/// Of the queues: the most there is, so that bodies may be large.
const MESSAGE_KILOBYTES_MAX: u32 = 1024;

/// How producers and consumers talk to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    /// At some of these addresses. Each producer and consumer has a connection of its own, as with the
    /// Azure SDKs.
    Amqp(Vec<String>),
}

/// What to drive.
#[derive(Clone, Debug)]
pub struct LifecycleBench {
    pub protocol: Protocol,
    pub queues: u32,
    /// A queue that is there, in the place of `queues`. It stays, and at a given rate no more is taken
    /// from it than is sent to it, so that a backlog it holds is still one at the end.
    pub queue: Option<String>,
    pub producers: u32,
    pub consumers: u32,
    /// Messages of one producer that are not answered yet.
    pub window: usize,
    pub prefetch: u32,
    /// Body bytes, at least 16.
    pub size: usize,
    /// Messages per second of all producers together; absent: as fast as they are answered.
    pub rate: Option<f64>,
    pub ttl: Option<Duration>,
    /// Not measured, before what is measured.
    pub warm_up: Duration,
    pub measured: Duration,
}

/// What came of it. Rates and latencies are of the measured time; counts of the whole run.
#[derive(Clone, Debug, Serialize)]
pub struct LifecycleReport {
    pub protocol: &'static str,
    pub queues: u32,
    pub producers: u32,
    pub consumers: u32,
    pub window: usize,
    pub prefetch: u32,
    pub size_bytes: usize,
    pub rate: Option<f64>,
    pub measured_seconds: f64,
    pub sent_per_second: f64,
    pub settled_per_second: f64,
    /// Due to be sent until in a consumer's hand.
    pub end_to_end: Latency,
    /// Due to be sent until acknowledged.
    pub send: Latency,
    /// Settlement handed over until confirmed.
    pub settle: Latency,
    pub sent: u64,
    pub delivered: u64,
    pub settled: u64,
    /// Acknowledged, and neither settled nor refused settlement by the end. Of a queue that was
    /// given: how many more were sent than taken.
    pub left: u64,
    /// By name.
    pub errors: BTreeMap<String, u64>,
    /// Written to devices per byte of message bodies and replica, all nodes together.
    pub device_bytes_per_message_byte: Option<f64>,
    /// Rows written per settled message and replica.
    pub rows_written_per_message: Option<f64>,
    pub nodes: Vec<NodeUse>,
}

impl Protocol {
    fn name(&self) -> &'static str {
        match self {
            Protocol::Grpc => "grpc",
            Protocol::Amqp(_) => "amqp",
        }
    }
}

/// What all tasks of a run share.
struct Run {
    bench: LifecycleBench,
    bodies: Bodies,
    epoch: Instant,
    /// What is measured is due within it. Begins once the nodes were looked at: with many streams
    /// that takes a while.
    window: OnceLock<Range<Instant>>,
    stop: AtomicBool,
    sent: AtomicU64,
    delivered: AtomicU64,
    settled: AtomicU64,
    unsettled: AtomicU64,
    errors: Errors,
    end_to_end: Mutex<Recorder>,
    send: Mutex<Recorder>,
    settle: Mutex<Recorder>,
}

impl Run {
    fn new(bench: &LifecycleBench) -> Run {
        Run {
            bench: bench.clone(),
            bodies: Bodies::new(bench.size),
            epoch: Instant::now(),
            window: OnceLock::new(),
            stop: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            unsettled: AtomicU64::new(0),
            errors: Errors::default(),
            end_to_end: Mutex::default(),
            send: Mutex::default(),
            settle: Mutex::default(),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_measured(&self, at: Instant) -> bool {
        self.window.get().is_some_and(|window| window.contains(&at))
    }

    /// Progress of (sent, settled).
    fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.settled.load(Ordering::Relaxed))
    }
}

/// A task's own records, poured into the run's when it ends.
fn pour(own: &Recorder, into: &Mutex<Recorder>) {
    into.lock().unwrap_or_else(|poison| poison.into_inner()).merge(own);
}

impl LifecycleBench {
    /// Creates the queues, drives the load, drains, deletes the queues. A queue that was given is
    /// neither drained nor deleted.
    pub async fn run(
        &self,
        client: &Client,
        progress: &Progress,
    ) -> Result<LifecycleReport, Error> {
        self.check()?;
        let names = self.create_queues(client).await?;
        let result = self.drive(client, &names, progress).await;
        if self.queue.is_none() {
            delete_queues(client, names).await;
        }
        result
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str| Err(Error::Wrong(what.to_owned()));
        match self {
            _ if self.queues == 0 || self.producers == 0 || self.consumers == 0 => {
                wrong("queues, producers and consumers must be at least 1")
            }
            _ if self.consumers < self.queues => {
                wrong("fewer consumers than queues: some queues would never be emptied")
            }
            _ if self.producers < self.queues => {
                wrong("fewer producers than queues: some queues would stay empty")
            }
            _ if self.size < Bodies::SIZE_MIN => {
                wrong("the size must be at least 16 bytes: a body carries its time and origin")
            }
            _ if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) => {
                wrong("the rate must be above 0 messages per second")
            }
            _ => Ok(()),
        }
    }

    async fn create_queues(&self, client: &Client) -> Result<Vec<String>, Error> {
        if let Some(queue) = &self.queue {
            return Ok(vec![queue.clone()]);
        }
        let run: u32 = rand::random();
        let names = (1..=self.queues).map(|index| format!("bench-lifecycle-{run:08x}-{index}"));
        let properties = v1::QueueProperties {
            max_message_size_kilobytes: Some(MESSAGE_KILOBYTES_MAX),
            ..Default::default()
        };
        create_queues(client, names.collect(), &properties).await
    }

    async fn drive(
        &self,
        client: &Client,
        names: &[String],
        progress: &Progress,
    ) -> Result<LifecycleReport, Error> {
        let run = Arc::new(Run::new(self));
        let queue = |index: u32| names[index as usize % names.len()].clone();
        let fronts = match &self.protocol {
            Protocol::Grpc => None,
            Protocol::Amqp(addresses) => Some(Fronts::find(client, addresses).await?),
        };
        let mut consumers = JoinSet::new();
        for index in 0..self.consumers {
            let (run, queue) = (run.clone(), queue(index));
            match &fronts {
                None => consumers.spawn(consumer::consume(run, client.clone(), queue)),
                Some(fronts) => {
                    consumers.spawn(over_amqp::consume(run, fronts.clone(), queue, index))
                }
            };
        }
        let mut producers = JoinSet::new();
        for index in 0..self.producers {
            let (run, queue) = (run.clone(), queue(index));
            match &fronts {
                None => producers.spawn(producer::produce(run, client.clone(), queue, index)),
                Some(fronts) => {
                    producers.spawn(over_amqp::produce(run, fronts.clone(), queue, index))
                }
            };
        }

        follow(&run, run.epoch + self.warm_up, "warming up", progress).await;
        let before = look(client).await;
        let from = (Instant::now(), run.counts());
        let measure_to = from.0 + self.measured;
        run.window.get_or_init(|| from.0..measure_to);
        follow(&run, measure_to, "measuring", progress).await;
        let to = (Instant::now(), run.counts());
        let after = look(client).await;

        run.stop.store(true, Ordering::Relaxed);
        while producers.join_next().await.is_some() {}
        if self.queue.is_none() {
            drain(&run, progress).await;
        }
        consumers.shutdown().await;

        Ok(self.report(&run, from, to, after.since(&before)))
    }

    fn report(
        &self,
        run: &Run,
        from: (Instant, (u64, u64)),
        to: (Instant, (u64, u64)),
        nodes: Vec<NodeUse>,
    ) -> LifecycleReport {
        let seconds = (to.0 - from.0).as_secs_f64();
        let (sent, settled) = (to.1.0 - from.1.0, to.1.1 - from.1.1);
        let total = |of: &dyn Fn(&NodeUse) -> Option<u64>| -> Option<f64> {
            let known: Vec<u64> = nodes.iter().filter_map(of).collect();
            (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64 / known.len() as f64)
        };
        let per = |amount: Option<f64>, each: f64| amount.filter(|_| each > 0.0).map(|a| a / each);
        let device = total(&|node| node.device_written_bytes);
        let rows = total(&|node| node.rows_written);
        let summary = |recorder: &Mutex<Recorder>| {
            recorder.lock().unwrap_or_else(|poison| poison.into_inner()).summary()
        };
        let all_sent = run.sent.load(Ordering::Relaxed);
        let all_settled = run.settled.load(Ordering::Relaxed);
        let unsettled = run.unsettled.load(Ordering::Relaxed);
        LifecycleReport {
            protocol: self.protocol.name(),
            queues: self.queues,
            producers: self.producers,
            consumers: self.consumers,
            window: self.window,
            prefetch: self.prefetch,
            size_bytes: self.size,
            rate: self.rate,
            measured_seconds: seconds,
            sent_per_second: sent as f64 / seconds,
            settled_per_second: settled as f64 / seconds,
            end_to_end: summary(&run.end_to_end),
            send: summary(&run.send),
            settle: summary(&run.settle),
            sent: all_sent,
            delivered: run.delivered.load(Ordering::Relaxed),
            settled: all_settled,
            left: all_sent.saturating_sub(all_settled + unsettled),
            errors: run.errors.counted(),
            device_bytes_per_message_byte: per(device, (sent * self.size as u64) as f64),
            rows_written_per_message: per(rows, settled as f64),
            nodes,
        }
    }
}

/// Tells of progress until an instant.
async fn follow(run: &Run, until: Instant, phase: &str, progress: &Progress) {
    let start = Instant::now();
    let mut last = (start, run.counts());
    while Instant::now() < until {
        let tick = TICK.min(until.saturating_duration_since(Instant::now()));
        tokio::time::sleep(tick).await;
        let now = (Instant::now(), run.counts());
        let seconds = (now.0 - last.0).as_secs_f64().max(0.001);
        let rate = |to: u64, from: u64| (to - from) as f64 / seconds;
        let figures = format!(
            "{:.0} sent/s, {:.0} settled/s",
            rate(now.1.0, last.1.0),
            rate(now.1.1, last.1.1)
        );
        let whole = (until - start).as_secs_f64().max(0.001);
        progress.tell(phase, (now.0 - start).as_secs_f64() / whole, &figures);
        last = now;
    }
}

/// Waits until what was sent is settled, or no more comes.
async fn drain(run: &Run, progress: &Progress) {
    let mut moved_at = Instant::now();
    let mut last = 0;
    loop {
        let done = run.settled.load(Ordering::Relaxed) + run.unsettled.load(Ordering::Relaxed);
        let sent = run.sent.load(Ordering::Relaxed);
        if done >= sent || moved_at.elapsed() > DRAIN_PATIENCE {
            return;
        }
        if done > last {
            (last, moved_at) = (done, Instant::now());
        }
        let figures = format!("{} left", sent - done);
        progress.tell("draining", done as f64 / sent.max(1) as f64, &figures);
        tokio::time::sleep(TICK).await;
    }
}

impl std::fmt::Display for LifecycleReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{}: {} producers, {} consumers, {} queues, {} bytes, {} for {:.1} s",
            self.protocol,
            self.producers,
            self.consumers,
            self.queues,
            self.size_bytes,
            self.rate.map_or("as fast as answered".into(), |rate| format!("{rate:.0} messages/s")),
            self.measured_seconds
        )?;
        writeln!(f, "  sent         {:>10.0} /s", self.sent_per_second)?;
        writeln!(f, "  settled      {:>10.0} /s", self.settled_per_second)?;
        writeln!(f, "  end to end   {}", self.end_to_end)?;
        writeln!(f, "  send         {}", self.send)?;
        writeln!(f, "  settle       {}", self.settle)?;
        writeln!(
            f,
            "  whole run    {} sent, {} delivered, {} settled, {} left",
            self.sent, self.delivered, self.settled, self.left
        )?;
        write!(f, "{}", ErrorLine(&self.errors))?;
        if let Some(bytes) = self.device_bytes_per_message_byte {
            writeln!(f, "  device       {bytes:.2} bytes written per message byte and replica")?;
        }
        if let Some(rows) = self.rows_written_per_message {
            writeln!(f, "  rows         {rows:.2} written per lifecycle and replica")?;
        }
        write!(f, "{}", crate::nodes::Table(&self.nodes))
    }
}
