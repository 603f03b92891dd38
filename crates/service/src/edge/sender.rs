//! Pipelined sends to one queue: submitted now, awaited later, stored in the order submitted even
//! over a change of leader (MSG-10).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use domain::{Command, GroupId, NewMessage, Outcome, Refusal, Send, SequenceNumber};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::edge::address::Caller;
use crate::edge::admission::Admission;
use crate::edge::messages::check_batch;
use crate::edge::namespace_use::UsedName;
use crate::edge::receiver::unexpected;
use crate::edge::router::{PendingCall, Route, Router, not_found};
use crate::error::{Error, ErrorKind, Result, Unavailable, Unknown};
use crate::exchange::Failed;
use crate::history::{Attribution, Deed};

/// First pause before what came back is sent again.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// A sender this long without anything under way speaks as a new producer: groups forget producers
/// after 15 minutes (SEND-8).
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// Sends batches to one queue. Each is answered in the order submitted.
pub struct Sender {
    router: Arc<Router>,
    admission: Arc<Admission>,
    name: UsedName,
    /// On whose behalf it sends.
    by: Attribution,
    route: Route,
    numbering: Numbering,
    batches: VecDeque<Batch>,
    /// Something of this sender was accepted by the entity of `route`.
    accepted: bool,
    /// The group does not know the entity of `route`.
    stale: bool,
    /// It was, and is no more: what comes now is answered like what met that.
    gone: bool,
    /// The group waits for a serial that no batch has any more.
    gap: bool,
    /// The entity left the group of `route` for this one.
    relocated: Option<GroupId>,
    pause: Duration,
    retry_at: Option<Instant>,
}

/// Who numbers the batches for the group.
enum Numbering {
    /// The edge, for a client that names no producer.
    Edge {
        producer: u64,
        last_serial: u64,
        used_at: Instant,
    },
    Client {
        producer: u64,
    },
}

struct Batch {
    /// The client's.
    serial: u64,
    /// The client's word that it sent this before.
    retry: bool,
    state: BatchState,
    deadline: Instant,
    /// It may have been applied: an end without an answer is "perhaps done".
    doubt: bool,
    /// Refused at the edge: what is sent in its place only uses its serial up.
    refusal: Option<Refusal>,
    /// Bytes of the node's budget.
    _share: OwnedSemaphorePermit,
}

enum BatchState {
    Posted(PendingCall),
    /// Came back and waits to be sent again.
    Back(Command),
    Done(Result<Vec<SequenceNumber>>),
}

impl Sender {
    /// `producer`: the client's, if it numbers its batches and may repeat them; its serials must
    /// then follow each other over all its senders to this queue.
    pub(crate) fn new(
        router: &Arc<Router>,
        admission: &Arc<Admission>,
        name: UsedName,
        route: Route,
        producer: Option<u64>,
        by: Attribution,
    ) -> Sender {
        let numbering = match producer {
            Some(producer) => Numbering::Client { producer },
            None => Numbering::edge(),
        };
        Sender {
            router: router.clone(),
            admission: admission.clone(),
            name,
            by,
            route,
            numbering,
            batches: VecDeque::new(),
            accepted: false,
            stale: false,
            gone: false,
            gap: false,
            relocated: None,
            pause: PAUSE_MIN,
            retry_at: None,
        }
    }

    /// Batches submitted and not answered.
    pub fn waiting(&self) -> usize {
        self.batches.len()
    }

    /// Submits a batch, or the refusal an edge met with it, which is answered in its turn; waits
    /// only while the node holds too many bytes that are not stored yet.
    pub async fn submit(
        &mut self,
        serial: u64,
        retry: bool,
        messages: Result<Vec<NewMessage>, Refusal>,
    ) -> Result<()> {
        let checked = messages.and_then(|messages| {
            check_batch(&messages)?;
            Ok(messages)
        });
        // A batch refused here still goes to the group, empty: the next serial must not find a gap.
        let (messages, refusal) = match checked {
            Ok(messages) => (messages, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        let deadline = self.router.deadline();
        let share = self.admission.sends(&messages, self.name.told(), deadline).await?;
        let mut command = Command::Send(Send { origin: None, entity: self.route.entity, messages });
        let caller = self.numbering.caller(serial, retry, self.batches.is_empty());
        let router = &self.router;
        router.stamp(&mut command, &self.route, caller);
        // Behind something that waits to be sent again, it waits as well.
        let state =
            match self.batches.iter().any(|batch| matches!(batch.state, BatchState::Back(_))) {
                true => BatchState::Back(command),
                false => BatchState::Posted(router.post(self.route.group, command)),
            };
        let batch = Batch { serial, retry, state, deadline, doubt: false, refusal, _share: share };
        self.batches.push_back(batch);
        Ok(())
    }

    /// The answer to the oldest batch, with its serial; `None` if nothing is under way. Cancelling
    /// it loses nothing.
    pub async fn next(&mut self) -> Option<(u64, Result<Vec<SequenceNumber>>)> {
        loop {
            self.settle(0).await?;
            match &self.batches.front()?.state {
                BatchState::Done(_) => {
                    let batch = self.batches.pop_front()?;
                    self.pause = PAUSE_MIN;
                    let BatchState::Done(result) = batch.state else { unreachable!("just seen") };
                    // What is refused here is told so only if the group has counted it: a client
                    // that believes it answered would go on behind what nobody knows.
                    let result = match batch.refusal {
                        Some(refusal) if is_counted(&result) => {
                            Err(Error::new(refusal, &self.name))
                        }
                        _ => result,
                    };
                    return Some((batch.serial, result));
                }
                // The first in line came back: so do all behind it, and then all go again in order.
                BatchState::Back(_) | BatchState::Posted(_) => self.send_again().await,
            }
        }
    }

    /// Waits for the outcome of the batch at `index`.
    async fn settle(&mut self, index: usize) -> Option<()> {
        let group = self.route.group;
        let batch = self.batches.get_mut(index)?;
        let BatchState::Posted(pending) = &mut batch.state else { return Some(()) };
        let result = timeout_at(batch.deadline, pending).await;
        let error = |kind| Err(Error::new(kind, &self.name));
        batch.state = match result {
            Err(_) => BatchState::Done(error(ErrorKind::Unknown { why: Unknown::Late(group) })),
            Ok(Err(_)) => {
                BatchState::Done(error(ErrorKind::Unknown { why: Unknown::LeaderLost(group) }))
            }
            Ok(Ok(Ok(answer))) => BatchState::Done(match answer.outcome {
                Outcome::Sent { sequences } => {
                    self.accepted = true;
                    self.by.note_numbers(Deed::Sent, &self.name, &sequences);
                    Ok(sequences)
                }
                Outcome::Refused(refusal) => Err(Error::new(refusal, &self.name)),
                other => Err(unexpected(&other, (&self.name).into())),
            }),
            Ok(Ok(Err(Failed::NotLeader { command, .. }))) => BatchState::Back(command),
            Ok(Ok(Err(Failed::Unknown { mut command }))) => {
                batch.doubt = true;
                command.mark_repeat();
                BatchState::Back(command)
            }
            Ok(Ok(Err(Failed::Mendable { refusal, command }))) => match refusal {
                // It overtook one before it that came back. The first in line overtook nothing:
                // the client left a gap.
                Refusal::SerialGap { .. } if index > 0 => BatchState::Back(command),
                Refusal::SerialGap { .. } if self.gone => {
                    BatchState::Done(Err(not_found(self.name.as_str())))
                }
                // Or a batch ended without being counted, while there was no leader say.
                Refusal::SerialGap { .. } if self.numbering.is_ours() => {
                    self.gap = true;
                    BatchState::Back(command)
                }
                // Nor was it done before, if that was in doubt.
                Refusal::Relocated { to, .. } => {
                    batch.doubt = false;
                    self.relocated = to.or(self.relocated);
                    BatchState::Back(command)
                }
                Refusal::StaleRoute { .. } if !self.accepted => {
                    self.stale = true;
                    BatchState::Back(command)
                }
                Refusal::StaleRoute { .. } => {
                    self.gone = true;
                    BatchState::Done(Err(not_found(self.name.as_str())))
                }
                refusal => BatchState::Done(Err(Error::new(refusal, &self.name))),
            },
        };
        Some(())
    }

    /// Sends all that came back once more, in order, once nothing is under way any more.
    async fn send_again(&mut self) {
        for index in 1..self.batches.len() {
            self.settle(index).await;
        }
        let now = Instant::now();
        let at = *self.retry_at.get_or_insert(now + self.pause);
        tokio::time::sleep_until(at).await;
        self.retry_at = None;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        if self.stale
            && let Err(error) = self.reroute().await
        {
            self.give_up(&error);
            return;
        }
        if std::mem::take(&mut self.gap) {
            self.renumber();
        }
        self.follow();
        let (router, group) = (self.router.clone(), self.route.group);
        let now = Instant::now();
        for batch in &mut self.batches {
            let BatchState::Back(_) = batch.state else { continue };
            let leaderless = router.want_of_leader(group).filter(|_| !batch.doubt);
            let why = leaderless.unwrap_or(Unavailable::NoLeader(group));
            batch.state =
                match std::mem::replace(&mut batch.state, BatchState::Done(Ok(Vec::new()))) {
                    BatchState::Back(command) if now < batch.deadline && leaderless.is_none() => {
                        BatchState::Posted(router.post(group, command))
                    }
                    BatchState::Back(_) if batch.doubt => {
                        let kind = ErrorKind::Unknown { why: Unknown::Late(group) };
                        BatchState::Done(Err(Error::new(kind, &self.name)))
                    }
                    _ => {
                        let kind = ErrorKind::Unavailable { why };
                        BatchState::Done(Err(Error::new(kind, &self.name)))
                    }
                };
        }
    }

    /// Nothing was accepted yet, so the name may as well mean another entity by now.
    async fn reroute(&mut self) -> Result<()> {
        let router = self.router.clone();
        let deadline =
            self.batches.front().map_or_else(|| router.deadline(), |batch| batch.deadline);
        let route = router.refresh(&self.name, deadline).await?;
        if route.entity == self.route.entity {
            return Err(not_found(self.name.as_str()));
        }
        self.route = route;
        self.stale = false;
        self.restamp(false);
        Ok(())
    }

    /// Where the entity went, that group knows none of the batches. The one that had it is asked for as long as
    /// it may have done one of them.
    fn follow(&mut self) {
        let is_open = |batch: &Batch| batch.doubt && matches!(batch.state, BatchState::Back(_));
        if self.batches.iter().any(is_open) {
            return;
        }
        if let Some(group) = self.relocated.take() {
            self.route.group = group;
            // What the client sent before may have been done there, or in a group between.
            self.restamp(true);
        }
    }

    /// Speaks as another producer from here on. What may have been applied by its old serial keeps
    /// its doubt, and is not sent under a new one.
    fn renumber(&mut self) {
        let why = Unknown::Late(self.route.group);
        for batch in self.batches.iter_mut().filter(|batch| batch.doubt) {
            if let BatchState::Back(_) = batch.state {
                let error = Error::new(ErrorKind::Unknown { why }, &self.name);
                batch.state = BatchState::Done(Err(error));
            }
        }
        self.restamp(false);
    }

    /// `repeats`: what the client calls a repeat may be one to whom it is sent now.
    fn restamp(&mut self, repeats: bool) {
        if self.numbering.is_ours() {
            self.numbering = Numbering::edge();
        }
        for batch in &mut self.batches {
            if let BatchState::Back(command) = &mut batch.state {
                let caller = self.numbering.caller(batch.serial, repeats && batch.retry, false);
                self.router.stamp(command, &self.route, caller);
            }
        }
    }

    fn give_up(&mut self, error: &Error) {
        for batch in &mut self.batches {
            if let BatchState::Back(_) = batch.state {
                batch.state = BatchState::Done(Err(match batch.doubt {
                    true => {
                        let kind = ErrorKind::Unknown { why: Unknown::Late(self.route.group) };
                        Error::new(kind, &self.name)
                    }
                    false => error.clone(),
                }));
            }
        }
    }
}

/// Whether the group knows the batch by its serial (SEND-8).
fn is_counted(result: &Result<Vec<SequenceNumber>>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => error.refusal().is_some_and(|refusal| {
            !matches!(refusal, Refusal::SerialGap { .. } | Refusal::EntityNotFound { .. })
        }),
    }
}

impl Numbering {
    fn edge() -> Numbering {
        let producer = rand::random::<u64>().max(1);
        Numbering::Edge { producer, last_serial: 0, used_at: Instant::now() }
    }

    /// Whether a gap cannot be of the client's making.
    fn is_ours(&self) -> bool {
        matches!(self, Numbering::Edge { .. })
    }

    /// Who asks, for the next batch. `alone`: nothing is under way.
    fn caller(&mut self, serial: u64, retry: bool, alone: bool) -> Caller {
        if let Numbering::Edge { used_at, .. } = self
            && alone
            && used_at.elapsed() > FORGOTTEN_AFTER
        {
            *self = Numbering::edge();
        }
        match self {
            Numbering::Client { producer } => {
                Caller::Client { producer: *producer, serial, ordered: true, retry }
            }
            Numbering::Edge { producer, last_serial, used_at } => {
                *last_serial += 1;
                *used_at = Instant::now();
                let (producer, serial) = (*producer, *last_serial);
                Caller::Client { producer, serial, ordered: true, retry: false }
            }
        }
    }
}
