//! Idleness under elections, outages longer than the window, and coordinators that fall at every
//! step: domain and engine as they are, a group and a catalog, one seed, time as a number.
//!
//! What must hold (IDLE-4, IDLE-14, IDLE-15, architecture 4): nothing is deleted that was used, or
//! waited for, within its window of time with a leader; whatever is not used goes; and the directory
//! and the group agree in the end on what there is.

use bytes::Bytes;
use domain::{
    Acquire, CatalogCommand, CatalogOutcome, Command, CreateQueue, CreateSubscription, CreateTopic,
    Creation, DirectoryRow, DirectoryState, EntityId, Entry, Idleness, Key, Machine, MemoryRows,
    NewMessage, NewRule, NodeRow, Outcome, QueueId, QueueProperties, ReceiverId, Row, SILENCE_MAX,
    Seal, Send, Span, SubscriptionProperties, TOUCH_LASTS, Timestamp, TopicCommand,
    TopicProperties,
};
use engine::{Candidate, Engine, EngineOptions};
use simulation::Random;

const SECOND: u64 = 1000;
const WINDOW: u64 = 300 * SECOND;
const REATTACH: u64 = 60 * SECOND;
const BEAT: u64 = 60 * SECOND;
/// A user whose requests are lost may come this much later than it means to.
const TOLERATED: u64 = 10 * SECOND;
const QUEUES: u64 = 6;
const TOPICS: u64 = 2;
const TROUBLE_TICKS: u64 = 7_200;

/// A log and its rows.
#[derive(Default)]
struct Group {
    rows: MemoryRows,
    machine: Machine,
    entries: u128,
}

impl Group {
    fn apply(&mut self, now: u64, command: Command, engine: Option<&mut Engine>) -> Outcome {
        self.entries += 1;
        let mut step = self.machine.step(&self.rows);
        let entry =
            Entry { at: Timestamp(now), seed: self.entries.to_be_bytes(), commands: vec![command] };
        let mut outcomes = step.apply(entry);
        let changes = step.finish();
        self.rows.write(changes.writes);
        if let Some(engine) = engine {
            changes.effects.into_iter().for_each(|effect| engine.effect(effect));
        }
        outcomes.remove(0)
    }
}

struct Leader {
    engine: Engine,
    since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Habit {
    /// Or, from a subscription, receives.
    Sends,
    Peeks,
    /// With a receiver that is always there, served or not.
    Waits,
}

#[derive(Debug)]
struct User {
    entity: EntityId,
    /// Of a subscription, its topic.
    topic: Option<EntityId>,
    /// It is deleted for itself, not with its topic only.
    temporary: bool,
    habit: Habit,
    every: u64,
    next: u64,
    stops: u64,
    /// When it last succeeded; of whoever waits, now.
    used: u64,
    attached: bool,
    back: u64,
    deleted: bool,
}

impl User {
    fn receiver(&self) -> ReceiverId {
        ReceiverId { node: 1, link: self.entity.0, epoch: 1 }
    }

    fn stands(&self, now: u64) -> bool {
        self.habit == Habit::Waits && now < self.stops
    }
}

/// What a coordinator, or whoever finishes for it, does next.
#[derive(Clone, Debug)]
enum Next {
    Intent,
    Seal,
    Confirm { spared: bool },
}

struct SealTask {
    candidate: Candidate,
    next: Next,
}

/// What is done wrong on purpose: an invariant is trusted once it has caught it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    /// Nobody asks whether somebody waits, neither the leader nor the coordinator.
    IgnoresReceivers,
    /// Time without a leader counts as time in which nobody used anything.
    CountsOutages,
    /// The deletion does not look for a use in between.
    SealsUnconditionally,
}

struct World {
    bug: Option<Bug>,
    random: Random,
    now: u64,
    group: Group,
    catalog: Group,
    leader: Option<Leader>,
    returns: u64,
    /// When the last outage that counts as one ended.
    outage_ended: u64,
    outage_began: u64,
    users: Vec<User>,
    tasks: Vec<SealTask>,
    spared: u64,
    crashes: u64,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> World {
        let now = 1_700_000_000_000;
        let mut world = World {
            bug,
            random: Random::new(seed),
            now,
            group: Group::default(),
            catalog: Group::default(),
            leader: Some(Leader { engine: Engine::new(EngineOptions::default()), since: now }),
            returns: 0,
            outage_ended: 0,
            outage_began: 0,
            users: Vec::new(),
            tasks: Vec::new(),
            spared: 0,
            crashes: 0,
        };
        let node = NodeRow {
            peer_address: String::new(),
            grpc_address: String::new(),
            http_address: String::new(),
        };
        world.ask(CatalogCommand::Found {
            cluster_id: 1,
            data_groups: 1,
            replication_factor: 1,
            nodes: vec![(1, node)],
        });
        (0..QUEUES).for_each(|number| world.create_queue(number));
        (0..TOPICS).for_each(|number| world.create_topic(number));
        world
    }

    fn ask(&mut self, command: CatalogCommand) -> Outcome {
        self.catalog.apply(self.now, Command::Catalog(command), None)
    }

    fn propose(&mut self, command: Command) -> Outcome {
        let engine = self.leader.as_mut().map(|leader| &mut leader.engine);
        self.group.apply(self.now, command, engine)
    }

    fn create_queue(&mut self, number: u64) {
        let properties =
            QueueProperties { auto_delete_on_idle: Span(WINDOW), ..QueueProperties::default() };
        let (name, properties) = (format!("q{number}"), Box::new(properties));
        let entity = self.create(CatalogCommand::Create { request: number, name, properties });
        let habit = [Habit::Sends, Habit::Peeks, Habit::Waits][self.random.below(3) as usize];
        self.settle_in(entity, None, true, habit);
    }

    /// With a subscription that goes when it is unused and one that goes with its topic only.
    fn create_topic(&mut self, number: u64) {
        let name = format!("t{number}");
        let properties =
            TopicProperties { auto_delete_on_idle: Span(WINDOW), ..TopicProperties::default() };
        let properties = Box::new(properties);
        let create =
            CatalogCommand::CreateTopic { request: number, name: name.clone(), properties };
        let topic = self.create(create);
        self.settle_in(topic, None, true, Habit::Sends);
        for (subscription, window) in [("own", Span(WINDOW)), ("kept", Span::MAX)] {
            let properties = SubscriptionProperties {
                auto_delete_on_idle: window,
                ..SubscriptionProperties::default()
            };
            let entity = self.create(CatalogCommand::CreateSubscription {
                request: number,
                topic: name.clone(),
                name: subscription.to_owned(),
                properties: Box::new(properties),
                rule: Box::new(NewRule::default()),
            });
            let habit = [Habit::Sends, Habit::Peeks, Habit::Waits][self.random.below(3) as usize];
            self.settle_in(entity, Some(topic), !window.is_max(), habit);
        }
    }

    fn create(&mut self, create: CatalogCommand) -> EntityId {
        let Outcome::Catalog(CatalogOutcome::Entry { row, .. }) = self.ask(create.clone()) else {
            panic!("not created: {create:?}");
        };
        let (entity, name) = (row.entity, row.name);
        let DirectoryState::Creating { what } = row.state else { panic!("{:?}", row.state) };
        let create = match what {
            Creation::Queue { properties } => {
                Command::CreateQueue(CreateQueue { entity, name: name.clone(), properties })
            }
            Creation::Topic { properties } => Command::Topic(TopicCommand::Create(CreateTopic {
                entity,
                name: name.clone(),
                properties,
            })),
            Creation::Subscription { topic, properties, rule } => {
                let name = name.clone();
                let create = CreateSubscription { entity, topic, name, properties, rule };
                Command::Topic(TopicCommand::CreateSubscription(create))
            }
        };
        assert_eq!(self.propose(create), Outcome::Done);
        self.ask(CatalogCommand::Created { name, entity });
        entity
    }

    fn settle_in(
        &mut self,
        entity: EntityId,
        topic: Option<EntityId>,
        temporary: bool,
        habit: Habit,
    ) {
        let lives = self.random.below(2 * TROUBLE_TICKS) * SECOND;
        self.users.push(User {
            entity,
            topic,
            temporary,
            habit,
            every: (1 + self.random.below(400)) * SECOND,
            next: self.now,
            stops: self.now + lives,
            used: self.now,
            attached: false,
            back: self.now,
            deleted: false,
        });
    }

    fn tick(&mut self, trouble: bool) {
        self.now += SECOND;
        self.lead(trouble);
        if self.bug == Some(Bug::CountsOutages) && self.leader.is_none() {
            self.group.apply(self.now, Command::Beat, None);
        }
        for index in 0..self.users.len() {
            self.act(index, trouble);
        }
        self.look();
        self.coordinate(trouble);
    }

    /// Elections take seconds; outages, now and then, longer than any window.
    fn lead(&mut self, trouble: bool) {
        if self.leader.is_none() && self.now >= self.returns {
            let engine = Engine::rebuild(&self.group.rows, EngineOptions::default());
            self.leader = Some(Leader { engine, since: self.now });
            if self.now - self.outage_began >= SILENCE_MAX.0 {
                self.outage_ended = self.now;
            }
            for user in &mut self.users {
                user.attached = false;
                user.back = self.now + self.random.below(REATTACH / SECOND) * SECOND;
            }
        } else if trouble && self.leader.is_some() && self.random.chance(6) {
            self.leader = None;
            self.outage_began = self.now;
            let seconds = match self.random.below(10) {
                0 => self.random.below(3 * WINDOW / SECOND),
                1 => self.random.below(150),
                _ => self.random.below(4),
            };
            self.returns = self.now + seconds * SECOND;
        }
    }

    /// Whoever cannot use its queue, because nobody leads or the request is lost, tries again.
    fn act(&mut self, index: usize, trouble: bool) {
        let lost = trouble && self.random.chance(100);
        let user = &mut self.users[index];
        if user.deleted || self.now >= user.stops {
            if user.attached
                && let Some(leader) = &mut self.leader
            {
                leader.engine.detach(user.receiver());
            }
            user.attached = false;
            return;
        }
        if user.habit == Habit::Waits {
            user.used = self.now;
        }
        let (entity, habit) = (user.entity, user.habit);
        let Some(leader) = &mut self.leader else { return };
        if habit == Habit::Waits {
            if !user.attached && self.now >= user.back {
                user.attached = true;
                leader.engine.attach(user.receiver(), QueueId::main(entity));
                leader.engine.credit(user.receiver(), 1);
                let known = leader.engine.awaited(entity, Timestamp(self.now), &self.group.rows);
                if known && self.bug != Some(Bug::IgnoresReceivers) {
                    let touched = self.propose(Command::Touch { entity });
                    assert_eq!(touched, Outcome::Done, "deleted under a receiver");
                }
            }
            return;
        }
        if self.now < user.next || lost {
            return;
        }
        user.next = self.now + user.every;
        let command = match habit {
            Habit::Peeks => {
                match domain::is_use_known(&self.group.rows, entity, Timestamp(self.now)) {
                    true => None, // Read without a word.
                    false => Some(Command::Touch { entity }),
                }
            }
            Habit::Sends | Habit::Waits if user.topic.is_some() => {
                Some(Command::Acquire(Acquire {
                    queue: QueueId::main(entity),
                    receiver: user.receiver(),
                    count_max: 10,
                    bytes_max: u32::MAX,
                }))
            }
            Habit::Sends | Habit::Waits => {
                Some(Command::Send(Send { origin: None, entity, messages: vec![message()] }))
            }
        };
        if let Some(command) = command
            && let Outcome::Refused(refusal) = self.propose(command)
        {
            panic!("{refusal}: {:?} at {}", self.users[index], self.now);
        }
        self.users[index].used = self.now;
    }

    /// As the driver does.
    fn look(&mut self) {
        let now = Timestamp(self.now);
        let Some(leader) = &mut self.leader else { return };
        let patience = Span(REATTACH.saturating_sub(self.now - leader.since));
        let looked = leader.engine.look(now, patience, &self.group.rows);
        for entity in looked.touch {
            if self.bug != Some(Bug::IgnoresReceivers) {
                self.propose(Command::Touch { entity });
            }
        }
        if now.since(domain::meta(&self.group.rows).last_at).0 >= BEAT {
            self.propose(Command::Beat);
        }
        let used: Vec<EntityId> = self.standing();
        for candidate in looked.candidates {
            if self.bug == Some(Bug::IgnoresReceivers) || !used.contains(&candidate.entity) {
                self.tasks.push(SealTask { candidate, next: Next::Intent });
            }
        }
    }

    fn standing(&self) -> Vec<EntityId> {
        let standing = self.users.iter().filter(|user| user.stands(self.now));
        standing.flat_map(|user| [Some(user.entity), user.topic]).flatten().collect()
    }

    /// Steps of all tasks, some by several who do not know of each other; and now and then all of
    /// them are forgotten, and found again by what the catalog kept.
    fn coordinate(&mut self, trouble: bool) {
        if trouble && self.random.chance(50) {
            self.crashes += self.tasks.len() as u64;
            self.tasks.clear();
        }
        if self.now.is_multiple_of(5 * SECOND) {
            let intents: Vec<DirectoryRow> = self.directory();
            for row in intents {
                if let DirectoryState::Sealing { idle_since } = row.state {
                    let (entity, name) = (row.entity, row.name);
                    let candidate = Candidate { entity, name, idle_since };
                    self.tasks.push(SealTask { candidate, next: Next::Seal });
                }
            }
        }
        for task in std::mem::take(&mut self.tasks) {
            if trouble && self.random.chance(300) {
                self.tasks.push(task); // Slow.
            } else if let Some(task) = self.go(task) {
                self.tasks.push(task);
            }
        }
    }

    fn go(&mut self, task: SealTask) -> Option<SealTask> {
        let SealTask { candidate, next } = task;
        let Candidate { entity, name, idle_since } = candidate.clone();
        let next = match next {
            Next::Intent => {
                match self.ask(CatalogCommand::Seal { name, entity, idle_since }) {
                    Outcome::Catalog(CatalogOutcome::Entry { .. }) => Next::Seal,
                    _ => return None, // Gone already.
                }
            }
            Next::Seal => match self.seal(entity, idle_since)? {
                Outcome::Done => Next::Confirm { spared: false },
                Outcome::Spared => Next::Confirm { spared: true },
                _ => return None, // Too early; the intent is found again.
            },
            Next::Confirm { spared: true } => {
                self.spared += 1;
                self.ask(CatalogCommand::Spare { name, entity, idle_since });
                return None;
            }
            Next::Confirm { spared: false } => {
                self.ask(CatalogCommand::Deleted { name, entity });
                return None;
            }
        };
        Some(SealTask { candidate, next })
    }

    fn seal(&mut self, entity: EntityId, idle_since: Timestamp) -> Option<Outcome> {
        let leader = self.leader.as_mut()?;
        if self.now - leader.since < REATTACH {
            return None;
        }
        let now = Timestamp(self.now);
        if let Some(entity) = leader.engine.awaited_of(entity, now, &self.group.rows)
            && self.bug != Some(Bug::IgnoresReceivers)
        {
            self.propose(Command::Touch { entity });
        }
        let existed = self.group.rows.0.contains_key(&Key::Entity(entity));
        let outcome = self.propose(match self.bug {
            Some(Bug::SealsUnconditionally) => Command::DeleteEntity { entity },
            _ => Command::Seal(Seal { entity, idle_since }),
        });
        if existed && outcome == Outcome::Done {
            self.check_idle(entity);
        }
        Some(outcome)
    }

    /// Of what was deleted just now. A topic is used with its subscriptions, and takes them along.
    fn check_idle(&mut self, entity: EntityId) {
        let gone = |user: &&mut User| user.entity == entity || user.topic == Some(entity);
        for user in self.users.iter_mut().filter(gone).filter(|user| !user.deleted) {
            assert!(user.temporary || user.entity != entity, "it is kept for ever: {user:?}");
            let since = user.used.max(self.outage_ended);
            let idle = self.now - since;
            assert!(idle >= WINDOW, "idle for {idle} ms only: {user:?} at {}", self.now);
            let seldom = user.habit != Habit::Waits && user.every + TOLERATED >= WINDOW;
            assert!(self.now >= user.stops || seldom, "deleted in use: {user:?} at {}", self.now);
            user.deleted = true;
        }
    }

    fn directory(&self) -> Vec<DirectoryRow> {
        let rows = self.catalog.rows.0.values().filter_map(|row| match row {
            Row::Directory(row) => Some(row.clone()),
            _ => None,
        });
        rows.collect()
    }

    /// A topic with its subscriptions, and one that is kept for ever with its topic.
    fn is_in_use(&self, user: &User) -> bool {
        let of = |user: &User| self.now < user.stops && !user.deleted;
        let topic = if user.temporary { Some(user.entity) } else { user.topic };
        of(user)
            || self.users.iter().any(|other| other.topic == topic && topic.is_some() && of(other))
            || self.users.iter().any(|other| Some(other.entity) == topic && of(other))
    }

    /// In the end there is what is in use, and nothing else.
    fn check_settled(&self) {
        let directory = self.directory();
        for user in &self.users {
            let in_use = self.is_in_use(user);
            let info = domain::entity_info(&self.group.rows, user.entity);
            let row = directory.iter().find(|row| row.entity == user.entity);
            assert_eq!(info.is_some(), in_use, "{user:?} at {}, {info:?}", self.now);
            let state = row.map(|row| row.state.clone());
            assert_eq!(state, in_use.then_some(DirectoryState::Ready), "{user:?}");
            if let Some(Idleness::Since { due, .. }) = info.map(|info| info.idleness) {
                assert!(due.0 > self.now, "it is due, and nobody noticed");
            }
        }
    }
}

fn message() -> NewMessage {
    NewMessage {
        content: Bytes::from_static(b"m"),
        size_bytes: 1,
        header_bytes: 0,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    }
}

#[test]
fn idle_14_idle_15_nothing_in_use_is_deleted_and_all_else_is() {
    let seeds = std::env::var("IDLE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let (mut deleted, mut spared, mut crashes) = (0, 0, 0);
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut world = World::new(seed, None);
        (0..TROUBLE_TICKS).for_each(|_| world.tick(true));
        // Who stops now has a window, a minute written ahead, and a new leader's patience; and then
        // a deletion is at most a minute late (TIME-8).
        let begun = world.now;
        world.users.iter_mut().for_each(|user| {
            user.stops = if user.stops > begun + WINDOW { u64::MAX } else { user.stops.min(begun) };
        });
        let outage = world.returns.saturating_sub(begun);
        // A topic has another window from the end of its last subscription (IDLE-10).
        let patience = outage + 2 * (WINDOW + TOUCH_LASTS.0 + REATTACH + 60 * SECOND);
        (0..patience / SECOND).for_each(|_| world.tick(false));
        world.check_settled();
        deleted += world.users.iter().filter(|user| user.deleted).count();
        spared += world.spared;
        crashes += world.crashes;
    }
    println!("{deleted} deleted, {spared} spared, {crashes} tasks forgotten, {seeds} seeds");
    let enough = deleted as u64 > seeds && 2 * crashes > seeds && 10 * spared > seeds;
    assert!(enough, "{deleted} deleted, {spared} spared, {crashes} forgotten");
}

/// Until a seed shows it.
fn is_found(bug: Bug) {
    const SEEDS_MAX: u64 = 40;
    let shows = |seed: &u64| {
        let life = std::panic::catch_unwind(|| {
            let mut world = World::new(*seed, Some(bug));
            (0..TROUBLE_TICKS).for_each(|_| world.tick(true));
        });
        life.is_err()
    };
    let found = (0..SEEDS_MAX).find(shows);
    println!("{bug:?}: seed {found:?}");
    assert!(found.is_some(), "{bug:?} is not noticed in {SEEDS_MAX} seeds");
}

#[test]
fn idle_4_a_deletion_under_a_waiting_receiver_is_noticed() {
    is_found(Bug::IgnoresReceivers);
}

#[test]
fn idle_14_a_deletion_for_the_time_of_an_outage_is_noticed() {
    is_found(Bug::CountsOutages);
}

#[test]
fn idle_15_a_deletion_that_does_not_look_is_noticed() {
    is_found(Bug::SealsUnconditionally);
}
