//! One group: its log, replicas, leader and clients, and the oracle that follows the log.

use domain::{
    Command, DeadlineKind, EntityId, Entry, Fire, FireLocks, Key, LockToken, MemoryRows, QueueId,
    Row, Span, SubQueue, Timestamp,
};
use engine::{Engine, EngineOptions};

use crate::Options;
use crate::client::Client;
use crate::consensus::{Proposal, Record, Reply};
use crate::invariants::{credit, replicas, settled, wheel};
use crate::leader::{Answer, Leader, Request};
use crate::network::{Network, Packet};
use crate::node::Node;
use crate::operator::Operator;
use crate::oracle::Oracle;
use crate::random::Random;
use crate::replica::Replica;
use crate::report::{Broken, Holds, Report};

/// A follower this far behind is sent rows instead of entries: the log behind is gone.
const LOG_KEPT: usize = 40;
/// Credit a receiver wants to have out.
const CREDIT_MAX: u32 = 8;

/// See the file's head.
pub struct Group {
    options: Options,
    log: Vec<Record>,
    replicas: Vec<Replica>,
    /// Applies every entry by itself, as it commits.
    reference: Replica,
    leader: Option<Leader>,
    term: u64,
    oracle: Oracle,
    clients: Vec<Client>,
    network: Network,
    operator: Operator,
    /// How far each replica had applied when they were last compared.
    compared: Vec<usize>,
}

impl Group {
    pub fn new(options: &Options, random: &mut Random) -> Group {
        let replica = |_| Replica::default();
        Group {
            options: *options,
            log: Vec::new(),
            replicas: (0..options.nodes).map(replica).collect(),
            reference: Replica::default(),
            leader: None,
            term: 0,
            oracle: Oracle::default(),
            clients: (0..options.clients_per_group as usize)
                .map(|index| Client::new(index, index % 2 == 0))
                .collect(),
            network: Network::default(),
            operator: Operator::new(options.queues_per_group, random),
            compared: Vec::new(),
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
    pub fn tick(&mut self, nodes: &[Node], now: u64, peace: bool, random: &mut Random) -> Holds {
        let step_down = if peace { 0 } else { self.options.step_down };
        if self.leader.as_ref().is_some_and(|leader| !nodes[leader.node].up)
            || random.chance(step_down)
        {
            self.fall(random)?;
        }
        self.elect(nodes, random)?;
        self.commit(nodes, now, random)?;
        self.lead(nodes, now, peace, random)?;
        self.follow(nodes, peace, random)?;
        self.clients_act(now, peace, random);
        self.packets(now, random)?;
        self.compare()
    }

    /// Replicas against one another, where any has moved.
    fn compare(&mut self) -> Holds {
        let applied: Vec<usize> = self.replicas.iter().map(|replica| replica.applied).collect();
        if applied != self.compared {
            replicas::equal(&self.replicas, &self.reference)?;
            self.compared = applied;
        }
        Ok(())
    }

    /// A node fell: its replica keeps what was flushed.
    pub fn crash(&mut self, node: usize) {
        self.replicas[node].crash();
    }

    /// The leader is gone. Of its proposals a first part commits.
    fn fall(&mut self, random: &mut Random) -> Holds {
        let Some(mut leader) = self.leader.take() else { return Ok(()) };
        let (kept, gone) = leader.proposals.fall(random);
        for Proposal { entry, replies, .. } in gone {
            self.oracle.totals.dropped += replies.len() as u64;
            // An operator looks, and sees to it that it is done.
            let asked = entry.commands.into_iter().zip(replies);
            let plain = asked.filter(|(_, reply)| matches!(reply, Reply::Operator));
            self.operator.again(plain.map(|(command, _)| command));
        }
        let reached = kept.into_iter().filter(|proposal| !proposal.dropped);
        reached.map(|proposal| proposal.entry).try_for_each(|entry| self.append(entry))
    }

    /// Some node that is up takes over, once it has applied all there is.
    fn elect(&mut self, nodes: &[Node], random: &mut Random) -> Holds {
        let up: Vec<usize> = (0..nodes.len()).filter(|node| nodes[*node].up).collect();
        if self.leader.is_some() || up.len() * 2 <= nodes.len() || !random.chance(300) {
            return Ok(());
        }
        let node = random.pick(&up);
        let replica = &mut self.replicas[node];
        while replica.applied < self.log.len() {
            let left = self.log.len() - replica.applied;
            replica.apply(&self.log, random.between(1, 8).min(left as u64) as usize);
        }
        self.term += 1;
        self.oracle.totals.elections += 1;
        let mut engine = Engine::rebuild(&replica.rows, engine_options());
        wheel::check(&mut engine, &replica.rows)?;
        self.leader = Some(Leader::new(node, engine));
        Ok(())
    }

    /// Entries that a majority has by now.
    fn commit(&mut self, nodes: &[Node], now: u64, random: &mut Random) -> Holds {
        let up = nodes.iter().filter(|node| node.up).count();
        if up * 2 <= nodes.len() {
            return Ok(());
        }
        while let Some(leader) = &mut self.leader {
            let Some(proposal) = leader.proposals.commit(now) else { break };
            let Proposal { entry, replies, dropped, .. } = proposal;
            leader.pending.push_back(((!dropped).then_some(self.log.len()), replies));
            if !dropped {
                self.append(entry)?;
            }
        }
        // The leader applies in steps of its own.
        while let Some(leader) = &mut self.leader {
            let replica = &mut self.replicas[leader.node];
            let (first, left) = (replica.applied, self.log.len() - replica.applied);
            if left == 0 {
                leader.give_up();
                break;
            }
            let count = random.between(1, 5).min(left as u64) as usize;
            let applied = replica.apply(&self.log, count);
            let records = &self.log[first..first + count];
            replicas::outcomes(leader.node, records, &applied.outcomes)?;
            let answers = leader.applied(first, applied);
            wheel::check(&mut leader.engine, &replica.rows)?;
            self.answer(answers, now, random);
        }
        Ok(())
    }

    /// Appends to the log; reference and oracle follow at once.
    fn append(&mut self, entry: Entry) -> Holds {
        self.log.push(Record { entry, outcomes: Vec::new() });
        let at = self.log.len() - 1;
        let mut applied = self.reference.apply(&self.log, 1);
        self.log[at].outcomes = applied.outcomes.pop().unwrap_or_default();
        let Record { entry, outcomes } = &self.log[at];
        self.oracle.observe(entry, outcomes, &self.reference.rows).map_err(|mut broken| {
            broken.what += &format!("\nafter entry {at} at {:?}:", entry.at);
            for (command, outcome) in entry.commands.iter().zip(outcomes) {
                broken.what += &format!("\n  {command:?}\n    {outcome:?}");
            }
            broken
        })
    }

    fn answer(&mut self, answers: Vec<Answer>, now: u64, random: &mut Random) {
        let lost = self.options.packet_lost;
        for Answer { reply, outcome } in answers {
            match reply {
                Reply::Client { client, producer, serial } => {
                    let packet = Packet::Answer { client, producer, serial, outcome };
                    self.network.send(packet, now, lost, random);
                }
                Reply::Acquire { receiver, queue } => {
                    let domain::Outcome::Acquired { deliveries, .. } = outcome else { continue };
                    for delivery in deliveries {
                        let Some(lock) = delivery.lock else { continue };
                        let packet = Packet::Delivered { receiver, queue, lock };
                        self.network.send(packet, now, lost, random);
                    }
                }
                Reply::Fire | Reply::Operator | Reply::Nobody => (),
            }
        }
    }

    /// What the leader does of itself.
    fn lead(&mut self, nodes: &[Node], now: u64, peace: bool, random: &mut Random) -> Holds {
        if !peace && random.chance(25) {
            self.operator.act(&self.oracle, random);
        }
        let clock = self.clock(nodes, now);
        let Some(leader) = &mut self.leader else { return Ok(()) };
        for client in &mut self.clients {
            if client.term != self.term && (peace || random.chance(400)) {
                attach(client, leader, self.term, &self.operator.entities, random);
            }
            let receiver = client.receiver();
            match random.below(1_000) {
                0..200 => leader.credit(receiver, random.below(4) as u32),
                200..210 => leader.drain(receiver),
                210..215 => {
                    leader.detach(receiver);
                    client.term = 0; // It will attach again.
                }
                _ => (),
            }
        }
        for receiver in leader.engine.take_detached() {
            leader.accounts.remove(&receiver);
        }
        for (receiver, account) in &leader.accounts {
            credit::check(&leader.engine, *receiver, account)?;
        }
        if !peace && random.chance(60) {
            let rows = &self.replicas[leader.node].rows;
            let hints = stray_hints(rows, &self.operator.entities, random);
            leader.propose_each(hints, Reply::Nobody, clock, now, random);
        }
        let wanted = self.operator.wanted();
        leader.propose_each(wanted, Reply::Operator, clock, now, random);
        let dropped = if peace { 0 } else { self.options.proposal_dropped };
        for _ in 0..random.between(1, 3) {
            self.oracle.totals.dropped += leader.propose(clock, now, dropped, random);
        }
        Ok(())
    }

    /// Followers apply at their own pace, by entries or by snapshot.
    fn follow(&mut self, nodes: &[Node], peace: bool, random: &mut Random) -> Holds {
        let leads = self.leader.as_ref().map(|leader| leader.node);
        for node in (0..nodes.len()).filter(|node| nodes[*node].up) {
            let behind = self.log.len() - self.replicas[node].applied;
            if random.chance(30) {
                self.replicas[node].flush();
            }
            if Some(node) == leads || behind == 0 || (!peace && random.chance(500)) {
                continue;
            }
            if behind > LOG_KEPT || random.chance(5) {
                self.install(node, leads, random);
                continue;
            }
            let count = random.between(1, 12).min(behind as u64) as usize;
            let first = self.replicas[node].applied;
            let applied = self.replicas[node].apply(&self.log, count);
            let records = &self.log[first..first + count];
            replicas::outcomes(node, records, &applied.outcomes)?;
        }
        Ok(())
    }

    /// A snapshot of the leader's rows, as of what it had flushed or of now.
    fn install(&mut self, node: usize, leads: Option<usize>, random: &mut Random) {
        let Some(leads) = leads else { return };
        let (rows, applied) = self.replicas[leads].snapshot(random.chance(500));
        if applied > self.replicas[node].applied {
            self.replicas[node].install(rows, applied);
            self.oracle.totals.snapshot_installs += 1;
        }
    }

    fn clients_act(&mut self, now: u64, peace: bool, random: &mut Random) {
        let (lost, repeat) = match peace {
            true => (0, 0),
            false => (self.options.packet_lost, self.options.repeat),
        };
        // Clients ask for the cluster's time: an operator may have moved it.
        let clock = self.oracle.at.0.max(now);
        for client in &mut self.clients {
            let mut packets = client.retry(repeat, random);
            if !peace {
                packets.extend(client.act(&self.operator.entities, clock, random));
            }
            for packet in packets {
                self.network.send(packet, now, lost, random);
            }
        }
    }

    fn packets(&mut self, now: u64, random: &mut Random) -> Holds {
        while let Some(packet) = self.network.receive(now) {
            match packet {
                Packet::Request { client, producer, serial, command } => {
                    // Without a leader nobody takes it: it will be sent again.
                    if let Some(leader) = &mut self.leader {
                        let arrived_at = now;
                        leader.inbox.push_back(Request {
                            client,
                            command,
                            producer,
                            serial,
                            arrived_at,
                        });
                    }
                }
                Packet::Answer { client, producer, serial, outcome } => {
                    let asked = &mut self.clients[client];
                    let (known, again) = asked.answered(producer, serial, &outcome);
                    if let Some((entity, sequences)) = known {
                        self.oracle.acknowledge(entity, &sequences)?;
                    }
                    for packet in again {
                        self.network.send(packet, now, self.options.packet_lost, random);
                    }
                }
                Packet::Delivered { receiver, queue, lock } => {
                    let client = &mut self.clients[receiver.node as usize];
                    if client.receiver() == receiver {
                        client.delivered(queue, lock);
                    }
                }
            }
        }
        Ok(())
    }

    /// Trouble is over: what was suspended is let in again.
    pub fn resume(&mut self, random: &mut Random) {
        self.operator.resume(&self.oracle, random);
    }

    /// What the leader's clock shows, as far as an operator has moved it.
    fn clock(&self, nodes: &[Node], now: u64) -> Timestamp {
        let Some(leader) = &self.leader else { return Timestamp::ZERO };
        let offset = match self.replicas[leader.node].rows.0.get(&Key::Meta) {
            Some(Row::Meta(meta)) => meta.clock_offset,
            _ => Span(0),
        };
        nodes[leader.node].clock(now).plus(offset)
    }

    /// Whether nothing is under way and nothing is due; what is due later may stay.
    pub fn is_settled(&mut self, nodes: &[Node], now: u64) -> bool {
        let clock = self.clock(nodes, now);
        self.leader.as_mut().is_some_and(|leader| leader.is_idle(clock))
            && self.operator.is_content()
            && self.clients.iter().all(|client| !client.is_waiting())
            && self.replicas.iter().all(|replica| replica.applied == self.log.len())
    }

    /// At the end: nothing that was due is left.
    pub fn check_settled(&self, nodes: &[Node], now: u64) -> Holds {
        match &self.leader {
            Some(leader) => settled::check(&self.oracle, &leader.engine, self.clock(nodes, now)),
            None => Err(Broken {
                invariant: "settled",
                source: "architecture 7",
                what: "no leader although all nodes are up".to_owned(),
            }),
        }
    }
}

/// A client's receiver, with the credit it wants, on some queue.
fn attach(
    client: &mut Client,
    leader: &mut Leader,
    term: u64,
    entities: &[EntityId],
    random: &mut Random,
) {
    let entity = random.pick(entities);
    let sub = if random.chance(250) { SubQueue::DeadLetter } else { SubQueue::Main };
    let queue = QueueId { entity, sub };
    leader.detach(client.receiver());
    let receiver = client.attach(term);
    leader.attach(receiver, queue);
    leader.credit(receiver, random.between(1, u64::from(CREDIT_MAX)) as u32);
}

/// TIME-8: a hint may be wrong. A deadline that is not due, a lock that is still held: each row
/// decides.
fn stray_hints(rows: &MemoryRows, entities: &[EntityId], random: &mut Random) -> Vec<Command> {
    let entity = random.pick(entities);
    let kind = random.pick(&DeadlineKind::ALL);
    let count_max = random.between(1, 4) as u32;
    let mut hints = vec![Command::Fire(Fire { entity, kind, count_max })];
    let locks = rows.0.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Lock(queue, sequence), Row::Lock(lock)) => {
            Some((*queue, LockToken { sequence: *sequence, nonce: lock.nonce }))
        }
        _ => None,
    });
    let locks: Vec<(QueueId, LockToken)> = locks.filter(|_| random.chance(400)).collect();
    if !locks.is_empty() {
        hints.push(Command::FireLocks(FireLocks { locks }));
    }
    hints
}

/// Small bounds, so that they matter.
fn engine_options() -> EngineOptions {
    EngineOptions {
        fire_count_max: 8,
        fire_entities_max: 2,
        fire_locks_max: 4,
        acquire_count_max: 4,
        acquire_bytes_max: 200,
        reserved_max: 8,
    }
}
