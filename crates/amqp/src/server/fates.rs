//! What fault rules have in store for one connection's client: kept from the event that met a fault until it strikes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use amqp_protocol::codec::{Attach, DeliveryState, Error};
use amqp_protocol::engine::{Delivery, DeliveryId, LinkId, SessionId};
use amqp_protocol::request::Envelope;
use bytestring::ByteString;
use domain::{LockToken, SessionToken};
use fault_rules::{ErrorName, Hit};
use service::Received;

use super::address::Entity;
use super::backlog::Share;
use super::coordinator::Disposed;
use super::failure;
use super::note::Terms;
use super::requests::RequestLink;
use crate::{cbs, condition};

/// Events of one connection that come later for a fault; more are not held up.
const POSTPONED_MAX: usize = 4_096;
/// Answers of one connection that are to be lost or late; of more nobody is told so.
const ANSWERS_MAX: usize = 65_536;
/// Tokens of one connection that are known when they come again; more are taken for the first.
const AUDIENCES_MAX: usize = 1_024;

/// What becomes of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnswerFate {
    Late(Duration),
    Lost,
}

/// What becomes of a link once it is attached.
#[derive(Debug)]
pub(super) enum LinkFate {
    AnsweredLate(Duration),
    /// Its session's lock ends so soon.
    Lapses(Duration),
    Ends(Error),
    /// Of a sender's.
    HasNoCredit,
}

/// What a management request meets.
#[derive(Default)]
pub(super) struct RequestFault {
    pub before: Duration,
    pub after: Duration,
    pub answer_is_lost: bool,
}

impl RequestFault {
    pub async fn hold_up(&self, time: Duration) {
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
    }
}

/// How the connection itself is struck.
#[derive(Debug)]
pub(super) enum Breakage {
    Closed(Error),
    Reset,
    /// All but the last byte of what was to be written is, and the connection is reset.
    Cut,
    Silent(Duration),
}

/// An event that was held up, as it comes in once more.
#[derive(Debug)]
pub(super) enum Postponed {
    Attach {
        session: SessionId,
        link: LinkId,
        attach: Box<Attach>,
    },
    Ready(LinkId, Terms),
    /// With what it takes until then, where the engine does not count it.
    Delivery(Box<Delivery>, Option<Share>),
    Disposed(Box<Disposed>),
    Token {
        from: RequestLink,
        envelope: Box<Envelope>,
        request: cbs::Request,
    },
    /// With what they take until then.
    Messages(LinkId, Vec<Received>, Share),
    /// The lock of a message ends.
    Lapse(Entity, LockToken),
    ReleaseSession(Entity, SessionToken),
    /// On a delivery from the client.
    Decided(DeliveryId, DeliveryState),
    /// On a verdict of the client.
    Answered(DeliveryId, DeliveryState),
}

/// Empty for a connection whose client meets no faults.
#[derive(Default)]
pub(super) struct Fates {
    /// The container id.
    pub client: String,
    /// Answers to what the client sent, and to its verdicts.
    sent: BTreeMap<DeliveryId, AnswerFate>,
    settled: BTreeMap<DeliveryId, AnswerFate>,
    links: BTreeMap<LinkId, LinkFate>,
    audiences: BTreeSet<ByteString>,
    postponed: usize,
    breakage: Option<Breakage>,
}

impl Fates {
    pub fn of_answer_to_sent(&mut self, id: DeliveryId, fate: AnswerFate) {
        if self.sent.len() < ANSWERS_MAX {
            self.sent.insert(id, fate);
        }
    }

    pub fn of_answer_to_verdict(&mut self, id: DeliveryId, fate: AnswerFate) {
        if self.settled.len() < ANSWERS_MAX {
            self.settled.insert(id, fate);
        }
    }

    pub fn take_of_sent(&mut self, id: DeliveryId) -> Option<AnswerFate> {
        self.sent.remove(&id)
    }

    pub fn take_of_verdict(&mut self, id: DeliveryId) -> Option<AnswerFate> {
        self.settled.remove(&id)
    }

    pub fn of_link(&mut self, id: LinkId, fate: LinkFate) {
        self.links.insert(id, fate);
    }

    pub fn take_of_link(&mut self, id: LinkId) -> Option<LinkFate> {
        self.links.remove(&id)
    }

    /// It is gone, whether or not its fate has struck.
    pub fn forget_link(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    pub fn take_credit_withheld(&mut self, id: LinkId) -> bool {
        let withheld = matches!(self.links.get(&id), Some(LinkFate::HasNoCredit));
        if withheld {
            self.links.remove(&id);
        }
        withheld
    }

    /// Whether one more event may be held up.
    pub fn postpone(&mut self) -> bool {
        let has_room = self.postponed < POSTPONED_MAX;
        self.postponed += usize::from(has_room);
        has_room
    }

    /// One of them has come.
    pub fn came(&mut self) {
        self.postponed -= 1;
    }

    /// Whether a token for the same was shown before on this connection.
    pub fn is_renewal(&mut self, audience: &ByteString) -> bool {
        if self.audiences.contains(audience) {
            return true;
        }
        if self.audiences.len() < AUDIENCES_MAX {
            self.audiences.insert(audience.clone());
        }
        false
    }

    pub fn break_with(&mut self, breakage: Breakage) {
        // The first counts.
        self.breakage.get_or_insert(breakage);
    }

    pub fn take_breakage(&mut self) -> Option<Breakage> {
        self.breakage.take()
    }
}

/// What a client is told that meets a fault. `address`: of what it is about.
pub(super) fn error(hit: &Hit, error: ErrorName, address: &str) -> Error {
    // COND-3.
    let sentence = match error {
        ErrorName::MessagingEntityNotFound => condition::entity_not_found(address),
        _ => format!("The fault rule '{}' has it so.", hit.rule),
    };
    failure::told(symbol(error), &sentence, address)
}

/// ERR-1 to ERR-25.
fn symbol(error: ErrorName) -> &'static str {
    match error {
        ErrorName::MessagingEntityNotFound => condition::NOT_FOUND,
        ErrorName::MessagingEntityAlreadyExists => condition::ENTITY_ALREADY_EXISTS,
        ErrorName::MessagingEntityDisabled => condition::ENTITY_DISABLED,
        ErrorName::MessageLockLost => condition::MESSAGE_LOCK_LOST,
        ErrorName::SessionLockLost => condition::SESSION_LOCK_LOST,
        ErrorName::SessionCannotBeLocked => condition::SESSION_CANNOT_BE_LOCKED,
        ErrorName::ServiceTimeout => condition::TIMEOUT,
        ErrorName::MessageNotFound => condition::MESSAGE_NOT_FOUND,
        ErrorName::MessageSizeExceeded => condition::MESSAGE_SIZE_EXCEEDED,
        ErrorName::QuotaExceeded => condition::RESOURCE_LIMIT_EXCEEDED,
        ErrorName::ServiceBusy => condition::SERVER_BUSY,
        ErrorName::ArgumentException => condition::ARGUMENT_ERROR,
        ErrorName::InvalidOperationException => condition::NOT_ALLOWED,
        ErrorName::NotSupportedException => condition::NOT_IMPLEMENTED,
        ErrorName::UnauthorizedAccessException => condition::UNAUTHORIZED_ACCESS,
        ErrorName::GeneralError => condition::INTERNAL_ERROR,
        ErrorName::DetachForced => condition::DETACH_FORCED,
        ErrorName::ConnectionForced => condition::CONNECTION_FORCED,
    }
}
