//! What comes from the client: messages go to whoever serves their link, requests to their node.

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::{Delivery, LinkId};
use domain::Refusal;
use message_content::ingest;
use service::draw_uuid;
use tokio::sync::mpsc;

use super::address::Node;
use super::gathering::Delivered;
use super::links::{Kind, Link, Links};

/// Deliveries that the client settled itself, under way per link: the engine counts only those that
/// it has to answer, so beyond this nothing is read.
const PRESETTLED_MAX: u32 = 64;

/// The connection's side of a sender link.
pub(super) struct Intake {
    pub deliveries: mpsc::UnboundedSender<Delivered>,
    /// Settled by the client and not stored yet.
    pub presettled: u32,
}

impl Links {
    pub(super) fn on_delivery(&mut self, delivery: Delivery) {
        self.touch(delivery.link);
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

    /// One more that the client settled itself: [`Links::stored`] is told when it is stored.
    pub(super) fn count_presettled(&mut self, id: LinkId) {
        if let Some(Link { kind: Kind::Intake(intake), .. }) = self.links.get_mut(&id) {
            intake.presettled += 1;
            if intake.presettled >= PRESETTLED_MAX {
                self.full.insert(id);
            }
        }
    }

    /// One that the client settled itself is stored.
    pub(super) fn stored(&mut self, id: LinkId) {
        if let Some(Link { kind: Kind::Intake(intake), .. }) = self.links.get_mut(&id) {
            intake.presettled -= 1;
            self.full.remove(&id);
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
        ingest(delivery.message_format, payload, limits, draw_uuid, &mut self.scratch)
    }
}
