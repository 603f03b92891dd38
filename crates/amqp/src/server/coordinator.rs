//! Transactions of a connection (COORD-1 to COORD-11): its control links, and what links and requests
//! do within a transaction, in the order it came. A transaction is its connection's alone (TX-7).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amqp_protocol::codec::{
    Control, Declared, DecodeError, DeliveryState, Discharge, Error, Outcome, Tag,
};
use amqp_protocol::engine::{Connection, Delivery, DeliveryId, LinkId};
use amqp_protocol::message::{BodyKind, Message};
use amqp_protocol::request::Envelope;
use bytes::{Bytes, BytesMut};
use domain::{
    CancelScheduled, EntityId, Operation, QueueId, Refusal, Renew, Send, SessionToken,
    SetSessionState, Settle,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::access::Grants;
use super::address::Entity;
use super::backlog::Share;
use super::link_table::LinkTable;
use super::requests::{RequestLink, reply_node, session_of, settled_in};
use super::tasks::Tasks;
use super::transaction::{self, Act, Hearer, IsAbandoned, Part, PendingReply};
use super::transaction_group::TransactionGroups;
use super::verdict::verdict;
use super::{Shared, failure, incoming, operations};
use crate::management::{self, DispositionStatus, Reply};
use crate::{Limits, condition, link_terms};

/// Most transactions that a connection has open.
const OPEN_MAX: usize = 256;
/// The same of a client that has not proved who it is: an SDK declares one before it brings a token.
const UNPROVED_OPEN_MAX: usize = 4;
/// What an open transaction is told and has not come to: more than two links may send ahead, and ten
/// times what a transaction holds (TX-4). One that is told more is rolled back.
const ACTS_WAITING_MAX: usize = 2048;

/// What a connection has open, and what ends.
#[derive(Default)]
pub(super) struct Transactions {
    open: BTreeMap<Bytes, OpenTransaction>,
    /// Discharged or rolled back, and not over yet: what its client says meanwhile of a delivery that it
    /// still has the lock of, the last word on each.
    ending: BTreeMap<Bytes, BTreeMap<DeliveryId, Disposed>>,
    /// Which one has a verdict on a delivery that is not settled.
    provisional: BTreeMap<DeliveryId, Bytes>,
}

struct OpenTransaction {
    /// The control link that declared it.
    control: LinkId,
    acts: mpsc::Sender<Act>,
    is_abandoned: IsAbandoned,
}

/// What a client says of a delivery.
#[derive(Debug)]
pub(super) struct Disposed {
    pub id: DeliveryId,
    pub link: LinkId,
    pub tag: Tag,
    pub state: Option<DeliveryState>,
    pub settled: bool,
}

impl Transactions {
    /// TX-7: what the link declared and did not discharge is rolled back.
    pub fn close(&mut self, link: LinkId) {
        let ids: Vec<Bytes> = self
            .open
            .iter()
            .filter(|(_, open)| open.control == link)
            .map(|(id, _)| id.clone())
            .collect();
        ids.iter().for_each(|id| self.abandon(id));
    }

    /// Rolls one back, whatever it was told and has not come to.
    fn abandon(&mut self, id: &Bytes) {
        if let Some(open) = self.end(id) {
            open.is_abandoned.store(true, Ordering::Release);
        }
    }

    /// Takes one out of those that are open.
    fn end(&mut self, id: &Bytes) -> Option<OpenTransaction> {
        let open = self.open.remove(id)?;
        self.ending.insert(id.clone(), BTreeMap::new());
        Some(open)
    }

    /// What its client said meanwhile of one that is over.
    pub fn ended(&mut self, id: &Bytes) -> impl Iterator<Item = Disposed> + use<> {
        self.open.remove(id);
        self.provisional.retain(|_, of| of != id);
        self.ending.remove(id).unwrap_or_default().into_values()
    }

    /// Keeps what is said of a delivery that a transaction had a verdict on, until that one is over: its
    /// lock is not free before. `None`: it was kept.
    pub fn wait(&mut self, disposed: Disposed) -> Option<Disposed> {
        let of = self.provisional.get(&disposed.id);
        match of.and_then(|id| self.ending.get_mut(id)) {
            Some(waiting) => {
                waiting.insert(disposed.id, disposed);
                None
            }
            None => Some(disposed),
        }
    }

    fn knows(&self, id: &Bytes) -> bool {
        self.open.contains_key(id)
    }

    /// Tells a transaction what is part of it, or says why it cannot be. One that has no place for it is
    /// rolled back: committed without that, it would be done in part (TX-2).
    fn tell(&mut self, id: &Bytes, part: Part) -> Result<(), DeliveryState> {
        let open = self.open.get(id).ok_or_else(unknown_id)?;
        match open.acts.try_send(Act::Perform(Box::new(part))) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(unknown_id()),
            Err(TrySendError::Full(_)) => {
                self.abandon(id);
                let why =
                    "this transaction has more operations waiting than it may; it is rolled back";
                Err(DeliveryState::rejected(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why)))
            }
        }
    }
}

pub(super) struct TransactionHandler<'a> {
    pub shared: &'a Shared,
    pub grants: &'a Grants,
    pub engine: &'a mut Connection,
    pub table: &'a mut LinkTable,
    pub tasks: &'a mut Tasks,
    pub transactions: &'a mut Transactions,
    pub groups: &'a TransactionGroups,
    pub scratch: &'a mut BytesMut,
}

/// A management request within a transaction.
pub(super) struct DecodedRequest {
    pub envelope: Envelope,
    pub operation: Result<management::Operation, Refusal>,
    /// By its sender, which hears of it by the reply alone.
    pub is_settled: bool,
}

/// A request that is no part of its transaction, and why.
pub(super) struct RefusedRequest {
    pub node: String,
    pub envelope: Envelope,
    pub error: Error,
}

impl TransactionHandler<'_> {
    /// A message on a control link.
    pub fn on_control(&mut self, delivery: &Delivery) {
        let limits = &self.shared.config.limits;
        let id = (!delivery.settled).then_some(delivery.id);
        let asked = match &delivery.payload {
            Ok(payload) => control_of(payload, limits),
            Err(_) => Err(DecodeError::Size),
        };
        let state = match asked {
            Ok(Control::Declare(_)) => self.declare(delivery.link),
            Ok(Control::Discharge(Discharge { txn_id, fail })) => {
                let open = self.transactions.end(&txn_id);
                match open.map(|open| open.acts.try_send(Act::Discharge { id, fail })) {
                    Some(Ok(())) => return,
                    Some(Err(_)) | None => unknown_id(),
                }
            }
            Err(error) => {
                DeliveryState::rejected(Error::new(condition::DECODE_ERROR, error.to_string()))
            }
        };
        if let Some(id) = id {
            let _ = self.engine.settle(id, state);
        }
    }

    fn declare(&mut self, control: LinkId) -> DeliveryState {
        let is_proved = self.grants.is_proved(&self.shared.config.access);
        let open_max = if is_proved { OPEN_MAX } else { UNPROVED_OPEN_MAX };
        if self.transactions.open.len() + self.transactions.ending.len() >= open_max {
            let why = "this connection has as many transactions open as it may; discharge some";
            let error = Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why);
            return DeliveryState::rejected(error);
        }
        // Drawn, so that no other connection's id is taken for one of these.
        let txn_id = Bytes::copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        let (acts, waiting) = mpsc::channel(ACTS_WAITING_MAX);
        let (broker, notes) = (self.shared.broker.clone(), self.tasks.notes.clone());
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let run = transaction::run(txn_id.clone(), broker, waiting, is_abandoned.clone(), notes);
        self.tasks.spawn(run);
        let open = OpenTransaction { control, acts, is_abandoned };
        self.transactions.open.insert(txn_id.clone(), open);
        DeliveryState::Declared(Declared { txn_id })
    }

    /// A message on a sender link, within a transaction.
    /// `share`: see [`Part::share`].
    pub fn take_in_transaction(
        &mut self,
        delivery: &Delivery,
        state: &DeliveryState,
        share: Option<Share>,
    ) {
        let id = (!delivery.settled).then_some(delivery.id);
        let messages = incoming::messages(delivery, &self.shared.config.limits, self.scratch);
        let operation = messages
            .map(|messages| Operation::Send(Send { origin: None, entity: EntityId(0), messages }));
        let Some(link) = self.table.get(delivery.link) else { return };
        let Some(entity) = link.entity() else { return };
        let to = link.attach.property(link_terms::TRANSFER_DESTINATION).and_then(Entity::at);
        let to = to.map(|to| to.name);
        let reach = self.groups.reach(link.session);
        let hearer = Hearer::Transfer(delivery.link, id);
        let part = Part { reach, entity, to, session: None, operation, hearer, share };
        match self.perform(state, part) {
            Ok(()) if id.is_none() => self.table.count_presettled(delivery.link),
            Ok(()) => {}
            Err(refused) => {
                if let Some(id) = id {
                    let _ = self.engine.settle(id, refused);
                }
            }
        }
    }

    /// A verdict on what was sent to the client, within a transaction.
    pub fn decide_in_transaction(&mut self, disposed: Disposed) {
        let Disposed { id, link, tag, state, settled } = disposed;
        let Some(DeliveryState::Transactional { txn_id, outcome }) = state else { return };
        let id_wanted = (!settled).then_some(id);
        let found = self.table.outgoing(link);
        let found = found.map(|outgoing| (outgoing.entity.clone(), outgoing.session.clone()));
        let decided = verdict(id_wanted, &tag, outcome.map(DeliveryState::Outcome));
        let refused = match (decided, found) {
            (Ok(verdict), Some((entity, session))) => {
                let queue = QueueId { entity: EntityId(0), sub: entity.sub };
                let settlements = vec![verdict.settlement];
                let settle = Settle { origin: None, queue, settlements, atomic: true };
                let outcome = match verdict.answer {
                    DeliveryState::Outcome(outcome) => outcome,
                    _ => Outcome::Accepted,
                };
                let hearer = Hearer::Verdict(id_wanted, outcome);
                let operation = Ok(Operation::Settle(settle));
                let reach = self.groups.reach(id.session);
                let share = None;
                let part = Part { reach, entity, to: None, session, operation, hearer, share };
                match self.transactions.tell(&txn_id, part) {
                    Ok(()) => {
                        if !settled {
                            // One that another has a verdict on already refuses this one (TX-9).
                            self.transactions.provisional.entry(id).or_insert(txn_id);
                        }
                        return;
                    }
                    Err(refused) => refused,
                }
            }
            (Err(refused), _) => refused,
            (Ok(_), None) => return,
        };
        if !settled {
            let _ = self.engine.answer_provisionally(id, refused);
        }
    }

    /// A management request within a transaction: its effect is that of the commit. A refused one is to
    /// be replied so at once.
    pub fn request_in_transaction(
        &mut self,
        from: RequestLink,
        entity: Entity,
        request: DecodedRequest,
        state: &DeliveryState,
    ) -> Result<(), Box<RefusedRequest>> {
        let DecodedRequest { envelope, operation, is_settled } = request;
        let limits = &self.shared.config.limits;
        let node = reply_node(&entity);
        let permitted = operation.and_then(|operation| {
            let right = operations::right(&operation);
            let allowed = self.grants.allow(&self.shared.config.access, &node, right);
            let settled_in = settled_in(self.table, &entity, &operation);
            let held = session_of(self.table, &entity, &operation)?;
            Ok((allowed, right, settled_in, in_transaction(operation, &entity, held, limits)?))
        });
        let (settled_in, operation, reply) = match permitted {
            Ok((true, _, settled_in, (operation, reply))) => (settled_in, Ok(operation), reply),
            Ok((false, right, _, _)) => {
                let error = self.grants.missing(right, &node, &node);
                return Err(Box::new(RefusedRequest { node, envelope, error }));
            }
            Err(refusal) => (None, Err(refusal), Reply::Done),
        };
        let pending =
            PendingReply { from, node: node.clone(), envelope: Box::new(envelope.clone()), reply };
        let hearer = Hearer::Request(Box::new(pending));
        let reach = self.groups.reach(from.session);
        let (session, share) = (settled_in, None);
        let part = Part { reach, entity, to: None, session, operation, hearer, share };
        match self.perform(state, part) {
            Ok(()) => {
                self.tasks.request_began();
                Ok(())
            }
            // It is told in the state of the request itself, which was settled above.
            Err(_) if !is_settled => Ok(()),
            Err(_) => {
                let error = failure::refusal(Refusal::TransactionUnknown, "");
                Err(Box::new(RefusedRequest { node, envelope, error }))
            }
        }
    }

    /// Answers the delivery of a request, whatever becomes of what it asks.
    pub fn settle_request(&mut self, delivery: &Delivery, state: &DeliveryState) {
        if delivery.settled {
            return;
        }
        let state = match state {
            DeliveryState::Transactional { txn_id, .. } if self.transactions.knows(txn_id) => {
                let (txn_id, outcome) = (txn_id.clone(), Some(Outcome::Accepted));
                DeliveryState::Transactional { txn_id, outcome }
            }
            _ => unknown_id(),
        };
        let _ = self.engine.settle(delivery.id, state);
    }

    /// Tells a transaction what to do, or says what is wrong with its id.
    fn perform(&mut self, state: &DeliveryState, part: Part) -> Result<(), DeliveryState> {
        let DeliveryState::Transactional { txn_id, .. } = state else {
            let why = "the state of the transfer is no transaction's";
            return Err(DeliveryState::rejected(Error::new(condition::INVALID_FIELD, why)));
        };
        self.transactions.tell(txn_id, part)
    }
}

fn control_of(payload: &Bytes, limits: &Limits) -> Result<Control, DecodeError> {
    let message = Message::parse(payload.clone(), limits)?;
    match message.body_kind() {
        Some(BodyKind::Value) => Control::parse(&message.body(), limits),
        Some(BodyKind::Data | BodyKind::Sequence) | None => {
            Err(DecodeError::Descriptor { expected: "amqp-value" })
        }
    }
}

/// TX-7: never declared here, discharged, or gone with its control link.
fn unknown_id() -> DeliveryState {
    DeliveryState::rejected(failure::refusal(Refusal::TransactionUnknown, ""))
}

/// What a request asks of a transaction, and what it is replied.
fn in_transaction(
    operation: management::Operation,
    entity: &Entity,
    held: Option<SessionToken>,
    limits: &Limits,
) -> Result<(Operation, Reply), Refusal> {
    let (origin, unrouted) = (None, EntityId(0));
    let queue = QueueId { entity: unrouted, sub: entity.sub };
    match operation {
        management::Operation::Schedule { messages } => {
            let messages: Vec<_> = messages
                .iter()
                .map(|scheduled| operations::scheduled(scheduled, limits))
                .collect::<Result<_, _>>()?;
            // TX-2: the numbers are given by the commit; until then there are none to tell.
            let numbers = vec![domain::SequenceNumber(0); messages.len()];
            let send = Send { origin, entity: unrouted, messages };
            Ok((Operation::Send(send), Reply::Scheduled(numbers)))
        }
        management::Operation::CancelScheduled { sequences: numbers } => {
            let cancel = CancelScheduled { origin, entity: unrouted, numbers };
            Ok((Operation::CancelScheduled(cancel), Reply::Done))
        }
        management::Operation::UpdateDisposition {
            tokens, verdict, properties_to_modify, ..
        } => {
            if matches!(verdict, DispositionStatus::Renew) {
                let renew = Renew { origin, queue, tokens };
                return Ok((Operation::Renew(renew), Reply::Done));
            }
            let settlements = operations::settlements(tokens, verdict, properties_to_modify)?;
            let settle = Settle { origin, queue, settlements, atomic: true };
            Ok((Operation::Settle(settle), Reply::Done))
        }
        management::Operation::SetSessionState { state, session_id } => {
            let session = Some(session_id.as_str().into());
            let token = held.ok_or(Refusal::SessionLockLost { session })?;
            let set = SetSessionState { origin, entity: unrouted, token, state };
            Ok((Operation::SetState(set), Reply::Done))
        }
        // TX-1: receiving and looking are never part of one.
        management::Operation::Peek { .. }
        | management::Operation::ReceiveBySequence { .. }
        | management::Operation::RenewLock { .. }
        | management::Operation::RenewSessionLock { .. }
        | management::Operation::GetSessionState { .. }
        | management::Operation::GetMessageSessions { .. }
        | management::Operation::AddRule { .. }
        | management::Operation::RemoveRule { .. }
        | management::Operation::EnumerateRules { .. }
        | management::Operation::BatchDelete { .. } => {
            Err(Refusal::NotSupported { what: "this request within a transaction" })
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{SequenceNumber, SubQueue, Timestamp};
    use message_content::Neutral;

    use super::*;
    use crate::management::Scheduled;

    /// The numbers of what is scheduled are not told, since the commit gives them; what looks or
    /// receives is no part of a transaction.
    #[test]
    fn coord_7_a_transaction_has_requests_that_change_something() {
        let entity = Entity { name: "q".to_owned(), sub: SubQueue::Main };
        let limits = Limits::default();
        let within = |operation| in_transaction(operation, &entity, None, &limits);
        let scheduled_at = Some(Timestamp(7));
        let message = Neutral { scheduled_at, ..Neutral::default() }.to_amqp(&mut BytesMut::new());
        let messages = vec![Scheduled { message, message_id: None }; 2];
        let (operation, reply) =
            within(management::Operation::Schedule { messages }).expect("sent");
        assert!(matches!(operation, Operation::Send(send) if send.messages.len() == 2));
        assert_eq!(reply, Reply::Scheduled(vec![SequenceNumber(0); 2]));

        let cancel = management::Operation::CancelScheduled { sequences: vec![SequenceNumber(1)] };
        let (operation, reply) = within(cancel).expect("cancelled");
        assert!(matches!(operation, Operation::CancelScheduled(_)) && reply == Reply::Done);
        let rules = management::Operation::EnumerateRules { skip: 0, top: 1 };
        let peek = management::Operation::Peek {
            from: SequenceNumber(1),
            count: 1,
            session_id: None,
            omit_body: false,
        };
        for operation in [rules, peek] {
            let refusal = within(operation).expect_err("no part of a transaction");
            assert_eq!(condition::condition(&refusal), condition::NOT_IMPLEMENTED);
        }
    }
}
