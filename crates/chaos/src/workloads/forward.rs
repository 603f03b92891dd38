//! A chain of two hops, and a consumer at its end.

use tokio::task::JoinSet;

use super::Bench;
use super::worker::{complete_all, produce};
use crate::Entity;
use crate::history::Sent;

/// From the end: a destination must be there first (FWD-2).
pub fn entities(prefix: &str) -> Vec<Entity> {
    let name = |hop: &str| format!("{prefix}forward-{hop}");
    let hop =
        |from: &str, to: &str| Entity { forwards_to: Some(name(to)), ..Entity::queue(name(from)) };
    vec![Entity::queue(name("c")), hop("b", "c"), hop("a", "b")]
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    for hop in ["a", "b"] {
        let make = move |count| vec![Sent { id: format!("{hop}-{count}"), ..Sent::default() }];
        tasks.spawn(produce(bench.clone(), format!("{prefix}forward-{hop}"), make));
    }
    complete_all(bench, &format!("{prefix}forward-c"), false, tasks);
}
