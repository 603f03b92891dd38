//! What holds in the rows of sessions after every step, and what an engine was told of them.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Claim, EntityId, EntityRow, EntityState, EntityStatus, Key, MemoryRows, MessageRow, QueueId,
    Row, SequenceNumber, SessionEffect, SessionId, SessionList, SessionRow, SessionToken,
    StateMark, Timestamp,
};

/// All rows of one entity's sessions.
#[derive(Default)]
struct Sessions {
    rows: BTreeMap<SessionId, SessionRow>,
    lists: BTreeMap<(SessionId, SessionList), BTreeSet<SequenceNumber>>,
    held: BTreeMap<SessionId, BTreeSet<SequenceNumber>>,
    line: BTreeMap<Claim, SessionId>,
    locked: BTreeSet<SessionId>,
    states: BTreeMap<SessionId, u32>,
    messages: BTreeMap<SequenceNumber, MessageRow>,
    scheduled: BTreeMap<SequenceNumber, Option<SessionId>>,
}

pub fn check(rows: &MemoryRows, entity: EntityId, described: &EntityRow, state: &EntityState) {
    let sessions = Sessions::read(rows, entity);
    let required = described.properties.keeps_sessions();
    for (number, row) in &sessions.messages {
        assert_eq!(row.session.is_some(), required, "session of {number}");
    }
    for (number, session) in &sessions.scheduled {
        assert_eq!(session.is_some(), required, "session of {number}, which is scheduled");
    }
    for (key, row) in &rows.0 {
        if let (Key::Message(queue, number), Row::Message(row)) = (key, row)
            && *queue == QueueId::dead_letter(entity)
        {
            assert_eq!(row.session, None, "{number} is dead-lettered, and in a session");
        }
    }
    sessions.check(state);
}

impl Sessions {
    fn read(rows: &MemoryRows, entity: EntityId) -> Sessions {
        let mut read = Sessions::default();
        for (key, row) in &rows.0 {
            match (key, row) {
                (Key::Session(of, id), Row::Session(row)) if *of == entity => {
                    read.rows.insert(id.clone(), (**row).clone());
                }
                (Key::SessionMessage(of, id, list, number), _) if *of == entity => {
                    read.lists.entry((id.clone(), *list)).or_default().insert(*number);
                }
                (Key::SessionHeld(of, id, number), _) if *of == entity => {
                    read.held.entry(id.clone()).or_default().insert(*number);
                }
                (Key::SessionFree(of, claim), Row::SessionFree(id)) if *of == entity => {
                    read.line.insert(*claim, id.clone());
                }
                (Key::SessionLocked(of, id), _) if *of == entity => {
                    read.locked.insert(id.clone());
                }
                (Key::SessionState(of, id), Row::SessionState(state)) if *of == entity => {
                    read.states.insert(id.clone(), state.len() as u32);
                }
                (Key::Message(queue, number), Row::Message(row))
                    if *queue == QueueId::main(entity) =>
                {
                    read.messages.insert(*number, row.clone());
                }
                (Key::Scheduled(of, number), Row::Scheduled(row)) if *of == entity => {
                    read.scheduled.insert(*number, row.session.clone());
                }
                _ => (),
            }
        }
        read
    }

    fn check(&self, state: &EntityState) {
        self.check_lists();
        let none = BTreeSet::new();
        for (id, row) in &self.rows {
            assert!(!row.is_empty(), "nothing is left of session {id}");
            let list = |list| self.lists.get(&(id.clone(), list)).unwrap_or(&none);
            let held = self.held.get(id).unwrap_or(&none);
            check_numbers(row.ready.count, row.ready.low, list(SessionList::Ready));
            check_numbers(row.held.count, row.held.low, held);
            let of = |deferred: bool| {
                let of = |m: &&MessageRow| m.session.as_ref() == Some(id) && m.deferred == deferred;
                self.messages.values().filter(of).count() as u64
            };
            assert_eq!((row.active, row.deferred), (of(false), of(true)), "messages of {id}");
            assert_eq!(row.lock.is_some(), self.locked.contains(id), "lock of {id}");
            assert!(held.is_empty() || row.lock.is_some(), "{held:?} are held, session {id} not");
            self.check_claim(id, row, list(SessionList::Ready));
            let size_bytes = row.state.map(|StateMark { size_bytes, .. }| size_bytes);
            assert_eq!(size_bytes, self.states.get(id).copied(), "state of {id}");
        }
        let known = |id| self.rows.contains_key(id);
        assert!(self.locked.iter().chain(self.states.keys()).all(known), "a session is forgotten");
        let totals = state.sessions;
        assert_eq!(totals.free, self.line.len() as u64, "sessions in line");
        assert_eq!(totals.states, self.states.len() as u64, "session states");
        if let Some((first, _)) = self.line.first_key_value() {
            assert!(totals.free_low <= first.at, "{first:?} lies below the low mark");
        }
    }

    /// Every message stands in the one list that its state names.
    fn check_lists(&self) {
        let mut expected = BTreeMap::<_, BTreeSet<_>>::new();
        let is_held = |id: &SessionId, number| {
            self.held.get(id).is_some_and(|numbers| numbers.contains(number))
        };
        for (number, row) in &self.messages {
            let Some(id) = &row.session else { continue };
            if is_held(id, number) {
                continue;
            }
            let list = if row.deferred { SessionList::Deferred } else { SessionList::Ready };
            expected.entry((id.clone(), list)).or_default().insert(*number);
        }
        for (number, id) in &self.scheduled {
            let Some(id) = id else { continue };
            expected.entry((id.clone(), SessionList::Scheduled)).or_default().insert(*number);
        }
        assert_eq!(self.lists, expected, "lists of sessions and their messages");
        for (id, numbers) in &self.held {
            for number in numbers {
                let session = self.messages.get(number).and_then(|row| row.session.as_ref());
                assert_eq!(session, Some(id), "{number} is held in a session that is not its own");
            }
        }
    }

    /// SESS-7.
    fn check_claim(&self, id: &SessionId, row: &SessionRow, ready: &BTreeSet<SequenceNumber>) {
        let oldest = ready.first().map(|number| self.messages[number].enqueued_at);
        let oldest = oldest.filter(|_| row.lock.is_none());
        let claim = oldest.map(|at| at.max(row.released_at));
        assert_eq!(row.claim.map(|claim| claim.at), claim, "claim of {id}");
        if let Some(claim) = row.claim {
            assert_eq!(self.line.get(&claim), Some(id), "place of {id} in line");
        }
    }
}

fn check_numbers(count: u64, low: SequenceNumber, numbers: &BTreeSet<SequenceNumber>) {
    assert_eq!(count, numbers.len() as u64, "{numbers:?} counted");
    if let Some(first) = numbers.first() {
        assert!(low <= *first, "{first} lies below the low mark");
    }
}

/// What an engine that took every effect knows of sessions.
#[derive(Default)]
pub struct Timers {
    locks: BTreeMap<(EntityId, SessionToken), Timestamp>,
    ready: BTreeMap<(EntityId, SessionId), u64>,
    free: BTreeMap<EntityId, u64>,
}

impl Timers {
    pub fn take(&mut self, effect: &SessionEffect) {
        match effect {
            SessionEffect::Locked { entity, token, until } => {
                self.locks.insert((*entity, token.clone()), *until);
            }
            SessionEffect::Unlocked { entity, token } => {
                let held = self.locks.remove(&(*entity, token.clone()));
                assert!(held.is_some(), "{token:?} was never locked");
                self.ready.remove(&(*entity, token.session.clone()));
            }
            SessionEffect::Ready { entity, session, count } => {
                self.ready.insert((*entity, session.clone()), *count);
            }
            SessionEffect::Free { entity, count } => {
                self.free.insert(*entity, *count);
            }
        }
    }

    pub fn deleted(&mut self, entity: EntityId) {
        self.locks.retain(|(owner, _), _| *owner != entity);
        self.ready.retain(|(owner, _), _| *owner != entity);
        self.free.remove(&entity);
    }

    pub fn check(&self, rows: &MemoryRows) {
        let (mut locks, mut ready) = (BTreeMap::new(), BTreeMap::new());
        for (key, row) in &rows.0 {
            match (key, row) {
                (Key::Session(entity, id), Row::Session(row))
                    if rows.0.contains_key(&Key::Entity(*entity)) =>
                {
                    let Some(lock) = row.lock else { continue };
                    let token = SessionToken { session: id.clone(), nonce: lock.nonce };
                    locks.insert((*entity, token), lock.until);
                    ready.insert((*entity, id.clone()), row.ready.count);
                }
                (Key::EntityState(entity), Row::EntityState(state)) => {
                    let told = self.free.get(entity).copied().unwrap_or_default();
                    let receives = receives(rows, *entity);
                    let free = if receives { state.sessions.free } else { 0 };
                    assert_eq!(told, free, "sessions in line, as the engine was told");
                }
                _ => (),
            }
        }
        assert_eq!(self.locks, locks, "timers of sessions");
        assert_eq!(self.ready, ready, "ready in held sessions, as the engine was told");
    }
}

fn receives(rows: &MemoryRows, entity: EntityId) -> bool {
    match rows.0.get(&Key::Entity(entity)) {
        Some(Row::Entity(row)) => {
            matches!(row.properties.status, EntityStatus::Active | EntityStatus::SendDisabled)
        }
        _ => false,
    }
}
