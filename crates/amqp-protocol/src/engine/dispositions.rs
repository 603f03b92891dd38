//! Dispositions, both ways: what the peer says of deliveries, and what the owner does.

use super::event::{DeliveryId, Event, Millis, SessionId};
use super::frames::FrameWriter;
use super::outgoing::Gone;
use super::registry::Registry;
use super::session::{HeldOutcome, Saying};
use crate::codec::{DeliveryState, Disposition, Role};

/// What is left of a disposition.
#[derive(Debug)]
pub(crate) struct Disposing {
    session: SessionId,
    /// The peer's.
    role: Role,
    /// `None`: nothing is left.
    next: Option<u32>,
    last: u32,
    settled: bool,
    state: Option<DeliveryState>,
}

impl Disposing {
    pub(crate) fn new(session: SessionId, disposition: Disposition) -> Disposing {
        let Disposition { role, first, last, settled, state, .. } = disposition;
        let last = last.unwrap_or(first);
        Disposing { session, role, next: Some(first), last, settled, state }
    }
}

pub(crate) struct DispositionHandler<'a> {
    pub outcome_delay_ms: u32,
    pub registry: &'a mut Registry,
    pub frames: &'a mut FrameWriter,
}

impl DispositionHandler<'_> {
    /// See [`super::Connection::settle`].
    pub(crate) fn settle(&mut self, id: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        let session = self.registry.session_mut(id.session).ok_or(Gone)?;
        let received = session.received.remove(id.id).ok_or(Gone)?;
        self.registry.count_verdict(received);
        self.say(id, Saying::Verdict, state, received.arrived_at);
        Ok(())
    }

    /// See [`super::Connection::propose`].
    pub(crate) fn propose(&mut self, id: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        let session = self.registry.session_mut(id.session).ok_or(Gone)?;
        let received = session.received.get_mut(id.id).ok_or(Gone)?;
        let before = *received;
        received.is_proposed = true;
        self.registry.count_verdict(before);
        self.gather(id, Saying::Proposal, state);
        Ok(())
    }

    /// See [`super::Connection::answer`].
    pub(crate) fn answer(&mut self, id: DeliveryId, state: DeliveryState) -> Result<(), Gone> {
        let session = self.registry.session_mut(id.session).ok_or(Gone)?;
        let sent = session.sent.remove(id.id).ok_or(Gone)?;
        self.say(id, Saying::Answer, state, sent.disposed_at);
        Ok(())
    }

    /// See [`super::Connection::answer_provisionally`].
    pub(crate) fn answer_provisionally(
        &mut self,
        id: DeliveryId,
        state: DeliveryState,
    ) -> Result<(), Gone> {
        let session = self.registry.session(id.session).ok_or(Gone)?;
        let since = session.sent.get(id.id).ok_or(Gone)?.disposed_at;
        self.say(id, Saying::Provisional, state, since);
        Ok(())
    }

    /// SETTLE-14: says an outcome, at once or when its time has come. `since`: when what it answers came,
    /// which may have been at any instant of that millisecond.
    fn say(&mut self, id: DeliveryId, saying: Saying, state: DeliveryState, since: Millis) {
        let delay_ms = u64::from(self.outcome_delay_ms);
        let due = since.plus(delay_ms + 1);
        if delay_ms == 0 || due <= self.frames.now || state.is_accepted() {
            return self.gather(id, saying, state);
        }
        let DeliveryId { session: id, id: delivery } = id;
        let Some(session) = self.registry.session_mut(id) else { return };
        session.held.push_back(HeldOutcome { due, saying, delivery, state });
        self.registry.hold_until(due);
        self.registry.touch_session(id);
    }

    fn gather(&mut self, delivery: DeliveryId, saying: Saying, state: DeliveryState) {
        let DeliveryId { session: id, id: delivery } = delivery;
        let Some(session) = self.registry.session_mut(id) else { return };
        if session.gather(saying, delivery, state, self.frames) {
            self.registry.touch_session(id);
        }
    }

    /// The next delivery of the peer's disposition, `None` after the last. Its range is walked over what
    /// is outstanding, so it costs what is there and not what it claims (SETTLE-11).
    pub(crate) fn next(&mut self, disposing: &mut Disposing) -> Option<Event> {
        let (next, last, settled) = (disposing.next?, disposing.last, disposing.settled);
        let session = self.registry.session_mut(disposing.session)?;
        let id = match disposing.role {
            Role::Receiver => session.sent.first_within(next, last),
            Role::Sender => session.received.first_within(next, last),
        }?;
        disposing.next = (id != last).then_some(id.wrapping_add(1));
        let delivery = DeliveryId { session: disposing.session, id };
        let state = disposing.state.clone();
        match disposing.role {
            Role::Receiver => {
                let sent = session.sent.get_mut(id)?;
                sent.disposed_at = self.frames.now;
                let sent = *sent;
                if settled {
                    session.sent.remove(id);
                }
                let (link, tag) = (sent.link, sent.tag);
                Some(Event::Disposed { id: delivery, link, tag, state, settled })
            }
            Role::Sender if !settled => Some(Event::Answered { id: delivery, state }),
            Role::Sender => {
                let received = session.received.remove(id)?;
                self.registry.count_verdict(received);
                Some(Event::Settled { id: delivery, state })
            }
        }
    }
}
