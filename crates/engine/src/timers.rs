//! What is due when: one timer per entity and kind of deadline, one per lock of a message or session. Rounds of firing: what
//! a round named stays known, off the wheel, until its outcome says what became of it.

use std::collections::BTreeMap;

use domain::{
    Command, DeadlineKind, EntityId, Fire, FireLocks, FireSessions, LockToken, Outcome, QueueId,
    SequenceNumber, SessionCommand, SessionToken, Timestamp,
};
use timer_wheel::{Fired, Handle, Wheel};

use crate::EngineOptions;
use crate::session_timers::SessionTimers;

/// Far beyond what [`EngineOptions::fire_count_behind_max`] lets matter.
const DOUBLED_MAX: u32 = 16;

/// What a timer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The next deadline of one kind of an entity.
    Deadline(EntityId, DeadlineKind),
    /// The end of a lock.
    Lock(QueueId, LockToken),
}

/// As the wheel holds it: a lock's nonce is looked up.
#[derive(Clone, Copy, Debug)]
enum Key {
    Deadline(EntityId, DeadlineKind),
    Lock(QueueId, SequenceNumber),
    /// By the number its timer has here.
    Session(u64),
}

/// Without a handle: named in a round, whose outcome or effects decide on it.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    due: Timestamp,
    handle: Option<Handle>,
}

#[derive(Clone, Copy, Debug)]
struct Lock {
    nonce: u64,
    until: Timestamp,
    handle: Option<Handle>,
}

/// What was proposed and has not been answered, in the order of its commands.
#[derive(Clone, Debug, Default)]
struct Round {
    locks: Vec<(QueueId, LockToken)>,
    sessions: Vec<(EntityId, SessionToken)>,
    deadlines: Vec<(EntityId, DeadlineKind)>,
    sweep: bool,
}

/// All timers of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    wheel: Wheel<Key>,
    deadlines: BTreeMap<(EntityId, DeadlineKind), Deadline>,
    locks: BTreeMap<(QueueId, SequenceNumber), Lock>,
    sessions: SessionTimers,
    sweep_wanted: bool,
    round: Option<Round>,
    /// How often the bound of a round was doubled, since the last that was not behind.
    doubled: u32,
    /// Kept for its allocation.
    fired: Vec<Fired<Key>>,
}

impl Timers {
    /// The entity's next deadline of this kind as it now stands; `NEVER` disarms.
    pub fn next(&mut self, entity: EntityId, kind: DeadlineKind, due: Timestamp) {
        if let Some(old) = self.deadlines.get(&(entity, kind)) {
            if old.due == due && old.handle.is_some() {
                return;
            }
            old.handle.map(|handle| self.wheel.cancel(handle));
        }
        if due.is_never() {
            self.deadlines.remove(&(entity, kind));
        } else {
            let handle = Some(self.wheel.arm(Key::Deadline(entity, kind), due.0));
            self.deadlines.insert((entity, kind), Deadline { due, handle });
        }
    }

    /// A lock was granted or renewed.
    pub fn locked(&mut self, queue: QueueId, token: LockToken, until: Timestamp) {
        let handle = Some(self.wheel.arm(Key::Lock(queue, token.sequence), until.0));
        let lock = Lock { nonce: token.nonce, until, handle };
        if let Some(old) = self.locks.insert((queue, token.sequence), lock) {
            old.handle.map(|handle| self.wheel.cancel(handle));
        }
    }

    /// A lock ended. One granted after it, on the same message, stays.
    pub fn unlocked(&mut self, queue: QueueId, token: LockToken) {
        use std::collections::btree_map::Entry;
        if let Entry::Occupied(entry) = self.locks.entry((queue, token.sequence))
            && entry.get().nonce == token.nonce
        {
            entry.remove().handle.map(|handle| self.wheel.cancel(handle));
        }
    }

    /// A session was accepted or renewed.
    pub fn session_locked(&mut self, entity: EntityId, token: SessionToken, until: Timestamp) {
        let number = self.sessions.number();
        let handle = self.wheel.arm(Key::Session(number), until.0);
        if let Some(old) = self.sessions.insert(number, entity, token, until, handle) {
            self.wheel.cancel(old);
        }
    }

    /// A session's hold ended. One granted after it stays.
    pub fn session_unlocked(&mut self, entity: EntityId, token: &SessionToken) {
        if let Some(handle) = self.sessions.remove(entity, token) {
            self.wheel.cancel(handle);
        }
    }

    /// The entity is gone, and all its timers with it (ENT-7).
    pub fn deleted(&mut self, entity: EntityId) {
        for kind in DeadlineKind::ALL {
            self.next(entity, kind, Timestamp::NEVER);
        }
        let first = (QueueId::main(entity), SequenceNumber::MIN);
        let last = (QueueId::transfer_dead_letter(entity), SequenceNumber::MAX);
        while let Some((&key, lock)) = self.locks.range(first..=last).next() {
            lock.handle.map(|handle| self.wheel.cancel(handle));
            self.locks.remove(&key);
        }
        for handle in self.sessions.deleted(entity) {
            self.wheel.cancel(handle);
        }
    }

    /// The entity's description changed: what firing could not move before, it may move now.
    pub fn updated(&mut self, entity: EntityId) {
        for kind in DeadlineKind::ALL {
            if let Some(deadline) = self.deadlines.get(&(entity, kind)) {
                self.next(entity, kind, deadline.due);
            }
        }
        let first = (QueueId::main(entity), SequenceNumber::MIN);
        let last = (QueueId::transfer_dead_letter(entity), SequenceNumber::MAX);
        for (&(queue, sequence), lock) in self.locks.range_mut(first..=last) {
            if lock.handle.is_none() {
                lock.handle = Some(self.wheel.arm(Key::Lock(queue, sequence), lock.until.0));
            }
        }
        let wheel = &mut self.wheel;
        self.sessions.rearm_all(entity, |number, until| wheel.arm(Key::Session(number), until.0));
    }

    pub fn sweep_wanted(&mut self) {
        self.sweep_wanted = true;
    }

    /// When `poll` should be called: `None` while a round is under way, whose end asks for the next.
    pub fn next_deadline(&mut self) -> Option<Timestamp> {
        match (&self.round, self.sweep_wanted) {
            (Some(_), _) => None,
            (None, true) => Some(Timestamp::ZERO),
            (None, false) => self.wheel.next_deadline().map(Timestamp),
        }
    }

    /// What is due now, as commands for one entry; nothing while a round is under way. Locks come
    /// first: a release counts and frees before deadlines look (TIME-7).
    pub fn poll(&mut self, now: Timestamp, options: &EngineOptions) -> Vec<Command> {
        if self.next_deadline().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let round = self.collect(now, options);
        let commands = commands(&round, self.count_max(options));
        if !commands.is_empty() {
            self.round = Some(round);
        }
        commands
    }

    /// What the fires of the next round may take together.
    fn count_max(&self, options: &EngineOptions) -> u32 {
        let kept = options.fire_count_max;
        kept.saturating_mul(1 << self.doubled).min(options.fire_count_behind_max.max(kept))
    }

    /// Takes due timers off the wheel, as many as one round may name.
    fn collect(&mut self, now: Timestamp, options: &EngineOptions) -> Round {
        let mut round = Round { sweep: self.sweep_wanted, ..Round::default() };
        self.sweep_wanted = false;
        let mut fired = std::mem::take(&mut self.fired);
        loop {
            let locks = round.locks.len() + round.sessions.len();
            let locks_left = options.fire_locks_max as usize - locks;
            let deadlines_left = options.fire_entities_max as usize - round.deadlines.len();
            fired.clear();
            let more = self.wheel.advance(now.0, locks_left.min(deadlines_left), &mut fired);
            fired.iter().for_each(|timer| self.name(timer.key, &mut round));
            if !more || fired.is_empty() {
                break;
            }
        }
        self.fired = fired;
        round
    }

    fn name(&mut self, key: Key, round: &mut Round) {
        match key {
            Key::Deadline(entity, kind) => {
                if let Some(deadline) = self.deadlines.get_mut(&(entity, kind)) {
                    deadline.handle = None;
                    round.deadlines.push((entity, kind));
                }
            }
            Key::Lock(queue, sequence) => {
                if let Some(lock) = self.locks.get_mut(&(queue, sequence)) {
                    lock.handle = None;
                    round.locks.push((queue, LockToken { sequence, nonce: lock.nonce }));
                }
            }
            Key::Session(number) => round.sessions.extend(self.sessions.take(number)),
        }
    }

    /// The round was applied, with these outcomes. Its effects were told before or will be told:
    /// they re-arm what moved. What says "more" is due again; what neither moved nor has more cannot
    /// move now (its entity is suspended, STATE-3) and rests until the entity is updated.
    pub fn fired(&mut self, outcomes: &[Outcome], options: &EngineOptions) {
        let Some(round) = self.round.take() else { return };
        // Of whatever kind: what is late waits for all of them.
        let behind = outcomes.iter().any(|outcome| match outcome {
            Outcome::Fired(fired) => fired.more && fired.late_ms_max >= options.fire_behind.0,
            _ => false,
        });
        self.doubled = if behind { (self.doubled + 1).min(DOUBLED_MAX) } else { 0 };
        let mut more = outcomes.iter().map(|outcome| match outcome {
            Outcome::Fired(fired) => fired.more,
            _ => false,
        });
        if !round.locks.is_empty() && more.next().unwrap_or(true) {
            self.again_locks(&round.locks);
        }
        if !round.sessions.is_empty() && more.next().unwrap_or(true) {
            let wheel = &mut self.wheel;
            for (entity, token) in &round.sessions {
                let arm = |number, until: Timestamp| wheel.arm(Key::Session(number), until.0);
                self.sessions.rearm(*entity, token, arm);
            }
        }
        for (entity, kind) in round.deadlines {
            if more.next().unwrap_or(true) {
                self.again(entity, kind);
            }
        }
        self.sweep_wanted |= round.sweep && more.next().unwrap_or(true);
    }

    /// The round was not applied, or nobody knows: all of it is due again.
    pub fn lost(&mut self, options: &EngineOptions) {
        self.fired(&[], options);
    }

    fn again(&mut self, entity: EntityId, kind: DeadlineKind) {
        if let Some(deadline) = self.deadlines.get(&(entity, kind)) {
            self.next(entity, kind, deadline.due);
        }
    }

    fn again_locks(&mut self, locks: &[(QueueId, LockToken)]) {
        for (queue, token) in locks {
            if let Some(lock) = self.locks.get_mut(&(*queue, token.sequence))
                && lock.handle.is_none()
            {
                let key = Key::Lock(*queue, token.sequence);
                lock.handle = Some(self.wheel.arm(key, lock.until.0));
            }
        }
    }

    /// Every timer, those named in a round and resting ones included, in order of what it is about.
    pub fn iter(&self) -> impl Iterator<Item = (Timer, Timestamp)> + '_ {
        let deadlines = self
            .deadlines
            .iter()
            .map(|(&(entity, kind), deadline)| (Timer::Deadline(entity, kind), deadline.due));
        let locks = self.locks.iter().map(|(&(queue, sequence), lock)| {
            (Timer::Lock(queue, LockToken { sequence, nonce: lock.nonce }), lock.until)
        });
        deadlines.chain(locks)
    }

    /// See [`SessionTimers::is_held`].
    pub fn is_held(&self, entity: EntityId, now: Timestamp) -> bool {
        self.sessions.is_held(entity, now)
    }

    /// As [`Timers::iter`], of held sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (EntityId, SessionToken, Timestamp)> + '_ {
        self.sessions.iter()
    }

    /// Timers off the wheel: named in a round, or resting.
    pub fn off_wheel(&self) -> usize {
        self.deadlines.len() + self.locks.len() + self.sessions.len() - self.wheel.len()
    }

    pub fn len(&self) -> usize {
        self.wheel.len()
    }
}

/// The commands of a round. All `Fire`s share one bound, so that an entry's work does not grow with
/// the number of entities.
fn commands(round: &Round, count_max: u32) -> Vec<Command> {
    let mut commands = Vec::with_capacity(3 + round.deadlines.len());
    if !round.locks.is_empty() {
        commands.push(Command::FireLocks(FireLocks { locks: round.locks.clone() }));
    }
    if !round.sessions.is_empty() {
        let fire = FireSessions { locks: round.sessions.clone() };
        commands.push(Command::Session(SessionCommand::Fire(fire)));
    }
    let share = count_max / round.deadlines.len().max(1) as u32;
    for &(entity, kind) in &round.deadlines {
        commands.push(Command::Fire(Fire { entity, kind, count_max: share.max(1) }));
    }
    if round.sweep {
        commands.push(Command::Sweep);
    }
    commands
}
