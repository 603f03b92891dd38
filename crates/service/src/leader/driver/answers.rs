//! What came of commands, on its way to whoever asked: outcomes with the contents of their deliveries,
//! grants, sessions.

use bytes::Bytes;
use domain::{Command, Delivery, EntityId, Outcome, QueueId, ReceiverId, SequenceNumber};

use super::Driver;
use crate::exchange::{Answer, CallResult, Received, answered, release_session};
use crate::leader::waitlist::Slot;
use crate::metric;

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
                if !leading.receivers.is_empty() {
                    leading.bodies.remember(send, sequences, &self.rows);
                }
                Ok(answer)
            }
            (
                command @ (Command::AdvanceClock { .. } | Command::RaiseClock { .. }),
                _,
                Some(leading),
            ) => {
                let meta = domain::meta(&self.rows);
                leading.offset = meta.clock_offset;
                answered(command, answer)
            }
            (Command::Seal(_), _, _) => sealed(answer),
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
        match leading.receivers.accepted(receiver, token.clone(), *until) {
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
        let lost = leading.receivers.acquired(receiver, messages);
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
            let mut read = self.rows.bodies(&missing).into_iter();
            for content in contents.iter_mut().filter(|content| content.is_none()) {
                *content = read.next().flatten();
            }
        }
        let mut present = contents.iter().map(Option::is_some);
        deliveries.retain(|_| present.next().unwrap_or(false));
        contents.into_iter().flatten().collect()
    }
}

fn sealed(answer: Answer) -> CallResult {
    match answer.outcome {
        Outcome::Done => metric::sealed("deleted"),
        Outcome::Spared => metric::sealed("spared"),
        _ => (),
    }
    Ok(answer)
}
