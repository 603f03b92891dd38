//! Open transactions (TX). What a client wants done is gathered in the memory of the node it is
//! connected to, and goes to the group as one command when it commits. Until then the group knows
//! nothing of it; its leader remembers which locks are spoken for (TX-9).

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{
    Command, Commit, Destination, EntityId, EntityKind, GroupId, LockToken, Namespace, NewMessage,
    ONE_ENTITY, Operation, Outcome, Performed, QualifiedName, QueueId, Refusal, Send, SendVia,
    SequenceNumber, TransactionSize, split_subscription_path, validate,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::edge::address::Caller;
use crate::edge::admission::Admission;
use crate::edge::namespace_use::InUse;
use crate::edge::receiver::unexpected;
use crate::edge::router::{Failure, PAUSE_MIN, Route, Router, not_found};
use crate::error::{Error, ErrorKind, Result, Unavailable};
use crate::exchange::{LockClaim, Read, ReadAnswer, TransactionId};

/// A transaction that is open. Dropping it rolls it back (TX-7): nothing was done, and locks are as
/// they were (TX-8).
pub struct Transaction {
    router: Arc<Router>,
    admission: Arc<Admission>,
    id: TransactionId,
    scope: Option<Scope>,
    /// What its client calls entities is called so there.
    namespace: Namespace,
    /// From its first operation on.
    in_use: Option<InUse>,
    /// With the names their entities were given by.
    operations: Vec<(QualifiedName, Operation)>,
    size: TransactionSize,
    /// Of the node's budget.
    shares: Vec<OwnedSemaphorePermit>,
    /// TX-3.
    expires_at: Option<Instant>,
    /// Groups whose leaders may know of locks: several, if the entity moved meanwhile (ENT-14).
    marked: BTreeSet<GroupId>,
}

/// The entity it is about (TX-5).
#[derive(Clone)]
struct Scope {
    name: QualifiedName,
    route: Route,
}

/// Which entities an operation may reach, by where it is asked for (TX-5). What goes to another entity
/// than the transaction's is a send, and goes via that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The transaction's own entity: that of its first operation.
    One,
    /// Others via the entity of the first operation.
    ViaFirst,
    /// Others via this entity, which is the transaction's whatever its first operation is about. A
    /// subscription stands for its topic (TX-6).
    Via(String),
}

/// Transactions of this node's clients.
#[derive(Clone, Copy)]
pub struct Transactions<'a> {
    pub(super) router: &'a Arc<Router>,
    pub(super) admission: &'a Arc<Admission>,
    pub(super) namespace: &'a Namespace,
}

impl Transactions<'_> {
    /// A transaction about whatever entity its first operation is about, or goes via, a subscription's
    /// topic counting for it (TX-6).
    pub fn begin(self) -> Transaction {
        Transaction {
            router: self.router.clone(),
            admission: self.admission.clone(),
            id: self.router.next_transaction(),
            scope: None,
            namespace: self.namespace.clone(),
            in_use: None,
            operations: Vec::new(),
            size: TransactionSize::default(),
            shares: Vec::new(),
            expires_at: None,
            marked: BTreeSet::new(),
        }
    }

    /// Messages for one entity via another, in a transaction of their own (FWD-14): once they are
    /// stored there, they arrive once. The numbers are those they have in the entity between (SEQ-8).
    pub async fn send_via(
        self,
        via: &str,
        to: &str,
        messages: Vec<NewMessage>,
        caller: Caller,
    ) -> Result<Vec<SequenceNumber>> {
        let mut transaction = self.begin();
        let send = Send { origin: None, entity: EntityId(0), messages };
        transaction.perform(&Reach::One, via, Some(to), Operation::Send(send)).await?;
        let committed = transaction.commit(caller).await;
        let performed = committed.map_err(|error| match error.refusal() {
            Some(Refusal::TransactionRolledBack { cause, .. }) => {
                Error::new((*cause.0).clone(), via)
            }
            _ => error,
        })?;
        let numbers = performed.into_iter().find_map(|performed| match performed {
            Performed::Sent { sequences } => Some(sequences),
            Performed::Done | Performed::Renewed { .. } => None,
        });
        Ok(numbers.unwrap_or_default())
    }
}

impl Transaction {
    /// TX-3: when it is rolled back; `None` before the first operation.
    pub fn expires_at(&self) -> Option<Instant> {
        self.expires_at
    }

    /// Adds an operation about an entity; its entity ids are written in here. A settlement or a
    /// renewal is checked at the leader, and a settlement's locks are kept from others (TX-9).
    /// Refused, it is not part of the transaction, which stays open.
    ///
    /// `to`: another entity that a send is for, and reaches via this one (FWD-14), whatever `reach` says.
    pub async fn perform(
        &mut self,
        reach: &Reach,
        entity: &str,
        to: Option<&str>,
        operation: Operation,
    ) -> Result<()> {
        self.check_time(entity)?;
        self.begin_use(entity).await?;
        let entity = &self.named(entity)?;
        let prepared = self.prepare(reach, entity, to, operation).await?;
        let timeout = self.router.config.transaction_timeout;
        self.expires_at.get_or_insert_with(|| Instant::now() + timeout);
        self.claim(entity, &prepared.operation).await?;
        self.take(prepared);
        Ok(())
    }

    /// Adds an operation of a transaction whose commit was asked before, without an answer: what was
    /// pending then may be done by now, so all checks are the commit's.
    pub async fn repeat(
        &mut self,
        reach: &Reach,
        entity: &str,
        to: Option<&str>,
        operation: Operation,
    ) -> Result<()> {
        self.begin_use(entity).await?;
        let entity = &self.named(entity)?;
        let prepared = self.prepare(reach, entity, to, operation).await?;
        self.take(prepared);
        Ok(())
    }

    /// All of it or nothing, as of now (TX-2, TX-10). What came of each operation, in order. An error
    /// that is [`ErrorKind::Unknown`] leaves open whether it was committed (TX-14).
    pub async fn commit(mut self, caller: Caller) -> Result<Vec<Performed>> {
        let Some(Scope { name, route }) = self.scope.clone() else { return Ok(Vec::new()) };
        self.check_time(name.told())?;
        // The locks are this commit's now. Whoever else settles them comes behind it in the log, or has
        // it refused as a whole.
        self.unmark();
        let (names, operations) = std::mem::take(&mut self.operations).into_iter().unzip();
        let names: Vec<QualifiedName> = names;
        let mut command =
            Command::Commit(Commit { origin: None, entity: route.entity, operations });
        let router = &self.router;
        router.stamp(&mut command, &route, caller);
        let (mut route, mut pause, deadline) = (route, PAUSE_MIN, router.deadline());
        let refusal = loop {
            match router.call(route.group, command, deadline).await {
                Ok(answer) => match answer.outcome {
                    Outcome::Committed { performed } => return Ok(performed),
                    Outcome::Refused(refusal) => break refusal,
                    other => return Err(unexpected(&other, name.into())),
                },
                Err(Failure::Error(kind)) => return Err(Error::new(kind, name)),
                Err(Failure::Mendable { refusal: Refusal::StaleRoute { .. }, .. }) => {
                    return Err(not_found(name.as_str()));
                }
                Err(Failure::Mendable {
                    refusal: Refusal::Relocated { entity, to },
                    command: again,
                }) => {
                    let to = (entity, to);
                    let followed = router.follow(&mut route.group, to, &mut pause, deadline).await;
                    followed.map_err(|kind| Error::new(kind, name.clone()))?;
                    command = again;
                    router.stamp(&mut command, &route, caller);
                }
                Err(Failure::Mendable { refusal, .. }) => break refusal,
            }
        };
        Err(Error::new(named(refusal, &names), name))
    }

    /// TX-8.
    pub fn rollback(self) {
        drop(self);
    }

    /// NS-10.
    async fn begin_use(&mut self, entity: &str) -> Result<()> {
        if self.in_use.is_none() {
            self.in_use = Some(self.router.enter(&self.namespace, entity).await?);
        }
        Ok(())
    }

    /// NS-3, NS-4.
    fn named(&self, name: &str) -> Result<QualifiedName> {
        self.namespace.qualify(name).map_err(|refusal| Error::new(refusal, name))
    }

    fn check_time(&self, entity: &str) -> Result<()> {
        match self.expires_at.is_some_and(|at| at <= Instant::now()) {
            true => Err(Error::new(Refusal::TransactionTimedOut, entity)),
            false => Ok(()),
        }
    }

    /// Everything about an operation that this node can judge.
    async fn prepare(
        &self,
        reach: &Reach,
        entity: &QualifiedName,
        to: Option<&str>,
        operation: Operation,
    ) -> Result<Prepared> {
        let router = &self.router;
        let route = router.route(entity, router.deadline()).await?;
        check(&operation, route.kind).map_err(|refusal| Error::new(refusal, entity))?;
        let refused = |why| Err(Error::new(Refusal::InvalidOperation { why }, entity));
        let (name, scope, operation) = match (to, operation) {
            (Some(to), Operation::Send(send)) => {
                let to = &self.named(to)?;
                let to_route = router.route(to, router.deadline()).await?;
                let scope = scope(router, entity, &route).await?;
                let operation = outgoing(&scope, to, &to_route, send)?;
                (entity.clone(), scope, operation)
            }
            (Some(_), _) => return refused("only messages are sent via an entity"),
            (None, Operation::Send(send)) => match self.via(reach).await? {
                Some(via) if via.route.entity != route.entity => {
                    let operation = outgoing(&via, entity, &route, send)?;
                    (via.name.clone(), via, operation)
                }
                Some(_) | None => {
                    let operation = Operation::Send(Send { entity: route.entity, ..send });
                    (entity.clone(), scope(router, entity, &route).await?, operation)
                }
            },
            (None, mut operation) => {
                operation.set_entity(route.entity);
                let scope = scope(router, entity, &route).await?;
                match self.via(reach).await? {
                    Some(via) if via.route.entity != scope.route.entity => {
                        return refused(ONE_ENTITY);
                    }
                    Some(_) | None => (entity.clone(), scope, operation),
                }
            }
        };
        if self.scope.as_ref().is_some_and(|first| first.route.entity != scope.route.entity) {
            return refused(ONE_ENTITY);
        }
        let mut size = self.size;
        size.add(&operation).map_err(|refusal| Error::new(refusal, entity))?;
        let Some(share) = self.admission.operation(size.bytes() - self.size.bytes()) else {
            return Err(Error::new(ErrorKind::Unavailable { why: Unavailable::Busy }, entity));
        };
        Ok(Prepared { name, operation, scope, size, share })
    }

    fn take(&mut self, prepared: Prepared) {
        let Prepared { name, operation, scope, size, share } = prepared;
        self.scope = Some(scope);
        self.size = size;
        self.shares.push(share);
        self.operations.push((name, operation));
    }

    /// The entity that others are reached via, if they are (TX-5).
    async fn via(&self, reach: &Reach) -> Result<Option<Scope>> {
        match reach {
            Reach::One => Ok(None),
            Reach::ViaFirst => Ok(self.scope.clone()),
            Reach::Via(name) => {
                let name = self.named(name)?;
                let route = self.router.route(&name, self.router.deadline()).await?;
                scope(&self.router, &name, &route).await.map(Some)
            }
        }
    }

    /// TX-9, the first of both checks.
    async fn claim(&mut self, entity: &QualifiedName, operation: &Operation) -> Result<()> {
        let Some((queue, tokens, settles)) = locks(operation) else { return Ok(()) };
        let operation = self.operations.len() as u32;
        let claim = LockClaim { transaction: self.id, operation, queue, tokens, settles };
        let router = self.router.clone();
        let deadline = router.deadline();
        let (mut route, mut pause) = (router.route(entity, deadline).await?, PAUSE_MIN);
        loop {
            if settles {
                self.marked.insert(route.group);
            }
            let answer = router.read(route.group, Read::Claim(claim.clone()), deadline).await;
            return match answer.map_err(|kind| Error::new(kind, entity))? {
                ReadAnswer::Claimed => Ok(()),
                ReadAnswer::Refused(Refusal::StaleRoute { .. }) => Err(not_found(entity.as_str())),
                ReadAnswer::Refused(Refusal::Relocated { entity: id, to }) => {
                    let followed =
                        router.follow(&mut route.group, (id, to), &mut pause, deadline).await;
                    followed.map_err(|kind| Error::new(kind, entity))?;
                    continue;
                }
                ReadAnswer::Refused(refusal) => Err(Error::new(refusal, entity)),
                _ => Err(not_found(entity.as_str())),
            };
        }
    }

    fn unmark(&mut self) {
        for group in std::mem::take(&mut self.marked) {
            self.router.end_claims(group, self.id);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.unmark();
    }
}

/// TX-5, TX-6: a queue; or a topic, whose subscriptions count as one with it.
async fn scope(router: &Router, entity: &QualifiedName, route: &Route) -> Result<Scope> {
    let topic = match route.kind {
        EntityKind::Subscription => split_subscription_path(&route.name),
        EntityKind::Queue | EntityKind::Topic => None,
    };
    Ok(match topic {
        Some((topic, _)) => {
            let name = QualifiedName::known(topic);
            let route = router.route(&name, router.deadline()).await?;
            Scope { name, route }
        }
        None => Scope { name: entity.clone(), route: route.clone() },
    })
}

/// An operation that this node has nothing against.
struct Prepared {
    /// Of its entity.
    name: QualifiedName,
    operation: Operation,
    scope: Scope,
    size: TransactionSize,
    share: OwnedSemaphorePermit,
}

/// FWD-14: a send to an entity through the transaction's; to that one itself it is a plain one.
fn outgoing(via: &Scope, to: &QualifiedName, route: &Route, send: Send) -> Result<Operation> {
    if route.kind == EntityKind::Subscription {
        return Err(Error::new(Refusal::InvalidOperation { why: TO_SUBSCRIPTION }, to));
    }
    let (entity, messages) = (via.route.entity, send.messages);
    Ok(match route.entity == entity {
        true => Operation::Send(Send { origin: None, entity, messages }),
        false => {
            let destination = Destination { entity: route.entity, group: route.group };
            Operation::SendVia(SendVia { via: entity, destination, messages })
        }
    })
}

/// SEND-7.
const TO_SUBSCRIPTION: &str = "messages cannot be sent to a subscription; send to its topic";

/// What is wrong with an operation by itself.
fn check(operation: &Operation, kind: EntityKind) -> Result<(), Refusal> {
    match operation {
        Operation::Send(_) | Operation::SendVia(_) | Operation::CancelScheduled(_)
            if kind == EntityKind::Subscription =>
        {
            Err(Refusal::InvalidOperation { why: TO_SUBSCRIPTION })
        }
        Operation::Send(Send { messages, .. }) | Operation::SendVia(SendVia { messages, .. }) => {
            validate::batch(messages)?;
            messages.iter().try_for_each(validate::new_message)
        }
        Operation::CancelScheduled(cancel) => {
            check_some("number of sequence numbers", cancel.numbers.len())
        }
        Operation::Settle(settle) => check_some("number of settlements", settle.settlements.len()),
        Operation::Renew(renew) => check_some("number of locks", renew.tokens.len()),
        Operation::SetState(_) => Ok(()),
    }
}

/// How many there may be is the transaction's limit (TX-4).
fn check_some(what: &'static str, count: usize) -> Result<(), Refusal> {
    match count {
        0 => Err(Refusal::ArgumentOutOfRange { what, value: "0".to_owned(), allowed: "1 to 100" }),
        _ => Ok(()),
    }
}

/// The locks an operation needs, and whether it ends them.
fn locks(operation: &Operation) -> Option<(QueueId, Vec<LockToken>, bool)> {
    match operation {
        Operation::Settle(settle) => {
            let tokens = settle.settlements.iter().map(|settlement| settlement.token);
            Some((settle.queue, tokens.collect(), true))
        }
        Operation::Renew(renew) => Some((renew.queue, renew.tokens.clone(), false)),
        Operation::Send(_)
        | Operation::SendVia(_)
        | Operation::CancelScheduled(_)
        | Operation::SetState(_) => None,
    }
}

/// With the name of an entity that is gone in the place of its id.
fn named(refusal: Refusal, names: &[QualifiedName]) -> Refusal {
    match refusal {
        Refusal::TransactionRolledBack { operation, cause }
            if matches!(*cause.0, Refusal::StaleRoute { .. }) =>
        {
            let name = names.get(operation as usize).map(|name| name.told().to_owned());
            let cause = Refusal::EntityNotFound { name: name.unwrap_or_default() };
            Refusal::TransactionRolledBack { operation, cause: cause.into() }
        }
        refusal => refusal,
    }
}
