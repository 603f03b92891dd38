//! How a receiver link comes to be served (LINK-5): its client is told nothing before the leader of the
//! entity has agreed, or has locked a session for it.

use std::pin::pin;
use std::time::Duration;

use domain::{SessionId, SessionToken, Timestamp};
use service::{Accepted, Broker, Error, ReceiveMode, Receiver};
use tokio::sync::mpsc;

use super::address::Entity;
use super::consumer::{ORDERS_WAITING_MAX, Order};

/// What a receiver link is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Messages,
    /// SESS-6.
    Session(SessionId),
    /// SESS-7: the next that is free, and how long to wait for one.
    NextSession(Duration),
}

/// A receiver that is served.
pub(super) struct Opened {
    pub receiver: Receiver,
    pub session: Option<Held>,
}

/// A session's lock, and its end when it was granted (SESS-8).
pub(super) type Held = (SessionToken, Timestamp);

/// Opens a receiver, unless the connection lets go of the link meanwhile: then what was locked for it
/// is given back, and `None` says that there is nobody to tell. Other orders are kept in `early`.
pub(super) async fn open(
    broker: &Broker,
    entity: &Entity,
    wanted: Wanted,
    mode: ReceiveMode,
    orders: &mut mpsc::Receiver<Order>,
    early: &mut Vec<Order>,
) -> Option<Result<Opened, Error>> {
    // Only the answer tells the token of a session that is asked for by name. The place of one who
    // waits for any is given up by not asking on.
    let is_answer_owed = matches!(wanted, Wanted::Session(_));
    let mut opening = pin!(attach(broker, entity, wanted, mode));
    loop {
        tokio::select! {
            opened = &mut opening => return Some(opened),
            order = orders.recv(), if early.len() < ORDERS_WAITING_MAX => match order {
                Some(Order::End { .. }) | None => break,
                Some(order) => early.push(order),
            }
        }
    }
    if is_answer_owed && let Ok(Opened { session: Some((token, _)), .. }) = opening.await {
        release(broker, entity, token).await;
    }
    None
}

async fn attach(
    broker: &Broker,
    entity: &Entity,
    wanted: Wanted,
    mode: ReceiveMode,
) -> Result<Opened, Error> {
    let Entity { name, sub } = entity;
    let accepted = match wanted {
        Wanted::Messages => {
            let mut receiver = broker.messages().receiver(name, *sub, mode, 0).await?;
            // Whoever serves the receiver answers a drain of nothing, and who does not says why.
            receiver.drain();
            receiver.next().await?;
            return Ok(Opened { receiver, session: None });
        }
        Wanted::Session(session) => broker.sessions().accept(name, *sub, session, mode).await?,
        Wanted::NextSession(wait) => broker.sessions().accept_next(name, *sub, mode, wait).await?,
    };
    let Accepted { token, until, receiver } = accepted;
    Ok(Opened { receiver, session: Some((token, until)) })
}

/// SESS-14. Should it fail, the lock lapses.
pub(super) async fn release(broker: &Broker, entity: &Entity, token: SessionToken) {
    if let Err(error) = broker.sessions().release(&entity.name, token).await {
        tracing::debug!(%error, "a session was not given back");
    }
}
