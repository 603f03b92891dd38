//! A log that is agreed on, without the agreeing. What it keeps of Raft is what the layers above can
//! see: entries commit in the order they were proposed in; a leader that falls takes a tail of its
//! proposals with it, and nobody is told which; what is committed stays.

use std::collections::VecDeque;

use domain::{Entry, Outcome, QueueId, ReceiverId};

use crate::random::Random;

/// A committed entry, and what every replica must make of it.
pub struct Record {
    pub entry: Entry,
    /// Outcomes as the reference replica found them.
    pub outcomes: Vec<Outcome>,
}

/// Whom a command's outcome is for.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    Client {
        client: usize,
        producer: u64,
        serial: u64,
    },
    Acquire {
        receiver: ReceiverId,
        queue: QueueId,
    },
    /// One command of a round of firing.
    Fire,
    /// An operator, who looks for himself.
    Operator,
    Nobody,
}

/// An entry its leader waits for, with one reply per command.
pub struct Proposal {
    pub entry: Entry,
    pub replies: Vec<Reply>,
    pub commits_at: u64,
    /// It never reaches the log; its leader learns so in its turn.
    pub dropped: bool,
}

/// Proposals of the leader of the moment.
#[derive(Default)]
pub struct Proposals(VecDeque<Proposal>);

impl Proposals {
    /// Proposes an entry; it commits after a while, and after those before it.
    pub fn push(
        &mut self,
        entry: Entry,
        replies: Vec<Reply>,
        dropped: bool,
        now: u64,
        random: &mut Random,
    ) {
        let earliest = self.0.back().map_or(now, |last| last.commits_at);
        let commits_at = earliest.max(now + random.between(0, 30));
        self.0.push_back(Proposal { entry, replies, commits_at, dropped });
    }

    /// The next proposal, if a majority has it by now.
    pub fn commit(&mut self, now: u64) -> Option<Proposal> {
        match self.0.front() {
            Some(first) if first.commits_at <= now => self.0.pop_front(),
            _ => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The leader fell. Some first part of its proposals has reached the majority and commits, the
    /// rest is gone; who waited learns neither.
    pub fn fall(&mut self, random: &mut Random) -> (Vec<Proposal>, Vec<Proposal>) {
        let mut kept: Vec<Proposal> = self.0.drain(..).collect();
        let at = random.below(kept.len() as u64 + 1) as usize;
        let gone = kept.split_off(at);
        (kept, gone)
    }
}
