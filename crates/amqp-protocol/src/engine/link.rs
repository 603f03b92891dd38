//! One link: credit, and a message that arrives in pieces.

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use super::event::{DeliveryId, LinkId, SessionId, TooLarge};
use crate::codec::{
    Attach, DeliveryState, Flow, ReceiverSettleMode, Role, SenderSettleMode, Symbols, Tag,
};

/// Credit is topped up as soon as one of so many parts of the window has come free. By halves, a sender
/// has three quarters of the window on average: receivers then fall behind senders with as large a
/// window, and what they are late for has to be read back from disk.
const TOP_UP_PARTS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkPhase {
    /// This side asked for it.
    AttachSent,
    /// The peer asked for it; the owner has not decided.
    AttachReceived,
    Attached,
    /// This side ended it. Whatever still comes is dropped until the peer's detach.
    DetachSent,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub session: SessionId,
    pub name: ByteString,
    /// What its attach takes, here and with whoever serves it, until the link is ended.
    pub attach_bytes: usize,
    /// Which end this side is.
    pub role: Role,
    pub handle: u32,
    pub remote_handle: Option<u32>,
    pub phase: LinkPhase,
    /// Deliveries sent or received since the link was attached.
    pub delivery_count: u32,
    /// As sender: what may be sent. As receiver: what the peer may still send.
    pub credit: u32,
    /// The receiver of the link wants the rest of its credit back.
    pub drain: bool,
    /// As sender: the rest goes back once what waits for the peer's window is written.
    pub owes_drained: bool,
    /// As receiver: credit and deliveries without a verdict together, see
    /// [`crate::engine::Connection::grant`].
    pub window: u32,
    pub unsettled: u32,
    pub message_bytes_max: u64,
    pub partial: Option<Partial>,
    /// A credit flow is due at the next flush.
    pub is_dirty: bool,
}

impl Link {
    pub(crate) fn new(session: SessionId, role: Role, handle: u32, phase: LinkPhase) -> Link {
        Link {
            session,
            name: ByteString::new(),
            attach_bytes: 0,
            role,
            handle,
            remote_handle: None,
            phase,
            delivery_count: 0,
            credit: 0,
            drain: false,
            owes_drained: false,
            window: 0,
            unsettled: 0,
            message_bytes_max: u64::MAX,
            partial: None,
            is_dirty: false,
        }
    }

    /// What the receiver's flow leaves a sender: deliveries already under way count against it
    /// (FLOW-7).
    pub(crate) fn credit_after_flow(&self, delivery_count: u32, link_credit: u32) -> u32 {
        let under_way = self.delivery_count.wrapping_sub(delivery_count);
        // A count ahead of ours is nonsense; nothing is under way then.
        let under_way = if under_way < 1 << 31 { under_way } else { 0 };
        link_credit.saturating_sub(under_way)
    }

    /// A flow that says where the link stands.
    pub(crate) fn flow(&self, echo: bool) -> Flow {
        Flow {
            handle: Some(self.handle),
            delivery_count: Some(self.delivery_count),
            link_credit: Some(self.credit),
            available: (self.role == Role::Sender).then_some(0),
            drain: self.drain,
            echo,
            ..Flow::default()
        }
    }

    /// The least that can be said of a link.
    pub(crate) fn bare_attach(&self) -> Attach {
        Attach {
            name: self.name.clone(),
            handle: self.handle,
            role: self.role,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: None,
            target: None,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (self.role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: None,
        }
    }

    /// The credit to announce, if enough of the window has come free to be worth a frame.
    pub(crate) fn credit_due(&self) -> Option<u32> {
        let wanted = self.window.saturating_sub(self.unsettled);
        let gain = wanted.saturating_sub(self.credit);
        let is_receiving = self.role == Role::Receiver && self.phase == LinkPhase::Attached;
        let is_worth_a_frame = gain >= self.window.div_ceil(TOP_UP_PARTS);
        (is_receiving && gain > 0 && is_worth_a_frame).then_some(wanted)
    }
}

/// A message of which more is to come.
#[derive(Debug)]
pub(crate) struct Partial {
    pub id: DeliveryId,
    pub link: LinkId,
    pub tag: Tag,
    pub message_format: u32,
    pub settled: bool,
    pub state: Option<DeliveryState>,
    /// `Err` counts what was dropped.
    pub payload: Result<Gathered, TooLarge>,
}

/// The payloads of a message's frames. A message of one frame, the usual one, stays a slice of it.
#[derive(Debug)]
pub(crate) enum Gathered {
    One(Bytes),
    Many(BytesMut),
}

impl Gathered {
    pub(crate) fn len(&self) -> usize {
        match self {
            Gathered::One(bytes) => bytes.len(),
            Gathered::Many(bytes) => bytes.len(),
        }
    }

    pub(crate) fn add(&mut self, more: &Bytes) {
        match self {
            Gathered::One(first) if first.is_empty() => *self = Gathered::One(more.clone()),
            Gathered::One(first) => {
                let mut all = BytesMut::with_capacity((first.len() + more.len()) * 2);
                all.extend_from_slice(first);
                all.extend_from_slice(more);
                *self = Gathered::Many(all);
            }
            Gathered::Many(all) => all.extend_from_slice(more),
        }
    }

    /// A copy of the first bytes of what was gathered and of what follows, at most `max`.
    pub(crate) fn head(&self, more: &Bytes, max: usize) -> Bytes {
        let first = match self {
            Gathered::One(bytes) => &bytes[..],
            Gathered::Many(bytes) => &bytes[..],
        };
        let first = &first[..first.len().min(max)];
        let rest = &more[..more.len().min(max - first.len())];
        [first, rest].concat().into()
    }

    pub(crate) fn finish(self) -> Bytes {
        match self {
            Gathered::One(bytes) => bytes,
            Gathered::Many(bytes) => bytes.freeze(),
        }
    }
}
