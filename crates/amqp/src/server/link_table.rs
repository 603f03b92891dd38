//! The links of one connection, and which of them have something to see to.

use std::collections::{BTreeMap, BTreeSet};

use amqp_protocol::codec::{AnyTarget, Attach, Role};
use amqp_protocol::engine::{LinkId, Millis, SessionId};
use auth::Right;
use domain::EntityId;
use limits::{LinkRole, ListedLink};

use super::address::{Entity, Node};
use super::incoming::{IncomingLink, PRESETTLED_MAX, RelayLink};
use super::outgoing::{OutgoingLink, UnsentReplies};

/// A link, from the moment it is asked for.
pub(super) struct Link {
    pub session: SessionId,
    pub attach: Box<Attach>,
    /// What it takes to use it, for as long as it is used.
    pub right: Option<Right>,
    pub kind: Kind,
    /// When something last came or went on it, or it was named as what a request is about (ERR-22).
    pub used_at: Millis,
    /// Its client was told that it is attached; until then it waits for the broker.
    pub is_accepted: bool,
    /// The entity of its node, once this node knows it: another of the same name is not the same (ENT-7).
    pub entity_id: Option<EntityId>,
    /// Of a sender link: a fault rule has it that it gets none.
    pub has_no_credit: bool,
    /// It is listed with its connection.
    pub _listed: Option<ListedLink>,
}

pub(super) enum Kind {
    /// The client sends.
    Incoming(IncomingLink),
    /// The client receives.
    Outgoing(OutgoingLink),
    /// The client sends, and each message says where to (LINK-24).
    Relay(RelayLink),
    Requests(Node),
    /// What waits for credit.
    Replies(UnsentReplies),
    /// Of transactions (COORD-1).
    Control,
}

impl Kind {
    /// What its client does there.
    pub fn role(&self) -> LinkRole {
        match self {
            Kind::Incoming(_) | Kind::Relay(_) => LinkRole::Sends,
            Kind::Outgoing(_) => LinkRole::Receives,
            Kind::Requests(_) | Kind::Replies(_) | Kind::Control => LinkRole::Asks,
        }
    }
}

#[derive(Default)]
pub(super) struct LinkTable {
    links: BTreeMap<LinkId, Link>,
    /// Receiver links with something for the client or from it, seen to at the end of the turn.
    busy: BTreeSet<LinkId>,
    /// Sender links with too much under way.
    full: BTreeSet<LinkId>,
}

impl LinkTable {
    pub fn get(&self, id: LinkId) -> Option<&Link> {
        self.links.get(&id)
    }

    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> + Clone {
        self.links.iter().map(|(id, link)| (*id, link))
    }

    /// The ids of those that fit.
    pub fn ids(&self, fits: impl Fn(&Link) -> bool) -> Vec<LinkId> {
        self.iter().filter(|(_, link)| fits(link)).map(|(id, _)| id).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub fn insert(&mut self, id: LinkId, link: Link) {
        self.links.insert(id, link);
    }

    pub fn remove(&mut self, id: LinkId) -> Option<Link> {
        self.busy.remove(&id);
        self.full.remove(&id);
        self.links.remove(&id)
    }

    /// Something came or went on a link.
    pub fn touch(&mut self, id: LinkId, now: Millis) {
        if let Some(link) = self.links.get_mut(&id) {
            link.used_at = now;
        }
    }

    /// ERR-22: a request says which link it is about.
    pub fn touch_named(&mut self, name: &str, now: Millis) {
        for link in self.links.values_mut().filter(|link| &*link.attach.name == name) {
            link.used_at = now;
        }
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut Link)> {
        self.links.iter_mut().map(|(id, link)| (*id, link))
    }

    pub fn incoming(&mut self, id: LinkId) -> Option<&mut IncomingLink> {
        match &mut self.links.get_mut(&id)?.kind {
            Kind::Incoming(incoming) => Some(incoming),
            Kind::Relay(_)
            | Kind::Outgoing(_)
            | Kind::Requests(_)
            | Kind::Replies(_)
            | Kind::Control => None,
        }
    }

    pub fn outgoing(&mut self, id: LinkId) -> Option<&mut OutgoingLink> {
        match &mut self.links.get_mut(&id)?.kind {
            Kind::Outgoing(outgoing) => Some(outgoing),
            Kind::Incoming(_)
            | Kind::Relay(_)
            | Kind::Requests(_)
            | Kind::Replies(_)
            | Kind::Control => None,
        }
    }

    pub fn replies(&mut self, id: LinkId) -> Option<&mut UnsentReplies> {
        match &mut self.links.get_mut(&id)?.kind {
            Kind::Replies(waiting) => Some(waiting),
            Kind::Incoming(_)
            | Kind::Relay(_)
            | Kind::Outgoing(_)
            | Kind::Requests(_)
            | Kind::Control => None,
        }
    }

    /// A link is to be seen to at the end of the turn.
    pub fn mark_busy(&mut self, id: LinkId) {
        self.busy.insert(id);
    }

    /// Those that are, and none of them any more.
    pub fn take_busy(&mut self) -> BTreeSet<LinkId> {
        std::mem::take(&mut self.busy)
    }

    /// Whether a link has too much under way for more to be read.
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// One more that the client settled itself: [`LinkTable::stored`] is told when it is stored.
    pub fn count_presettled(&mut self, id: LinkId) {
        if let Some(presettled) = self.presettled(id) {
            *presettled += 1;
            if *presettled >= PRESETTLED_MAX {
                self.full.insert(id);
            }
        }
    }

    /// One that the client settled itself is stored.
    pub fn stored(&mut self, id: LinkId) {
        if let Some(presettled) = self.presettled(id) {
            *presettled -= 1;
            self.full.remove(&id);
        }
    }

    /// How many deliveries of a sender link its client settled itself and are not stored.
    fn presettled(&mut self, id: LinkId) -> Option<&mut u32> {
        match &mut self.links.get_mut(&id)?.kind {
            Kind::Incoming(incoming) => Some(&mut incoming.presettled),
            Kind::Relay(relay) => Some(&mut relay.presettled),
            Kind::Outgoing(_) | Kind::Requests(_) | Kind::Replies(_) | Kind::Control => None,
        }
    }
}

impl Link {
    /// To an entity: neither of tokens nor of requests nor of transactions.
    pub fn is_of_messages(&self) -> bool {
        matches!(self.kind, Kind::Incoming(_) | Kind::Relay(_) | Kind::Outgoing(_))
    }

    /// Whether only who has proven something may have it, whatever that is good for (CONN-25): without
    /// transactions, whose operations ask by themselves, and what proofs come by.
    pub fn is_for_the_proven(&self) -> bool {
        match self.kind {
            Kind::Incoming(_) | Kind::Outgoing(_) | Kind::Relay(_) => true,
            Kind::Requests(_) | Kind::Replies(_) => {
                matches!(self.address().map(Node::parse), Some(Ok(Node::Management(_))))
            }
            Kind::Control => false,
        }
    }

    /// ERR-22: whether it ends for want of traffic. One that waits to be accepted is the broker's to
    /// answer. A temporary queue's link is what the queue is there
    /// for, whether anything goes over it or not (LINK-23).
    pub fn may_idle_out(&self) -> bool {
        let is_dynamic = match self.attach.role {
            Role::Sender => match &self.attach.target {
                Some(AnyTarget::Node(target)) => target.dynamic,
                Some(AnyTarget::Coordinator(_)) | None => false,
            },
            Role::Receiver => self.attach.source.as_ref().is_some_and(|source| source.dynamic),
        };
        self.is_of_messages() && self.is_accepted && !is_dynamic
    }

    /// The entity whose end the link is to hear of from its connection: whoever serves a receiver tells
    /// it by itself (LINK-17).
    pub fn watched_entity(&self) -> Option<Entity> {
        match self.kind {
            Kind::Incoming(_) | Kind::Requests(Node::Management(_)) | Kind::Replies(_) => {}
            Kind::Outgoing(_) | Kind::Requests(_) | Kind::Relay(_) | Kind::Control => return None,
        }
        match Node::parse(self.address()?) {
            Ok(Node::Entity(entity) | Node::Management(entity)) => Some(entity),
            Ok(Node::Cbs) | Err(_) => None,
        }
    }

    /// Of the node, as the client wrote it.
    pub fn address(&self) -> Option<&str> {
        address_of(&self.attach)
    }

    /// The entity at the other end.
    pub fn entity(&self) -> Option<Entity> {
        Entity::at(self.address()?)
    }

    /// Whether it is one of this node's.
    pub fn is_of(&self, node: &str) -> bool {
        let path = |address| auth::resource_path(address);
        self.address().is_some_and(|address| path(address) == path(node))
    }
}

/// The terminus on this side.
pub(super) fn address_of(attach: &Attach) -> Option<&str> {
    match attach.role {
        Role::Sender => attach.target.as_ref().and_then(|target| target.address()),
        Role::Receiver => attach.source.as_ref().and_then(|source| source.address.as_deref()),
    }
}
