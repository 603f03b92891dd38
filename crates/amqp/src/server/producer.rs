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
use super::note::{Note, Notes, Terms, tell};
use super::submission::{Delivered, Submission, Waiting, gather};

/// Requests under way, per link. Few make larger ones under load; what waits meanwhile, the link's
/// credit bounds.
const REQUESTS_MAX: usize = 8;

/// Serves the link until the connection lets go of its end, and all that came is on its way.
pub(super) async fn run(
    link: LinkId,
    broker: Broker,
    entity: Entity,
    mut deliveries: mpsc::Receiver<Delivered>,
    notes: Notes,
) {
    let (sender, terms) = match open(&broker, &entity.name).await {
        Ok(opened) => opened,
        Err(error) => return tell(&notes, Note::Failed(link, failure::error(&error))).await,
    };
    tell(&notes, Note::Ready(link, terms)).await;
    let (waiting, submissions) = (VecDeque::new(), VecDeque::new());
    let mut producer = Producer { link, sender, serial: 0, waiting, submissions, notes };
    let mut is_open = true;
    // What came before the end is stored, whoever still waits for its outcome.
    while is_open || !producer.waiting.is_empty() {
        // If anything waits, something is under way: see `dispatch`.
        let is_answer_due = !producer.submissions.is_empty();
        tokio::select! {
            biased;
            answer = producer.sender.next(), if is_answer_due => {
                if let Some((_, result)) = answer {
                    producer.decided(result).await;
                }
            }
            delivered = deliveries.recv(), if is_open => match delivered {
                Some(delivered) => producer.waiting.push_back(Waiting::new(delivered)),
                None => is_open = false,
            },
        }
        while let Ok(delivered) = deliveries.try_recv() {
            producer.waiting.push_back(Waiting::new(delivered));
        }
        producer.dispatch().await;
    }
}

async fn open(broker: &Broker, name: &str) -> Result<(Sender, Terms), Error> {
    let terms = terms(broker, name).await?;
    Ok((broker.messages().sender(name, None).await?, terms))
}

/// Looks whether messages can be sent there at all (LINK-7), and how large they may be.
pub(super) async fn terms(broker: &Broker, name: &str) -> Result<Terms, Error> {
    let properties = broker.entities().get(name).await?.info.properties;
    if properties.status.refuses_send() {
        let status = properties.status.as_str();
        return Err(Error::new(Refusal::EntityDisabled { status }, name));
    }
    Ok(Terms::Sender { message_bytes_max: u64::from(properties.max_message_size_kilobytes) * 1024 })
}

struct Producer {
    link: LinkId,
    sender: Sender,
    serial: u64,
    waiting: VecDeque<Waiting>,
    /// What the sender has under way, in order.
    submissions: VecDeque<Submission>,
    notes: Notes,
}

impl Producer {
    /// Makes requests of what waits, as many as may be under way.
    async fn dispatch(&mut self) {
        while self.submissions.len() < REQUESTS_MAX
            && let Some((submission, messages)) = gather(&mut self.waiting)
        {
            match self.sender.submit(self.serial + 1, false, messages).await {
                Ok(()) => {
                    self.serial += 1;
                    self.submissions.push_back(submission);
                }
                Err(error) => self.refuse(submission.ids, &error).await,
            }
        }
    }

    /// What the log decided on the oldest request.
    async fn decided(&mut self, result: service::Result<Vec<SequenceNumber>>) {
        let Some(submission) = self.submissions.pop_front() else { return };
        match result {
            Ok(_) => self.tell(submission.ids, DeliveryState::ACCEPTED).await,
            // It takes one to have all refused, so each is tried by itself.
            Err(Error { kind: ErrorKind::Refused(_), .. }) if submission.is_gathered() => {
                submission.split().rev().for_each(|each| self.waiting.push_front(each));
            }
            Err(error) => self.refuse(submission.ids, &error).await,
        }
    }

    async fn refuse(&self, ids: Vec<Option<DeliveryId>>, error: &Error) {
        self.tell(ids, DeliveryState::rejected(failure::error(error))).await;
    }

    /// Each delivery of a request comes to the same.
    async fn tell(&self, ids: Vec<Option<DeliveryId>>, state: DeliveryState) {
        for _ in ids.iter().filter(|id| id.is_none()) {
            tell(&self.notes, Note::Stored(self.link)).await;
        }
        let asked: Vec<DeliveryId> = ids.into_iter().flatten().collect();
        if !asked.is_empty() {
            tell(&self.notes, Note::Decided(asked, state)).await;
        }
    }
}
