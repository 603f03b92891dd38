//! One producer: a window of transfers without an outcome.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use amqp_protocol::codec::{
    Composite, DeliveryState, Encode, Outcome, Role, Tag, descriptor, write_descriptor,
};
use amqp_protocol::engine::{Event, Outgoing, Payload};
use amqp_protocol::message::Header;
use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use super::{Fronts, PAUSE};
use crate::lifecycle::{Run, pour};
use crate::{Bodies, Link, Lost, Pace, Recorder};

/// With no outcome for so long after the end, those that miss one are of unknown outcome.
const PATIENCE: Duration = Duration::from_secs(10);

pub(in crate::lifecycle) async fn produce(
    run: Arc<Run>,
    fronts: Fronts,
    queue: String,
    index: u32,
) {
    let rate = run.bench.rate.map(|rate| {
        // Producers take turns, so that together they are as even as one.
        let start = run.epoch + Duration::from_secs_f64(f64::from(index) / rate);
        Pace::new(start, rate / f64::from(run.bench.producers))
    });
    let mut producer = Producer {
        bodies: run.bodies.clone(),
        head: head(&run),
        rate,
        unanswered: 0,
        recorder: Recorder::default(),
        run,
    };
    while !producer.run.stopped() {
        if let Err(lost) = producer.drive(&fronts, &queue, index).await {
            let unknown = std::mem::take(&mut producer.unanswered) as u64;
            producer.run.errors.count_named(&lost.to_string(), unknown.max(1));
            tokio::time::sleep(PAUSE).await;
        }
    }
    pour(&producer.recorder, &producer.run.send);
}

/// All of a message before the bytes of its body, which are of one size.
fn head(run: &Run) -> Bytes {
    let mut out = BytesMut::new();
    if let Some(ttl) = run.bench.ttl {
        let ttl = Some(u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX));
        Header { ttl, ..Header::default() }.write(&mut out);
    }
    write_descriptor(&mut out, descriptor::DATA);
    Bytes::from(vec![0; run.bench.size]).encode(&mut out);
    out.truncate(out.len() - run.bench.size);
    out.freeze()
}

struct Producer {
    run: Arc<Run>,
    bodies: Bodies,
    head: Bytes,
    /// Absent: as fast as the window lets it.
    rate: Option<Pace>,
    unanswered: usize,
    recorder: Recorder,
}

impl Producer {
    /// One connection, until it is lost or the run is over.
    async fn drive(&mut self, fronts: &Fronts, queue: &str, index: u32) -> Result<(), Lost> {
        let mut link = fronts.open(queue, Role::Sender, index).await?;
        let mut answered_at = Instant::now();
        loop {
            let is_over = self.run.stopped();
            if is_over && (self.unanswered == 0 || answered_at.elapsed() > PATIENCE) {
                if self.unanswered > 0 {
                    self.run.errors.count_named("no outcome", self.unanswered as u64);
                }
                link.close().await;
                return Ok(());
            }
            if !is_over {
                self.send(&mut link)?;
            }
            self.turn(&mut link).await?;
            if self.take(&mut link)? > 0 || !is_over {
                answered_at = Instant::now();
            }
        }
    }

    /// Sends what is due, as far as window and credit reach.
    fn send(&mut self, link: &mut Link) -> Result<(), Lost> {
        while self.unanswered < self.run.bench.window && link.room() > 0 {
            let due = match &mut self.rate {
                None => Instant::now(),
                Some(pace) if pace.due() <= Instant::now() => pace.issue(),
                Some(_) => break,
            };
            let since = due.saturating_duration_since(self.run.epoch);
            let body = self.bodies.next(since);
            let outgoing = Outgoing {
                // Comes back with the outcome.
                tag: stamp(since),
                message_format: 0,
                settled: false,
                state: None,
                payload: Payload::new([self.head.clone(), body, Bytes::new(), Bytes::new()]),
            };
            link.send(&outgoing)?;
            self.unanswered += 1;
        }
        Ok(())
    }

    /// Writes and reads; at a rate, no longer than until the next is due.
    async fn turn(&self, link: &mut Link) -> Result<(), Lost> {
        let Some(pace) = &self.rate else { return link.turn().await };
        let has_room = self.unanswered < self.run.bench.window && link.room() > 0;
        if !has_room || self.run.stopped() {
            return link.turn().await;
        }
        let left = pace.due().saturating_duration_since(Instant::now());
        match timeout(left, link.turn()).await {
            Ok(turned) => turned,
            Err(_) => Ok(()),
        }
    }

    /// Counts the outcomes that have come.
    fn take(&mut self, link: &mut Link) -> Result<usize, Lost> {
        let (mut count, mut stored) = (0, 0);
        let now = Instant::now();
        while let Some(event) = link.poll()? {
            let Event::Disposed { tag, state, .. } = event else { continue };
            count += 1;
            self.unanswered = self.unanswered.saturating_sub(1);
            match state {
                Some(DeliveryState::Outcome(Outcome::Accepted)) => {
                    stored += 1;
                    let due = self.run.epoch + since(&tag);
                    if self.run.is_measured(due) {
                        self.recorder.record(now.saturating_duration_since(due));
                    }
                }
                Some(DeliveryState::Outcome(Outcome::Rejected(Some(error)))) => {
                    self.run.errors.count_named(&error.condition, 1);
                }
                other => self.run.errors.count_named(&format!("outcome {other:?}"), 1),
            }
        }
        self.run.sent.fetch_add(stored, Ordering::Relaxed);
        Ok(count)
    }
}

/// When a message was due, as its delivery's tag.
fn stamp(since: Duration) -> Tag {
    let ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    Tag::new(&ns.to_be_bytes()).unwrap_or_default()
}

fn since(tag: &Tag) -> Duration {
    let ns = tag.as_bytes().try_into().map_or(0, u64::from_be_bytes);
    Duration::from_nanos(ns)
}
