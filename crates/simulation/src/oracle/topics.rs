//! Topics, their subscriptions and rules: which copies a publish must make is reckoned here, from the
//! rules as they were asked for.

use domain::{
    EntityId, Fire, Fired, NewMessage, NewRule, QueueProperties, SequenceNumber, Specifics,
    SubQueue, SubscriptionSpecifics, TopicCommand, TopicSpecifics,
};

use super::{Entity, Message, MessageId, Oracle, Place, of};
use crate::invariants::copies::{self, Share};
use crate::invariants::early_expiry;
use crate::report::Holds;
use crate::rules::{self, Copy, Rule};

impl Oracle {
    /// It was done.
    pub(super) fn topic_command(&mut self, command: &TopicCommand) -> Holds {
        match command {
            TopicCommand::Create(create) => {
                let mut specifics = TopicSpecifics::default();
                specifics.tell(&create.properties);
                let common = create.properties.common();
                self.insert(create.entity, Entity::new(common, Specifics::Topic(specifics)));
            }
            TopicCommand::Update(update) => {
                let mut specifics = TopicSpecifics::default();
                specifics.tell(&update.properties);
                self.describe(update.entity, update.properties.common())?;
                self.entity(update.entity)?.specifics = Specifics::Topic(specifics);
                self.retime(update.entity)?;
            }
            TopicCommand::CreateSubscription(create) => {
                let specifics = SubscriptionSpecifics::of(create.topic, &create.properties);
                let topic_ttl = self.entity(create.topic)?.properties.default_ttl;
                let common = create.properties.common(topic_ttl);
                let mut entity = Entity::new(common, Specifics::Subscription(specifics));
                entity.rules = vec![rule(&create.rule)?];
                self.insert(create.entity, entity);
            }
            TopicCommand::UpdateSubscription(update) => {
                let Some(topic) = self.topic(update.entity) else {
                    return Err(copies::broken(format!("{:?} has no topic", update.entity)));
                };
                let topic_ttl = self.entity(topic)?.properties.default_ttl;
                let specifics = SubscriptionSpecifics::of(topic, &update.properties);
                self.describe(update.entity, update.properties.common(topic_ttl))?;
                self.entity(update.entity)?.specifics = Specifics::Subscription(specifics);
            }
            TopicCommand::PutRule(put) => {
                let rule = rule(&put.rule)?;
                self.entity(put.entity)?.rules.push(rule);
            }
            TopicCommand::RemoveRule(remove) => {
                let rule = Rule::named(&remove.name);
                self.entity(remove.entity)?.rules.retain(|known| Some(*known) != rule);
            }
        }
        Ok(())
    }

    /// A repeat for the same id does nothing.
    fn insert(&mut self, id: EntityId, entity: Entity) {
        self.entities.entry(id).or_insert(entity);
    }

    fn describe(&mut self, id: EntityId, common: QueueProperties) -> Holds {
        let at = self.at;
        self.entity(id)?.update(&common, at);
        Ok(())
    }

    /// TTL-7: a topic's default is a ceiling of its subscriptions'.
    fn retime(&mut self, topic: EntityId) -> Holds {
        let topic_ttl = self.entity(topic)?.properties.default_ttl;
        for id in self.subscriptions(topic) {
            let entity = self.entity(id)?;
            let Specifics::Subscription(specifics) = &entity.specifics else { continue };
            let default_ttl = specifics.own_default_ttl.min(topic_ttl);
            let common = QueueProperties { default_ttl, ..entity.properties.clone() };
            self.describe(id, common)?;
        }
        Ok(())
    }

    /// Of an entity that is a subscription, its topic.
    pub fn topic(&self, id: EntityId) -> Option<EntityId> {
        match &self.entities.get(&id)?.specifics {
            Specifics::Subscription(specifics) => Some(specifics.topic),
            Specifics::Queue | Specifics::Topic(_) => None,
        }
    }

    pub fn is_topic(&self, id: EntityId) -> bool {
        let entity = self.entities.get(&id);
        entity.is_some_and(|entity| matches!(entity.specifics, Specifics::Topic(_)))
    }

    /// A topic's subscriptions that exist, in the order in which they get their copies.
    pub fn subscriptions(&self, topic: EntityId) -> Vec<EntityId> {
        let alive = self.entities.iter().filter(|(_, entity)| entity.alive);
        alive.map(|(id, _)| *id).filter(|id| self.topic(*id) == Some(topic)).collect()
    }

    /// RULE-14: a message became copies, under a number of the topic's.
    pub(super) fn published(
        &mut self,
        topic: EntityId,
        number: SequenceNumber,
        message: &Message,
    ) -> Holds {
        self.entity(topic)?.published += 1;
        self.ended.insert((topic, number));
        let mut count = 0;
        for subscription in self.subscriptions(topic) {
            count += self.share(subscription, number, message)?;
        }
        self.totals.copies += count;
        Ok(())
    }

    /// RULE-9: a topic that looks first accepts nothing that nobody takes.
    pub(super) fn must_match(&mut self, topic: EntityId, new: &NewMessage) -> Holds {
        let looks = match &self.entity(topic)?.specifics {
            Specifics::Topic(specifics) => specifics.filter_before_publishing,
            Specifics::Queue | Specifics::Subscription(_) => false,
        };
        match looks && !self.is_taken(topic, new) {
            true => Err(copies::broken(format!("{topic:?} accepted {new:?}, which nobody takes"))),
            false => Ok(()),
        }
    }

    /// Whether a message would make any copy.
    pub(super) fn is_taken(&self, topic: EntityId, new: &NewMessage) -> bool {
        let subscriptions = self.subscriptions(topic);
        subscriptions.iter().any(|id| !self.demanded(*id, &new.content).is_empty())
    }

    fn demanded(&self, subscription: EntityId, content: &bytes::Bytes) -> Vec<Copy> {
        let Some(entity) = self.entities.get(&subscription) else { return Vec::new() };
        let Specifics::Subscription(specifics) = &entity.specifics else { return Vec::new() };
        rules::copies(&entity.rules, specifics.dead_letter_on_filter_errors, content)
    }

    /// The copies of one subscription; how many they are.
    fn share(
        &mut self,
        subscription: EntityId,
        published: SequenceNumber,
        message: &Message,
    ) -> Result<u64, crate::report::Broken> {
        let demanded = self.demanded(subscription, &message.content);
        let (at, mut numbers) = (self.at, Vec::new());
        for copy in demanded {
            let entity = self.entity(subscription)?;
            entity.issued += 1;
            entity.accepted += 1;
            let number = SequenceNumber(entity.issued);
            let (copy, sub) = enqueued(entity, message, copy, number, at);
            self.totals.dead_lettered += u64::from(sub == SubQueue::DeadLetter);
            self.messages.insert((subscription, number), copy);
            numbers.push((number, sub));
        }
        let count = numbers.len() as u64;
        self.shares.push(Share { subscription, published, copies: numbers });
        Ok(count)
    }

    /// SCHED-5, SCHED-7, SCHED-9: what waited at a topic until its time was published, in order of
    /// time and number. How many was told; that each was due is asked here.
    pub(super) fn fired(&mut self, fire: &Fire, fired: &Fired) -> Holds {
        if !self.is_topic(fire.entity) {
            return Ok(());
        }
        let scheduled =
            self.messages.range(of(fire.entity)).filter_map(|(id, message)| match message.place {
                Place::Scheduled { due } => Some((due, *id)),
                Place::In(_) => None,
            });
        let mut scheduled: Vec<(domain::Timestamp, MessageId)> = scheduled.collect();
        scheduled.sort_unstable();
        for (due, id) in scheduled.into_iter().take(fired.activated as usize) {
            early_expiry::activated(id, due, self.at)?;
            let Some(message) = self.messages.remove(&id) else { continue };
            self.ended.insert(id);
            let topic = self.entity(fire.entity)?;
            topic.issued += 1; // SEQ-6.
            let number = SequenceNumber(topic.issued);
            self.totals.activations += 1;
            self.published(fire.entity, number, &message)?;
        }
        Ok(())
    }
}

/// A copy as a subscription enqueues it, and where.
fn enqueued(
    entity: &Entity,
    message: &Message,
    copy: Copy,
    number: SequenceNumber,
    at: domain::Timestamp,
) -> (Message, SubQueue) {
    let requires_session = entity.properties.requires_session;
    // RULE-20, SESS-3.
    let failed = copy == Copy::Failed || (requires_session && message.session.is_none());
    let sub = if failed { SubQueue::DeadLetter } else { SubQueue::Main };
    let session = message.session.clone().filter(|_| requires_session && !failed);
    let copy = Message {
        content: message.content.clone(),
        ttl: message.ttl,
        sequence: number,
        place: Place::In(sub),
        deferred: false,
        enqueued_at: at,
        lifetime: super::message::lifetime(message.ttl, at, &entity.properties),
        lock: None,
        delivery_count: 0,
        session,
    };
    (copy, sub)
}

fn rule(new: &NewRule) -> Result<Rule, crate::report::Broken> {
    Rule::named(&new.name)
        .ok_or_else(|| copies::broken(format!("the simulation gives no rule {new:?}")))
}
