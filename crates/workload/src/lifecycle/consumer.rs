//! One consumer: takes what has arrived and completes it, one settlement per message.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use client::{Client, Delivery, Disposition, ReceiverOptions, Settling};
use tokio::sync::mpsc;

use super::Run;
use crate::Pace;

/// Settlements, each of all that had arrived, whose answers wait to be counted: beyond, the consumer
/// takes no more until the oldest is answered.
const UNCOUNTED_MAX: usize = 4096;

pub(super) async fn consume(run: Arc<Run>, client: Client, queue: String) {
    let options = ReceiverOptions { prefetch: run.bench.prefetch, ..ReceiverOptions::default() };
    let mut receiver = client.receiver(queue, options);
    let (handed_over, answers) = mpsc::channel(UNCOUNTED_MAX);
    // Ends with its channel, after the last answer.
    tokio::spawn(count_answers(run.clone(), answers));
    let mut ration = Ration::of(&run);
    loop {
        let count = ration.wait().await.min(run.bench.prefetch as usize);
        match receiver.recv_many(count).await {
            Ok(deliveries) => {
                ration.take(deliveries.len());
                note(&run, &deliveries);
                let settling = receiver.settle_all(&deliveries, Disposition::Complete);
                if handed_over.send((Instant::now(), deliveries.len(), settling)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                run.errors.count(&error, 1);
                if matches!(error, client::Error::Refused(_)) {
                    return;
                }
            }
        }
    }
}

/// How many messages a consumer may take by now. From a queue of its own, all there are; from one
/// that was given, which may hold millions, as many as are sent meanwhile.
struct Ration(Option<Pace>);

impl Ration {
    fn of(run: &Run) -> Ration {
        let rate = run.bench.rate.filter(|_| run.bench.queue.is_some());
        let each = rate.map(|rate| rate / f64::from(run.bench.consumers));
        Ration(each.map(|each| Pace::new(run.epoch, each)))
    }

    /// Waits until it is at least one.
    async fn wait(&self) -> usize {
        let Some(pace) = &self.0 else { return usize::MAX };
        tokio::time::sleep_until(pace.due().into()).await;
        pace.overdue(Instant::now()).max(1)
    }

    fn take(&mut self, count: usize) {
        if let Some(pace) = &mut self.0 {
            for _ in 0..count {
                pace.issue();
            }
        }
    }
}

fn note(run: &Run, deliveries: &[Delivery]) {
    let now = Instant::now();
    let mut recorder = run.end_to_end.lock().unwrap_or_else(|poison| poison.into_inner());
    run.delivered.fetch_add(deliveries.len() as u64, Ordering::Relaxed);
    for delivery in deliveries {
        let due = run.bodies.due(delivery.body()).map(|since| run.epoch + since);
        if let Some(due) = due.filter(|due| run.is_measured(*due)) {
            recorder.record(now.saturating_duration_since(due));
        }
    }
}

async fn count_answers(run: Arc<Run>, mut answers: mpsc::Receiver<(Instant, usize, Settling)>) {
    while let Some((at, count, settling)) = answers.recv().await {
        let failures = settling.failures().await;
        let failed = failures.len().min(count) as u64;
        run.settled.fetch_add(count as u64 - failed, Ordering::Relaxed);
        run.unsettled.fetch_add(failed, Ordering::Relaxed);
        for (_, error) in &failures {
            run.errors.count(error, 1);
        }
        if run.is_measured(at) {
            let took = at.elapsed();
            let mut recorder = run.settle.lock().unwrap_or_else(|poison| poison.into_inner());
            for _ in 0..count {
                recorder.record(took);
            }
        }
    }
}
