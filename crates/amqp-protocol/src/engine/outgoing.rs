//! What the owner of a connection may ask of it. Nothing here fails for what the peer did: a session or
//! link that is gone is named so, and that is all.

use thiserror::Error as ThisError;

use super::connection::Connection;
use super::event::{DeliveryId, LinkId, SessionId};
use super::flush::OUTGOING_WINDOW;
use super::link::{Link, LinkPhase};
use super::login::Stage;
use super::payload::Payload;
use super::session::{Sent, Session, SessionPhase, Unsent};
use crate::codec::{
    AnyTarget, Attach, Begin, Close, DeliveryState, Detach, End, Error, Role, Symbols, Tag,
};

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
    /// [`Connection::room`] says when there is.
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

impl Connection {
    /// As client: begins a session. `None` if there are as many as the peer allows.
    pub fn begin(&mut self) -> Option<SessionId> {
        let is_free = |channel: &u16| !self.channels.contains_key(channel);
        let channel = (0..=self.remote.channel_max).find(is_free)?;
        let window = self.config.limits.incoming_window;
        let session = Session::new(channel, SessionPhase::BeginSent, window);
        let id = SessionId(self.sessions.insert(session));
        self.channels.insert(channel, id);
        self.write_begin(channel, None);
        Some(id)
    }

    pub(super) fn write_begin(&mut self, channel: u16, remote_channel: Option<u16>) {
        let begin = Begin {
            remote_channel,
            next_outgoing_id: 0,
            incoming_window: self.config.limits.incoming_window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max: self.config.limits.handle_max,
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: None,
        };
        self.write(channel, &begin);
    }

    /// Asks for a link. Name, role, modes and termini are the caller's, the handle is not.
    pub fn attach(&mut self, session: SessionId, attach: Attach) -> Result<LinkId, Gone> {
        let handle_max = self.config.limits.handle_max;
        let found = self.sessions.get(session.0).ok_or(Gone)?;
        let handle = found.free_handle(handle_max).ok_or(Gone)?;
        let mut link = Link::new(session, attach.role, handle, LinkPhase::AttachSent);
        link.name = attach.name.clone();
        link.message_bytes_max = attach.max_message_size.unwrap_or(u64::MAX);
        let id = LinkId(self.links.insert(link));
        self.keep_handle(session, handle, id);
        self.write_attach(session, Attach { handle, ..attach });
        Ok(id)
    }

    /// Accepts a link the peer asked for, with [`Attach::reply`] as the answer, changed where needed
    /// (LINK-4).
    pub fn accept(&mut self, link: LinkId, reply: Attach) -> Result<(), Gone> {
        let found = self.pending(link)?;
        found.phase = LinkPhase::Attached;
        found.message_bytes_max = reply.max_message_size.filter(|max| *max > 0).unwrap_or(u64::MAX);
        let (session, handle, role) = (found.session, found.handle, found.role);
        self.write_attach(session, Attach { handle, role, ..reply });
        Ok(())
    }

    /// Takes transfers of up to so many bytes on a link that was accepted: a batch may be larger than
    /// the messages that `max-message-size` is about (LINK-8).
    pub fn take_batches(&mut self, link: LinkId, bytes_max: u64) -> Result<(), Gone> {
        let found = self.links.get_mut(link.0).ok_or(Gone)?;
        found.message_bytes_max = found.message_bytes_max.max(bytes_max);
        Ok(())
    }

    /// Refuses a link: an attach whose terminus under this side's control is null, then a detach with
    /// the reason (LINK-6).
    pub fn refuse(&mut self, link: LinkId, reply: Attach, error: Error) -> Result<(), Gone> {
        let found = self.pending(link)?;
        found.phase = LinkPhase::DetachSent;
        let (session, handle, role) = (found.session, found.handle, found.role);
        let (source, target) = match role {
            Role::Sender => (None, reply.target),
            Role::Receiver => (reply.source, None::<AnyTarget>),
        };
        self.write_attach(session, Attach { handle, role, source, target, ..reply });
        self.write_detach(session, handle, true, Some(error));
        Ok(())
    }

    fn pending(&mut self, link: LinkId) -> Result<&mut Link, Gone> {
        let is_pending = |link: &&mut Link| link.phase == LinkPhase::AttachReceived;
        self.links.get_mut(link.0).filter(is_pending).ok_or(Gone)
    }

    fn write_attach(&mut self, session: SessionId, attach: Attach) {
        if let Some(session) = self.sessions.get(session.0) {
            let channel = session.channel;
            self.write(channel, &attach);
        }
    }

    pub(super) fn keep_handle(&mut self, session: SessionId, handle: u32, link: LinkId) {
        if let Some(session) = self.sessions.get_mut(session.0) {
            session.handles.insert(handle, link);
        }
    }

    /// Ends a link for good. Verdicts gathered so far are written first; those that come later are
    /// for nobody.
    pub fn detach(&mut self, link: LinkId, error: Option<Error>) -> Result<(), Gone> {
        let found = self.links.get_mut(link.0).ok_or(Gone)?;
        let (session, handle, phase) = (found.session, found.handle, found.phase);
        match phase {
            LinkPhase::DetachSent => return Err(Gone),
            LinkPhase::AttachReceived => {
                // The peer has no handle of ours yet: it must be told one to be told of its end.
                let reply = bare_attach(found);
                let error = error.unwrap_or_else(|| {
                    Error::new(crate::condition::DETACH_FORCED, "the link was given up")
                });
                return self.refuse(link, reply, error);
            }
            LinkPhase::AttachSent | LinkPhase::Attached => found.phase = LinkPhase::DetachSent,
        }
        self.flush_session(session);
        self.write_detach(session, handle, true, error);
        self.forget_deliveries(link);
        Ok(())
    }

    pub(super) fn write_detach(
        &mut self,
        session: SessionId,
        handle: u32,
        closed: bool,
        error: Option<Error>,
    ) {
        if let Some(session) = self.sessions.get(session.0) {
            let channel = session.channel;
            self.write(channel, &Detach { handle, closed, error });
        }
    }

    /// Ends a session and all its links.
    pub fn end(&mut self, session: SessionId, error: Option<Error>) -> Result<(), Gone> {
        self.flush_session(session);
        let found = self.sessions.get_mut(session.0).ok_or(Gone)?;
        if found.phase == SessionPhase::EndSent {
            return Err(Gone);
        }
        found.phase = SessionPhase::EndSent;
        let channel = found.channel;
        self.write(channel, &End { error });
        self.forget_links(session);
        Ok(())
    }

    /// Ends the connection; [`super::Event::Closed`] follows once the peer has answered, or has not for a
    /// while.
    pub fn close(&mut self, error: Option<Error>) {
        match self.stage {
            Stage::Opened => {
                self.flush();
                self.write(0, &Close { error });
                self.stage = Stage::CloseSent;
                self.timing.closing();
            }
            Stage::CloseSent | Stage::Finished => {}
            _ => self.fail(error.unwrap_or_else(|| {
                Error::new(crate::condition::CONNECTION_FORCED, "the connection was given up")
            })),
        }
    }

    /// As receiver: lets the peer send, so that credit and deliveries without a verdict together are at
    /// most `window`. It is topped up at flushes, in eighths; 0 takes back what was not used.
    pub fn grant(&mut self, link: LinkId, window: u32) -> Result<(), Gone> {
        let found = self.attached(link, Role::Receiver)?;
        found.window = window;
        let most = window.saturating_sub(found.unsettled);
        if found.credit > most {
            found.credit = most;
            self.write_link_flow(link, false);
        }
        self.touch_link(link);
        Ok(())
    }

    /// As receiver: asks for what the peer has, up to the credit it was given, and the rest of the
    /// credit back. No more is granted by itself.
    pub fn drain(&mut self, link: LinkId) -> Result<(), Gone> {
        let found = self.attached(link, Role::Receiver)?;
        found.window = 0;
        found.drain = true;
        self.write_link_flow(link, true);
        Ok(())
    }

    /// As sender: what was there is sent; the rest of the credit goes back (FLOW-8). Nothing happens
    /// if the receiver does not drain any more.
    pub fn drained(&mut self, link: LinkId) -> Result<(), Gone> {
        let session = self.attached(link, Role::Sender)?.session;
        let is_waiting = |session: &Session| session.waiting.iter().any(|next| next.link == link);
        let waits = self.sessions.get(session.0).is_some_and(is_waiting);
        let found = self.attached(link, Role::Sender)?;
        found.owes_drained = found.drain && waits;
        if !found.drain || waits {
            return Ok(());
        }
        found.delivery_count = found.delivery_count.wrapping_add(found.credit);
        found.credit = 0;
        self.write_link_flow(link, false);
        self.attached(link, Role::Sender)?.drain = false;
        Ok(())
    }

    /// As sender: credit that is left.
    pub fn credit(&self, link: LinkId) -> u32 {
        self.links.get(link.0).map_or(0, |link| link.credit)
    }

    /// As sender: how many messages can be sent now without keeping more than the limits allow.
    pub fn room(&self, link: LinkId) -> u32 {
        let Some(link) = self.links.get(link.0) else { return 0 };
        let Some(session) = self.sessions.get(link.session.0) else { return 0 };
        if link.phase != LinkPhase::Attached || !self.has_output_room(session) {
            return 0;
        }
        let unsettled_max = self.config.limits.outgoing_unsettled_max;
        let room = unsettled_max.saturating_sub(session.sent.len());
        link.credit.min(u32::try_from(room).unwrap_or(u32::MAX))
    }

    /// What waits for the peer's window counts like what waits to be written.
    fn has_output_room(&self, session: &Session) -> bool {
        use bytes::Buf as _;
        session.waiting.is_empty() && self.output.remaining() <= self.config.limits.output_bytes_max
    }

    /// Sends a message. Its slices are kept until they are written, not copied.
    ///
    /// # Errors
    /// [`SendError`], and then nothing was sent.
    pub fn send(&mut self, link: LinkId, outgoing: &Outgoing) -> Result<DeliveryId, SendError> {
        let found = self.attached(link, Role::Sender)?;
        if found.credit == 0 {
            return Err(SendError::NoCredit);
        }
        if self.room(link) == 0 {
            return Err(SendError::Full);
        }
        let found = self.attached(link, Role::Sender)?;
        found.credit -= 1;
        found.delivery_count = found.delivery_count.wrapping_add(1);
        let (session_id, handle) = (found.session, found.handle);
        let session = self.sessions.get_mut(session_id.0).ok_or(Gone)?;
        let delivery_id = session.next_delivery_id;
        session.next_delivery_id = delivery_id.wrapping_add(1);
        let Outgoing { tag, message_format, settled, ref state, ref payload } = *outgoing;
        if !settled {
            session.sent.push(delivery_id, Sent { link, tag });
        }
        let unsent = Unsent {
            link,
            handle,
            delivery_id,
            tag,
            message_format,
            settled,
            state: state.clone(),
            rest: payload.clone(),
            begun: false,
        };
        self.write_delivery(session_id, unsent);
        Ok(DeliveryId { session: session_id, id: delivery_id })
    }

    pub(super) fn attached(&mut self, link: LinkId, role: Role) -> Result<&mut Link, Gone> {
        let fits = |link: &&mut Link| link.phase == LinkPhase::Attached && link.role == role;
        self.links.get_mut(link.0).filter(fits).ok_or(Gone)
    }
}

/// The least that can be said of a link.
fn bare_attach(link: &Link) -> Attach {
    Attach {
        name: link.name.clone(),
        handle: link.handle,
        role: link.role,
        snd_settle_mode: crate::codec::SenderSettleMode::Mixed,
        rcv_settle_mode: crate::codec::ReceiverSettleMode::First,
        source: None,
        target: None,
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: (link.role == Role::Sender).then_some(0),
        max_message_size: None,
        offered_capabilities: Symbols::default(),
        desired_capabilities: Symbols::default(),
        properties: None,
    }
}
