//! One producer: messages as fast as the window lets them, or as their times come.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use client::{Client, Message, Sender, SenderOptions, Sending};
use rand::Rng;
use tokio::sync::mpsc;

use super::{Run, pour};
use crate::{Pace, Recorder};

/// At the head of each body: when it was due (ns since the run's start) and who sent it.
pub(super) const STAMP_BYTES: usize = 16;
/// Random bytes that bodies are cut from, so that no compression flatters the figures.
const NOISE_BYTES: usize = 1 << 20;

pub(super) async fn produce(run: Arc<Run>, client: Client, queue: String, index: u32) {
    let options = SenderOptions { window: run.bench.window, ..SenderOptions::default() };
    let sender = client.sender(queue, options);
    let (submitted, answers) = mpsc::unbounded_channel();
    let counting = tokio::spawn(count_answers(run.clone(), answers));

    let bodies = Bodies::new(run.bench.size, index);
    match run.bench.rate {
        Some(rate) => open_loop(&run, &sender, bodies, &submitted, rate, index).await,
        None => closed_loop(&run, &sender, bodies, &submitted).await,
    }
    drop(submitted);
    sender.close().await;
    // It ends with its channel; its counts are in the run.
    let _ = counting.await;
}

type Submitted = mpsc::UnboundedSender<(Instant, Sending)>;

async fn closed_loop(run: &Run, sender: &Sender, mut bodies: Bodies, submitted: &Submitted) {
    while !run.stopped() {
        // The window's wait comes before the stamp: nobody was due to send meanwhile.
        if sender.room() == 0 {
            sender.wait_for_room().await;
        }
        if !submit(run, sender, &mut bodies, Instant::now(), submitted).await {
            return;
        }
    }
}

async fn open_loop(
    run: &Run,
    sender: &Sender,
    mut bodies: Bodies,
    submitted: &Submitted,
    rate: f64,
    index: u32,
) {
    let producers = f64::from(run.bench.producers);
    // Producers take turns, so that together they are as even as one.
    let start = run.epoch + Duration::from_secs_f64(f64::from(index) / rate);
    let mut pace = Pace::new(start, rate / producers);
    while !run.stopped() {
        tokio::time::sleep_until(pace.due().into()).await;
        if !submit(run, sender, &mut bodies, pace.issue(), submitted).await {
            return;
        }
    }
}

/// `false`: the sender is closed.
async fn submit(
    run: &Run,
    sender: &Sender,
    bodies: &mut Bodies,
    due: Instant,
    submitted: &Submitted,
) -> bool {
    let mut message = Message::new(bodies.next(due.saturating_duration_since(run.epoch)));
    if let Some(ttl) = run.bench.ttl {
        message = message.ttl(ttl);
    }
    match sender.submit(vec![message]).await {
        Ok(sending) => submitted.send((due, sending)).is_ok(),
        Err(error) => {
            run.errors.count(&error, 1);
            false
        }
    }
}

async fn count_answers(run: Arc<Run>, mut answers: mpsc::UnboundedReceiver<(Instant, Sending)>) {
    let mut recorder = Recorder::default();
    while let Some((due, sending)) = answers.recv().await {
        match sending.await {
            Ok(_) => {
                run.sent.fetch_add(1, Ordering::Relaxed);
                if run.is_measured(due) {
                    recorder.record(due.elapsed());
                }
            }
            Err(error) => run.errors.count(&error, 1),
        }
    }
    pour(&recorder, &run.send);
}

/// Bodies of one producer.
pub(super) struct Bodies {
    noise: Vec<u8>,
    size: usize,
    producer: u32,
    number: u32,
}

impl Bodies {
    pub fn new(size: usize, producer: u32) -> Bodies {
        let mut noise = vec![0; NOISE_BYTES.max(2 * size)];
        rand::rng().fill_bytes(&mut noise);
        Bodies { noise, size, producer, number: 0 }
    }

    pub fn next(&mut self, due: Duration) -> Bytes {
        let filling = self.size - STAMP_BYTES;
        // Steps by a prime: two bodies near each other share no bytes.
        let at = (self.number as usize).wrapping_mul(7919 + filling) % (self.noise.len() - filling);
        let mut body = BytesMut::with_capacity(self.size);
        body.put_u64(u64::try_from(due.as_nanos()).unwrap_or(u64::MAX));
        body.put_u32(self.producer);
        body.put_u32(self.number);
        body.put_slice(&self.noise[at..at + filling]);
        self.number = self.number.wrapping_add(1);
        body.freeze()
    }
}

/// When the message was due, since the run's start.
pub(super) fn due(body: &[u8]) -> Option<Duration> {
    let stamp: [u8; 8] = body.get(..8)?.try_into().ok()?;
    Some(Duration::from_nanos(u64::from_be_bytes(stamp)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_size_and_tells_when_it_was_due() {
        for size in [STAMP_BYTES, 17, 1024, NOISE_BYTES] {
            let mut bodies = Bodies::new(size, 3);
            for _ in 0..3 {
                let body = bodies.next(Duration::from_millis(1234));
                assert_eq!(body.len(), size);
                assert_eq!(due(&body), Some(Duration::from_millis(1234)));
            }
        }
        assert_eq!(due(b"short"), None);
    }
}
