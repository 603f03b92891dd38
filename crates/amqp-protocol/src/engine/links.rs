//! Links that are asked for, answered and ended.

use super::event::{Event, LinkId, SessionId, Side};
use super::fault::Fault;
use super::frames::{FrameWriter, Reason};
use super::link::{Link, LinkPhase};
use super::outgoing::Gone;
use super::registry::Registry;
use crate::Limits;
use crate::codec::{AnyTarget, Attach, Composite, Detach, Error, Role};
use crate::condition;

pub(crate) struct LinkHandler<'a> {
    pub limits: &'a Limits,
    pub registry: &'a mut Registry,
    pub frames: &'a mut FrameWriter,
}

impl LinkHandler<'_> {
    /// See [`super::Connection::attach`].
    pub(crate) fn attach(&mut self, session: SessionId, attach: Attach) -> Result<LinkId, Gone> {
        let found = self.registry.session(session).ok_or(Gone)?;
        let handle = found.free_handle(self.limits.handle_max).ok_or(Gone)?;
        let mut link = Link::new(session, attach.role, handle, LinkPhase::AttachSent);
        link.name = attach.name.clone();
        link.message_bytes_max = attach.max_message_size.unwrap_or(u64::MAX);
        let id = self.registry.add_link(link);
        self.write(session, &Attach { handle, ..attach });
        Ok(id)
    }

    pub(crate) fn on_attach(
        &mut self,
        session_id: SessionId,
        attach: Box<Attach>,
    ) -> Result<Option<Event>, Fault> {
        let Limits { handle_max, links_max, .. } = *self.limits;
        if attach.handle > handle_max {
            return Err(Fault::framing("the handle is above handle-max"));
        }
        let Some(session) = self.registry.session(session_id) else { return Ok(None) };
        if session.remote_handles.contains_key(&attach.handle) {
            let why = "the handle is in use";
            return Err(Fault::session(session_id, condition::HANDLE_IN_USE, why));
        }
        let waits = |link: &Link| {
            link.remote_handle.is_none() && link.role != attach.role && link.name == attach.name
        };
        let ours = |id: &&LinkId| self.registry.link(**id).is_some_and(waits);
        if let Some(&id) = session.handles.values().find(ours) {
            return Ok(self.on_attach_reply(id, attach));
        }
        let links = self.registry.links.len();
        let handle = session.free_handle(handle_max).filter(|_| links < links_max);
        let Some(handle) = handle else {
            self.registry.refused.links += 1;
            let why = "this connection has as many links as it may";
            return Err(Fault::session(session_id, condition::RESOURCE_LIMIT_EXCEEDED, why));
        };
        let (attach, bytes) = attach.compact(self.limits)?;
        let role = attach.role.opposite();
        let mut link = Link::new(session_id, role, handle, LinkPhase::AttachReceived);
        link.name = attach.name.clone();
        link.remote_handle = Some(attach.handle);
        link.delivery_count = attach.initial_delivery_count.unwrap_or(0);
        let id = self.registry.add_link(link);
        self.keep_remote_handle(session_id, attach.handle, id);
        if let Some(error) = self.is_too_much(bytes) {
            let reply = self.registry.link(id).map(Link::bare_attach);
            if let Some(reply) = reply {
                self.refuse(id, reply, error).ok();
            }
            return Ok(None);
        }
        self.registry.attach_bytes += bytes;
        if let Some(link) = self.registry.link_mut(id) {
            link.attach_bytes = bytes;
        }
        let attach = Box::new(attach);
        Ok(Some(Event::AttachRequested { session: session_id, link: id, attach }))
    }

    /// CONN-26: why an attach that takes so many bytes is not kept.
    fn is_too_much(&self, bytes: usize) -> Option<Error> {
        let Limits { attach_bytes_max, attaches_bytes_max, .. } = *self.limits;
        let (what, all, max) = match bytes > attach_bytes_max {
            true => ("what this attach says", bytes, attach_bytes_max),
            false => {
                let all = self.registry.attach_bytes + bytes;
                ("what all attaches of this connection say", all, attaches_bytes_max)
            }
        };
        (all > max).then(|| {
            let why = format!("{what} takes {all} bytes of memory, and may take {max}");
            Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why)
        })
    }

    fn on_attach_reply(&mut self, id: LinkId, attach: Box<Attach>) -> Option<Event> {
        let link = self.registry.link_mut(id)?;
        link.remote_handle = Some(attach.handle);
        let (session, is_ended) = (link.session, link.phase == LinkPhase::DetachSent);
        if !is_ended {
            link.phase = LinkPhase::Attached;
            if attach.role == Role::Sender {
                link.delivery_count = attach.initial_delivery_count.unwrap_or(0);
            }
        }
        self.keep_remote_handle(session, attach.handle, id);
        (!is_ended).then_some(Event::Attached { link: id, attach })
    }

    fn keep_remote_handle(&mut self, session: SessionId, handle: u32, link: LinkId) {
        if let Some(session) = self.registry.session_mut(session) {
            session.remote_handles.insert(handle, link);
        }
    }

    /// See [`super::Connection::accept`].
    pub(crate) fn accept(&mut self, id: LinkId, reply: Attach) -> Result<(), Gone> {
        let link = self.registry.pending(id)?;
        link.message_bytes_max = reply.max_message_size.filter(|max| *max > 0).unwrap_or(u64::MAX);
        let (session, handle, role) = (link.session, link.handle, link.role);
        if self.try_write(session, &Attach { handle, role, ..reply }) {
            if let Some(link) = self.registry.link_mut(id) {
                link.phase = LinkPhase::Attached;
            }
            return Ok(());
        }
        // Its other links go on: only this one's answer cannot be told (CONN-9).
        let why = "the answer to this attach does not fit your max-frame-size";
        self.detach(id, Some(Error::new(condition::FRAME_SIZE_TOO_SMALL, why)))?;
        Err(Gone)
    }

    /// See [`super::Connection::refuse`].
    pub(crate) fn refuse(&mut self, id: LinkId, reply: Attach, error: Error) -> Result<(), Gone> {
        let link = self.registry.pending(id)?;
        link.phase = LinkPhase::DetachSent;
        let (session, handle, role) = (link.session, link.handle, link.role);
        let (source, target) = match role {
            Role::Sender => (None, reply.target),
            Role::Receiver => (reply.source, None::<AnyTarget>),
        };
        let bare = link.bare_attach();
        // What the client wrote comes back if it fits, and the reason in any case.
        if !self.try_write(session, &Attach { handle, role, source, target, ..reply }) {
            self.write(session, &bare);
        }
        self.write_reason(session, Detach { handle, closed: true, error: Some(error) });
        self.registry.forget_attach(id);
        Ok(())
    }

    /// See [`super::Connection::detach`].
    pub(crate) fn detach(&mut self, id: LinkId, error: Option<Error>) -> Result<(), Gone> {
        let link = self.registry.link_mut(id).ok_or(Gone)?;
        let (session, handle, phase) = (link.session, link.handle, link.phase);
        match phase {
            LinkPhase::DetachSent => return Err(Gone),
            LinkPhase::AttachReceived => {
                // The peer has no handle of ours yet: it must be told one to be told of its end.
                let reply = link.bare_attach();
                let given_up = || Error::new(condition::DETACH_FORCED, "the link was given up");
                return self.refuse(id, reply, error.unwrap_or_else(given_up));
            }
            LinkPhase::AttachSent | LinkPhase::Attached => link.phase = LinkPhase::DetachSent,
        }
        self.flush_session(session);
        self.write_reason(session, Detach { handle, closed: true, error });
        self.registry.forget_deliveries(id);
        self.registry.forget_attach(id);
        Ok(())
    }

    pub(crate) fn on_detach(&mut self, session: SessionId, detach: Detach) -> Option<Event> {
        // One too many does no harm: Python answers the answers to its own.
        let id = self.registry.remote_link(session, detach.handle).ok()?;
        let link = self.registry.link(id)?;
        let (handle, phase) = (link.handle, link.phase);
        if phase == LinkPhase::AttachReceived {
            // It was not told our handle yet, see `detach`.
            self.detach(id, None).ok();
        }
        self.flush_session(session);
        self.registry.forget_link(id);
        if phase == LinkPhase::DetachSent {
            return None;
        }
        let Detach { closed, error, .. } = detach;
        if phase != LinkPhase::AttachReceived {
            self.write(session, &Detach { handle, closed, error: None });
        }
        Some(Event::Detached { link: id, closed, error, by: Side::Peer })
    }

    fn flush_session(&mut self, id: SessionId) {
        if let Some(session) = self.registry.session_mut(id) {
            session.flush_all(self.limits.incoming_window, self.frames);
        }
    }

    /// Whether the peer takes such a frame; if not, nothing is written.
    fn try_write(&mut self, session: SessionId, performative: &impl Composite) -> bool {
        let channel = self.registry.session(session).map(|session| session.channel);
        channel.is_none_or(|channel| self.frames.try_write(channel, performative).is_ok())
    }

    fn write_reason<T: Composite + Reason>(&mut self, session: SessionId, frame: T) {
        if let Some(session) = self.registry.session(session) {
            self.frames.write_reason(session.channel, frame);
        }
    }

    fn write(&mut self, session: SessionId, performative: &impl Composite) {
        if let Some(session) = self.registry.session(session) {
            self.frames.write(session.channel, performative);
        }
    }
}
