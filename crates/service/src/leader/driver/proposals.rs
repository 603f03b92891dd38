//! Proposals: what waits becomes an entry, and what came of the entry goes to whom it concerns.

use std::time::{Duration, Instant};

use domain::{Command, Entry, Outcome, SessionCommand};
use replication::ProposeError;

use super::Driver;
use super::leadership::Proposal;
use crate::exchange::Failed;
use crate::leader::waitlist::Slot;
use crate::metric;

/// A proposal without an answer for this long is given up: a leader cut off from its followers
/// may never learn what became of it.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a leader whose proposals are turned down waits before it tries again.
const TURNED_DOWN_PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Decided {
    proposal: Proposal,
    result: Result<Vec<Outcome>, ProposeError>,
}

impl Driver {
    /// Proposes while there is something to propose and room for it.
    pub(super) fn propose(&mut self) {
        while self.proposals.len() < self.config.proposals_max {
            let Some(leading) = &mut self.leading else { return };
            if leading.turned_down_until.is_some_and(|until| Instant::now() < until) {
                return;
            }
            leading.turned_down_until = None;
            let full = leading.waitlist.full(&self.config);
            let waits = self.proposals.len() >= self.config.partial_proposals_max;
            if !full && (waits || leading.paused_until().is_some()) {
                return;
            }
            let (now, messages) = (leading.now(), leading.waitlist.messages());
            let Some(proposal) = leading.next_proposal(now, &self.config) else {
                return;
            };
            leading.last_at = now;
            if !full {
                leading.pace.begin(messages, proposal.started);
            }
            let entry = Entry { at: now, seed: rand::random(), commands: proposal.commands };
            let bytes = wire::encode_entry(&entry);
            metric::proposed(proposal.slots.len());
            let proposal = Proposal { commands: entry.commands, is_partial: !full, ..proposal };
            // Submitted here and now: the call enqueues, only its result is waited for.
            let result = self.replication.propose(self.group.id, bytes);
            self.proposals.push_back(Box::pin(async move {
                let result = tokio::time::timeout(PROPOSAL_TIMEOUT, result).await;
                Decided { proposal, result: result.unwrap_or(Err(ProposeError::Unknown)) }
            }));
        }
    }

    pub(super) fn conclude(&mut self, decided: Decided) {
        // Effects of an applied entry are told before its outcomes: take them in first, so that
        // whoever is answered finds the engine knowing what it did.
        self.effects();
        let Decided { proposal, result } = decided;
        match result {
            Ok(outcomes) if outcomes.len() == proposal.slots.len() => {
                self.hand_out(proposal, outcomes)
            }
            Ok(outcomes) => {
                let (got, asked) = (outcomes.len(), proposal.slots.len());
                tracing::error!(group = %self.group.id, got, asked, "outcomes do not match");
                self.hand_back(proposal, ProposeError::Unknown);
            }
            Err(error) => self.hand_back(proposal, error),
        }
    }

    /// Nothing is known of a proposal, or it was turned down.
    fn hand_back(&mut self, proposal: Proposal, error: ProposeError) {
        let mut leading = self.leading.as_mut().filter(|leading| leading.epoch == proposal.epoch);
        if let Some(leading) = &mut leading {
            leading.turned_down_until = Some(Instant::now() + TURNED_DOWN_PAUSE);
        }
        let mut timers = false;
        let failed = |command| match error {
            ProposeError::NotLeader { leader } => Failed::NotLeader { leader, command },
            ProposeError::Busy => Failed::NotLeader { leader: None, command },
            ProposeError::Unknown => Failed::Unknown { command },
        };
        for (slot, command) in proposal.slots.into_iter().zip(proposal.commands) {
            match slot {
                Slot::Call(reply) => reply.send(Err(failed(command))),
                Slot::Refused { reply, asked } => reply.send(Err(failed(asked))),
                Slot::Acquire(receiver) => {
                    if let Some(leading) = &mut leading {
                        leading.engine.acquire_lost(receiver);
                        leading.receivers.acquired(receiver, Vec::new());
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
                Slot::Limit => (),
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

    /// Gives every caller its outcome.
    fn hand_out(&mut self, proposal: Proposal, outcomes: Vec<Outcome>) {
        let took = proposal.started.elapsed();
        metric::committed(took);
        let current = self.leading_in(proposal.epoch).map(|leading| {
            if proposal.is_partial {
                leading.pace.end(took, Instant::now());
            }
        });
        let current = current.is_some();
        let mut timers = Vec::new();
        let items = proposal.slots.into_iter().zip(proposal.commands).zip(outcomes);
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
                        leading.receivers.acquired(receiver, Vec::new());
                    }
                }
                Slot::Timer => {
                    if let Outcome::Fired(fired) = &outcome {
                        metric::fired(fired);
                    }
                    timers.push(outcome);
                }
                Slot::Limit | Slot::Quiet => (),
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
