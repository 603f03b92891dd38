//! Transfers of the peer: frames counted, pieces joined, limits kept.

use bytes::Bytes;

use super::event::{Delivery, DeliveryId, Event, LinkId, Millis, SessionId, TooLarge};
use super::fault::Fault;
use super::link::{Gathered, Link, LinkPhase, Partial};
use super::registry::Registry;
use super::session::Received;
use crate::Limits;
use crate::codec::{Role, Transfer};
use crate::condition;

pub(crate) struct DeliveryReceiver<'a> {
    pub limits: &'a Limits,
    pub now: Millis,
    pub registry: &'a mut Registry,
}

impl DeliveryReceiver<'_> {
    pub(crate) fn on_transfer(
        &mut self,
        session_id: SessionId,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<Option<Event>, Fault> {
        self.count_frame(session_id)?;
        let id = self.registry.remote_link(session_id, transfer.handle)?;
        let Some(link) = self.registry.links.get_mut(id.0) else { return Ok(None) };
        match (link.phase, link.role) {
            (LinkPhase::DetachSent, _) => return Ok(None),
            (LinkPhase::Attached, Role::Receiver) => {}
            (LinkPhase::Attached, Role::Sender) => {
                let why = "this side is the sender of the link";
                return Err(Fault::session(session_id, condition::ERRANT_LINK, why));
            }
            (LinkPhase::AttachReceived | LinkPhase::AttachSent, _) => {
                let why = "no credit was given yet";
                return Err(Fault::link(id, condition::TRANSFER_LIMIT_EXCEEDED, why));
            }
        }
        let mut partial = match link.partial.take() {
            Some(partial) => {
                let bytes = partial.payload.as_ref().map_or(0, Gathered::len);
                self.registry.incoming.partial_bytes -= bytes as u64;
                partial
            }
            None => begin_delivery(session_id, id, link, &transfer)?,
        };
        if transfer.delivery_id.is_some_and(|found| found != partial.id.id) {
            let why = "another delivery begins before the last one is complete";
            return Err(Fault::link(id, condition::INVALID_FIELD, why));
        }
        if transfer.aborted {
            self.registry.touch_link(id);
            return Ok(None);
        }
        partial.add(&transfer, &payload, link.message_bytes_max);
        if transfer.more {
            self.keep_partial(id, partial)?;
            return Ok(None);
        }
        Ok(Some(self.complete(partial)))
    }

    /// A transfer frame used some of the session's window (AMQP 1.0, part 2, 2.5.6). A client that
    /// counts otherwise (FLOW-3) is told off only when it is a whole window too far.
    fn count_frame(&mut self, id: SessionId) -> Result<(), Fault> {
        let window = i64::from(self.limits.incoming_window);
        let Some(session) = self.registry.session_mut(id) else { return Ok(()) };
        session.next_incoming_id = session.next_incoming_id.wrapping_add(1);
        session.incoming_window -= 1;
        if session.incoming_window < -window {
            let why = "more frames than the incoming window allows";
            return Err(Fault::session(id, condition::WINDOW_VIOLATION, why));
        }
        if session.incoming_window <= window / 2 {
            self.registry.owe_flow(id);
        }
        Ok(())
    }

    fn keep_partial(&mut self, id: LinkId, partial: Partial) -> Result<(), Fault> {
        let bytes = partial.payload.as_ref().map_or(0, Gathered::len);
        if self.registry.incoming.partial_bytes + bytes as u64 > self.limits.incoming_bytes_max {
            let why = "too many bytes of incomplete messages";
            return Err(Fault::link(id, condition::RESOURCE_LIMIT_EXCEEDED, why));
        }
        self.registry.incoming.partial_bytes += bytes as u64;
        if let Some(link) = self.registry.link_mut(id) {
            link.partial = Some(partial);
        }
        Ok(())
    }

    fn complete(&mut self, partial: Partial) -> Event {
        let Partial { id, link, tag, message_format, settled, state, payload } = partial;
        let payload = payload.map(Gathered::finish);
        if !settled {
            let bytes = payload.as_ref().map_or(0, |bytes| bytes.len() as u64);
            self.registry.incoming.unsettled += 1;
            self.registry.incoming.bytes += bytes;
            if let Some(link) = self.registry.link_mut(link) {
                link.unsettled += 1;
            }
            let arrived_at = self.now;
            if let Some(session) = self.registry.session_mut(id.session) {
                let received = Received { link, bytes, arrived_at, is_proposed: false };
                session.received.push(id.id, received);
            }
        }
        self.registry.touch_link(link);
        Event::Delivery(Delivery { id, link, tag, message_format, settled, state, payload })
    }
}

fn begin_delivery(
    session: SessionId,
    id: LinkId,
    link: &mut Link,
    transfer: &Transfer,
) -> Result<Partial, Fault> {
    if transfer.resume {
        let why = "deliveries are not resumed here";
        return Err(Fault::link(id, condition::NOT_IMPLEMENTED, why));
    }
    let Some(delivery_id) = transfer.delivery_id else {
        let why = "the first frame of a delivery has no delivery-id";
        return Err(Fault::link(id, condition::INVALID_FIELD, why));
    };
    link.delivery_count = link.delivery_count.wrapping_add(1);
    // FLOW-5: beyond the credit is not an error. What waits for a verdict is bounded all the same.
    link.credit = link.credit.saturating_sub(1);
    Ok(Partial {
        id: DeliveryId { session, id: delivery_id },
        link: id,
        tag: transfer.delivery_tag.unwrap_or_default(),
        message_format: transfer.message_format.unwrap_or(0),
        settled: false,
        state: None,
        payload: Ok(Gathered::One(Bytes::new())),
    })
}

impl Partial {
    fn add(&mut self, transfer: &Transfer, payload: &Bytes, max: u64) {
        self.settled |= transfer.settled == Some(true);
        if let Some(state) = &transfer.state {
            self.state = Some(state.clone());
        }
        let more = payload.len() as u64;
        match &mut self.payload {
            Ok(gathered) => {
                let bytes = gathered.len() as u64 + more;
                match bytes > max {
                    true => {
                        let head = gathered.head(payload, TooLarge::HEAD_BYTES_MAX);
                        self.payload = Err(TooLarge { bytes, max, head });
                    }
                    false => gathered.add(payload),
                }
            }
            Err(too_large) => too_large.bytes += more,
        }
    }
}
