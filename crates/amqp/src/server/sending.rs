//! A client's sender link (§4): deliveries go to the broker as they come and are answered in their
//! order. Repeats within the cluster are the broker's [`Sender`]'s affair (SEND-8).

use std::collections::VecDeque;

use domain::{NewMessage, Refusal, SequenceNumber};
use service::{Broker, Error, Sender};
use tokio::sync::mpsc;

use super::address::Entity;
use super::failure;
use super::note::{Note, Notes, Terms, tell};
use crate::codec::DeliveryState;
use crate::engine::{DeliveryId, LinkId};

/// Deliveries submitted and not answered, per link: more wait in the link, which its credit bounds.
const WAITING_MAX: usize = 256;

/// A delivery, as one batch.
pub(super) struct Delivered {
    /// `None`: the client settled it and wants no outcome (MSG-9).
    pub id: Option<DeliveryId>,
    pub messages: Result<Vec<NewMessage>, Refusal>,
}

/// Serves the link until the connection lets go of its end.
pub(super) async fn run(
    link: LinkId,
    broker: Broker,
    entity: Entity,
    mut deliveries: mpsc::UnboundedReceiver<Delivered>,
    notes: Notes,
) {
    let (sender, terms) = match open(&broker, &entity.name).await {
        Ok(opened) => opened,
        Err(error) => return tell(&notes, Note::Failed(link, failure::error(&error))),
    };
    tell(&notes, Note::Ready(link, terms));
    let mut intake = Intake { link, sender, serial: 0, waiting: VecDeque::new(), notes };
    loop {
        let waiting = intake.waiting.len();
        tokio::select! {
            biased;
            answer = intake.sender.next(), if waiting > 0 => {
                if let Some((_, result)) = answer {
                    intake.decided(result);
                }
            }
            delivered = deliveries.recv(), if waiting < WAITING_MAX => match delivered {
                Some(delivered) => intake.submit(delivered).await,
                None => return,
            },
        }
    }
}

async fn open(broker: &Broker, name: &str) -> Result<(Sender, Terms), Error> {
    let terms = terms(broker, name).await?;
    Ok((broker.sender(name, None).await?, terms))
}

/// Looks whether messages can be sent there at all (§3.2), and how large they may be.
pub(super) async fn terms(broker: &Broker, name: &str) -> Result<Terms, Error> {
    let properties = broker.get_entity(name).await?.info.properties;
    if properties.status.refuses_send() {
        let status = properties.status.as_str();
        return Err(Error::new(Refusal::EntityDisabled { status }, name));
    }
    Ok(Terms::Sender { message_bytes_max: u64::from(properties.max_message_size_kilobytes) * 1024 })
}

struct Intake {
    link: LinkId,
    sender: Sender,
    serial: u64,
    /// Of what the sender has under way, in order.
    waiting: VecDeque<Option<DeliveryId>>,
    notes: Notes,
}

impl Intake {
    async fn submit(&mut self, delivered: Delivered) {
        let Delivered { id, messages } = delivered;
        match self.sender.submit(self.serial + 1, false, messages).await {
            Ok(()) => {
                self.serial += 1;
                self.waiting.push_back(id);
            }
            Err(error) => self.tell(id, DeliveryState::rejected(failure::error(&error))),
        }
    }

    fn decided(&mut self, result: service::Result<Vec<SequenceNumber>>) {
        let id = self.waiting.pop_front().flatten();
        let state = match result {
            Ok(_) => DeliveryState::ACCEPTED,
            Err(error) => DeliveryState::rejected(failure::error(&error)),
        };
        self.tell(id, state);
    }

    fn tell(&self, id: Option<DeliveryId>, state: DeliveryState) {
        let note = match id {
            Some(id) => Note::Decided(id, state),
            None => Note::Stored(self.link),
        };
        tell(&self.notes, note);
    }
}
