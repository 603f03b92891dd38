//! One group: its log, replicas, leaders and clients, and the oracle that follows the log.

mod agreement;
mod cuts;
mod faults;
pub mod forwarding;
mod quiescence;
mod service;
mod sessions;

use std::collections::BTreeMap;
use std::rc::Rc;

use domain::{Entry, Timestamp, meta};

use self::cuts::Cut;
use crate::Options;
use crate::client::Client;
use crate::invariants::lateness::Lateness;
use crate::invariants::votes::Votes;
use crate::invariants::{replicas, stamps};
use crate::leader::Leader;
use crate::network::Network;
use crate::node::Node;
use crate::operator::Operator;
use crate::oracle::Oracle;
use crate::raft::disk::DiskImage;
use crate::raft::member::Member;
use crate::raft::peers::Peers;
use crate::raft::{Config, Id, LogEntry, Payload, Record};
use crate::random::Random;
use crate::replica::Replica;
use crate::report::{Holds, Report};

/// What the cluster is like in one tick.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub nodes: &'a [Node],
    /// True time, ms.
    pub now: u64,
    pub tick: u32,
    /// Faults have ended.
    pub peace: bool,
}

/// See the file's head.
pub struct Group {
    options: Options,
    index: usize,
    /// What is committed, whoever knows of it.
    log: Vec<Record>,
    /// By node; none while a node does not know what it is.
    pub members: Vec<Option<Member>>,
    /// Applies every entry by itself, as it commits.
    reference: Replica,
    /// By node: who leads and may stamp. One cut off may believe so beside its successor.
    leaders: BTreeMap<usize, Leader>,
    epochs: u64,
    /// The number of the last entry proposed: each has its own.
    number: u64,
    votes: Votes,
    peers: Peers,
    oracle: Oracle,
    lateness: Lateness,
    /// Committed at the last tick.
    seen: usize,
    clients: Vec<Client>,
    network: Network,
    operator: Operator,
    /// The last index whose outcomes left a leader.
    acknowledged: u64,
    /// The log's time as of the last entry.
    last_at: Timestamp,
    /// Committed and elected when a majority's loss was complete: it stays so.
    frozen: Option<(u64, u64)>,
    /// How far each replica had applied when they were last compared.
    compared: Vec<u64>,
    cuts: BTreeMap<u64, Cut>,
}

impl Group {
    pub fn new(index: usize, options: &Options, random: &mut Random) -> Group {
        let nodes = usize::from(options.nodes);
        let config = Rc::new(Config::founders(nodes));
        let founder = |node| {
            let image = DiskImage::founding(config.clone());
            Some(Member::new(Id { node, incarnation: 0 }, image, options.bug, random))
        };
        Group {
            options: *options,
            index,
            log: Vec::new(),
            members: (0..nodes).map(founder).collect(),
            reference: Replica::new(options.bug),
            leaders: BTreeMap::new(),
            epochs: 0,
            number: 0,
            votes: Votes::default(),
            peers: Peers::default(),
            oracle: Oracle::default(),
            lateness: Lateness::default(),
            seen: 0,
            clients: (0..options.clients_per_group as usize)
                .map(|index| Client::new(index, index % 2 == 0))
                .collect(),
            network: Network::default(),
            operator: Operator::new(options, random),
            acknowledged: 0,
            last_at: Timestamp::ZERO,
            frozen: None,
            compared: Vec::new(),
            cuts: BTreeMap::new(),
        }
    }

    /// What happened here so far.
    pub fn report(&self) -> Report {
        self.oracle.totals
    }

    /// Rows of the reference at the end, as a number.
    pub fn digest(&self) -> u64 {
        let mut digest = 0xcbf2_9ce4_8422_2325;
        for (key, row) in &self.reference.rows.0 {
            for byte in format!("{key:?}{row:?}").bytes() {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        digest
    }

    /// One step of trouble, or of peace.
    pub fn tick(&mut self, scene: Scene<'_>, random: &mut Random) -> Holds {
        self.agree(scene, random)?;
        self.install_leaders(scene)?;
        self.lead(scene, random)?;
        self.clients_act(scene, random);
        self.parcels(scene, random)?;
        self.check_lateness(scene)?;
        self.check_frozen()?;
        self.compare()
    }

    /// While entries commit, what is due is done.
    fn check_lateness(&mut self, scene: Scene<'_>) -> Holds {
        let count = self.log.len();
        let moved = std::mem::replace(&mut self.seen, count) < count;
        let Some(node) = self.newest().filter(|_| moved) else { return Ok(()) };
        let clock = self.clock(scene, node);
        let Some(leader) = self.leaders.get_mut(&node) else { return Ok(()) };
        self.lateness.tick(leader.epoch, leader.engine.next_deadline(), clock)
    }

    /// Replicas against one another, where any has moved.
    fn compare(&mut self) -> Holds {
        let applied: Vec<u64> =
            self.members.iter().map(|of| of.as_ref().map_or(0, |m| m.replica.applied)).collect();
        if applied != self.compared {
            let all = self.members.iter().flatten().map(|member| &member.replica);
            replicas::equal(&all.collect::<Vec<_>>(), &self.reference)?;
            self.compared = applied;
        }
        Ok(())
    }

    /// A majority has it: it is committed for good. Reference and oracle follow at once.
    fn commit(&mut self, log: LogEntry, term: u64) -> Holds {
        let mut applied = self.reference.apply(std::slice::from_ref(&log));
        let outcomes = applied.outcomes.pop().unwrap_or_default();
        self.log.push(Record { log, committed_in: term, outcomes });
        self.note_cut();
        let at = self.log.len() - 1;
        let Record { log, outcomes, .. } = &self.log[at];
        self.operator.committed(log.number);
        let Payload::Entry(proposed) = &log.payload else { return Ok(()) };
        let entry = &proposed.entry;
        let (rows, asked) = (&self.reference.rows, &proposed.asked);
        let advanced = meta(rows).clock_offset;
        stamps::not_back(self.last_at, meta(rows).last_at)?;
        self.last_at = meta(rows).last_at;
        let followed = self.oracle.observe(entry, asked, outcomes, rows);
        followed.map_err(|mut broken| {
            broken.what += &told(at, entry, outcomes);
            broken
        })?;
        let bound =
            stamps::bound_ms(self.options.clock_offset_ms_max, self.options.clock_error_ms_max);
        stamps::not_ahead(self.oracle.at, proposed.stamped_at, advanced, bound)
    }
}

/// An entry and what came of it, for whoever looks for a mistake.
fn told(at: usize, entry: &Entry, outcomes: &[domain::Outcome]) -> String {
    let mut told = format!("\nafter entry {at} at {:?}:", entry.at);
    for (command, outcome) in entry.commands.iter().zip(outcomes) {
        told += &format!("\n  {command:?}\n    {outcome:?}");
    }
    told
}
