//! Sessions that begin and end.

use super::event::{Event, SessionId, Side};
use super::fault::Fault;
use super::frames::FrameWriter;
use super::outgoing::Gone;
use super::registry::Registry;
use super::session::{OUTGOING_WINDOW, Session, SessionPhase};
use crate::Limits;
use crate::codec::{Begin, End, Error, Symbols};
use crate::condition;

pub(crate) struct SessionHandler<'a> {
    pub limits: &'a Limits,
    /// The peer's channel-max.
    pub channel_max: u16,
    pub registry: &'a mut Registry,
    pub frames: &'a mut FrameWriter,
}

impl SessionHandler<'_> {
    /// See [`super::Connection::begin`].
    pub(crate) fn begin(&mut self) -> Option<SessionId> {
        let channel = self.registry.free_channel(None, self.channel_max)?;
        let window = self.limits.incoming_window;
        let session = Session::new(channel, SessionPhase::BeginSent, window);
        let id = self.registry.add_session(session);
        self.write_begin(channel, None);
        Some(id)
    }

    pub(crate) fn on_begin(&mut self, channel: u16, begin: &Begin) -> Result<Event, Fault> {
        if channel > self.limits.channel_max {
            return Err(Fault::framing("the channel is above channel-max"));
        }
        if self.registry.remote_channels.contains_key(&channel) {
            return Err(Fault::framing("the channel is in use"));
        }
        let id = match begin.remote_channel {
            Some(ours) => self.on_begin_reply(ours)?,
            None => self.on_begin_request(channel)?,
        };
        self.registry.remote_channels.insert(channel, id);
        if let Some(session) = self.registry.session_mut(id) {
            session.remote_channel = Some(channel);
            session.next_incoming_id = begin.next_outgoing_id;
            session.remote_incoming_window = begin.incoming_window;
            session.remote_handle_max = begin.handle_max;
        }
        Ok(Event::Began(id))
    }

    /// The peer began one: on the channel of its own number where that is free, else the first that is.
    fn on_begin_request(&mut self, channel: u16) -> Result<SessionId, Fault> {
        if self.registry.sessions.len() >= self.limits.sessions_max {
            self.registry.refused.sessions += 1;
            let why = "this connection has as many sessions as it may at present";
            return Err(Fault::Connection(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why)));
        }
        let max = self.limits.channel_max.min(self.channel_max);
        let ours = self.registry.free_channel(Some(channel), max);
        let ours = ours.ok_or(Fault::framing("no channel is free"))?;
        let window = self.limits.incoming_window;
        let id = self.registry.add_session(Session::new(ours, SessionPhase::Mapped, window));
        self.write_begin(ours, Some(channel));
        Ok(id)
    }

    fn on_begin_reply(&mut self, channel: u16) -> Result<SessionId, Fault> {
        let id = self.registry.channels.get(&channel).copied();
        let session = id.and_then(|id| self.registry.session_mut(id));
        match (id, session) {
            (Some(id), Some(session)) if session.phase == SessionPhase::BeginSent => {
                session.phase = SessionPhase::Mapped;
                Ok(id)
            }
            _ => Err(Fault::framing("a begin answers one that was not sent")),
        }
    }

    fn write_begin(&mut self, channel: u16, remote_channel: Option<u16>) {
        let begin = Begin {
            remote_channel,
            next_outgoing_id: 0,
            incoming_window: self.limits.incoming_window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max: self.limits.handle_max,
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: None,
        };
        self.frames.write(channel, &begin);
    }

    /// See [`super::Connection::end`].
    pub(crate) fn end(&mut self, id: SessionId, error: Option<Error>) -> Result<(), Gone> {
        self.flush_all(id);
        let session = self.registry.session_mut(id).ok_or(Gone)?;
        if session.phase == SessionPhase::EndSent {
            return Err(Gone);
        }
        session.phase = SessionPhase::EndSent;
        self.frames.write_reason(session.channel, End { error });
        self.registry.forget_links(id);
        Ok(())
    }

    pub(crate) fn on_end(&mut self, remote: u16, id: SessionId, end: End) -> Option<Event> {
        self.flush_all(id);
        self.registry.forget_links(id);
        self.registry.remote_channels.remove(&remote);
        let session = self.registry.sessions.remove(id.0)?;
        self.registry.channels.remove(&session.channel);
        if session.phase == SessionPhase::EndSent {
            return None;
        }
        self.frames.write(session.channel, &End { error: None });
        Some(Event::Ended { session: id, error: end.error, by: Side::Peer })
    }

    /// Writes what sessions gathered since the last flush. Those that hold an outcome are looked at again.
    pub(crate) fn flush(&mut self) {
        let mut sessions = std::mem::take(&mut self.registry.dirty_sessions);
        self.registry.held_until = None;
        sessions.retain(|session| self.flush_one(*session));
        self.registry.dirty_sessions = sessions;
    }

    /// Writes what is due of a session; whether it holds more.
    fn flush_one(&mut self, id: SessionId) -> bool {
        let Some(session) = self.registry.session_mut(id) else { return false };
        session.is_dirty = false;
        session.flush(self.limits.incoming_window, self.frames);
        let Some(due) = session.held.front().map(|held| held.due) else { return false };
        session.is_dirty = true;
        self.registry.hold_until(due);
        true
    }

    /// Before the connection ends: what is held has no better time.
    pub(crate) fn flush_held(&mut self) {
        for session in self.registry.dirty_sessions.clone() {
            self.flush_all(session);
        }
    }

    fn flush_all(&mut self, id: SessionId) {
        if let Some(session) = self.registry.session_mut(id) {
            session.flush_all(self.limits.incoming_window, self.frames);
        }
    }
}
