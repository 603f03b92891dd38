//! An operator who moves what the others use from one group to another, all the time.

use std::time::Duration;

use rand::RngExt;
use tokio::task::JoinSet;

use super::{Bench, Phase};
use crate::Entity;
use crate::history::What;

/// Between two moves. Each holds up who uses the entity for as long as it takes.
const PAUSE: Duration = Duration::from_millis(250);

/// Those of the others are moved.
pub fn entities(_: &str) -> Vec<Entity> {
    Vec::new()
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    tasks.spawn(relocate(bench.clone(), prefix.to_owned()));
}

async fn relocate(mut bench: Bench, prefix: String) {
    let mut random = bench.random("moves");
    while bench.phase() == Phase::Running {
        let names = names(&bench, &prefix).await;
        let Some((names, groups)) = names.filter(|(names, _)| !names.is_empty()) else {
            bench.wait_in(Phase::Running, PAUSE).await;
            continue;
        };
        for name in names {
            if !bench.wait_in(Phase::Running, PAUSE).await {
                return;
            }
            let group = random.random_range(1..=groups);
            let open = bench.recorder.begin(&name, What::Move { group });
            let moved = bench.operator.move_entity(&name, group).await;
            open.end(&moved.map(drop));
        }
    }
}

/// Queues and topics of this run, and how many groups there are.
async fn names(bench: &Bench, prefix: &str) -> Option<(Vec<String>, u32)> {
    let queues = bench.operator.list_queues(prefix).await.ok()?;
    let topics = bench.operator.list_topics(prefix).await.ok()?;
    let groups = bench.operator.status(true).await.ok()?.groups.len() as u32 - 1;
    let queues = queues.into_iter().map(|queue| queue.name);
    let names: Vec<String> = queues.chain(topics.into_iter().map(|topic| topic.name)).collect();
    (groups > 0).then_some((names, groups))
}
