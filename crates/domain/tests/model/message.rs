//! A message of the model.

use std::collections::BTreeSet;

use domain::{
    Lifetime, LockToken, Properties, SessionId, Span, SubQueue, Timestamp, Value, properties_bytes,
};

#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    Main,
    Dead,
    Waiting { due: Timestamp },
}

#[derive(Clone, Debug)]
pub struct Message {
    pub number: u64,
    pub body: u64,
    pub place: Place,
    /// Accepted, or activated.
    pub since: Timestamp,
    /// Since it was last made available.
    pub available_at: Timestamp,
    /// Kept where sessions are required, and not in the dead-letter queue.
    pub session: Option<SessionId>,
    /// As sent.
    pub ttl: Option<Span>,
    pub lifetime: Lifetime,
    pub deferred: bool,
    /// It waited for its time, and is not in the dead-letter queue.
    pub was_scheduled: bool,
    pub count: u32,
    pub lock: Option<(LockToken, Timestamp)>,
    pub sent_bytes: u32,
    pub sent_header_bytes: u32,
    pub set: Properties,
    pub removed: BTreeSet<String>,
}

impl Message {
    pub fn size(&self) -> u32 {
        self.sent_bytes + properties_bytes(&self.set) as u32
    }

    pub fn header(&self) -> u32 {
        self.sent_header_bytes + properties_bytes(&self.set) as u32
    }

    pub fn is_in(&self, sub: SubQueue) -> bool {
        match sub {
            SubQueue::Main => self.place == Place::Main,
            SubQueue::DeadLetter => self.place == Place::Dead,
            // What is sent via an entity is followed in `forwarding`.
            SubQueue::Transfer | SubQueue::TransferDeadLetter => false,
        }
    }

    pub fn is_of(&self, session: &SessionId) -> bool {
        self.session.as_ref() == Some(session)
    }

    pub fn is_available(&self, sub: SubQueue) -> bool {
        self.is_in(sub) && !self.deferred && self.lock.is_none()
    }

    /// DLQ-8, DLQ-9.
    pub fn explain(&mut self, name: &str, text: Option<&str>, keep: bool) {
        if let Some(text) = text {
            self.set(name, Value::String(text.to_owned()));
        } else if !keep {
            self.set.remove(name);
            self.removed.insert(name.to_owned());
        }
    }

    pub fn set(&mut self, name: &str, value: Value) {
        self.removed.remove(name);
        self.set.insert(name.to_owned(), value);
    }
}
