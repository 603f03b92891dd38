//! `Commit`: the operations of a transaction, one after the other; if one is refused, all that was
//! done before it is taken back (TX-2).

use crate::machine::Step;
use crate::{
    COPIES_MAX, Commit, EntityId, ONE_ENTITY, Operation, Outcome, Performed, Refusal, Rows,
    SessionCommand, Settle, TransactionSize,
};

impl Commit {
    /// Everything that counts is decided here, at the entry's time (TX-9, TX-10): the numbers of
    /// messages, what they repeat, who gets copies, whether there is room, which locks are held.
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        TransactionSize::of(&self.operations)?;
        step.open(self.entity)?;
        check_partitions(step, &self.operations)?;
        let savepoint = step.savepoint();
        let mut performed = Vec::with_capacity(self.operations.len());
        for operation in self.operations {
            match perform(step, self.entity, operation) {
                Ok(done) => performed.push(done),
                Err(cause) => {
                    step.roll_back(savepoint);
                    let operation = performed.len() as u32;
                    return Err(Refusal::TransactionRolledBack { operation, cause: cause.into() });
                }
            }
        }
        step.keep();
        Ok(Outcome::Committed { performed })
    }
}

fn perform<R: Rows>(
    step: &mut Step<'_, R>,
    scope: EntityId,
    operation: Operation,
) -> Result<Performed, Refusal> {
    check_scope(step, scope, operation.entity())?;
    let outcome = match operation {
        Operation::Send(send) => send.apply(step)?,
        Operation::CancelScheduled(cancel) => cancel.apply(step)?,
        Operation::Settle(settle) => Settle { atomic: true, ..settle }.apply(step)?,
        Operation::Renew(renew) => renew.apply(step)?,
        Operation::SetState(set) => SessionCommand::SetState(set).apply(step)?,
        Operation::SendVia(send) => send.apply(step)?,
    };
    check_copies(step.made_copies())?;
    Ok(match outcome {
        Outcome::Sent { sequences } => Performed::Sent { sequences },
        Outcome::Renewed { until } => Performed::Renewed { until },
        _ => Performed::Done,
    })
}

/// TX-11: what is sent to a partitioned entity belongs to one partition.
fn check_partitions<R: Rows>(
    step: &mut Step<'_, R>,
    operations: &[Operation],
) -> Result<(), Refusal> {
    let mut first: Option<&str> = None;
    for (operation, asked) in operations.iter().enumerate() {
        let Operation::Send(send) = asked else { continue };
        let Ok(entity) = step.open(send.entity) else { continue };
        if !entity.properties().enable_partitioning {
            continue;
        }
        for message in &send.messages {
            let key = entity.row.partition_key(message);
            if key.is_none() || first.is_some_and(|first| Some(first) != key) {
                let why = "the entity is partitioned: all messages of a transaction must have the \
                           same SessionId or PartitionKey";
                let (operation, cause) = (operation as u32, Refusal::InvalidOperation { why });
                return Err(Refusal::TransactionRolledBack { operation, cause: cause.into() });
            }
            first = key;
        }
    }
    Ok(())
}

/// TX-5.
fn check_scope<R: Rows>(
    step: &mut Step<'_, R>,
    scope: EntityId,
    entity: EntityId,
) -> Result<(), Refusal> {
    if entity == scope || step.open(entity)?.row.topic() == Some(scope) {
        return Ok(());
    }
    Err(Refusal::InvalidOperation { why: ONE_ENTITY })
}

/// Each send is bounded; together they write one entry as well.
fn check_copies(made: u64) -> Result<(), Refusal> {
    match made > COPIES_MAX {
        true => Err(Refusal::ArgumentOutOfRange {
            what: "number of copies that one transaction makes",
            value: made.to_string(),
            allowed: "at most 100000; send fewer messages at once",
        }),
        false => Ok(()),
    }
}
