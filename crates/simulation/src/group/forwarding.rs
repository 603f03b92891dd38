//! What a group's leaders do for forwarding: forward tasks, and what arrives from other groups.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Arrive, Arriving, CancelScheduled, Command, Commit, CreateQueue, Destination, EntityId,
    EntityStatus, ForwardCommand, GroupId, Key, MemoryRows, NewMessage, Operation, Outcome,
    QueueId, QueueProperties, Refusal, Row, Send, SendVia, SequenceNumber, Ship, Shipped, SubQueue,
    Timestamp, Unpark, UpdateQueue, meta,
};
use engine::{Carried, ForwardTask};

use super::{Group, Scene};
use crate::bug::Bug;
use crate::forwarding::{Shipment, Ticket, source, taker};
use crate::leader::{Leader, Reply};
use crate::raft::{Payload, Record};
use crate::random::Random;

/// How long a leader waits for an answer from another group, ms.
const PATIENCE_MS: u64 = 3_000;

impl Group {
    /// Creates what is missing, sends a text now and then, changes who takes messages, and does what
    /// engines ask for. Returns what is to be brought to the next group.
    /// `ready`: the next group's taker is there, as a directory would say.
    pub fn forward(
        &mut self,
        scene: Scene<'_>,
        ready: bool,
        next: &mut u64,
        random: &mut Random,
    ) -> Vec<Shipment> {
        let (group, now) = (self.index, scene.now);
        let to = (group + 1) % usize::from(self.options.groups);
        if let Some(node) = self.newest() {
            let destination = Destination { entity: taker(to), group: GroupId(to as u16) };
            let commands = self.forward_life(scene, ready.then_some(destination), next, random);
            if let Some(leader) = self.leaders.get_mut(&node) {
                leader.asked.extend(commands.into_iter().map(|command| (command, Reply::Nobody)));
            }
        }
        let mut shipments = Vec::new();
        let nodes: Vec<usize> = self.leaders.keys().copied().collect();
        for node in nodes {
            let clock = self.clock(scene, node);
            let (Some(leader), Some(member)) = (self.leaders.get_mut(&node), &self.members[node])
            else {
                continue;
            };
            leader.lose_patience(scene.now, clock);
            let mut tasks = Vec::new();
            leader.engine.forward_tasks(clock, &mut tasks);
            for task in tasks {
                let rows = &member.replica.rows;
                shipments.extend(begin_task(
                    task,
                    leader,
                    Sender { group, to, ready, node, now, clock },
                    rows,
                ));
            }
        }
        shipments
    }

    /// `to`: the next group's taker, if it is there.
    fn forward_life(
        &self,
        scene: Scene<'_>,
        to: Option<Destination>,
        next: &mut u64,
        random: &mut Random,
    ) -> Vec<Command> {
        let destination = to;
        let rows = &self.reference.rows;
        let (source, taker) = (source(self.index), taker(self.index));
        let status = |entity| match rows.0.get(&Key::Entity(entity)) {
            Some(Row::Entity(row)) => Some(row.properties.clone()),
            _ => None,
        };
        let mut commands = Vec::new();
        for (entity, to) in [(source, Some("next".to_owned())), (taker, None)] {
            let Some(properties) = status(entity) else {
                if random.chance(300) {
                    let forward_dead_letters_to = to.clone();
                    let properties = Box::new(QueueProperties {
                        forward_to: to,
                        forward_dead_letters_to,
                        ..QueueProperties::default()
                    });
                    let name = format!("forwarding{}", entity.0);
                    let create = CreateQueue { entity, name, properties };
                    commands.push(Command::CreateQueue(create));
                }
                continue;
            };
            let wanted = match scene.peace {
                true if properties.status != EntityStatus::Active => EntityStatus::Active,
                true => continue,
                false if !random.chance(30) => continue,
                false => random.pick(&[
                    EntityStatus::Active,
                    EntityStatus::SendDisabled,
                    EntityStatus::ReceiveDisabled,
                    EntityStatus::Disabled,
                ]),
            };
            if !scene.peace || random.chance(100) {
                let properties = Box::new(QueueProperties { status: wanted, ..properties });
                let update = UpdateQueue { origin: None, entity, properties };
                commands.push(Command::UpdateQueue(update));
            }
        }
        if !scene.peace && status(source).is_some() && random.chance(400) {
            let messages = (0..random.between(1, 4)).map(|_| message(next)).collect();
            commands.push(Command::Send(Send { origin: None, entity: source, messages }));
        }
        if let Some(destination) = destination
            && !scene.peace
            && status(source).is_some()
            && random.chance(200)
        {
            commands.push(sent_via(source, destination, next, random));
        }
        commands
    }

    /// A shipment arrives at a leader of this group, be it the newest or not.
    pub fn take_shipment(&mut self, shipment: &Shipment, scene: Scene<'_>, random: &mut Random) {
        let nodes: Vec<usize> = self.leaders.keys().copied().collect();
        if nodes.is_empty() {
            return;
        }
        let node = random.pick(&nodes);
        if !scene.nodes[node].is_reached(scene.tick) {
            return;
        }
        if let Some(leader) = self.leaders.get_mut(&node) {
            let here = meta(&self.reference.rows).cut;
            let cut = match leader.bug() {
                Some(Bug::HeedsNoCut) => here,
                // Who brings it would ask for the cut, and bring it again.
                _ if shipment.cut > here => {
                    let cut = Command::Cut { number: shipment.cut };
                    leader.asked.push((cut, Reply::Nobody));
                    shipment.cut
                }
                _ => shipment.cut,
            };
            let arrive = shipment.arrive.clone().behind(cut);
            leader.asked.push((Command::Forward(arrive), Reply::Arrive(shipment.ticket)));
        }
    }

    /// What leaders of this group were told of other groups' shipments.
    pub fn take_answers(&mut self) -> Vec<(Ticket, Outcome)> {
        self.leaders.values_mut().flat_map(|leader| std::mem::take(&mut leader.arrived)).collect()
    }

    /// The leader that sent a shipment hears of it, if it leads still.
    pub fn hear(&mut self, ticket: Ticket, outcome: &Outcome, scene: Scene<'_>) {
        if !scene.nodes[ticket.node].is_reached(scene.tick) {
            return;
        }
        let clock = self.clock(scene, ticket.node);
        let Some(leader) = self.leaders.get_mut(&ticket.node) else { return };
        let Ticket { line, serial, count, .. } = ticket;
        if leader.epoch != ticket.epoch || leader.carrying.remove(&(line, serial)).is_none() {
            return;
        }
        let refused = match outcome {
            Outcome::Arrived { done, refused } if *done >= count => refused.clone(),
            outcome => {
                if let Outcome::Refused(Refusal::OtherCut { cut }) = outcome {
                    leader.asked.push((Command::Cut { number: *cut }, Reply::Nobody));
                }
                return leader.engine.carried(line, serial, Carried::Lost, clock);
            }
        };
        let refused = match leader.bug() {
            Some(Bug::ForgetsRefusals) => Vec::new(),
            _ => refused,
        };
        let refusals: u32 = refused.iter().map(|refused| refused.count).sum();
        let carried = match refusals {
            0 => Carried::All,
            _ if refusals < count => Carried::Some,
            _ => Carried::Nothing,
        };
        let shipped = ForwardCommand::Shipped(Shipped { queue: line.queue, serial, refused });
        let reply = Reply::Shipped { line, serial, carried };
        leader.asked.push((Command::Forward(shipped), reply));
    }

    /// Texts that were accepted to be forwarded, in entries from `from` on; and how many entries
    /// there are.
    pub fn texts_sent(&self, from: usize, sent: &mut BTreeSet<String>) -> usize {
        sent_in(&self.log[from..], self.index, sent);
        self.log.len()
    }

    /// Texts stored here: how often to be had, and how often away in a shipment.
    pub fn texts(&self, found: &mut BTreeMap<String, (u32, u32)>) {
        texts_in(&self.reference.rows, self.index, found);
    }

    /// Whether what is forwarded to from the group before is there.
    pub fn has_taker(&self) -> bool {
        self.reference.rows.0.contains_key(&Key::Entity(taker(self.index)))
    }

    /// Whether nothing is left to be forwarded that could be.
    pub fn has_forwarded(&self, scene: Scene<'_>) -> bool {
        let Some(node) = self.newest() else { return false };
        let clock = self.clock(scene, node);
        self.leaders.get(&node).is_some_and(|leader| {
            leader.engine.forwards().all(|(_, _, shipments)| shipments.is_empty())
                && leader.engine.next_forward_task().is_none_or(|due| due > clock)
        })
    }
}

/// Texts that entries of a group accepted to be forwarded.
pub(super) fn sent_in(log: &[Record], group: usize, sent: &mut BTreeSet<String>) {
    for record in log {
        let Payload::Entry(proposed) = &record.log.payload else { continue };
        for (command, outcome) in proposed.entry.commands.iter().zip(&record.outcomes) {
            let texts = |messages: &[NewMessage]| -> Vec<String> {
                messages.iter().map(|message| text(&message.content)).collect()
            };
            match (command, outcome) {
                (Command::Send(send), Outcome::Sent { .. }) if send.entity == source(group) => {
                    sent.extend(texts(&send.messages));
                }
                (Command::Commit(commit), Outcome::Committed { .. })
                    if commit.entity == source(group) =>
                {
                    for operation in &commit.operations {
                        if let Operation::SendVia(SendVia { messages, .. })
                        | Operation::Send(Send { messages, .. }) = operation
                        {
                            sent.extend(texts(messages));
                        }
                    }
                }
                _ => (),
            }
        }
    }
}

/// Texts in rows of a group: how often to be had, and how often away in a shipment.
pub(super) fn texts_in(rows: &MemoryRows, group: usize, found: &mut BTreeMap<String, (u32, u32)>) {
    for entity in [source(group), taker(group)] {
        for sub in SubQueue::ALL {
            let queue = QueueId { entity, sub };
            let away = away(rows, queue);
            let from = Key::Message(queue, SequenceNumber::MIN);
            let to = Key::Message(queue, SequenceNumber::MAX);
            for (key, row) in rows.0.range(from..to) {
                let (Key::Message(_, number), Row::Message(row)) = (key, row) else { continue };
                let Some(Row::Body(body)) = rows.0.get(&Key::Body(entity, row.body)) else {
                    continue;
                };
                let found = found.entry(text(body)).or_default();
                match away.contains(number) {
                    true => found.1 += 1,
                    false => found.0 += 1,
                }
            }
        }
    }
}

fn away(rows: &MemoryRows, queue: QueueId) -> BTreeSet<SequenceNumber> {
    let range = Key::Shipment(queue, 0)..Key::Shipment(queue, u64::MAX);
    let shipments = rows.0.range(range).filter_map(|(_, row)| match row {
        Row::Shipment(row) => Some(row.numbers.clone()),
        _ => None,
    });
    shipments.flatten().collect()
}

fn text(content: &[u8]) -> String {
    String::from_utf8_lossy(content).into_owned()
}

fn message(next: &mut u64) -> NewMessage {
    *next += 1;
    NewMessage {
        content: format!("forwarded{next}").into(),
        size_bytes: 10,
        header_bytes: 2,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    }
}

/// A transaction that sends via the source, and now and then to it as well (TX-5). One that ends with
/// a cancellation of nothing leaves nothing (TX-2).
fn sent_via(
    source: EntityId,
    destination: Destination,
    next: &mut u64,
    random: &mut Random,
) -> Command {
    let mut operations = Vec::new();
    for _ in 0..random.between(1, 3) {
        let messages = (0..random.between(1, 3)).map(|_| message(next)).collect();
        operations.push(match random.chance(300) {
            true => Operation::Send(Send { origin: None, entity: source, messages }),
            false => Operation::SendVia(SendVia { via: source, destination, messages }),
        });
    }
    if random.chance(200) {
        let (origin, numbers) = (None, vec![SequenceNumber::MAX]);
        let cancel = CancelScheduled { origin, entity: source, numbers };
        operations.push(Operation::CancelScheduled(cancel));
    }
    Command::Commit(Commit { origin: None, entity: source, operations })
}

/// Which leader a forward task is of, when, and the group its shipments go to.
#[derive(Clone, Copy)]
struct Sender {
    group: usize,
    to: usize,
    ready: bool,
    node: usize,
    now: u64,
    clock: Timestamp,
}

/// A forward task is begun; a shipment to be carried is returned.
fn begin_task(
    task: ForwardTask,
    leader: &mut Leader,
    sender: Sender,
    rows: &MemoryRows,
) -> Option<Shipment> {
    let Sender { group, to, ready, node, now, clock } = sender;
    match task {
        ForwardTask::Ship { queue, .. } if !ready => {
            leader.engine.packed(queue, false, clock);
            None
        }
        ForwardTask::Ship { queue, again } => {
            let destination = Some(Destination { entity: taker(to), group: GroupId(to as u16) });
            let (to, count_max, bytes_max) = ("next".to_owned(), 3, 1_000);
            let ship = Ship { queue, to, destination, count_max, bytes_max, again };
            let command = Command::Forward(ForwardCommand::Ship(ship));
            leader.asked.push((command, Reply::Pack { queue }));
            None
        }
        ForwardTask::Unpark { queue } => {
            let unpark = ForwardCommand::Unpark(Unpark { queue, count_max: 2 });
            leader.asked.push((Command::Forward(unpark), Reply::Pack { queue }));
            None
        }
        ForwardTask::Carry { line, serial, settled_to, follows } => {
            let queue = line.queue;
            let Some(shipment) = domain::shipment(rows, queue, serial) else {
                leader.engine.carried(line, serial, Carried::Lost, clock);
                return None;
            };
            if leader.bug() == Some(Bug::LosesShipment) && serial % 4 == 0 {
                let settled = ForwardCommand::Shipped(Shipped { queue, serial, refused: vec![] });
                let reply = Reply::Shipped { line, serial, carried: Carried::All };
                leader.asked.push((Command::Forward(settled), reply));
                return None;
            }
            leader.carrying.insert((line, serial), now + PATIENCE_MS);
            let destination = shipment.destination.entity;
            let messages: Vec<Arriving> = shipment
                .messages
                .into_iter()
                .filter_map(|outgoing| {
                    let body = Key::Body(queue.entity, outgoing.delivery.body);
                    let Some(Row::Body(content)) = rows.0.get(&body) else { return None };
                    let message = NewMessage { content: content.clone(), ..message(&mut 0) };
                    Some(Arriving { message, travel: outgoing.travel })
                })
                .collect();
            let count = messages.len() as u32;
            let (source, skipped) = (queue, 0);
            let arrive = Arrive {
                source,
                serial,
                settled_to,
                follows,
                destination,
                count,
                skipped,
                messages,
            };
            let epoch = leader.epoch;
            Some(Shipment {
                ticket: Ticket { group, node, epoch, line, serial, count },
                to,
                cut: meta(rows).cut,
                arrive,
            })
        }
    }
}

/// Whether an entity is one of these, whose messages the oracle does not follow.
pub fn is_forwarding(entity: EntityId) -> bool {
    entity >= source(0)
}
