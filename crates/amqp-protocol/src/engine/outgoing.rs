//! Messages to send, and what is in the way of sending them.

use thiserror::Error as ThisError;

use super::event::{DeliveryId, LinkId};
use super::frames::FrameWriter;
use super::link::LinkPhase;
use super::payload::Payload;
use super::registry::Registry;
use super::session::{Sent, Unsent};
use crate::Limits;
use crate::codec::{DeliveryState, Role, Tag};

/// The session, link or delivery this was meant for is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[error("it is gone")]
pub struct Gone;

/// Why a message cannot be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum SendError {
    #[error(transparent)]
    Gone(#[from] Gone),
    #[error("the receiver gave no credit")]
    NoCredit,
    /// [`super::Connection::room`] says when there is.
    #[error("too much is unsettled or not written yet")]
    Full,
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// For peek-lock deliveries the lock token (SETTLE-2).
    pub tag: Tag,
    pub message_format: u32,
    /// The receiver's verdict is not wanted: receive-and-delete, replies.
    pub settled: bool,
    /// As client: the transaction it belongs to.
    pub state: Option<DeliveryState>,
    pub payload: Payload,
}

pub(crate) struct DeliverySender<'a> {
    pub limits: &'a Limits,
    pub registry: &'a mut Registry,
    pub frames: &'a mut FrameWriter,
}

impl DeliverySender<'_> {
    /// See [`super::Connection::send`].
    pub(crate) fn send(
        &mut self,
        id: LinkId,
        outgoing: &Outgoing,
    ) -> Result<DeliveryId, SendError> {
        let link = self.registry.attached(id, Role::Sender)?;
        if link.credit == 0 {
            return Err(SendError::NoCredit);
        }
        if room(self.limits, self.registry, self.frames, id) == 0 {
            return Err(SendError::Full);
        }
        let link = self.registry.attached(id, Role::Sender)?;
        link.credit -= 1;
        link.delivery_count = link.delivery_count.wrapping_add(1);
        let (session_id, handle) = (link.session, link.handle);
        let now = self.frames.now;
        let session = self.registry.session_mut(session_id).ok_or(Gone)?;
        let delivery_id = session.next_delivery_id;
        session.next_delivery_id = delivery_id.wrapping_add(1);
        let Outgoing { tag, message_format, settled, ref state, ref payload } = *outgoing;
        if !settled {
            session.sent.push(delivery_id, Sent { link: id, tag, disposed_at: now });
        }
        let unsent = Unsent {
            link: id,
            handle,
            delivery_id,
            tag,
            message_format,
            settled,
            state: state.clone(),
            rest: payload.clone(),
            begun: false,
        };
        session.write_delivery(unsent, self.frames);
        Ok(DeliveryId { session: session_id, id: delivery_id })
    }
}

/// See [`super::Connection::room`].
pub(crate) fn room(limits: &Limits, registry: &Registry, frames: &FrameWriter, id: LinkId) -> u32 {
    let Some(link) = registry.link(id) else { return 0 };
    let Some(session) = registry.session(link.session) else { return 0 };
    // What waits for the peer's window counts like what waits to be written.
    let has_output_room = session.waiting.is_empty() && frames.waiting() <= limits.output_bytes_max;
    if link.phase != LinkPhase::Attached || !has_output_room {
        return 0;
    }
    let room = limits.outgoing_unsettled_max.saturating_sub(session.sent.len());
    link.credit.min(u32::try_from(room).unwrap_or(u32::MAX))
}
