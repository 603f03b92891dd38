//! What an entity's description says of messages and of requests. Nothing else is looked at.

use crate::machine::level::GroupLevel;
use crate::read::{check_receivable, check_served};
use crate::{
    EntityId, EntityKind, EntityRow, EntityState, Lifetime, MessageRow, NewMessage, QueueId,
    Refusal, SessionId, Span, Specifics, SubQueue, SubscriptionSpecifics, Timestamp,
};

impl EntityRow {
    pub(super) fn kind(&self) -> EntityKind {
        self.specifics.kind()
    }

    /// Where the bodies of this entity's messages are, if not with it.
    pub(crate) fn topic(&self) -> Option<EntityId> {
        match self.specifics {
            Specifics::Subscription(SubscriptionSpecifics { topic, .. }) => Some(topic),
            Specifics::Queue | Specifics::Topic(_) => None,
        }
    }

    /// STATE-4, STATE-7: the dead-letter queues follow their parent. A topic holds nothing to receive
    /// (ENT-9, PEEK-5) but what it could not transfer.
    pub(super) fn check_receive(&self, queue: QueueId) -> Result<(), Refusal> {
        check_served(self, queue)
    }

    /// As [`EntityRow::check_receive`], for what hands messages out (FWD-3).
    pub(super) fn check_take(&self, queue: QueueId) -> Result<(), Refusal> {
        check_receivable(self, queue)
    }

    /// SEND-7.
    pub(super) fn check_sendable(&self) -> Result<(), Refusal> {
        match self.kind() {
            EntityKind::Queue | EntityKind::Topic => Ok(()),
            EntityKind::Subscription => {
                let why = "messages cannot be sent to a subscription; send to its topic";
                Err(Refusal::InvalidOperation { why })
            }
        }
    }

    /// STATE-4, SEND-7.
    pub(super) fn check_send(&self) -> Result<(), Refusal> {
        self.check_sendable()?;
        let status = self.properties.status;
        match status.refuses_send() {
            true => Err(Refusal::EntityDisabled { status: status.as_str() }),
            false => Ok(()),
        }
    }

    /// What a message by itself must keep to, in the order of SEND-1.
    pub(super) fn check_message(
        &self,
        level: GroupLevel,
        message: &NewMessage,
    ) -> Result<(), Refusal> {
        self.check_message_size(message)?;
        level.new_message(message)
    }

    pub(super) fn check_message_size(&self, message: &NewMessage) -> Result<(), Refusal> {
        let max = u64::from(self.properties.max_message_size_kilobytes) * 1024;
        let bytes = u64::from(message.size_bytes);
        match bytes > max {
            true => Err(Refusal::MessageSizeExceeded { what: "the message", bytes, max }),
            false => Ok(()),
        }
    }

    /// SEND-2: before anything is stored.
    pub(super) fn check_size(&self, state: &EntityState) -> Result<(), Refusal> {
        let used = state.size_bytes;
        let max = u64::from(self.properties.max_size_megabytes) * 1024 * 1024;
        match used >= max {
            true => Err(Refusal::QuotaExceeded { what: "the entity (bytes)", used, max }),
            false => Ok(()),
        }
    }

    /// Whether a queue is received from by session only (SESS-2, DLQ-11).
    pub(super) fn needs_session(&self, queue: QueueId) -> bool {
        queue.sub == SubQueue::Main && self.properties.keeps_sessions()
    }

    /// LOCK-26, for those who name no session.
    pub(super) fn check_sessionless(&self, queue: QueueId) -> Result<(), Refusal> {
        match self.needs_session(queue) {
            true => {
                let why = "this entity requires sessions; accept a session first";
                Err(Refusal::InvalidOperation { why })
            }
            false => Ok(()),
        }
    }

    /// LOCK-26, for those who name one.
    pub(super) fn check_sessions(&self) -> Result<(), Refusal> {
        match self.properties.requires_session {
            true => Ok(()),
            false => {
                let why = "this entity has no sessions; it was created without them";
                Err(Refusal::InvalidOperation { why })
            }
        }
    }

    /// The session a message belongs to, where that matters.
    pub(super) fn session_of(&self, session: Option<String>) -> Option<SessionId> {
        session.filter(|_| self.properties.keeps_sessions()).map(SessionId::from)
    }

    /// TTL-1 to TTL-4: the lifetime of a message enqueued now.
    pub(super) fn lifetime(&self, ttl: Option<Span>, at: Timestamp) -> Lifetime {
        match ttl {
            None => Lifetime::Derived,
            Some(ttl) => {
                let ttl = ttl.min(self.properties.default_ttl);
                Lifetime::Fixed { ttl, expires_at: at.plus(ttl) }
            }
        }
    }

    /// TTL-24.
    pub(super) fn expires_at(&self, message: &MessageRow) -> Timestamp {
        match message.lifetime {
            Lifetime::Fixed { expires_at, .. } | Lifetime::Inherited { expires_at, .. } => {
                expires_at
            }
            Lifetime::Derived => message.enqueued_at.plus(self.properties.default_ttl),
        }
    }

    /// LOCK-21, LOCK-22; not in a dead-letter queue (DLQ-4).
    pub(super) fn is_exhausted(&self, queue: QueueId, message: &MessageRow) -> bool {
        queue.sub == SubQueue::Main && message.delivery_count >= self.properties.max_delivery_count
    }
}

impl EntityState {
    /// What is stored of a message, or of a session's state, changed in size.
    pub(super) fn resized(&mut self, before: u32, after: u32) {
        self.size_bytes = self.size_bytes - u64::from(before) + u64::from(after);
    }
}
