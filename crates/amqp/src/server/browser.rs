//! A client's browser (LINK-21): a receiver link with copies of what its entity holds. Nothing is
//! locked for it, and nothing goes.

use std::time::Duration;

use amqp_protocol::engine::LinkId;
use domain::{EntityKind, Refusal, SequenceNumber};
use service::{Broker, Error, ErrorKind};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::address::Entity;
use super::consumer::Order;
use super::failure;
use super::note::{Note, Notes, Terms, tell};

/// Most copies asked of the broker at a time. No more are asked for before the client was sent these,
/// so that one that does not read is remembered for no more.
const PORTION_MAX: u32 = 64;
/// A browser that has seen all looks so often for what came since, if it wants more: a browser is for
/// people and for tools, and costs nothing while messages come and go.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Serves the link until the connection lets go of its end, or the entity is gone.
pub(super) async fn run(
    link: LinkId,
    broker: Broker,
    entity: Entity,
    mut orders: mpsc::Receiver<Order>,
    notes: Notes,
) {
    let mut browser = Browser { link, broker, entity, notes, from: SequenceNumber(0) };
    // LINK-5: looked for before the client is told of the link.
    if let Err(error) = browser.find().await {
        return tell(&browser.notes, Note::Failed(link, failure::error(&error))).await;
    }
    tell(&browser.notes, Note::Ready(link, Terms::Plain)).await;
    let (mut wanted, mut handed, mut is_draining) = (0_u32, 0_u32, false);
    let mut look_at = Instant::now();
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Credit { credit, drain }) => {
                    wanted = credit.saturating_sub(handed);
                    is_draining = drain;
                    look_at = Instant::now();
                }
                Some(Order::Sent(count)) => handed = handed.saturating_sub(count),
                // Copies have no lock to settle or to give back.
                Some(Order::Settle(_) | Order::Release(_)) => {}
                Some(Order::End { .. }) | None => return,
            },
            () = sleep_until(look_at), if handed == 0 && (wanted > 0 || is_draining) => {
                match browser.show(wanted.min(PORTION_MAX)).await {
                    Ok(0) if is_draining => {
                        (wanted, is_draining) = (0, false);
                        tell(&browser.notes, Note::Drained(link)).await;
                    }
                    Ok(0) => look_at = Instant::now() + LOOK_EVERY,
                    Ok(count) => {
                        wanted = wanted.saturating_sub(count);
                        handed += count;
                    }
                    // Leadership is moving: the link stays, and looks on.
                    Err(error) if is_passing(&error) => look_at = Instant::now() + LOOK_EVERY,
                    Err(error) => {
                        let failed = Note::Failed(link, failure::error(&error));
                        return tell(&browser.notes, failed).await;
                    }
                }
            }
        }
    }
}

struct Browser {
    link: LinkId,
    broker: Broker,
    entity: Entity,
    notes: Notes,
    /// What was shown is below.
    from: SequenceNumber,
}

impl Browser {
    /// Hands over so many copies; how many it were. None of none wanted.
    async fn show(&mut self, count: u32) -> Result<u32, Error> {
        if count == 0 {
            return Ok(0);
        }
        let messages = self.peek(count).await?;
        let Some(last) = messages.last() else { return Ok(0) };
        self.from = SequenceNumber(last.delivery.sequence.0 + 1);
        let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        tell(&self.notes, Note::Messages(self.link, messages)).await;
        Ok(count)
    }

    /// LINK-7: that there is something to look into, which a topic is not.
    async fn find(&self) -> Result<(), Error> {
        let name = &self.entity.name;
        let found = self.broker.entities().get(name).await;
        if found.is_ok_and(|found| found.info.specifics.kind() == EntityKind::Topic) {
            let why = "a topic holds no messages to show; browse one of its subscriptions";
            return Err(Error::new(Refusal::InvalidOperation { why }, name.as_str()));
        }
        self.peek(1).await.map(drop)
    }

    async fn peek(&self, count: u32) -> Result<Vec<service::Received>, Error> {
        let Entity { name, sub } = &self.entity;
        self.broker.messages().peek(name, *sub, self.from, count, false).await
    }
}

/// To look once more harms nothing, whatever came of the last time.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Unavailable { .. } | ErrorKind::Unknown { .. })
}
