//! Workers that crash with messages in their hands and come back when their locks are long over, and
//! some that renew. What fails too often is dead-lettered.

use rand::RngExt;
use tokio::task::JoinSet;

use super::Bench;
use super::worker::{Deed, consume, produce};
use crate::Entity;
use crate::history::{Delivered, How, Sent};

const WORKERS: u64 = 3;

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity { deliveries_max: 3, ..Entity::queue(format!("{prefix}locks")) }]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let bench = &bench.slow();
    let entity = format!("{prefix}locks");
    let make = |count: u64| {
        // One in ten is bad for every worker.
        let kind = if count.is_multiple_of(10) { "bad" } else { "good" };
        vec![Sent { id: format!("{kind}-{count}"), ..Sent::default() }]
    };
    tasks.spawn(produce(bench.clone(), entity.clone(), make));
    for worker in 0..bench.workers(WORKERS) {
        let mut random = bench.random(&format!("locks worker {worker}"));
        let crashes = bench.rarely(1.0 / 30.0);
        let decide = move |seen: &Delivered| {
            if seen.id.starts_with("bad") {
                return Deed::Settle(How::Abandon);
            }
            if random.random_bool(crashes) {
                return Deed::Crash;
            }
            match random.random_range(0..30) {
                0 | 1 => Deed::Renew,
                2 => Deed::Settle(How::Abandon),
                _ => Deed::Settle(How::Complete),
            }
        };
        tasks.spawn(consume(bench.clone(), entity.clone(), false, decide));
    }
}
