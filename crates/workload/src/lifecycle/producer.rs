//! One producer: messages as fast as the window lets them, or as their times come.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use client::{Client, Message, Sender, SenderOptions, Sending};
use tokio::sync::mpsc;

use super::{Run, pour};
use crate::{Bodies, Pace, Recorder};

pub(super) async fn produce(run: Arc<Run>, client: Client, queue: String, index: u32) {
    let options = SenderOptions { window: run.bench.window, ..SenderOptions::default() };
    let sender = client.sender(queue, options);
    // No more can be unanswered; what is answered and not counted yet is waited for.
    let (submitted, answers) = mpsc::channel(run.bench.window.max(1));
    let counting = tokio::spawn(count_answers(run.clone(), answers));

    let bodies = run.bodies.clone();
    match run.bench.rate {
        Some(rate) => open_loop(&run, &sender, bodies, &submitted, rate, index).await,
        None => closed_loop(&run, &sender, bodies, &submitted).await,
    }
    drop(submitted);
    sender.close().await;
    // It ends with its channel; its counts are in the run.
    let _ = counting.await;
}

type Submitted = mpsc::Sender<(Instant, Sending)>;

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
        Ok(sending) => submitted.send((due, sending)).await.is_ok(),
        Err(error) => {
            run.errors.count(&error, 1);
            false
        }
    }
}

async fn count_answers(run: Arc<Run>, mut answers: mpsc::Receiver<(Instant, Sending)>) {
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
