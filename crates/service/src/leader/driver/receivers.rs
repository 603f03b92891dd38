//! Receivers, as a leader meets them: what they attach to and ask for, and what was granted to them
//! and reached nobody.

use domain::{
    Acquire, Command, Disposition, EntityId, Key, LockRow, LockToken, QueueId, ReceiverId, Refusal,
    ResumeSession, Row, Rows, SequenceNumber, SessionCommand, SessionToken, Settle, Settlement,
    SubQueue,
};

use super::leadership::Leading;
use crate::exchange::{Attach, Detached, Event, Wanted, release_session};
use crate::leader::waitlist::Slot;

impl Leading {
    pub(super) fn attach(&mut self, attach: Attach) {
        if let Err(refusal) = receivable(&self.rows, attach.queue, attach.session.as_ref()) {
            let event = Event::Detached(Detached::Refused(refusal));
            drop(attach.sink.send(attach.receiver, event));
            return;
        }
        self.receivers.attach(&attach);
        let waits = attach.credit > 0 || attach.session.is_some();
        let Attach { receiver, queue, credit, .. } = attach;
        let again = receiver.epoch > 1;
        match attach.session {
            None => {
                if again {
                    self.release(queue, lost_grants(&self.rows, &attach));
                }
                self.engine.attach(receiver, queue);
                self.engine.credit(receiver, credit);
            }
            // What it picks it is answered with, and asks for again if the answer is lost.
            Some(Wanted::Notices) => self.engine.attach(receiver, queue),
            Some(Wanted::Next) => {
                if again {
                    for token in lost_holds(&self.rows, queue.entity, receiver) {
                        self.waitlist.push(release_session(queue, token), Slot::Quiet);
                    }
                }
                self.engine.accept(receiver, queue.entity);
            }
            Some(Wanted::Held(token)) => {
                if again {
                    let (entity, arrived) = (queue.entity, attach.arrived);
                    let resume = ResumeSession { entity, token: token.clone(), receiver, arrived };
                    let command = Command::Session(SessionCommand::Resume(resume));
                    self.waitlist.push(command, Slot::Quiet);
                }
                self.engine.hold(receiver, queue.entity, token);
                self.engine.credit(receiver, credit);
            }
        }
        if waits {
            self.awaited(receiver);
        }
    }

    /// A drain uses what is there: what the credit justifies is asked for first.
    pub(super) fn drain(&mut self, receiver: ReceiverId) {
        let Some(queue) = self.receivers.queue(receiver) else { return };
        let mut acquires = Vec::new();
        self.engine.wants(queue, 0, &mut acquires);
        for acquire in acquires {
            self.acquire(acquire);
        }
        self.sessions();
        self.engine.drain(receiver);
        self.receivers.drain(receiver);
    }

    fn acquire(&mut self, acquire: Acquire) {
        self.receivers.acquiring(acquire.receiver);
        let slot = Slot::Acquire(acquire.receiver);
        self.waitlist.push(Command::Acquire(acquire), slot);
    }

    /// What receivers of sessions wait for. It waits with all else, in order: what was granted
    /// before and got lost on the way is released first.
    pub(super) fn sessions(&mut self) {
        let (mut accepts, mut receives) = (Vec::new(), Vec::new());
        self.engine.accepts(&mut accepts);
        for accept in accepts {
            let slot = Slot::Accept(accept.receiver);
            self.waitlist.push(Command::Session(SessionCommand::Accept(accept)), slot);
        }
        self.engine.receives(&mut receives);
        for receive in receives {
            self.receivers.acquiring(receive.receiver);
            let slot = Slot::Acquire(receive.receiver);
            self.waitlist.push(Command::Session(SessionCommand::Receive(receive)), slot);
        }
    }

    /// Nobody knows what was granted to a session's receiver: it attaches anew and says what arrived,
    /// because what comes later must not overtake it.
    pub(super) fn part(&mut self, receiver: ReceiverId) {
        if self.receivers.session(receiver).is_some() {
            self.dismiss(receiver);
        }
    }

    /// Receivers that took what was sent to them no more are served no more.
    pub(super) fn forget_gone(&mut self) {
        for receiver in self.receivers.take_gone() {
            self.engine.detach(receiver);
        }
    }

    pub(super) fn dismiss(&mut self, receiver: ReceiverId) {
        self.engine.detach(receiver);
        self.receivers.dismiss(receiver, Detached::LeaderLost);
    }

    /// Unlocks, without counting a delivery, what was granted and reached nobody (LOCK-20).
    pub(super) fn release(&mut self, queue: QueueId, tokens: impl IntoIterator<Item = LockToken>) {
        let release = |token| Settlement { token, disposition: Disposition::Release };
        let settlements: Vec<Settlement> = tokens.into_iter().map(release).collect();
        for chunk in settlements.chunks(domain::TOKENS_MAX) {
            let settlements = chunk.to_vec();
            let settle = Settle { origin: None, queue, settlements, atomic: false };
            self.waitlist.push(Command::Settle(settle), Slot::Quiet);
        }
    }
}

/// Whether a queue can be received from at all; the outcome of an acquire would say the same, but
/// on an empty queue there is none.
pub(super) fn receivable(
    rows: &impl Rows,
    queue: QueueId,
    session: Option<&Wanted>,
) -> Result<(), Refusal> {
    let Some(Row::Entity(entity)) = rows.get(&Key::Entity(queue.entity)) else {
        return Err(domain::missing(rows, queue.entity));
    };
    domain::check_receivable(&entity, queue)?;
    let requires = entity.properties.requires_session;
    match session {
        None | Some(Wanted::Notices) if requires && queue.sub == SubQueue::Main => {
            let why = "this entity requires sessions; accept a session to receive from it";
            Err(Refusal::InvalidOperation { why }) // LOCK-26.
        }
        None | Some(Wanted::Notices) => Ok(()),
        Some(_) if !requires => {
            let why = "this entity has no sessions; it was created without them";
            Err(Refusal::InvalidOperation { why }) // LOCK-26.
        }
        Some(_) if queue.sub != SubQueue::Main => {
            Err(Refusal::NotSupported { what: "a session in a dead-letter queue" }) // DLQ-11.
        }
        Some(Wanted::Next) => Ok(()),
        Some(Wanted::Held(token)) => held(rows, queue.entity, token),
    }
}

/// Whether a session is held by this token, as far as the rows know.
fn held(rows: &impl Rows, entity: EntityId, token: &SessionToken) -> Result<(), Refusal> {
    let lock = domain::session_row(rows, entity, &token.session).and_then(|row| row.lock);
    let now = domain::meta(rows).last_at;
    match lock.is_some_and(|lock| lock.nonce == token.nonce && now < lock.until) {
        true => Ok(()),
        false => Err(Refusal::SessionLockLost { session: Some(token.session.clone()) }),
    }
}

/// Sessions granted to an earlier epoch of a receiver that still waits for one (LOCK-20).
fn lost_holds(rows: &impl Rows, entity: EntityId, receiver: ReceiverId) -> Vec<SessionToken> {
    let earlier = |of: ReceiverId| {
        (of.node, of.link) == (receiver.node, receiver.link) && of.epoch < receiver.epoch
    };
    let holds = domain::session_holds(rows, entity).into_iter();
    holds.filter(|(_, lock)| earlier(lock.receiver)).map(|(token, _)| token).collect()
}

/// Locks granted to an earlier epoch of this receiver whose messages did not arrive (LOCK-20).
fn lost_grants(rows: &impl Rows, attach: &Attach) -> Vec<LockToken> {
    let (id, queue) = (attach.receiver, attach.queue);
    let mut arrived = attach.arrived.clone();
    arrived.sort_unstable();
    let mut lost = Vec::new();
    let (from, to) = (Key::Lock(queue, SequenceNumber::MIN), Key::Lock(queue, SequenceNumber::MAX));
    rows.scan(&from, &to, &mut |key, row| {
        if let (Key::Lock(_, sequence), Row::Lock(LockRow { nonce, receiver, .. })) = (key, row) {
            let earlier =
                (receiver.node, receiver.link) == (id.node, id.link) && receiver.epoch < id.epoch;
            let token = LockToken { sequence, nonce };
            if earlier && arrived.binary_search(&token).is_err() {
                lost.push(token);
            }
        }
        std::ops::ControlFlow::Continue(())
    });
    lost
}
