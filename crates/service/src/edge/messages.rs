//! Messages, as front ends send, receive, settle and look at them.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    CancelScheduled, Command, DeleteBatch, Disposition, EntityId, FEATURE_LEVEL_RULES_OF_0_2,
    LockToken, Namespace, NewMessage, Outcome, PEEK_MESSAGES_MAX, QualifiedName, QueueId,
    RECEIVE_MESSAGES_MAX, ReceiveDeferred, Refusal, Renew, Select, Send, SequenceNumber, Settle,
    Settlement, SubQueue, TOKENS_MAX, Timestamp,
};
use tokio::time::sleep;

use crate::edge::address::Caller;
use crate::edge::admission::Admission;
use crate::edge::profiles;
use crate::edge::receiver::{Next, ReceiveMode, Receiver, Refusals, Terms, consumed, unexpected};
use crate::edge::router::{Hold, Router, not_found};
use crate::edge::sender::Sender;
use crate::error::{Error, Result};
use crate::exchange::{Answer, Read, ReadAnswer, Received, Wanted};
use crate::history::{Attribution, Deed};

/// What is done to the messages of a queue, a topic or a subscription.
#[derive(Clone, Copy)]
pub struct Messages<'a> {
    pub(super) router: &'a Arc<Router>,
    pub(super) admission: &'a Arc<Admission>,
    pub(super) by: &'a Attribution,
    pub(super) hold: Hold,
    pub(super) namespace: &'a Namespace,
}

impl Messages<'_> {
    /// The locks that are taken through it hang on a connection to this node (LOCK-28).
    pub fn of_connection(self) -> Self {
        Messages { hold: Hold::OfConnection, ..self }
    }

    /// Stores a batch: all of it or nothing (SEND-3). The numbers are in the order of the messages.
    pub async fn send(
        self,
        queue: &str,
        messages: Vec<NewMessage>,
        caller: Caller,
    ) -> Result<Vec<SequenceNumber>> {
        let name = &self.named(queue)?;
        let deadline = self.router.deadline();
        // SEND-1: that there is such a queue is checked before the message is.
        let route = self.router.route(name, deadline).await?;
        let checked = check_batch(&messages)
            .and_then(|()| profiles::check_batch(self.router, self.namespace, &messages));
        checked.map_err(|refusal| Error::new(refusal, queue))?;
        let _share = self.admission.sends(&messages, queue, deadline).await?;
        let send = Send { origin: None, entity: route.entity, messages };
        let answer = self.router.execute(name, Command::Send(send), caller, deadline).await?;
        match answer.outcome {
            Outcome::Sent { sequences } => {
                self.by.note_numbers(Deed::Sent, name, &sequences);
                Ok(sequences)
            }
            other => Err(unexpected(&other, queue.into())),
        }
    }

    /// A pipeline of sends to one queue, stored in the order submitted (MSG-10). `producer`: the
    /// client's, if it numbers its batches from 1 and may repeat them after a lost answer.
    pub async fn sender(self, queue: &str, producer: Option<u64>) -> Result<Sender> {
        let name = &self.named(queue)?;
        let route = self.router.route(name, self.router.deadline()).await?;
        let by = self.by.clone();
        Ok(Sender::new(self.router, self.admission, name.clone(), route, producer, by))
    }

    /// A receiver with some credit to begin with.
    pub async fn receiver(
        self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        credit: u32,
    ) -> Result<Receiver> {
        let name = &self.named(queue)?;
        let route = self.router.route(name, self.router.deadline()).await?;
        let terms = Terms { sub, mode, hold: self.hold, by: self.by.clone() };
        Ok(Receiver::attach(self.router.clone(), name.clone(), route, terms, credit, None))
    }

    /// A receiver that is handed nothing, and told what becomes available (SEL-7).
    pub async fn watcher(self, queue: &str, sub: SubQueue) -> Result<Receiver> {
        let name = &self.named(queue)?;
        let route = self.router.route(name, self.router.deadline()).await?;
        self.router.check_known(FEATURE_LEVEL_RULES_OF_0_2, queue).await?;
        let wanted = Some(Wanted::Notices);
        let (mode, by) = (ReceiveMode::PeekLock, self.by.clone());
        let terms = Terms { sub, mode, hold: self.hold, by };
        Ok(Receiver::attach(self.router.clone(), name.clone(), route, terms, 0, wanted))
    }

    /// SEL-6: takes those of these messages that are available, wherever they are. The flag says that some
    /// of them have not been looked at: whoever asks again gets further.
    pub async fn select(
        self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        numbers: Vec<SequenceNumber>,
    ) -> Result<(Vec<Received>, bool)> {
        let name = &self.named(queue)?;
        check_count("sequence_numbers", numbers.len(), queue)?;
        let receiver = self.router.next_receiver(self.hold, mode, 1);
        let command =
            Command::Select(Select { origin: None, queue: unrouted(sub), receiver, numbers });
        let deadline = self.router.deadline();
        let answer = self.router.execute(name, command, Caller::Edge, deadline).await?;
        let more = matches!(answer.outcome, Outcome::Acquired { more: true, .. });
        Ok((acquired(self.router, self.by, name, sub, mode, answer).await?, more))
    }

    /// Waits up to `wait` for at most `count_max` messages; an empty answer is no error (LOCK-24).
    pub async fn receive(
        self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        count_max: u32,
        wait: Duration,
    ) -> Result<Vec<Received>> {
        let until = async move {
            if !wait.is_zero() {
                sleep(wait).await;
            }
        };
        self.receive_until(queue, sub, mode, count_max, until).await
    }

    /// As [`Messages::receive`], waiting until `until` resolves.
    pub async fn receive_until(
        self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        count_max: u32,
        until: impl Future<Output = ()>,
    ) -> Result<Vec<Received>> {
        if !(1..=RECEIVE_MESSAGES_MAX).contains(&count_max) {
            return Err(out_of_range("max_messages", count_max, "1 to 1000", queue));
        }
        let mut receiver = self.receiver(queue, sub, mode, count_max).await?;
        let next = tokio::select! {
            biased;
            () = until => None,
            next = receiver.next() => Some(next),
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
            Next::Drained | Next::Accepted { .. } | Next::Rose { .. } => Ok(Vec::new()),
        }
    }

    /// Ends deliveries (LOCK-8 to LOCK-11). `atomic`: any lock not held refuses all (LOCK-17);
    /// otherwise the refused positions are returned.
    pub async fn settle(
        self,
        queue: &str,
        sub: SubQueue,
        settlements: Vec<Settlement>,
        atomic: bool,
        caller: Caller,
    ) -> Result<Refusals> {
        let name = &self.named(queue)?;
        settle(self.router, self.by, name, sub, settlements, atomic, caller).await
    }

    /// NS-3.
    fn named(self, queue: &str) -> Result<QualifiedName> {
        self.namespace.qualify(queue).map_err(|refusal| Error::new(refusal, queue))
    }

    /// Who asks for an empty list of something gets one, of an entity that is there.
    async fn find(self, queue: &str) -> Result<()> {
        let name = &self.named(queue)?;
        self.router.route(name, self.router.deadline()).await.map(drop)
    }

    /// LOCK-13: the new ends of the locks, in order; all or nothing.
    pub async fn renew(
        self,
        queue: &str,
        sub: SubQueue,
        tokens: Vec<LockToken>,
    ) -> Result<Vec<Timestamp>> {
        let name = &self.named(queue)?;
        if tokens.is_empty() {
            return self.find(queue).await.map(|()| Vec::new());
        }
        check_count("lock_tokens", tokens.len(), queue)?;
        self.by.note(Deed::Renewed, name, tokens.iter().copied());
        let command = Command::Renew(Renew { origin: None, queue: unrouted(sub), tokens });
        let deadline = self.router.deadline();
        let answer = self.router.execute(name, command, Caller::Edge, deadline).await?;
        match answer.outcome {
            Outcome::Renewed { until } => Ok(until),
            other => Err(unexpected(&other, queue.into())),
        }
    }

    /// SCHED-3, SCHED-4: all or nothing.
    pub async fn cancel_scheduled(
        self,
        queue: &str,
        numbers: Vec<SequenceNumber>,
        caller: Caller,
    ) -> Result<()> {
        let name = &self.named(queue)?;
        if numbers.is_empty() {
            return self.find(queue).await;
        }
        check_count("sequence_numbers", numbers.len(), queue)?;
        self.by.note_numbers(Deed::Cancelled, name, &numbers);
        let cancel = CancelScheduled { origin: None, entity: UNROUTED, numbers };
        let command = Command::CancelScheduled(cancel);
        self.router.execute(name, command, caller, self.router.deadline()).await.map(drop)
    }

    /// DEFER-2 to DEFER-4: all or nothing. No number asks for nothing and gets it.
    pub async fn receive_deferred(
        self,
        queue: &str,
        sub: SubQueue,
        mode: ReceiveMode,
        numbers: Vec<SequenceNumber>,
    ) -> Result<Vec<Received>> {
        let name = &self.named(queue)?;
        if numbers.is_empty() {
            return self.find(queue).await.map(|()| Vec::new());
        }
        check_count("sequence_numbers", numbers.len(), queue)?;
        let receiver = self.router.next_receiver(self.hold, mode, 1);
        let receive = ReceiveDeferred { origin: None, queue: unrouted(sub), receiver, numbers };
        let command = Command::ReceiveDeferred(receive);
        let deadline = self.router.deadline();
        let answer = self.router.execute(name, command, Caller::Edge, deadline).await?;
        acquired(self.router, self.by, name, sub, mode, answer).await
    }

    /// PEEK-2. `stale` reads this node's own rows, if it has the queue, which may be behind.
    pub async fn peek(
        self,
        queue: &str,
        sub: SubQueue,
        from: SequenceNumber,
        count_max: u32,
        stale: bool,
    ) -> Result<Vec<Received>> {
        let name = &self.named(queue)?;
        if count_max == 0 {
            return Err(out_of_range("max_messages", count_max, "1 or more", queue));
        }
        let deadline = self.router.deadline();
        let count_max = count_max.min(PEEK_MESSAGES_MAX);
        let mut touched = false;
        loop {
            let read = |entity| {
                let queue = QueueId { entity, sub };
                Read::Peek { queue, from, count_max, touched }
            };
            match self.router.read_entity(name, stale, deadline, read).await? {
                ReadAnswer::Messages(messages) => return Ok(messages),
                ReadAnswer::Untouched if !touched => {
                    // Once a minute at most; refused where the entity is gone (IDLE-15).
                    let touch = Command::Touch { entity: UNROUTED };
                    self.router.execute(name, touch, Caller::Edge, deadline).await?;
                    touched = true;
                }
                _ => return Err(not_found(queue)),
            }
        }
    }

    /// BATCH-1, BATCH-8: deletes up to `count_max` messages, part by part, and says how many it were.
    pub async fn delete_batch(
        self,
        queue: &str,
        sub: SubQueue,
        count_max: u32,
        before: Option<Timestamp>,
    ) -> Result<u32> {
        let name = &self.named(queue)?;
        profiles::check_batch_deletion(self.router, self.namespace, count_max)
            .map_err(|refusal| Error::new(refusal, queue))?;
        let deadline = self.router.deadline();
        let mut parts = DeletedParts::of(count_max);
        while let Some(count_max) = parts.wanted() {
            let delete = DeleteBatch { origin: None, queue: unrouted(sub), count_max, before };
            let command = Command::DeleteBatch(delete);
            let answer = self.router.execute(name, command, Caller::Edge, deadline).await;
            parts.take(answer.map(|answer| answer.outcome), queue)?;
        }
        Ok(parts.deleted)
    }
}

/// BATCH-8: one command deletes only so much, so the next goes on where it ended, until nothing is left
/// or as many are gone as were asked for.
pub(super) struct DeletedParts {
    pub deleted: u32,
    left: u32,
}

impl DeletedParts {
    pub fn of(count_max: u32) -> DeletedParts {
        DeletedParts { deleted: 0, left: count_max }
    }

    /// How many the next part is to delete.
    pub fn wanted(&self) -> Option<u32> {
        (self.left > 0).then_some(self.left)
    }

    /// What came of a part. What earlier ones deleted is told, and why one failed only if that is
    /// nothing.
    pub fn take(&mut self, part: Result<Outcome>, queue: &str) -> Result<()> {
        match part {
            Ok(Outcome::Deleted { count, more }) => {
                self.deleted += count;
                self.left = if more && count > 0 { self.left.saturating_sub(count) } else { 0 };
            }
            Ok(other) => return Err(unexpected(&other, queue.into())),
            Err(error) if self.deleted == 0 => return Err(error),
            Err(_) => self.left = 0,
        }
        Ok(())
    }
}

async fn settle(
    router: &Router,
    by: &Attribution,
    queue: &QualifiedName,
    sub: SubQueue,
    settlements: Vec<Settlement>,
    atomic: bool,
    caller: Caller,
) -> Result<Refusals> {
    if settlements.is_empty() {
        return router.route(queue, router.deadline()).await.map(|_| Vec::new());
    }
    check_count("settlements", settlements.len(), queue.told())?;
    by.note(Deed::Settled, queue, settlements.iter().map(|it| it.token));
    let settle = Settle { origin: None, queue: unrouted(sub), settlements, atomic };
    let answer = router.execute(queue, Command::Settle(settle), caller, router.deadline()).await?;
    match answer.outcome {
        Outcome::Settled { refused } => Ok(refused),
        other => Err(unexpected(&other, queue.into())),
    }
}

/// What a receive of deferred messages comes to.
pub(super) async fn acquired(
    router: &Router,
    by: &Attribution,
    queue: &QualifiedName,
    sub: SubQueue,
    mode: ReceiveMode,
    answer: Answer,
) -> Result<Vec<Received>> {
    let Outcome::Acquired { deliveries, .. } = answer.outcome else {
        return Err(unexpected(&answer.outcome, queue.into()));
    };
    let pairs = deliveries.into_iter().zip(answer.contents);
    let messages: Vec<Received> =
        pairs.map(|(delivery, content)| Received { delivery, content }).collect();
    by.note(Deed::Received, queue, messages.iter().filter_map(lock_of));
    match mode {
        ReceiveMode::PeekLock => Ok(messages),
        ReceiveMode::ReceiveAndDelete => complete(router, by, queue, sub, messages).await,
    }
}

/// LOCK-2: the messages that could be completed, without their locks.
async fn complete(
    router: &Router,
    by: &Attribution,
    queue: &QualifiedName,
    sub: SubQueue,
    messages: Vec<Received>,
) -> Result<Vec<Received>> {
    let complete = |token| Settlement { token, disposition: Disposition::Complete };
    let settlements: Vec<Settlement> = messages.iter().filter_map(lock_of).map(complete).collect();
    let refused = settle(router, by, queue, sub, settlements, false, Caller::Edge).await?;
    Ok(consumed(messages, refused))
}

fn lock_of(message: &Received) -> Option<LockToken> {
    message.delivery.lock.map(|lock| lock.token)
}

/// What keeps a batch from going through the cluster at all; everything else about it is the
/// machine's to judge, in the order of SEND-1.
pub(super) fn check_batch(messages: &[NewMessage]) -> Result<(), Refusal> {
    domain::validate::batch(messages)
}

/// Written in when it is known.
pub(super) const UNROUTED: EntityId = EntityId(0);

fn unrouted(sub: SubQueue) -> QueueId {
    QueueId { entity: UNROUTED, sub }
}

pub(super) fn check_count(what: &'static str, count: usize, queue: &str) -> Result<()> {
    match count {
        0..=TOKENS_MAX => Ok(()),
        count => Err(out_of_range(what, count, "up to 1000", queue)),
    }
}

pub(super) fn out_of_range(
    what: &'static str,
    value: impl ToString,
    allowed: &'static str,
    queue: &str,
) -> Error {
    Error::new(Refusal::ArgumentOutOfRange { what, value: value.to_string(), allowed }, queue)
}
