//! The links of one connection: events of the engine go to whoever serves the link, notes from there
//! go to the engine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use amqp_protocol::codec::{Attach, DeliveryState, Error};
use amqp_protocol::engine::{Connection, DeliveryId, Event, LinkId, Millis, SessionId, Side};
use auth::Right;
use bytes::{Bytes, BytesMut};
use futures::stream::FuturesUnordered;

use super::Shared;
use super::access::Grants;
use super::address::Node;
use super::coordinator::{Transactions, entity_of};
use super::delivering::Outlet;
use super::failure;
use super::idling::Idling;
use super::note::{Note, Notes, Work};
use super::proving::Unproved;
use super::receiving::Order;
use super::taking::Intake;
use super::verdict::verdict;

/// Management requests under way, per connection: beyond it nothing is read.
const REQUESTS_MAX: usize = 64;

pub(super) struct Links {
    pub engine: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) grants: Grants,
    pub(super) links: BTreeMap<LinkId, Link>,
    /// Links that are asked for, and wait for the keys of their entities.
    pub(super) unproved: BTreeMap<LinkId, Unproved>,
    /// Receiver links with something for the client or from it, seen to at the end of the turn.
    pub(super) busy: BTreeSet<LinkId>,
    pub(super) notes: Notes,
    pub work: FuturesUnordered<Work>,
    pub(super) requests: usize,
    /// Sender links with too much under way.
    pub(super) full: BTreeSet<LinkId>,
    pub(super) transactions: Transactions,
    pub(super) scratch: BytesMut,
    pub(super) idling: Idling,
    /// Of this turn.
    pub now: Millis,
}

/// A link, from the moment it is asked for.
pub(super) struct Link {
    pub session: SessionId,
    pub attach: Box<Attach>,
    /// What it takes to use it, for as long as it is used.
    pub right: Option<Right>,
    pub kind: Kind,
    /// When something last came or went on it (ERR-22).
    pub used_at: Millis,
}

pub(super) enum Kind {
    Intake(Intake),
    Outlet(Outlet),
    Requests(Node),
    /// What waits for credit.
    Replies(VecDeque<Bytes>),
    /// Of transactions (COORD-1).
    Control,
}

/// How a link ended, which decides what becomes of its session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Given back at once (SESS-14).
    Closed,
    /// The client did not say goodbye: kept until its lock lapses (SESS-12).
    Lost,
}

impl Links {
    pub fn new(engine: Connection, shared: Arc<Shared>, notes: Notes) -> Links {
        let idling = Idling::new(shared.config.idle);
        Links {
            engine,
            shared,
            grants: Grants::default(),
            links: BTreeMap::new(),
            unproved: BTreeMap::new(),
            busy: BTreeSet::new(),
            notes,
            work: FuturesUnordered::new(),
            requests: 0,
            full: BTreeSet::new(),
            transactions: Transactions::default(),
            scratch: BytesMut::new(),
            idling,
            now: Millis::default(),
        }
    }

    /// Whether reading leads anywhere at present.
    pub fn wants_input(&self) -> bool {
        self.requests < REQUESTS_MAX && self.full.is_empty() && self.engine.wants_input()
    }

    pub fn on_event(&mut self, event: Event) {
        match event {
            Event::Login(credentials) => {
                let accepted = self.grants.login(&self.shared.config.access, &credentials);
                self.engine.login(accepted);
            }
            Event::AttachRequested { session, link, attach } => {
                self.on_attach(session, link, attach);
            }
            Event::Credit { link, credit, drain } => self.on_credit(link, credit, drain),
            Event::Delivery(delivery) => self.on_delivery(delivery),
            Event::Disposed { id, link, tag, state, settled } => {
                self.on_disposed(id, link, &tag, state, settled);
            }
            Event::Detached { link, .. } => {
                self.unproved.remove(&link);
                self.drop_link(link, Ending::Closed);
            }
            Event::Ended { session, .. } => {
                self.unproved.retain(|_, waiting| waiting.session != session);
                self.end_links(Ending::Closed, |link| link.session == session);
            }
            Event::Closed { error, by } => {
                tracing::debug!(?error, "AMQP connection closed");
                self.unproved.clear();
                let is_goodbye = by == Side::Peer && error.is_none();
                let ending = if is_goodbye { Ending::Closed } else { Ending::Lost };
                self.end_links(ending, |_| true);
            }
            Event::Opened(_) => {
                let is_proved = self.grants.is_proved(&self.shared.config.access);
                self.idling.opened(self.now, is_proved);
            }
            // A server asks for no links and drains none; what a sender settles itself, it knows.
            Event::Began(_)
            | Event::Attached { .. }
            | Event::Drained(_)
            | Event::Settled { .. } => {}
        }
    }

    pub fn on_note(&mut self, note: Note) {
        match note {
            Note::Ready(link, terms) => self.accept(link, terms),
            Note::Failed(link, error) => self.fail(link, error),
            // Verdicts on what is gone are for nobody: so below.
            Note::Decided(ids, state) => {
                for id in ids {
                    let _ = self.engine.settle(id, state.clone());
                }
            }
            Note::Stored(id) => self.stored(id),
            Note::Settled(answers) => {
                for (id, state) in answers {
                    let _ = self.engine.answer(id, state);
                }
            }
            Note::Messages(link, messages) => {
                if let Some(outlet) = self.outlet(link) {
                    outlet.unsent.extend(messages);
                    self.busy.insert(link);
                }
            }
            Note::Drained(link) => {
                if let Some(outlet) = self.outlet(link) {
                    outlet.is_drained = true;
                    self.busy.insert(link);
                }
            }
            Note::Replied { session, node, envelope, reply } => {
                self.requests -= 1;
                let reply = reply.encode(&envelope, &mut self.scratch);
                self.reply(session, &node, &envelope, reply);
            }
            Note::Keys { proof, keys } => self.on_keys(proof, keys),
        }
    }

    pub(super) fn outlet(&mut self, link: LinkId) -> Option<&mut Outlet> {
        match &mut self.links.get_mut(&link)?.kind {
            Kind::Outlet(outlet) => Some(outlet),
            Kind::Intake(_) | Kind::Requests(_) | Kind::Replies(_) | Kind::Control => None,
        }
    }

    pub(super) fn on_credit(&mut self, id: LinkId, credit: u32, drain: bool) {
        self.touch(id);
        if let Some(waiting) = self.unproved.get_mut(&id) {
            waiting.credit = Some((credit, drain));
        }
        let Some(link) = self.links.get_mut(&id) else { return };
        match &mut link.kind {
            Kind::Outlet(outlet) => {
                outlet.is_drained = false;
                outlet.tell_sent();
                outlet.order(Order::Credit { credit, drain });
                self.busy.insert(id);
            }
            Kind::Replies(_) => {
                self.send_replies(id);
                if drain {
                    let _ = self.engine.drained(id);
                }
            }
            Kind::Intake(_) | Kind::Requests(_) | Kind::Control => {}
        }
    }

    fn on_disposed(
        &mut self,
        id: DeliveryId,
        link: LinkId,
        tag: &amqp_protocol::codec::Tag,
        state: Option<DeliveryState>,
        settled: bool,
    ) {
        self.touch(link);
        if let Some(state @ DeliveryState::Transactional { .. }) = &state {
            return self.decide_in_transaction(id, link, tag, state, settled);
        }
        let Some(outlet) = self.outlet(link) else {
            // A reply that was sent unsettled: there is nothing to decide.
            let _ = self.engine.answer(id, DeliveryState::ACCEPTED);
            return;
        };
        match verdict((!settled).then_some(id), tag, state) {
            Ok(verdict) => {
                outlet.verdicts.push(verdict);
                self.busy.insert(link);
            }
            Err(answer) => {
                let _ = self.engine.answer(id, answer);
            }
        }
    }

    /// Ends a link that cannot be served, or not any more.
    pub(super) fn fail(&mut self, id: LinkId, error: Error) {
        let Some(link) = self.links.get(&id) else { return };
        let reply = link.attach.reply(self.shared.config.limits.message_bytes_max);
        if self.engine.refuse(id, reply, error.clone()).is_err() {
            // It was accepted before, or is gone.
            let _ = self.engine.detach(id, Some(error));
        }
        self.drop_link(id, Ending::Closed);
    }

    /// ERR-25: links whose token ran out, or was replaced by a lesser one.
    pub fn detach_expired(&mut self) {
        let access = &self.shared.config.access;
        let is_void = |link: &Link| {
            let entity = link.address().and_then(entity_of);
            let path = entity.map(|entity| entity.path()).unwrap_or_default();
            link.right.is_some_and(|right| !self.grants.allow(access, &path, right))
        };
        let void = self.links.iter().filter(|(_, link)| is_void(link)).map(|(id, _)| *id);
        for id in void.collect::<Vec<_>>() {
            let name = self.links[&id].address().unwrap_or_default().to_owned();
            self.fail(id, failure::unauthorized("Listen or Send", &name));
        }
    }

    /// Whoever served the link ends with its end of the channel. Messages not sent go back.
    fn drop_link(&mut self, id: LinkId, ending: Ending) {
        self.busy.remove(&id);
        self.full.remove(&id);
        self.transactions.close(id);
        let removed = self.links.remove(&id);
        if removed.is_some() && self.links.is_empty() {
            self.idling.last_link_gone(self.now);
        }
        if let Some(Link { kind: Kind::Outlet(mut outlet), .. }) = removed {
            // Some clients send their last verdicts along with their goodbye.
            outlet.tell_verdicts();
            outlet.give_back();
            // A session that its client never heard of is given back in any case.
            if ending == Ending::Closed || outlet.session.is_none() {
                outlet.order(Order::Close);
            }
        }
    }

    /// The connection is lost, and with it these links.
    pub fn drop_links(&mut self, is_gone: impl Fn(&Link) -> bool) {
        self.end_links(Ending::Lost, is_gone);
    }

    fn end_links(&mut self, ending: Ending, is_gone: impl Fn(&Link) -> bool) {
        let gone = self.links.iter().filter(|(_, link)| is_gone(link)).map(|(id, _)| *id);
        for id in gone.collect::<Vec<_>>() {
            self.drop_link(id, ending);
        }
    }
}

impl Link {
    /// To an entity: neither of tokens nor of requests nor of transactions.
    pub fn is_of_messages(&self) -> bool {
        matches!(self.kind, Kind::Intake(_) | Kind::Outlet(_))
    }

    /// Of the node, as the client wrote it.
    pub fn address(&self) -> Option<&str> {
        address_of(&self.attach)
    }
}

/// The terminus on this side.
pub(super) fn address_of(attach: &Attach) -> Option<&str> {
    use amqp_protocol::codec::Role;
    match attach.role {
        Role::Sender => attach.target.as_ref().and_then(|target| target.address()),
        Role::Receiver => attach.source.as_ref().and_then(|source| source.address.as_deref()),
    }
}
