//! After any history a rebuilt engine has the timers of the running one, and what the wheel would
//! fire next is what rows say is due next.

use bytes::Bytes;
use domain::{
    AcceptSession, Acquire, Command, Commit, CreateQueue, DeadlineKind, Destination, Disposition,
    Effect, EntityId, EntityStatus, Entry, FEATURE_LEVEL_KNOWN, ForwardCommand, GroupId, Idleness,
    Key, Line, LockToken, Machine, MemoryRows, NewMessage, Operation, Outcome, Properties, QueueId,
    QueueProperties, ReceiveSession, ReceiverId, Refused, ReleaseSession, Renew, RenewSession, Row,
    Send, SendVia, SessionCommand, SessionToken, Settle, Settlement, Ship, Shipped, Span, SubQueue,
    Timestamp, Unpark, UpdateQueue,
};
use engine::{Carried, Engine, EngineOptions, ForwardTask, Timer};
use proptest::prelude::*;

/// What happens. Small numbers pick among what there is.
#[derive(Clone, Debug)]
enum Action {
    Send {
        entity: u64,
        ttl: Option<u64>,
        delay: Option<u64>,
        id: Option<u8>,
    },
    Acquire {
        entity: u64,
        dead_letter: bool,
        count: u32,
    },
    Settle {
        held: usize,
        disposition: u8,
    },
    Renew {
        held: usize,
    },
    /// A settlement, a send and a renewal as one; mostly of a lock that the settlement ends.
    Commit {
        held: usize,
        renewed: usize,
        disposition: u8,
        ttl: Option<u64>,
        delay: Option<u64>,
    },
    /// Of the queue that requires sessions.
    Accept {
        session: Option<u8>,
    },
    InSession {
        hold: usize,
        what: u8,
    },
    Update {
        entity: u64,
        status: u8,
        default_ttl: Option<u64>,
        dead_letter: bool,
        window: u64,
    },
    Delete {
        entity: u64,
    },
    Forward {
        entity: u64,
        dead_letter: bool,
        on: bool,
    },
    /// FWD-14.
    SendVia {
        entity: u64,
        to: u64,
    },
    /// Forward tasks are run, or get lost, or are refused.
    ForwardTasks {
        what: u8,
    },
    /// The driver polls; what it gets is applied, or lost.
    Poll {
        lost: bool,
    },
    Wait {
        ms: u64,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let ttl = || prop::option::of(1_000u64..30_000);
    prop_oneof![
        8 => (0u64..3, prop::option::of(1u64..9_000), prop::option::of(1u64..9_000),
              prop::option::of(0u8..4))
            .prop_map(|(entity, ttl, delay, id)| Action::Send { entity, ttl, delay, id }),
        5 => (0u64..3, prop::bool::weighted(0.2), 1u32..4)
            .prop_map(|(entity, dead_letter, count)| Action::Acquire { entity, dead_letter, count }),
        4 => (any::<usize>(), 0u8..5)
            .prop_map(|(held, disposition)| Action::Settle { held, disposition }),
        2 => any::<usize>().prop_map(|held| Action::Renew { held }),
        4 => (any::<usize>(), any::<usize>(), 0u8..5, prop::option::of(1u64..9_000),
              prop::option::of(1u64..9_000))
            .prop_map(|(held, renewed, disposition, ttl, delay)| {
                Action::Commit { held, renewed, disposition, ttl, delay }
            }),
        3 => prop::option::of(0u8..4).prop_map(|session| Action::Accept { session }),
        4 => (any::<usize>(), 0u8..6).prop_map(|(hold, what)| Action::InSession { hold, what }),
        2 => (0u64..3, 0u8..6, ttl(), any::<bool>(), 20u64..40).prop_map(
            |(entity, status, default_ttl, dead_letter, window)| Action::Update {
                entity, status, default_ttl, dead_letter, window,
            }
        ),
        1 => (0u64..3).prop_map(|entity| Action::Delete { entity }),
        2 => (0u64..3, any::<bool>(), any::<bool>())
            .prop_map(|(entity, dead_letter, on)| Action::Forward { entity, dead_letter, on }),
        3 => (0u64..3, 0u64..3).prop_map(|(entity, to)| Action::SendVia { entity, to }),
        5 => (0u8..6).prop_map(|what| Action::ForwardTasks { what }),
        6 => prop::bool::weighted(0.2).prop_map(|lost| Action::Poll { lost }),
        5 => prop_oneof![1u64..500, 500u64..20_000, 20_000u64..80_000]
            .prop_map(|ms| Action::Wait { ms }),
    ]
}

/// A leader: rows, the machine over them, and the engine that follows.
struct Leader {
    rows: MemoryRows,
    machine: Machine,
    engine: Engine,
    now: Timestamp,
    entities: [EntityId; 3],
    entries: u64,
    held: Vec<(QueueId, LockToken)>,
    holds: Vec<(EntityId, SessionToken)>,
}

/// Which of the entities requires sessions.
const WITH_SESSIONS: u64 = 1;

impl Leader {
    fn new() -> Leader {
        let options = EngineOptions {
            fire_count_max: 4,
            fire_entities_max: 2,
            fire_locks_max: 2,
            ..EngineOptions::default()
        };
        let mut leader = Leader {
            rows: MemoryRows::at_level(FEATURE_LEVEL_KNOWN),
            machine: Machine::new(),
            engine: Engine::new(options),
            now: Timestamp(1_700_000_000_000),
            entities: [EntityId(1), EntityId(2), EntityId(3)],
            entries: 0,
            held: Vec::new(),
            holds: Vec::new(),
        };
        (0..3).for_each(|entity| leader.create(entity));
        leader
    }

    fn create(&mut self, entity: u64) {
        let id = self.entities[entity as usize];
        let properties = Box::new(QueueProperties {
            lock_duration: Span::from_secs(5),
            requires_duplicate_detection: entity != 0,
            requires_session: entity == WITH_SESSIONS,
            duplicate_detection_window: Span::from_secs(20),
            auto_delete_on_idle: if entity == 1 { Span::from_secs(300) } else { Span::MAX },
            default_ttl: if entity == 2 { Span(9_000) } else { Span::MAX },
            max_delivery_count: 2,
            ..QueueProperties::default()
        });
        let name = format!("queue{}", id.0);
        self.apply(vec![Command::CreateQueue(CreateQueue { entity: id, name, properties })]);
    }

    fn apply(&mut self, commands: Vec<Command>) -> Vec<Outcome> {
        self.entries += 1;
        let seed = u128::from(self.entries).to_be_bytes();
        let mut step = self.machine.step(&self.rows);
        let outcomes = step.apply(Entry { at: self.now, seed, commands });
        let changes = step.finish();
        self.rows.erase(&changes.erased);
        self.rows.write(changes.writes);
        for effect in changes.effects {
            if let Effect::Locked { queue, token, .. } = effect {
                self.held.push((queue, token));
            }
            self.engine.effect(effect);
        }
        for outcome in &outcomes {
            match outcome {
                Outcome::Accepted { token, .. } => {
                    self.holds.push((self.entities[WITH_SESSIONS as usize], token.clone()));
                }
                Outcome::Acquired { deliveries, .. } => {
                    let queue = QueueId::main(self.entities[WITH_SESSIONS as usize]);
                    let locks = deliveries.iter().filter_map(|delivery| delivery.lock);
                    self.held.extend(locks.map(|lock| (queue, lock.token)));
                }
                _ => (),
            }
        }
        outcomes
    }

    fn in_session(&mut self, hold: usize, what: u8) {
        if self.holds.is_empty() {
            return;
        }
        let (entity, token) = self.holds[hold % self.holds.len()].clone();
        let origin = None;
        let command = match what {
            0 => SessionCommand::Renew(RenewSession { origin, entity, token }),
            1 | 2 => SessionCommand::Release(ReleaseSession { origin, entity, token }),
            _ => SessionCommand::Receive(ReceiveSession {
                entity,
                token,
                receiver: ReceiverId::default(),
                count_max: 2,
                bytes_max: 1_000,
            }),
        };
        self.apply(vec![Command::Session(command)]);
    }

    fn message(&self, ttl: Option<u64>, delay: Option<u64>, id: Option<u8>) -> NewMessage {
        NewMessage {
            content: Bytes::from_static(b"body"),
            size_bytes: 10,
            header_bytes: 5,
            message_id: id.map(|id| id.to_string()),
            session_id: Some(format!("s{}", self.entries % 4)),
            partition_key: None,
            ttl: ttl.map(Span),
            scheduled_at: delay.map(|ms| self.now.plus(Span(ms))),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send { entity, ttl, delay, id } => {
                let entity = self.entities[entity as usize];
                let messages = vec![self.message(ttl, delay, id)];
                self.apply(vec![Command::Send(Send { origin: None, entity, messages })]);
            }
            Action::Acquire { entity, dead_letter, count } => {
                let sub = if dead_letter { SubQueue::DeadLetter } else { SubQueue::Main };
                self.apply(vec![Command::Acquire(Acquire {
                    queue: QueueId { entity: self.entities[entity as usize], sub },
                    receiver: ReceiverId::default(),
                    count_max: count,
                    bytes_max: 1_000,
                })]);
            }
            Action::Settle { held, disposition } if !self.held.is_empty() => {
                let (queue, token) = self.held[held % self.held.len()];
                let settlements = vec![Settlement { token, disposition: chosen(disposition) }];
                let settle = Settle { origin: None, queue, settlements, atomic: false };
                self.apply(vec![Command::Settle(settle)]);
            }
            Action::Renew { held } if !self.held.is_empty() => {
                let (queue, token) = self.held[held % self.held.len()];
                let tokens = vec![token];
                self.apply(vec![Command::Renew(Renew { origin: None, queue, tokens })]);
            }
            Action::Commit { held, renewed, disposition, ttl, delay } if !self.held.is_empty() => {
                let (queue, token) = self.held[held % self.held.len()];
                let (entity, origin) = (queue.entity, None);
                let settlements = vec![Settlement { token, disposition: chosen(disposition) }];
                let settle = Settle { origin, queue, settlements, atomic: true };
                let messages = vec![self.message(ttl, delay, None)];
                let (queue, token) = self.held[renewed % self.held.len()];
                let operations = vec![
                    Operation::Settle(settle),
                    Operation::Send(Send { origin, entity, messages }),
                    Operation::Renew(Renew { origin, queue, tokens: vec![token] }),
                ];
                self.apply(vec![Command::Commit(Commit { origin, entity, operations })]);
            }
            Action::Settle { .. } | Action::Renew { .. } | Action::Commit { .. } => (),
            Action::Accept { session } => {
                let accept = AcceptSession {
                    origin: None,
                    queue: QueueId::main(self.entities[WITH_SESSIONS as usize]),
                    receiver: ReceiverId::default(),
                    session: session.map(|id| format!("s{id}").into()),
                };
                self.apply(vec![Command::Session(SessionCommand::Accept(accept))]);
            }
            Action::InSession { hold, what } => self.in_session(hold, what),
            Action::Update { entity, status, default_ttl, dead_letter, window } => {
                self.update(entity, status, default_ttl, dead_letter, window);
            }
            Action::Delete { entity } => {
                let id = self.entities[entity as usize];
                self.apply(vec![Command::DeleteEntity { entity: id }]);
                self.entities[entity as usize] = EntityId(id.0 + 3); // ENT-8.
                self.create(entity);
            }
            Action::Forward { entity, dead_letter, on } => self.forward(entity, dead_letter, on),
            Action::SendVia { entity, to } => {
                let (via, messages) =
                    (self.entities[entity as usize], vec![self.message(None, None, None)]);
                let destination = Destination { entity: EntityId(100 + to), group: GroupId(1) };
                let operations = vec![Operation::SendVia(SendVia { via, destination, messages })];
                let commit = Commit { origin: None, entity: via, operations };
                self.apply(vec![Command::Commit(commit)]);
            }
            Action::ForwardTasks { what } => self.forward_tasks(what),
            Action::Poll { lost } => self.poll(lost),
            Action::Wait { ms } => self.now = self.now.plus(Span(ms)),
        }
    }

    fn update(&mut self, entity: u64, status: u8, ttl: Option<u64>, dead: bool, window: u64) {
        let id = self.entities[entity as usize];
        let Some(Row::Entity(row)) = self.rows.0.get(&Key::Entity(id)) else { return };
        let properties = Box::new(QueueProperties {
            status: match status {
                0 => EntityStatus::Disabled,
                1 => EntityStatus::ReceiveDisabled,
                _ => EntityStatus::Active,
            },
            default_ttl: ttl.map_or(Span::MAX, Span),
            dead_letter_on_expiration: dead,
            auto_delete_on_idle: if dead { Span::from_secs(300) } else { Span::MAX },
            duplicate_detection_window: Span::from_secs(window),
            ..row.properties.clone()
        });
        self.apply(vec![Command::UpdateQueue(UpdateQueue {
            origin: None,
            entity: id,
            properties,
        })]);
    }

    fn forward(&mut self, entity: u64, dead_letter: bool, on: bool) {
        let id = self.entities[entity as usize];
        let Some(Row::Entity(row)) = self.rows.0.get(&Key::Entity(id)) else { return };
        let mut properties = Box::new(row.properties.clone());
        let to = on.then(|| "elsewhere".to_owned());
        match dead_letter {
            true => properties.forward_dead_letters_to = to,
            false => properties.forward_to = to,
        }
        let update = UpdateQueue { origin: None, entity: id, properties };
        self.apply(vec![Command::UpdateQueue(update)]);
    }

    fn forward_tasks(&mut self, what: u8) {
        let mut tasks = Vec::new();
        self.engine.forward_tasks(self.now, &mut tasks);
        for task in tasks {
            match task {
                ForwardTask::Ship { queue, again } => {
                    let destination = (what != 5)
                        .then_some(Destination { entity: EntityId(99), group: GroupId(2) });
                    let to = "elsewhere".to_owned();
                    let ship = Ship { queue, to, destination, count_max: 3, bytes_max: 100, again };
                    self.pack(queue, what == 0, ForwardCommand::Ship(ship));
                }
                ForwardTask::Unpark { queue } => {
                    let unpark = ForwardCommand::Unpark(Unpark { queue, count_max: 2 });
                    self.pack(queue, what == 0, unpark);
                }
                ForwardTask::Carry { line, serial, .. } => self.carry(line, serial, what),
            }
        }
    }

    fn pack(&mut self, queue: QueueId, lost: bool, command: ForwardCommand) {
        if !lost {
            self.apply(vec![Command::Forward(command)]);
        }
        self.engine.packed(queue, !lost, self.now);
    }

    fn carry(&mut self, line: Line, serial: u64, what: u8) {
        let refused =
            |count| Refused { first: 0, count, reason: "r".to_owned(), description: String::new() };
        let (refused, carried) = match what {
            0 => return self.engine.carried(line, serial, Carried::Lost, self.now),
            1 => (vec![refused(9)], Carried::Nothing),
            2 => (vec![refused(1)], Carried::Some),
            _ => (Vec::new(), Carried::All),
        };
        let shipped = Shipped { queue: line.queue, serial, refused };
        self.apply(vec![Command::Forward(ForwardCommand::Shipped(shipped))]);
        self.engine.carried(line, serial, carried, self.now);
    }

    fn poll(&mut self, lost: bool) {
        let commands = self.engine.poll(self.now);
        if commands.is_empty() {
            return;
        }
        if lost {
            self.engine.fire_lost();
        } else {
            let outcomes = self.apply(commands);
            self.engine.fired(&outcomes);
        }
    }

    /// Whoever waits for a session asks the running engine and a rebuilt one for the same.
    fn check_waiting(&self, rebuilt: &Engine) {
        let entity = self.entities[WITH_SESSIONS as usize];
        let asked = |engine: &Engine| {
            let mut engine = engine.clone();
            (0..6).for_each(|link| {
                engine.accept(ReceiverId { node: 9, link, epoch: 1 }, entity);
            });
            let mut accepts = Vec::new();
            engine.accepts(&mut accepts);
            accepts
        };
        assert_eq!(asked(&self.engine), asked(rebuilt));
    }

    /// Whoever looks, the running engine or a rebuilt one, in time or late: the same is idle, and
    /// nothing is looked at again for nothing.
    fn check_looks(&self, rebuilt: &mut Engine) {
        let mut running = self.engine.clone();
        for later in [0, 299_999, 300_000, 700_000] {
            let now = self.now.plus(Span(later));
            let idle = rebuilt.look(now, Span(0), &self.rows).candidates;
            let mut expected = idle_at(now, &self.rows);
            // What was named at the last look is named again after a while only.
            if later == 300_000 {
                expected
                    .retain(|entity| !idle_at(Timestamp(now.0 - 1), &self.rows).contains(entity));
            }
            let mut named: Vec<EntityId> = idle.iter().map(|idle| idle.entity).collect();
            named.sort();
            assert_eq!(named, expected, "{later} ms later");
            if later == 700_000 {
                let mut idle = running.look(now, Span(0), &self.rows).candidates;
                idle.sort();
                let named: Vec<EntityId> = idle.iter().map(|candidate| candidate.entity).collect();
                assert_eq!(named, expected, "by the running engine");
            }
            assert_eq!(rebuilt.look(now, Span(0), &self.rows), Default::default());
            assert!(rebuilt.next_look().is_none_or(|look_at| look_at > now));
        }
    }

    /// Every timer of the running engine, of a rebuilt one, and what rows call for.
    fn check(&mut self) {
        let running: Vec<(Timer, Timestamp)> = self.engine.timers().collect();
        let mut rebuilt = Engine::rebuild(&self.rows, EngineOptions::default());
        assert_eq!(running, rebuilt.timers().collect::<Vec<_>>());
        assert!(self.engine.temporaries().eq(rebuilt.temporaries()));
        assert!(self.engine.temporaries().eq(temporaries(&self.rows)));
        self.check_looks(&mut rebuilt);
        let mut due = due(&self.rows);
        due.sort();
        assert_eq!(running, due);
        let sessions: Vec<_> = self.engine.session_timers().collect();
        assert_eq!(sessions, rebuilt.session_timers().collect::<Vec<_>>());
        assert_eq!(sessions, held_sessions(&self.rows));
        self.check_waiting(&rebuilt);
        let forwards: Vec<_> = self.engine.forwards().collect();
        assert_eq!(forwards, rebuilt.forwards().collect::<Vec<_>>());
        let due = due.iter().map(|(_, due)| *due);
        let earliest = due.chain(sessions.iter().map(|(_, _, until)| *until)).min();
        assert_eq!(
            self.engine.timers_off_wheel(),
            0,
            "nothing rests: marks of suspended entities are off"
        );
        let sweeps = self.rows.0.keys().any(|key| matches!(key, Key::Sweep(_)));
        let next = if sweeps { Some(Timestamp::ZERO) } else { earliest };
        assert_eq!(self.engine.next_deadline(), next);
        assert_eq!(rebuilt.next_deadline(), next);
    }
}

/// Holds, read from rows alone.
fn held_sessions(rows: &MemoryRows) -> Vec<(EntityId, SessionToken, Timestamp)> {
    let held = rows.0.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Session(entity, id), Row::Session(row))
            if rows.0.contains_key(&Key::Entity(*entity)) =>
        {
            let lock = row.lock?;
            let token = SessionToken { session: id.clone(), nonce: lock.nonce };
            Some((*entity, token, lock.until))
        }
        _ => None,
    });
    held.collect()
}

/// What is idle by its rows.
fn idle_at(now: Timestamp, rows: &MemoryRows) -> Vec<EntityId> {
    let is_idle = |id: &EntityId| {
        let info = domain::entity_info(rows, *id).expect("an entity");
        matches!(info.idleness, Idleness::Since { due, .. } if due <= now)
    };
    temporaries(rows).filter(is_idle).collect()
}

/// What its rows say can be deleted.
fn temporaries(rows: &MemoryRows) -> impl Iterator<Item = EntityId> + '_ {
    rows.0.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Entity(id), Row::Entity(row)) if !row.properties.idle_window().is_max() => Some(*id),
        _ => None,
    })
}

fn chosen(disposition: u8) -> Disposition {
    let properties = Properties::new();
    match disposition {
        0 => Disposition::Complete,
        1 => Disposition::Abandon { properties },
        2 => Disposition::Defer { properties },
        3 => Disposition::DeadLetter { reason: None, description: None, properties },
        _ => Disposition::Release,
    }
}

/// What rows call for, read from them alone. Derived deadlines follow the cursor.
fn due(rows: &MemoryRows) -> Vec<(Timer, Timestamp)> {
    let mut due = Vec::new();
    for (key, row) in &rows.0 {
        let (Key::EntityState(id), Row::EntityState(state)) = (key, row) else { continue };
        let Some(Row::Entity(entity)) = rows.0.get(&Key::Entity(*id)) else { continue };
        for kind in DeadlineKind::ALL {
            match state.next_due(&entity.properties, kind) {
                Timestamp::NEVER => (),
                at => due.push((Timer::Deadline(*id, kind), at)),
            }
        }
    }
    for (key, row) in &rows.0 {
        let (Key::Lock(queue, sequence), Row::Lock(lock)) = (key, row) else { continue };
        if rows.0.contains_key(&Key::Entity(queue.entity)) {
            let token = LockToken { sequence: *sequence, nonce: lock.nonce };
            due.push((Timer::Lock(*queue, token), lock.until));
        }
    }
    due
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_rebuilt_engine_agrees_with_the_running_one(
        actions in prop::collection::vec(action(), 0..150),
    ) {
        let mut leader = Leader::new();
        for action in actions {
            leader.act(action);
            leader.check();
        }
        // In the end everything fires that is due, and nothing spins.
        leader.now = leader.now.plus(Span::from_secs(3_600));
        for _ in 0..1_000 {
            leader.poll(false);
            leader.forward_tasks(3);
            leader.check();
        }
        let away = leader.engine.forwards().filter(|(_, _, shipments)| !shipments.is_empty());
        prop_assert_eq!(away.count(), 0, "every shipment gets there");
        let now = leader.now;
        prop_assert!(leader.engine.next_deadline().is_none_or(|due| due > now));
    }
}
