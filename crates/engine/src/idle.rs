//! When to look at which temporary entity (IDLE). Whether it is idle its row says, and rows know of
//! every use: of those in the log because they are entries, of the others because they are written a
//! minute ahead, as a `Touch`. So a leader keeps one instant per entity, no later than it can be
//! deleted or its `Touch` must be renewed, and looks then: a use costs nothing here, and an entity
//! that is never deleted is not even known.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    EntityId, EntityRow, EntityState, Idleness, Key, Meta, Row, Rows, Span, TOUCH_LASTS, Timestamp,
};

/// Most entities looked at in one go: what else the group does waits for as long.
const LOOKS_MAX: usize = 256;
/// A candidate that is still there after this long is one again: nobody coordinates, or it is used
/// on a node the leader does not hear of.
const AGAIN: Span = Span::from_secs(30);

/// An entity that may be deleted, as its group's leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub entity: EntityId,
    pub name: String,
    pub idle_since: Timestamp,
}

/// What the entities looked at ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Awaited, and not known to be in use for another minute.
    pub touch: Vec<EntityId>,
    pub candidates: Vec<Candidate>,
}

/// All temporary entities of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Idle {
    entities: BTreeMap<EntityId, Watched>,
    looks: BTreeSet<(Timestamp, EntityId)>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    look_at: Timestamp,
    /// Its row says that it is in use until then. A `Touch` under way may yet be lost.
    covered_until: Timestamp,
    /// Awaited when the leader before was last heard of: who knows until when.
    inherited: bool,
}

impl Watched {
    fn take_inherited(&mut self) -> bool {
        std::mem::take(&mut self.inherited)
    }
}

impl Idle {
    /// `Span::MAX`: the entity is temporary no more, nor is the topic it is a subscription of.
    pub fn temporary(&mut self, entity: EntityId, window: Span) {
        match window.is_max() {
            true => self.forget(entity),
            // Its row says when.
            false => self.arm(entity, Timestamp::ZERO),
        }
    }

    /// As a new leader finds it. `window`: as it was told, so that of a subscription it may be its
    /// topic's.
    pub fn found(
        &mut self,
        id: EntityId,
        window: Span,
        row: &EntityRow,
        state: &EntityState,
        meta: &Meta,
    ) {
        if window.is_max() {
            return;
        }
        // Written further ahead than the log went: somebody waited, and went on waiting at an edge
        // for as long as there was no leader. It may be gone by now, so it counts until now.
        if state.last_use > meta.last_at {
            self.arm(id, Timestamp::ZERO);
            if let Some(watched) = self.entities.get_mut(&id) {
                watched.inherited = true;
            }
            return;
        }
        match Idleness::of(&row.properties, state, meta) {
            Idleness::Never => self.arm(id, Timestamp::NEVER),
            Idleness::Scheduled => self.arm(id, Timestamp::ZERO),
            Idleness::Since { due, .. } => self.arm(id, due),
        }
    }

    /// A new leader finds a session of it held: looked at now, it is known to be in use.
    pub fn found_held(&mut self, entity: EntityId) {
        if self.entities.contains_key(&entity) {
            self.arm(entity, Timestamp::ZERO);
        }
    }

    pub fn forget(&mut self, entity: EntityId) {
        if let Some(watched) = self.entities.remove(&entity) {
            self.looks.remove(&(watched.look_at, entity));
        }
    }

    /// `Timestamp::NEVER`: only somebody's coming to wait is a reason to look.
    fn arm(&mut self, entity: EntityId, look_at: Timestamp) {
        let new = Watched { look_at, covered_until: Timestamp::ZERO, inherited: false };
        let watched = self.entities.entry(entity).or_insert(new);
        self.looks.remove(&(watched.look_at, entity));
        watched.look_at = look_at;
        if look_at < Timestamp::NEVER {
            self.looks.insert((look_at, entity));
        }
    }

    pub fn next_look(&self) -> Option<Timestamp> {
        self.looks.first().map(|(look_at, _)| *look_at)
    }

    pub fn entities(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.entities.keys().copied()
    }

    pub fn len(&self) -> usize {
        self.entities.len()
    }

    /// Somebody waits for an entity. True: a `Touch` must say so before anybody is told that there
    /// is nothing (IDLE-4). Once that is applied nobody else has to for a minute.
    pub fn awaited(&mut self, entity: EntityId, now: Timestamp, rows: &impl Rows) -> bool {
        match self.entities.get(&entity) {
            Some(watched) if watched.covered_until <= now => (),
            Some(_) | None => return false,
        }
        match read(rows, entity) {
            Some((_, state)) => self.cover(entity, state.last_use, now),
            // Deleted a moment ago: the log shall say so.
            None => true,
        }
    }

    fn cover(&mut self, entity: EntityId, last_use: Timestamp, now: Timestamp) -> bool {
        let touch = last_use <= now;
        let until = if touch { now.plus(TOUCH_LASTS) } else { last_use };
        self.arm(entity, until);
        if let Some(watched) = self.entities.get_mut(&entity) {
            watched.covered_until = last_use;
        }
        touch
    }

    /// Looks at what is due. What is idle is named only once `patience` is none.
    pub fn look(
        &mut self,
        now: Timestamp,
        patience: Span,
        rows: &impl Rows,
        is_awaited: impl Fn(EntityId) -> bool,
    ) -> Looked {
        let mut looked = Looked::default();
        if self.next_look().is_none_or(|look_at| look_at > now) {
            return looked;
        }
        let meta = domain::meta(rows);
        let due = self.looks.range(..=(now, EntityId(u64::MAX))).take(LOOKS_MAX);
        let due: Vec<EntityId> = due.map(|(_, entity)| *entity).collect();
        for entity in due {
            let Some((row, state)) = read(rows, entity) else {
                self.forget(entity);
                continue;
            };
            let inherited = self.entities.get_mut(&entity).is_some_and(Watched::take_inherited);
            if inherited || is_awaited(entity) {
                let known = if inherited { now } else { state.last_use };
                if self.cover(entity, known, now) {
                    looked.touch.push(entity);
                }
                continue;
            }
            match Idleness::of(&row.properties, &state, &meta) {
                // A subscription that is watched for its topic, which is used with it (IDLE-2).
                Idleness::Never => self.arm(entity, Timestamp::NEVER),
                // Whatever ends this is a use no earlier than now.
                Idleness::Scheduled => {
                    self.arm(entity, now.plus(row.properties.idle_window()));
                }
                Idleness::Since { due, .. } if due > now => self.arm(entity, due),
                Idleness::Since { .. } if patience > Span(0) => {
                    self.arm(entity, now.plus(patience));
                }
                Idleness::Since { since, .. } => {
                    self.arm(entity, now.plus(AGAIN));
                    let candidate = Candidate { entity, name: row.name, idle_since: since };
                    looked.candidates.push(candidate);
                }
            }
        }
        looked
    }
}

fn read(rows: &impl Rows, entity: EntityId) -> Option<(EntityRow, EntityState)> {
    match (rows.get(&Key::Entity(entity)), rows.get(&Key::EntityState(entity))) {
        (Some(Row::Entity(row)), Some(Row::EntityState(state))) => Some((*row, *state)),
        _ => None,
    }
}
