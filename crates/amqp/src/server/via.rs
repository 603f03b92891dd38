//! A client's sender link whose messages are for another entity than its target (FWD-14): each
//! delivery is a transaction of its own, one after the other, unless it is part of one (COORD-5).

use amqp_protocol::engine::LinkId;
use service::{Broker, Caller, Error};
use tokio::sync::mpsc;

use super::address::Entity;
use super::note::{Note, Notes, Terms, tell};
use super::submission::Delivered;
use super::{failure, producer, submission};

/// Serves the link until the connection lets go of its end.
pub(super) async fn run(
    link: LinkId,
    broker: Broker,
    via: Entity,
    to: Entity,
    mut deliveries: mpsc::Receiver<Delivered>,
    notes: Notes,
) {
    let terms = match check(&broker, &via, &to).await {
        Ok(terms) => terms,
        Err(error) => return tell(&notes, Note::Failed(link, failure::error(&error))).await,
    };
    tell(&notes, Note::Ready(link, terms)).await;
    while let Some(Delivered { id, messages, share }) = deliveries.recv().await {
        let sent = match messages {
            Ok(messages) => {
                broker.transactions().send_via(&via.name, &to.name, messages, Caller::Edge).await
            }
            Err(refusal) => Err(Error::new(refusal, via.name.as_str())),
        };
        drop(share);
        tell(&notes, submission::outcome(link, id, sent)).await;
    }
}

/// That both are there (LINK-15), and what the first one takes. Whether the other takes it is found
/// when it arrives there.
async fn check(broker: &Broker, via: &Entity, to: &Entity) -> Result<Terms, Error> {
    broker.check_transactions()?;
    broker.entities().get(&to.name).await?;
    producer::terms(broker, &via.name).await
}
