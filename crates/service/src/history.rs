//! Where a message is, and where it has been: what nodes recorded of it, looked for on each of them and put together
//! by whoever is asked.

mod actors;
mod lives;
mod search;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::GroupId;
use parking_lot::Mutex;
use prost::Message;
use replication::{MessageHistory, RecordedEvent};
use wire::{native, v1};

pub use self::actors::Actor;
use self::actors::ActorNotes;
pub(crate) use self::actors::{Attribution, Deed};
pub(crate) use self::lives::{Looked, MessageSearch};
use self::search::Search;

/// What nodes ask each other. Asked and told as `AskHistoryRequest` and `AskHistoryResponse`.
pub(crate) const ASK_HISTORY: &str = "mayfly.v1.History/Ask";

/// Longest that a node looks, whatever it is asked.
const WITHIN_MAX: Duration = Duration::from_secs(10);

/// As the native API tells it.
pub fn recorded_event(group: GroupId, recorded: &RecordedEvent) -> v1::MessageEvent {
    let RecordedEvent { index, at, leader, event } = recorded;
    native::message_event(group, *index, *at, *leader, event)
}

/// This node's record, once its replicas are there; nothing where none is kept.
#[derive(Default)]
pub(crate) struct OwnHistory {
    recorded: OnceLock<Arc<MessageHistory>>,
    actors: OnceLock<Arc<ActorNotes>>,
    /// One looks at a time: it goes through all there is.
    looking: Mutex<()>,
}

impl OwnHistory {
    /// Who asked for what takes a third of what the record takes, as it is less.
    pub fn set(&self, node: u64, recorded: Option<Arc<MessageHistory>>) {
        if let Some(recorded) = recorded {
            let notes = || ActorNotes::new(node, recorded.bytes_max() / 3, recorded.keep());
            self.actors.get_or_init(|| Arc::new(notes()));
            self.recorded.get_or_init(|| recorded);
        }
    }

    /// On whose behalf something is asked for here, where it is recorded what happens.
    pub fn attribute(&self, actor: impl FnOnce() -> Actor) -> Attribution {
        match self.actors.get() {
            None => Attribution::default(),
            Some(notes) => Attribution::to(notes.clone(), actor()),
        }
    }

    /// Lets go of what is too old to be told.
    pub fn let_go(&self) {
        if let Some(recorded) = self.recorded.get() {
            recorded.let_go();
        }
        if let Some(notes) = self.actors.get() {
            notes.let_go();
        }
    }

    /// What is told a node that asks; `None`: it cannot be read. Holds its thread up for as long as it is given.
    pub fn answer(&self, asked: Bytes) -> Option<Bytes> {
        let asked = v1::AskHistoryRequest::decode(asked).ok()?;
        let within = Duration::from_millis(asked.within_ms.into()).min(WITHIN_MAX);
        Some(self.look(asked, Instant::now() + within).encode_to_vec().into())
    }

    fn look(&self, asked: v1::AskHistoryRequest, until: Instant) -> v1::AskHistoryResponse {
        let Some(recorded) = self.recorded.get() else {
            return v1::AskHistoryResponse::default();
        };
        let Some(_turn) = self.looking.try_lock_until(until) else {
            // Others look for something else all the time.
            return v1::AskHistoryResponse { recorded: true, more: true, ..Default::default() };
        };
        Search::of(asked).run(recorded, self.actors.get().map(|notes| &**notes), until)
    }
}

impl std::fmt::Debug for OwnHistory {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_recorded = self.recorded.get().is_some();
        out.debug_struct("OwnHistory").field("is_recorded", &is_recorded).finish_non_exhaustive()
    }
}
