//! What leaders do for clients: they take requests, propose, stamp, and answer.

use std::rc::Rc;

use domain::{
    Command, DeadlineKind, EntityId, Fire, FireLocks, FireSessions, Key, LockToken, MemoryRows,
    QueueId, Row, SessionCommand, SessionToken, Span, SubQueue, Timestamp, meta,
};
use engine::{Engine, EngineOptions};

use super::sessions::{Moment, tell_lost, turn};
use super::{Group, Scene};
use crate::bug::Bug;
use crate::client::Client;
use crate::invariants::{atomic, credit, stamps, wheel};
use crate::leader::{Leader, Proposal, QueuedRequest, Reply};
use crate::network::{AGE_MS_MAX, Packet, Parcel, Request};
use crate::operator::Operator;
use crate::raft::{Caller, Envelope, Payload, Proposed, RaftMessage};
use crate::random::Random;
use crate::report::Holds;

/// Credit a receiver wants to have out.
const CREDIT_MAX: u32 = 8;
/// How often a request is passed on to who is taken for the leader.
const HOPS_MAX: u32 = 3;

impl Group {
    /// Who leads, has applied all that was there before, and may stamp, serves clients. All that a
    /// leader knows beside the rows is built from them.
    pub(super) fn install_leaders(&mut self, scene: Scene<'_>) -> Holds {
        for (index, node) in scene.nodes.iter().enumerate() {
            let member = self.members[index].as_ref().filter(|_| node.up);
            let blank = member.and_then(|member| Some((member, member.leads_from()?)));
            let ready = blank.filter(|(member, blank)| member.replica.applied >= *blank);
            let Some((member, _)) = ready.filter(|_| self.may_stamp(scene, index)) else {
                self.leaders.remove(&index);
                continue;
            };
            let term = member.term();
            if self.leaders.get(&index).is_some_and(|leader| leader.term == term) {
                continue;
            }
            let rows = &member.replica.rows;
            let mut engine = Engine::rebuild(rows, engine_options());
            wheel::check(&mut engine, rows)?;
            self.epochs += 1;
            let (epoch, stamped) = (self.epochs, meta(rows).last_at);
            let mut leader = Leader::new(epoch, term, engine, stamped, self.options.bug);
            leader.offset = meta(rows).clock_offset;
            leader.match_units = self.options.match_units;
            self.leaders.insert(index, leader);
        }
        Ok(())
    }

    fn may_stamp(&self, scene: Scene<'_>, node: usize) -> bool {
        scene.nodes[node].may_stamp[self.index].0
            || self.options.bug == Some(Bug::StampsWithoutAgreement)
    }

    /// What leaders do of themselves.
    pub(super) fn lead(&mut self, scene: Scene<'_>, random: &mut Random) -> Holds {
        if !scene.peace && random.chance(25) {
            self.operator.act(&self.oracle, random);
        }
        self.operator.look(&self.oracle, scene.peace, random);
        self.hand_over(scene, random);
        let newest = self.newest();
        let nodes: Vec<usize> = self.leaders.keys().copied().collect();
        for node in nodes {
            let clock = self.clock(scene, node);
            self.receivers(node, Moment { clock, peace: scene.peace }, random)?;
            self.propose(node, newest == Some(node), clock, scene, random);
            self.append(node, scene)?;
        }
        Ok(())
    }

    /// The one of the latest term: others may not have heard of it.
    pub(super) fn newest(&self) -> Option<usize> {
        self.leaders.iter().max_by_key(|(_, leader)| leader.epoch).map(|(node, _)| *node)
    }

    /// What a leader's clock shows, as far as an operator has moved it.
    pub(super) fn clock(&self, scene: Scene<'_>, node: usize) -> Timestamp {
        let shown = scene.nodes[node].clock.shown((scene.now * 1000) as i64);
        self.leaders.get(&node).map_or(shown, |leader| shown.plus(leader.offset))
    }

    /// Leadership goes to a node whose clock a majority agrees with, or by an operator's whim.
    fn hand_over(&mut self, scene: Scene<'_>, random: &mut Random) {
        for (index, node) in scene.nodes.iter().enumerate().filter(|(_, node)| node.up) {
            let Some(member) = self.members[index].as_ref() else { continue };
            if member.leads_from().is_none() {
                continue;
            }
            let whim = !scene.peace && random.chance(self.options.step_down);
            let must = !self.may_stamp(scene, index) && random.chance(200);
            let heirs: Vec<usize> = match must {
                true => node.may_stamp[self.index].1.clone(),
                false if whim => (0..scene.nodes.len()).filter(|heir| *heir != index).collect(),
                false => continue,
            };
            if heirs.is_empty() {
                continue;
            }
            let heir = random.pick(&heirs);
            let config = member.config();
            let Some(to) = config.members.iter().rev().find(|id| id.node == heir) else { continue };
            let message = RaftMessage::TakeOver { term: member.term() };
            let envelope = Envelope { from: member.id, to: *to, message };
            if node.is_reached(scene.tick) {
                self.oracle.totals.transfers += 1;
                self.peers.send(envelope, crate::raft::peers::Weather::CALM, random);
            }
        }
    }

    /// Receivers attach to a leader they know of, grant credit, withdraw it and go.
    fn receivers(&mut self, node: usize, moment: Moment, random: &mut Random) -> Holds {
        let newest = self.newest() == Some(node);
        let Some(leader) = self.leaders.get_mut(&node) else { return Ok(()) };
        tell_lost(leader, &mut self.clients);
        let with_sessions = self.operator.known.with_sessions();
        for client in &mut self.clients {
            let finds = newest || random.chance(20);
            if finds && client.epoch != leader.epoch && (moment.peace || random.chance(400)) {
                attach(client, leader, &self.operator, random);
            }
            turn(client, leader, &with_sessions, finds, moment, random);
            if client.epoch != leader.epoch {
                continue;
            }
            let receiver = client.receiver();
            match random.below(1_000) {
                0..200 => leader.credit(receiver, random.below(4) as u32),
                200..210 => leader.drain(receiver),
                210..215 => {
                    leader.detach(receiver);
                    client.epoch = 0; // It will attach again.
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
        Ok(())
    }

    fn propose(
        &mut self,
        node: usize,
        newest: bool,
        clock: Timestamp,
        scene: Scene<'_>,
        random: &mut Random,
    ) {
        let (Some(leader), Some(member)) = (self.leaders.get_mut(&node), &self.members[node])
        else {
            return;
        };
        if !scene.peace && random.chance(60) {
            let hints = stray_hints(&member.replica.rows, &self.operator, random);
            leader.propose_each(hints, Reply::Nobody, clock, random);
        }
        if newest {
            leader.propose_each(self.operator.wanted(), Reply::Operator, clock, random);
        }
        for (command, reply) in std::mem::take(&mut leader.asked) {
            leader.propose_each(vec![command], reply, clock, random);
        }
        let dropped = if scene.peace { 0 } else { self.options.proposal_dropped };
        for _ in 0..random.between(1, 3) {
            self.oracle.totals.dropped += leader.propose(clock, scene.now, dropped, random);
        }
    }

    /// What a leader proposed goes to its log.
    fn append(&mut self, node: usize, scene: Scene<'_>) -> Holds {
        let (Some(leader), Some(member)) = (self.leaders.get_mut(&node), &mut self.members[node])
        else {
            return Ok(());
        };
        let bound =
            stamps::bound_ms(self.options.clock_offset_ms_max, self.options.clock_error_ms_max);
        for Proposal { entry, replies, dropped } in leader.proposals.drain(..) {
            if dropped {
                leader.pending.push_back((None, replies));
                continue;
            }
            stamps::near(entry.at, scene.now, leader.offset, bound)?;
            self.number += 2;
            if replies.iter().any(|reply| matches!(reply, Reply::Operator)) {
                self.operator.proposed(self.number, &entry.commands);
            }
            let asked = replies.iter().map(|reply| match reply {
                Reply::Client { client, producer, serial } => {
                    let ordered = self.clients[*client].is_ordered();
                    Some(Caller { producer: *producer, serial: *serial, ordered })
                }
                Reply::Acquire { .. }
                | Reply::Fire
                | Reply::Operator
                | Reply::Nobody
                | Reply::Pack { .. }
                | Reply::Arrive(_)
                | Reply::Shipped { .. }
                | Reply::Accept { .. } => None,
            });
            let asked = asked.collect();
            let proposed = Proposed { entry, asked, stamped_at: scene.now };
            let index = member.append(Payload::Entry(Rc::new(proposed)), self.number);
            leader.pending.push_back((Some(index), replies));
        }
        Ok(())
    }

    pub(super) fn clients_act(&mut self, scene: Scene<'_>, random: &mut Random) {
        let (lost, repeat) = match scene.peace {
            true => (0, 0),
            false => (self.options.packet_lost, self.options.repeat),
        };
        // Clients ask for the cluster's time: an operator may have moved it.
        let clock = self.oracle.at.0.max(scene.now);
        for client in &mut self.clients {
            if !scene.peace && random.chance(self.options.client_crash) {
                client.crash();
                self.oracle.totals.client_crashes += 1;
            }
            connect(client, scene, random);
            let Some(edge) = client.edge else { continue };
            let mut packets = client.retry(repeat, random);
            if !scene.peace {
                packets.extend(client.act(&self.operator, clock, random));
            }
            for packet in packets {
                let (to, hops, sent_at) = (edge.0, 0, scene.now);
                let parcel = Parcel { packet, edge, to, hops, sent_at };
                self.network.send(parcel, scene.now, lost, random);
            }
        }
    }

    pub(super) fn parcels(&mut self, scene: Scene<'_>, random: &mut Random) -> Holds {
        let lost = if scene.peace { 0 } else { self.options.packet_lost };
        while let Some(parcel) = self.network.receive(scene.now) {
            let (node, starts) = parcel.edge;
            if !scene.nodes[node].up || scene.nodes[node].starts != starts {
                continue; // It fell with its edge.
            }
            match parcel.packet.clone() {
                Packet::Request(asked) => self.asked(parcel, asked, lost, scene, random),
                Packet::Reply { client, producer, serial, outcome } => {
                    let caller = &mut self.clients[client];
                    if let Some(asked) = caller.waits_for(producer, serial) {
                        atomic::answered(asked, &outcome)?;
                    }
                    let (known, again) = caller.answered(producer, serial, &outcome);
                    if let Some((entity, sequences)) = known {
                        self.oracle.acknowledge(entity, &sequences)?;
                    }
                    for packet in again {
                        let parcel =
                            Parcel { packet, to: node, hops: 0, sent_at: scene.now, ..parcel };
                        self.network.send(parcel, scene.now, lost, random);
                    }
                }
                Packet::Delivered { receiver, queue, lock } => {
                    let client = &mut self.clients[receiver.node as usize];
                    if client.has_receiver(receiver) && client.edge == Some(parcel.edge) {
                        client.delivered(queue, lock);
                    }
                }
                Packet::Accepted { receiver, entity, token, until } => {
                    let client = &mut self.clients[receiver.node as usize];
                    if client.has_receiver(receiver) && client.edge == Some(parcel.edge) {
                        client.holder.take(entity, token, until);
                    }
                }
            }
        }
        Ok(())
    }

    /// A request came to a node: it leads, or passes it on to who it thinks does. Where nobody is
    /// known it is lost, and will be sent again.
    fn asked(
        &mut self,
        parcel: Parcel,
        asked: Request,
        lost: u32,
        scene: Scene<'_>,
        random: &mut Random,
    ) {
        let to = &scene.nodes[parcel.to];
        if !to.up || (parcel.hops > 0 && !to.is_reached(scene.tick)) {
            return;
        }
        if let Some(leader) = self.leaders.get_mut(&parcel.to) {
            let arrived_at = parcel.sent_at;
            let Request { client, command, producer, serial } = asked;
            leader.inbox.push_back(QueuedRequest { client, command, producer, serial, arrived_at });
            return;
        }
        let known = self.members[parcel.to].as_ref().and_then(|member| member.leader);
        let Some(next) = known.filter(|id| id.node != parcel.to) else { return };
        if parcel.hops < HOPS_MAX && to.is_reached(scene.tick) {
            debug_assert!(scene.now - parcel.sent_at <= AGE_MS_MAX);
            let parcel = Parcel { to: next.node, hops: parcel.hops + 1, ..parcel };
            self.network.send(parcel, scene.now, lost, random);
        }
    }
}

/// A client whose edge is gone finds another.
fn connect(client: &mut Client, scene: Scene<'_>, random: &mut Random) {
    let lives =
        |(node, starts): (usize, u64)| scene.nodes[node].up && scene.nodes[node].starts == starts;
    let bored = !scene.peace && random.chance(3);
    if client.edge.is_some_and(lives) && !bored {
        return;
    }
    let up: Vec<usize> = (0..scene.nodes.len()).filter(|node| scene.nodes[*node].up).collect();
    if !up.is_empty() {
        let node = random.pick(&up);
        client.connect((node, scene.nodes[node].starts));
    }
}

/// A client's receiver, with the credit it wants, on some queue.
fn attach(client: &mut Client, leader: &mut Leader, operator: &Operator, random: &mut Random) {
    let Operator { entities, known, .. } = operator;
    let mut all = entities.clone();
    all.extend(known.without_sessions());
    let mut entity = random.pick(&all);
    let mut dead = random.chance(250);
    if dead || !known.is_empty() && random.chance(100) {
        all.extend(known.with_sessions());
        entity = random.pick(&all);
        dead |= !entities.contains(&entity);
    }
    let sub = if dead { SubQueue::DeadLetter } else { SubQueue::Main };
    let queue = QueueId { entity, sub };
    leader.detach(client.receiver());
    let receiver = client.attach(leader.epoch);
    leader.attach(receiver, queue);
    leader.credit(receiver, random.between(1, u64::from(CREDIT_MAX)) as u32);
}

/// TIME-8: a hint may be wrong. A deadline that is not due, a lock that is still held: each row
/// decides.
fn stray_hints(rows: &MemoryRows, operator: &Operator, random: &mut Random) -> Vec<Command> {
    let known = &operator.known;
    let mut entities = operator.entities.clone();
    entities.extend(known.targets().chain(known.subscriptions.iter().map(|(_, id)| *id)));
    let entity = random.pick(&entities);
    let kind = random.pick(&DeadlineKind::ALL);
    let count_max = random.between(1, 4) as u32;
    let mut hints = vec![Command::Fire(Fire { entity, kind, count_max })];
    let locks = rows.0.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Lock(queue, sequence), Row::Lock(lock)) => {
            Some((*queue, LockToken { sequence: *sequence, nonce: lock.nonce }))
        }
        _ => None,
    });
    let held = rows.0.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Session(entity, session), Row::Session(row)) => {
            let token = SessionToken { session: session.clone(), nonce: row.lock?.nonce };
            Some((*entity, token))
        }
        _ => None,
    });
    let held: Vec<(EntityId, SessionToken)> = held.filter(|_| random.chance(400)).collect();
    if !held.is_empty() {
        let fire = FireSessions { locks: held };
        hints.push(Command::Session(SessionCommand::Fire(fire)));
    }
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
        fire_count_behind_max: 24,
        fire_behind: Span(20),
        fire_entities_max: 2,
        fire_locks_max: 4,
        acquire_count_max: 4,
        acquire_bytes_max: 200,
        reserved_max: 8,
        shipments_max: 2,
        transfers_max: 2,
    }
}
