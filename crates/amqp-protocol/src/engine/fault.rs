//! What a violation of the protocol costs the peer: a link, a session or the connection.

use super::event::{LinkId, SessionId};
use crate::codec::{DecodeError, Error};
use crate::condition;

pub(crate) enum Fault {
    Connection(Error),
    Session(SessionId, Error),
    Link(LinkId, Error),
}

impl Fault {
    pub(crate) fn framing(why: &'static str) -> Fault {
        Fault::Connection(Error::new(condition::FRAMING_ERROR, why))
    }

    pub(crate) fn session(id: SessionId, condition: &'static str, why: &'static str) -> Fault {
        Fault::Session(id, Error::new(condition, why))
    }

    pub(crate) fn link(id: LinkId, condition: &'static str, why: &'static str) -> Fault {
        Fault::Link(id, Error::new(condition, why))
    }
}

/// CONN-17: malformed frames and malformed values are different conditions.
impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Fault {
        let condition = match error.is_framing() {
            true => condition::FRAMING_ERROR,
            false => condition::DECODE_ERROR,
        };
        Fault::Connection(Error::new(condition, error.to_string()))
    }
}
