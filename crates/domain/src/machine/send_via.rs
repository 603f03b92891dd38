//! `SendVia`: messages for another entity, through this one (FWD-14). They are a shipment from the
//! start: nobody receives them here, and nothing of them expires.

use crate::forward::TRANSFERS_MAX;
use crate::machine::Step;
use crate::machine::entity::EntityStep;
use crate::machine::level::GroupLevel;
use crate::{
    EntityRow, EntityState, Key, Lifetime, MessageRow, NewMessage, Outcome, Overlay, QueueId,
    Refusal, Row, Rows, SendVia, SequenceNumber,
};

impl SendVia {
    /// All of it or nothing (SEND-3). What its destination thinks of it is found there.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        // What is stored counts against a topic (COUNT-3), that of this entry as well.
        step.charge_topics();
        let mut entity = step.open(self.via)?;
        entity.row.check_send()?;
        self.check(entity.view.level, entity.row, entity.state)?;
        entity.used();
        let messages = self.messages.into_iter();
        let sequences: Vec<_> = messages.map(|message| set_out(&mut entity, message)).collect();
        let queue = QueueId::transfer(self.via);
        entity.messages().shipments().dispatch(queue, self.destination, sequences.clone());
        Ok(Outcome::Sent { sequences })
    }

    /// SEND-1, of what the entity between has a say in. Sessions and duplicates are the destination's
    /// (FWD-6, DUP-12).
    fn check(
        &self,
        level: GroupLevel,
        row: &EntityRow,
        state: &EntityState,
    ) -> Result<(), Refusal> {
        self.messages.iter().try_for_each(|message| row.check_message(level, message))?;
        level.batch(&self.messages)?;
        row.check_size(state)?;
        let used = state.counts.transfer;
        match used >= TRANSFERS_MAX {
            true => {
                let what = "the transfer queue (messages)";
                Err(Refusal::QuotaExceeded { what, used, max: TRANSFERS_MAX })
            }
            false => Ok(()),
        }
    }
}

/// Stores a message under a number of this entity (SEQ-8).
fn set_out<R: Rows>(entity: &mut EntityStep<'_, R>, message: NewMessage) -> SequenceNumber {
    let number = entity.next_sequence();
    entity.note_accepted(QueueId::transfer(entity.id), number, &message, 0);
    let lifetime = match message.ttl {
        None => Lifetime::Derived,
        // TTL-28: the default here is no limit, for it is not enqueued here.
        Some(ttl) => Lifetime::Fixed { ttl, expires_at: entity.at.plus(ttl) },
    };
    let overlay = message.scheduled_at.map(|due| {
        Box::new(Overlay { scheduled_at: Some(due), ..Overlay::default() }) // FWD-6.
    });
    let row = MessageRow {
        body: number,
        size_bytes: message.size_bytes,
        header_bytes: message.header_bytes,
        deferred: false,
        was_scheduled: false,
        delivery_count: 0,
        enqueued_at: entity.at,
        lifetime,
        session: None,
        overlay,
        travel: None,
    };
    entity.view.insert(Key::Body(entity.id, number), Row::Body(message.content));
    entity.state.size_bytes += u64::from(message.size_bytes);
    entity.state.counts.accepted += 1;
    entity.tally.accepted(message.size_bytes);
    entity.messages().enter_transfer(number, row);
    number
}
