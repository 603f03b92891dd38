//! A client's sender link without a target (LINK-24): each message goes where its own `to` says, as the
//! senders of JMS have it that name no destination.

use amqp_protocol::codec::Error;
use amqp_protocol::engine::{Delivery, DeliveryId, LinkId};
use amqp_protocol::message::Message;
use auth::{Access, Right};
use bytes::BytesMut;
use domain::{NewMessage, Refusal, SubQueue};
use message_content::{BATCH_FORMAT, ingest};
use service::{Broker, Caller, draw_uuid};
use tokio::sync::mpsc;

use super::access::Grants;
use super::address::Entity;
use super::backlog::Share;
use super::note::{Notes, tell};
use super::requests::undecodable;
use super::{failure, submission};
use crate::Limits;

/// A message, and where it goes.
pub(super) struct Addressed {
    /// `None`: the client settled it and wants no outcome (MSG-9).
    pub id: Option<DeliveryId>,
    pub to: Entity,
    pub messages: Vec<NewMessage>,
    /// What it takes until it is stored, where nobody else counts it.
    pub share: Option<Share>,
}

/// Serves the link until the connection lets go of its end: one message after the other.
pub(super) async fn run(
    link: LinkId,
    broker: Broker,
    mut deliveries: mpsc::Receiver<Addressed>,
    notes: Notes,
) {
    while let Some(Addressed { id, to, messages, share }) = deliveries.recv().await {
        let sent = broker.messages().send(&to.name, messages, Caller::Edge).await;
        drop(share);
        tell(&notes, submission::outcome(link, id, sent)).await;
    }
}

/// Where a delivery goes, which takes the right to send there.
pub(super) fn addressed(
    delivery: &Delivery,
    limits: &Limits,
    grants: &Grants,
    access: &Access,
    scratch: &mut BytesMut,
) -> Result<Addressed, Error> {
    let refused = |refusal| failure::refusal(refusal, "");
    let payload = delivery.payload.as_ref().map_err(|large| {
        refused(Refusal::MessageSizeExceeded {
            what: "the message",
            bytes: large.bytes,
            max: large.max,
        })
    })?;
    if delivery.message_format == BATCH_FORMAT {
        let what = "a batch on a link without a target; attach a link to its entity: this";
        return Err(refused(Refusal::NotSupported { what }));
    }
    let properties = Message::parse(payload.clone(), limits)
        .and_then(|message| message.properties(limits))
        .map_err(|error| refused(undecodable(error)))?;
    let Some(address) = properties.to.as_ref().and_then(|to| to.as_str()) else {
        let why = "it is missing; on a link without a target it says where the message goes";
        return Err(refused(Refusal::Argument { what: "to", why: why.to_owned() }));
    };
    let takes = |entity: &Entity| entity.sub == SubQueue::Main && entity.subscription().is_none();
    let Some(to) = Entity::at(address).filter(takes) else {
        let why = "messages are sent to queues and topics only";
        return Err(failure::refusal(Refusal::InvalidOperation { why }, address));
    };
    grants.permit(access, &to.path(), Right::Send, address)?;
    let id = (!delivery.settled).then_some(delivery.id);
    let messages = ingest(delivery.message_format, payload, limits, draw_uuid, scratch)
        .map_err(|refusal| failure::refusal(refusal, address))?;
    Ok(Addressed { id, to, messages, share: None })
}
