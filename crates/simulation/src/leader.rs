//! What only a leader has: an engine, requests that arrived, and who waits for which entry. All of
//! it is gone when leadership is.

use std::collections::{BTreeMap, VecDeque};

use domain::{
    Acquire, Command, Disposition, EntityId, Entry, Line, Outcome, QueueId, ReceiverId,
    SessionCommand, SessionToken, Settlement, Span, Timestamp,
};
use engine::{Carried, Engine};

use crate::bug::Bug;
use crate::forwarding::Ticket;
use crate::invariants::credit::Account;
use crate::network::AGE_MS_MAX;
use crate::random::Random;
use crate::replica::Applied;

/// Odds in a thousand, per request: it meets an open transaction.
const WITHHELD: u32 = 60;

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
    /// Of a receiver that waits for a session.
    Accept {
        receiver: ReceiverId,
        entity: EntityId,
    },
    /// One command of a round of firing.
    Fire,
    /// An operator, who looks for himself.
    Operator,
    Nobody,
    /// A source packs, or releases.
    Pack {
        queue: QueueId,
    },
    /// A shipment of another group.
    Arrive(Ticket),
    /// What came of one of this group's.
    Shipped {
        line: Line,
        serial: u64,
        carried: Carried,
    },
}

/// An entry to be proposed, with one reply per command.
pub struct Proposal {
    pub entry: Entry,
    pub replies: Vec<Reply>,
    /// It never reaches the log; its leader learns so in its turn.
    pub dropped: bool,
}

/// A client's command as it arrived.
pub struct QueuedRequest {
    pub client: usize,
    pub command: Command,
    pub producer: u64,
    pub serial: u64,
    pub arrived_at: u64,
}

/// The leader of a group, for one term.
pub struct Leader {
    /// No other leadership of this group has it: there may be two in one term, with a doubtful clock
    /// between them.
    pub epoch: u64,
    pub term: u64,
    pub engine: Engine,
    /// Not yet in the log.
    pub proposals: Vec<Proposal>,
    pub inbox: VecDeque<QueuedRequest>,
    /// Proposed and not yet applied here: its index, or `None` if it was dropped; and who waits.
    pub pending: VecDeque<(Option<u64>, Vec<Reply>)>,
    /// By receiver attached in this term.
    pub accounts: BTreeMap<ReceiverId, Account>,
    /// The last stamp given: a leader's own clock does not run back.
    stamped: Timestamp,
    /// How far an operator moved the clock, as far as was applied here.
    pub offset: Span,
    bug: Option<Bug>,
    /// See `Options::match_units`.
    pub match_units: u64,
    /// Shipments on their way to another group, and until when an answer is waited for.
    pub carrying: BTreeMap<(Line, u64), u64>,
    /// What forwarding asks for, to be proposed with what else there is.
    pub asked: Vec<(Command, Reply)>,
    /// Answers for other groups' leaders.
    pub arrived: Vec<(Ticket, Outcome)>,
}

/// An outcome on its way to whoever waits for it.
pub struct Answer {
    pub reply: Reply,
    pub outcome: Outcome,
}

impl Leader {
    /// `stamped`: the last time in the log (TIME-3).
    pub fn new(
        epoch: u64,
        term: u64,
        engine: Engine,
        stamped: Timestamp,
        bug: Option<Bug>,
    ) -> Leader {
        Leader {
            epoch,
            term,
            engine,
            proposals: Vec::new(),
            inbox: VecDeque::new(),
            pending: VecDeque::new(),
            accounts: BTreeMap::new(),
            stamped,
            offset: Span(0),
            bug,
            match_units: 0,
            carrying: BTreeMap::new(),
            asked: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// Tells the engine what a step did and finds who waits for its outcomes.
    pub fn applied(&mut self, first: u64, applied: Applied) -> Vec<Answer> {
        applied.effects.into_iter().for_each(|effect| self.engine.effect(effect));
        let mut answers = Vec::new();
        for (index, outcomes) in (first..).zip(applied.outcomes) {
            self.give_up();
            if self.pending.front().is_none_or(|(at, _)| *at != Some(index)) {
                continue; // Of an earlier leader.
            }
            let Some((_, replies)) = self.pending.pop_front() else { continue };
            let fired: Vec<Outcome> = replies
                .iter()
                .zip(&outcomes)
                .filter(|(reply, _)| matches!(reply, Reply::Fire))
                .map(|(_, outcome)| outcome.clone())
                .collect();
            if !fired.is_empty() {
                self.engine.fired(&fired);
            }
            for (reply, outcome) in replies.into_iter().zip(outcomes) {
                match reply {
                    Reply::Acquire { receiver, .. } => self.acquired(receiver, &outcome),
                    Reply::Pack { queue } => self.engine.packed(queue, true, self.stamped),
                    Reply::Arrive(ticket) => self.arrived.push((ticket, outcome.clone())),
                    Reply::Shipped { line, serial, carried } => {
                        self.engine.carried(line, serial, carried, self.stamped);
                    }
                    Reply::Accept { receiver, entity } => self.accepted(receiver, entity, &outcome),
                    Reply::Client { .. } | Reply::Fire | Reply::Operator | Reply::Nobody => (),
                }
                answers.push(Answer { reply, outcome });
            }
        }
        self.give_up();
        answers
    }

    fn acquired(&mut self, receiver: ReceiverId, outcome: &Outcome) {
        let withdrawn = self.engine.acquired(receiver, outcome);
        let Some(account) = self.accounts.get_mut(&receiver) else { return };
        account.withdrawn += withdrawn;
        if let Outcome::Acquired { deliveries, .. } = outcome {
            account.taken += deliveries.len() as u32;
        }
    }

    pub fn bug(&self) -> Option<Bug> {
        self.bug
    }

    /// Shipments nobody answers for are asked for again.
    pub fn lose_patience(&mut self, now: u64, clock: Timestamp) {
        let engine = &mut self.engine;
        self.carrying.retain(|(line, serial), until| {
            if *until < now {
                engine.carried(*line, *serial, Carried::Lost, clock);
            }
            *until >= now
        });
    }

    fn accepted(&mut self, receiver: ReceiverId, entity: EntityId, outcome: &Outcome) {
        self.engine.accepted(receiver, outcome);
        if let Outcome::Accepted { token, .. } = outcome {
            self.hold(receiver, entity, token.clone());
        }
    }

    /// A receiver comes with a session it holds.
    pub fn hold(&mut self, receiver: ReceiverId, entity: EntityId, token: SessionToken) {
        self.engine.hold(receiver, entity, token);
        self.accounts.insert(receiver, Account::default());
    }

    /// A receiver attaches, with nothing but its account.
    pub fn attach(&mut self, receiver: ReceiverId, queue: QueueId) {
        self.engine.attach(receiver, queue);
        self.accounts.insert(receiver, Account::default());
    }

    /// It grants credit, if it is attached.
    pub fn credit(&mut self, receiver: ReceiverId, count: u32) {
        if let Some(account) = self.accounts.get_mut(&receiver) {
            self.engine.credit(receiver, count);
            account.granted += count;
        }
    }

    /// It withdraws what waits.
    pub fn drain(&mut self, receiver: ReceiverId) {
        let withdrawn = self.engine.drain(receiver);
        if let Some(account) = self.accounts.get_mut(&receiver) {
            account.withdrawn += withdrawn;
        }
    }

    pub fn detach(&mut self, receiver: ReceiverId) {
        self.engine.detach(receiver);
        self.accounts.remove(&receiver);
    }

    /// Gathers what there is to propose into at most one entry, and proposes it unless it is
    /// dropped on the way. Returns how many commands were dropped.
    pub fn propose(
        &mut self,
        clock: Timestamp,
        now: u64,
        dropped: u32,
        random: &mut Random,
    ) -> u64 {
        let mut commands = Vec::new();
        let mut replies = Vec::new();
        if random.chance(700) && self.bug != Some(Bug::FiresNothing) {
            for command in self.engine.poll(clock) {
                commands.push(command);
                replies.push(Reply::Fire);
            }
        }
        for _ in 0..random.between(0, 6) {
            let Some(mut request) = self.next_request(random) else { break };
            if now - request.arrived_at > AGE_MS_MAX {
                continue; // Its connection is gone.
            }
            match self.bug {
                Some(Bug::ForgetsOrigins) => without_origin(&mut request.command),
                Some(Bug::ReordersStreams) => unordered(&mut request.command),
                Some(Bug::CommitsInPart) => in_part(&mut request.command),
                _ => (),
            }
            if is_deletion(&request.command) && commands.iter().any(is_deletion) {
                self.inbox.push_front(request);
                break; // One to an entry, for the oracle's sake.
            }
            let QueuedRequest { client, mut command, producer, serial, .. } = request;
            if random.chance(WITHHELD) {
                withhold(&mut command, random);
            }
            let facts = command.facts();
            // Without what was scheduled for a time that has come: that it waits for its timer.
            let available = facts.sends.available_at(Timestamp::ZERO);
            let incoming = facts.sends_to().map(|entity| (QueueId::main(entity), available));
            commands.push(command);
            replies.push(Reply::Client { client, producer, serial });
            if let Some((queue, count)) = incoming {
                acquire(&mut self.engine, Some((queue, count)), &mut commands, &mut replies);
            }
        }
        if random.chance(800) {
            acquire(&mut self.engine, None, &mut commands, &mut replies);
            sessions(&mut self.engine, &mut commands, &mut replies);
        }
        if commands.is_empty() {
            return 0;
        }
        let dropped = random.chance(dropped);
        let count = if dropped { commands.len() as u64 } else { 0 };
        if self.match_units > 0 {
            let units_max = random.between(1, self.match_units);
            for (place, limit) in self.engine.match_limits(&commands, units_max).into_iter().rev() {
                commands.insert(place, limit);
                replies.insert(place, Reply::Nobody);
            }
        }
        self.stamp(commands, replies, dropped, clock, random);
        count
    }

    /// Proposes commands as they are, each in an entry of its own.
    pub fn propose_each(
        &mut self,
        commands: Vec<Command>,
        reply: Reply,
        clock: Timestamp,
        random: &mut Random,
    ) {
        for command in commands {
            self.stamp(vec![command], vec![reply], false, clock, random);
        }
    }

    fn stamp(
        &mut self,
        commands: Vec<Command>,
        replies: Vec<Reply>,
        dropped: bool,
        clock: Timestamp,
        random: &mut Random,
    ) {
        self.stamped = self.stamped.max(clock);
        let entry = Entry { at: self.stamped, seed: random.bytes(), commands };
        self.proposals.push(Proposal { entry, replies, dropped });
    }

    /// Requests are taken in the order they arrived in.
    fn next_request(&mut self, random: &mut Random) -> Option<QueuedRequest> {
        match self.bug {
            Some(Bug::ReordersStreams) if !self.inbox.is_empty() => {
                self.inbox.remove(random.index(self.inbox.len()))
            }
            _ => self.inbox.pop_front(),
        }
    }

    /// Nothing was asked, proposed or committed that is not done.
    /// And nothing is due, or waits for what is there.
    pub fn is_idle(&mut self, clock: Timestamp) -> bool {
        self.inbox.is_empty()
            && self.asked.is_empty()
            && self.proposals.is_empty()
            && self.pending.is_empty()
            && self.engine.next_deadline().is_none_or(|due| due > clock)
            && !self.engine.has_acquires()
    }

    /// Dropped proposals whose turn it is: the engine is told, clients find out by waiting.
    pub fn give_up(&mut self) {
        while self.pending.front().is_some_and(|(at, _)| at.is_none()) {
            if let Some((_, replies)) = self.pending.pop_front() {
                self.lost(&replies);
            }
        }
    }

    fn lost(&mut self, replies: &[Reply]) {
        if replies.iter().any(|reply| matches!(reply, Reply::Fire)) {
            self.engine.fire_lost();
        }
        for reply in replies {
            match *reply {
                Reply::Pack { queue } => self.engine.packed(queue, false, self.stamped),
                Reply::Shipped { line, serial, .. } => {
                    self.engine.carried(line, serial, Carried::Lost, self.stamped);
                }
                _ => (),
            }
            if let Reply::Accept { receiver, .. } = reply {
                self.engine.accept_lost(*receiver);
            }
            if let Reply::Acquire { receiver, .. } = reply {
                let withdrawn = self.engine.acquire_lost(*receiver);
                if let Some(account) = self.accounts.get_mut(receiver) {
                    account.withdrawn += withdrawn;
                }
            }
        }
    }
}

/// TX-9: one of its settlements is of a lock that waits in somebody's open transaction. Which those are a
/// leader knows from its clients (`service`), and any lock may be one.
fn withhold(command: &mut Command, random: &mut Random) {
    let mut all: Vec<&mut Settlement> =
        command.settles_mut().flat_map(|settle| &mut settle.settlements).collect();
    if !all.is_empty() {
        let at = random.index(all.len());
        all[at].disposition = Disposition::Withheld;
    }
}

/// For the bug `ForgetsOrigins`.
fn without_origin(command: &mut Command) {
    if let Some(origin) = command.origin_mut() {
        *origin = None;
    }
}

/// For the bug `ReordersStreams`.
fn unordered(command: &mut Command) {
    if let Some(Some(origin)) = command.origin_mut() {
        origin.ordered = false;
    }
}

/// For the bug `CommitsInPart`.
fn in_part(command: &mut Command) {
    if let Command::Commit(commit) = command {
        commit.operations.pop();
    }
}

fn is_deletion(command: &Command) -> bool {
    matches!(command, Command::DeleteBatch(_))
}

/// Adds the acquires waiting credit justifies, for one queue with messages on their way, or for all.
fn acquire(
    engine: &mut Engine,
    incoming: Option<(QueueId, u32)>,
    commands: &mut Vec<Command>,
    replies: &mut Vec<Reply>,
) {
    let mut acquires: Vec<Acquire> = Vec::new();
    match incoming {
        Some((queue, count)) => engine.wants(queue, count, &mut acquires),
        None => engine.acquires(&mut acquires),
    }
    for acquire in acquires {
        let Acquire { receiver, queue, .. } = acquire;
        replies.push(Reply::Acquire { receiver, queue });
        commands.push(Command::Acquire(acquire));
    }
}

/// Adds what those who wait for a session, or hold one, justify asking for.
fn sessions(engine: &mut Engine, commands: &mut Vec<Command>, replies: &mut Vec<Reply>) {
    let (mut accepts, mut receives) = (Vec::new(), Vec::new());
    engine.accepts(&mut accepts);
    engine.receives(&mut receives);
    for accept in accepts {
        replies.push(Reply::Accept { receiver: accept.receiver, entity: accept.queue.entity });
        commands.push(Command::Session(SessionCommand::Accept(accept)));
    }
    for receive in receives {
        let (receiver, queue) = (receive.receiver, QueueId::main(receive.entity));
        replies.push(Reply::Acquire { receiver, queue });
        commands.push(Command::Session(SessionCommand::Receive(receive)));
    }
}
