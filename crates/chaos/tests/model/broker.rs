//! The broker's side: lists of messages, and what time does to them.

use std::collections::{BTreeMap, BTreeSet};

use chaos::{Counters, Delivered, Entities, Entity, Found, How, Kind, Resting, Sent};

pub const LOCK_MS: u64 = 5_000;

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    LosesMessage,
    DropsInsteadOfDeadLettering,
    SkipsCopy,
    StoresRefused,
    CopiesToAll,
    StoresTwice,
    ForwardsTwice,
    ForgetsDuplicates,
    ForgetsCompletion,
    DeliversExpired,
    ExpiresEarly,
    NeverSweeps,
    StampsWrong,
    WrongReason,
    LocksTwice,
    AcceptsStaleToken,
    ForgetsCount,
    DeliversTooOften,
    NumbersBackwards,
    MixesSession,
    GrantsSessionTwice,
    ActivatesEarly,
    IgnoresCancel,
    CommitsInPart,
    CountsWrong,
    ReplicaDiffers,
    DeletesUsed,
    KeepsIdle,
    DefersUncounted,
    HandsOutDeferred,
    ForgetsDeferred,
    CountsDead,
    CountsDeadLettering,
    CountsReleased,
    SettlesUncommitted,
    KeepsRolledBack,
    KeepsGivenBack,
    CountsGivenBack,
    ForgetsLapse,
    FreesUnheard,
    SettlesAtOnce,
}

/// A session held.
#[derive(Clone, Debug)]
pub struct Hold {
    pub session: String,
    pub token: String,
    pub until_ms: u64,
}

#[derive(Clone, Debug)]
struct Stored {
    sent: Sent,
    number: u64,
    failed: u32,
    enqueued_ms: u64,
    expires_ms: Option<u64>,
    lock: Option<(String, u64)>,
    due_ms: Option<u64>,
    dead: bool,
    deferred: bool,
    reason: Option<String>,
}

#[derive(Clone, Default)]
struct Queue {
    number: u64,
    messages: Vec<Stored>,
    ids: BTreeSet<String>,
    counters: Counters,
    holds: Vec<Hold>,
}

#[derive(Clone)]
pub struct Broker {
    entities: Entities,
    bug: Option<Bug>,
    now_ms: u64,
    queues: BTreeMap<String, Queue>,
    tokens: u64,
    /// Of transactions that were rolled back, with a bug.
    kept: BTreeSet<String>,
}

impl Broker {
    pub fn new(entities: Entities, bug: Option<Bug>) -> Broker {
        let queues = entities.0.keys().map(|name| (name.clone(), Queue::default())).collect();
        Broker { entities, bug, now_ms: 0, queues, tokens: 0, kept: BTreeSet::new() }
    }

    /// In the place of another that is lost: its tokens are not given out again.
    pub fn replaces(&mut self, lost: &Broker) {
        self.tokens = lost.tokens;
    }

    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a bug strikes this time: one in so many.
    fn strikes(&self, bug: Bug, number: u64) -> bool {
        self.has(bug) && number.is_multiple_of(5)
    }

    pub fn is_gone(&self, entity: &str) -> bool {
        entity == "tmp-used" && self.has(Bug::DeletesUsed) && self.now_ms > 1_030_000
    }

    fn entity(&self, name: &str) -> Entity {
        self.entities.get(name).expect("the model names only its own").clone()
    }

    fn queue(&mut self, name: &str) -> &mut Queue {
        self.queues.get_mut(name).expect("the model names only its own")
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("{:032x}", self.tokens)
    }

    /// Stores a message in all places it goes to from here; its number in the first.
    pub fn send(&mut self, name: &str, sent: &Sent) -> Option<u64> {
        let entity = self.entity(name);
        if self.is_gone(name) {
            return None;
        }
        if entity.kind == Kind::Topic {
            let takes = |it: &&Entity| match &it.kind {
                Kind::Subscription { class, .. } => {
                    self.has(Bug::CopiesToAll) || class.is_none() || *class == sent.class
                }
                Kind::Queue | Kind::Topic => false,
            };
            let places: Vec<String> =
                self.entities.0.values().filter(takes).map(|it| it.name.clone()).collect();
            let number = self.queue(name).number + 1;
            self.queue(name).number = number;
            let most = if self.strikes(Bug::SkipsCopy, number) { 1 } else { places.len() };
            for place in places.iter().take(most) {
                self.store(place, sent);
            }
            return Some(number);
        }
        if entity.deduplicates
            && !self.queue(name).ids.insert(sent.id.clone())
            && !self.has(Bug::ForgetsDuplicates)
        {
            return None;
        }
        let number = self.store(name, sent);
        if self.strikes(Bug::StoresTwice, number) {
            self.store(name, sent);
        }
        if let Some(next) = entity.forwards_to {
            let queue = self.queue(name);
            queue.messages.clear();
            queue.counters.forwarded += 1;
            self.store(&next, sent);
            if self.strikes(Bug::ForwardsTwice, number) {
                self.store(&next, sent);
            }
        }
        Some(number)
    }

    fn store(&mut self, name: &str, sent: &Sent) -> u64 {
        let mut now_ms = self.now_ms;
        if self.has(Bug::StampsWrong) {
            now_ms += 10_000;
        }
        let (loses, backwards) = (self.has(Bug::LosesMessage), self.has(Bug::NumbersBackwards));
        let queue = self.queue(name);
        queue.number += 1;
        queue.counters.accepted += 1;
        let number = if backwards { 1_000_000 - queue.number } else { queue.number };
        let expires_ms = sent.ttl_ms.filter(|_| sent.due_ms.is_none()).map(|ttl| now_ms + ttl);
        if !(loses && number.is_multiple_of(5)) {
            queue.messages.push(Stored {
                sent: sent.clone(),
                number,
                failed: 0,
                enqueued_ms: now_ms,
                expires_ms,
                lock: None,
                due_ms: sent.due_ms,
                dead: false,
                deferred: false,
                reason: None,
            });
        }
        number
    }

    /// Time passes: locks lapse, messages expire, schedules fall due.
    pub fn advance(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        for entity in self.entities.0.clone().into_values() {
            let lapsed: Vec<String> = {
                let queue = self.queue(&entity.name);
                let over = |it: &Stored| it.lock.as_ref().is_some_and(|lock| lock.1 <= now_ms);
                let lapsed = queue.messages.iter().filter(|it| over(it));
                lapsed.filter_map(|it| it.lock.clone()).map(|lock| lock.0).collect()
            };
            let counts = !(entity.sessions && self.has(Bug::ForgetsLapse));
            for token in lapsed {
                self.release_lock(&entity, &token, counts);
            }
            self.queue(&entity.name).holds.retain(|hold| hold.until_ms > now_ms);
            self.expire(&entity);
            self.activate(&entity);
        }
    }

    fn expire(&mut self, entity: &Entity) {
        let early_ms = if self.has(Bug::ExpiresEarly) { 1_500 } else { 0 };
        let off = self.has(Bug::NeverSweeps) || self.has(Bug::DeliversExpired);
        let (now_ms, drops) = (self.now_ms, self.has(Bug::DropsInsteadOfDeadLettering));
        let reason = match self.has(Bug::WrongReason) {
            true => "MaxDeliveryCountExceeded",
            false => "TTLExpiredException",
        };
        let queue = self.queue(&entity.name);
        let due = |it: &Stored| {
            let free = !it.dead && it.lock.is_none();
            free && it.expires_ms.is_some_and(|at| at <= now_ms + early_ms) && !off
        };
        if entity.dead_letters_expired && !drops {
            for it in queue.messages.iter_mut().filter(|it| due(it)) {
                (it.dead, it.reason) = (true, Some(reason.to_owned()));
            }
        } else {
            let before = queue.messages.len();
            queue.messages.retain(|it| !due(it));
            queue.counters.expired_dropped += (before - queue.messages.len()) as u64;
        }
    }

    fn activate(&mut self, entity: &Entity) {
        let early_ms = if self.has(Bug::ActivatesEarly) { 400 } else { 0 };
        let now_ms = self.now_ms;
        let queue = self.queue(&entity.name);
        for it in &mut queue.messages {
            if it.due_ms.is_some_and(|at| at <= now_ms + early_ms) {
                queue.number += 1;
                (it.number, it.due_ms, it.enqueued_ms) = (queue.number, None, now_ms);
            }
        }
    }

    pub fn receive(&mut self, name: &str, dead: bool) -> Option<Delivered> {
        if self.is_gone(name) {
            return None;
        }
        let now_ms = self.now_ms;
        let shared = self.has(Bug::LocksTwice);
        let late = self.has(Bug::DeliversExpired);
        let mixes = self.has(Bug::HandsOutDeferred);
        let token = self.token();
        let queue = self.queue(name);
        let free = |it: &&mut Stored| {
            let alive = it.dead || late || it.expires_ms.is_none_or(|at| at > now_ms);
            let in_turn = it.due_ms.is_none() && (!it.deferred || mixes);
            it.dead == dead && in_turn && alive && (it.lock.is_none() || shared)
        };
        let found = queue.messages.iter_mut().filter(free).min_by_key(|it| it.number)?;
        found.lock = Some((token, now_ms + LOCK_MS));
        Some(delivered(name, found))
    }

    /// By its number.
    pub fn receive_deferred(&mut self, name: &str, number: u64, dead: bool) -> Option<Delivered> {
        let (now_ms, forgets) = (self.now_ms, self.strikes(Bug::ForgetsDeferred, number));
        let token = self.token();
        let waits = |it: &&mut Stored| {
            it.number == number && it.dead == dead && it.deferred && it.lock.is_none()
        };
        let found = self.queue(name).messages.iter_mut().find(waits).filter(|_| !forgets)?;
        found.lock = Some((token, now_ms + LOCK_MS));
        Some(Delivered { deferred: true, ..delivered(name, found) })
    }

    /// What a transaction that is not committed does to a lock: nothing.
    pub fn roll_back(&mut self, delivered: &Delivered) {
        if self.strikes(Bug::SettlesUncommitted, delivered.number) {
            self.settle(delivered, &How::Complete);
        }
        if self.has(Bug::KeepsRolledBack) {
            self.kept.insert(delivered.token.clone());
        }
    }

    pub fn is_held(&self, delivered: &Delivered) -> bool {
        if self.has(Bug::AcceptsStaleToken) {
            return true;
        }
        let queue = &self.queues[&delivered.entity];
        if self.kept.contains(&delivered.token) {
            return false;
        }
        let holds = |it: &Stored| it.lock.as_ref().is_some_and(|lock| lock.0 == delivered.token);
        queue.messages.iter().any(holds)
    }

    pub fn renew(&mut self, delivered: &Delivered) -> u64 {
        let until_ms = self.now_ms + LOCK_MS;
        for it in &mut self.queue(&delivered.entity).messages {
            if let Some(lock) = it.lock.as_mut().filter(|lock| lock.0 == delivered.token) {
                lock.1 = until_ms;
            }
        }
        until_ms
    }

    pub fn settle(&mut self, delivered: &Delivered, how: &How) {
        let entity = self.entity(&delivered.entity);
        let forgets = self.strikes(Bug::ForgetsCompletion, delivered.number);
        match how {
            How::Complete if forgets => self.release_lock(&entity, &delivered.token, false),
            How::Complete => {
                let queue = self.queue(&delivered.entity);
                let before = queue.messages.len();
                let own = |it: &Stored| it.number == delivered.number;
                queue.messages.retain(|it| !own(it));
                queue.counters.completed += (before - queue.messages.len()) as u64;
            }
            How::Abandon => self.release_lock(&entity, &delivered.token, true),
            How::Release => {
                let counts = self.has(Bug::CountsReleased);
                self.release_lock(&entity, &delivered.token, counts);
            }
            How::Defer => {
                let counts = !self.has(Bug::DefersUncounted);
                self.release_lock(&entity, &delivered.token, counts);
                for it in &mut self.queue(&delivered.entity).messages {
                    // At its limit it went to the dead-letter queue in the place of it.
                    it.deferred |= it.number == delivered.number && it.dead == delivered.dead;
                }
            }
            How::DeadLetter(reason) => {
                let counts = u32::from(self.has(Bug::CountsDeadLettering));
                for it in &mut self.queue(&delivered.entity).messages {
                    if it.number == delivered.number {
                        (it.dead, it.lock, it.reason) = (true, None, Some(reason.clone()));
                        it.deferred = false;
                        it.failed += counts;
                    }
                }
            }
        }
    }

    fn release_lock(&mut self, entity: &Entity, token: &str, counts: bool) {
        let endless = self.has(Bug::DeliversTooOften);
        let forgets = self.has(Bug::ForgetsCount);
        let counts_dead = self.has(Bug::CountsDead);
        for it in &mut self.queue(&entity.name).messages {
            if it.lock.as_ref().is_some_and(|lock| lock.0 == token) {
                it.lock = None;
                it.failed += u32::from(counts && !forgets && (!it.dead || counts_dead)); // DLQ-4.
                if it.failed >= entity.deliveries_max && !it.dead && !endless {
                    (it.dead, it.reason) = (true, Some("MaxDeliveryCountExceeded".to_owned()));
                    it.deferred = false;
                }
            }
        }
        self.expire(entity); // TTL-16 in the other order: both reasons are right by the checker.
    }

    pub fn cancel(&mut self, number: u64) -> bool {
        let ignores = self.has(Bug::IgnoresCancel);
        let queue = self.queue("later");
        let waits = |it: &Stored| it.number == number && it.due_ms.is_some();
        let found = queue.messages.iter().any(waits);
        if found && !ignores {
            queue.messages.retain(|it| !waits(it));
            queue.counters.cancelled += 1;
        }
        found
    }

    pub fn accept(&mut self, session: &str) -> Option<Hold> {
        let twice = self.has(Bug::GrantsSessionTwice);
        let (until_ms, token) = (self.now_ms + LOCK_MS, self.token());
        let queue = self.queue("s");
        if queue.holds.iter().any(|hold| hold.session == session) && !twice {
            return None;
        }
        let hold = Hold { session: session.to_owned(), token, until_ms };
        queue.holds.push(hold.clone());
        Some(hold)
    }

    pub fn receive_session(&mut self, hold: &Hold) -> Option<Delivered> {
        let (token, mixes) = (self.token(), self.has(Bug::MixesSession));
        let queue = self.queue("s");
        queue.holds.iter().find(|it| it.token == hold.token)?;
        let session = |it: &&mut Stored| it.sent.session.as_deref() == Some(&hold.session);
        let free = queue.messages.iter_mut().filter(session);
        let free = free.filter(|it| !it.dead && it.lock.is_none());
        let found = match mixes {
            true => free.max_by_key(|it| it.number)?,
            false => free.min_by_key(|it| it.number)?,
        };
        found.lock = Some((token, hold.until_ms));
        let (session, hold) = (Some(hold.session.clone()), Some(hold.token.clone()));
        Some(Delivered { session, hold, ..delivered("s", found) })
    }

    /// Gives a session back; whether it was still held.
    pub fn release(&mut self, hold: &Hold) -> bool {
        let (keeps, counts) = (self.has(Bug::KeepsGivenBack), self.has(Bug::CountsGivenBack));
        let queue = self.queue("s");
        let Some(at) = queue.holds.iter().position(|it| it.token == hold.token) else {
            return false;
        };
        if keeps {
            return true; // Until its lock ends.
        }
        queue.holds.remove(at);
        for it in &mut queue.messages {
            if it.sent.session.as_deref() == Some(&hold.session) {
                it.failed += u32::from(counts && it.lock.is_some());
                it.lock = None;
            }
        }
        true
    }

    pub fn found(&self) -> BTreeMap<String, Found> {
        let told = self.entities.0.values().filter(|entity| entity.kind != Kind::Topic);
        told.map(|entity| (entity.name.clone(), self.found_in(entity))).collect()
    }

    fn found_in(&self, entity: &Entity) -> Found {
        let queue = &self.queues[&entity.name];
        if self.is_gone(&entity.name) || (entity.vanishes && !self.has(Bug::KeepsIdle)) {
            return Found::default();
        }
        let resting = |it: &Stored| Resting {
            dead: it.dead,
            deferred: it.deferred,
            id: it.sent.id.clone(),
            number: it.number,
            count: it.failed,
            expires_ms: it.expires_ms,
            reason: it.reason.clone(),
        };
        let resting: Vec<Resting> = queue.messages.iter().map(resting).collect();
        let dead_lettered = resting.iter().filter(|it| it.dead).count() as u64;
        let scheduled = queue.messages.iter().filter(|it| it.due_ms.is_some()).count() as u64;
        let deferred = resting.iter().filter(|it| it.deferred && !it.dead).count() as u64;
        let active = resting.len() as u64 - dead_lettered - scheduled - deferred;
        let wrong = u64::from(self.has(Bug::CountsWrong));
        let accepted = queue.counters.accepted + wrong;
        let counters =
            Counters { accepted, active, scheduled, deferred, dead_lettered, ..queue.counters };
        let differs = u64::from(self.has(Bug::ReplicaDiffers));
        let digests = BTreeMap::from([(1, 7), (2, 7 + differs), (3, 7)]);
        Found { counters: Some(counters), resting, digests }
    }
}

fn delivered(entity: &str, it: &Stored) -> Delivered {
    let (token, locked_until_ms) = it.lock.clone().unwrap_or_default();
    Delivered {
        entity: entity.to_owned(),
        dead: it.dead,
        id: it.sent.id.clone(),
        number: it.number,
        count: it.failed + 1,
        token,
        enqueued_ms: it.enqueued_ms,
        expires_ms: it.expires_ms,
        locked_until_ms,
        reason: it.reason.clone(),
        ..Delivered::default()
    }
}
