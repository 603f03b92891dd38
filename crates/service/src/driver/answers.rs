//! What came of commands, on its way to whoever asked: outcomes with the contents of their deliveries,
//! grants, sessions.

use bytes::Bytes;
use domain::{
    Command, Delivery, EntityId, Key, Outcome, QueueId, ReceiverId, Row, Rows, SequenceNumber,
};

use super::{Driver, Leading};
use crate::call::{Answer, CallResult, Received, answered};
use crate::link::release_session;
use crate::metric;
use crate::waitlist::Slot;

/// Entities whose highest number is kept in mind; it is read again where it was forgotten.
const HIGHEST_MAX: usize = 4096;

impl Driver {
    /// Completes an outcome with the contents of its deliveries, and keeps in mind what it stored.
    pub(super) fn answer(&mut self, command: Command, mut outcome: Outcome) -> CallResult {
        let mut contents = Vec::new();
        let queue = command.facts().delivers_from;
        if let (Outcome::Acquired { deliveries, .. }, Some(queue)) = (&mut outcome, queue) {
            contents = self.contents(queue.entity, deliveries);
        }
        let answer = Answer { outcome, contents };
        match (command, &answer.outcome, &mut self.leading) {
            (Command::Send(send), Outcome::Sent { sequences }, Some(leading)) => {
                leading.remember(send, sequences, &self.replication.rows(self.group.id));
                Ok(answer)
            }
            (
                command @ (Command::AdvanceClock { .. } | Command::RaiseClock { .. }),
                _,
                Some(leading),
            ) => {
                let meta = domain::meta(&self.replication.rows(self.group.id));
                leading.offset = meta.clock_offset;
                answered(command, answer)
            }
            (Command::Seal(_), _, _) => Driver::sealed(answer),
            (command, _, _) => answered(command, answer),
        }
    }

    /// A session was accepted for a receiver that waited, or none was free after all. One granted
    /// to nobody is given back, uncounted as no message of it was delivered.
    pub(super) fn accepted(
        &mut self,
        queue: QueueId,
        receiver: ReceiverId,
        outcome: &Outcome,
        current: bool,
    ) {
        let Some(leading) = &mut self.leading else { return };
        if current {
            leading.engine.accepted(receiver, outcome);
        }
        let Outcome::Accepted { token, until } = outcome else { return };
        match leading.grants.accepted(receiver, token.clone(), *until) {
            Ok(()) => leading.engine.hold(receiver, queue.entity, token.clone()),
            Err(token) => leading.waitlist.push(release_session(queue, token), Slot::Quiet),
        }
    }

    /// What an acquire took, on its way to its receiver.
    pub(super) fn grant(
        &mut self,
        queue: QueueId,
        receiver: ReceiverId,
        outcome: Outcome,
        current: bool,
    ) {
        if current && let Some(leading) = &mut self.leading {
            leading.engine.acquired(receiver, &outcome);
        }
        let messages = match outcome {
            Outcome::Acquired { mut deliveries, .. } => {
                let contents = self.contents(queue.entity, &mut deliveries);
                let pairs = deliveries.into_iter().zip(contents);
                pairs.map(|(delivery, content)| Received { delivery, content }).collect()
            }
            _ => Vec::new(),
        };
        let Some(leading) = &mut self.leading else { return };
        let lost = leading.grants.acquired(receiver, messages);
        leading.release(queue, lost.iter().filter_map(|m| m.delivery.lock).map(|lock| lock.token));
    }

    /// The contents of deliveries, from memory or read for all at once. A delivery whose content is
    /// gone, because its message is, is taken out.
    fn contents(&mut self, entity: EntityId, deliveries: &mut Vec<Delivery>) -> Vec<Bytes> {
        // A copy's is its topic's.
        let owner = |delivery: &Delivery| delivery.topic.unwrap_or(entity);
        let cached = |delivery: &Delivery| {
            let leading = self.leading.as_ref()?;
            leading.bodies.get(owner(delivery), delivery.body)
        };
        let mut contents: Vec<Option<Bytes>> = deliveries.iter().map(cached).collect();
        let missing: Vec<(EntityId, SequenceNumber)> = deliveries
            .iter()
            .zip(&contents)
            .filter(|(_, content)| content.is_none())
            .map(|(delivery, _)| (owner(delivery), delivery.body))
            .collect();
        if !missing.is_empty() {
            metric::bodies_read(missing.len());
            let mut read = self.replication.rows(self.group.id).bodies(&missing).into_iter();
            for content in contents.iter_mut().filter(|content| content.is_none()) {
                *content = read.next().flatten();
            }
        }
        let mut present = contents.iter().map(Option::is_some);
        deliveries.retain(|_| present.next().unwrap_or(false));
        contents.into_iter().flatten().collect()
    }
}

impl Leading {
    /// Keeps contents that receivers are about to ask for.
    fn remember(&mut self, send: domain::Send, sequences: &[SequenceNumber], rows: &impl Rows) {
        let (Some(&first), Some(&last)) = (sequences.first(), sequences.last()) else { return };
        if self.grants.is_empty() {
            return;
        }
        let Some(&highest) = self.highest.get(&send.entity) else {
            if self.highest.len() >= HIGHEST_MAX {
                self.highest.clear(); // Of entities long gone, most of them.
            }
            if let Some(Row::EntityState(state)) = rows.get(&Key::EntityState(send.entity)) {
                self.highest.insert(send.entity, state.next_sequence);
            }
            return;
        };
        let in_row = last.0.checked_sub(first.0) == Some(send.messages.len() as u64 - 1);
        if first > highest && in_row {
            self.highest.insert(send.entity, last);
            let contents = send.messages.into_iter().map(|message| message.content).collect();
            self.bodies.insert(send.entity, first, contents);
        }
    }
}
