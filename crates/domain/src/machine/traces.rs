//! Messages whose senders are traced: which are stored, what each of them is and since when. It follows from the log,
//! so every replica knows the same, as far as its process was there.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Arrival, EntityId, LifeStep, MessageEvent, Phase, PhaseState, PlaceKey, QueueId,
    ReadTraceContext, SequenceNumber, SubQueue, Timestamp, TraceContext, TracedMessage, TracedStep,
};

/// Messages known at a time, in a group; each takes some hundred bytes. What is known of more is read of their
/// contents again, step by step.
pub(super) const LIVE_MAX: usize = 16 * 1024;

/// A stored message that is traced.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LiveMessage {
    pub message: Arc<TracedMessage>,
    pub phase: Phase,
}

pub(super) struct Traces {
    read: ReadTraceContext,
    /// The time of the entry that is applied.
    pub at: Timestamp,
    /// Of the message that is accepted now.
    pub arrival: Option<Arrival>,
    live: BTreeMap<PlaceKey, LiveMessage>,
    /// By entity, the number from which on every message that is traced is among the live ones.
    followed: BTreeMap<EntityId, SequenceNumber>,
    /// Some of them were forgotten, for want of room.
    is_full: bool,
    steps: Vec<(TracedStep, Undo)>,
}

/// What a step changed among the live ones.
struct Undo {
    before: Option<(PlaceKey, LiveMessage)>,
    after: Option<PlaceKey>,
}

impl LiveMessage {
    /// One of which its content is known, and not what became of it until now.
    pub fn found(
        context: Arc<TraceContext>,
        message_id: Option<Box<str>>,
        enqueued_at: Timestamp,
    ) -> LiveMessage {
        let message = TracedMessage { context, message_id, enqueued_at };
        let phase = Phase { state: PhaseState::Waiting, since: None };
        LiveMessage { message: Arc::new(message), phase }
    }

    /// What it was until a step, as far as that and its row tell.
    pub fn was_before(&mut self, step: &LifeStep, delivery_count: u32, sub: SubQueue) {
        match step {
            LifeStep::LockRenewed { .. }
            | LifeStep::Completed { .. }
            | LifeStep::Abandoned { .. }
            | LifeStep::Released
            | LifeStep::LockLapsed { .. } => {
                self.phase.state = PhaseState::Locked { nonce: 0, delivery_count };
            }
            // Whether it was delivered before is told by the count, but for deliveries that did not count.
            _ if delivery_count == 0 && sub == SubQueue::Main => {
                self.phase.since = Some(self.message.enqueued_at);
            }
            _ => (),
        }
    }
}

impl Traces {
    pub fn new(read: ReadTraceContext) -> Traces {
        Traces {
            read,
            at: Timestamp::ZERO,
            arrival: None,
            live: BTreeMap::new(),
            followed: BTreeMap::new(),
            is_full: false,
            steps: Vec::new(),
        }
    }

    pub fn read(&self, content: &Bytes) -> Option<TraceContext> {
        (self.read)(content)
    }

    /// What was noted, in order.
    pub fn take(&mut self) -> Vec<TracedStep> {
        self.steps.drain(..).map(|(step, _)| step).collect()
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn follow(&mut self, id: EntityId, from: SequenceNumber) {
        self.followed.insert(id, from);
    }

    /// No entity is followed any more: what is stored is told by its content.
    pub fn unfollow_all(&mut self) {
        self.followed.clear();
    }

    pub fn forget(&mut self, id: EntityId) {
        self.followed.remove(&id);
        for place in self.of_entity(id) {
            self.live.remove(&place);
        }
    }

    /// Whether only its content tells if a message is traced.
    pub fn is_unknown(&self, place: PlaceKey, step: &LifeStep) -> bool {
        let is_new = matches!(step, LifeStep::Accepted(_) | LifeStep::EntityDeleted);
        let is_followed = || {
            let from = self.followed.get(&place.0.entity);
            !self.is_full && from.is_some_and(|from| place.1 >= *from)
        };
        !is_new && !is_followed() && !self.live.contains_key(&place)
    }

    pub fn adopt(&mut self, place: PlaceKey, message: LiveMessage) {
        if !self.live.contains_key(&place) {
            self.insert(place, message);
        }
    }

    /// Whether a step is one of a message that is traced.
    pub fn tells(&self, queue: QueueId, number: SequenceNumber, step: &LifeStep) -> bool {
        match step {
            LifeStep::Accepted(accepted) => accepted.trace.is_some(),
            LifeStep::Activated { scheduled_as, .. } => {
                self.live.contains_key(&(queue, *scheduled_as))
            }
            LifeStep::EntityDeleted => !self.live.is_empty(),
            _ => self.live.contains_key(&(queue, number)),
        }
    }

    /// Follows a message through a step that is one of a message that is traced.
    pub fn note(&mut self, queue: QueueId, event: &MessageEvent) {
        match &event.step {
            LifeStep::Accepted(accepted) => {
                let Some(context) = accepted.trace.clone() else { return };
                let message_id = accepted.texts.message_id.clone();
                let message = TracedMessage { context, message_id, enqueued_at: self.at };
                let state = match accepted.scheduled_for {
                    Some(_) => PhaseState::Scheduled,
                    None => PhaseState::Waiting,
                };
                self.push(queue, event, Arc::new(message), None, Some((event.number, state)));
            }
            LifeStep::EntityDeleted => {
                for (queue, number) in self.of_entity(queue.entity) {
                    let event = MessageEvent { sub: queue.sub, number, ..event.clone() };
                    self.follow_on(queue, number, &event, None);
                }
            }
            LifeStep::Activated { scheduled_as, .. } => {
                let Some(live) = self.live.get_mut(&(queue, *scheduled_as)) else { return };
                let enqueued_at = self.at;
                let message = TracedMessage { enqueued_at, ..(*live.message).clone() };
                live.message = Arc::new(message);
                self.follow_on(queue, *scheduled_as, event, Some(PhaseState::Waiting));
            }
            // Its delivery goes on.
            LifeStep::LockRenewed { .. } => (),
            LifeStep::Locked { nonce, delivery_count, .. } => {
                let (nonce, delivery_count) = (*nonce, *delivery_count);
                let locked = PhaseState::Locked { nonce, delivery_count };
                self.follow_on(queue, event.number, event, Some(locked));
            }
            LifeStep::Abandoned { .. }
            | LifeStep::Released
            | LifeStep::LockLapsed { .. }
            | LifeStep::DeadLettered { .. } => {
                self.follow_on(queue, event.number, event, Some(PhaseState::Waiting));
            }
            LifeStep::Deferred => {
                self.follow_on(queue, event.number, event, Some(PhaseState::Deferred));
            }
            LifeStep::Cancelled
            | LifeStep::Published { .. }
            | LifeStep::Completed { .. }
            | LifeStep::Expired { .. }
            | LifeStep::Deleted
            | LifeStep::Forwarded { .. } => self.follow_on(queue, event.number, event, None),
        }
    }

    /// `after`: what it is from here on, if it is still there.
    fn follow_on(
        &mut self,
        queue: QueueId,
        known_as: SequenceNumber,
        event: &MessageEvent,
        after: Option<PhaseState>,
    ) {
        let place = (queue, known_as);
        let Some(live) = self.live.remove(&place) else { return };
        let after = after.map(|state| (event.number, state));
        self.push(queue, event, live.message.clone(), Some((place, live)), after);
    }

    fn push(
        &mut self,
        queue: QueueId,
        event: &MessageEvent,
        message: Arc<TracedMessage>,
        before: Option<(PlaceKey, LiveMessage)>,
        after: Option<(SequenceNumber, PhaseState)>,
    ) {
        let after = after.map(|(number, state)| {
            let place = (lies_in(queue, &event.step), number);
            let phase = Phase { state, since: Some(self.at) };
            self.insert(place, LiveMessage { message: message.clone(), phase });
            place
        });
        let phase = before.as_ref().map(|(_, live)| live.phase);
        let event = event.clone();
        let step = TracedStep { at: self.at, queue, event, message, before: phase };
        self.steps.push((step, Undo { before, after }));
    }

    fn insert(&mut self, place: PlaceKey, message: LiveMessage) {
        if self.live.len() >= LIVE_MAX {
            self.live.pop_first();
            self.is_full = true;
        }
        self.live.insert(place, message);
    }

    /// The steps behind so many never happened.
    pub fn roll_back(&mut self, len: usize) {
        for (_, Undo { before, after }) in self.steps.drain(len..).rev() {
            if let Some(place) = after {
                self.live.remove(&place);
            }
            self.live.extend(before);
        }
    }

    fn of_entity(&self, id: EntityId) -> Vec<PlaceKey> {
        let from = (QueueId::main(id), SequenceNumber::MIN);
        let places = self.live.range(from..).map(|(place, _)| *place);
        places.take_while(|(queue, _)| queue.entity == id).collect()
    }
}

/// Where a message is behind a step.
fn lies_in(queue: QueueId, step: &LifeStep) -> QueueId {
    match (step, queue.sub) {
        (LifeStep::DeadLettered { .. }, SubQueue::Main) => QueueId::dead_letter(queue.entity),
        (LifeStep::DeadLettered { .. }, SubQueue::Transfer) => {
            QueueId::transfer_dead_letter(queue.entity)
        }
        _ => queue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SpanId, TraceId};

    #[test]
    fn so_many_are_known_and_what_is_forgotten_is_looked_up() {
        let mut traces = Traces::new(|_| None);
        let queue = QueueId::main(EntityId(1));
        traces.follow(queue.entity, SequenceNumber::FIRST);
        let context = TraceContext { trace: TraceId([1; 16]), parent: SpanId([1; 8]), state: None };
        let context = Arc::new(context);
        let released = LifeStep::Released;
        for number in 1..=LIVE_MAX as u64 {
            let found = LiveMessage::found(context.clone(), None, Timestamp::ZERO);
            traces.adopt((queue, SequenceNumber(number)), found);
        }
        let next = (queue, SequenceNumber(LIVE_MAX as u64 + 1));
        assert!(!traces.is_unknown(next, &released), "it would be among the live ones");
        traces.adopt(next, LiveMessage::found(context, None, Timestamp::ZERO));
        assert_eq!(traces.live.len(), LIVE_MAX);
        assert!(traces.is_unknown((queue, SequenceNumber(1)), &released));
        assert!(!traces.is_unknown(next, &released));
        traces.forget(queue.entity);
        assert!(traces.live.is_empty());
    }
}
