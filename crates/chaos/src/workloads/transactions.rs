//! Each transaction completes two messages and sends two others to the same queue: all of it or none.

use client::Delivery;
use rand::RngExt;
use tokio::task::JoinSet;

use super::worker::{message, number, produce, receive, settle};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::{Answer, Delivered, How, Sent, What};

const WORKERS: u64 = 2;

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity::queue(format!("{prefix}transactions"))]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let entity = format!("{prefix}transactions");
    let make = |count| vec![Sent { id: format!("parent-{count}"), ..Sent::default() }];
    tasks.spawn(produce(bench.clone(), entity.clone(), make));
    for worker in 0..WORKERS {
        tasks.spawn(work(bench.clone(), entity.clone(), worker));
    }
}

async fn work(bench: Bench, entity: String, worker: u64) {
    let mut random = bench.random(&format!("transactions {worker}"));
    let mut count = 0_u64;
    while bench.phase() < Phase::Over {
        let received = receive(&bench, &entity, 4).await;
        let (parents, children): (Vec<_>, Vec<_>) =
            received.into_iter().partition(|(_, seen)| seen.id.starts_with("parent"));
        for (delivery, seen) in children {
            settle(&bench, &delivery, &seen, How::Complete).await;
        }
        for parents in parents.chunks(2) {
            let child =
                |which| Sent { id: format!("child-{worker}-{count}-{which}"), ..Sent::default() };
            let children = vec![child(0), child(1)];
            count += 1;
            if random.random_bool(0.1) {
                roll_back(&bench, &entity, parents, &children).await;
            } else {
                commit(&bench, &entity, parents, children).await;
            }
        }
    }
}

async fn commit(
    bench: &Bench,
    entity: &str,
    parents: &[(Delivery, Delivered)],
    children: Vec<Sent>,
) {
    let completed = parents.iter().map(|(_, seen)| seen.held()).collect();
    let messages = children.iter().map(message).collect();
    let open = bench.recorder.begin(entity, What::Commit { sent: children, completed });
    let mut transaction = bench.client.transaction(entity);
    let mut issued = transaction.send(messages).await;
    for (delivery, _) in parents {
        if issued.is_ok() {
            issued = transaction.complete(delivery).await;
        }
    }
    if issued.is_err() {
        // Without its commit, a transaction does nothing.
        return open.end_as(Answer::NotDone, |_| ());
    }
    let committed = transaction.commit().await;
    let numbers = committed.as_ref().map(client::Committed::sequence_numbers).unwrap_or_default();
    open.end_as(Answer::of_result(&committed), |what| {
        if let What::Commit { sent, .. } = what {
            number(sent, &numbers);
        }
    });
}

/// Nothing may come of it. The locks stay, and can be settled (TX-8).
async fn roll_back(
    bench: &Bench,
    entity: &str,
    parents: &[(Delivery, Delivered)],
    children: &[Sent],
) {
    let completed = parents.iter().map(|(_, seen)| seen.held()).collect();
    let what = What::Commit { sent: children.to_vec(), completed };
    let open = bench.recorder.begin(entity, what);
    let mut transaction = bench.client.transaction(entity);
    let mut issued = transaction.send(children.iter().map(message).collect()).await;
    for (delivery, _) in parents {
        if issued.is_ok() {
            issued = transaction.complete(delivery).await;
        }
    }
    // Whatever is answered: it was never committed.
    let _ = transaction.rollback().await;
    open.end_as(Answer::NotDone, |_| ());
    for (delivery, seen) in parents {
        settle(bench, delivery, seen, How::Complete).await;
    }
}
