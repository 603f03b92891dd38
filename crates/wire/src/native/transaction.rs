//! Operations of transactions.

use domain::{
    CancelScheduled, EntityId, NewMessage, Operation, Performed, QueueId, Refusal, Renew, Send,
    SequenceNumber, SetSessionState, Settle,
};

use super::{lock_token, session_token, settlement, sub_queue};
use crate::v1::{self, transaction_operation::Operation as Asked};

/// The other entity that an operation's messages are for, if they are (FWD-14).
pub fn transfer_destination(operation: &v1::TransactionOperation) -> Option<String> {
    match &operation.operation {
        Some(Asked::Send(send)) => Some(send.to.clone()).filter(|to| !to.is_empty()),
        _ => None,
    }
}

/// An operation whose entity is written in when it is known; see [`transfer_destination`] as well.
/// `new_messages`: how its edge takes messages in.
pub fn operation(
    operation: v1::TransactionOperation,
    new_messages: impl FnOnce(Vec<v1::Message>) -> Result<Vec<NewMessage>, Refusal>,
) -> Result<Operation, Refusal> {
    let (origin, entity) = (None, EntityId(0));
    let queue = QueueId { entity, sub: sub_queue(operation.sub_queue)? };
    Ok(match operation.operation {
        Some(Asked::Send(send)) => {
            Operation::Send(Send { origin, entity, messages: new_messages(send.messages)? })
        }
        Some(Asked::CancelScheduled(cancel)) => {
            let numbers = cancel.sequence_numbers.into_iter().map(SequenceNumber).collect();
            Operation::CancelScheduled(CancelScheduled { origin, entity, numbers })
        }
        Some(Asked::Settle(settle)) => {
            let settlements = settle.settlements.iter().map(settlement);
            let settlements = settlements.collect::<Result<Vec<_>, _>>()?;
            Operation::Settle(Settle { origin, queue, settlements, atomic: true })
        }
        Some(Asked::Renew(renew)) => {
            let tokens = renew.lock_tokens.iter().map(|token| lock_token(token));
            let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
            Operation::Renew(Renew { origin, queue, tokens })
        }
        Some(Asked::SetSessionState(set)) => {
            let (token, state) = (session_token(set.token)?, set.state);
            Operation::SetState(SetSessionState { origin, entity, token, state })
        }
        None => {
            let why = "it asks for nothing".to_owned();
            return Err(Refusal::Argument { what: "operation", why });
        }
    })
}

pub fn performed(performed: Performed) -> v1::OperationResult {
    let mut result = v1::OperationResult::default();
    match performed {
        Performed::Done => (),
        Performed::Sent { sequences } => {
            result.sequence_numbers = sequences.into_iter().map(|number| number.0).collect();
        }
        Performed::Renewed { until } => {
            result.locked_until_ms = until.into_iter().map(|at| at.0).collect();
        }
    }
    result
}
