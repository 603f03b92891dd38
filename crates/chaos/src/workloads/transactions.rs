//! Each transaction settles up to two messages, in whatever way, and sends two others to the same queue: all
//! of it or none. Until it is committed nothing is settled (TX-8): some are rolled back and their messages
//! settled again, by themselves or in another transaction; some are given up without a word; some wait until
//! the locks have lapsed; and some meet somebody else's settlement meanwhile (TX-9).

use std::time::Duration;

use client::Delivery;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinSet;

use super::worker::{disposition, message, number, path, produce, receive, settle};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::{Answer, Delivered, Held, How, Sent, What};

const WORKERS: u64 = 2;
/// Longer than a lock.
const LAPSE: Duration = Duration::from_millis(6_000);

type Parent = (Delivery, Delivered);

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity::queue(format!("{prefix}transactions"))]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let bench = &bench.slow();
    let entity = format!("{prefix}transactions");
    let make = |count| vec![Sent { id: format!("parent-{count}"), ..Sent::default() }];
    tasks.spawn(produce(bench.clone(), entity.clone(), make));
    for worker in 0..bench.workers(WORKERS) {
        tasks.spawn(work(bench.clone(), entity.clone(), worker));
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionEnd {
    Commit,
    RollBack,
    /// Dropped, without a word.
    GiveUp,
    /// A commit after the locks have lapsed, which fails.
    Lapse,
}

async fn work(bench: Bench, entity: String, worker: u64) {
    let mut random = bench.random(&format!("transactions {worker}"));
    let mut count = 0_u64;
    let mut late = JoinSet::new();
    while bench.phase() < Phase::Over {
        while late.try_join_next().is_some() {}
        let received = receive(&bench, &entity, 4).await;
        let (parents, children): (Vec<_>, Vec<_>) =
            received.into_iter().partition(|(_, seen)| seen.id.starts_with("parent"));
        for (delivery, seen) in children {
            settle(&bench, &delivery, &seen, How::Complete).await;
        }
        for parents in parents.chunks(2) {
            count += 1;
            let work =
                Work::draw(&bench, &entity, parents, &format!("{worker}-{count}"), &mut random);
            match work.end {
                // Others are served meanwhile.
                TransactionEnd::Lapse => drop(late.spawn(work.carry_out())),
                _ => work.carry_out().await,
            }
        }
    }
    while late.join_next().await.is_some() {}
}

/// One transaction.
struct Work {
    bench: Bench,
    entity: String,
    parents: Vec<(Parent, How)>,
    children: Vec<Sent>,
    end: TransactionEnd,
    /// Somebody else tries to settle the first of its messages before it ends.
    is_disturbed: bool,
}

impl Work {
    fn draw(
        bench: &Bench,
        entity: &str,
        parents: &[Parent],
        name: &str,
        random: &mut ChaCha8Rng,
    ) -> Work {
        let child = |which| Sent { id: format!("child-{name}-{which}"), ..Sent::default() };
        let mut how = || match random.random_range(0..20) {
            0 | 1 => How::Abandon,
            2 => How::Defer,
            3 => How::DeadLetter("in a transaction".to_owned()),
            _ => How::Complete,
        };
        let parents = parents.iter().map(|parent| (parent.clone(), how())).collect();
        let end = match random.random_range(0..40) {
            _ if bench.phase() > Phase::Running => TransactionEnd::Commit,
            0..7 => TransactionEnd::RollBack,
            7..9 => TransactionEnd::GiveUp,
            9 => TransactionEnd::Lapse,
            _ => TransactionEnd::Commit,
        };
        let is_disturbed = random.random_bool(0.1);
        let (bench, entity) = (bench.clone(), entity.to_owned());
        Work { bench, entity, parents, children: vec![child(0), child(1)], end, is_disturbed }
    }

    fn held(&self) -> Vec<(Held, How)> {
        self.parents.iter().map(|((_, seen), how)| (seen.held(), how.clone())).collect()
    }

    async fn carry_out(self) {
        let Work { bench, entity, parents, children, end, is_disturbed } = &self;
        let (sent, settled) = (children.clone(), self.held());
        let open = bench.recorder.begin(entity, What::Commit { sent, settled });
        let mut transaction = bench.client.transaction(entity);
        let mut issued = transaction.send(children.iter().map(message).collect()).await;
        for ((delivery, _), how) in parents {
            if issued.is_ok() {
                issued = transaction.settle(&path(entity, false), delivery, disposition(how)).await;
            }
        }
        if let Some(((delivery, seen), _)) = parents.first().filter(|_| *is_disturbed) {
            settle(bench, delivery, seen, How::Complete).await;
        }
        if *end == TransactionEnd::Lapse {
            tokio::time::sleep(LAPSE).await;
        }
        if issued.is_err() || matches!(end, TransactionEnd::RollBack | TransactionEnd::GiveUp) {
            // Without its commit, a transaction does nothing.
            let held = parents.iter().map(|((_, seen), _)| seen.held()).collect();
            let ending = bench.recorder.begin(entity, What::RollBack(held));
            match end {
                TransactionEnd::GiveUp => {
                    drop(transaction);
                    ending.end_as(Answer::Perhaps, |_| ());
                }
                TransactionEnd::Commit | TransactionEnd::RollBack | TransactionEnd::Lapse => {
                    let is_told = transaction.rollback().await.unwrap_or_default();
                    let answer = if is_told { Answer::Done } else { Answer::Perhaps };
                    ending.end_as(answer, |_| ());
                }
            }
            open.end_as(Answer::NotDone, |_| ());
            return self.settle_again().await;
        }
        let committed = transaction.commit().await;
        let numbers =
            committed.as_ref().map(client::Committed::sequence_numbers).unwrap_or_default();
        open.end_as(Answer::of_result(&committed), |what| {
            if let What::Commit { sent, .. } = what {
                number(sent, &numbers);
            }
        });
    }

    /// The locks are as they were (TX-8): one is settled in another transaction, the others alone.
    async fn settle_again(&self) {
        let mut parents = self.parents.iter();
        if let Some(((delivery, seen), _)) = parents.next() {
            let settled = vec![(seen.held(), How::Complete)];
            let what = What::Commit { sent: Vec::new(), settled };
            let open = self.bench.recorder.begin(&self.entity, what);
            let mut transaction = self.bench.client.transaction(&self.entity);
            let answer = match transaction.complete(delivery).await {
                Ok(()) => Answer::of_result(&transaction.commit().await),
                // It was never committed.
                Err(_) => Answer::NotDone,
            };
            open.end_as(answer, |_| ());
        }
        for ((delivery, seen), _) in parents {
            settle(&self.bench, delivery, seen, How::Complete).await;
        }
    }
}
