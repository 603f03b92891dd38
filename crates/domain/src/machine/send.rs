//! `Send`: acceptance (SEND), duplicate detection (DUP) and scheduling (SCHED).

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::level::GroupLevel;
use crate::{
    AcceptedMessage, Deed, EntityKind, EntityRow, EntityState, Key, LifeStep, MessageRow,
    NewMessage, Outcome, QueueId, Refusal, Row, Rows, ScheduledRow, Send, SequenceNumber,
    SessionId, Span, SubQueue, Timestamp, Travel,
};

/// The last instant that is not never.
const LAST: Timestamp = Timestamp(Timestamp::NEVER.0 - 1);

impl Send {
    /// SEND-3: all of it or nothing, so everything is checked before the first row is written.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        if entity.row.kind() == EntityKind::Topic {
            return self.publish(step);
        }
        entity.row.check_send()?;
        self.check(entity.view.level, entity.row, entity.state)?;
        entity.used();
        let sequences =
            self.messages.into_iter().map(|message| entity.accept(message, None)).collect();
        Ok(Outcome::Sent { sequences })
    }

    /// SEND-1: the order of checks after existence and status.
    pub(super) fn check(
        &self,
        level: GroupLevel,
        row: &EntityRow,
        state: &EntityState,
    ) -> Result<(), Refusal> {
        self.messages.iter().try_for_each(|message| row.check_message_size(message))?;
        level.batch(&self.messages)?;
        self.messages.iter().try_for_each(|message| level.new_message(message))?;
        let sessionless = |message: &NewMessage| message.session_id.is_none();
        if row.properties.requires_session && self.messages.iter().any(sessionless) {
            let why = "this entity requires sessions; give every message a SessionId";
            return Err(Refusal::InvalidOperation { why }); // SEND-4.
        }
        row.check_partition(&self.messages)?;
        row.check_size(state)
    }
}

impl<R: Rows> EntityStep<'_, R> {
    /// One message that passed all checks; the number it has, or that of the message it repeats
    /// (DUP-2, DUP-9).
    pub fn accept(
        &mut self,
        mut message: NewMessage,
        travel: Option<Box<Travel>>,
    ) -> SequenceNumber {
        if let Some(first) = self.repeats(&mut message) {
            self.tally.count(Deed::Duplicate);
            return first;
        }
        let number = self.next_sequence();
        self.state.counts.accepted += 1;
        self.tally.accepted(message.size_bytes);
        let hops = travel.as_ref().map_or(0, |travel| travel.hops);
        self.note_accepted(self.main(), number, &message, hops);
        // SCHED-8: not in the future, so it is a plain message.
        if let Some(due) = message.scheduled_at.filter(|due| *due > self.at) {
            self.schedule(number, due, message, travel);
            return number;
        }
        self.view.insert(Key::Body(self.id, number), Row::Body(message.content));
        self.state.size_bytes += u64::from(message.size_bytes);
        let row = MessageRow {
            body: number,
            size_bytes: message.size_bytes,
            header_bytes: message.header_bytes,
            deferred: false,
            was_scheduled: false,
            delivery_count: 0,
            enqueued_at: self.at,
            lifetime: self.row.lifetime(message.ttl, self.at),
            session: self.row.session_of(message.session_id),
            overlay: None,
            travel,
        };
        self.messages().append(number, row);
        number
    }

    /// Notes that a message comes into being here.
    pub fn note_accepted(
        &mut self,
        queue: QueueId,
        number: SequenceNumber,
        message: &NewMessage,
        hops: u32,
    ) {
        let Some(noted) = self.view.content_to_note(&message.content) else { return };
        // FWD-14: on its way to another entity it waits there.
        let waits = queue.sub == SubQueue::Main;
        let scheduled_for = message.scheduled_at.filter(|due| waits && *due > self.at);
        let ttl = message.ttl.unwrap_or(Span::MAX).min(self.row.properties.default_ttl);
        let expires_at = scheduled_for.is_none().then(|| self.at.plus(ttl));
        let (size_bytes, published_as) = (message.size_bytes, None);
        let accepted = AcceptedMessage {
            texts: noted.texts,
            size_bytes,
            scheduled_for,
            expires_at,
            published_as,
            published_by: None,
            hops,
            arrival: self.view.arrival(),
            trace: noted.trace,
        };
        self.view.note_event(self.row, queue, number, || LifeStep::Accepted(accepted.into()));
    }

    /// The number of the message that this one repeats; otherwise its id, which is taken out of it,
    /// is in the history from now on.
    pub fn repeats(&mut self, message: &mut NewMessage) -> Option<SequenceNumber> {
        let number = self.state.next_sequence;
        let mut history = self.history()?;
        let id = history.id_of(message)?;
        message.message_id = None;
        history.recall_or_record(id, number)
    }

    /// SCHED-1: stores a message until its time.
    pub fn schedule(
        &mut self,
        number: SequenceNumber,
        due: Timestamp,
        message: NewMessage,
        travel: Option<Box<Travel>>,
    ) {
        // A topic knows no sessions, but its subscriptions may.
        let session = match self.row.kind() {
            EntityKind::Topic => message.session_id.map(SessionId::from),
            EntityKind::Queue | EntityKind::Subscription => self.row.session_of(message.session_id),
        };
        let row = ScheduledRow {
            due: due.min(LAST),
            accepted_at: self.at,
            size_bytes: message.size_bytes,
            header_bytes: message.header_bytes,
            ttl: message.ttl,
            session,
            travel,
        };
        self.view.insert(Key::Body(self.id, number), Row::Body(message.content));
        self.state.size_bytes += u64::from(message.size_bytes);
        self.messages().enter_schedule(number, row);
    }
}
