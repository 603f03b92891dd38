//! One open transaction (COORD-3 to COORD-12): a future that owns it and does what it is told, in
//! order. Whatever ends it before a discharge rolls it back (TX-7).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amqp_protocol::codec::{DeliveryState, Outcome};
use amqp_protocol::engine::{DeliveryId, LinkId};
use amqp_protocol::request::Envelope;
use bytes::Bytes;
use domain::{Disposition, Operation, Properties, Refusal, SessionToken, Settlement};
use service::{Broker, Caller, Error, ErrorKind, Reach, Transaction};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::address::Entity;
use super::backlog::Share;
use super::note::{Note, Notes, tell};
use super::requests::RequestLink;
use super::{failure, held_session};
use crate::management::Reply;

/// What a transaction is told.
pub(super) enum Act {
    Perform(Box<Part>),
    /// The last: commit, or with `fail` roll back. `id`: the delivery that asked, if it wants to know.
    Discharge {
        id: Option<DeliveryId>,
        fail: bool,
    },
}

/// Something to be part of it.
pub(super) struct Part {
    pub reach: Reach,
    pub entity: Entity,
    /// FWD-14: where its messages go, if elsewhere.
    pub to: Option<String>,
    /// Of a settlement, if its client holds one.
    pub session: Option<SessionToken>,
    pub operation: Result<Operation, Refusal>,
    pub hearer: Hearer,
    /// What it takes until it is done, where nobody else counts it.
    pub share: Option<Share>,
}

/// Who hears what came of it.
pub(super) enum Hearer {
    /// A delivery from the client; `None`: it settled it itself.
    Transfer(LinkId, Option<DeliveryId>),
    /// A verdict of the client, and what confirms it. `None`: it settled the delivery itself.
    Verdict(Option<DeliveryId>, Outcome),
    /// A management request, and the reply if nothing is against it.
    Request(Box<PendingReply>),
}

pub(super) struct PendingReply {
    pub from: RequestLink,
    pub node: String,
    pub envelope: Box<Envelope>,
    pub reply: Reply,
}

/// Set once the connection has let go of a transaction that was not discharged: what it was told before and
/// has not come to is not done any more.
pub(super) type IsAbandoned = Arc<AtomicBool>;

/// Runs until the transaction is discharged, or the connection lets go of its end.
pub(super) async fn run(
    txn_id: Bytes,
    broker: Broker,
    mut acts: mpsc::Receiver<Act>,
    is_abandoned: IsAbandoned,
    notes: Notes,
) {
    let state = State::Open(broker.transactions().begin());
    let (provisional, receipts) = (Vec::new(), Vec::new());
    let mut task =
        TransactionTask { txn_id, broker, state, lost: None, provisional, receipts, notes };
    loop {
        let expires_at = match &task.state {
            State::Open(transaction) => transaction.expires_at(),
            State::RolledBack(_) => None,
        };
        let act = tokio::select! {
            biased;
            () = reached(expires_at) => {
                task.roll_back(Refusal::TransactionTimedOut).await; // TX-3.
                continue;
            }
            act = acts.recv() => act,
        };
        if is_abandoned.load(Ordering::Acquire) {
            task.roll_back(Refusal::TransactionUnknown).await; // TX-7.
        }
        match act {
            Some(Act::Perform(part)) => task.perform(*part).await,
            Some(Act::Discharge { id, fail }) => {
                task.discharge(id, fail).await;
                break;
            }
            None => {
                task.roll_back(Refusal::TransactionUnknown).await;
                break;
            }
        }
    }
    tell(&task.notes, Note::TransactionEnded(task.txn_id)).await;
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

enum State {
    Open(Transaction),
    /// And what those are told that still ask something of it.
    RolledBack(Refusal),
}

struct TransactionTask {
    txn_id: Bytes,
    broker: Broker,
    state: State,
    /// Why something that nobody is told of is not part of it: then neither is the rest (TX-2).
    lost: Option<Error>,
    /// Verdicts on deliveries that stay unsettled until the commit (COORD-6).
    provisional: Vec<(DeliveryId, DeliveryState)>,
    /// Verdicts on deliveries that their client settled: after a rollback nobody can settle them again.
    receipts: Vec<(Entity, Settlement)>,
    notes: Notes,
}

impl TransactionTask {
    async fn perform(&mut self, part: Part) {
        let Part { reach, entity, to, session, operation, hearer, share } = part;
        let settlements = match (&operation, &hearer) {
            (Ok(Operation::Settle(settle)), Hearer::Verdict(None, _)) => settle.settlements.clone(),
            _ => Vec::new(),
        };
        let done = match (operation, &mut self.state) {
            (Err(refusal), _) => Err(Error::new(refusal, entity.name.as_str())),
            (Ok(_), State::RolledBack(why)) => Err(Error::new(why.clone(), entity.name.as_str())),
            (Ok(operation), State::Open(transaction)) => {
                let first = held_session::first_lock(&operation);
                let done =
                    transaction.perform(&reach, &entity.name, to.as_deref(), operation).await;
                match done {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        let (broker, session) = (&self.broker, session.as_ref());
                        Err(held_session::lost_lock(broker, session, first, error).await)
                    }
                }
            }
        };
        match hearer {
            Hearer::Transfer(_, Some(id)) => {
                let state = self.state(done, Outcome::Accepted);
                tell(&self.notes, Note::Decided(vec![id], state)).await;
            }
            Hearer::Transfer(link, None) => {
                drop(share);
                self.lost = self.lost.take().or(done.err());
                tell(&self.notes, Note::Stored(link)).await;
            }
            Hearer::Verdict(Some(id), outcome) => {
                let is_done = done.is_ok();
                let state = self.state(done, outcome);
                if is_done {
                    self.provisional.push((id, state.clone()));
                }
                tell(&self.notes, Note::Provisional(id, state)).await;
            }
            Hearer::Verdict(None, _) => {
                if done.is_ok() {
                    let of = |settlement| (entity.clone(), settlement);
                    self.receipts.extend(settlements.into_iter().map(of));
                } else {
                    self.give_back(
                        settlements.into_iter().map(|one| (entity.clone(), one)).collect(),
                    )
                    .await;
                }
                self.lost = self.lost.take().or(done.err());
            }
            Hearer::Request(pending) => {
                let PendingReply { from, node, envelope, reply } = *pending;
                let reply = match done {
                    Ok(()) => reply,
                    Err(error) => Reply::Refused(failure::error(&error)),
                };
                tell(&self.notes, Note::Replied { from, node, envelope, reply, turn: None }).await;
            }
        }
    }

    fn state(&self, done: Result<(), Error>, outcome: Outcome) -> DeliveryState {
        match done {
            Ok(()) => {
                let txn_id = self.txn_id.clone();
                DeliveryState::Transactional { txn_id, outcome: Some(outcome) }
            }
            Err(error) => DeliveryState::rejected(failure::error(&error)),
        }
    }

    async fn discharge(&mut self, id: Option<DeliveryId>, fail: bool) {
        let rolled_back = State::RolledBack(Refusal::TransactionUnknown);
        let done = match (std::mem::replace(&mut self.state, rolled_back), self.lost.take()) {
            (State::Open(transaction), _) if fail => {
                transaction.rollback();
                self.give_back_receipts().await;
                Ok(())
            }
            (State::Open(transaction), None) => {
                let done = transaction.commit(Caller::Edge).await;
                self.discharged(done.map(drop)).await
            }
            (State::Open(transaction), Some(error)) => {
                transaction.rollback();
                self.discharged(Err(rolled_back_by(error))).await
            }
            (State::RolledBack(why), _) => Err(Error::new(why, "")),
        };
        let state = match done {
            Ok(()) => DeliveryState::ACCEPTED,
            Err(error) => DeliveryState::rejected(failure::error(&error)),
        };
        if let Some(id) = id {
            tell(&self.notes, Note::Decided(vec![id], state)).await;
        }
    }

    /// COORD-12: what is committed is settled, what is not can be settled again, by whoever can.
    async fn discharged(&mut self, done: Result<(), Error>) -> Result<(), Error> {
        match &done {
            Ok(()) => {
                let settled = std::mem::take(&mut self.provisional);
                tell(&self.notes, Note::Settled(settled)).await;
            }
            // It may have been committed (TX-14): locks that are held all the same lapse.
            Err(Error { kind: ErrorKind::Unknown { .. }, .. }) => {}
            Err(_) => self.give_back_receipts().await,
        }
        done
    }

    async fn roll_back(&mut self, why: Refusal) {
        if let State::Open(_) = &self.state {
            self.state = State::RolledBack(why); // Locks are free from here on.
            self.give_back_receipts().await;
        }
    }

    async fn give_back_receipts(&mut self) {
        let receipts = std::mem::take(&mut self.receipts);
        self.give_back(receipts).await;
    }

    /// TX-8: abandons what its clients settled in a transaction that was rolled back, each entity's together,
    /// so that it comes again in its order.
    async fn give_back(&self, receipts: Vec<(Entity, Settlement)>) {
        let mut left = receipts;
        while let Some((entity, _)) = left.first() {
            let entity = entity.clone();
            let (own, others): (Vec<_>, _) =
                left.into_iter().partition(|(of, _)| of.is_same(&entity));
            left = others;
            let abandon = Disposition::Abandon { properties: Properties::new() };
            let abandoned =
                |settlement: Settlement| Settlement { disposition: abandon.clone(), ..settlement };
            let settlements = own.into_iter().map(|(_, one)| abandoned(one)).collect();
            let Entity { name, sub } = &entity;
            let messages = self.broker.messages();
            if let Err(error) = messages.settle(name, *sub, settlements, false, Caller::Edge).await
            {
                // Their locks lapse.
                tracing::debug!(%error, "what was rolled back is not given back");
            }
        }
    }
}

/// As a commit says it that is refused.
fn rolled_back_by(error: Error) -> Error {
    match error.refusal() {
        Some(refusal) => {
            let cause = refusal.clone().into();
            let refusal = Refusal::TransactionRolledBack { operation: 0, cause };
            Error::new(refusal, &*error.entity)
        }
        None => error,
    }
}
