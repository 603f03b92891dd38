//! What a consumer is handed, and what it may decide about it.

use bytes::Bytes;

use crate::v1::{self, settlement};

/// A queue or one of its dead-letter queues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueuePath {
    pub queue: String,
    pub sub_queue: v1::SubQueue,
}

impl QueuePath {
    pub fn main(queue: impl Into<String>) -> QueuePath {
        QueuePath { queue: queue.into(), sub_queue: v1::SubQueue::Main }
    }

    pub fn dead_letter(queue: impl Into<String>) -> QueuePath {
        QueuePath { queue: queue.into(), sub_queue: v1::SubQueue::DeadLetter }
    }

    /// Of a queue or topic: what was sent via it and not taken where it should go (DLQ-16).
    pub fn transfer_dead_letter(entity: impl Into<String>) -> QueuePath {
        QueuePath { queue: entity.into(), sub_queue: v1::SubQueue::TransferDeadLetter }
    }
}

/// A message as the broker shows it (MSG-3): received under a lock, received and deleted, or peeked.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery(v1::ReceivedMessage);

impl From<v1::ReceivedMessage> for Delivery {
    fn from(mut received: v1::ReceivedMessage) -> Delivery {
        // Absent and empty are the same on the wire; made present once, so that reading is plain.
        received.message.get_or_insert_default();
        Delivery(received)
    }
}

impl Delivery {
    /// As it came over the wire.
    pub fn wire(&self) -> &v1::ReceivedMessage {
        &self.0
    }

    /// As it came over the wire.
    pub fn into_wire(self) -> v1::ReceivedMessage {
        self.0
    }

    pub fn body(&self) -> &Bytes {
        static EMPTY: Bytes = Bytes::new();
        self.0.message.as_ref().map_or(&EMPTY, |message| &message.body)
    }

    pub fn message_id(&self) -> Option<&str> {
        self.0.message.as_ref().and_then(|message| message.message_id.as_deref())
    }

    pub fn correlation_id(&self) -> Option<&str> {
        self.0.message.as_ref().and_then(|message| message.correlation_id.as_deref())
    }

    pub fn reply_to(&self) -> Option<&str> {
        self.0.message.as_ref().and_then(|message| message.reply_to.as_deref())
    }

    /// A user property (MSG-4).
    pub fn property(&self, name: &str) -> Option<&v1::Value> {
        self.0.message.as_ref().and_then(|message| message.properties.get(name))
    }

    /// A user property that is a string, as `DeadLetterReason` (DLQ-8).
    pub fn text_property(&self, name: &str) -> Option<&str> {
        match self.property(name)?.kind.as_ref()? {
            v1::value::Kind::StringValue(text) => Some(text),
            _ => None,
        }
    }

    pub fn sequence_number(&self) -> u64 {
        self.0.sequence_number
    }

    /// LOCK-19.
    pub fn delivery_count(&self) -> u32 {
        self.0.delivery_count
    }

    pub fn enqueued_at_ms(&self) -> u64 {
        self.0.enqueued_at_ms
    }

    pub fn expires_at_ms(&self) -> Option<u64> {
        self.0.expires_at_ms
    }

    pub fn locked_until_ms(&self) -> Option<u64> {
        self.0.locked_until_ms
    }

    /// 16 bytes on a peek-lock delivery, otherwise empty.
    pub fn lock_token(&self) -> Bytes {
        self.0.lock_token.clone().unwrap_or_default()
    }

    /// What to ask of [`crate::Client::settle`].
    pub fn settlement(&self, disposition: Disposition) -> v1::Settlement {
        disposition.of(self.lock_token())
    }
}

/// What becomes of a locked message (LOCK-8 to LOCK-11, LOCK-16).
#[derive(Clone, Debug, PartialEq)]
pub enum Disposition {
    Complete,
    /// Available again at once; one more failed delivery (LOCK-9).
    Abandon,
    /// Set aside, received by number only (DEFER-1).
    Defer,
    DeadLetter {
        reason: Option<String>,
        description: Option<String>,
    },
    /// Available again without counting a delivery (LOCK-16).
    Release,
}

impl Disposition {
    /// The settlement of one delivery on the wire.
    pub(crate) fn of(self, lock_token: Bytes) -> v1::Settlement {
        let disposition = match self {
            Disposition::Complete => Some(settlement::Disposition::Complete(v1::Complete {})),
            Disposition::Abandon => Some(settlement::Disposition::Abandon(v1::Abandon::default())),
            Disposition::Defer => Some(settlement::Disposition::Defer(v1::Defer::default())),
            Disposition::DeadLetter { reason, description } => {
                Some(settlement::Disposition::DeadLetter(v1::DeadLetter {
                    reason,
                    description,
                    ..v1::DeadLetter::default()
                }))
            }
            Disposition::Release => Some(settlement::Disposition::Release(v1::Release {})),
        };
        v1::Settlement { lock_token, disposition }
    }
}
