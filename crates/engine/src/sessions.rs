//! Who waits for a session to be free (SESS-7), and who holds one and waits for its messages. Both
//! wait in order of arrival, as receivers of a queue do: what is free or ready is told by effects.

use std::collections::BTreeMap;

use domain::{
    AcceptSession, EntityId, Outcome, QueueId, ReceiveSession, ReceiverId, SessionId, SessionToken,
};

use crate::EngineOptions;
use crate::credit::Credit;

/// Most messages asked for at once and not yet answered, per session: what gets lost on the way is
/// released again before anything after it is handed out, and so has to be few.
const RESERVED_MAX: u32 = 128;

type SessionKey = (EntityId, SessionId);

#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    /// Waiting for one that is free: each a credit of one.
    accepts: Credit<EntityId>,
    credit: Credit<SessionKey>,
    holders: BTreeMap<ReceiverId, (EntityId, SessionToken)>,
    /// Of each held session whose receiver is attached.
    receivers: BTreeMap<SessionKey, ReceiverId>,
    lost: Vec<(ReceiverId, SessionId)>,
}

impl Sessions {
    pub fn free(&mut self, entity: EntityId, count: u64) {
        self.accepts.available(entity, count);
    }

    pub fn ready(&mut self, entity: EntityId, session: SessionId, count: u64) {
        self.credit.available((entity, session), count);
    }

    /// A hold ended, and with it whatever its receiver waits for. Of one that began after it, this
    /// says nothing.
    pub fn unlocked(&mut self, entity: EntityId, token: &SessionToken) {
        let key = (entity, token.session.clone());
        if let Some(receiver) = self.receivers.get(&key).copied()
            && self.holders.get(&receiver).is_some_and(|(_, held)| held == token)
        {
            self.detach(receiver);
            self.lost.push((receiver, token.session.clone()));
        }
        self.credit.available(key, 0);
    }

    pub fn take_lost(&mut self) -> Vec<(ReceiverId, SessionId)> {
        std::mem::take(&mut self.lost)
    }

    pub fn updated(&mut self, entity: EntityId) {
        self.accepts.updated(entity);
        self.of(entity).into_iter().for_each(|key| self.credit.updated(key));
    }

    /// The entity is gone: returns the receivers that waited.
    pub fn deleted(&mut self, entity: EntityId) -> Vec<ReceiverId> {
        let mut detached = self.accepts.deleted(&entity);
        for key in self.of(entity) {
            detached.extend(self.credit.deleted(&key));
        }
        detached.iter().for_each(|receiver| self.detach(*receiver));
        detached
    }

    fn of(&self, entity: EntityId) -> Vec<SessionKey> {
        let from = (entity, SessionId::first());
        let to = (EntityId(entity.0.saturating_add(1)), SessionId::first());
        self.credit.within(&from, &to)
    }

    pub fn accept(&mut self, receiver: ReceiverId, entity: EntityId) {
        self.accepts.attach(receiver, entity);
        self.accepts.credit(receiver, 1);
    }

    pub fn waiting(&self, entity: EntityId) -> u64 {
        self.accepts.waiting(&entity)
    }

    pub fn has_changed(&self) -> bool {
        self.accepts.has_changed() || self.credit.has_changed()
    }

    /// Whether somebody waits for a session that is free.
    pub fn is_awaited(&self, entity: EntityId) -> bool {
        self.accepts.is_awaited(&entity)
    }

    pub fn accepts(&mut self, options: &EngineOptions, out: &mut Vec<AcceptSession>) {
        self.accepts.acquires(options, &mut |entity, receiver, _| {
            let queue = QueueId::main(*entity);
            out.push(AcceptSession { origin: None, queue, receiver, session: None });
        });
    }

    pub fn accepted(&mut self, receiver: ReceiverId, outcome: Option<&Outcome>) {
        self.accepts.acquired(receiver, outcome);
        if let Some(Outcome::Accepted { .. }) = outcome {
            self.accepts.detach(receiver);
        }
    }

    pub fn hold(&mut self, receiver: ReceiverId, entity: EntityId, token: SessionToken) {
        let key = (entity, token.session.clone());
        self.credit.attach(receiver, key.clone());
        self.receivers.insert(key, receiver);
        self.holders.insert(receiver, (entity, token));
    }

    pub fn holds(&self, receiver: ReceiverId) -> bool {
        self.credit.is_attached(receiver)
    }

    pub fn credit(&mut self, receiver: ReceiverId, count: u32) {
        self.credit.credit(receiver, count);
    }

    pub fn drain(&mut self, receiver: ReceiverId) -> u32 {
        self.credit.drain(receiver)
    }

    pub fn left(&self, receiver: ReceiverId) -> u32 {
        self.credit.left(receiver)
    }

    pub fn detach(&mut self, receiver: ReceiverId) {
        self.accepts.detach(receiver);
        self.credit.detach(receiver);
        if let Some((entity, token)) = self.holders.remove(&receiver) {
            let key = (entity, token.session);
            if self.receivers.get(&key) == Some(&receiver) {
                self.receivers.remove(&key);
            }
        }
    }

    pub fn receives(&mut self, options: &EngineOptions, out: &mut Vec<ReceiveSession>) {
        let options = EngineOptions { reserved_max: RESERVED_MAX, ..*options };
        let holders = &self.holders;
        self.credit.acquires(&options, &mut |(entity, _), receiver, count_max| {
            let Some((_, token)) = holders.get(&receiver).cloned() else { return };
            let (entity, bytes_max) = (*entity, options.acquire_bytes_max);
            out.push(ReceiveSession { entity, token, receiver, count_max, bytes_max });
        });
    }

    pub fn acquired(&mut self, receiver: ReceiverId, outcome: Option<&Outcome>) -> u32 {
        self.credit.acquired(receiver, outcome)
    }
}
