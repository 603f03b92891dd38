//! A group's agreement: Raft as far as promises depend on it. Terms, votes, logs with a synced and an
//! unsynced part, joint changes of the membership, snapshots; time is counted in ticks.
//!
//! Invariant: nothing is said before what it rests on is synced. A replica speaks under one id, its
//! node's and that life's of its disk, and hears only what is meant for that id.

pub mod admission;
pub mod disk;
pub mod member;
pub mod peers;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use domain::Entry;

use crate::replica::Snapshot;

/// A replica's id in its group: its node, and which life of the node's disk; 0 for founders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub node: usize,
    pub incarnation: u32,
}

/// Who votes, in one set or in two between two memberships; and who is sent the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub sets: Vec<BTreeSet<Id>>,
    pub members: BTreeSet<Id>,
}

impl Config {
    pub fn founders(nodes: usize) -> Config {
        let members: BTreeSet<Id> = (0..nodes).map(|node| Id { node, incarnation: 0 }).collect();
        Config { sets: vec![members.clone()], members }
    }

    /// Whether these are a majority of every set.
    pub fn has_majority(&self, is_in: impl Fn(&Id) -> bool) -> bool {
        let half = |set: &BTreeSet<Id>| set.iter().filter(|id| is_in(id)).count() * 2 > set.len();
        !self.sets.is_empty() && self.sets.iter().all(half)
    }

    pub fn has_voter(&self, id: Id) -> bool {
        self.sets.iter().any(|set| set.contains(&id))
    }

    /// A node's replica has its vote, and nothing is left of those before it.
    pub fn has_settled(&self, id: Id) -> bool {
        let one_of_node = self.members.iter().filter(|other| other.node == id.node).count() == 1;
        self.sets.len() == 1 && self.has_voter(id) && one_of_node
    }

    /// The nodes whose clocks count: one that returns as well.
    pub fn nodes(&self) -> BTreeSet<usize> {
        self.members.iter().map(|id| id.node).collect()
    }

    /// The nodes whose votes can be counted on: while one returns, it has none. `own` is the replica
    /// that asks: the vote of a life its node has lost is not its own.
    pub fn voting_nodes(&self, own: Id) -> BTreeSet<usize> {
        let full = |id: &Id| self.sets.iter().all(|set| set.contains(id));
        let coming: BTreeSet<usize> =
            self.members.iter().filter(|id| !full(id)).map(|id| id.node).collect();
        let voters = self.members.iter().filter(|id| full(id) && !coming.contains(&id.node));
        voters.filter(|id| id.node != own.node || **id == own).map(|id| id.node).collect()
    }
}

/// Who asked for a command, whatever the command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub producer: u64,
    pub serial: u64,
    pub ordered: bool,
}

/// What a leader proposed for the state machine.
pub struct Proposed {
    pub entry: Entry,
    /// Who asked for each command, however it is written in the entry (SEND-8).
    pub asked: Vec<Option<Caller>>,
    /// True time when it was stamped, ms.
    pub stamped_at: u64,
}

#[derive(Clone)]
pub enum Payload {
    /// A leader's first: what is before it is committed with it.
    Blank,
    Config(Rc<Config>),
    Entry(Rc<Proposed>),
}

#[derive(Clone)]
pub struct LogEntry {
    /// From 1.
    pub index: u64,
    pub term: u64,
    /// No other entry of this group has it.
    pub number: u64,
    pub payload: Payload,
}

/// A committed entry, and what every replica must make of it.
pub struct Record {
    pub log: LogEntry,
    /// Of the leader that found a majority for it.
    pub committed_in: u64,
    /// Outcomes as the reference replica found them; none where there was nothing to apply.
    pub outcomes: Vec<domain::Outcome>,
}

#[derive(Clone)]
pub enum RaftMessage {
    Vote {
        term: u64,
        last: (u64, u64),
    },
    Voted {
        term: u64,
        granted: bool,
    },
    Append {
        term: u64,
        before: (u64, u64),
        entries: Vec<LogEntry>,
        commit: u64,
    },
    Appended {
        term: u64,
        matched: Result<u64, u64>,
    },
    Install {
        term: u64,
        snapshot: Rc<Snapshot>,
    },
    /// A replica asks for its node's place; `applied` is how far it is.
    Admit {
        applied: u64,
    },
    /// A leader wants to be followed by this one.
    TakeOver {
        term: u64,
    },
}

#[derive(Clone)]
pub struct Envelope {
    pub from: Id,
    pub to: Id,
    pub message: RaftMessage,
}

/// What a leader knows of another replica.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub next: u64,
    pub matched: u64,
    /// Ticks since it last answered.
    pub silent: u32,
    /// Ticks until it is sent a snapshot again.
    pub patience: u32,
}

pub type Followers = BTreeMap<Id, Progress>;
