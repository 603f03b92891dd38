//! Messages that live for as long as a consumer may need, or not quite: dead-lettered in one queue,
//! dropped in the other.

use std::time::Duration;

use rand::RngExt;
use tokio::task::JoinSet;

use super::Bench;
use super::worker::{Deed, complete_all, consume, produce};
use crate::Entity;
use crate::history::{How, Sent};

pub fn entities(prefix: &str) -> Vec<Entity> {
    let dead = Entity { dead_letters_expired: true, ..Entity::queue(format!("{prefix}ttl-dead")) };
    vec![dead, Entity::queue(format!("{prefix}ttl-drop"))]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    for name in ["ttl-dead", "ttl-drop"] {
        let entity = format!("{prefix}{name}");
        let mut random = bench.random(name);
        let make = move |count| {
            let ttl_ms = match random.random_range(0..4) {
                0 => None,
                1 => Some(random.random_range(100..1_000)),
                _ => Some(random.random_range(1_000..6_000)),
            };
            vec![Sent { id: format!("{name}-{count}"), ttl_ms, ..Sent::default() }]
        };
        tasks.spawn(produce(bench.clone(), entity.clone(), make));
        // Some are held beyond their deadline, and either way is right then (TTL-12, TTL-13).
        let mut random = bench.random(&format!("{name} consumer"));
        let decide = move |_: &_| {
            let pause = Duration::from_millis(random.random_range(0..3_000));
            match random.random_range(0..6) {
                0 => Deed::Later(pause, How::Abandon),
                1 | 2 => Deed::Later(pause, How::Complete),
                3 => Deed::Settle(How::Abandon),
                _ => Deed::Settle(How::Complete),
            }
        };
        tasks.spawn(lazily(bench.clone(), entity.clone(), decide));
    }
    // At once, so that the time from deadline to dead-letter queue shows.
    complete_all(bench, &format!("{prefix}ttl-dead"), true, tasks);
}

/// Consumes, but begins late: until then, everything that may expire does.
async fn lazily(
    mut bench: Bench,
    entity: String,
    mut decide: impl FnMut(&crate::Delivered) -> Deed,
) {
    const PAUSE: Duration = Duration::from_millis(2_500);
    while bench.wait_in(super::Phase::Running, PAUSE).await {
        for (delivery, seen) in super::worker::receive(&bench, &entity, 30).await {
            let how = match decide(&seen) {
                Deed::Settle(how) => how,
                Deed::Later(pause, how) => {
                    let bench = bench.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(pause).await;
                        super::worker::settle(&bench, &delivery, &seen, how).await;
                    });
                    continue;
                }
                Deed::Renew | Deed::Crash => continue,
            };
            super::worker::settle(&bench, &delivery, &seen, how).await;
        }
    }
    consume(bench, entity, false, |_| Deed::Settle(How::Complete)).await;
}
