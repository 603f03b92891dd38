//! Attach requests (LINK-5 to LINK-7): which node, with which right, served by whom.

use std::time::Duration;

use amqp_protocol::codec::{AnyTarget, Attach, Error, Role, SenderSettleMode, Symbol, Value};
use amqp_protocol::engine::{Connection, LinkId, Millis, SessionId};
use auth::{Principal, Right};
use domain::{Refusal, SubQueue};
use limits::{Party, Slot};
use message_content::Shown;
use service::ReceiveMode;
use tokio::sync::mpsc;

use super::access::Grants;
use super::address::{Entity, Node};
use super::backlog::Backlog;
use super::consumer::{ORDERS_WAITING_MAX, ReceiverOutlet};
use super::idle::IdleTimers;
use super::incoming::{IncomingLink, PRESETTLED_MAX, RelayLink};
use super::link_table::{Kind, Link, LinkTable, address_of};
use super::note::Terms;
use super::outgoing::{OutgoingLink, UnsentMessages, UnsentReplies};
use super::source::Wanted;
use super::tasks::Tasks;
use super::transaction_group::TransactionGroups;
use super::{Shared, browser, consumer, failure, producer, relay, temporary_queue, via};
use crate::condition;
use crate::link_terms::{self, SessionFilter};
use crate::selection::Selection;

/// What a sender link offers to JMS clients, which then say in an annotation when to deliver (SCHED-1).
pub(super) const DELAYED_DELIVERY: &str = "DELAYED_DELIVERY";
/// Credit of a sender link, and deliveries of it without a verdict, together: JS and .NET send
/// nothing without.
const INCOMING_WINDOW: u32 = 1000;
/// Deliveries of a sender link that whoever serves it has not taken yet. The engine closes a link that
/// sends more than its credit, and nothing is read while as many as may be are under way of those that
/// the client settled itself: so there is a place for each.
const DELIVERIES_WAITING_MAX: usize = INCOMING_WINDOW as usize + PRESETTLED_MAX as usize;
/// The same of a link for requests.
const REQUESTS_WINDOW: u32 = 50;
/// For batches, beside what `max-message-size` says (LINK-8).
const BATCH_SIZE: &str = "com.microsoft:max-message-batch-size";
/// Left of a batch for the ids that are drawn for those of its messages that have none (FORM-3).
const DRAWN_IDS_BYTES: u64 = 64 * 1024;
/// How long a client waits for a free session if it does not say (SESS-7): one SDK gives up by itself
/// soon after.
const SESSION_WAIT: Duration = Duration::from_secs(60);

pub(super) struct AttachHandler<'a> {
    pub shared: &'a Shared,
    pub now: Millis,
    pub grants: &'a Grants,
    pub engine: &'a mut Connection,
    pub table: &'a mut LinkTable,
    pub tasks: &'a mut Tasks,
    pub groups: &'a mut TransactionGroups,
    pub timers: &'a mut IdleTimers,
    /// What waits for the client.
    pub unread: &'a Backlog,
    /// Whose connection it is.
    pub party: Option<&'a Party>,
    /// Where its links are listed.
    pub slot: Option<&'a Slot>,
    /// A fault rule has it so.
    pub withholds_credit: bool,
}

impl AttachHandler<'_> {
    /// Serves a link or refuses it. False: it was accepted, and its client cannot be told so.
    pub fn attach(&mut self, session: SessionId, id: LinkId, mut attach: Box<Attach>) -> bool {
        match self.serve(session, id, &mut attach) {
            Ok((right, kind)) => {
                let is_waiting = matches!(kind, Kind::Incoming(_) | Kind::Outgoing(_));
                // Without what some clients write before a name.
                let address = auth::addressed(address_of(&attach).unwrap_or_default());
                let listed = self.slot.map(|slot| slot.list_link(kind.role(), &address));
                let link = Link {
                    _listed: listed,
                    session,
                    attach,
                    right,
                    kind,
                    used_at: self.now,
                    is_accepted: false,
                    entity_id: None,
                    has_no_credit: self.withholds_credit,
                };
                self.table.insert(id, link);
                self.timers.link_added(self.now);
                is_waiting || self.accept(id, Terms::Plain)
            }
            Err(error) => {
                self.groups.drop_link(session, id);
                self.refuse(id, &attach, error);
                true
            }
        }
    }

    pub fn refuse(&mut self, id: LinkId, attach: &Attach, error: Error) {
        let reply = attach.reply(self.shared.config.limits.message_bytes_max);
        let _ = self.engine.refuse(id, reply, error);
    }

    /// Finds who serves a link. Entities are looked up while the client waits.
    fn serve(
        &mut self,
        session: SessionId,
        id: LinkId,
        attach: &mut Attach,
    ) -> Result<(Option<Right>, Kind), Error> {
        let temporary = temporary_queue::name(attach)?;
        let attach = &*attach;
        let address = address_of(attach).unwrap_or_default();
        let refused = |refusal| failure::refusal(refusal, address);
        if let Some(AnyTarget::Coordinator(_)) = attach.target {
            let checked = self.shared.broker.check_transactions();
            checked.map_err(|error| failure::error(&error))?;
            let kind = control(attach.role)?;
            self.groups.add_control(session);
            return Ok((None, kind));
        }
        let is_proved = self.grants.is_proved(&self.shared.config.access);
        if attach.role == Role::Sender && address.is_empty() {
            return match is_proved {
                true => Ok((None, self.serve_relay(id))),
                false => Err(self.grants.missing(Right::Send, address, address)),
            };
        }
        let node = Node::parse(address).map_err(refused)?;
        if let (Node::Management(_), false) = (&node, is_proved) {
            // CONN-25: whoever may ask for nothing yet has nothing to keep a link for.
            return Err(failure::unauthorized("Listen or Send", "no proof was sent", address));
        }
        let right = match &node {
            Node::Cbs => None,
            // Which right a request takes, its operation tells.
            Node::Management(_) => None,
            Node::Entity(entity) => {
                let right = match attach.role {
                    Role::Sender => Right::Send,
                    Role::Receiver => Right::Listen,
                };
                let needed = if temporary.is_some() { Right::Manage } else { right };
                self.permit(entity, needed, address)?;
                if let (Some(_), Some(party)) = (&temporary, self.party) {
                    party.create().map_err(|exceeded| failure::exceeded(&exceeded, address))?;
                }
                Some(right)
            }
        };
        if let Node::Entity(entity) | Node::Management(entity) = &node {
            let is_receiver = attach.role == Role::Receiver;
            self.groups.add_link(session, id, entity, is_receiver).map_err(refused)?;
        }
        let kind = match (node, attach.role) {
            (node @ (Node::Cbs | Node::Management(_)), Role::Sender) => Kind::Requests(node),
            (Node::Cbs | Node::Management(_), Role::Receiver) => {
                Kind::Replies(UnsentReplies::new(self.unread.share()))
            }
            (Node::Entity(entity), Role::Sender) => {
                let to = self.transfer_destination(attach)?;
                self.serve_sender(id, entity, to, temporary).map_err(refused)?
            }
            (Node::Entity(entity), Role::Receiver) => {
                let source = attach.source.as_ref();
                if let Some(why) = source.and_then(link_terms::not_offered) {
                    return Err(failure::told(condition::NOT_IMPLEMENTED, &why, address));
                }
                let mut wanted = wanted(attach).map_err(refused)?;
                let is_browser = source.is_some_and(link_terms::browses);
                if is_browser && !matches!(wanted, Wanted::Messages) {
                    let what = "browsing the messages of one session";
                    return Err(refused(Refusal::NotSupported { what }));
                }
                let limits = &self.shared.config.limits;
                let selection = source.map_or(Ok(None), |source| Selection::of(source, limits));
                let selection = selection
                    .map_err(|why| failure::told(condition::INVALID_FIELD, &why, address))?;
                if let Some(selection) = selection {
                    let Wanted::Messages = wanted else {
                        let what = "a selector among the messages of one session";
                        return Err(refused(Refusal::NotSupported { what }));
                    };
                    wanted = Wanted::Selected(selection);
                }
                let shown = match (is_browser, attach.snd_settle_mode) {
                    (true, _) => Shown::Peek,
                    // LINK-9: what is sent settled was deleted before.
                    (false, SenderSettleMode::Settled) => Shown::ReceiveAndDelete,
                    (false, SenderSettleMode::Unsettled | SenderSettleMode::Mixed) => {
                        Shown::PeekLock
                    }
                };
                self.serve_receiver(id, entity, wanted, shown, temporary)
            }
        };
        Ok((right, kind))
    }

    /// A link on which the client sends. `to`: where its messages go, if not to the entity itself.
    /// `temporary`: a queue to be made for it.
    fn serve_sender(
        &mut self,
        id: LinkId,
        entity: Entity,
        to: Option<Entity>,
        temporary: Option<String>,
    ) -> Result<Kind, Refusal> {
        if entity.sub != SubQueue::Main {
            let why = "messages come to a dead-letter queue by being dead-lettered only";
            return Err(Refusal::InvalidOperation { why }); // SEND-6.
        }
        if entity.subscription().is_some() {
            let why = "messages cannot be sent to a subscription; send to its topic";
            return Err(Refusal::InvalidOperation { why }); // SEND-7.
        }
        let (deliveries, waiting) = mpsc::channel(DELIVERIES_WAITING_MAX);
        let (broker, notes) = (self.shared.broker_for(self.slot), self.tasks.notes.clone());
        match to {
            None => self.spawn(id, temporary, producer::run(id, broker, entity, waiting, notes)),
            Some(to) => self.spawn(id, temporary, via::run(id, broker, entity, to, waiting, notes)),
        }
        Ok(Kind::Incoming(IncomingLink { deliveries, presettled: 0 }))
    }

    /// A link on which the client sends, and whose messages say where to. Which right that takes, each
    /// of them tells.
    fn serve_relay(&mut self, id: LinkId) -> Kind {
        let (deliveries, waiting) = mpsc::channel(DELIVERIES_WAITING_MAX);
        let (broker, notes) = (self.shared.broker_for(self.slot), self.tasks.notes.clone());
        self.tasks.spawn(relay::run(id, broker, waiting, notes));
        Kind::Relay(RelayLink { deliveries, presettled: 0 })
    }

    /// A link on which the client receives.
    fn serve_receiver(
        &mut self,
        id: LinkId,
        entity: Entity,
        wanted: Wanted,
        shown: Shown,
        temporary: Option<String>,
    ) -> Kind {
        let (orders, waiting) = mpsc::channel(ORDERS_WAITING_MAX + 1);
        let end = orders.clone().try_reserve_owned().expect("a new channel has room");
        let (broker, notes) = (self.shared.broker_for(self.slot), self.tasks.notes.clone());
        let (of, unread) = (entity.clone(), self.unread.clone());
        let mode = match shown {
            Shown::Peek => None,
            Shown::ReceiveAndDelete => Some(ReceiveMode::ReceiveAndDelete),
            Shown::PeekLock | Shown::Deferred => Some(ReceiveMode::PeekLock),
        };
        match mode {
            None => {
                let run = browser::run(id, broker, of, wanted, waiting, notes, unread);
                self.spawn(id, temporary, run);
            }
            Some(mode) => {
                let outlet = ReceiverOutlet { notes, unread };
                let run = consumer::run(id, broker, of, wanted, mode, waiting, outlet);
                self.spawn(id, temporary, run);
            }
        }
        Kind::Outgoing(OutgoingLink {
            entity,
            orders,
            end,
            shown,
            session: None,
            unsent: UnsentMessages::new(self.unread.share()),
            sent: 0,
            credit_untold: None,
            verdicts: Vec::new(),
            is_drained: false,
        })
    }

    /// Has a link served, and its queue made before if that is `temporary`.
    fn spawn(
        &mut self,
        id: LinkId,
        temporary: Option<String>,
        serve: impl Future<Output = ()> + Send + 'static,
    ) {
        let (broker, notes) = (self.shared.broker.clone(), self.tasks.notes.clone());
        match temporary {
            None => self.tasks.spawn(serve),
            Some(name) => {
                // That he may make it was seen before.
                let access = &self.shared.config.access;
                let maker = self.grants.holder(access, &name, Right::Manage);
                let caller = self.grants.caller(maker.unwrap_or(&Principal::Anyone));
                let owner = temporary_queue::Owner { caller, trail: self.grants.trail.clone() };
                let kept = temporary_queue::keep(id, broker, name, owner, notes, serve);
                self.tasks.spawn(kept);
            }
        }
    }

    /// LINK-3, LINK-4, LINK-12, LINK-21, LINK-27. Only now the client hears of the link, so it never sees one that is
    /// refused after. False: its client takes no frame that the answer fits into, and the link has ended.
    pub fn accept(&mut self, id: LinkId, terms: Terms) -> bool {
        let Some(link) = self.table.get_mut(id) else { return true };
        self.groups.accept_link(link.session, id);
        (link.is_accepted, link.used_at) = (true, self.now);
        let watched = link.watched_entity();
        let known = |entity: Entity| self.shared.broker.entities().known_here(&entity.name);
        link.entity_id = watched.and_then(known);
        let size_max = self.shared.config.limits.message_bytes_max;
        let mut reply = link.attach.reply(size_max);
        link_terms::set_in_force(&mut reply);
        match terms {
            Terms::Plain => {}
            Terms::Sender { message_bytes_max } => {
                let message_max = message_bytes_max.min(size_max);
                reply.max_message_size = Some(message_max);
                let batch_max = message_max.min(size_max.saturating_sub(DRAWN_IDS_BYTES)).max(1);
                let properties = reply.properties.take().unwrap_or_default();
                reply.properties = Some(properties.symbol(BATCH_SIZE, Value::Ulong(batch_max)));
            }
            Terms::Session { token, until } => {
                let source = reply.source.get_or_insert_default();
                link_terms::set_session(source, token.session.as_str());
                link_terms::set_locked_until(&mut reply, until);
                if let Kind::Outgoing(outgoing) = &mut link.kind {
                    outgoing.session = Some(token);
                }
            }
        }
        if let Kind::Outgoing(outgoing) = &link.kind {
            link_terms::set_mode(&mut reply, outgoing.shown == Shown::Peek);
        }
        if let Kind::Incoming(_) | Kind::Relay(_) = link.kind {
            let offered = [Symbol::from_static(DELAYED_DELIVERY)];
            reply.offered_capabilities = offered.into_iter().collect();
        }
        let window = match link.kind {
            Kind::Incoming(_) | Kind::Relay(_) if link.has_no_credit => 0,
            Kind::Incoming(_) | Kind::Relay(_) => INCOMING_WINDOW,
            Kind::Requests(_) | Kind::Control => REQUESTS_WINDOW,
            Kind::Outgoing(_) | Kind::Replies(_) => 0,
        };
        if self.engine.accept(id, reply).is_err() {
            return false;
        }
        if window > 0 {
            let _ = self.engine.grant(id, window);
        }
        true
    }

    /// FWD-14: where the messages of a sender link go, if its target only brings them there. That takes
    /// the right to send to both.
    fn transfer_destination(&self, attach: &Attach) -> Result<Option<Entity>, Error> {
        let address = link_terms::transfer_destination(attach);
        let address = address.map_err(|refusal| failure::refusal(refusal, ""))?;
        let Some(address) = address else { return Ok(None) };
        match Entity::at(&address) {
            Some(entity) if entity.sub == SubQueue::Main && entity.subscription().is_none() => {
                self.permit(&entity, Right::Send, &address).map(|()| Some(entity))
            }
            _ => {
                let why = "messages are sent to queues and topics only";
                Err(failure::refusal(Refusal::InvalidOperation { why }, &address))
            }
        }
    }

    fn permit(&self, entity: &Entity, right: Right, address: &str) -> Result<(), Error> {
        let access = &self.shared.config.access;
        self.grants.permit(access, &entity.path(), right, address).map(drop)
    }
}

/// A link whose target is the coordinator.
fn control(role: Role) -> Result<Kind, Error> {
    match role {
        Role::Sender => Ok(Kind::Control),
        Role::Receiver => {
            let why = "the coordinator sends nothing";
            Err(Error::new(condition::NOT_ALLOWED, why))
        }
    }
}

/// What a receiver asks for: messages, or those of a session (LINK-10).
fn wanted(attach: &Attach) -> Result<Wanted, Refusal> {
    let filter = attach.source.as_ref().map(SessionFilter::of).transpose();
    let filter = filter.map_err(|_| Refusal::Argument {
        what: link_terms::SESSION_FILTER,
        why: "it is neither a text nor null".to_owned(),
    })?;
    Ok(match filter {
        None | Some(SessionFilter::Absent) => Wanted::Messages,
        Some(SessionFilter::Named(session)) => Wanted::Session((*session).into()),
        Some(SessionFilter::Next) => {
            Wanted::NextSession(link_terms::timeout(attach)?.unwrap_or(SESSION_WAIT))
        }
        // SESS-20.
        Some(SessionFilter::NonExclusive) => {
            return Err(Refusal::NotSupported { what: "a session without a lock" });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coord_1_only_senders_have_business_with_the_coordinator() {
        assert!(matches!(control(Role::Sender), Ok(Kind::Control)));
        let refused = control(Role::Receiver).map(drop).expect_err("it sends nothing");
        assert_eq!(&*refused.condition, condition::NOT_ALLOWED);
    }
}
