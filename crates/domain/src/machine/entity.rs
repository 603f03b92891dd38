//! One entity at work: its description and state, decoded once and kept, and the step as a command
//! of that entity sees it.

use std::collections::BTreeSet;

use crate::machine::deadlines::Stale;
use crate::machine::history::History;
use crate::machine::messages::Messages;
use crate::machine::nonce::Nonces;
use crate::machine::view::View;
use crate::{
    DeadlineKind, Effect, EntityId, EntityRow, EntityState, Fired, ForwardEffect, PerSubQueue,
    QueueId, QueueProperties, Refusal, Rows, SequenceNumber, SessionEffect, SessionId, SessionRow,
    Span, Specifics, SubQueue, SubscriptionSpecifics, Tally, Timestamp, TopicSpecifics, Waiting,
};

/// An entity's decoded rows, kept from step to step.
#[derive(Clone)]
pub(super) struct Entity {
    pub row: Box<EntityRow>,
    pub state: Box<EntityState>,
    /// Created in this step: storage does not hold its rows.
    pub born: bool,
    /// The description changed in this step.
    pub row_changed: bool,
    /// The first number this step issues: storage holds nothing about it or any above.
    pub issued_from: SequenceNumber,
    /// Set while an entry works on it.
    pub watch: Option<Watch>,
    /// What this step did in it.
    pub tally: Tally,
}

/// What an entry does about an entity that is told when it ends.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// What the engine knows since the entry before.
    before: Told,
    /// The lowest and the highest number that became available, even if another command of the entry
    /// took it.
    pub rose: PerSubQueue<Option<(SequenceNumber, SequenceNumber)>>,
    pub stale: Stale,
    /// A session joined the line.
    pub joined: bool,
    /// Sessions whose ready messages the engine asked to be told of, and that have others now.
    pub sessions: BTreeSet<SessionId>,
    /// Of a subscription: the size and the last use that its topic knows of.
    pub charged: u64,
    pub used: Timestamp,
}

impl Watch {
    fn of(row: &EntityRow, state: &EntityState) -> Watch {
        Watch {
            before: Told::of(row, state),
            rose: [None; SubQueue::ALL.len()],
            stale: Stale::default(),
            joined: false,
            sessions: BTreeSet::new(),
            charged: state.size_bytes,
            used: state.last_use,
        }
    }
}

/// What the engine knows of an entity.
#[derive(Clone, Debug)]
struct Told {
    due: [Timestamp; DeadlineKind::ALL.len()],
    receivable: PerSubQueue<u64>,
    /// What its forwarding has to do.
    waiting: PerSubQueue<Waiting>,
    /// Sessions that can be accepted by whoever asks for the next.
    free: u64,
}

impl Told {
    fn of(row: &EntityRow, state: &EntityState) -> Told {
        let properties = &row.properties;
        let refuses_receive = properties.status.refuses_receive();
        Told {
            due: DeadlineKind::ALL.map(|kind| state.next_due(properties, kind)),
            // Without a session: none while receiving is refused (STATE-4).
            receivable: SubQueue::ALL.map(|sub| match sub {
                _ if refuses_receive => 0,
                _ if properties.forwards(sub).is_some() => 0, // FWD-3.
                SubQueue::Main if properties.keeps_sessions() => 0,
                SubQueue::Main
                | SubQueue::DeadLetter
                | SubQueue::Transfer
                | SubQueue::TransferDeadLetter => state.available[sub as usize],
            }),
            waiting: SubQueue::ALL.map(|sub| state.waiting(properties, sub)),
            free: if refuses_receive { 0 } else { state.sessions.free },
        }
    }
}

impl Entity {
    /// As read from rows.
    pub fn stored(row: Box<EntityRow>, state: Box<EntityState>) -> Entity {
        let issued_from = state.next_sequence;
        let (born, row_changed, tally) = (false, false, Tally::default());
        Entity { row, state, born, row_changed, issued_from, watch: None, tally }
    }

    /// As created: numbering starts at 1 (SEQ-2), and creation is the first use (IDLE-13).
    pub fn created(row: EntityRow, at: Timestamp) -> Entity {
        let state = EntityState {
            next_sequence: SequenceNumber::FIRST,
            fresh_head: [SequenceNumber::FIRST; SubQueue::ALL.len()],
            returned_low: [SequenceNumber::FIRST; SubQueue::ALL.len()],
            derived_cursor: SequenceNumber::FIRST,
            accessed_at: at,
            last_use: at,
            ..EntityState::default()
        };
        Entity {
            row: Box::new(row),
            state: Box::new(state),
            born: true,
            row_changed: true,
            issued_from: SequenceNumber::FIRST,
            watch: None,
            tally: Tally::default(),
        }
    }

    /// Ends the watch: tells the engine what the entry changed.
    pub fn tell<R: Rows>(&mut self, id: EntityId, view: &mut View<R>, effects: &mut Vec<Effect>) {
        let Some(watch) = self.watch.take() else { return };
        let now = Told::of(&self.row, &self.state);
        let Watch { before, rose, joined, sessions, .. } = watch;
        for kind in DeadlineKind::ALL {
            let due = now.due[kind as usize];
            if due != before.due[kind as usize] {
                effects.push(Effect::Next { entity: id, kind, due });
            }
        }
        for sub in SubQueue::ALL {
            let (queue, of) = (QueueId { entity: id, sub }, sub as usize);
            let count = now.receivable[of];
            if (rose[of].is_some() && count > 0) || count != before.receivable[of] {
                effects.push(Effect::Available { queue, count, rose: rose[of] });
            }
            let waiting = now.waiting[of];
            if waiting != before.waiting[of] {
                effects.push(Effect::Forward(ForwardEffect::Waiting { queue, waiting }));
            }
        }
        if now.free != before.free || (joined && now.free > 0) {
            let free = SessionEffect::Free { entity: id, count: now.free };
            effects.push(Effect::Session(free));
        }
        for session in sessions {
            let row = view.session(id, &session);
            if let Some(SessionRow { lock: Some(_), ready, .. }) = row.as_deref() {
                let ready = SessionEffect::Ready { entity: id, session, count: ready.count };
                effects.push(Effect::Session(ready));
            }
        }
    }
}

/// The step as a command of one entity sees it.
pub(super) struct EntityStep<'s, R> {
    pub id: EntityId,
    pub at: Timestamp,
    pub row: &'s mut EntityRow,
    pub state: &'s mut EntityState,
    row_changed: &'s mut bool,
    issued_from: SequenceNumber,
    watch: &'s mut Watch,
    pub tally: &'s mut Tally,
    pub view: &'s mut View<R>,
    pub effects: &'s mut Vec<Effect>,
    nonces: &'s mut Nonces,
}

/// What of a step an entity is opened with.
pub(super) struct Opening<'s, R> {
    pub at: Timestamp,
    pub view: &'s mut View<R>,
    pub effects: &'s mut Vec<Effect>,
    pub nonces: &'s mut Nonces,
}

impl Entity {
    /// Watches the entity from here on, if it is not watched already.
    pub fn open<'s, R>(&'s mut self, id: EntityId, with: Opening<'s, R>) -> EntityStep<'s, R> {
        let Entity { row, state, row_changed, issued_from, watch, tally, .. } = self;
        let watch = watch.get_or_insert_with(|| Watch::of(row, state));
        let Opening { at, view, effects, nonces } = with;
        let issued_from = *issued_from;
        EntityStep {
            id,
            at,
            row,
            state,
            row_changed,
            issued_from,
            watch,
            tally,
            view,
            effects,
            nonces,
        }
    }
}

/// What needs less.
impl<R: Rows> EntityStep<'_, R> {
    pub fn messages(&mut self) -> Messages<'_, R> {
        Messages {
            id: self.id,
            at: self.at,
            row: self.row,
            state: self.state,
            watch: self.watch,
            tally: self.tally,
            issued_from: self.issued_from,
            view: self.view,
            effects: self.effects,
            nonces: self.nonces,
        }
    }

    /// The history of an entity that detects duplicates.
    pub fn history(&mut self) -> Option<History<'_, R>> {
        let properties = &self.row.properties;
        properties.requires_duplicate_detection.then_some(History {
            id: self.id,
            at: self.at,
            is_partitioned: properties.enable_partitioning,
            window: properties.duplicate_detection_window,
            oldest: &mut self.state.duplicate_next,
            stale: &mut self.watch.stale.history,
            view: self.view,
        })
    }

    pub fn properties(&self) -> &QueueProperties {
        &self.row.properties
    }

    pub fn main(&self) -> QueueId {
        QueueId::main(self.id)
    }
}

/// Of the entity as a whole.
impl<R: Rows> EntityStep<'_, R> {
    pub fn next_sequence(&mut self) -> SequenceNumber {
        let sequence = self.state.next_sequence;
        self.state.next_sequence = sequence.next();
        sequence
    }

    /// A client used the entity (COUNT-6, IDLE-2, IDLE-5).
    pub fn used(&mut self) {
        self.state.accessed_at = self.at;
        self.used_until(self.at);
    }

    /// IDLE-2. The last use is never taken back: it may have been written ahead.
    pub fn used_until(&mut self, at: Timestamp) {
        self.state.last_use = self.state.last_use.max(at);
    }

    /// IDLE-8: until the last scheduled message was due the entity was not idle, though nobody used
    /// it (IDLE-12).
    pub fn end_schedule(&mut self, fired: &Fired) {
        if fired.activated > 0 && self.state.counts.scheduled == 0 {
            self.used_until(self.at);
        }
    }

    /// RULE-42: a topic whose rules do not keep up takes no more for now.
    pub fn check_backlog(&self) -> Result<(), Refusal> {
        let unmatched = &self.state.unmatched;
        match unmatched.is_backlog(self.at) {
            true => {
                let (topic, waiting) = (self.row.name.clone(), unmatched.count);
                Err(Refusal::TopicBusy { topic, waiting })
            }
            false => Ok(()),
        }
    }

    /// Of another kind, it is not what was routed to.
    pub fn topic_specifics(&self) -> Result<TopicSpecifics, Refusal> {
        match self.row.specifics {
            Specifics::Topic(specifics) => Ok(specifics),
            Specifics::Queue | Specifics::Subscription(_) => {
                Err(Refusal::StaleRoute { entity: self.id })
            }
        }
    }

    /// See [`EntityStep::topic_specifics`].
    pub fn subscription_specifics(&self) -> Result<SubscriptionSpecifics, Refusal> {
        match self.row.specifics {
            Specifics::Subscription(specifics) => Ok(specifics),
            Specifics::Queue | Specifics::Topic(_) => Err(Refusal::StaleRoute { entity: self.id }),
        }
    }

    /// An update: it counts as use (IDLE-13), and the engine hears of it.
    pub fn describe(&mut self, properties: QueueProperties, specifics: Specifics) {
        self.row.properties = self.view.level.settled(properties);
        self.row.updated_at = self.at;
        self.set_specifics(specifics);
        self.used_until(self.at);
        self.effects.push(Effect::Updated { entity: self.id });
    }

    /// What topics and subscriptions count of each other. No update.
    pub fn set_specifics(&mut self, specifics: Specifics) {
        self.row.specifics = specifics;
        *self.row_changed = true;
    }

    /// TTL-7, TTL-24: the topic's default changed. No update of the subscription.
    pub fn set_topic_ttl(&mut self, topic_ttl: Span) {
        let Specifics::Subscription(specifics) = self.row.specifics else { return };
        let ttl = specifics.own_default_ttl.min(topic_ttl);
        let old = self.row.properties.default_ttl;
        if ttl > old {
            self.messages().deadlines().search_derived_from(SequenceNumber::FIRST);
        }
        if ttl != old {
            self.row.properties.default_ttl = ttl;
            *self.row_changed = true;
        }
    }

    /// At the end of an entry: every mark stands at its row again.
    pub fn refresh_marks(&mut self) {
        self.messages().deadlines().refresh();
        if let Some(mut history) = self.history() {
            history.refresh();
        }
    }
}
