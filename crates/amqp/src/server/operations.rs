//! Management operations (REQ-10 to REQ-23) over the broker.

mod messages;
mod rules;
mod sessions;

use amqp_protocol::Limits;
use amqp_protocol::codec::DecodeError;
use audit::{Action, Entry, Outcome};
use auth::Right;
use bytes::{Bytes, BytesMut};
use domain::{Refusal, SessionToken};
use message_content::{Shown, deliver, stored};
use service::{Broker, Error, Received};

use super::address::Entity;
use super::failure;
use crate::management::{Operation, Reply};

pub(super) use messages::{scheduled, settlements};

/// The right an operation takes (REQ-25).
pub(super) fn right(operation: &Operation) -> Right {
    match operation {
        Operation::Schedule { .. } | Operation::CancelScheduled { .. } => Right::Send,
        Operation::AddRule { .. }
        | Operation::RemoveRule { .. }
        | Operation::EnumerateRules { .. }
        | Operation::RenewLock { .. }
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

/// What the audit is told of an operation, and what it is done to; `None`: it only reads, or is about
/// messages one by one.
pub(super) fn audited(operation: &Operation, entity: &Entity) -> Option<(Action, String)> {
    let rule = |name: &str| format!("{}/rules/{name}", entity.path());
    match operation {
        Operation::AddRule { rule: added } => Some((Action::RulePut, rule(&added.name))),
        Operation::RemoveRule { name } => Some((Action::RuleDelete, rule(name))),
        Operation::BatchDelete { .. } => Some((Action::MessagesPurge, entity.path())),
        Operation::Schedule { .. }
        | Operation::CancelScheduled { .. }
        | Operation::EnumerateRules { .. }
        | Operation::RenewLock { .. }
        | Operation::Peek { .. }
        | Operation::ReceiveBySequence { .. }
        | Operation::UpdateDisposition { .. }
        | Operation::RenewSessionLock { .. }
        | Operation::SetSessionState { .. }
        | Operation::GetSessionState { .. }
        | Operation::GetMessageSessions { .. } => None,
    }
}

/// An operation that its client may ask for.
pub(super) struct PermittedOperation {
    pub operation: Operation,
    /// Holds the session that it is about, where it takes holding one, or is told that it has lost one.
    pub session: Option<SessionToken>,
    /// What the audit is told what came of it by.
    pub entry: Option<Entry>,
}

/// Carries an operation out. Whatever becomes of it, there is a reply.
pub(super) async fn run(
    broker: Broker,
    entity: Entity,
    permitted: PermittedOperation,
    limits: Limits,
) -> Reply {
    let PermittedOperation { operation, session, entry } = permitted;
    let context = OperationContext { broker, entity, session, limits };
    let done = context.run(operation).await;
    if let Some(entry) = entry {
        entry.end(Outcome::of_result(&done));
    }
    done.unwrap_or_else(|error| Reply::Refused(failure::error(&error)))
}

struct OperationContext {
    broker: Broker,
    entity: Entity,
    session: Option<SessionToken>,
    limits: Limits,
}

impl OperationContext {
    async fn run(&self, operation: Operation) -> Result<Reply, Error> {
        match operation {
            Operation::RenewLock { tokens } => self.renew(tokens).await,
            Operation::Peek { from, count, omit_body, .. } => {
                self.peek(from, count, omit_body).await
            }
            Operation::Schedule { messages } => self.schedule(&messages).await,
            Operation::CancelScheduled { sequences } => self.cancel(sequences).await,
            Operation::ReceiveBySequence { sequences, mode, .. } => {
                self.receive_deferred(sequences, mode).await
            }
            // Tokens tell the session (LOCK-17).
            Operation::UpdateDisposition { tokens, verdict, properties_to_modify, .. } => {
                self.settle(tokens, verdict, properties_to_modify).await
            }
            Operation::BatchDelete { count, enqueued_before, .. } => {
                self.delete(count, enqueued_before).await
            }
            Operation::RenewSessionLock { .. } => self.renew_session().await,
            Operation::SetSessionState { state, .. } => self.set_state(state).await,
            Operation::GetSessionState { .. } => self.state().await,
            Operation::GetMessageSessions { filter, skip, top } => {
                self.sessions(filter, skip, top).await
            }
            Operation::AddRule { rule } => self.add_rule(rule).await,
            Operation::RemoveRule { name } => self.remove_rule(&name).await,
            Operation::EnumerateRules { skip, top } => self.rules(skip, top).await,
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

fn undecodable(error: DecodeError) -> Refusal {
    Refusal::Undecodable { what: "the message", why: error.to_string() }
}

fn argument(why: String) -> Refusal {
    Refusal::Argument { what: "message", why }
}

#[cfg(test)]
mod tests {
    use domain::{NewRule, SequenceNumber};

    use super::*;
    use crate::management::{DispositionStatus, ListedSessions, ReceiveMode};

    /// One operation of each kind, and what it takes.
    #[test]
    fn req_25_an_operation_takes_the_right_of_what_it_does() {
        let (id, numbers) = (|| "s".to_owned(), || vec![SequenceNumber(1)]);
        let peek = |omit_body| Operation::Peek {
            from: SequenceNumber(1),
            count: 1,
            session_id: None,
            omit_body,
        };
        for (operation, expected) in [
            (Operation::Schedule { messages: vec![] }, Right::Send),
            (Operation::CancelScheduled { sequences: numbers() }, Right::Send),
            (Operation::AddRule { rule: NewRule::default() }, Right::Listen),
            (Operation::RemoveRule { name: id() }, Right::Listen),
            (Operation::EnumerateRules { skip: 0, top: 1 }, Right::Listen),
            (Operation::RenewLock { tokens: vec![] }, Right::Listen),
            (peek(false), Right::Listen),
            (
                Operation::ReceiveBySequence {
                    sequences: numbers(),
                    mode: ReceiveMode::PeekLock,
                    session_id: None,
                },
                Right::Listen,
            ),
            (
                Operation::UpdateDisposition {
                    tokens: vec![],
                    verdict: DispositionStatus::Complete,
                    properties_to_modify: domain::Properties::new(),
                    session_id: None,
                },
                Right::Listen,
            ),
            (Operation::RenewSessionLock { session_id: id() }, Right::Listen),
            (Operation::SetSessionState { session_id: id(), state: None }, Right::Listen),
            (Operation::GetSessionState { session_id: id() }, Right::Listen),
            (
                Operation::GetMessageSessions { filter: ListedSessions::Active, skip: 0, top: 1 },
                Right::Listen,
            ),
            (
                Operation::BatchDelete { count: 1, enqueued_before: None, session_id: None },
                Right::Listen,
            ),
        ] {
            assert_eq!(right(&operation), expected, "{operation:?}");
        }
    }
}
