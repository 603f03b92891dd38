//! What a client takes it into its head to do.

use bytes::Bytes;
use domain::{
    CancelScheduled, Command, Commit, DeleteBatch, Disposition, EntityId, LockToken, NewMessage,
    Operation, Properties, QueueId, ReceiveDeferred, Renew, Select, Send, SequenceNumber,
    SetSessionState, Settle, Settlement, Span, SubQueue, Timestamp, Value,
};

use super::sessions::{InHand, a_session};
use super::{Client, Held, OUTSTANDING_MAX};
use crate::network::Packet;
use crate::operator::{Known, Operator};
use crate::random::Random;
use crate::rules;

impl Client {
    /// One act, or none, on what it knows of from the operator.
    pub fn act(&mut self, operator: &Operator, now: u64, random: &mut Random) -> Vec<Packet> {
        let Operator { entities, known, .. } = operator;
        self.forget_lapsed(Timestamp(now));
        self.holder.forget_lapsed(Timestamp(now));
        if self.outstanding.len() >= OUTSTANDING_MAX || entities.is_empty() {
            return Vec::new();
        }
        if random.chance(80) {
            let command = self.transaction(known, now, random);
            return command.into_iter().map(|command| self.request(command)).collect();
        }
        if !known.is_empty() && random.chance(450) {
            let command = match random.chance(550) {
                true => Some(self.send_elsewhere(known, now, random)),
                false => self.act_on_session(&known.with_sessions(), random),
            };
            return command.into_iter().map(|command| self.request(command)).collect();
        }
        let command = match random.below(100) {
            0..30 => Some(self.send(random.pick(entities), now, random)),
            30..62 => self.settle(random),
            62..68 => self.renew(random),
            68..76 => self.receive_deferred(random),
            76..80 => self.cancel(random),
            80..84 => self.settle_spent(random),
            84..85 => Some(self.delete_batch(random.pick(entities), now, random)),
            85..91 => self.select(random),
            _ => None,
        };
        command.into_iter().map(|command| self.request(command)).collect()
    }

    fn send(&mut self, entity: EntityId, now: u64, random: &mut Random) -> Command {
        let count = random.between(1, 4);
        let messages = (0..count).map(|_| self.message(now, random)).collect();
        Command::Send(Send { origin: None, entity, messages })
    }

    /// To a topic, or in sessions.
    fn send_elsewhere(&mut self, known: &Known, now: u64, random: &mut Random) -> Command {
        let targets: Vec<EntityId> = known.targets().collect();
        self.send_in_colour(random.pick(&targets), known, now, random)
    }

    fn send_in_colour(
        &mut self,
        entity: EntityId,
        known: &Known,
        now: u64,
        random: &mut Random,
    ) -> Command {
        let sessionless = if known.topics.contains(&entity) { 200 } else { 10 };
        let count = random.between(1, 4);
        let messages = (0..count).map(|_| {
            let message = self.message(now, random);
            let said = format!("client {} message {}", self.index, self.sent);
            let colour = random.index(rules::COLOURS.len());
            let content = rules::written(&said, colour, random.below(rules::WEIGHT_MAX));
            let session_id = (!random.chance(sessionless)).then(|| a_session(random));
            NewMessage { content, session_id, ..message }
        });
        Command::Send(Send { origin: None, entity, messages: messages.collect() })
    }

    /// With a fixed lifetime or none of its own, at once or scheduled, under an id or not.
    fn message(&mut self, now: u64, random: &mut Random) -> NewMessage {
        self.sent += 1;
        let content = Bytes::from(format!("client {} message {}", self.index, self.sent));
        let ttl = match random.below(10) {
            0..4 => None,
            4..6 => Some(random.between(1, 60)),
            6..9 => Some(random.between(60, 8_000)),
            _ => Some(random.between(8_000, 600_000)),
        };
        let delay = random.chance(200).then(|| random.between(0, 12_000));
        NewMessage {
            size_bytes: content.len() as u32 + 10,
            header_bytes: 10,
            content,
            message_id: random.chance(700).then(|| format!("id {}", random.below(40))),
            session_id: None,
            partition_key: None,
            ttl: ttl.map(Span),
            scheduled_at: delay.map(|delay| Timestamp((now + delay).saturating_sub(500))),
        }
    }

    fn settle(&mut self, random: &mut Random) -> Option<Command> {
        let queue = self.some_held(random)?.queue;
        let mut settlements = Vec::new();
        let most = random.between(1, 3);
        while settlements.len() < most as usize {
            let of_queue = self.held.iter().position(|held| held.queue == queue);
            let Some(at) = of_queue else { break };
            let held = self.held.swap_remove(at);
            let disposition = self.disposition(held, random);
            settlements.push(Settlement { token: held.lock.token, disposition });
        }
        let atomic = random.chance(200);
        Some(Command::Settle(Settle { origin: None, queue, settlements, atomic }))
    }

    fn disposition(&mut self, held: Held, random: &mut Random) -> Disposition {
        let properties = match random.chance(300) {
            true => Properties::from([("note".to_owned(), Value::Int(random.below(9) as i32))]),
            false => Properties::new(),
        };
        match random.below(100) {
            0..45 => Disposition::Complete,
            45..65 => Disposition::Abandon { properties },
            65..80 => {
                self.deferred.push((held.queue, held.lock.token.sequence));
                Disposition::Defer { properties }
            }
            80..90 => {
                let reason = random.chance(500).then(|| "asked for".to_owned());
                Disposition::DeadLetter { reason, description: None, properties }
            }
            _ => Disposition::Release,
        }
    }

    /// Settles again what was settled or has lapsed, or makes a token up (LOCK-6, LOCK-14).
    fn settle_spent(&mut self, random: &mut Random) -> Option<Command> {
        let (queue, token) = match (random.chance(300), self.spent.is_empty()) {
            (true, _) | (_, true) => {
                let held = self.some_held(random)?;
                let LockToken { sequence, nonce } = held.lock.token;
                (held.queue, LockToken { sequence, nonce: nonce ^ 1 })
            }
            (false, false) => random.pick(&self.spent),
        };
        let settlement = Settlement { token, disposition: Disposition::Complete };
        let atomic = random.chance(500);
        let settlements = vec![settlement];
        Some(Command::Settle(Settle { origin: None, queue, settlements, atomic }))
    }

    /// Settles and sends as one, to the topic of what it settles in a subscription (TX-6); now and then
    /// it settles twice, which must leave nothing of it.
    fn transaction(&mut self, known: &Known, now: u64, random: &mut Random) -> Option<Command> {
        let Some(Command::Settle(settle)) = self.settle(random) else { return None };
        let from = settle.queue.entity;
        let topic = known.subscriptions.iter().find(|(_, subscription)| *subscription == from);
        let entity = topic.map_or(from, |(topic, _)| *topic);
        let send = match known.targets().any(|target| target == entity) {
            true => self.send_in_colour(entity, known, now, random),
            false => self.send(entity, now, random),
        };
        let Command::Send(send) = send else { return None };
        let again = settle.clone();
        let mut operations = vec![Operation::Settle(settle), Operation::Send(send)];
        if random.chance(500) {
            operations.swap(0, 1);
        }
        match self.scheduled.iter().position(|(of, _)| *of == entity) {
            Some(at) if random.chance(300) => {
                let (origin, numbers) = (None, vec![self.scheduled.swap_remove(at).1]);
                let cancel = CancelScheduled { origin, entity, numbers };
                operations.push(Operation::CancelScheduled(cancel));
            }
            _ => (),
        }
        if let Some(InHand { entity, token, .. }) = &self.holder.in_hand
            && *entity == from
        {
            let (origin, entity, token) = (None, *entity, token.clone());
            let state = Some(Bytes::from(random.bytes().to_vec()));
            let set = SetSessionState { origin, entity, token, state };
            operations.push(Operation::SetState(set));
        }
        if random.chance(150) {
            operations.push(Operation::Settle(again));
        }
        Some(Command::Commit(Commit { origin: None, entity, operations }))
    }

    fn renew(&mut self, random: &mut Random) -> Option<Command> {
        let held = self.some_held(random)?;
        let tokens = vec![held.lock.token];
        Some(Command::Renew(Renew { origin: None, queue: held.queue, tokens }))
    }

    fn receive_deferred(&mut self, random: &mut Random) -> Option<Command> {
        if self.deferred.is_empty() {
            return None;
        }
        let (queue, number) = self.deferred.swap_remove(random.index(self.deferred.len()));
        let (receiver, numbers) = (self.receiver, vec![number]);
        Some(Command::ReceiveDeferred(ReceiveDeferred { origin: None, queue, receiver, numbers }))
    }

    /// SEL-6: some of what was sent to one entity, which others may have taken meanwhile.
    fn select(&mut self, random: &mut Random) -> Option<Command> {
        if self.available.is_empty() {
            return None;
        }
        let (entity, _) = self.available[random.index(self.available.len())];
        let of = self.available.iter().filter(|(of, _)| *of == entity);
        let numbers = of.map(|(_, number)| *number).filter(|_| random.chance(400)).collect();
        let queue = QueueId::main(entity);
        Some(Command::Select(Select { origin: None, queue, receiver: self.receiver, numbers }))
    }

    fn cancel(&mut self, random: &mut Random) -> Option<Command> {
        if self.scheduled.is_empty() {
            return None;
        }
        let (entity, number): (EntityId, SequenceNumber) =
            self.scheduled.swap_remove(random.index(self.scheduled.len()));
        Some(Command::CancelScheduled(CancelScheduled {
            origin: None,
            entity,
            numbers: vec![number],
        }))
    }

    fn delete_batch(&mut self, entity: EntityId, now: u64, random: &mut Random) -> Command {
        let sub = if random.chance(500) { SubQueue::Main } else { SubQueue::DeadLetter };
        let before = random.chance(500).then(|| Timestamp(now - random.below(10_000)));
        Command::DeleteBatch(DeleteBatch {
            origin: None,
            queue: QueueId { entity, sub },
            count_max: random.between(1, 20) as u32,
            before,
        })
    }

    fn some_held(&self, random: &mut Random) -> Option<Held> {
        (!self.held.is_empty()).then(|| random.pick(&self.held))
    }
}
