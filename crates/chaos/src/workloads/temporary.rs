//! Queues that are created, used once, and deleted or left alone; and one on which somebody waits all
//! the time.

use std::time::Duration;

use tokio::task::JoinSet;

use super::worker::{Deed, consume, receive, send, settle};
use super::{Bench, Phase};
use crate::Entity;
use crate::history::{Answer, How, Sent};

/// IDLE-1: the least there is.
pub const IDLE: Duration = Duration::from_secs(300);

pub fn entities(prefix: &str) -> Vec<Entity> {
    vec![temporary(format!("{prefix}temporary-awaited"))]
}

fn temporary(name: String) -> Entity {
    Entity { idle_ms: Some(IDLE.as_millis() as u64), ..Entity::queue(name) }
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let awaited = format!("{prefix}temporary-awaited");
    tasks.spawn(consume(bench.clone(), awaited, false, |_| Deed::Settle(How::Complete)));
    tasks.spawn(converse(bench.clone(), prefix.to_owned()));
}

/// A request and its reply, each over a queue of its own.
async fn converse(mut bench: Bench, prefix: String) {
    let mut count = 0_u64;
    while bench.wait_in(Phase::Running, bench.pace.pause * 10).await {
        let name = format!("{prefix}temporary-{count}");
        count += 1;
        // Of one that is perhaps there nothing is asked any more.
        let vanishes = !count.is_multiple_of(4);
        if bench.create(Entity { vanishes, ..temporary(name.clone()) }).await.is_err() {
            continue;
        }
        let sent = vec![Sent { id: format!("reply-{name}"), ..Sent::default() }];
        let (answer, _) = send(&bench, &name, sent).await;
        if answer.may_be_done() {
            for (delivery, seen) in receive(&bench, &name, 1).await {
                settle(&bench, &delivery, &seen, How::Complete).await;
            }
        }
        if !vanishes {
            // Also when the run has come to its end meanwhile: left alone, it would vanish too.
            while bench.phase() < Phase::Over && bench.delete(&name).await == Answer::NotDone {}
        }
    }
}
