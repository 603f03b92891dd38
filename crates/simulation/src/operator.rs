//! Who runs a group's queues: creates, changes, suspends and deletes them, and moves the clock.

mod topics;

use domain::{Command, CreateQueue, EntityId, EntityStatus, QueueProperties, Span, UpdateQueue};

use crate::Options;
use crate::oracle::Oracle;
use crate::random::Random;

pub use topics::Known;

/// After so many looks without success it is asked for again.
const LOOKS_MAX: u32 = 60;

/// See the file's head. What it wants done waits for a leader, and is asked for until it is done.
pub struct Operator {
    /// Queues that exist, or will.
    pub entities: Vec<EntityId>,
    /// And what else.
    pub known: Known,
    made: u64,
    wanted: Vec<Command>,
    /// Proposed, under which number of an entry, and looked for so often.
    proposed: Vec<(u64, Command, u32)>,
}

impl Operator {
    /// Wants what a life has.
    pub fn new(options: &Options, random: &mut Random) -> Operator {
        let mut operator = Operator {
            entities: Vec::new(),
            known: Known::default(),
            made: 0,
            wanted: Vec::new(),
            proposed: Vec::new(),
        };
        (0..options.queues_per_group).for_each(|_| operator.create(random));
        (0..options.topics_per_group).for_each(|_| operator.create_topic(random));
        (0..options.session_queues_per_group).for_each(|_| operator.create_session_queue(random));
        operator
    }

    pub fn wanted(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.wanted)
    }

    /// They are in a leader's log now, for what that is worth.
    pub fn proposed(&mut self, number: u64, commands: &[Command]) {
        self.proposed.extend(commands.iter().map(|command| (number, command.clone(), 0)));
    }

    /// An entry is committed.
    pub fn committed(&mut self, number: u64) {
        self.proposed.retain(|(of, ..)| *of != number);
    }

    /// Looks what came of what was proposed. What is not done in time is wanted again: done twice
    /// it does no harm, for the log is in order. In peace, what is suspended is let in.
    pub fn look(&mut self, oracle: &Oracle, peace: bool, random: &mut Random) {
        for (_, _, looks) in &mut self.proposed {
            *looks += 1;
        }
        let late = self.proposed.extract_if(.., |(_, _, looks)| *looks > LOOKS_MAX);
        self.wanted.extend(late.map(|(_, command, _)| command));
        self.subscribe(oracle, random);
        if peace && self.is_content() {
            self.resume(oracle, random);
        }
    }

    pub fn is_content(&self) -> bool {
        self.wanted.is_empty() && self.proposed.is_empty()
    }

    /// Does something or other.
    pub fn act(&mut self, oracle: &Oracle, random: &mut Random) {
        if !self.known.is_empty() && random.chance(700) {
            return self.act_on_topics(oracle, random);
        }
        match random.below(20) {
            0 if self.entities.len() > 1 => {
                let entity = self.entities.swap_remove(random.index(self.entities.len()));
                self.wanted.push(Command::DeleteEntity { entity });
                self.create(random);
            }
            1 => self.wanted.push(Command::AdvanceClock { by: Span(random.between(1, 90_000)) }),
            _ => {
                let entity = random.pick(&self.entities);
                let status = match random.below(10) {
                    0 => EntityStatus::Disabled,
                    1 => EntityStatus::ReceiveDisabled,
                    2 => EntityStatus::SendDisabled,
                    _ => EntityStatus::Active,
                };
                self.update(entity, status, oracle, random);
            }
        }
    }

    /// Lets in again what was suspended, so that everything can come to its end. Only that: an update
    /// also wakes what a lost hint may have left asleep.
    pub fn resume(&mut self, oracle: &Oracle, random: &mut Random) {
        for entity in self.entities.clone() {
            let status = oracle.entities.get(&entity).map(|entity| entity.properties.status);
            if status.is_some_and(|status| status != EntityStatus::Active) {
                self.update(entity, EntityStatus::Active, oracle, random);
            }
        }
        self.resume_topics(oracle, random);
    }

    /// A new queue, of whatever kind.
    fn create(&mut self, random: &mut Random) {
        let entity = self.next_id();
        self.entities.push(entity);
        let properties = Box::new(properties(random, QueueProperties::default()));
        let name = format!("queue{}", self.made);
        self.wanted.push(Command::CreateQueue(CreateQueue { entity, name, properties }));
    }

    fn next_id(&mut self) -> EntityId {
        self.made += 1;
        EntityId(self.made)
    }

    fn update(
        &mut self,
        entity: EntityId,
        status: EntityStatus,
        oracle: &Oracle,
        random: &mut Random,
    ) {
        let Some(known) = oracle.entities.get(&entity) else { return };
        let before = QueueProperties { status, ..known.properties.clone() };
        let properties = Box::new(properties(random, before));
        self.wanted.push(Command::UpdateQueue(UpdateQueue { origin: None, entity, properties }));
    }
}

/// Short lives and few deliveries, so that what is rare elsewhere is common here. Whether duplicates
/// are detected is decided at creation (DUP-3).
fn properties(random: &mut Random, before: QueueProperties) -> QueueProperties {
    let created = before == QueueProperties::default();
    QueueProperties {
        lock_duration: Span(random.between(5, 20) * 1000),
        requires_duplicate_detection: match created {
            true => random.chance(600),
            false => before.requires_duplicate_detection,
        },
        duplicate_detection_window: Span(random.between(20, 60) * 1000),
        default_ttl: match random.below(3) {
            0 => Span::MAX,
            1 => Span(random.between(1, 10) * 1000),
            _ => Span(random.between(10, 120) * 1000),
        },
        dead_letter_on_expiration: random.chance(500),
        max_delivery_count: random.between(1, 4) as u32,
        ..before
    }
}
