//! Transactions (TX): what is asked of one entity as one unit, and how much that may be.

use crate::{
    BATCH_BYTES_MAX, CancelScheduled, Destination, EntityId, Key, LockToken, MessageRow,
    NewMessage, Origin, QueueId, Refusal, Renew, Row, Rows, Send, SequenceNumber, SetSessionState,
    Settle, Span, SubQueue, Timestamp,
};

/// TX-4, QUOTA-24: messages sent; and as many settlements, renewals, cancellations and session
/// states together.
pub const TRANSACTION_COUNT_MAX: usize = 100;
/// Bytes of messages, of properties to modify and of session states together: a transaction is one
/// log entry, and asks no more of it than a batch does.
pub const TRANSACTION_BYTES_MAX: u64 = BATCH_BYTES_MAX as u64;
/// TX-5: what is said to whoever goes beyond, in the words that Service Bus's users look for.
pub const ONE_ENTITY: &str = "Local transactions cannot span multiple top-level entities such as \
     queue or topic; receive from one entity only, and send to others in a client or session made \
     for cross-entity transactions";
/// TX-3: from the first operation.
pub const TRANSACTION_TIMEOUT: Span = Span::from_secs(120);

/// All operations of a transaction, in one command: all of them or none (TX-2).
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    pub origin: Option<Origin>,
    /// TX-5: a queue, or a topic, whose subscriptions count as one with it.
    pub entity: EntityId,
    /// Done in this order, so each sees what those before it did (DUP-11).
    pub operations: Vec<Operation>,
}

/// What can be part of a transaction (TX-1). An origin in it says nothing: the commit has one.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Scheduling as well (SCHED-12).
    Send(Send),
    CancelScheduled(CancelScheduled),
    /// Atomic, whatever it says.
    Settle(Settle),
    Renew(Renew),
    SetState(SetSessionState),
    SendVia(SendVia),
}

/// Messages for another entity, which the transaction's entity brings there once it is committed
/// (FWD-14). Outside of a transaction this is one of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct SendVia {
    /// A queue or topic.
    pub via: EntityId,
    pub destination: Destination,
    pub messages: Vec<NewMessage>,
}

/// What came of an operation, once all are done.
#[derive(Clone, Debug, PartialEq)]
pub enum Performed {
    Done,
    /// As [`crate::Outcome::Sent`]. What is sent via an entity has a number there (SEQ-8).
    Sent {
        sequences: Vec<SequenceNumber>,
    },
    /// As [`crate::Outcome::Renewed`].
    Renewed {
        until: Vec<Timestamp>,
    },
}

impl Operation {
    /// The entity it is about: that of the transaction, or a subscription of it.
    pub fn entity(&self) -> EntityId {
        match self {
            Operation::Send(send) => send.entity,
            Operation::CancelScheduled(cancel) => cancel.entity,
            Operation::Settle(settle) => settle.queue.entity,
            Operation::Renew(renew) => renew.queue.entity,
            Operation::SetState(set) => set.entity,
            Operation::SendVia(send) => send.via,
        }
    }
}

/// How much a transaction holds so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionSize {
    messages: usize,
    others: usize,
    bytes: u64,
}

impl TransactionSize {
    /// Of all these.
    pub fn of(operations: &[Operation]) -> Result<TransactionSize, Refusal> {
        let mut size = TransactionSize::default();
        operations.iter().try_for_each(|operation| size.add(operation))?;
        Ok(size)
    }

    /// One operation more. Refused, and nothing counted, where that is more than a transaction holds
    /// (TX-4, ERR-20).
    pub fn add(&mut self, operation: &Operation) -> Result<(), Refusal> {
        let mut size = *self;
        // An empty one counts as well, or there could be any number of them.
        match operation {
            Operation::Send(Send { messages, .. })
            | Operation::SendVia(SendVia { messages, .. }) => {
                size.messages += messages.len().max(1);
                let bytes = messages.iter().map(|message| u64::from(message.size_bytes));
                size.bytes += bytes.sum::<u64>();
            }
            Operation::CancelScheduled(cancel) => size.others += cancel.numbers.len().max(1),
            Operation::Settle(settle) => {
                size.others += settle.settlements.len().max(1);
                size.bytes += settle.settlements.iter().map(|one| one.bytes() as u64).sum::<u64>();
            }
            Operation::Renew(renew) => size.others += renew.tokens.len().max(1),
            Operation::SetState(set) => {
                size.others += 1;
                size.bytes += set.state.as_ref().map_or(0, |state| state.len() as u64);
            }
        }
        let count_max = TRANSACTION_COUNT_MAX as u64;
        for (what, held, max) in [
            ("messages sent", size.messages as u64, count_max),
            ("settlements and other operations", size.others as u64, count_max),
            ("bytes", size.bytes, TRANSACTION_BYTES_MAX),
        ] {
            if held > max {
                return Err(Refusal::TransactionSizeExceeded { what, held, max });
            }
        }
        *self = size;
        Ok(())
    }

    /// Bytes its messages, properties and states take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// TX-9: whether a lock is held at an instant, as a leader checks a settlement that waits for its
/// transaction to be committed. What [`Commit`] finds is what counts.
pub fn check_held(
    rows: &impl Rows,
    queue: QueueId,
    token: LockToken,
    at: Timestamp,
) -> Result<(), Refusal> {
    let Some(entity) = crate::read::entity_row(rows, queue.entity) else {
        return Err(crate::relocation::missing(rows, queue.entity));
    };
    // Also where it is forwarded from meanwhile (LOCK-23).
    crate::read::check_served(&entity, queue)?;
    let message = match rows.get(&Key::Message(queue, token.sequence)) {
        Some(Row::Message(message)) => Some(message),
        _ => None,
    };
    if entity.properties.requires_session && queue.sub == SubQueue::Main {
        return check_held_in_session(rows, queue, token, message, at);
    }
    match rows.get(&Key::Lock(queue, token.sequence)) {
        Some(Row::Lock(lock))
            if lock.nonce == token.nonce && at < lock.until && message.is_some() =>
        {
            Ok(())
        }
        _ => Err(Refusal::MessageLockLost { token }),
    }
}

/// SESS-10, SESS-13.
fn check_held_in_session(
    rows: &impl Rows,
    queue: QueueId,
    token: LockToken,
    message: Option<MessageRow>,
    at: Timestamp,
) -> Result<(), Refusal> {
    let Some(session) = message.and_then(|message| message.session) else {
        return Err(Refusal::SessionLockLost { session: None });
    };
    let lock = crate::session_row(rows, queue.entity, &session).and_then(|row| row.lock);
    let held = match rows.get(&Key::SessionHeld(queue.entity, session.clone(), token.sequence)) {
        Some(Row::SessionHeld(held)) => held.nonce == token.nonce,
        _ => false,
    };
    match held && lock.is_some_and(|lock| at < lock.until) {
        true => Ok(()),
        false => Err(Refusal::SessionLockLost { session: Some(session) }),
    }
}
