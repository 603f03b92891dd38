//! What happens to messages, written down for whoever records it, while an entry is applied: every step of
//! every message, or those of messages whose senders are traced, or both.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::machine::traces::{LiveMessage, Traces};
use crate::machine::view::View;
use crate::{
    Arrival, EntityId, EntityRow, Key, LifeStep, MessageEvent, NotedContent, PhaseState, QueueId,
    ReadTexts, ReadTraceContext, Row, Rows, SequenceNumber, Timestamp,
};

/// Names kept. More than that start over.
const NAMES_MAX: usize = 16 * 1024;

/// What a machine notes.
#[derive(Clone, Copy, Default)]
pub(super) struct Noted {
    /// Reads texts of contents, wherever anything is noted.
    pub texts: Option<ReadTexts>,
    /// Every step is.
    pub events: bool,
    /// Those of messages in which it finds a trace are.
    pub traces: Option<ReadTraceContext>,
}

/// The steps of messages since they were last taken.
pub(super) struct Recorder {
    /// Of the entities that were told of.
    names: BTreeMap<EntityId, Arc<str>>,
    read: ReadTexts,
    /// Absent: not every step is noted.
    events: Option<Vec<MessageEvent>>,
    pub traces: Option<Traces>,
}

/// How much was noted.
#[derive(Clone, Copy, Default)]
pub(super) struct Recorded {
    events: usize,
    traced: usize,
}

impl Recorder {
    /// Absent where nothing is noted.
    pub fn new(noted: Noted) -> Option<Recorder> {
        let traces = noted.traces.map(Traces::new);
        let (read, events) = (noted.texts?, noted.events.then(Vec::new));
        Some(Recorder { names: BTreeMap::new(), read, events, traces })
    }

    /// What was noted, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = MessageEvent> {
        self.events.iter_mut().flat_map(|events| events.drain(..))
    }

    pub fn recorded(&self) -> Recorded {
        let events = self.events.as_ref().map_or(0, Vec::len);
        Recorded { events, traced: self.traces.as_ref().map_or(0, Traces::len) }
    }

    /// What was noted since there was so much never happened (TX-2).
    pub fn truncate(&mut self, to: Recorded) {
        if let Some(events) = &mut self.events {
            events.truncate(to.events);
        }
        if let Some(traces) = &mut self.traces {
            traces.roll_back(to.traced);
        }
    }

    fn note(&mut self, row: &EntityRow, queue: QueueId, number: SequenceNumber, step: LifeStep) {
        let is_traced =
            self.traces.as_ref().is_some_and(|traces| traces.tells(queue, number, &step));
        if self.events.is_none() && !is_traced {
            return;
        }
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let entity =
            self.names.entry(queue.entity).or_insert_with(|| row.name.as_str().into()).clone();
        let event = MessageEvent { entity, sub: queue.sub, number, step };
        if let Some(traces) = self.traces.as_mut().filter(|_| is_traced) {
            traces.note(queue, &event);
        }
        if let Some(events) = &mut self.events {
            events.push(event);
        }
    }
}

impl<R> View<R> {
    /// What a content says that is noted, where its message is.
    pub fn content_to_note(&self, content: &Bytes) -> Option<NotedContent> {
        let recorder = self.recorder.as_ref()?;
        let trace = recorder.traces.as_ref().and_then(|traces| traces.read(content)).map(Arc::new);
        if recorder.events.is_none() && trace.is_none() {
            return None;
        }
        Some(NotedContent { texts: Arc::new((recorder.read)(content)), trace })
    }

    /// A message arrives by forwarding, or what is accepted from here on does not.
    pub fn set_arrival(&mut self, arrival: Option<Arrival>) {
        if let Some(traces) = self.traces() {
            traces.arrival = arrival;
        }
    }

    pub fn arrival(&self) -> Option<Arrival> {
        self.recorder.as_ref()?.traces.as_ref()?.arrival
    }

    /// From this number on, messages of an entity are known by what was noted of them.
    pub fn follow_entity(&mut self, id: EntityId, from: SequenceNumber) {
        if let Some(traces) = self.traces() {
            traces.follow(id, from);
        }
    }

    /// An entity has gone elsewhere, with its messages.
    pub fn forget_traces(&mut self, id: EntityId) {
        if let Some(traces) = self.traces() {
            traces.forget(id);
        }
    }

    /// A message whose content is at hand is told in its sender's trace, if it was not before.
    pub fn follow_trace(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        noted: &NotedContent,
        enqueued_at: Timestamp,
    ) {
        if let (Some(traces), Some(context)) = (self.traces(), &noted.trace) {
            let message_id = noted.texts.message_id.clone();
            let message = LiveMessage::found(context.clone(), message_id, enqueued_at);
            traces.adopt((queue, number), message);
        }
    }

    fn traces(&mut self) -> Option<&mut Traces> {
        self.recorder.as_mut()?.traces.as_mut()
    }
}

impl<R: Rows> View<R> {
    /// Notes a step of a message of the entity of that row, if that is wanted.
    pub fn note_event(
        &mut self,
        row: &EntityRow,
        queue: QueueId,
        number: SequenceNumber,
        step: impl FnOnce() -> LifeStep,
    ) {
        let Some(recorder) = &self.recorder else { return };
        let step = step();
        let place = match step {
            LifeStep::Activated { scheduled_as, .. } => (queue, scheduled_as),
            _ => (queue, number),
        };
        // It came before this process did, or before what was known of it was forgotten: its content says it.
        if recorder.traces.as_ref().is_some_and(|traces| traces.is_unknown(place, &step)) {
            self.look_up_trace(row, place, &step);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.note(row, queue, number, step);
        }
    }

    fn look_up_trace(
        &mut self,
        row: &EntityRow,
        place: (QueueId, SequenceNumber),
        step: &LifeStep,
    ) {
        // What is looked at for this, no budget pays for.
        let cost = self.cost();
        let found = self.stored_trace(row, place, step);
        self.set_cost(cost);
        if let (Some(found), Some(traces)) = (found, self.traces()) {
            traces.adopt(place, found);
        }
    }

    fn stored_trace(
        &mut self,
        row: &EntityRow,
        (queue, number): (QueueId, SequenceNumber),
        step: &LifeStep,
    ) -> Option<LiveMessage> {
        let message = match self.get(&Key::Message(queue, number)) {
            Some(Row::Message(message)) => Some(message),
            _ => None,
        };
        // Of a scheduled one there is no such row, and its body stands under its number.
        let is_scheduled = matches!(step, LifeStep::Activated { .. } | LifeStep::Cancelled);
        let body = match &message {
            Some(message) => message.body,
            None if is_scheduled => number,
            None => return None,
        };
        let owner = row.topic().unwrap_or(queue.entity);
        let Some(Row::Body(content)) = self.get(&Key::Body(owner, body)) else { return None };
        let recorder = self.recorder.as_ref()?;
        let context = Arc::new(recorder.traces.as_ref()?.read(&content)?);
        let message_id = (recorder.read)(&content).message_id;
        let Some(message) = message else {
            // It waits in the schedule, or did until now.
            let mut found = LiveMessage::found(context, message_id, Timestamp::ZERO);
            found.phase.state = PhaseState::Scheduled;
            return Some(found);
        };
        let mut found = LiveMessage::found(context, message_id, message.enqueued_at);
        found.was_before(step, message.delivery_count, queue.sub);
        Some(found)
    }
}
