//! Attach requests (§3.2): which node, with which right, served by whom.

use std::collections::VecDeque;

use domain::{Refusal, SubQueue};
use service::ReceiveMode;
use tokio::sync::mpsc;

use super::access;
use super::address::{Entity, Node};
use super::failure;
use super::links::{Intake, Kind, Link, Links, Outlet, address_of};
use super::{receiving, sending, via};
use crate::codec::{Attach, Error, Role, SenderSettleMode, SessionFilter, Source, Value};
use crate::engine::{LinkId, SessionId};
use crate::sas::Right;

/// Credit of a sender link, and deliveries of it without a verdict, together: JS and .NET send
/// nothing without.
const INTAKE_WINDOW: u32 = 1000;
/// The same of a link for requests.
const REQUESTS_WINDOW: u32 = 50;
/// For batches, beside what `max-message-size` says (§3.1).
const BATCH_SIZE: &str = "com.microsoft:max-message-batch-size";

impl Links {
    pub(super) fn on_attach(&mut self, session: SessionId, id: LinkId, attach: Box<Attach>) {
        match self.serve(id, &attach) {
            Ok((right, kind)) => {
                let is_waiting = matches!(kind, Kind::Intake(_) | Kind::Outlet(_));
                self.links.insert(id, Link { session, attach, right, kind });
                if !is_waiting {
                    self.accept(id);
                }
            }
            Err(error) => {
                let reply = attach.reply(self.shared.config.limits.message_bytes_max);
                let _ = self.engine.refuse(id, reply, error);
            }
        }
    }

    /// Finds who serves a link. Entities are looked up while the client waits.
    fn serve(&mut self, id: LinkId, attach: &Attach) -> Result<(Option<Right>, Kind), Error> {
        let address = address_of(attach).unwrap_or_default();
        let refused = |refusal| failure::refusal(refusal, address);
        if let Some(control) = Links::control(attach) {
            return control.map(|kind| (None, kind));
        }
        let node = Node::parse(address).map_err(refused)?;
        let right = match (&node, attach.role) {
            (Node::Cbs, _) => None,
            // Which right a request takes, its operation tells.
            (Node::Management(_), _) => None,
            (Node::Entity(_), Role::Sender) => Some(Right::Send),
            (Node::Entity(_), Role::Receiver) => Some(Right::Listen),
        };
        let access = &self.shared.config.access;
        if let Some(right) = right
            && !self.grants.allow(access, address, right)
        {
            return Err(failure::unauthorized(access::name(right), address));
        }
        let kind = match (node, attach.role) {
            (node @ (Node::Cbs | Node::Management(_)), Role::Sender) => Kind::Requests(node),
            (Node::Cbs | Node::Management(_), Role::Receiver) => Kind::Replies(VecDeque::new()),
            (Node::Entity(entity), Role::Sender) => {
                let to = self.transfer_destination(attach)?;
                self.intake(id, entity, to).map_err(refused)?
            }
            (Node::Entity(entity), Role::Receiver) => {
                let source = attach.source.as_ref();
                check_filter(source, &entity).map_err(refused)?;
                self.outlet_of(id, entity, attach.snd_settle_mode)
            }
        };
        Ok((right, kind))
    }

    /// `to`: where its messages go, if not to the entity itself.
    fn intake(&mut self, id: LinkId, entity: Entity, to: Option<Entity>) -> Result<Kind, Refusal> {
        if entity.sub != SubQueue::Main {
            let why = "messages come to a dead-letter queue by being dead-lettered only";
            return Err(Refusal::InvalidOperation { why });
        }
        let (deliveries, waiting) = mpsc::unbounded_channel();
        let (broker, notes) = (self.shared.broker.clone(), self.notes.clone());
        self.work.push(match to {
            None => Box::pin(sending::run(id, broker, entity, waiting, notes)),
            Some(to) => Box::pin(via::run(id, broker, entity, to, waiting, notes)),
        });
        Ok(Kind::Intake(Intake { deliveries, presettled: 0 }))
    }

    fn outlet_of(&mut self, id: LinkId, entity: Entity, mode: SenderSettleMode) -> Kind {
        // §6: what is sent settled was deleted before.
        let mode = match mode {
            SenderSettleMode::Settled => ReceiveMode::ReceiveAndDelete,
            SenderSettleMode::Unsettled | SenderSettleMode::Mixed => ReceiveMode::PeekLock,
        };
        let (orders, waiting) = mpsc::unbounded_channel();
        let (broker, notes) = (self.shared.broker.clone(), self.notes.clone());
        self.work.push(Box::pin(receiving::run(id, broker, entity, mode, waiting, notes)));
        Kind::Outlet(Outlet {
            orders,
            mode,
            unsent: VecDeque::new(),
            sent: 0,
            verdicts: Vec::new(),
            is_drained: false,
        })
    }

    /// Rules 7, 8. Only now the client hears of the link, so it never sees one that is refused after.
    pub(super) fn accept(&mut self, id: LinkId) {
        let Some(link) = self.links.get(&id) else { return };
        let size_max = self.shared.config.limits.message_bytes_max;
        let mut reply = link.attach.reply(size_max);
        let properties = reply.properties.get_or_insert_default();
        *properties = std::mem::take(properties).symbol(BATCH_SIZE, Value::Ulong(size_max));
        let window = match link.kind {
            Kind::Intake(_) => INTAKE_WINDOW,
            Kind::Requests(_) | Kind::Control => REQUESTS_WINDOW,
            Kind::Outlet(_) | Kind::Replies(_) => 0,
        };
        // A link that is gone was forgotten with its event.
        let accepted = self.engine.accept(id, reply);
        if accepted.is_ok() && window > 0 {
            let _ = self.engine.grant(id, window);
        }
    }
}

/// §3.2: whoever asks for a session asks for what these entities do not have.
fn check_filter(source: Option<&Source>, entity: &Entity) -> Result<(), Refusal> {
    let filter = source.map(Source::session_filter).transpose();
    let filter = filter.map_err(|error| Refusal::Argument {
        what: "session filter",
        why: format!("'{}': {error}", entity.name),
    })?;
    match filter {
        None | Some(SessionFilter::Absent) => Ok(()),
        Some(SessionFilter::Next | SessionFilter::Named(_)) => {
            let why = "the entity does not require sessions, so no session can be received from it";
            Err(Refusal::InvalidOperation { why })
        }
        Some(SessionFilter::NonExclusive) => {
            Err(Refusal::NotSupported { what: "a session without a lock" })
        }
    }
}
