//! The links of one connection: events of the engine go to whoever serves the link, notes from there
//! go to the engine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use domain::Refusal;
use futures::stream::FuturesUnordered;
use service::{ReceiveMode, Received};
use tokio::sync::mpsc;

use super::Shared;
use super::access::{self, Grants};
use super::address::{Entity, Node};
use super::coordinator::Transactions;
use super::failure;
use super::note::{Note, Notes, Work, tell};
use super::receiving::Order;
use super::requests;
use super::sending::Delivered;
use super::verdict::{Verdict, verdict};
use crate::codec::{Attach, DeliveryState, Error};
use crate::condition;
use crate::engine::{Connection, Delivery, DeliveryId, Event, LinkId, SessionId};
use crate::message::ingest;
use crate::request::{Envelope, ReplyLink, reply_link};
use crate::sas::Right;
use crate::{cbs, management};

/// Management requests under way, per connection: beyond it nothing is read.
const REQUESTS_MAX: usize = 64;
/// Deliveries that the client settled itself, under way per link: the engine counts only those that
/// it has to answer, so beyond this nothing is read.
const PRESETTLED_MAX: u32 = 64;
/// Replies that wait for credit, per link: who asks and does not listen is detached.
const REPLIES_MAX: usize = 64;

pub(super) struct Links {
    pub engine: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) grants: Grants,
    pub(super) links: BTreeMap<LinkId, Link>,
    /// Receiver links with something for the client or from it, seen to at the end of the turn.
    pub(super) busy: BTreeSet<LinkId>,
    pub(super) notes: Notes,
    pub work: FuturesUnordered<Work>,
    pub(super) requests: usize,
    /// Sender links with too much under way.
    full: BTreeSet<LinkId>,
    pub(super) transactions: Transactions,
    pub(super) scratch: BytesMut,
}

/// A link, from the moment it is asked for.
pub(super) struct Link {
    pub session: SessionId,
    pub attach: Box<Attach>,
    /// What it takes to use it, for as long as it is used.
    pub right: Option<Right>,
    pub kind: Kind,
}

pub(super) enum Kind {
    Intake(Intake),
    Outlet(Outlet),
    Requests(Node),
    /// What waits for credit.
    Replies(VecDeque<Bytes>),
    /// Of transactions (§8).
    Control,
}

/// The connection's side of a sender link.
pub(super) struct Intake {
    pub deliveries: mpsc::UnboundedSender<Delivered>,
    /// Settled by the client and not stored yet.
    pub presettled: u32,
}

/// The connection's side of a receiver link.
pub(super) struct Outlet {
    pub orders: mpsc::UnboundedSender<Order>,
    pub mode: ReceiveMode,
    pub unsent: VecDeque<Received>,
    /// Sent since the orders last said so.
    pub sent: u32,
    pub verdicts: Vec<Verdict>,
    /// The broker has no more for a drain; what is unsent goes first.
    pub is_drained: bool,
}

impl Links {
    pub fn new(engine: Connection, shared: Arc<Shared>, notes: Notes) -> Links {
        Links {
            engine,
            shared,
            grants: Grants::default(),
            links: BTreeMap::new(),
            busy: BTreeSet::new(),
            notes,
            work: FuturesUnordered::new(),
            requests: 0,
            full: BTreeSet::new(),
            transactions: Transactions::default(),
            scratch: BytesMut::new(),
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
            Event::Detached { link, .. } => self.drop_link(link),
            Event::Ended { session, .. } => self.drop_links(|link| link.session == session),
            Event::Closed { error, .. } => {
                tracing::debug!(?error, "AMQP connection closed");
                self.drop_links(|_| true);
            }
            // A server asks for no links and drains none; what a sender settles itself, it knows.
            Event::Opened(_)
            | Event::Began(_)
            | Event::Attached { .. }
            | Event::Drained(_)
            | Event::Settled { .. } => {}
        }
    }

    pub fn on_note(&mut self, note: Note) {
        match note {
            Note::Ready(link) => self.accept(link),
            Note::Failed(link, error) => self.fail(link, error),
            // Verdicts on what is gone are for nobody: so below.
            Note::Decided(id, state) => {
                let _ = self.engine.settle(id, state);
            }
            Note::Stored(id) => {
                if let Some(Link { kind: Kind::Intake(intake), .. }) = self.links.get_mut(&id) {
                    intake.presettled -= 1;
                    self.full.remove(&id);
                }
            }
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
        }
    }

    pub(super) fn outlet(&mut self, link: LinkId) -> Option<&mut Outlet> {
        match &mut self.links.get_mut(&link)?.kind {
            Kind::Outlet(outlet) => Some(outlet),
            Kind::Intake(_) | Kind::Requests(_) | Kind::Replies(_) | Kind::Control => None,
        }
    }

    fn on_credit(&mut self, id: LinkId, credit: u32, drain: bool) {
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

    fn on_delivery(&mut self, delivery: Delivery) {
        let id = (!delivery.settled).then_some(delivery.id);
        let Some(link) = self.links.get(&delivery.link) else { return };
        let session = link.session;
        match (&link.kind, delivery.state.clone()) {
            (Kind::Control, _) => self.on_control(&delivery),
            (Kind::Intake(_), Some(state)) => self.take_in_transaction(&delivery, &state),
            (Kind::Requests(Node::Management(entity)), Some(state)) => {
                self.request_in_transaction(session, entity.clone(), &delivery, &state);
            }
            (Kind::Intake(_), None) => {
                let messages = self.messages(&delivery);
                self.take_in(delivery.link, Delivered { id, messages });
            }
            (Kind::Requests(node), _) => {
                let node = node.clone();
                if let Some(id) = id {
                    let _ = self.engine.settle(id, DeliveryState::ACCEPTED);
                }
                if let Ok(payload) = &delivery.payload {
                    self.on_request(session, node, payload);
                }
            }
            (Kind::Outlet(_) | Kind::Replies(_), _) => {}
        }
    }

    fn take_in(&mut self, id: LinkId, delivered: Delivered) {
        if delivered.id.is_none() {
            self.count_presettled(id);
        }
        if let Some(Link { kind: Kind::Intake(intake), .. }) = self.links.get(&id) {
            // Fails only once the link has, and then nobody is to be answered.
            let _ = intake.deliveries.send(delivered);
        }
    }

    /// One more that the client settled itself: [`Note::Stored`] says when it is stored.
    pub(super) fn count_presettled(&mut self, id: LinkId) {
        if let Some(Link { kind: Kind::Intake(intake), .. }) = self.links.get_mut(&id) {
            intake.presettled += 1;
            if intake.presettled >= PRESETTLED_MAX {
                self.full.insert(id);
            }
        }
    }

    pub(super) fn messages(
        &mut self,
        delivery: &Delivery,
    ) -> Result<Vec<domain::NewMessage>, Refusal> {
        let payload = delivery.payload.as_ref().map_err(|large| Refusal::MessageSizeExceeded {
            what: "the message",
            bytes: large.bytes,
            max: large.max,
        })?;
        let limits = &self.shared.config.limits;
        let guid = || *uuid::Uuid::new_v4().as_bytes();
        ingest(delivery.message_format, payload, limits, guid, &mut self.scratch)
    }

    fn on_request(&mut self, session: SessionId, node: Node, payload: &Bytes) {
        let limits = &self.shared.config.limits;
        let entity = match node {
            Node::Management(entity) => entity,
            Node::Cbs => {
                let Ok((envelope, request)) = cbs::decode(payload, limits) else { return };
                let status = self.put_token(request);
                let reply = status.reply(&envelope, &mut self.scratch);
                return self.reply(session, cbs::ADDRESS, &envelope, reply);
            }
            Node::Entity(_) => return,
        };
        // Who sends what is no message cannot be replied to.
        let Ok((envelope, operation)) = management::decode(payload, limits) else { return };
        let node = reply_node(&entity);
        let operation = operation.map_err(|refusal| failure::refusal(refusal, &entity.name));
        let operation = operation.and_then(|operation| {
            let right = requests::right(&operation);
            match self.grants.allow(&self.shared.config.access, &node, right) {
                true => Ok(operation),
                false => Err(failure::unauthorized(access::name(right), &entity.name)),
            }
        });
        let envelope = Box::new(envelope);
        self.requests += 1;
        let notes = self.notes.clone();
        let (broker, limits) = (self.shared.broker.clone(), limits.clone());
        self.work.push(Box::pin(async move {
            let reply = match operation {
                Ok(operation) => requests::run(broker, entity, operation, limits).await,
                Err(error) => management::Reply::Refused(error),
            };
            tell(&notes, Note::Replied { session, node, envelope, reply });
        }));
    }

    fn put_token(&mut self, request: cbs::Request) -> cbs::Status {
        match request {
            cbs::Request::PutToken { token, audience } => {
                self.grants.put_token(&self.shared.config.access, &token, &audience)
            }
            cbs::Request::Bad(status) => status,
        }
    }

    /// Rule 13: the reply goes to the response link of the same session.
    pub(super) fn reply(
        &mut self,
        session: SessionId,
        node: &str,
        envelope: &Envelope,
        reply: Bytes,
    ) {
        let links = self.links.iter().filter(|(_, link)| {
            link.session == session && matches!(link.kind, Kind::Replies(_)) && link.is_of(node)
        });
        let links = links.map(|(id, link)| ReplyLink {
            link: *id,
            name: &link.attach.name,
            target: link.attach.target.as_ref().and_then(|target| target.address()),
        });
        let Some(id) = reply_link(links, envelope.reply_to()) else {
            return tracing::debug!(%node, "a reply finds no link");
        };
        let Some(Link { kind: Kind::Replies(waiting), .. }) = self.links.get_mut(&id) else {
            return;
        };
        if waiting.len() >= REPLIES_MAX {
            let why = "too many replies wait for credit on this link";
            return self.fail(id, Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why));
        }
        waiting.push_back(reply);
        self.send_replies(id);
    }

    fn on_disposed(
        &mut self,
        id: DeliveryId,
        link: LinkId,
        tag: &crate::codec::Tag,
        state: Option<DeliveryState>,
        settled: bool,
    ) {
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
        self.drop_link(id);
    }

    /// ERR-25: links whose token ran out, or was replaced by a lesser one.
    pub fn detach_expired(&mut self) {
        let access = &self.shared.config.access;
        let is_void = |link: &Link| {
            let address = link.address().unwrap_or_default();
            link.right.is_some_and(|right| !self.grants.allow(access, address, right))
        };
        let void = self.links.iter().filter(|(_, link)| is_void(link)).map(|(id, _)| *id);
        for id in void.collect::<Vec<_>>() {
            let name = self.links[&id].address().unwrap_or_default().to_owned();
            self.fail(id, failure::unauthorized("Listen or Send", &name));
        }
    }

    /// Whoever served the link ends with its end of the channel. Messages not sent go back.
    fn drop_link(&mut self, id: LinkId) {
        self.busy.remove(&id);
        self.full.remove(&id);
        self.transactions.close(id);
        if let Some(Link { kind: Kind::Outlet(mut outlet), .. }) = self.links.remove(&id) {
            outlet.give_back();
        }
    }

    pub fn drop_links(&mut self, is_gone: impl Fn(&Link) -> bool) {
        let gone = self.links.iter().filter(|(_, link)| is_gone(link)).map(|(id, _)| *id);
        for id in gone.collect::<Vec<_>>() {
            self.drop_link(id);
        }
    }
}

impl Link {
    /// Of the node, as the client wrote it.
    pub fn address(&self) -> Option<&str> {
        address_of(&self.attach)
    }

    fn is_of(&self, node: &str) -> bool {
        let path = |address| crate::sas::resource_path(address);
        self.address().is_some_and(|address| path(address) == path(node))
    }
}

/// The terminus on this side.
pub(super) fn address_of(attach: &Attach) -> Option<&str> {
    use crate::codec::Role;
    match attach.role {
        Role::Sender => attach.target.as_ref().and_then(|target| target.address()),
        Role::Receiver => attach.source.as_ref().and_then(|source| source.address.as_deref()),
    }
}

pub(super) fn reply_node(entity: &Entity) -> String {
    let sub = match entity.sub {
        domain::SubQueue::Main | domain::SubQueue::Transfer => "",
        domain::SubQueue::DeadLetter => "/$deadletterqueue",
        domain::SubQueue::TransferDeadLetter => "/$transfer/$deadletterqueue",
    };
    format!("{}{sub}{}", entity.name, management::SUFFIX)
}
