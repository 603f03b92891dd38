//! `CreateQueue`, `UpdateQueue`, `DeleteEntity` (ENT).

use crate::machine::Step;
use crate::{
    CreateQueue, Effect, EntityId, EntityKind, Key, Outcome, Refusal, Row, Rows, SequenceNumber,
    Specifics, UpdateQueue, validate,
};

impl CreateQueue {
    /// A repeat for the same id is `Done`.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let id = self.entity;
        if step.open(id).is_ok() {
            return Ok(Outcome::Done);
        }
        step.check_new(id)?;
        validate::queue_name(&self.name)?;
        validate::queue_properties(&self.properties)?;
        step.insert_entity(id, self.name, *self.properties, Specifics::Queue)
    }
}

impl UpdateQueue {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let window = step.window(self.entity);
        let mut entity = step.open(self.entity)?;
        if entity.kind() != EntityKind::Queue {
            return Err(Refusal::StaleRoute { entity: self.entity });
        }
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
        entity.describe(new, Specifics::Queue);
        step.tell_window(self.entity, window);
        Ok(Outcome::Done)
    }
}

impl<R: Rows> Step<'_, R> {
    /// ENT-7: from here on nothing of the entity can be reached, nor of a topic's subscriptions; the
    /// other rows are swept. A repeat, or the end of a creation that never came here, is `Done` too.
    pub(super) fn delete_entity(&mut self, id: EntityId) -> Result<Outcome, Refusal> {
        let Ok(entity) = self.open(id) else { return Ok(Outcome::Done) };
        let (specifics, topic) = (entity.entity.row.specifics.clone(), entity.topic());
        self.charge_topics();
        self.leave_topic(id, &specifics);
        self.forget_entity(id, topic);
        self.effects.push(Effect::SweepWanted);
        Ok(Outcome::Done)
    }

    /// `topic`: whose bodies its messages share, if that is another.
    pub(super) fn forget_entity(&mut self, id: EntityId, topic: Option<EntityId>) {
        let born = self.machine.entities.remove(&id).is_some_and(|entity| entity.born);
        if !born {
            self.view.delete(Key::Entity(id));
            self.view.delete(Key::EntityState(id));
        }
        self.view.insert(Key::Sweep(id), Row::Sweep { topic });
        self.effects.push(Effect::Deleted { entity: id });
    }
}
