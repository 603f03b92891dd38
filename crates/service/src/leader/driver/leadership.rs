//! What only a leader has: the engine, what waits to be proposed, and the receivers it serves. All of it is
//! built from the rows when leadership begins, and may be lost with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{
    Command, DeadlineKind, Effect, FEATURE_LEVEL_MATCH_BUDGET, FEATURE_LEVEL_RULES_OF_0_2, Fire,
    Key, MATCH_UNITS_MAX, Outcome, QueueId, Refusal, Refuse, Row, Rows, Span, Timestamp,
};
use engine::{Engine, EngineOptions};
use replication::GroupRows;

use super::pace::Pace;
use super::receivers::receivable;
use crate::clock::Clock;
use crate::config::ProposerConfig;
use crate::exchange::{Answer, Detached, Failed, Reply};
use crate::leader::bodies::Bodies;
use crate::leader::group::Group;
use crate::leader::receiver_table::ReceiverTable;
use crate::leader::waitlist::{Slot, Waitlist};

pub(super) struct Leading {
    /// Two in one term are told apart, where the clock was in doubt between them.
    pub epoch: u64,
    pub since: Instant,
    pub group: Arc<Group>,
    pub rows: GroupRows,
    clock: Arc<Clock>,
    /// How long nothing is deleted as idle, so that edges attach first.
    pub reattach: Duration,
    pub engine: Engine,
    pub waitlist: Waitlist,
    pub receivers: ReceiverTable,
    pub bodies: Bodies,
    /// Never stamped below (TIME-3).
    pub last_at: Timestamp,
    /// How far an operator moved the development clock.
    pub offset: Span,
    /// The feature level that the log has reached, or a lower one.
    level: u32,
    /// Proposals were turned down although this node leads: not before this.
    pub turned_down_until: Option<Instant>,
    pub pace: Pace,
}

/// A proposal under way.
pub(super) struct Proposal {
    pub epoch: u64,
    pub commands: Vec<Command>,
    pub slots: Vec<Slot>,
    pub started: Instant,
    /// Others might have joined it.
    pub is_partial: bool,
}

/// There is nothing to go on with unless all nodes understood it.
fn goes_on_matching(command: &Command) -> bool {
    matches!(command, Command::Fire(Fire { kind: DeadlineKind::Matching, .. }))
}

impl Leading {
    /// Reads all rows, and so takes a while.
    pub fn rebuild(
        epoch: u64,
        group: Arc<Group>,
        rows: GroupRows,
        clock: Arc<Clock>,
        reattach: Duration,
        pace: Pace,
    ) -> Leading {
        let engine = Engine::rebuild(&rows, EngineOptions::default());
        let meta = domain::meta(&rows);
        let named = rows.clone();
        let waitlist = Waitlist::new(move |entity| match named.get(&Key::Entity(entity)) {
            Some(Row::Entity(row)) => Some(domain::namespace_of(&row.name)),
            _ => None,
        });
        Leading {
            epoch,
            since: Instant::now(),
            group,
            rows,
            clock,
            reattach,
            engine,
            waitlist,
            receivers: ReceiverTable::default(),
            bodies: Bodies::default(),
            last_at: meta.last_at,
            offset: meta.clock_offset,
            level: meta.level,
            turned_down_until: None,
            pace,
        }
    }

    /// The group's time, by the node's clock.
    pub fn now(&self) -> Timestamp {
        self.last_at.max(self.clock_now())
    }

    /// As the clock has it, which may be behind what was stamped.
    pub fn clock_now(&self) -> Timestamp {
        self.clock.now().plus(self.offset)
    }

    /// What is published counts as many as it makes copies.
    pub fn take_in(&mut self, command: Command, slot: Slot) {
        let to = command.facts().sends_to();
        let copies = to.map_or(1, |entity| self.engine.copies_max(entity));
        self.waitlist.push_copied(command, slot, copies);
        self.pace.came(Instant::now());
    }

    /// Refuses what the log would have taken. Where its caller counts (SEND-8) the log is told, or
    /// the next serial would find a gap.
    pub fn refuse(&mut self, command: Command, refusal: Refusal, reply: Reply) {
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

    /// Takes in what applied entries did.
    pub fn take_effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let updated = match effect {
                Effect::Updated { entity } => Some(entity),
                _ => None,
            };
            if let Effect::Available { queue, rose: Some((low, high)), .. } = effect {
                self.receivers.rose(queue, low, high);
            }
            self.engine.effect(effect);
            if let Some(entity) = updated
                && !self.receivers.is_empty()
            {
                for receiver in self.receivers.of_entity(entity) {
                    let Some(queue) = self.receivers.queue(receiver) else { continue };
                    let session = self.receivers.session(receiver);
                    if let Err(refusal) = receivable(&self.rows, queue, session.as_ref()) {
                        self.engine.detach(receiver);
                        self.receivers.dismiss(receiver, Detached::Refused(refusal));
                    }
                }
            }
        }
        for receiver in self.engine.take_detached() {
            if let Some(queue) = self.receivers.queue(receiver) {
                let refusal = domain::missing(&self.rows, queue.entity);
                self.receivers.dismiss(receiver, Detached::Refused(refusal));
            }
        }
        for (receiver, session) in self.engine.take_lost() {
            let refusal = Refusal::SessionLockLost { session: Some(session) };
            self.receivers.dismiss(receiver, Detached::Refused(refusal));
        }
    }

    /// Until when what waits is to wait for more. What is due waits for nobody.
    pub fn paused_until(&mut self) -> Option<Instant> {
        let now = self.clock_now();
        let is_due = self.engine.next_deadline().is_some_and(|due| due <= now);
        if is_due || self.waitlist.is_empty() {
            return None;
        }
        self.pace.pause(self.waitlist.messages(), Instant::now())
    }

    /// The next entry: what is due, then what was asked for, then what credit justifies with that.
    pub fn next_proposal(&mut self, now: Timestamp, config: &ProposerConfig) -> Option<Proposal> {
        let mut commands = self.engine.poll(now);
        let mut slots: Vec<Slot> = commands.iter().map(|_| Slot::Timer).collect();
        if !self.receivers.is_empty() {
            self.sessions();
        }
        self.waitlist.fill(config, &mut commands, &mut slots);
        if !self.receivers.is_empty() {
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
                self.receivers.acquiring(acquire.receiver);
                slots.push(Slot::Acquire(acquire.receiver));
                commands.push(Command::Acquire(acquire));
            }
        }
        if commands.is_empty() {
            return None;
        }
        let level = self.group.feature_level.get();
        if level >= FEATURE_LEVEL_MATCH_BUDGET || commands.iter().any(goes_on_matching) {
            let limits = self.engine.match_limits(&commands, MATCH_UNITS_MAX);
            for (place, limit) in limits.into_iter().rev() {
                commands.insert(place, limit);
                slots.insert(place, Slot::Limit);
            }
        }
        if self.falls_behind(level) {
            commands.insert(0, Command::ReachLevel { level });
            slots.insert(0, Slot::Limit);
        }
        let (epoch, started) = (self.epoch, Instant::now());
        Some(Proposal { epoch, commands, slots, started, is_partial: true })
    }

    /// Whether the log goes by the rules of a lower level than the cluster has. It is told with whatever comes next,
    /// and again until that was applied.
    fn falls_behind(&mut self, level: u32) -> bool {
        if level < FEATURE_LEVEL_RULES_OF_0_2 || level <= self.level {
            return false;
        }
        self.level = domain::meta(&self.rows).level;
        self.level < level
    }

    /// Gives back what was not proposed, for receivers to look for the new leader (`leader`).
    pub fn end(mut self, leader: Option<u64>) {
        for (command, slot) in self.waitlist.drain() {
            match slot {
                Slot::Call(reply) => reply.send(Err(Failed::NotLeader { leader, command })),
                Slot::Refused { reply, asked: command } => {
                    reply.send(Err(Failed::NotLeader { leader, command }));
                }
                // Whoever waits looks for the next leader.
                Slot::Acquire(_) | Slot::Accept(_) | Slot::Touch(_) => (),
                Slot::Timer | Slot::Limit | Slot::Quiet => (),
            }
        }
        self.receivers.dismiss_all(&Detached::LeaderLost);
    }
}
