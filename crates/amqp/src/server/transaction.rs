//! One open transaction (COORD-3 to COORD-9): a future that owns it and does what it is told, in
//! order. Whatever ends the future before a discharge rolls it back (TX-7).

use amqp_protocol::codec::{DeliveryState, Outcome};
use amqp_protocol::engine::{DeliveryId, LinkId, SessionId};
use amqp_protocol::request::Envelope;
use bytes::Bytes;
use domain::{Operation, Refusal};
use service::{Broker, Caller, Error, Reach, Transaction};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::failure;
use super::note::{Note, Notes, tell};
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
    pub entity: String,
    /// FWD-14: where its messages go, if elsewhere.
    pub to: Option<String>,
    pub operation: Result<Operation, Refusal>,
    pub hearer: Hearer,
}

/// Who hears what came of it.
pub(super) enum Hearer {
    /// A delivery from the client; `None`: it settled it itself.
    Transfer(LinkId, Option<DeliveryId>),
    /// A verdict of the client, and what confirms it.
    Verdict(Option<DeliveryId>, Outcome),
    /// A management request, and the reply if nothing is against it.
    Request(Box<PendingReply>),
}

pub(super) struct PendingReply {
    pub session: SessionId,
    pub node: String,
    pub envelope: Box<Envelope>,
    pub reply: Reply,
}

/// Runs until the transaction is discharged, or the connection lets go of its end.
pub(super) async fn run(
    txn_id: Bytes,
    broker: Broker,
    mut acts: mpsc::Receiver<Act>,
    notes: Notes,
) {
    let transaction = Some(broker.transactions().begin());
    let mut task = TransactionTask { txn_id, transaction, lost: None, notes };
    loop {
        let expires_at = task.transaction.as_ref().and_then(Transaction::expires_at);
        let act = tokio::select! {
            biased;
            () = reached(expires_at) => {
                task.transaction = None; // TX-3: locks are free from here on.
                continue;
            }
            act = acts.recv() => act,
        };
        match act {
            Some(Act::Perform(part)) => task.perform(*part).await,
            Some(Act::Discharge { id, fail }) => return task.discharge(id, fail).await,
            None => return,
        }
    }
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

struct TransactionTask {
    txn_id: Bytes,
    /// `None`: its time is over (TX-3).
    transaction: Option<Transaction>,
    /// Why something that nobody is told of is not part of it: then neither is the rest (TX-2).
    lost: Option<Error>,
    notes: Notes,
}

impl TransactionTask {
    async fn perform(&mut self, part: Part) {
        let Part { reach, entity, to, operation, hearer } = part;
        let done = match (operation, &mut self.transaction) {
            (Err(refusal), _) => Err(Error::new(refusal, entity.as_str())),
            (Ok(_), None) => Err(Error::new(Refusal::TransactionTimedOut, entity.as_str())),
            (Ok(operation), Some(transaction)) => {
                transaction.perform(&reach, &entity, to.as_deref(), operation).await
            }
        };
        match hearer {
            Hearer::Transfer(_, Some(id)) => {
                let state = self.state(done, Outcome::Accepted);
                tell(&self.notes, Note::Decided(vec![id], state)).await;
            }
            Hearer::Transfer(link, None) => {
                self.lost = self.lost.take().or(done.err());
                tell(&self.notes, Note::Stored(link)).await;
            }
            Hearer::Verdict(Some(id), outcome) => {
                tell(&self.notes, Note::Settled(vec![(id, self.state(done, outcome))])).await;
            }
            Hearer::Verdict(None, _) => self.lost = self.lost.take().or(done.err()),
            Hearer::Request(pending) => {
                let PendingReply { session, node, envelope, reply } = *pending;
                let reply = match done {
                    Ok(()) => reply,
                    Err(error) => Reply::Refused(failure::error(&error)),
                };
                tell(&self.notes, Note::Replied { session, node, envelope, reply }).await;
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

    async fn discharge(self, id: Option<DeliveryId>, fail: bool) {
        let done = match (self.transaction, self.lost) {
            (Some(transaction), _) if fail => {
                transaction.rollback();
                Ok(())
            }
            (Some(transaction), None) => transaction.commit(Caller::Edge).await.map(drop),
            (Some(_), Some(error)) => Err(rolled_back(error)),
            (None, _) => Err(Error::new(Refusal::TransactionTimedOut, "")),
        };
        let state = match done {
            Ok(()) => DeliveryState::ACCEPTED,
            Err(error) => DeliveryState::rejected(failure::error(&error)),
        };
        if let Some(id) = id {
            tell(&self.notes, Note::Decided(vec![id], state)).await;
        }
    }
}

/// As a commit says it that is refused.
fn rolled_back(error: Error) -> Error {
    match error.refusal() {
        Some(refusal) => {
            let cause = refusal.clone().into();
            let refusal = Refusal::TransactionRolledBack { operation: 0, cause };
            Error::new(refusal, &*error.entity)
        }
        None => error,
    }
}
