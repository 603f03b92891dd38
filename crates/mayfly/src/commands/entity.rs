//! What `mayfly queue`, `topic` and `subscription` have in common: how entities are told of.

use client::{Client, v1};
use domain::{Described, Patch};
use serde_json::{Map, Value, json};

use crate::commands::entity_list::Flow;
use crate::commands::{Output, properties};
use crate::input::instant;
use crate::terminal;

/// A queue, a topic or a subscription, as the cluster describes it.
pub trait Entity {
    type Properties: Described;

    /// As in "no queues".
    const MANY: &'static str;
    /// Of a list of them, and which columns hold numbers.
    const HEADER: &'static [&'static str];
    const NUMBERS: &'static [usize];

    /// As in "queue 'orders' deleted".
    fn title(&self) -> String;
    fn told(&self) -> anyhow::Result<Patch<Self::Properties>>;
    fn standing(&self) -> Standing;
    /// What went through it.
    fn flow(&self) -> Flow;
    /// Its line in a list of them.
    fn row(&self) -> anyhow::Result<Vec<String>>;
    /// What a description says before its properties, and after them, for people.
    fn place(&self) -> Vec<(&'static str, String)>;
    fn counted(&self) -> Vec<(&'static str, String)>;
    /// Its names and counters, for scripts.
    fn members(&self) -> Value;
}

/// Where an entity is, and what happened to it when. Instants in ms since the Unix epoch.
#[derive(Clone, Debug)]
pub struct Standing {
    pub name: String,
    pub created_at_ms: u64,
    pub updated_at_ms: u64,
    pub accessed_at_ms: u64,
    pub last_use_ms: u64,
    pub idle_since_ms: Option<u64>,
    pub deleted_at_ms: Option<u64>,
    pub group: u32,
    pub leader_node: u64,
    /// After how long without use it is deleted, if that was told.
    pub idle_window_ms: Option<u64>,
    /// Messages that wait for their time.
    pub scheduled: u64,
}

impl Standing {
    pub fn leadership(&self) -> String {
        format!("{}, led by node {}", self.group, self.leader_node)
    }
}

/// That of a message of the native API, whichever of the three.
macro_rules! standing {
    ($entity:expr, $scheduled:expr) => {
        $crate::commands::entity::Standing {
            name: $entity.name.clone(),
            created_at_ms: $entity.created_at_ms,
            updated_at_ms: $entity.updated_at_ms,
            accessed_at_ms: $entity.accessed_at_ms,
            last_use_ms: $entity.last_use_ms,
            idle_since_ms: $entity.idle_since_ms,
            deleted_at_ms: $entity.deleted_at_ms,
            group: $entity.group,
            leader_node: $entity.leader_node,
            idle_window_ms: $entity.properties.as_ref().and_then(|p| p.auto_delete_on_idle_ms),
            scheduled: $scheduled,
        }
    };
}
pub(super) use standing;

/// What went through a queue or a subscription.
pub fn flow_of(counters: &v1::QueueCounters) -> Flow {
    let v1::QueueCounters { completed, cancelled, expired_dropped, deleted, forwarded, .. } =
        counters;
    let went = [completed, cancelled, expired_dropped, deleted, forwarded].into_iter().sum();
    Flow { came: Some(counters.accepted), went: Some(went) }
}

/// Says what was done to it.
pub fn done(output: &Output, entity: &impl Entity, what: &str) -> anyhow::Result<()> {
    match output.json {
        true => terminal::json(&as_json(entity, false)?),
        false => terminal::line(format!("{} {what}", entity.title())),
    }
}

/// `keys`: those of its authorization rules too.
pub fn show(output: &Output, entity: &impl Entity, keys: bool) -> anyhow::Result<()> {
    if output.json {
        return terminal::json(&as_json(entity, keys)?);
    }
    let told = entity.told()?;
    let at = entity.standing();
    let history = [
        ("created", instant::show_ms(at.created_at_ms)),
        ("updated", instant::show_ms(at.updated_at_ms)),
        ("accessed", instant::show_ms(at.accessed_at_ms)),
        ("deleted as idle", goes(at.deleted_at_ms)),
    ];
    let place = entity.place().into_iter().chain(properties::shown(&told, keys));
    super::show(place.chain(history).chain(entity.counted()))
}

/// When it goes if nobody uses it before.
fn goes(at_ms: Option<u64>) -> String {
    at_ms.map_or_else(|| "no".to_owned(), |at_ms| format!("{}, if unused", instant::show_ms(at_ms)))
}

pub fn list<E: Entity>(output: &Output, entities: &[E]) -> anyhow::Result<()> {
    if output.json {
        let entities = entities.iter().map(|entity| as_json(entity, false));
        return terminal::json(&entities.collect::<anyhow::Result<Vec<_>>>()?);
    }
    if entities.is_empty() {
        return terminal::line(format!("no {}", E::MANY));
    }
    let rows = entities.iter().map(Entity::row).collect::<anyhow::Result<_>>()?;
    terminal::line(terminal::table(E::HEADER, E::NUMBERS, rows))
}

fn as_json(entity: &impl Entity, keys: bool) -> anyhow::Result<Value> {
    let told = entity.told()?;
    let at = entity.standing();
    let common = json!({
        "status": properties::status(&told),
        "properties": properties::as_json(&told, keys),
        "created_at": instant::show_ms(at.created_at_ms),
        "updated_at": instant::show_ms(at.updated_at_ms),
        "accessed_at": instant::show_ms(at.accessed_at_ms),
        "last_use": instant::show_ms(at.last_use_ms),
        "idle_since": at.idle_since_ms.map(instant::show_ms),
        "deleted_at": at.deleted_at_ms.map(instant::show_ms),
        "group": at.group,
        "leader_node": at.leader_node,
    });
    let mut all = Map::new();
    for members in [entity.members(), common] {
        if let Value::Object(members) = members {
            all.extend(members);
        }
    }
    Ok(all.into())
}

/// Moves it to another group, and waits until it is there.
pub async fn relocate<E: Entity>(client: &Client, entity: &E, group: u32) -> anyhow::Result<()> {
    let Standing { name, group: had_by, .. } = entity.standing();
    if had_by == group {
        return terminal::line(format!("{} is on group {group} already", entity.title()));
    }
    while !client.move_entity(&name, group).await? {}
    terminal::line(format!("{} moved from group {had_by} to group {group}", entity.title()))
}
