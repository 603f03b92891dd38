//! Messages for later; one in five is cancelled, or too late for that.

use std::time::Duration;

use rand::RngExt;
use tokio::task::JoinSet;

use super::worker::{Deed, consume, send};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::{Answer, How, Sent, What};

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity::queue(format!("{prefix}scheduled"))]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let entity = format!("{prefix}scheduled");
    tasks.spawn(schedule(bench.clone(), entity.clone()));
    tasks.spawn(consume(bench.clone(), entity, false, |_| Deed::Settle(How::Complete)));
}

async fn schedule(mut bench: Bench, entity: String) {
    let mut random = bench.random("scheduled");
    let mut cancels = JoinSet::new();
    let mut count = 0_u64;
    while bench.wait_in(Phase::Running, bench.pace).await {
        let due_ms = Some(bench.recorder.clock.now_ms() + random.random_range(500..5_000));
        let id = format!("s-{count}");
        count += 1;
        let (regrets, pause_ms) = (random.random_bool(0.2), random.random_range(0..6_000));
        let sent = vec![Sent { id: id.clone(), due_ms, ..Sent::default() }];
        let (answer, numbers) = send(&bench, &entity, sent).await;
        if let Some(number) = numbers.first().copied().filter(|_| regrets)
            && answer == Answer::Done
        {
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
