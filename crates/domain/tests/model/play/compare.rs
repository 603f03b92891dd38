//! What is stored against what the model says.

use std::collections::BTreeSet;

use domain::{
    Delivery, EntityState, Key, LockToken, MemoryRows, MessageRow, QueueId, Refusal, Row,
    SequenceNumber, SubQueue,
};

use super::Game;
use super::commands::queue;
use crate::message::{Message, Place};
use crate::support::QUEUE;

impl Game {
    pub fn compare_rows(&self) {
        let plain = &self.plain;
        let rows = &self.group.rows;
        assert_eq!(domain::meta(rows).last_at, plain.at);
        assert_eq!(domain::meta(rows).clock_offset, plain.offset);
        assert_eq!(domain::meta(rows).unbroken_since, plain.unbroken_since);
        if plain.deleted {
            assert_eq!(domain::entity_info(rows, QUEUE), None, "deleted as idle");
            return;
        }
        let info = domain::entity_info(rows, QUEUE).expect("the queue");
        assert_eq!(info.counts, plain.counts());
        assert_eq!(info.properties, plain.properties);
        assert_eq!(info.updated_at, plain.updated_at);
        assert_eq!(info.accessed_at, plain.accessed_at);
        assert_eq!(info.next_sequence.0, plain.next);
        let size: u64 = plain.messages.iter().map(|message| u64::from(message.size())).sum();
        let states = plain.sessions.known.values().filter_map(|session| session.state.as_ref());
        let size = size + states.map(|(state, _)| state.len() as u64).sum::<u64>();
        assert_eq!(info.size_bytes, size);
        assert_eq!(state(rows).last_use, plain.last_use);

        for message in &plain.messages {
            compare_message(rows, message);
        }
        let stored = |key: &&Key| {
            matches!(key, Key::Message(queue, _) if queue.entity == QUEUE)
                || matches!(key, Key::Scheduled(entity, _) if *entity == QUEUE)
        };
        assert_eq!(rows.0.keys().filter(stored).count(), plain.messages.len());

        let mut history = BTreeSet::new();
        for (key, row) in &rows.0 {
            if let (Key::DuplicateId(QUEUE, id), Row::DuplicateId { accepted_at, sequence }) =
                (key, row)
            {
                history.insert((*accepted_at, id.clone(), sequence.0));
            }
        }
        let expected: BTreeSet<_> = plain.history.iter().cloned().collect();
        assert_eq!(history, expected, "history of ids");
        self.compare_sessions();
        self.compare_peek(SubQueue::Main);
        self.compare_peek(SubQueue::DeadLetter);
    }

    pub fn compare_sessions(&self) {
        let (plain, rows) = (&self.plain, &self.group.rows);
        let stored = |key: &Key| match key {
            Key::Session(QUEUE, id) => Some(id.clone()),
            _ => None,
        };
        let there: Vec<_> = rows.0.keys().filter_map(stored).collect();
        assert_eq!(there, plain.sessions_there(), "sessions that are there");
        for id in there {
            let row = domain::session_row(rows, QUEUE, &id).expect("the session");
            let known = plain.sessions.known.get(&id).cloned().unwrap_or_default();
            let lock = known.hold.map(|(token, until)| (token.nonce, until));
            assert_eq!(row.lock.map(|lock| (lock.nonce, lock.until)), lock, "hold of {id}");
            let state = match rows.0.get(&Key::SessionState(QUEUE, id.clone())) {
                Some(Row::SessionState(state)) => Some(state.to_vec()),
                _ => None,
            };
            assert_eq!(state, known.state.map(|(state, _)| state), "state of {id}");
        }
        let line = rows.0.iter().filter_map(|(key, row)| match (key, row) {
            (Key::SessionFree(QUEUE, _), Row::SessionFree(id)) => Some(id.clone()),
            _ => None,
        });
        assert_eq!(line.collect::<Vec<_>>(), plain.sessions.in_line(), "who is next");
    }

    pub fn compare_peek(&self, sub: SubQueue) {
        let queue = QueueId { entity: QUEUE, sub };
        let Ok(seen) = domain::peek(&self.group.rows, queue, SequenceNumber(0), 250) else {
            return;
        };
        let mut expected: Vec<_> = self
            .plain
            .messages
            .iter()
            .filter(|message| (message.place == Place::Dead) == (sub == SubQueue::DeadLetter))
            .map(|message| self.plain.shown(message))
            .collect();
        expected.sort_by_key(|delivery| delivery.sequence);
        expected.truncate(250);
        let seen: Vec<_> = seen.into_iter().map(without_overlay).collect();
        assert_eq!(seen, expected, "peeked in {sub:?}");
    }
}

pub fn same_refusal(refusal: &Refusal, expected: &Refusal) -> bool {
    match (refusal, expected) {
        (
            Refusal::MessageNotFound { sequence, .. },
            Refusal::MessageNotFound { sequence: expected, .. },
        ) => sequence == expected,
        (Refusal::MessageLockLost { token }, Refusal::MessageLockLost { token: expected }) => {
            token == expected
        }
        (Refusal::SerialGap { expected: a }, Refusal::SerialGap { expected: b }) => a == b,
        (
            Refusal::TransactionRolledBack { operation: a, cause },
            Refusal::TransactionRolledBack { operation: b, cause: expected },
        ) => a == b && same_refusal(&cause.0, &expected.0),
        _ => refusal.name() == expected.name(),
    }
}

/// Overlays are compared where they are stored, name by name.
pub fn without_overlay(delivery: Delivery) -> Delivery {
    Delivery { overlay: None, ..delivery }
}

fn compare_message(rows: &MemoryRows, message: &Message) {
    let number = SequenceNumber(message.number);
    let dead = message.place == Place::Dead;
    if let Place::Waiting { due } = message.place {
        let Some(Row::Scheduled(row)) = rows.0.get(&Key::Scheduled(QUEUE, number)) else {
            panic!("{number} should be scheduled");
        };
        assert_eq!((row.due, row.accepted_at, row.ttl), (due, message.since, message.ttl));
        assert_eq!((row.size_bytes, row.header_bytes), (message.size(), message.header()));
        return;
    }
    let Some(Row::Message(row)) = rows.0.get(&Key::Message(queue(dead), number)) else {
        panic!("{number} should be stored in {:?}", message.place);
    };
    let stored = row.overlay.clone().unwrap_or_default();
    assert_eq!(stored.set, message.set, "properties of {number}");
    let removed: BTreeSet<_> = stored.removed.iter().cloned().collect();
    assert_eq!(removed.len(), stored.removed.len(), "removed twice: {:?}", stored.removed);
    assert_eq!(removed, message.removed, "removed properties of {number}");
    let expected = MessageRow {
        body: SequenceNumber(message.body),
        size_bytes: message.size(),
        header_bytes: message.header(),
        deferred: message.deferred,
        was_scheduled: message.was_scheduled,
        delivery_count: message.count,
        enqueued_at: message.since,
        lifetime: message.lifetime,
        session: message.session.clone(),
        overlay: row.overlay.clone(),
        travel: None,
    };
    assert_eq!(*row, expected, "{number}");
    if let Some(session) = &message.session {
        // Its end is the session's, which may have been renewed.
        let lock = match rows.0.get(&Key::SessionHeld(QUEUE, session.clone(), number)) {
            Some(Row::SessionHeld(held)) => Some(held.nonce),
            _ => None,
        };
        assert_eq!(lock, message.lock.map(|(token, _)| token.nonce), "lock of {number}");
        return;
    }
    let lock = match rows.0.get(&Key::Lock(queue(dead), number)) {
        Some(Row::Lock(lock)) => {
            Some((LockToken { sequence: number, nonce: lock.nonce }, lock.until))
        }
        _ => None,
    };
    assert_eq!(lock, message.lock, "lock of {number}");
}

fn state(rows: &MemoryRows) -> &EntityState {
    match rows.0.get(&Key::EntityState(QUEUE)) {
        Some(Row::EntityState(state)) => state,
        other => panic!("no state: {other:?}"),
    }
}
