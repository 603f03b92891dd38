//! The steady use of the neighbour: messages at a fixed rate, each received and completed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use client::{Client, Disposition, Message, Receiver, ReceiverOptions, SenderOptions, Sending};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::report::Errors;
use crate::{Pace, Recorder};

const WINDOW: usize = 4096;
const PREFETCH: u32 = 256;
/// What is still under way after this, at the end, is left.
const DRAIN: Duration = Duration::from_secs(2);

/// Latencies of one phase.
#[derive(Default)]
pub(super) struct Phase {
    /// Due to be sent until acknowledged.
    pub send: Recorder,
    /// Due to be sent until received.
    pub end_to_end: Recorder,
}

#[derive(Default)]
struct Shared {
    phase: Mutex<Phase>,
    errors: Errors,
    stop: AtomicBool,
}

impl Shared {
    fn record(&self, record: impl FnOnce(&mut Phase)) {
        record(&mut self.phase.lock().unwrap_or_else(|poison| poison.into_inner()));
    }
}

/// A load under way.
pub(super) struct Load {
    shared: Arc<Shared>,
    producer: JoinHandle<()>,
    consumer: JoinHandle<()>,
}

impl Load {
    pub fn start(client: &Client, queue: &str, rate: f64, size: usize) -> Load {
        let shared = Arc::new(Shared::default());
        let epoch = Instant::now();
        let receiver = client
            .receiver(queue, ReceiverOptions { prefetch: PREFETCH, ..ReceiverOptions::default() });
        let consumer = tokio::spawn(consume(shared.clone(), receiver, epoch));
        let sender = client.sender(queue, SenderOptions { window: WINDOW, ..Default::default() });
        let producer = tokio::spawn(produce(shared.clone(), sender, epoch, rate, size));
        Load { shared, producer, consumer }
    }

    /// Ends a phase and begins the next: what was recorded in it. A message counts for the phase in
    /// which it was answered or received.
    pub fn turn(&self) -> Phase {
        let mut phase = Phase::default();
        self.shared.record(|current| std::mem::swap(current, &mut phase));
        phase
    }

    /// Stops sending, and says what went wrong.
    pub async fn stop(self) -> BTreeMap<String, u64> {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A panic of the task was already reported by the runtime.
        let _ = self.producer.await;
        tokio::time::sleep(DRAIN).await;
        self.consumer.abort();
        self.shared.errors.counted()
    }
}

async fn produce(
    shared: Arc<Shared>,
    sender: client::Sender,
    epoch: Instant,
    rate: f64,
    size: usize,
) {
    // No more can be unanswered; what is answered and not counted yet is waited for.
    let (submitted, mut answers) = mpsc::channel::<(Instant, Sending)>(WINDOW);
    let counting = {
        let shared = shared.clone();
        tokio::spawn(async move {
            while let Some((due, sending)) = answers.recv().await {
                match sending.await {
                    Ok(_) => shared.record(|phase| phase.send.record(due.elapsed())),
                    Err(error) => shared.errors.count(&error, 1),
                }
            }
        })
    };
    let mut pace = Pace::new(epoch, rate);
    while !shared.stop.load(Ordering::Relaxed) {
        tokio::time::sleep_until(pace.due().into()).await;
        let due = pace.issue();
        match sender.submit(vec![Message::new(body(due - epoch, size))]).await {
            Ok(sending) => drop(submitted.send((due, sending)).await),
            Err(error) => {
                shared.errors.count(&error, 1);
                break;
            }
        }
    }
    drop(submitted);
    sender.close().await;
    // It ends with its channel.
    let _ = counting.await;
}

async fn consume(shared: Arc<Shared>, mut receiver: Receiver, epoch: Instant) {
    loop {
        match receiver.recv_many(PREFETCH as usize).await {
            Ok(deliveries) => {
                let now = Instant::now();
                shared.record(|phase| {
                    for due in deliveries.iter().filter_map(|delivery| due(delivery.body())) {
                        phase.end_to_end.record(now.saturating_duration_since(epoch + due));
                    }
                });
                let settling = receiver.settle_all(&deliveries, Disposition::Complete);
                let shared = shared.clone();
                tokio::spawn(async move {
                    for (_, error) in settling.failures().await {
                        shared.errors.count(&error, 1);
                    }
                });
            }
            Err(error) => {
                shared.errors.count(&error, 1);
                if matches!(error, client::Error::Refused(_)) {
                    return;
                }
            }
        }
    }
}

/// A body that tells when it was due.
fn body(due: Duration, size: usize) -> Bytes {
    let mut body = BytesMut::with_capacity(size.max(8));
    body.put_u64(u64::try_from(due.as_nanos()).unwrap_or(u64::MAX));
    body.resize(size.max(8), b'n');
    body.freeze()
}

fn due(body: &[u8]) -> Option<Duration> {
    body.first_chunk().map(|stamp| Duration::from_nanos(u64::from_be_bytes(*stamp)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_tells_when_it_was_due() {
        for size in [0, 8, 1024] {
            let body = body(Duration::from_millis(1234), size);
            assert_eq!(body.len(), size.max(8));
            assert_eq!(due(&body), Some(Duration::from_millis(1234)));
        }
        assert_eq!(due(b"short"), None);
    }
}
