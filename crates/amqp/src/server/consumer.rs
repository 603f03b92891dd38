//! A client's receiver link (FLOW-7, FLOW-11, SETTLE-4): its credit goes to the broker in portions,
//! and its verdicts go to the log.

use std::collections::VecDeque;
use std::time::Duration;

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::{DeliveryId, LinkId};
use domain::{Disposition, LockToken, Refusal, SessionToken, Settlement, TOKENS_MAX};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use service::{Broker, Error, ErrorKind, Next, ReceiveMode, Refusals};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::address::Entity;
use super::backlog::Backlog;
use super::failure;
use super::note::{Note, Notes, Terms, tell};
use super::source::{self, Opened, Wanted};
use super::supply::Supply;
use super::verdict::Verdict;

/// Most messages asked of the broker that the client has not been sent yet: whatever credit a client
/// gives, one that does not read is remembered for no more than these.
const PORTION_MAX: u32 = 256;
/// What a message takes, until one has come.
const MESSAGE_BYTES_GUESS: usize = 64 * 1024;
/// Requests with verdicts under way, per link; verdicts gather meanwhile, so that a busy link costs the
/// log few entries.
const SETTLING_MAX: usize = 8;

/// Orders that whoever serves the link has not taken yet. It takes all there are at a time, so a client
/// gets here only by asking over and over within one turn: then the last of its words on credit waits with
/// the connection, as all else there is to say does.
pub(super) const ORDERS_WAITING_MAX: usize = 256;

/// What the connection tells the link, in the order it happened.
#[derive(Debug)]
pub(super) enum Order {
    /// The client's credit that is left; with `drain` it wants back what is not used at once.
    Credit {
        credit: u32,
        drain: bool,
    },
    /// So many of the messages handed over were sent.
    Sent(u32),
    Settle(Vec<Verdict>),
    /// Handed over and not sent: back, without counting a delivery (LOCK-20).
    Release(Vec<LockToken>),
    /// The last.
    End {
        verdicts: Vec<Verdict>,
        unsent: Vec<LockToken>,
        gives_back: GivesBack,
    },
}

/// What goes back when a link ends, beside what was not sent.
#[derive(Debug)]
pub(super) enum GivesBack {
    /// Nothing: its client was lost, and may have lost itself over what it received (SESS-12, LOCK-18).
    Nothing,
    /// Its session (SESS-14).
    Session,
    /// All that its client has of it, as the node ends (LOCK-28). The sender goes when that is done.
    Everything(oneshot::Sender<()>),
}

/// How what is received gets to the client.
pub(super) struct ReceiverOutlet {
    pub notes: Notes,
    /// What waits for the client, over all its links.
    pub unread: Backlog,
}

/// Serves the link until the connection lets go of its end, or the broker of the receiver.
pub(super) async fn run(
    link: LinkId,
    broker: Broker,
    entity: Entity,
    wanted: Wanted,
    mode: ReceiveMode,
    mut orders: mpsc::Receiver<Order>,
    ReceiverOutlet { notes, unread }: ReceiverOutlet,
) {
    let mut credit = None;
    let opened = source::open(&broker, &entity, wanted, mode, &mut orders, &mut credit).await;
    let Opened { supply, session } = match opened {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => return tell(&notes, Note::Failed(link, failure::error(&error))).await,
        None => return,
    };
    let terms = match session.clone() {
        Some((token, until)) => Terms::Session { token, until },
        None => Terms::Plain,
    };
    tell(&notes, Note::Ready(link, terms)).await;
    let token = session.clone().map(|(token, _)| token);
    let mut consumer = Consumer::new(link, broker.clone(), entity, token, supply, notes, unread);
    consumer.is_locking = mode == ReceiveMode::PeekLock;
    if let Some(order) = credit {
        consumer.take(order).await;
    }
    let done = loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::End { verdicts, unsent, gives_back }) => {
                    consumer.unposted.extend(verdicts);
                    consumer.release(unsent);
                    consumer.post(usize::MAX);
                    match gives_back {
                        GivesBack::Nothing => return,
                        GivesBack::Session => break None,
                        GivesBack::Everything(done) => break Some(done),
                    }
                }
                Some(order) => consumer.take(order).await,
                None => return consumer.post(usize::MAX),
            },
            next = consumer.supply.next() => {
                if let Err(error) = consumer.received(next).await {
                    consumer.post(usize::MAX);
                    if consumer.waits_for_nothing(&error) {
                        consumer.outlast(&mut orders).await;
                    }
                    return tell(&consumer.notes, Note::Failed(link, failure::error(&error))).await;
                }
            }
            () = consumer.unread.room(), if consumer.is_held_up => consumer.adjust().await,
            Some(answers) = consumer.settling.next() => {
                tell(&consumer.notes, Note::Settled(answers)).await;
                consumer.post(SETTLING_MAX);
            }
        }
    };
    match session {
        Some((token, _)) => source::release(&broker, &consumer.entity, token).await,
        None if done.is_some() => consumer.release_arrived().await,
        None => (),
    }
    drop(done);
}

type Answers = Vec<(DeliveryId, DeliveryState)>;

struct Consumer {
    link: LinkId,
    broker: Broker,
    entity: Entity,
    /// The session that it holds, if it is a session's.
    session: Option<SessionToken>,
    supply: Supply,
    notes: Notes,
    /// Messages the client wants that were not handed over yet.
    wanted: u32,
    /// Messages handed over and not sent.
    handed: u32,
    /// What waits for the client, over all its links.
    unread: Backlog,
    /// It is asked for nothing until there is room in that.
    is_held_up: bool,
    /// Of the messages so far, about: what a portion of them will take.
    message_bytes: usize,
    /// Whether messages are sent under locks.
    is_locking: bool,
    /// Messages sent under locks, less verdicts that came outside of transactions.
    unsettled: u64,
    is_draining: bool,
    /// Credit is being taken back from the broker; so much of it was not used yet.
    withdrawing: Option<u32>,
    /// Verdicts not posted yet.
    unposted: VecDeque<Verdict>,
    settling: FuturesUnordered<BoxFuture<'static, Answers>>,
}

impl Consumer {
    fn new(
        link: LinkId,
        broker: Broker,
        entity: Entity,
        session: Option<SessionToken>,
        supply: Supply,
        notes: Notes,
        unread: Backlog,
    ) -> Consumer {
        Consumer {
            unread,
            is_held_up: false,
            message_bytes: MESSAGE_BYTES_GUESS,
            link,
            broker,
            entity,
            session,
            supply,
            is_locking: true,
            unsettled: 0,
            notes,
            wanted: 0,
            handed: 0,
            is_draining: false,
            withdrawing: None,
            unposted: VecDeque::new(),
            settling: FuturesUnordered::new(),
        }
    }

    async fn take(&mut self, order: Order) {
        match order {
            Order::Credit { credit, drain } => {
                self.wanted = credit.saturating_sub(self.handed);
                self.is_draining = drain;
                self.adjust().await;
            }
            Order::Sent(count) => {
                self.unsettled += if self.is_locking { u64::from(count) } else { 0 };
                self.handed = self.handed.saturating_sub(count);
                self.adjust().await;
            }
            Order::Settle(verdicts) => {
                self.unsettled = self.unsettled.saturating_sub(verdicts.len() as u64);
                self.unposted.extend(verdicts);
                self.post(SETTLING_MAX);
            }
            Order::Release(tokens) => {
                let count = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
                self.handed = self.handed.saturating_sub(count);
                self.release(tokens);
                self.adjust().await;
            }
            // The loop's affair.
            Order::End { .. } => {}
        }
    }

    fn release(&self, tokens: Vec<LockToken>) {
        if tokens.is_empty() {
            return;
        }
        let release = |token| Settlement { token, disposition: Disposition::Release };
        let settlements: Vec<Settlement> = tokens.into_iter().map(release).collect();
        // Nobody waits for it: if it fails, the locks lapse.
        drop(self.supply.settle(settlements));
    }

    /// What its client has and did not settle; behind its verdicts.
    fn release_arrived(&self) -> impl Future<Output = ()> + Send + 'static {
        let released = self.supply.release_arrived();
        async move {
            if let Err(error) = released.await {
                tracing::debug!(%error, "messages were not given back");
            }
        }
    }

    /// Makes the broker's credit what the client wants, as far as there is room.
    async fn adjust(&mut self) {
        if self.withdrawing.is_some() {
            return; // The answer to it comes first.
        }
        let granted = self.supply.credit();
        if granted > self.wanted {
            return self.withdraw();
        }
        let room = self.portion().saturating_sub(self.handed.saturating_add(granted));
        self.supply.add_credit((self.wanted - granted).min(room));
        if !self.is_draining {
            return;
        }
        match self.supply.credit() {
            0 if self.wanted == 0 => self.drained().await,
            0 => {} // There will be room once the client was sent what it was promised.
            _ => self.withdraw(),
        }
    }

    /// How many messages the client may have been promised and not sent: as many as there is room for in
    /// what waits for it, over all its links.
    fn portion(&mut self) -> u32 {
        let fitting = self.unread.left() / self.message_bytes.max(1);
        let portion = u32::try_from(fitting).unwrap_or(PORTION_MAX).min(PORTION_MAX);
        // Locks are given back where there is no credit, so there will be room; what was deleted waits for
        // this client, and must not hold up its other links.
        self.is_held_up = self.is_locking && self.unread.is_full() && self.handed == 0;
        if self.is_held_up { 0 } else { portion.max(1) }
    }

    fn withdraw(&mut self) {
        self.withdrawing = Some(self.supply.credit());
        self.supply.drain();
    }

    async fn drained(&mut self) {
        self.is_draining = false;
        self.wanted = 0;
        tell(&self.notes, Note::Drained(self.link)).await;
    }

    async fn received(&mut self, next: service::Result<Next>) -> Result<(), Error> {
        match next {
            Ok(Next::Messages(messages)) => {
                let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
                let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
                self.message_bytes = bytes / messages.len().max(1);
                self.wanted = self.wanted.saturating_sub(count);
                self.handed = self.handed.saturating_add(count);
                if let Some(unused) = &mut self.withdrawing {
                    *unused = unused.saturating_sub(count);
                }
                tell(&self.notes, Note::Messages(self.link, messages)).await;
                Ok(())
            }
            Ok(Next::Drained) => {
                // A portion that was used up says nothing of whether there is more.
                let is_exhausted = self.withdrawing.take().is_some_and(|unused| unused > 0);
                match self.is_draining && is_exhausted {
                    true => self.drained().await,
                    false => self.adjust().await,
                }
                Ok(())
            }
            // Only who asked for a session is given one, and only a watcher is told what rose.
            Ok(Next::Accepted { .. } | Next::Rose { .. }) => Ok(()),
            // Leadership is moving: the link stays, and the receiver looks on.
            Err(error) if matches!(error.kind, ErrorKind::Unavailable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// LINK-26: whether all that the client loses with its session is a wait for messages.
    fn waits_for_nothing(&self, error: &Error) -> bool {
        let is_lost = matches!(error.refusal(), Some(Refusal::SessionLockLost { .. }));
        self.session.is_some() && is_lost && self.unsettled == 0
    }

    /// LINK-26: a client that waits for messages of a session that it has lost may end its wait by itself,
    /// for as long as the lock lasted. It is given none, and told of its loss when it asks for more.
    async fn outlast(&mut self, orders: &mut mpsc::Receiver<Order>) {
        let found = self.broker.entities().get(&self.entity.name).await;
        let Ok(found) = found else { return };
        let lock = Duration::from_millis(found.info.properties.lock_duration.0);
        let until = Instant::now() + lock;
        if self.is_draining {
            self.drained().await;
        }
        while let Ok(Some(order)) = timeout_at(until, orders.recv()).await {
            match order {
                Order::Credit { drain: true, .. } => self.drained().await,
                Order::Credit { credit: 0, .. } | Order::Sent(_) | Order::Release(_) => {}
                Order::Credit { .. } | Order::Settle(_) | Order::End { .. } => return,
            }
        }
    }

    /// Posts verdicts, in as many requests as may be under way. With no maximum it posts all.
    fn post(&mut self, settling_max: usize) {
        while !self.unposted.is_empty() && self.settling.len() < settling_max {
            let (mut asked, mut settlements, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
            let mut shares = Vec::new();
            let count = self.unposted.len().min(TOKENS_MAX);
            for Verdict { id, settlement, answer, share } in self.unposted.drain(..count) {
                shares.extend(share);
                asked.push((id, answer));
                tokens.push(settlement.token);
                settlements.push(settlement);
            }
            // Posted here and now; only its outcome is waited for.
            let outcome = self.supply.settle(settlements);
            let (broker, name) = (self.broker.clone(), self.entity.name.clone());
            let session = self.session.clone();
            self.settling.push(Box::pin(async move {
                let outcome = match outcome.await {
                    Ok(refusals) => Ok(match &session {
                        Some(session) => {
                            let sessions = broker.sessions();
                            sessions.told_lost(&name, session, &tokens, refusals).await
                        }
                        None => refusals,
                    }),
                    Err(error) => Err(error),
                };
                drop(shares);
                answers(asked, outcome, &name)
            }));
        }
    }
}

/// What each verdict is answered: itself if it was done, else why not (SETTLE-5, SETTLE-6).
fn answers(
    asked: Vec<(Option<DeliveryId>, DeliveryState)>,
    outcome: service::Result<Refusals>,
    name: &str,
) -> Answers {
    let refused = |error: &Error| DeliveryState::rejected(failure::error(error));
    let mut answers = asked;
    match outcome {
        Ok(refusals) => {
            for (at, refusal) in refusals {
                if let Some((_, answer)) = answers.get_mut(at as usize) {
                    *answer = refused(&Error::new(refusal, name));
                }
            }
        }
        Err(error) => answers.iter_mut().for_each(|(_, answer)| *answer = refused(&error)),
    }
    answers.into_iter().filter_map(|(id, answer)| id.map(|id| (id, answer))).collect()
}

#[cfg(test)]
mod tests {
    use amqp_protocol::codec::Outcome;
    use domain::{Refusal, SequenceNumber};

    use super::*;
    use crate::condition;

    /// LOCK-17: each verdict has its own answer; one nobody waits for has none.
    #[test]
    fn settle_10_settle_13_each_verdict_is_answered_for_itself() {
        let mut connection = amqp_protocol::engine::Connection::client(
            amqp_protocol::engine::Config {
                container_id: "c".into(),
                hostname: None,
                offered_capabilities: Default::default(),
                properties: None,
                limits: crate::Limits::default(),
            },
            amqp_protocol::engine::Mechanism::Anonymous,
            amqp_protocol::engine::Millis(0),
        );
        let session = connection.begin().expect("a channel is free");
        let id = |id| DeliveryId { session, id };
        let done = DeliveryState::ACCEPTED;
        let token = LockToken { sequence: SequenceNumber(1), nonce: 1 };
        let asked = vec![(Some(id(1)), done.clone()), (None, done.clone()), (Some(id(3)), done)];
        let refusals = vec![(2, Refusal::MessageLockLost { token })];
        let answers = answers(asked, Ok(refusals), "q");
        assert_eq!(answers.len(), 2);
        assert_eq!(answers[0], (id(1), DeliveryState::ACCEPTED));
        let (told, DeliveryState::Outcome(Outcome::Rejected(Some(error)))) = &answers[1] else {
            panic!("{answers:?}");
        };
        assert_eq!((*told, &*error.condition), (id(3), condition::MESSAGE_LOCK_LOST));
    }
}
