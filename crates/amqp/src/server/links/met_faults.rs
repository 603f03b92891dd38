//! Where clients meet faults (FAULT): each event is asked for before it is seen to, and what holds it up has it come
//! in once more.
//!
//! Without rules each of these is the question whether there are any.

use std::time::Duration;

use amqp_protocol::codec::{AnyTarget, Attach, DeliveryState, Error, Outcome, Role};
use amqp_protocol::engine::{Delivery, DeliveryId, LinkId, SessionId};
use amqp_protocol::request::Envelope;
use bytes::Bytes;
use bytestring::ByteString;
use domain::{Disposition, LockToken, Settlement};
use fault_rules::{Effect, Event, Hit, Operation, Phase, Protocol};
use service::{Caller, Faults, Received};
use tokio::time::sleep;

use super::{Ending, Links};
use crate::cbs;
use crate::link_terms::SessionFilter;
use crate::management::{self, DispositionStatus};
use crate::server::address::Entity;
use crate::server::coordinator::Disposed;
use crate::server::fates::{self, AnswerFate, Breakage, LinkFate, Postponed, RequestFault};
use crate::server::link_table::{Kind, address_of};
use crate::server::note::{Note, Terms, tell};
use crate::server::requests::RequestLink;
use crate::server::{incoming, source};

/// What becomes of an event.
enum Met {
    /// It goes on as if nothing had been.
    Nothing,
    /// It was seen to.
    Struck,
    /// What else there is to do is the event's own affair.
    Own(Hit),
}

impl Links {
    fn faults(&self) -> Option<Faults<'_>> {
        self.shared.broker.faults()
    }

    fn concerns(&self, operation: Operation) -> bool {
        self.faults().is_some_and(|faults| faults.concern(operation))
    }

    /// The fault that is met by whoever does this, if there are any. `message`: its content, and how often its delivery
    /// has failed.
    fn meet(
        &self,
        operation: Operation,
        entity: &str,
        link: &str,
        message: Option<(&Bytes, u32)>,
    ) -> Option<Hit> {
        let faults = self.faults().filter(|faults| faults.concern(operation))?;
        let mut event = Event::new(Protocol::Amqp, operation, entity);
        (event.client, event.link) = (&self.fates.client, link);
        let principal = self.grants.principal(&self.shared.config.access);
        event.key = principal.and_then(|principal| principal.key_name()).unwrap_or_default();
        event.message = message.map(|(content, _)| content);
        event.failed_deliveries = message.map_or(0, |(_, failed)| failed);
        faults.meet(&event)
    }

    fn name_of(&self, link: LinkId) -> ByteString {
        self.table.get(link).map(|link| link.attach.name.clone()).unwrap_or_default()
    }

    /// Does what is done to links and connections, whatever it was that met it.
    fn strike(&mut self, hit: Option<Hit>, link: Option<LinkId>, entity: &str) -> Met {
        let Some(hit) = hit else { return Met::Nothing };
        match hit.effect {
            Effect::Detach { error } => {
                if let Some(link) = link {
                    self.fail(link, fates::error(&hit, error, entity));
                }
                Met::Struck
            }
            Effect::Close { error } => {
                self.give_up(link);
                self.fates.break_with(Breakage::Closed(fates::error(&hit, error, entity)));
                Met::Struck
            }
            Effect::Reset => {
                self.give_up(link);
                self.fates.break_with(Breakage::Reset);
                Met::Struck
            }
            // What came before goes on behind it.
            Effect::Silence { .. } => {
                self.fates.break_with(Breakage::Silent(hit.time()));
                Met::Nothing
            }
            Effect::LoseRequest => Met::Struck,
            Effect::Delay { .. }
            | Effect::Refuse { .. }
            | Effect::LoseAnswer
            | Effect::Lapse { .. }
            | Effect::Cut
            | Effect::WithholdCredit
            | Effect::Throttle { .. } => Met::Own(hit),
        }
    }

    /// What a link's client was not sent goes back before the connection breaks.
    fn give_up(&mut self, link: Option<LinkId>) {
        if let Some(id) = link {
            self.drop_link(id, Ending::Lost);
        }
    }

    /// Has an event come in once more, so much later. `Err`: too many are held up.
    fn postpone(&mut self, time: Duration, postponed: Postponed) -> Result<(), Postponed> {
        if !self.fates.postpone() {
            return Err(postponed);
        }
        let notes = self.tasks.notes.clone();
        self.tasks.spawn(async move {
            sleep(time).await;
            tell(&notes, Note::Postponed(Box::new(postponed))).await;
        });
        Ok(())
    }

    pub(super) fn on_postponed(&mut self, postponed: Postponed) {
        self.fates.came();
        match postponed {
            Postponed::Attach { session, link, attach } => self.seek_proof(session, link, attach),
            Postponed::Ready(link, terms) => self.accept(link, terms),
            // What it took is counted anew.
            Postponed::Delivery(delivery, _share) => self.take_delivery(*delivery),
            Postponed::Disposed(disposed) => self.take_verdict(*disposed),
            Postponed::Token { from, envelope, request } => {
                self.take_token(from, envelope, request)
            }
            Postponed::Messages(link, messages, _share) => self.take_messages(link, messages),
            Postponed::Lapse(entity, token) => self.lapse(entity, token),
            Postponed::ReleaseSession(entity, token) => {
                let broker = self.shared.broker.clone();
                self.tasks.spawn(async move { source::release(&broker, &entity, token).await });
            }
            Postponed::Decided(id, state) => drop(self.engine.settle(id, state)),
            Postponed::Answered(id, state) => drop(self.engine.answer(id, state)),
        }
    }

    /// A connection was opened.
    pub(super) fn opened_under_faults(&mut self) {
        let hit = self.meet(Operation::OpenConnection, "", "", None);
        let _ = self.strike(hit, None, "");
    }

    /// A link is asked for; `None`: it was seen to.
    pub(super) fn attach_under_faults(
        &mut self,
        session: SessionId,
        id: LinkId,
        attach: Box<Attach>,
    ) -> Option<Box<Attach>> {
        let address =
            address_of(&attach).filter(|_| self.faults().is_some() && !is_control(&attach));
        let Some(entity) = address.and_then(Entity::at) else { return Some(attach) };
        let path = entity.path();
        let hit = self.meet(operation_of(&attach), &path, &attach.name, None);
        if let Some(hit @ Hit { effect: Effect::Detach { error }, .. }) = &hit {
            // Its client is to have it first.
            self.fates.of_link(id, LinkFate::Ends(fates::error(hit, *error, &path)));
            return Some(attach);
        }
        match self.strike(hit, None, &path) {
            Met::Nothing => Some(attach),
            Met::Struck => None,
            Met::Own(hit) => {
                if let Some(error) = hit.refusal() {
                    let error = fates::error(&hit, error, &path);
                    self.attach_handler().refuse(id, &attach, error);
                    return None;
                }
                match hit.effect {
                    Effect::Delay { phase: Phase::Before, .. } => {
                        let postponed = Postponed::Attach { session, link: id, attach };
                        match self.postpone(hit.time(), postponed) {
                            Err(Postponed::Attach { attach, .. }) => return Some(attach),
                            _ => return None,
                        }
                    }
                    Effect::Delay { phase: Phase::After, .. } => {
                        self.fates.of_link(id, LinkFate::AnsweredLate(hit.time()));
                    }
                    Effect::Lapse { .. } => {
                        self.fates.of_link(id, LinkFate::Lapses(hit.time()));
                    }
                    Effect::WithholdCredit => self.fates.of_link(id, LinkFate::HasNoCredit),
                    _ => (),
                }
                Some(attach)
            }
        }
    }

    /// The broker serves a link; `None`: its client is told of it later.
    pub(super) fn ready_under_faults(&mut self, id: LinkId, terms: Terms) -> Option<Terms> {
        match self.fates.take_of_link(id) {
            None | Some(LinkFate::HasNoCredit) => Some(terms),
            Some(LinkFate::AnsweredLate(time)) => {
                match self.postpone(time, Postponed::Ready(id, terms)) {
                    Err(Postponed::Ready(_, terms)) => Some(terms),
                    _ => None,
                }
            }
            Some(LinkFate::Lapses(time)) => {
                if let Terms::Session { token, .. } = &terms
                    && let Some(outgoing) = self.table.outgoing(id)
                {
                    let (entity, token) = (outgoing.entity.clone(), token.clone());
                    // Beyond the bound it lasts as long as any.
                    let _ = self.postpone(time, Postponed::ReleaseSession(entity, token));
                }
                Some(terms)
            }
            Some(LinkFate::Ends(error)) => {
                self.accept(id, terms);
                self.fail(id, error);
                None
            }
        }
    }

    /// A message came from the client; `None`: it was seen to.
    pub(super) fn delivery_under_faults(&mut self, delivery: Delivery) -> Option<Delivery> {
        let is_sender = |kind: &Kind| matches!(kind, Kind::Incoming(_) | Kind::Relay(_));
        if !self.concerns(Operation::Send) {
            return Some(delivery);
        }
        let link = self.table.get(delivery.link).filter(|link| is_sender(&link.kind));
        let Some(link) = link else { return Some(delivery) };
        let name = link.attach.name.clone();
        let entity = link.address().and_then(Entity::at).map(|entity| entity.path());
        let entity = entity.unwrap_or_default();
        let limits = &self.shared.config.limits;
        let messages = incoming::messages(&delivery, limits, &mut self.scratch);
        let first = messages.ok().and_then(|messages| messages.into_iter().next());
        let content = first.as_ref().map(|message| (&message.content, 0));
        let hit = self.meet(Operation::Send, &entity, &name, content);
        let hit = match self.strike(hit, Some(delivery.link), &entity) {
            Met::Nothing => return Some(delivery),
            Met::Struck => return None,
            Met::Own(hit) => hit,
        };
        if let Some(error) = hit.refusal() {
            self.turn_away(&delivery, fates::error(&hit, error, &entity));
            return None;
        }
        match hit.effect {
            Effect::Delay { phase: Phase::Before, .. } => {
                let share = self.presettled(&delivery);
                let postponed = Postponed::Delivery(Box::new(delivery), share);
                match self.postpone(hit.time(), postponed) {
                    Err(Postponed::Delivery(delivery, _)) => return Some(*delivery),
                    _ => return None,
                }
            }
            // One that the client settled itself has no answer.
            _ if delivery.settled => (),
            Effect::Delay { phase: Phase::After, .. } => {
                self.fates.of_answer_to_sent(delivery.id, AnswerFate::Late(hit.time()));
            }
            Effect::LoseAnswer => self.fates.of_answer_to_sent(delivery.id, AnswerFate::Lost),
            _ => (),
        }
        Some(delivery)
    }

    /// The client gave a verdict; `None`: it was seen to.
    pub(super) fn verdict_under_faults(&mut self, disposed: Disposed) -> Option<Disposed> {
        if self.faults().is_none() {
            return Some(disposed);
        }
        let operation = disposed.state.as_ref().and_then(verdict_of);
        let Some((operation, outgoing)) = operation.zip(self.table.outgoing(disposed.link)) else {
            return Some(disposed);
        };
        let entity = outgoing.entity.path();
        let hit = self.meet(operation, &entity, &self.name_of(disposed.link), None);
        let hit = match self.strike(hit, Some(disposed.link), &entity) {
            Met::Nothing => return Some(disposed),
            Met::Struck => return None,
            Met::Own(hit) => hit,
        };
        if let Some(error) = hit.refusal() {
            let refused = DeliveryState::rejected(fates::error(&hit, error, &entity));
            // One that the client settled itself has no answer.
            let _ = self.engine.answer(disposed.id, refused);
            return None;
        }
        match hit.effect {
            Effect::Delay { phase: Phase::Before, .. } => {
                match self.postpone(hit.time(), Postponed::Disposed(Box::new(disposed))) {
                    Err(Postponed::Disposed(disposed)) => return Some(*disposed),
                    _ => return None,
                }
            }
            _ if disposed.settled => (),
            Effect::Delay { phase: Phase::After, .. } => {
                self.fates.of_answer_to_verdict(disposed.id, AnswerFate::Late(hit.time()));
            }
            Effect::LoseAnswer => self.fates.of_answer_to_verdict(disposed.id, AnswerFate::Lost),
            _ => (),
        }
        Some(disposed)
    }

    /// The log has decided on a message of the client; `None`: it is told later, or never.
    pub(super) fn decision_under_faults(
        &mut self,
        id: DeliveryId,
        state: DeliveryState,
    ) -> Option<DeliveryState> {
        match self.fates.take_of_sent(id) {
            None => Some(state),
            Some(AnswerFate::Lost) => None,
            Some(AnswerFate::Late(time)) => {
                match self.postpone(time, Postponed::Decided(id, state)) {
                    Err(Postponed::Decided(_, state)) => Some(state),
                    _ => None,
                }
            }
        }
    }

    /// The same of a verdict.
    pub(super) fn answer_under_faults(
        &mut self,
        id: DeliveryId,
        state: DeliveryState,
    ) -> Option<DeliveryState> {
        match self.fates.take_of_verdict(id) {
            None => Some(state),
            Some(AnswerFate::Lost) => None,
            Some(AnswerFate::Late(time)) => {
                match self.postpone(time, Postponed::Answered(id, state)) {
                    Err(Postponed::Answered(_, state)) => Some(state),
                    _ => None,
                }
            }
        }
    }

    /// A management request came; what it meets. `Ok(None)`: it was seen to.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn request_under_faults(
        &mut self,
        from: RequestLink,
        entity: &Entity,
        operation: &management::Operation,
    ) -> Result<Option<RequestFault>, Error> {
        let nothing = Ok(Some(RequestFault::default()));
        let Some(operation) = request_of(operation).filter(|_| self.faults().is_some()) else {
            return nothing;
        };
        let path = entity.path();
        let hit = self.meet(operation, &path, &self.name_of(from.link), None);
        let hit = match self.strike(hit, Some(from.link), &path) {
            Met::Nothing => return nothing,
            Met::Struck => return Ok(None),
            Met::Own(hit) => hit,
        };
        if let Some(error) = hit.refusal() {
            return Err(fates::error(&hit, error, &path));
        }
        let mut fault = RequestFault::default();
        match hit.effect {
            Effect::Delay { phase: Phase::Before, .. } => fault.before = hit.time(),
            Effect::Delay { phase: Phase::After, .. } => fault.after = hit.time(),
            Effect::LoseAnswer => fault.answer_is_lost = true,
            _ => (),
        }
        Ok(Some(fault))
    }

    /// A token is shown; `None`: it was seen to.
    pub(super) fn token_under_faults(
        &mut self,
        from: RequestLink,
        envelope: Box<Envelope>,
        request: cbs::Request,
    ) -> Option<(Box<Envelope>, cbs::Request)> {
        let cbs::Request::PutToken { audience, .. } = &request else {
            return Some((envelope, request));
        };
        let operation = match self.fates.is_renewal(audience) {
            true => Operation::RenewToken,
            false => Operation::Authenticate,
        };
        let path = auth::resource_path(audience);
        let hit = self.meet(operation, &path, "", None);
        let hit = match self.strike(hit, None, &path) {
            Met::Nothing => return Some((envelope, request)),
            Met::Struck => return None,
            Met::Own(hit) => hit,
        };
        if let Some(error) = hit.refusal() {
            let status = cbs::Status::of(fates::error(&hit, error, &path));
            let reply = status.reply(&envelope, &mut self.scratch);
            self.reply(from, cbs::ADDRESS, &envelope, reply);
            return None;
        }
        let Effect::Delay { .. } = hit.effect else { return Some((envelope, request)) };
        match self.postpone(hit.time(), Postponed::Token { from, envelope, request }) {
            Err(Postponed::Token { envelope, request, .. }) => Some((envelope, request)),
            _ => None,
        }
    }

    /// Messages are on their way to the client; those that go on.
    pub(super) fn messages_under_faults(
        &mut self,
        id: LinkId,
        messages: Vec<Received>,
    ) -> Vec<Received> {
        if !self.concerns(Operation::Receive) {
            return messages;
        }
        let Some(outgoing) = self.table.outgoing(id) else { return messages };
        let (entity, mut going) = (outgoing.entity.clone(), Vec::with_capacity(messages.len()));
        let (path, name) = (entity.path(), self.name_of(id));
        let mut messages = messages.into_iter();
        while let Some(message) = messages.next() {
            let lock = message.delivery.lock.map(|lock| lock.token);
            let content = (&message.content, message.delivery.delivery_count);
            let Some(hit) = self.meet(Operation::Receive, &path, &name, Some(content)) else {
                going.push(message);
                continue;
            };
            match hit.effect {
                Effect::Delay { .. } => {
                    let share = self.unread.share().with(message.content.len());
                    let postponed = Postponed::Messages(id, vec![message], share);
                    if let Err(Postponed::Messages(_, back, _)) =
                        self.postpone(hit.time(), postponed)
                    {
                        going.extend(back);
                    }
                }
                Effect::LoseAnswer => {
                    if let Some(outgoing) = self.table.outgoing(id) {
                        outgoing.lose_one();
                        self.table.mark_busy(id);
                    }
                }
                Effect::Lapse { .. } => {
                    going.push(message);
                    if let Some(lock) = lock {
                        // Beyond the bound it lasts as long as any.
                        let _ = self.postpone(hit.time(), Postponed::Lapse(entity.clone(), lock));
                    }
                }
                Effect::Cut => {
                    going.push(message);
                    self.fates.break_with(Breakage::Cut);
                }
                Effect::Silence { .. } => {
                    going.push(message);
                    self.fates.break_with(Breakage::Silent(hit.time()));
                }
                Effect::Detach { .. } | Effect::Close { .. } | Effect::Reset => {
                    // It goes back with what was not sent, and so does all behind it.
                    going.push(message);
                    going.extend(messages);
                    self.take_messages(id, going);
                    let _ = self.strike(Some(hit), Some(id), &path);
                    return Vec::new();
                }
                Effect::Refuse { .. }
                | Effect::LoseRequest
                | Effect::WithholdCredit
                | Effect::Throttle { .. } => going.push(message),
            }
        }
        going
    }

    /// A lock ends as if its time were over: the delivery counts as failed (LOCK-12).
    fn lapse(&mut self, entity: Entity, token: LockToken) {
        let broker = self.shared.broker.clone();
        self.tasks.spawn(async move {
            let disposition = Disposition::Abandon { properties: domain::Properties::new() };
            let settlements = vec![Settlement { token, disposition }];
            let Entity { name, sub } = &entity;
            let settled = broker.messages().settle(name, *sub, settlements, true, Caller::Edge);
            if let Err(error) = settled.await {
                tracing::debug!(%error, "a lock did not end before its time");
            }
        });
    }
}

fn is_control(attach: &Attach) -> bool {
    matches!(attach.target, Some(AnyTarget::Coordinator(_)))
}

/// Of a link to an entity.
fn operation_of(attach: &Attach) -> Operation {
    let source = attach.source.as_ref().filter(|_| attach.role == Role::Receiver);
    match source.map(SessionFilter::of) {
        Some(Ok(SessionFilter::Named(_) | SessionFilter::Next)) => Operation::AcceptSession,
        _ => Operation::OpenLink,
    }
}

/// `None`: within a transaction, or no verdict.
fn verdict_of(state: &DeliveryState) -> Option<Operation> {
    let DeliveryState::Outcome(outcome) = state else { return None };
    Some(match outcome {
        Outcome::Accepted => Operation::Complete,
        Outcome::Rejected(_) => Operation::DeadLetter,
        Outcome::Modified(modified) if modified.undeliverable_here == Some(true) => {
            Operation::Defer
        }
        Outcome::Released | Outcome::Modified(_) => Operation::Abandon,
    })
}

/// `None`: it is a part of nothing that faults are about.
fn request_of(operation: &management::Operation) -> Option<Operation> {
    use management::Operation as Asked;
    Some(match operation {
        Asked::RenewLock { .. } => Operation::RenewLock,
        Asked::Peek { .. } => Operation::Peek,
        Asked::Schedule { .. } => Operation::Schedule,
        Asked::CancelScheduled { .. } => Operation::CancelScheduled,
        Asked::ReceiveBySequence { .. } => Operation::ReceiveDeferred,
        Asked::UpdateDisposition { verdict, .. } => match verdict {
            DispositionStatus::Complete => Operation::Complete,
            DispositionStatus::Abandon | DispositionStatus::Release => Operation::Abandon,
            DispositionStatus::Defer => Operation::Defer,
            DispositionStatus::DeadLetter { .. } => Operation::DeadLetter,
            DispositionStatus::Renew => Operation::RenewLock,
        },
        Asked::BatchDelete { .. } => Operation::DeleteMessages,
        Asked::RenewSessionLock { .. } => Operation::RenewSessionLock,
        Asked::SetSessionState { .. } => Operation::SetSessionState,
        Asked::GetSessionState { .. } => Operation::GetSessionState,
        Asked::GetMessageSessions { .. } => Operation::ListSessions,
        Asked::AddRule { .. } | Asked::RemoveRule { .. } | Asked::EnumerateRules { .. } => {
            Operation::ManageRules
        }
    })
}
