//! What is to be forwarded, and how far it has come: per line, a few shipments under way at a time, in
//! order, and pauses where a destination takes nothing (FWD-9, FWD-14).

use std::collections::{BTreeMap, BTreeSet};

use domain::{EntityId, ForwardEffect, Line, QueueId, Span, SubQueue, Timestamp, Waiting};

use crate::EngineOptions;

/// What the leader's forwarder has to do next; it answers with [`crate::Engine::packed`] or
/// [`crate::Engine::carried`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardTask {
    /// Propose a `Ship`.
    Ship { queue: QueueId, again: bool },
    /// Propose an `Unpark`.
    Unpark { queue: QueueId },
    /// Bring a shipment to its destination, then propose `Shipped`. All of its line up to
    /// `settled_to` are settled; `follows`, if that is above, is the one before it.
    Carry { line: Line, serial: u64, settled_to: u64, follows: u64 },
}

/// What came of a shipment's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It is settled: whether its destination took all of it, some, or nothing.
    All,
    Some,
    Nothing,
    /// It did not get there, not all of it, or nobody knows.
    Lost,
}

/// Where a shipment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// It waits for its forward task, not before this.
    Since(Timestamp),
    UnderWay,
}

#[derive(Clone, Debug)]
struct Source {
    waiting: Waiting,
    /// A `Ship` or an `Unpark` is under way.
    packing: bool,
    /// Something became of it since it was asked for.
    moved: bool,
    shipments: BTreeMap<u64, Away>,
    /// Shipments whose forward task is not over, of which some may be settled.
    carrying: u32,
    /// Nothing is shipped before this.
    paused_until: Timestamp,
    /// The next pause, and that of a shipment that got lost.
    delay: Span,
    lost_delay: Span,
}

impl Default for Source {
    fn default() -> Source {
        Source {
            waiting: Waiting::default(),
            packing: false,
            moved: false,
            shipments: BTreeMap::new(),
            carrying: 0,
            paused_until: Timestamp::ZERO,
            delay: DELAY_MIN,
            lost_delay: LOST_DELAY_MIN,
        }
    }
}

/// Pauses after a refusal, doubled each time.
const DELAY_MIN: Span = Span::from_secs(1);
const DELAY_MAX: Span = Span::from_secs(300);
/// Pauses after a shipment that got lost.
const LOST_DELAY_MIN: Span = Span(20);
const LOST_DELAY_MAX: Span = Span::from_secs(5);

/// All forwarding of a group's entities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwards {
    sources: BTreeMap<Line, Source>,
    /// Those to be looked at, and those to be looked at later.
    changed: BTreeSet<Line>,
    later: BTreeSet<(Timestamp, Line)>,
}

impl Forwards {
    pub fn effect(&mut self, effect: ForwardEffect) {
        match effect {
            ForwardEffect::Waiting { queue, waiting } => self.waiting(queue, waiting),
            ForwardEffect::Shipment { line, serial } => self.shipment(line, serial),
            ForwardEffect::Settled { line, serial } => {
                if let Some(source) = self.sources.get_mut(&line) {
                    source.shipments.remove(&serial);
                    self.look(line);
                }
            }
        }
    }

    pub fn waiting(&mut self, queue: QueueId, waiting: Waiting) {
        let line = forwarded(queue);
        if waiting == Waiting::default() && !self.sources.contains_key(&line) {
            return;
        }
        let source = self.sources.entry(line).or_default();
        source.waiting = waiting;
        source.moved = true;
        self.look(line);
    }

    pub fn shipment(&mut self, line: Line, serial: u64) {
        let source = self.sources.entry(line).or_default();
        // Told twice, by the rows and by an effect, it may be under way.
        source.shipments.entry(serial).or_insert(Away::Since(Timestamp::ZERO));
        source.moved = true;
        self.look(line);
    }

    /// The entity's description changed: what was refused before may be taken now.
    pub fn updated(&mut self, entity: EntityId) {
        for line in [QueueId::main(entity), QueueId::dead_letter(entity)].map(forwarded) {
            if let Some(source) = self.sources.get_mut(&line) {
                source.paused_until = Timestamp::ZERO;
                source.delay = DELAY_MIN;
                self.changed.insert(line);
            }
        }
    }

    pub fn deleted(&mut self, entity: EntityId) {
        for sub in SubQueue::ALL {
            let first = forwarded(QueueId { entity, sub });
            let last = Line { to: Some(EntityId(u64::MAX)), ..first };
            let lines: Vec<Line> =
                self.sources.range(first..=last).map(|(line, _)| *line).collect();
            for line in lines {
                self.sources.remove(&line);
                self.changed.remove(&line);
            }
        }
    }

    /// What is to be done at `now`, appended to `out`.
    pub fn forward_tasks(
        &mut self,
        now: Timestamp,
        options: &EngineOptions,
        out: &mut Vec<ForwardTask>,
    ) {
        while let Some((at, line)) = self.later.first().copied().filter(|(at, _)| *at <= now) {
            self.later.remove(&(at, line));
            self.changed.insert(line);
        }
        while let Some(line) = self.changed.pop_first() {
            let Some(source) = self.sources.get_mut(&line) else { continue };
            if let Some(at) = source.forward_tasks(line, now, options, out) {
                self.later.insert((at, line));
            }
        }
    }

    /// When [`Forwards::forward_tasks`] has something next; it may lie in the past.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        match self.changed.is_empty() {
            true => self.later.first().map(|(at, _)| *at),
            false => Some(Timestamp::ZERO),
        }
    }

    /// A `Ship` or `Unpark` was applied, and its effects told; or, unless `done`, perhaps not.
    pub fn packed(&mut self, queue: QueueId, done: bool, now: Timestamp) {
        let line = forwarded(queue);
        let Some(source) = self.sources.get_mut(&line) else { return };
        source.packing = false;
        if !done || !source.moved {
            source.pause(now);
        }
        self.look(line);
    }

    pub fn carried(&mut self, line: Line, serial: u64, carried: Carried, now: Timestamp) {
        let Some(source) = self.sources.get_mut(&line) else { return };
        source.carrying = source.carrying.saturating_sub(1);
        let dead = line.queue.sub == SubQueue::DeadLetter;
        match carried {
            Carried::Lost => {
                let since = Away::Since(now.plus(source.lost_delay));
                source.lost_delay = Span(source.lost_delay.0 * 2).min(LOST_DELAY_MAX);
                source.shipments.entry(serial).and_modify(|away| *away = since);
            }
            Carried::Nothing if dead => source.pause(now),
            Carried::Some if dead => {
                source.recover();
                source.pause(now);
            }
            Carried::All | Carried::Some | Carried::Nothing => source.recover(),
        }
        self.look(line);
    }

    /// Every source with something to do, and its shipments: what a rebuilt engine must agree with.
    pub fn iter(&self) -> impl Iterator<Item = (Line, Waiting, Vec<u64>)> + '_ {
        self.sources.iter().filter(|(_, source)| !source.is_idle()).map(|(line, source)| {
            (*line, source.waiting, source.shipments.keys().copied().collect())
        })
    }

    fn look(&mut self, line: Line) {
        // Where a forward task is not over, pauses are still to be known.
        let is_over = |source: &Source| source.is_idle() && !source.packing && source.carrying == 0;
        match self.sources.get(&line).is_some_and(is_over) {
            true => {
                self.sources.remove(&line);
                self.changed.remove(&line);
            }
            false => drop(self.changed.insert(line)),
        }
    }
}

/// The line of what a queue forwards.
fn forwarded(queue: QueueId) -> Line {
    Line { queue, to: None }
}

impl Source {
    fn is_idle(&self) -> bool {
        self.waiting == Waiting::default() && self.shipments.is_empty()
    }

    /// What is to be done; and when to look again, where that is a matter of time.
    fn forward_tasks(
        &mut self,
        line: Line,
        now: Timestamp,
        options: &EngineOptions,
        out: &mut Vec<ForwardTask>,
    ) -> Option<Timestamp> {
        let queue = line.queue;
        let settled_to = self.shipments.first_key_value().map_or(0, |(serial, _)| serial - 1);
        let mut follows = settled_to;
        // Where more are made than may be under way: a transaction makes them.
        let under_way_max = match line.to {
            Some(_) => options.transfers_max as usize,
            None => usize::MAX,
        };
        let has_room = match queue.sub {
            // FWD-5: what is refused of one goes before the next, after a pause.
            SubQueue::DeadLetter => self.shipments.is_empty() && self.carrying == 0,
            _ => self.shipments.len() < options.shipments_max as usize,
        };
        for (&serial, away) in self.shipments.iter_mut().take(under_way_max) {
            match *away {
                Away::UnderWay => (),
                // What comes after it waits for it (FWD-5).
                Away::Since(at) if at > now => return Some(at),
                Away::Since(_) => {
                    *away = Away::UnderWay;
                    self.carrying += 1;
                    out.push(ForwardTask::Carry { line, serial, settled_to, follows });
                }
            }
            follows = serial;
        }
        if self.packing || !has_room {
            return None;
        }
        let Waiting { ready, parked, unwanted } = self.waiting;
        if unwanted + ready + parked == 0 {
            return None;
        }
        if self.paused_until > now {
            return Some(self.paused_until);
        }
        let task = match unwanted {
            0 => ForwardTask::Ship { queue, again: parked > 0 },
            1.. => ForwardTask::Unpark { queue },
        };
        (self.packing, self.moved) = (true, false);
        out.push(task);
        None
    }

    fn pause(&mut self, now: Timestamp) {
        self.paused_until = now.plus(self.delay);
        self.delay = Span(self.delay.0 * 2).min(DELAY_MAX);
    }

    fn recover(&mut self) {
        (self.delay, self.lost_delay) = (DELAY_MIN, LOST_DELAY_MIN);
    }
}
