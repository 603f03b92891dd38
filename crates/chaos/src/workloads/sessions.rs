//! Sessions whose messages come in order, and holders of three kinds: those that give back what they
//! have done, those that stall until it is somebody else's, and those that renew.

use std::time::Duration;

use client::{Delivery, ReceiverOptions, SessionReceiver};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinSet;

use super::worker::{delivered, disposition, produce};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::{Answer, Delivered, How, Sent, Token, What};

const SESSIONS: u64 = 6;
const WORKERS: u64 = 3;
const ACCEPT_WAIT: Duration = Duration::from_secs(1);
/// A session that has nothing for so long is given back.
const IDLE: Duration = Duration::from_millis(300);
/// Messages until it is given back though there are more.
const TURN: u32 = 20;

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity { sessions: true, ..Entity::queue(format!("{prefix}sessions")) }]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let bench = &bench.slow();
    let entity = format!("{prefix}sessions");
    let make = |count| {
        let session = Some(format!("session-{}", count % SESSIONS));
        vec![Sent { id: format!("m-{count}"), session, ..Sent::default() }]
    };
    tasks.spawn(produce(bench.clone(), entity.clone(), make));
    for worker in 0..bench.workers(WORKERS) {
        tasks.spawn(work(bench.clone(), entity.clone(), worker));
    }
}

/// Takes one session after the other, until the run is over.
pub async fn work(mut bench: Bench, entity: String, worker: u64) {
    let mut random = bench.random(&format!("sessions {worker}"));
    let mut holds = 0_u64;
    while bench.phase() < Phase::Over {
        holds += 1;
        let hold = format!("{worker}-{holds}");
        let what = What::Accept { session: String::new(), hold: hold.clone(), until_ms: 0 };
        let open = bench.recorder.begin(&entity, what);
        let options = ReceiverOptions { prefetch: 4, ..ReceiverOptions::default() };
        let accepted = bench.client.accept_next_session(&entity, ACCEPT_WAIT, options).await;
        let answer = Answer::of_result(&accepted);
        let Ok(receiver) = accepted else {
            open.end_as(answer, |_| ());
            bench.wait_in(Phase::Draining, Duration::from_millis(100)).await;
            continue;
        };
        open.end_as(answer, |what| {
            if let What::Accept { session, until_ms, .. } = what {
                *session = receiver.session_id().to_owned();
                *until_ms = receiver.locked_until_ms();
            }
        });
        Holder { bench: &bench, entity: &entity, hold, receiver }.hold(&mut random).await;
    }
}

/// Somebody with a session.
struct Holder<'a> {
    bench: &'a Bench,
    entity: &'a str,
    hold: Token,
    receiver: SessionReceiver,
}

impl Holder<'_> {
    async fn hold(mut self, random: &mut ChaCha8Rng) {
        for _ in 0..TURN {
            let next = tokio::time::timeout(IDLE, self.receiver.recv()).await;
            let delivery = match next {
                Err(_) => break,
                Ok(Err(_)) => return self.end(false).await,
                Ok(Ok(delivery)) => delivery,
            };
            let seen = self.record(&delivery);
            if random.random_bool(self.bench.rarely(1.0 / 40.0)) {
                return self.stall(&delivery, &seen).await;
            }
            match random.random_range(0..40) {
                1 => self.settle(&delivery, &seen, How::Abandon).await,
                2 => {
                    self.renew().await;
                    self.settle(&delivery, &seen, How::Complete).await;
                }
                // Held when the session is given back: it comes again, uncounted (SESS-12).
                3 => break,
                _ => self.settle(&delivery, &seen, How::Complete).await,
            }
        }
        // Its loss may be told and not be heard yet: then nobody knows since when it was free.
        let told = tokio::time::timeout(Duration::ZERO, self.receiver.recv()).await;
        self.end(!matches!(told, Ok(Err(_)))).await;
    }

    fn record(&self, delivery: &Delivery) -> Delivered {
        let session = Some(self.receiver.session_id().to_owned());
        let hold = Some(self.hold.clone());
        let seen = delivered(self.entity, false, delivery);
        self.bench.recorder.delivered(Delivered { session, hold, ..seen })
    }

    async fn settle(&self, delivery: &Delivery, seen: &Delivered, how: How) {
        let open = self.bench.recorder.begin(self.entity, What::Settle(seen.held(), how.clone()));
        open.end(&self.receiver.settle(delivery, disposition(&how)).await);
    }

    async fn renew(&self) {
        let session = self.receiver.session_id().to_owned();
        let what = What::RenewSession { session, hold: self.hold.clone(), until_ms: 0 };
        let open = self.bench.recorder.begin(self.entity, what);
        let renewed = self.receiver.renew().await;
        let answer = Answer::of_result(&renewed);
        open.end_as(answer, |what| {
            if let What::RenewSession { until_ms, .. } = what {
                *until_ms = renewed.unwrap_or_default();
            }
        });
    }

    /// Comes back when the session is long somebody else's.
    async fn stall(self, delivery: &Delivery, seen: &Delivered) {
        tokio::time::sleep(Duration::from_millis(6_500)).await;
        self.settle(delivery, seen, How::Complete).await;
        self.end(false).await;
    }

    async fn end(self, orderly: bool) {
        let session = self.receiver.session_id().to_owned();
        let what = What::EndHold { session, hold: self.hold, orderly, way: "close".to_owned() };
        let open = self.bench.recorder.begin(self.entity, what);
        self.receiver.close().await;
        open.end_as(Answer::Done, |_| ());
    }
}
