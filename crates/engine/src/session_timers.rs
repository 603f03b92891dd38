//! Held sessions and when their holds end. The wheel's keys are small and copied, so a session's
//! timer goes by a number of its own.

use std::collections::BTreeMap;

use domain::{EntityId, SessionId, SessionToken, Timestamp};
use timer_wheel::Handle;

/// One held session.
#[derive(Clone, Copy, Debug)]
struct SessionTimer {
    number: u64,
    nonce: u64,
    until: Timestamp,
    /// `None`: named in a round, whose outcome or effects decide on it.
    handle: Option<Handle>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SessionTimers {
    timers: BTreeMap<(EntityId, SessionId), SessionTimer>,
    by_number: BTreeMap<u64, (EntityId, SessionId)>,
    last_number: u64,
}

impl SessionTimers {
    /// For the next timer.
    pub fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Takes in a timer that was armed; the one it replaces is to be cancelled.
    pub fn insert(
        &mut self,
        number: u64,
        entity: EntityId,
        token: SessionToken,
        until: Timestamp,
        handle: Handle,
    ) -> Option<Handle> {
        let SessionToken { session, nonce } = token;
        self.by_number.insert(number, (entity, session.clone()));
        let timer = SessionTimer { number, nonce, until, handle: Some(handle) };
        let old = self.timers.insert((entity, session), timer)?;
        self.by_number.remove(&old.number);
        old.handle
    }

    /// Removes the timer of this hold, if it is the one that lasts; its handle is to be cancelled.
    pub fn remove(&mut self, entity: EntityId, token: &SessionToken) -> Option<Handle> {
        let key = (entity, token.session.clone());
        if self.timers.get(&key)?.nonce != token.nonce {
            return None;
        }
        let timer = self.timers.remove(&key)?;
        self.by_number.remove(&timer.number);
        timer.handle
    }

    /// Removes all timers of an entity; their handles are to be cancelled.
    pub fn deleted(&mut self, entity: EntityId) -> Vec<Handle> {
        let mut handles = Vec::new();
        for key in self.of(entity) {
            if let Some(timer) = self.timers.remove(&key) {
                self.by_number.remove(&timer.number);
                handles.extend(timer.handle);
            }
        }
        handles
    }

    /// A timer that came due: which hold it is of.
    pub fn take(&mut self, number: u64) -> Option<(EntityId, SessionToken)> {
        let (entity, session) = self.by_number.get(&number)?.clone();
        let timer = self.timers.get_mut(&(entity, session.clone()))?;
        timer.handle = None;
        Some((entity, SessionToken { session, nonce: timer.nonce }))
    }

    /// Arms a timer again that was named in a round, unless its hold ended meanwhile.
    pub fn rearm(
        &mut self,
        entity: EntityId,
        token: &SessionToken,
        arm: impl FnOnce(u64, Timestamp) -> Handle,
    ) {
        if let Some(timer) = self.timers.get_mut(&(entity, token.session.clone()))
            && timer.handle.is_none()
        {
            timer.handle = Some(arm(timer.number, timer.until));
        }
    }

    /// Arms all timers of an entity that rest.
    pub fn rearm_all(&mut self, entity: EntityId, mut arm: impl FnMut(u64, Timestamp) -> Handle) {
        for key in self.of(entity) {
            if let Some(timer) = self.timers.get_mut(&key)
                && timer.handle.is_none()
            {
                timer.handle = Some(arm(timer.number, timer.until));
            }
        }
    }

    fn of(&self, entity: EntityId) -> Vec<(EntityId, SessionId)> {
        let from = (entity, SessionId::first());
        let to = (EntityId(entity.0.saturating_add(1)), SessionId::first());
        self.timers.range(from..to).map(|(key, _)| key.clone()).collect()
    }

    /// Whether a session of the entity is held at `now`; one that lapsed is not, should its timer be
    /// late or rest.
    pub fn is_held(&self, entity: EntityId, now: Timestamp) -> bool {
        let from = (entity, SessionId::first());
        let to = (EntityId(entity.0.saturating_add(1)), SessionId::first());
        self.timers.range(from..to).any(|(_, timer)| timer.until > now)
    }

    pub fn iter(&self) -> impl Iterator<Item = (EntityId, SessionToken, Timestamp)> + '_ {
        self.timers.iter().map(|((entity, session), timer)| {
            let token = SessionToken { session: session.clone(), nonce: timer.nonce };
            (*entity, token, timer.until)
        })
    }

    pub fn len(&self) -> usize {
        self.timers.len()
    }
}
