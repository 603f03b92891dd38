//! A receiver at the edge: it grants credit, is handed messages in batches, settles them, and looks
//! for the new leader when the one that served it is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Command, Disposition, LockToken, Outcome, QueueId, ReceiverId, Refusal, SequenceNumber,
    SessionToken, Settle, Settlement, SubQueue, Timestamp,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::edge::address::Caller;
use crate::edge::attachment::Attachment;
use crate::edge::namespace_use::UsedName;
use crate::edge::router::{Failure, Hold, Route, Router, not_found};
use crate::error::{Error, ErrorKind, Result, Unavailable};
use crate::exchange::{Attach, Detached, Event, Received, Sink, Wanted, release, release_session};
use crate::history::{Attribution, Deed};
use crate::leader::settle_requests;
use crate::peer::WaitingReceiver;

/// An attachment that held this long was a good one: what ends it starts a new outage.
const SETTLED_IN: Duration = Duration::from_secs(1);
/// First pause before attaching again.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Messages handed over whose settlement this receiver remembers to have not seen; beyond, those
/// that lapsed by their first lock are forgotten.
const ARRIVED_MAX: usize = 8192;

/// Events that wait for the receiver. Each delivery among them used credit up, so that as many wait only
/// where so much was granted and nobody takes it. What finds no place goes back uncounted (LOCK-20), and
/// the receiver attaches anew once it has taken what waits.
const EVENTS_WAITING_MAX: usize = 8192;

/// LOCK-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveMode {
    #[default]
    PeekLock,
    /// A lock that the edge completes just before it hands the message out (LOCK-2).
    ReceiveAndDelete,
}

/// How a receiver receives.
pub(crate) struct Terms {
    pub sub: SubQueue,
    pub mode: ReceiveMode,
    pub hold: Hold,
    pub by: Attribution,
}

/// What a receiver is waiting for.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// All messages that were waiting, at least one.
    Messages(Vec<Received>),
    /// After [`Receiver::drain`]: no credit is left, and nothing is under way.
    Drained,
    /// The session it waited for is its own, until then (SESS-7, SESS-8).
    Accepted { token: SessionToken, until: Timestamp },
    /// A watcher's: messages from this number to that have become available, or some of them (SEL-7).
    Rose { low: SequenceNumber, high: SequenceNumber },
}

/// Positions whose settlement was refused; the others are done.
pub type Refusals = Vec<(u32, Refusal)>;

type Completing = Pin<Box<dyn Future<Output = Result<Refusals>> + Send>>;

/// Receives from one queue or dead-letter queue. Dropping it gives back what it was granted and
/// nobody took, without counting a delivery; messages handed over keep their locks (LOCK-18).
pub struct Receiver {
    router: Arc<Router>,
    name: UsedName,
    route: Route,
    sub: SubQueue,
    mode: ReceiveMode,
    /// On whose behalf it receives and settles.
    by: Attribution,
    /// Its epoch counts the attaches.
    id: ReceiverId,
    session: Option<Wanted>,
    attachment: Option<Attachment>,
    /// The leader had no place for a word of this receiver, and serves it no more: its last word comes.
    is_parting: bool,
    events: mpsc::Receiver<Event>,
    /// An event taken while looking for more messages.
    put_back: Option<Event>,
    /// Credit granted and not used.
    credit: u32,
    waiting: WaitingReceiver,
    draining: bool,
    /// Handed over and not settled, by the nonces of their locks.
    arrived: Arc<Mutex<BTreeMap<SequenceNumber, u64>>>,
    /// Receive-and-delete: messages about to be handed over, once they are completed.
    completing: Option<(Vec<Received>, Completing)>,
    attached_at: Instant,
    lost_since: Option<Instant>,
    pause: Duration,
    retry_at: Option<Instant>,
}

impl Receiver {
    /// `session`: which one, where the queue requires them. Without credit until one is held.
    pub(crate) fn attach(
        router: Arc<Router>,
        name: UsedName,
        route: Route,
        Terms { sub, mode, hold, by }: Terms,
        credit: u32,
        session: Option<Wanted>,
    ) -> Receiver {
        let (_, events) = mpsc::channel(1);
        let id = router.next_receiver(hold, mode, 0);
        let waiting = router.local.receivers.add(id.link, route.entity);
        let mut receiver = Receiver {
            waiting,
            router,
            name,
            route,
            sub,
            mode,
            by,
            id,
            session,
            attachment: None,
            is_parting: false,
            events,
            put_back: None,
            credit,
            draining: false,
            arrived: Arc::default(),
            completing: None,
            attached_at: Instant::now(),
            lost_since: None,
            pause: PAUSE_MIN,
            retry_at: None,
        };
        receiver.tell_credit();
        receiver.attach_again();
        receiver
    }

    fn queue(&self) -> QueueId {
        QueueId { entity: self.route.entity, sub: self.sub }
    }

    /// Grants `count` more messages (LOCK-7).
    pub fn add_credit(&mut self, count: u32) {
        if count == 0 {
            return;
        }
        self.credit = self.credit.saturating_add(count);
        self.tell_credit();
        self.draining = false;
        if let Some(attachment) = self.attachment.as_ref().filter(|_| !self.is_parting) {
            self.is_parting = !attachment.credit(self.id, count);
        }
    }

    /// IDLE-4: whoever waits for a session or holds one is in need of no credit to be there.
    fn tell_credit(&self) {
        self.waiting.credit(self.credit.max(self.session.is_some().into()));
    }

    /// Credit granted and not used.
    pub fn credit(&self) -> u32 {
        self.credit
    }

    /// Uses credit up with what is there and withdraws the rest; [`Next::Drained`] tells when.
    pub fn drain(&mut self) {
        self.draining = true;
        if let Some(attachment) = self.attachment.as_ref().filter(|_| !self.is_parting) {
            self.is_parting = !attachment.drain(self.id);
        }
    }

    /// The next messages, waiting for them. An error ends the receiver, unless it says that no
    /// leader was found: then it may be asked again. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Result<Next> {
        loop {
            if let Some((messages, completing)) = &mut self.completing {
                let refusals = completing.await;
                let messages = std::mem::take(messages);
                self.completing = None;
                match consumed(messages, refusals?) {
                    messages if messages.is_empty() => continue,
                    messages => return Ok(Next::Messages(messages)),
                }
            }
            if self.attachment.is_none() {
                self.look_for_leader().await?;
            }
            let event = match self.put_back.take() {
                Some(event) => Some(event),
                None => self.events.recv().await,
            };
            match event {
                Some(Event::Deliveries(messages)) => {
                    let messages = self.gather(messages);
                    match self.mode {
                        ReceiveMode::PeekLock => return Ok(Next::Messages(messages)),
                        ReceiveMode::ReceiveAndDelete => self.complete(messages),
                    }
                }
                Some(Event::Accepted { token, until }) => {
                    self.lost_since = None;
                    self.session = Some(Wanted::Held(token.clone()));
                    return Ok(Next::Accepted { token, until });
                }
                Some(Event::Rose { low, high }) => {
                    self.lost_since = None;
                    return Ok(Next::Rose { low, high });
                }
                Some(Event::Drained) => {
                    if self.draining {
                        self.draining = false;
                        self.credit = 0;
                        self.tell_credit();
                        return Ok(Next::Drained);
                    }
                }
                Some(Event::Detached(Detached::LeaderLost)) | None => self.lose(),
                Some(Event::Detached(Detached::Refused(Refusal::StaleRoute { entity }))) => {
                    self.attachment = None;
                    self.reroute(entity).await?;
                }
                Some(Event::Detached(Detached::Refused(Refusal::Relocated { to, .. }))) => {
                    // While it is on its way it is looked for as a leader is.
                    self.lose();
                    self.route.group = to.unwrap_or(self.route.group);
                }
                Some(Event::Detached(Detached::Refused(refusal))) => {
                    self.attachment = None;
                    return Err(self.error(refusal));
                }
            }
        }
    }

    /// Adds all messages that wait to those that came: one answer for all.
    fn gather(&mut self, mut messages: Vec<Received>) -> Vec<Received> {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Deliveries(more) => messages.extend(more),
                other => {
                    self.put_back = Some(other);
                    break;
                }
            }
        }
        self.lost_since = None;
        self.credit = self.credit.saturating_sub(messages.len() as u32);
        self.tell_credit();
        let mut arrived = self.arrived.lock();
        let locks = messages.iter().filter_map(|message| message.delivery.lock);
        self.by.note(Deed::Received, &self.name, locks.clone().map(|lock| lock.token));
        arrived.extend(locks.map(|lock| (lock.token.sequence, lock.token.nonce)));
        while arrived.len() > ARRIVED_MAX {
            // The lowest numbers are the oldest: settled elsewhere, or lapsed.
            arrived.pop_first();
        }
        messages
    }

    fn complete(&mut self, messages: Vec<Received>) {
        let tokens = messages.iter().filter_map(|message| message.delivery.lock);
        let complete = |token| Settlement { token, disposition: Disposition::Complete };
        let settlements: Vec<Settlement> = tokens.map(|lock| complete(lock.token)).collect();
        let settling: Completing = Box::pin(self.settle(settlements));
        self.completing = Some((messages, settling));
    }

    /// Settles messages of this queue, as many as there are, posted at once. The future gives the refused
    /// ones.
    pub fn settle(
        &self,
        settlements: Vec<Settlement>,
    ) -> impl Future<Output = Result<Refusals>> + Send + 'static {
        let requests = settle_requests(settlements);
        let posted: Vec<_> = requests
            .into_iter()
            .map(|request| (request.len(), self.settle_request(request)))
            .collect();
        async move {
            let (mut refused, mut first) = (Vec::new(), 0);
            for (count, settling) in posted {
                let more = settling.await?.into_iter();
                refused.extend(more.map(|(at, refusal)| (first + at, refusal)));
                first += count as u32;
            }
            Ok(refused)
        }
    }

    /// Gives back, without counting a delivery, what was handed over and is not settled, as far as it is
    /// remembered.
    pub fn release_arrived(&self) -> impl Future<Output = Result<Refusals>> + Send + 'static {
        let release = |(sequence, nonce): (&SequenceNumber, &u64)| Settlement {
            token: LockToken { sequence: *sequence, nonce: *nonce },
            disposition: Disposition::Release,
        };
        let settlements = self.arrived.lock().iter().map(release).collect();
        self.settle(settlements)
    }

    fn settle_request(
        &self,
        settlements: Vec<Settlement>,
    ) -> impl Future<Output = Result<Refusals>> + Send + 'static {
        let router = self.router.clone();
        let (name, route) = (self.name.clone(), self.route.clone());
        let arrived = self.arrived.clone();
        let tokens: Vec<LockToken> =
            settlements.iter().map(|settlement| settlement.token).collect();
        self.by.note(Deed::Settled, &name, tokens.iter().copied());
        let settle = Settle { origin: None, queue: self.queue(), settlements, atomic: false };
        let mut command = Command::Settle(settle);
        router.stamp(&mut command, &route, Caller::Edge);
        let deadline = router.deadline();
        let mut pending = router.post(route.group, command);
        async move {
            let (mut route, mut pause) = (route, PAUSE_MIN);
            let answer = loop {
                match router.finish(route.group, pending, deadline).await {
                    Ok(answer) => break answer,
                    Err(Failure::Error(kind)) => return Err(Error::new(kind, name)),
                    Err(Failure::Mendable {
                        refusal: Refusal::Relocated { entity, to },
                        mut command,
                    }) => {
                        let to = (entity, to);
                        let followed =
                            router.follow(&mut route.group, to, &mut pause, deadline).await;
                        followed.map_err(|kind| Error::new(kind, name.clone()))?;
                        router.stamp(&mut command, &route, Caller::Edge);
                        pending = router.post(route.group, command);
                    }
                    Err(Failure::Mendable { .. }) => return Err(not_found(name.as_str())),
                }
            };
            match answer.outcome {
                Outcome::Settled { refused } => {
                    let mut arrived = arrived.lock();
                    for (at, token) in (0..).zip(&tokens) {
                        // Its lock may well be held on: by a transaction that waits with it, say (TX-9).
                        let is_refused = refused.binary_search_by_key(&at, |(at, _)| *at).is_ok();
                        // What was abandoned may have come again before this answer.
                        if !is_refused && arrived.get(&token.sequence) == Some(&token.nonce) {
                            arrived.remove(&token.sequence);
                        }
                    }
                    Ok(refused)
                }
                Outcome::Refused(refusal) => Err(Error::new(refusal, name)),
                other => Err(unexpected(&other, name.into())),
            }
        }
    }

    /// The leader is lost: what it sent came before this, what it did not is released by the next.
    fn lose(&mut self) {
        self.attachment = None;
        let now = Instant::now();
        if self.lost_since.is_none() || now.duration_since(self.attached_at) > SETTLED_IN {
            self.lost_since = Some(now);
            self.pause = PAUSE_MIN;
        }
        self.retry_at = Some(now + self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    async fn look_for_leader(&mut self) -> Result<()> {
        if let Some(at) = self.retry_at {
            tokio::time::sleep_until(at).await;
            self.retry_at = None;
        }
        let timeout = self.router.config.request_timeout;
        if self.lost_since.is_some_and(|since| since.elapsed() > timeout) {
            self.lost_since = Some(Instant::now());
            let group = self.route.group;
            let why = self.router.want_of_leader(group).unwrap_or(Unavailable::NoLeader(group));
            return Err(self.error(ErrorKind::Unavailable { why }));
        }
        self.attach_again();
        Ok(())
    }

    fn attach_again(&mut self) {
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        self.events = events;
        self.is_parting = false;
        self.id.epoch += 1;
        self.attached_at = Instant::now();
        let attach = Attach {
            receiver: self.id,
            queue: self.queue(),
            credit: self.credit,
            session: self.session.clone(),
            arrived: match self.id.epoch {
                1 => Vec::new(),
                _ => {
                    let arrived = self.arrived.lock();
                    let token = |(sequence, nonce): (&_, &_)| LockToken {
                        sequence: *sequence,
                        nonce: *nonce,
                    };
                    arrived.iter().map(token).collect()
                }
            },
            sink: Sink::Local(sender),
        };
        self.attachment = self.router.attach(self.route.group, attach);
        if self.draining
            && let Some(attachment) = &self.attachment
        {
            self.is_parting = !attachment.drain(self.id);
        }
    }

    /// The group does not know the entity: it may have been created anew under its name.
    async fn reroute(&mut self, stale: domain::EntityId) -> Result<()> {
        let router = &self.router;
        let route = router.refresh(&self.name, router.deadline()).await?;
        if route.entity == stale {
            return Err(not_found(self.name.as_str()));
        }
        self.waiting.moved(route.entity);
        self.route = route;
        self.arrived.lock().clear();
        Ok(())
    }

    fn error(&self, kind: impl Into<ErrorKind>) -> Error {
        Error::new(kind, &self.name)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(attachment) = &self.attachment {
            attachment.detach(self.id);
        }
        // What comes after this finds nobody and is released by whoever sent it.
        self.events.close();
        let (queue, mut left) = (self.queue(), Vec::new());
        let events = self.put_back.take().into_iter();
        for event in events.chain(std::iter::from_fn(|| self.events.try_recv().ok())) {
            match event {
                Event::Deliveries(messages) => left.extend(messages),
                Event::Accepted { token, .. } => {
                    let command = release_session(queue, token);
                    drop(self.router.post(self.route.group, command));
                }
                Event::Rose { .. } | Event::Drained | Event::Detached(_) => (),
            }
        }
        if let Some(command) = release(queue, &left) {
            // Nobody waits for it: if it fails, the locks lapse.
            drop(self.router.post(self.route.group, command));
        }
    }
}

/// LOCK-2: what was completed is handed out, without its lock; what was not is still there.
pub(crate) fn consumed(messages: Vec<Received>, refused: Refusals) -> Vec<Received> {
    let refused: BTreeSet<u32> = refused.into_iter().map(|(at, _)| at).collect();
    let kept = messages.into_iter().zip(0..).filter(|(_, at)| !refused.contains(at));
    kept.map(|(mut message, _)| {
        message.delivery.lock = None;
        message
    })
    .collect()
}

/// An outcome that no command of this kind has: the leader speaks another language.
pub(crate) fn unexpected(outcome: &Outcome, name: Arc<str>) -> Error {
    tracing::error!(?outcome, entity = %name, "unexpected outcome");
    Error::new(Refusal::PerhapsDone, name)
}
