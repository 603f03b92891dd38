//! `Send`: acceptance (SEND), duplicate detection (DUP) and scheduling (SCHED).

use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::validate;
use crate::{
    BATCH_BYTES_MAX, DeadlineKind, Key, MessageRow, NewMessage, Outcome, Refusal, Row, Rows,
    ScheduledRow, Send, SequenceNumber, SessionId, Timestamp,
};

/// The last instant that is not never.
const LAST: Timestamp = Timestamp(Timestamp::NEVER.0 - 1);

impl Send {
    /// SEND-3: all of it or nothing, so everything is checked before the first row is written.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        let mut entity = step.open(self.entity)?;
        entity.check_send()?;
        self.check(&entity)?;
        entity.used();
        let sequences = self.messages.into_iter().map(|message| entity.accept(message)).collect();
        Ok(Outcome::Sent { sequences })
    }

    /// SEND-1: the order of checks after existence and status.
    fn check<R: Rows>(&self, entity: &EntityStep<'_, '_, R>) -> Result<(), Refusal> {
        validate::message_count(self.messages.len())?;
        let properties = entity.properties();
        let message_bytes_max = u64::from(properties.max_message_size_kilobytes) * 1024;
        let mut batch_bytes = 0;
        for message in &self.messages {
            let bytes = u64::from(message.size_bytes);
            batch_bytes += bytes;
            if bytes > message_bytes_max {
                let (what, max) = ("the message", message_bytes_max);
                return Err(Refusal::MessageSizeExceeded { what, bytes, max });
            }
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
        let used = entity.entity.state.size_bytes;
        let max = u64::from(properties.max_size_megabytes) * 1024 * 1024;
        if used >= max {
            return Err(Refusal::QuotaExceeded { what: "the entity (bytes)", used, max });
        }
        Ok(())
    }
}

impl<R: Rows> EntityStep<'_, '_, R> {
    /// One message that passed all checks; the number it has, or that of the message it repeats
    /// (DUP-2, DUP-9).
    fn accept(&mut self, message: NewMessage) -> SequenceNumber {
        if self.properties().requires_duplicate_detection
            && let Some(id) = message.message_id
        {
            let number = self.entity.state.next_sequence;
            if let Some(first) = self.recall_or_record(id, number) {
                return first;
            }
        }
        let number = self.next_sequence();
        self.view.insert(Key::Body(self.id, number), Row::Body(message.content));
        let session = message.session_id.filter(|_| self.properties().requires_session);
        let session = session.map(SessionId::from);
        let state = self.state();
        state.counts.accepted += 1;
        state.size_bytes += u64::from(message.size_bytes);

        // SCHED-8: not in the future, so it is a plain message.
        match message.scheduled_at.filter(|due| *due > self.at) {
            Some(due) => {
                let row = ScheduledRow {
                    due: due.min(LAST),
                    accepted_at: self.at,
                    size_bytes: message.size_bytes,
                    header_bytes: message.header_bytes,
                    ttl: message.ttl,
                    session,
                };
                if let Some(session) = &row.session {
                    self.list_scheduled(session, number);
                }
                self.add_deadline(DeadlineKind::Scheduled, row.due, number);
                self.view.insert(Key::Scheduled(self.id, number), Row::Scheduled(row));
                self.state().counts.scheduled += 1;
            }
            None => {
                let row = MessageRow {
                    body: number,
                    size_bytes: message.size_bytes,
                    header_bytes: message.header_bytes,
                    deferred: false,
                    delivery_count: 0,
                    enqueued_at: self.at,
                    lifetime: self.lifetime(message.ttl),
                    session,
                    overlay: None,
                };
                self.append(number, row);
            }
        }
        number
    }
}
