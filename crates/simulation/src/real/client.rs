//! Clients: they send numbered messages, one at a time, again and again until they know; and they
//! read.

use domain::{Command, CreateQueue, NewMessage, Origin, Outcome, Send};
use replication::ProposeError;

use super::call::{Around, Call, CallProgress, Outcomes};
use super::ledger::Truth;
use super::{GROUP, QUEUE};
use crate::random::Random;

/// See the file's head.
pub struct RealClient {
    producer: u64,
    producers: u64,
    serial: u64,
    number: u64,
    /// The queue is there.
    created: bool,
    /// Sent before, with an unknown outcome.
    retry: bool,
    asked: Option<Call<Outcomes>>,
    reading: Option<Reading>,
    wait_until: u64,
}

struct Reading {
    call: Call<Result<(), ProposeError>>,
    /// What was true before.
    before: Truth,
}

impl RealClient {
    /// `producers`: how many clients there are.
    pub fn new(index: u64, producers: u64) -> RealClient {
        RealClient {
            producer: index + 1,
            producers,
            serial: 1,
            number: 0,
            created: false,
            retry: false,
            asked: None,
            reading: None,
            wait_until: 0,
        }
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.asked.is_none() && self.reading.is_none() && self.number == 0
    }

    /// Does what is next.
    pub fn step(&mut self, around: &mut Around<'_>) {
        self.read(around);
        if let Some(asked) = &mut self.asked {
            let Some(answer) = asked.outcome(around.now) else { return };
            self.take(answer, around);
            self.asked = None;
            self.wait_until = around.now + around.random.between(1, 120);
        }
        if around.now < self.wait_until || (around.peace && self.number == 0) {
            return;
        }
        if self.number == 0 {
            around.ledger.numbers += 1;
            self.number = around.ledger.numbers;
        }
        let command = self.command(around.random);
        self.asked = around.propose(command);
    }

    fn command(&self, random: &mut Random) -> Command {
        if !self.created {
            let properties = Box::default();
            return Command::CreateQueue(CreateQueue {
                entity: QUEUE,
                name: "q".into(),
                properties,
            });
        }
        let mut content = self.number.to_be_bytes().to_vec();
        content.resize(random.between(8, 600) as usize, b'.');
        let message = NewMessage {
            size_bytes: content.len() as u32,
            content: content.into(),
            header_bytes: 0,
            message_id: None,
            session_id: None,
            partition_key: None,
            ttl: None,
            scheduled_at: None,
        };
        let RealClient { producer, serial, retry, .. } = *self;
        let origin = Origin { producer, serial, ordered: true, retry };
        Command::Send(Send { origin: Some(origin), entity: QUEUE, messages: vec![message] })
    }

    fn take(&mut self, answer: Outcomes, around: &mut Around<'_>) {
        let outcome = match answer {
            // Certainly not done: the same again.
            Err(ProposeError::NotLeader { .. } | ProposeError::Busy) => return,
            Err(ProposeError::Unknown) => {
                self.retry = self.created;
                return;
            }
            Ok(outcomes) => outcomes.into_iter().next(),
        };
        if !self.created {
            self.created = true; // Or it was there.
            return;
        }
        match outcome {
            Some(Outcome::Sent { .. }) => {
                around.watch.note("acknowledged", &[self.number]);
                around.ledger.sent(self.number);
                self.serial += 1;
            }
            // The group does not know the producer: perhaps the message was sent, and nobody can tell.
            _ => {
                around.ledger.doubt(self.number);
                self.producer += self.producers;
                self.serial = 1;
            }
        }
        (self.number, self.retry) = (0, false);
    }

    fn read(&mut self, around: &mut Around<'_>) {
        let Some(reading) = &mut self.reading else {
            if !around.peace && self.created && around.random.chance(2) {
                let (before, now) = (around.ledger.truth.clone(), around.now);
                self.reading = around.leader().map(|node| Reading {
                    call: Call::new(node.node(), node.read_index(GROUP), now),
                    before,
                });
            }
            return;
        };
        match reading.call.hear(around.now) {
            CallProgress::Nothing => return,
            CallProgress::TooLate | CallProgress::Answer(Err(_)) => (),
            CallProgress::Answer(Ok(())) => {
                around.ledger.reads += 1;
                let node = around.nodes.get(&reading.call.node);
                let wrong = node.and_then(|of| around.ledger.contradiction(&reading.before, of));
                if let Some(wrong) = wrong {
                    let what = format!("node {} read {wrong}", reading.call.node);
                    around.watch.broke("reads", "architecture 4 (reads)", what);
                }
            }
        }
        self.reading = None;
    }
}
