//! Clients: they send numbered messages, one at a time, again and again until they know; and they
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use domain::{Command, CreateQueue, Entry, NewMessage, Origin, Outcome, Send, Timestamp};
use replication::{ProposeError, Replication};

use super::node::Node;
use super::watch::Watch;
use super::{QUEUE, SHARD};
use crate::random::Random;

/// Without an answer for so long, the outcome is unknown.
const PATIENCE_MS: u64 = 4_000;

type Answer = Result<Vec<Outcome>, ProposeError>;
type Asked<T> = Pin<Box<dyn Future<Output = T>>>;

/// What all clients together know.
#[derive(Default)]
pub struct Known {
    /// Messages that were acknowledged, by their number, and those whose fate nobody knows.
    pub acknowledged: BTreeSet<u64>,
    pub unknown: BTreeSet<u64>,
    pub numbers: u64,
    pub reads: u64,
}

/// See the file's head.
pub struct Client {
    producer: u64,
    producers: u64,
    serial: u64,
    number: u64,
    /// The queue is there.
    created: bool,
    /// Sent before, with an unknown outcome.
    retry: bool,
    asked: Option<(Asked<Answer>, u64)>,
    reading: Option<Reading>,
    wait_until: u64,
}

struct Reading {
    node: u64,
    answer: Asked<Result<(), ProposeError>>,
    until: u64,
    /// What was acknowledged before.
    before: BTreeSet<u64>,
}

fn poll<T>(future: &mut Asked<T>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

impl Client {
    /// `producers`: how many clients there are.
    pub fn new(index: u64, producers: u64) -> Client {
        Client {
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

    /// Does what is next. In peace nothing new is begun.
    pub fn step(
        &mut self,
        now: u64,
        nodes: &BTreeMap<u64, Node>,
        known: &mut Known,
        peace: bool,
        watch: &Watch,
        random: &mut Random,
    ) {
        self.read(now, nodes, known, peace, watch, random);
        if let Some((asked, until)) = &mut self.asked {
            match poll(asked) {
                None if now < *until => return,
                None => self.take(Err(ProposeError::Unknown), known, watch),
                Some(answer) => self.take(answer, known, watch),
            }
            self.asked = None;
            self.wait_until = now + random.between(1, 120);
        }
        if now < self.wait_until || (peace && self.number == 0) {
            return;
        }
        let Some(node) = leader(nodes, random) else { return };
        if self.number == 0 {
            known.numbers += 1;
            self.number = known.numbers;
        }
        let entry = Entry {
            at: Timestamp(1_700_000_000_000 + now),
            seed: random.bytes(),
            commands: vec![self.command(random)],
        };
        let asked = node.propose(SHARD, wire::encode_entry(&entry));
        self.asked = Some((Box::pin(asked), now + PATIENCE_MS));
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
        let Client { producer, serial, retry, .. } = *self;
        let origin = Origin { producer, serial, ordered: true, retry };
        Command::Send(Send { origin: Some(origin), entity: QUEUE, messages: vec![message] })
    }

    fn take(&mut self, answer: Answer, known: &mut Known, watch: &Watch) {
        let outcome = match answer {
            // Certainly not done: the same again.
            Err(ProposeError::NotLeader { .. }) => return,
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
                watch.note("acknowledged", &[self.number]);
                known.acknowledged.insert(self.number);
                self.serial += 1;
            }
            // Its producer is not known: perhaps it was sent, and nobody can tell.
            _ => {
                known.unknown.insert(self.number);
                self.producer += self.producers;
                self.serial = 1;
            }
        }
        (self.number, self.retry) = (0, false);
    }

    fn read(
        &mut self,
        now: u64,
        nodes: &BTreeMap<u64, Node>,
        known: &mut Known,
        peace: bool,
        watch: &Watch,
        random: &mut Random,
    ) {
        let Some(reading) = &mut self.reading else {
            if !peace
                && self.created
                && random.chance(2)
                && let Some(node) = leader(nodes, random)
            {
                self.reading = Some(Reading {
                    node: node.node(),
                    answer: Box::pin(node.read_index(SHARD)),
                    until: now + PATIENCE_MS,
                    before: known.acknowledged.clone(),
                });
            }
            return;
        };
        match poll(&mut reading.answer) {
            None if now < reading.until => return,
            None | Some(Err(_)) => (),
            Some(Ok(())) => {
                known.reads += 1;
                let missing = nodes.get(&reading.node).map(|node| missing(node, &reading.before));
                if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
                    let what = format!("node {} read without {missing:?}", reading.node);
                    watch.broke("reads", "architecture 4 (reads)", what);
                }
            }
        }
        self.reading = None;
    }
}

/// Who says that it leads; now and then somebody else.
fn leader<'a>(nodes: &'a BTreeMap<u64, Node>, random: &mut Random) -> Option<&'a Replication> {
    let up: Vec<&Replication> =
        nodes.values().filter_map(|node| Some(&node.process.as_ref()?.replication)).collect();
    let leaders: Vec<&Replication> =
        up.iter().copied().filter(|node| node.is_leader(SHARD)).collect();
    match (up.is_empty(), leaders.is_empty() || random.chance(20)) {
        (true, _) => None,
        (false, true) => Some(random.pick(&up)),
        (false, false) => Some(random.pick(&leaders)),
    }
}

/// The numbers of the messages a node has, in order of acceptance.
pub fn numbers(node: &Node) -> Vec<u64> {
    let number = |content: Bytes| content.first_chunk().map_or(0, |at| u64::from_be_bytes(*at));
    node.rows.contents(SHARD, QUEUE).into_iter().map(number).collect()
}

/// Which of these messages a node does not have.
pub fn missing(node: &Node, of: &BTreeSet<u64>) -> Vec<u64> {
    let there: BTreeSet<u64> = numbers(node).into_iter().collect();
    of.difference(&there).copied().collect()
}
