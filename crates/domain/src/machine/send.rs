//! `Send`: acceptance (SEND), duplicate detection (DUP) and scheduling (SCHED).

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::validate;
use crate::{
    BATCH_BYTES_MAX, DeadlineKind, EntityKind, Key, MessageRow, NewMessage, Outcome, Refusal, Row,
    Rows, ScheduledRow, Send, SequenceNumber, SessionId, Timestamp, Travel,
};

/// The last instant that is not never.
const LAST: Timestamp = Timestamp(Timestamp::NEVER.0 - 1);

impl Send {
    /// SEND-3: all of it or nothing, so everything is checked before the first row is written.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        if entity.kind() == EntityKind::Topic {
            return self.publish(step);
        }
        entity.check_send()?;
        self.check(&entity)?;
        entity.used();
        let sequences =
            self.messages.into_iter().map(|message| entity.accept(message, None)).collect();
        Ok(Outcome::Sent { sequences })
    }

    /// SEND-1: the order of checks after existence and status.
    pub(super) fn check<R: Rows>(&self, entity: &EntityStep<'_, '_, R>) -> Result<(), Refusal> {
        validate::message_count(self.messages.len())?;
        let properties = entity.properties();
        let mut batch_bytes = 0;
        for message in &self.messages {
            batch_bytes += u64::from(message.size_bytes);
            entity.check_message_size(message)?;
        }
        if batch_bytes > BATCH_BYTES_MAX as u64 {
            let (what, bytes, max) = ("the batch", batch_bytes, BATCH_BYTES_MAX as u64);
            return Err(Refusal::MessageSizeExceeded { what, bytes, max });
        }
        self.messages.iter().try_for_each(validate::new_message)?;
        let sessionless = |message: &NewMessage| message.session_id.is_none();
        if properties.requires_session && self.messages.iter().any(sessionless) {
            let why = "this entity requires sessions; give every message a SessionId";
            return Err(Refusal::InvalidOperation { why }); // SEND-4.
        }
        entity.check_size()
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    fn check_message_size(&self, message: &NewMessage) -> Result<(), Refusal> {
        let max = u64::from(self.properties().max_message_size_kilobytes) * 1024;
        let bytes = u64::from(message.size_bytes);
        match bytes > max {
            true => Err(Refusal::MessageSizeExceeded { what: "the message", bytes, max }),
            false => Ok(()),
        }
    }

    /// What a message by itself must keep to, in the order of SEND-1.
    pub fn check_message(&self, message: &NewMessage) -> Result<(), Refusal> {
        self.check_message_size(message)?;
        validate::new_message(message)
    }

    /// SEND-2: before it is stored.
    pub fn check_size(&self) -> Result<(), Refusal> {
        let used = self.entity.state.size_bytes;
        let max = u64::from(self.properties().max_size_megabytes) * 1024 * 1024;
        match used >= max {
            true => Err(Refusal::QuotaExceeded { what: "the entity (bytes)", used, max }),
            false => Ok(()),
        }
    }

    /// One message that passed all checks; the number it has, or that of the message it repeats
    /// (DUP-2, DUP-9).
    pub fn accept(
        &mut self,
        mut message: NewMessage,
        travel: Option<Box<Travel>>,
    ) -> SequenceNumber {
        if let Some(first) = self.repeats(&mut message) {
            return first;
        }
        let number = self.next_sequence();
        self.state().counts.accepted += 1;
        // SCHED-8: not in the future, so it is a plain message.
        if let Some(due) = message.scheduled_at.filter(|due| *due > self.at) {
            self.schedule(number, due, message, travel);
            return number;
        }
        self.view.insert(Key::Body(self.id, number), Row::Body(message.content));
        self.state().size_bytes += u64::from(message.size_bytes);
        let row = MessageRow {
            body: number,
            size_bytes: message.size_bytes,
            header_bytes: message.header_bytes,
            deferred: false,
            delivery_count: 0,
            enqueued_at: self.at,
            lifetime: self.lifetime(message.ttl),
            session: self.session_of(message.session_id),
            overlay: None,
            travel,
        };
        self.append(number, row);
        number
    }

    /// The session a message belongs to, where that matters.
    fn session_of(&self, session: Option<String>) -> Option<SessionId> {
        session.filter(|_| self.properties().requires_session).map(SessionId::from)
    }

    /// The number of the message that this one repeats; otherwise its id, which is taken out of it,
    /// is in the history from now on.
    pub fn repeats(&mut self, message: &mut NewMessage) -> Option<SequenceNumber> {
        if !self.properties().requires_duplicate_detection {
            return None;
        }
        let id = message.message_id.take()?;
        let number = self.entity.state.next_sequence;
        self.recall_or_record(id, number)
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
        let session = match self.entity.row.specifics.kind() {
            EntityKind::Topic => message.session_id.map(SessionId::from),
            _ => self.session_of(message.session_id),
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
        if let Some(session) = row.session.as_ref().filter(|_| self.properties().requires_session) {
            self.list_scheduled(session, number);
        }
        self.view.insert(Key::Body(self.id, number), Row::Body(message.content));
        self.add_deadline(DeadlineKind::Scheduled, row.due, number, None);
        self.view.insert(Key::Scheduled(self.id, number), Row::Scheduled(row));
        let state = self.state();
        state.size_bytes += u64::from(message.size_bytes);
        state.counts.scheduled += 1;
    }

    /// Takes a message out of the schedule; its body stays, and its time is the caller's to take off.
    pub fn unschedule(&mut self, number: SequenceNumber) {
        self.view.delete(Key::Scheduled(self.id, number));
        self.state().counts.scheduled -= 1;
    }
}
