//! The sessions and links of a connection: by id, by channel and handle, and what of theirs is counted
//! or waits together.

use std::collections::BTreeMap;

use bytestring::ByteString;

use super::event::{LinkId, Millis, SessionId};
use super::fault::Fault;
use super::link::{Gathered, Link, LinkPhase};
use super::outgoing::Gone;
use super::session::{Received, Session};
use super::slots::Slots;
use crate::codec::Role;
use crate::condition;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub sessions: Slots<Session>,
    pub links: Slots<Link>,
    /// Channels of this side and of the peer.
    pub channels: BTreeMap<u16, SessionId>,
    pub remote_channels: BTreeMap<u16, SessionId>,
    /// With something to write at the next flush.
    pub dirty_sessions: Vec<SessionId>,
    /// When the next of the outcomes that sessions hold is due. Sessions that hold some are dirty.
    pub held_until: Option<Millis>,
    pub dirty_links: Vec<LinkId>,
    pub incoming: Incoming,
    /// What the attaches of all links take.
    pub attach_bytes: usize,
    pub refused: RefusedCount,
}

/// What the peer asked for and did not get, as it had as many as it may, since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedCount {
    pub links: u64,
    pub sessions: u64,
}

/// What the peer has sent that this side still has to do with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Incoming {
    /// Deliveries without a verdict, and their bytes.
    pub unsettled: u32,
    pub bytes: u64,
    /// Bytes of deliveries that are still arriving.
    pub partial_bytes: u64,
}

impl Registry {
    pub(crate) fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id.0)
    }

    pub(crate) fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(id.0)
    }

    pub(crate) fn link(&self, id: LinkId) -> Option<&Link> {
        self.links.get(id.0)
    }

    pub(crate) fn link_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(id.0)
    }

    /// A link that may send or receive, as this side's `role` is.
    pub(crate) fn attached(&mut self, id: LinkId, role: Role) -> Result<&mut Link, Gone> {
        let fits = |link: &&mut Link| link.phase == LinkPhase::Attached && link.role == role;
        self.link_mut(id).filter(fits).ok_or(Gone)
    }

    /// A link that the peer asked for and that was not answered.
    pub(crate) fn pending(&mut self, id: LinkId) -> Result<&mut Link, Gone> {
        let is_pending = |link: &&mut Link| link.phase == LinkPhase::AttachReceived;
        self.link_mut(id).filter(is_pending).ok_or(Gone)
    }

    /// The link at a handle of the peer's.
    pub(crate) fn remote_link(&self, session_id: SessionId, handle: u32) -> Result<LinkId, Fault> {
        let session = self.session(session_id);
        let found = session.and_then(|session| session.remote_handles.get(&handle).copied());
        found.ok_or_else(|| {
            let why = "no link is attached at this handle";
            Fault::session(session_id, condition::UNATTACHED_HANDLE, why)
        })
    }

    /// The first channel of this side that is free, from `wished` on where that is one.
    pub(crate) fn free_channel(&self, wished: Option<u16>, max: u16) -> Option<u16> {
        let is_free = |channel: &u16| *channel <= max && !self.channels.contains_key(channel);
        wished.filter(is_free).or_else(|| (0..=max).find(is_free))
    }

    pub(crate) fn add_session(&mut self, session: Session) -> SessionId {
        let channel = session.channel;
        let id = SessionId(self.sessions.insert(session));
        self.channels.insert(channel, id);
        id
    }

    /// Adds a link at its handle of this side, which is free.
    pub(crate) fn add_link(&mut self, link: Link) -> LinkId {
        let (session, handle) = (link.session, link.handle);
        let id = LinkId(self.links.insert(link));
        if let Some(session) = self.session_mut(session) {
            session.handles.insert(handle, id);
        }
        id
    }

    pub(crate) fn touch_session(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id.0)
            && !std::mem::replace(&mut session.is_dirty, true)
        {
            self.dirty_sessions.push(id);
        }
    }

    pub(crate) fn touch_link(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(id.0)
            && !std::mem::replace(&mut link.is_dirty, true)
        {
            self.dirty_links.push(id);
        }
    }

    /// A session holds an outcome until then.
    pub(crate) fn hold_until(&mut self, due: Millis) {
        self.held_until = Some(self.held_until.map_or(due, |until| until.min(due)));
    }

    pub(crate) fn owe_flow(&mut self, id: SessionId) {
        if let Some(session) = self.session_mut(id) {
            session.owes_flow = true;
            self.touch_session(id);
        }
    }

    /// One delivery less that waits for a verdict, unless it was proposed one before: the owner need not
    /// think about it any more, and the window of its link has a place for another.
    pub(crate) fn count_verdict(&mut self, received: Received) {
        if received.is_proposed {
            return;
        }
        self.incoming.unsettled -= 1;
        self.incoming.bytes -= received.bytes;
        if let Some(link) = self.links.get_mut(received.link.0) {
            link.unsettled -= 1;
            self.touch_link(received.link);
        }
    }

    /// Forgets what is unsettled, arriving or waiting on a link.
    pub(crate) fn forget_deliveries(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        let arriving = link.partial.take().and_then(|partial| partial.payload.ok());
        self.incoming.partial_bytes -= arriving.as_ref().map_or(0, Gathered::len) as u64;
        link.unsettled = 0;
        let Some(session) = self.sessions.get_mut(link.session.0) else { return };
        session.sent.drain_where(|sent| sent.link == id, drop);
        session.waiting.retain(|unsent| unsent.link != id);
        let incoming = &mut self.incoming;
        let is_gone = |received: &Received| received.link == id;
        session.received.drain_where(is_gone, |received| {
            if !received.is_proposed {
                incoming.unsettled -= 1;
                incoming.bytes -= received.bytes;
            }
        });
    }

    /// Of a link that is ended nothing is kept but its handles, until the peer has ended it too. One that
    /// the peer has not answered keeps its name, by which the answer is known for one (LINK-14).
    pub(crate) fn forget_attach(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        if link.remote_handle.is_some() {
            link.name = ByteString::new();
        }
        self.attach_bytes -= std::mem::take(&mut link.attach_bytes);
    }

    pub(crate) fn forget_link(&mut self, id: LinkId) {
        self.forget_deliveries(id);
        self.forget_attach(id);
        let Some(link) = self.links.remove(id.0) else { return };
        let Some(session) = self.sessions.get_mut(link.session.0) else { return };
        session.handles.remove(&link.handle);
        if let Some(handle) = link.remote_handle {
            session.remote_handles.remove(&handle);
        }
    }

    pub(crate) fn forget_links(&mut self, id: SessionId) {
        while let Some(session) = self.sessions.get(id.0)
            && let Some(link) = session.handles.values().next().copied()
        {
            self.forget_link(link);
        }
    }
}
