//! HIST: what is told of messages adds up. Whoever knows nothing but the steps knows which messages
//! there are, in which queue, and whether they wait, are locked or deferred.

use std::collections::BTreeMap;

use domain::{
    Command, EntityKind, Key, LifeStep, MemoryRows, MessageEvent, QueueId, Row, SequenceNumber,
    SubQueue,
};

/// Where the steps leave a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Scheduled,
    /// Available, or set aside to be forwarded.
    Waiting,
    Locked {
        deferred: bool,
    },
    Deferred,
}

type Life = (String, SubQueue, SequenceNumber);

/// All messages whose lives are not over.
#[derive(Default)]
pub struct Lives {
    standing: BTreeMap<Life, Standing>,
    /// Messages came or went with their whole entity, which is no step of theirs.
    moved: bool,
}

impl Lives {
    pub fn note(&mut self, command: &Command) {
        self.moved |= matches!(command, Command::Relocate(_) | Command::Restore(_));
    }

    pub fn take(&mut self, event: &MessageEvent) {
        if self.moved {
            return;
        }
        let life = (event.entity.to_string(), event.sub, event.number);
        let end = |lives: &mut Lives, expected: &[Standing]| {
            let found = lives.standing.remove(&life);
            assert!(found.is_some_and(|found| expected.contains(&found)), "{event:?} of {found:?}");
            found
        };
        const LOCKED: [Standing; 2] =
            [Standing::Locked { deferred: false }, Standing::Locked { deferred: true }];
        let (waiting, deferred) = (Standing::Waiting, Standing::Deferred);
        let anywhere = [LOCKED[0], LOCKED[1], waiting, deferred];
        match &event.step {
            LifeStep::Accepted(accepted) => {
                let standing = match accepted.scheduled_for {
                    Some(_) => Standing::Scheduled,
                    None => Standing::Waiting,
                };
                self.begin(life, standing);
            }
            LifeStep::Activated { scheduled_as, .. } => {
                let scheduled = (life.0.clone(), life.1, *scheduled_as);
                assert_eq!(
                    self.standing.remove(&scheduled),
                    Some(Standing::Scheduled),
                    "{event:?}"
                );
                self.begin(life, Standing::Waiting);
            }
            // What a topic hands out it does not keep.
            LifeStep::Published { .. } => drop(self.standing.remove(&life)),
            LifeStep::Cancelled => drop(end(self, &[Standing::Scheduled])),
            LifeStep::Locked { .. } => {
                let was = end(self, &[waiting, deferred]);
                self.begin(life, Standing::Locked { deferred: was == Some(Standing::Deferred) });
            }
            LifeStep::LockRenewed { .. } => {
                let found = self.standing.get(&life);
                assert!(matches!(found, Some(Standing::Locked { .. })), "{event:?} of {found:?}");
            }
            LifeStep::Abandoned { .. } | LifeStep::Released | LifeStep::LockLapsed { .. } => {
                // What was set aside is released by the end of its forwarding.
                let was = end(self, &[LOCKED[0], LOCKED[1], waiting]);
                let is_deferred = was == Some(Standing::Locked { deferred: true });
                self.begin(life, if is_deferred { deferred } else { waiting });
            }
            LifeStep::Deferred => {
                end(self, &LOCKED);
                self.begin(life, Standing::Deferred);
            }
            LifeStep::DeadLettered { .. } => {
                end(self, &anywhere);
                let sub = match life.1 {
                    SubQueue::Main => SubQueue::DeadLetter,
                    SubQueue::Transfer => SubQueue::TransferDeadLetter,
                    SubQueue::DeadLetter | SubQueue::TransferDeadLetter => {
                        panic!("dead-lettered out of a dead-letter queue: {event:?}")
                    }
                };
                self.begin((life.0, sub, life.2), Standing::Waiting);
            }
            LifeStep::Completed { .. } => drop(end(self, &LOCKED)),
            LifeStep::Expired { .. } => drop(end(self, &anywhere)),
            LifeStep::Deleted | LifeStep::Forwarded { .. } => drop(end(self, &[waiting])),
            LifeStep::EntityDeleted => self.standing.retain(|(entity, ..), _| *entity != life.0),
        }
    }

    fn begin(&mut self, life: Life, standing: Standing) {
        let before = self.standing.insert(life.clone(), standing);
        assert_eq!(before, None, "{life:?} begins while it goes on");
    }

    /// Compares with what the rows say.
    pub fn check(&self, rows: &MemoryRows) {
        if self.moved {
            return;
        }
        let mut stored = BTreeMap::new();
        let mut topics = Vec::new();
        let mut names = BTreeMap::new();
        for (key, row) in &rows.0 {
            if let (Key::Entity(id), Row::Entity(row)) = (key, row) {
                names.insert(*id, row.name.clone());
                if row.specifics.kind() == EntityKind::Topic {
                    topics.push(row.name.clone());
                }
            }
        }
        for (key, row) in &rows.0 {
            let (queue, number, standing) = match (key, row) {
                (Key::Scheduled(id, number), _) => {
                    (QueueId::main(*id), *number, Standing::Scheduled)
                }
                (Key::Message(queue, number), Row::Message(message)) => {
                    let held = message.session.as_ref().is_some_and(|session| {
                        let held = Key::SessionHeld(queue.entity, session.clone(), *number);
                        rows.0.contains_key(&held)
                    });
                    let locked = held || rows.0.contains_key(&Key::Lock(*queue, *number));
                    let deferred = message.deferred;
                    let standing = match (locked, deferred) {
                        (true, deferred) => Standing::Locked { deferred },
                        (false, true) => Standing::Deferred,
                        (false, false) => Standing::Waiting,
                    };
                    (*queue, *number, standing)
                }
                _ => continue,
            };
            // What is swept is gone already.
            let Some(name) = names.get(&queue.entity) else { continue };
            stored.insert((name.clone(), queue.sub, number), standing);
        }
        let kept = self.standing.iter().filter(|((entity, sub, _), standing)| {
            // A topic keeps what waits for its time, and what it sends on for a transaction.
            !topics.contains(entity) || **standing == Standing::Scheduled || *sub != SubQueue::Main
        });
        let kept: BTreeMap<Life, Standing> = kept.map(|(life, at)| (life.clone(), *at)).collect();
        assert_eq!(kept, stored, "what the steps of messages leave, and what is stored");
    }
}
