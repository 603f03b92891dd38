//! One session: windows, handles, what is unsettled, what waits for the peer's window.

use std::collections::{BTreeMap, VecDeque};

use super::event::{LinkId, Millis};
use super::frames::FrameWriter;
use super::ledger::Ledger;
use super::payload::Payload;
use crate::codec::{DeliveryState, Disposition, Flow, Role, Tag, Transfer};

/// Announced where this side sets itself no limit. It never falls.
pub(crate) const OUTGOING_WINDOW: u32 = i32::MAX as u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPhase {
    /// This side began it.
    BeginSent,
    Mapped,
    /// This side ended it. Whatever still comes is dropped until the peer's end.
    EndSent,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub channel: u16,
    pub remote_channel: Option<u16>,
    pub phase: SessionPhase,
    /// Of the next transfer frame from the peer.
    pub next_incoming_id: u32,
    /// Frames the peer may send until it hears of a new window; below zero it has not cared.
    pub incoming_window: i64,
    pub next_outgoing_id: u32,
    pub remote_incoming_window: u32,
    /// SETTLE-1: one more per delivery, over all links of the session.
    pub next_delivery_id: u32,
    pub remote_handle_max: u32,
    /// The peer's handles.
    pub remote_handles: BTreeMap<u32, LinkId>,
    /// Ours.
    pub handles: BTreeMap<u32, LinkId>,
    pub sent: Ledger<Sent>,
    pub received: Ledger<Received>,
    /// Deliveries begun or not that wait for the peer's window, in order.
    pub waiting: VecDeque<Unsent>,
    /// Dispositions not written yet.
    pub said: Said,
    /// Outcomes that came too soon to be written (SETTLE-14), in order.
    pub held: VecDeque<HeldOutcome>,
    /// A session flow is due at the next flush.
    pub owes_flow: bool,
    pub is_dirty: bool,
}

/// A delivery that the peer has not settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub link: LinkId,
    pub tag: Tag,
    /// When the peer last said something of it.
    pub disposed_at: Millis,
}

/// A delivery without a verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub link: LinkId,
    pub bytes: u64,
    pub arrived_at: Millis,
    /// The owner has given its verdict, and only the sender's confirmation is missing: it does not
    /// count against the limits, since it takes reading to get it.
    pub is_proposed: bool,
}

/// The rest of a delivery that waits to be written.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub link: LinkId,
    pub handle: u32,
    pub delivery_id: u32,
    pub tag: Tag,
    pub message_format: u32,
    pub settled: bool,
    pub state: Option<DeliveryState>,
    pub rest: Payload,
    pub begun: bool,
}

/// Deliveries with consecutive ids and the same state: one disposition.
#[derive(Debug)]
pub(crate) struct Run {
    pub first: u32,
    pub last: u32,
    pub state: DeliveryState,
}

impl Run {
    /// Takes one more in, if it follows and is the same.
    pub(crate) fn extend(&mut self, id: u32, state: &DeliveryState) -> bool {
        let follows = self.last.wrapping_add(1) == id && self.state == *state;
        if follows {
            self.last = id;
        }
        follows
    }
}

/// What a disposition says of deliveries, and who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saying {
    /// The receiver's last word.
    Verdict,
    /// The receiver's word that the sender has to confirm.
    Proposal,
    /// The sender's word that settles nothing: what is to be once a transaction is committed.
    Provisional,
    /// The sender's last word.
    Answer,
}

/// An outcome that waits for its time.
#[derive(Debug)]
pub(crate) struct HeldOutcome {
    pub due: Millis,
    pub saying: Saying,
    pub delivery: u32,
    pub state: DeliveryState,
}

/// One run of each kind.
#[derive(Debug, Default)]
pub(crate) struct Said {
    verdicts: Option<Run>,
    proposals: Option<Run>,
    provisional: Option<Run>,
    answers: Option<Run>,
}

impl Said {
    fn run(&mut self, saying: Saying) -> &mut Option<Run> {
        match saying {
            Saying::Verdict => &mut self.verdicts,
            Saying::Proposal => &mut self.proposals,
            Saying::Provisional => &mut self.provisional,
            Saying::Answer => &mut self.answers,
        }
    }

    /// Everything gathered: what a transaction has settled before the answer to its discharge (COORD-12).
    fn take(&mut self) -> impl Iterator<Item = (Saying, Run)> + use<> {
        let Said { verdicts, proposals, provisional, answers } = std::mem::take(self);
        let all = [
            (Saying::Provisional, provisional),
            (Saying::Answer, answers),
            (Saying::Verdict, verdicts),
            (Saying::Proposal, proposals),
        ];
        all.into_iter().filter_map(|(saying, run)| run.map(|run| (saying, run)))
    }
}

impl Session {
    pub(crate) fn new(channel: u16, phase: SessionPhase, incoming_window: u32) -> Session {
        Session {
            channel,
            remote_channel: None,
            phase,
            next_incoming_id: 0,
            incoming_window: i64::from(incoming_window),
            next_outgoing_id: 0,
            remote_incoming_window: 0,
            next_delivery_id: 0,
            remote_handle_max: u32::MAX,
            remote_handles: BTreeMap::new(),
            handles: BTreeMap::new(),
            sent: Ledger::default(),
            received: Ledger::default(),
            waiting: VecDeque::new(),
            said: Said::default(),
            held: VecDeque::new(),
            owes_flow: false,
            is_dirty: false,
        }
    }

    /// Takes over what the peer's flow says of the windows.
    pub(crate) fn on_flow(&mut self, flow: &Flow) {
        let next_incoming_id = flow.next_incoming_id.unwrap_or(0);
        self.remote_incoming_window =
            self.window_after_flow(next_incoming_id, flow.incoming_window);
    }

    /// What the peer's flow leaves to send: frames it has not seen yet count against it (AMQP 1.0,
    /// part 2, 2.5.6).
    fn window_after_flow(&self, next_incoming_id: u32, incoming_window: u32) -> u32 {
        let under_way = self.next_outgoing_id.wrapping_sub(next_incoming_id);
        let under_way = if under_way < 1 << 31 { under_way } else { 0 };
        incoming_window.saturating_sub(under_way)
    }

    /// The smallest handle not in use that both sides allow.
    pub(crate) fn free_handle(&self, handle_max: u32) -> Option<u32> {
        let max = handle_max.min(self.remote_handle_max);
        let mut free = 0;
        for used in self.handles.keys() {
            if *used != free {
                break;
            }
            free = free.checked_add(1)?;
        }
        (free <= max).then_some(free)
    }

    /// Before a frame that ends what dispositions are about: writes all of them, due or not.
    pub(crate) fn flush_all(&mut self, window: u32, frames: &mut FrameWriter) {
        for HeldOutcome { saying, delivery, state, .. } in std::mem::take(&mut self.held) {
            self.gather(saying, delivery, state, frames);
        }
        self.flush(window, frames);
    }

    /// Writes dispositions and the session's own flow, as far as they are due.
    pub(crate) fn flush(&mut self, window: u32, frames: &mut FrameWriter) {
        let is_due = |held: &HeldOutcome| held.due <= frames.now;
        let due = self.held.iter().position(|held| !is_due(held)).unwrap_or(self.held.len());
        for HeldOutcome { saying, delivery, state, .. } in
            self.held.drain(..due).collect::<Vec<_>>()
        {
            self.gather(saying, delivery, state, frames);
        }
        if self.phase == SessionPhase::EndSent {
            return;
        }
        for (saying, run) in self.said.take() {
            write_run(self.channel, saying, run, frames);
        }
        if self.owes_flow {
            self.write_flow(Flow::default(), window, frames);
        }
    }

    /// FLOW-1: every flow carries the session's four numbers. It also renews the window.
    pub(crate) fn write_flow(&mut self, flow: Flow, window: u32, frames: &mut FrameWriter) {
        if self.phase == SessionPhase::EndSent {
            return;
        }
        self.owes_flow = false;
        self.incoming_window = window.into();
        let is_mapped = self.phase == SessionPhase::Mapped;
        let flow = Flow {
            next_incoming_id: is_mapped.then_some(self.next_incoming_id),
            incoming_window: window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            ..flow
        };
        frames.write(self.channel, &flow);
    }

    /// Gathers a state into the run of its kind; what does not fit in is written first. Whether this
    /// began a run, which a flush has to see to.
    pub(crate) fn gather(
        &mut self,
        saying: Saying,
        delivery: u32,
        state: DeliveryState,
        frames: &mut FrameWriter,
    ) -> bool {
        let channel = self.channel;
        let run = self.said.run(saying);
        if run.as_mut().is_some_and(|run| run.extend(delivery, &state)) {
            return false;
        }
        if let Some(full) = run.replace(Run { first: delivery, last: delivery, state }) {
            write_run(channel, saying, full, frames);
        }
        true
    }

    /// Writes as much of a delivery as the window allows and keeps the rest.
    pub(crate) fn write_delivery(&mut self, mut unsent: Unsent, frames: &mut FrameWriter) {
        while self.waiting.is_empty() && self.remote_incoming_window > 0 {
            if self.write_transfer(&mut unsent, frames) {
                return;
            }
        }
        self.waiting.push_back(unsent);
    }

    /// Writes one frame of what waits for the peer's window, if that allows one. The link of a delivery
    /// that this was the last of.
    pub(crate) fn pump(&mut self, frames: &mut FrameWriter) -> Pumped {
        if self.remote_incoming_window == 0 {
            return Pumped::Nothing;
        }
        let Some(mut unsent) = self.waiting.pop_front() else { return Pumped::Nothing };
        if self.write_transfer(&mut unsent, frames) {
            return Pumped::Delivery(unsent.link);
        }
        self.waiting.push_front(unsent);
        Pumped::Part
    }

    /// Whether deliveries of a link wait for the peer's window.
    pub(crate) fn has_waiting(&self, link: LinkId) -> bool {
        self.waiting.iter().any(|unsent| unsent.link == link)
    }

    /// Writes one frame of a delivery; whether it was the last.
    fn write_transfer(&mut self, unsent: &mut Unsent, frames: &mut FrameWriter) -> bool {
        self.remote_incoming_window -= 1;
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
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
        let left = unsent.rest.len();
        let part = frames.begin_transfer(self.channel, &mut transfer, left);
        unsent.rest.take(part, |bytes| frames.push(bytes));
        part == left
    }
}

/// What one frame came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// Nothing waits, or the window is shut.
    Nothing,
    Part,
    /// The last of a delivery of this link.
    Delivery(LinkId),
}

fn write_run(channel: u16, saying: Saying, run: Run, frames: &mut FrameWriter) {
    let (role, settled) = match saying {
        Saying::Verdict => (Role::Receiver, true),
        Saying::Proposal => (Role::Receiver, false),
        Saying::Provisional => (Role::Sender, false),
        Saying::Answer => (Role::Sender, true),
    };
    let Run { first, last, state } = run;
    let (last, state) = (Some(last), Some(state));
    let disposition = Disposition { role, first, last, settled, state, batchable: false };
    frames.write_reason(channel, disposition);
}
