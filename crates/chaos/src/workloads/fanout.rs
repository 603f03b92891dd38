//! A topic with three subscriptions: one takes everything, the others a class each, one by correlation
//! and one by SQL.

use client::subscription_path;
use tokio::task::JoinSet;

use super::Bench;
use super::worker::{complete_all, produce};
use crate::Entity;
use crate::entity::Kind;
use crate::history::Sent;

const SUBSCRIPTIONS: [(&str, Option<&str>); 3] =
    [("all", None), ("red", Some("red")), ("blue", Some("blue"))];
const CLASSES: [&str; 3] = ["red", "blue", "green"];

pub fn entities(prefix: &str) -> Vec<Entity> {
    let topic = format!("{prefix}fanout");
    let mut entities = vec![Entity { kind: Kind::Topic, ..Entity::queue(&topic) }];
    for (name, class) in SUBSCRIPTIONS {
        let class = class.map(str::to_owned);
        let kind = Kind::Subscription { topic: topic.clone(), class };
        entities.push(Entity { kind, ..Entity::queue(subscription_path(&topic, name)) });
    }
    entities
}

pub fn start(bench: &Bench, prefix: &str, tasks: &mut JoinSet<()>) {
    let topic = format!("{prefix}fanout");
    let make = |count: u64| {
        let class = CLASSES[(count % 3) as usize].to_owned();
        vec![Sent { id: format!("f-{count}"), class: Some(class), ..Sent::default() }]
    };
    tasks.spawn(produce(bench.clone(), topic.clone(), make));
    for (name, _) in SUBSCRIPTIONS {
        let path = subscription_path(&topic, name);
        complete_all(bench, &path, false, tasks);
    }
}
