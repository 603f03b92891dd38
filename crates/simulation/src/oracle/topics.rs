//! Topics, their subscriptions and rules: which copies a publish must make is reckoned here, from the
//! rules as they were asked for.

use domain::{
    DeadlineKind, EntityId, Fire, Fired, Key, MatchProgress, MemoryRows, NewMessage, NewRule,
    QueueId, QueueProperties, Row, SequenceNumber, Specifics, SubQueue, SubscriptionSpecifics,
    TopicCommand, TopicSpecifics,
};

use super::{Entity, Message, MessageId, Oracle, PartlyMatched, Place, of};
use crate::invariants::copies::{self, Share};
use crate::invariants::early_expiry;
use crate::report::Holds;
use crate::rules::{self, Copy, Rule};

impl Oracle {
    /// It was done.
    pub(super) fn topic_command(&mut self, command: &TopicCommand, rows: &MemoryRows) -> Holds {
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
                self.changed_under_way(update.entity, rows)?;
                self.describe(update.entity, update.properties.common(topic_ttl))?;
                self.entity(update.entity)?.specifics = Specifics::Subscription(specifics);
            }
            TopicCommand::PutRule(put) => {
                let rule = rule(&put.rule)?;
                self.changed_under_way(put.entity, rows)?;
                self.entity(put.entity)?.rules.push(rule);
            }
            TopicCommand::RemoveRule(remove) => {
                let rule = Rule::named(&remove.name);
                self.changed_under_way(remove.entity, rows)?;
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

    /// Rules change for the message that is under way with them, where that is so.
    fn changed_under_way(&mut self, subscription: EntityId, rows: &MemoryRows) -> Holds {
        let Some(topic) = self.topic(subscription) else { return Ok(()) };
        let Some(front) = self.entity(topic)?.unmatched.front_mut() else { return Ok(()) };
        let progress = progress(rows, topic, front.number);
        front.changed |= progress.is_some_and(|progress| progress.subscription == subscription);
        Ok(())
    }

    /// A message is to become copies, under a number of the topic's: behind what is not matched yet (RULE-15).
    pub(super) fn published(
        &mut self,
        topic: EntityId,
        number: SequenceNumber,
        message: Message,
        rows: &MemoryRows,
    ) -> Holds {
        let (at, next) = (self.at, EntityId(0));
        let entity = self.entity(topic)?;
        entity.published += 1;
        let unmatched = PartlyMatched { number, at, message, next, made: 0, changed: false };
        entity.unmatched.push_back(unmatched);
        self.ended.insert((topic, number));
        self.totals.matched_later += u64::from(progress(rows, topic, number).is_some());
        self.match_on(topic, rows)
    }

    /// RULE-14, RULE-41: copies were made, in the order of acceptance. How far the entry came its rows tell; that
    /// what was passed has what its rules demand is reckoned here.
    fn match_on(&mut self, topic: EntityId, rows: &MemoryRows) -> Holds {
        while let Some(mut front) = self.entity(topic)?.unmatched.pop_front() {
            let progress = progress(rows, topic, front.number);
            for subscription in self.subscriptions(topic) {
                if subscription < front.next {
                    continue;
                }
                if subscription > front.next {
                    (front.next, front.made, front.changed) = (subscription, 0, false);
                }
                let left = match progress {
                    None => Some(0),
                    Some(progress) if subscription < progress.subscription => Some(0),
                    Some(progress) if subscription == progress.subscription => {
                        progress.order.is_none().then_some(progress.actions.len())
                    }
                    Some(_) => None,
                };
                // What is changed has whatever it has; what is under way has nothing before its rules are through.
                let is_over = progress.is_none_or(|of| subscription < of.subscription);
                match left {
                    _ if front.changed => self.adopt(subscription, &front, rows)?,
                    Some(left) => {
                        let demanded = self.demanded(subscription, &front.message.content);
                        let upto = demanded.len().saturating_sub(left);
                        let copies = demanded.get(front.made..upto).unwrap_or_default();
                        self.share(subscription, &front, copies)?;
                        front.made = upto;
                    }
                    None => (),
                }
                if !is_over {
                    break;
                }
                (front.next, front.made, front.changed) = (EntityId(subscription.0 + 1), 0, false);
            }
            if progress.is_some() {
                self.entity(topic)?.unmatched.push_front(front);
                return Ok(());
            }
        }
        Ok(())
    }

    /// What the subscription has of a message's copies beyond those known. Of one that has gone in the same entry,
    /// as its time was over before it came, there is nothing but its number.
    fn adopt(&mut self, subscription: EntityId, of: &PartlyMatched, rows: &MemoryRows) -> Holds {
        let from = self.entity(subscription)?.issued + 1;
        let next = match rows.0.get(&Key::EntityState(subscription)) {
            Some(Row::EntityState(state)) => state.next_sequence.0,
            _ => from,
        };
        let row = |sub, number| {
            let key = Key::Message(QueueId { entity: subscription, sub }, SequenceNumber(number));
            match rows.0.get(&key) {
                Some(Row::Message(row)) => Some(row.body == of.number),
                _ => None,
            }
        };
        let mut copies = Vec::new();
        for number in from..next {
            match (row(SubQueue::Main, number), row(SubQueue::DeadLetter, number)) {
                (Some(false), _) | (_, Some(false)) => break,
                (_, Some(true)) => copies.push(Copy::Failed),
                (Some(true), None) | (None, None) => copies.push(Copy::Plain),
            }
        }
        self.share(subscription, of, &copies)
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

    /// The next copies of one subscription.
    fn share(&mut self, subscription: EntityId, of: &PartlyMatched, copies: &[Copy]) -> Holds {
        let PartlyMatched { number: published, at, ref message, .. } = *of;
        let (mut numbers, mut expired, now) = (Vec::new(), Vec::new(), self.at);
        let from = SequenceNumber(self.entity(subscription)?.issued + 1);
        for copy in copies {
            let entity = self.entity(subscription)?;
            entity.issued += 1;
            entity.accepted += 1;
            let number = SequenceNumber(entity.issued);
            let (copy, sub) = enqueued(entity, message, *copy, number, at);
            if sub == SubQueue::Main && copy.deadline(&entity.properties) <= now {
                expired.push(number);
            }
            self.totals.dead_lettered += u64::from(sub == SubQueue::DeadLetter);
            self.messages.insert((subscription, number), copy);
            numbers.push((number, sub));
        }
        self.totals.copies += numbers.len() as u64;
        self.shares.push(Share { subscription, published, from, copies: numbers, expired });
        Ok(())
    }

    /// SCHED-5, SCHED-7, SCHED-9: what waited at a topic until its time was published, in order of
    /// time and number. How many was told; that each was due is asked here.
    pub(super) fn fired(&mut self, fire: &Fire, fired: &Fired, rows: &MemoryRows) -> Holds {
        let is_there = self.entities.get(&fire.entity).is_some_and(|entity| entity.alive);
        if !self.is_topic(fire.entity) || !is_there {
            return Ok(());
        }
        if fire.kind == DeadlineKind::Matching {
            return self.match_on(fire.entity, rows);
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
            self.published(fire.entity, number, message, rows)?;
        }
        Ok(())
    }
}

/// How far rows say that the matching of a message has come; `None`: it is over.
fn progress(rows: &MemoryRows, topic: EntityId, number: SequenceNumber) -> Option<&MatchProgress> {
    match rows.0.get(&Key::Unmatched(topic, number)) {
        Some(Row::Unmatched(row)) => Some(&row.progress),
        _ => None,
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
