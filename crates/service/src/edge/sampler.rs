//! What a group's rows say of its entities, as its leader tells it to metrics.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use domain::{
    Counts, EntityId, EntityKind, EntityRow, EntityState, GroupId, Key, Row, Rows, Timestamp,
};

use crate::exchange::{EntityDepth, GroupDepth};
use crate::leader::EntityTallies;

pub(super) struct Sampler<'a> {
    pub group: GroupId,
    /// The group's time.
    pub now: Timestamp,
    /// Receivers, by entity.
    pub consumers: &'a BTreeMap<EntityId, u64>,
    pub tallies: &'a EntityTallies,
}

impl Sampler<'_> {
    /// Reads all entities of the group.
    pub fn depth(&self, rows: &impl Rows) -> GroupDepth {
        let mut depth = GroupDepth::none(self.group);
        let (from, to) = (Key::EntityState(EntityId(0)), Key::EntityState(EntityId(u64::MAX)));
        let described = described(rows);
        let mut own = Vec::new();
        rows.scan(&from, &to, &mut |key, row| {
            let (Key::EntityState(id), Row::EntityState(state)) = (key, row) else {
                return ControlFlow::Continue(());
            };
            let Some(described) = described.get(&id) else { return ControlFlow::Continue(()) };
            depth.entities += 1;
            // A topic is charged for its subscriptions' messages as well (COUNT-3).
            let is_topic = described.specifics.kind() == EntityKind::Topic;
            depth.size_bytes += if is_topic { 0 } else { state.size_bytes };
            for (sum, more) in depth.available.iter_mut().zip(state.available) {
                *sum += more;
            }
            add(&mut depth.counts, &state.counts);
            let entity = EntityDepth {
                name: described.name.clone(),
                counts: state.told_counts(&described.properties),
                size_bytes: if is_topic { 0 } else { state.size_bytes },
                oldest_ms: None,
                consumers: self.consumers.get(&id).copied().unwrap_or(0),
            };
            match self.tallies.admits(id, self.group) {
                true => own.push((id, entity, state)),
                false => depth.others.add(&entity),
            }
            ControlFlow::Continue(())
        });
        let with_age = |(id, entity, state): (EntityId, EntityDepth, Box<EntityState>)| {
            let oldest = domain::oldest_available(rows, id, &state);
            (id, EntityDepth { oldest_ms: oldest.map(|at| self.now.since(at).0), ..entity })
        };
        depth.own = own.into_iter().map(with_age).collect();
        depth
    }
}

fn described(rows: &impl Rows) -> BTreeMap<EntityId, Box<EntityRow>> {
    let mut described = BTreeMap::new();
    let (from, to) = (Key::Entity(EntityId(0)), Key::Entity(EntityId(u64::MAX)));
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Entity(id), Row::Entity(row)) = (key, row) {
            described.insert(id, row);
        }
        ControlFlow::Continue(())
    });
    described
}

fn add(sum: &mut Counts, more: &Counts) {
    let Counts {
        accepted,
        active,
        scheduled,
        deferred,
        dead_lettered,
        completed,
        cancelled,
        expired,
        deleted,
        published,
        transfer,
        transfer_dead_lettered,
        moved,
    } = more;
    sum.accepted += accepted;
    sum.active += active;
    sum.scheduled += scheduled;
    sum.deferred += deferred;
    sum.dead_lettered += dead_lettered;
    sum.completed += completed;
    sum.cancelled += cancelled;
    sum.expired += expired;
    sum.deleted += deleted;
    sum.published += published;
    sum.transfer += transfer;
    sum.transfer_dead_lettered += transfer_dead_lettered;
    sum.moved += moved;
}
