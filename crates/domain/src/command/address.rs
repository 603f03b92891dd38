//! What is written on a command on its way to the log: by an edge, who asks and which entity a name
//! has turned out to be; by the leader, which settlements are withheld.

use crate::{Command, EntityId, Operation, Origin, Repeat, SessionCommand, Settle, TopicCommand};

/// The places on a command that an edge fills in.
#[derive(Default)]
struct Address<'a> {
    origin: Option<&'a mut Option<Origin>>,
    entity: Option<&'a mut EntityId>,
}

impl<'a> Address<'a> {
    fn new(origin: &'a mut Option<Origin>, entity: &'a mut EntityId) -> Address<'a> {
        Address { origin: Some(origin), entity: Some(entity) }
    }

    /// Of a command that is not numbered.
    fn entity(entity: &'a mut EntityId) -> Address<'a> {
        Address { origin: None, entity: Some(entity) }
    }
}

impl Command {
    /// Where it says who asks; `None` if it is not [`Repeat::Numbered`].
    pub fn origin_mut(&mut self) -> Option<&mut Option<Origin>> {
        self.address().origin
    }

    /// Addresses it to an entity: the one its client's name stands for. What no name was looked up
    /// for stays as it is.
    pub fn set_entity(&mut self, entity: EntityId) {
        if let Some(place) = self.address().entity {
            *place = entity;
        }
    }

    /// Says that it may have been proposed before. False if a second application could do harm,
    /// because nobody would recognise it.
    pub fn mark_repeat(&mut self) -> bool {
        match self.facts().repeat {
            Repeat::Harmless => true,
            Repeat::DoneAgain => false,
            Repeat::Numbered(_) => match self.origin_mut() {
                Some(Some(origin)) => {
                    origin.retry = true;
                    true
                }
                Some(None) | None => false,
            },
        }
    }

    fn address(&mut self) -> Address<'_> {
        match self {
            Command::CreateQueue(create) => Address::entity(&mut create.entity),
            Command::UpdateQueue(update) => Address::new(&mut update.origin, &mut update.entity),
            Command::DeleteEntity { entity } => Address::entity(entity),
            Command::Send(send) => Address::new(&mut send.origin, &mut send.entity),
            Command::Acquire(acquire) => Address::entity(&mut acquire.queue.entity),
            Command::Settle(settle) => Address::new(&mut settle.origin, &mut settle.queue.entity),
            Command::Renew(renew) => Address::new(&mut renew.origin, &mut renew.queue.entity),
            Command::CancelScheduled(cancel) => {
                Address::new(&mut cancel.origin, &mut cancel.entity)
            }
            Command::ReceiveDeferred(receive) => {
                Address::new(&mut receive.origin, &mut receive.queue.entity)
            }
            Command::Select(select) => Address::new(&mut select.origin, &mut select.queue.entity),
            Command::DeleteBatch(delete) => {
                Address::new(&mut delete.origin, &mut delete.queue.entity)
            }
            Command::Fire(fire) => Address::entity(&mut fire.entity),
            Command::Touch { entity } => Address::entity(entity),
            Command::Session(command) => command.address(),
            Command::Topic(command) => command.address(),
            // The operations of a commit were addressed when they were gathered.
            Command::Commit(commit) => Address::new(&mut commit.origin, &mut commit.entity),
            Command::Refuse(refuse) => {
                Address { origin: Some(&mut refuse.origin), ..Address::default() }
            }
            // A seal is about the entity it names, and no other of its name.
            Command::Seal(_)
            | Command::FireLocks(_)
            | Command::Beat
            | Command::Sweep
            | Command::AdvanceClock { .. }
            | Command::RaiseClock { .. }
            | Command::Catalog(_)
            | Command::Forward(_)
            | Command::LimitMatching { .. }
            | Command::ReachLevel { .. }
            | Command::Cut { .. }
            | Command::Restore(_)
            | Command::Relocate(_) => Address::default(),
        }
    }

    /// The settlements in it, alone or within a transaction.
    pub fn settles_mut(&mut self) -> impl Iterator<Item = &mut Settle> {
        let (alone, among): (_, &mut [Operation]) = match self {
            Command::Settle(settle) => (Some(settle), &mut []),
            Command::Commit(commit) => (None, &mut commit.operations),
            Command::CreateQueue(_)
            | Command::UpdateQueue(_)
            | Command::DeleteEntity { .. }
            | Command::Send(_)
            | Command::Acquire(_)
            | Command::Renew(_)
            | Command::CancelScheduled(_)
            | Command::ReceiveDeferred(_)
            | Command::Select(_)
            | Command::DeleteBatch(_)
            | Command::Fire(_)
            | Command::FireLocks(_)
            | Command::Touch { .. }
            | Command::Seal(_)
            | Command::Beat
            | Command::Sweep
            | Command::AdvanceClock { .. }
            | Command::RaiseClock { .. }
            | Command::Catalog(_)
            | Command::Session(_)
            | Command::Topic(_)
            | Command::Refuse(_)
            | Command::Forward(_)
            | Command::LimitMatching { .. }
            | Command::ReachLevel { .. }
            | Command::Cut { .. }
            | Command::Restore(_)
            | Command::Relocate(_) => (None, &mut []),
        };
        alone.into_iter().chain(among.iter_mut().filter_map(|operation| match operation {
            Operation::Settle(settle) => Some(settle),
            Operation::Send(_)
            | Operation::SendVia(_)
            | Operation::CancelScheduled(_)
            | Operation::Renew(_)
            | Operation::SetState(_) => None,
        }))
    }
}

impl SessionCommand {
    fn address(&mut self) -> Address<'_> {
        match self {
            SessionCommand::Accept(accept) => {
                Address::new(&mut accept.origin, &mut accept.queue.entity)
            }
            SessionCommand::Receive(receive) => Address::entity(&mut receive.entity),
            SessionCommand::Resume(resume) => Address::entity(&mut resume.entity),
            SessionCommand::Renew(renew) => Address::new(&mut renew.origin, &mut renew.entity),
            SessionCommand::Release(release) => {
                Address::new(&mut release.origin, &mut release.entity)
            }
            SessionCommand::SetState(set) => Address::new(&mut set.origin, &mut set.entity),
            SessionCommand::ReceiveDeferred(receive) => {
                Address::new(&mut receive.origin, &mut receive.entity)
            }
            SessionCommand::DeleteBatch(delete) => {
                Address::new(&mut delete.origin, &mut delete.entity)
            }
            // A leader's timers are about many.
            SessionCommand::Fire(_) => Address::default(),
        }
    }
}

impl TopicCommand {
    fn address(&mut self) -> Address<'_> {
        match self {
            TopicCommand::Create(create) => Address::entity(&mut create.entity),
            TopicCommand::Update(update) => Address::new(&mut update.origin, &mut update.entity),
            TopicCommand::CreateSubscription(create) => Address::entity(&mut create.entity),
            TopicCommand::UpdateSubscription(update) => {
                Address::new(&mut update.origin, &mut update.entity)
            }
            TopicCommand::PutRule(put) => Address::new(&mut put.origin, &mut put.entity),
            TopicCommand::RemoveRule(remove) => {
                Address::new(&mut remove.origin, &mut remove.entity)
            }
        }
    }
}

impl Operation {
    /// Addresses a part of a transaction.
    pub fn set_entity(&mut self, entity: EntityId) {
        match self {
            Operation::Send(send) => send.entity = entity,
            Operation::CancelScheduled(cancel) => cancel.entity = entity,
            Operation::Settle(settle) => settle.queue.entity = entity,
            Operation::Renew(renew) => renew.queue.entity = entity,
            Operation::SetState(set) => set.entity = entity,
            Operation::SendVia(send) => send.via = entity,
        }
    }
}
