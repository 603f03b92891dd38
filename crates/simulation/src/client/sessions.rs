//! What a client does with sessions: it accepts one, by its id or the next in line, uses it, gives it
//! back; or dies and leaves it to its end.

use bytes::Bytes;
use domain::{
    AcceptSession, Command, EntityId, Outcome, QueueId, ReceiveSessionDeferred, ReceiverId,
    Refusal, ReleaseSession, RenewSession, SessionCommand, SessionId, SessionToken,
    SetSessionState, Timestamp,
};

use super::{Client, Held};
use crate::random::Random;

/// Sessions that messages are sent in.
const SESSIONS: u64 = 4;

/// A session in a client's hands.
#[derive(Clone, Debug)]
pub struct InHand {
    pub entity: EntityId,
    pub token: SessionToken,
    until: Timestamp,
}

/// The receiver of a client that uses sessions: it has one at a time.
pub struct Holder {
    receiver: ReceiverId,
    /// The leadership epoch in which it was attached.
    pub epoch: u64,
    pub in_hand: Option<InHand>,
    /// One that it had.
    spent: Option<(EntityId, SessionToken)>,
}

impl Holder {
    pub fn new(client: usize) -> Holder {
        let receiver = ReceiverId { node: client as u64, link: 2, epoch: 0 };
        Holder { receiver, epoch: 0, in_hand: None, spent: None }
    }

    pub fn receiver(&self) -> ReceiverId {
        self.receiver
    }

    /// Under which receiver it is attached in a leadership epoch, with which session.
    pub fn attached(&self, epoch: u64) -> Option<(ReceiverId, &SessionToken)> {
        let in_hand = self.in_hand.as_ref().filter(|_| self.epoch == epoch)?;
        Some((self.receiver, &in_hand.token))
    }

    /// Attached anew.
    pub fn attach(&mut self, epoch: u64) -> ReceiverId {
        self.epoch = epoch;
        self.receiver.epoch += 1;
        self.receiver
    }

    /// Its client fell: it knows nothing of what it had.
    pub(super) fn die(&mut self) {
        (self.epoch, self.in_hand, self.spent) = (0, None, None);
    }

    /// A session was granted to it, or to its client by name. A second one is left to its end.
    pub fn take(&mut self, entity: EntityId, token: SessionToken, until: Timestamp) {
        if self.in_hand.is_none() {
            self.in_hand = Some(InHand { entity, token, until });
        }
    }

    /// Its hold ended, as it is told or as it can tell.
    pub fn lose(&mut self) {
        let lost = self.in_hand.take();
        self.spent = lost.map(|InHand { entity, token, .. }| (entity, token)).or(self.spent.take());
        self.epoch = 0;
    }

    pub(super) fn forget_lapsed(&mut self, now: Timestamp) {
        if self.in_hand.as_ref().is_some_and(|in_hand| in_hand.until <= now) {
            self.lose();
        }
    }
}

impl Client {
    pub(super) fn act_on_session(
        &mut self,
        entities: &[EntityId],
        random: &mut Random,
    ) -> Option<Command> {
        let origin = None;
        let command = match (&self.holder.in_hand, &self.holder.spent, random.below(10)) {
            // SESS-13: what ended serves nobody.
            (_, Some((entity, token)), 0) => {
                let (entity, token) = (*entity, token.clone());
                SessionCommand::Renew(RenewSession { origin, entity, token })
            }
            (None, _, 1..6) if !entities.is_empty() => {
                let queue = QueueId::main(random.pick(entities));
                let session = Some(SessionId::from(a_session(random)));
                let receiver = self.holder.receiver;
                SessionCommand::Accept(AcceptSession { origin, queue, receiver, session })
            }
            (Some(in_hand), _, act) => {
                let (entity, token) = (in_hand.entity, in_hand.token.clone());
                match act {
                    0..3 => SessionCommand::Renew(RenewSession { origin, entity, token }),
                    3 => SessionCommand::Release(ReleaseSession { origin, entity, token }),
                    4..6 => {
                        let state =
                            random.chance(700).then(|| Bytes::from(random.bytes().to_vec()));
                        SessionCommand::SetState(SetSessionState { origin, entity, token, state })
                    }
                    _ => {
                        let queue = QueueId::main(entity);
                        let at = self.deferred.iter().position(|(of, _)| *of == queue)?;
                        let numbers = vec![self.deferred.swap_remove(at).1];
                        let receiver = self.holder.receiver;
                        SessionCommand::ReceiveDeferred(ReceiveSessionDeferred {
                            origin,
                            entity,
                            token,
                            receiver,
                            numbers,
                        })
                    }
                }
            }
            (None, ..) => return None,
        };
        Some(Command::Session(command))
    }

    pub(super) fn learn_of_session(&mut self, command: &SessionCommand, outcome: &Outcome) {
        match (command, outcome) {
            (SessionCommand::Accept(accept), Outcome::Accepted { token, until }) => {
                self.holder.take(accept.queue.entity, token.clone(), *until);
                self.holder.epoch = 0; // It attaches with it.
            }
            (SessionCommand::Renew(renew), Outcome::Renewed { until }) => {
                let in_hand = self.holder.in_hand.as_mut();
                let renewed = in_hand.filter(|in_hand| in_hand.token == renew.token);
                if let (Some(in_hand), Some(until)) = (renewed, until.first()) {
                    in_hand.until = *until;
                }
            }
            (SessionCommand::Release(release), _) => self.ended(&release.token),
            (SessionCommand::SetState(set), Outcome::Refused(Refusal::SessionLockLost { .. })) => {
                self.ended(&set.token);
            }
            (SessionCommand::ReceiveDeferred(receive), Outcome::Acquired { deliveries, .. }) => {
                let locks = deliveries.iter().filter_map(|delivery| delivery.lock);
                let queue = QueueId::main(receive.entity);
                self.held.extend(locks.map(|lock| Held { queue, lock }));
            }
            _ => (),
        }
    }

    fn ended(&mut self, token: &SessionToken) {
        if self.holder.in_hand.as_ref().is_some_and(|in_hand| in_hand.token == *token) {
            self.holder.lose();
        }
    }

    /// Locks of messages that arrived and are not settled.
    pub fn arrived(&self, entity: EntityId) -> Vec<domain::LockToken> {
        let of = self.held.iter().filter(|held| held.queue == QueueId::main(entity));
        of.map(|held| held.lock.token).collect()
    }

    /// Whether a delivery to this receiver is for it.
    pub fn has_receiver(&self, receiver: ReceiverId) -> bool {
        self.receiver == receiver || self.holder.receiver == receiver
    }
}

pub(super) fn a_session(random: &mut Random) -> String {
    format!("session {}", random.below(SESSIONS))
}
