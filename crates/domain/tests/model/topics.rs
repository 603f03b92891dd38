//! A topic against a model as plain as that of a queue: each subscription is such a queue, and a
//! publish hands each of them the copies its rules demand. Every accepted publish has exactly those.

mod act;
mod subscription;

use std::collections::BTreeMap;

use domain::{
    Acquire, Command, Commit, Counts, CreateSubscription, CreateTopic, DeadlineKind, Delivery,
    Disposition, EntityId, Fire, FireLocks, Key, LockToken, MessageRow, NewMessage, Operation,
    Outcome, Performed, PutRule, QueueId, ReceiverId, Refusal, RemoveRule, Renew, Row, Send,
    SequenceNumber, Settle, Settlement, Span, Specifics, SubQueue, SubscriptionProperties,
    Timestamp, TopicCommand, TopicProperties, UpdateSubscription, UpdateTopic, subscription_path,
};

pub use self::act::acts;
use self::act::{Act, Draft, Make, Take};
use self::subscription::{Subscription, rule, rule_name};
use crate::act::{How, Pick};
use crate::message::{Message, Place};
use crate::plain::Plain;
use crate::play::disposition;
use crate::support::content::TRACEPARENT;
use crate::support::{EPOCH, Group};

const TOPIC: EntityId = EntityId(7);
/// Dead-letter descriptions are texts of the rule language: taken from the machine.
const DESCRIPTION: &str = domain::DEAD_LETTER_ERROR_DESCRIPTION;

/// Due, number, n, time-to-live.
type Waiting = (domain::Timestamp, u64, i64, Option<Span>);

struct Game {
    group: Group,
    subscriptions: BTreeMap<EntityId, Subscription>,
    created: u64,
    default_ttl: Span,
    next: u64,
    counts: Counts,
    waiting: Vec<Waiting>,
    window: Span,
    last_use: Timestamp,
    /// As idle (IDLE-10).
    deleted: bool,
    /// What an entry may match (RULE-41).
    units: Option<u64>,
}

pub fn play(acts: &[(u64, Act)]) {
    let mut game = Game::new();
    for (gap, act) in acts {
        game.group.now = game.group.now.plus(Span(*gap));
        game.act(act);
        if game.deleted {
            break;
        }
        game.use_with_subscriptions();
        game.compare();
    }
    let delete = Command::DeleteEntity { entity: TOPIC };
    assert_eq!(game.group.apply(delete), Outcome::Done);
    game.sweep();
    let left = game.group.rows.0.keys().filter(|key| **key != Key::Meta).count();
    assert_eq!(left, 0, "a deleted topic leaves rows behind");
}

impl Game {
    fn new() -> Game {
        let mut group = Group::empty();
        let properties = Box::new(TopicProperties::default());
        let create = CreateTopic { entity: TOPIC, name: "t".to_owned(), properties };
        let outcome = group.apply(Command::Topic(TopicCommand::Create(create)));
        assert_eq!(outcome, Outcome::Done);
        let mut game = Game {
            group,
            subscriptions: BTreeMap::new(),
            created: 0,
            default_ttl: Span::MAX,
            next: 1,
            counts: Counts::default(),
            waiting: Vec::new(),
            window: Span::MAX,
            last_use: EPOCH,
            deleted: false,
            units: None,
        };
        game.act(&Act::Subscribe);
        game
    }

    fn on(&self, pick: Pick) -> Option<EntityId> {
        let ids: Vec<EntityId> = self.subscriptions.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[usize::from(pick) % ids.len()])
    }

    fn topic(&mut self, command: TopicCommand) {
        let outcome = self.group.apply(Command::Topic(command.clone()));
        assert_eq!(outcome, Outcome::Done, "{command:?}");
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Publish(drafts) => self.publish(drafts),
            Act::Subscribe => self.subscribe(),
            Act::Unsubscribe(on) => {
                let Some(entity) = self.on(*on) else { return };
                let outcome = self.group.apply(Command::DeleteEntity { entity });
                assert_eq!(outcome, Outcome::Done);
                self.unsubscribed(entity);
            }
            Act::Put { on, name, take, make } => self.put(*on, *name, *take, *make),
            Act::Remove { on, name } => self.remove(*on, *name),
            Act::Receive { on, dead, count } => {
                let Some(entity) = self.on(*on) else { return };
                let sub = if *dead { SubQueue::DeadLetter } else { SubQueue::Main };
                let (queue, receiver) = (QueueId { entity, sub }, ReceiverId::default());
                let (count_max, bytes_max) = (*count, u32::MAX);
                let command = Command::Acquire(Acquire { queue, receiver, count_max, bytes_max });
                self.ask(entity, command);
            }
            Act::Settle { on, pick, how } => {
                let Some(settle) = self.settlement(*on, *pick, how) else { return };
                self.ask(settle.queue.entity, Command::Settle(settle));
            }
            Act::Commit { drafts, on, pick, how, spoiled } => {
                if let Some(settle) = self.settlement(*on, *pick, how) {
                    self.commit(drafts, settle, *spoiled);
                }
            }
            Act::TopicTtl(ttl) => {
                self.default_ttl = ttl.map_or(Span::MAX, Span);
                self.update();
                self.effective();
            }
            Act::OwnTtl(on, ttl) => {
                self.change(*on, |properties| properties.default_ttl = ttl.map_or(Span::MAX, Span));
            }
            Act::Flags(on, dead, errors) => self.change(*on, |properties| {
                properties.dead_letter_on_expiration = *dead;
                properties.dead_letter_on_filter_errors = *errors;
            }),
            Act::Pace(units) => self.units = *units,
            Act::FireAll => self.fire_all(),
            Act::Sweep => self.sweep(),
            Act::Restart => self.group.reset(),
            Act::Window(None, window) => {
                self.window = window.map_or(Span::MAX, Span);
                self.update();
            }
            Act::Window(Some(on), window) => self.change(*on, |properties| {
                properties.auto_delete_on_idle = window.map_or(Span::MAX, Span);
            }),
            Act::Touch(on) => self.touch(*on),
            Act::Seal(on, earlier) => self.seal(*on, *earlier),
            Act::Age(on) => {
                for _ in 0..6 {
                    self.group.now = self.group.now.plus(Span(60_000));
                    assert_eq!(self.group.apply(Command::Beat), Outcome::Done);
                }
                self.seal(*on, 0);
            }
        }
    }

    /// What publishes, and what of that goes on in later entries: it comes to the same as if it all were done in
    /// one (RULE-41).
    fn paced(&mut self, command: Command) -> Outcome {
        let Some(units_max) = self.units else { return self.group.apply(command) };
        let outcome = self.limited(units_max, command);
        let on = Fire { entity: TOPIC, kind: DeadlineKind::Matching, count_max: 2 };
        while matches!(self.limited(units_max, Command::Fire(on)), Outcome::Fired(on) if on.more) {}
        outcome
    }

    fn limited(&mut self, units_max: u64, command: Command) -> Outcome {
        let entry = self.group.entry(vec![Command::LimitMatching { units_max }, command]);
        self.group.step(vec![entry]).remove(0).remove(1)
    }

    fn update(&mut self) {
        let (default_ttl, auto_delete_on_idle) = (self.default_ttl, self.window);
        let properties =
            TopicProperties { default_ttl, auto_delete_on_idle, ..TopicProperties::default() };
        let properties = Box::new(properties);
        self.topic(TopicCommand::Update(UpdateTopic { origin: None, entity: TOPIC, properties }));
        self.used();
    }

    fn used(&mut self) {
        self.last_use = self.last_use.max(self.group.now);
    }

    /// IDLE-2: any operation on one of its subscriptions.
    fn use_with_subscriptions(&mut self) {
        let uses = self.subscriptions.values().map(|subscription| subscription.plain.last_use);
        self.last_use = uses.fold(self.last_use, Timestamp::max);
    }

    /// IDLE-10.
    fn unsubscribed(&mut self, entity: EntityId) {
        self.subscriptions.remove(&entity);
        self.used();
    }

    fn touch(&mut self, on: Option<Pick>) {
        match on.and_then(|on| self.on(on)) {
            Some(entity) => drop(self.ask(entity, Command::Touch { entity })),
            None => {
                let outcome = self.group.apply(Command::Touch { entity: TOPIC });
                assert_eq!(outcome, Outcome::Done);
                self.last_use = self.last_use.max(self.group.now.plus(Span(60_000)));
            }
        }
    }

    fn seal(&mut self, on: Option<Pick>, earlier: u64) {
        let seal = |entity, last_use: Timestamp| {
            let idle_since = Timestamp(last_use.0 - earlier);
            Command::Seal(domain::Seal { entity, idle_since })
        };
        if let Some(entity) = on.and_then(|on| self.on(on)) {
            self.ask(entity, seal(entity, self.subscriptions[&entity].plain.idle_since()));
            if self.subscriptions[&entity].plain.deleted {
                self.unsubscribed(entity);
            }
            return;
        }
        let expected = match () {
            () if self.window.is_max() || !self.waiting.is_empty() || earlier > 0 => {
                Outcome::Spared
            }
            () if self.group.now < self.last_use.plus(self.window) => {
                Outcome::Refused(Refusal::InvalidOperation { why: "" })
            }
            () => Outcome::Done,
        };
        let outcome = self.group.apply(seal(TOPIC, self.last_use));
        self.deleted = outcome == Outcome::Done;
        assert_eq!(as_of_queue(outcome), expected);
    }

    fn subscribe(&mut self) {
        if self.subscriptions.len() == 3 {
            return;
        }
        self.created += 1;
        let entity = EntityId(TOPIC.0 + self.created);
        let properties =
            SubscriptionProperties { max_delivery_count: 2, ..SubscriptionProperties::default() };
        let create = CreateSubscription {
            entity,
            topic: TOPIC,
            name: subscription_path("t", &format!("s{}", self.created)),
            properties: Box::new(properties.clone()),
            rule: Box::new(rule(0, Take::All, None)),
        };
        self.topic(TopicCommand::CreateSubscription(create));
        self.used();
        let plain = Plain::new(properties.common(self.default_ttl), self.group.now);
        let (rules, tokens) = (vec![(0, Take::All, None)], Vec::new());
        self.subscriptions.insert(entity, Subscription { plain, rules, properties, tokens });
    }

    fn put(&mut self, on: Pick, name: u8, take: Take, make: Option<Make>) {
        let Some(entity) = self.on(on) else { return };
        let Some(subscription) = self.subscriptions.get_mut(&entity) else { return };
        let known = subscription.rules.iter_mut().find(|(known, ..)| *known == name);
        let replace = known.is_some();
        match known {
            Some(known) => *known = (name, take, make),
            None => subscription.rules.push((name, take, make)),
        }
        let rule = Box::new(rule(name, take, make));
        subscription.used_at(self.group.now);
        self.topic(TopicCommand::PutRule(PutRule { origin: None, entity, rule, replace }));
    }

    fn remove(&mut self, on: Pick, name: u8) {
        let Some(entity) = self.on(on) else { return };
        let Some(subscription) = self.subscriptions.get_mut(&entity) else { return };
        let before = subscription.rules.len();
        subscription.rules.retain(|(known, ..)| *known != name);
        if subscription.rules.len() < before {
            subscription.used_at(self.group.now);
            let name = rule_name(name).to_ascii_uppercase();
            self.topic(TopicCommand::RemoveRule(RemoveRule { origin: None, entity, name }));
        }
    }

    fn change(&mut self, on: Pick, change: impl FnOnce(&mut SubscriptionProperties)) {
        let Some(entity) = self.on(on) else { return };
        let Some(subscription) = self.subscriptions.get_mut(&entity) else { return };
        change(&mut subscription.properties);
        subscription.used_at(self.group.now);
        let properties = Box::new(subscription.properties.clone());
        let update = UpdateSubscription { origin: None, entity, properties };
        self.topic(TopicCommand::UpdateSubscription(update));
        self.effective();
    }

    /// TTL-7.
    fn effective(&mut self) {
        for subscription in self.subscriptions.values_mut() {
            subscription.plain.properties = subscription.properties.common(self.default_ttl);
        }
    }

    fn settlement(&self, on: Pick, pick: Pick, how: &How) -> Option<Settle> {
        let tokens = &self.subscriptions[&self.on(on)?].tokens;
        let (queue, token) = *tokens.get(usize::from(pick) % tokens.len().max(1))?;
        // Not from a dead-letter queue into it.
        let disposition = match (queue.sub, disposition(how)) {
            (SubQueue::DeadLetter, Disposition::DeadLetter { .. }) => Disposition::Complete,
            (_, disposition) => disposition,
        };
        let settlements = vec![Settlement { token, disposition }];
        Some(Settle { origin: None, queue, settlements, atomic: false })
    }

    /// TX-2: the settlement, the copies and the topic's numbers together, or none of them.
    fn commit(&mut self, drafts: &[Draft], settle: Settle, spoiled: bool) {
        let atomic = Command::Settle(Settle { atomic: true, ..settle.clone() });
        let queue = settle.queue;
        let mut operations = vec![Operation::Settle(settle), Operation::Send(self.send(drafts))];
        if spoiled {
            let token = LockToken { sequence: SequenceNumber(1), nonce: 1 };
            operations.push(Operation::Renew(Renew { origin: None, queue, tokens: vec![token] }));
        }
        let commit = Commit { origin: None, entity: TOPIC, operations };
        let outcome = self.paced(Command::Commit(commit));
        let now = self.group.now;
        let plain = &mut self.subscriptions.get_mut(&queue.entity).expect("a subscription").plain;
        plain.at = now;
        let before = plain.clone();
        let settled = plain.apply(&atomic, &Outcome::Done);
        match (matches!(settled, Outcome::Refused(_)), spoiled) {
            (false, false) => {
                let sequences = self.numbers(drafts);
                let performed = vec![Performed::Done, Performed::Sent { sequences }];
                assert_eq!(outcome, Outcome::Committed { performed });
                self.published(drafts);
            }
            (lost, _) => {
                *plain = before;
                let Outcome::Refused(Refusal::TransactionRolledBack { operation, .. }) = outcome
                else {
                    panic!("{outcome:?}")
                };
                assert_eq!(operation, if lost { 0 } else { 2 });
            }
        }
    }

    fn send(&self, drafts: &[Draft]) -> Send {
        let message = |draft: &Draft| NewMessage {
            content: format!("n={};{TRACEPARENT}", draft.n).into(),
            size_bytes: 10,
            header_bytes: 4,
            message_id: None,
            session_id: None,
            partition_key: None,
            ttl: draft.ttl.map(Span),
            scheduled_at: draft.due.map(|due| self.group.now.plus(Span(due))),
        };
        let messages: Vec<_> = drafts.iter().map(message).collect();
        Send { origin: None, entity: TOPIC, messages }
    }

    /// What the topic's next messages are called.
    fn numbers(&self, drafts: &[Draft]) -> Vec<SequenceNumber> {
        (self.next..self.next + drafts.len() as u64).map(SequenceNumber).collect()
    }

    fn publish(&mut self, drafts: &[Draft]) {
        let outcome = self.paced(Command::Send(self.send(drafts)));
        let sequences = self.numbers(drafts);
        assert_eq!(outcome, Outcome::Sent { sequences });
        self.published(drafts);
    }

    fn published(&mut self, drafts: &[Draft]) {
        self.used();
        for draft in drafts {
            let (number, ttl) = (self.next, draft.ttl.map(Span));
            self.next += 1;
            self.counts.accepted += 1;
            match draft.due.filter(|due| *due > 0) {
                Some(due) => {
                    let due = self.group.now.plus(Span(due));
                    self.waiting.push((due, number, draft.n, ttl));
                }
                None => self.fan_out(number, draft.n, ttl, false),
            }
        }
    }

    /// `waited`: for its time, at the topic.
    fn fan_out(&mut self, number: u64, n: i64, ttl: Option<Span>, waited: bool) {
        self.counts.published += 1;
        for (entity, subscription) in &mut self.subscriptions {
            subscription.plain.at = self.group.now;
            let rows = &self.group.rows;
            subscription.take(number, n, (ttl, waited), |copy| {
                let key = Key::Message(QueueId::dead_letter(*entity), SequenceNumber(copy));
                match rows.0.get(&key) {
                    Some(Row::Message(row)) => {
                        let overlay = row.overlay.as_ref();
                        overlay.and_then(|overlay| overlay.set.get(DESCRIPTION).cloned())
                    }
                    _ => None,
                }
            });
        }
    }

    /// Has a subscription do something, and its model.
    fn ask(&mut self, entity: EntityId, command: Command) -> bool {
        let outcome = self.group.apply(command.clone());
        let subscription = self.subscriptions.get_mut(&entity).expect("a subscription");
        subscription.plain.at = self.group.now;
        let expected = subscription.plain.apply(&command, &outcome);
        if let (Outcome::Acquired { deliveries, .. }, Command::Acquire(acquire)) =
            (&outcome, &command)
        {
            let token = |delivery: &Delivery| delivery.lock.expect("a lock").token;
            let tokens = deliveries.iter().map(|delivery| (acquire.queue, token(delivery)));
            subscription.tokens.extend(tokens);
        }
        assert_eq!(as_of_queue(outcome.clone()), expected, "{command:?}");
        matches!(outcome, Outcome::Fired(fired) if fired.more)
    }

    fn fire_all(&mut self) {
        let fire = |entity, kind| Command::Fire(Fire { entity, kind, count_max: 2 });
        loop {
            let now = self.group.now;
            match self.paced(fire(TOPIC, DeadlineKind::Scheduled)) {
                Outcome::Fired(fired) => {
                    self.waiting.sort_unstable_by_key(|(due, number, ..)| (*due, *number));
                    let activated = fired.activated as usize;
                    for (due, _, n, ttl) in self.waiting.drain(..activated).collect::<Vec<_>>() {
                        assert!(due <= now, "activated before its time");
                        let number = self.next;
                        self.next += 1;
                        self.fan_out(number, n, ttl, true);
                    }
                    if activated > 0 && self.waiting.is_empty() {
                        self.used(); // IDLE-8.
                    }
                    if !fired.more {
                        break;
                    }
                }
                other => panic!("not fired: {other:?}"),
            }
        }
        let due = |(due, ..): &Waiting| *due <= self.group.now;
        assert!(!self.waiting.iter().any(due), "left behind");
        let entities: Vec<EntityId> = self.subscriptions.keys().copied().collect();
        for entity in entities {
            let locks = self.subscriptions[&entity].tokens.clone();
            self.ask(entity, Command::FireLocks(FireLocks { locks }));
            for kind in [DeadlineKind::Fixed, DeadlineKind::Derived] {
                while self.ask(entity, fire(entity, kind)) {}
            }
        }
    }

    fn sweep(&mut self) {
        loop {
            match self.group.apply(Command::Sweep) {
                Outcome::Fired(fired) if fired.more => (),
                _ => return,
            }
        }
    }

    fn compare(&self) {
        let info = domain::entity_info(&self.group.rows, TOPIC).expect("the topic");
        let scheduled = self.waiting.len() as u64;
        assert_eq!(info.counts, Counts { scheduled, ..self.counts });
        assert_eq!(info.next_sequence.0, self.next);
        assert_eq!(info.last_use, self.last_use);
        let sizes = self.subscriptions.values().flat_map(|s| &s.plain.messages);
        let size: u64 = sizes.map(|message| u64::from(message.size())).sum();
        assert_eq!(info.size_bytes, size + 10 * scheduled);
        for (entity, subscription) in &self.subscriptions {
            let info = domain::entity_info(&self.group.rows, *entity).expect("a subscription");
            assert_eq!(info.counts, subscription.plain.counts(), "{entity:?}");
            assert_eq!(info.last_use, subscription.plain.last_use, "{entity:?}");
            let Specifics::Subscription(specifics) = &info.specifics else { panic!("{info:?}") };
            assert_eq!(specifics.rules.total(), subscription.rules.len() as u64);
            let messages = &subscription.plain.messages;
            messages.iter().for_each(|message| self.compare_message(*entity, message));
        }
    }

    fn compare_message(&self, entity: EntityId, message: &Message) {
        let sub = if message.place == Place::Dead { SubQueue::DeadLetter } else { SubQueue::Main };
        let key = Key::Message(QueueId { entity, sub }, SequenceNumber(message.number));
        let Some(Row::Message(row)) = self.group.rows.0.get(&key) else {
            panic!("{} should be stored in {:?} of {entity:?}", message.number, message.place);
        };
        let overlay = row.overlay.clone().unwrap_or_default();
        assert_eq!(overlay.set, message.set, "properties of {}", message.number);
        let expected = MessageRow {
            body: SequenceNumber(message.body),
            size_bytes: message.size(),
            header_bytes: message.header(),
            deferred: message.deferred,
            was_scheduled: message.was_scheduled,
            delivery_count: message.count,
            enqueued_at: message.since,
            lifetime: message.lifetime,
            session: None,
            overlay: row.overlay.clone(),
            travel: None,
        };
        assert_eq!(*row, expected, "{} of {entity:?}", message.number);
    }
}

/// An outcome less what tells a copy from a queue's message.
fn as_of_queue(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Acquired { deliveries, more } => {
            let plain = |delivery: Delivery| {
                assert_eq!(delivery.topic, Some(TOPIC));
                assert_eq!(delivery.enqueued_sequence, delivery.body, "SEQ-9");
                let enqueued_sequence = delivery.sequence;
                Delivery { topic: None, enqueued_sequence, overlay: None, ..delivery }
            };
            Outcome::Acquired { deliveries: deliveries.into_iter().map(plain).collect(), more }
        }
        Outcome::Refused(Refusal::InvalidOperation { .. }) => {
            Outcome::Refused(Refusal::InvalidOperation { why: "" })
        }
        other => other,
    }
}
