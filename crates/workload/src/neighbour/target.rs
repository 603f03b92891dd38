//! The queue that is struck.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Client, Message, QueuePath, ReceiverOptions, v1};
use tokio::task::JoinSet;

use super::{Disturbance, NeighbourBench, TICK};
use crate::fill::{self, Fill};
use crate::{Error, Progress};

/// With nothing done for so long, the rest will not be done.
const PATIENCE: Duration = Duration::from_secs(30);
/// Queues are created until one shares the neighbour's group: placement evens groups out.
const TRIES_MAX: usize = 256;
/// Messages of one batch delete (BATCH-1).
const PURGE_BATCH: u32 = 4000;
/// What the filling takes at most, by experience, for deadlines that are chosen before it.
const FILLED_PER_SECOND: u64 = 10_000;
/// The quiet time before the strike is at least this.
const QUIET: Duration = Duration::from_secs(5);
/// The smallest default time to live a queue may have (ENT-3).
const DEFAULT_TTL_MIN_MS: u64 = 1000;
const MILLISECOND: Duration = Duration::from_millis(1);

pub(super) struct Target {
    pub disturbance: Disturbance,
    pub queue: String,
    messages: u64,
    size: usize,
}

impl Target {
    /// Creates it in the neighbour's group: a new entity goes to the emptiest group, so others are
    /// filled up until that is the neighbour's turn.
    pub async fn create(
        bench: &NeighbourBench,
        disturbance: Disturbance,
        client: &Client,
        neighbour: &v1::Queue,
    ) -> Result<Target, Error> {
        let properties =
            v1::QueueProperties { max_size_megabytes: Some(81_920), ..Default::default() };
        let mut elsewhere = Vec::new();
        let mut found = None;
        for attempt in 0..TRIES_MAX {
            let name = format!("{}-{}-{attempt}", neighbour.name, disturbance.name());
            let created = client.create_queue(&name, properties.clone()).await?;
            if created.group == neighbour.group {
                found = Some(name);
                break;
            }
            elsewhere.push(name);
        }
        for name in elsewhere {
            client.delete_queue(&name).await?;
        }
        let queue = found.ok_or_else(|| {
            Error::Wrong("no queue came into the neighbour's group: too many entities".to_owned())
        })?;
        Ok(Target { disturbance, queue, messages: bench.messages, size: bench.size })
    }

    /// Fills it. The strike comes at the instant returned.
    pub async fn fill(&self, client: &Client, progress: &Progress) -> Result<Instant, Error> {
        let planned = Duration::from_secs(self.messages / FILLED_PER_SECOND) + QUIET;
        let due = Instant::now() + planned;
        let due_ms = client.now().await?.now_ms + planned.as_millis() as u64;
        let filled = Arc::new(Fill::default());
        let mut fillers = JoinSet::new();
        for share in fill::shares(self.messages) {
            let (client, filled) = (client.clone(), filled.clone());
            let (queue, message) = (self.queue.clone(), self.message(due, due_ms));
            fillers.spawn(async move { filled.run(client, queue, share, message).await });
        }
        while !fillers.is_empty() {
            tokio::time::sleep(TICK).await;
            while fillers.try_join_next().is_some() {}
            let share = filled.sent() as f64 / self.messages as f64;
            let figures = format!("{} of {} sent", filled.sent(), self.messages);
            progress.tell(&format!("for {}", self.disturbance.name()), share, &figures);
        }
        if filled.sent() < self.messages {
            let errors = filled.errors.counted();
            return Err(Error::Wrong(format!("the queue could not be filled: {errors:?}")));
        }
        Ok(match self.disturbance {
            Disturbance::Expire | Disturbance::Activate => due.max(Instant::now()),
            Disturbance::Default | Disturbance::Purge | Disturbance::Delete => {
                Instant::now() + QUIET
            }
        })
    }

    fn message(&self, due: Instant, due_ms: u64) -> impl FnMut() -> Message + Send + 'static {
        let (disturbance, body) = (self.disturbance, Bytes::from(vec![b'x'; self.size]));
        move || {
            let message = Message::new(body.clone());
            match disturbance {
                Disturbance::Expire => {
                    message.ttl(due.saturating_duration_since(Instant::now()).max(MILLISECOND))
                }
                Disturbance::Activate => message.scheduled_at_ms(due_ms),
                Disturbance::Default | Disturbance::Purge | Disturbance::Delete => message,
            }
        }
    }

    /// Does it, and waits until it is done. Returns how many messages were left untouched.
    pub async fn carry_out(&self, client: &Client, progress: &Progress) -> Result<u64, Error> {
        match self.disturbance {
            Disturbance::Delete => {
                client.delete_queue(&self.queue).await?;
                Ok(0)
            }
            Disturbance::Purge => {
                let path = QueuePath { queue: self.queue.clone(), sub_queue: v1::SubQueue::Main };
                while client.delete_batch(&path, PURGE_BATCH, None).await? > 0 {
                    self.left(client, progress).await?;
                }
                self.left(client, progress).await
            }
            Disturbance::Expire => {
                // It waits behind everything that is past its time, save the few messages whose time
                // began late in the filling and is not over yet.
                let mut receiver = client.receiver(&self.queue, ReceiverOptions::default());
                let receiving = async {
                    loop {
                        let delivery = receiver.recv().await?;
                        receiver.complete(&delivery).failures().await;
                    }
                };
                tokio::select! {
                    left = self.wait(client, progress) => left,
                    failed = receiving => failed,
                }
            }
            Disturbance::Activate => self.wait(client, progress).await,
            Disturbance::Default => {
                // The least there is; all messages are older by now, or soon will be.
                let ttl = Some(DEFAULT_TTL_MIN_MS);
                let shorter = v1::QueueProperties { default_ttl_ms: ttl, ..Default::default() };
                client.update_queue(&self.queue, shorter).await?;
                self.wait(client, progress).await
            }
        }
    }

    /// Waits until none is left or nothing is done any more.
    async fn wait(&self, client: &Client, progress: &Progress) -> Result<u64, Error> {
        let (mut last, mut moved_at) = (u64::MAX, Instant::now());
        loop {
            let left = self.left(client, progress).await?;
            if left < last {
                (last, moved_at) = (left, Instant::now());
            }
            if left == 0 || moved_at.elapsed() > PATIENCE {
                return Ok(left);
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Messages that the disturbance concerns and has not reached.
    async fn left(&self, client: &Client, progress: &Progress) -> Result<u64, Error> {
        let counters = client.get_queue(&self.queue).await?.counters.unwrap_or_default();
        let left = match self.disturbance {
            Disturbance::Activate => counters.scheduled,
            _ => counters.active,
        };
        let share = 1.0 - left as f64 / self.messages as f64;
        progress.tell(self.disturbance.name(), share, &format!("{left} left"));
        Ok(left)
    }
}
