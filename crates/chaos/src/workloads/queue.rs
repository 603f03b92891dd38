//! A queue in plain use: most messages are completed, some go back once, some are dead-lettered.

use rand::RngExt;
use tokio::task::JoinSet;

use super::Bench;
use super::worker::{Deed, consume, produce};
use crate::Entity;
use crate::history::{How, Sent};

const PRODUCERS: u64 = 2;
const CONSUMERS: u64 = 2;

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity::queue(format!("{prefix}queue"))]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let entity = format!("{prefix}queue");
    for producer in 0..PRODUCERS {
        let make =
            move |count| vec![Sent { id: format!("q{producer}-{count}"), ..Sent::default() }];
        tasks.spawn(produce(bench.clone(), entity.clone(), make));
    }
    for consumer in 0..bench.workers(CONSUMERS) {
        let mut random = bench.random(&format!("queue consumer {consumer}"));
        let decide = move |_: &_| {
            Deed::Settle(match random.random_range(0..20) {
                0 => How::Abandon,
                1 => How::DeadLetter("unwanted".to_owned()),
                _ => How::Complete,
            })
        };
        tasks.spawn(consume(bench.clone(), entity.clone(), false, decide));
    }
}
