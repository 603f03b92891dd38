//! Operations on messages: by number, by lock, or the oldest.

use amqp_protocol::Limits;
use amqp_protocol::message::Message;
use bytes::BytesMut;
use domain::{
    BATCH_BYTES_MAX, Disposition, LockToken, NewMessage, PEEK_MESSAGES_MAX, Properties, Refusal,
    SequenceNumber, Settlement, Timestamp, properties_bytes,
};
use message_content::{Shown, new_message};
use service::{Caller, Error, Received, draw_uuid};

use super::{OperationContext, argument, undecodable};
use crate::management::{DispositionStatus, ReceiveMode, Reply, Scheduled};
use crate::server::address::Entity;
use crate::server::held_session;
use crate::server::outgoing::under_session;

/// A reply takes no further message beyond this: who peeks asks again from where it ended (PEEK-2).
const REPLY_BYTES_MAX: usize = 1 << 20;

impl OperationContext {
    pub(super) async fn renew(&self, tokens: Vec<LockToken>) -> Result<Reply, Error> {
        let renewed = self.broker.messages().renew(&self.entity.name, self.entity.sub, tokens);
        renewed.await.map(Reply::LocksRenewed)
    }

    /// PEEK-9: a session's messages only, where one is named.
    pub(super) async fn peek(
        &self,
        from: SequenceNumber,
        count: u32,
        omit_body: bool,
    ) -> Result<Reply, Error> {
        let Entity { name, sub } = &self.entity;
        let count = count.min(PEEK_MESSAGES_MAX);
        let peeked = match self.session.clone() {
            Some(token) => self.broker.sessions().peek(name, token, from, count).await?,
            None => self.broker.messages().peek(name, *sub, from, count, false).await?,
        };
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for received in &peeked {
            let mut message = self.encode(received, Shown::Peek)?;
            if omit_body && let Ok(whole) = Message::parse(message.clone(), &self.limits) {
                message = whole.without_body();
            }
            bytes += message.len();
            if bytes > REPLY_BYTES_MAX && !messages.is_empty() {
                break;
            }
            messages.push(message);
        }
        Ok(Reply::Peeked(messages))
    }

    pub(super) async fn schedule(&self, scheduled: &[Scheduled]) -> Result<Reply, Error> {
        let messages: Result<Vec<NewMessage>, Refusal> =
            scheduled.iter().map(|one| self::scheduled(one, &self.limits)).collect();
        let messages = messages.map_err(|refusal| self.refused(refusal))?;
        if messages.is_empty() {
            self.broker.entities().get(&self.entity.name).await?;
            return Ok(Reply::Scheduled(Vec::new()));
        }
        let sent = self.broker.messages().send(&self.entity.name, messages, Caller::Edge);
        sent.await.map(Reply::Scheduled)
    }

    pub(super) async fn cancel(&self, sequences: Vec<SequenceNumber>) -> Result<Reply, Error> {
        self.broker.messages().cancel_scheduled(&self.entity.name, sequences, Caller::Edge).await?;
        Ok(Reply::Done)
    }

    /// DEFER-10: of a session, with its lock.
    pub(super) async fn receive_deferred(
        &self,
        sequences: Vec<SequenceNumber>,
        mode: ReceiveMode,
    ) -> Result<Reply, Error> {
        let Entity { name, sub } = &self.entity;
        let mode = match mode {
            ReceiveMode::PeekLock => service::ReceiveMode::PeekLock,
            ReceiveMode::ReceiveAndDelete => service::ReceiveMode::ReceiveAndDelete,
        };
        let broker = &self.broker;
        let received = match self.session.clone() {
            Some(token) => {
                let receiving = broker
                    .sessions()
                    .of_connection()
                    .receive_deferred(name, token, mode, sequences);
                let mut received = receiving.await?;
                received.iter_mut().for_each(under_session);
                received
            }
            None => {
                let messages = broker.messages().of_connection();
                messages.receive_deferred(name, *sub, mode, sequences).await?
            }
        };
        let entry = |received: &Received| {
            // What was deleted has no lock; the field is there all the same.
            let none = LockToken { sequence: SequenceNumber(0), nonce: 0 };
            let token = received.delivery.lock.map_or(none, |lock| lock.token);
            Ok((token, self.encode(received, Shown::Deferred)?))
        };
        received.iter().map(entry).collect::<Result<_, Error>>().map(Reply::Received)
    }

    /// LOCK-17: all tokens or none.
    pub(super) async fn settle(
        &self,
        tokens: Vec<LockToken>,
        verdict: DispositionStatus,
        properties: Properties,
    ) -> Result<Reply, Error> {
        if matches!(verdict, DispositionStatus::Renew) {
            return self.renew(tokens).await;
        }
        let settlements = self::settlements(tokens, verdict, properties);
        let settlements = settlements.map_err(|refusal| self.refused(refusal))?;
        let Entity { name, sub } = &self.entity;
        let first = settlements.first().map(|settlement| settlement.token);
        let settled =
            self.broker.messages().settle(name, *sub, settlements, true, Caller::Edge).await;
        let error = match settled.map(|refusals| refusals.into_iter().next()) {
            Ok(None) => return Ok(Reply::Done),
            Ok(Some((_, refusal))) => self.refused(refusal),
            Err(error) => error,
        };
        Err(held_session::lost_lock(&self.broker, self.session.as_ref(), first, error).await)
    }

    /// BATCH-1, BATCH-7.
    pub(super) async fn delete(
        &self,
        count: u32,
        before: Option<Timestamp>,
    ) -> Result<Reply, Error> {
        let Entity { name, sub } = &self.entity;
        let deleted = match self.session.clone() {
            Some(token) => self.broker.sessions().delete_batch(name, token, count, before).await,
            None => self.broker.messages().delete_batch(name, *sub, count, before).await,
        };
        deleted.map(Reply::Deleted)
    }
}

/// A message to be scheduled.
pub(in crate::server) fn scheduled(
    scheduled: &Scheduled,
    limits: &Limits,
) -> Result<NewMessage, Refusal> {
    let message = Message::parse(scheduled.message.clone(), limits).map_err(undecodable)?;
    let new = new_message(&message, limits, draw_uuid, &mut BytesMut::new())?;
    match new.scheduled_at {
        Some(_) => Ok(new),
        None => Err(argument("it has no x-opt-scheduled-enqueue-time".to_owned())),
    }
}

/// What becomes of the messages of a request. Each gets what is said of all, so together that is
/// bounded before it is copied (QUOTA-6).
pub(in crate::server) fn settlements(
    tokens: Vec<LockToken>,
    verdict: DispositionStatus,
    properties: Properties,
) -> Result<Vec<Settlement>, Refusal> {
    let bytes = (properties_bytes(&properties) * tokens.len()) as u64;
    let (what, max) = ("the properties of all messages", BATCH_BYTES_MAX as u64);
    if bytes > max {
        return Err(Refusal::MessageSizeExceeded { what, bytes, max });
    }
    let disposition = match verdict {
        DispositionStatus::Renew => return Ok(Vec::new()), // Nothing becomes of them.
        DispositionStatus::Complete => Disposition::Complete,
        DispositionStatus::Abandon => Disposition::Abandon { properties },
        DispositionStatus::Defer => Disposition::Defer { properties },
        DispositionStatus::Release => Disposition::Release,
        DispositionStatus::DeadLetter { reason, description } => {
            Disposition::DeadLetter { reason, description, properties }
        }
    };
    let settlement = |token| Settlement { token, disposition: disposition.clone() };
    Ok(tokens.into_iter().map(settlement).collect())
}
