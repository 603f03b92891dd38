//! One consumer: completes what comes, and waits for no answer before it takes the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use amqp_protocol::codec::{DeliveryState, Outcome, Role};
use amqp_protocol::engine::{Delivery, DeliveryId, Event};

use super::{Fronts, PAUSE};
use crate::lifecycle::Run;
use crate::{Link, Lost, Recorder};

pub(in crate::lifecycle) async fn consume(
    run: Arc<Run>,
    fronts: Fronts,
    queue: String,
    index: u32,
) {
    loop {
        let mut consumer = Consumer { run: run.clone(), completing: VecDeque::new() };
        if let Err(lost) = consumer.drive(&fronts, &queue, index).await {
            // Perhaps settled: what was not comes again, and is settled then.
            run.errors.count_named(&lost.to_string(), 1);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

struct Consumer {
    run: Arc<Run>,
    /// Not answered yet, in the order they were completed, and since when.
    completing: VecDeque<(DeliveryId, Instant)>,
}

impl Consumer {
    /// One connection, until it is lost.
    async fn drive(&mut self, fronts: &Fronts, queue: &str, index: u32) -> Result<(), Lost> {
        let mut link = fronts.open(queue, Role::Receiver, index).await?;
        let prefetch = self.run.bench.prefetch;
        link.grant(prefetch)?;
        loop {
            link.turn().await?;
            self.take(&mut link)?;
        }
    }

    /// Completes what has come, and counts what was answered.
    fn take(&mut self, link: &mut Link) -> Result<(), Lost> {
        let run = self.run.clone();
        let now = Instant::now();
        let mut end_to_end = run.end_to_end.lock().unwrap_or_else(|poison| poison.into_inner());
        let mut settle = run.settle.lock().unwrap_or_else(|poison| poison.into_inner());
        while let Some(event) = link.poll()? {
            match event {
                Event::Delivery(delivery) => {
                    self.note(&delivery, now, &mut end_to_end);
                    self.completing.push_back((delivery.id, now));
                    link.propose(delivery.id, DeliveryState::ACCEPTED)?;
                }
                Event::Settled { id, state } => self.answered(id, state, now, &mut settle),
                _ => {}
            }
        }
        Ok(())
    }

    fn note(&self, delivery: &Delivery, now: Instant, recorder: &mut Recorder) {
        self.run.delivered.fetch_add(1, Ordering::Relaxed);
        // The body is the last section, and of one size.
        let payload = delivery.payload.as_deref().unwrap_or_default();
        let body = &payload[payload.len().saturating_sub(self.run.bench.size)..];
        let due = self.run.bodies.due(body).map(|since| self.run.epoch + since);
        if let Some(due) = due.filter(|due| self.run.is_measured(*due)) {
            recorder.record(now.saturating_duration_since(due));
        }
    }

    fn answered(
        &mut self,
        id: DeliveryId,
        state: Option<DeliveryState>,
        now: Instant,
        recorder: &mut Recorder,
    ) {
        // Answers come in about the order they were asked for.
        let at = self.completing.iter().position(|(of, _)| *of == id);
        let Some((_, since)) = at.and_then(|at| self.completing.remove(at)) else { return };
        match state {
            Some(DeliveryState::Outcome(Outcome::Accepted)) => {
                self.run.settled.fetch_add(1, Ordering::Relaxed);
                if self.run.is_measured(since) {
                    recorder.record(now.saturating_duration_since(since));
                }
            }
            refused => {
                self.run.unsettled.fetch_add(1, Ordering::Relaxed);
                let name = match refused {
                    Some(DeliveryState::Outcome(Outcome::Rejected(Some(error)))) => {
                        error.condition.to_string()
                    }
                    other => format!("answer {other:?}"),
                };
                self.run.errors.count_named(&name, 1);
            }
        }
    }
}
