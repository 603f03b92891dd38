//! What the engine tells its owner, and the names both use.

use bytes::Bytes;
use bytestring::ByteString;

use super::slots::Slot;
use crate::codec::{Attach, DeliveryState, Error, Open, Tag};

/// A session of one connection, for as long as the connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(crate) Slot);

/// A link of one connection, for as long as the connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) Slot);

/// A delivery of a session, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    pub session: SessionId,
    pub id: u32,
}

/// Milliseconds on a clock of the owner that never runs back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    pub(crate) fn plus(self, ms: u64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }
}

/// Who a peer says it is (SASL-2, SASL-3, SASL-9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// ANONYMOUS, and MSSBCBS, which means the same: tokens follow on `$cbs`.
    Anonymous,
    /// PLAIN: a rule's name and its key.
    Plain { user: ByteString, password: ByteString },
    /// EXTERNAL: whom the certificate of the connection names, perhaps to act as somebody (RFC 4422,
    /// appendix A).
    External { identity: ByteString },
}

/// A message that arrived whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub link: LinkId,
    pub tag: Tag,
    /// 0, unless sender and receiver know another.
    pub message_format: u32,
    /// The sender wants no outcome; none is to be given (MSG-9).
    pub settled: bool,
    /// A transactional state, if the transfer had one.
    pub state: Option<DeliveryState>,
    pub payload: Result<Bytes, TooLarge>,
}

/// A message beyond the link's limit. Its bytes were read and dropped, but for the first; it is still
/// owed an outcome (ERR-9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Bytes up to where counting stopped.
    pub bytes: u64,
    pub max: u64,
    /// How it begins, at most [`TooLarge::HEAD_BYTES_MAX`]: there a request says where its reply goes.
    pub head: Bytes,
}

impl TooLarge {
    pub const HEAD_BYTES_MAX: usize = 16 * 1024;
}

/// Something the owner of a connection has to know or decide.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// To be answered with [`crate::engine::Connection::login`].
    Login(Credentials),
    Opened(Box<Open>),
    Began(SessionId),
    /// The peer wants a link: accept or refuse it, at once or later.
    AttachRequested {
        session: SessionId,
        link: LinkId,
        attach: Box<Attach>,
    },
    /// The peer accepted this side's link.
    Attached {
        link: LinkId,
        attach: Box<Attach>,
    },
    /// What may be sent has changed. With `drain`, what is not sent now is given back by
    /// [`crate::engine::Connection::drained`] (FLOW-8).
    Credit {
        link: LinkId,
        credit: u32,
        drain: bool,
    },
    /// The peer, being drained, has nothing left to send.
    Drained(LinkId),
    Delivery(Delivery),
    /// The receiver's verdict on what was sent. Unless `settled`, it waits for an answer (SETTLE-4).
    Disposed {
        id: DeliveryId,
        link: LinkId,
        tag: Tag,
        state: Option<DeliveryState>,
        settled: bool,
    },
    /// The sender's word on a verdict, which does not settle it: what is to be once a transaction is
    /// committed.
    Answered {
        id: DeliveryId,
        state: Option<DeliveryState>,
    },
    /// The sender's last word on what was received and not settled first.
    Settled {
        id: DeliveryId,
        state: Option<DeliveryState>,
    },
    /// The link is gone. `closed`: for good, not only for now.
    Detached {
        link: LinkId,
        closed: bool,
        error: Option<Error>,
        by: Side,
    },
    /// The session is gone, and every link in it without another word.
    Ended {
        session: SessionId,
        error: Option<Error>,
        by: Side,
    },
    /// The connection is gone, and everything in it.
    Closed {
        error: Option<Error>,
        by: Side,
    },
}

/// Whose doing it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Us,
    Peer,
}
