//! What happens to entities as a whole, and between a topic and its subscriptions: they come and go, are
//! charged, and are watched for being idle.

use std::collections::BTreeMap;

use crate::machine::Step;
use crate::machine::entity::Entity;
use crate::{
    Effect, EntityId, EntityRow, Key, LifeStep, Outcome, QueueProperties, Refusal, Row, Rows,
    SequenceNumber, Span, Specifics, SubscriptionSpecifics, TOUCH_LASTS, Timestamp, TopicSpecifics,
};

/// They come and go.
impl<R: Rows> Step<'_, R> {
    /// ENT-8: refuses an id whose former rows are not swept yet, one that is elsewhere by now, and the
    /// one that has no next.
    pub(super) fn check_new(&mut self, id: EntityId) -> Result<(), Refusal> {
        self.check_not_relocated(id)?;
        if self.view.contains(&Key::Sweep(id)) {
            return Err(Refusal::StaleRoute { entity: id });
        }
        match id.0 {
            u64::MAX => {
                let why = "the catalog never issues it".to_owned();
                Err(Refusal::Argument { what: "entity id", why })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn insert_entity(
        &mut self,
        id: EntityId,
        name: String,
        properties: QueueProperties,
        specifics: Specifics,
    ) -> Result<Outcome, Refusal> {
        let (created_at, updated_at) = (self.at, self.at);
        let properties = self.view.level.settled(properties);
        let row = EntityRow { name, properties, specifics, created_at, updated_at };
        self.machine.entities.insert(id, Entity::created(row, self.at));
        self.view.follow_entity(id, SequenceNumber::FIRST);
        self.tell_window(id, Span::MAX);
        Ok(Outcome::Done)
    }

    /// ENT-7: from here on nothing of the entity can be reached, nor of a topic's subscriptions; the
    /// other rows are swept. A repeat, or the end of a creation that never came here, is `Done` too.
    pub(super) fn delete_entity(&mut self, id: EntityId) -> Result<Outcome, Refusal> {
        let Ok(entity) = self.open(id) else {
            return self.check_not_relocated(id).map(|()| Outcome::Done);
        };
        let (specifics, topic) = (entity.row.specifics.clone(), entity.row.topic());
        self.charge_topics();
        self.leave_topic(id, &specifics);
        self.forget_entity(id, topic);
        self.effects.push(Effect::SweepWanted);
        Ok(Outcome::Done)
    }

    /// `topic`: whose bodies its messages share, if that is another.
    pub(super) fn forget_entity(&mut self, id: EntityId, topic: Option<EntityId>) {
        if self.view.recorder.is_some()
            && let Ok(entity) = self.open(id)
        {
            let (queue, number) = (entity.main(), SequenceNumber::MIN);
            entity.view.note_event(entity.row, queue, number, || LifeStep::EntityDeleted);
        }
        self.view.forget_traces(id);
        let gone = self.machine.entities.remove(&id);
        if let Some(entity) = &gone
            && !entity.tally.is_empty()
        {
            self.tallies.push((id, entity.tally.clone()));
        }
        let born = gone.is_some_and(|entity| entity.born);
        if !born {
            self.view.delete(Key::Entity(id));
            self.view.delete(Key::EntityState(id));
        }
        self.view.insert(Key::Sweep(id), Row::Sweep { topic });
        self.effects.push(Effect::Deleted { entity: id });
    }

    /// What goes with a topic, or what a topic loses with its subscription.
    pub(super) fn leave_topic(&mut self, id: EntityId, specifics: &Specifics) {
        match *specifics {
            Specifics::Queue => (),
            Specifics::Topic(_) => {
                for subscription in self.view.subscriptions(id) {
                    self.forget_entity(subscription, Some(id));
                }
                self.machine.topics.remove(&id);
            }
            Specifics::Subscription(SubscriptionSpecifics { topic, rules, .. }) => {
                let size = self.machine.entities.get(&id).map_or(0, |e| e.state.size_bytes);
                self.view.delete(Key::Subscription(topic, id));
                self.rules().forget(topic, id);
                let Ok(mut opened) = self.open(topic) else { return };
                opened.state.size_bytes -= size;
                opened.used_until(opened.at); // IDLE-10.
                let Ok(mut of_topic) = opened.topic_specifics() else { return };
                of_topic.subscriptions -= 1;
                of_topic.rules = of_topic.rules.minus(rules);
                self.set_topic_specifics(topic, of_topic);
            }
        }
    }
}

/// Topics know of their subscriptions.
impl<R: Rows> Step<'_, R> {
    /// Writes what a topic knows of its subscriptions, and tells the engine what a publish weighs.
    pub(super) fn set_topic_specifics(&mut self, topic: EntityId, specifics: TopicSpecifics) {
        let Ok(mut opened) = self.open(topic) else { return };
        opened.set_specifics(Specifics::Topic(specifics));
        self.effects.push(Effect::Fanout { topic, copies_max: specifics.copies_max() });
    }

    /// Charges topics for what this entry changed in their subscriptions: size (COUNT-3, QUOTA-32)
    /// and use (IDLE-2). Exact whenever it was called last; entries end with it.
    pub(super) fn charge_topics(&mut self) {
        let mut charges: BTreeMap<EntityId, (u64, u64, Timestamp)> = BTreeMap::new();
        for id in &self.touched {
            let Some(entity) = self.machine.entities.get_mut(id) else { continue };
            let Specifics::Subscription(SubscriptionSpecifics { topic, .. }) = entity.row.specifics
            else {
                continue;
            };
            let (size, used) = (entity.state.size_bytes, entity.state.last_use);
            let Some(watch) = &mut entity.watch else { continue };
            if (watch.charged, watch.used) == (size, used) {
                continue;
            }
            let (before, after, last_use) = charges.entry(topic).or_default();
            *before += watch.charged;
            *after += size;
            *last_use = used.max(*last_use);
            (watch.charged, watch.used) = (size, used);
        }
        for (topic, (before, after, used)) in charges {
            let Ok(mut topic) = self.open(topic) else { continue };
            topic.state.size_bytes = topic.state.size_bytes + after - before;
            topic.used_until(used);
        }
    }
}

/// Idle ones go (IDLE).
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
        let (own, topic) = (entity.properties().idle_window(), entity.row.topic());
        let Some(topic) = topic.and_then(|topic| self.open(topic).ok()) else { return own };
        own.min(topic.properties().idle_window())
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
        for subscription in self.view.subscriptions(topic) {
            let own = self.open(subscription).map(|opened| opened.properties().idle_window());
            self.tell_window(subscription, old.min(own.unwrap_or(Span::MAX)));
        }
    }
}
