//! The links of one connection: events of the engine go to whoever serves the link, notes from there
//! go to the engine.

mod met_faults;

use std::collections::BTreeMap;
use std::sync::Arc;

use amqp_protocol::codec::{Attach, DeliveryState, Error, Map, Value};
use amqp_protocol::engine::{Connection, Delivery, Event, LinkId, Millis, SessionId, Side};
use amqp_protocol::request::Envelope;
use auth::Right;
use bytes::{Bytes, BytesMut};
use domain::{Refusal, Settlement};
use limits::{ClientInfo, Limit};
use service::Received;
use tokio::sync::oneshot;

use super::access::Grants;
use super::address::{Entity, Node};
use super::attach::AttachHandler;
use super::backlog::{Backlog, Share};
use super::consumer::GivesBack;
use super::coordinator::{
    DecodedRequest, Disposed, RefusedRequest, TransactionHandler, Transactions,
};
use super::dues::Dues;
use super::fates::{Fates, RequestFault};
use super::idle::{self, IdleTimers};
use super::link_table::{Kind, Link, LinkTable};
use super::lobby::Guest;
use super::note::{Note, Notes, Terms};
use super::outgoing::{OutgoingHandler, OutgoingLink};
use super::proof::{Proof, ProofHandler, Proved, Unproved};
use super::requests::{self, REPLIES_MAX, RequestHandler, RequestLink, reply_node};
use super::submission::Delivered;
use super::tasks::{Tasks, Turn};
use super::transaction_group::TransactionGroups;
use super::verdict::{Verdict, verdict};
use super::{Shared, failure, incoming, relay};
use crate::management::{self, Reply};
use crate::{cbs, condition, link_terms};

/// The products that the SDKs of Python and JavaScript say they are.
const MISTAKING: [&str; 2] = ["azsdk-python-servicebus", "MSJSClient"];

/// What one connection knows of its links, and of whoever serves them.
pub(super) struct Links {
    pub engine: Connection,
    shared: Arc<Shared>,
    pub grants: Grants,
    /// The place of a client that has not proved who it is; until it has, little is taken of it.
    pub guest: Option<Guest>,
    pub dues: Dues,
    table: LinkTable,
    /// What waits for the client to read it, beside what is written already.
    unread: Backlog,
    /// What the client sent and settled itself, and what it said along with its verdicts, until it is
    /// stored: the engine counts the rest.
    pub unstored: Backlog,
    /// Links that are asked for, and wait for the keys of their entities.
    unproved: BTreeMap<LinkId, Unproved>,
    pub tasks: Tasks,
    transactions: Transactions,
    groups: TransactionGroups,
    scratch: BytesMut,
    pub timers: IdleTimers,
    /// What fault rules have in store for its client.
    pub fates: Fates,
    /// CONN-21: the client gets over the end of the stream, and not over a `close`.
    pub mistakes_close: bool,
    /// Of this turn.
    pub now: Millis,
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
    pub fn new(mut engine: Connection, shared: Arc<Shared>, notes: Notes, dues: Dues) -> Links {
        let guest = (!shared.config.access.is_anyone()).then(|| shared.lobby.enter());
        if guest.is_some() {
            engine.distrust();
        }
        let timers = IdleTimers::new(shared.config.idle);
        let limits = &shared.config.limits;
        let unread_max = match guest {
            Some(_) => limits.before_proof().output_bytes_max,
            None => limits.output_bytes_max,
        };
        let unread = Backlog::new(unread_max);
        let bytes_max = shared.config.ledger.max(Limit::ConnectionBytes).saturating_mul(1_024);
        let bytes_max = usize::try_from(bytes_max).ok().filter(|max| *max > 0);
        let unstored = Backlog::new(bytes_max.unwrap_or(usize::MAX));
        Links {
            engine,
            shared,
            grants: Grants::default(),
            guest,
            dues,
            unread,
            unstored,
            table: LinkTable::default(),
            unproved: BTreeMap::new(),
            tasks: Tasks::new(notes),
            transactions: Transactions::default(),
            groups: TransactionGroups::default(),
            scratch: BytesMut::new(),
            timers,
            fates: Fates::default(),
            mistakes_close: false,
            now: Millis::default(),
        }
    }

    /// Whether reading leads anywhere at present.
    pub fn wants_input(&self) -> bool {
        let has_room = self.tasks.has_room(self.guest.is_none());
        let is_full = self.table.is_full() || self.unstored.is_full();
        has_room && !is_full && self.engine.wants_input()
    }

    /// CONN-25: a client that has proved who it is gives its place to others, and is held to no more
    /// than all are.
    fn see_proof(&mut self) {
        if self.guest.is_some() && self.grants.is_proved(&self.shared.config.access) {
            self.guest = None;
            self.engine.trust();
            self.unread.raise(self.shared.config.limits.output_bytes_max);
        }
    }

    /// The connection belongs to who has proven something on it.
    fn see_party(&mut self) {
        let principal = self.grants.principal(&self.shared.config.access);
        self.dues.belong(principal, &self.grants.namespace);
    }

    /// NS-5: what the connection asks for is in the namespace that this host means.
    pub fn enter(&mut self, host: &str) {
        let namespace = self.shared.broker.namespaces().of_host(host);
        if namespace != *self.shared.broker.namespace() {
            self.shared = Arc::new(self.shared.within(&namespace));
            self.grants.namespace = namespace;
        }
    }

    /// The same of the host that the connection is opened for. What was proved for another namespace is no proof
    /// here (NS-8), and the client hears of it now.
    fn enter_opened(&mut self, host: &str) {
        let before = self.shared.broker.namespace().clone();
        self.enter(host);
        let is_moved = before != *self.shared.broker.namespace();
        if is_moved && self.grants.has_logged_in() && !self.shared.config.access.is_anyone() {
            let why = format!(
                "the login was for the namespace '{before}', and the connection is opened for '{}'; log in to the \
                 host that it is opened for",
                self.grants.namespace
            );
            self.grants.forget();
            self.engine.close(Some(Error::new(condition::NOT_ALLOWED, why)));
        }
    }

    pub fn renew_grants(&mut self) {
        self.grants.renew(&self.shared.access_now());
    }

    /// A delivery that is not taken. Of one that its client settled itself it hears by the end of its link.
    fn turn_away(&mut self, delivery: &Delivery, error: Error) {
        match delivery.settled {
            true => self.fail(delivery.link, error),
            // One that is gone needs no answer.
            false => drop(self.engine.settle(delivery.id, DeliveryState::rejected(error))),
        }
    }

    pub fn on_event(&mut self, event: Event) {
        match event {
            Event::Login(credentials) => {
                if let Some(host) = self.engine.login_hostname().map(str::to_owned) {
                    self.enter(&host);
                }
                match self.grants.login(&self.shared.config.access, &credentials) {
                    Ok(()) => self.engine.login(true),
                    Err(wait) if wait.is_zero() => self.engine.login(false),
                    Err(wait) => {
                        let notes = self.tasks.notes.clone();
                        self.tasks.spawn(async move {
                            tokio::time::sleep(wait).await;
                            super::note::tell(&notes, Note::LoginRefused).await;
                        });
                    }
                }
                self.see_proof();
            }
            Event::AttachRequested { session, link, attach } => {
                self.on_attach(session, link, attach);
            }
            Event::Credit { link, credit, drain } => self.on_credit(link, credit, drain),
            Event::Delivery(delivery) => self.on_delivery(delivery),
            Event::Disposed { id, link, tag, state, settled } => {
                self.on_disposed(Disposed { id, link, tag, state, settled });
            }
            Event::Detached { link, .. } => {
                self.unproved.remove(&link);
                self.drop_link(link, Ending::Closed);
            }
            Event::Ended { session, .. } => {
                self.unproved.retain(|_, waiting| waiting.session != session);
                self.end_links(Ending::Closed, |link| link.session == session);
                self.groups.end_session(session);
            }
            Event::Closed { error, by } => {
                tracing::debug!(?error, "AMQP connection closed");
                self.unproved.clear();
                // A goodbye with a reason is one (SESS-14).
                let ending = if by == Side::Peer { Ending::Closed } else { Ending::Lost };
                self.end_links(ending, |_| true);
            }
            Event::Opened(open) => {
                if let Some(host) = &open.hostname {
                    self.enter_opened(host);
                }
                self.mistakes_close = open.properties.as_ref().is_some_and(mistakes_close);
                self.fates.client = open.container_id.to_string();
                if let Some(slot) = self.dues.slot() {
                    slot.introduce(|| {
                        ClientInfo::new(&open.container_id, &product(open.properties.as_ref()))
                    });
                }
                self.see_party();
                let is_proved = self.grants.is_proved(&self.shared.config.access);
                self.timers.opened(self.now, is_proved);
                self.opened_under_faults();
            }
            // A server asks for no links and drains none; what a sender settles itself, it knows.
            Event::Began(_)
            | Event::Attached { .. }
            | Event::Drained(_)
            | Event::Answered { .. }
            | Event::Settled { .. } => {}
        }
    }

    pub fn on_note(&mut self, note: Note) {
        match note {
            Note::Ready(link, terms) => {
                if let Some(terms) = self.ready_under_faults(link, terms) {
                    self.accept(link, terms);
                }
            }
            Note::Postponed(postponed) => self.on_postponed(*postponed),
            Note::Failed(link, error) => self.fail(link, error),
            // Verdicts on what is gone are for nobody: so below.
            Note::Decided(ids, state) => {
                for id in ids {
                    if let Some(state) = self.decision_under_faults(id, state.clone()) {
                        let _ = self.engine.settle(id, state);
                    }
                }
            }
            Note::LoginRefused => self.engine.login(false),
            Note::Stored(id) => self.table.stored(id),
            Note::Settled(answers) => {
                for (id, state) in answers {
                    if let Some(state) = self.answer_under_faults(id, state) {
                        let _ = self.engine.answer(id, state);
                    }
                }
            }
            Note::Provisional(id, state) => {
                let _ = self.engine.answer_provisionally(id, state);
            }
            Note::TransactionEnded(id) => {
                for disposed in self.transactions.ended(&id) {
                    self.on_disposed(disposed);
                }
            }
            Note::Messages(link, messages) => {
                let messages = self.messages_under_faults(link, messages);
                self.take_messages(link, messages);
            }
            Note::Drained(link) => {
                if let Some(outgoing) = self.table.outgoing(link) {
                    outgoing.is_drained = true;
                    self.table.mark_busy(link);
                }
            }
            Note::Replied { from, node, envelope, reply, turn } => {
                self.tasks.request_ended();
                let reply = reply.encode(&envelope, &mut self.scratch);
                self.reply_in_turn(from, &node, &envelope, reply, turn);
            }
            Note::ReplyLost => self.tasks.request_ended(),
            Note::Keys { proof, keys } => self.on_keys(proof, keys),
            Note::Token { from, envelope, status } => {
                let proved = self.proof_handler().on_token(from, envelope, status);
                self.on_proved(proved);
            }
        }
    }

    /// Sees to every link where something happened.
    pub fn finish_turn(&mut self) {
        self.outgoing_handler().finish_turn();
    }

    fn on_attach(&mut self, session: SessionId, id: LinkId, attach: Box<Attach>) {
        if let Some(attach) = self.attach_under_faults(session, id, attach) {
            self.seek_proof(session, id, attach);
        }
    }

    fn accept(&mut self, link: LinkId, terms: Terms) {
        if !self.attach_handler().accept(link, terms) {
            self.drop_link(link, Ending::Closed);
        }
    }

    fn take_messages(&mut self, link: LinkId, messages: Vec<Received>) {
        if let Some(outgoing) = self.table.outgoing(link) {
            outgoing.unsent.extend(messages);
            self.table.mark_busy(link);
        }
    }

    fn seek_proof(&mut self, session: SessionId, id: LinkId, attach: Box<Attach>) {
        match self.proof_handler().waits_for_keys(id, &attach) {
            true => drop(self.unproved.insert(id, Unproved { session, attach, credit: None })),
            false => self.attach(session, id, attach),
        }
    }

    fn attach(&mut self, session: SessionId, id: LinkId, attach: Box<Attach>) {
        let withholds_credit = self.fates.take_credit_withheld(id);
        let mut handler = self.attach_handler();
        handler.withholds_credit = withholds_credit;
        if !handler.attach(session, id, attach) {
            self.drop_link(id, Ending::Closed);
        }
        if self.table.get(id).is_none() {
            // Refused.
            self.fates.forget_link(id);
        }
    }

    fn on_keys(&mut self, proof: Proof, keys: Result<super::proof::Keys, service::Error>) {
        if let Some(proved) = self.proof_handler().on_keys(proof, keys) {
            self.on_proved(proved);
        }
    }

    fn on_proved(&mut self, proved: Proved) {
        self.see_proof();
        self.see_party();
        match proved {
            Proved::Token { from, envelope, status } => {
                let reply = status.reply(&envelope, &mut self.scratch);
                self.reply(from, cbs::ADDRESS, &envelope, reply);
            }
            Proved::Link { id, unproved: Unproved { session, attach, credit } } => {
                self.attach(session, id, attach);
                if let Some((credit, drain)) = credit {
                    self.on_credit(id, credit, drain);
                }
            }
            Proved::Refused { id, attach, error } => {
                self.fates.forget_link(id);
                self.attach_handler().refuse(id, &attach, error)
            }
            Proved::Gone => {}
        }
    }

    fn on_credit(&mut self, id: LinkId, credit: u32, drain: bool) {
        self.table.touch(id, self.now);
        if let Some(waiting) = self.unproved.get_mut(&id) {
            waiting.credit = Some((credit, drain));
        }
        self.outgoing_handler().on_credit(id, credit, drain);
    }

    fn on_delivery(&mut self, delivery: Delivery) {
        self.table.touch(delivery.link, self.now);
        if let Some(delivery) = self.delivery_under_faults(delivery) {
            self.take_delivery(delivery);
        }
    }

    fn take_delivery(&mut self, delivery: Delivery) {
        let id = (!delivery.settled).then_some(delivery.id);
        let Some(link) = self.table.get(delivery.link) else { return };
        let session = link.session;
        match (&link.kind, &delivery.state) {
            (Kind::Control, _) => self.transaction_handler().on_control(&delivery),
            (Kind::Relay(_), state) => {
                let error = match state {
                    None => self.relay(&delivery).err(),
                    Some(_) => {
                        let why = "a message on a link without a target is no part of a \
                                   transaction; attach a link to its entity";
                        Some(failure::told(condition::NOT_IMPLEMENTED, why, ""))
                    }
                };
                if let Some((id, error)) = id.zip(error) {
                    let _ = self.engine.settle(id, DeliveryState::rejected(error));
                }
            }
            (Kind::Incoming(_), Some(state)) => {
                if let Err(busy) = self.dues.charge(1) {
                    return self.turn_away(&delivery, busy);
                }
                let share = self.presettled(&delivery);
                self.transaction_handler().take_in_transaction(&delivery, state, share);
            }
            (Kind::Incoming(_), None) => {
                let limits = &self.shared.config.limits;
                let messages = incoming::messages(&delivery, limits, &mut self.scratch);
                if let Err(busy) = self.dues.charge(messages.as_ref().map_or(1, Vec::len)) {
                    return self.turn_away(&delivery, busy);
                }
                let share = self.presettled(&delivery);
                let delivered = Delivered { id, messages, share };
                if !incoming::take_in(&mut self.table, delivery.link, delivered) {
                    self.fail(delivery.link, outran());
                }
            }
            (Kind::Requests(node), _) => {
                let node = node.clone();
                let from = RequestLink { session, link: delivery.link };
                if let Err(error) = self.on_request(from, &node, &delivery) {
                    self.refuse_request(from, &node, &delivery, error);
                }
            }
            (Kind::Outgoing(_) | Kind::Replies(_), _) => {}
        }
    }

    /// What a delivery takes that its client settled itself: nobody else counts it.
    fn presettled(&self, delivery: &Delivery) -> Option<Share> {
        let bytes = delivery.payload.as_ref().map_or(0, Bytes::len);
        delivery.settled.then(|| self.unstored.share().with(bytes))
    }

    /// LINK-24: a message goes where it says itself.
    ///
    /// # Errors
    /// Why it cannot go there.
    fn relay(&mut self, delivery: &Delivery) -> Result<(), Error> {
        let config = &self.shared.config;
        let (limits, grants) = (&config.limits, &self.grants);
        let mut addressed =
            relay::addressed(delivery, limits, grants, &config.access, &mut self.scratch)?;
        if let Err(busy) = self.dues.charge(addressed.messages.len()) {
            self.turn_away(delivery, busy);
            return Ok(());
        }
        addressed.share = self.presettled(delivery);
        if !incoming::relay(&mut self.table, delivery.link, addressed) {
            self.fail(delivery.link, outran());
        }
        Ok(())
    }

    /// # Errors
    /// Why a request cannot be taken: it is too large, or no message (REQ-9).
    fn on_request(
        &mut self,
        from: RequestLink,
        node: &Node,
        delivery: &Delivery,
    ) -> Result<(), Refusal> {
        let part_of = delivery.state.as_ref().filter(|_| matches!(node, Node::Management(_)));
        match part_of {
            Some(state) => self.transaction_handler().settle_request(delivery, state),
            None if delivery.settled => {}
            None => drop(self.engine.settle(delivery.id, DeliveryState::ACCEPTED)),
        }
        let payload = delivery.payload.as_ref().map_err(requests::too_large)?;
        let limits = &self.shared.config.limits;
        match node {
            Node::Management(entity) => {
                let decoded = management::decode(payload, limits);
                let (envelope, operation) = decoded.map_err(requests::undecodable)?;
                let entity = entity.clone();
                if let Some(name) = envelope.text(requests::ASSOCIATED_LINK) {
                    self.table.touch_named(name, self.now);
                }
                let credits = operation.as_ref().map_or(1, requests::credits);
                let asked = self.dues.party().map_or(Ok(()), |party| party.ask(credits));
                let asked = asked.map_err(|over| failure::exceeded(&over, &entity.name));
                match part_of {
                    None => {
                        let met = match &operation {
                            Ok(operation) => self.request_under_faults(from, &entity, operation),
                            Err(_) => Ok(Some(RequestFault::default())),
                        };
                        let (fault, asked) = match met {
                            Ok(Some(fault)) => (fault, asked),
                            Ok(None) => return Ok(()),
                            Err(error) => (RequestFault::default(), Err(error)),
                        };
                        let Links { shared, grants, table, tasks, dues, .. } = self;
                        let slot = dues.slot();
                        RequestHandler { shared, grants, table, tasks, slot }.on_request(
                            from,
                            entity,
                            envelope,
                            asked.map(|()| operation),
                            fault,
                        );
                        self.end_unheard();
                    }
                    Some(state) => {
                        let is_settled = delivery.settled;
                        let request = DecodedRequest { envelope, operation, is_settled };
                        self.on_transacted_request(from, entity, request, asked, state);
                    }
                }
            }
            Node::Cbs => {
                let decoded = cbs::decode(payload, limits);
                let (envelope, request) = decoded.map_err(requests::undecodable)?;
                if let Err(exceeded) = self.dues.charge_stranger() {
                    let status = cbs::Status::of(failure::exceeded(&exceeded, ""));
                    let reply = status.reply(&envelope, &mut self.scratch);
                    self.reply(from, cbs::ADDRESS, &envelope, reply);
                    return Ok(());
                }
                let met = self.token_under_faults(from, Box::new(envelope), request);
                if let Some((envelope, request)) = met {
                    self.take_token(from, envelope, request);
                }
            }
            Node::Entity(_) => {}
        }
        Ok(())
    }

    fn on_transacted_request(
        &mut self,
        from: RequestLink,
        entity: Entity,
        request: DecodedRequest,
        asked: Result<(), Error>,
        state: &DeliveryState,
    ) {
        let taken = match asked {
            Ok(()) => {
                self.transaction_handler().request_in_transaction(from, entity, request, state)
            }
            Err(error) => {
                let (node, envelope) = (reply_node(&entity), request.envelope);
                Err(Box::new(RefusedRequest { node, envelope, error }))
            }
        };
        if let Err(refused) = taken {
            let reply = Reply::Refused(refused.error);
            let reply = reply.encode(&refused.envelope, &mut self.scratch);
            self.reply(from, &refused.node, &refused.envelope, reply);
        }
    }

    /// REQ-9: who asks is answered, or the link ends, if nobody knows whose request it is.
    fn refuse_request(
        &mut self,
        from: RequestLink,
        node: &Node,
        delivery: &Delivery,
        refusal: Refusal,
    ) {
        let head = match &delivery.payload {
            Ok(payload) => payload,
            Err(too_large) => &too_large.head,
        };
        let (address, entity) = match node {
            Node::Management(entity) => (reply_node(entity), entity.name.as_str()),
            Node::Cbs | Node::Entity(_) => (cbs::ADDRESS.to_owned(), ""),
        };
        let error = failure::refusal(refusal, entity);
        let Some(envelope) = Envelope::salvage(head, &self.shared.config.limits) else {
            return self.fail(delivery.link, error);
        };
        let reply = match node {
            Node::Management(_) => Reply::Refused(error).encode(&envelope, &mut self.scratch),
            Node::Cbs | Node::Entity(_) => {
                cbs::Status::of(error).reply(&envelope, &mut self.scratch)
            }
        };
        self.reply(from, &address, &envelope, reply);
    }

    fn take_token(&mut self, from: RequestLink, envelope: Box<Envelope>, request: cbs::Request) {
        if let Some(proved) = self.proof_handler().put_token(from, envelope, request) {
            self.on_proved(proved);
        }
    }

    fn on_disposed(&mut self, disposed: Disposed) {
        self.table.touch(disposed.link, self.now);
        if let Some(disposed) = self.verdict_under_faults(disposed) {
            self.take_verdict(disposed);
        }
    }

    fn take_verdict(&mut self, disposed: Disposed) {
        let Some(disposed) = self.transactions.wait(disposed) else { return };
        if let Some(DeliveryState::Transactional { .. }) = &disposed.state {
            return self.transaction_handler().decide_in_transaction(disposed);
        }
        let Disposed { id, link, tag, state, settled } = disposed;
        if self.table.get(link).is_none() {
            // LOCK-28: given back, as the node ends.
            let answer = match verdict(None, &tag, state) {
                Ok(Verdict { settlement: Settlement { token, .. }, .. }) => {
                    let lost = Refusal::MessageLockLost { token };
                    DeliveryState::rejected(failure::refusal(lost, ""))
                }
                Err(answer) => answer,
            };
            let _ = self.engine.answer(id, answer);
            return;
        }
        let Some(outgoing) = self.table.outgoing(link) else {
            // A reply that was sent unsettled: there is nothing to decide.
            let _ = self.engine.answer(id, DeliveryState::ACCEPTED);
            return;
        };
        match verdict((!settled).then_some(id), &tag, state) {
            Ok(mut verdict) => {
                let bytes = verdict.bytes();
                verdict.share = (bytes > 0).then(|| self.unstored.share().with(bytes));
                outgoing.verdicts.push(verdict);
                self.table.mark_busy(link);
            }
            Err(answer) => {
                let _ = self.engine.answer(id, answer);
            }
        }
    }

    /// REQ-3, REQ-31: the reply goes to the response link of the same session, or the request's link ends.
    fn reply(&mut self, from: RequestLink, node: &str, envelope: &Envelope, reply: Bytes) {
        self.reply_in_turn(from, node, envelope, reply, None);
    }

    /// The same with the [`Turn`] of what was asked, which ends when the reply is written.
    fn reply_in_turn(
        &mut self,
        from: RequestLink,
        node: &str,
        envelope: &Envelope,
        reply: Bytes,
        turn: Option<Turn>,
    ) {
        let RequestLink { session, link } = from;
        let id = match requests::link_for(&self.table, session, node, envelope.reply_to()) {
            Ok(id) => id,
            Err(error) => return self.fail(link, error),
        };
        let Some(waiting) = self.table.replies(id) else { return };
        // Where nothing is read for want of room, no more is asked, and what was will be written.
        let is_read = self.engine.wants_input();
        if waiting.len() >= REPLIES_MAX || is_read && waiting.len() > 0 && self.unread.is_full() {
            return self.fail(id, unheard());
        }
        waiting.push(reply, turn);
        self.outgoing_handler().send_replies(id);
    }

    /// REQ-31: who asks for as much as it may while it gives no credit for replies would wait for ever,
    /// as its credit would not be read.
    fn end_unheard(&mut self) {
        if self.tasks.has_room(self.guest.is_none()) {
            return;
        }
        let waits = |link: &Link| matches!(&link.kind, Kind::Replies(unsent) if unsent.len() > 0);
        for id in self.table.ids(waits) {
            // Where room is short because nothing is read of what was written, there will be some.
            if self.engine.room(id) == 0 && self.engine.wants_input() {
                self.fail(id, unheard());
            }
        }
    }

    /// Ends a link that cannot be served, or not any more.
    fn fail(&mut self, id: LinkId, error: Error) {
        let Some(link) = self.table.get(id) else { return };
        let reply = link.attach.reply(self.shared.config.limits.message_bytes_max);
        if self.engine.refuse(id, reply, error.clone()).is_err() {
            // It was accepted before, or is gone.
            let _ = self.engine.detach(id, Some(error));
        }
        self.drop_link(id, Ending::Closed);
    }

    /// ERR-25, ENT-12: links whose token ran out, was replaced by a lesser one, or whose key is gone.
    pub fn detach_expired(&mut self) {
        let (access, grants) = (&self.shared.config.access, &self.grants);
        let is_proved = grants.is_proved(access);
        let is_void = |link: &Link| match link.right {
            Some(right) => {
                let path = link.entity().map(|entity| entity.path()).unwrap_or_default();
                let to = link_terms::transfer_destination(&link.attach).ok().flatten();
                !grants.allow(access, &path, right)
                    || to.is_some_and(|to| !grants.allow(access, &to, Right::Send))
            }
            // Each request and each message tells which right it takes; who has none asks for nothing.
            None => !is_proved && link.is_for_the_proven(),
        };
        for id in self.table.ids(is_void) {
            let name = self.address_of(id);
            let why = "its token has run out, or its key or right was taken away";
            self.fail(id, failure::unauthorized("Listen or Send", why, &name));
        }
    }

    /// ERR-22: links of messages without traffic. Those of tokens and requests are held open to be there
    /// when they are needed; an SDK takes the end of its `$cbs` link for the end of its connection.
    pub fn detach_idle(&mut self) {
        let Some(before) = self.timers.idle_before(self.now) else { return };
        let is_idle = |link: &Link| link.may_idle_out() && link.used_at <= before;
        for id in self.table.ids(is_idle) {
            let name = self.address_of(id);
            let ms = idle::ms(self.shared.config.idle.link.unwrap_or_default());
            let why = format!("The link had no traffic within the allowed {ms} milliseconds");
            self.fail(id, failure::told(condition::DETACH_FORCED, &why, &name));
        }
        let links = self.table.iter().filter(|(_, link)| link.may_idle_out());
        let least = links.map(|(_, link)| link.used_at).min();
        // With none, a next look in time for whichever comes.
        self.timers.looked(Some(least.unwrap_or(self.now)));
    }

    /// ENT-7: senders and links of requests to what is gone, or was made anew under the same name.
    pub fn detach_orphans(&mut self) {
        let entities = self.shared.broker.entities();
        let mut orphans = Vec::new();
        for (id, link) in self.table.iter_mut().filter(|(_, link)| link.is_accepted) {
            let Some(entity) = link.watched_entity() else { continue };
            let found = entities.known_here(&entity.name);
            match link.entity_id {
                None => link.entity_id = found,
                known if known == found => {}
                Some(_) => orphans.push((id, entity.name)),
            }
        }
        for (id, name) in orphans {
            let refusal = Refusal::EntityNotFound { name: name.clone() };
            self.fail(id, failure::refusal(refusal, &name));
        }
    }

    fn address_of(&self, id: LinkId) -> String {
        self.table.get(id).and_then(Link::address).unwrap_or_default().to_owned()
    }

    /// Whoever served the link ends with its end of the channel. Messages not sent go back.
    fn drop_link(&mut self, id: LinkId, ending: Ending) {
        if let Some(outgoing) = self.remove(id) {
            outgoing.end(match ending {
                Ending::Closed => GivesBack::Session,
                Ending::Lost => GivesBack::Nothing,
            });
        }
    }

    fn remove(&mut self, id: LinkId) -> Option<OutgoingLink> {
        self.transactions.close(id);
        self.fates.forget_link(id);
        let Link { session, kind, .. } = self.table.remove(id)?;
        if self.table.is_empty() {
            self.timers.last_link_gone(self.now);
        }
        self.groups.drop_link(session, id);
        match kind {
            Kind::Outgoing(outgoing) => Some(outgoing),
            _ => None,
        }
    }

    /// LOCK-28: the node ends, and gives back what its client has received and not settled. The futures
    /// resolve when that is done.
    pub fn give_back(&mut self) -> Vec<oneshot::Receiver<()>> {
        let mut given = Vec::new();
        for id in self.table.ids(|link| matches!(link.kind, Kind::Outgoing(_))) {
            if let Some(outgoing) = self.remove(id) {
                let (done, back) = oneshot::channel();
                outgoing.end(GivesBack::Everything(done));
                given.push(back);
            }
        }
        given
    }

    /// Whether the client waits for what the broker decides.
    pub fn owes_answers(&self) -> bool {
        self.engine.undecided() > 0 || self.tasks.has_requests()
    }

    /// The connection is lost, and with it its links.
    pub fn drop_all(&mut self) {
        self.end_links(Ending::Lost, |_| true);
    }

    fn end_links(&mut self, ending: Ending, is_gone: impl Fn(&Link) -> bool) {
        for id in self.table.ids(is_gone) {
            self.drop_link(id, ending);
        }
    }

    fn attach_handler(&mut self) -> AttachHandler<'_> {
        let Links { engine, shared, grants, table, tasks, groups, timers, unread, .. } = self;
        let (now, party, slot) = (self.now, self.dues.party(), self.dues.slot());
        AttachHandler {
            slot,
            shared,
            now,
            grants,
            engine,
            table,
            tasks,
            groups,
            timers,
            unread,
            party,
            withholds_credit: false,
        }
    }

    fn proof_handler(&mut self) -> ProofHandler<'_> {
        let Links { shared, grants, unproved, tasks, timers, .. } = self;
        ProofHandler { shared, grants, unproved, tasks, timers }
    }

    fn outgoing_handler(&mut self) -> OutgoingHandler<'_> {
        let Links { engine, shared, table, scratch, now, dues, .. } = self;
        OutgoingHandler { limits: &shared.config.limits, now: *now, engine, table, scratch, dues }
    }

    fn transaction_handler(&mut self) -> TransactionHandler<'_> {
        let Links { engine, shared, grants, table, tasks, transactions, groups, scratch, .. } =
            self;
        TransactionHandler { shared, grants, engine, table, tasks, transactions, groups, scratch }
    }
}

/// By what it says of itself.
fn mistakes_close(properties: &Map) -> bool {
    matches!(properties.get("product"), Some(Value::String(product)) if MISTAKING.contains(&&**product))
}

/// What a client says it is: its product and the version of that, or what it says its agent is.
fn product(properties: Option<&Map>) -> String {
    let text = |key| properties.and_then(|all| all.get(key)).and_then(Value::as_str).unwrap_or("");
    match (text("product"), text("version")) {
        ("", _) => text("user-agent").to_owned(),
        (product, version) => format!("{product} {version}").trim_end().to_owned(),
    }
}

/// REQ-31.
fn unheard() -> Error {
    let why = "too many replies, or too much in them, wait for credit on this link";
    Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why)
}

fn outran() -> Error {
    let why = "this link has more deliveries under way than it has credit for";
    Error::new(condition::TRANSFER_LIMIT_EXCEEDED, why)
}
