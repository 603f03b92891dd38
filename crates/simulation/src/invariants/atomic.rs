//! A transaction that was committed was so with everything its client had asked of it. That nothing
//! is left of one that was refused is found where rows are compared with what is known (`one_place`,
//! `lost`, `conservation`).

use domain::{Command, Operation, Outcome, Performed, Send, SendVia};

use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "atomic", source: "TX-2", what }
}

/// Each operation has come to what it asks, in order.
pub fn answered(asked: &Command, outcome: &Outcome) -> Holds {
    let (Command::Commit(commit), Outcome::Committed { performed }) = (asked, outcome) else {
        return Ok(());
    };
    let operations = &commit.operations;
    let pairs = operations.iter().zip(performed);
    let whole = operations.len() == performed.len()
        && pairs.into_iter().all(|(operation, performed)| is_all(operation, performed));
    match whole {
        true => Ok(()),
        false => Err(broken(format!("{operations:?} came to {performed:?}"))),
    }
}

fn is_all(operation: &Operation, performed: &Performed) -> bool {
    match (operation, performed) {
        (
            Operation::Send(Send { messages, .. }) | Operation::SendVia(SendVia { messages, .. }),
            Performed::Sent { sequences },
        ) => messages.len() == sequences.len(),
        (Operation::Renew(renew), Performed::Renewed { until }) => {
            renew.tokens.len() == until.len()
        }
        (
            Operation::CancelScheduled(_) | Operation::Settle(_) | Operation::SetState(_),
            Performed::Done,
        ) => true,
        _ => false,
    }
}
