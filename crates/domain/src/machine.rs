//! The machine: one function over a group's rows. A [`Step`] applies log entries; what they changed
//! comes out once, as rows to write and effects to tell. One file per command below.

mod nonce;
mod overlay;
mod savepoint;
mod view;

mod checks;
mod deadlines;
mod entity;
mod history;
mod level;
mod match_budget;
mod messages;
mod namespaces;
mod partition;
mod place;
mod producers;
mod recorder;
mod shipments;
mod traces;

mod acquire;
mod arrive;
mod cancel_scheduled;
mod catalog;
mod commit;
mod data_groups;
mod delete_batch;
mod directory_sizes;
mod documents;
mod ended_creations;
mod fault_rules;
mod fire;
mod fire_locks;
mod forward;
mod idle;
mod idle_namespaces;
mod join_tokens;
mod lifecycle;
mod manage;
mod members;
mod publish;
mod receive_deferred;
mod relocate;
mod renew;
mod restoration;
mod restore;
mod rules;
mod select;
mod send;
mod send_via;
mod session;
mod settle;
mod ship;
mod shipped;
mod sweep;
mod topic;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

use crate::key_map::KeyMap;
use crate::machine::catalog::Catalog;
use crate::machine::directory_sizes::DirectorySizes;
use crate::machine::entity::{Entity, EntityStep, Opening};
use crate::machine::level::GroupLevel;
use crate::machine::match_budget::MatchBudget;
use crate::machine::nonce::Nonces;
use crate::machine::producers::Producers;
use crate::machine::recorder::{Noted, Recorder};
pub use crate::machine::relocate::entity_ranges;
pub use crate::machine::restoration::RESTORING;
pub use crate::machine::restore::is_restoring;
use crate::machine::rules::{Rules, TopicRules};
use crate::machine::savepoint::Since;
use crate::machine::traces::Traces;
use crate::machine::view::View;
use crate::{
    Command, Effect, EntityId, EntityKind, Entry, Key, MessageEvent, Meta, Outcome, ReadContent,
    ReadTexts, ReadTraceContext, Refusal, Row, Rows, SILENCE_MAX, Span, Tally, Timestamp,
    TracedStep,
};

/// Entities kept decoded. More than that start over: the cache is for the busy ones.
const ENTITIES_CACHED_MAX: usize = 16 * 1024;
/// Topics whose rules are kept decoded; as above.
const TOPICS_CACHED_MAX: usize = 1024;
/// The furthest one `AdvanceClock` goes.
const ADVANCE_MAX: Span = Span::from_secs(3660 * 24 * 3600);

/// What a group keeps decoded from step to step. It holds nothing that the rows do not say, so it
/// may be dropped at any time: after a snapshot was installed it must be ([`Machine::reset`]).
#[derive(Default)]
pub struct Machine {
    read: Option<ReadContent>,
    meta: Option<Meta>,
    entities: BTreeMap<EntityId, Entity>,
    topics: BTreeMap<EntityId, TopicRules>,
    /// No row of the entity being swept is left below this key.
    swept_to: Option<(EntityId, Key)>,
    /// Catalog: entities per group.
    sizes: Option<DirectorySizes>,
    /// Which steps of messages are noted.
    noted: Noted,
    /// With its step, while there is one.
    recorder: Option<Recorder>,
    /// A step began and did not finish: what is kept may say more than the rows.
    unfinished: bool,
}

impl Machine {
    /// To it contents say nothing: rules see messages without properties.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// Rules see what `read` finds in a content.
    pub fn reading(read: ReadContent) -> Machine {
        Machine { read: Some(read), ..Machine::default() }
    }

    /// Notes what happens to messages ([`Step::take_events`]), with what `read` finds in a content.
    pub fn noting_events(self, read: ReadTexts) -> Machine {
        let noted = Noted { texts: Some(read), events: true, ..self.noted };
        Machine { noted, ..self }
    }

    /// Notes what happens to messages in which `read` finds a trace ([`Step::take_traced`]), with what `texts`
    /// finds in a content.
    pub fn noting_traces(self, texts: ReadTexts, read: ReadTraceContext) -> Machine {
        let noted = Noted { texts: Some(texts), traces: Some(read), ..self.noted };
        Machine { noted, ..self }
    }

    /// Begins a step over rows that hold every entry applied so far.
    pub fn step<'a, R: Rows>(&'a mut self, rows: &'a R) -> Step<'a, R> {
        if self.unfinished {
            self.reset();
        }
        if self.entities.len() > ENTITIES_CACHED_MAX {
            self.entities.clear();
            let recorder = self.recorder.as_mut();
            recorder.and_then(|recorder| recorder.traces.as_mut()).map(Traces::unfollow_all);
        }
        if self.topics.len() > TOPICS_CACHED_MAX {
            self.topics.clear();
        }
        self.unfinished = true;
        let mut view = View::new(rows);
        view.recorder = self.recorder.take().or_else(|| Recorder::new(self.noted));
        let meta_stored = match self.meta {
            Some(meta) => Some(meta),
            None => view.meta(),
        };
        view.level = GroupLevel(meta_stored.map_or(0, |meta| meta.level));
        Step {
            machine: self,
            view,
            meta: meta_stored.unwrap_or_default(),
            meta_stored,
            effects: Vec::new(),
            changed: BTreeSet::new(),
            watched: Vec::new(),
            touched: Vec::new(),
            at: Timestamp::ZERO,
            nonces: Nonces::new([0; 16]),
            budget: None,
            since: None,
            cut: 0,
            tallies: Vec::new(),
            tallied: false,
        }
    }

    /// Forgets what is kept decoded, because the rows were replaced.
    pub fn reset(&mut self) {
        let Machine { read, noted, .. } = *self;
        *self = Machine { read, noted, ..Machine::default() };
    }
}

/// What a step's entries left for storage, and for the leader.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Ranges, from the first key to before the second, of which every row is deleted before
    /// anything is written.
    pub erased: Vec<(Key, Key)>,
    /// Rows to write.
    pub writes: KeyMap<Write>,
    /// In order.
    pub effects: Vec<Effect>,
    /// What was done in entities, where it was to be counted ([`Step::count_from_here`]); one may stand here twice.
    pub tallies: Vec<(EntityId, Tally)>,
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Storage holds no row there.
    Insert(Row),
    /// Storage holds a row there.
    Replace(Row),
    /// Likewise.
    Delete,
}

impl Write {
    /// What stands there afterwards.
    pub fn row(&self) -> Option<&Row> {
        match self {
            Write::Insert(row) | Write::Replace(row) => Some(row),
            Write::Delete => None,
        }
    }
}

impl From<Write> for Option<Row> {
    fn from(write: Write) -> Option<Row> {
        match write {
            Write::Insert(row) | Write::Replace(row) => Some(row),
            Write::Delete => None,
        }
    }
}

/// Log entries being applied. Results depend on the log alone, never on how its entries are grouped
/// into steps.
pub struct Step<'a, R> {
    machine: &'a mut Machine,
    view: View<&'a R>,
    meta: Meta,
    meta_stored: Option<Meta>,
    effects: Vec<Effect>,
    /// Entities this step worked on: their state is written once, when it finishes.
    changed: BTreeSet<EntityId>,
    /// Entities the current entry worked on, in that order.
    watched: Vec<EntityId>,
    /// Those of them that are subscriptions, whose topics are charged for them.
    touched: Vec<EntityId>,
    /// The current entry's time.
    at: Timestamp,
    nonces: Nonces,
    /// What matching may take from here on in the current entry; without it, what it takes (RULE-41).
    budget: Option<MatchBudget>,
    /// Present while a transaction may be taken back.
    since: Option<Since>,
    /// A cut that the current entry is before.
    cut: u64,
    /// Of entities that are gone.
    tallies: Vec<(EntityId, Tally)>,
    /// Whether what is done is counted here.
    tallied: bool,
}

impl<'a, R: Rows> Step<'a, R> {
    /// Applies one log entry; an outcome per command. Cannot fail: a refusal is an outcome.
    pub fn apply(&mut self, entry: Entry) -> Vec<Outcome> {
        // TIME-3: a slower leader's clock turns nothing back.
        self.at = self.meta.last_at.max(entry.at);
        if self.at.since(self.meta.last_at) >= SILENCE_MAX {
            self.meta.unbroken_since = self.at;
        }
        self.meta.last_at = self.at;
        let at = self.at;
        if let Some(traces) = self.traces() {
            traces.at = at;
        }
        self.nonces = Nonces::new(entry.seed);
        (self.budget, self.cut) = (None, 0);
        let outcomes = entry.commands.into_iter().map(|command| self.command(command)).collect();
        self.end_entry();
        // All of the entry is before it, whatever was its order.
        self.meta.cut = self.meta.cut.max(self.cut);
        outcomes
    }

    /// What entries do from here on is counted; what others did in this step is not. A replica counts what it
    /// proposed: so each entry is counted once at most in all of the cluster.
    pub fn count_from_here(&mut self) {
        if std::mem::replace(&mut self.tallied, true) {
            return;
        }
        self.tallies.clear();
        for id in &self.changed {
            if let Some(entity) = self.machine.entities.get_mut(id) {
                entity.tally = Tally::default();
            }
        }
    }

    /// The time of the last entry.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// What happened to messages in the entries applied since this was last asked, in order; nothing where
    /// nobody notes it ([`Machine::noting_events`]).
    pub fn take_events(&mut self) -> impl Iterator<Item = MessageEvent> {
        self.view.recorder.iter_mut().flat_map(Recorder::drain)
    }

    /// What happened in them to messages whose senders are traced, in order; nothing where nobody notes it
    /// ([`Machine::noting_traces`]).
    pub fn take_traced(&mut self) -> Vec<TracedStep> {
        self.traces().map(Traces::take).unwrap_or_default()
    }

    fn traces(&mut self) -> Option<&mut Traces> {
        self.view.recorder.as_mut()?.traces.as_mut()
    }

    /// The last cut that the entries so far are behind.
    pub fn last_cut(&self) -> u64 {
        self.meta.cut
    }

    /// Ends the step.
    pub fn finish(mut self) -> Changes {
        for id in &self.changed {
            let Some(entity) = self.machine.entities.get_mut(id) else { continue };
            let state = Row::EntityState(entity.state.clone());
            if entity.born {
                self.view.insert(Key::EntityState(*id), state);
                self.view.insert(Key::Entity(*id), Row::Entity(entity.row.clone()));
            } else {
                self.view.replace(Key::EntityState(*id), state);
                if entity.row_changed {
                    self.view.replace(Key::Entity(*id), Row::Entity(entity.row.clone()));
                }
            }
            entity.born = false;
            entity.row_changed = false;
            let tally = std::mem::take(&mut entity.tally);
            if self.tallied && !tally.is_empty() {
                self.tallies.push((*id, tally));
            }
        }
        if !self.tallied {
            self.tallies.clear();
        }
        match self.meta_stored {
            Some(stored) if stored == self.meta => (),
            Some(_) => self.view.replace(Key::Meta, Row::Meta(self.meta)),
            None => self.view.insert(Key::Meta, Row::Meta(self.meta)),
        }
        self.machine.meta = Some(self.meta);
        self.machine.unfinished = false;
        self.machine.recorder = self.view.recorder.take();
        Changes { effects: self.effects, tallies: self.tallies, ..self.view.into_changes() }
    }

    fn command(&mut self, command: Command) -> Outcome {
        let facts = command.facts();
        let (Some(mut origin), entity) = (facts.origin(), facts.entity) else {
            return self.act(command);
        };
        // A producer's greeting does nothing, so there is no "perhaps done": repeated to a group that
        // does not know it, it is the first. Whatever its producer sent behind it, on a connection
        // that may still deliver it, is then recognised.
        origin.retry &= !facts.greets();
        match self.producers().admit(origin) {
            Ok(_) if origin.retry && entity.is_some_and(|id| self.came_lately(id)) => {
                Outcome::Refused(Refusal::PerhapsDone)
            }
            Ok(admitted) => {
                let outcome = self.act(command);
                self.producers().record(origin, admitted, &outcome);
                outcome
            }
            Err(Outcome::Refused(gap @ Refusal::SerialGap { .. })) if origin.retry => {
                Outcome::Refused(self.gap_of_repeat(entity, gap))
            }
            Err(outcome) => outcome,
        }
    }

    fn act(&mut self, command: Command) -> Outcome {
        let outcome = match command {
            Command::CreateQueue(command) => command.apply(self),
            Command::UpdateQueue(command) => command.apply(self),
            Command::DeleteEntity { entity } => self.delete_entity(entity),
            Command::Send(command) => command.apply(self),
            Command::Acquire(command) => command.apply(self),
            Command::Settle(command) => command.apply(self),
            Command::Renew(command) => command.apply(self),
            Command::CancelScheduled(command) => command.apply(self),
            Command::ReceiveDeferred(command) => command.apply(self),
            Command::Select(command) => command.apply(self),
            Command::DeleteBatch(command) => command.apply(self),
            Command::Fire(command) => Ok(command.apply(self)),
            Command::FireLocks(command) => Ok(command.apply(self)),
            Command::Touch { entity } => self.touch(entity),
            Command::Seal(command) => command.apply(self),
            Command::Beat => Ok(Outcome::Done),
            Command::Sweep => Ok(sweep::sweep(self)),
            Command::AdvanceClock { by } => self.advance_clock(by),
            Command::RaiseClock { to } => Ok(self.raise_clock(to)),
            Command::Catalog(command) => self.catalog().apply(command),
            Command::Session(command) => command.apply(self),
            Command::Topic(command) => command.apply(self),
            Command::Refuse(command) => Err(command.refusal),
            Command::Forward(command) => command.apply(self),
            Command::Commit(command) => command.apply(self),
            Command::LimitMatching { units_max } => {
                self.budget = Some(MatchBudget::of(units_max));
                Ok(Outcome::Done)
            }
            Command::Cut { number } => {
                self.cut = self.cut.max(number);
                Ok(Outcome::Done)
            }
            Command::Restore(command) => command.apply(self),
            Command::ReachLevel { level } => Ok(self.reach_level(level)),
            Command::Relocate(command) => command.apply(self),
        };
        outcome.unwrap_or_else(Outcome::Refused)
    }

    /// Development mode. What is stamped by a leader that does not know of it yet is raised (TIME-3).
    fn advance_clock(&mut self, by: Span) -> Result<Outcome, Refusal> {
        if by > ADVANCE_MAX {
            return Err(Refusal::ArgumentOutOfRange {
                what: "clock advance",
                value: format!("{} ms", by.0),
                allowed: "at most 3660 days",
            });
        }
        Ok(self.raise_clock(Span(self.meta.clock_offset.0.saturating_add(by.0))))
    }

    fn raise_clock(&mut self, to: Span) -> Outcome {
        let by = Span(to.0.saturating_sub(self.meta.clock_offset.0));
        self.meta.clock_offset = self.meta.clock_offset.max(to);
        self.meta.last_at = self.meta.last_at.max(self.at.plus(by));
        Outcome::Done
    }

    fn reach_level(&mut self, level: u32) -> Outcome {
        if level > self.meta.level {
            self.meta.level = level;
            self.view.level = GroupLevel(level);
            // Actions are read by the rules of a level.
            self.machine.topics.clear();
        }
        Outcome::Done
    }

    /// An entity, for a command to work on.
    fn open(&mut self, id: EntityId) -> Result<EntityStep<'_, &'a R>, Refusal> {
        let entity = match self.machine.entities.entry(id) {
            Slot::Occupied(entity) => entity.into_mut(),
            Slot::Vacant(slot) => {
                // What this costs depends on what is in memory, so no budget pays for it.
                let cost = self.view.cost();
                let stored = self.view.entity(id).zip(self.view.entity_state(id));
                let stored = stored.ok_or_else(|| relocate::missing(&mut self.view, id));
                self.view.set_cost(cost);
                let (row, state) = stored?;
                self.view.follow_entity(id, state.next_sequence);
                slot.insert(Entity::stored(row, state))
            }
        };
        if let Some(since) = &mut self.since {
            since.note(id, entity, self.changed.contains(&id));
        }
        if entity.watch.is_none() {
            self.watched.push(id);
            if entity.row.kind() == EntityKind::Subscription {
                self.touched.push(id);
            }
            if self.changed.insert(id) {
                entity.issued_from = entity.state.next_sequence;
            }
        }
        let Step { at, view, effects, nonces, .. } = self;
        Ok(entity.open(id, Opening { at: *at, view, effects, nonces }))
    }

    fn is_restoring(&mut self) -> bool {
        restore::is_under_way(self.view.get(&Key::Restoring))
    }

    fn producers(&mut self) -> Producers<'_, &'a R> {
        Producers { at: self.at, meta: &mut self.meta, view: &mut self.view }
    }

    fn catalog(&mut self) -> Catalog<'_, &'a R> {
        Catalog {
            at: self.at,
            unbroken_since: self.meta.unbroken_since,
            sizes: &mut self.machine.sizes,
            view: &mut self.view,
        }
    }

    /// The rules of topics, and no entity.
    fn rules(&mut self) -> Rules<'_, &'a R> {
        Rules { at: self.at, topics: &mut self.machine.topics, view: &mut self.view }
    }

    /// Marks are exact and the engine is told at the end of every entry, not of every step.
    fn end_entry(&mut self) {
        if !self.touched.is_empty() {
            self.charge_topics();
            self.touched.clear();
        }
        for id in std::mem::take(&mut self.watched) {
            // Not if the entry deleted it.
            let entity = self.machine.entities.get(&id);
            if entity.is_none_or(|entity| entity.watch.is_none()) {
                continue;
            }
            let Ok(mut opened) = self.open(id) else { continue };
            opened.refresh_marks();
            if let Some(entity) = self.machine.entities.get_mut(&id) {
                entity.tell(id, &mut self.view, &mut self.effects);
            }
        }
    }
}
