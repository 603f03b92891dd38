//! A client's sender link whose messages are for another entity than its target (FWD-14): each
//! delivery is a transaction of its own, one after the other, unless it is part of one (§8).

use domain::Refusal;
use service::{Asker, Broker, Error};
use tokio::sync::mpsc;

use super::address::Entity;
use super::failure;
use super::note::{Note, Notes, tell};
use super::sending::Delivered;
use crate::codec::DeliveryState;
use crate::engine::LinkId;

/// Serves the link until the connection lets go of its end.
pub(super) async fn run(
    link: LinkId,
    broker: Broker,
    via: Entity,
    to: Entity,
    mut deliveries: mpsc::UnboundedReceiver<Delivered>,
    notes: Notes,
) {
    if let Err(error) = check(&broker, &via, &to).await {
        return tell(&notes, Note::Failed(link, failure::error(&error)));
    }
    tell(&notes, Note::Ready(link));
    while let Some(Delivered { id, messages }) = deliveries.recv().await {
        let sent = match messages {
            Ok(messages) => broker.send_via(&via.name, &to.name, messages, Asker::Edge).await,
            Err(refusal) => Err(Error::new(refusal, via.name.as_str())),
        };
        let note = match (id, sent) {
            (None, _) => Note::Stored(link),
            (Some(id), Ok(_)) => Note::Decided(id, DeliveryState::ACCEPTED),
            (Some(id), Err(error)) => {
                Note::Decided(id, DeliveryState::rejected(failure::error(&error)))
            }
        };
        tell(&notes, note);
    }
}

/// That both are there to be sent to (§3.2).
async fn check(broker: &Broker, via: &Entity, to: &Entity) -> Result<(), Error> {
    for entity in [via, to] {
        if broker.kind(&entity.name).await? == domain::EntityKind::Subscription {
            let why = "messages cannot be sent to a subscription; send to its topic";
            return Err(Error::new(Refusal::InvalidOperation { why }, entity.name.as_str()));
        }
    }
    Ok(())
}
