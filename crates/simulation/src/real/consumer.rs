//! Consumers: they take messages under locks, read their contents where they are handed out, and
//! complete most and abandon some. What they leave to its fate stays locked.

use domain::{
    Acquire, Command, Delivery, Disposition, LockToken, Outcome, Properties, QueueId, ReceiverId,
    Settle, Settlement,
};
use replication::ProposeError;

use super::call::{Around, Call, Outcomes};
use super::ledger::number;
use super::{GROUP, QUEUE};

/// In a thousand.
const ABANDONED: u32 = 250;

/// See the file's head.
pub struct Consumer {
    receiver: ReceiverId,
    held: Vec<HeldMessage>,
    asked: Option<(Question, Call<Outcomes>)>,
    wait_until: u64,
}

/// A message in hand.
struct HeldMessage {
    number: u64,
    token: LockToken,
    abandoned: bool,
}

#[derive(Clone, Copy)]
enum Question {
    ForMessages,
    ToSettle,
}

impl Consumer {
    pub fn new(index: u64) -> Consumer {
        let receiver = ReceiverId { node: 1, link: index + 1, epoch: 0 };
        Consumer { receiver, held: Vec::new(), asked: None, wait_until: 0 }
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.asked.is_none() && self.held.is_empty()
    }

    /// Does what is next.
    pub fn step(&mut self, around: &mut Around<'_>) {
        if let Some((asked, call)) = &mut self.asked {
            let Some(answer) = call.outcome(around.now) else { return };
            let (asked, node) = (*asked, call.node);
            self.asked = None;
            self.wait_until = around.now + around.random.between(1, 120);
            match asked {
                Question::ForMessages => self.take(node, answer, around),
                Question::ToSettle => self.note_settled(answer, around),
            }
        }
        if around.now < self.wait_until || (around.peace && self.held.is_empty()) {
            return;
        }
        let (asked, command) = match self.held.is_empty() {
            true => (Question::ForMessages, self.acquire(around)),
            false => (Question::ToSettle, self.settle()),
        };
        self.asked = around.propose(command).map(|call| (asked, call));
    }

    fn acquire(&self, around: &mut Around<'_>) -> Command {
        Command::Acquire(Acquire {
            queue: QueueId::main(QUEUE),
            receiver: self.receiver,
            count_max: around.random.between(1, 4) as u32,
            bytes_max: u32::MAX,
        })
    }

    fn settle(&self) -> Command {
        let settlement = |held: &HeldMessage| Settlement {
            token: held.token,
            disposition: match held.abandoned {
                true => Disposition::Abandon { properties: Properties::default() },
                false => Disposition::Complete,
            },
        };
        Command::Settle(Settle {
            origin: None,
            queue: QueueId::main(QUEUE),
            settlements: self.held.iter().map(settlement).collect(),
            atomic: false,
        })
    }

    fn take(&mut self, node: u64, answer: Outcomes, around: &mut Around<'_>) {
        let outcome = answer.ok().and_then(|outcomes| outcomes.into_iter().next());
        let Some(Outcome::Acquired { deliveries, .. }) = outcome else { return };
        let process = around.nodes.get(&node).and_then(|node| node.process.as_ref());
        let Some(process) = process else { return };
        let of: Vec<_> = deliveries.iter().map(|delivery| (QUEUE, delivery.body)).collect();
        let contents = process.replication.rows(GROUP).bodies(&of);
        for (Delivery { lock, sequence, .. }, content) in deliveries.iter().zip(contents) {
            let (Some(lock), Some(content)) = (lock, content) else {
                let what = format!("node {node} hands out {sequence:?} without lock or content");
                around.watch.broke("reads", "architecture 4 (receive)", what);
                return;
            };
            let (number, abandoned) = (number(&content), around.random.chance(ABANDONED));
            if !abandoned {
                // From the moment it is asked for, it may be done.
                around.ledger.doubt(number);
            }
            self.held.push(HeldMessage { number, token: lock.token, abandoned });
        }
    }

    fn note_settled(&mut self, answer: Outcomes, around: &mut Around<'_>) {
        let outcomes = match answer {
            // Certainly not done: the same again.
            Err(ProposeError::NotLeader { .. } | ProposeError::Busy) => return,
            Err(ProposeError::Unknown) => Vec::new(),
            Ok(outcomes) => outcomes,
        };
        let held = std::mem::take(&mut self.held);
        let Some(Outcome::Settled { refused }) = outcomes.into_iter().next() else { return };
        for (at, HeldMessage { number, abandoned, .. }) in held.into_iter().enumerate() {
            if !abandoned && refused.iter().all(|(refused, _)| *refused as usize != at) {
                around.watch.note("completed", &[number]);
                around.ledger.completed(number);
            }
        }
    }
}
