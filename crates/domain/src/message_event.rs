//! What happens to a message, step by step, for those who record it. The steps follow from the log
//! alone, so every replica of a group tells the same. They are no rows, and nothing depends on them.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Arrival, EntityId, ReceiverId, SequenceNumber, Span, SubQueue, Timestamp, TraceContext,
};

/// A step of one message's life.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageEvent {
    /// Name of the entity; of a subscription, its path.
    pub entity: Arc<str>,
    pub sub: SubQueue,
    /// 0 where the step is the entity's.
    pub number: SequenceNumber,
    pub step: LifeStep,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum LifeStep {
    Accepted(Box<AcceptedMessage>),
    /// SCHED-5: its time had come. The event's number is the one it has from here on.
    Activated {
        scheduled_as: SequenceNumber,
        due: Timestamp,
        expires_at: Timestamp,
    },
    /// SCHED-3.
    Cancelled,
    /// RULE-14: the topic handed out so many copies. Where matching goes on later (RULE-41) it is told
    /// of each share.
    Published {
        copies: u32,
    },
    /// LOCK-3.
    Locked {
        nonce: u64,
        until: Timestamp,
        delivery_count: u32,
        receiver: ReceiverId,
    },
    LockRenewed {
        until: Timestamp,
    },
    /// LOCK-8; LOCK-2 where it was `on_delivery`: nobody said that it was processed.
    Completed {
        on_delivery: bool,
    },
    /// LOCK-10. As often as it says, deliveries have failed by now.
    Abandoned {
        delivery_count: u32,
    },
    /// LOCK-16, LOCK-20: given back, and not counted.
    Released,
    /// LOCK-12.
    LockLapsed {
        until: Timestamp,
        delivery_count: u32,
    },
    /// DEFER-1.
    Deferred,
    /// DLQ-14: it is in the dead-letter queue now, under the same number.
    DeadLettered {
        reason: Box<str>,
        description: Box<str>,
        /// TTL-17: of one that expired, its deadline.
        due: Option<Timestamp>,
    },
    /// TTL-9: gone.
    Expired {
        due: Timestamp,
    },
    /// BATCH-1.
    Deleted,
    /// FWD-4: it arrived at its destination, and is gone from here. So numbered was its shipment, and it in that.
    Forwarded {
        serial: u64,
        position: u32,
    },
    /// ENT-7: the entity is gone with all its messages.
    EntityDeleted,
}

/// How a message began its life in an entity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcceptedMessage {
    /// Copies of a message share it.
    pub texts: Arc<MessageTexts>,
    /// Body and properties.
    pub size_bytes: u32,
    pub scheduled_for: Option<Timestamp>,
    /// `None`: not before it is activated.
    pub expires_at: Option<Timestamp>,
    /// Of a copy in a subscription, the number its topic gave it (SEQ-9).
    pub published_as: Option<SequenceNumber>,
    /// Of a copy, its topic.
    pub published_by: Option<EntityId>,
    /// FWD-7.
    pub hops: u32,
    /// Present where it came by forwarding and is told in a trace.
    pub arrival: Option<Arrival>,
    /// Present where it is told in its sender's trace.
    pub trace: Option<Arc<TraceContext>>,
}

/// What a message says of itself that it is known by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageTexts {
    pub message_id: Option<Box<str>>,
    pub correlation_id: Option<Box<str>>,
    pub session_id: Option<Box<str>>,
    pub subject: Option<Box<str>>,
    pub reply_to: Option<Box<str>>,
}

impl MessageTexts {
    /// All of them together, in bytes.
    pub fn bytes(&self) -> usize {
        let MessageTexts { message_id, correlation_id, session_id, subject, reply_to } = self;
        let all = [message_id, correlation_id, session_id, subject, reply_to];
        all.into_iter().flatten().map(|text| text.len()).sum()
    }
}

/// What a content says that is noted.
#[derive(Clone, Debug)]
pub(crate) struct NotedContent {
    pub texts: Arc<MessageTexts>,
    pub trace: Option<Arc<TraceContext>>,
}

/// Reads them of a content; of one that cannot be read, none.
pub type ReadTexts = fn(&Bytes) -> MessageTexts;

/// Why a delivery that was not completed is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryEnd {
    /// By its receiver, as failed.
    Abandoned,
    /// Not counted: its receiver closed, or never got it.
    Released,
    /// The lock's time was over. It counts, unless receiving was refused meanwhile: the receiver could
    /// not have settled (STATE-4).
    Lapsed { until: Timestamp, counts: bool },
}

impl DeliveryEnd {
    /// LOCK-19.
    pub fn counts(self) -> bool {
        match self {
            DeliveryEnd::Abandoned => true,
            DeliveryEnd::Released => false,
            DeliveryEnd::Lapsed { counts, .. } => counts,
        }
    }

    /// What is told of it, when deliveries have failed so often.
    pub fn step(self, delivery_count: u32) -> LifeStep {
        match self {
            DeliveryEnd::Abandoned => LifeStep::Abandoned { delivery_count },
            DeliveryEnd::Released => LifeStep::Released,
            DeliveryEnd::Lapsed { until, .. } => LifeStep::LockLapsed { until, delivery_count },
        }
    }
}

impl LifeStep {
    /// How long after its time it happened, of what has one.
    pub fn late(&self, at: Timestamp) -> Option<Span> {
        match self {
            LifeStep::Activated { due, .. }
            | LifeStep::Expired { due }
            | LifeStep::DeadLettered { due: Some(due), .. } => Some(at.since(*due)),
            LifeStep::LockLapsed { until, .. } => Some(at.since(*until)),
            _ => None,
        }
    }
}
