//! Flows: credit of links, and with it the windows of their sessions.

use super::event::{Event, LinkId, SessionId};
use super::fault::Fault;
use super::frames::FrameWriter;
use super::link::{Link, LinkPhase};
use super::outgoing::Gone;
use super::registry::Registry;
use super::session::Pumped;
use crate::codec::{Flow, Role};

pub(crate) struct CreditHandler<'a> {
    /// Of each session.
    pub incoming_window: u32,
    pub registry: &'a mut Registry,
    pub frames: &'a mut FrameWriter,
}

impl CreditHandler<'_> {
    pub(crate) fn on_flow(
        &mut self,
        session_id: SessionId,
        flow: &Flow,
    ) -> Result<Option<Event>, Fault> {
        let Some(session) = self.registry.session_mut(session_id) else { return Ok(None) };
        session.on_flow(flow);
        self.pump(session_id);
        let Some(handle) = flow.handle else {
            if flow.echo {
                self.registry.owe_flow(session_id);
            }
            return Ok(None);
        };
        let id = self.registry.remote_link(session_id, handle)?;
        let Some(link) = self.registry.link_mut(id) else { return Ok(None) };
        if matches!(link.phase, LinkPhase::DetachSent | LinkPhase::AttachSent) {
            return Ok(None);
        }
        let event = match link.role {
            Role::Sender => Some(credit_event(id, link, flow)),
            Role::Receiver => drain_event(id, link, flow),
        };
        // A drain is answered by the owner, which answers the echo as well.
        if flow.echo && !link.drain && link.phase == LinkPhase::Attached {
            self.write_flow(id, false);
        }
        Ok(event)
    }

    /// Writes what waits for the peer's window, as far as that goes.
    fn pump(&mut self, id: SessionId) {
        while let Some(session) = self.registry.session_mut(id) {
            match session.pump(self.frames) {
                Pumped::Nothing => return,
                Pumped::Part => {}
                Pumped::Delivery(link) => {
                    if self.registry.link(link).is_some_and(|link| link.owes_drained) {
                        // Its own deliveries may still wait; then it stays owed.
                        let _ = self.drained(link);
                    }
                }
            }
        }
    }

    /// See [`super::Connection::grant`].
    pub(crate) fn grant(&mut self, id: LinkId, window: u32) -> Result<(), Gone> {
        let link = self.registry.attached(id, Role::Receiver)?;
        link.window = window;
        let most = window.saturating_sub(link.unsettled);
        if link.credit > most {
            link.credit = most;
            self.write_flow(id, false);
        }
        self.registry.touch_link(id);
        Ok(())
    }

    /// See [`super::Connection::drain`].
    pub(crate) fn drain(&mut self, id: LinkId) -> Result<(), Gone> {
        let link = self.registry.attached(id, Role::Receiver)?;
        link.window = 0;
        link.drain = true;
        self.write_flow(id, true);
        Ok(())
    }

    /// See [`super::Connection::drained`].
    pub(crate) fn drained(&mut self, id: LinkId) -> Result<(), Gone> {
        let session = self.registry.attached(id, Role::Sender)?.session;
        let session = self.registry.session(session);
        let waits = session.is_some_and(|session| session.has_waiting(id));
        let link = self.registry.attached(id, Role::Sender)?;
        link.owes_drained = link.drain && waits;
        if !link.drain || waits {
            return Ok(());
        }
        link.delivery_count = link.delivery_count.wrapping_add(link.credit);
        link.credit = 0;
        self.write_flow(id, false);
        self.registry.attached(id, Role::Sender)?.drain = false;
        Ok(())
    }

    /// Tops up the credit of links that had some of their window come free since the last flush.
    pub(crate) fn flush(&mut self) {
        let mut links = std::mem::take(&mut self.registry.dirty_links);
        for id in links.drain(..) {
            let Some(link) = self.registry.link_mut(id) else { continue };
            link.is_dirty = false;
            if let Some(credit) = link.credit_due() {
                link.credit = credit;
                self.write_flow(id, false);
            }
        }
        self.registry.dirty_links = links;
    }

    /// A flow that says where a link stands.
    fn write_flow(&mut self, id: LinkId, echo: bool) {
        let Some(link) = self.registry.link(id) else { return };
        let (session, flow) = (link.session, link.flow(echo));
        if let Some(session) = self.registry.session_mut(session) {
            session.write_flow(flow, self.incoming_window, self.frames);
        }
    }
}

fn credit_event(id: LinkId, link: &mut Link, flow: &Flow) -> Event {
    // Null stands for the count at the attach (AMQP 1.0, part 2, 2.7.4).
    let delivery_count = flow.delivery_count.unwrap_or(0);
    link.credit = link.credit_after_flow(delivery_count, flow.link_credit.unwrap_or(0));
    link.drain = flow.drain;
    Event::Credit { link: id, credit: link.credit, drain: link.drain }
}

fn drain_event(id: LinkId, link: &mut Link, flow: &Flow) -> Option<Event> {
    let is_answer = link.drain && flow.drain;
    if is_answer {
        link.drain = false;
        link.delivery_count = flow.delivery_count.unwrap_or(link.delivery_count);
        link.credit = 0;
    }
    is_answer.then_some(Event::Drained(id))
}
