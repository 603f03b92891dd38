//! What is true of each command, whatever rows it meets: a row each, here and nowhere else. Whoever
//! proposes, refuses, repeats or applies commands asks here.

use crate::{
    CatalogCommand, Command, EntityId, ForwardCommand, Operation, Origin, QueueId,
    RelocationCommand, Send, SessionCommand, SetSessionState, Timestamp, TopicCommand,
};

/// What is true of a command. What it weighs is told by [`Command::weight`], as that is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts<'a> {
    pub requester: Requester,
    pub repeat: Repeat,
    /// The entity it is about, if that is one, and one that its group keeps.
    pub entity: Option<EntityId>,
    /// Refused where space is short (QUOTA-37). What settles, deletes or expires frees some, and what
    /// changes an entity takes next to none: those go on, in what is kept back for them.
    pub adds_data: bool,
    pub sends: Sends<'a>,
    /// The queue whose messages its outcome delivers.
    pub delivers_from: Option<QueueId>,
}

/// Who may ask a group's leader for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// The leader itself, by what it knows of timers and of waiting receivers.
    Leader,
    /// A node: for a client, or to finish what spans groups.
    Node,
    /// As `Node`, in development mode only.
    DevelopmentNode,
}

/// What becomes of a command that is perhaps done, if it is proposed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The machine knows it again by its number, and answers as the first time (SEND-8). One that was
    /// given no number is done again.
    Numbered(Option<Origin>),
    /// Done twice is done once: by its ids, or because it only states how things are.
    Harmless,
    /// It is done again. Whoever asks must know whether it may have been done.
    DoneAgain,
}

/// What a command sends to its entity, if it is accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sends<'a> {
    Nothing,
    Batch(&'a Send),
    /// Those among the operations of a transaction.
    Within(&'a [Operation]),
}

impl Facts<'_> {
    const fn by(requester: Requester, repeat: Repeat, entity: Option<EntityId>) -> Self {
        let (sends, delivers_from) = (Sends::Nothing, None);
        Facts { requester, repeat, entity, adds_data: false, sends, delivers_from }
    }

    /// What clients ask of an entity.
    const fn numbered(origin: Option<Origin>, entity: EntityId) -> Self {
        Facts::by(Requester::Node, Repeat::Numbered(origin), Some(entity))
    }

    /// Who asked, where a repeat must be recognised.
    pub fn origin(&self) -> Option<Origin> {
        match self.repeat {
            Repeat::Numbered(origin) => origin,
            Repeat::Harmless | Repeat::DoneAgain => None,
        }
    }

    /// The entity it sends to.
    pub fn sends_to(&self) -> Option<EntityId> {
        match self.sends {
            Sends::Batch(_) | Sends::Within(_) => self.entity,
            Sends::Nothing => None,
        }
    }

    /// Whether it only makes its producer known: a first request that sends nothing.
    pub fn greets(&self) -> bool {
        let is_first = self.origin().is_some_and(|origin| origin.serial == 1);
        is_first && matches!(self.sends, Sends::Batch(send) if send.messages.is_empty())
    }
}

impl<'a> Sends<'a> {
    pub fn batches(self) -> impl Iterator<Item = &'a Send> {
        let (alone, among) = match self {
            Sends::Nothing => (None, &[][..]),
            Sends::Batch(send) => (Some(send), &[][..]),
            Sends::Within(operations) => (None, operations),
        };
        alone.into_iter().chain(among.iter().filter_map(|operation| match operation {
            Operation::Send(send) => Some(send),
            // What is sent via the entity is not received from it.
            Operation::SendVia(_)
            | Operation::CancelScheduled(_)
            | Operation::Settle(_)
            | Operation::Renew(_)
            | Operation::SetState(_) => None,
        }))
    }

    /// Messages that are available at once, if all this is accepted at that time.
    pub fn available_at(self, now: Timestamp) -> u32 {
        let messages = self.batches().flat_map(|send| &send.messages);
        messages.filter(|message| message.scheduled_at.is_none_or(|at| at <= now)).count() as u32
    }
}

impl Command {
    #[inline]
    pub fn facts(&self) -> Facts<'_> {
        use Repeat::{DoneAgain, Harmless, Numbered};
        use Requester::{DevelopmentNode, Leader, Node};
        match self {
            // Space or not: the catalog has recorded the intent, which is carried out.
            Command::CreateQueue(create) => Facts::by(Node, Harmless, Some(create.entity)),
            Command::UpdateQueue(update) => Facts::numbered(update.origin, update.entity),
            Command::DeleteEntity { entity } => Facts::by(Node, Harmless, Some(*entity)),
            Command::Send(send) => Facts {
                adds_data: true,
                sends: Sends::Batch(send),
                ..Facts::numbered(send.origin, send.entity)
            },
            Command::Acquire(acquire) => Facts {
                delivers_from: Some(acquire.queue),
                ..Facts::by(Leader, DoneAgain, Some(acquire.queue.entity))
            },
            Command::Settle(settle) => Facts::numbered(settle.origin, settle.queue.entity),
            Command::Renew(renew) => Facts::numbered(renew.origin, renew.queue.entity),
            Command::CancelScheduled(cancel) => Facts::numbered(cancel.origin, cancel.entity),
            Command::ReceiveDeferred(receive) => Facts {
                delivers_from: Some(receive.queue),
                ..Facts::numbered(receive.origin, receive.queue.entity)
            },
            Command::Select(select) => Facts {
                delivers_from: Some(select.queue),
                ..Facts::numbered(select.origin, select.queue.entity)
            },
            Command::DeleteBatch(delete) => Facts::numbered(delete.origin, delete.queue.entity),
            Command::Fire(fire) => Facts::by(Leader, Harmless, Some(fire.entity)),
            Command::FireLocks(_) => Facts::by(Leader, Harmless, None),
            Command::Touch { entity } => Facts::by(Node, Harmless, Some(*entity)),
            Command::Seal(seal) => Facts::by(Node, Harmless, Some(seal.entity)),
            Command::Beat
            | Command::Sweep
            | Command::LimitMatching { .. }
            | Command::ReachLevel { .. } => Facts::by(Leader, Harmless, None),
            Command::AdvanceClock { .. } => Facts::by(DevelopmentNode, DoneAgain, None),
            Command::RaiseClock { .. } | Command::Cut { .. } => Facts::by(Node, Harmless, None),
            Command::Restore(_) => Facts { adds_data: true, ..Facts::by(Node, Harmless, None) },
            Command::Relocate(command) => command.facts(),
            Command::Catalog(command) => command.facts(),
            Command::Session(command) => command.facts(),
            Command::Topic(command) => command.facts(),
            Command::Refuse(refuse) => Facts::by(Leader, Numbered(refuse.origin), None),
            Command::Forward(command) => command.facts(),
            Command::Commit(commit) => Facts {
                adds_data: commit.operations.iter().any(Operation::adds_data),
                sends: Sends::Within(&commit.operations),
                ..Facts::numbered(commit.origin, commit.entity)
            },
        }
    }
}

impl CatalogCommand {
    #[inline]
    fn facts(&self) -> Facts<'_> {
        let (repeat, adds_data) = match self {
            // Known again by the request drawn for them, as long as what they created is there.
            CatalogCommand::Create { .. }
            | CatalogCommand::CreateTopic { .. }
            | CatalogCommand::CreateSubscription { .. } => (Repeat::DoneAgain, true),
            CatalogCommand::Delete { .. } => (Repeat::DoneAgain, false),
            CatalogCommand::CreateNamespace { .. } | CatalogCommand::CreateNamespaceOf { .. } => {
                (Repeat::DoneAgain, true)
            }
            CatalogCommand::UpdateNamespace { .. }
            | CatalogCommand::ChangeProfile { .. }
            | CatalogCommand::SettleProfile { .. }
            | CatalogCommand::DeleteNamespace { .. }
            | CatalogCommand::NamespaceDeleted { .. }
            | CatalogCommand::SetNamespaceIdle { .. }
            | CatalogCommand::UseNamespace { .. }
            | CatalogCommand::SealNamespace { .. }
            | CatalogCommand::DeleteIdleNamespace { .. } => (Repeat::Harmless, false),
            CatalogCommand::Found { .. }
            | CatalogCommand::Created { .. }
            | CatalogCommand::Withdraw { .. }
            | CatalogCommand::Deleted { .. }
            | CatalogCommand::Seal { .. }
            | CatalogCommand::Spare { .. }
            | CatalogCommand::SetNode { .. }
            | CatalogCommand::AddNode { .. }
            | CatalogCommand::Drain { .. }
            | CatalogCommand::SetMaintenance { .. }
            | CatalogCommand::Remove { .. }
            | CatalogCommand::MoveReplica { .. }
            | CatalogCommand::CreateJoinToken { .. }
            | CatalogCommand::RevokeJoinToken { .. }
            | CatalogCommand::Join { .. }
            | CatalogCommand::AddGroups { .. }
            | CatalogCommand::OpenGroups { .. }
            | CatalogCommand::RaiseFeatureLevel { .. }
            | CatalogCommand::BeginRestore { .. }
            | CatalogCommand::EndRestore { .. } => (Repeat::Harmless, false),
            CatalogCommand::SetGroup { .. } => (Repeat::Harmless, false),
            CatalogCommand::PutFaultRule { .. } | CatalogCommand::RemoveFaultRules { .. } => {
                (Repeat::Harmless, false)
            }
            CatalogCommand::PutDocument { .. } => (Repeat::Harmless, true),
            CatalogCommand::RemoveDocument { .. } => (Repeat::Harmless, false),
            CatalogCommand::RestoreNames { .. } | CatalogCommand::RestoreNamespaces { .. } => {
                (Repeat::Harmless, true)
            }
        };
        Facts { adds_data, ..Facts::by(Requester::Node, repeat, None) }
    }
}

impl SessionCommand {
    #[inline]
    fn facts(&self) -> Facts<'_> {
        use Repeat::{DoneAgain, Harmless};
        use Requester::Leader;
        match self {
            SessionCommand::Accept(accept) => Facts::numbered(accept.origin, accept.queue.entity),
            SessionCommand::Receive(receive) => Facts {
                delivers_from: Some(QueueId::main(receive.entity)),
                ..Facts::by(Leader, DoneAgain, Some(receive.entity))
            },
            SessionCommand::Resume(resume) => Facts::by(Leader, Harmless, Some(resume.entity)),
            SessionCommand::Renew(renew) => Facts::numbered(renew.origin, renew.entity),
            SessionCommand::Release(release) => Facts::numbered(release.origin, release.entity),
            SessionCommand::SetState(set) => {
                Facts { adds_data: set.adds_data(), ..Facts::numbered(set.origin, set.entity) }
            }
            SessionCommand::ReceiveDeferred(receive) => Facts {
                delivers_from: Some(QueueId::main(receive.entity)),
                ..Facts::numbered(receive.origin, receive.entity)
            },
            SessionCommand::DeleteBatch(delete) => Facts::numbered(delete.origin, delete.entity),
            SessionCommand::Fire(_) => Facts::by(Leader, Harmless, None),
        }
    }
}

impl SetSessionState {
    fn adds_data(&self) -> bool {
        self.state.is_some()
    }
}

impl TopicCommand {
    #[inline]
    fn facts(&self) -> Facts<'_> {
        use Repeat::Harmless;
        use Requester::Node;
        match self {
            TopicCommand::Create(create) => Facts::by(Node, Harmless, Some(create.entity)),
            TopicCommand::Update(update) => Facts::numbered(update.origin, update.entity),
            TopicCommand::CreateSubscription(create) => {
                Facts::by(Node, Harmless, Some(create.entity))
            }
            TopicCommand::UpdateSubscription(update) => {
                Facts::numbered(update.origin, update.entity)
            }
            TopicCommand::PutRule(put) => {
                Facts { adds_data: true, ..Facts::numbered(put.origin, put.entity) }
            }
            TopicCommand::RemoveRule(remove) => Facts::numbered(remove.origin, remove.entity),
        }
    }
}

impl ForwardCommand {
    #[inline]
    fn facts(&self) -> Facts<'_> {
        let by_node = |entity| Facts::by(Requester::Node, Repeat::Harmless, Some(entity));
        match self {
            ForwardCommand::Ship(ship) => by_node(ship.queue.entity),
            ForwardCommand::Arrive(arrive) => {
                Facts { adds_data: true, ..by_node(arrive.destination) }
            }
            ForwardCommand::ArriveBehind { arrive, .. } => {
                Facts { adds_data: true, ..by_node(arrive.destination) }
            }
            ForwardCommand::Shipped(shipped) => by_node(shipped.queue.entity),
            ForwardCommand::Unpark(unpark) => by_node(unpark.queue.entity),
            ForwardCommand::ForgetArrivals(forget) => by_node(forget.destination),
        }
    }
}

impl RelocationCommand {
    #[inline]
    fn facts(&self) -> Facts<'_> {
        let by_node = |entity| Facts::by(Requester::Node, Repeat::Harmless, Some(entity));
        match self {
            RelocationCommand::Depart(depart) => by_node(depart.entity),
            // Space or not: it left where it was.
            RelocationCommand::Admit(admit) => by_node(admit.entity),
            RelocationCommand::Leave(leave) => by_node(leave.entity),
        }
    }
}

impl Operation {
    /// As [`Facts::adds_data`], of a part of a transaction.
    fn adds_data(&self) -> bool {
        match self {
            Operation::Send(_) | Operation::SendVia(_) => true,
            Operation::SetState(set) => set.adds_data(),
            Operation::CancelScheduled(_) | Operation::Settle(_) | Operation::Renew(_) => false,
        }
    }
}
