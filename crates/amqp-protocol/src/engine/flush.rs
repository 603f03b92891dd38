//! What is written once per turn rather than once per event: dispositions in ranges, credit, windows;
//! and transfers, as far as the peer's window lets them.

use super::connection::Connection;
use super::event::{LinkId, SessionId};
use super::session::{Run, Session, SessionPhase, Unsent};
use crate::codec::{Composite, DeliveryState, Disposition, Flow, Role, Transfer, frame};

/// What a disposition says of deliveries, and who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saying {
    /// The receiver's last word.
    Verdict,
    /// The receiver's word that the sender has to confirm.
    Proposal,
    /// The sender's last word.
    Answer,
}

/// Announced where this side sets itself no limit. It never falls.
pub(super) const OUTGOING_WINDOW: u32 = i32::MAX as u32;

impl Connection {
    /// Writes what was gathered since the last flush. Call it once per turn, before writing.
    pub fn flush(&mut self) {
        let mut sessions = std::mem::take(&mut self.dirty_sessions);
        for session in sessions.drain(..) {
            self.flush_session(session);
        }
        self.dirty_sessions = sessions;
        let mut links = std::mem::take(&mut self.dirty_links);
        for link in links.drain(..) {
            self.flush_link(link);
        }
        self.dirty_links = links;
    }

    pub(super) fn touch_session(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id.0)
            && !std::mem::replace(&mut session.is_dirty, true)
        {
            self.dirty_sessions.push(id);
        }
    }

    pub(super) fn touch_link(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(id.0)
            && !std::mem::replace(&mut link.is_dirty, true)
        {
            self.dirty_links.push(id);
        }
    }

    /// Dispositions and the session's own flow. Also called before a frame that ends what they are
    /// about.
    pub(super) fn flush_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.is_dirty = false;
        if session.phase == SessionPhase::EndSent {
            return;
        }
        let channel = session.channel;
        let owes_flow = session.owes_flow;
        for (saying, run) in session.said.take() {
            self.write_run(channel, saying, run);
        }
        if owes_flow {
            self.write_flow(id, Flow::default());
        }
    }

    fn flush_link(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        link.is_dirty = false;
        if let Some(credit) = link.credit_due() {
            link.credit = credit;
            self.write_link_flow(id, false);
        }
    }

    /// A flow that says where a link stands.
    pub(super) fn write_link_flow(&mut self, id: LinkId, echo: bool) {
        let Some(link) = self.links.get(id.0) else { return };
        let flow = Flow {
            handle: Some(link.handle),
            delivery_count: Some(link.delivery_count),
            link_credit: Some(link.credit),
            available: (link.role == Role::Sender).then_some(0),
            drain: link.drain,
            echo,
            ..Flow::default()
        };
        let session = link.session;
        self.write_flow(session, flow);
    }

    /// FLOW-1: every flow carries the session's four numbers. It also renews the window.
    fn write_flow(&mut self, id: SessionId, flow: Flow) {
        let window = self.config.limits.incoming_window;
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if session.phase == SessionPhase::EndSent {
            return;
        }
        session.owes_flow = false;
        session.incoming_window = window.into();
        let is_mapped = session.phase == SessionPhase::Mapped;
        let flow = Flow {
            next_incoming_id: is_mapped.then_some(session.next_incoming_id),
            incoming_window: window,
            next_outgoing_id: session.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            ..flow
        };
        let channel = session.channel;
        self.write(channel, &flow);
    }

    /// Gathers a state into the run of its kind; what does not fit in is written first.
    pub(super) fn gather(
        &mut self,
        id: SessionId,
        saying: Saying,
        delivery: u32,
        state: DeliveryState,
    ) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let run = session.said.run(saying);
        if run.as_mut().is_some_and(|run| run.extend(delivery, &state)) {
            return;
        }
        let full = run.replace(Run { first: delivery, last: delivery, state });
        let channel = session.channel;
        if let Some(full) = full {
            self.write_run(channel, saying, full);
        }
        self.touch_session(id);
    }

    fn write_run(&mut self, channel: u16, saying: Saying, run: Run) {
        let (role, settled) = match saying {
            Saying::Verdict => (Role::Receiver, true),
            Saying::Proposal => (Role::Receiver, false),
            Saying::Answer => (Role::Sender, true),
        };
        let Run { first, last, state } = run;
        let (last, state) = (Some(last), Some(state));
        self.write(channel, &Disposition { role, first, last, settled, state, batchable: false });
    }

    /// Writes what waits for the peer's window, as far as that goes.
    pub(super) fn pump(&mut self, id: SessionId) {
        let frame_bytes_max = self.remote.frame_bytes_max as usize;
        while let Some(session) = self.sessions.get_mut(id.0)
            && session.remote_incoming_window > 0
            && let Some(mut unsent) = session.waiting.pop_front()
        {
            let is_done = write_transfer(&mut self.output, session, &mut unsent, frame_bytes_max);
            self.timing.sent();
            let link = unsent.link;
            if !is_done {
                session.waiting.push_front(unsent);
            } else if self.links.get(link.0).is_some_and(|link| link.owes_drained) {
                // Its own deliveries may still wait; then it stays owed.
                let _ = self.drained(link);
            }
        }
    }

    /// Writes as much of a delivery as the window allows and keeps the rest.
    pub(super) fn write_delivery(&mut self, id: SessionId, mut unsent: Unsent) {
        let frame_bytes_max = self.remote.frame_bytes_max as usize;
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        while session.waiting.is_empty() && session.remote_incoming_window > 0 {
            self.timing.sent();
            if write_transfer(&mut self.output, session, &mut unsent, frame_bytes_max) {
                return;
            }
        }
        session.waiting.push_back(unsent);
    }
}

/// Writes one frame of a delivery; whether it was the last.
fn write_transfer(
    output: &mut super::Output,
    session: &mut Session,
    unsent: &mut Unsent,
    frame_bytes_max: usize,
) -> bool {
    session.remote_incoming_window -= 1;
    session.next_outgoing_id = session.next_outgoing_id.wrapping_add(1);
    let is_first = !std::mem::replace(&mut unsent.begun, true);
    let mut transfer = Transfer {
        handle: unsent.handle,
        delivery_id: Some(unsent.delivery_id),
        delivery_tag: is_first.then_some(unsent.tag),
        message_format: is_first.then_some(unsent.message_format),
        settled: Some(unsent.settled),
        state: unsent.state.take(),
        ..Transfer::default()
    };
    let out = output.tail();
    let start = frame::begin(out, frame::FrameType::Amqp, session.channel);
    let body_at = out.len();
    transfer.write(out);
    let rest = unsent.rest.len();
    // A peer that takes frames of 512 bytes has room: a transfer's own fields are fewer than 100.
    let room = frame_bytes_max.saturating_sub(out.len() - start).max(1);
    if rest > room {
        out.truncate(body_at);
        transfer.more = true;
        transfer.write(out);
    }
    let part = rest.min(room);
    frame::end(out, start, part);
    unsent.rest.take(part, |bytes| output.push(bytes));
    part == rest
}
