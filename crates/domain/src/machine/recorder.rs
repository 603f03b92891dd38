//! What happens to messages, written down for whoever records it, while an entry is applied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::Drain;

use bytes::Bytes;

use crate::machine::view::View;
use crate::{
    EntityId, EntityRow, LifeStep, MessageEvent, MessageTexts, QueueId, ReadTexts, SequenceNumber,
};

/// Names kept. More than that start over.
const NAMES_MAX: usize = 16 * 1024;

/// The steps of messages since they were last taken.
pub(super) struct Recorder {
    /// Of the entities that were told of.
    names: BTreeMap<EntityId, Arc<str>>,
    read: ReadTexts,
    events: Vec<MessageEvent>,
}

impl Recorder {
    pub fn new(read: ReadTexts) -> Recorder {
        Recorder { names: BTreeMap::new(), read, events: Vec::new() }
    }

    /// What was noted, in order.
    pub fn drain(&mut self) -> Drain<'_, MessageEvent> {
        self.events.drain(..)
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// What was noted since there were so many never happened (TX-2).
    pub fn truncate(&mut self, len: usize) {
        self.events.truncate(len);
    }

    fn note(&mut self, row: &EntityRow, queue: QueueId, number: SequenceNumber, step: LifeStep) {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let entity =
            self.names.entry(queue.entity).or_insert_with(|| row.name.as_str().into()).clone();
        self.events.push(MessageEvent { entity, sub: queue.sub, number, step });
    }
}

impl<R> View<R> {
    /// Notes a step of a message of the entity of that row, if that is wanted.
    pub fn note_event(
        &mut self,
        row: &EntityRow,
        queue: QueueId,
        number: SequenceNumber,
        step: impl FnOnce() -> LifeStep,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(row, queue, number, step());
        }
    }

    /// What a content says of itself, where steps are noted.
    pub fn texts_to_note(&self, content: &Bytes) -> Option<Arc<MessageTexts>> {
        let recorder = self.recorder.as_ref()?;
        Some(Arc::new((recorder.read)(content)))
    }
}
