//! What the peer's frames do.

use bytes::Bytes;
use bytestring::ByteString;

use super::connection::Connection;
use super::event::{Event, LinkId, SessionId, Side};
use super::fault::Fault;
use super::link::{Link, LinkPhase};
use super::session::{Received, Session, SessionPhase};
use crate::codec::{Attach, Begin, Detach, End, Flow, Performative, Role};
use crate::condition;

impl Connection {
    pub(super) fn on_begin(&mut self, channel: u16, begin: &Begin) -> Result<Event, Fault> {
        let limits = &self.config.limits;
        let window = limits.incoming_window;
        if channel > limits.channel_max {
            return Err(Fault::framing("the channel is above channel-max"));
        }
        if self.remote_channels.contains_key(&channel) {
            return Err(Fault::framing("the channel is in use"));
        }
        let id = match begin.remote_channel {
            Some(ours) => self.begun_by_us(ours)?,
            None => {
                let ours = self.free_channel(channel)?;
                let session = Session::new(ours, SessionPhase::Mapped, window);
                let id = SessionId(self.sessions.insert(session));
                self.channels.insert(ours, id);
                self.write_begin(ours, Some(channel));
                id
            }
        };
        self.remote_channels.insert(channel, id);
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.remote_channel = Some(channel);
            session.next_incoming_id = begin.next_outgoing_id;
            session.remote_incoming_window = begin.incoming_window;
            session.remote_handle_max = begin.handle_max;
        }
        Ok(Event::Began(id))
    }

    fn begun_by_us(&mut self, channel: u16) -> Result<SessionId, Fault> {
        let id = self.channels.get(&channel).copied();
        let session = id.and_then(|id| self.sessions.get_mut(id.0));
        match (id, session) {
            (Some(id), Some(session)) if session.phase == SessionPhase::BeginSent => {
                session.phase = SessionPhase::Mapped;
                Ok(id)
            }
            _ => Err(Fault::framing("a begin answers one that was not sent")),
        }
    }

    /// The peer's number where that is free, else the first that is.
    fn free_channel(&self, wished: u16) -> Result<u16, Fault> {
        let max = self.config.limits.channel_max.min(self.remote.channel_max);
        let is_free = |channel: &u16| *channel <= max && !self.channels.contains_key(channel);
        let found = Some(wished).filter(is_free).or_else(|| (0..=max).find(is_free));
        found.ok_or(Fault::framing("no channel is free"))
    }

    pub(super) fn on_session_frame(
        &mut self,
        channel: u16,
        performative: Performative,
        payload: Bytes,
    ) -> Result<Option<Event>, Fault> {
        let Some(&id) = self.remote_channels.get(&channel) else {
            return match performative {
                // Python answers the answers to its own detach and end.
                Performative::End(_) | Performative::Detach(_) => Ok(None),
                _ => Err(Fault::framing("no session has begun on this channel")),
            };
        };
        let phase = self.sessions.get(id.0).map(|session| session.phase);
        match (phase, performative) {
            (_, Performative::End(end)) => Ok(self.on_end(channel, id, end)),
            (Some(SessionPhase::EndSent) | None, _) => Ok(None),
            (_, Performative::Attach(attach)) => self.on_attach(id, attach),
            (_, Performative::Flow(flow)) => self.on_flow(id, &flow),
            (_, Performative::Transfer(transfer)) => self.on_transfer(id, transfer, payload),
            (_, Performative::Disposition(disposition)) => {
                self.on_disposition(id, disposition);
                Ok(None)
            }
            (_, Performative::Detach(detach)) => self.on_detach(id, detach),
            (_, Performative::Open(_) | Performative::Begin(_) | Performative::Close(_)) => {
                Err(Fault::framing("this frame is not one of a session"))
            }
        }
    }

    fn on_end(&mut self, remote_channel: u16, id: SessionId, end: End) -> Option<Event> {
        self.flush_session(id);
        self.forget_links(id);
        self.remote_channels.remove(&remote_channel);
        let session = self.sessions.remove(id.0)?;
        self.channels.remove(&session.channel);
        if session.phase == SessionPhase::EndSent {
            return None;
        }
        self.write(session.channel, &End { error: None });
        Some(Event::Ended { session: id, error: end.error, by: Side::Peer })
    }

    fn on_attach(
        &mut self,
        session_id: SessionId,
        attach: Box<Attach>,
    ) -> Result<Option<Event>, Fault> {
        let limits = &self.config.limits;
        let (handle_max, links_max) = (limits.handle_max, limits.links_max);
        if attach.handle > handle_max {
            return Err(Fault::framing("the handle is above handle-max"));
        }
        let Some(session) = self.sessions.get_mut(session_id.0) else { return Ok(None) };
        if session.remote_handles.contains_key(&attach.handle) {
            let why = "the handle is in use";
            return Err(Fault::session(session_id, condition::HANDLE_IN_USE, why));
        }
        let waits = |link: &Link| {
            link.remote_handle.is_none() && link.role != attach.role && link.name == attach.name
        };
        let mine = |id: &&LinkId| self.links.get(id.0).is_some_and(waits);
        if let Some(&id) = session.handles.values().find(mine) {
            session.remote_handles.insert(attach.handle, id);
            return Ok(self.on_attach_reply(id, attach));
        }
        let handle = session.free_handle(handle_max).filter(|_| self.links.len() < links_max);
        let Some(handle) = handle else {
            let why = "this connection has as many links as it may";
            return Err(Fault::session(session_id, condition::RESOURCE_LIMIT_EXCEEDED, why));
        };
        let role = attach.role.opposite();
        let mut link = Link::new(session_id, role, handle, LinkPhase::AttachReceived);
        // A copy, so that the link's name does not keep the frame it came in.
        link.name = ByteString::from(&*attach.name);
        link.remote_handle = Some(attach.handle);
        link.delivery_count = attach.initial_delivery_count.unwrap_or(0);
        let id = LinkId(self.links.insert(link));
        session.remote_handles.insert(attach.handle, id);
        session.handles.insert(handle, id);
        Ok(Some(Event::AttachRequested { session: session_id, link: id, attach }))
    }

    fn on_attach_reply(&mut self, id: LinkId, attach: Box<Attach>) -> Option<Event> {
        let link = self.links.get_mut(id.0)?;
        link.remote_handle = Some(attach.handle);
        if link.phase == LinkPhase::DetachSent {
            return None;
        }
        link.phase = LinkPhase::Attached;
        if attach.role == Role::Sender {
            link.delivery_count = attach.initial_delivery_count.unwrap_or(0);
        }
        Some(Event::Attached { link: id, attach })
    }

    fn on_detach(&mut self, session_id: SessionId, detach: Detach) -> Result<Option<Event>, Fault> {
        // One too many does no harm, see `on_session_frame`.
        let Ok(id) = self.remote_link(session_id, detach.handle) else { return Ok(None) };
        let Some(link) = self.links.get(id.0) else { return Ok(None) };
        let (handle, phase) = (link.handle, link.phase);
        if phase == LinkPhase::AttachReceived {
            // It was not told our handle yet, see `detach`.
            self.detach(id, None).ok();
        }
        self.flush_session(session_id);
        self.forget_link(id);
        if phase == LinkPhase::DetachSent {
            return Ok(None);
        }
        if phase != LinkPhase::AttachReceived {
            self.write_detach(session_id, handle, detach.closed, None);
        }
        let Detach { closed, error, .. } = detach;
        Ok(Some(Event::Detached { link: id, closed, error, by: Side::Peer }))
    }

    fn on_flow(&mut self, session_id: SessionId, flow: &Flow) -> Result<Option<Event>, Fault> {
        let Some(session) = self.sessions.get_mut(session_id.0) else { return Ok(None) };
        let next_incoming_id = flow.next_incoming_id.unwrap_or(0);
        session.remote_incoming_window =
            session.window_after_flow(next_incoming_id, flow.incoming_window);
        self.pump(session_id);
        let Some(handle) = flow.handle else {
            if flow.echo {
                self.owe_flow(session_id);
            }
            return Ok(None);
        };
        let id = self.remote_link(session_id, handle)?;
        let Some(link) = self.links.get_mut(id.0) else { return Ok(None) };
        if matches!(link.phase, LinkPhase::DetachSent | LinkPhase::AttachSent) {
            return Ok(None);
        }
        let event = match link.role {
            Role::Sender => Some(credit_event(id, link, flow)),
            Role::Receiver => drain_event(id, link, flow),
        };
        // A drain is answered by the owner, which answers the echo as well.
        if flow.echo && !link.drain && link.phase == LinkPhase::Attached {
            self.write_link_flow(id, false);
        }
        Ok(event)
    }

    pub(super) fn owe_flow(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.owes_flow = true;
            self.touch_session(id);
        }
    }

    pub(super) fn remote_link(&self, session_id: SessionId, handle: u32) -> Result<LinkId, Fault> {
        let session = self.sessions.get(session_id.0);
        let found = session.and_then(|session| session.remote_handles.get(&handle).copied());
        found.ok_or_else(|| {
            let why = "no link is attached at this handle";
            Fault::session(session_id, condition::UNATTACHED_HANDLE, why)
        })
    }

    /// Forgets what is unsettled, arriving or waiting on a link.
    pub(super) fn forget_deliveries(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        let arriving = link.partial.take().and_then(|partial| partial.payload.ok());
        self.partial_bytes -= arriving.map_or(0, |gathered| gathered.len()) as u64;
        link.unsettled = 0;
        let Some(session) = self.sessions.get_mut(link.session.0) else { return };
        session.sent.drain_where(|sent| sent.link == id, drop);
        session.waiting.retain(|unsent| unsent.link != id);
        let (unsettled, bytes) = (&mut self.incoming_unsettled, &mut self.incoming_bytes);
        let is_gone = |received: &Received| received.link == id;
        session.received.drain_where(is_gone, |received| {
            if !received.is_proposed {
                *unsettled -= 1;
                *bytes -= received.bytes;
            }
        });
    }

    fn forget_link(&mut self, id: LinkId) {
        self.forget_deliveries(id);
        let Some(link) = self.links.remove(id.0) else { return };
        let Some(session) = self.sessions.get_mut(link.session.0) else { return };
        session.handles.remove(&link.handle);
        if let Some(handle) = link.remote_handle {
            session.remote_handles.remove(&handle);
        }
    }

    pub(super) fn forget_links(&mut self, id: SessionId) {
        while let Some(session) = self.sessions.get(id.0)
            && let Some(link) = session.handles.values().next().copied()
        {
            self.forget_link(link);
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
