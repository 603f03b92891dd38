//! `Sweep`: removes what deleted entities left, table by table, a bounded number of rows at a time.

use std::ops::ControlFlow;

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::{
    APPLY_ROWS_MAX, Claim, DeadlineKind, EntityId, Fired, Key, Outcome, QueueId, Row, Rows,
    SequenceNumber, SessionId, SessionList, Timestamp,
};

/// The ranges of an entity's rows, in the order of keys; the rows of the entity itself are gone.
fn ranges(entity: EntityId) -> [(Key, Key); 19] {
    let table = |first: fn(EntityId) -> Key| (first(entity), first(EntityId(entity.0 + 1)));
    [
        table(|id| Key::Body(id, SequenceNumber::MIN)),
        table(|id| Key::Message(QueueId::main(id), SequenceNumber::MIN)),
        table(|id| Key::Returned(QueueId::main(id), SequenceNumber::MIN)),
        table(|id| Key::Lock(QueueId::main(id), SequenceNumber::MIN)),
        table(|id| Key::Scheduled(id, SequenceNumber::MIN)),
        table(|id| {
            Key::Deadline(id, DeadlineKind::Scheduled, Timestamp::ZERO, SequenceNumber::MIN)
        }),
        table(|id| Key::DuplicateId(id, String::new())),
        table(|id| Key::DuplicateTime(id, Timestamp::ZERO, String::new())),
        table(|id| Key::Session(id, SessionId::first())),
        table(|id| {
            let (first, list) = (SessionId::first(), SessionList::Ready);
            Key::SessionMessage(id, first, list, SequenceNumber::MIN)
        }),
        table(|id| Key::SessionHeld(id, SessionId::first(), SequenceNumber::MIN)),
        table(|id| Key::SessionFree(id, Claim { at: Timestamp::ZERO, turn: 0 })),
        table(|id| Key::SessionLocked(id, SessionId::first())),
        table(|id| Key::SessionState(id, SessionId::first())),
        table(|id| Key::Subscription(id, EntityId(0))),
        table(|id| Key::Rule(id, String::new())),
        table(|id| Key::BodyCopies(id, SequenceNumber::MIN)),
        table(|id| Key::Shipment(QueueId::main(id), 0)),
        table(|id| Key::Parked(QueueId::main(id), false, 0)),
    ]
}

impl<R: Rows> Step<'_, R> {
    pub(super) fn sweep(&mut self) -> Outcome {
        let budget = self.view.budget(APPLY_ROWS_MAX);
        let mut fired = Fired::default();
        while let Some((entity, topic)) = self.first_swept() {
            if self.view.left(budget) == 0 {
                fired.more = true;
                break;
            }
            // With its topic gone, the bodies a subscription shared are the topic's sweep's.
            let topic = topic.filter(|topic| self.exists(*topic));
            for (from, to) in ranges(entity) {
                let releases = topic.filter(|_| matches!(from, Key::Message(..)));
                // Each row is visited and deleted, so half the budget is read ahead.
                let cost = if releases.is_some() { ROWS_PER_MESSAGE } else { 2 };
                let rows_max = self.view.left(budget) / cost;
                let from = self.sweep_from(entity, from);
                let found = self.swept(&from, &to, rows_max + 1);
                let done = found.len() <= rows_max;
                if let Some((last, _)) = found.last() {
                    self.machine.swept_to = Some((entity, last.clone()));
                }
                for (key, body) in found.into_iter().take(rows_max) {
                    self.view.delete(key);
                    if let (Some(topic), Some(body)) = (releases, body) {
                        self.view.release_body(topic, body);
                    }
                }
                if !done {
                    fired.more = true;
                    return Outcome::Fired(fired);
                }
            }
            self.machine.swept_to = None;
            self.view.delete(Key::Sweep(entity));
        }
        Outcome::Fired(fired)
    }

    /// The first rows of a range, with the bodies of messages.
    fn swept(
        &mut self,
        from: &Key,
        to: &Key,
        count_max: usize,
    ) -> Vec<(Key, Option<SequenceNumber>)> {
        let mut found = Vec::new();
        self.view.scan(from, to, &mut |key, row| {
            let body = match row {
                Row::Message(message) => Some(message.body),
                _ => None,
            };
            found.push((key.clone(), body));
            match found.len() < count_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        found
    }

    fn exists(&mut self, entity: EntityId) -> bool {
        self.open(entity).is_ok()
    }

    fn first_swept(&mut self) -> Option<(EntityId, Option<EntityId>)> {
        let (from, to) = (Key::Sweep(EntityId(0)), Key::Sweep(EntityId(u64::MAX)));
        match self.view.first(&from, &to) {
            Some((Key::Sweep(entity), Row::Sweep { topic })) => Some((entity, topic)),
            _ => None,
        }
    }

    /// Where to begin in a table. What was swept before is gone, so the search need not pass its
    /// tombstones again; that the machine forgets this costs time and changes nothing.
    fn sweep_from(&self, entity: EntityId, from: Key) -> Key {
        match &self.machine.swept_to {
            Some((swept, to)) if *swept == entity && *to > from => to.clone(),
            _ => from,
        }
    }
}
