//! A client's browser (LINK-21): a receiver link with copies of what its entity holds. Nothing is
//! locked for it, and nothing goes.

use std::time::Duration;

use amqp_protocol::engine::LinkId;
use domain::{EntityKind, Refusal, SequenceNumber};
use service::{Broker, Error, ErrorKind};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::address::Entity;
use super::backlog::Backlog;
use super::consumer::Order;
use super::failure;
use super::note::{Note, Notes, Terms, tell};
use super::source::Wanted;
use crate::selection::Selection;

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
    wanted: Wanted,
    mut orders: mpsc::Receiver<Order>,
    notes: Notes,
    unread: Backlog,
) {
    let selection = match wanted {
        Wanted::Selected(selection) => Some(selection),
        // One of a session is refused before.
        Wanted::Messages | Wanted::Session(_) | Wanted::NextSession(_) => None,
    };
    let mut browser = Browser { link, broker, entity, selection, notes, from: SequenceNumber(0) };
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
                // Who reads nothing of other links is shown one by one.
                let portion = if unread.is_full() { 1 } else { PORTION_MAX };
                match browser.show(wanted.min(portion)).await {
                    // A look at messages that are not wanted is over, and the next goes on behind them.
                    Ok(Look { shown: 0, ended: false }) => look_at = Instant::now(),
                    Ok(Look { shown: 0, .. }) if is_draining => {
                        (wanted, is_draining) = (0, false);
                        tell(&browser.notes, Note::Drained(link)).await;
                    }
                    Ok(Look { shown: 0, .. }) => look_at = Instant::now() + LOOK_EVERY,
                    Ok(Look { shown, .. }) => {
                        wanted = wanted.saturating_sub(shown);
                        handed += shown;
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

/// Most messages that one look for selected ones goes through.
const SELECTED_FROM_MAX: u32 = 250;

/// What a look came to.
struct Look {
    shown: u32,
    /// There was nothing to look at.
    ended: bool,
}

struct Browser {
    link: LinkId,
    broker: Broker,
    entity: Entity,
    selection: Option<Selection>,
    notes: Notes,
    /// What was shown is below.
    from: SequenceNumber,
}

impl Browser {
    /// Hands over at most so many copies. None of none wanted.
    async fn show(&mut self, count: u32) -> Result<Look, Error> {
        const NOTHING: Look = Look { shown: 0, ended: true };
        if count == 0 {
            return Ok(NOTHING);
        }
        let looked_at = match &self.selection {
            None => self.peek(count).await?,
            // However few it wants, those may be far from each other.
            Some(_) => self.peek(SELECTED_FROM_MAX).await?,
        };
        let Some(last) = looked_at.last() else { return Ok(NOTHING) };
        let mut behind = SequenceNumber(last.delivery.sequence.0 + 1);
        let mut messages = looked_at;
        if let Some(selection) = &self.selection {
            messages.retain(|message| selection.takes(message));
            if let Some(left) = messages.get(count as usize) {
                behind = left.delivery.sequence;
            }
            messages.truncate(count as usize);
        }
        self.from = behind;
        let shown = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        if shown > 0 {
            tell(&self.notes, Note::Messages(self.link, messages)).await;
        }
        Ok(Look { shown, ended: false })
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
