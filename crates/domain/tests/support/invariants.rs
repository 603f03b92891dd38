//! What holds in a group's rows after every step, read off the rows alone.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Counts, DeadlineKind, DeadlineRow, Effect, EntityId, EntityRow, EntityState, EntityStatus,
    ForwardEffect, Forwarding, Key, Lifetime, Line, LockToken, MemoryRows, MessageRow, Meta,
    PerSubQueue, QueueId, Row, SequenceNumber, Span, Specifics, SubQueue, Timestamp, Waiting,
};

use crate::support::{sessions, topics};

/// Every entity's counters, heads and marks say what a scan of its rows says.
pub fn check(rows: &MemoryRows) {
    if domain::is_restoring(rows) {
        return; // What is half there is looked at by nobody.
    }
    let mut producers = 0;
    for (key, row) in &rows.0 {
        match (key, row) {
            (Key::Entity(entity), Row::Entity(description)) => {
                let read = Entity::read(rows, *entity, description);
                read.check();
                sessions::check(rows, *entity, description, &read.state);
                if let Specifics::Topic(specifics) = &description.specifics {
                    topics::check(rows, *entity, specifics);
                }
            }
            (Key::Producer(producer), Row::Producer(row)) => {
                producers += 1;
                let seen = Key::ProducerSeen(row.seen, *producer);
                assert!(rows.0.contains_key(&seen), "producer {producer} is not in order of use");
            }
            (Key::ProducerSeen(seen, producer), _) => {
                let Some(Row::Producer(row)) = rows.0.get(&Key::Producer(*producer)) else {
                    panic!("producer {producer} is forgotten, but not its last use");
                };
                assert_eq!(row.seen, *seen, "producer {producer} has two last uses");
            }
            (Key::Outcome(producer, _), _) => {
                let known = rows.0.contains_key(&Key::Producer(*producer));
                assert!(known, "producer {producer} is forgotten, but not its outcomes");
            }
            _ => (),
        }
    }
    assert_eq!(meta(rows).producers, producers, "producers counted and stored");
}

fn meta(rows: &MemoryRows) -> Meta {
    match rows.0.get(&Key::Meta) {
        Some(Row::Meta(meta)) => *meta,
        _ => Meta::default(),
    }
}

/// All rows of one entity.
struct Entity {
    requires_session: bool,
    specifics: Specifics,
    state: EntityState,
    messages: PerSubQueue<BTreeMap<SequenceNumber, MessageRow>>,
    locks: PerSubQueue<BTreeSet<SequenceNumber>>,
    returned: PerSubQueue<BTreeSet<SequenceNumber>>,
    /// Due, by number.
    scheduled: BTreeMap<SequenceNumber, Timestamp>,
    sizes_scheduled: u64,
    sizes_states: u64,
    bodies: BTreeSet<SequenceNumber>,
    deadlines: BTreeMap<DeadlineKind, BTreeSet<(Timestamp, SequenceNumber)>>,
    /// What deadlines say of their messages.
    told: BTreeMap<SequenceNumber, DeadlineRow>,
    duplicates: BTreeSet<(Timestamp, String)>,
    duplicates_in_order: BTreeSet<(Timestamp, String)>,
    forwarding: PerSubQueue<Forwarding>,
}

impl Entity {
    fn read(rows: &MemoryRows, entity: EntityId, description: &EntityRow) -> Entity {
        let Some(Row::EntityState(state)) = rows.0.get(&Key::EntityState(entity)) else {
            panic!("{entity:?} has no state");
        };
        let mut read = Entity {
            requires_session: description.properties.keeps_sessions(),
            specifics: description.specifics.clone(),
            state: (**state).clone(),
            messages: Default::default(),
            locks: Default::default(),
            returned: Default::default(),
            scheduled: BTreeMap::new(),
            sizes_scheduled: 0,
            sizes_states: 0,
            bodies: BTreeSet::new(),
            deadlines: BTreeMap::new(),
            told: BTreeMap::new(),
            duplicates: BTreeSet::new(),
            duplicates_in_order: BTreeSet::new(),
            forwarding: Default::default(),
        };
        for (key, row) in &rows.0 {
            match (key, row) {
                (Key::Message(queue, number), Row::Message(row)) if queue.entity == entity => {
                    read.messages[queue.sub as usize].insert(*number, row.clone());
                }
                (Key::Lock(queue, number), _) if queue.entity == entity => {
                    read.locks[queue.sub as usize].insert(*number);
                }
                (Key::Shipment(queue, _), Row::Shipment(row)) if queue.entity == entity => {
                    read.set_aside(queue.sub, &row.numbers, |forwarding| {
                        &mut forwarding.in_transit
                    });
                }
                (Key::Parked(queue, stays, _), Row::Parked(numbers)) if queue.entity == entity => {
                    read.set_aside(queue.sub, numbers, |forwarding| match stays {
                        true => &mut forwarding.stuck,
                        false => &mut forwarding.parked,
                    });
                }
                (Key::SessionHeld(owner, _, number), _) if *owner == entity => {
                    read.locks[SubQueue::Main as usize].insert(*number);
                }
                (Key::SessionState(owner, _), Row::SessionState(state)) if *owner == entity => {
                    read.sizes_states += state.len() as u64;
                }
                (Key::Returned(queue, number), _) if queue.entity == entity => {
                    read.returned[queue.sub as usize].insert(*number);
                }
                (Key::Scheduled(owner, number), Row::Scheduled(row)) if *owner == entity => {
                    read.scheduled.insert(*number, row.due);
                    read.sizes_scheduled += u64::from(row.size_bytes);
                }
                (Key::Body(owner, number), _) if *owner == entity => {
                    read.bodies.insert(*number);
                }
                (Key::Deadline(owner, kind, due, number), Row::Deadline(row))
                    if *owner == entity =>
                {
                    read.deadlines.entry(*kind).or_default().insert((*due, *number));
                    read.told.extend(row.map(|row| (*number, row)));
                }
                (Key::DuplicateId(owner, id), Row::DuplicateId { accepted_at, .. })
                    if *owner == entity =>
                {
                    read.duplicates.insert((*accepted_at, id.clone()));
                }
                (Key::DuplicateTime(owner, at, id), _) if *owner == entity => {
                    read.duplicates_in_order.insert((*at, id.clone()));
                }
                _ => (),
            }
        }
        read
    }

    /// Set aside for forwarding, a message is not to be had, and in one place.
    fn set_aside(
        &mut self,
        sub: SubQueue,
        numbers: &[SequenceNumber],
        count: impl Fn(&mut Forwarding) -> &mut u64,
    ) {
        assert!(!numbers.is_empty(), "a shipment of nothing");
        for number in numbers {
            assert!(self.locks[sub as usize].insert(*number), "{number} is set aside twice");
        }
        *count(&mut self.forwarding[sub as usize]) += numbers.len() as u64;
    }

    fn check_forwarding(&self) {
        for (seen, told) in self.forwarding.iter().zip(&self.state.forwarding) {
            assert_eq!(Forwarding { serial: told.serial, ..*seen }, *told, "set aside and counted");
        }
    }

    fn check(&self) {
        self.check_counts();
        self.check_forwarding();
        for sub in SubQueue::ALL {
            match self.requires_session && sub == SubQueue::Main {
                true => self.check_no_order(),
                false => self.check_order(sub),
            }
        }
        self.check_bodies();
        self.check_deadlines();
        assert_eq!(self.duplicates, self.duplicates_in_order, "history by id and in order");
        let oldest = self.duplicates.first().map(|(at, _)| *at);
        assert_eq!(self.state.duplicate_next, oldest, "oldest of the history");
    }

    fn check_counts(&self) {
        let counts = &self.state.counts;
        let deferred = |sub: usize| self.messages[sub].values().filter(|m| m.deferred).count();
        let main = SubQueue::Main as usize;
        let dead = SubQueue::DeadLetter as usize;
        let transfer = SubQueue::Transfer as usize;
        let failed = SubQueue::TransferDeadLetter as usize;
        let seen = Counts {
            active: (self.messages[main].len() - deferred(main)) as u64,
            deferred: deferred(main) as u64,
            dead_lettered: self.messages[dead].len() as u64,
            transfer: self.messages[transfer].len() as u64,
            transfer_dead_lettered: self.messages[failed].len() as u64,
            scheduled: self.scheduled.len() as u64,
            ..*counts
        };
        assert_eq!(*counts, seen, "counters and rows");
        assert!(counts.balanced(), "COUNT-5 is broken: {counts:?}");
        assert_eq!(self.state.dead_letter_deferred, deferred(dead) as u64);
        assert_eq!(self.state.transfer_dead_letter_deferred, deferred(failed) as u64);
        assert_eq!(self.state.available[transfer], 0, "on its way, but to be had");
        let stored: u64 = self.messages.iter().flat_map(|m| m.values()).map(size).sum();
        let stored = stored + self.sizes_scheduled + self.sizes_states;
        if let Specifics::Queue | Specifics::Subscription(_) = self.specifics {
            assert_eq!(self.state.size_bytes, stored, "size and rows");
        }
    }

    fn is_available(&self, sub: SubQueue, number: SequenceNumber, row: &MessageRow) -> bool {
        !row.deferred && !self.locks[sub as usize].contains(&number)
    }

    /// Ready messages are in two places only: from the fresh head on, or returned below it.
    fn check_order(&self, sub: SubQueue) {
        let index = sub as usize;
        let state = &self.state;
        let head = state.fresh_head[index];
        let mut available = 0;
        let mut returned = BTreeSet::new();
        for (number, row) in &self.messages[index] {
            assert!(*number < state.next_sequence, "{number} was never issued");
            if self.is_available(sub, *number, row) {
                available += 1;
                if *number < head {
                    returned.insert(*number);
                }
            } else {
                assert!(*number < head, "{number} in {sub:?} is fresh, but not to be had");
            }
        }
        assert_eq!(state.available[index], available, "available in {sub:?}");
        assert_eq!(self.returned[index], returned, "returned in {sub:?}");
        assert_eq!(state.returned[index], returned.len() as u64, "returned counted in {sub:?}");
        if let Some(first) = returned.first() {
            assert!(state.returned_low[index] <= *first, "{first} lies below the low mark");
        }
        for number in &self.locks[index] {
            assert!(self.messages[index].contains_key(number), "{number}: a lock on nothing");
        }
    }

    /// Sessions have orders of their own.
    fn check_no_order(&self) {
        let main = SubQueue::Main as usize;
        assert!(self.returned[main].is_empty(), "returned, but not to a session");
        let available = |(number, row): &(&SequenceNumber, &MessageRow)| {
            self.is_available(SubQueue::Main, **number, row)
        };
        let count = self.messages[main].iter().filter(available).count();
        assert_eq!(self.state.available[main], count as u64, "available in sessions");
    }

    /// One body per stored message, none besides. Those of copies are their topic's.
    fn check_bodies(&self) {
        match self.specifics {
            Specifics::Queue => (),
            Specifics::Topic(_) => return,
            Specifics::Subscription(_) => {
                assert!(self.bodies.is_empty(), "a subscription has bodies of its own");
                return;
            }
        }
        let mut wanted: BTreeSet<_> = self.scheduled.keys().copied().collect();
        for row in self.messages.iter().flat_map(|messages| messages.values()) {
            assert!(wanted.insert(row.body), "body {} belongs to two messages", row.body);
        }
        assert_eq!(self.bodies, wanted, "bodies and messages");
    }

    /// Whatever can expire or activate is where a `Fire` looks for it, and the marks are its first.
    fn check_deadlines(&self) {
        let none = BTreeSet::new();
        let of = |kind| self.deadlines.get(&kind).unwrap_or(&none);
        let state = &self.state;
        let main = &self.messages[SubQueue::Main as usize];

        let scheduled: BTreeSet<_> = self.scheduled.iter().map(|(n, due)| (*due, *n)).collect();
        assert_eq!(*of(DeadlineKind::Scheduled), scheduled, "schedule in order of time");
        assert_eq!(state.scheduled_next, scheduled.first().copied());

        assert_eq!(state.fixed_next, of(DeadlineKind::Fixed).first().copied());
        for (due, number) in of(DeadlineKind::Fixed) {
            let lifetime = main.get(number).map(|row| row.lifetime);
            let Some(Lifetime::Fixed { expires_at, .. }) = lifetime else {
                panic!("a deadline of {number}, which is not there or has none");
            };
            assert_eq!(expires_at, *due, "deadline of {number}");
        }
        for (number, told) in self.told.range(state.fresh_head[SubQueue::Main as usize]..) {
            let row = &main[number];
            assert_eq!((told.body, told.size_bytes), (row.body, row.size_bytes), "{number}");
            assert!(
                row.session.is_none() && !row.deferred,
                "{number} is not to be dropped blindly"
            );
        }
        let available = |(number, row): &(&SequenceNumber, &MessageRow)| {
            self.is_available(SubQueue::Main, **number, row)
        };
        for (number, row) in main.iter().filter(available) {
            match row.lifetime {
                Lifetime::Fixed { expires_at, .. } if !expires_at.is_never() => {
                    let known = of(DeadlineKind::Fixed).contains(&(expires_at, *number));
                    assert!(known, "{number} expires at {expires_at:?}, but no row says so");
                }
                Lifetime::Fixed { .. } => (),
                Lifetime::Inherited { .. } => panic!("{number} was never a dead letter (TTL-18)"),
                Lifetime::Derived => {
                    let ahead = *number >= state.derived_cursor;
                    assert!(ahead, "{number} is behind the cursor {}", state.derived_cursor);
                }
            }
        }
        // The search for the next mark looks at so many rows; beyond, the mark may stand earlier.
        let ahead: Vec<_> = main.range(state.derived_cursor..).take(DERIVED_ROWS_MAX).collect();
        let next = ahead.iter().find(|(_, row)| row.lifetime == Lifetime::Derived);
        match next {
            Some((_, row)) => assert_eq!(state.derived_next, Some(row.enqueued_at)),
            None if ahead.len() < DERIVED_ROWS_MAX => assert_eq!(state.derived_next, None),
            None => {
                let mark = state.derived_next.expect("a mark, while rows were not looked at");
                let last = ahead.last().expect("a row").1.enqueued_at;
                assert!(mark <= last, "the mark {mark:?} is later than the rows at {last:?}");
            }
        }
    }
}

/// What the machine looks at to find the next derived deadline when an entry ends.
const DERIVED_ROWS_MAX: usize = 256;

fn size(row: &MessageRow) -> u64 {
    u64::from(row.size_bytes)
}

/// What an engine that took every effect has armed and knows.
#[derive(Default)]
pub struct Timers {
    next: BTreeMap<(EntityId, DeadlineKind), Timestamp>,
    locks: BTreeMap<(QueueId, LockToken), Timestamp>,
    available: BTreeMap<QueueId, u64>,
    sessions: sessions::Timers,
    copies_max: BTreeMap<EntityId, u64>,
    waiting: BTreeMap<QueueId, Waiting>,
    shipments: BTreeSet<(Line, u64)>,
    /// Windows of temporary entities (IDLE-1).
    temporary: BTreeMap<EntityId, Span>,
    /// Entities came with a backup: the engine was built anew from the rows.
    restored: bool,
}

impl Timers {
    pub fn take(&mut self, effect: &Effect) {
        // The engine is built anew of the rows, and what was told to the one before is of no account.
        if self.restored {
            return;
        }
        match effect {
            Effect::Next { entity, kind, due } => {
                self.next.insert((*entity, *kind), *due);
            }
            Effect::Locked { queue, token, until } => {
                self.locks.insert((*queue, *token), *until);
            }
            Effect::Unlocked { queue, token } => {
                self.locks.remove(&(*queue, *token));
            }
            Effect::Session(effect) => self.sessions.take(effect),
            Effect::Forward(effect) => match *effect {
                ForwardEffect::Waiting { queue, waiting } => {
                    self.waiting.insert(queue, waiting);
                }
                ForwardEffect::Shipment { line, serial } => {
                    self.shipments.insert((line, serial));
                }
                ForwardEffect::Settled { line, serial } => {
                    self.shipments.remove(&(line, serial));
                }
            },
            Effect::Deleted { entity } => {
                self.sessions.deleted(*entity);
                self.next.retain(|(owner, _), _| owner != entity);
                self.locks.retain(|(queue, _), _| queue.entity != *entity);
                self.available.retain(|queue, _| queue.entity != *entity);
                self.copies_max.remove(entity);
                self.waiting.retain(|queue, _| queue.entity != *entity);
                self.shipments.retain(|(line, _)| line.queue.entity != *entity);
                self.temporary.remove(entity);
            }
            Effect::Temporary { entity, window } => {
                match window.is_max() {
                    true => self.temporary.remove(entity),
                    false => self.temporary.insert(*entity, *window),
                };
            }
            Effect::Available { queue, count, .. } => {
                self.available.insert(*queue, *count);
            }
            Effect::Fanout { topic, copies_max } => {
                self.copies_max.insert(*topic, *copies_max);
            }
            Effect::Restored => self.restored = true,
            Effect::Updated { .. } | Effect::SweepWanted | Effect::RelocationWanted => (),
        }
    }

    /// A timer for every lock and for every next deadline, at their instants, and how many messages
    /// wait for a receiver.
    pub fn check(&self, rows: &MemoryRows) {
        if self.restored || domain::is_restoring(rows) {
            return;
        }
        let mut locks = BTreeMap::new();
        let shipments = rows.0.iter().filter_map(|(key, row)| match (key, row) {
            (Key::Shipment(queue, serial), Row::Shipment(row))
                if rows.0.contains_key(&Key::Entity(queue.entity)) =>
            {
                Some((Line::of(*queue, row.destination), *serial))
            }
            _ => None,
        });
        assert_eq!(self.shipments, shipments.collect(), "shipments, as the engine was told");
        for (key, row) in &rows.0 {
            match (key, row) {
                (Key::Lock(queue, number), Row::Lock(lock))
                    if rows.0.contains_key(&Key::Entity(queue.entity)) =>
                {
                    let token = LockToken { sequence: *number, nonce: lock.nonce };
                    locks.insert((*queue, token), lock.until);
                }
                (Key::Entity(entity), Row::Entity(description)) => {
                    self.check_next(rows, *entity, description);
                }
                _ => (),
            }
        }
        assert_eq!(self.locks, locks, "timers of locks");
        self.sessions.check(rows);
    }

    fn check_next(&self, rows: &MemoryRows, entity: EntityId, description: &EntityRow) {
        let Some(Row::EntityState(state)) = rows.0.get(&Key::EntityState(entity)) else {
            panic!("{entity:?} has no state");
        };
        let properties = &description.properties;
        if let Specifics::Topic(specifics) = &description.specifics {
            let told = self.copies_max.get(&entity).copied().unwrap_or(0);
            assert_eq!(told, specifics.copies_max(), "copies, as the engine was told");
        }
        let topic = match &description.specifics {
            Specifics::Subscription(specifics) => rows.0.get(&Key::Entity(specifics.topic)),
            Specifics::Queue | Specifics::Topic(_) => None,
        };
        let forwards = SubQueue::ALL.iter().any(|sub| properties.forwards(*sub).is_some());
        let mut window = if forwards { Span::MAX } else { properties.auto_delete_on_idle };
        if let Some(Row::Entity(topic)) = topic {
            window = window.min(topic.properties.auto_delete_on_idle);
        }
        let told = self.temporary.get(&entity).copied().unwrap_or(Span::MAX);
        assert_eq!(told, window, "deleted when idle for, or its topic");
        let receives =
            matches!(properties.status, EntityStatus::Active | EntityStatus::SendDisabled);
        for sub in SubQueue::ALL {
            let told = self.available.get(&QueueId { entity, sub }).copied().unwrap_or_default();
            let by_session = properties.keeps_sessions() && sub == SubQueue::Main;
            let forwarded = properties.forwards(sub).is_some();
            let told_of = receives && !by_session && !forwarded;
            let available = if told_of { state.available[sub as usize] } else { 0 };
            assert_eq!(told, available, "available in {sub:?}, as the engine was told");
            let Forwarding { parked, stuck, .. } = state.forwarding[sub as usize];
            let waiting = match (forwarded, receives) {
                (false, _) => Waiting { unwanted: parked + stuck, ..Waiting::default() },
                (true, false) => Waiting::default(),
                (true, true) => {
                    Waiting { ready: state.available[sub as usize], parked, unwanted: 0 }
                }
            };
            let told = self.waiting.get(&QueueId { entity, sub }).copied().unwrap_or_default();
            assert_eq!(told, waiting, "{sub:?} to be forwarded, as the engine was told");
        }
        for kind in DeadlineKind::ALL {
            let due = match kind {
                DeadlineKind::Scheduled => state.scheduled_next.map(|(due, _)| due),
                DeadlineKind::Fixed => state.fixed_next.map(|(due, _)| due),
                DeadlineKind::Derived => {
                    state.derived_next.map(|at| at.plus(properties.default_ttl))
                }
                DeadlineKind::Matching => {
                    (state.unmatched.count > 0).then_some(state.unmatched.since)
                }
                DeadlineKind::Duplicate => {
                    state.duplicate_next.map(|at| at.plus(properties.duplicate_detection_window))
                }
            };
            // STATE-3: while disabled nothing of the messages is due.
            let suspended = properties.status == EntityStatus::Disabled;
            let due = due.filter(|_| !suspended || kind == DeadlineKind::Duplicate);
            let armed = self.next.get(&(entity, kind)).copied().unwrap_or(Timestamp::NEVER);
            assert_eq!(armed, due.unwrap_or(Timestamp::NEVER), "timer of {kind:?}");
        }
    }
}
