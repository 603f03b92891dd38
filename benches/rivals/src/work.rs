//! The work: `mayfly bench lifecycle`, against any broker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use workload::{Bodies, Latency, Pace, Recorder};

use crate::broker::{Confirmed, Consumer, Error, Producer, Queue};

/// With no acknowledgement for so long after the last send, what is left will not come.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(250);
/// Acknowledgements of one consumer that are not confirmed yet: beyond, it takes no more.
const UNCONFIRMED_MAX: usize = 4096;

/// What to drive. The fields are those of `workload::LifecycleBench`.
#[derive(Clone, Debug)]
pub struct Work {
    pub producers: u32,
    pub consumers: u32,
    /// Messages of one producer that are not confirmed yet.
    pub window: usize,
    pub size: usize,
    /// Messages per second of all producers together; absent: as fast as they are confirmed.
    pub rate: Option<f64>,
    pub warm_up: Duration,
    pub measured: Duration,
}

/// What came of it: names and meanings of `workload::LifecycleReport`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub measured_seconds: f64,
    pub sent_per_second: f64,
    pub settled_per_second: f64,
    /// Due to be sent until in a consumer's hand.
    pub end_to_end: Latency,
    /// Due to be sent until confirmed.
    pub send: Latency,
    /// Acknowledgement handed over until confirmed, where the broker confirms it.
    pub settle: Latency,
    pub sent: u64,
    pub settled: u64,
    /// Confirmed, and not acknowledged by the end.
    pub left: u64,
    /// The first that went wrong.
    pub error: Option<String>,
}

/// What all tasks share.
struct Run {
    work: Work,
    bodies: Bodies,
    epoch: Instant,
    measure_from: Instant,
    measure_to: Instant,
    stop: AtomicBool,
    sent: AtomicU64,
    settled: AtomicU64,
    end_to_end: Mutex<Recorder>,
    send: Mutex<Recorder>,
    settle: Mutex<Recorder>,
    error: Mutex<Option<String>>,
}

impl Run {
    fn new(work: &Work) -> Run {
        let epoch = Instant::now();
        let measure_from = epoch + work.warm_up;
        Run {
            work: work.clone(),
            bodies: Bodies::new(work.size),
            epoch,
            measure_from,
            measure_to: measure_from + work.measured,
            stop: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            end_to_end: Mutex::default(),
            send: Mutex::default(),
            settle: Mutex::default(),
            error: Mutex::default(),
        }
    }

    fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.settled.load(Ordering::Relaxed))
    }

    fn record(&self, due: Instant, into: &Mutex<Recorder>) {
        if self.measure_from <= due && due < self.measure_to {
            locked(into).record(due.elapsed());
        }
    }

    fn failed(&self, error: Error) {
        locked(&self.error).get_or_insert(error.to_string());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Work {
    /// Drives the load, drains, deletes the queue.
    pub async fn run<Q: Queue>(&self, queue: Q) -> Result<Report, Error> {
        let result = self.drive(&queue).await;
        queue.delete().await?;
        result
    }

    async fn drive<Q: Queue>(&self, queue: &Q) -> Result<Report, Error> {
        let (mut taking, mut giving) = (Vec::new(), Vec::new());
        for _ in 0..self.consumers {
            taking.push(queue.consumer().await?);
        }
        for _ in 0..self.producers {
            giving.push(queue.producer().await?);
        }
        // The clock starts when everybody is connected.
        let run = Arc::new(Run::new(self));
        let mut consumers = JoinSet::new();
        for consumer in taking {
            consumers.spawn(consume(run.clone(), consumer));
        }
        let mut producers = JoinSet::new();
        for (index, producer) in giving.into_iter().enumerate() {
            producers.spawn(produce(run.clone(), producer, index));
        }

        tokio::time::sleep_until(run.measure_from.into()).await;
        let from = (Instant::now(), run.counts());
        tokio::time::sleep_until(run.measure_to.into()).await;
        let to = (Instant::now(), run.counts());

        run.stop.store(true, Ordering::Relaxed);
        while producers.join_next().await.is_some() {}
        drain(&run).await;
        consumers.shutdown().await;

        let seconds = (to.0 - from.0).as_secs_f64();
        let (sent, settled) = run.counts();
        Ok(Report {
            measured_seconds: seconds,
            sent_per_second: (to.1.0 - from.1.0) as f64 / seconds,
            settled_per_second: (to.1.1 - from.1.1) as f64 / seconds,
            end_to_end: locked(&run.end_to_end).summary(),
            send: locked(&run.send).summary(),
            settle: locked(&run.settle).summary(),
            sent,
            settled,
            left: sent.saturating_sub(settled),
            error: locked(&run.error).take(),
        })
    }
}

async fn produce(run: Arc<Run>, mut producer: impl Producer, index: usize) {
    // Each has a place in the window.
    let (submitted, answers) = mpsc::channel(run.work.window.max(1));
    let counting = {
        let run = run.clone();
        let confirmed = move |run: &Run, due| {
            run.sent.fetch_add(1, Ordering::Relaxed);
            run.record(due, &run.send);
        };
        tokio::spawn(count(run, answers, confirmed))
    };
    let window = Arc::new(Semaphore::new(run.work.window));
    let mut bodies = run.bodies.clone();
    let mut pace = run.work.rate.map(|rate| {
        // Producers take turns, so that together they are as even as one.
        let start = run.epoch + Duration::from_secs_f64(index as f64 / rate);
        Pace::new(start, rate / f64::from(run.work.producers))
    });
    while !run.stop.load(Ordering::Relaxed) {
        // Without a rate, nobody was due to send while the window was full.
        let (due, room) = match &mut pace {
            Some(pace) => {
                tokio::time::sleep_until(pace.due().into()).await;
                (pace.issue(), room(&window).await)
            }
            None => {
                let room = room(&window).await;
                (Instant::now(), room)
            }
        };
        let body = bodies.next(due.saturating_duration_since(run.epoch));
        let confirmed = match producer.send(body).await {
            Ok(confirmed) => confirmed,
            Err(error) => {
                run.failed(error);
                break;
            }
        };
        if submitted.send((due, confirmed, Some(room))).await.is_err() {
            break;
        }
    }
    drop(submitted);
    // It ends with its channel, after the last answer.
    let _ = counting.await;
}

async fn room(window: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    window.clone().acquire_owned().await.expect("nobody closes the window")
}

async fn consume(run: Arc<Run>, mut consumer: impl Consumer) {
    let (handed_over, answers) = mpsc::channel(UNCONFIRMED_MAX);
    let confirmed = |run: &Run, at| {
        run.settled.fetch_add(1, Ordering::Relaxed);
        run.record(at, &run.settle);
    };
    tokio::spawn(count(run.clone(), answers, confirmed));
    loop {
        match consumer.next().await {
            Ok((body, acknowledged)) => {
                if let Some(due) = run.bodies.due(&body) {
                    run.record(run.epoch + due, &run.end_to_end);
                }
                if handed_over.send((Instant::now(), acknowledged, None)).await.is_err() {
                    return;
                }
            }
            Err(error) => return run.failed(error),
        }
    }
}

type Answers = mpsc::Receiver<(Instant, Confirmed, Option<OwnedSemaphorePermit>)>;

/// Awaits confirmations, in whatever order they come, and notes each. Returns after the last.
async fn count(run: Arc<Run>, mut answers: Answers, confirmed: impl Fn(&Run, Instant)) {
    let mut waiting = FuturesUnordered::new();
    let mut open = true;
    while open || !waiting.is_empty() {
        tokio::select! {
            answer = answers.recv(), if open && waiting.len() < answers.max_capacity() => match answer {
                Some((at, confirmed, room)) => waiting.push(async move {
                    let result = confirmed.await;
                    drop(room);
                    (at, result)
                }),
                None => open = false,
            },
            Some((at, result)) = waiting.next(), if !waiting.is_empty() => match result {
                Ok(()) => confirmed(&run, at),
                Err(error) => run.failed(error),
            },
        }
    }
}

/// Waits until what was sent is acknowledged, or no more comes.
async fn drain(run: &Run) {
    let (mut last, mut moved_at) = (0, Instant::now());
    loop {
        let (sent, settled) = run.counts();
        if settled >= sent || moved_at.elapsed() > DRAIN_PATIENCE {
            return;
        }
        if settled > last {
            (last, moved_at) = (settled, Instant::now());
        }
        tokio::time::sleep(TICK).await;
    }
}
