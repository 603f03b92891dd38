//! The driver of one group. While this node leads it, the driver gathers what clients, receivers
//! and timers ask for into entries, proposes them, and hands out what came of them. It owns the
//! engine and lends it a clock; what it knows beside the rows may be lost at any time.
//!
//! Invariant: commands enter the log in the order they came in (MSG-10), and every command given to
//! a driver is answered exactly once: with its outcome, or handed back.

mod answers;
mod idle;
mod proposals;
mod receivers;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{
    Command, Effect, EntityId, Outcome, Refusal, Refuse, SequenceNumber, Span, Timestamp,
};
use engine::{Engine, EngineOptions};
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use replication::{Leadership, Replication};
use tokio::sync::mpsc;

use self::proposals::Landed;
use self::receivers::receivable;
use crate::bodies::Bodies;
use crate::call::{Answer, Detached, Failed, Reply};
use crate::clock::Clock;
use crate::config::{IdleConfig, ProposerConfig};
use crate::courier::Asked;
use crate::grants::Grants;
use crate::group::{Group, Input};
use crate::waitlist::{Slot, Waitlist};

/// Most inputs taken before entries are proposed again.
const INPUTS_MAX: usize = 512;

pub(crate) struct Driver {
    group: Arc<Group>,
    replication: Replication,
    clock: Arc<Clock>,
    config: ProposerConfig,
    idle: IdleConfig,
    inputs: mpsc::UnboundedReceiver<Input>,
    errands: mpsc::UnboundedSender<Asked>,
    flights: FuturesOrdered<Pin<Box<dyn Future<Output = Landed> + Send>>>,
    /// Present while this node leads and its clock may stamp.
    leading: Option<Leading>,
    leader: Option<u64>,
    /// The term in which Raft has made this node the leader.
    term: Option<u64>,
    may_stamp: bool,
    reigns: u64,
}

/// What only a leader has.
struct Leading {
    /// Two in one term are told apart, where the clock was in doubt between them.
    reign: u64,
    since: Instant,
    engine: Engine,
    waitlist: Waitlist,
    grants: Grants,
    bodies: Bodies,
    /// Highest number issued per entity as far as known, so that the outcome of a repeat or a
    /// duplicate, which names an old number, is not taken for a message just stored.
    highest: BTreeMap<EntityId, SequenceNumber>,
    /// Never stamped below (TIME-3).
    last_at: Timestamp,
    /// How far an operator moved the development clock.
    offset: Span,
    /// Proposals were turned down although this node leads: not before this.
    pause_until: Option<Instant>,
}

impl Driver {
    pub fn new(
        group: Arc<Group>,
        inputs: mpsc::UnboundedReceiver<Input>,
        errands: mpsc::UnboundedSender<Asked>,
        replication: Replication,
        clock: Arc<Clock>,
        config: ProposerConfig,
        idle: IdleConfig,
    ) -> Driver {
        Driver {
            group,
            replication,
            clock,
            config,
            idle,
            inputs,
            errands,
            flights: FuturesOrdered::new(),
            leading: None,
            leader: None,
            term: None,
            may_stamp: false,
            reigns: 0,
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
                landed = self.flights.next(), if !self.flights.is_empty() => {
                    let mut landed = landed;
                    while let Some(flight) = landed {
                        self.land(flight);
                        landed = self.flights.next().now_or_never().flatten();
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
            for input in inputs.drain(..) {
                if let Input::Stop(done) = input {
                    self.lose(None);
                    let _ = done.send(());
                    return;
                }
                self.input(input).await;
            }
            self.look();
            self.propose();
            self.forward();
        }
    }

    /// Has the courier do what forwarding asks for.
    fn forward(&mut self) {
        let Some(leading) = &mut self.leading else { return };
        if leading.engine.next_forward_task().is_none() {
            return;
        }
        let now = self.clock.now().plus(leading.offset);
        let mut errands = Vec::new();
        leading.engine.forward_tasks(now, &mut errands);
        for errand in errands {
            // Without a courier the node is ending.
            let _ = self.errands.send((leading.reign, errand));
        }
    }

    /// When there is something to do although nothing comes in.
    fn wake_at(&mut self) -> Option<Instant> {
        let leading = self.leading.as_mut()?;
        if let Some(pause) = leading.pause_until {
            return Some(pause);
        }
        if self.flights.len() >= self.config.partial_flights_max {
            return None; // The next landing asks again.
        }
        let engine = &mut leading.engine;
        let due = [engine.next_deadline(), engine.next_look(), engine.next_forward_task()];
        let due = due.into_iter().chain([leading.beat_at()]);
        let due = due.flatten().min()?;
        let wait_ms = due.since(self.clock.now().plus(leading.offset)).0;
        // The wheel may hold deadlines years away; tokio's must not overflow.
        Some(Instant::now() + Duration::from_millis(wait_ms.min(60_000)))
    }

    async fn input(&mut self, input: Input) {
        match input {
            Input::Call { mut command, reply } => match &mut self.leading {
                None => reply.send(Err(Failed::NotLeader { leader: self.leader, command })),
                Some(leading) if command.facts().adds_data => {
                    self.group.pending.withhold(&mut command); // TX-9.
                    match self.group.want_of_space() {
                        Some(refusal) => leading.refuse(command, refusal, reply),
                        None => leading.take_in(command, Slot::Call(reply)),
                    }
                }
                Some(_) => {
                    self.group.pending.withhold(&mut command);
                    self.take(command, reply);
                }
            },
            Input::Attach(attach) => self.attach(attach),
            Input::Credit { receiver, count } => {
                if let Some(leading) = &mut self.leading {
                    leading.engine.credit(receiver, count);
                    leading.grants.credit(receiver);
                    self.awaited(receiver);
                }
            }
            Input::Drain { receiver } => self.drain(receiver),
            Input::Detach { receiver } => {
                if let Some(leading) = &mut self.leading {
                    leading.engine.detach(receiver);
                    // A last word, so that the edge knows that nothing comes after it.
                    leading.grants.dismiss(receiver, Detached::LeaderLost);
                }
            }
            Input::Packed { reign, queue, done } => {
                let now = self.clock.now();
                if let Some(leading) = self.reigning(reign) {
                    leading.engine.packed(queue, done, now.plus(leading.offset));
                }
            }
            Input::Carried { reign, line, serial, carried } => {
                let now = self.clock.now();
                if let Some(leading) = self.reigning(reign) {
                    leading.engine.carried(line, serial, carried, now.plus(leading.offset));
                }
            }
            Input::Unpend { holder } => self.group.pending.release(holder),
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
            Input::Stop(_) => unreachable!("handled by the loop"),
        }
    }

    fn reigning(&mut self, reign: u64) -> Option<&mut Leading> {
        self.leading.as_mut().filter(|leading| leading.reign == reign)
    }

    /// Leads if Raft and the clock both say so: all that a leader knows beside the rows is built
    /// from them. A leader that may not stamp is none to its clients, who ask again elsewhere.
    async fn lead(&mut self) {
        self.lose(self.leader.filter(|_| self.term.is_none()));
        let (Some(term), true) = (self.term, self.may_stamp) else { return };
        let rows = self.replication.rows(self.group.id);
        let rebuilt = tokio::task::spawn_blocking(move || {
            (Engine::rebuild(&rows, EngineOptions::default()), domain::meta(&rows))
        });
        let Ok((engine, meta)) = rebuilt.await else { return }; // The runtime is going down.
        tracing::info!(group = %self.group.id, term, timers = engine.timer_count(), "leading");
        self.reigns += 1;
        self.leading = Some(Leading {
            reign: self.reigns,
            since: Instant::now(),
            engine,
            waitlist: Waitlist::default(),
            grants: Grants::default(),
            bodies: Bodies::default(),
            highest: BTreeMap::new(),
            last_at: meta.last_at,
            offset: meta.clock_offset,
            pause_until: None,
        });
    }

    /// Leadership is lost: what was not proposed is certainly not done, and receivers look for the
    /// new leader. What is under way is answered when it lands.
    fn lose(&mut self, leader: Option<u64>) {
        self.leader = leader;
        self.group.pending.clear();
        let Some(mut leading) = self.leading.take() else { return };
        tracing::info!(group = %self.group.id, ?leader, "leads no more");
        for (command, slot) in leading.waitlist.drain() {
            match slot {
                Slot::Call(reply) => reply.send(Err(Failed::NotLeader { leader, command })),
                Slot::Refused { reply, asked: command } => {
                    reply.send(Err(Failed::NotLeader { leader, command }));
                }
                // Whoever waits looks for the next leader.
                Slot::Acquire(_) | Slot::Accept(_) | Slot::Touch(_) => (),
                Slot::Timer | Slot::Quiet => (),
            }
        }
        leading.grants.dismiss_all(&Detached::LeaderLost);
    }

    /// Takes in what applied entries did.
    fn effects(&mut self) {
        let effects = self.group.take_effects();
        let Some(leading) = &mut self.leading else { return };
        for effect in effects {
            let updated = match effect {
                Effect::Updated { entity } => Some(entity),
                _ => None,
            };
            leading.engine.effect(effect);
            if let Some(entity) = updated
                && !leading.grants.is_empty()
            {
                let rows = self.replication.rows(self.group.id);
                for receiver in leading.grants.of_entity(entity) {
                    let Some(queue) = leading.grants.queue(receiver) else { continue };
                    let session = leading.grants.session(receiver);
                    if let Err(refusal) = receivable(&rows, queue, session.as_ref()) {
                        leading.engine.detach(receiver);
                        leading.grants.dismiss(receiver, Detached::Refused(refusal));
                    }
                }
            }
        }
        for receiver in leading.engine.take_detached() {
            if let Some(queue) = leading.grants.queue(receiver) {
                let refusal = Refusal::StaleRoute { entity: queue.entity };
                leading.grants.dismiss(receiver, Detached::Refused(refusal));
            }
        }
        for (receiver, session) in leading.engine.take_lost() {
            let refusal = Refusal::SessionLockLost { session: Some(session) };
            leading.grants.dismiss(receiver, Detached::Refused(refusal));
        }
    }
}

impl Leading {
    /// The group's time, by the node's clock.
    fn now(&self, clock: Timestamp) -> Timestamp {
        self.last_at.max(clock.plus(self.offset))
    }

    /// What is published counts as many as it makes copies.
    fn take_in(&mut self, command: Command, slot: Slot) {
        let to = command.facts().sends_to();
        let copies = to.map_or(1, |entity| self.engine.copies_max(entity));
        self.waitlist.push_copied(command, slot, copies);
    }

    /// Refuses what the log would have taken. Where its asker counts (SEND-8) the log is told, or
    /// the next serial would find a gap.
    fn refuse(&mut self, command: Command, refusal: Refusal, reply: Reply) {
        match command.facts().origin() {
            Some(origin) => {
                let refuse = Command::Refuse(Refuse { origin: Some(origin), refusal });
                self.waitlist.push(refuse, Slot::Refused { reply, asked: command });
            }
            None => {
                let (outcome, contents) = (Outcome::Refused(refusal), Vec::new());
                reply.send(Ok(Answer { outcome, contents }));
            }
        }
    }
}
