//! A client's sender link (XFER-1 to XFER-3): deliveries go to the broker as they come and are
//! answered in their order. While requests are under way, deliveries gather into the next one, so
//! that a busy link costs the log few entries. Repeats within the cluster are the broker's
//! [`Sender`]'s affair (SEND-8).

use std::collections::VecDeque;

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::{DeliveryId, LinkId};
use domain::{Refusal, SequenceNumber};
use service::{Broker, Error, ErrorKind, Sender};
use tokio::sync::mpsc;

use super::address::Entity;
use super::failure;
use super::gathering::{Delivered, Flight, Waiting, gather};
use super::note::{Note, Notes, Terms, tell};

/// Requests under way, per link. Few make larger ones under load; what waits meanwhile, the link's
/// credit bounds.
const REQUESTS_MAX: usize = 8;

/// Serves the link until the connection lets go of its end, and all that came is on its way.
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
    let (waiting, flights) = (VecDeque::new(), VecDeque::new());
    let mut intake = Intake { link, sender, serial: 0, waiting, flights, notes };
    let mut is_open = true;
    // What came before the end is stored, whoever still waits for its outcome.
    while is_open || !intake.waiting.is_empty() {
        // If anything waits, something is under way: see `dispatch`.
        let is_answer_due = !intake.flights.is_empty();
        tokio::select! {
            biased;
            answer = intake.sender.next(), if is_answer_due => {
                if let Some((_, result)) = answer {
                    intake.decided(result);
                }
            }
            delivered = deliveries.recv(), if is_open => match delivered {
                Some(delivered) => intake.waiting.push_back(Waiting::new(delivered)),
                None => is_open = false,
            },
        }
        while let Ok(delivered) = deliveries.try_recv() {
            intake.waiting.push_back(Waiting::new(delivered));
        }
        intake.dispatch().await;
    }
}

async fn open(broker: &Broker, name: &str) -> Result<(Sender, Terms), Error> {
    let terms = terms(broker, name).await?;
    Ok((broker.sender(name, None).await?, terms))
}

/// Looks whether messages can be sent there at all (LINK-7), and how large they may be.
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
    waiting: VecDeque<Waiting>,
    /// What the sender has under way, in order.
    flights: VecDeque<Flight>,
    notes: Notes,
}

impl Intake {
    /// Makes requests of what waits, as many as may be under way.
    async fn dispatch(&mut self) {
        while self.flights.len() < REQUESTS_MAX
            && let Some((flight, messages)) = gather(&mut self.waiting)
        {
            match self.sender.submit(self.serial + 1, false, messages).await {
                Ok(()) => {
                    self.serial += 1;
                    self.flights.push_back(flight);
                }
                Err(error) => self.refuse(flight.ids, &error),
            }
        }
    }

    /// What the log decided on the oldest request.
    fn decided(&mut self, result: service::Result<Vec<SequenceNumber>>) {
        let Some(flight) = self.flights.pop_front() else { return };
        match result {
            Ok(_) => self.tell(flight.ids, DeliveryState::ACCEPTED),
            // It takes one to have all refused, so each is tried by itself.
            Err(Error { kind: ErrorKind::Refused(_), .. }) if flight.is_gathered() => {
                flight.split().rev().for_each(|each| self.waiting.push_front(each));
            }
            Err(error) => self.refuse(flight.ids, &error),
        }
    }

    fn refuse(&self, ids: Vec<Option<DeliveryId>>, error: &Error) {
        self.tell(ids, DeliveryState::rejected(failure::error(error)));
    }

    /// Each delivery of a request comes to the same.
    fn tell(&self, ids: Vec<Option<DeliveryId>>, state: DeliveryState) {
        for _ in ids.iter().filter(|id| id.is_none()) {
            tell(&self.notes, Note::Stored(self.link));
        }
        let asked: Vec<DeliveryId> = ids.into_iter().flatten().collect();
        if !asked.is_empty() {
            tell(&self.notes, Note::Decided(asked, state));
        }
    }
}
