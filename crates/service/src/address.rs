//! What the edge writes on a command before it is sent: whose it is and which entity it is for.

use domain::{Command, EntityId, Operation, Origin, QueueId, SessionCommand, TopicCommand};

/// Who asks, for recognising a repeat (SEND-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The edge speaks for its client.
    Edge,
    /// A client that numbers its own requests, per queue.
    Client { producer: u64, serial: u64, ordered: bool, retry: bool },
}

/// Where a command carries its origin; `None` for commands that have none.
pub(crate) fn origin(command: &mut Command) -> Option<&mut Option<Origin>> {
    match command {
        Command::UpdateQueue(update) => Some(&mut update.origin),
        Command::Send(send) => Some(&mut send.origin),
        Command::Settle(settle) => Some(&mut settle.origin),
        Command::Renew(renew) => Some(&mut renew.origin),
        Command::CancelScheduled(cancel) => Some(&mut cancel.origin),
        Command::ReceiveDeferred(receive) => Some(&mut receive.origin),
        Command::DeleteBatch(delete) => Some(&mut delete.origin),
        Command::Commit(commit) => Some(&mut commit.origin),
        Command::Refuse(refuse) => Some(&mut refuse.origin),
        Command::Session(session) => session.origin_mut(),
        Command::Topic(command) => match command {
            TopicCommand::Update(update) => Some(&mut update.origin),
            TopicCommand::UpdateSubscription(update) => Some(&mut update.origin),
            TopicCommand::PutRule(put) => Some(&mut put.origin),
            TopicCommand::RemoveRule(remove) => Some(&mut remove.origin),
            TopicCommand::Create(_) | TopicCommand::CreateSubscription(_) => None,
        },
        Command::CreateQueue(_)
        | Command::DeleteEntity { .. }
        | Command::Acquire(_)
        | Command::Fire(_)
        | Command::FireLocks(_)
        | Command::Touch { .. }
        | Command::Seal(_)
        | Command::Beat
        | Command::Sweep
        | Command::AdvanceClock { .. }
        | Command::RaiseClock { .. }
        | Command::Catalog(_)
        | Command::Forward(_) => None,
    }
}

/// Marks a command as sent before. False if a second application could do harm, because nobody
/// would recognise it.
pub(crate) fn mark_repeat(command: &mut Command) -> bool {
    if let Some(origin) = origin(command) {
        return match origin {
            Some(origin) => {
                origin.retry = true;
                true
            }
            None => false,
        };
    }
    match command {
        // Done twice is done once: by their ids, or because they only state how things are.
        Command::CreateQueue(_) | Command::DeleteEntity { .. } | Command::Sweep => true,
        Command::Fire(_) | Command::FireLocks(_) | Command::RaiseClock { .. } => true,
        Command::Forward(_) => true,
        Command::Session(SessionCommand::Resume(_) | SessionCommand::Fire(_)) => true,
        Command::Topic(TopicCommand::Create(_) | TopicCommand::CreateSubscription(_)) => true,
        Command::Touch { .. } | Command::Seal(_) | Command::Beat => true,
        Command::Catalog(catalog) => match catalog {
            domain::CatalogCommand::Found { .. }
            | domain::CatalogCommand::Created { .. }
            | domain::CatalogCommand::Withdraw { .. }
            | domain::CatalogCommand::Deleted { .. }
            | domain::CatalogCommand::Seal { .. }
            | domain::CatalogCommand::Spare { .. }
            | domain::CatalogCommand::SetNode { .. }
            | domain::CatalogCommand::AddNode { .. }
            | domain::CatalogCommand::Drain { .. }
            | domain::CatalogCommand::Remove { .. }
            | domain::CatalogCommand::MoveReplica { .. } => true,
            // Whoever asks for these must know whether they may have been done, and repeats them.
            domain::CatalogCommand::Create { .. }
            | domain::CatalogCommand::CreateTopic { .. }
            | domain::CatalogCommand::CreateSubscription { .. }
            | domain::CatalogCommand::Delete { .. } => false,
        },
        _ => false,
    }
}

/// Addresses a command to another entity: its route was stale.
pub(crate) fn set_entity(command: &mut Command, entity: EntityId) {
    let queue = |queue: &mut QueueId| queue.entity = entity;
    match command {
        Command::CreateQueue(create) => create.entity = entity,
        Command::UpdateQueue(update) => update.entity = entity,
        Command::DeleteEntity { entity: of } => *of = entity,
        Command::Send(send) => send.entity = entity,
        Command::Acquire(acquire) => queue(&mut acquire.queue),
        Command::Settle(settle) => queue(&mut settle.queue),
        Command::Renew(renew) => queue(&mut renew.queue),
        Command::CancelScheduled(cancel) => cancel.entity = entity,
        Command::ReceiveDeferred(receive) => queue(&mut receive.queue),
        Command::DeleteBatch(delete) => queue(&mut delete.queue),
        // Its operations were addressed when they were gathered.
        Command::Commit(commit) => commit.entity = entity,
        Command::Fire(fire) => fire.entity = entity,
        Command::Session(session) => {
            if let Some(of) = session.entity_mut() {
                *of = entity;
            }
        }
        Command::Topic(command) => match command {
            TopicCommand::Create(create) => create.entity = entity,
            TopicCommand::Update(update) => update.entity = entity,
            TopicCommand::CreateSubscription(create) => create.entity = entity,
            TopicCommand::UpdateSubscription(update) => update.entity = entity,
            TopicCommand::PutRule(put) => put.entity = entity,
            TopicCommand::RemoveRule(remove) => remove.entity = entity,
        },
        Command::Touch { entity: of } => *of = entity,
        // About the entity it names, and no other of its name.
        Command::Seal(_) => (),
        Command::FireLocks(_)
        | Command::Beat
        | Command::Sweep
        | Command::AdvanceClock { .. }
        | Command::RaiseClock { .. }
        | Command::Catalog(_)
        | Command::Forward(_)
        | Command::Refuse(_) => (),
    }
}

/// Addresses an operation of a transaction.
pub(crate) fn set_operation_entity(operation: &mut Operation, entity: EntityId) {
    match operation {
        Operation::Send(send) => send.entity = entity,
        Operation::CancelScheduled(cancel) => cancel.entity = entity,
        Operation::Settle(settle) => settle.queue.entity = entity,
        Operation::Renew(renew) => renew.queue.entity = entity,
        Operation::SetState(set) => set.entity = entity,
        Operation::SendVia(send) => send.via = entity,
    }
}

/// A client's producer as a group knows it: clients count per queue, groups per producer, so the
/// queue becomes part of the producer. The same on every node (splitmix64).
pub(crate) fn producer_of(client: u64, entity: EntityId) -> u64 {
    let mut mixed = client ^ entity.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use domain::{Send, Span};

    use super::*;

    /// SEND-8: only what will be recognised is sent a second time.
    #[test]
    fn send_8_a_command_nobody_would_recognise_is_not_repeated() {
        let send = |origin| Command::Send(Send { origin, entity: EntityId(1), messages: vec![] });
        let origin = Origin { producer: 1, serial: 1, ordered: false, retry: false };
        assert!(!mark_repeat(&mut send(None)));
        let mut numbered = send(Some(origin));
        assert!(mark_repeat(&mut numbered));
        assert_eq!(numbered, send(Some(Origin { retry: true, ..origin })));
        assert!(!mark_repeat(&mut Command::AdvanceClock { by: Span(1) }));
        assert!(mark_repeat(&mut Command::RaiseClock { to: Span(1) }));
        assert!(mark_repeat(&mut Command::DeleteEntity { entity: EntityId(1) }));
    }

    #[test]
    fn one_client_is_another_producer_for_every_queue() {
        assert_ne!(producer_of(7, EntityId(1)), producer_of(7, EntityId(2)));
        assert_eq!(producer_of(7, EntityId(1)), producer_of(7, EntityId(1)));
    }
}
