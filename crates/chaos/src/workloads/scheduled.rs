//! Messages for later; one in five is cancelled, or too late for that.

use std::time::Duration;

use rand::RngExt;
use tokio::task::JoinSet;

use super::worker::{complete_all, send};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::{Answer, Sent, What};

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity::queue(format!("{prefix}scheduled"))]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let entity = format!("{prefix}scheduled");
    tasks.spawn(schedule(bench.clone(), entity.clone()));
    complete_all(bench, &entity, false, tasks);
}

async fn schedule(mut bench: Bench, entity: String) {
    let mut random = bench.random("scheduled");
    let mut cancels = JoinSet::new();
    let mut count = 0_u64;
    while bench.wait_in(Phase::Running, bench.pace.pause).await {
        let next = count + bench.pace.batch;
        let now_ms = bench.recorder.clock.now_ms();
        let mut one = |count| {
            let due_ms = Some(now_ms + random.random_range(500..5_000));
            Sent { id: format!("s-{count}"), due_ms, ..Sent::default() }
        };
        let sent: Vec<Sent> = (count..next).map(&mut one).collect();
        count = next;
        let (answer, numbers) = send(&bench, &entity, sent.clone()).await;
        for (Sent { id, .. }, number) in sent.into_iter().zip(numbers) {
            let (regrets, pause_ms) = (random.random_bool(0.2), random.random_range(0..6_000));
            if !regrets || answer != Answer::Done {
                continue;
            }
            let (bench, entity) = (bench.clone(), entity.clone());
            cancels.spawn(async move {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                cancel(&bench, &entity, id, number).await;
            });
        }
        while cancels.try_join_next().is_some() {}
    }
    while cancels.join_next().await.is_some() {}
}

async fn cancel(bench: &Bench, entity: &str, id: String, number: u64) {
    let open = bench.recorder.begin(entity, What::Cancel { id, number });
    open.end(&bench.client.cancel_scheduled(entity, vec![number]).await);
}
