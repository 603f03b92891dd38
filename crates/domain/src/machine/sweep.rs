//! `Sweep`: removes what deleted entities left, table by table, a bounded number of rows at a time.

use std::ops::ControlFlow;

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::view::{Budget, SINGLY_MAX};
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
        while let Some((entity, topic)) = self.first_swept() {
            // With its topic gone, the bodies a subscription shared are the topic's sweep's.
            let topic = topic.filter(|topic| self.exists(*topic));
            for (from, to) in ranges(entity) {
                let swept = match topic.filter(|_| matches!(from, Key::Message(..))) {
                    Some(topic) => self.sweep_copies(entity, topic, (from, to), budget),
                    None => self.sweep_table(from, to, budget),
                };
                if !swept {
                    return Outcome::Fired(Fired { more: true, ..Fired::default() });
                }
            }
            self.machine.swept_to = None;
            self.view.delete(Key::Sweep(entity));
        }
        Outcome::Fired(Fired::default())
    }

    /// Whether the budget was enough.
    fn sweep_table(&mut self, from: Key, to: Key, budget: Budget) -> bool {
        // Each row is visited and deleted.
        if self.view.left(budget) < 2 * (SINGLY_MAX + 1) {
            return false;
        }
        let found = self.view.keys(&from, &to, SINGLY_MAX + 1);
        match found.len() > SINGLY_MAX {
            true => self.view.erase(from, to),
            false => found.into_iter().for_each(|key| self.view.delete(key)),
        }
        true
    }

    /// Deletes a subscription's messages, each of which gives back its share of a body. Whether the
    /// budget was enough.
    fn sweep_copies(
        &mut self,
        entity: EntityId,
        topic: EntityId,
        (from, to): (Key, Key),
        budget: Budget,
    ) -> bool {
        let rows_max = self.view.left(budget) / ROWS_PER_MESSAGE;
        let from = self.sweep_from(entity, from);
        let found = self.swept(&from, &to, rows_max + 1);
        let done = found.len() <= rows_max;
        if let Some((last, _)) = found.last() {
            self.machine.swept_to = Some((entity, last.clone()));
        }
        for (key, body) in found.into_iter().take(rows_max) {
            self.view.delete(key);
            if let Some(body) = body {
                self.view.release_body(topic, body);
            }
        }
        done
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
