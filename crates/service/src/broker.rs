//! The one protocol-neutral API. Every front end speaks to a [`Broker`] and to nothing below it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::{
    BATCH_BYTES_MAX, BATCH_DELETE_MAX, CancelScheduled, Command, DeleteBatch, Disposition,
    EntityId, GroupId, LockToken, NewMessage, Outcome, PEEK_MESSAGES_MAX, QueueId,
    RECEIVE_MESSAGES_MAX, ReceiveDeferred, ReceiverId, Refusal, Renew, Send, SequenceNumber,
    Settle, Settlement, SubQueue, TOKENS_MAX, Timestamp,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::Asker;
use crate::call::{Answer, Received};
use crate::error::{Error, ErrorKind, Result, Unavailable};
use crate::reads::{self, Read, ReadAnswer};
use crate::receiver::{Next, ReceiveMode, Receiver, Refusals, unexpected};
use crate::router::{Failure, Router, not_found};
use crate::sender::Sender;

/// Sends are counted in units of this many bytes.
const SHARE_BYTES: usize = 1024;

/// A node's way into the cluster. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    inner: Arc<Inner>,
}

struct Inner {
    router: Arc<Router>,
    /// Bytes of sends that may still be taken in, in units of `SHARE_BYTES`.
    budget: Arc<Semaphore>,
    /// As above, of operations in open transactions.
    transactions: Arc<Semaphore>,
    next_link: AtomicU64,
}

impl Broker {
    pub(crate) fn new(router: Arc<Router>) -> Broker {
        let budget = Arc::new(Semaphore::new(router.config.sends_bytes_max / SHARE_BYTES));
        let transactions =
            Arc::new(Semaphore::new(router.config.transactions_bytes_max / SHARE_BYTES));
        // Receivers of a former life of this node may still hold locks.
        let next_link = AtomicU64::new(u64::from(rand::random::<u32>()));
        Broker { inner: Arc::new(Inner { router, budget, transactions, next_link }) }
    }

    pub(crate) fn router(&self) -> &Arc<Router> {
        &self.inner.router
    }

    pub(crate) fn next_link(&self) -> u64 {
        self.inner.next_link.fetch_add(1, Ordering::Relaxed)
    }

    /// Stores a batch: all of it or nothing (SEND-3). The numbers are in the order of the messages.
    pub async fn send(
        &self,
        queue: &str,
        messages: Vec<NewMessage>,
        asker: Asker,
    ) -> Result<Vec<SequenceNumber>> {
        let deadline = self.router().deadline();
        // SEND-1: that there is such a queue is checked before the message is.
        let route = self.router().route(queue, deadline).await?;
        Broker::check_batch(&messages).map_err(|refusal| Error::new(refusal, queue))?;
        let _share = self.share(&messages, queue, deadline).await?;
        let send = Send { origin: None, entity: route.entity, messages };
        let answer = self.execute(queue, Command::Send(send), asker, deadline).await?;
        match answer.outcome {
            Outcome::Sent { sequences } => Ok(sequences),
            other => Err(unexpected(&other, queue.into())),
        }
    }

    /// A pipeline of sends to one queue, stored in the order submitted (MSG-10). `producer`: the
    /// client's, if it numbers its batches from 1 and may repeat them after a lost answer.
    pub async fn sender(&self, queue: &str, producer: Option<u64>) -> Result<Sender> {
        let route = self.router().route(queue, self.router().deadline()).await?;
        Ok(Sender::new(self.clone(), queue.into(), route, producer))
    }

    /// A receiver with some credit to begin with.
    pub async fn receiver(
        &self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        credit: u32,
    ) -> Result<Receiver> {
        let route = self.router().route(queue, self.router().deadline()).await?;
        Ok(Receiver::attach(self.clone(), queue.into(), route, sub, mode, credit, None))
    }

    /// Waits up to `wait` for at most `count_max` messages; an empty answer is no error (LOCK-24).
    pub async fn receive(
        &self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        count_max: u32,
        wait: Duration,
    ) -> Result<Vec<Received>> {
        if !(1..=RECEIVE_MESSAGES_MAX).contains(&count_max) {
            return Err(out_of_range("max_messages", count_max, "1 to 1000", queue));
        }
        let mut receiver = self.receiver(queue, sub, mode, count_max).await?;
        let next = match wait.is_zero() {
            true => None,
            false => timeout(wait, receiver.next()).await.ok(),
        };
        let next = match next {
            Some(next) => next,
            None => {
                // Withdrawn instead of dropped: what is on its way arrives, and is not lost.
                receiver.drain();
                receiver.next().await
            }
        };
        match next? {
            Next::Messages(messages) => Ok(messages),
            Next::Drained | Next::Accepted { .. } => Ok(Vec::new()),
        }
    }

    /// Ends deliveries (LOCK-8 to LOCK-11). `atomic`: any lock not held refuses all (LOCK-17);
    /// otherwise the refused positions are returned.
    pub async fn settle(
        &self,
        queue: &str,
        sub: SubQueue,
        settlements: Vec<Settlement>,
        atomic: bool,
        asker: Asker,
    ) -> Result<Refusals> {
        check_count("settlements", settlements.len(), queue)?;
        let settle = Settle { origin: None, queue: unrouted(sub), settlements, atomic };
        let deadline = self.router().deadline();
        let answer = self.execute(queue, Command::Settle(settle), asker, deadline).await?;
        match answer.outcome {
            Outcome::Settled { refused } => Ok(refused),
            other => Err(unexpected(&other, queue.into())),
        }
    }

    /// LOCK-13: the new ends of the locks, in order; all or nothing.
    pub async fn renew(
        &self,
        queue: &str,
        sub: SubQueue,
        tokens: Vec<LockToken>,
    ) -> Result<Vec<Timestamp>> {
        check_count("lock_tokens", tokens.len(), queue)?;
        let command = Command::Renew(Renew { origin: None, queue: unrouted(sub), tokens });
        let deadline = self.router().deadline();
        let answer = self.execute(queue, command, Asker::Edge, deadline).await?;
        match answer.outcome {
            Outcome::Renewed { until } => Ok(until),
            other => Err(unexpected(&other, queue.into())),
        }
    }

    /// SCHED-3, SCHED-4: all or nothing.
    pub async fn cancel_scheduled(
        &self,
        queue: &str,
        numbers: Vec<SequenceNumber>,
        asker: Asker,
    ) -> Result<()> {
        check_count("sequence_numbers", numbers.len(), queue)?;
        let entity = unrouted(SubQueue::Main).entity;
        let command = Command::CancelScheduled(CancelScheduled { origin: None, entity, numbers });
        self.execute(queue, command, asker, self.router().deadline()).await.map(drop)
    }

    /// DEFER-2 to DEFER-4: all or nothing. No number asks for nothing and gets it.
    pub async fn receive_deferred(
        &self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        numbers: Vec<SequenceNumber>,
    ) -> Result<Vec<Received>> {
        if numbers.is_empty() {
            return self.router().route(queue, self.router().deadline()).await.map(|_| Vec::new());
        }
        check_count("sequence_numbers", numbers.len(), queue)?;
        let receiver =
            ReceiverId { node: self.router().config.node, link: self.next_link(), epoch: 1 };
        let receive = ReceiveDeferred { origin: None, queue: unrouted(sub), receiver, numbers };
        let command = Command::ReceiveDeferred(receive);
        let deadline = self.router().deadline();
        let answer = self.execute(queue, command, Asker::Edge, deadline).await?;
        let Outcome::Acquired { deliveries, .. } = answer.outcome else {
            return Err(unexpected(&answer.outcome, queue.into()));
        };
        let pairs = deliveries.into_iter().zip(answer.contents);
        let messages: Vec<Received> =
            pairs.map(|(delivery, content)| Received { delivery, content }).collect();
        match mode {
            ReceiveMode::PeekLock => Ok(messages),
            ReceiveMode::ReceiveAndDelete => self.complete(queue, sub, messages).await,
        }
    }

    /// LOCK-2: the messages that could be completed, without their locks.
    pub(crate) async fn complete(
        &self,
        queue: &str,
        sub: SubQueue,
        messages: Vec<Received>,
    ) -> Result<Vec<Received>> {
        let locks = messages.iter().filter_map(|message| message.delivery.lock);
        let settlements: Vec<Settlement> = locks
            .map(|lock| Settlement { token: lock.token, disposition: Disposition::Complete })
            .collect();
        let refused = self.settle(queue, sub, settlements, false, Asker::Edge).await?;
        Ok(crate::receiver::consumed(messages, refused))
    }

    /// PEEK-2. `stale` reads this node's own rows, if it has the queue, which may be behind.
    pub async fn peek(
        &self,
        queue: &str,
        sub: SubQueue,
        from: SequenceNumber,
        count_max: u32,
        stale: bool,
    ) -> Result<Vec<Received>> {
        if count_max == 0 {
            return Err(out_of_range("max_messages", count_max, "1 or more", queue));
        }
        let deadline = self.router().deadline();
        let mut route = self.router().route(queue, deadline).await?;
        let count_max = count_max.min(PEEK_MESSAGES_MAX);
        let mut touched = false;
        for last in [false, false, true] {
            let queue_id = QueueId { entity: route.entity, sub };
            let read = Read::Peek { queue: queue_id, from, count_max, touched };
            let answer = match stale && self.router().group(route.group).is_some() {
                true => self.read_here(route.group, read).await,
                false => self.router().read(route.group, read, deadline).await,
            };
            match answer.map_err(|kind| Error::new(kind, queue))? {
                ReadAnswer::Messages(messages) => return Ok(messages),
                ReadAnswer::Untouched => {
                    // Once a minute at most; refused where the entity is gone (IDLE-15).
                    let touch = Command::Touch { entity: route.entity };
                    self.execute(queue, touch, Asker::Edge, deadline).await?;
                    touched = true;
                }
                ReadAnswer::Refused(Refusal::StaleRoute { .. }) if !last => {
                    route = self.router().refresh(queue, deadline).await?;
                }
                ReadAnswer::Refused(Refusal::StaleRoute { .. }) => break,
                ReadAnswer::Refused(refusal) => return Err(Error::new(refusal, queue)),
                _ => break,
            }
        }
        Err(not_found(queue))
    }

    pub(crate) async fn read_here(
        &self,
        group: GroupId,
        read: Read,
    ) -> Result<ReadAnswer, ErrorKind> {
        let rows = self.router().replication.rows(group);
        let now = self.router().clock.now();
        let answer = tokio::task::spawn_blocking(move || {
            reads::answer(&rows, &|of: &_| rows.bodies(of), now, read)
        })
        .await;
        answer.map_err(|_| ErrorKind::Unavailable { why: Unavailable::Stopping })
    }

    /// BATCH-1: deletes up to `count_max` messages, and says how many it were.
    pub async fn delete_batch(
        &self,
        queue: &str,
        sub: SubQueue,
        count_max: u32,
        before: Option<Timestamp>,
    ) -> Result<u32> {
        if !(1..=BATCH_DELETE_MAX).contains(&count_max) {
            return Err(out_of_range("max_messages", count_max, "1 to 4000", queue));
        }
        let delete = DeleteBatch { origin: None, queue: unrouted(sub), count_max, before };
        let deadline = self.router().deadline();
        let command = Command::DeleteBatch(delete);
        let answer = self.execute(queue, command, Asker::Edge, deadline).await?;
        match answer.outcome {
            Outcome::Deleted { count, .. } => Ok(count),
            other => Err(unexpected(&other, queue.into())),
        }
    }

    /// Has a command about a queue applied. A stale route is mended once.
    pub(crate) async fn execute(
        &self,
        name: &str,
        mut command: Command,
        asker: Asker,
        deadline: Instant,
    ) -> Result<Answer> {
        let mut route = self.router().route(name, deadline).await?;
        let mut refreshed = false;
        loop {
            self.router().stamp(&mut command, &route, asker);
            command = match self.router().call(route.group, command, deadline).await {
                Ok(Answer { outcome: Outcome::Refused(refusal), .. }) => {
                    return Err(Error::new(refusal, name));
                }
                Ok(answer) => return Ok(answer),
                Err(Failure::Error(kind)) => return Err(Error::new(kind, name)),
                Err(Failure::Mendable { refusal: Refusal::StaleRoute { .. }, command }) => {
                    if std::mem::replace(&mut refreshed, true) {
                        return Err(not_found(name));
                    }
                    route = self.router().refresh(name, deadline).await?;
                    command
                }
                Err(Failure::Mendable { refusal, .. }) => return Err(Error::new(refusal, name)),
            };
        }
    }

    /// Takes a batch's bytes out of the node's budget until it is answered.
    pub(crate) async fn share(
        &self,
        messages: &[NewMessage],
        name: &str,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit> {
        let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
        let max = self.router().config.sends_bytes_max / SHARE_BYTES;
        let units = (bytes / SHARE_BYTES + 1).min(max) as u32;
        let budget = self.inner.budget.clone();
        match timeout_at(deadline, budget.acquire_many_owned(units)).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => {
                Err(Error::new(ErrorKind::Unavailable { why: Unavailable::Busy }, name))
            }
        }
    }

    /// Takes an operation's bytes out of the node's budget until its transaction ends; `None` if that
    /// is used up.
    pub(crate) fn transaction_share(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes / SHARE_BYTES as u64 + 1).unwrap_or(u32::MAX);
        self.inner.transactions.clone().try_acquire_many_owned(units).ok()
    }

    /// What keeps a batch from going through the cluster at all; everything else about it is the
    /// machine's to judge, in the order of SEND-1.
    pub(crate) fn check_batch(messages: &[NewMessage]) -> Result<(), Refusal> {
        domain::validate::message_count(messages.len())?;
        let bytes = messages.iter().map(|message| u64::from(message.size_bytes)).sum();
        let (what, max) = ("the batch", BATCH_BYTES_MAX as u64);
        match bytes > max {
            true => Err(Refusal::MessageSizeExceeded { what, bytes, max }),
            false => Ok(()),
        }
    }
}

/// A queue whose entity is written in when it is known.
fn unrouted(sub: SubQueue) -> QueueId {
    QueueId { entity: EntityId(0), sub }
}

pub(crate) fn check_count(what: &'static str, count: usize, queue: &str) -> Result<()> {
    match count {
        0 => Err(out_of_range(what, 0, "1 to 1000", queue)),
        1..=TOKENS_MAX => Ok(()),
        count => Err(out_of_range(what, count, "1 to 1000", queue)),
    }
}

pub(crate) fn out_of_range(
    what: &'static str,
    value: impl ToString,
    allowed: &'static str,
    queue: &str,
) -> Error {
    Error::new(Refusal::ArgumentOutOfRange { what, value: value.to_string(), allowed }, queue)
}

/// QUOTA-6 in bytes, for front ends that refuse before decoding.
pub const SEND_BYTES_MAX: usize = BATCH_BYTES_MAX;

/// A message id for a message that has none: a uuid in 32 hexadecimal digits.
pub fn draw_message_id() -> String {
    uuid::Uuid::from_bytes(draw_uuid()).simple().to_string()
}

/// A uuid from this thread's generator: one for every message is too often to ask the system.
pub fn draw_uuid() -> [u8; 16] {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid().into_bytes()
}
