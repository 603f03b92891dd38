//! Everything is sent three times: once, and twice more at the same time.

use tokio::task::JoinSet;

use super::worker::{complete_all, send};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::Sent;

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity { deduplicates: true, ..Entity::queue(format!("{prefix}duplicates")) }]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let entity = format!("{prefix}duplicates");
    tasks.spawn(repeat(bench.clone(), entity.clone()));
    complete_all(bench, &entity, false, tasks);
}

async fn repeat(mut bench: Bench, entity: String) {
    let mut count = 0_u64;
    while bench.wait_in(Phase::Running, bench.pace.pause * 2).await {
        let next = count + bench.pace.batch;
        let one = |count| Sent { id: format!("d-{count}"), ..Sent::default() };
        let sent = || (count..next).map(one).collect();
        let first = send(&bench, &entity, sent());
        // Each under an origin of its own: the broker cannot take one for a repeat of another.
        if (count / bench.pace.batch).is_multiple_of(2) {
            first.await;
            tokio::join!(send(&bench, &entity, sent()), send(&bench, &entity, sent()));
        } else {
            let (second, third) = (send(&bench, &entity, sent()), send(&bench, &entity, sent()));
            tokio::join!(first, second, third);
        }
        count = next;
    }
}
