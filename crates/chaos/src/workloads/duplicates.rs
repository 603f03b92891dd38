//! Everything is sent three times: once, and twice more at the same time.

use tokio::task::JoinSet;

use super::worker::{Deed, consume, send};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::{How, Sent};

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![Entity { deduplicates: true, ..Entity::queue(format!("{prefix}duplicates")) }]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let entity = format!("{prefix}duplicates");
    tasks.spawn(repeat(bench.clone(), entity.clone()));
    tasks.spawn(consume(bench.clone(), entity, false, |_| Deed::Settle(How::Complete)));
}

async fn repeat(mut bench: Bench, entity: String) {
    let mut count = 0_u64;
    while bench.wait_in(Phase::Running, bench.pace * 2).await {
        let sent = || vec![Sent { id: format!("d-{count}"), ..Sent::default() }];
        let first = send(&bench, &entity, sent());
        // Each under an origin of its own: the broker cannot take one for a repeat of another.
        if count.is_multiple_of(2) {
            first.await;
            tokio::join!(send(&bench, &entity, sent()), send(&bench, &entity, sent()));
        } else {
            let (second, third) = (send(&bench, &entity, sent()), send(&bench, &entity, sent()));
            tokio::join!(first, second, third);
        }
        count += 1;
    }
}
