//! Producers and consumers that all workloads share.

use std::time::{Duration, Instant};

use client::{Delivery, Disposition, Error, Message, QueuePath, Receiver, ReceiverOptions, v1};
use tokio::task::JoinSet;

use super::{Bench, Phase};
use crate::history::{Answer, Delivered, How, Sent, What};

/// How long a consumer waits before it looks whether the run is over.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Before another receiver is opened in the place of one that was refused.
const REOPEN_AFTER: Duration = Duration::from_millis(200);
/// Fetched ahead: few, so that a worker is seldom handed what has lapsed meanwhile.
const PREFETCH: u32 = 8;

/// What a worker does with a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Settle(How),
    /// After so long.
    Later(Duration, How),
    /// Renews the lock in time, and completes after it would have lapsed.
    Renew,
    /// Leaves with it, and tries to complete it when its lock is long over.
    Crash,
}

/// Sends what `make` makes of each number from 0 on, at the bench's pace, until the bench drains.
pub async fn produce(mut bench: Bench, entity: String, mut make: impl FnMut(u64) -> Vec<Sent>) {
    let mut count = 0;
    let mut due = Instant::now();
    loop {
        // What an answer took is no pause; but what an outage took is not made up for.
        due = (due + bench.pace.pause).max(Instant::now() - bench.pace.pause);
        let pause = due.saturating_duration_since(Instant::now());
        if !bench.wait_in(Phase::Running, pause).await {
            return;
        }
        let next = count + bench.pace.batch;
        let sent = (count..next).flat_map(&mut make).collect();
        send(&bench, &entity, sent).await;
        count = next;
    }
}

/// Sends one batch; the answer.
pub async fn send(bench: &Bench, entity: &str, sent: Vec<Sent>) -> (Answer, Vec<u64>) {
    let messages = sent.iter().map(message).collect();
    let open = bench.recorder.begin(entity, What::Send(sent));
    let result = bench.client.send(entity, messages).await;
    let answer = Answer::of_result(&result);
    let numbers = result.unwrap_or_default();
    open.end_as(answer.clone(), |what| {
        if let What::Send(sent) = what {
            number(sent, &numbers);
        }
    });
    (answer, numbers)
}

/// Notes the numbers that an answer tells.
pub fn number(sent: &mut [Sent], numbers: &[u64]) {
    for (sent, number) in sent.iter_mut().zip(numbers) {
        sent.number = Some(*number);
    }
}

/// On the wire. The body is the id once more: should they differ, the broker mixed something up.
pub fn message(sent: &Sent) -> Message {
    let mut message = Message::new(sent.id.clone()).message_id(&sent.id);
    if let Some(ttl_ms) = sent.ttl_ms {
        message = message.ttl_ms(ttl_ms);
    }
    if let Some(due_ms) = sent.due_ms {
        message = message.scheduled_at_ms(due_ms);
    }
    if let Some(session) = &sent.session {
        message = message.session_id(session);
    }
    if let Some(class) = &sent.class {
        message = message.subject(class);
    }
    message
}

/// As the checker knows a delivery.
pub fn delivered(entity: &str, dead: bool, delivery: &Delivery) -> Delivered {
    let id = delivery.message_id().unwrap_or_default();
    let id = match delivery.body() == id.as_bytes() {
        true => id.to_owned(),
        // Nobody sent that.
        false => format!("{id} with the body of another"),
    };
    Delivered {
        entity: entity.to_owned(),
        dead,
        id,
        number: delivery.sequence_number(),
        count: delivery.delivery_count(),
        token: token(delivery),
        enqueued_ms: delivery.enqueued_at_ms(),
        expires_ms: delivery.expires_at_ms(),
        locked_until_ms: delivery.locked_until_ms().unwrap_or_default(),
        reason: delivery.text_property("DeadLetterReason").map(str::to_owned),
        ..Delivered::default()
    }
}

pub fn token(delivery: &Delivery) -> String {
    delivery.lock_token().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A queue or its dead-letter queue.
pub fn path(entity: &str, dead: bool) -> QueuePath {
    if dead { QueuePath::dead_letter(entity) } else { QueuePath::main(entity) }
}

pub fn disposition(how: &How) -> Disposition {
    match how {
        How::Complete => Disposition::Complete,
        How::Abandon => Disposition::Abandon,
        How::Defer => Disposition::Defer,
        How::Release => Disposition::Release,
        How::DeadLetter(reason) => {
            Disposition::DeadLetter { reason: Some(reason.clone()), description: None }
        }
    }
}

/// Receives and does what `decide` decides, until the run is over.
pub async fn consume(
    bench: Bench,
    entity: String,
    dead: bool,
    decide: impl FnMut(&Delivered) -> Deed,
) {
    consume_until(Phase::Over, bench, entity, dead, decide).await;
}

/// Completes whatever comes, from a queue, a subscription or a dead-letter queue.
pub fn complete_all(bench: &Bench, entity: &str, dead: bool, tasks: &mut JoinSet<()>) {
    for _ in 0..bench.workers(1) {
        let (bench, entity) = (bench.clone(), entity.to_owned());
        tasks.spawn(consume(bench, entity, dead, |_| Deed::Settle(How::Complete)));
    }
}

/// As [`consume`], until the run is so far.
pub async fn consume_until(
    phase: Phase,
    mut bench: Bench,
    entity: String,
    dead: bool,
    mut decide: impl FnMut(&Delivered) -> Deed,
) {
    let mut deeds = JoinSet::new();
    while bench.phase() < phase {
        let sub_queue = path(&entity, dead).sub_queue;
        let options =
            ReceiverOptions { sub_queue, prefetch: PREFETCH, ..ReceiverOptions::default() };
        let mut receiver = bench.client.receiver(entity.as_str(), options);
        loop {
            while deeds.try_join_next().is_some() {}
            let Ok(next) = tokio::time::timeout(LOOK_EVERY, receiver.recv()).await else {
                if bench.phase() >= phase {
                    receiver.close().await;
                    break;
                }
                continue;
            };
            let delivery = match next {
                Ok(delivery) => delivery,
                // Another receiver may do better, and nothing is known of this one's.
                Err(error) => {
                    let attaching = bench.recorder.begin(&entity, What::Attach);
                    attaching.end_as(Answer::of(&error), |_| ());
                    bench.wait_in(Phase::Draining, REOPEN_AFTER).await;
                    break;
                }
            };
            let seen = bench.recorder.delivered(delivered(&entity, dead, &delivery));
            let deed = decide(&seen);
            let crashes = deed == Deed::Crash;
            act(&bench, &receiver, delivery, seen, deed, &mut deeds);
            if crashes || bench.phase() >= phase {
                break; // Dropped: what it took stays locked.
            }
        }
    }
    while deeds.join_next().await.is_some() {}
}

fn act(
    bench: &Bench,
    receiver: &Receiver,
    delivery: Delivery,
    seen: Delivered,
    deed: Deed,
    deeds: &mut JoinSet<()>,
) {
    match deed {
        Deed::Settle(how) => {
            let open = bench.recorder.begin(&seen.entity, What::Settle(seen.held(), how.clone()));
            let settling = receiver.settle(&delivery, disposition(&how));
            deeds.spawn(async move { open.end(&settling.await) });
        }
        Deed::Later(pause, how) => {
            let bench = bench.clone();
            deeds.spawn(async move {
                tokio::time::sleep(pause).await;
                settle(&bench, &delivery, &seen, how).await;
            });
        }
        Deed::Renew => {
            let bench = bench.clone();
            deeds.spawn(async move { renew_and_complete(&bench, &delivery, &seen).await });
        }
        Deed::Crash => {
            let bench = bench.clone();
            let lock_ms = lock_ms(&bench, &seen.entity);
            deeds.spawn(async move {
                tokio::time::sleep(Duration::from_millis(lock_ms + 1_000)).await;
                settle(&bench, &delivery, &seen, How::Complete).await;
            });
        }
    }
}

fn lock_ms(bench: &Bench, entity: &str) -> u64 {
    bench.entities().get(entity).map_or(5_000, |entity| entity.lock_ms)
}

/// Settles by token, from whatever connection (LOCK-17).
pub async fn settle(bench: &Bench, delivery: &Delivery, seen: &Delivered, how: How) -> Answer {
    let settlement = delivery.settlement(disposition(&how));
    let open = bench.recorder.begin(&seen.entity, What::Settle(seen.held(), how));
    let path = path(&seen.entity, seen.dead);
    let answer = match bench.client.settle(&path, vec![settlement], false).await {
        Ok(failures) => match failures.into_iter().find_map(|failure| failure.failure) {
            None => Answer::Done,
            Some(failure) => Answer::of(&Error::from(failure)),
        },
        Err(error) => Answer::of(&error),
    };
    open.end_as(answer.clone(), |_| ());
    answer
}

async fn renew_and_complete(bench: &Bench, delivery: &Delivery, seen: &Delivered) {
    let lock = Duration::from_millis(lock_ms(bench, &seen.entity));
    tokio::time::sleep(lock / 2).await;
    let open = bench.recorder.begin(&seen.entity, What::Renew(seen.held(), 0));
    let path = path(&seen.entity, seen.dead);
    let renewed = bench.client.renew(&path, vec![delivery.lock_token()]).await;
    let until_ms = renewed.as_ref().ok().and_then(|ends| ends.first().copied());
    open.end_as(Answer::of_result(&renewed), |what| {
        if let What::Renew(_, until) = what {
            *until = until_ms.unwrap_or_default();
        }
    });
    tokio::time::sleep(lock * 3 / 4).await;
    settle(bench, delivery, seen, How::Complete).await;
}

/// Asks once for up to so many, and records them.
pub async fn receive(bench: &Bench, entity: &str, count: u32) -> Vec<(Delivery, Delivered)> {
    let wait = Duration::from_millis(500);
    let mode = v1::ReceiveMode::PeekLock;
    let received = bench.client.receive(&path(entity, false), mode, count, wait).await;
    let record = |delivery: Delivery| {
        let seen = bench.recorder.delivered(delivered(entity, false, &delivery));
        (delivery, seen)
    };
    received.unwrap_or_default().into_iter().map(record).collect()
}
