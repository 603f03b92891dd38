//! The driver of one group. While this node leads it, the driver gathers what clients, receivers
//! and timers ask for into entries, proposes them, and hands out what came of them. It owns the
//! engine and lends it a clock; what it knows beside the rows may be lost at any time.
//!
//! Invariant: commands enter the log in the order they came in (MSG-10), and every command given to
//! a driver is answered exactly once: with its outcome, or handed back.

mod idle;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{
    Acquire, Command, Delivery, Disposition, Effect, EntityId, Entry, Key, LockRow, LockToken,
    NewMessage, Operation, Outcome, QueueId, ReceiverId, Refusal, Refuse, ResumeSession, Row, Rows,
    SequenceNumber, SessionCommand, SessionToken, Settle, Settlement, Span, SubQueue, Timestamp,
};
use engine::{Engine, EngineOptions};
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use replication::{Leadership, ProposeError, Replication};
use tokio::sync::mpsc;

use crate::address;
use crate::bodies::Bodies;
use crate::call::{
    Answer, Attach, CallResult, Detached, Event, Failed, Received, Reply, Wanted, answered,
};
use crate::clock::Clock;
use crate::config::{IdleConfig, ProposerConfig};
use crate::courier::Asked;
use crate::grants::Grants;
use crate::group::{Group, Input};
use crate::link::release_session;
use crate::metric;
use crate::space;
use crate::waitlist::{Slot, Waitlist};

/// Most inputs taken before entries are proposed again.
const INPUTS_MAX: usize = 512;
/// A proposal without an answer for this long is given up: a leader cut off from its followers
/// may never learn what became of it.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Entities whose highest number is kept in mind; it is read again where it was forgotten.
const HIGHEST_MAX: usize = 4096;
/// How long a leader whose proposals are turned down waits before it tries again.
const TURNED_DOWN_PAUSE: Duration = Duration::from_millis(10);

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

/// A proposal under way.
struct Flight {
    reign: u64,
    commands: Vec<Command>,
    slots: Vec<Slot>,
    started: Instant,
}

struct Landed {
    flight: Flight,
    result: Result<Vec<Outcome>, ProposeError>,
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
        if leading.engine.next_errand().is_none() {
            return;
        }
        let now = self.clock.now().plus(leading.offset);
        let mut errands = Vec::new();
        leading.engine.errands(now, &mut errands);
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
        let due = [engine.next_deadline(), engine.next_look(), engine.next_errand()];
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
                Some(leading) if space::adds_data(&command) => {
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
        let rows = self.replication.rows(self.group.shard);
        let rebuilt = tokio::task::spawn_blocking(move || {
            (Engine::rebuild(&rows, EngineOptions::default()), domain::meta(&rows))
        });
        let Ok((engine, meta)) = rebuilt.await else { return }; // The runtime is going down.
        tracing::info!(shard = %self.group.shard, term, timers = engine.timer_count(), "leading");
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
        tracing::info!(shard = %self.group.shard, ?leader, "leads no more");
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
                let rows = self.replication.rows(self.group.shard);
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

    fn attach(&mut self, attach: Attach) {
        let Some(leading) = &mut self.leading else {
            drop(attach.sink.send(attach.receiver, Event::Detached(Detached::LeaderLost)));
            return;
        };
        let rows = self.replication.rows(self.group.shard);
        if let Err(refusal) = receivable(&rows, attach.queue, attach.session.as_ref()) {
            let event = Event::Detached(Detached::Refused(refusal));
            drop(attach.sink.send(attach.receiver, event));
            return;
        }
        leading.grants.attach(&attach);
        let waits = attach.credit > 0 || attach.session.is_some();
        let Attach { receiver, queue, credit, .. } = attach;
        let again = receiver.epoch > 1;
        match attach.session {
            None => {
                if again {
                    leading.release(queue, lost_grants(&rows, &attach));
                }
                leading.engine.attach(receiver, queue);
                leading.engine.credit(receiver, credit);
            }
            Some(Wanted::Next) => {
                if again {
                    for token in lost_holds(&rows, queue.entity, receiver) {
                        leading.waitlist.push(release_session(queue, token), Slot::Quiet);
                    }
                }
                leading.engine.accept(receiver, queue.entity);
            }
            Some(Wanted::Held(token)) => {
                if again {
                    let (entity, arrived) = (queue.entity, attach.arrived);
                    let resume = ResumeSession { entity, token: token.clone(), receiver, arrived };
                    let command = Command::Session(SessionCommand::Resume(resume));
                    leading.waitlist.push(command, Slot::Quiet);
                }
                leading.engine.hold(receiver, queue.entity, token);
                leading.engine.credit(receiver, credit);
            }
        }
        if waits {
            self.awaited(receiver);
        }
    }

    /// A drain uses what is there: what the credit justifies is asked for first.
    fn drain(&mut self, receiver: ReceiverId) {
        let Some(leading) = &mut self.leading else { return };
        let Some(queue) = leading.grants.queue(receiver) else { return };
        let mut acquires = Vec::new();
        leading.engine.wants(queue, 0, &mut acquires);
        for acquire in acquires {
            leading.acquire(acquire);
        }
        leading.sessions();
        leading.engine.drain(receiver);
        leading.grants.drain(receiver);
    }

    /// Proposes while there is something to propose and room for it.
    fn propose(&mut self) {
        while self.flights.len() < self.config.flights_max {
            let Some(leading) = &mut self.leading else { return };
            if leading.pause_until.is_some_and(|until| Instant::now() < until) {
                return;
            }
            leading.pause_until = None;
            let full = leading.waitlist.full(&self.config);
            if !full && self.flights.len() >= self.config.partial_flights_max {
                return;
            }
            let now = leading.now(self.clock.now());
            let Some(flight) = leading.flight(now, &self.config) else { return };
            leading.last_at = now;
            let entry = Entry { at: now, seed: rand::random(), commands: flight.commands };
            let bytes = wire::encode_entry(&entry);
            metric::proposed(flight.slots.len());
            let flight = Flight { commands: entry.commands, ..flight };
            // Submitted here and now: the call enqueues, only its result is waited for.
            let result = self.replication.propose(self.group.shard, bytes);
            self.flights.push_back(Box::pin(async move {
                let result = tokio::time::timeout(PROPOSAL_TIMEOUT, result).await;
                Landed { flight, result: result.unwrap_or(Err(ProposeError::Unknown)) }
            }));
        }
    }

    fn land(&mut self, landed: Landed) {
        // Effects of an applied entry are told before its outcomes: take them in first, so that
        // whoever is answered finds the engine knowing what it did.
        self.effects();
        let Landed { flight, result } = landed;
        match result {
            Ok(outcomes) if outcomes.len() == flight.slots.len() => self.hand_out(flight, outcomes),
            Ok(outcomes) => {
                let (got, asked) = (outcomes.len(), flight.slots.len());
                tracing::error!(shard = %self.group.shard, got, asked, "outcomes do not match");
                self.hand_back(flight, ProposeError::Unknown);
            }
            Err(error) => self.hand_back(flight, error),
        }
    }

    /// Nothing is known of a proposal, or it was turned down.
    fn hand_back(&mut self, flight: Flight, error: ProposeError) {
        let mut leading = self.leading.as_mut().filter(|leading| leading.reign == flight.reign);
        if let Some(leading) = &mut leading {
            leading.pause_until = Some(Instant::now() + TURNED_DOWN_PAUSE);
        }
        let mut timers = false;
        let failed = |command| match error {
            ProposeError::NotLeader { leader } => Failed::NotLeader { leader, command },
            ProposeError::Unknown => Failed::Unknown { command },
        };
        for (slot, command) in flight.slots.into_iter().zip(flight.commands) {
            match slot {
                Slot::Call(reply) => reply.send(Err(failed(command))),
                Slot::Refused { reply, asked } => reply.send(Err(failed(asked))),
                Slot::Acquire(receiver) => {
                    if let Some(leading) = &mut leading {
                        leading.engine.acquire_lost(receiver);
                        leading.grants.acquired(receiver, Vec::new());
                        leading.part(receiver);
                    }
                }
                Slot::Accept(receiver) => {
                    if let Some(leading) = &mut leading {
                        leading.engine.accept_lost(receiver);
                        leading.part(receiver);
                    }
                }
                // Not to be told that there is nothing: it attaches anew, and is waited for again.
                Slot::Touch(receiver) => {
                    if let Some(leading) = &mut leading {
                        leading.dismiss(receiver);
                    }
                }
                Slot::Timer => timers = true,
                Slot::Quiet => {
                    // A release repeated does no harm, and one forgotten costs a delivery count. What
                    // was touched is in use still, or was a moment ago.
                    if let Some(leading) = &mut leading {
                        leading.waitlist.push(command, Slot::Quiet);
                    }
                }
            }
        }
        if timers && let Some(leading) = leading {
            leading.engine.fire_lost();
        }
    }

    /// Gives every asker its outcome.
    fn hand_out(&mut self, flight: Flight, outcomes: Vec<Outcome>) {
        metric::committed(flight.started.elapsed());
        let current = self.leading.as_ref().is_some_and(|leading| leading.reign == flight.reign);
        let mut timers = Vec::new();
        let items = flight.slots.into_iter().zip(flight.commands).zip(outcomes);
        for ((slot, command), outcome) in items {
            match slot {
                Slot::Call(reply) => {
                    let result = self.answer(command, outcome);
                    reply.send(result);
                }
                // Mostly the refusal; or what a repeat was told the first time.
                Slot::Refused { reply, asked } => {
                    let result = self.answer(asked, outcome);
                    reply.send(result);
                }
                Slot::Acquire(receiver) => {
                    let queue = match &command {
                        Command::Acquire(Acquire { queue, .. }) => *queue,
                        Command::Session(SessionCommand::Receive(receive)) => {
                            QueueId::main(receive.entity)
                        }
                        _ => unreachable!("an acquire's slot holds one"),
                    };
                    self.grant(queue, receiver, outcome, current);
                }
                Slot::Accept(receiver) => {
                    let Command::Session(SessionCommand::Accept(accept)) = command else {
                        unreachable!("an accept's slot holds one")
                    };
                    self.accepted(accept.queue, receiver, &outcome, current);
                }
                Slot::Touch(receiver) => {
                    if current && let Some(leading) = &mut self.leading {
                        leading.grants.acquired(receiver, Vec::new());
                    }
                }
                Slot::Timer => {
                    if let Outcome::Fired(fired) = &outcome {
                        metric::fired(fired);
                    }
                    timers.push(outcome);
                }
                Slot::Quiet => (),
            }
        }
        if current
            && !timers.is_empty()
            && let Some(leading) = &mut self.leading
        {
            leading.engine.fired(&timers);
        }
    }

    /// Completes an outcome with the contents of its deliveries, and keeps in mind what it stored.
    fn answer(&mut self, command: Command, mut outcome: Outcome) -> CallResult {
        let mut contents = Vec::new();
        let queue = match &command {
            Command::ReceiveDeferred(receive) => Some(receive.queue),
            Command::Acquire(acquire) => Some(acquire.queue),
            Command::Session(SessionCommand::ReceiveDeferred(receive)) => {
                Some(QueueId::main(receive.entity))
            }
            _ => None,
        };
        if let (Outcome::Acquired { deliveries, .. }, Some(queue)) = (&mut outcome, queue) {
            contents = self.contents(queue.entity, deliveries);
        }
        let answer = Answer { outcome, contents };
        match (command, &answer.outcome, &mut self.leading) {
            (Command::Send(send), Outcome::Sent { sequences }, Some(leading)) => {
                leading.remember(send, sequences, &self.replication.rows(self.group.shard));
                Ok(answer)
            }
            (
                command @ (Command::AdvanceClock { .. } | Command::RaiseClock { .. }),
                _,
                Some(leading),
            ) => {
                let meta = domain::meta(&self.replication.rows(self.group.shard));
                leading.offset = meta.clock_offset;
                answered(command, answer)
            }
            (Command::Seal(_), _, _) => Driver::sealed(answer),
            (command, _, _) => answered(command, answer),
        }
    }

    /// A session was accepted for a receiver that waited, or none was free after all. One granted
    /// to nobody is given back, uncounted as no message of it was delivered.
    fn accepted(&mut self, queue: QueueId, receiver: ReceiverId, outcome: &Outcome, current: bool) {
        let Some(leading) = &mut self.leading else { return };
        if current {
            leading.engine.accepted(receiver, outcome);
        }
        let Outcome::Accepted { token, until } = outcome else { return };
        match leading.grants.accepted(receiver, token.clone(), *until) {
            Ok(()) => leading.engine.hold(receiver, queue.entity, token.clone()),
            Err(token) => leading.waitlist.push(release_session(queue, token), Slot::Quiet),
        }
    }

    /// What an acquire took, on its way to its receiver.
    fn grant(&mut self, queue: QueueId, receiver: ReceiverId, outcome: Outcome, current: bool) {
        if current && let Some(leading) = &mut self.leading {
            leading.engine.acquired(receiver, &outcome);
        }
        let messages = match outcome {
            Outcome::Acquired { mut deliveries, .. } => {
                let contents = self.contents(queue.entity, &mut deliveries);
                let pairs = deliveries.into_iter().zip(contents);
                pairs.map(|(delivery, content)| Received { delivery, content }).collect()
            }
            _ => Vec::new(),
        };
        let Some(leading) = &mut self.leading else { return };
        let lost = leading.grants.acquired(receiver, messages);
        leading.release(queue, lost.iter().filter_map(|m| m.delivery.lock).map(|lock| lock.token));
    }

    /// The contents of deliveries, from memory or read for all at once. A delivery whose content is
    /// gone, because its message is, is taken out.
    fn contents(&mut self, entity: EntityId, deliveries: &mut Vec<Delivery>) -> Vec<Bytes> {
        // A copy's is its topic's.
        let owner = |delivery: &Delivery| delivery.topic.unwrap_or(entity);
        let cached = |delivery: &Delivery| {
            let leading = self.leading.as_ref()?;
            leading.bodies.get(owner(delivery), delivery.body)
        };
        let mut contents: Vec<Option<Bytes>> = deliveries.iter().map(cached).collect();
        let missing: Vec<(EntityId, SequenceNumber)> = deliveries
            .iter()
            .zip(&contents)
            .filter(|(_, content)| content.is_none())
            .map(|(delivery, _)| (owner(delivery), delivery.body))
            .collect();
        if !missing.is_empty() {
            metric::bodies_read(missing.len());
            let mut read = self.replication.rows(self.group.shard).bodies(&missing).into_iter();
            for content in contents.iter_mut().filter(|content| content.is_none()) {
                *content = read.next().flatten();
            }
        }
        let mut present = contents.iter().map(Option::is_some);
        deliveries.retain(|_| present.next().unwrap_or(false));
        contents.into_iter().flatten().collect()
    }
}

impl Leading {
    /// The group's time, by the node's clock.
    fn now(&self, clock: Timestamp) -> Timestamp {
        self.last_at.max(clock.plus(self.offset))
    }

    /// The next entry: what is due, then what was asked for, then what credit justifies with that.
    fn flight(&mut self, now: Timestamp, config: &ProposerConfig) -> Option<Flight> {
        let mut commands = self.engine.poll(now);
        let mut slots: Vec<Slot> = commands.iter().map(|_| Slot::Timer).collect();
        if !self.grants.is_empty() {
            self.sessions();
        }
        self.waitlist.fill(config, &mut commands, &mut slots);
        if !self.grants.is_empty() {
            let mut acquires = Vec::new();
            for command in &commands {
                if let Some((entity, ready)) = made_available(command, now) {
                    self.engine.wants(QueueId::main(entity), ready, &mut acquires);
                }
            }
            self.engine.acquires(&mut acquires);
            for acquire in acquires {
                self.grants.acquiring(acquire.receiver);
                slots.push(Slot::Acquire(acquire.receiver));
                commands.push(Command::Acquire(acquire));
            }
        }
        if commands.is_empty() {
            return None;
        }
        Some(Flight { reign: self.reign, commands, slots, started: Instant::now() })
    }

    /// What is published counts as many as it makes copies.
    fn take_in(&mut self, command: Command, slot: Slot) {
        let copies = match &command {
            Command::Send(send) => self.engine.copies_max(send.entity),
            Command::Commit(commit) => self.engine.copies_max(commit.entity),
            _ => 1,
        };
        self.waitlist.push_copied(command, slot, copies);
    }

    /// Refuses what the log would have taken. Where its asker counts (SEND-8) the log is told, or
    /// the next serial would find a gap.
    fn refuse(&mut self, mut command: Command, refusal: Refusal, reply: Reply) {
        match address::origin(&mut command).and_then(|origin| *origin) {
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

    fn acquire(&mut self, acquire: Acquire) {
        self.grants.acquiring(acquire.receiver);
        let slot = Slot::Acquire(acquire.receiver);
        self.waitlist.push(Command::Acquire(acquire), slot);
    }

    /// What receivers of sessions wait for. It waits with all else, in order: what was granted
    /// before and got lost on the way is released first.
    fn sessions(&mut self) {
        let (mut accepts, mut receives) = (Vec::new(), Vec::new());
        self.engine.accepts(&mut accepts);
        for accept in accepts {
            let slot = Slot::Accept(accept.receiver);
            self.waitlist.push(Command::Session(SessionCommand::Accept(accept)), slot);
        }
        self.engine.receives(&mut receives);
        for receive in receives {
            self.grants.acquiring(receive.receiver);
            let slot = Slot::Acquire(receive.receiver);
            self.waitlist.push(Command::Session(SessionCommand::Receive(receive)), slot);
        }
    }

    /// Nobody knows what was granted to a session's receiver: it attaches anew and says what arrived,
    /// because what comes later must not overtake it.
    fn part(&mut self, receiver: ReceiverId) {
        if self.grants.session(receiver).is_some() {
            self.dismiss(receiver);
        }
    }

    fn dismiss(&mut self, receiver: ReceiverId) {
        self.engine.detach(receiver);
        self.grants.dismiss(receiver, Detached::LeaderLost);
    }

    /// Unlocks, without counting a delivery, what was granted and reached nobody (LOCK-20).
    fn release(&mut self, queue: QueueId, tokens: impl IntoIterator<Item = LockToken>) {
        let release = |token| Settlement { token, disposition: Disposition::Release };
        let settlements: Vec<Settlement> = tokens.into_iter().map(release).collect();
        for chunk in settlements.chunks(domain::TOKENS_MAX) {
            let settlements = chunk.to_vec();
            let settle = Settle { origin: None, queue, settlements, atomic: false };
            self.waitlist.push(Command::Settle(settle), Slot::Quiet);
        }
    }

    /// Keeps contents that receivers are about to ask for.
    fn remember(&mut self, send: domain::Send, sequences: &[SequenceNumber], rows: &impl Rows) {
        let (Some(&first), Some(&last)) = (sequences.first(), sequences.last()) else { return };
        if self.grants.is_empty() {
            return;
        }
        let Some(&highest) = self.highest.get(&send.entity) else {
            if self.highest.len() >= HIGHEST_MAX {
                self.highest.clear(); // Of entities long gone, most of them.
            }
            if let Some(Row::EntityState(state)) = rows.get(&Key::EntityState(send.entity)) {
                self.highest.insert(send.entity, state.next_sequence);
            }
            return;
        };
        let in_row = last.0.checked_sub(first.0) == Some(send.messages.len() as u64 - 1);
        if first > highest && in_row {
            self.highest.insert(send.entity, last);
            let contents = send.messages.into_iter().map(|message| message.content).collect();
            self.bodies.insert(send.entity, first, contents);
        }
    }
}

/// The messages that a command makes available at once in its entity, if it is accepted.
fn made_available(command: &Command, now: Timestamp) -> Option<(EntityId, u32)> {
    let at_once = |message: &&NewMessage| message.scheduled_at.is_none_or(|at| at <= now);
    let ready = |send: &domain::Send| send.messages.iter().filter(at_once).count() as u32;
    match command {
        Command::Send(send) => Some((send.entity, ready(send))),
        Command::Commit(commit) => {
            let sends = commit.operations.iter().map(|operation| match operation {
                Operation::Send(send) => ready(send),
                _ => 0,
            });
            Some((commit.entity, sends.sum())).filter(|(_, count)| *count > 0)
        }
        _ => None,
    }
}

/// Whether a queue can be received from at all; the outcome of an acquire would say the same, but
/// on an empty queue there is none.
fn receivable(rows: &impl Rows, queue: QueueId, session: Option<&Wanted>) -> Result<(), Refusal> {
    let Some(Row::Entity(entity)) = rows.get(&Key::Entity(queue.entity)) else {
        return Err(Refusal::StaleRoute { entity: queue.entity });
    };
    domain::check_receivable(&entity, queue)?;
    let requires = entity.properties.requires_session;
    match session {
        None if requires && queue.sub == SubQueue::Main => {
            let why = "this entity requires sessions; accept a session to receive from it";
            Err(Refusal::InvalidOperation { why }) // LOCK-26.
        }
        None => Ok(()),
        Some(_) if !requires => {
            let why = "this entity has no sessions; it was created without them";
            Err(Refusal::InvalidOperation { why }) // LOCK-26.
        }
        Some(_) if queue.sub != SubQueue::Main => {
            Err(Refusal::NotSupported { what: "a session in a dead-letter queue" }) // DLQ-11.
        }
        Some(Wanted::Next) => Ok(()),
        Some(Wanted::Held(token)) => held(rows, queue.entity, token),
    }
}

/// Whether a session is held by this token, as far as the rows know.
fn held(rows: &impl Rows, entity: EntityId, token: &SessionToken) -> Result<(), Refusal> {
    let lock = domain::session_row(rows, entity, &token.session).and_then(|row| row.lock);
    let now = domain::meta(rows).last_at;
    match lock.is_some_and(|lock| lock.nonce == token.nonce && now < lock.until) {
        true => Ok(()),
        false => Err(Refusal::SessionLockLost { session: Some(token.session.clone()) }),
    }
}

/// Sessions granted to an earlier epoch of a receiver that still waits for one (LOCK-20).
fn lost_holds(rows: &impl Rows, entity: EntityId, receiver: ReceiverId) -> Vec<SessionToken> {
    let earlier = |of: ReceiverId| {
        (of.node, of.link) == (receiver.node, receiver.link) && of.epoch < receiver.epoch
    };
    let holds = domain::session_holds(rows, entity).into_iter();
    holds.filter(|(_, lock)| earlier(lock.receiver)).map(|(token, _)| token).collect()
}

/// Locks granted to an earlier epoch of this receiver whose messages did not arrive (LOCK-20).
fn lost_grants(rows: &impl Rows, attach: &Attach) -> Vec<LockToken> {
    let (id, queue) = (attach.receiver, attach.queue);
    let mut arrived = attach.arrived.clone();
    arrived.sort_unstable();
    let mut lost = Vec::new();
    let (from, to) = (Key::Lock(queue, SequenceNumber::MIN), Key::Lock(queue, SequenceNumber::MAX));
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Lock(_, sequence), Row::Lock(LockRow { nonce, receiver, .. })) = (key, row) {
            let earlier =
                (receiver.node, receiver.link) == (id.node, id.link) && receiver.epoch < id.epoch;
            let token = LockToken { sequence, nonce };
            if earlier && arrived.binary_search(&token).is_err() {
                lost.push(token);
            }
        }
        std::ops::ControlFlow::Continue(())
    });
    lost
}
