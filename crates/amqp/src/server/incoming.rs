//! Messages that come from the client: they go to whoever serves their link.

use amqp_protocol::Limits;
use amqp_protocol::engine::{Delivery, LinkId};
use bytes::BytesMut;
use domain::{NewMessage, Refusal};
use message_content::ingest;
use service::draw_uuid;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::link_table::{Kind, LinkTable};
use super::relay::Addressed;
use super::submission::Delivered;

/// Deliveries that the client settled itself, under way per link: the engine counts only those that
/// it has to answer, so beyond this nothing is read.
pub(super) const PRESETTLED_MAX: u32 = 64;

/// The connection's side of a sender link.
pub(super) struct IncomingLink {
    pub deliveries: mpsc::Sender<Delivered>,
    /// Settled by the client and not stored yet.
    pub presettled: u32,
}

/// The connection's side of a sender link without a target (LINK-24).
pub(super) struct RelayLink {
    pub deliveries: mpsc::Sender<Addressed>,
    /// Settled by the client and not stored yet.
    pub presettled: u32,
}

/// Hands a delivery to whoever serves its link. False: there is no place for it.
pub(super) fn take_in(table: &mut LinkTable, id: LinkId, delivered: Delivered) -> bool {
    if delivered.id.is_none() {
        table.count_presettled(id);
    }
    let Some(incoming) = table.incoming(id) else { return true };
    // One that has ended takes none, and nobody is to be answered.
    !matches!(incoming.deliveries.try_send(delivered), Err(TrySendError::Full(_)))
}

/// As [`take_in`], of a link without a target.
pub(super) fn relay(table: &mut LinkTable, id: LinkId, addressed: Addressed) -> bool {
    if addressed.id.is_none() {
        table.count_presettled(id);
    }
    match table.get(id).map(|link| &link.kind) {
        Some(Kind::Relay(relay)) => {
            !matches!(relay.deliveries.try_send(addressed), Err(TrySendError::Full(_)))
        }
        _ => true,
    }
}

/// The messages of a delivery, as the machine takes them.
pub(super) fn messages(
    delivery: &Delivery,
    limits: &Limits,
    scratch: &mut BytesMut,
) -> Result<Vec<NewMessage>, Refusal> {
    let payload = delivery.payload.as_ref().map_err(|large| Refusal::MessageSizeExceeded {
        what: "the message",
        bytes: large.bytes,
        max: large.max,
    })?;
    ingest(delivery.message_format, payload, limits, draw_uuid, scratch)
}
