//! `Touch` and `Seal`: what keeps a temporary entity, and what ends it (IDLE).

use crate::machine::Step;
use crate::{Effect, EntityId, Idleness, Outcome, Refusal, Rows, Seal, Span, TOUCH_LASTS};

/// Asked by a leader whose clock was ahead of its successor's.
const EARLY: &str = "the entity is not idle for long enough yet";

impl Seal {
    /// Spared is spared for good: what was used since `idle_since`, or has scheduled messages, or is
    /// no more temporary, no repeat of this seal deletes, so an intent can be withdrawn while others
    /// may still try to finish it. One that comes early is refused instead, and can be asked again.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        // A topic is used with its subscriptions, by this entry as well (IDLE-2).
        step.charge_topics();
        let meta = step.meta;
        let Ok(entity) = step.open(self.entity) else { return Ok(Outcome::Done) };
        let state = &entity.entity.state;
        match Idleness::of(entity.properties(), state, &meta) {
            Idleness::Since { since, .. } if since > self.idle_since => Ok(Outcome::Spared),
            Idleness::Since { due, .. } if due > entity.at => {
                Err(Refusal::InvalidOperation { why: EARLY })
            }
            Idleness::Since { .. } => step.delete_entity(self.entity),
            Idleness::Scheduled | Idleness::Never => Ok(Outcome::Spared),
        }
    }
}

impl<R: Rows> Step<'_, R> {
    /// IDLE-14: rounded up, so that whoever is not heard of again within the minute was counted.
    pub(super) fn touch(&mut self, id: EntityId) -> Result<Outcome, Refusal> {
        let mut entity = self.open(id)?;
        entity.used_until(entity.at.plus(TOUCH_LASTS));
        Ok(Outcome::Done)
    }

    /// For how long nobody has to use an entity until it is deleted, or its topic with it.
    pub(super) fn window(&mut self, id: EntityId) -> Span {
        let Ok(entity) = self.open(id) else { return Span::MAX };
        let (own, topic) = (entity.properties().auto_delete_on_idle, entity.topic());
        let Some(topic) = topic.and_then(|topic| self.open(topic).ok()) else { return own };
        own.min(topic.properties().auto_delete_on_idle)
    }

    /// Tells the engine of what is temporary, is no more, or has another window than it had.
    pub(super) fn tell_window(&mut self, id: EntityId, old: Span) {
        let window = self.window(id);
        if window != old {
            self.effects.push(Effect::Temporary { entity: id, window });
        }
    }

    /// The window of a topic was another: its subscriptions are watched for it (IDLE-2).
    pub(super) fn tell_windows(&mut self, topic: EntityId, old: Span) {
        self.tell_window(topic, old);
        for subscription in self.subscriptions(topic) {
            let own = self.open(subscription).map(|opened| opened.properties().auto_delete_on_idle);
            self.tell_window(subscription, old.min(own.unwrap_or(Span::MAX)));
        }
    }
}
