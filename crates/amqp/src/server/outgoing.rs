//! What goes to the client at the end of a turn: messages and replies, as far as credit and room
//! reach; and what comes from it, gathered into one order a link.

use std::collections::VecDeque;

use amqp_protocol::Limits;
use amqp_protocol::codec::Tag;
use amqp_protocol::engine::{Connection, LinkId, Millis, Outgoing, Payload};
use bytes::{Bytes, BytesMut};
use domain::{LockToken, SessionToken};
use message_content::{Shown, Unreadable, deliver, stored};
use service::{ReceiveMode, Received};
use tokio::sync::mpsc;

use super::address::Entity;
use super::consumer::Order;
use super::link_table::{Kind, LinkTable};
use super::verdict::{Verdict, unlocked_tag};
use crate::management::tag;

/// The connection's side of a receiver link.
pub(super) struct OutgoingLink {
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

pub(super) struct OutgoingHandler<'a> {
    pub limits: &'a Limits,
    pub now: Millis,
    pub engine: &'a mut Connection,
    pub table: &'a mut LinkTable,
    pub scratch: &'a mut BytesMut,
}

impl OutgoingHandler<'_> {
    /// Sees to every link where something happened. Those that wait for room stay.
    pub fn finish_turn(&mut self) {
        for id in self.table.take_busy() {
            self.send_replies(id);
            if self.send_messages(id) {
                self.table.mark_busy(id);
            }
            let Some(outgoing) = self.table.outgoing(id) else { continue };
            let has_sent = outgoing.sent > 0;
            outgoing.tell_sent();
            outgoing.tell_verdicts();
            if has_sent {
                self.table.touch(id, self.now);
            }
        }
    }

    /// The client has given credit, or wants it back.
    pub fn on_credit(&mut self, id: LinkId, credit: u32, drain: bool) {
        let Some(link) = self.table.get_mut(id) else { return };
        match &mut link.kind {
            Kind::Outgoing(outgoing) => {
                outgoing.is_drained = false;
                outgoing.tell_sent();
                outgoing.order(Order::Credit { credit, drain });
                self.table.mark_busy(id);
            }
            Kind::Replies(_) => {
                self.send_replies(id);
                if drain {
                    let _ = self.engine.drained(id);
                }
            }
            Kind::Incoming(_) | Kind::Requests(_) | Kind::Control => {}
        }
    }

    /// Sends what waits for the client; whether more waits for room.
    fn send_messages(&mut self, id: LinkId) -> bool {
        loop {
            let room = self.engine.room(id);
            let has_credit = self.engine.credit(id) > 0;
            let Some(outgoing) = self.table.outgoing(id) else { return false };
            let Some(received) = outgoing.unsent.front() else { break };
            match (room > 0, has_credit, outgoing.mode) {
                (true, _, _) => {}
                (false, true, _) => return true,
                // The client took its credit back meanwhile.
                (false, false, ReceiveMode::PeekLock) => {
                    outgoing.give_back();
                    break;
                }
                // Deleted already: they wait for the client to want messages again.
                (false, false, ReceiveMode::ReceiveAndDelete) => return false,
            }
            let (received, mode) = (received.clone(), outgoing.mode);
            outgoing.unsent.pop_front();
            outgoing.sent += 1;
            let sequence = received.delivery.sequence;
            match self.encode(&received, mode) {
                // There is room and credit; a link that is gone has its event to come.
                Ok(outgoing) => {
                    let _ = self.engine.send(id, &outgoing);
                }
                // It stays locked until its lock lapses, and is dead-lettered in the end.
                Err(error) => tracing::error!(%sequence, %error, "unreadable content"),
            }
        }
        let Some(outgoing) = self.table.outgoing(id) else { return false };
        if std::mem::take(&mut outgoing.is_drained) {
            let _ = self.engine.drained(id);
        }
        false
    }

    fn encode(&mut self, received: &Received, mode: ReceiveMode) -> Result<Outgoing, Unreadable> {
        let (limits, scratch) = (self.limits, &mut *self.scratch);
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
    pub fn send_replies(&mut self, id: LinkId) {
        while let Some(waiting) = self.table.replies(id) {
            if waiting.is_empty() {
                return;
            }
            if self.engine.room(id) == 0 {
                if self.engine.credit(id) > 0 {
                    self.table.mark_busy(id); // Until there is room.
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

impl OutgoingLink {
    /// Whoever serves the link has ended if it does not take an order, and has said why.
    pub fn order(&self, order: Order) {
        drop(self.orders.send(order));
    }

    pub fn tell_sent(&mut self) {
        if self.sent > 0 {
            let count = std::mem::take(&mut self.sent);
            self.order(Order::Sent(count));
        }
    }

    pub fn tell_verdicts(&mut self) {
        if !self.verdicts.is_empty() {
            let verdicts = std::mem::take(&mut self.verdicts);
            self.order(Order::Settle(verdicts));
        }
    }

    /// Gives back what was not sent.
    pub fn give_back(&mut self) {
        let unsent = self.unsent.drain(..);
        let locks = unsent.filter_map(|received| received.delivery.lock);
        let tokens: Vec<LockToken> = locks.map(|lock| lock.token).collect();
        if !tokens.is_empty() {
            self.order(Order::Release(tokens));
        }
    }
}
