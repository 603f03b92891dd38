//! One entity at work: its description and state, decoded once and kept, and the step as a command
//! of that entity sees it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::machine::deadlines::Stale;
use crate::machine::nonce::Nonces;
use crate::machine::view::View;
use crate::read::{check_receivable, check_served};
use crate::{
    DeadlineKind, Effect, EntityId, EntityKind, EntityRow, EntityState, ForwardEffect, Key,
    MessageRow, PerSubQueue, QueueId, QueueProperties, Refusal, Row, Rows, SequenceNumber,
    SessionId, SubQueue, Timestamp, Waiting,
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
}

/// What an entity told the engine before the current entry, and what the entry did about it.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    due: [Timestamp; DeadlineKind::ALL.len()],
    receivable: PerSubQueue<u64>,
    /// What its forwarding has to do.
    waiting: PerSubQueue<Waiting>,
    /// A message became available, even if another command of the entry took it.
    pub rose: PerSubQueue<bool>,
    pub stale: Stale,
    /// Sessions in line before, and whether one joined it.
    pub free: u64,
    pub joined: bool,
    /// Sessions whose ready messages the engine asked to be told of, and that have others now.
    pub sessions: BTreeSet<SessionId>,
    /// Of a subscription: the size and the last use that its topic knows of.
    pub charged: u64,
    pub used: Timestamp,
}

impl Entity {
    /// As read from rows.
    pub fn stored(row: Box<EntityRow>, state: Box<EntityState>) -> Entity {
        let issued_from = state.next_sequence;
        Entity { row, state, born: false, row_changed: false, issued_from, watch: None }
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
        }
    }

    /// Notes what is told to the engine, before the first command of an entry changes it. False if
    /// that was done already.
    pub fn watch(&mut self) -> bool {
        if self.watch.is_some() {
            return false;
        }
        self.watch = Some(Watch {
            due: self.due(),
            receivable: self.receivable(),
            waiting: self.waiting(),
            rose: [false; SubQueue::ALL.len()],
            stale: Stale::default(),
            free: self.acceptable(),
            joined: false,
            sessions: BTreeSet::new(),
            charged: self.state.size_bytes,
            used: self.state.last_use,
        });
        true
    }

    fn due(&self) -> [Timestamp; DeadlineKind::ALL.len()] {
        DeadlineKind::ALL.map(|kind| self.state.next_due(&self.row.properties, kind))
    }

    /// Messages that can be received without a session: none while receiving is refused (STATE-4).
    fn receivable(&self) -> PerSubQueue<u64> {
        let properties = &self.row.properties;
        SubQueue::ALL.map(|sub| match sub {
            _ if properties.status.refuses_receive() => 0,
            _ if properties.forwards(sub).is_some() => 0, // FWD-3.
            SubQueue::Main if properties.requires_session => 0,
            SubQueue::Main
            | SubQueue::DeadLetter
            | SubQueue::Transfer
            | SubQueue::TransferDeadLetter => self.state.available[sub as usize],
        })
    }

    fn waiting(&self) -> PerSubQueue<Waiting> {
        SubQueue::ALL.map(|sub| self.state.waiting(&self.row.properties, sub))
    }

    /// Sessions that can be accepted by whoever asks for the next.
    pub fn acceptable(&self) -> u64 {
        match self.row.properties.status.refuses_receive() {
            true => 0,
            false => self.state.sessions.free,
        }
    }

    /// Tells the engine what an entry changed.
    pub fn tell(&self, entity: EntityId, before: &Watch, effects: &mut Vec<Effect>) {
        let due = self.due();
        for kind in DeadlineKind::ALL {
            let due = due[kind as usize];
            if due != before.due[kind as usize] {
                effects.push(Effect::Next { entity, kind, due });
            }
        }
        for sub in SubQueue::ALL {
            let count = self.receivable()[sub as usize];
            let rose = before.rose[sub as usize] && count > 0;
            if rose || count != before.receivable[sub as usize] {
                effects.push(Effect::Available { queue: QueueId { entity, sub }, count });
            }
            let waiting = self.waiting()[sub as usize];
            if waiting != before.waiting[sub as usize] {
                let queue = QueueId { entity, sub };
                effects.push(Effect::Forward(ForwardEffect::Waiting { queue, waiting }));
            }
        }
    }
}

/// The step as a command of one entity sees it.
pub(super) struct EntityStep<'s, 'a, R> {
    pub id: EntityId,
    pub at: Timestamp,
    pub entity: &'s mut Entity,
    pub view: &'s mut View<'a, R>,
    pub effects: &'s mut Vec<Effect>,
    pub nonces: &'s mut Nonces,
}

impl<R: Rows> EntityStep<'_, '_, R> {
    pub fn properties(&self) -> &QueueProperties {
        &self.entity.row.properties
    }

    pub fn state(&mut self) -> &mut EntityState {
        &mut self.entity.state
    }

    /// Marks that no longer stand at a row, to be refreshed when the entry ends.
    pub fn stale(&mut self) -> &mut Stale {
        &mut self.watched().stale
    }

    pub fn watched(&mut self) -> &mut Watch {
        self.entity.watch.as_mut().expect("an entity is watched from the moment it is opened")
    }

    pub fn queue(&self, sub: SubQueue) -> QueueId {
        QueueId { entity: self.id, sub }
    }

    pub fn main(&self) -> QueueId {
        self.queue(SubQueue::Main)
    }

    /// A client used the entity (COUNT-6, IDLE-2, IDLE-5).
    pub fn used(&mut self) {
        let at = self.at;
        self.state().accessed_at = at;
        self.used_until(at);
    }

    /// IDLE-2. The last use is never taken back: it may have been written ahead.
    pub fn used_until(&mut self, at: Timestamp) {
        let state = self.state();
        state.last_use = state.last_use.max(at);
    }

    /// STATE-4, STATE-7: the dead-letter queues follow their parent. A topic holds nothing to receive
    /// (ENT-9, PEEK-5) but what it could not transfer.
    pub fn check_receive(&self, queue: QueueId) -> Result<(), Refusal> {
        check_served(&self.entity.row, queue)
    }

    /// As [`EntityStep::check_receive`], for what hands messages out (FWD-3).
    pub fn check_take(&self, queue: QueueId) -> Result<(), Refusal> {
        check_receivable(&self.entity.row, queue)
    }

    /// SEND-7.
    pub fn check_sendable(&self) -> Result<(), Refusal> {
        match self.kind() {
            EntityKind::Queue | EntityKind::Topic => Ok(()),
            EntityKind::Subscription => {
                let why = "messages cannot be sent to a subscription; send to its topic";
                Err(Refusal::InvalidOperation { why })
            }
        }
    }

    /// STATE-4, SEND-7.
    pub fn check_send(&self) -> Result<(), Refusal> {
        self.check_sendable()?;
        let status = self.properties().status;
        match status.refuses_send() {
            true => Err(Refusal::EntityDisabled { status: status.as_str() }),
            false => Ok(()),
        }
    }

    /// Visits the messages of a queue from a number on, in order, until the visitor breaks.
    pub fn scan_messages(
        &mut self,
        queue: QueueId,
        from: SequenceNumber,
        visit: &mut dyn FnMut(SequenceNumber, &MessageRow) -> ControlFlow<()>,
    ) {
        let mut visit = |key: &Key, row: &Row| match (key, row) {
            (Key::Message(_, number), Row::Message(message)) => visit(*number, message),
            _ => ControlFlow::Break(()),
        };
        let to = Key::Message(queue, SequenceNumber::MAX);
        let first = Key::Message(queue, from);
        match from >= self.entity.issued_from {
            true => self.view.scan_born(&first, &to, &mut visit),
            false => self.view.scan(&first, &to, &mut visit),
        }
    }

    pub fn next_sequence(&mut self) -> SequenceNumber {
        let state = self.state();
        let sequence = state.next_sequence;
        state.next_sequence = sequence.next();
        sequence
    }
}
