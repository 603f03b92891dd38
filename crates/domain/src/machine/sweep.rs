//! `Sweep`: removes what deleted entities left, table by table, a bounded number of rows at a time.

use crate::machine::Step;
use crate::{
    APPLY_ROWS_MAX, Claim, DeadlineKind, EntityId, Fired, Key, Outcome, QueueId, Rows,
    SequenceNumber, SessionId, SessionList, Timestamp,
};

/// The ranges of an entity's rows, in the order of keys; the rows of the entity itself are gone.
fn ranges(entity: EntityId) -> [(Key, Key); 14] {
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
    ]
}

impl<R: Rows> Step<'_, R> {
    pub(super) fn sweep(&mut self) -> Outcome {
        let budget = self.view.budget(APPLY_ROWS_MAX);
        let mut fired = Fired::default();
        while let Some(entity) = self.first_swept() {
            if self.view.left(budget) == 0 {
                fired.more = true;
                break;
            }
            for (from, to) in ranges(entity) {
                // Each row is visited and deleted, so half the budget is read ahead.
                let rows_max = self.view.left(budget) / 2;
                let from = self.sweep_from(entity, from);
                let keys = self.view.keys(&from, &to, rows_max + 1);
                let done = keys.len() <= rows_max;
                if let Some(last) = keys.last() {
                    self.machine.swept_to = Some((entity, last.clone()));
                }
                keys.into_iter().take(rows_max).for_each(|key| self.view.delete(key));
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

    fn first_swept(&mut self) -> Option<EntityId> {
        let (from, to) = (Key::Sweep(EntityId(0)), Key::Sweep(EntityId(u64::MAX)));
        match self.view.keys(&from, &to, 1).pop() {
            Some(Key::Sweep(entity)) => Some(entity),
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
