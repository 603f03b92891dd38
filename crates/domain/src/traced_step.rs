//! A step of a message whose sender's trace is sampled, with all that its spans are told by: what the message was
//! before the step, and since when.

use std::sync::Arc;

use crate::{MessageEvent, QueueId, SequenceNumber, Timestamp, TraceContext};

/// A step of one message's life, as it is told in its sender's trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedStep {
    /// Of the log.
    pub at: Timestamp,
    /// Of the event. A name may come back; an id does not.
    pub queue: QueueId,
    pub event: MessageEvent,
    pub message: Arc<TracedMessage>,
    /// Absent of a message that came into being by this step.
    pub before: Option<Phase>,
}

/// What is told of a message with each of its spans.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedMessage {
    pub context: Arc<TraceContext>,
    pub message_id: Option<Box<str>>,
    /// In the entity it is in.
    pub enqueued_at: Timestamp,
}

/// What a message was, and since when; `None`: it began where nobody who knows of it now was told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    pub state: PhaseState,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseState {
    /// SCHED-1.
    Scheduled,
    /// It can be received, forwarded or matched.
    Waiting,
    /// LOCK-3. So often had deliveries failed before this one. 0 for a nonce that nobody knows any more.
    Locked { nonce: u64, delivery_count: u32 },
    /// DEFER-1.
    Deferred,
}

/// What a message is found by.
pub(crate) type PlaceKey = (QueueId, SequenceNumber);
