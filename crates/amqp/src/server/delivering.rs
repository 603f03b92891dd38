//! What goes to the client at the end of a turn: messages and replies, as far as credit and room
//! reach; and what comes from it, gathered into one order a link.

use std::collections::VecDeque;

use amqp_protocol::codec::Tag;
use amqp_protocol::engine::{LinkId, Outgoing, Payload};
use bytes::Bytes;
use domain::{LockToken, SessionToken};
use message_content::{Shown, Unreadable, deliver, stored};
use service::{ReceiveMode, Received};
use tokio::sync::mpsc;

use super::address::Entity;
use super::links::{Kind, Link, Links};
use super::receiving::Order;
use super::verdict::{Verdict, unlocked_tag};
use crate::management::tag;

/// The connection's side of a receiver link.
pub(super) struct Outlet {
    pub entity: Entity,
    pub orders: mpsc::UnboundedSender<Order>,
    pub mode: ReceiveMode,
    /// The session that is received, once the client was told of it.
    pub session: Option<SessionToken>,
    pub unsent: VecDeque<Received>,
    /// Sent since the orders last said so.
    pub sent: u32,
    pub verdicts: Vec<Verdict>,
    /// The broker has no more for a drain; what is unsent goes first.
    pub is_drained: bool,
}

impl Links {
    /// Sees to every link where something happened. Those that wait for room stay.
    pub fn finish_turn(&mut self) {
        let busy: Vec<LinkId> = self.busy.iter().copied().collect();
        for id in busy {
            self.busy.remove(&id);
            self.send_replies(id);
            if self.send_messages(id) {
                self.busy.insert(id);
            }
            if self.outlet(id).is_some_and(|outlet| outlet.sent > 0) {
                self.touch(id);
            }
            if let Some(outlet) = self.outlet(id) {
                outlet.tell_sent();
                outlet.tell_verdicts();
            }
        }
    }

    /// Sends what waits for the client; whether more waits for room.
    fn send_messages(&mut self, id: LinkId) -> bool {
        loop {
            let room = self.engine.room(id);
            let has_credit = self.engine.credit(id) > 0;
            let Some(outlet) = self.outlet(id) else { return false };
            let Some(received) = outlet.unsent.front() else { break };
            match (room > 0, has_credit, outlet.mode) {
                (true, _, _) => {}
                (false, true, _) => return true,
                // The client took its credit back meanwhile.
                (false, false, ReceiveMode::PeekLock) => {
                    outlet.give_back();
                    break;
                }
                // Deleted already: they wait for the client to want messages again.
                (false, false, ReceiveMode::ReceiveAndDelete) => return false,
            }
            let (received, mode) = (received.clone(), outlet.mode);
            outlet.unsent.pop_front();
            outlet.sent += 1;
            let sequence = received.delivery.sequence;
            match self.outgoing(&received, mode) {
                // There is room and credit; a link that is gone has its event to come.
                Ok(outgoing) => {
                    let _ = self.engine.send(id, &outgoing);
                }
                // It stays locked until its lock lapses, and is dead-lettered in the end.
                Err(error) => tracing::error!(%sequence, %error, "unreadable content"),
            }
        }
        let Some(outlet) = self.outlet(id) else { return false };
        if std::mem::take(&mut outlet.is_drained) {
            let _ = self.engine.drained(id);
        }
        false
    }

    fn outgoing(&mut self, received: &Received, mode: ReceiveMode) -> Result<Outgoing, Unreadable> {
        let (limits, scratch) = (&self.shared.config.limits, &mut self.scratch);
        let Received { delivery, content } = received;
        let (shown, settled) = match mode {
            ReceiveMode::PeekLock => (Shown::PeekLock, false),
            ReceiveMode::ReceiveAndDelete => (Shown::ReceiveAndDelete, true),
        };
        let message = stored(content, limits, scratch)?;
        let source = delivery.dead_letter_source.as_deref(); // DLQ-12.
        let payload = deliver(&message, delivery, shown, source, limits, scratch)?;
        let tag = match delivery.lock {
            Some(lock) => tag(lock.token),
            None => unlocked_tag(delivery.sequence.0),
        };
        Ok(Outgoing { tag, message_format: 0, settled, state: None, payload })
    }

    /// Sends the replies there is credit for.
    pub(super) fn send_replies(&mut self, id: LinkId) {
        while let Some(Link { kind: Kind::Replies(waiting), .. }) = self.links.get_mut(&id) {
            if waiting.is_empty() {
                return;
            }
            if self.engine.room(id) == 0 {
                if self.engine.credit(id) > 0 {
                    self.busy.insert(id); // Until there is room.
                }
                return;
            }
            let Some(reply) = waiting.pop_front() else { return };
            let _ = self.engine.send(id, &settled(reply));
        }
    }
}

fn settled(reply: Bytes) -> Outgoing {
    Outgoing {
        tag: Tag::new(b"reply").unwrap_or_default(),
        message_format: 0,
        settled: true,
        state: None,
        payload: Payload::from(reply),
    }
}

impl Outlet {
    /// Whoever serves the link has ended if it does not take an order, and has said why.
    pub(super) fn order(&self, order: Order) {
        drop(self.orders.send(order));
    }

    pub(super) fn tell_sent(&mut self) {
        if self.sent > 0 {
            let count = std::mem::take(&mut self.sent);
            self.order(Order::Sent(count));
        }
    }

    pub(super) fn tell_verdicts(&mut self) {
        if !self.verdicts.is_empty() {
            let verdicts = std::mem::take(&mut self.verdicts);
            self.order(Order::Settle(verdicts));
        }
    }

    /// Gives back what was not sent.
    pub(super) fn give_back(&mut self) {
        let unsent = self.unsent.drain(..);
        let locks = unsent.filter_map(|received| received.delivery.lock);
        let tokens: Vec<LockToken> = locks.map(|lock| lock.token).collect();
        if !tokens.is_empty() {
            self.order(Order::Release(tokens));
        }
    }
}
