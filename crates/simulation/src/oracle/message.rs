//! One message, as the oracle knows it.

use bytes::Bytes;
use domain::{
    EntityId, Lifetime, LockRow, NewMessage, QueueProperties, SequenceNumber, SessionId, Span,
    SubQueue, Timestamp,
};

/// A message for ever: its entity and the first number it was given. Activation changes the number it
/// goes by, not this.
pub type MessageId = (EntityId, SequenceNumber);

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Scheduled { due: Timestamp },
    In(SubQueue),
}

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Message {
    pub content: Bytes,
    /// As sent.
    pub ttl: Option<Span>,
    /// The number it goes by.
    pub sequence: SequenceNumber,
    pub place: Place,
    pub deferred: bool,
    /// Accepted, while scheduled.
    pub enqueued_at: Timestamp,
    /// Of one that is not scheduled.
    pub lifetime: Lifetime,
    pub lock: Option<LockRow>,
    pub delivery_count: u32,
    /// While it is in the main queue of an entity that requires sessions, or is a topic's.
    pub session: Option<SessionId>,
}

impl Message {
    /// Accepted at an instant, under a number. SCHED-8: due at acceptance is enqueued at once.
    pub fn accepted(
        new: &NewMessage,
        sequence: SequenceNumber,
        at: Timestamp,
        properties: &QueueProperties,
        knows_sessions: bool,
    ) -> Message {
        let due = new.scheduled_at.filter(|due| *due > at);
        Message {
            content: new.content.clone(),
            ttl: new.ttl,
            sequence,
            place: due.map_or(Place::In(SubQueue::Main), |due| Place::Scheduled { due }),
            deferred: false,
            enqueued_at: at,
            lifetime: lifetime(new.ttl, at, properties),
            lock: None,
            delivery_count: 0,
            session: new.session_id.clone().filter(|_| knows_sessions).map(SessionId::from),
        }
    }

    /// TTL-1, TTL-24: from this instant on it is expired. TTL-18: never in a dead-letter queue.
    pub fn deadline(&self, properties: &QueueProperties) -> Timestamp {
        match (self.place, self.lifetime) {
            (Place::In(SubQueue::Main), Lifetime::Fixed { expires_at, .. }) => expires_at,
            (Place::In(SubQueue::Main), Lifetime::Derived) => {
                self.enqueued_at.plus(properties.default_ttl)
            }
            (Place::Scheduled { .. } | Place::In(_), _) => Timestamp::NEVER,
        }
    }

    /// LOCK-19, DLQ-4: a delivery failed, which counts in the main queue only.
    pub fn failed(&mut self) {
        self.delivery_count += u32::from(self.is_in(SubQueue::Main));
    }

    pub fn is_in(&self, sub: SubQueue) -> bool {
        self.place == Place::In(sub)
    }
}

/// TTL-3, TTL-24.
pub fn lifetime(ttl: Option<Span>, at: Timestamp, properties: &QueueProperties) -> Lifetime {
    match ttl {
        Some(ttl) => {
            let ttl = ttl.min(properties.default_ttl);
            Lifetime::Fixed { ttl, expires_at: at.plus(ttl) }
        }
        None => Lifetime::Derived,
    }
}
