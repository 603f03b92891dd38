//! Proposals: what waits becomes an entry, and what came of the entry goes to whom it concerns.

use std::time::{Duration, Instant};

use domain::{Command, Entry, Outcome, QueueId, SessionCommand, Timestamp};
use replication::ProposeError;

use super::{Driver, Leading};
use crate::call::Failed;
use crate::config::ProposerConfig;
use crate::metric;
use crate::waitlist::Slot;

/// A proposal without an answer for this long is given up: a leader cut off from its followers
/// may never learn what became of it.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a leader whose proposals are turned down waits before it tries again.
const TURNED_DOWN_PAUSE: Duration = Duration::from_millis(10);

/// A proposal under way.
struct Flight {
    reign: u64,
    commands: Vec<Command>,
    slots: Vec<Slot>,
    started: Instant,
}

pub(super) struct Landed {
    flight: Flight,
    result: Result<Vec<Outcome>, ProposeError>,
}

impl Driver {
    /// Proposes while there is something to propose and room for it.
    pub(super) fn propose(&mut self) {
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
            let result = self.replication.propose(self.group.id, bytes);
            self.flights.push_back(Box::pin(async move {
                let result = tokio::time::timeout(PROPOSAL_TIMEOUT, result).await;
                Landed { flight, result: result.unwrap_or(Err(ProposeError::Unknown)) }
            }));
        }
    }

    pub(super) fn land(&mut self, landed: Landed) {
        // Effects of an applied entry are told before its outcomes: take them in first, so that
        // whoever is answered finds the engine knowing what it did.
        self.effects();
        let Landed { flight, result } = landed;
        match result {
            Ok(outcomes) if outcomes.len() == flight.slots.len() => self.hand_out(flight, outcomes),
            Ok(outcomes) => {
                let (got, asked) = (outcomes.len(), flight.slots.len());
                tracing::error!(group = %self.group.id, got, asked, "outcomes do not match");
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
            ProposeError::Busy => Failed::NotLeader { leader: None, command },
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
                    let queue = command.facts().delivers_from;
                    let queue = queue.expect("an acquire's slot holds one");
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
}

impl Leading {
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
                let facts = command.facts();
                if let Some(entity) = facts.sends_to() {
                    let ready = facts.sends.available_at(now);
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
}
