//! One session: windows, handles, what is unsettled, what waits for the peer's window.

use std::collections::{BTreeMap, VecDeque};

use super::event::LinkId;
use super::flush::Saying;
use super::ledger::Ledger;
use super::payload::Payload;
use crate::codec::{DeliveryState, Tag};

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
    /// A session flow is due at the next flush.
    pub owes_flow: bool,
    pub is_dirty: bool,
}

/// A delivery that the peer has not settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub link: LinkId,
    pub tag: Tag,
}

/// A delivery without a verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub link: LinkId,
    pub bytes: u64,
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

/// One run of each kind.
#[derive(Debug, Default)]
pub(crate) struct Said {
    verdicts: Option<Run>,
    proposals: Option<Run>,
    answers: Option<Run>,
}

impl Said {
    pub(super) fn run(&mut self, saying: Saying) -> &mut Option<Run> {
        match saying {
            Saying::Verdict => &mut self.verdicts,
            Saying::Proposal => &mut self.proposals,
            Saying::Answer => &mut self.answers,
        }
    }

    /// Everything gathered.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (Saying, Run)> + use<> {
        let Said { verdicts, proposals, answers } = std::mem::take(self);
        let all =
            [(Saying::Verdict, verdicts), (Saying::Proposal, proposals), (Saying::Answer, answers)];
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
            owes_flow: false,
            is_dirty: false,
        }
    }

    /// What the peer's flow leaves to send: frames it has not seen yet count against it (AMQP 1.0,
    /// part 2, 2.5.6).
    pub(crate) fn window_after_flow(&self, next_incoming_id: u32, incoming_window: u32) -> u32 {
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
}
