//! One replica's part in the agreement: a state, and what it says to what it hears.

use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::rc::Rc;

use super::admission::{next_config, towards};
use super::disk::{Disk, DiskImage, DiskWrite};
use super::{Config, Envelope, Followers, Id, LogEntry, Payload, Progress, RaftMessage};
use crate::bug::Bug;
use crate::invariants::committed;
use crate::random::Random;
use crate::replica::Replica;
use crate::report::Holds;

const ENTRIES_MAX: usize = 8;
/// A learner this near has caught up.
const LAG_MAX: u64 = 6;
/// A leader that heard of no majority for so many ticks admits nobody.
const SILENT_MAX: u32 = 12;
/// After so many ticks without an answer what was sent is sent again.
const PATIENCE: u32 = 3;
/// Log behind what is flushed and held by all is forgotten beyond so many entries.
const LOG_KEPT: u64 = 40;

pub enum Role {
    Follower,
    Candidate { votes: BTreeSet<Id> },
    Leader { followers: Followers, blank: u64 },
}

/// See the file's head.
pub struct Member {
    pub id: Id,
    pub disk: Disk,
    pub replica: Replica,
    pub role: Role,
    pub commit: u64,
    pub leader: Option<Id>,
    /// Ticks until it wants to lead.
    timer: u64,
    /// Said once so many writes are synced.
    says: VecDeque<(u64, Envelope)>,
    /// Voters that leave and those who take their place: only the bug `ReturnsAsVoter` has any.
    swapped: Vec<(Id, Id)>,
    bug: Option<Bug>,
}

impl Member {
    pub fn new(id: Id, image: DiskImage, bug: Option<Bug>, random: &mut Random) -> Member {
        Member {
            id,
            disk: Disk::new(image),
            replica: Replica::new(bug),
            role: Role::Follower,
            commit: 0,
            leader: None,
            timer: random.between(1, 20),
            says: VecDeque::new(),
            swapped: Vec::new(),
            bug,
        }
    }

    pub fn term(&self) -> u64 {
        self.disk.image.term
    }

    /// The index of its first entry, if it leads.
    pub fn leads_from(&self) -> Option<u64> {
        match &self.role {
            Role::Leader { blank, .. } => Some(*blank),
            Role::Follower | Role::Candidate { .. } => None,
        }
    }

    pub fn config(&self) -> Rc<Config> {
        let config = self.disk.image.config().1;
        if self.swapped.is_empty() {
            return config.clone();
        }
        let mut config = config.as_ref().clone();
        for (old, new) in &self.swapped {
            for set in config.sets.iter_mut().chain([&mut config.members]) {
                if set.remove(old) {
                    set.insert(*new);
                }
            }
        }
        Rc::new(config)
    }

    /// The process ended; what it had said and not synced is gone.
    pub fn crash(&mut self, power: bool, random: &mut Random) -> u64 {
        self.role = Role::Follower;
        self.leader = None;
        self.says.clear();
        self.replica.crash();
        self.disk.crash(power, random)
    }

    /// Of a fallen replica: less is on disk than was once synced, log or rows.
    pub fn is_short(&self) -> bool {
        self.disk.is_short() || self.lacks_rows()
    }

    /// Its rows end before its log begins.
    fn lacks_rows(&self) -> bool {
        self.replica.applied < self.disk.image.base
    }

    /// It starts. False if it must not, because it may have forgotten what it promised.
    pub fn start(&mut self, random: &mut Random) -> bool {
        let unnoticed = self.bug == Some(Bug::IgnoresMark) && !self.lacks_rows();
        if self.is_short() && !unnoticed {
            return false;
        }
        self.disk.open();
        let (index, term, config) = self.replica.at();
        if self.disk.image.term_at(index) != Some(term) {
            self.disk.write(DiskWrite::Reset { index, term, config });
        }
        self.commit = index;
        self.timer = random.between(4, 16);
        true
    }

    /// Time passes.
    pub fn tick(&mut self, others: &[usize], random: &mut Random) {
        let config = self.config();
        if let Role::Leader { followers, .. } = &mut self.role {
            for progress in followers.values_mut() {
                progress.silent += 1;
                progress.patience = progress.patience.saturating_sub(1);
                if progress.silent % PATIENCE == 0 {
                    progress.next = progress.matched + 1;
                }
            }
            self.finish_change(&config);
            return self.replicate(true, random);
        }
        let returns = self.id.incarnation > 0 && !self.replica.at().2.has_settled(self.id);
        if returns && !others.is_empty() {
            // It asks anyone who may lead, under whatever id.
            let to = Id { node: random.pick(others), incarnation: 0 };
            self.say(to, RaftMessage::Admit { applied: self.replica.applied });
        }
        self.timer = self.timer.saturating_sub(1);
        if self.timer == 0 {
            self.timer = random.between(8, 18);
            if config.has_voter(self.id) {
                self.campaign(&config);
            }
        }
    }

    fn campaign(&mut self, config: &Config) {
        let term = self.term() + 1;
        self.disk.write(DiskWrite::Vote { term, voted: Some(self.id) });
        self.role = Role::Candidate { votes: BTreeSet::new() };
        self.leader = None;
        let last = self.disk.image.end();
        let voters: BTreeSet<Id> = config.sets.iter().flatten().copied().collect();
        for voter in voters {
            match voter == self.id {
                true => self.say(voter, RaftMessage::Voted { term, granted: true }),
                false => self.say(voter, RaftMessage::Vote { term, last }),
            }
        }
    }

    /// Says something once all that was written so far is synced.
    fn say(&mut self, to: Id, message: RaftMessage) {
        self.say_as(self.id, to, message);
    }

    fn say_as(&mut self, from: Id, to: Id, message: RaftMessage) {
        let hasty = match &message {
            RaftMessage::Voted { .. } => self.bug == Some(Bug::VotesBeforeSync),
            RaftMessage::Appended { .. } => self.bug == Some(Bug::AcknowledgesBeforeSync),
            _ => false,
        };
        let after = if hasty { 0 } else { self.disk.written() };
        self.says.push_back((after, Envelope { from, to, message }));
    }

    /// What may be said by now.
    pub fn said(&mut self) -> Vec<Envelope> {
        let synced = self.disk.synced();
        let (free, held): (VecDeque<_>, VecDeque<_>) =
            self.says.drain(..).partition(|(after, _)| *after <= synced);
        self.says = held;
        free.into_iter().map(|(_, envelope)| envelope).collect()
    }

    /// Hears a message that was meant for `me`, which is its own id unless a bug is planted.
    pub fn hear(&mut self, me: Id, from: Id, message: RaftMessage, random: &mut Random) -> Holds {
        let term = match &message {
            RaftMessage::Vote { term, .. }
            | RaftMessage::Voted { term, .. }
            | RaftMessage::Append { term, .. }
            | RaftMessage::Appended { term, .. }
            | RaftMessage::Install { term, .. }
            | RaftMessage::TakeOver { term } => *term,
            RaftMessage::Admit { .. } => self.term(),
        };
        if term > self.term() {
            self.disk.write(DiskWrite::Vote { term, voted: None });
            self.role = Role::Follower;
            self.leader = None;
        }
        let current = term == self.term();
        match message {
            RaftMessage::Vote { last, .. } => {
                let open = self.disk.image.voted.is_none_or(|voted| voted == from);
                let granted = current && open && last >= self.disk.image.end();
                if granted {
                    self.disk.write(DiskWrite::Vote { term, voted: Some(from) });
                    self.timer = random.between(8, 18);
                }
                self.say_as(me, from, RaftMessage::Voted { term: self.term(), granted });
            }
            RaftMessage::Voted { granted, .. } => self.voted(current && granted, from),
            RaftMessage::Append { before, entries, commit, .. } => {
                let matched = match current {
                    true => self.append_all(from, before, entries, commit, random)?,
                    false => Err(0),
                };
                self.say_as(me, from, RaftMessage::Appended { term: self.term(), matched });
            }
            RaftMessage::Appended { matched, .. } => self.appended(current, from, matched),
            RaftMessage::Install { snapshot, .. } if current => {
                self.follow(from, random);
                self.install(&snapshot);
                let matched = Ok(self.commit.min(self.disk.image.last()));
                self.say_as(me, from, RaftMessage::Appended { term, matched });
            }
            RaftMessage::Install { .. } => (),
            RaftMessage::Admit { applied } => self.admit(from, applied),
            RaftMessage::TakeOver { .. } => {
                let config = self.config();
                if current && self.leads_from().is_none() && config.has_voter(self.id) {
                    self.campaign(&config);
                }
            }
        }
        Ok(())
    }

    fn voted(&mut self, granted: bool, from: Id) {
        let config = self.config();
        let Role::Candidate { votes } = &mut self.role else { return };
        if granted {
            votes.insert(from);
        }
        if !config.has_majority(|id| votes.contains(id)) {
            return;
        }
        let last = self.disk.image.last();
        self.leader = Some(self.id);
        self.role = Role::Leader { followers: Followers::new(), blank: last + 1 };
        self.follow_members(&config);
    }

    /// Whoever is sent the log.
    fn follow_members(&mut self, config: &Config) {
        let (own, next) = (self.id, self.disk.image.last() + 1);
        let Role::Leader { followers, .. } = &mut self.role else { return };
        followers.retain(|id, _| config.members.contains(id));
        for id in config.members.iter().filter(|id| **id != own) {
            let new = Progress { next, matched: 0, silent: 0, patience: 0 };
            followers.entry(*id).or_insert(new);
        }
    }

    /// Adds an entry to the log it leads.
    pub fn append(&mut self, payload: Payload, number: u64) -> u64 {
        let (index, term) = (self.disk.image.last() + 1, self.term());
        self.disk.write(DiskWrite::Append(LogEntry { index, term, number, payload }));
        index
    }

    fn follow(&mut self, leader: Id, random: &mut Random) {
        self.role = Role::Follower;
        self.leader = Some(leader);
        self.timer = random.between(8, 18);
    }

    /// Takes over entries that follow on what it has. Else says how far to go back.
    fn append_all(
        &mut self,
        from: Id,
        before: (u64, u64),
        entries: Vec<LogEntry>,
        commit: u64,
        random: &mut Random,
    ) -> Result<Result<u64, u64>, crate::report::Broken> {
        self.follow(from, random);
        let (term, index) = before;
        let known = index < self.disk.image.base || self.disk.image.term_at(index) == Some(term);
        if !known {
            return Ok(Err(self.disk.image.last().min(index - 1)));
        }
        let matched = index + entries.len() as u64;
        for entry in entries {
            match self.disk.image.term_at(entry.index) {
                _ if entry.index <= self.disk.image.base => continue,
                Some(term) if term == entry.term => continue,
                Some(_) => {
                    committed::not_taken_back(self.id, entry.index, self.commit)?;
                    self.disk.write(DiskWrite::Truncate(entry.index - 1));
                }
                None => (),
            }
            self.disk.write(DiskWrite::Append(entry));
        }
        self.commit = self.commit.max(commit.min(matched));
        Ok(Ok(matched))
    }

    fn appended(&mut self, current: bool, from: Id, matched: Result<u64, u64>) {
        let Role::Leader { followers, .. } = &mut self.role else { return };
        let Some(progress) = followers.get_mut(&from).filter(|_| current) else { return };
        progress.silent = 0;
        match matched {
            Ok(matched) => {
                progress.matched = progress.matched.max(matched);
                progress.next = progress.next.max(matched + 1);
            }
            Err(hint) => {
                progress.next = progress.next.min(hint + 1).max(progress.matched + 1);
            }
        }
    }

    fn install(&mut self, snapshot: &crate::replica::Snapshot) {
        let (index, term) = (snapshot.applied, snapshot.term);
        if index <= self.commit {
            return;
        }
        self.replica.install(snapshot); // On disk first: the log behind it is given up.
        if self.disk.image.term_at(index) == Some(term) {
            self.disk.write(DiskWrite::Forget(index));
        } else {
            let config = snapshot.config.clone();
            self.disk.write(DiskWrite::Reset { index, term, config });
        }
        self.commit = index;
    }

    /// Sends each follower what it lacks; to all, if only to be heard of.
    pub fn replicate(&mut self, heartbeat: bool, random: &mut Random) {
        let config = self.config();
        self.follow_members(&config);
        let (term, commit) = (self.term(), self.commit);
        let Role::Leader { followers, .. } = &mut self.role else { return };
        let image = &self.disk.image;
        let mut messages = Vec::new();
        for (id, progress) in followers.iter_mut() {
            if progress.next <= image.base {
                if progress.patience == 0 {
                    progress.patience = 6;
                    let snapshot = Rc::new(self.replica.snapshot(random.chance(500)));
                    messages.push((*id, RaftMessage::Install { term, snapshot }));
                }
                continue;
            }
            let entries = image.from(progress.next, ENTRIES_MAX);
            if entries.is_empty() && !heartbeat {
                continue;
            }
            let index = progress.next - 1;
            let before = (image.term_at(index).unwrap_or_default(), index);
            progress.next += entries.len() as u64;
            messages.push((*id, RaftMessage::Append { term, before, entries, commit }));
        }
        // A leader sends before it has synced itself: its own copy counts when it has.
        for (to, message) in messages {
            let from = self.id;
            self.says.push_back((0, Envelope { from, to, message }));
        }
    }

    /// Commits what a majority has synced, if that ends with an entry of its own term.
    pub fn advance(&mut self) {
        let config = self.config();
        let Role::Leader { followers, .. } = &self.role else { return };
        let image = &self.disk.image;
        let own = match self.bug {
            Some(Bug::AcknowledgesBeforeSync) => image.last(),
            _ => self.disk.synced_last(),
        };
        let has = |id: &Id, index: u64| match *id == self.id {
            true => own >= index,
            false => followers.get(id).is_some_and(|progress| progress.matched >= index),
        };
        let of_term = |index: &u64| image.term_at(*index) == Some(image.term);
        let indexes = (self.commit + 1..=image.last()).rev();
        let mut indexes = indexes.filter(of_term);
        if let Some(index) = indexes.find(|index| config.has_majority(|id| has(id, *index))) {
            self.commit = index;
        }
    }

    /// A replica of a node that lost its disk asks for its place.
    fn admit(&mut self, id: Id, applied: u64) {
        if self.bug == Some(Bug::ReturnsAsVoter) {
            let config = self.config();
            let former = config.members.iter().find(|other| other.node == id.node);
            if let Some(former) = former.filter(|former| **former != id) {
                self.swapped.push((*former, id));
            }
        }
        let Role::Leader { followers, blank } = &self.role else { return };
        if self.bug == Some(Bug::AdmitsNobody) {
            return;
        }
        let config = self.config();
        let heard =
            |id: &Id| *id == self.id || followers.get(id).is_some_and(|of| of.silent <= SILENT_MAX);
        let changing = self.disk.image.config().0 > self.commit;
        if !config.has_majority(heard) || changing || self.commit < *blank {
            return;
        }
        let caught_up = applied + LAG_MAX >= self.disk.image.last();
        if let Some(next) = next_config(&config, id, caught_up) {
            self.change(next);
        }
    }

    /// The second half of a change, once the first is committed.
    fn finish_change(&mut self, config: &Config) {
        let Role::Leader { blank, .. } = &self.role else { return };
        let ready = self.disk.image.config().0 <= self.commit && self.commit >= *blank;
        if config.sets.len() > 1
            && ready
            && let Some(voters) = config.sets.last()
        {
            self.change(towards(config, voters.clone()));
        }
    }

    fn change(&mut self, config: Config) {
        // No two entries have one number: a leader's own are even, and these odd.
        let number = (self.term() << 32 | self.disk.image.last()) * 2 + 1;
        self.append(Payload::Config(Rc::new(config)), number);
    }

    /// Forgets log that nobody needs.
    pub fn forget(&mut self) {
        let held = match &self.role {
            Role::Leader { followers, .. } => followers.values().map(|of| of.matched).min(),
            Role::Follower | Role::Candidate { .. } => None,
        };
        let flushed = self.replica.flushed_at();
        let last = self.disk.image.last();
        let upto = flushed.min(held.unwrap_or(flushed).max(last.saturating_sub(LOG_KEPT)));
        if upto > self.disk.image.base + 8 {
            self.disk.write(DiskWrite::Forget(upto));
        }
    }
}
