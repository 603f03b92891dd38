//! How a receiver link comes to be served (LINK-5): its client is told nothing before the leader of the
//! entity has agreed, or has locked a session for it.

use std::pin::pin;
use std::time::Duration;

use domain::{SessionId, SessionToken, Timestamp};
use service::{Accepted, Broker, Error, ReceiveMode};
use tokio::sync::mpsc;

use super::address::Entity;
use super::consumer::Order;
use super::supply::Supply;
use crate::selection::Selection;

/// What a receiver link is for.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Messages,
    /// LINK-20: those that a selector takes.
    Selected(Selection),
    /// SESS-6.
    Session(SessionId),
    /// SESS-7: the next that is free, and how long to wait for one.
    NextSession(Duration),
}

/// A receiver that is served.
pub(super) struct Opened {
    pub supply: Supply,
    pub session: Option<Held>,
}

/// A session's lock, and its end when it was granted (SESS-8).
pub(super) type Held = (SessionToken, Timestamp);

/// Opens a receiver, unless the connection lets go of the link meanwhile: then what was locked for it
/// is given back, and `None` says that there is nobody to tell. `credit` is the client's last word on it
/// meanwhile.
pub(super) async fn open(
    broker: &Broker,
    entity: &Entity,
    wanted: Wanted,
    mode: ReceiveMode,
    orders: &mut mpsc::Receiver<Order>,
    credit: &mut Option<Order>,
) -> Option<Result<Opened, Error>> {
    // Only the answer tells the token of a session that is asked for by name. The place of one who
    // waits for any is given up by not asking on.
    let is_answer_owed = matches!(wanted, Wanted::Session(_));
    let mut opening = pin!(attach(broker, entity, wanted, mode));
    if let Some(opened) = unless_ended(opening.as_mut(), orders, credit).await {
        return Some(opened);
    }
    if is_answer_owed && let Ok(Opened { session: Some((token, _)), .. }) = opening.await {
        release(broker, entity, token).await;
    }
    None
}

/// What `opening` comes to, unless the connection lets go of the link before. However many orders a client
/// causes meanwhile, the last is seen at once.
async fn unless_ended<T>(
    mut opening: impl Future<Output = T> + Unpin,
    orders: &mut mpsc::Receiver<Order>,
    credit: &mut Option<Order>,
) -> Option<T> {
    loop {
        tokio::select! {
            opened = &mut opening => return Some(opened),
            order = orders.recv() => match order {
                // It says all there is to say of credit. The engine owes a client no answer to a drain
                // that it took back, and one answer to any number of them.
                Some(order @ Order::Credit { .. }) => *credit = Some(order),
                // They are about messages, of which none was handed over yet.
                Some(Order::Sent(_) | Order::Settle(_) | Order::Release(_)) => {}
                Some(Order::End { .. }) | None => return None,
            }
        }
    }
}

async fn attach(
    broker: &Broker,
    entity: &Entity,
    wanted: Wanted,
    mode: ReceiveMode,
) -> Result<Opened, Error> {
    let Entity { name, sub } = entity;
    let sessions = broker.sessions().of_connection();
    let accepted = match wanted {
        Wanted::Messages => {
            let supply = Supply::all(broker, entity, mode).await?;
            return Ok(Opened { supply, session: None });
        }
        Wanted::Selected(selection) => {
            let supply = Supply::selected(broker, entity, selection, mode).await?;
            return Ok(Opened { supply, session: None });
        }
        Wanted::Session(session) => sessions.accept(name, *sub, session, mode).await?,
        Wanted::NextSession(wait) => sessions.accept_next(name, *sub, mode, wait).await?,
    };
    let Accepted { token, until, receiver } = accepted;
    Ok(Opened { supply: Supply::All(receiver.into()), session: Some((token, until)) })
}

/// SESS-14. Should it fail, the lock lapses.
pub(super) async fn release(broker: &Broker, entity: &Entity, token: SessionToken) {
    if let Err(error) = broker.sessions().release(&entity.name, token).await {
        tracing::debug!(%error, "a session was not given back");
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt;

    use super::super::consumer::{GivesBack, ORDERS_WAITING_MAX};
    use super::*;

    /// A client gives credit over and over while its link waits for a session; whoever serves the link
    /// takes what there is whenever there is no more place.
    fn flows(orders: &mpsc::Sender<Order>, mut take: impl FnMut()) {
        for credit in 1..=1_000 {
            let order = Order::Credit { credit, drain: credit == 1_000 };
            let Err(full) = orders.try_send(order) else { continue };
            take();
            orders.try_send(full.into_inner()).expect("what there is was taken");
        }
    }

    #[test]
    fn link_13_the_end_of_a_link_that_waits_is_seen_behind_any_number_of_flows() {
        let (orders, mut waiting) = mpsc::channel(ORDERS_WAITING_MAX);
        let mut credit = None;
        flows(&orders, || {
            let told = unless_ended(pending::<()>(), &mut waiting, &mut credit).now_or_never();
            assert_eq!(told, None, "it waits for its session");
        });
        let end =
            Order::End { verdicts: Vec::new(), unsent: Vec::new(), gives_back: GivesBack::Session };
        let told = unless_ended(pending::<()>(), &mut waiting, &mut credit).now_or_never();
        assert_eq!(told, None, "it waits for its session");
        orders.try_send(end).expect("there is a place");
        let told = unless_ended(pending::<()>(), &mut waiting, &mut credit).now_or_never();
        assert_eq!(told, Some(None), "it has ended");
        assert!(matches!(credit, Some(Order::Credit { credit: 1_000, drain: true })));
    }

    #[test]
    fn a_link_that_is_served_begins_with_the_last_word_on_credit() {
        let (orders, mut waiting) = mpsc::channel(ORDERS_WAITING_MAX);
        let mut credit = None;
        for (count, drain) in [(9, false), (8, true), (7, false)] {
            orders.try_send(Order::Credit { credit: count, drain }).expect("there is a place");
        }
        let told = unless_ended(pending::<()>(), &mut waiting, &mut credit).now_or_never();
        assert_eq!(told, None);
        let told = unless_ended(ready(5), &mut waiting, &mut credit).now_or_never();
        assert_eq!(told, Some(Some(5)));
        assert!(matches!(credit, Some(Order::Credit { credit: 7, drain: false })));
    }
}
