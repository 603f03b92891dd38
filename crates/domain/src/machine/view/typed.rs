//! Rows by their keys, decoded.

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::machine::view::View;
use crate::{
    ClusterRow, DirectoryRow, EntityId, EntityRow, EntityState, HeldRow, Key, LockRow, MessageRow,
    Meta, ProducerRow, QueueId, RelocationRow, Row, Rows, RuleRow, ScheduledRow, SequenceNumber,
    SessionId, SessionRow,
};

/// What another row names is stored: they are written and deleted by one change of place.
fn named<T>(row: Option<T>, number: SequenceNumber) -> T {
    row.unwrap_or_else(|| panic!("a row names message {number}, which is not stored"))
}

/// A row's variant matches its key's: written so here, and read back so from storage.
macro_rules! typed {
    ($row:expr, $variant:ident) => {
        match $row {
            Some(Row::$variant(row)) => Some(row),
            None => None,
            Some(other) => panic!("a row of another table: {other:?}"),
        }
    };
}

impl<R: Rows> View<R> {
    pub fn meta(&mut self) -> Option<Meta> {
        typed!(self.get(&Key::Meta), Meta)
    }

    pub fn entity(&mut self, entity: EntityId) -> Option<Box<EntityRow>> {
        typed!(self.get(&Key::Entity(entity)), Entity)
    }

    pub fn entity_state(&mut self, entity: EntityId) -> Option<Box<EntityState>> {
        typed!(self.get(&Key::EntityState(entity)), EntityState)
    }

    pub fn message(&mut self, queue: QueueId, number: SequenceNumber) -> Option<MessageRow> {
        typed!(self.get(&Key::Message(queue, number)), Message)
    }

    /// A message that another row names.
    pub fn stored(&mut self, queue: QueueId, number: SequenceNumber) -> MessageRow {
        named(self.message(queue, number), number)
    }

    /// Messages that other rows name, in the order of their numbers here.
    pub fn all_stored(
        &mut self,
        queue: QueueId,
        numbers: &[SequenceNumber],
    ) -> Vec<(SequenceNumber, MessageRow)> {
        let key = |number: &SequenceNumber| Key::Message(queue, *number);
        let rows = self.get_many(numbers.iter().map(key).collect()).into_iter();
        let stored = |(number, row)| (number, named(typed!(row, Message), number));
        numbers.iter().copied().zip(rows).map(stored).collect()
    }

    /// Visits the messages of a queue from a number on, in order, until the visitor breaks. Storage
    /// holds nothing about numbers from `issued_from` on.
    pub fn scan_messages(
        &mut self,
        queue: QueueId,
        from: SequenceNumber,
        issued_from: SequenceNumber,
        visit: &mut dyn FnMut(SequenceNumber, &MessageRow) -> ControlFlow<()>,
    ) {
        let mut visit = |key: &Key, row: &Row| match (key, row) {
            (Key::Message(_, number), Row::Message(message)) => visit(*number, message),
            _ => ControlFlow::Break(()),
        };
        let (first, to) = (Key::Message(queue, from), Key::Message(queue, SequenceNumber::MAX));
        match from >= issued_from {
            true => self.scan_born(&first, &to, &mut visit),
            false => self.scan(&first, &to, &mut visit),
        }
    }

    pub fn lock(&mut self, queue: QueueId, number: SequenceNumber) -> Option<LockRow> {
        typed!(self.get(&Key::Lock(queue, number)), Lock)
    }

    pub fn scheduled(&mut self, entity: EntityId, number: SequenceNumber) -> Option<ScheduledRow> {
        typed!(self.get(&Key::Scheduled(entity, number)), Scheduled)
    }

    /// A scheduled message that another row names.
    pub fn stored_scheduled(&mut self, entity: EntityId, number: SequenceNumber) -> ScheduledRow {
        named(self.scheduled(entity, number), number)
    }

    /// The body of a stored message, which is deleted.
    pub fn take_body(&mut self, entity: EntityId, number: SequenceNumber) -> Bytes {
        let key = Key::Body(entity, number);
        let body = named(typed!(self.get(&key), Body), number);
        self.delete(key);
        body
    }

    /// The body of a stored message.
    pub fn stored_body(&mut self, entity: EntityId, number: SequenceNumber) -> Bytes {
        named(typed!(self.get(&Key::Body(entity, number)), Body), number)
    }

    /// Scheduled messages that other rows name, in the order of their numbers here.
    pub fn all_scheduled(
        &mut self,
        entity: EntityId,
        numbers: &[SequenceNumber],
    ) -> Vec<ScheduledRow> {
        let key = |number: &SequenceNumber| Key::Scheduled(entity, *number);
        let rows = self.get_many(numbers.iter().map(key).collect()).into_iter();
        numbers
            .iter()
            .zip(rows)
            .map(|(number, row)| named(typed!(row, Scheduled), *number))
            .collect()
    }

    pub fn session(&mut self, entity: EntityId, session: &SessionId) -> Option<Box<SessionRow>> {
        typed!(self.get(&Key::Session(entity, session.clone())), Session)
    }

    pub fn session_held(
        &mut self,
        entity: EntityId,
        session: &SessionId,
        number: SequenceNumber,
    ) -> Option<HeldRow> {
        typed!(self.get(&Key::SessionHeld(entity, session.clone(), number)), SessionHeld)
    }

    /// The subscriptions of a topic, in order of their ids.
    pub fn subscriptions(&mut self, topic: EntityId) -> Vec<EntityId> {
        let mut subscriptions = Vec::new();
        let from = Key::Subscription(topic, EntityId(0));
        let to = Key::Subscription(topic, EntityId(u64::MAX));
        self.scan(&from, &to, &mut |key, _| {
            if let Key::Subscription(_, subscription) = key {
                subscriptions.push(*subscription);
            }
            ControlFlow::Continue(())
        });
        subscriptions
    }

    pub fn rule(&mut self, key: &Key) -> Option<Box<RuleRow>> {
        typed!(self.get(key), Rule)
    }

    /// One copy fewer shares a topic's body; with the last the body goes.
    pub fn release_body(&mut self, topic: EntityId, body: SequenceNumber) {
        let key = Key::BodyCopies(topic, body);
        match typed!(self.get(&key), BodyCopies) {
            None => self.delete(Key::Body(topic, body)),
            Some(2) => self.delete(key),
            Some(copies) => self.replace(key, Row::BodyCopies(copies - 1)),
        }
    }

    /// So many more share a topic's body, and so many fewer; with the last it goes.
    pub fn share_body(&mut self, topic: EntityId, body: SequenceNumber, more: u32, fewer: u32) {
        let key = Key::BodyCopies(topic, body);
        let before = typed!(self.get(&key), BodyCopies);
        let shares = before.unwrap_or(1) + more - fewer;
        match (before, shares) {
            (None, 1) => (),
            (None, 0) => self.delete(Key::Body(topic, body)),
            (Some(_), 0) => {
                self.delete(key);
                self.delete(Key::Body(topic, body));
            }
            (Some(_), 1) => self.delete(key),
            (None, shares) => self.insert(key, Row::BodyCopies(shares)),
            (Some(_), shares) => self.replace(key, Row::BodyCopies(shares)),
        }
    }

    pub fn producer(&mut self, producer: u64) -> Option<ProducerRow> {
        typed!(self.get(&Key::Producer(producer)), Producer)
    }

    pub fn relocation(&mut self, entity: EntityId) -> Option<Box<RelocationRow>> {
        typed!(self.get(&Key::Relocation(entity)), Relocation)
    }

    pub fn cluster(&mut self) -> Option<ClusterRow> {
        typed!(self.get(&Key::Cluster), Cluster)
    }

    pub fn directory(&mut self, name: &str) -> Option<DirectoryRow> {
        typed!(self.get(&Key::Directory(name.to_owned())), Directory)
    }
}
