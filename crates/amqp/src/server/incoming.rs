//! Messages that come from the client: they go to whoever serves their link.

use amqp_protocol::Limits;
use amqp_protocol::engine::{Delivery, LinkId};
use bytes::BytesMut;
use domain::{NewMessage, Refusal};
use message_content::ingest;
use service::draw_uuid;
use tokio::sync::mpsc;

use super::link_table::LinkTable;
use super::submission::Delivered;

/// Deliveries that the client settled itself, under way per link: the engine counts only those that
/// it has to answer, so beyond this nothing is read.
pub(super) const PRESETTLED_MAX: u32 = 64;

/// The connection's side of a sender link.
pub(super) struct IncomingLink {
    pub deliveries: mpsc::UnboundedSender<Delivered>,
    /// Settled by the client and not stored yet.
    pub presettled: u32,
}

/// Hands a delivery to whoever serves its link.
pub(super) fn take_in(table: &mut LinkTable, id: LinkId, delivered: Delivered) {
    if delivered.id.is_none() {
        table.count_presettled(id);
    }
    if let Some(incoming) = table.incoming(id) {
        // Fails only once the link has, and then nobody is to be answered.
        let _ = incoming.deliveries.send(delivered);
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
