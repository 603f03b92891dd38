//! Dispositions, both ways: what the peer says of deliveries, and what the owner does.

use super::connection::{Connection, Disposing};
use super::event::{DeliveryId, Event, SessionId};
use super::flush::Saying;
use super::outgoing::Gone;
use super::session::Received;
use crate::codec::{DeliveryState, Disposition, Role};

impl Connection {
    /// The verdict on a delivery that was received, exactly one for each that was not settled by its
    /// sender. Written at the next flush, together with its neighbours.
    pub fn settle(&mut self, delivery: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        let session = self.sessions.get_mut(delivery.session.0).ok_or(Gone)?;
        let received = session.received.remove(delivery.id).ok_or(Gone)?;
        self.count_verdict(received);
        self.gather(delivery.session, Saying::Verdict, delivery.id, state);
        Ok(())
    }

    /// As receiver: a verdict that the sender still has to confirm (the SDKs' way, SETTLE-4).
    /// [`super::Event::Settled`] is the answer. Written at the next flush, together with its
    /// neighbours.
    pub fn propose(&mut self, delivery: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        let session = self.sessions.get_mut(delivery.session.0).ok_or(Gone)?;
        let received = session.received.get_mut(delivery.id).ok_or(Gone)?;
        let before = *received;
        received.is_proposed = true;
        self.count_verdict(before);
        self.gather(delivery.session, Saying::Proposal, delivery.id, state);
        Ok(())
    }

    /// The answer to a receiver's verdict on what was sent (SETTLE-4, SETTLE-5). Written at the next
    /// flush.
    pub fn answer(&mut self, delivery: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        let session = self.sessions.get_mut(delivery.session.0).ok_or(Gone)?;
        session.sent.remove(delivery.id).ok_or(Gone)?;
        self.gather(delivery.session, Saying::Answer, delivery.id, state);
        Ok(())
    }

    pub(super) fn on_disposition(&mut self, session: SessionId, disposition: Disposition) {
        let Disposition { role, first, last, settled, state, .. } = disposition;
        let last = last.unwrap_or(first);
        self.disposing = Some(Disposing { session, role, next: first, last, settled, state });
    }

    /// The next delivery of the peer's disposition. Its range is walked over what is outstanding, so it
    /// costs what is there and not what it claims (SETTLE-11).
    pub(super) fn next_disposed(&mut self) -> Option<Event> {
        let disposing = self.disposing.as_mut()?;
        let session_id = disposing.session;
        let (next, last, settled) = (disposing.next, disposing.last, disposing.settled);
        let session = self.sessions.get_mut(session_id.0);
        let found = session.and_then(|session| {
            let found = match disposing.role {
                Role::Receiver => session.sent.first_within(next, last),
                // Only a sender that settles says anything new.
                Role::Sender if settled => session.received.first_within(next, last),
                Role::Sender => None,
            };
            found.map(|id| (session, id))
        });
        let Some((session, id)) = found else {
            self.disposing = None;
            return None;
        };
        disposing.next = id.wrapping_add(1);
        let state = disposing.state.clone();
        let role = disposing.role;
        if id == last {
            self.disposing = None;
        }
        let delivery = DeliveryId { session: session_id, id };
        match role {
            Role::Receiver => {
                let sent = match settled {
                    true => session.sent.remove(id)?,
                    false => *session.sent.get(id)?,
                };
                let (link, tag) = (sent.link, sent.tag);
                Some(Event::Disposed { id: delivery, link, tag, state, settled })
            }
            Role::Sender => {
                let received = session.received.remove(id)?;
                self.count_verdict(received);
                Some(Event::Settled { id: delivery, state })
            }
        }
    }

    /// One delivery less that waits for a verdict, unless it was proposed one before: the owner need not
    /// think about it any more, and the window of its link has a place for another.
    pub(super) fn count_verdict(&mut self, received: Received) {
        if received.is_proposed {
            return;
        }
        self.incoming_unsettled -= 1;
        self.incoming_bytes -= received.bytes;
        if let Some(link) = self.links.get_mut(received.link.0) {
            link.unsettled -= 1;
            self.touch_link(received.link);
        }
    }
}
