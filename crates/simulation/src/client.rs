//! A client of one group: it sends, receives, settles, and repeats what is not answered.

mod acts;
mod sessions;

use std::collections::{BTreeMap, VecDeque};

use domain::{
    Command, Commit, EntityId, HeldLock, LockToken, Operation, Origin, Outcome, Performed, QueueId,
    ReceiverId, Refusal, SequenceNumber, Timestamp,
};

use crate::network::{Packet, Request};
use crate::random::Random;
use sessions::Holder;

/// Unanswered requests a client has at most.
const OUTSTANDING_MAX: usize = 4;
/// Of its own messages, how many it remembers to select among.
const AVAILABLE_MAX: usize = 24;
/// After so many ticks without an answer a request is sent again. Not milliseconds: time may jump.
const PATIENCE_TICKS: u64 = 12;

struct Outstanding {
    command: Command,
    sent_at_tick: u64,
}

/// A message in a client's hands.
#[derive(Clone, Copy)]
struct Held {
    queue: QueueId,
    lock: HeldLock,
}

/// See the file's head.
pub struct Client {
    index: usize,
    /// SEND-8; a new one is taken when the group does not know the old one any more.
    producer: u64,
    producers_max: u64,
    ordered: bool,
    /// Its edge numbers its requests, and it cannot repeat them to another (SEND-8).
    numbered_by_edge: bool,
    /// The node it is connected to, and which of its starts.
    pub edge: Option<(usize, u64)>,
    serial: u64,
    outstanding: BTreeMap<u64, Outstanding>,
    receiver: ReceiverId,
    /// The leadership epoch in which its receiver was attached.
    pub epoch: u64,
    held: Vec<Held>,
    /// Of a session, or who waits for one.
    pub holder: Holder,
    /// Tokens that are settled or have lapsed: they must be good for nothing.
    spent: Vec<(QueueId, LockToken)>,
    deferred: Vec<(QueueId, SequenceNumber)>,
    scheduled: Vec<(EntityId, SequenceNumber)>,
    /// Sent, and perhaps still there to be selected.
    available: VecDeque<(EntityId, SequenceNumber)>,
    sent: u64,
    tick: u64,
}

impl Client {
    pub fn new(index: usize, ordered: bool) -> Client {
        Client {
            index,
            producer: index as u64 * 1_000_000 + 1,
            producers_max: index as u64 * 1_000_000 + 1,
            ordered,
            numbered_by_edge: index % 4 == 2,
            edge: None,
            serial: 0,
            outstanding: BTreeMap::new(),
            receiver: ReceiverId { node: index as u64, link: 1, epoch: 0 },
            epoch: 0,
            held: Vec::new(),
            holder: Holder::new(index),
            spent: Vec::new(),
            deferred: Vec::new(),
            scheduled: Vec::new(),
            available: VecDeque::new(),
            sent: 0,
            tick: 0,
        }
    }

    /// Its receiver, attached anew.
    pub fn attach(&mut self, epoch: u64) -> ReceiverId {
        self.epoch = epoch;
        self.receiver.epoch += 1;
        self.receiver
    }

    pub fn receiver(&self) -> ReceiverId {
        self.receiver
    }

    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Connected to a node, after another was gone. What was under way there is sent again; where
    /// the node had numbered it nobody can.
    pub fn connect(&mut self, edge: (usize, u64)) {
        if self.edge.replace(edge).is_some() && self.numbered_by_edge {
            self.start_anew();
        }
        self.epoch = 0; // It will attach again.
        self.holder.epoch = 0;
    }

    /// It fell, and is back: it kept what it wanted done, and nothing of what it held.
    pub fn crash(&mut self) {
        self.held.clear();
        self.spent.clear();
        self.holder.die();
        self.edge = self.edge.filter(|_| self.numbered_by_edge);
        self.epoch = 0;
    }

    pub fn is_waiting(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Sends again what was not answered in time; `often` in a thousand, also what may yet be.
    pub fn retry(&mut self, often: u32, random: &mut Random) -> Vec<Packet> {
        self.tick += 1;
        let mut waiting = self.outstanding.values();
        let late = waiting.any(|request| request.sent_at_tick + PATIENCE_TICKS <= self.tick);
        if !late && !random.chance(often) {
            return Vec::new();
        }
        // All of it, in order: an ordered producer must leave no gap.
        let serials: Vec<u64> = self.outstanding.keys().copied().collect();
        serials.into_iter().filter_map(|serial| self.again(serial)).collect()
    }

    fn again(&mut self, serial: u64) -> Option<Packet> {
        let request = self.outstanding.get_mut(&serial)?;
        request.sent_at_tick = self.tick;
        if let Some(origin) = origin_mut(&mut request.command) {
            origin.retry = true;
        }
        let (client, producer, command) = (self.index, self.producer, request.command.clone());
        Some(Packet::Request(Request { client, producer, serial, command }))
    }

    /// Makes a command a request of its own.
    fn request(&mut self, mut command: Command) -> Packet {
        self.serial += 1;
        let (client, producer, serial) = (self.index, self.producer, self.serial);
        if let Some(origin) = origin_mut(&mut command) {
            *origin = Origin { producer, serial, ordered: self.ordered, retry: false };
        }
        self.outstanding
            .insert(serial, Outstanding { command: command.clone(), sent_at_tick: self.tick });
        Packet::Request(Request { client, producer, serial, command })
    }

    /// An answer came. Returns the numbers it acknowledges, and what is to be sent again.
    pub fn answered(
        &mut self,
        producer: u64,
        serial: u64,
        outcome: &Outcome,
    ) -> (Option<(EntityId, Vec<SequenceNumber>)>, Vec<Packet>) {
        if producer != self.producer {
            return (None, Vec::new());
        }
        if let Outcome::Refused(Refusal::SerialGap { expected }) = outcome {
            return (None, self.gap(*expected));
        }
        let Some(Outstanding { command, .. }) = self.outstanding.remove(&serial) else {
            return (None, Vec::new());
        };
        if let Outcome::Refused(Refusal::PerhapsDone) = outcome {
            self.start_anew();
            return (None, Vec::new());
        }
        (self.learn(&command, outcome), Vec::new())
    }

    /// SEND-8: resend from `expected`; if that was answered long ago the group has forgotten us.
    fn gap(&mut self, expected: u64) -> Vec<Packet> {
        let first = self.outstanding.keys().next().copied();
        if first.is_none_or(|first| expected < first) {
            self.start_anew();
            return Vec::new();
        }
        let serials: Vec<u64> = self.outstanding.range(expected..).map(|(at, _)| *at).collect();
        serials.into_iter().filter_map(|serial| self.again(serial)).collect()
    }

    /// A new producer; what was under way is perhaps done.
    fn start_anew(&mut self) {
        self.producers_max += 1;
        self.producer = self.producers_max;
        self.serial = 0;
        self.outstanding.clear();
    }

    /// What an outcome teaches: numbers to cancel, to ask for, locks held.
    fn learn(
        &mut self,
        command: &Command,
        outcome: &Outcome,
    ) -> Option<(EntityId, Vec<SequenceNumber>)> {
        match (command, outcome) {
            (Command::Send(send), Outcome::Sent { sequences }) => {
                for (message, sequence) in send.messages.iter().zip(sequences) {
                    if message.scheduled_at.is_some() {
                        self.scheduled.push((send.entity, *sequence));
                    } else {
                        self.available.push_back((send.entity, *sequence));
                    }
                }
                let gone = self.available.len().saturating_sub(AVAILABLE_MAX);
                self.available.drain(..gone);
                return Some((send.entity, sequences.clone()));
            }
            (Command::ReceiveDeferred(receive), Outcome::Acquired { deliveries, .. }) => {
                let locks = deliveries.iter().filter_map(|delivery| delivery.lock);
                let queue = receive.queue;
                self.held.extend(locks.map(|lock| Held { queue, lock }));
            }
            (Command::Select(select), Outcome::Acquired { deliveries, .. }) => {
                let locks = deliveries.iter().filter_map(|delivery| delivery.lock);
                let queue = select.queue;
                self.held.extend(locks.map(|lock| Held { queue, lock }));
            }
            (Command::Settle(settle), _) => {
                for settlement in &settle.settlements {
                    self.spent.push((settle.queue, settlement.token));
                }
            }
            (Command::Commit(commit), _) => return self.learn_commit(commit, outcome),
            (Command::Session(command), outcome) => self.learn_of_session(command, outcome),
            _ => (),
        }
        None
    }

    /// As of its operations one by one. Locks of one that was rolled back are held still (TX-8), and
    /// tried again among those that are not.
    fn learn_commit(
        &mut self,
        commit: &Commit,
        outcome: &Outcome,
    ) -> Option<(EntityId, Vec<SequenceNumber>)> {
        let mut sent = Vec::new();
        for (index, operation) in commit.operations.iter().enumerate() {
            let performed = match outcome {
                Outcome::Committed { performed } => performed.get(index),
                _ => None,
            };
            match (operation, performed) {
                (Operation::Settle(settle), _) => {
                    let tokens = settle.settlements.iter().map(|settlement| settlement.token);
                    self.spent.extend(tokens.map(|token| (settle.queue, token)));
                }
                (Operation::Send(send), Some(Performed::Sent { sequences })) => {
                    for (message, sequence) in send.messages.iter().zip(sequences) {
                        if message.scheduled_at.is_some() {
                            self.scheduled.push((send.entity, *sequence));
                        }
                    }
                    sent.extend_from_slice(sequences);
                }
                _ => (),
            }
        }
        (!sent.is_empty()).then_some((commit.entity, sent))
    }

    /// What was asked under a serial and is not answered yet.
    pub fn waits_for(&self, producer: u64, serial: u64) -> Option<&Command> {
        let request = self.outstanding.get(&serial).filter(|_| producer == self.producer)?;
        Some(&request.command)
    }

    /// A delivery arrived.
    pub fn delivered(&mut self, queue: QueueId, lock: HeldLock) {
        // Twice the same on its way is once the same in hand.
        if self.held.iter().all(|held| held.lock.token != lock.token) {
            self.held.push(Held { queue, lock });
        }
    }

    /// Locks that lapsed, as far as a client can tell, are spent.
    fn forget_lapsed(&mut self, now: Timestamp) {
        let (held, lapsed): (Vec<Held>, Vec<Held>) =
            self.held.drain(..).partition(|held| now < held.lock.until);
        self.held = held;
        self.spent.extend(lapsed.iter().map(|held| (held.queue, held.lock.token)));
        let surplus = self.spent.len().saturating_sub(32);
        self.spent.drain(..surplus);
    }
}

/// The origin of a command that has one, present or not.
fn origin_mut(command: &mut Command) -> Option<&mut Origin> {
    let none = Origin { producer: 0, serial: 0, ordered: false, retry: false };
    Some(command.origin_mut()?.get_or_insert(none))
}
