//! The driver of one group. While this node leads it, the driver gathers what clients, receivers
//! and timers ask for into entries, proposes them, and hands out what came of them. It owns the
//! engine and lends it a clock; what it knows beside the rows may be lost at any time.
//!
//! Invariant: commands enter the log in the order they came in (MSG-10), and every command given to
//! a driver is answered exactly once: with its outcome, or handed back.

mod answers;
mod idle;
mod leadership;
mod pace;
mod proposals;
mod receivers;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::Effect;
use engine::{Carried, ForwardTask};
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use replication::{GroupRows, Leadership, Replication};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use self::leadership::Leading;
use self::pace::Pace;
use self::proposals::Decided;
use crate::clock::Clock;
use crate::config::{IdleConfig, ProposerConfig};
use crate::exchange::{Detached, Event, Failed};
use crate::leader::group::{Group, Input};
use crate::leader::inputs::InputReceiver;

/// Most inputs taken before entries are proposed again.
const INPUTS_MAX: usize = 512;

/// Forward tasks that wait for the forwarder, who hands each on at once. One that finds no place is not
/// done, and asked for again.
pub(crate) const FORWARDS_WAITING_MAX: usize = 4096;

pub(crate) struct Driver {
    group: Arc<Group>,
    replication: Replication,
    /// The group's.
    rows: GroupRows,
    clock: Arc<Clock>,
    config: ProposerConfig,
    idle: IdleConfig,
    inputs: InputReceiver,
    forwards: mpsc::Sender<ForwardRequest>,
    proposals: FuturesOrdered<Pin<Box<dyn Future<Output = Decided> + Send>>>,
    /// Present while this node leads and its clock may stamp.
    leading: Option<Leading>,
    leader: Option<u64>,
    /// The term in which Raft has made this node the leader.
    term: Option<u64>,
    may_stamp: bool,
    epochs: u64,
    /// Entities have come, with a backup or from another group: what they need is found as a new leader finds it.
    restored: bool,
}

/// What forwarding asks for.
pub(crate) struct ForwardRequest {
    /// Of the driver's leadership, which is told what came of it.
    pub epoch: u64,
    pub task: ForwardTask,
}

impl Driver {
    pub fn new(
        group: Arc<Group>,
        inputs: InputReceiver,
        forwards: mpsc::Sender<ForwardRequest>,
        replication: Replication,
        clock: Arc<Clock>,
        config: ProposerConfig,
        idle: IdleConfig,
    ) -> Driver {
        Driver {
            rows: replication.rows(group.id),
            group,
            replication,
            clock,
            config,
            idle,
            inputs,
            forwards,
            proposals: FuturesOrdered::new(),
            leading: None,
            leader: None,
            term: None,
            may_stamp: false,
            epochs: 0,
            restored: false,
        }
    }

    /// Runs until the node ends.
    pub async fn run(mut self) {
        let mut inputs = Vec::with_capacity(INPUTS_MAX);
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        let mut armed = None;
        loop {
            let wake = self.wake_at();
            if wake != armed {
                armed = wake;
                if let Some(wake) = wake {
                    timer.as_mut().reset(wake.into());
                }
            }
            tokio::select! {
                biased;
                decided = self.proposals.next(), if !self.proposals.is_empty() => {
                    let mut decided = decided;
                    while let Some(proposal) = decided {
                        self.conclude(proposal);
                        decided = self.proposals.next().now_or_never().flatten();
                    }
                }
                count = self.inputs.recv_many(&mut inputs, INPUTS_MAX) => {
                    if count == 0 {
                        return;
                    }
                }
                () = self.group.stirred.notified() => {}
                () = &mut timer, if armed.is_some() => armed = None,
            }
            self.effects();
            if std::mem::take(&mut self.restored) {
                self.lead().await;
            }
            for input in inputs.drain(..) {
                if let Input::Stop(done) = input {
                    self.lose(None);
                    let _ = done.send(());
                    return;
                }
                self.input(input).await;
            }
            if let Some(leading) = &mut self.leading {
                leading.forget_gone();
                leading.look();
            }
            self.propose();
            self.forward();
        }
    }

    /// Has the forwarder do what forwarding asks for.
    fn forward(&mut self) {
        let Some(leading) = &mut self.leading else { return };
        if leading.engine.next_forward_task().is_none() {
            return;
        }
        let now = leading.clock_now();
        let mut tasks = Vec::new();
        leading.engine.forward_tasks(now, &mut tasks);
        for task in tasks {
            let request = ForwardRequest { epoch: leading.epoch, task };
            // Without a place it is not done, and asked for again; without a forwarder the node is ending.
            if let Err(TrySendError::Full(request)) = self.forwards.try_send(request) {
                match request.task {
                    ForwardTask::Ship { queue, .. } | ForwardTask::Unpark { queue } => {
                        leading.engine.packed(queue, false, now);
                    }
                    ForwardTask::Carry { line, serial, .. } => {
                        leading.engine.carried(line, serial, Carried::Lost, now);
                    }
                }
            }
        }
    }

    /// When there is something to do although nothing comes in.
    fn wake_at(&mut self) -> Option<Instant> {
        let leading = self.leading.as_mut()?;
        if let Some(until) = leading.turned_down_until {
            return Some(until);
        }
        if self.proposals.len() >= self.config.partial_proposals_max {
            return None; // The next decided proposal asks again.
        }
        let paused_until = leading.paused_until();
        let engine = &mut leading.engine;
        let due = [engine.next_deadline(), engine.next_look(), engine.next_forward_task()];
        let due = due.into_iter().chain([leading.beat_at()]);
        let due = due.flatten().min().map(|due| {
            let wait_ms = due.since(leading.clock_now()).0;
            // The wheel may hold deadlines years away; tokio's must not overflow.
            Instant::now() + Duration::from_millis(wait_ms.min(60_000))
        });
        due.into_iter().chain(paused_until).min()
    }

    async fn input(&mut self, input: Input) {
        match input {
            Input::Call { mut command, reply } => match &mut self.leading {
                None => reply.send(Err(Failed::NotLeader { leader: self.leader, command })),
                Some(leading) => {
                    self.group.claims.withhold(&mut command); // TX-9.
                    let want = command.facts().adds_data.then(|| self.group.want_of_space());
                    match want.flatten() {
                        Some(refusal) => leading.refuse(command, refusal, reply),
                        None => leading.take(command, reply),
                    }
                }
            },
            Input::Attach(attach) => match &mut self.leading {
                Some(leading) => leading.attach(attach),
                None => {
                    let event = Event::Detached(Detached::LeaderLost);
                    drop(attach.sink.send(attach.receiver, event));
                }
            },
            Input::Credit { receiver, count } => {
                if let Some(leading) = &mut self.leading {
                    leading.engine.credit(receiver, count);
                    leading.receivers.credit(receiver);
                    leading.awaited(receiver);
                }
            }
            Input::Drain { receiver } => {
                if let Some(leading) = &mut self.leading {
                    leading.drain(receiver);
                }
            }
            Input::Detach { receiver } => {
                if let Some(leading) = &mut self.leading {
                    // A last word, so that the edge knows that nothing comes after it.
                    leading.dismiss(receiver);
                }
            }
            Input::Packed { epoch, queue, done } => {
                if let Some(leading) = self.leading_in(epoch) {
                    let now = leading.clock_now();
                    leading.engine.packed(queue, done, now);
                }
            }
            Input::Carried { epoch, line, serial, carried } => {
                if let Some(leading) = self.leading_in(epoch) {
                    let now = leading.clock_now();
                    leading.engine.carried(line, serial, carried, now);
                }
            }
            Input::Leadership(Leadership::Leader { term }) => {
                self.term = Some(term);
                self.lead().await;
            }
            Input::Leadership(Leadership::Follower { leader }) => {
                self.term = None;
                self.lose(leader);
            }
            Input::MayStamp(may) => {
                self.may_stamp = may;
                self.lead().await;
            }
            Input::Consumers(asked) => {
                let served = self.leading.as_ref().map(|leading| leading.receivers.consumers());
                // Whoever asked may have gone.
                let _ = asked.send(served.unwrap_or_default());
            }
            Input::Stop(_) => unreachable!("handled by the loop"),
        }
    }

    fn leading_in(&mut self, epoch: u64) -> Option<&mut Leading> {
        self.leading.as_mut().filter(|leading| leading.epoch == epoch)
    }

    /// Leads if Raft and the clock both say so: all that a leader knows beside the rows is built
    /// from them. A leader that may not stamp is none to its clients, who ask again elsewhere.
    async fn lead(&mut self) {
        self.lose(self.leader.filter(|_| self.term.is_none()));
        let (Some(term), true) = (self.term, self.may_stamp) else { return };
        let (epoch, group, rows) = (self.epochs + 1, self.group.clone(), self.rows.clone());
        let (clock, reattach) = (self.clock.clone(), self.idle.reattach);
        let pace = Pace::new(self.config.pause_max);
        let rebuilt = tokio::task::spawn_blocking(move || {
            Leading::rebuild(epoch, group, rows, clock, reattach, pace)
        });
        let Ok(leading) = rebuilt.await else { return }; // The runtime is going down.
        let timers = leading.engine.timer_count();
        tracing::info!(group = %self.group.id, term, timers, "leading");
        self.epochs = epoch;
        self.leading = Some(leading);
        self.group.took_over.notify_one();
        self.group.departing.notify_one();
    }

    /// Leadership is lost: what was not proposed is certainly not done, and receivers look for the
    /// new leader. What is proposed is answered when it is decided.
    fn lose(&mut self, leader: Option<u64>) {
        self.leader = leader;
        self.group.claims.clear();
        let Some(leading) = self.leading.take() else { return };
        tracing::info!(group = %self.group.id, ?leader, "leads no more");
        leading.end(leader);
    }

    /// Takes in what applied entries did.
    fn effects(&mut self) {
        let effects = self.group.take_effects();
        self.restored |= effects.contains(&Effect::Restored);
        if effects.contains(&Effect::RelocationWanted) {
            self.group.departing.notify_one();
        }
        if let Some(leading) = &mut self.leading {
            leading.take_effects(effects);
        }
    }
}
