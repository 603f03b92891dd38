//! `CreateQueue` and `UpdateQueue` (ENT).

use crate::machine::Step;
use crate::{
    CreateQueue, EntityKind, Outcome, Refusal, Rows, SequenceNumber, Specifics, UpdateQueue,
    validate,
};

impl CreateQueue {
    /// A repeat for the same id is `Done`.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let id = self.entity;
        if step.open(id).is_ok() {
            return Ok(Outcome::Done);
        }
        step.check_new(id)?;
        let level = step.view.level;
        level.queue_name(&self.name)?;
        level.queue_properties(&self.properties)?;
        level.new_forwarding(&self.name, &self.properties)?;
        step.insert_entity(id, self.name, *self.properties, Specifics::Queue)
    }
}

impl UpdateQueue {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let window = step.window(self.entity);
        let mut entity = step.open(self.entity)?;
        if entity.row.kind() != EntityKind::Queue {
            return Err(Refusal::StaleRoute { entity: self.entity });
        }
        let old = entity.properties();
        let new = *self.properties;
        validate::unchanged(old, &new)?;
        let level = entity.view.level;
        level.queue_properties(&new)?;
        validate::forwarding_of_sessions(old, &new)?;
        level.forwarding(&entity.row.name, &new)?;
        // TTL-26: messages passed as due may be due later now.
        if new.default_ttl > old.default_ttl {
            entity.messages().deadlines().search_derived_from(SequenceNumber::FIRST);
        }
        entity.describe(new, Specifics::Queue);
        step.tell_window(self.entity, window);
        Ok(Outcome::Done)
    }
}
