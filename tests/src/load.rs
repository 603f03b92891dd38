//! Producers and consumers on one queue, and the checker that watches them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::v1::SubQueue;
use client::{Client, Delivery, Disposition, Error, Message, ReceiverOptions, SenderOptions};
use tokio::task::JoinSet;
use workload::{Checker, Verdict};

#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    pub producers: u64,
    pub consumers: u64,
    pub body_bytes: usize,
    pub lock_duration: Duration,
    pub max_delivery_count: u32,
    /// Every so many-th message gets this TTL; the queue dead-letters what expires.
    pub ttl_every: u64,
    pub ttl: Duration,
    /// Every so many-th delivery is abandoned.
    pub abandon_every: u64,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            producers: 2,
            consumers: 2,
            body_bytes: 512,
            lock_duration: Duration::from_secs(5),
            max_delivery_count: 20,
            ttl_every: 7,
            ttl: Duration::from_millis(300),
            abandon_every: 50,
        }
    }
}

/// A run in progress.
pub struct Load {
    queue: String,
    client: Client,
    checker: Arc<Mutex<Checker>>,
    stop_sending: Arc<AtomicBool>,
    stop_receiving: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    settled: Arc<AtomicU64>,
    longest_gap_ms: Arc<AtomicU64>,
    producers: JoinSet<()>,
    consumers: JoinSet<()>,
}

impl Load {
    /// Creates the queue and starts to send to and receive from it.
    pub async fn start(client: &Client, queue: &str, options: LoadOptions) -> anyhow::Result<Load> {
        let properties = client::v1::QueueProperties {
            lock_duration_ms: Some(options.lock_duration.as_millis() as u64),
            max_delivery_count: Some(options.max_delivery_count),
            dead_letter_on_expiration: Some(true),
            ..Default::default()
        };
        client.create_queue(queue, properties).await?;
        let lock_ms = options.lock_duration.as_millis() as u64;
        let mut load = Load {
            queue: queue.to_owned(),
            client: client.clone(),
            checker: Arc::new(Mutex::new(Checker::new(lock_ms, options.max_delivery_count))),
            stop_sending: Arc::default(),
            stop_receiving: Arc::default(),
            sent: Arc::default(),
            settled: Arc::default(),
            longest_gap_ms: Arc::default(),
            producers: JoinSet::new(),
            consumers: JoinSet::new(),
        };
        for producer in 0..options.producers {
            load.producers.spawn(load.produce(producer, options));
        }
        for _ in 0..options.consumers {
            load.consumers.spawn(load.consume(options));
        }
        Ok(load)
    }

    /// Messages acknowledged so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Messages completed so far.
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// The longest time between two acknowledged sends of one producer so far.
    pub fn longest_gap(&self) -> Duration {
        Duration::from_millis(self.longest_gap_ms.load(Ordering::Relaxed))
    }

    fn produce(&self, producer: u64, options: LoadOptions) -> impl Future<Output = ()> + use<> {
        let sender = self
            .client
            .sender(&self.queue, SenderOptions { window: 32, ..SenderOptions::default() });
        let (checker, stop) = (self.checker.clone(), self.stop_sending.clone());
        let (sent, gap) = (self.sent.clone(), self.longest_gap_ms.clone());
        async move {
            let mut last = Instant::now();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let batch: Vec<String> =
                    (0..16).map(|part| format!("{producer}-{number}-{part}")).collect();
                let messages = batch.iter().enumerate().map(|(part, id)| {
                    lock(&checker).submitted(id, false);
                    let message =
                        Message::new(vec![b'm'; options.body_bytes]).message_id(id.clone());
                    match (number * 16 + part as u64) % options.ttl_every {
                        0 => message.ttl(options.ttl),
                        _ => message,
                    }
                });
                let result = match sender.submit(messages.collect()).await {
                    Ok(sending) => sending.await,
                    Err(error) => Err(error),
                };
                let mut checker = lock(&checker);
                match result {
                    Ok(_) => {
                        batch.iter().for_each(|id| checker.acknowledged(id));
                        sent.fetch_add(batch.len() as u64, Ordering::Relaxed);
                        gap.fetch_max(last.elapsed().as_millis() as u64, Ordering::Relaxed);
                        last = Instant::now();
                    }
                    Err(Error::PerhapsDone(_)) => (),
                    Err(_) => batch.iter().for_each(|id| checker.refused(id)),
                }
            }
        }
    }

    fn consume(&self, options: LoadOptions) -> impl Future<Output = ()> + use<> {
        let receiving = ReceiverOptions { prefetch: 64, ..ReceiverOptions::default() };
        let mut receiver = self.client.receiver(&self.queue, receiving);
        let (checker, stop) = (self.checker.clone(), self.stop_receiving.clone());
        let settled = self.settled.clone();
        async move {
            let mut count = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let wait = Duration::from_millis(200);
                let received = tokio::time::timeout(wait, receiver.recv_many(64)).await;
                let Ok(Ok(deliveries)) = received else { continue };
                let (mut done, mut returned) = (Vec::new(), Vec::new());
                for delivery in deliveries {
                    count += 1;
                    delivered(&mut lock(&checker), &delivery);
                    match count % options.abandon_every {
                        0 => returned.push(delivery),
                        _ => done.push(delivery),
                    }
                }
                for delivery in &returned {
                    // Whatever comes of it, the lock is not counted on any more.
                    lock(&checker).given_up(id(delivery));
                }
                let abandon = receiver.settle_all(&returned, Disposition::Abandon);
                let complete = receiver.settle_all(&done, Disposition::Complete);
                let failures = complete.failures().await;
                abandon.failures().await;
                for delivery in &done {
                    let failure =
                        failures.iter().find(|(token, _)| *token == delivery.lock_token());
                    let mut checker = lock(&checker);
                    match failure {
                        None => {
                            checker.settled(id(delivery));
                            settled.fetch_add(1, Ordering::Relaxed);
                        }
                        Some((_, Error::PerhapsDone(_))) => {
                            checker.perhaps_settled(id(delivery));
                        }
                        Some(_) => (),
                    }
                }
            }
            receiver.close().await;
        }
    }

    /// Stops sending, lets consumers empty the queue, and accounts for everything.
    pub async fn finish(mut self) -> anyhow::Result<Verdict> {
        self.stop_sending.store(true, Ordering::Relaxed);
        while let Some(producer) = self.producers.join_next().await {
            producer?;
        }
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let queue = self.client.get_queue(&self.queue).await?;
            let counters = queue.counters.unwrap_or_default();
            if counters.active == 0 {
                break;
            }
            anyhow::ensure!(Instant::now() < until, "the queue does not empty: {counters:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.stop_receiving.store(true, Ordering::Relaxed);
        while let Some(consumer) = self.consumers.join_next().await {
            consumer?;
        }
        self.empty_dead_letters().await?;
        let counters = self.client.get_queue(&self.queue).await?.counters.unwrap_or_default();
        let verdict = lock(&self.checker).verdict();
        let accounted = counters.completed + counters.active + counters.dead_lettered;
        anyhow::ensure!(
            counters.accepted == accounted && counters.active == 0,
            "COUNT-5: the queue's counters do not balance: {counters:?}"
        );
        let known = verdict.acknowledged + verdict.unknown;
        anyhow::ensure!(
            (verdict.acknowledged..=known).contains(&counters.accepted),
            "accepted {} of {} acknowledged and {} unknown sends",
            counters.accepted,
            verdict.acknowledged,
            verdict.unknown
        );
        Ok(verdict)
    }

    async fn empty_dead_letters(&self) -> anyhow::Result<()> {
        let now = self.client.now().await?.now_ms;
        let options = ReceiverOptions { sub_queue: SubQueue::DeadLetter, ..Default::default() };
        let mut receiver = self.client.receiver(&self.queue, options);
        loop {
            let wait = Duration::from_secs(2);
            let Ok(received) = tokio::time::timeout(wait, receiver.recv_many(256)).await else {
                receiver.close().await;
                return Ok(());
            };
            let deliveries = received?;
            for delivery in &deliveries {
                let reason = delivery.text_property("DeadLetterReason").unwrap_or("none");
                let expires = delivery.expires_at_ms();
                lock(&self.checker).dead_lettered(id(delivery), reason, expires, now);
            }
            let completed = receiver.settle_all(&deliveries, Disposition::Complete);
            if let Some((_, error)) = completed.failures().await.into_iter().next() {
                return Err(error.into());
            }
        }
    }
}

fn id(delivery: &Delivery) -> &str {
    delivery.message_id().unwrap_or_default()
}

fn delivered(checker: &mut Checker, delivery: &Delivery) {
    checker.delivered(
        id(delivery),
        delivery.sequence_number(),
        delivery.locked_until_ms().unwrap_or_default(),
        delivery.expires_at_ms(),
    );
}

fn lock(checker: &Mutex<Checker>) -> std::sync::MutexGuard<'_, Checker> {
    checker.lock().expect("no task panics while it holds the checker")
}
