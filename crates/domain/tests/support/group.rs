//! One group under a virtual clock. Every step is applied twice: by the group's machine, which keeps
//! its cache and may take several entries at once, and by a fresh machine per entry. Both must come
//! to the same rows, outcomes and effects, because a result depends on the log only. The first notes what
//! happens to messages, and the second does not: that changes nothing (HIST-1).

use domain::{
    Changes, Command, CreateQueue, Effect, EntityId, Entry, FEATURE_LEVEL_KNOWN, Key, LifeStep,
    Machine, MemoryRows, MessageEvent, Outcome, QueueProperties, Row, Rows, SessionCommand,
    Timestamp, TraceContext, TracedStep, Write,
};

use crate::support::lives::Lives;
use crate::support::{content, invariants};

/// The instant that tables call 0.
pub const EPOCH: Timestamp = Timestamp(1_700_000_000_000);

/// The queue most tests are about.
pub const QUEUE: EntityId = EntityId(7);

pub struct Group {
    pub rows: MemoryRows,
    pub now: Timestamp,
    pub machine: Machine,
    /// Rows as fresh machines leave them, one entry to a step.
    plain: MemoryRows,
    /// Where the log starts.
    base: MemoryRows,
    log: Vec<Entry>,
    steps: usize,
    /// What the last step told the engine.
    pub effects: Vec<Effect>,
    /// Rows the last step wrote.
    pub written: usize,
    timers: invariants::Timers,
    /// What was told of messages, until somebody takes it.
    pub events: Vec<MessageEvent>,
    lives: Lives,
    /// What was told of messages whose senders are traced, until somebody takes it.
    pub traced: Vec<TracedStep>,
}

impl Group {
    /// A group without entities.
    pub fn empty() -> Group {
        Group::over(MemoryRows::at_level(FEATURE_LEVEL_KNOWN))
    }

    /// A group that starts with rows nobody asked for: no messages among them, which would have been
    /// told to an engine.
    pub fn over(rows: MemoryRows) -> Group {
        Group {
            now: EPOCH,
            machine: Machine::reading(content::read)
                .noting_events(content::texts)
                .noting_traces(content::texts, content::trace),
            plain: rows.clone(),
            base: rows.clone(),
            log: Vec::new(),
            steps: 0,
            effects: Vec::new(),
            written: 0,
            timers: invariants::Timers::default(),
            events: Vec::new(),
            lives: Lives::default(),
            traced: Vec::new(),
            rows,
        }
    }

    /// A group with `QUEUE`, created at `EPOCH`.
    pub fn new(properties: QueueProperties) -> Group {
        let mut group = Group::empty();
        let create = CreateQueue {
            entity: QUEUE,
            name: "Orders".to_owned(),
            properties: Box::new(properties),
        };
        assert_eq!(group.apply(Command::CreateQueue(create)), Outcome::Done);
        group
    }

    /// One command, in an entry and a step of its own.
    pub fn apply(&mut self, command: Command) -> Outcome {
        let entry = self.entry(vec![command]);
        let mut outcomes = self.step(vec![entry]);
        outcomes.remove(0).remove(0)
    }

    /// An entry of this instant, with the seed its place in the log gives it. Entries are numbered
    /// when they are applied, so those of one step are told apart by their commands' place.
    pub fn entry(&self, commands: Vec<Command>) -> Entry {
        Entry { at: self.now, seed: [0; 16], commands }
    }

    /// Applies entries in one step. Panics where an invariant breaks.
    pub fn step(&mut self, mut entries: Vec<Entry>) -> Vec<Vec<Outcome>> {
        for entry in &mut entries {
            entry.seed = seed(self.steps);
            self.steps += 1;
            self.log.push(entry.clone());
        }

        let mut step = self.machine.step(&self.rows);
        let outcomes: Vec<_> = entries.iter().map(|entry| step.apply(entry.clone())).collect();
        let events: Vec<MessageEvent> = step.take_events().collect();
        let traced = step.take_traced();
        let changes = step.finish();
        check_writes(&self.rows, &changes);
        self.written = changes.writes.len();
        self.rows.erase(&changes.erased);
        self.rows.write(changes.writes);

        let (mut plain_effects, mut plain_traced) = (Vec::new(), Vec::new());
        for (entry, expected) in entries.iter().zip(&outcomes) {
            // One that was not there before, and notes no other steps.
            let machine = Machine::reading(content::read);
            let mut machine = machine.noting_traces(content::texts, content::trace);
            let mut step = machine.step(&self.plain);
            let plain = step.apply(entry.clone());
            assert_eq!(step.take_events().count(), 0);
            plain_traced.extend(step.take_traced());
            let changes = step.finish();
            check_writes(&self.plain, &changes);
            check_refusal(&self.plain, entry, &plain, &changes);
            assert_eq!(&plain, expected, "outcomes depend on how entries are grouped");
            assert_eq!(plain.len(), entry.commands.len(), "one outcome per command");
            self.plain.erase(&changes.erased);
            self.plain.write(changes.writes);
            plain_effects.extend(changes.effects);
        }
        assert_same_rows(&self.rows, &self.plain, "several entries in a step, or one");
        assert_eq!(
            told_by_rows(&traced),
            told_by_rows(&plain_traced),
            "who was there, and who looks it up, tell of the same steps in the same traces"
        );
        self.traced.extend(traced);
        assert_eq!(changes.effects, plain_effects, "effects depend on how entries are grouped");

        for effect in &changes.effects {
            self.timers.take(effect);
        }
        let commands = entries.iter().flat_map(|entry| &entry.commands);
        commands.for_each(|command| self.lives.note(command));
        events.iter().for_each(|event| self.lives.take(event));
        self.events.extend(events);
        self.lives.check(&self.rows);
        invariants::check(&self.rows);
        self.timers.check(&self.rows);
        self.effects = changes.effects;
        outcomes
    }

    /// The rows that the log leaves when a machine applies so many of its entries to a step.
    pub fn replayed(&self, entries_max: usize) -> MemoryRows {
        let mut rows = self.base.clone();
        let mut machine = Machine::reading(content::read);
        for entries in self.log.chunks(entries_max) {
            let mut step = machine.step(&rows);
            for entry in entries {
                step.apply(entry.clone());
            }
            let changes = step.finish();
            check_writes(&rows, &changes);
            rows.erase(&changes.erased);
            rows.write(changes.writes);
        }
        rows
    }

    /// Drops what the machine keeps decoded, as a restart does.
    pub fn reset(&mut self) {
        self.machine.reset();
    }
}

/// Replays the whole log in one step, and in steps of three: the grouping must not show.
impl Drop for Group {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for entries_max in [3, usize::MAX] {
            let rows = self.replayed(entries_max);
            assert_same_rows(&rows, &self.rows, "the log replayed in other steps, or as it came");
        }
    }
}

/// Distinct for every place in the log.
/// What is told of steps by whoever looks up what was before them. Of what goes with its entity only who was there
/// tells.
fn told_by_rows(steps: &[TracedStep]) -> Vec<(&MessageEvent, &TraceContext)> {
    let is_told = |step: &&TracedStep| step.event.step != LifeStep::EntityDeleted;
    steps.iter().filter(is_told).map(|step| (&step.event, &*step.message.context)).collect()
}

fn seed(place: usize) -> [u8; 16] {
    (place as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes()
}

/// What storage holds is known, so that what is born and deleted before it is stored
/// leaves no trace; every row under a key of its own table.
fn check_writes(rows: &MemoryRows, changes: &Changes) {
    let erased = |key: &Key| changes.erased.iter().any(|(from, to)| from <= key && key < to);
    for (key, write) in changes.writes.iter() {
        let key = &*key;
        let stored = rows.get(key).is_some() && !erased(key);
        assert_eq!(stored, !matches!(write, Write::Insert(_)), "{key:?}: {write:?}");
        let row = write.row();
        assert!(row.is_none_or(|row| matches(key, row)), "{key:?} holds {row:?}");
    }
}

/// ERR-29: a command that is refused changes no row of an entity. DEFER-8 expires what was asked
/// for, and whoever accepts a session ends what lapsed; the entry's time and the producer's outcomes
/// are the group's own.
fn check_refusal(rows: &MemoryRows, entry: &Entry, outcomes: &[Outcome], changes: &Changes) {
    let refused = |(command, outcome): (&Command, &Outcome)| {
        let ends = matches!(
            command,
            Command::ReceiveDeferred(_)
                | Command::Session(SessionCommand::ReceiveDeferred(_) | SessionCommand::Accept(_))
        );
        matches!(outcome, Outcome::Refused(_)) && !ends
    };
    if !entry.commands.iter().zip(outcomes).all(refused) {
        return;
    }
    for (key, write) in changes.writes.iter() {
        let key = &*key;
        let own =
            matches!(key, Key::Meta | Key::Producer(_) | Key::ProducerSeen(..) | Key::Outcome(..));
        assert!(own || rows.get(key).as_ref() == write.row(), "refused, yet {key:?}: {write:?}");
    }
}

fn matches(key: &Key, row: &Row) -> bool {
    match key {
        Key::Meta => matches!(row, Row::Meta(_)),
        Key::Entity(_) => matches!(row, Row::Entity(_)),
        Key::EntityState(_) => matches!(row, Row::EntityState(_)),
        Key::Body(..) => matches!(row, Row::Body(_)),
        Key::Message(..) => matches!(row, Row::Message(_)),
        Key::Returned(..) => matches!(row, Row::Returned),
        Key::Lock(..) => matches!(row, Row::Lock(_)),
        Key::Scheduled(..) => matches!(row, Row::Scheduled(_)),
        Key::Deadline(..) => matches!(row, Row::Deadline(_)),
        Key::DuplicateId(..) => matches!(row, Row::DuplicateId { .. }),
        Key::DuplicateTime(..) => matches!(row, Row::DuplicateTime),
        Key::Sweep(_) => matches!(row, Row::Sweep { .. }),
        Key::Relocation(_) => matches!(row, Row::Relocation(_)),
        Key::Producer(_) => matches!(row, Row::Producer(_)),
        Key::ProducerSeen(..) => matches!(row, Row::ProducerSeen),
        Key::Outcome(..) => matches!(row, Row::Outcome(_)),
        Key::Cluster => matches!(row, Row::Cluster(_)),
        Key::Directory(_) => matches!(row, Row::Directory(_)),
        Key::Node(_) => matches!(row, Row::Node(_)),
        Key::Group(_) => matches!(row, Row::Group(_)),
        Key::Session(..) => matches!(row, Row::Session(_)),
        Key::SessionMessage(..) => matches!(row, Row::SessionMessage),
        Key::SessionHeld(..) => matches!(row, Row::SessionHeld(_)),
        Key::SessionFree(..) => matches!(row, Row::SessionFree(_)),
        Key::SessionLocked(..) => matches!(row, Row::SessionLocked),
        Key::SessionState(..) => matches!(row, Row::SessionState(_)),
        Key::Subscription(..) => matches!(row, Row::Subscription),
        Key::Rule(..) => matches!(row, Row::Rule(_)),
        Key::BodyCopies(..) => matches!(row, Row::BodyCopies(_)),
        Key::Shipment(..) => matches!(row, Row::Shipment(_)),
        Key::Parked(..) => matches!(row, Row::Parked(_)),
        Key::Arrival(..) => matches!(row, Row::Arrival(_)),
        Key::NodeState(_) => matches!(row, Row::NodeState(_)),
        Key::Moves(_) => matches!(row, Row::Moves(_)),
        Key::JoinToken(_) => matches!(row, Row::JoinToken(_)),
        Key::Unmatched(..) => matches!(row, Row::Unmatched(_)),
        Key::Founders(_) => matches!(row, Row::Founders(_)),
        Key::Restoring => matches!(row, Row::Restoring(_)),
        Key::FaultRules => matches!(row, Row::FaultRules(_)),
        Key::EndedCreations(_) => matches!(row, Row::EndedCreations(_)),
        Key::Namespace(_) => matches!(row, Row::Namespace(_)),
        Key::NamespaceIdle(_) => matches!(row, Row::NamespaceIdle(_)),
        Key::Document(_) => matches!(row, Row::Document(_)),
    }
}

/// Equality that names the first row that differs.
fn assert_same_rows(left: &MemoryRows, right: &MemoryRows, what: &str) {
    if left == right {
        return;
    }
    for key in left.0.keys().chain(right.0.keys()) {
        assert_eq!(left.0.get(key), right.0.get(key), "{what}: {key:?}");
    }
}
