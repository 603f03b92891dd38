//! `CreateQueue`, `UpdateQueue`, `DeleteEntity` (ENT).

use crate::machine::Step;
use crate::machine::entity::Entity;
use crate::{
    CreateQueue, Effect, EntityId, EntityRow, Key, Outcome, Refusal, Row, Rows, SequenceNumber,
    UpdateQueue, validate,
};

impl CreateQueue {
    /// A repeat for the same id is `Done`.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let id = self.entity;
        if step.open(id).is_ok() {
            return Ok(Outcome::Done);
        }
        // ENT-8: rows of the former entity would be swept from under the new one.
        if step.view.contains(&Key::Sweep(id)) {
            return Err(Refusal::StaleRoute { entity: id });
        }
        // The last id has no next one, where the range of its rows would end.
        if id.0 == u64::MAX {
            let why = "the catalog never issues it".to_owned();
            return Err(Refusal::Argument { what: "entity id", why });
        }
        validate::queue_name(&self.name)?;
        validate::queue_properties(&self.properties)?;
        let row = EntityRow {
            name: self.name,
            properties: *self.properties,
            created_at: step.at,
            updated_at: step.at,
        };
        step.machine.entities.insert(id, Entity::created(row, step.at));
        step.open(id)?;
        Ok(Outcome::Done)
    }
}

impl UpdateQueue {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        let old = entity.properties();
        let new = *self.properties;
        // ENT-5.
        if new.requires_session != old.requires_session {
            let why = "whether a queue requires sessions is fixed when it is created";
            return Err(Refusal::InvalidOperation { why });
        }
        if new.requires_duplicate_detection != old.requires_duplicate_detection {
            let why = "whether a queue detects duplicates is fixed when it is created";
            return Err(Refusal::InvalidOperation { why });
        }
        validate::queue_properties(&new)?;
        // TTL-26: messages passed as due may be due later now.
        if new.default_ttl > old.default_ttl {
            entity.search_derived_from(SequenceNumber::FIRST);
        }
        let at = entity.at;
        entity.entity.row.properties = new;
        entity.entity.row.updated_at = at;
        entity.entity.row_changed = true;
        // IDLE-13.
        entity.state().last_use = at;
        entity.effects.push(Effect::Updated { entity: entity.id });
        Ok(Outcome::Done)
    }
}

impl<R: Rows> Step<'_, R> {
    /// ENT-7: from here on nothing of the entity can be reached; its other rows are swept. A repeat,
    /// or the end of a creation that never came here, is `Done` too.
    pub(super) fn delete_entity(&mut self, id: EntityId) -> Result<Outcome, Refusal> {
        if self.open(id).is_err() {
            return Ok(Outcome::Done);
        }
        let born = self.machine.entities.remove(&id).is_some_and(|entity| entity.born);
        if !born {
            self.view.delete(Key::Entity(id));
            self.view.delete(Key::EntityState(id));
        }
        self.view.insert(Key::Sweep(id), Row::Sweep);
        self.effects.push(Effect::Deleted { entity: id });
        self.effects.push(Effect::SweepWanted);
        Ok(Outcome::Done)
    }
}
