//! What happens to messages, written down for whoever records it, while an entry is applied.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::machine::view::View;
use crate::{
    ContentHeader, EntityRow, LifeStep, MessageEvent, QueueId, ReadContent, SequenceNumber,
};

/// Names kept. More than that start over.
const NAMES_MAX: usize = 16 * 1024;

/// The names of entities, kept from step to step.
#[derive(Default)]
pub(super) struct Names(HashMap<crate::EntityId, Arc<str>>);

/// The steps of messages since they were last taken.
pub(super) struct Recorder {
    names: Names,
    read: Option<ReadContent>,
    events: Vec<MessageEvent>,
}

impl Recorder {
    pub fn new(names: Names, read: Option<ReadContent>) -> Recorder {
        Recorder { names, read, events: Vec::new() }
    }

    pub fn take(&mut self) -> Vec<MessageEvent> {
        std::mem::take(&mut self.events)
    }

    pub fn into_names(self) -> Names {
        self.names
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// What was noted since there were so many never happened (TX-2).
    pub fn truncate(&mut self, len: usize) {
        self.events.truncate(len);
    }

    fn note(&mut self, row: &EntityRow, queue: QueueId, number: SequenceNumber, step: LifeStep) {
        let names = &mut self.names.0;
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        let entity = names.entry(queue.entity).or_insert_with(|| row.name.as_str().into()).clone();
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
    pub fn header_to_note(&self, content: &Bytes) -> Option<Arc<ContentHeader>> {
        let recorder = self.recorder.as_ref()?;
        let header = recorder.read.and_then(|read| read(content));
        Some(Arc::new(header.unwrap_or_default()))
    }
}
