//! What goes to the client at the end of a turn: messages and replies, as far as credit and room
//! reach; and what comes from it, gathered into one order a link.

use std::collections::VecDeque;

use amqp_protocol::Limits;
use amqp_protocol::codec::Tag;
use amqp_protocol::engine::{Connection, LinkId, Millis, Outgoing, Payload};
use bytes::{Bytes, BytesMut};
use domain::{LockToken, SessionToken, Timestamp};
use message_content::{Shown, Unreadable, deliver, stored};
use service::Received;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::address::Entity;
use super::backlog::Share;
use super::consumer::{GivesBack, Order};
use super::dues::Dues;
use super::link_table::{Kind, LinkTable};
use super::tasks::Turn;
use super::verdict::{Verdict, unlocked_tag};
use crate::management::tag;

/// The connection's side of a receiver link.
pub(super) struct OutgoingLink {
    pub entity: Entity,
    pub orders: mpsc::Sender<Order>,
    /// A place for the last order, whatever else waits.
    pub end: mpsc::OwnedPermit<Order>,
    /// How its messages are: under a lock, deleted, or copies that a browser is shown.
    pub shown: Shown,
    /// The session that is received, once the client was told of it.
    pub session: Option<SessionToken>,
    pub unsent: UnsentMessages,
    /// Sent since the orders last said so.
    pub sent: u32,
    /// The client's last word on credit, if no order says it yet: whether it drains.
    pub credit_untold: Option<bool>,
    pub verdicts: Vec<Verdict>,
    /// The broker has no more for a drain; what is unsent goes first.
    pub is_drained: bool,
}

impl OutgoingLink {
    /// A message that was handed over gets lost on its way: the client's credit for it is not used.
    pub fn lose_one(&mut self) {
        self.sent += 1;
        self.credit_untold.get_or_insert(false);
    }
}

/// Messages that wait for a client's credit, or for room.
pub(super) struct UnsentMessages {
    messages: VecDeque<Received>,
    share: Share,
}

impl UnsentMessages {
    pub fn new(share: Share) -> UnsentMessages {
        UnsentMessages { messages: VecDeque::new(), share }
    }

    pub fn extend(&mut self, messages: Vec<Received>) {
        self.share.add(messages.iter().map(|message| message.content.len()).sum());
        self.messages.extend(messages);
    }

    fn pop(&mut self) -> Option<Received> {
        let message = self.messages.pop_front()?;
        self.share.free(message.content.len());
        Some(message)
    }

    fn take_locks(&mut self) -> Vec<LockToken> {
        self.share.free(usize::MAX);
        let locks = self.messages.drain(..).filter_map(|received| received.delivery.lock);
        locks.map(|lock| lock.token).collect()
    }
}

/// Replies that wait for a client's credit, or for room.
pub(super) struct UnsentReplies {
    replies: VecDeque<(Bytes, Option<Turn>)>,
    share: Share,
}

impl UnsentReplies {
    pub fn new(share: Share) -> UnsentReplies {
        UnsentReplies { replies: VecDeque::new(), share }
    }

    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// `turn`: see [`Turn`].
    pub fn push(&mut self, reply: Bytes, turn: Option<Turn>) {
        self.share.add(reply.len());
        self.replies.push_back((reply, turn));
    }

    fn pop(&mut self) -> Option<Bytes> {
        let (reply, _turn) = self.replies.pop_front()?;
        self.share.free(reply.len());
        Some(reply)
    }
}

pub(super) struct OutgoingHandler<'a> {
    pub limits: &'a Limits,
    pub now: Millis,
    pub engine: &'a mut Connection,
    pub table: &'a mut LinkTable,
    pub scratch: &'a mut BytesMut,
    pub dues: &'a Dues,
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
            // Where there is no place, the link is being served or about to be, and says so: then there
            // is another turn.
            if !outgoing.tell(self.engine.credit(id)) {
                self.table.mark_busy(id);
            }
            if has_sent {
                self.table.touch(id, self.now);
            }
        }
    }

    /// The client has given credit, or wants it back. Where there is no place for the order, the last
    /// such word counts, whatever a client said before.
    pub fn on_credit(&mut self, id: LinkId, credit: u32, drain: bool) {
        let Some(link) = self.table.get_mut(id) else { return };
        match &mut link.kind {
            Kind::Outgoing(outgoing) => {
                outgoing.is_drained = false;
                outgoing.credit_untold = Some(drain);
                let _ = outgoing.tell_sent() && outgoing.tell_credit(credit);
                self.table.mark_busy(id);
            }
            Kind::Replies(_) => {
                self.send_replies(id);
                if drain {
                    let _ = self.engine.drained(id);
                }
            }
            Kind::Incoming(_) | Kind::Relay(_) | Kind::Requests(_) | Kind::Control => {}
        }
    }

    /// Sends what waits for the client; whether more waits for room.
    fn send_messages(&mut self, id: LinkId) -> bool {
        loop {
            let room = self.engine.room(id);
            let has_credit = self.engine.credit(id) > 0;
            let Some(outgoing) = self.table.outgoing(id) else { return false };
            let Some(received) = outgoing.unsent.messages.front() else { break };
            match (room > 0, has_credit, outgoing.shown) {
                (true, _, _) => {}
                (false, true, _) => return true,
                // The client took its credit back meanwhile.
                (false, false, Shown::PeekLock | Shown::Deferred) => match outgoing.give_back() {
                    true => break,
                    false => return true,
                },
                // Deleted already, or copies: they wait for the client to want messages again.
                (false, false, Shown::ReceiveAndDelete | Shown::Peek) => return false,
            }
            let (mut received, shown) = (received.clone(), outgoing.shown);
            if outgoing.session.is_some() {
                under_session(&mut received);
            }
            drop(outgoing.unsent.pop());
            outgoing.sent += 1;
            let sequence = received.delivery.sequence;
            match self.encode(&received, shown) {
                // There is room and credit; a link that is gone has its event to come.
                Ok(outgoing) => {
                    let _ = self.engine.send(id, &outgoing);
                    self.dues.deliver(1);
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

    fn encode(&mut self, received: &Received, shown: Shown) -> Result<Outgoing, Unreadable> {
        let (limits, scratch) = (self.limits, &mut *self.scratch);
        let Received { delivery, content } = received;
        let settled = match shown {
            Shown::PeekLock | Shown::Deferred => false,
            Shown::ReceiveAndDelete | Shown::Peek => true,
        };
        let message = stored(content, limits, scratch)?;
        let source = delivery.dead_letter_source.as_deref(); // DLQ-12.
        let payload = deliver(&message, delivery, shown, source, limits, scratch)?;
        let tag = match delivery.lock {
            Some(lock) if !settled => tag(lock.token),
            Some(_) | None => unlocked_tag(delivery.sequence.0),
        };
        Ok(Outgoing { tag, message_format: 0, settled, state: None, payload })
    }

    /// Sends the replies there is credit for.
    pub fn send_replies(&mut self, id: LinkId) {
        while let Some(waiting) = self.table.replies(id) {
            if waiting.len() == 0 {
                return;
            }
            if self.engine.room(id) == 0 {
                if self.engine.credit(id) > 0 {
                    self.table.mark_busy(id); // Until there is room.
                }
                return;
            }
            let Some(reply) = waiting.pop() else { return };
            let _ = self.engine.send(id, &settled(reply));
        }
    }
}

/// SESS-21: the lock of a session's message is its session's, which each renewal moves on; the message
/// says of it that it has no end of its own.
pub(super) fn under_session(received: &mut Received) {
    if let Some(lock) = &mut received.delivery.lock {
        lock.until = Timestamp::NEVER;
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
    /// Tells whoever serves the link, unless there is no place for the order. One that has ended takes
    /// none, and has said why.
    pub fn order(&self, order: Order) -> bool {
        !matches!(self.orders.try_send(order), Err(TrySendError::Full(_)))
    }

    /// Tells what has gathered, as far as there are places, of a link that has so much credit now;
    /// whether that is all.
    fn tell(&mut self, credit: u32) -> bool {
        self.tell_sent() && self.tell_credit(credit) && self.tell_verdicts()
    }

    /// The credit is what is left of it behind what was sent, so that is told before.
    fn tell_credit(&mut self, credit: u32) -> bool {
        let Some(drain) = self.credit_untold else { return true };
        let is_told = self.order(Order::Credit { credit, drain });
        if is_told {
            self.credit_untold = None;
        }
        is_told
    }

    pub fn tell_sent(&mut self) -> bool {
        let is_told = self.sent == 0 || self.order(Order::Sent(self.sent));
        if is_told {
            self.sent = 0;
        }
        is_told
    }

    fn tell_verdicts(&mut self) -> bool {
        if self.verdicts.is_empty() {
            return true;
        }
        let Ok(place) = self.orders.try_reserve() else { return self.orders.is_closed() };
        place.send(Order::Settle(std::mem::take(&mut self.verdicts)));
        true
    }

    /// Gives back what was not sent, unless there is no place for the order.
    fn give_back(&mut self) -> bool {
        let Ok(place) = self.orders.try_reserve() else { return self.orders.is_closed() };
        let tokens = self.unsent.take_locks();
        if !tokens.is_empty() {
            place.send(Order::Release(tokens));
        }
        true
    }

    /// The link is gone. Some clients send their last verdicts along with their goodbye; messages not
    /// sent go back, and so does a session if its client never heard of it.
    pub fn end(mut self, gives_back: GivesBack) {
        let gives_back = match gives_back {
            GivesBack::Nothing if self.session.is_none() => GivesBack::Session,
            gives_back => gives_back,
        };
        let (verdicts, unsent) = (self.verdicts, self.unsent.take_locks());
        self.end.send(Order::End { verdicts, unsent, gives_back });
    }
}

#[cfg(test)]
mod tests {
    use domain::{Disposition, SequenceNumber, Settlement, SubQueue};

    use super::super::backlog::Backlog;
    use super::*;

    /// With room for one order, beside the last.
    fn outgoing() -> (OutgoingLink, mpsc::Receiver<Order>) {
        let (orders, waiting) = mpsc::channel(2);
        let end = orders.clone().try_reserve_owned().expect("a new channel has room");
        let outgoing = OutgoingLink {
            entity: Entity { name: "q".to_owned(), sub: SubQueue::Main },
            orders,
            end,
            shown: Shown::PeekLock,
            session: None,
            unsent: UnsentMessages::new(Backlog::new(1).share()),
            sent: 0,
            credit_untold: None,
            verdicts: Vec::new(),
            is_drained: false,
        };
        (outgoing, waiting)
    }

    fn verdict() -> Verdict {
        let token = LockToken { sequence: SequenceNumber(1), nonce: 1 };
        let settlement = Settlement { token, disposition: Disposition::Complete };
        let answer = amqp_protocol::codec::DeliveryState::ACCEPTED;
        Verdict { id: None, settlement, answer, share: None }
    }

    #[test]
    fn orders_without_a_place_stay_with_the_connection_and_none_is_lost() {
        let (mut outgoing, mut waiting) = outgoing();
        outgoing.sent = 3;
        assert!(outgoing.tell(0));
        outgoing.sent = 2;
        outgoing.verdicts.push(verdict());
        assert!(!outgoing.tell(0) && !outgoing.order(Order::Sent(9)));
        outgoing.sent += 5;
        assert!(matches!(waiting.try_recv(), Ok(Order::Sent(3))));
        assert!(!outgoing.tell(0));
        assert!(matches!(waiting.try_recv(), Ok(Order::Sent(7))));
        assert!(outgoing.tell(0));
        assert!(matches!(waiting.try_recv(), Ok(Order::Settle(verdicts)) if verdicts.len() == 1));
        assert!(waiting.try_recv().is_err());
    }

    #[test]
    fn of_credit_that_finds_no_place_the_last_word_is_told_behind_what_was_sent() {
        let (mut outgoing, mut waiting) = outgoing();
        outgoing.sent = 1;
        assert!(outgoing.tell(9));
        outgoing.sent = 2;
        for drain in [true, false, true] {
            outgoing.credit_untold = Some(drain);
            assert!(!outgoing.tell(8));
        }
        assert!(matches!(waiting.try_recv(), Ok(Order::Sent(1))));
        assert!(!outgoing.tell(7));
        assert!(matches!(waiting.try_recv(), Ok(Order::Sent(2))));
        assert!(outgoing.tell(6));
        assert!(matches!(waiting.try_recv(), Ok(Order::Credit { credit: 6, drain: true })));
        assert!(outgoing.tell(5) && waiting.try_recv().is_err());
    }

    #[test]
    fn the_last_order_has_its_place_and_takes_along_what_waits() {
        let (mut outgoing, mut waiting) = outgoing();
        outgoing.sent = 1;
        assert!(outgoing.tell(0));
        outgoing.verdicts.push(verdict());
        assert!(!outgoing.tell(0));
        outgoing.end(GivesBack::Session);
        assert!(matches!(waiting.try_recv(), Ok(Order::Sent(1))));
        let end = waiting.try_recv();
        let Ok(Order::End { verdicts, unsent, gives_back: GivesBack::Session }) = end else {
            panic!("{end:?}")
        };
        assert_eq!((verdicts.len(), unsent.len()), (1, 0));
        assert!(waiting.try_recv().is_err());
    }
}
