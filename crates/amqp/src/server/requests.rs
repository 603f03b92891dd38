//! Management operations (§7.1) over the broker.

use bytes::{Bytes, BytesMut};
use domain::{
    Disposition, LockToken, NewMessage, PEEK_MESSAGES_MAX, Properties, Refusal, SequenceNumber,
    Settlement,
};
use service::{Asker, Broker, Error, Received};

use super::address::Entity;
use super::failure;
use crate::Limits;
use crate::management::{Operation, ReceiveMode, Reply, Scheduled, Verdict};
use crate::message::{Message, Shown, deliver, new_message, stored};
use crate::sas::Right;

/// A reply takes no further message beyond this: who peeks asks again from where it ended (PEEK-2).
const REPLY_BYTES_MAX: usize = 1 << 20;

/// The right an operation takes (§2).
pub(super) fn right(operation: &Operation) -> Right {
    match operation {
        Operation::Schedule { .. } | Operation::CancelScheduled { .. } => Right::Send,
        Operation::AddRule { .. }
        | Operation::RemoveRule { .. }
        | Operation::EnumerateRules { .. } => Right::Manage,
        Operation::RenewLock { .. }
        | Operation::Peek { .. }
        | Operation::ReceiveBySequence { .. }
        | Operation::UpdateDisposition { .. }
        | Operation::RenewSessionLock { .. }
        | Operation::SetSessionState { .. }
        | Operation::GetSessionState { .. }
        | Operation::GetMessageSessions { .. }
        | Operation::BatchDelete { .. } => Right::Listen,
    }
}

/// Carries an operation out. Whatever becomes of it, there is a reply.
pub(super) async fn run(
    broker: Broker,
    entity: Entity,
    operation: Operation,
    limits: Limits,
) -> Reply {
    let node = Node { broker, entity, limits };
    node.run(operation).await.unwrap_or_else(|error| Reply::Refused(failure::error(&error)))
}

struct Node {
    broker: Broker,
    entity: Entity,
    limits: Limits,
}

impl Node {
    async fn run(&self, operation: Operation) -> Result<Reply, Error> {
        match operation {
            Operation::RenewLock { tokens } => self.renew(tokens).await,
            Operation::Peek { session_id: Some(_), .. }
            | Operation::ReceiveBySequence { session_id: Some(_), .. }
            | Operation::UpdateDisposition { session_id: Some(_), .. }
            | Operation::BatchDelete { session_id: Some(_), .. }
            | Operation::RenewSessionLock { .. }
            | Operation::SetSessionState { .. }
            | Operation::GetSessionState { .. }
            | Operation::GetMessageSessions { .. } => {
                Err(self.refused(Refusal::NotSupported { what: "a session" }))
            }
            Operation::AddRule { .. }
            | Operation::RemoveRule { .. }
            | Operation::EnumerateRules { .. } => {
                Err(self.refused(Refusal::NotSupported { what: "a rule of a queue" }))
            }
            Operation::Peek { from, count, .. } => self.peek(from, count).await,
            Operation::Schedule { messages } => self.schedule(&messages).await,
            Operation::CancelScheduled { sequences } => {
                let name = &self.entity.name;
                self.broker.cancel_scheduled(name, sequences, Asker::Edge).await?;
                Ok(Reply::Done)
            }
            Operation::ReceiveBySequence { sequences, mode, .. } => {
                self.receive_deferred(sequences, mode).await
            }
            Operation::UpdateDisposition { tokens, verdict, properties_to_modify, .. } => {
                self.settle(tokens, verdict, properties_to_modify).await
            }
            Operation::BatchDelete { count, enqueued_before, .. } => {
                let Entity { name, sub } = &self.entity;
                let deleted = self.broker.delete_batch(name, *sub, count, enqueued_before);
                deleted.await.map(Reply::Deleted)
            }
        }
    }

    async fn renew(&self, tokens: Vec<LockToken>) -> Result<Reply, Error> {
        let renewed = self.broker.renew(&self.entity.name, self.entity.sub, tokens);
        renewed.await.map(Reply::LocksRenewed)
    }

    async fn peek(&self, from: SequenceNumber, count: u32) -> Result<Reply, Error> {
        let Entity { name, sub } = &self.entity;
        let peeked =
            self.broker.peek(name, *sub, from, count.min(PEEK_MESSAGES_MAX), false).await?;
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for received in &peeked {
            let message = self.encode(received, Shown::Peek)?;
            bytes += message.len();
            if bytes > REPLY_BYTES_MAX && !messages.is_empty() {
                break;
            }
            messages.push(message);
        }
        Ok(Reply::Peeked(messages))
    }

    async fn schedule(&self, scheduled: &[Scheduled]) -> Result<Reply, Error> {
        let messages: Result<Vec<NewMessage>, Refusal> =
            scheduled.iter().map(|scheduled| self.scheduled(scheduled)).collect();
        let messages = messages.map_err(|refusal| self.refused(refusal))?;
        let sent = self.broker.send(&self.entity.name, messages, Asker::Edge);
        sent.await.map(Reply::Scheduled)
    }

    fn scheduled(&self, scheduled: &Scheduled) -> Result<NewMessage, Refusal> {
        let message = Message::parse(scheduled.message.clone(), &self.limits)
            .map_err(|error| argument(error.to_string()))?;
        let guid = || *uuid::Uuid::new_v4().as_bytes();
        let new = new_message(&message, &self.limits, guid, &mut BytesMut::new())?;
        match new.scheduled_at {
            Some(_) => Ok(new),
            None => Err(argument("it has no x-opt-scheduled-enqueue-time".to_owned())),
        }
    }

    async fn receive_deferred(
        &self,
        sequences: Vec<SequenceNumber>,
        mode: ReceiveMode,
    ) -> Result<Reply, Error> {
        let Entity { name, sub } = &self.entity;
        let (mode, shown) = match mode {
            ReceiveMode::PeekLock => (service::ReceiveMode::PeekLock, Shown::Deferred),
            ReceiveMode::ReceiveAndDelete => {
                (service::ReceiveMode::ReceiveAndDelete, Shown::ReceiveAndDelete)
            }
        };
        let received = self.broker.receive_deferred(name, *sub, mode, sequences).await?;
        let entry = |received: &Received| {
            // What was deleted has no lock; the field is there all the same.
            let none = LockToken { sequence: SequenceNumber(0), nonce: 0 };
            let token = received.delivery.lock.map_or(none, |lock| lock.token);
            Ok((token, self.encode(received, shown)?))
        };
        received.iter().map(entry).collect::<Result<_, Error>>().map(Reply::Received)
    }

    /// LOCK-17: all tokens or none.
    async fn settle(
        &self,
        tokens: Vec<LockToken>,
        verdict: Verdict,
        properties: Properties,
    ) -> Result<Reply, Error> {
        let disposition = match verdict {
            Verdict::Renew => return self.renew(tokens).await,
            Verdict::Complete => Disposition::Complete,
            Verdict::Abandon => Disposition::Abandon { properties },
            Verdict::Defer => Disposition::Defer { properties },
            Verdict::Release => Disposition::Release,
            Verdict::DeadLetter { reason, description } => {
                Disposition::DeadLetter { reason, description, properties }
            }
        };
        let settlement = |token| Settlement { token, disposition: disposition.clone() };
        let settlements = tokens.into_iter().map(settlement).collect();
        let Entity { name, sub } = &self.entity;
        let refusals = self.broker.settle(name, *sub, settlements, true, Asker::Edge).await?;
        match refusals.into_iter().next() {
            Some((_, refusal)) => Err(self.refused(refusal)),
            None => Ok(Reply::Done),
        }
    }

    fn encode(&self, received: &Received, shown: Shown) -> Result<Bytes, Error> {
        let Received { delivery, content } = received;
        let scratch = &mut BytesMut::new();
        let payload = stored(content, &self.limits, scratch).and_then(|message| {
            let source = delivery.dead_letter_source.as_deref(); // DLQ-12.
            let payload = deliver(&message, delivery, shown, source, &self.limits, scratch)?;
            Ok(payload.to_bytes())
        });
        payload.map_err(|error| {
            tracing::error!(sequence = %delivery.sequence, %error, "unreadable content");
            self.refused(argument(format!("message {}: {error}", delivery.sequence)))
        })
    }

    fn refused(&self, refusal: Refusal) -> Error {
        Error::new(refusal, self.entity.name.as_str())
    }
}

fn argument(why: String) -> Refusal {
    Refusal::Argument { what: "message", why }
}
