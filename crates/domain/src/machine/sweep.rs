//! `Sweep`: removes what deleted entities left, table by table, a bounded number of rows at a time.

use std::ops::ControlFlow;

use crate::machine::Step;
use crate::machine::acquire::ROWS_PER_MESSAGE;
use crate::machine::view::{Budget, SINGLY_MAX, View};
use crate::{
    APPLY_ROWS_MAX, Claim, DeadlineKind, EntityId, Fired, Key, Outcome, QueueId, Row, Rows,
    SequenceNumber, SessionId, SessionList, Timestamp,
};

/// The ranges of an entity's rows, in the order of keys; the rows of the entity itself are gone.
pub(super) fn ranges(entity: EntityId) -> [(Key, Key); 19] {
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

pub(super) fn sweep<R: Rows>(step: &mut Step<'_, R>) -> Outcome {
    let budget = step.view.budget(APPLY_ROWS_MAX);
    while let Some((entity, topic)) = first_swept(&mut step.view) {
        // With its topic gone, the bodies a subscription shared are the topic's sweep's.
        let topic = topic.filter(|topic| step.open(*topic).is_ok());
        let (view, swept_to) = (&mut step.view, &mut step.machine.swept_to);
        let mut sweeping = Sweeping { entity, budget, swept_to, view };
        for (from, to) in ranges(entity) {
            let swept = match topic.filter(|_| matches!(from, Key::Message(..))) {
                Some(topic) => sweeping.copies(topic, from, to),
                None => sweeping.table(from, to),
            };
            if !swept {
                return Outcome::Fired(Fired { more: true, ..Fired::default() });
            }
        }
        if !sweeping.rare_table(entity) {
            return Outcome::Fired(Fired { more: true, ..Fired::default() });
        }
        *sweeping.swept_to = None;
        step.view.delete(Key::Sweep(entity));
    }
    Outcome::Fired(Fired::default())
}

fn first_swept<R: Rows>(view: &mut View<R>) -> Option<(EntityId, Option<EntityId>)> {
    let (from, to) = (Key::Sweep(EntityId(0)), Key::Sweep(EntityId(u64::MAX)));
    match view.first(&from, &to) {
        Some((Key::Sweep(entity), Row::Sweep { topic })) => Some((entity, topic)),
        _ => None,
    }
}

/// The sweep of one entity. Its steps say whether the budget was enough.
struct Sweeping<'s, R> {
    entity: EntityId,
    budget: Budget,
    /// As the machine has it.
    swept_to: &'s mut Option<(EntityId, Key)>,
    view: &'s mut View<R>,
}

impl<R: Rows> Sweeping<'_, R> {
    fn table(&mut self, from: Key, to: Key) -> bool {
        // Each row is visited and deleted.
        if self.view.left(self.budget) < 2 * (SINGLY_MAX + 1) {
            return false;
        }
        let found = self.view.keys(&from, &to, SINGLY_MAX + 1);
        match found.len() > SINGLY_MAX {
            true => self.view.erase(from, to),
            false => found.into_iter().for_each(|key| self.view.delete(key)),
        }
        true
    }

    /// What topics have in clusters of a later feature level only: where there is nothing, the sweep is as it was
    /// before there could be.
    fn rare_table(&mut self, entity: EntityId) -> bool {
        let from = Key::Unmatched(entity, SequenceNumber::MIN);
        let to = Key::Unmatched(EntityId(entity.0 + 1), SequenceNumber::MIN);
        self.view.first(&from, &to).is_none() || self.table(from, to)
    }

    /// Deletes a subscription's messages, each of which gives back its share of a body.
    fn copies(&mut self, topic: EntityId, from: Key, to: Key) -> bool {
        let rows_max = self.view.left(self.budget) / ROWS_PER_MESSAGE;
        let from = self.start(from);
        let found = self.swept(&from, &to, rows_max + 1);
        let done = found.len() <= rows_max;
        if let Some((last, _)) = found.last() {
            *self.swept_to = Some((self.entity, last.clone()));
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

    /// Where to begin in a table. What was swept before is gone, so the search need not pass its
    /// tombstones again; that the machine forgets this costs time and changes nothing.
    fn start(&self, from: Key) -> Key {
        match &*self.swept_to {
            Some((swept, to)) if *swept == self.entity && *to > from => to.clone(),
            _ => from,
        }
    }
}
